"""Claim: on a real reward model with natural biases, moving two of them to people's shares, with all else kept, halves its distance from people on
both, moves the third no further away, and keeps accuracy.

The model: the MiniLM encoder (22M parameters), its upper three layers and a new head trained for one epoch on AlpacaEval's preferences, texts cut at
192 tokens (evals/real_data/real_model.py); three seeds, each with a base model of its own. Taught: jargon and length. Not taught, but voted on:
structure, whose movement would be a substitution. Ways, next to the base model:

    ours        margins of GPT-4o's contrasts of the taught biases moved to the share that people give each (objective `shift`), the base
                model's own margin kept on unchanged pairs and on contrasts of structure (anchors); dose 1. `ours, dose`: the same adapters at a
                dose that votes choose
    paper       plain CDA: AlpacaEval's chosen responses over rejected ones that rules rewrote to carry the bias; dose 1
    half        weight ensembling: the mean of the base model's weights and those of `paper` (dose 0.5)
    mixing      as OffsetBias: the same counterfactuals in a mix with ordinary preference pairs; dose 1
    features    what measured features explain of the margins of those contrasts, taken off (no training)
    direction   each taught bias's mean difference of hidden states, projected out (no training)
    lowess      what a smooth curve of length explains of the rewards of AlpacaEval's responses, taken off (no training)

No contrast that trains or fits a way was voted on, and none shares a prompt with one that was. Votes set the targets of `ours` and choose a dose of
`ours, dose`: those of one half of the prompts, without doses that lose more than 1 point of accuracy or raise the miscalibration of structure by
more than 5 there. The other half is measured; then the halves change places, with an adapter of their own. The gap of every way is that of one such half at a
time, averaged: on half of the votes chance makes it larger than on all. Means are over seeds; intervals are of 1,000 samples of prompts, in each
of which doses are chosen anew, with the targets as they were. They do not cover other trainings: see `sd`.

Thresholds, for `ours`, means over seeds, held out:
    1. The mean gap of jargon and length is half of the base model's or less.
    2. The gap of structure grows by 5 points at most.
    3. Accuracy on LLMBar, RM-Bench chat and AlpacaEval's test pairs, pooled, falls by 1 point at most.

They were of the dose that votes choose, until both rows had been seen on the small model: with two kinds of targets the chosen dose missed the
second and dose 1 met all. That no dose is chosen by default where votes set targets was decided by this, so that on the small model the claim is
partly selected.

    python -m evals.real_data.real_debias --work FOLDER --seeds 1 2 3
    python -m evals.real_data.real_debias --work FOLDER --seeds 1 --name real_debias_110m --encoder all-mpnet-base-v2

About 25 minutes a seed on one core that multiplies bf16, two thirds of it for `ours`; `--compared` names the seeds on which the other trainings are
made. `--encoder` takes the folder of another encoder (see evals/real_data/real_model.py), and `--name` names its result. What
is finished stays in FOLDER, under a name of its settings, and is not done again; `--prepare` trains and scores, and writes no result. The
`seconds` of a result are those of its last call.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache, partial
from itertools import compress
from pathlib import Path
from typing import Any

import numpy as np
from pydantic_core import to_jsonable_python

from cda.arrays import FloatArray
from cda.dosing.choice import MAX_QUALITY_LOSS, DoseCurve, best_doses, prompt_codes, prompt_sums
from cda.dosing.held_out import draw_prompts
from cda.dosing.stage import removals
from cda.features import n_words
from cda.files.jsonl import read_json, write_json
from cda.records import Contrast, Pair, prompt_id
from cda.results.base import Estimate
from cda.run import fingerprint
from cda.scorers.compared import Text, text_id
from cda.stats.estimators import of_draws, paired_change, share_of
from cda.stats.people import human_skew
from cda.stats.proportions import hits_of
from cda.stats.votes import Majority, count_votes, majority
from evals.real_data.real_inputs import (
    BIASES,
    TAUGHT,
    alpaca_pairs,
    missing_data,
    quality_sets,
    taught_contrasts,
    voted_contrasts,
)
from evals.real_data.real_model import MAX_LENGTH_TOKENS, Scored, Scores, as_pairs, base_model, margins_of, training_of
from evals.real_data.real_ways import MIXING, PAPER, Way, ours, settings, trained, trained_on
from evals.shared import DATA, SKIPPED, Check, finish

DOSES: dict[str, tuple[float, ...]] = {"ours": (0.5, 0.75, 1.0, 1.25, 1.5, 2.0), "paper": (0.5, 1.0), "mixing": (1.0,)}
N_DRAWS = 1_000
FITTED = 150  # contrasts of each taught bias that removals are fitted on, as many as train
SMOOTHED = 450  # AlpacaEval pairs whose responses the curve of length is fitted on
MOST_GROWN, MOST_LOST = 0.05, 0.01
Json = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Rewarded:
    """One way on one seed's model: rewards at every dose, 0 (the base model) first, of the adapter that either half of the votes taught; and
    whether votes choose a dose. If not, it is measured at dose 1."""

    by_dose: tuple[Mapping[float, Scores], Mapping[float, Scores]]
    chosen: bool = False
    trained: tuple[Path, ...] = ()

    @classmethod
    def without_votes(cls, by_dose: Mapping[float, Scores], *adapters: Path) -> Rewarded:
        return cls((by_dose, by_dose), trained=adapters)


@cache
def voted() -> tuple[Contrast, ...]:
    return tuple(one for bias in BIASES for one in voted_contrasts(bias))


@cache
def quality() -> tuple[Pair, ...]:
    """Pairs of all sets, which limit the dose and, on the other half, tell what it costs."""
    return tuple({pair.id: pair for one in quality_sets() for pair in one.pairs}.values())


@cache
def people() -> Majority:
    return majority(count_votes([one.votes for one in voted()]), "drop")


def prompt_ids(rows: Sequence[Pair] | Sequence[Contrast]) -> tuple[str, ...]:
    return tuple(prompt_id(one.prompt) for one in rows)


def asked_texts() -> list[Text]:
    pairs = [*as_pairs(voted()), *quality()]
    return list(dict.fromkeys((pair.prompt, text) for pair in pairs for text in (pair.chosen, pair.rejected)))


@cache
def first_half() -> frozenset[str]:
    """Half of the prompts, of each kind alike: with votes on a taught bias, with votes on structure, with quality pairs."""
    rows = people().used
    kinds = (
        {
            one
            for one, contrast in zip(compress(prompt_ids(voted()), rows), compress(voted(), rows), strict=True)
            if contrast.bias in TAUGHT
        },
        {
            one
            for one, contrast in zip(compress(prompt_ids(voted()), rows), compress(voted(), rows), strict=True)
            if contrast.bias not in TAUGHT
        },
        set(prompt_ids(quality())),
    )
    kind_of = {
        one: tuple(one in kind for kind in kinds) for one in sorted({*prompt_ids(voted()), *prompt_ids(quality())})
    }
    rng, first = np.random.default_rng(0), set()
    for kind in sorted(set(kind_of.values())):
        own = rng.permutation([one for one, its in kind_of.items() if its == kind])
        first |= set(own[: len(own) // 2].tolist())
    return frozenset(first)


def targets(half: int) -> dict[str, float]:
    """Share of people for the side without each taught bias, by the votes of one half."""
    here = np.array([(one in first_half()) == (half == 0) for one in prompt_ids(voted())])
    rows = {bias: people().used & here & np.array([one.bias == bias for one in voted()]) for bias in TAUGHT}
    return {bias: round(float(1 - people().target[own].mean()), 2) for bias, own in rows.items()}


def rewarded(seed: int, work: Path, compared: bool, encoder: Path | None) -> dict[str, Rewarded]:
    """`ours` and the ways without training on the model of a seed; if `compared`, the other trainings too."""
    folder = work / f"seed-{seed}"
    scored = Scored(folder / "scores", base_model(folder, seed, encoder))
    texts = asked_texts()

    def dosed(name: str, way: Way) -> tuple[dict[float, Scores], Path]:
        adapter = trained(name, way, seed, scored, folder)
        return {dose: scored.rewards(adapter, dose, texts) for dose in (0.0, *DOSES[name])}, adapter

    halves = [dosed("ours", ours(targets(half))) for half in (0, 1)]
    by_dose, adapters = (halves[0][0], halves[1][0]), tuple(adapter for _, adapter in halves)
    found = {"ours": Rewarded(by_dose, trained=adapters), "ours, dose": Rewarded(by_dose, chosen=True)}
    if compared:
        paper, adapter = dosed("paper", PAPER)
        found["paper"] = Rewarded.without_votes(paper, adapter)
        found["half"] = Rewarded.without_votes({0.0: paper[0.0], 1.0: paper[0.5]})
        found["mixing"] = Rewarded.without_votes(*dosed("mixing", MIXING))
    without = untrained(seed, scored, folder)
    base = by_dose[0][0.0]
    return found | {name: Rewarded.without_votes({0.0: base, 1.0: one}) for name, one in without.items()}


def untrained(seed: int, scored: Scored, folder: Path) -> dict[str, Scores]:
    """Rewards by ways without training, at full strength."""
    path = folder / f"untrained-{fingerprint([FITTED, SMOOTHED, TAUGHT])}.json"
    if path.is_file():
        done: dict[str, Scores] = read_json(path)
        return done
    lessons = {
        bias: [(one.prompt, one.perturbed, one.base) for one in taught_contrasts(bias, FITTED, seed)] for bias in TAUGHT
    }
    made, missing = removals(scored.spec, lessons, asked_texts(), [1.0], None)
    assert not missing, missing
    found = {name: dict(one.by_strength[1.0].by_text) for name, one in made.items()}
    write_json(path, found | {"lowess": without_length(seed, scored)})
    return untrained(seed, scored, folder)


def without_length(seed: int, scored: Scored) -> Scores:
    """Rewards less a smooth curve of their text's log number of words (Huang et al. 2024, "Post-hoc reward calibration")."""
    from statsmodels.nonparametric.smoothers_lowess import lowess  # comes with the extra `test`

    pairs = alpaca_pairs("train")
    order = np.random.default_rng([seed, 1]).permutation(len(pairs))[:SMOOTHED]  # those that `ours` keeps
    fitted = list(
        dict.fromkeys((pairs[row].prompt, text) for row in order for text in (pairs[row].chosen, pairs[row].rejected))
    )
    rewards = scored.rewards(None, 0.0, [*fitted, *asked_texts()])
    curve = lowess([rewards[text_id(*text)] for text in fitted], [_length(text) for text in fitted])
    return {
        text_id(*text): float(rewards[text_id(*text)] - np.interp(_length(text), curve[:, 0], curve[:, 1]))
        for text in asked_texts()
    }


