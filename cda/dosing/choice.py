"""The dose of a debiasing adapter: its dose–response curve, and the dose that people's votes choose."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import compress
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from cda.arrays import FloatArray
from cda.errors import DataError
from cda.numbers.measures import VotedRows, of_people
from cda.numbers.people import against_people, row_values
from cda.results.dose import DosePoint
from cda.stats.estimators import paired_change
from cda.stats.proportions import hits_of, positive_share
from cda.stats.verdict import PROMPTS_TO_CHOOSE, TOLERATED_LOSS
from cda.stats.votes import Majority

Rows = NDArray[np.bool_]
Codes = NDArray[np.int64]
DOSES = tuple(step / 4 for step in range(11))
"""0 (the base model) to 2.5 in quarters; 1 is plain CDA."""
MAX_QUALITY_LOSS = 0.01
"""Accuracy on quality pairs that a dose may lose against dose 0, as a share."""
REPEATS = 50
MIN_PROMPTS = PROMPTS_TO_CHOOSE
"""Prompts that a choice needs, with a majority and with quality pairs: of two halves, each must tell a gap of 30 points
from none, and a share of ten prompts has a standard error of 16 points at most."""
DECIMALS = 9  # doses that differ by rounding alone are tied


@dataclass(frozen=True, slots=True)
class DoseCurve:
    """Margins of the same n rows, and m quality pairs, at every dose λ, in reward units, with people's majorities.

    `doses` ascend, with 0 (base model) and 1 (plain CDA) among them, length k. `margins`: score(perturbed) −
    score(base), shape (k, n). `quality_margins`: score(chosen) − score(rejected), shape (k, m); None without any.
    Prompts are clusters. Several `biases` (empty: all rows are of one) weigh the same, and gaps of opposite sign do not
    cancel. `guards` are those of `biases` that were not taught: they choose no dose, and bar those that move them away from people.
    """

    doses: tuple[float, ...]
    margins: FloatArray
    people: Majority
    prompt_ids: Sequence[str]
    quality_margins: FloatArray | None = None
    quality_prompt_ids: Sequence[str] = ()
    biases: tuple[str, ...] = ()
    guards: tuple[str, ...] = ()

    @property
    def names(self) -> list[str]:
        """Names of the biases, in alphabetical order; an empty one if all rows are of one."""
        return sorted(set(self.biases)) or [""]

    def rows_of(self, bias: str) -> Rows:
        """True for the contrasts of a bias. Shape (n,)."""
        return np.array([name == bias for name in self.biases or [""] * len(self.prompt_ids)], dtype=bool)

    def of(self, bias: str) -> DoseCurve:
        """The contrasts of one bias, as a curve of one."""
        rows, people = self.rows_of(bias), self.people
        return replace(
            self,
            margins=self.margins[:, rows],
            people=replace(people, target=people.target[rows], used=people.used[rows]),
            prompt_ids=list(compress(self.prompt_ids, rows)),
            biases=(),
            guards=(),
        )

    def margins_at(self, dose: float) -> FloatArray:
        """Margins of the contrasts at one of the doses. Shape (n,)."""
        return np.asarray(self.margins[self.doses.index(dose)], dtype=np.float64)

    def mixed(self, doses: Sequence[float]) -> DoseCurve:
        """Curve from the scores at 0 and 1 alone: margin(λ) = (1 − λ) · margin(0) + λ · margin(1). Scaling the
        adapter's weights by λ gives another curve wherever scores are not linear in them.
        """
        at, base, plain = np.asarray(doses, dtype=np.float64), self.doses.index(0.0), self.doses.index(1.0)

        def mix(margins: FloatArray) -> FloatArray:
            return np.asarray((1 - at)[:, None] * margins[base] + at[:, None] * margins[plain])

        quality = None if self.quality_margins is None else mix(self.quality_margins)
        return replace(self, doses=tuple(at.tolist()), margins=mix(self.margins), quality_margins=quality)


@dataclass(frozen=True, slots=True)
class Choice:
    """The dose that some rows choose, and the doses that lose more quality than allowed on these rows."""

    dose: float
    barred: tuple[float, ...]


def dose_response(curve: DoseCurve) -> tuple[DosePoint, ...]:
    """Every dose against people, and its change of quality."""
    points = []
    for at, dose in enumerate(curve.doses):
        quality = change = None
        if curve.quality_margins is not None:
            base, here, ids = curve.quality_margins[0], curve.quality_margins[at], curve.quality_prompt_ids
            quality = positive_share(here, ids)
            change = paired_change(base > 0, here > 0, ids) if at else None
        measured = against_people(curve.margins[at], curve.people, curve.prompt_ids)
        points.append(DosePoint(dose=dose, people=measured, quality=quality, quality_change=change))
    return tuple(points)


@dataclass(frozen=True, slots=True)
class ContrastSums:
    """Sums over each prompt's contrasts of one bias with a majority, by measure that is a mean over them; `accuracy` over quality pairs."""

    n: FloatArray  # (prompts,)
    of: Mapping[str, FloatArray]  # (prompts, doses)


