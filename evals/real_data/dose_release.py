"""Claim: a dose chosen by people's votes, measured on votes that had no say in it, lets released models disagree with people less than
no training does, and on average no more than plain CDA; from released scores alone.

Thresholds, over everything released: the paired 95% interval of miscalibration lies below no training's; miscalibration and per-model
gap are at most plain CDA's in the mean. The gap is |skew − human skew| on one held-out half at a time, averaged; base and plain CDA are
taken on the same halves. An advantage is claimed only where its interval excludes 0, and the result says for each where it does not:
on the release at hand neither less miscalibration nor a smaller gap than plain CDA's is shown, nor a smaller gap than no training's.
On jargon, length and structure with models 2B, 3B and 8B a simple grid search gives 27.7% and 3.4 points, where base and plain CDA must
come out at 34.2 and 28.1%, 15.6 and 6.9 points: no worse by more than 0.3 points. These gaps pool the 50 repeats, so that choices
to either side of people cancel: they say what choosing leaves on average, and not what one choice leaves. Scores are mixed:
margin(λ) = (1 − λ)·before + λ·after, λ in quarters from 0 to 2.5, chosen by 50 × 2-fold cross-validation split by prompt, ties towards 1.
Majorities are the labels as released.

    python -m evals.real_data.dose_release --release ../shared/data/fff      (half a minute)
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from pydantic_core import to_jsonable_python

from cda.dosing.choice import DOSES, MAX_QUALITY_LOSS, REPEATS, DoseCurve, on_halves, out_of_fold, prompt_codes
from cda.dosing.held_out import Drawn, cross_validated_doses, draw_prompts, held_out_people, resampled_choices
from cda.records import TieRule
from cda.results.dose import ByMeasure
from cda.stats.votes import Majority, count_votes, majority
from evals.real_data import release as fff
from evals.shared import DATA, SKIPPED, Check, finish

FloatArray = NDArray[np.float64]
PROCEDURES = ("base", "plain", "dose")
MEASURES = ("miscalibration", "gap_per_model", "gap_of_the_mean", "gap_per_model_pooled", "gap_of_the_mean_pooled")
POOLED = (
    "gaps without 'pooled': |skew − human skew| of one held-out half at a time, averaged over halves and repeats; the result. "
    "pooled: |mean of a row's out-of-fold hits − human skew|, both halves and all repeats put together, in which choices to either "
    "side of people cancel; for comparison with the grid search alone"
)
KNOWN = {("jargon", "750_3"), ("length", "1000_3"), ("structure", "750_3")}
KNOWN_SIZES = ("2B", "3B", "8B")
EXPECTED = {"base": (0.342, 0.156), "plain": (0.281, 0.069)}
"""Miscalibration and per-model gap, pooled, as mean over the known biases and models."""
GRID_SEARCH = (0.277, 0.034)
SLACK, ROUNDING = 0.003, 0.0005
FINER = (0.5, 0.25, 0.1, 0.05)
SEEDS = (0, 1, 2, 3, 4)


@dataclass(frozen=True, slots=True)
class Voted:
    """The items of one bias that all its models scored, before and after.

    Attributes:
        scores: Model size to margins before and after, each of shape (n,).
        n_unscored: Items that one of the models did not score.
    """

    bias: str
    run: str
    ids: list[str]
    people: Majority
    scores: dict[str, tuple[FloatArray, FloatArray]]
    n_unscored: int

    def curves(self, doses: Sequence[float] = DOSES) -> dict[str, DoseCurve]:
        return {
            size: DoseCurve((0.0, 1.0), np.array(both), self.people, self.ids).mixed(doses)
            for size, both in self.scores.items()
        }


@dataclass(frozen=True, slots=True)
class Cell:
    """One bias and model: hits on the items with a majority under every procedure, as a mean over repeats."""

    bias: str
    target: FloatArray
    margins: dict[str, FloatArray]
    """Procedure to margins, shape (repeats, n); base and plain CDA are the same in every repeat."""
    first_half: NDArray[np.bool_]


def read_voted(release: Path, bias: str, rule: TieRule, missing: list[str]) -> Voted | None:
    """Votes and scores of a bias; what is not there is named in `missing`."""
    run, files, pairs = fff.headline_run(release, bias), fff.score_files(release, bias), fff.items(release, bias)
    base, tuned = files.get("base", {}), files.get(run, {})
    missing += [f"{bias} {size}: no base scores" for size in tuned if size not in base]
    missing += [f"{bias} {size}: no fine-tuned scores" for size in base if size not in tuned]
    scores = {}
    for size in [size for size in base if size in tuned]:
        both = fff.margins(pairs, base[size]), fff.margins(pairs, tuned[size])
        if np.isfinite(both).all(axis=0).any():
            scores[size] = both
        else:
            missing.append(f"{bias} {size}: its scores are of none of the items that people voted on")
    if not scores:
        missing.append(f"{bias}: votes, but no model with base and fine-tuned scores")
        return None
    kept = np.isfinite(np.array(list(scores.values()))).all(axis=(0, 1))
    if not kept.any():
        missing.append(f"{bias}: no item was scored by all of {', '.join(scores)}")
        return None
    items = [pair for pair, keep in zip(pairs, kept, strict=True) if keep]
    votes, released = count_votes([one.votes for one in items]), [one.side(one.released) for one in items]
    people = majority(votes, rule, released)
    margins = {size: (before[kept], after[kept]) for size, (before, after) in scores.items()}
    return Voted(bias, run, [one.query for one in items], people, margins, int((~kept).sum()))


def bias_numbers(voted: Voted) -> dict[str, Any]:
    """Every model of a bias, and the mean over its models, under the three procedures."""
    people, curves = voted.people, voted.curves()
    fixed = {
        name: [replace(one, margins=np.tile(one.margins_at(at), (len(DOSES), 1))) for one in curves.values()]
        for name, at in (("base", 0.0), ("plain", 1.0))
    }
    return {
        "run": voted.run,
        "n": int(people.used.sum()),
        "not_counted": people.exclusions.reasons,
        "items_without_score": voted.n_unscored,
        "models": {
            size: cross_validated_doses(curve, rng()).model_dump(mode="json", exclude={"response"})
            for size, curve in curves.items()
        },
        "mean_of_models": {
            name: to_jsonable_python(held_out_mean(models))
            for name, models in (*fixed.items(), ("dose", list(curves.values())))
        },
    }


def held_out_mean(curves: Sequence[DoseCurve]) -> ByMeasure:
    """Held-out mean over models on the same rows and halves, each at doses of its own; the gap is that of their mean skew."""
    generator = rng()
    splits = int(generator.integers(2**63))  # the same splits for every model
    held = [out_of_fold(curve, rng(splits)) for curve in curves]
    weights, seed = draw_prompts(prompt_codes(curves[0])[2], generator), int(generator.integers(2**63))
    drawn = [resampled_choices(curve, weights, rng(seed), MAX_QUALITY_LOSS)[0].dose for curve in curves]
    of_mean = {key: np.mean([model[key] for model in drawn], axis=0) for key in drawn[0]}
    return held_out_people(curves[0], np.concatenate([model.margins for model in held]), held[0], of_mean)


def cells(everyone: Sequence[Voted], doses: Sequence[float] = DOSES, seed: int = 0) -> list[Cell]:
    """One cell for each bias and model."""
    found = []
    for voted in everyone:
        used = voted.people.used
        for curve in voted.curves(doses).values():
            held = out_of_fold(curve, rng(seed))  # the same halves for every model
            fixed = {
                name: np.tile(curve.margins_at(at)[used], (REPEATS, 1)) for name, at in (("base", 0), ("plain", 1))
            }
            margins = {**fixed, "dose": held.margins[:, used]}
            found.append(Cell(voted.bias, voted.people.target[used], margins, held.first_half[:, used]))
    return found


def whole_table(everyone: Sequence[Voted], table: Sequence[Cell]) -> dict[str, Any]:
    """Means over biases and models for base, plain CDA and dose, and the dose's change from the other two.

    For intervals prompts are drawn across biases, and the doses chosen anew in every draw.
    """
    drawn = _drawn(everyone)
    of_bias = np.array([[cell.bias == voted.bias for voted in everyone] for cell in table], float)
    found: dict[str, Any] = {"n_cells": len(table), "n": sum(int(voted.people.used.sum()) for voted in everyone)}
    for measure in MEASURES:
        values = {name: _over_cells(measure, _of_cells(table, name), of_bias) for name in PROCEDURES}
        draws = {name: _over_cells(measure, drawn[name], of_bias) for name in PROCEDURES}
        found[measure] = {name: _interval(values[name], draws[name]) for name in PROCEDURES} | {
            f"dose − {name}": _interval(values["dose"] - values[name], draws["dose"] - draws[name])
            for name in ("base", "plain")
        }
    found["gaps"] = POOLED
    found["intervals"] = (
        "95% over draws; an absolute value drawn anew is larger on average than it is, so that those of gaps lie high"
    )
    found["shown"] = {
        f"{measure}, against {name}": _shown(found[measure][f"dose − {name}"])
        for measure in MEASURES[:3]
        for name in ("base", "plain")
    }
    found["gap_per_model_of_one_choice"] = {
        "note": "root mean square of each half's gap with the variance of its rows' noise taken off; None where noise explains "
        "all of it. No intervals",
        **{name: _of_one_choice(table, name) for name in PROCEDURES},
    }
    return found


@dataclass(frozen=True, slots=True)
class Cells:
    """What a procedure gives in every cell: miscalibration and signed gap, shape (draws, cells), and that of each half."""

    missed: FloatArray
    signed: FloatArray
    half_gaps: FloatArray  # (draws, halves, cells)


def _drawn(everyone: Sequence[Voted]) -> dict[str, Cells]:
    """Every procedure in every draw."""
    names = np.unique([name for voted in everyone for name in voted.ids])
    weights = draw_prompts(np.zeros(len(names), dtype=np.int64), rng())
    found = [
        resampled_choices(curve, weights[:, np.searchsorted(names, np.unique(voted.ids))], rng(), 0.0)[0]
        for voted in everyone
        for curve in voted.curves().values()
    ]

    def stacked(all_of: Sequence[Drawn]) -> Cells:
        parts = ([one[name] for one in all_of] for name in ("miscalibration", "signed_gap", "gap"))
        return Cells(*(np.stack(part, axis=-1) for part in parts))

    return {name: stacked([getattr(one, name) for one in found]) for name in PROCEDURES}


def _of_cells(table: Sequence[Cell], procedure: str) -> Cells:
    """A procedure as it was measured: one draw."""
    excess = [(one.margins[procedure] > 0) - one.target for one in table]
    halves = [on_halves((one.margins[procedure] > 0) - one.target, one.first_half).ravel() for one in table]
    missed, signed = [np.abs(one).mean() for one in excess], [one.mean() for one in excess]
    return Cells(np.array([missed]), np.array([signed]), np.stack(halves, axis=-1)[None])


def _over_cells(measure: str, found: Cells, of_bias: FloatArray) -> FloatArray:
    """Mean over cells, or over biases of the mean model's gap. Shape (draws,)."""
    if measure == "miscalibration":
        return np.asarray(found.missed.mean(axis=1))
    gaps = found.signed[:, None] if measure.endswith("pooled") else found.half_gaps
    if measure.startswith("gap_of_the_mean"):
        gaps = gaps @ (of_bias / of_bias.sum(axis=0))
    return np.asarray(np.nanmean(np.abs(gaps), axis=(1, 2)))


