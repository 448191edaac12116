"""Claim: scoring is faster than what people use for it, near to what the cores can multiply, and flat in memory.

One reward model (the embedded MiniLM classifier), one set of texts (both sides of the released jargon and length
triples, up to 512 tokens), the same cores, by turns:
one at a time (as the paper's released code scores), a Transformers text-classification pipeline, sentence-transformers'
CrossEncoder.predict, and ours. Every peer runs at its best: batches of 1, 4, 8 or 32, fp32 or bf16, and the
pipeline also on texts that were sorted by length before (CrossEncoder sorts by itself); each setting is tried twice on other texts
of the same kind, the fastest is taken and stated. Ours is what `cda` does by default in fp32, and in bf16 where that is faster in the
same trial. Loading is in none of them. Medians over rounds of the ratio within a round. The defaults of the peers (batches of 8 in the
given order, as RewardBench scores; batches of 32) are measured with them, and held to nothing.

Thresholds: 3, 2 and 1.2 times the speed of these three at their best; floating-point operations on real tokens at 75% or more of the rate
of a large fp32 matrix product on the same cores in the same run; largest difference from one at a time, both in fp32, 1e-4; what
scoring adds to the process's memory for 50,000 texts within 100 MB (or 10% of the peak) of what it adds for 1,000, and time per text
at three sizes within a factor of 1.5 (a small random model, short texts, a process of its own for each size, whose own peak is
read: memory.py). So that the memory can fail: a process that keeps 200 MB while it scores 1,000 is seen to.

Tried and left out on 2026-11-30: products of 8-bit weights and inputs (a scale for each token, oneDNN's `qlinear_pointwise`). On a CPU with AVX2
alone MiniLM scored in the same time as in fp32, and its rewards moved by 9% of their spread (root mean square; bf16: 1.5%). One scale for the
whole batch (`quantized.linear_dynamic`) took 0.79 times the time, and moved them by 30%. With AVX-512
VNNI (EPYC 9004, one core) the product alone takes half the time of bf16's, but with making its inputs 8-bit in torch's own operations a block of
MiniLM took 0.93 of it; a kernel that does both at once might come to 0.7. Rewards are as far off there, which is why none was written: AMX was not at hand.

    python -m evals.speed.bench_scoring            (about 10 minutes on 2 cores that do nothing else)
"""

from __future__ import annotations

import argparse
import itertools
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np

from cda.embedded.model import embedded_model_folder, encoder_folder
from cda.files.jsonl import read_jsonl
from cda.models.config import ModelSpec, bf16_units
from cda.models.load import load_reward_model
from cda.records import prompt_text, user_prompt
from cda.scorers.batching import characters
from cda.scorers.classifier import ClassifierScorer
from cda.scorers.compared import Text
from cda.scorers.engine import score_texts
from evals.shared import DATA, ROOT, SKIPPED, Check, finish, peak_bytes, restart_peak

TARGETS = {"one at a time": 3.0, "pipeline": 2.0, "CrossEncoder": 1.2}
N_TRIED, TIMES_TRIED, BATCHES, BALLAST_BYTES = 48, 2, (1, 4, 8, 32), 200 * 2**20
OF_MATMUL, DIFFERENCE, FLAT_BYTES, FLAT_SHARE, LINEAR = 0.75, 1e-4, 100 * 2**20, 0.10, 1.5
OF_FP32 = {"8bit": 1.15, "bf16": 0.6}
SIZES = (1_000, 10_000, 50_000)
MAX_LENGTH_TOKENS = 512


def triples_texts(n: int) -> list[Text]:
    """Texts of the released triples, in random order."""
    found = []
    for bias in ("jargon", "length"):
        for row in read_jsonl(DATA / "fff" / "data" / "perturbations" / f"all_data_perturbed_{bias}.jsonl"):
            found += [(user_prompt(row["query"]), row[side]) for side in ("perturbed_response", "base_response")]
    found = list(dict.fromkeys(found))
    return [found[row] for row in np.random.default_rng(0).permutation(len(found))[:n]]


