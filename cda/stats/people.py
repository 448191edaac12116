"""Models and judges against people: skew, miscalibration, gap and AUC; bias × chosen tables; correlations."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from cda.arrays import FloatArray
from cda.errors import DataError
from cda.records import Exclusions, count_reasons
from cda.results.base import Estimate
from cda.results.effects import Contingency
from cda.results.skew import AgainstPeople
from cda.stats.auc import auc, auc_change
from cda.stats.bootstrap import bootstrap_sums
from cda.stats.preference import Change, margins_finite, share_change
from cda.stats.proportions import Z_95, paired_change, share
from cda.stats.votes import Majority

ModelTies = Literal["no-hit", "half", "drop"]
_ROUNDING = 1e-12  # an interval narrower than this has no spread behind it


def against_people(
    margins: ArrayLike, people: Majority, prompt_ids: Sequence[str], ties: ModelTies = "no-hit"
) -> AgainstPeople:
    """One model's preferences beside people's, on the rows that have a majority.

    Args:
        margins: score(perturbed) − score(base), or a judge's preference in [−1, 1]. Shape (n,).
        people: Majorities of the same rows.
        prompt_ids: Cluster of each row. Length n.
        ties: A margin of exactly 0 is no preference for the perturbed side (`no-hit`, as in the audit), counts `half`,
            or leaves the row out (`drop`, as the paper does for judges).

    Raises:
        DataError: Lengths that differ, a margin that is not finite, or no row left.
    """
    values = margins_finite(margins)
    _same_length(values, people, prompt_ids)
    rows = people.used & (values != 0) if ties == "drop" else people.used
    if not rows.any():
        raise DataError("no row has both a preference of the model and a majority of people: nothing can be compared")
    hits, target, ids = _hits(values, ties)[rows], people.target[rows], _ids(prompt_ids, rows)
    signed = paired_change(target, hits, ids)
    return AgainstPeople(
        skew=share(hits, ids),
        human_skew=share(target, ids),
        miscalibration=share(np.abs(hits - target), ids),
        signed_gap=signed,
        gap=absolute(signed),
        auc=auc(values[rows], target, ids) if len(np.unique(target[target != 0.5])) == 2 else None,
        n_ties=int((values[people.used] == 0).sum()),
    )


def mean_against_people(
    margins: ArrayLike, people: Majority, prompt_ids: Sequence[str], ties: Literal["no-hit", "half"] = "no-hit"
) -> AgainstPeople:
    """Mean over models of each share, on the same rows; the gap is that of the mean skew.

    Rows are averaged first: models on the same rows are not independent evidence.

    Args:
        margins: One row for each model, in its own reward units. Shape (models, n).
        people: Majorities of the n rows.
        prompt_ids: Cluster of each row. Length n.
        ties: As in `against_people`; `drop` would leave other rows out for each model.

    Raises:
        DataError: As in `against_people`.
    """
    values = margins_finite(margins)
    if values.ndim != 2 or not len(values):
        raise DataError(f"margins of shape {values.shape}: one row for each model is needed, and one model at least")
    _same_length(values[0], people, prompt_ids)
    rows = people.used
    hits, target, ids = _hits(values, ties)[:, rows], people.target[rows], _ids(prompt_ids, rows)
    signed = paired_change(target, hits.mean(axis=0), ids, len(values))
    return AgainstPeople(
        skew=share(hits.mean(axis=0), ids, len(values)),
        human_skew=share(target, ids),
        miscalibration=share(np.abs(hits - target).mean(axis=0), ids, len(values)),
        signed_gap=signed,
        gap=absolute(signed),
        auc=None,
        n_ties=int((values[:, rows] == 0).sum()),
    )


def panel_margins(verdicts: ArrayLike) -> tuple[FloatArray, Exclusions]:
    """Mean preference of a panel of judges on each row; a verdict of `tie` is 0, one that is missing is NaN.

    Args:
        verdicts: Preference for the perturbed side in [−1, 1], NaN where a judge gave none. Shape (judges, n).

    Returns:
        Means over the judges who gave one, shape (n,); NaN where none did, and how many these are.

    Raises:
        DataError: A verdict outside [−1, 1], or no verdict at all.
    """
    values = np.asarray(verdicts, dtype=np.float64)
    if values.ndim != 2 or not values.size or np.isnan(values).all():
        raise DataError("no verdicts: a panel needs at least one judge with one readable verdict")
    if (np.abs(values) > 1).any():
        raise DataError("a judge's verdict is a preference in [-1, 1]: 1 the perturbed side, 0 a tie, -1 the base")
    given = (~np.isnan(values)).sum(axis=0)
    mean = np.where(given > 0, np.nansum(values, axis=0) / np.maximum(given, 1), np.nan)
    return mean, Exclusions(values.shape[1], count_reasons(["no verdict"] * int((given == 0).sum())))


def contingency(
    chosen: Sequence[bool | None], rejected: Sequence[bool | None], prompt_ids: Sequence[str]
) -> Contingency:
    """Bias × chosen/rejected table of preference pairs, with Wilson intervals (clustered where prompts repeat).

    Args:
        chosen: Does the chosen response exhibit the bias; None where the label is unparsed. Length n.
        rejected: The same of the rejected response. Length n.
        prompt_ids: Cluster of each pair. Length n.

    Raises:
        DataError: Lengths that differ, no labelled pair, or no pair in which exactly one side has the bias.
    """
    if not len(chosen) == len(rejected) == len(prompt_ids):
        raise DataError(f"{len(chosen)} chosen, {len(rejected)} rejected labels, {len(prompt_ids)} prompts: one each")
    parsed = np.array([None not in sides for sides in zip(chosen, rejected, strict=True)], dtype=bool)
    if not parsed.any():
        raise DataError(f"none of {len(chosen)} pairs has a label on both sides: rates cannot be estimated")
    first, second = np.array(chosen, object)[parsed].astype(bool), np.array(rejected, object)[parsed].astype(bool)
    ids, one = np.asarray(prompt_ids, dtype=str)[parsed], first != second
    if not one.any():
        raise DataError(f"no pair of {len(first)} has the bias on one side only: no choice for or against it was made")
    return Contingency(
        both=int((first & second).sum()),
        only_chosen=int((first & ~second).sum()),
        only_rejected=int((~first & second).sum()),
        neither=int((~first & ~second).sum()),
        selection_rate=share(first[one], ids[one].tolist()),
        chosen_rate=share(first, ids.tolist()),
        rejected_rate=share(second, ids.tolist()),
        exclusions=Exclusions(len(chosen), count_reasons(["unparsed label"] * int((~parsed).sum()))),
    )


def chosen_correlation(feature_differences: ArrayLike, prompt_ids: Sequence[str], rng: np.random.Generator) -> Estimate:
    """r_train: r between a feature's difference and being chosen, each pair taken in both orders.

    Papers swap a random half of the pairs and get a number that moves with the seed; this is its mean over swaps.

    Args:
        feature_differences: Feature of the chosen response − that of the rejected one. Shape (n,).
        prompt_ids: Cluster of each pair. Length n.
        rng: For the interval.

    Raises:
        DataError: No pair differs in the feature.
    """
    x = np.asarray(feature_differences, dtype=np.float64)
    if x.size and not x.any():
        raise DataError(f"none of {len(x)} pairs differs in the feature: a correlation is undefined")
    columns = np.column_stack([np.ones(len(x)), x, x * x])
    return _within_one(bootstrap_sums(columns, prompt_ids, _both_orders, rng, method="bca").estimate("correlation"))


def _within_one(found: Estimate) -> Estimate:
    """A correlation whose rounding does not leave −1 to 1; without a spread, Fisher's z over the prompts."""
    low, high = max(-1.0, found.low), min(1.0, found.high)
    method = found.method
    if high - low <= _ROUNDING:
        half = Z_95 / np.sqrt(max(found.n_prompts - 3, 1))
        # A correlation of 1 has no z; half a prompt against it is the continuity correction.
        inner = float(np.clip(found.value, -1 + 0.5 / found.n_prompts, 1 - 0.5 / found.n_prompts))
        low, high = (float(np.tanh(np.arctanh(inner) + side * half)) for side in (-1, 1))
        low, high, method = min(low, found.value), max(high, found.value), "Fisher z 95% over prompts"
    value = float(np.clip(found.value, -1.0, 1.0))
    return Estimate(
        value=value,
        low=min(low, value),
        high=max(high, value),
        n=found.n,
        n_prompts=found.n_prompts,
        unit=found.unit,
        method=method,
    )


