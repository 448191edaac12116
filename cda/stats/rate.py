"""RATE: the effect of adding an attribute on a reward, by naive, single-rewrite and double-rewrite estimators.

With w the attribute of the original, 1 if present (RATE, Algorithm 1):

    double   rewrite of rewrite against rewrite: both went through the rewriter, so that its other changes cancel
    single   original against rewrite: the rewriter's other changes are attributed to the attribute
    naive    originals with against originals without: whatever goes along with the attribute is taken for it; a judge
             gives no reward of one text, so there it is its preference between such originals of the same prompt

ATT averages over originals with the attribute, ATU over those without, ATE = n₁/n · ATT + n₀/n · ATU over all.
ATT(double) − ATT(single) is the rewrite effect at w = 1, ATU(single) − ATU(double) the one at w = 0.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, partial
from itertools import compress
from typing import Literal, get_args

import numpy as np
from numpy.typing import ArrayLike, NDArray

from cda.arrays import BoolArray, FloatArray, finite
from cda.errors import DataError
from cda.results.base import Missing
from cda.results.effects import ConditionalEffects, Effect, NotEstimated, RateEffects
from cda.stats.clustered import Resampling, Target, difference_effect, mean_effect, pooled_within_group_sd, slope_effect
from cda.stats.digits import plain

Estimand = Literal["ATT", "ATU", "ATE"]
Estimator = Literal["double", "single", "naive"]
ESTIMATORS: tuple[Estimator, ...] = get_args(Estimator)
Scores = Sequence[float | None] | FloatArray
"""One score a row; None or NaN if there is none."""
Wanted = tuple[str, str, str | None, Callable[[], Effect]]
"""Estimand, estimator, the reason why the effect is refused (if it is), and the estimate."""


@dataclass(frozen=True, slots=True, eq=False)
class Contrasts:
    """One row a triple. Every contrast is the side with the attribute minus the side without it; shape (n,).

    `attribute`: w, True if the original has it. `double`, between the two rewrites, is rewrite of rewrite − rewrite at
    w = 1, the reverse at w = 0; `single` is original − rewrite at w = 1, the reverse at w = 0; `rewrite_effect` is
    rewrite of rewrite − original at any w. `originals`: rewards of the originals; None for a pairwise judge, which
    gives no reward but has `naive`, margins of an original with the attribute over one without it, shape (m,), of the
    two `naive_rows`, shape (m, 2).
    """

    attribute: BoolArray
    prompt_ids: tuple[str, ...]
    double: FloatArray
    single: FloatArray
    rewrite_effect: FloatArray
    originals: FloatArray | None
    naive: FloatArray | None
    naive_rows: NDArray[np.int64] | None
    unit: str

    def __len__(self) -> int:
        return len(self.attribute)

    def of(self, estimator: Estimator) -> FloatArray:
        return self.double if estimator == "double" else self.single

    def ids(self, rows: BoolArray) -> list[str]:
        return list(compress(self.prompt_ids, rows))

    def target(self, estimand: str, estimator: str, unit: str | None = None) -> Target:
        """The estimand, standardised by the spread of the originals' rewards."""
        scale: float | Missing = Missing(
            reason="a pairwise judge gives preferences, not rewards with a spread of their own"
        )
        if self.originals is not None:
            scale = pooled_within_group_sd(self.originals, self.attribute)
        return Target(estimand, estimator, unit or self.unit, scale)


def from_rewards(
    original: Scores,
    rewrite: Scores,
    rewrite_of_rewrite: Scores,
    attribute: ArrayLike,
    prompt_ids: Sequence[str],
    unit: str = "reward",
) -> Contrasts:
    """Contrasts of a pointwise reward; shape (n,) each.

    The rewrite has the attribute flipped to 1 − w, the rewrite of the rewrite flipped back to w; `attribute` is w of
    the original. DataError: a triple without one of its sides, or an attribute that is not 0 or 1.
    """
    w = _attribute(attribute)
    first = _complete("original", original, len(w))
    flipped = _complete("rewrite", rewrite, len(w))
    back = _complete("rewrite of rewrite", rewrite_of_rewrite, len(w))
    sign = np.where(w, 1.0, -1.0)
    return Contrasts(
        w, tuple(prompt_ids), sign * (back - flipped), sign * (first - flipped), back - first, first, None, None, unit
    )


