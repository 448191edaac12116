"""Claim: training spends its time on tokens and not on padding. Over TRL's RewardTrainer with its defaults, over the same
without gradient checkpointing, and over batches padded to 512, it achieves at least 80% of the speed-up that no padding
at all would give, on the length triples and on Arena pairs; and it learns the same: trained until the losses have left ln 2, where
they start, every step's loss is that of each peer.

Speed-up of no padding: a peer's time × the share of its computed tokens that are padding. Achieved: the time saved over
that; above 1 where more than padding is saved (gradient checkpointing, the square of attention). All that differs
between the variants is the layout of batches, and gradient checkpointing in the first: model (the MiniLM encoder in
fp32), LoRA, dropout, pairs, epochs, seeds and threads are the same. `cda` draws batches at random as the peers do;
`cda, by length` also groups them by length, and is reported only. Each run is a process of its own, for its peak memory;
rounds go through all variants by turns, each round with another seed; medians over rounds. Time is that of training
alone, tokens are real ones, and what was computed is counted at the model's embedding.

Losses are compared in runs of their own, since one epoch at the recipe's rate leaves them at ln 2 = 0.693 whatever is taught: the 16
shortest of 200 pairs, batches of 4, 10 epochs at a rate of 1e-3, in fp32 and without dropout (each layout draws other dropout). Thresholds, on
either data set: the mean loss of the last quarter of the steps is 0.55 or less in all variants, and at no step is ours further than 0.01
from a peer's at the same seed. So that this can fail, the same is asked of ours at half the rate, and of ours at another seed: both must be
further than 0.01 away at some step.
With --gpu: large models with random weights, see bench_training_gpu.py.

    python -m evals.speed.bench_training --pairs 32      (30 minutes on 2 cores that do nothing else; see --rounds)
    python -m evals.speed.bench_training --losses        (the comparison of losses alone, 15 minutes, into the result file that is there)
    python -m evals.speed.bench_training --gpu      (about 12 minutes on a GPU with 80 GB)
"""

from __future__ import annotations

import argparse
import json
import math
import os
import random
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import date
from pathlib import Path
from typing import Any

from pydantic_core import to_jsonable_python

from cda.files.jsonl import read_json
from evals.shared import DATA, ROOT, Check, finish, peak_bytes, restart_peak

RESULT = ROOT / "evals" / "results" / "bench_training.json"
N_PAIRS, N_ROUNDS, MAX_LENGTH_TOKENS = 48, 3, 512
ACHIEVED = 0.80
END_AT_MOST, STEP_APART = 0.55, 0.01
HALF_RATE, OTHER_SEED = "cda at half the rate", "cda at another seed"
CHECKPOINTED, PLAIN, PADDED = "TRL", "TRL, no checkpointing", "padded to 512"
OURS, GROUPED = "cda", "cda, by length"
PEERS = (CHECKPOINTED, PLAIN, PADDED)
VARIANTS = (*PEERS, OURS, GROUPED)
SETS = {
    "length triples": ("perturbations/all_data_perturbed_length.jsonl", "base_response", "perturbed_response"),
    "Arena pairs": (
        "chatbot_arena_labeled_data/chatbot_arena_jargon_labeled.jsonl",
        "chosen_response",
        "rejected_response",
    ),
}
"""File, and the columns of the chosen and the rejected side."""


@dataclass(frozen=True)
class Setting:
    """Of one run: `rate` and `dropout` are the preset's where None."""

    epochs: int = 1
    batch: int = 16
    rate: float | None = None
    dropout: float | None = None


LOSSES = Setting(epochs=10, batch=4, rate=1e-3, dropout=0.0)
"""Of the runs whose losses are compared."""
N_LOSS_PAIRS, LOSS_SEEDS = 16, (0,)


def shortest_pairs(name: str, n_pairs: int, of: int = 200) -> list[dict[str, str]]:
    """So many of the pairs drawn whose longer side is shortest, so that many steps are taken in little time."""
    return sorted(draw_pairs(name, of), key=lambda row: max(len(row["chosen"]), len(row["rejected"])))[:n_pairs]


def draw_pairs(name: str, n_pairs: int) -> list[dict[str, str]]:
    """So many pairs of a data set, always the same."""
    file, chosen, rejected = SETS[name]
    lines = (DATA / "fff" / "data" / file).read_text(encoding="utf-8").splitlines()
    rows = random.Random(0).sample([json.loads(line) for line in lines], n_pairs)
    return [{"prompt": row["query"], "chosen": row[chosen], "rejected": row[rejected]} for row in rows]