def _interval(value: FloatArray, draws: FloatArray) -> dict[str, float]:
    low, high = np.quantile(draws, (0.025, 0.975))
    return {
        "value": float(value[0]),
        "low": min(float(low), float(value[0])),
        "high": max(float(high), float(value[0])),
    }


def _shown(change: dict[str, float]) -> str:
    """Verdict on the dose in words: shown to be better or worse."""
    if change["low"] <= 0 <= change["high"]:
        return f"{_row(change)} points: no difference is shown"
    return f"{_row(change)} points: the dose is {'better' if change['high'] < 0 else 'worse'}"


def point(table: Sequence[Cell], procedure: str) -> tuple[float, float, float]:
    """Miscalibration, per-model gap pooled and per-model gap on halves, means over cells."""
    found = _of_cells(table, procedure)
    return float(found.missed.mean()), float(np.abs(found.signed).mean()), float(np.abs(found.half_gaps).mean())


def tried(known: Sequence[Voted], dropped: Sequence[Voted]) -> dict[str, Any]:
    """Other grids and seeds, and majorities recomputed with ties left out: how far the result depends on them."""
    grids = {f"step {step:g}": np.arange(round(2.5 / step) + 1) * step for step in FINER}
    result = {
        name: {f"seed {seed}": point(cells(known, doses, seed), "dose") for seed in SEEDS}
        for name, doses in grids.items()
    }
    recomputed = cells(dropped)
    result["majorities recomputed"] = {name: point(recomputed, name) for name in PROCEDURES}
    return {"order": "miscalibration, per-model gap pooled, per-model gap on halves", **result}


