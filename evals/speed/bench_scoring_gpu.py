"""Claim: on a GPU, a large reward model is scored faster than what people use for it does.

A Llama-3.1-8B-shaped reward model with random weights, saved and loaded as any other, in bf16 and in 8-bit; both sides of the
released jargon and length triples, up to 512 tokens (as the MiniLM tokenizer cuts them). By turns: one text at a time, a
Transformers text-classification pipeline, sentence-transformers' CrossEncoder.predict (sorted by length, as it does itself), and
ours. The last two peers run in batches of 8, 32 or 128, the pipeline also on texts sorted before; each way is tried on other texts of the
same kind, and the fastest is taken and stated. All run the same weights on the device. Medians over rounds; real tokens are
counted, padding is not. Ours is the faster of the default and of `model.compile=true`, and of `model.attn_implementation=flash_attention_2` where
flash-attn is installed (packed, no padding). Thresholds: 3, 2 and 1.3 times the speed; 65% of the measured rate
of bf16 matrix products is asked of bf16 alone. The difference from one at a time is reported and not held to a threshold:
both round. A profile of ours says where the GPU's time goes.

    python -m evals.speed.bench_scoring_gpu [PRECISION ...]      (about 4 minutes on a GPU with 80 GB; needs CDA_DATA and pip install sentence-transformers)
"""

from __future__ import annotations

import itertools
import statistics
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import numpy as np

from cda.embedded.model import encoder_folder
from cda.models.config import ModelSpec, Precision
from cda.models.load import compile_base, free_memory, load_reward_model
from cda.records import prompt_text
from cda.scorers.batching import characters
from cda.scorers.classifier import ClassifierScorer
from cda.scorers.compared import Text
from cda.terminal import quiet_libraries
from evals.shared import DATA, SKIPPED, Check, finish, on_this_gpu
from evals.speed.bench_scoring import MAX_LENGTH_TOKENS, operations, ours, seconds_of, triples_texts
from evals.speed.bench_training_gpu import SHAPES, Shape, matmul_rate, random_model

N_TEXTS, N_TRIED, N_ROUNDS, SHAPE = 128, 48, 3, "Llama-3.1-8B"
TARGETS, OF_MATMUL = {"one at a time": 3.0, "pipeline": 2.0, "CrossEncoder": 1.3}, 0.65
BATCHES = (8, 32, 128)
Way = tuple[int, bool]
"""Texts a batch, and whether they were sorted by length before."""
PRECISIONS: tuple[Precision, ...] = ("bf16", "8bit")


def on_a_gpu(precisions: Sequence[Precision] = ()) -> int:
    import torch

    quiet_libraries()

    if not torch.cuda.is_available():
        print("skipped: no CUDA GPU")
        return SKIPPED
    if not (DATA / "fff").is_dir():
        print(f"skipped: {DATA} holds no fff; set CDA_DATA")
        return SKIPPED
    drawn, found, status = triples_texts(N_TEXTS + N_TRIED), {}, 0
    texts, others = drawn[:N_TEXTS], drawn[N_TEXTS:]
    with tempfile.TemporaryDirectory() as temporary:
        folder = saved(SHAPES[SHAPE], Path(temporary), "cuda")
        for precision in precisions or PRECISIONS:
            found[precision] = measured(folder, precision, texts, others, "cuda", N_ROUNDS)
            print(f"  {precision}: {found[precision]['tokens_a_second']}", flush=True)
            free_memory()
            status = report(len(texts), found)  # after each, so that a run that is cut off leaves a result
    return status


def report(n_texts: int, found: Mapping[str, Mapping[str, Any]]) -> int:
    """Checks and results of the precisions measured."""
    hardware = on_this_gpu("bitsandbytes", "sentence-transformers")
    numbers = {"command": "python -m evals.speed.bench_scoring_gpu", "shape": SHAPE, "texts": n_texts, **found}
    return finish("bench_scoring_gpu", (__doc__ or "").split("\n\n")[0], checks(found), numbers, hardware)


def checks(found: Mapping[str, Mapping[str, Any]]) -> list[Check]:
    asked = [
        Check(f"{precision}: {target:g} times the speed of {name}", f"{one['speed_up'][name]:.2f} times {one['best_peers'].get(name, '')}".rstrip(),
              one["speed_up"][name] >= target)
        for precision, one in found.items() for name, target in TARGETS.items()
    ]  # fmt: skip
    return asked + [
        Check(f"{precision}: {OF_MATMUL:.0%} of the matmul rate", f"{one['share_of_matmul']:.0%} of {one['matmul_teraflops']:.0f} TFLOP/s",
              one["share_of_matmul"] >= OF_MATMUL)
        for precision, one in found.items() if precision == "bf16"
    ]  # fmt: skip