@dataclass(frozen=True)
class Peer:
    """How a peer is run. `sorted`: by length, before they are given to it; CrossEncoder sorts by itself."""

    kind: str
    precision: Literal["fp32", "bf16"] = "fp32"
    batch: int = 1
    sorted: bool = False

    def __str__(self) -> str:
        order = ", sorted by length" if self.sorted or self.kind == "CrossEncoder" else ", in the given order"
        batches = "" if self.kind == "one at a time" else f", batches of {self.batch}{order}"
        return f"{self.kind} ({self.precision}{batches})"


DEFAULTS = (Peer("pipeline", batch=8), Peer("CrossEncoder", batch=32))
PRECISIONS: tuple[Literal["fp32", "bf16"], ...] = ("fp32", "bf16")
PEERS = (
    *(Peer("one at a time", precision) for precision in PRECISIONS),
    *(Peer("pipeline", *way) for way in itertools.product(PRECISIONS, BATCHES, (False, True))),
    *(Peer("CrossEncoder", *way) for way in itertools.product(PRECISIONS, BATCHES)),
)


def peer_call(peer: Peer, folder: Path, texts: Sequence[Text]) -> Callable[[], Any]:
    """A peer with its model loaded, ready to score these texts."""
    if peer.sorted:
        texts = sorted(texts, key=lambda text: -characters(*text))
    make = {"one at a time": one_at_a_time, "pipeline": pipeline, "CrossEncoder": cross_encoder}[peer.kind]
    return make(peer, folder, texts)


def one_at_a_time(peer: Peer, folder: Path, texts: Sequence[Text]) -> Callable[[], Any]:
    """As the reference code: encode, forward, next."""
    import torch

    reward_model = load_reward_model(ModelSpec(str(folder), peer.precision, MAX_LENGTH_TOKENS))

    def score() -> list[float]:
        with torch.inference_mode():
            ids = (reward_model.template.encode(*text).ids for text in texts)
            return [float(reward_model.model(input_ids=torch.tensor([one])).logits[0, 0]) for one in ids]

    return score


def pipeline(peer: Peer, folder: Path, texts: Sequence[Text]) -> Callable[[], Any]:
    from transformers import pipeline as make

    classify = make(
        "text-classification", model=str(folder), tokenizer=str(folder), device="cpu", batch_size=peer.batch,
        dtype=_dtype(peer),
    )  # fmt: skip
    pairs = [{"text": prompt_text(prompt), "text_pair": response} for prompt, response in texts]
    return lambda: classify(pairs, truncation=True, max_length=MAX_LENGTH_TOKENS, function_to_apply="none")


def cross_encoder(peer: Peer, folder: Path, texts: Sequence[Text]) -> Callable[[], Any]:
    """Sorted by length, as it does itself."""
    from sentence_transformers import CrossEncoder

    model = CrossEncoder(
        str(folder), max_length=MAX_LENGTH_TOKENS, device="cpu", model_kwargs={"torch_dtype": _dtype(peer)}
    )
    pairs = [(prompt_text(prompt), response) for prompt, response in texts]
    return lambda: model.predict(pairs, batch_size=peer.batch, show_progress_bar=False)


def _dtype(peer: Peer) -> Any:
    import torch

    return {"fp32": torch.float32, "bf16": torch.bfloat16}[peer.precision]


def best_peers(folder: Path, texts: Sequence[Text]) -> tuple[dict[str, Peer], dict[str, float]]:
    """The fastest setting of each peer on these texts, and the seconds of all: the best of tries in alternating order."""
    seconds: dict[str, float] = {}
    for turn in range(TIMES_TRIED):
        for peer in PEERS if turn % 2 == 0 else PEERS[::-1]:
            spent = seconds_of(peer_call(peer, folder, texts))
            seconds[str(peer)] = min(spent, seconds.get(str(peer), spent))
    kinds = dict.fromkeys(peer.kind for peer in PEERS)
    best = {kind: min((one for one in PEERS if one.kind == kind), key=lambda one: seconds[str(one)]) for kind in kinds}
    return best, seconds