def one_run(variant: str, pairs: Sequence[Mapping[str, str]], seed: int, setting: Setting) -> dict[str, Any]:
    """Train once in this process: seconds, tokens, peak memory, losses."""
    from transformers import AutoTokenizer

    from cda.embedded.model import encoder_folder, fresh_classifier
    from cda.files.yaml_file import parse_yaml
    from cda.models.config import ModelSpec
    from cda.models.load import RewardModel
    from cda.models.template import Template
    from cda.records import Pair, TrainingExample, user_prompt
    from cda.terminal import quiet_libraries

    quiet_libraries()
    spec = ModelSpec(str(encoder_folder()), "fp32", MAX_LENGTH_TOKENS)
    template = Template(AutoTokenizer.from_pretrained(spec.name_or_path), MAX_LENGTH_TOKENS)
    model = RewardModel(fresh_classifier(encoder_folder()), template, spec, ("classifier",))
    examples = [TrainingExample(Pair(user_prompt(row["prompt"]), row["chosen"], row["rejected"])) for row in pairs]
    recipe = ROOT / "recipes" / "models" / "embedded.yaml"
    preset = parse_yaml(recipe.read_text(encoding="utf-8"), str(recipe))
    preset["train"] |= {
        "num_train_epochs": setting.epochs, "per_device_train_batch_size": setting.batch,
        "save_strategy": "no", "logging_steps": 1,
    }  # fmt: skip
    if setting.rate is not None:
        preset["train"]["learning_rate"] = setting.rate
    if setting.dropout is not None:
        preset["lora"]["dropout"] = setting.dropout
    preset["train"]["train_sampling_strategy"] = "group_by_length" if variant == GROUPED else "random"
    tokens = counted_tokens(model)
    before = restart_peak()
    with tempfile.TemporaryDirectory() as folder:
        train = trained_by_us if variant in (OURS, GROUPED) else trained_by_trl
        history = train(variant, model, examples, preset, Path(folder), seed)
    return {
        "seconds": next(entry["train_runtime"] for entry in history if "train_runtime" in entry),
        "real_tokens": tokens["real"],
        "computed_tokens": tokens["computed"],
        "peak_megabytes": peak_bytes() / 2**20,
        "added_megabytes": (peak_bytes() - before) / 2**20,
        "losses": [entry["loss"] for entry in history if "loss" in entry],
    }


def counted_tokens(model: Any) -> dict[str, int]:
    """A count that grows with every batch that reaches the model's embedding."""
    tokens = {"real": 0, "computed": 0}

    def count(_: Any, ids: Any, __: Any) -> None:
        tokens["computed"] += ids[0].numel()
        tokens["real"] += int((ids[0] != model.template.pad_token_id).sum())

    model.model.get_input_embeddings().register_forward_hook(count)
    return tokens


def trained_by_us(_: str, model: Any, examples: Any, preset: Any, folder: Path, seed: int) -> list[dict[str, Any]]:
    from cda.training.arguments import Lora
    from cda.training.lora import train_adapter

    return train_adapter(model, examples, [], Lora(**preset["lora"]), preset["train"], folder, seed).history


def trained_by_trl(
    variant: str, model: Any, examples: Any, preset: Any, folder: Path, seed: int
) -> list[dict[str, Any]]:
    from transformers import PrinterCallback, set_seed
    from trl import RewardTrainer
    from trl.trainer.reward_trainer import DataCollatorForPreference

    from cda.training.arguments import Lora, reward_config
    from cda.training.chunks import encode_pairs
    from cda.training.lora import lora_config

    arguments = preset["train"] | {"gradient_checkpointing": variant == CHECKPOINTED}
    set_seed(seed)
    trainer = RewardTrainer(
        model=model.model,
        args=reward_config(arguments, folder, seed, has_validation=False),
        train_dataset=encode_pairs(examples, model.template).dataset.select_columns(["chosen_ids", "rejected_ids"]),
        processing_class=model.template.tokenizer,
        data_collator=DataCollatorForPreference(
            model.template.pad_token_id, pad_to_multiple_of=MAX_LENGTH_TOKENS if variant == PADDED else None
        ),
        peft_config=lora_config(Lora(**preset["lora"]), preset["lora"]["target_modules"], model.head_names),
    )
    trainer.remove_callback(PrinterCallback)
    trainer.train()
    return list(trainer.state.log_history)


def in_a_process(arguments: Sequence[str], threads: int) -> dict[str, Any]:
    """This script's answer to the arguments, from a fresh process."""
    limits = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), str(threads))
    done = subprocess.run(
        [sys.executable, "-m", "evals.speed.bench_training", *arguments],
        env={**os.environ, **limits},
        capture_output=True,
        text=True,
        cwd=ROOT,
    )
    if done.returncode:
        raise SystemExit(f"{' '.join(arguments)} failed:\n{done.stderr[-3000:]}")
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return found