def whole_checks(whole: dict[str, Any]) -> list[Check]:
    change = whole["miscalibration"]["dose − base"]
    what = "everything released: miscalibration of the dose below no training's"
    checks = [Check(what, whole["shown"]["miscalibration, against base"], change["high"] < 0)]
    for measure, name in (("miscalibration", "miscalibration"), ("gap_per_model", "per-model gap on held-out halves")):
        dose, plain = (whole[measure][one]["value"] for one in ("dose", "plain"))
        said = f"{100 * dose:.1f} against {100 * plain:.1f}; {whole['shown'][f'{measure}, against plain']}"
        checks.append(Check(f"everything released: {name} of the dose at most plain CDA's", said, dose <= plain))
    return checks


def known_checks(table: Sequence[Cell]) -> list[Check]:
    checks = []
    for name, expected in EXPECTED.items():
        found = point(table, name)[:2]
        near = all(abs(one - other) <= ROUNDING for one, other in zip(found, expected, strict=True))
        checks.append(Check(f"{name}: miscalibration and per-model gap {_said(expected)}", _said(found), near))
    found = point(table, "dose")[:2]
    good = all(one <= limit + SLACK for one, limit in zip(found, GRID_SEARCH, strict=True))
    limits = f"{_said(GRID_SEARCH)} pooled over repeats, each by 0.3 points at most"
    return [*checks, Check(f"dose, held out: at most {limits}", _said(found), good)]