@dataclass(frozen=True, slots=True)
class PromptSums:
    """Sums over each prompt's rows, in which prompts can be weighted: all that a choice rests on. Doses stand in order of
    preference: from the one nearest to 1 outwards; of two as near, the smaller first."""

    doses: FloatArray
    of_bias: tuple[ContrastSums, ...]
    guards: tuple[bool, ...]  # which of them only bar doses
    n_quality: FloatArray  # (prompts,)
    right: FloatArray  # quality pairs ranked right, (prompts, doses)

    def place(self, dose: float) -> int:
        return int(np.flatnonzero(self.doses == dose)[0])


def prompt_sums(curve: DoseCurve) -> PromptSums:
    """Sums of a curve by prompt, in the order of `prompt_codes`; of each bias, in alphabetical order."""
    doses, people = np.array(curve.doses), curve.people
    order = np.lexsort((doses, np.round(np.abs(doses - 1), DECIMALS)))
    of_contrast, of_quality, strata = prompt_codes(curve)

    def by_prompt(rows: FloatArray, of_row: Codes) -> FloatArray:
        sums = np.zeros((len(strata), rows.shape[1]))
        np.add.at(sums, of_row, rows)
        return sums

    def counts(of_row: Codes) -> FloatArray:
        return np.bincount(of_row, minlength=len(strata)).astype(np.float64)

    quality = np.zeros((len(order), 0)) if curve.quality_margins is None else curve.quality_margins[order]
    right = by_prompt((quality > 0).T.astype(np.float64), of_quality)
    accuracy = {} if curve.quality_margins is None else {"accuracy": right}

    def contrasts(used: Rows) -> ContrastSums:
        margins, at = curve.margins[order][:, used], of_contrast[used]
        voted = VotedRows(margins, hits_of(margins), people.target[used], list(compress(curve.prompt_ids, used)))
        rows = {key: row_values(measure, voted) for key, measure in of_people(rows=True).items()}
        return ContrastSums(counts(at), {key: by_prompt(values.T, at) for key, values in rows.items()} | accuracy)

    of_bias = [people.used & curve.rows_of(bias) for bias in curve.names]
    guards = tuple(bias in curve.guards for bias in curve.names)
    sums = tuple(map(contrasts, of_bias))
    return PromptSums(doses[order], sums, guards, counts(of_quality), right)


def best_doses(sums: PromptSums, weights: FloatArray | Rows, max_quality_loss: float) -> tuple[Codes, Rows]:
    """The dose of least miscalibration + gap, in the mean over taught biases, among those that keep quality and leave the miscalibration of
    every guard within `TOLERATED_LOSS` of that at dose 0, and 0, always allowed. Ties go to the dose nearest to 1, then to the smaller. By draw, with `weights` of the prompts of shape (draws,
    prompts): its place in `sums.doses`, shape (draws,), and the doses that lose too much quality, shape (draws, doses).
    """
    base = sums.place(0.0)
    with np.errstate(invalid="ignore", divide="ignore"):
        losses, away = [], np.zeros((len(weights), len(sums.doses)), dtype=bool)
        for contrasts, guards in zip(sums.of_bias, sums.guards, strict=True):
            n = (weights @ contrasts.n)[:, None]
            missed = (weights @ contrasts.of["miscalibration"]) / n
            if guards:  # a draw without its contrasts bars nothing
                away |= np.round(missed - missed[:, [base]], DECIMALS) > TOLERATED_LOSS
            else:
                losses.append(missed + np.abs((weights @ contrasts.of["signed_gap"]) / n))
        # A draw may leave a half without a contrast of one bias; then the others choose.
        n_chosen = np.sum([np.isfinite(loss) for loss in losses], axis=0)
        objective = np.round(np.sum([np.nan_to_num(loss, nan=0.0) for loss in losses], axis=0) / n_chosen, DECIMALS)
        right = (weights @ sums.right) / (weights @ sums.n_quality)[:, None]
    barred = np.round(right[:, [base]] - right, DECIMALS) > max_quality_loss  # without quality pairs, 0/0 bars nothing
    return np.where(barred | away, np.inf, objective).argmin(axis=1), barred


def choose_dose(curve: DoseCurve, max_quality_loss: float = MAX_QUALITY_LOSS) -> Choice:
    """The choice of `best_doses` on all rows."""
    sums = prompt_sums(curve)
    [best], [barred] = best_doses(sums, np.ones((1, len(sums.n_quality))), max_quality_loss)
    return Choice(float(sums.doses[best]), tuple(sorted(sums.doses[barred].tolist())))


@dataclass(frozen=True, slots=True)
class OutOfFold:
    """Margins at doses chosen without the row, reward units, shape (repeats, n); of quality pairs (repeats, m) or None.
    `first_half`: True for contrasts of that half, shape (repeats, n); `chosen`: λ of either half, shape (repeats, 2).
    """

    margins: FloatArray
    quality_margins: FloatArray | None
    first_half: Rows
    chosen: FloatArray


