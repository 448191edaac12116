"""The estimators: `share_of`, `mean_of` and `resampled`, each clustered by prompt, with its change, its test and its rule for few prompts.

    share_of     a share: Wilson's interval on the effective number of rows; `paired_change` of it: Newcombe's paired interval
    mean_of      a mean, and any coefficient of a `Regression`: clustered error (CR2) and Student's t, degrees of freedom after
                 Satterthwaite
    resampled    any other function of sums: whole prompts drawn with replacement; of many that differ, each left out in turn

Areas under a curve (`cda.stats.people`), Krippendorff's alpha (`cda.stats.votes`), prediction-powered shares (there too) and
means over trainings or models (`cda.stats.means`) have errors of their own. No other module chooses an interval.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import stats

from cda.arrays import FloatArray, Ids, finite, n_distinct
from cda.errors import DataError
from cda.records import LEVEL, PERCENT
from cda.results.base import Estimate

TAIL = (1 - LEVEL) / 2
Z = float(stats.norm.ppf(1 - TAIL))
WILSON, NEWCOMBE = f"Wilson {PERCENT}, by prompts", f"Newcombe paired {PERCENT}, by prompts"
CLUSTERED_T, DRAWN = f"clustered t {PERCENT} (CR2)", f"bootstrap over prompts {PERCENT}"
LEFT_OUT = f"jackknife over prompts {PERCENT}"
ROUNDING = 1e-12
"""Relative size below which a spread, or the width of an interval, is a trace of rounding."""
N_DRAWS = 10_000
_SEED = 2026
FEWEST_DRAWN = 10
"""Prompts that are resampled, at least: with 5, intervals of Krippendorff's alpha hold the truth in 77%."""
MOST_DRAWN = 10_000
"""Prompts that are drawn one by one, at most: the time of the draws goes up with them."""
_MOST_KINDS = 1_000
"""Different sums of more prompts that are drawn; with more of these they are left out one by one."""
_MAX_NUMBERS = 1 << 21  # of one chunk of draws
_UNDEFINED_LIMIT = 0.01
_PRIOR_PROMPTS = 4
"""Prompts in which all rows are alike, added to those seen: few prompts do not show how alike the rows of a prompt are."""
Statistic = Callable[[FloatArray], FloatArray]
"""Column sums of many draws, shape (draws, k), to one value each, shape (draws,); NaN if it is undefined."""
Bounds = tuple[float, float]
FREE: Bounds = (-math.inf, math.inf)


def share_of(hits: ArrayLike, prompt_ids: Ids, answers_a_row: float = 1) -> Estimate:
    """Share of hits with Wilson's interval on the effective number of rows (`effective_rows`).

    If each prompt occurs once it is Wilson's own. A share of 0 or 1 keeps a width: there every prompt counts as one
    row. `answers_a_row`: answers, such as several models', that each row is a mean of: rows that vary less than 0 and 1
    would are worth up to so many; 1 gives ties that count half nothing. DataError: no rows, or outside 0 to 1.
    """
    values, n_prompts = checked_shares(hits, prompt_ids), n_distinct(prompt_ids)
    p = float(values.mean())
    effective = effective_rows(values, prompt_ids) * _worth(values, n_prompts, answers_a_row)
    return _estimate(p, wilson(p * effective, effective), len(values), n_prompts, "share", WILSON)


