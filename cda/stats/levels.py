"""Groupings: levels of a covariate (categories with few prompts pooled, numbers cut into ranges), the numbers of each, and the test
that levels differ."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import compress, pairwise
from typing import Any

import numpy as np
from scipy import stats

from cda.arrays import LARGEST, BoolArray, FloatArray, Ids, n_distinct
from cda.errors import DataError
from cda.results.base import Test, or_missing
from cda.results.effects import Effect, Grouping, Heterogeneity, Level
from cda.stats.digits import plain
from cda.stats.estimators import ROUNDING, cluster_sums
from cda.stats.multiplicity import holm_of
from cda.stats.rate import quantile_groups

FEWEST_PROMPTS = 10
"""Categories with fewer prompts are pooled."""
POOLED = "other (pooled)"
MOST_LEVELS = 20
"""Categories beyond the largest are pooled, too."""
_MOST_CATEGORIES = 8
"""A column of more numbers than this is cut into ranges."""
_RANGES = 3
_FEWEST_TESTED = 5
"""Levels of fewer prompts, as the pooled one may be, do not enter the test that levels differ."""
WELCH = "Welch's test of equal means, clustered by prompt, F"
WALD = "Wald test of equal means, clustered by prompt, F"


@dataclass(frozen=True, slots=True, eq=False)
class Levels:
    """Level of each row, shape (n,), None without one; the categories that were pooled, with their prompts; and of a column of
    numbers their values, NaN if missing, shape (n,), and the bounds of its ranges that were given."""

    of: tuple[str | None, ...]
    names: tuple[str, ...]
    pooled: Mapping[str, int]
    numbers: FloatArray | None
    cutoffs: tuple[float, ...] = ()

    def rows(self, name: str) -> BoolArray:
        """Rows of one level, a mask of shape (n,)."""
        return np.array([own == name for own in self.of], dtype=bool)


def grouping(
    levels: Levels,
    prompt_ids: Ids,
    values: Mapping[str, FloatArray],
    level: Callable[[str, BoolArray, Ids], dict[str, Any]],
    slope: Callable[[str, FloatArray], Effect] | None = None,
) -> Grouping:
    """Everything by the levels of a column; tests are corrected by `one_family`.

    Args:
        levels: Of n rows.
        prompt_ids: Cluster of each row.
        values: Scoring or `change` to the values whose mean may differ between levels, shape (n,); NaN: not compared.
        level: The measured fields of a `Level`, by its name, its rows and their prompts.
        slope: Slope of one of `values`, by its name, on the numbers of the column; DataError if it has none. None: no slopes.
    """

    def made(name: str) -> Level:
        rows = levels.rows(name)
        ids = prompt_ids[rows] if isinstance(prompt_ids, np.ndarray) else list(compress(prompt_ids, rows))
        return Level(name=name, n=len(ids), n_prompts=n_distinct(ids), **level(name, rows, ids))

    numbers = levels.numbers
    return Grouping(
        kind="categories" if numbers is None else "numbers",
        cutoffs=levels.cutoffs,
        n_missing=sum(name is None for name in levels.of),
        pooled=dict(levels.pooled),
        levels=tuple(map(made, levels.names)),
        differ={name: or_missing(partial(levels_differ, own, levels, prompt_ids)) for name, own in values.items()},
        slope={}
        if numbers is None or slope is None
        else {name: or_missing(partial(slope, name, numbers)) for name in values},
    )


def one_family(groupings: Sequence[Grouping]) -> list[Grouping]:
    """The same groupings with Holm's p: over the tests of all levels of all of them, and over all tests that levels differ."""
    differ = iter(holm_of([test for by in groupings for test in by.differ.values()]))
    return [
        by.model_copy(update={"levels": levels, "differ": {name: next(differ) for name in by.differ}})
        for by, levels in zip(groupings, with_holm([by.levels for by in groupings]), strict=True)
    ]


def with_holm(parts: Sequence[Sequence[Level]]) -> list[tuple[Level, ...]]:
    """The same levels with Holm's p over the tests of all of them together."""
    tests = iter(holm_of([level.test for levels in parts for level in levels]))
    return [tuple(level.model_copy(update={"test": next(tests)}) for level in levels) for levels in parts]