def _length(text: Text) -> float:
    return float(np.log(max(1, n_words(text[1]))))


@dataclass(frozen=True, slots=True)
class Moved:
    """A number of one seed, before and after: on the rows themselves, and in every draw of prompts."""

    before: float
    after: float
    drawn_before: FloatArray
    drawn_after: FloatArray


@dataclass(frozen=True, slots=True)
class Measured:
    """One way on one seed's model, each half of the prompts measured at the dose that the other chose."""

    chosen: tuple[float, float]
    biases: dict[str, dict[str, Moved]]
    accuracy: Moved
    right: tuple[FloatArray, FloatArray]  # of every quality pair: the base model, and the way
    ties: int


def measured(one: Rewarded) -> Measured:
    curves = [curve_of(by_dose) for by_dose in one.by_dose]
    sums, codes = [prompt_sums(curve) for curve in curves], prompt_codes(curves[0])
    # The same prompts are drawn for all ways and seeds; the first draw is the prompts as they are.
    drawn = draw_prompts(codes.strata, np.random.default_rng(1), N_DRAWS)
    weights = np.vstack([np.ones((1, drawn.shape[1])), drawn])
    first = np.zeros(drawn.shape[1], dtype=bool)
    for row_ids, of_row in ((prompt_ids(voted()), codes.of_contrast), (prompt_ids(quality()), codes.of_quality)):
        first[of_row] = [row_id in first_half() for row_id in row_ids]
    rows, names = np.arange(len(weights)), curves[0].names
    totals: dict[str, dict[str, list[FloatArray]]] = {name: {} for name in [*names, "accuracy"]}
    chosen, right = [], np.zeros((2, len(quality())))
    for own, curve, here in zip(sums, curves, (first, ~first), strict=True):
        plain = np.full(len(weights), own.place(1.0))
        best = best_doses(own, weights * here, MAX_QUALITY_LOSS)[0] if one.chosen else plain
        chosen.append(float(own.doses[best[0]]))
        others = weights * ~here
        places = (np.full(len(weights), own.place(0.0)), best)
        for name, of_bias in zip(names, own.of_bias, strict=True):
            for key in ("skew_on_voted", "miscalibration", "signed_gap"):
                sides = np.stack([(others @ of_bias.of[key])[rows, place] for place in places])
                totals[name].setdefault(key, []).append(sides)
            totals[name].setdefault("n", []).append(others @ of_bias.n)
        totals["accuracy"].setdefault("right", []).append(
            np.stack([(others @ own.right)[rows, place] for place in places])
        )
        totals["accuracy"].setdefault("n", []).append(others @ own.n_quality)
        measured_here = ~here[codes.of_quality]
        assert curve.quality_margins is not None
        for side, dose in enumerate((0.0, chosen[-1])):
            right[side, measured_here] = hits_of(curve.quality_margins[[curve.doses.index(dose)]])[0][measured_here]
    biases = {}
    for name in names:
        n = np.array(totals[name]["n"])
        biases[name] = {
            key: _moved(np.sum(totals[name][key], axis=0) / n.sum(axis=0))
            for key in ("skew_on_voted", "miscalibration")
        }
        # Of each half alone: two that err to either side must not cancel.
        biases[name]["gap"] = _moved(np.abs(np.array(totals[name]["signed_gap"]) / n[:, None]).mean(axis=0))
    accuracy = _moved(np.sum(totals["accuracy"]["right"], axis=0) / np.sum(totals["accuracy"]["n"], axis=0))
    at_1 = curves[0].doses.index(1.0)
    assert curves[0].quality_margins is not None
    ties = int((curves[0].margins[at_1] == 0).sum() + (curves[0].quality_margins[at_1] == 0).sum())
    return Measured((chosen[0], chosen[1]), biases, accuracy, (right[0], right[1]), ties)