def paired_change(before: ArrayLike, after: ArrayLike, prompt_ids: Ids, answers_a_row: float = 1) -> Estimate:
    """Change of a share of hits, after − before, on the same rows.

    Newcombe's paired score interval (1998, Statistics in Medicine 17, 2635–2650, method 10, with the
    continuity-corrected phi) of as many rows as the differences are worth (`effective_rows`): it keeps its width when
    no row changed, and is Newcombe's own if each prompt occurs once and rows are 0 or 1. `answers_a_row` is as in
    `share_of`. DataError: no rows, or shapes that differ.
    """
    first, second = checked_shares(before, prompt_ids), checked_shares(after, prompt_ids)
    n_prompts = n_distinct(prompt_ids)
    effective = effective_rows(second - first, prompt_ids)
    p, q = float(first.mean()), float(second.mean())
    rows_before, rows_after = (effective * _worth(side, n_prompts, answers_a_row) for side in (first, second))
    (low_p, high_p), (low_q, high_q) = wilson(p * rows_before, rows_before), wilson(q * rows_after, rows_after)
    # For one row: its standard deviation before times that after, and the correlation of the two.
    deviations = effective * math.sqrt(max(0.0, p * (1 - p) * q * (1 - q) / (rows_before * rows_after)))
    phi = 0.0
    if deviations > ROUNDING:
        phi = float(((first - p) * (second - q)).mean()) / deviations
        if phi > 0:
            phi = max(0.0, phi - 1 / (2 * effective * deviations))
    difference = q - p
    down_q, up_q, down_p, up_p = q - low_q, high_q - q, p - low_p, high_p - p
    low = max(-1.0, difference - math.sqrt(max(0.0, down_q**2 - 2 * phi * down_q * up_p + up_p**2)))
    high = min(1.0, difference + math.sqrt(max(0.0, up_q**2 - 2 * phi * up_q * down_p + down_p**2)))
    return _estimate(difference, (low, high), len(first), n_prompts, "share difference", NEWCOMBE)


def wilson(hits: float, n: float) -> tuple[float, float]:
    """Ends of Wilson's score interval for a share; `hits` may hold halves. DataError: no rows, or hits outside 0 to `n`."""
    # Sums of shares may miss n by rounding.
    if not (n > 0 and -1e-9 * n <= hits <= n * (1 + 1e-9)):
        raise DataError(f"{hits:g} hits of {n:g}: a share of that cannot be estimated")
    p, z2 = hits / n, Z**2
    centre = (p + z2 / (2 * n)) / (1 + z2 / n)
    half = Z / (1 + z2 / n) * math.sqrt(p * (1 - p) / n + z2 / (4 * n * n))
    return max(0.0, min(p, centre - half)), min(1.0, max(p, centre + half))


@dataclass(frozen=True, slots=True)
class Mean:
    """A mean, or another coefficient, with its clustered error in the same unit and the error's degrees of freedom.

    An error of 0: nothing varies between prompts, so that the interval has no width and says nothing of other prompts.
    """

    estimate: Estimate
    error: float
    df: float

    def p_value(self, null: float = 0.0, side: Literal["both", "greater", "less"] = "both") -> float:
        """Student's t test that it is `null`, against `side`. Without an error that of as many coins as prompts, all on one side."""
        beyond, n_prompts = self.estimate.value - null, self.estimate.n_prompts
        beyond = abs(beyond) if side == "both" else beyond if side == "greater" else -beyond
        if self.error:
            one_sided = float(stats.t.sf(beyond / self.error, self.df))
        elif abs(beyond) <= ROUNDING * max(1.0, abs(null)):
            one_sided = 0.5
        else:
            one_sided = 0.5**n_prompts if beyond > 0 else 1.0
        return min(1.0, 2 * one_sided) if side == "both" else one_sided


def mean_of(values: ArrayLike, prompt_ids: Ids, unit: str = "reward", within: Bounds = FREE) -> Mean:
    """Mean over rows, shape (n,), as the coefficient of a `Regression` on a constant: the one-sample t if each prompt occurs once.

    If nothing varies, or there is one prompt, the interval has no width; between bounds it is then Wilson's, over prompts, of the value's place between them.
    DataError: no rows, not finite, lengths that differ, or one prompt without bounds.
    """
    rows = finite(values)
    if not rows.size:
        raise DataError("no rows: values are empty, so nothing can be estimated")
    if rows.shape != (len(prompt_ids),):
        raise DataError(f"{rows.shape} values for {len(prompt_ids)} prompts: one each is needed")
    n_prompts, value = n_distinct(prompt_ids), float(rows.mean())
    if n_prompts < 2:
        if within == FREE:
            raise DataError(f"{len(rows)} rows of one prompt: the spread between prompts cannot be estimated from one")
        return Mean(_bounded(value, (value, value), len(rows), n_prompts, unit, within, WILSON), 0.0, 0.0)
    found = Regression(rows, np.ones((len(rows), 1)), prompt_ids).of(np.ones(1), unit)
    half = found.estimate.high - found.estimate.value
    ends = value - half, value + half
    return Mean(_bounded(value, ends, len(rows), n_prompts, unit, within, CLUSTERED_T), found.error, found.df)