def levels_of(values: Sequence[str | None], prompt_ids: Ids, cutoffs: Sequence[float] = ()) -> Levels:
    """Levels of a column: ranges between cutoffs or of equal filling if it holds numbers, else its categories.

    A column holds numbers if there are cutoffs, or if all of more than eight different values are numbers.

    Raises:
        DataError: No value, the same value in every row, less than two levels, or cutoffs of a column without numbers.
    """
    known = [value for value in values if value is not None]
    different = set(known)
    if len(different) < 2:
        found = f"the same in every row ('{known[0]}')" if known else "empty in every row"
        raise DataError(f"it is {found}, so that there is nothing to compare")
    numbers = {value: _number(value) for value in different}
    words = [value for value, number in numbers.items() if number is None]
    if cutoffs and words:
        raise DataError(f"it has cutoffs, but '{sorted(words)[0]}' is no number")
    if cutoffs or (not words and len(different) > _MOST_CATEGORIES):
        return _ranges([None if value is None else numbers[value] for value in values], cutoffs)
    return _categories(values, prompt_ids)


def levels_differ(values: FloatArray, levels: Levels, prompt_ids: Ids) -> Heterogeneity | Test:
    """Test that the mean of values, shape (n,) with NaN for none, is the same in all levels of five prompts or more.

    If each prompt has one level, Welch's test (see `heterogeneity`) of the levels' means with their errors clustered by prompt:
    levels may differ in size and in spread. Else Wald's statistic of the differences from the first level, with the sandwich of
    whole prompts and the factor G/(G − 1), held against F as Hotelling's T² is: with q differences and G prompts,
    (G − q)/(q (G − 1)) · W on q and G − q degrees of freedom.

    Raises:
        DataError: No level has spread, fewer than two have five prompts, or there are fewer prompts than levels.
    """
    there = ~np.isnan(values)
    values = np.where(there, values, 0.0)
    names = np.asarray(prompt_ids)
    each = [(mask & there, n_distinct(names[mask & there])) for mask in map(levels.rows, levels.names)]
    tested = [own for own in each if own[1] >= _FEWEST_TESTED]
    if len(tested) < 2:
        raise DataError(
            f"{len(tested)} of {len(each)} levels have {_FEWEST_TESTED} prompts, two are needed to compare them"
        )
    masks, counts = [mask for mask, _ in tested], np.array([n for _, n in tested])
    means = np.array([values[mask].mean() for mask in masks])
    influences = np.column_stack([mask * (values - mean) / mask.sum() for mask, mean in zip(masks, means, strict=True)])
    known = np.any(masks, axis=0)
    sums = cluster_sums(influences[known], names[known])
    n_prompts, q = len(sums), len(means) - 1
    if n_prompts <= q + 1:
        raise DataError(f"{n_prompts} prompts are too few to compare {q + 1} levels")
    size = ROUNDING * float(np.abs(values[known]).max()) ** 2
    variances = counts / (counts - 1) * (sums**2).sum(axis=0)
    if counts.sum() == n_prompts and variances.min() > size:
        return heterogeneity(means.tolist(), np.sqrt(variances).tolist(), counts.tolist())
    covariance = n_prompts / (n_prompts - 1) * sums.T @ sums
    contrast = np.column_stack([-np.ones(q), np.eye(q)])
    spread = contrast @ covariance @ contrast.T
    if float(np.linalg.eigvalsh(spread)[0]) <= size:
        raise DataError("nothing varies within the levels, so that the error of their difference is unknown")
    difference = contrast @ means
    wald = float(difference @ np.linalg.solve(spread, difference))
    p_value = float(stats.f.sf((n_prompts - q) / (q * (n_prompts - 1)) * wald, q, n_prompts - q))
    return Test(p_value=p_value, method=WALD)