def curve_of(by_dose: Mapping[float, Scores]) -> DoseCurve:
    pairs = as_pairs(voted())
    return DoseCurve(
        tuple(by_dose),
        np.array([margins_of(rewards, pairs) for rewards in by_dose.values()]),
        people(),
        prompt_ids(voted()),
        np.array([margins_of(rewards, quality()) for rewards in by_dose.values()]),
        prompt_ids(quality()),
        tuple(contrast.bias for contrast in voted()),
        tuple(bias for bias in BIASES if bias not in TAUGHT),
    )


def _moved(sides: FloatArray) -> Moved:
    """Of (before, after) by draw, the prompts themselves first, shape (2, 1 + draws)."""
    return Moved(float(sides[0, 0]), float(sides[1, 0]), sides[0, 1:], sides[1, 1:])


def over_seeds(seeds: Sequence[Moved], n: int, n_prompts: int) -> Json:
    """Means over seeds, with intervals of the draws; every seed; and the seeds' standard deviation."""
    before, after = ([getattr(one, side) for one in seeds] for side in ("before", "after"))
    drawn = {side: np.mean([getattr(one, side) for one in seeds], axis=0) for side in ("drawn_before", "drawn_after")}
    change = np.subtract(after, before)
    level = partial(of_draws, n=n, n_prompts=n_prompts, unit="share")
    return {
        "before": to_jsonable_python(level(float(np.mean(before)), drawn["drawn_before"])),
        "after": to_jsonable_python(level(float(np.mean(after)), drawn["drawn_after"])),
        "change": to_jsonable_python(level(float(change.mean()), drawn["drawn_after"] - drawn["drawn_before"])),
        "by_seed": {"before": before, "after": after},
        "sd": {
            name: float(np.std(values, ddof=1)) if len(seeds) > 1 else None
            for name, values in (("before", before), ("after", after), ("change", change))
        },
    }