class Regression:
    """Least squares of values (n,) on columns (n, k), with errors clustered by prompt.

    The error is the sandwich with each prompt's residuals divided by the root of what its own leverage leaves of them (CR2: Bell and
    McCaffrey 2002, Survey Methodology 28, 169–181), and t has the degrees of freedom that match the first two moments of its square if
    rows are independent and vary alike (Satterthwaite; Pustejovsky and Tipton 2018, J. Bus. Econ. Stat. 36, 672–683). With prompts of
    one size a mean has G − 1. A prompt without which a coefficient has no value has no part in its error, nor in the degrees of freedom.
    """

    def __init__(self, values: FloatArray, columns: FloatArray, prompt_ids: Ids, penalty: float = 0.0) -> None:
        """`penalty`: of a ridge on the columns divided by their root mean square, over the number of rows."""
        # Columns of one scale, so that the rank does not depend on units.
        scale = np.sqrt((columns**2).mean(axis=0))
        left, singular, right = np.linalg.svd(columns / np.where(scale > 0, scale, 1.0), full_matrices=False)
        self.rank = int((singular > singular[0] * 1e-10 * max(columns.shape)).sum())
        basis = left[:, : self.rank]
        kept = singular[: self.rank]
        shrunk = kept**2 / (kept**2 + penalty * len(values))
        weights = right[: self.rank].T / kept * shrunk / np.where(scale > 0, scale, np.inf)[:, None]
        self.weights, self.n, self.size = weights, len(values), float(np.abs(values).max())
        """Of the basis in each coefficient, shape (k, rank)."""
        self.coefficients: FloatArray = weights @ (basis.T @ values)
        self.identified = (right[: self.rank] ** 2).sum(axis=0) > 1 - 1e-8
        """Coefficients that no mix of the others replaces, shape (k,)."""
        self.residuals: FloatArray = values - basis @ (shrunk * (basis.T @ values))
        names = np.unique(np.asarray(prompt_ids), return_inverse=True)[1]
        order = np.argsort(names, kind="stable")
        starts = np.flatnonzero(np.diff(names[order], prepend=-1))
        self.n_prompts = len(starts)
        own = basis[order]
        leverage, axes = np.linalg.eigh(np.add.reduceat(own[:, :, None] * own[:, None, :], starts))
        left_over = np.clip(1 - leverage, 0.0, 1.0)
        divided = np.divide(1.0, np.sqrt(left_over), out=np.zeros_like(left_over), where=left_over > 1e-8)
        self._adjusted = (axes * divided[:, None, :]) @ axes.swapaxes(1, 2)
        self._loads = (axes * (leverage * divided)[:, None, :]) @ axes.swapaxes(1, 2)
        self._norms = (axes * (leverage * divided**2)[:, None, :]) @ axes.swapaxes(1, 2)
        self._moved = np.add.reduceat(own * self.residuals[order, None], starts)

    def influence(self, contrast: FloatArray) -> FloatArray:
        """Part of each prompt in the error of a combination of coefficients, (k,), in the order of the prompts' names."""
        found: FloatArray = np.einsum("gij,gj,i->g", self._adjusted, self._moved, contrast @ self.weights)
        return found

    def df(self, contrast: FloatArray) -> float:
        """Degrees of freedom of the error of a combination of coefficients, (k,)."""
        w = contrast @ self.weights
        own, loads = np.einsum("i,gij,j->g", w, self._norms, w), self._loads @ w
        shared = (loads**2).sum(axis=1)
        trace = float(own.sum() - shared.sum())
        squares = float((own**2).sum() - 2 * (own @ shared) + ((loads.T @ loads) ** 2).sum())
        return trace**2 / squares if squares > 0 and trace > 0 else 0.0

    def of(self, contrast: FloatArray, unit: str, size: float | None = None) -> Mean:
        """A combination of coefficients, (k,). Below rounding of `size`, by default the largest value, its error is taken for none."""
        return self.moved_by(float(contrast @ self.coefficients), self.influence(contrast), contrast, unit, size)

    def moved_by(
        self, value: float, influence: FloatArray, contrast: FloatArray, unit: str, size: float | None = None
    ) -> Mean:
        """A value with the error of these parts of the prompts, (G,), and the degrees of freedom of a combination."""
        error, df = float(np.sqrt((influence**2).sum())), self.df(contrast)
        if error <= ROUNDING * (self.size if size is None else size) or df <= 0:
            error = 0.0
        if abs(value) <= ROUNDING * (error or (self.size if size is None else size)):
            value = 0.0  # a trace of rounding
        half = t_quantile(df) * error if error else 0.0
        return Mean(
            _estimate(value, (value - half, value + half), self.n, self.n_prompts, unit, CLUSTERED_T), error, df
        )


