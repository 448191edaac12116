"""Log odds with which differences between two responses go along with the choice: one logistic regression, clustered by prompt.

A pair with differences x = chosen − rejected is the choice of the first of two sides with probability 1 / (1 + exp(−x·β)). Which
side stands first says nothing, so that there is no intercept (conditional logistic regression; Bradley and Terry 1952).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import optimize, stats

from cda.arrays import FloatArray, Ids, finite, n_distinct
from cda.errors import DataError
from cda.results.base import Estimate, Missing, Test
from cda.results.effects import UNTOLD, LogOdds
from cda.stats.estimators import CLUSTERED_T, ROUNDING, cluster_sums, t_quantile

FEWEST_PROMPTS = 10
"""Prompts with a pair that differs in a term, below which its clustered error says little."""
_MOST_STEPS = 50
_STEP = 1e-9
"""Newton's last step, in standard deviations of the linear predictor."""
_SURE = 30.0
"""Largest sensible linear predictor: odds of e³⁰ come of separation."""
_ALIKE = 1e-8
"""Share of a term that the others leave, below which it is a combination of them."""
_ROUNDED = 1e-6
"""Precision of linear programming."""
_TEST = "clustered t of a logistic regression"


@dataclass(frozen=True, slots=True, eq=False)
class _Rows:
    """Differences of the terms that are still in, shape (n, k), with the clusters of their rows."""

    x: FloatArray
    ids: NDArray[Any]
    terms: tuple[str, ...]
    told_by: tuple[str, ...] = ()
    """Terms that left with the rows whose choice they tell."""

    def without(self, terms: Sequence[str], rows: NDArray[np.bool_] | None = None) -> _Rows:
        """Without these terms, and without the rows that are True, whose choice they tell."""
        kept = [at for at, term in enumerate(self.terms) if term not in terms]
        left = np.ones(len(self.x), dtype=bool) if rows is None else ~rows
        told_by = self.told_by if rows is None else (*self.told_by, *terms)
        return _Rows(self.x[left][:, kept], self.ids[left], tuple(self.terms[at] for at in kept), told_by)


def choice_log_odds(
    differences: Mapping[str, Sequence[float] | FloatArray], prompt_ids: Ids
) -> dict[str, LogOdds | Missing]:
    """Log odds of every term next to all others, for a difference of 1 towards the chosen side.

    Args:
        differences: Term to chosen − rejected of each pair, shape (n,).
        prompt_ids: Cluster of each pair. Length n.

    Returns:
        An estimate for each term, in the same order; Missing with the reason for a term in which no or too few pairs differ, that
        alone or with others tells every choice, or that is a combination of others. The first two and the last are left out of
        the regression; a term that tells every choice is taken to do so, and leaves with the pairs that it decides.

    Raises:
        DataError: No pairs, lengths that differ, or a difference that is not finite.
    """
    columns = [finite(values, f"differences in {term}") for term, values in differences.items()]
    if not len(prompt_ids) or any(column.shape != (len(prompt_ids),) for column in columns):
        raise DataError(f"{len(prompt_ids)} prompts, and differences of another number: one each is needed")
    missing: dict[str, Missing] = {}
    rows = _Rows(np.column_stack(columns), np.asarray(prompt_ids), tuple(differences))
    fitted: dict[str, LogOdds | Missing] = {}
    while rows.terms:
        # each check may leave a term without differences, which the next one does not stand: begin again after every change
        checks = (check(rows, missing) for check in (_without_few, _without_one_sided, _without_combinations))
        left = next((left for left in checks if left is not rows), None)
        if left is None:
            beta = maximum(rows.x)
            if beta is not None:
                fitted = _estimates(rows, beta)
                break
            left = _without_separating(rows, missing)
        rows = left
    return {term: missing[term] if term in missing else fitted[term] for term in differences}