def ours(scorer: ClassifierScorer, texts: Sequence[Text]) -> Callable[[], Any]:
    """Our batches, as they come."""

    def score() -> list[float]:
        found = np.full(len(texts), np.nan)
        for finished in scorer.in_batches(texts):
            for row, score in finished:
                found[row] = score.reward
        return found.tolist()

    return score


def seconds_of(call: Callable[[], Any]) -> float:
    start = time.perf_counter()
    call()
    return time.perf_counter() - start


def operations(scorer: ClassifierScorer, texts: Sequence[Text]) -> tuple[float, int]:
    """Floating-point operations on real tokens, padding not counted, and these tokens.

    Two for each weight outside the embeddings and token, and 4 · layers · width · length² for attention.
    """
    model = scorer.reward_model.model
    weights = sum(one.numel() for name, one in model.named_parameters() if "embed" not in name and one.dim() == 2)
    lengths = np.array([len(scorer.reward_model.template.encode(*text).ids) for text in texts], dtype=np.float64)
    config = model.config
    attention = 4.0 * config.num_hidden_layers * config.hidden_size * float((lengths**2).sum())
    return 2.0 * weights * float(lengths.sum()) + attention, int(lengths.sum())


def matmul_rate(n: int = 2048, repeats: int = 6) -> float:
    """Operations a second of a large product of square matrices in fp32, with all of torch's threads."""
    import torch

    first, second = torch.randn(n, n), torch.randn(n, n)
    torch.mm(first, second)
    return 2.0 * n**3 / statistics.median(seconds_of(lambda: torch.mm(first, second)) for _ in range(repeats))


def at_size(n: int, ballast_bytes: int = 0) -> dict[str, float]:
    """Score so many short texts with a small random model in this process: seconds a text and peak memory."""
    from transformers import AutoTokenizer, BertConfig, BertForSequenceClassification

    with tempfile.TemporaryDirectory() as temporary:
        tokenizer = AutoTokenizer.from_pretrained(str(encoder_folder()))
        shape = {"hidden_size": 32, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 64}
        BertForSequenceClassification(BertConfig(vocab_size=len(tokenizer), num_labels=1, **shape)).save_pretrained(
            temporary
        )
        tokenizer.save_pretrained(temporary)
        scorer = ClassifierScorer(load_reward_model(ModelSpec(temporary, "fp32", 128)))
    words = [
        "the",
        "quick",
        "brown",
        "fox",
        "jumps",
        "over",
        "a",
        "lazy",
        "dog",
        "near",
        "some",
        "quiet",
        "river",
        "bank",
        "at",
        "dawn",
    ]
    drawn = np.random.default_rng(0)
    lines = [" ".join(drawn.choice(words, size=drawn.integers(20, 90))) for _ in range(n)]
    texts = [(user_prompt(f"question {row}"), line) for row, line in enumerate(lines)]
    given = restart_peak()
    ballast = b"x" * ballast_bytes
    start = time.perf_counter()
    score_texts(scorer, texts)
    seconds = time.perf_counter() - start
    peak = peak_bytes()
    del ballast
    own = sum(characters(*text) for text in texts)
    return {"n": n, "seconds_a_text": seconds / n, "peak_bytes": peak, "before_scoring_bytes": given, "characters": own}


def sized(n: int, ballast_bytes: int = 0) -> dict[str, float]:
    """`at_size` in a process of its own."""
    given = ["--size", str(n), "--ballast", str(ballast_bytes)]
    done = subprocess.run(
        [sys.executable, "-m", "evals.speed.bench_scoring", *given],
        capture_output=True,
        text=True,
        check=True,
        cwd=ROOT,
    )
    found: dict[str, float] = json.loads(done.stdout.splitlines()[-1])
    return found


