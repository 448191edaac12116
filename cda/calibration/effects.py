"""Effect of a calibration on votes that did not fit it: the prompts are split in two, each half corrects the other; and the
correction that all votes fit."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import compress

import numpy as np

from cda.arrays import FloatArray
from cda.calibration.fit import (
    Fit,
    Held,
    Problem,
    choose_strength,
    corrected_apart,
    fit_of,
)
from cda.dosing.choice import DoseCurve, OutOfFold, PromptNumbers, Rows
from cda.dosing.held_out import (
    Drawn,
    Resampled,
    covering,
    draw_prompts,
    halves,
    held_out_change,
    held_out_people,
    joined,
)
from cda.numbers.measures import VotedRows, of_people, sizes
from cda.numbers.people import row_values
from cda.records import Exclusions
from cda.results.base import BeforeAfter, Estimate
from cda.results.dose import CalibratedBias
from cda.stats.draws import Stream, generator
from cda.stats.estimators import paired_change, share_of
from cda.stats.proportions import hits_of
from cda.stats.votes import Majority

N_DRAWS = 500
SPLITS = 2
"""Splits of each draw; fewer than the estimate has, which widens intervals a little."""
_MAX_NUMBERS = 1 << 20  # draws × rows at a time


@dataclass(frozen=True, slots=True, eq=False)
class Effects:
    """Out-of-fold numbers, and the final correction: its strength, what each strength gains in squared error, the full fit, and fits on
    resampled prompts. `corrected`: margins out of fold, mean over repeats, shape (n,)."""

    biases: dict[str, CalibratedBias]
    quality: BeforeAfter | None
    prefers_first: BeforeAfter | None
    strengths: dict[str, Estimate]
    strength: float
    fit: Fit
    drawn: Fit
    corrected: FloatArray


def calibration_effects(
    problem: Problem, seed: int, repeats: int, max_loss: float, order_column: int | None = None
) -> Effects:
    """Choose a strength on all rows, and measure corrections of this strength out of fold (repeated 2-fold, split by prompt).

    Every number after calibration comes from corrections that the row's prompt had no part in, at the strength that is given out; gaps
    are computed on each half and averaged, as those of doses are. Intervals resample prompts, split and fit anew.
    `order_column`: the term that is 1 if the first side was shown first, −1 if it was not.
    """
    rng = generator(seed, Stream.INTERVALS)
    prompts = problem.prompts
    strength, gains = choose_strength(problem, repeats, rng, max_loss)
    ones = np.ones((repeats, len(prompts.strata)))
    first = halves(prompts.strata, ones, rng)
    held = corrected_apart(problem, prompts, ones, first, strength)
    weights = draw_prompts(prompts.strata, rng, N_DRAWS)
    drawn = _drawn(problem, prompts, weights, np.random.default_rng(int(rng.integers(2**63))), strength)
    biases = {bias: _bias(problem, prompts, bias, held, first, drawn[bias]) for bias in problem.names}
    return Effects(
        biases=biases,
        quality=_quality(problem, held, biases[problem.names[0]], drawn[problem.names[0]]),
        prefers_first=None if order_column is None else _prefers_first(problem, held, order_column),
        strengths={f"{tried:g}": gain.estimate for tried, gain in gains.items()},
        strength=strength,
        fit=fit_of(problem, prompts, ones[:1]),
        drawn=fit_of(problem, prompts, weights),
        corrected=held.margins.mean(axis=0),
    )


def _curve(problem: Problem, rows: Rows) -> DoseCurve:
    """Margins as they are, of one bias's rows with a majority; both doses are these."""
    people = problem.people
    kept = Majority(people.target[rows], np.ones(int(rows.sum()), dtype=bool), people.rule, Exclusions(0, {}))
    quality = problem.quality
    return DoseCurve(
        (0.0, 1.0),
        np.repeat(problem.contrasts.margins[None, rows], 2, axis=0),
        kept,
        list(compress(problem.contrasts.prompt_ids, rows)),
        np.repeat(quality.margins[None], 2, axis=0) if len(quality.margins) else None,
        quality.prompt_ids,
    )