def saved(shape: Shape, folder: Path, device: str) -> Path:
    """A random model of a shape on disk, with the MiniLM tokenizer."""
    from transformers import AutoTokenizer

    tokenizer = AutoTokenizer.from_pretrained(str(encoder_folder()))
    tokenizer.model_input_names = ["input_ids", "attention_mask"]  # a decoder takes no segment ids
    model = random_model(shape, "bf16", device)
    model.config.pad_token_id = tokenizer.pad_token_id
    model.save_pretrained(str(folder))
    tokenizer.save_pretrained(str(folder))
    del model
    free_memory()
    return folder


def measured(
    folder: Path, precision: Precision, texts: Sequence[Text], others: Sequence[Text], device: str, n_rounds: int
) -> dict[str, Any]:
    """Every variant by turns with one model: speeds, difference from one at a time, share of the matmul rate."""
    scorer = ClassifierScorer(load_reward_model(ModelSpec(str(folder), precision, MAX_LENGTH_TOKENS)))
    done, n_tokens = operations(scorer, texts)
    tried = tried_ways(scorer, others, device)
    best = {kind: min(ways, key=lambda way: ways[way]) for kind, ways in tried.items()}
    variants = {
        "one at a time": one_at_a_time(scorer, texts),
        "pipeline": pipeline(scorer, texts, *best["pipeline"]),
        "CrossEncoder": cross_encoder(scorer, texts, device, best["CrossEncoder"][0]),
        "ours": ours(scorer, texts),
        **faster_ways(folder, precision, texts),
    }
    scores = {name: np.asarray(score(), dtype=np.float64) for name, score in variants.items()}  # warms up, too
    order, rounds = list(variants), []
    for number in range(n_rounds):
        turn = order[number % len(order) :] + order[: number % len(order)]
        rounds.append({name: seconds_of(variants[name]) for name in turn})
    rate = matmul_rate(device)
    best_of_ours = min(
        (name for name in variants if name.startswith("ours")),
        key=lambda name: statistics.median(times[name] for times in rounds),
    )
    return {
        "tokens": n_tokens, "best_peers": {kind: said_way(*way) for kind, way in best.items()},
        "seconds_tried": {kind: {said_way(*way): one for way, one in ways.items()} for kind, ways in tried.items()},
        "rounds": rounds, "matmul_teraflops": rate / 1e12, "best_of_ours": best_of_ours,
        "profile": profile(variants[best_of_ours], device),
        "spread_of_scores": float(scores["one at a time"].std()),
        "difference": {name: float(np.abs(one - scores["one at a time"]).max()) for name, one in scores.items()},
        "speed_up": {name: statistics.median(one[name] / one[best_of_ours] for one in rounds) for name in variants},
        "tokens_a_second": {name: statistics.median(n_tokens / one[name] for one in rounds) for name in variants},
        "share_of_matmul": statistics.median(done / one[best_of_ours] for one in rounds) / rate,
    }  # fmt: skip


def faster_ways(folder: Path, precision: Precision, texts: Sequence[Text]) -> dict[str, Callable[[], Any]]:
    """Ours compiled (bf16), and packed if flash-attn is there; each with weights of its own, since the peers share the others."""
    from transformers.utils import is_flash_attn_2_available

    spec = ModelSpec(str(folder), precision, MAX_LENGTH_TOKENS)
    found: dict[str, Callable[[], Any]] = {}
    if precision == "bf16":
        compiled = load_reward_model(spec)
        compile_base(compiled)
        found["ours, compiled"] = ours(ClassifierScorer(compiled), texts)
    if is_flash_attn_2_available():
        packed = load_reward_model(replace(spec, attn_implementation="flash_attention_2"))
        found["ours, packed"] = ours(ClassifierScorer(packed), texts)
    return found


def tried_ways(scorer: ClassifierScorer, texts: Sequence[Text], device: str) -> dict[str, dict[Way, float]]:
    """Seconds of each peer on these texts in each of its ways, after one run that warms up."""
    ways = {
        "pipeline": list(itertools.product(BATCHES, (False, True))),
        "CrossEncoder": [(one, True) for one in BATCHES],
    }
    found: dict[str, dict[Way, float]] = {kind: {} for kind in ways}
    for kind, batch, by_length in [(kind, *way) for kind, each in ways.items() for way in each]:
        if kind == "pipeline":
            score = pipeline(scorer, texts, batch, by_length)
        else:
            score = cross_encoder(scorer, texts, device, batch)
        score()
        found[kind][batch, by_length] = seconds_of(score)
    return found