def _without_few(rows: _Rows, missing: dict[str, Missing]) -> _Rows:
    """Without terms in which too few prompts' pairs differ."""
    gone = {}
    untold = f" {UNTOLD} {' and '.join(rows.told_by)} already" if rows.told_by else ""
    for at, term in enumerate(rows.terms):
        n_prompts = n_distinct(rows.ids[rows.x[:, at] != 0])
        if n_prompts == 0:
            gone[term] = f"no pair differs in it{untold}"
        elif n_prompts < FEWEST_PROMPTS:
            prompts = "1 prompt" if n_prompts == 1 else f"{n_prompts} prompts"
            gone[term] = f"pairs of {prompts} differ in it{untold}; {FEWEST_PROMPTS} are needed"
    missing |= {term: Missing(reason=reason) for term, reason in gone.items()}
    return rows.without(list(gone)) if gone else rows


def _without_one_sided(rows: _Rows, missing: dict[str, Missing]) -> _Rows:
    """Without the first term whose differences all point to one side, and the pairs that it decides; odds are infinite."""
    for at, term in enumerate(rows.terms):
        column = rows.x[:, at]
        side = "chosen" if (column >= 0).all() else "rejected" if (column <= 0).all() else None
        if side is not None:
            n = int((column != 0).sum())
            missing[term] = Missing(
                reason=f"in all {n} pairs that differ in it the {side} side has more of it, so that its odds have no bound"
            )
            return rows.without([term], column != 0)
    return rows


def _without_combinations(rows: _Rows, missing: dict[str, Missing]) -> _Rows:
    """Without the first term that earlier ones add up to. These stay, so that other terms are adjusted for all of them; the odds
    of none of them are known."""
    scaled = rows.x / np.sqrt((rows.x**2).sum(axis=0))
    for at, term in enumerate(rows.terms[1:], 1):
        weights, *_ = np.linalg.lstsq(scaled[:, :at], scaled[:, at], rcond=None)
        if np.linalg.norm(scaled[:, at] - scaled[:, :at] @ weights) < _ALIKE:
            others = [name for name, weight in zip(rows.terms, weights, strict=False) if abs(weight) > _ALIKE]
            for name in (term, *others):
                rest = [other for other in (term, *others) if other != name]
                missing[name] = Missing(
                    reason=f"it cannot be told from {' and '.join(rest)}: their differences add up to one another"
                )
            return rows.without([term])
    return rows


def maximum(x: FloatArray, ridge: float = 0.0) -> FloatArray | None:
    """Coefficients of greatest likelihood, shape (k,), by Newton's method with halved steps; None if there is no maximum.

    Args:
        x: Differences chosen − rejected, shape (n, k).
        ridge: Precision of a normal prior around 0 on the coefficient of each term divided by its root mean square. Above 0 there is
            always a maximum, also where terms tell every choice or are the same.
    """
    scale = np.sqrt((x**2).mean(axis=0))
    scale[scale == 0] = 1.0
    x = x / scale
    beta = np.zeros(x.shape[1])
    loss = _loss(x, beta, ridge)
    for _ in range(_MOST_STEPS):
        p = chance(x @ beta)
        hessian = (x * (p * (1 - p))[:, None]).T @ x + ridge * np.eye(len(beta))
        try:
            step = np.linalg.solve(hessian, x.T @ (1 - p) - ridge * beta)
        except np.linalg.LinAlgError:
            return None
        for _ in range(_MOST_STEPS):
            if (found := _loss(x, beta + step, ridge)) <= loss + ROUNDING:
                break
            step = step / 2
        beta, loss = beta + step, found
        if not ridge and float(np.abs(x @ beta).max()) > _SURE:
            return None
        if float(np.abs(step).max()) < _STEP:
            return np.asarray(beta / scale, dtype=np.float64)
    return None


def _loss(x: FloatArray, beta: FloatArray, ridge: float) -> float:
    return float(np.logaddexp(0.0, -(x @ beta)).sum() + ridge / 2 * (beta @ beta))