def heterogeneity(means: Sequence[float], standard_errors: Sequence[float], n_prompts: Sequence[int]) -> Heterogeneity:
    """Test that an effect is the same in every group, from each group's mean, its error and its prompts.

    Welch's analysis of variance (1951, Biometrika 38, 330–336), with errors clustered by prompt and prompts as observations: groups may differ in
    size and in spread. I² is max(0, 1 − (k − 1)/Q) with Cochran's Q = Σ w (m − m̄)², w = 1/error².

    Args:
        means: Effect in each group, reward units. Length k, 2 or more.
        standard_errors: Error of each mean, same unit, above 0.
        n_prompts: Prompts behind each mean, 2 or more.

    Raises:
        DataError: Fewer than two groups, or one without spread.
    """
    k = len(means)
    if k < 2:
        raise DataError(f"{k} groups: a difference needs two")
    if not all(error > 0 for error in standard_errors) or min(n_prompts) < 2:
        raise DataError("a group without spread between its prompts: nothing is known of its error")
    m, degrees = np.asarray(means, dtype=np.float64), np.asarray(n_prompts, dtype=np.float64) - 1
    weights = 1 / np.asarray(standard_errors, dtype=np.float64) ** 2
    share = weights / weights.sum()
    q = float((weights * (m - float(share @ m)) ** 2).sum())
    lost = float(((1 - share) ** 2 / degrees).sum())
    statistic = q / (k - 1) / (1 + 2 * (k - 2) / (k * k - 1) * lost)
    df_error = (k * k - 1) / (3 * lost)
    return Heterogeneity(
        statistic=statistic,
        df=k - 1,
        df_error=df_error,
        p_value=float(stats.f.sf(statistic, k - 1, df_error)),
        method=WELCH,
        i_squared=max(0.0, 1 - (k - 1) / q) if q > 0 and math.isfinite(q) else 0.0,
    )


def _number(value: str) -> float | None:
    try:
        number = float(value)
    except ValueError:
        return None
    return number if abs(number) <= LARGEST else None


def _ranges(numbers: Sequence[float | None], cutoffs: Sequence[float]) -> Levels:
    known = [number for number in numbers if number is not None]
    if cutoffs:
        bounds = sorted(cutoffs)
        names = [f"below {plain(bounds[0])}"]
        names += [f"{plain(low)} to below {plain(high)}" for low, high in pairwise(bounds)]
        names.append(f"{plain(bounds[-1])} or more")
        labels = [names[int(place)] for place in np.searchsorted(bounds, known, side="right")]
    else:
        labels = quantile_groups(known, _RANGES)
        names = sorted(set(labels))
    filled = [name for name in names if name in labels]
    if len(filled) < 2:
        raise DataError(f"all {len(known)} of its numbers are in one range ({filled[0]}); give other cutoffs")
    left = iter(labels)
    of = tuple(None if number is None else next(left) for number in numbers)
    values = np.array([math.nan if number is None else number for number in numbers])
    return Levels(of, tuple(filled), {}, values, tuple(cutoffs))


def _categories(values: Sequence[str | None], prompt_ids: Ids) -> Levels:
    names = sorted({value for value in values if value is not None})
    place = {name: at for at, name in enumerate(names)}
    places = np.array([-1 if value is None else place[value] for value in values])
    codes = np.unique(prompt_ids, return_inverse=True)[1]
    n_each = np.bincount(np.unique(np.column_stack([places, codes])[places >= 0], axis=0)[:, 0], minlength=len(names))
    prompts = dict(zip(names, n_each.tolist(), strict=True))
    large = [name for name in names if prompts[name] >= FEWEST_PROMPTS]
    kept = sorted(sorted(large, key=lambda name: -prompts[name])[:MOST_LEVELS])
    pooled = {name: n for name, n in prompts.items() if name not in kept}
    if not kept or len(kept) + bool(pooled) < 2:
        most = max(prompts.values())
        raise DataError(f"none of its {len(prompts)} levels has {FEWEST_PROMPTS} prompts (the largest has {most})")
    of = tuple(None if value is None else POOLED if value in pooled else value for value in values)
    return Levels(of, (*kept, *([POOLED] if pooled else [])), pooled, None)