def _bias(
    problem: Problem, prompts: PromptNumbers, bias: str, held: Held, first: Rows, drawn: Resampled
) -> CalibratedBias:
    rows = problem.rows_of(bias)
    curve, ties = _curve(problem, rows), problem.ties
    quality = held.quality if len(problem.quality.margins) else None
    out = OutOfFold(held.margins[:, rows], quality, first[:, prompts.of_contrast[rows]], np.empty(0))
    after = held_out_people(curve, out.margins, out, drawn.dose, ties=ties)
    base = held_out_people(curve, curve.margins[:1], out, drawn.base, fixed=True, ties=ties)
    change = held_out_change(curve, 0.0, out, drawn, (base, after), ties)
    return CalibratedBias(base=base, calibrated=after, change=change)


def _quality(problem: Problem, held: Held, any_bias: CalibratedBias, drawn: Resampled) -> BeforeAfter | None:
    change = any_bias.change.get("accuracy")
    if change is None:
        return None
    ids = problem.quality.prompt_ids
    after = share_of(hits_of(held.quality, problem.ties).mean(axis=0), ids)
    return BeforeAfter(
        before=share_of(hits_of(problem.quality.margins, problem.ties), ids),
        after=covering(after, drawn.dose["accuracy"]),
        change=change,
    )


def _prefers_first(problem: Problem, held: Held, column: int) -> BeforeAfter:
    """Share of all pairs in which the text shown first is preferred, as the scorer is and corrected out of fold."""
    sides = ((problem.contrasts, held.margins), (problem.quality, held.quality))
    places = np.concatenate([rows.terms[:, column] for rows, _ in sides])
    ids = [name for rows, _ in sides for name in rows.prompt_ids]
    before = hits_of(np.concatenate([rows.margins for rows, _ in sides]) * places, problem.ties)
    after = hits_of(np.concatenate([corrected for _, corrected in sides], axis=1) * places, problem.ties).mean(axis=0)
    return BeforeAfter(
        before=share_of(before, ids), after=share_of(after, ids), change=paired_change(before, after, ids)
    )


def _drawn(
    problem: Problem, prompts: PromptNumbers, weights: FloatArray, rng: np.random.Generator, strength: float
) -> dict[str, Resampled]:
    """The whole procedure on resampled prompts: what each bias measures, as it is and corrected, on the same halves."""
    step = max(1, _MAX_NUMBERS // (len(problem.contrasts.margins) + len(problem.quality.margins)))
    parts: dict[str, list[list[Drawn]]] = {bias: [] for bias in problem.names}
    for at in range(0, len(weights), step):
        here = weights[at : at + step]
        splits = [halves(prompts.strata, here, rng) for _ in range(SPLITS)]
        held = [corrected_apart(problem, prompts, here, first, strength) for first in splits]
        for bias in problem.names:
            parts[bias].append(list(_measures(problem, prompts, bias, here, splits, held)))
    drawn = {bias: tuple(map(joined, zip(*chunks, strict=True))) for bias, chunks in parts.items()}
    return {bias: Resampled(corrected, as_it_is, as_it_is) for bias, (corrected, as_it_is) in drawn.items()}


def _measures(
    problem: Problem, prompts: PromptNumbers, bias: str, weights: FloatArray, splits: list[Rows], held: list[Held]
) -> Iterator[Drawn]:
    """Of one bias in some draws: corrected, then as the scorer is."""
    rows = problem.rows_of(bias)
    of_row, target = prompts.of_contrast[rows], problem.people.target[rows]
    own, quality_weights = weights[:, of_row], weights[:, prompts.of_quality]
    quality = problem.quality.margins
    as_it_is = [Held(problem.contrasts.margins[None], quality[None])] * len(held)
    for scored in (held, as_it_is):
        margins = [part.margins[:, rows] for part in scored]
        voted = [VotedRows(each, hits_of(each, problem.ties), target, ()) for each in margins]
        found = {
            key: _average(own, np.mean([row_values(measure, split) for split in voted], axis=0))
            for key, measure in of_people(rows=True).items()
        }
        for key, measure in sizes().items():
            halves_of = ((split, half) for split, first in zip(voted, splits, strict=True) for half in (first, ~first))
            means = [_average(own * half[:, of_row], row_values(measure, split)) for split, half in halves_of]
            found[key] = np.stack(means, axis=1)
        if len(quality):
            right = np.mean([hits_of(part.quality, problem.ties) for part in scored], axis=0)
            found["accuracy"] = _average(quality_weights, right)
        yield found


def _average(weights: FloatArray, values: FloatArray) -> FloatArray:
    """Weighted means over the rows, shape (draws,); NaN for a draw without any."""
    with np.errstate(invalid="ignore"):
        return np.asarray((weights * values).sum(axis=1) / weights.sum(axis=1))