def chance(predictor: FloatArray) -> FloatArray:
    """Probability 1 / (1 + exp(−predictor)) of the choice, shape (n,)."""
    return np.asarray(1 / (1 + np.exp(-np.clip(predictor, -500, 500))), dtype=np.float64)


def _without_separating(rows: _Rows, missing: dict[str, Missing]) -> _Rows:
    """Without terms that together tell the choice of some pairs and contradict none, and those pairs."""
    direction = _separating(np.unique(rows.x, axis=0))
    terms = [term for term, weight in zip(rows.terms, direction, strict=True) if weight]
    decided = rows.x @ direction > _ROUNDED
    if not terms or not decided.any():
        terms, decided = list(rows.terms), np.ones(len(rows.x), dtype=bool)
        reason = "the regression has no maximum that could be found"
    else:
        reason = f"{' and '.join(terms)} together tell choices without exception, so that their odds have no bound"
    missing |= {term: Missing(reason=reason) for term in terms}
    return rows.without(terms, decided)


def _separating(x: FloatArray) -> FloatArray:
    """A direction of as few terms as can be in which no pair gets less likely and some get more so, shape (k,), by linear
    programming (Konis 2007); 0 without one."""
    bounds = [(-1.0, 1.0)] * x.shape[1]
    direction = _upwards(x, bounds)
    for at in range(x.shape[1]):
        without = [(0.0, 0.0) if place == at else bound for place, bound in enumerate(bounds)]
        if ((fewer := _upwards(x, without)) != 0).any():
            bounds, direction = without, fewer
    return direction


def _upwards(x: FloatArray, bounds: list[tuple[float, float]]) -> FloatArray:
    found = optimize.linprog(-x.sum(axis=0), A_ub=-x, b_ub=np.zeros(len(x)), bounds=bounds)
    none = np.zeros(x.shape[1])
    if found.x is None or not (x @ found.x > _ROUNDED).any():
        return none
    return np.where(np.abs(found.x) > _ROUNDED, found.x, 0.0)


def _estimates(rows: _Rows, beta: FloatArray) -> dict[str, LogOdds | Missing]:
    """Coefficients with the sandwich's errors of Liang and Zeger (1986), factor G/(G − 1), and t with G − k degrees of freedom;
    G: prompts with a pair that differs in any term."""
    informative = (rows.x != 0).any(axis=1)
    x, ids = rows.x[informative], rows.ids[informative]
    p = chance(x @ beta)
    bread = np.linalg.inv((x * (p * (1 - p))[:, None]).T @ x)
    scores = cluster_sums(x * (1 - p)[:, None], ids)
    n_prompts, n_terms = len(scores), len(rows.terms)
    covariance = n_prompts / (n_prompts - 1) * bread @ (scores.T @ scores) @ bread
    errors = np.sqrt(np.maximum(np.diag(covariance), 0.0))
    df = max(n_prompts - n_terms, 1)
    return {
        term: _log_odds(float(beta[at]), float(errors[at]), df, x[:, at] != 0, ids)
        for at, term in enumerate(rows.terms)
    }


def _log_odds(value: float, error: float, df: int, differ: NDArray[np.bool_], ids: NDArray[Any]) -> LogOdds | Missing:
    if error <= ROUNDING * max(1.0, abs(value)):
        return Missing(reason="nothing varies between its prompts, so that its error is unknown")
    n_prompts = n_distinct(ids[differ])
    estimate = Estimate.symmetric(
        value,
        t_quantile(df) * error,
        n=int(differ.sum()),
        n_prompts=n_prompts,
        unit="log odds",
        method=CLUSTERED_T,
    )
    return LogOdds(
        estimate=estimate,
        standard_error=error,
        test=Test(p_value=float(2 * stats.t.sf(abs(value) / error, df)), method=_TEST),
    )