def from_preferences(
    double: Scores,
    single: Scores,
    rewrite_effect: Scores,
    attribute: ArrayLike,
    prompt_ids: Sequence[str],
    naive: Scores = (),
    naive_rows: ArrayLike = (),
) -> Contrasts:
    """Contrasts of a pairwise judge (RATE's contrastive form): it compares two versions instead of scoring each.

    A judge need not be additive, so that the identities between single, double and rewrite effect need not hold. All
    are preferences, −1 to 1, for the side that stands first in `Contrasts`: `double` for the rewrite with the
    attribute, `single` for that side of original and rewrite, `rewrite_effect` for the rewrite of the rewrite, `naive`
    for the original with it on the same prompt. DataError: as `from_rewards`; a preference outside −1 to 1; naive pairs
    across prompts or of the wrong sides.
    """
    w = _attribute(attribute)
    pairs = np.asarray(naive_rows, dtype=np.int64).reshape(-1, 2)

    def complete(name: str, preferences: Scores, n: int = len(w)) -> FloatArray:
        margins = _complete(name, preferences, n)
        if (np.abs(margins) > 1).any():
            extreme = margins[np.argmax(np.abs(margins))]
            raise DataError(f"{name}: a judge's preference lies between −1 and 1, found {extreme:g}")
        return margins

    contrasts = Contrasts(
        attribute=w,
        prompt_ids=tuple(prompt_ids),
        double=complete("double contrast", double),
        single=complete("single contrast", single),
        rewrite_effect=complete("rewrite effect", rewrite_effect),
        originals=None,
        naive=complete("naive pair", naive, len(pairs)) if len(pairs) or len(naive) else None,
        naive_rows=pairs if len(pairs) else None,
        unit="preference",
    )
    for row, (treated, control) in enumerate(pairs):
        if not w[treated] or w[control] or prompt_ids[treated] != prompt_ids[control]:
            raise DataError(
                f"naive pair {row}: needs an original with the attribute, then one without it, of the same prompt"
            )
    return contrasts


def rate_effects(
    contrasts: Contrasts, resampling: Resampling | None = None, refused: Mapping[Estimand, str] | None = None
) -> RateEffects:
    """All effects of one sample; effects that cannot be estimated are listed with a reason, never as a number.
    `refused`: estimands withheld from the estimators that rest on rewrites, and why. DataError: there is no estimate at
    all.
    """
    refused, estimands = refused or {}, get_args(Estimand)
    # One number for all three estimands, so drawn once: another draw would give it another interval.
    naive = cache(partial(effect, contrasts, "ATE", "naive", resampling))

    def renamed(estimand: str) -> Effect:
        return naive().model_copy(update={"estimand": estimand})

    wanted: list[Wanted] = [
        (name, by, refused.get(name), partial(effect, contrasts, name, by, resampling))
        for by in ESTIMATORS
        for name in estimands
        if by != "naive"
    ]
    wanted += [(name, "naive", None, partial(renamed, name)) for name in estimands]
    groups: tuple[tuple[int, Estimand], ...] = ((1, "ATT"), (0, "ATU"))
    wanted += [
        (f"w = {w}", "rewrite effect", refused.get(group), partial(rewrite_effect, contrasts, w, resampling))
        for w, group in groups
    ]
    effects, missing = collect(wanted)
    if not effects:
        raise DataError(refused.get("ATE") or missing[0].reason)
    n_with = int(contrasts.attribute.sum())
    return RateEffects(effects=effects, not_estimated=missing, n_with=n_with, n_without=len(contrasts) - n_with)