def profiled(scorer: ClassifierScorer, texts: Sequence[Text]) -> dict[str, float]:
    """Share of our computing time (one process) by torch operator, those of 1% and more."""
    from torch.profiler import ProfilerActivity, profile

    with profile(activities=[ProfilerActivity.CPU]) as seen:
        ours(scorer, texts)()
    spent = {one.key: one.self_cpu_time_total for one in seen.key_averages()}
    total = sum(spent.values())
    ordered = sorted(spent.items(), key=lambda one: -one[1])
    return {name: round(one / total, 3) for name, one in ordered if one / total >= 0.01}


def measured(n_texts: int, n_rounds: int) -> dict[str, Any]:
    """Every variant by turns: seconds of each round, the difference from one at a time, and the cores' own rate."""
    import torch

    folder, texts = embedded_model_folder(), triples_texts(n_texts + N_TRIED)
    texts, others = texts[:n_texts], texts[n_texts:]
    best, tried = best_peers(folder, others)
    for peer in best.values():
        print(f"  best: {peer}, {tried[str(peer)]:.2f} s of {len(others)} texts", flush=True)
    threads = torch.get_num_threads()
    scorers = {
        precision: ClassifierScorer(
            load_reward_model(ModelSpec(str(folder), precision, MAX_LENGTH_TOKENS)), workers="auto"
        )
        for precision in ("fp32", "bf16", "8bit")
    }
    done, n_tokens = operations(scorers["fp32"], texts)
    tried |= {
        f"ours ({one})": min(seconds_of(ours(scorers[one], others)) for _ in range(TIMES_TRIED)) for one in PRECISIONS
    }
    fastest = min(PRECISIONS, key=lambda one: tried[f"ours ({one})"])
    variants = {kind: peer_call(peer, folder, texts) for kind, peer in best.items()}
    variants |= {f"{peer}, its default": peer_call(peer, folder, texts) for peer in DEFAULTS}
    alone_in_a_batch = ClassifierScorer(scorers["fp32"].reward_model)
    variants |= {"ours, one batch at a time": ours(alone_in_a_batch, texts), "ours": ours(scorers[fastest], texts)}
    if fastest != "fp32":
        variants["ours (fp32)"] = ours(scorers["fp32"], texts)
    variants["ours (8bit)"] = ours(scorers["8bit"], texts)
    profile = profiled(scorers["fp32"], texts[:100])
    alone = one_at_a_time(Peer("one at a time"), folder, texts)()
    difference = float(np.abs(np.array(alone) - np.array(ours(scorers["fp32"], texts)())).max())
    rounds: list[dict[str, float]] = []
    for number in range(n_rounds):
        order = list(variants)
        order = order[number % len(order) :] + order[: number % len(order)]
        rounds.append({name: seconds_of(variants[name]) for name in order} | {"matmul": matmul_rate()})
        print("  ".join(f"{name} {rounds[-1][name]:.1f} s" for name in variants), flush=True)
    in_fp32 = "ours" if fastest == "fp32" else "ours (fp32)"
    return {
        "texts": len(texts), "tokens": n_tokens, "threads": threads, "rounds": rounds, "difference": difference,
        "load": os.getloadavg()[0],
        "ours_in": fastest,
        "time_8bit": statistics.median(one["ours (8bit)"] / one[in_fp32] for one in rounds),
        "time_bf16": statistics.median(one["ours"] / one[in_fp32] for one in rounds) if fastest == "bf16" else None,
        "bf16_units": bf16_units(),
        "best_peers": {kind: str(peer) for kind, peer in best.items()},
        "seconds_tried": tried,
        "speed_up": {name: statistics.median(one[name] / one["ours"] for one in rounds) for name in variants},
        "tokens_a_second": {name: statistics.median(n_tokens / one[name] for one in rounds) for name in variants},
        "matmul_gflops": statistics.median(one["matmul"] for one in rounds) / 1e9,
        "ours_gflops": statistics.median(done / one[in_fp32] for one in rounds) / 1e9,
        "share_of_matmul_by_variant": {
            name: statistics.median(done / one[name] / one["matmul"] for one in rounds) for name in variants
        },
        "profile": profile,
        "share_of_matmul": statistics.median(done / one[in_fp32] / one["matmul"] for one in rounds),
    }  # fmt: skip


