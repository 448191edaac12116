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

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, partial
from itertools import compress
from typing import Literal, get_args

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import stats

from cda.arrays import BoolArray, FloatArray, finite
from cda.errors import DataError
from cda.results.base import Missing, or_missing
from cda.results.effects import Effect, NotEstimated, RateEffects, SameMargin
from cda.stats.digits import plain
from cda.stats.estimators import ROUNDING, Mean, Regression, Z, mean_of

Estimand = Literal["ATT", "ATU", "ATE"]
Estimator = Literal["double", "single", "naive"]
ESTIMATORS: tuple[Estimator, ...] = get_args(Estimator)
Scores = Sequence[float | None] | FloatArray
"""One score a row; None or NaN if there is none."""
_Wanted = tuple[str, str, str | None, Callable[[], Effect]]
"""Estimand, estimator, the reason why the effect is refused (if it is), and the estimate."""


@dataclass(frozen=True, slots=True)
class Target:
    """An estimand with its estimator and unit; `scale` divides a standardised effect, or says why there is none. `bound`: of contrasts
    that lie between −bound and bound, this; else infinity."""

    estimand: str
    estimator: str
    unit: str
    scale: float | Missing
    bound: float = math.inf

    def cannot(self, reason: str) -> DataError:
        """The error that says that this cannot be estimated, and why."""
        return DataError(f"{self.estimand} ({self.estimator}) cannot be estimated: {reason}")


def same_in_all(
    margins: ArrayLike, prompt_ids: Sequence[str], reason: str = "the margin is the same in every pair"
) -> SameMargin | None:
    """The margin that all pairs share, with an exact test of its sign, as there is no spread to take an error from.
    None if margins differ, or come from one prompt, which shows nothing of others. `reason`: why there is no estimate.
    """
    values, n_prompts = np.asarray(margins, dtype=np.float64), len(set(prompt_ids))
    # A difference of rewards leaves a trace of rounding.
    if n_prompts < 2 or not np.isfinite(values).all() or np.ptp(values) > ROUNDING * np.abs(values).max():
        return None
    value = float(np.median(values))
    p_value = float(stats.binomtest(n_prompts, n_prompts).pvalue) if value else None
    return SameMargin(reason=reason, value=value, n=len(values), n_prompts=n_prompts, p_value=p_value)


def mean_effect(values: FloatArray, prompt_ids: Sequence[str], target: Target) -> Effect:
    """Mean of paired contrasts, with − without the attribute, shape (n,), with the error of the differences. DataError:
    fewer than two prompts, or contrasts that do not vary between prompts and have no bound; between bounds they have Wilson's interval
    over prompts, and the exact p-value of as many coins.
    """
    n_prompts = len(set(prompt_ids))
    if n_prompts < 2:
        raise target.cannot(
            f"its {len(prompt_ids)} triples come from {n_prompts} prompt: the spread between prompts needs two at least"
        )
    found = mean_of(values, prompt_ids, target.unit)
    if not found.error:
        found = mean_of(values, prompt_ids, target.unit, (-target.bound, target.bound))
    return _effect(found, target)


def difference_effect(values: FloatArray, treated: BoolArray, prompt_ids: Sequence[str], target: Target) -> Effect:
    """Mean reward of the treated rows minus that of the others; rows of one prompt stay together on whichever side they
    are. DataError: a side is empty or has one prompt only, or rewards do not vary.
    """
    for side, word in ((treated, "with"), (~treated, "without")):
        n_prompts = len(set(compress(prompt_ids, side)))
        if n_prompts < 2:
            raise target.cannot(f"prompts with an original {word} the attribute: {n_prompts}, two at least are needed")
    sides = np.column_stack([treated, ~treated]).astype(np.float64)
    return _effect(Regression(values, sides, prompt_ids).of(np.array([1.0, -1.0]), target.unit), target)


def slope_effect(values: FloatArray, covariate: FloatArray, prompt_ids: Sequence[str], target: Target) -> Effect:
    """Least-squares slope of paired contrasts on a covariate, shapes (n,), per unit of the covariate. DataError: fewer
    than three prompts, a covariate that does not vary, or contrasts that lie on the line.
    """
    if len(set(prompt_ids)) < 3:
        raise target.cannot(f"a slope needs three prompts at least, found {len(set(prompt_ids))}")
    if not np.ptp(covariate) > 0:
        raise target.cannot("the covariate is the same in every row")
    centred = covariate - covariate.mean()
    size = float(np.abs(values).max() * np.abs(centred).sum() / (centred @ centred))
    fitted = Regression(values, np.column_stack([np.ones(len(centred)), centred]), prompt_ids)
    return _effect(fitted.of(np.array([0.0, 1.0]), target.unit, size), target)