def effect(
    contrasts: Contrasts,
    estimand: Estimand = "ATE",
    estimator: Estimator = "double",
    resampling: Resampling | None = None,
) -> Effect:
    """One effect of the attribute, with an error that is paired within triples and clustered by prompt. The naive
    estimator has one number for all three estimands: it knows nothing of either group's counterfactual. DataError: a
    group that is needed is empty (W is constant), comes from one prompt, or does not vary.
    """
    target, w = contrasts.target(estimand, estimator), contrasts.attribute
    if estimator == "naive" and contrasts.originals is None:
        if contrasts.naive is None or contrasts.naive_rows is None:
            raise target.cannot(
                "a judge compares answers to one prompt, and has a verdict on no original with the attribute against one "
                "without it"
            )
        prompt_ids = [contrasts.prompt_ids[row] for row in contrasts.naive_rows[:, 0]]
        return mean_effect(contrasts.naive, prompt_ids, target, resampling)
    rows = {"ATT": w, "ATU": ~w}.get(estimand, np.ones(len(w), dtype=bool))
    constant = w.all() or not w.any()
    if not rows.any() or (constant and (estimand == "ATE" or estimator == "naive")):
        have, missing = ("have", "without") if w.all() else ("lack", "with")
        raise target.cannot(f"W is constant: all {len(w)} originals {have} the attribute, there is none {missing} it")
    return _among(rows | (estimator == "naive"), contrasts, estimator, target, resampling)


def _among(
    rows: BoolArray, contrasts: Contrasts, estimator: Estimator, target: Target, resampling: Resampling | None
) -> Effect:
    """The effect among some of the triples."""
    if estimator != "naive":
        return mean_effect(contrasts.of(estimator)[rows], contrasts.ids(rows), target, resampling)
    originals, treated = _originals(contrasts, target)[rows], contrasts.attribute[rows]
    return difference_effect(originals, treated, contrasts.ids(rows), target, resampling)


def rewrite_effect(contrasts: Contrasts, w: int, resampling: Resampling | None = None) -> Effect:
    """Rewrite of rewrite − original among originals with attribute w, 1 or 0: the effect of two rewrites at unchanged
    W. DataError: no original has this w, one prompt only, or nothing varies.
    """
    target = contrasts.target(f"w = {w}", "rewrite effect")
    rows = contrasts.attribute == bool(w)
    if not rows.any():
        raise target.cannot(f"no original has w = {w}: W is constant")
    return mean_effect(contrasts.rewrite_effect[rows], contrasts.ids(rows), target, resampling)


def collect(wanted: Sequence[Wanted]) -> tuple[tuple[Effect, ...], tuple[NotEstimated, ...]]:
    """Effects that can be estimated, and the others with their reasons."""
    effects: list[Effect] = []
    missing: list[NotEstimated] = []
    for estimand, estimator, refusal, estimate in wanted:
        try:
            if refusal is not None:
                raise DataError(refusal)
            effects.append(estimate())
        except DataError as error:
            missing.append(NotEstimated(estimand=estimand, estimator=estimator, reason=str(error)))
    return tuple(effects), tuple(missing)


def quantile_groups(values: ArrayLike, n_groups: int) -> list[str]:
    """Labels of about equally filled ranges of a numeric covariate, lowest first: `1/4: 12 to 40`, …. Equal values stay
    together, so ranges may be fewer or uneven. DataError: a value is not finite, or fewer than two groups.
    """
    x = finite(values)
    edges = np.unique(np.quantile(x, np.linspace(0, 1, n_groups + 1)[1:-1])) if x.size else np.array([])
    group = np.searchsorted(edges, x, side="left")
    present = np.unique(group)
    if len(present) < 2:
        raise DataError(f"{x.size} covariate values do not split into {n_groups} ranges: they are (almost) all equal")
    names = {
        code: f"{rank}/{len(present)}: {plain(x[group == code].min())} to {plain(x[group == code].max())}"
        for rank, code in enumerate(present.tolist(), 1)
    }
    return [names[code] for code in group.tolist()]