def resampled(
    columns: ArrayLike,
    prompt_ids: Ids,
    statistic: Statistic,
    unit: str,
    within: Bounds = FREE,
) -> Estimate:
    """Any function of column sums (a ratio, a correlation, …) when whole prompts are drawn with replacement; see `of_draws`. More
    than `MOST_DRAWN` prompts are drawn by their different sums; with too many of these for that, the error is that of leaving out each
    prompt in turn (the jackknife), held against Student's t, and `method` says so.

    Draws in which the statistic is undefined are left out; they are the same in every run. The statistic sees sums of `columns`, shape (n, k), alone; it should not
    change when all are scaled alike. DataError: no rows, not finite, fewer prompts than `FEWEST_DRAWN`, or a statistic undefined for
    all rows or for over 1% of the draws.
    """
    rows = finite(columns)
    if not rows.size:
        raise DataError("no rows: values are empty, so nothing can be estimated")
    if rows.ndim != 2 or len(rows) != len(prompt_ids):
        raise DataError(f"{rows.shape} values for {len(prompt_ids)} clusters: one cluster for each row is needed")
    sums = cluster_sums(rows, prompt_ids)
    if len(sums) < FEWEST_DRAWN:
        raise DataError(f"{len(sums)} prompts are too few to resample (at least {FEWEST_DRAWN})")
    value = float(statistic(sums.sum(axis=0)[None])[0])
    if not np.isfinite(value):
        raise DataError(f"the statistic is undefined on these {len(rows)} rows")
    if len(sums) <= MOST_DRAWN:
        drawn = statistic(drawn_sums(sums))
    elif found := _kinds(sums):
        kinds, n_each = found
        drawn = statistic(np.random.default_rng(_SEED).multinomial(len(sums), n_each / len(sums), N_DRAWS) @ kinds)
    else:
        without = statistic(sums.sum(axis=0) - sums)
        half = t_quantile(len(sums) - 1) * math.sqrt((len(sums) - 1) * float(np.var(without)))
        return _bounded(value, (value - half, value + half), len(rows), len(sums), unit, within, LEFT_OUT)
    if (n_undefined := int((~np.isfinite(drawn)).sum())) > _UNDEFINED_LIMIT * N_DRAWS:
        raise DataError(
            f"the statistic is undefined in {n_undefined} of {N_DRAWS} bootstrap draws: too few of the "
            f"{len(sums)} prompts carry it for an interval"
        )
    return of_draws(value, drawn, len(rows), len(sums), unit, within)