def out_of_fold(
    curve: DoseCurve, rng: np.random.Generator, repeats: int = REPEATS, max_quality_loss: float = MAX_QUALITY_LOSS
) -> OutOfFold:
    """Split the prompts in two, choose a dose on each half, apply it to the other; `repeats` times.

    A prompt's contrasts and quality pairs are always on one side. Prompts with a majority, and prompts with quality
    pairs, are each split evenly. DataError: fewer than `MIN_PROMPTS` of either, if there are any of the latter.
    """
    check_enough(curve)
    of_contrast, of_quality, strata = prompt_codes(curve)
    first, sums = np.array([_half(strata, rng) for _ in range(repeats)]), prompt_sums(curve)
    chosen = np.stack([sums.doses[best_doses(sums, half, max_quality_loss)[0]] for half in (first, ~first)], axis=1)
    at = np.searchsorted(curve.doses, chosen)

    def at_other(margins: FloatArray, of_row: Codes) -> FloatArray:
        return np.take_along_axis(margins, np.where(first[:, of_row], at[:, [1]], at[:, [0]]), axis=0)

    quality = None if curve.quality_margins is None else at_other(curve.quality_margins, of_quality)
    return OutOfFold(at_other(curve.margins, of_contrast), quality, first[:, of_contrast], chosen)


def on_halves(rows: FloatArray, first_half: Rows) -> FloatArray:
    """Mean over rows, such as of hits − people's, on each half alone, shape (repeats, 2); NaN for a half without rows. Shapes: (repeats, n), or
    (n,).

    Rows of both halves must not be put together before the size is taken: if a half ends above people's skew, the dose
    that it chooses lies too low for the other half, and the two would cancel.
    """
    with np.errstate(invalid="ignore"):
        return np.stack([(rows * half).sum(axis=1) / half.sum(axis=1) for half in (first_half, ~first_half)], axis=1)


def mean_size(gaps: FloatArray) -> FloatArray:
    """Mean of |gap| over the last axis, without halves that held no row; NaN if none held any."""
    there = np.isfinite(gaps)
    with np.errstate(invalid="ignore"):
        return np.asarray(np.where(there, np.abs(gaps), 0.0).sum(axis=-1) / there.sum(axis=-1))


class PromptNumbers(NamedTuple):
    """Number of the prompt of each contrast and of each quality pair; per prompt 2 with a majority, + 1 with pairs."""

    of_contrast: Codes
    of_quality: Codes
    strata: Codes


def prompts_of(contrasts: Sequence[str], used: Rows, quality: Sequence[str]) -> PromptNumbers:
    """Prompts by the ids of contrasts, which of them have a majority, and the ids of quality pairs: rows of one stay together."""
    names, of_row = np.unique(np.asarray([*contrasts, *quality], dtype=str), return_inverse=True)
    of_contrast, of_quality = np.split(of_row.astype(np.int64), [len(contrasts)])
    voted, checked = (np.isin(np.arange(len(names)), codes) for codes in (of_contrast[used], of_quality))
    return PromptNumbers(of_contrast, of_quality, (2 * voted + checked).astype(np.int64))


def prompt_codes(curve: DoseCurve) -> PromptNumbers:
    """The prompts of a curve; those with a majority on a guard are strata of their own, + 4."""
    guarded = np.isin(np.asarray(curve.biases or [""] * len(curve.prompt_ids)), curve.guards)
    used = curve.people.used
    found = prompts_of(curve.prompt_ids, used & ~guarded, curve.quality_prompt_ids)
    on_guard = np.isin(np.arange(len(found.strata)), found.of_contrast[used & guarded])
    return found._replace(strata=found.strata + 4 * on_guard)


def _half(strata: Codes, rng: np.random.Generator) -> Rows:
    """A random half of each stratum; of an odd one, either the smaller or the larger half."""
    first = np.zeros(len(strata), dtype=bool)
    for stratum in np.unique(strata):
        members = rng.permutation(np.flatnonzero(strata == stratum))
        first[members[: (len(members) + int(rng.integers(2))) // 2]] = True
    return first


def check_enough(curve: DoseCurve) -> None:
    """DataError: fewer than `MIN_PROMPTS` prompts with a majority of people, or with quality pairs if there are any."""
    strata = prompt_codes(curve)[2]
    counts = [(int(((strata & 2) > 0).sum()), "with a majority of people", "collect votes on")]
    if curve.quality_margins is not None:
        counts.append((int((strata % 2).sum()), "with quality pairs", "leave quality pairs out, or add pairs of"))
    for n, what, do in counts:
        if n < MIN_PROMPTS:
            raise DataError(
                f"{n} prompts {what}: choosing a dose on one half and measuring it on the other needs at least "
                f"{MIN_PROMPTS}; {do} {MIN_PROMPTS - n} more"
            )