def mean_of_biases(biases: Sequence[Moved]) -> Moved:
    return Moved(
        float(np.mean([one.before for one in biases])),
        float(np.mean([one.after for one in biases])),
        np.mean([one.drawn_before for one in biases], axis=0),
        np.mean([one.drawn_after for one in biases], axis=0),
    )


def summary(of_seed: Mapping[int, Measured]) -> Json:
    """One way over the seeds that it was made on."""
    seeds = list(of_seed.values())
    ids = np.array(prompt_ids(voted()))
    rows = {bias: people().used & np.array([one.bias == bias for one in voted()]) for bias in BIASES}
    counts = {bias: (int(own.sum()), len(set(ids[own]))) for bias, own in rows.items()}
    of_taught = np.any([rows[bias] for bias in TAUGHT], axis=0)
    pooled_ids = prompt_ids(quality())
    return {
        "seeds": list(of_seed),
        "chosen": [one.chosen for one in seeds],
        "ties": [one.ties for one in seeds],
        "biases": {
            bias: {
                key: over_seeds([one.biases[bias][key] for one in seeds], *counts[bias])
                for key in ("gap", "skew_on_voted", "miscalibration")
            }
            for bias in BIASES
        },
        "taught_gap": over_seeds(
            [mean_of_biases([one.biases[bias]["gap"] for bias in TAUGHT]) for one in seeds],
            int(of_taught.sum()),
            len(set(ids[of_taught])),
        ),
        "accuracy": over_seeds([one.accuracy for one in seeds], len(pooled_ids), len(set(pooled_ids))),
        "by_set": {name: by_set(seeds, own) for name, own in sets().items()},
    }