def _effect(found: Mean, target: Target) -> Effect:
    if found.estimate.low == found.estimate.high:
        n_prompts = found.estimate.n_prompts
        raise target.cannot(f"nothing varies between its {n_prompts} prompts, so that its error is unknown")
    unit, scale = "pooled within-group SD of the originals' rewards", target.scale
    return Effect(
        estimand=target.estimand,
        estimator=target.estimator,
        estimate=found.estimate,
        standard_error=found.error or (found.estimate.high - found.estimate.low) / (2 * Z),  # of Wilson's interval
        p_value=found.p_value(),
        standardised=scale if isinstance(scale, Missing) else found.estimate.over(scale, unit),
    )


def pooled_within_group_sd(values: FloatArray, treated: BoolArray) -> float | Missing:
    """√((SS₁ + SS₀) / (n − 2)): the spread of the originals' rewards around the mean of their own group."""
    groups = values[treated], values[~treated]
    if not all(len(group) for group in groups):
        return Missing(reason="W is constant, so that there are no two groups to pool a within-group SD from")
    if len(values) < 3:
        return Missing(reason=f"{len(values)} originals are too few for a within-group SD")
    squares = sum(float(((group - group.mean()) ** 2).sum()) for group in groups)
    sd = float(np.sqrt(squares / (len(values) - 2)))
    if sd <= ROUNDING * float(np.abs(values).max()):
        return Missing(reason="the originals' rewards do not vary within the groups: their SD is 0")
    return sd


def direct_contrast(margins: ArrayLike, prompt_ids: Sequence[str], unit: str = "reward") -> Effect:
    """Mean margin, biased minus unbiased side of each pair, shape (n,); all else that differs is part of it. DataError:
    a margin that is NaN or infinite, no or one prompt, or nothing varies.
    """
    values = finite(margins, "margins")
    if not len(values):
        raise DataError("no pairs: nothing can be estimated")
    scale = Missing(reason="a direct contrast has no originals in two groups to pool an SD from")
    return mean_effect(values, prompt_ids, Target("mean margin", "direct contrast", unit, scale))


