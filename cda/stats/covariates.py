"""Groups of triples by a numeric covariate."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

import numpy as np
from numpy.typing import ArrayLike, NDArray

from cda.arrays import FloatArray
from cda.errors import DataError
from cda.results.effects import Effect
from cda.results.rate import ConditionalEffects
from cda.stats.clustered import Resampling, Target, difference_effect, mean_effect, slope_effect
from cda.stats.rate import Estimator, collect, scale_of
from cda.stats.signed_contrasts import Contrasts


def quantile_groups(values: ArrayLike, n_groups: int) -> list[str]:
    """Labels of about equally filled ranges of a numeric covariate, lowest first: `1/4: 12 to 40`, ….

    Equal values stay together, so that ranges may be fewer or uneven.

    Raises:
        DataError: A value is missing or not finite, or fewer than two groups can be formed.
    """
    found = _finite(values)
    edges = np.unique(np.quantile(found, np.linspace(0, 1, n_groups + 1)[1:-1])) if found.size else np.array([])
    group = np.searchsorted(edges, found, side="left")
    present = np.unique(group)
    if len(present) < 2:
        raise DataError(
            f"{found.size} covariate values do not split into {n_groups} ranges: they are (almost) all equal"
        )
    names = {
        code: f"{rank}/{len(present)}: {found[group == code].min():g} to {found[group == code].max():g}"
        for rank, code in enumerate(present.tolist(), 1)
    }
    return [names[code] for code in group.tolist()]


def _finite(values: ArrayLike) -> NDArray[np.float64]:
    found = np.asarray(values, dtype=np.float64)
    if not np.isfinite(found).all():
        raise DataError(f"{int((~np.isfinite(found)).sum())} of {found.size} values are missing, NaN or infinite")
    return found


def conditional_effects(
    contrasts: Contrasts,
    groups: Sequence[str],
    estimator: Estimator = "double",
    resampling: Resampling | None = None,
) -> ConditionalEffects:
    """CATE: the average effect among the triples of each group, standardised by the SD of the whole sample.

    Args:
        contrasts: n triples.
        groups: Group of each row; cut a numeric covariate with `quantile_groups` first. Length n.
        estimator: Which contrast is averaged; `naive` compares the originals of a group.
        resampling: For BCa intervals.

    Raises:
        DataError: Lengths that differ, or not one group can be estimated.
    """
    if len(groups) != len(contrasts):
        raise DataError(f"{len(groups)} covariate values for {len(contrasts)} triples: one each is needed")
    wanted: list[tuple[str, str, Callable[[], Effect]]] = [
        (f"CATE: {name}", estimator, partial(_within, contrasts, groups, name, estimator, resampling))
        for name in sorted(set(groups))
    ]
    found, missing = collect(wanted)
    if not found:
        raise DataError("; ".join(one.reason for one in missing))
    return ConditionalEffects(effects=found, not_estimated=missing)


def effect_slope(
    contrasts: Contrasts,
    covariate: ArrayLike,
    estimator: Estimator = "double",
    resampling: Resampling | None = None,
    per: str = "unit of the covariate",
) -> Effect:
    """How much the effect changes for one unit of a numeric covariate (linear).

    For rewrites the slope of the contrast on the covariate; for the naive estimator the slope of the rewards among
    originals with the attribute minus the slope among those without.

    Args:
        contrasts: n triples.
        covariate: Shape (n,).
        estimator: Whose effect.
        resampling: For the BCa interval (not made for the naive estimator).
        per: One unit of the covariate, in words.

    Raises:
        DataError: A covariate that is not finite or does not vary, fewer than three prompts, no originals' rewards.
    """
    x = np.asarray(covariate, dtype=np.float64)
    if x.shape != (len(contrasts),) or not np.isfinite(x).all():
        raise DataError(f"covariate of shape {x.shape} for {len(contrasts)} triples: one finite value each is needed")
    target = Target(f"slope per {per}", estimator, f"{contrasts.unit} per {per}", scale_of(contrasts))
    if estimator != "naive":
        values = contrasts.double if estimator == "double" else contrasts.single
        return slope_effect(values, x, contrasts.prompt_ids, target, resampling)
    return _naive_slope(contrasts, x, target)


def _within(
    contrasts: Contrasts, groups: Sequence[str], name: str, estimator: Estimator, resampling: Resampling | None
) -> Effect:
    rows = np.array([group == name for group in groups], dtype=bool)
    prompt_ids = [prompt for prompt, inside in zip(contrasts.prompt_ids, rows, strict=True) if inside]
    target = Target(f"CATE: {name}", estimator, contrasts.unit, scale_of(contrasts))
    if estimator != "naive":
        values = contrasts.double if estimator == "double" else contrasts.single
        return mean_effect(values[rows], prompt_ids, target, resampling)
    if contrasts.originals is None:
        raise target.cannot("a pairwise judge gives no rewards of originals")
    return difference_effect(contrasts.originals[rows], contrasts.attribute[rows], prompt_ids, target, resampling)


def _naive_slope(contrasts: Contrasts, x: FloatArray, target: Target) -> Effect:
    """Both groups' lines at once: each row's influence on a slope becomes a contrast whose mean is that slope."""
    if contrasts.originals is None:
        raise target.cannot("a pairwise judge gives no rewards of originals")
    n = len(contrasts)
    pieces, difference = np.zeros(n), 0.0
    for w, sign in ((True, 1.0), (False, -1.0)):
        rows = contrasts.attribute == w
        if not rows.any() or not np.ptp(x[rows]) > 0:
            raise target.cannot(f"the covariate does not vary among originals with w = {int(w)}")
        centred, y = x[rows] - x[rows].mean(), contrasts.originals[rows]
        slope = float(centred @ y / (centred @ centred))
        residual = y - y.mean() - slope * centred
        pieces[rows] = sign * n * centred * residual / (centred @ centred)
        difference += sign * slope
    return mean_effect(pieces + difference, contrasts.prompt_ids, target, None)
