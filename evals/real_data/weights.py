"""Claim: a reward model that is trained with the weights that `cda data --rows` suggests prefers the longer answer less often than the
same model trained without them, at equal accuracy on held-out pairs.

The model is the MiniLM encoder (evals/real_data/real_model.py) with its upper three layers and a new head trained for one epoch on
AlpacaEval's 2,154 training pairs, texts cut at 256 tokens; the loss is that of `cda train` (`ObjectiveTrainer`), the weights those of
`cda data` on the same pairs for length and structure. Three seeds, each with and without weights. Measured on the 392 test pairs
(other instructions) and on contrasts in length: GPT-4o's, on which people voted, and the embedded ones.

Thresholds, set before the first run:
    1. On the training pairs the weights bring r of length and r of structure with being chosen to a third of what they were, or less.
    2. The share of contrasts on which the longer side is preferred falls: the 95% interval of the mean change over seeds, by prompt, lies
       below 0.
    3. On the test pairs the 95% interval of the mean change of accuracy over seeds, by prompt, excludes a loss of more than 3 points.

The test pairs have the judge's own taste for length (the longer one is chosen in 70% of them), so that part of what a model loses there
is the bias itself; accuracy is therefore also given among pairs whose longer side was chosen, and among those whose shorter side was.
Beside it r of the training pairs without those that one bias decides alone (a filter, which trains nothing here).

    python -m evals.real_data.weights --work FOLDER --seeds 1 2 3

About 25 minutes on 2 cores with AMX. What is finished stays in FOLDER, and is not done again; seeds may be trained by processes of
their own (--train-only). The `seconds` of a result are those of its last call, without the models of earlier ones.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from pydantic_core import to_jsonable_python

import cda
from cda.embedded.model import encoder_folder
from cda.embedded.texts import audit_contrasts
from cda.features import n_words
from cda.files.jsonl import read_json, read_jsonl, write_json
from cda.models.config import ModelSpec
from cda.records import Pair, TrainingExample, prompt_id, prompt_text
from cda.results.base import Estimate
from cda.results.data import DataWeights
from cda.stats.choice_weights import effective_n
from cda.stats.estimators import mean_of, share_of
from evals.real_data.real_inputs import alpaca_pairs, voted_contrasts
from evals.real_data.real_model import Scored, as_pairs, train_classifier, trained_layers, training_of
from evals.shared import DATA, SKIPPED, Check, finish

MAX_LENGTH_TOKENS = 256
BIASES = ("length", "structure")
ARMS = ("unweighted", "weighted")
LARGEST_R_LEFT = 1 / 3
MOST_LOST = 0.03
Json = dict[str, Any]


def weights_of(pairs: Sequence[Pair], work: Path) -> tuple[list[float], Json]:
    """The weights of `cda data --rows`, and r of each bias: of all pairs, of weighted pairs, and without pairs decided by one bias."""
    rows, done = work / "rows.jsonl", work / "rows.json"
    if not done.is_file():
        found = _data(pairs, work, rows=str(rows))
        weights = found.weights
        assert isinstance(weights, DataWeights)
        kept = [pair for pair, row in zip(pairs, read_jsonl(rows), strict=True) if row["alone"] is None]
        filtered = _data(kept, work)
        r = {
            bias: {
                "all": to_jsonable_python(found.bias(bias).r_train),
                "weighted": to_jsonable_python(weights.r[bias]),
                "filtered": to_jsonable_python(filtered.bias(bias).r_train),
            }
            for bias in BIASES
        }
        write_json(done, {"r": r, "weights": weights.model_dump(mode="json"), "kept": filtered.n_pairs})
    own = [row["weight"] for row in read_jsonl(rows)]
    return own, read_json(done)


def _data(pairs: Sequence[Pair], work: Path, **more: Any) -> cda.DataAudit:
    rows = [{"prompt": prompt_text(pair.prompt), "chosen": pair.chosen, "rejected": pair.rejected} for pair in pairs]
    return cda.audit_data(rows, biases=list(BIASES), out=work / "data", progress=False, **more)


def trained(arm: str, seed: int, examples: Sequence[TrainingExample], work: Path) -> ModelSpec:
    """The model of an arm and a seed, trained unless it is there."""
    folder = work / f"{arm}-{seed}"
    if not (folder / "model.safetensors").is_file():
        train_classifier(examples, seed, folder, MAX_LENGTH_TOKENS)
    return ModelSpec(str(folder), "fp32", MAX_LENGTH_TOKENS)


def contrasts() -> list[Pair]:
    """Contrasts in length, the longer side first."""
    embedded = [one for one in audit_contrasts() if one.bias == "length"]
    return as_pairs([*voted_contrasts("length"), *embedded])


def measured(spec: ModelSpec, work: Path) -> Json:
    """Margins of the contrasts and of the test pairs."""
    scored = Scored(work / "scores" / Path(spec.name_or_path).name, spec)
    return {
        name: scored.margins(None, 0.0, pairs)
        for name, pairs in (("contrasts", contrasts()), ("test", alpaca_pairs("test")))
    }


def compared(hits: dict[str, np.ndarray[Any, Any]], ids: Sequence[str]) -> Json:
    """A share by arm, mean over seeds and each by itself, and its mean change; hits of shape (seeds, n)."""
    change = (hits["weighted"] - hits["unweighted"]).mean(axis=0)
    return {
        **{arm: share_of(hits[arm].mean(axis=0), ids, len(hits[arm])).model_dump() for arm in ARMS},
        "change": mean_of(change, ids, "share difference", (-1.0, 1.0)).estimate.model_dump(),
        "by_seed": {arm: hits[arm].mean(axis=1).tolist() for arm in ARMS},
    }


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n\n")[0])
    parser.add_argument("--work", type=Path, required=True, help="folder for the models and scores")
    parser.add_argument("--seeds", type=int, nargs="+", default=[1, 2, 3])
    parser.add_argument("--train-only", action="store_true", help="train and score these seeds, and write no result")
    asked = parser.parse_args()
    if not all((DATA / name).is_dir() for name in ("alpaca_eval", "fff")):
        print(f"skipped: {DATA} holds no alpaca_eval or fff; set CDA_DATA")
        return SKIPPED
    asked.work.mkdir(parents=True, exist_ok=True)
    pairs, test = alpaca_pairs("train"), alpaca_pairs("test")
    weights, of_data = weights_of(pairs, asked.work)
    # Rows that cda data leaves out (duplicates, identical sides) have no weight, and are in neither training.
    used = [(pair, weight) for pair, weight in zip(pairs, weights, strict=True) if weight is not None]
    examples = {
        "unweighted": [TrainingExample(pair) for pair, _ in used],
        "weighted": [TrainingExample(pair, weight=weight) for pair, weight in used],
    }
    there = sum((asked.work / f"{arm}-{seed}" / "model.safetensors").is_file() for arm in ARMS for seed in asked.seeds)
    margins: dict[str, list[Json]] = {arm: [] for arm in ARMS}
    for seed in asked.seeds:
        for arm in ARMS:
            margins[arm].append(measured(trained(arm, seed, examples[arm], asked.work), asked.work))
    if asked.train_only:
        return 0
    hits = {
        name: {arm: np.array([(one[name] > 0).astype(float) for one in margins[arm]]) for arm in ARMS}
        for name in ("contrasts", "test")
    }
    longer = np.array([n_words(pair.chosen) - n_words(pair.rejected) for pair in test])
    ids = {name: [prompt_id(pair.prompt) for pair in own] for name, own in (("contrasts", contrasts()), ("test", test))}
    found = {name: compared(hits[name], ids[name]) for name in hits}
    for name, rows in {"longer chosen": longer > 0, "shorter chosen": longer < 0}.items():
        own = {arm: hits["test"][arm][:, rows] for arm in ARMS}
        found[f"test, {name}"] = compared(own, [ids["test"][row] for row in np.flatnonzero(rows)])
    prefers = {arm: np.where(longer > 0, each, 1 - each) for arm, each in hits["test"].items()}
    rows = np.flatnonzero(longer)
    own = {arm: each[:, rows] for arm, each in prefers.items()}
    found["test, longer preferred"] = compared(own, [ids["test"][row] for row in rows])
    r = of_data["r"]
    skew, accuracy = (Estimate(**found[name]["change"]) for name in ("contrasts", "test"))
    checks = [
        Check(
            "r of length and of structure with being chosen, weighted: at most a third of what it was",
            "; ".join(f"{bias} {r[bias]['all']['value']:.2f} → {r[bias]['weighted']['value']:.2f}" for bias in BIASES),
            all(abs(r[b]["weighted"]["value"]) <= LARGEST_R_LEFT * abs(r[b]["all"]["value"]) for b in BIASES),
        ),
        Check(
            "share of length contrasts with the longer side preferred: the interval of the change lies below 0",
            f"{_shares(found['contrasts'])}, change {_points(skew)}",
            skew.high < 0,
        ),
        Check(
            "accuracy on test pairs: a loss of more than 3 points is excluded",
            f"{_shares(found['test'])}, change {_points(accuracy)}",
            accuracy.low >= -MOST_LOST,
        ),
    ]
    numbers = {
        "command": f"python -m evals.real_data.weights --work FOLDER --seeds {' '.join(map(str, asked.seeds))}",
        "models_of_earlier_calls": there,
        "settings": {"training": training_of(), "max_length_tokens": MAX_LENGTH_TOKENS, "frozen_layers": trained_layers(encoder_folder()).start},
        "pairs": {"train": len(used), "effective_n": effective_n(np.array([w for _, w in used])), "test": len(test),
                  "contrasts": len(ids["contrasts"]), "longer_chosen": float((longer > 0).mean())},
        "data": of_data,
        "found": found,
    }  # fmt: skip
    return finish("weights", (__doc__ or "").split("\n\n")[0].replace("\n", " "), checks, numbers)


def _shares(found: Json) -> str:
    return f"{found['unweighted']['value']:.1%} → {found['weighted']['value']:.1%}"


def _points(one: Estimate) -> str:
    return f"{100 * one.value:+.1f} [{100 * one.low:+.1f}, {100 * one.high:+.1f}] points, n {one.n}, {one.n_prompts} prompts"


if __name__ == "__main__":
    sys.exit(main())