def conditional_effects(
    contrasts: Contrasts, groups: Sequence[str], estimator: Estimator = "double", resampling: Resampling | None = None
) -> ConditionalEffects:
    """CATE: the average effect among the triples of each group, standardised by the SD of the whole sample. `groups`
    names each row's; cut a numeric covariate with `quantile_groups` first. `naive` compares the originals of a group.
    DataError: not one group can be estimated.
    """

    def within(name: str) -> Effect:
        rows = np.array([group == name for group in groups], dtype=bool)
        return _among(rows, contrasts, estimator, contrasts.target(f"CATE: {name}", estimator), resampling)

    effects, missing = collect(
        [(f"CATE: {name}", estimator, None, partial(within, name)) for name in sorted(set(groups))]
    )
    if not effects:
        raise DataError("; ".join(group.reason for group in missing))
    return ConditionalEffects(effects=effects, not_estimated=missing)


def effect_slope(
    contrasts: Contrasts,
    covariate: ArrayLike,
    estimator: Estimator = "double",
    resampling: Resampling | None = None,
    per: str = "unit of the covariate",
) -> Effect:
    """Change of the effect for one unit of a numeric covariate, shape (n,), linear; `per` is that unit in words.

    For rewrites the slope of the contrast on the covariate; for the naive estimator the slope of the rewards among
    originals with the attribute minus the slope among those without. DataError: a covariate that is not finite or does
    not vary, fewer than three prompts, no originals' rewards.
    """
    x = np.asarray(covariate, dtype=np.float64)
    if x.shape != (len(contrasts),) or not np.isfinite(x).all():
        raise DataError(f"covariate of shape {x.shape} for {len(contrasts)} triples: one finite value each is needed")
    target = contrasts.target(f"slope per {per}", estimator, f"{contrasts.unit} per {per}")
    if estimator != "naive":
        return slope_effect(contrasts.of(estimator), x, contrasts.prompt_ids, target, resampling)
    originals = _originals(contrasts, target)
    # Both groups' lines at once: each row's influence on a slope becomes a contrast whose mean is that slope.
    n = len(contrasts)
    pieces, difference = np.zeros(n), 0.0
    for w, sign in ((True, 1.0), (False, -1.0)):
        rows = contrasts.attribute == w
        if not rows.any() or not np.ptp(x[rows]) > 0:
            raise target.cannot(f"the covariate does not vary among originals with w = {int(w)}")
        centred, y = x[rows] - x[rows].mean(), originals[rows]
        slope = float(centred @ y / (centred @ centred))
        residual = y - y.mean() - slope * centred
        pieces[rows] = sign * n * centred * residual / (centred @ centred)
        difference += sign * slope
    return mean_effect(pieces + difference, contrasts.prompt_ids, target, None)


def _originals(contrasts: Contrasts, target: Target) -> FloatArray:
    if contrasts.originals is None:
        raise target.cannot("a pairwise judge gives no rewards of originals")
    return contrasts.originals


def _attribute(attribute: ArrayLike) -> BoolArray:
    values = np.asarray(attribute, dtype=np.float64)
    if not len(values):
        raise DataError("no triples: nothing can be estimated")
    if not np.isin(values, (0, 1)).all():
        raise DataError(
            "the attribute of an original is 0 or 1; audit.attribute cuts numbers by a threshold and takes two of several categories"
        )
    return np.asarray(values == 1, dtype=bool)


def _complete(name: str, scores: Scores, n: int) -> FloatArray:
    values = np.asarray(scores, dtype=np.float64)
    if values.shape != (n,):
        raise DataError(f"{name}: {values.shape} scores for {n} rows: one each is needed")
    missing = np.isnan(values)
    if missing.any():
        raise DataError(
            f"{name}: {int(missing.sum())} of {n} scores are missing or NaN (first: row {int(np.argmax(missing))}); "
            "a triple needs all its sides: drop these rows from every estimator and count them"
        )
    if infinite := int((~np.isfinite(values)).sum()):
        raise DataError(f"{name}: {infinite} of {n} scores are infinite")
    return values