def response(models: Sequence[Rewarded]) -> Json:
    """What each dose does on all rows, nothing chosen, mean over halves and seeds: skew of every bias, and accuracy."""
    found: Json = {}
    for dose in models[0].by_dose[0]:
        rewards = [by_dose[dose] for model in models for by_dose in model.by_dose]
        hits = [margins_of(one, as_pairs(voted())) > 0 for one in rewards]
        right = [margins_of(one, quality()) > 0 for one in rewards]
        own = {bias: people().used & np.array([one.bias == bias for one in voted()]) for bias in BIASES}
        found[f"{dose:g}"] = {bias: float(np.mean([one[rows] for one in hits])) for bias, rows in own.items()}
        found[f"{dose:g}"]["accuracy"] = float(np.mean(right))
    return found


def margins(models: Sequence[Rewarded]) -> Json:
    """Reward units, means over halves and seeds: how far margins of all contrasts spread before, and each bias's mean margin before and at
    dose 1. A target is a probability of the reward's own scale, so that it asks a margin of small spread to go many times as far."""
    found = {}
    for dose in (0.0, 1.0):
        own = [margins_of(by_dose[dose], as_pairs(voted())) for model in models for by_dose in model.by_dose]
        of_bias = {bias: np.array([one.bias == bias for one in voted()]) for bias in BIASES}
        found[f"{dose:g}"] = {bias: float(np.mean([one[rows].mean() for one in own])) for bias, rows in of_bias.items()}
        found[f"{dose:g}"]["sd"] = float(np.mean([one.std() for one in own]))
    return found


@cache
def sets() -> dict[str, FloatArray]:
    """Which of the quality pairs are of each set."""
    own = {one.name: {pair.id for pair in one.pairs} for one in quality_sets()}
    return {name: np.array([pair.id in ids for pair in quality()]) for name, ids in own.items()}


def by_set(seeds: Sequence[Measured], rows: FloatArray) -> Json:
    """Accuracy on one set; the intervals take the doses as given."""
    ids = list(compress(prompt_ids(quality()), rows))
    before, after = (np.mean([one.right[side][rows] for one in seeds], axis=0) for side in (0, 1))
    return {
        "before": to_jsonable_python(share_of(before, ids)),
        "after": to_jsonable_python(share_of(after, ids)),
        "change": to_jsonable_python(paired_change(before, after, ids)),
        "by_seed": [[float(one.right[side][rows].mean()) for side in (0, 1)] for one in seeds],
    }


def asked_of_people() -> dict[str, Estimate]:
    """People's share for the side with the bias."""
    found = {}
    for bias in BIASES:
        own = voted_contrasts(bias)
        found[bias] = human_skew(majority(count_votes([one.votes for one in own]), "drop"), prompt_ids(own))
    return found


