"""RATE of one bias, as an audit holds it, for tests of what is made of it."""

from __future__ import annotations

from cda.results.base import Estimate, Missing, PerScoring
from cda.results.effects import BiasRate, Effect, Flips, RateEffects

NOTHING = Missing(reason="no triple is left")


def made_rate(value: float | None, n: int = 9, by: str = "rules") -> BiasRate:
    """The double-rewrite ATE of this value before and after a training; None: it could not be estimated."""
    overall: RateEffects | Missing = NOTHING
    if value is not None:
        estimate = Estimate(value=value, low=value - 0.5, high=value + 0.5, n=n, n_prompts=n, unit="reward", method="x")
        effect = Effect(
            estimand="ATE", estimator="double", estimate=estimate, standard_error=0.3, p_value=0.01,
            standardised=estimate,
        )  # fmt: skip
        overall = RateEffects(effects=(effect,), not_estimated=(), n_with=n, n_without=0)
    flips = Flips(by=by, checked_by="readers", tried_with=n, flipped_with=n, tried_without=0, flipped_without=0)
    return BiasRate(
        flips=flips,
        n=n,
        unread=0,
        measured=PerScoring[RateEffects | Missing](before=overall, after=overall),
        changes=NOTHING,
        test=NOTHING,
    )