def all_rounds(name: str, asked: Any, folder: Path) -> dict[str, list[dict[str, Any]]]:
    """Runs of every variant on one data set, by turns."""
    file = folder / f"{name}.json"
    file.write_text(json.dumps(draw_pairs(name, asked.pairs)), encoding="utf-8")
    runs: dict[str, list[dict[str, Any]]] = {variant: [] for variant in VARIANTS}
    for seed in range(asked.rounds):
        # Who goes first changes, so that a machine that slows down slows all.
        for variant in VARIANTS if seed % 2 == 0 else VARIANTS[::-1]:
            setting = json.dumps(to_jsonable_python(Setting(epochs=asked.epochs)))
            found = in_a_process(["--one", variant, str(file), str(seed), setting], asked.threads)
            runs[variant].append(found)
            print(
                f"  {name:15} {variant:22} {found['seconds']:7.1f} s  {found['real_tokens'] / found['seconds']:7.0f} tokens/s"
                f"  {found['peak_megabytes']:6.0f} MB  padding {1 - found['real_tokens'] / found['computed_tokens']:.1%}",
                flush=True,
            )
    return runs


def summary(runs: Mapping[str, Sequence[Mapping[str, Any]]]) -> dict[str, dict[str, Any]]:
    """Per variant, medians over rounds."""
    table = {}
    for variant, found in runs.items():
        speeds = [one["real_tokens"] / one["seconds"] for one in found]
        table[variant] = {
            "seconds": statistics.median(one["seconds"] for one in found),
            "all_seconds": [round(one["seconds"], 2) for one in found],
            "tokens_per_s": statistics.median(speeds),
            "tokens_per_s_range": [min(speeds), max(speeds)],
            "peak_megabytes": statistics.median(one["peak_megabytes"] for one in found),
            "added_megabytes": statistics.median(one["added_megabytes"] for one in found),
            "padding_share": statistics.median(1 - one["real_tokens"] / one["computed_tokens"] for one in found),
            "n_rounds": len(found),
        }
    return table


def final_loss(losses: Sequence[float]) -> float:
    """Mean of the last quarter of the steps, of at least one."""
    return statistics.fmean(losses[-math.ceil(len(losses) / 4) :])


def achieved_share(peer_s: float, ours_s: float, peer_padding: float) -> float | None:
    """Time saved over a peer, in units of what no padding would save; None where the peer has no padding."""
    return (peer_s - ours_s) / (peer_s * peer_padding) if peer_padding > 0 else None


def losses_of(name: str, folder: Path, threads: int) -> dict[str, list[list[float]]]:
    """The loss of every step, by variant and seed, of ours, of the peers, and of two that must not agree with ours."""
    file = folder / f"{name}, losses.json"
    file.write_text(json.dumps(shortest_pairs(name, N_LOSS_PAIRS)), encoding="utf-8")
    wanted = [(variant, variant, 0, LOSSES) for variant in (OURS, *PEERS)]
    wanted += [(HALF_RATE, OURS, 0, replace(LOSSES, rate=(LOSSES.rate or 0) / 2)), (OTHER_SEED, OURS, 100, LOSSES)]
    found: dict[str, list[list[float]]] = {}
    for label, variant, shift, setting in wanted:
        for seed in LOSS_SEEDS:
            given = ["--one", variant, str(file), str(seed + shift), json.dumps(to_jsonable_python(setting))]
            losses = in_a_process(given, threads)["losses"]
            found.setdefault(label, []).append(losses)
            print(f"  {name:15} {label:22} {losses[0]:.3f} to {final_loss(losses):.3f}", flush=True)
    return found


def loss_checks(name: str, losses: Mapping[str, Sequence[Sequence[float]]]) -> list[Check]:
    """Checks that the losses have left ln 2, that ours are the peers', and that two that differ are seen to."""
    ends = {label: [final_loss(one) for one in runs] for label, runs in losses.items() if label in (OURS, *PEERS)}
    worst = max(max(one) for one in ends.values())
    found = [
        Check(
            f"{name}: losses end at {END_AT_MOST:g} or less (they start at 0.693)",
            f"{worst:.3f} at most, of {len(ends)} variants at {len(ends[OURS])} seeds",
            worst <= END_AT_MOST,
        )
    ]
    for label, runs in losses.items():
        if label == OURS:
            continue
        apart = [largest_difference(*both) for both in zip(losses[OURS], runs, strict=True)]
        same = label in PEERS
        asked = f"at no step further than {STEP_APART:g} from {label}" if same else f"further than that from {label}"
        found.append(
            Check(
                f"{name}: our loss {asked}",
                f"largest differences {', '.join(f'{one:.1e}' for one in apart)}, over {len(runs[0])} steps",
                max(apart) <= STEP_APART if same else min(apart) > STEP_APART,
            )
        )
    return found