def _both_orders(sums: FloatArray) -> FloatArray:
    n, x, xx = sums.T
    return _divided(x, np.sqrt(n * xx), xx > 0)


def _divided(top: FloatArray, bottom: FloatArray, where: NDArray[np.bool_]) -> FloatArray:
    out: FloatArray = np.full(len(top), np.nan)
    np.divide(top, bottom, out=out, where=where)
    return out


def _hits(margins: FloatArray, ties: ModelTies) -> FloatArray:
    return np.where(margins == 0, 0.5, margins > 0) if ties == "half" else (margins > 0).astype(np.float64)


def absolute(signed: Estimate) -> Estimate:
    """The size of a signed estimate, with the interval that its own implies: from 0 where that holds 0."""
    near, high = sorted((abs(signed.low), abs(signed.high)))
    low = 0.0 if signed.low <= 0 <= signed.high else near
    return Estimate(
        value=abs(signed.value),
        low=low,
        high=high,
        n=signed.n,
        n_prompts=signed.n_prompts,
        unit=signed.unit,
        method=signed.method,
    )


def _same_length(margins: FloatArray, people: Majority, prompt_ids: Sequence[str]) -> None:
    if not len(margins) == len(people.target) == len(prompt_ids):
        raise DataError(f"{len(margins)} margins, {len(people.target)} majorities, {len(prompt_ids)} prompts: one each")