def said_way(batch: int, by_length: bool) -> str:
    return f"batches of {batch}, {'sorted by length' if by_length else 'in the given order'}"


def profile(score: Callable[[], object], device: str) -> dict[str, float]:
    """Seconds of one run by the clock, and those in which the GPU computed products, attention, and all else."""
    from torch.autograd import DeviceType
    from torch.profiler import ProfilerActivity, profile

    activities = [ProfilerActivity.CPU] + ([ProfilerActivity.CUDA] if device != "cpu" else [])
    found = {"by the clock": seconds_of(score), "matrix products": 0.0, "attention": 0.0, "all else": 0.0}
    with profile(activities=activities) as seen:
        score()
    for kernel in seen.key_averages():
        if kernel.device_type == DeviceType.CUDA and kernel.key != "Command Buffer Full":
            found[kind_of(kernel.key)] += kernel.self_device_time_total / 1e6
    return found


def kind_of(kernel: str) -> str:
    """What a kernel computes, by the names that PyTorch's libraries give theirs."""
    name = kernel.lower()
    if any(word in name for word in ("sdpa", "flash", "fmha", "attention")):
        return "attention"
    return "matrix products" if any(word in name for word in ("nvjet", "gemm", "cutlass")) else "all else"


def one_at_a_time(scorer: ClassifierScorer, texts: Sequence[Text]) -> Callable[[], list[float]]:
    import torch

    model, template = scorer.reward_model.model, scorer.reward_model.template

    def score() -> list[float]:
        with torch.inference_mode():
            ids = (torch.tensor([template.encode(*text).ids], device=model.device) for text in texts)
            return [float(model(input_ids=one).logits[0, 0]) for one in ids]

    return score


def pipeline(scorer: ClassifierScorer, texts: Sequence[Text], batch: int, by_length: bool) -> Callable[[], list[float]]:
    """Scores in the order of `texts`, also where they are sorted by length for it."""
    from transformers import pipeline as make

    model, tokenizer = scorer.reward_model.model, scorer.reward_model.template.tokenizer
    classify = make("text-classification", model=model, tokenizer=tokenizer, batch_size=batch)
    order = (
        sorted(range(len(texts)), key=lambda row: -characters(*texts[row])) if by_length else list(range(len(texts)))
    )
    pairs = [{"text": prompt_text(texts[row][0]), "text_pair": texts[row][1]} for row in order]
    options: dict[str, Any] = {"truncation": True, "max_length": MAX_LENGTH_TOKENS, "function_to_apply": "none"}

    def score() -> list[float]:
        found = dict(zip(order, (one["score"] for one in classify(pairs, **options)), strict=True))
        return [found[row] for row in range(len(texts))]

    return score


def cross_encoder(scorer: ClassifierScorer, texts: Sequence[Text], device: str, batch: int) -> Callable[[], Any]:
    """Built around a tiny model, which then gives way to ours: its own loading knows no 8-bit of our making."""
    import torch
    from sentence_transformers import CrossEncoder
    from transformers import AutoConfig, AutoModelForSequenceClassification

    reward_model = scorer.reward_model
    with tempfile.TemporaryDirectory() as tiny:
        config = AutoConfig.from_pretrained(reward_model.spec.name_or_path)
        config.update({"hidden_size": 16, "intermediate_size": 16, "num_hidden_layers": 1, "num_attention_heads": 1})
        config.update({"num_key_value_heads": 1, "head_dim": 16, "vocab_size": len(reward_model.template.tokenizer)})
        AutoModelForSequenceClassification.from_config(config).save_pretrained(tiny)
        reward_model.template.tokenizer.save_pretrained(tiny)
        peer = CrossEncoder(tiny, max_length=MAX_LENGTH_TOKENS, device=device)
    cast(Any, peer)[0].model = reward_model.model
    pairs = [(prompt_text(prompt), response) for prompt, response in texts]
    return lambda: peer.predict(pairs, batch_size=batch, show_progress_bar=False, activation_fn=torch.nn.Identity())


if __name__ == "__main__":
    sys.exit(on_a_gpu([cast(Precision, name) for name in sys.argv[1:]]))