def rng(seed: int = 0) -> np.random.Generator:
    return np.random.default_rng(seed)


def _of_one_choice(table: Sequence[Cell], procedure: str) -> float | None:
    squares = []
    for cell in table:
        excess = (cell.margins[procedure] > 0) - cell.target
        for half in (cell.first_half, ~cell.first_half):
            n = half.sum(axis=1)
            gap = (excess * half).sum(axis=1) / n
            variance = (excess**2 * half).sum(axis=1) / n - gap**2
            squares.append((gap**2 - variance / (n - 1)).mean())
    square = float(np.mean(squares))
    return square**0.5 if square > 0 else None


def _said(both: tuple[float, float]) -> str:
    return f"{100 * both[0]:.1f}% and {100 * both[1]:.1f} points"


def _row(one: dict[str, float]) -> str:
    return f"{100 * one['value']:.1f} [{100 * one['low']:.1f}, {100 * one['high']:.1f}]"


def show(numbers: dict[str, Any]) -> None:
    for bias, found in numbers["biases"].items():
        for size, one in found["models"].items():
            doses = ", ".join(f"{dose}: {part:.0%}" for dose, part in one["shares"].items() if part >= 0.05)
            held = one["held_out"][""]
            parts = [held["base"], held["plain"], held["people"]]
            said = [
                " / ".join(f"{100 * part[name]['value']:.1f}" for part in parts) for name in ("miscalibration", "gap")
            ]
            print(
                f"  {bias} {size}: miscalibration {said[0]}, gap {said[1]}; λ {one['chosen']:g} (halves chose {doses})"
            )
    for measure in MEASURES:
        print(f"  {measure}, mean of {numbers['whole']['n_cells']} cells")
        for name, found in numbers["whole"][measure].items():
            print(f"    {name:<13} {_row(found)}")
    for measure, said in numbers["whole"]["shown"].items():
        print(f"  {measure}: {said}")
    for line in numbers["missing"]:
        print(f"  missing: {line}")


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n\n")[0])
    parser.add_argument("--release", type=Path, default=DATA / "fff", help="folder in the release's layout")
    release = parser.parse_args().release
    biases = fff.biases(release)
    if not biases:
        print(f"skipped: {release} holds no human_annotation_data; set CDA_DATA or give --release")
        return SKIPPED
    missing: list[str] = []
    everyone = [one for bias in biases if (one := read_voted(release, bias, "as-released", missing))]
    if not everyone:
        print("skipped: " + "; ".join(missing))
        return SKIPPED
    unvoted = {path.name for path in (release / "data" / "fine_tuned_model_scores").glob("*")} - set(biases)
    missing += [f"{bias}: scores, but no votes" for bias in sorted(unvoted) if "base" in fff.score_files(release, bias)]
    table = cells(everyone)
    numbers: dict[str, Any] = {
        "command": "python -m evals.real_data.dose_release --release DIR",
        "doses": DOSES,
        "repeats": REPEATS,
        "procedures": {"base": "λ = 0", "plain": "plain CDA, λ = 1", "dose": "λ by cross-validation, held out"},
        "n_missing": len(missing),
        "missing": missing,
        "biases": {voted.bias: bias_numbers(voted) for voted in everyone},
        "whole": whole_table(everyone, table),
    }
    show(numbers)
    checks = whole_checks(numbers["whole"])
    known = _known(everyone)
    if known:
        checks += known_checks(cells(known))
        again = [read_voted(release, one.bias, "drop", []) for one in known]
        numbers["tried"] = tried(known, _known([one for one in again if one]))
    return finish("dose_release", (__doc__ or "").split("\n\n")[0].replace("\n", " "), checks, numbers)


def _known(everyone: Sequence[Voted]) -> list[Voted]:
    """The runs and sizes of which numbers are known; none unless all of them are there."""
    found = [one for one in everyone if (one.bias, one.run) in KNOWN and set(KNOWN_SIZES) <= set(one.scores)]
    if len(found) < len(KNOWN):
        return []
    return [
        Voted(one.bias, one.run, one.ids, one.people, {size: one.scores[size] for size in KNOWN_SIZES}, one.n_unscored)
        for one in found
    ]


if __name__ == "__main__":
    sys.exit(main())