def _ids(prompt_ids: Sequence[str], rows: NDArray[np.bool_]) -> list[str]:
    return [prompt_id for prompt_id, keep in zip(prompt_ids, rows, strict=True) if keep]


@dataclass(frozen=True, slots=True)
class PeopleChange:
    """Before and after, on the rows that have a majority.

    Attributes:
        before: The model before.
        after: The model after.
        skew: Change of skew on these rows.
        miscalibration: Change of the share on which model and majority disagree.
        gap: Change of |skew − human skew|; negative means nearer to people.
        auc: Change of the AUC; None where all majorities are for one side.
    """

    before: AgainstPeople
    after: AgainstPeople
    skew: Change
    miscalibration: Change
    gap: Estimate
    auc: Estimate | None


def people_change(
    before: ArrayLike, after: ArrayLike, people: Majority, prompt_ids: Sequence[str], rng: np.random.Generator
) -> PeopleChange:
    """Everything about one model beside people, before and after, paired.

    A margin of exactly 0 is no preference for the perturbed side, as in skew.

    Args:
        before: Margins before, score(perturbed) − score(base). Shape (n,).
        after: Margins after, on the same rows. Shape (n,).
        people: Majorities of these rows.
        prompt_ids: Cluster of each row. Length n.
        rng: For clustered intervals.

    Raises:
        DataError: Lengths that differ, a margin that is not finite, or no row with a majority.
    """
    first, second = margins_finite(before), margins_finite(after)
    both = against_people(first, people, prompt_ids), against_people(second, people, prompt_ids)
    rows = people.used
    target = people.target[rows]
    ids = [name for name, keep in zip(prompt_ids, rows, strict=True) if keep]
    hits = (first[rows] > 0).astype(np.float64), (second[rows] > 0).astype(np.float64)
    ties = int((first[rows] == 0).sum()), int((second[rows] == 0).sum())
    return PeopleChange(
        before=both[0],
        after=both[1],
        skew=share_change(hits[0], hits[1], ids, ties),
        miscalibration=share_change(np.abs(hits[0] - target), np.abs(hits[1] - target), ids, ties),
        gap=gap_change(hits[0], hits[1], target, ids, rng),
        auc=auc_change(first[rows], second[rows], target, ids) if both[0].auc is not None else None,
    )


def gap_change(
    before: FloatArray, after: FloatArray, target: FloatArray, ids: Sequence[str], rng: np.random.Generator
) -> Estimate:
    """Paired change of |skew − human skew|, whole prompts drawn.

    Where nothing varies between draws, the interval of the change of skew bounds it: a gap never moves more than skew.
    """
    sums = np.column_stack([before - target, after - target, np.ones(len(target))])
    value = float(_gaps(sums.sum(axis=0, keepdims=True))[0])
    if len(set(ids)) > 1:
        found = bootstrap_sums(sums, ids, _gaps, rng)
        if found.low < found.high:
            return found.estimate("share difference")
    return bounded_by_skew(value, paired_change(before, after, ids))


def bounded_by_skew(value: float, skew: Estimate) -> Estimate:
    """A change of a gap with the farther end of the interval of the change of skew to both sides."""
    most = max(abs(skew.low), abs(skew.high), abs(value))
    return Estimate(
        value=value,
        low=-most,
        high=most,
        n=skew.n,
        n_prompts=skew.n_prompts,
        unit=skew.unit,
        method=f"bounded by skew's {skew.method}",
    )


def _gaps(sums: FloatArray) -> FloatArray:
    return np.asarray((np.abs(sums[:, 1]) - np.abs(sums[:, 0])) / sums[:, 2])