def _explained(found: dict[str, Any]) -> str:
    """Why no more is to be had on these cores, from this run's own numbers."""
    alone = found["share_of_matmul_by_variant"]["one at a time"]
    products = sum(
        share for name, share in found["profile"].items() if name in ("aten::addmm", "aten::mm", "aten::bmm")
    )
    return (
        f"One text at a time already does {alone:.0%} of what these cores multiply, so nothing that computes the same in fp32 "
        f"can be more than {1 / alone:.1f} times as fast; batching pays on cores or accelerators that a single text does not "
        f"fill. Of our own time {products:.0%} goes into matrix products."
    )


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n\n")[0])
    parser.add_argument("--texts", type=int, default=400)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--size", type=int, help=argparse.SUPPRESS)
    parser.add_argument("--ballast", type=int, default=0, help=argparse.SUPPRESS)
    asked = parser.parse_args()
    if asked.size:
        print(json.dumps(at_size(asked.size, asked.ballast)))
        return 0
    if not (DATA / "fff").is_dir():
        print(f"skipped: {DATA} holds no fff; set CDA_DATA")
        return SKIPPED
    found = measured(asked.texts, asked.rounds)
    sizes = [sized(n) for n in SIZES]
    heavy = sized(SIZES[0], BALLAST_BYTES)
    checks = [
        Check(f"{target:g} times the speed of {name} at its best",
              f"{found['speed_up'][name]:.2f} times {found['best_peers'][name]}", found["speed_up"][name] >= target)
        for name, target in TARGETS.items()
    ]  # fmt: skip
    found["what_holds_it_back"] = _explained(found)
    # The texts themselves are the caller's; only what scoring adds to them has to stay flat.
    added = [one["peak_bytes"] - one["before_scoring_bytes"] for one in sizes]
    room = max(FLAT_BYTES, FLAT_SHARE * sizes[0]["peak_bytes"])
    with_ballast = heavy["peak_bytes"] - heavy["before_scoring_bytes"]
    per_text = [one["seconds_a_text"] for one in sizes]
    checks += [
        Check("75% of the matmul rate", f"{found['share_of_matmul']:.0%} of {found['matmul_gflops']:.0f} GFLOP/s",
              found["share_of_matmul"] >= OF_MATMUL),
        Check("8-bit takes at most 1.15 times the time of fp32", f"{found['time_8bit']:.2f}", found["time_8bit"] <= OF_FP32["8bit"]),
        Check("bf16 at most 0.6 times, where the CPU multiplies in it", f"{found['time_bf16']}",
              not found["bf16_units"] or (found["time_bf16"] or 1.0) <= OF_FP32["bf16"]),
        Check("1e-4 from one at a time", f"{found['difference']:.1e}", found["difference"] <= DIFFERENCE),
        Check("memory flat from 1,000 to 50,000", ", ".join(f"{one / 2**20:.0f} MB" for one in added) + " added",
              added[-1] - added[0] <= room),
        Check("200 MB kept on purpose are not flat", f"{with_ballast / 2**20:.0f} MB added", with_ballast - added[0] > room),
        Check("time linear", ", ".join(f"{1e3 * one:.2f} ms" for one in per_text) + " a text",
              max(per_text) / min(per_text) <= LINEAR),
    ]  # fmt: skip
    numbers = {"command": f"python -m evals.speed.bench_scoring --texts {asked.texts} --rounds {asked.rounds}", **found, "sizes": [*sizes, heavy],
               "cores": os.cpu_count()}  # fmt: skip
    return finish("bench_scoring", (__doc__ or "").split("\n\n")[0].replace("\n", " "), checks, numbers)


if __name__ == "__main__":
    sys.exit(main())