@dataclass(frozen=True, slots=True, eq=False)
class Contrasts:
    """One row a triple. Every contrast is the side with the attribute minus the side without it; shape (n,).

    `attribute`: w, True if the original has it. `double`, between the two rewrites, is rewrite of rewrite − rewrite at
    w = 1, the reverse at w = 0; `single` is original − rewrite at w = 1, the reverse at w = 0; `rewrite_effect` is
    rewrite of rewrite − original at any w. `originals`: rewards of the originals; None for a pairwise judge, which
    gives no reward but has `naive`, margins of an original with the attribute over one without it, shape (m,), of the
    two `naive_rows`, shape (m, 2). `bound`: contrasts lie between −bound and bound.
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
    bound: float = math.inf

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
        return Target(estimand, estimator, unit or self.unit, scale, self.bound)


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
    # Both answers are there: rewards that are all 0 have no bound that the data show.
    is_yes_or_no = np.array_equal(np.unique([first, flipped, back]), [0.0, 1.0])
    return Contrasts(
        attribute=w,
        prompt_ids=tuple(prompt_ids),
        double=sign * (back - flipped),
        single=sign * (first - flipped),
        rewrite_effect=back - first,
        originals=first,
        naive=None,
        naive_rows=None,
        unit=unit,
        bound=1.0 if is_yes_or_no else math.inf,
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
        bound=1.0,
    )
    for row, (treated, control) in enumerate(pairs):
        if not w[treated] or w[control] or prompt_ids[treated] != prompt_ids[control]:
            raise DataError(
                f"naive pair {row}: needs an original with the attribute, then one without it, of the same prompt"
            )
    return contrasts


def rate_effects(contrasts: Contrasts, refused: Mapping[Estimand, str] | None = None) -> RateEffects:
    """All effects of one sample; effects that cannot be estimated are listed with a reason, never as a number.
    `refused`: estimands withheld from the estimators that rest on rewrites, and why. DataError: there is no estimate at
    all.
    """
    refused, estimands = refused or {}, get_args(Estimand)
    # One number for all three estimands, so drawn once: another draw would give it another interval.
    naive = cache(partial(effect, contrasts, "ATE", "naive"))

    def renamed(estimand: str) -> Effect:
        return naive().model_copy(update={"estimand": estimand})

    wanted: list[_Wanted] = [
        (name, by, refused.get(name), partial(effect, contrasts, name, by))
        for by in ESTIMATORS
        for name in estimands
        if by != "naive"
    ]
    wanted += [(name, "naive", None, partial(renamed, name)) for name in estimands]
    groups: tuple[tuple[int, Estimand], ...] = ((1, "ATT"), (0, "ATU"))
    wanted += [
        (f"w = {w}", "rewrite effect", refused.get(group), partial(rewrite_effect, contrasts, w)) for w, group in groups
    ]
    effects, missing = _collect(wanted)
    if not effects:
        raise DataError(refused.get("ATE") or missing[0].reason)
    n_with = int(contrasts.attribute.sum())
    return RateEffects(effects=effects, not_estimated=missing, n_with=n_with, n_without=len(contrasts) - n_with)


def effect(
    contrasts: Contrasts,
    estimand: Estimand = "ATE",
    estimator: Estimator = "double",
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
        return mean_effect(contrasts.naive, prompt_ids, target)
    rows = {"ATT": w, "ATU": ~w}.get(estimand, np.ones(len(w), dtype=bool))
    constant = w.all() or not w.any()
    if not rows.any() or (constant and (estimand == "ATE" or estimator == "naive")):
        have, missing = ("have", "without") if w.all() else ("lack", "with")
        raise target.cannot(f"W is constant: all {len(w)} originals {have} the attribute, there is none {missing} it")
    return _among(rows | (estimator == "naive"), contrasts, estimator, target)


def _among(rows: BoolArray, contrasts: Contrasts, estimator: Estimator, target: Target) -> Effect:
    """The effect among some of the triples."""
    if estimator != "naive":
        return mean_effect(contrasts.of(estimator)[rows], contrasts.ids(rows), target)
    originals, treated = _originals(contrasts, target)[rows], contrasts.attribute[rows]
    return difference_effect(originals, treated, contrasts.ids(rows), target)


def rewrite_effect(contrasts: Contrasts, w: int) -> Effect:
    """Rewrite of rewrite − original among originals with attribute w, 1 or 0: the effect of two rewrites at unchanged
    W. DataError: no original has this w, one prompt only, or nothing varies.
    """
    target = contrasts.target(f"w = {w}", "rewrite effect")
    rows = contrasts.attribute == bool(w)
    if not rows.any():
        raise target.cannot(f"no original has w = {w}: W is constant")
    return mean_effect(contrasts.rewrite_effect[rows], contrasts.ids(rows), target)


def _collect(wanted: Sequence[_Wanted]) -> tuple[tuple[Effect, ...], tuple[NotEstimated, ...]]:
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
    contrasts: Contrasts, groups: Sequence[str], estimator: Estimator = "double"
) -> dict[str, Effect | Missing]:
    """CATE: the average effect among the triples of each group, by its name, standardised by the SD of the whole sample. `groups`
    names each row's; cut a numeric covariate with `quantile_groups` first. `naive` compares the originals of a group.
    """

    def within(name: str) -> Effect:
        rows = np.array([group == name for group in groups], dtype=bool)
        return _among(rows, contrasts, estimator, contrasts.target(f"CATE: {name}", estimator))

    return {name: or_missing(partial(within, name)) for name in sorted(set(groups))}


def effect_slope(
    contrasts: Contrasts,
    covariate: ArrayLike,
    estimator: Estimator = "double",
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
        return slope_effect(contrasts.of(estimator), x, contrasts.prompt_ids, target)
    originals, w = _originals(contrasts, target), contrasts.attribute
    for side in (w, ~w):
        if not side.any() or not np.ptp(x[side]) > 0:
            raise target.cannot(f"the covariate does not vary among originals with w = {int(side is w)}")
    centred = np.where(w, x - x[w].mean(), x - x[~w].mean())
    lines = np.column_stack([column * side for side in (w, ~w) for column in (np.ones(len(x)), centred)])
    return _effect(
        Regression(originals, lines, contrasts.prompt_ids).of(np.array([0.0, 1.0, 0.0, -1.0]), target.unit), target
    )


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