def largest_difference(first: Sequence[float], second: Sequence[float]) -> float:
    """Of two runs' losses step by step; infinite where they took different numbers of steps."""
    if len(first) != len(second):
        return math.inf
    return max(abs(one - other) for one, other in zip(first, second, strict=True))


def checks(name: str, table: dict[str, dict[str, Any]]) -> list[Check]:
    """Thresholds on one data set; what is found also goes into the table."""
    found: list[Check] = []
    ours = table[OURS]
    for peer in PEERS:
        theirs = table[peer]
        for variant in (OURS, GROUPED):
            table[variant].setdefault("achieved_over", {})[peer] = achieved_share(
                theirs["seconds"], table[variant]["seconds"], theirs["padding_share"]
            )
        share = ours["achieved_over"][peer]
        said = "no padding to save" if share is None else f"{share:.0%}"
        found.append(
            Check(
                f"{name}: at least {ACHIEVED:.0%} of the speed-up of no padding over {peer}",
                f"{said}; {theirs['seconds']:.1f} s with {theirs['padding_share']:.0%} padding against {ours['seconds']:.1f} s "
                f"with {ours['padding_share']:.0%} (medians of {ours['n_rounds']} rounds); peak memory "
                f"{theirs['peak_megabytes']:.0f} MB against {ours['peak_megabytes']:.0f} MB",
                share is not None and share >= ACHIEVED,
            )
        )
    return found


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n\n")[0])
    parser.add_argument("--one", nargs=4, metavar=("VARIANT", "PAIRS", "SEED", "SETTING"), help=argparse.SUPPRESS)
    shapes = {
        "nargs": "*",
        "metavar": "SHAPE",
        "help": "large random models on a CUDA GPU, in place of the rest; all, or these",
    }
    parser.add_argument("--gpu", **shapes)
    parser.add_argument("--losses", action="store_true", help="the comparison of losses alone")
    parser.add_argument("--pairs", type=int, default=N_PAIRS, help="of each data set")
    parser.add_argument("--rounds", type=int, default=N_ROUNDS, help="each with another seed")
    parser.add_argument("--epochs", type=int, default=1)
    parser.add_argument("--threads", type=int, default=os.cpu_count() or 1, help="of every run")
    asked = parser.parse_args(arguments)
    if asked.one:
        variant, file, seed, setting = asked.one
        pairs = json.loads(Path(file).read_text(encoding="utf-8"))
        print(json.dumps(one_run(variant, pairs, int(seed), Setting(**json.loads(setting)))))
        return 0
    if asked.gpu is not None:
        from evals.speed.bench_training_gpu import on_a_gpu

        return on_a_gpu(asked.gpu)
    if asked.losses and not RESULT.exists():
        print(f"{RESULT}: absent; run without --losses first")
        return 1
    load = os.getloadavg()[0]
    with tempfile.TemporaryDirectory() as folder:
        losses = {name: losses_of(name, Path(folder), asked.threads) for name in SETS}
        if asked.losses:
            earlier = read_json(RESULT)
            numbers = {"speeds_of": earlier["date"]} | earlier["numbers"]
            for table in numbers["sets"].values():
                for one in table.values():
                    one.pop("final_losses", None)  # earlier runs kept losses that had not left ln 2
        else:
            tables = {name: summary(all_rounds(name, asked, Path(folder))) for name in SETS}
            numbers = {
                "command": f"python -m evals.speed.bench_training --pairs {asked.pairs} --rounds {asked.rounds}",
                "speeds_of": date.today().isoformat(),
                "pairs": asked.pairs,
                "rounds": asked.rounds,
                "epochs": asked.epochs,
                "threads": asked.threads,
                "load_before": load,
                "load_after": os.getloadavg()[0],
                "sets": tables,
            }
    found = [check for name, table in numbers["sets"].items() for check in checks(name, table)]
    found += [check for name, one in losses.items() for check in loss_checks(name, one)]
    numbers |= {
        "losses_command": "python -m evals.speed.bench_training --losses",
        "losses_setting": to_jsonable_python(LOSSES) | {"pairs": N_LOSS_PAIRS, "seeds": LOSS_SEEDS},
        "losses": losses,
    }
    return finish("bench_training", (__doc__ or "").split("\n\n")[0].replace("\n", " "), found, numbers)


if __name__ == "__main__":
    sys.exit(main())