def _kinds(sums: FloatArray) -> tuple[FloatArray, NDArray[np.int64]] | None:
    """The different rows, and how often each is there; None for more than `_MOST_KINDS`, which the first ones mostly tell."""
    if len(np.unique(sums[:MOST_DRAWN], axis=0)) > _MOST_KINDS:
        return None
    kinds, n_each = np.unique(sums, axis=0, return_counts=True)
    return (kinds, n_each) if len(kinds) <= _MOST_KINDS else None


def correlation_of(x: FloatArray, y: FloatArray, prompt_ids: Ids) -> Estimate:
    """Pearson's correlation of two columns, each of shape (n,). DataError: as `resampled`, or a column that does not vary."""
    x, y = finite(x), finite(y)
    if not len(x):
        raise DataError("no rows: a correlation of nothing cannot be estimated")
    if any(np.ptp(side) <= ROUNDING * np.abs(side).max() for side in (x, y)):
        raise DataError(f"all {len(x)} values of one side are alike: a correlation is undefined")
    # Centred and scaled, so that the sums of squares lose no digits.
    x, y = ((side - side.mean()) / side.std() for side in (x, y))
    columns = np.column_stack([np.ones(len(x)), x, y, x * x, y * y, x * y])
    return resampled(columns, prompt_ids, _pearson, "correlation", (-1.0, 1.0))


def _pearson(sums: FloatArray) -> FloatArray:
    n, x, y, xx, yy, xy = sums.T
    spread = (xx - x * x / n) * (yy - y * y / n)
    known = spread > ROUNDING * xx * yy
    return np.asarray(np.divide(xy - x * y / n, np.sqrt(np.abs(spread)), out=np.full(len(sums), np.nan), where=known))


def of_draws(value: float, drawn: FloatArray, n: int, n_prompts: int, unit: str, within: Bounds = FREE) -> Estimate:
    """An estimate with the interval of its draws, NaN if undefined: quantiles that few prompts move outwards.

    The tails are those of the normal distribution at −√(G/(G − 1)) · t, t the quantile of Student's with G − 1 degrees of freedom for G
    prompts: drawn means of few prompts lie too close together (Hesterberg 2015, The American Statistician 69, 371–386). If no draw
    differs it has no width; between bounds it is then Wilson's, over prompts, of the value's place between them.
    """
    tail = stats.norm.cdf(-math.sqrt(n_prompts / (n_prompts - 1)) * t_quantile(n_prompts - 1))
    low, high = np.nanquantile(drawn, (tail, 1 - tail)).tolist()
    value = min(max(value, within[0]), within[1])
    return _bounded(value, (min(low, value), max(high, value)), n, n_prompts, unit, within, DRAWN)