def checks(ours: Json) -> list[Check]:
    taught, structure, accuracy = ours["taught_gap"], ours["biases"]["structure"]["gap"], ours["accuracy"]
    return [
        Check(
            "mean gap of jargon and length halved",
            f"{taught['before']['value']:.1%} → {taught['after']['value']:.1%} ({points(taught['change'])})",
            taught["after"]["value"] <= taught["before"]["value"] / 2,
        ),
        Check(
            f"structure, not taught: gap grows by {100 * MOST_GROWN:g} points at most",
            f"{structure['before']['value']:.1%} → {structure['after']['value']:.1%} ({points(structure['change'])})",
            structure["change"]["value"] <= MOST_GROWN,
        ),
        Check(
            f"accuracy: {100 * MOST_LOST:g} point lost at most",
            f"{accuracy['before']['value']:.1%} → {accuracy['after']['value']:.1%} ({points(accuracy['change'])}), "
            f"{accuracy['change']['n']} pairs of {accuracy['change']['n_prompts']} prompts",
            accuracy["change"]["value"] >= -MOST_LOST,
        ),
    ]


def points(one: Mapping[str, float]) -> str:
    """A change of shares with its interval, in percentage points."""
    return f"{100 * one['value']:+.1f} [{100 * one['low']:+.1f}, {100 * one['high']:+.1f}] points"


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n\n")[0])
    parser.add_argument("--work", type=Path, required=True, help="folder for the models, adapters and scores")
    parser.add_argument("--seeds", type=int, nargs="+", default=[1, 2, 3])
    parser.add_argument("--compared", type=int, nargs="*", help="seeds with the other trainings too (all)")
    parser.add_argument("--encoder", type=Path, help="folder of the encoder (MiniLM's)")
    parser.add_argument("--name", default="real_debias", help="name of the result")
    parser.add_argument("--prepare", action="store_true", help="train and score, and write no result")
    asked = parser.parse_args()
    if missing := missing_data():
        print(f"skipped: {DATA} holds no {', '.join(missing)}; set CDA_DATA")
        return SKIPPED
    compared = asked.seeds if asked.compared is None else asked.compared
    models = {seed: rewarded(seed, asked.work, seed in compared, asked.encoder) for seed in sorted(asked.seeds)}
    if asked.prepare:
        return 0
    names = dict.fromkeys(way for model in models.values() for way in model)
    ways = {
        way: summary({seed: measured(model[way]) for seed, model in models.items() if way in model}) for way in names
    }
    for way, one in ways.items():
        print(f"{way:10}", *(f"{key} {points(one[key]['change'])}" for key in ("taught_gap", "accuracy")), sep="  ")
    spec = base_model(asked.work / f"seed-{min(models)}", min(models), asked.encoder)
    numbers = {
        "command": f"python -m evals.real_data.real_debias --work FOLDER --seeds {' '.join(map(str, models))} --compared "
        + " ".join(map(str, compared))
        + (f" --name {asked.name} --encoder {asked.encoder.name}" if asked.encoder else ""),
        "n_seeds": len(models),
        "base": {
            "training": training_of(asked.encoder),
            "max_length_tokens": MAX_LENGTH_TOKENS,
            "pairs": len(alpaca_pairs("train")),
        },
        "settings": {
            "ours": settings(ours({}), spec),
            "paper": settings(PAPER, spec),
            "mixing": settings(MIXING, spec),
            "doses": DOSES,
        },
        "targets": [targets(half) for half in (0, 1)],
        "trained_on": {
            adapter.parent.name: trained_on(adapter)
            for model in models.values()
            for one in model.values()
            for adapter in one.trained
        },
        "quality_pairs": {name: int(rows.sum()) for name, rows in sets().items()},
        "people": to_jsonable_python(asked_of_people()),
        "ways": ways,
        "curve": response([model["ours"] for model in models.values()]),
        "margins": margins([model["ours"] for model in models.values()]),
    }
    claim = " ".join((__doc__ or "").split("\n\n")[0].removeprefix("Claim: ").split())
    return finish(asked.name, claim, checks(ways["ours"]), numbers)


if __name__ == "__main__":
    sys.exit(main())