def drawn_sums(sums: FloatArray) -> FloatArray:
    """Column sums of `N_DRAWS` samples of whole clusters, of those of each cluster, shape (G, k). Shape (draws, k)."""
    n_clusters, rng = len(sums), np.random.default_rng(_SEED)
    step = max(1, min(N_DRAWS, _MAX_NUMBERS // n_clusters))
    parts = []
    for start in range(0, N_DRAWS, step):
        size = min(step, N_DRAWS - start)
        picked = rng.integers(0, n_clusters, size=(size, n_clusters))
        # How often each cluster is drawn: a matrix product with the sums is faster than taking them one by one.
        at = picked + n_clusters * np.arange(size)[:, None]
        parts.append(np.bincount(at.ravel(), minlength=size * n_clusters).reshape(size, n_clusters) @ sums)
    return np.concatenate(parts)


def _bounded(
    value: float, ends: tuple[float, float], n: int, n_prompts: int, unit: str, within: Bounds, method: str
) -> Estimate:
    """An estimate between bounds; if its interval has no width, with Wilson's over prompts of the value's place between them."""
    (low, high), (least, most) = ends, within
    if high - low <= ROUNDING and math.isfinite(most - least):
        place = wilson((value - least) / (most - least) * n_prompts, n_prompts)
        low, high = (least + (most - least) * end for end in place)
        method = WILSON
    return _estimate(value, (max(low, least), min(high, most)), n, n_prompts, unit, method)


def t_quantile(df: float, together: int = 1) -> float:
    """Student's t that one of its tails of the level lies beyond, of so many intervals that all hold at this level (Bonferroni)."""
    return float(stats.t.ppf(1 - TAIL / together, df))


def effective_rows(values: ArrayLike, prompt_ids: Ids) -> float:
    """Number of independent rows, each of its own prompt, that would be as informative about the mean.

    n over the design effect, which is the variance of the mean clustered by prompt over that of independent rows (Kish 1965;
    Dean and Pagano 2015, J. Surv. Stat. Methodol. 3, 484–503). Between few prompts that variance is by chance often much too
    small. So the design effect is averaged with that of rows which are all alike within their prompt, n / K, for K = n² / Σ mᵍ²
    prompts of mᵍ rows; the former counts K, the latter `_PRIOR_PROMPTS`. If no row differs from another, every prompt
    counts as one row; if each prompt occurs once, it is n; copies of all rows within their prompts change nothing.
    """
    rows = np.asarray(values, dtype=np.float64)
    n, deviations = len(rows), rows - rows.mean()
    sums, sizes = cluster_sums(np.column_stack([deviations, np.ones(n)]), prompt_ids).T
    prompts = n**2 / float((sizes**2).sum())
    spread = float((deviations**2).sum())
    if len(sizes) in (1, n) or spread <= ROUNDING * n * max(1.0, float(np.abs(rows).max()) ** 2):
        return prompts
    seen = float((sums**2).sum()) / (spread * n)  # one over the rows that these prompts show
    return (prompts + _PRIOR_PROMPTS) / (prompts * seen + _PRIOR_PROMPTS / prompts)


def cluster_sums(rows: FloatArray, clusters: Ids) -> FloatArray:
    """Sums of the rows of each cluster, in the order of the clusters' names: shape (n_clusters, k). Rows are sorted
    before they are added, so that not even rounding depends on the order in which they came.
    """
    names = np.asarray(clusters)
    order = np.lexsort((*rows.T[::-1], names))
    starts = np.flatnonzero(np.append(True, names[order][1:] != names[order][:-1]))
    return np.asarray(np.add.reduceat(rows[order], starts, axis=0), dtype=np.float64)


def checked_shares(hits: ArrayLike, prompt_ids: Ids) -> FloatArray:
    """Values between 0 and 1, one a prompt id; else DataError."""
    values = np.asarray(hits, dtype=np.float64)
    if values.shape != (len(prompt_ids),):
        raise DataError(f"{values.shape} values for {len(prompt_ids)} prompts: one each is needed")
    if not len(values):
        raise DataError("no rows: a share of nothing cannot be estimated")
    if not ((values >= 0) & (values <= 1)).all():
        raise DataError("a share is estimated from values between 0 and 1")
    return values


def _worth(values: FloatArray, n_prompts: int, most: float) -> float:
    """Independent answers of 0 or 1 that one row is worth: p(1 − p) over the rows' variance, cut for few prompts as by Korn and Graubard
    (1998, Survey Methodology 24, 193–201); 1 if they do not vary."""
    if most <= 1 or n_prompts < 2 or (spread := float(values.var())) <= ROUNDING:
        return 1.0
    p, variance = float(values.mean()), spread * n_prompts / (n_prompts - 1)
    return max(1.0, min(float(most), p * (1 - p) / variance) * (Z / t_quantile(n_prompts - 1)) ** 2)


def _estimate(value: float, ends: tuple[float, float], n: int, n_prompts: int, unit: str, method: str) -> Estimate:
    return Estimate(value=value, low=ends[0], high=ends[1], n=n, n_prompts=n_prompts, unit=unit, method=method)
