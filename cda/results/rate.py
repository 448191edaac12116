"""RATE's effects on triples, with the number of originals that could be rewritten to flip the bias."""

from __future__ import annotations

from collections.abc import Sequence

from cda.errors import DataError
from cda.records import Triple
from cda.results.base import NOT_TRAINED, Missing, PerScoring, Result
from cda.results.effects import Effect, EffectTest


class Flips(Result):
    """Originals of one bias that could be rewritten to flip it and back, of those with the bias and without."""

    by: str
    """The rewriter: its name, a file, or the embedded texts."""
    checked_by: str | None
    """The labeller or measure that says that the bias flipped; None if nothing can tell."""
    tried_with: int
    """Originals with the bias."""
    flipped_with: int
    """Triples of these whose two rewrites both flipped it."""
    tried_without: int
    """Originals without the bias."""
    flipped_without: int
    """Triples of these whose two rewrites both flipped it."""
    made: bool = False
    """True if the audit made the triples, rather than reading them."""

    def less(self, triples: Sequence[Triple]) -> Flips:
        """The counts without some of the flipped triples, which are then neither tried nor flipped."""
        n_with = sum(triple.has_attribute for triple in triples)
        fewer = {"with": n_with, "without": len(triples) - n_with}
        left = {f"{what}_{side}": n for side, n in fewer.items() for what in ("tried", "flipped")}
        return self.model_copy(update={name: getattr(self, name) - n for name, n in left.items()})


class NotEstimated(Missing):
    """An effect that these data cannot give, and why."""

    estimand: str
    estimator: str


class ConditionalEffects(Result):
    """The effect within each group of a covariate, or its slope; estimates that are not possible are listed with the reason."""

    effects: tuple[Effect, ...]
    not_estimated: tuple[NotEstimated, ...]


class RateEffects(Result):
    """Everything RATE estimates on one sample."""

    effects: tuple[Effect, ...]
    """Effects that could be estimated: ATT, ATU, ATE by each estimator, then the rewrite effect of each group."""
    not_estimated: tuple[NotEstimated, ...]
    """Effects that could not, each with its reason."""
    n_with: int
    """Originals with the attribute (n₁)."""
    n_without: int
    """Originals without it (n₀)."""

    def get(self, estimand: str, estimator: str) -> Effect:
        """One of the effects; DataError if it could not be estimated, or is none of them."""
        found = self.find(estimand, estimator)
        if isinstance(found, Missing):
            raise DataError(found.reason)
        return found

    def find(self, estimand: str, estimator: str) -> Effect | Missing:
        """One of the effects, or why there is none."""
        known: tuple[Effect | NotEstimated, ...] = (*self.effects, *self.not_estimated)
        for effect in known:
            if (effect.estimand, effect.estimator) == (estimand, estimator):
                return effect
        return Missing(reason=f"'{estimand}' by '{estimator}' is none of the effects of RATE")


class RateOfScoring(Result):
    """RATE's effects under one scoring."""

    overall: RateEffects | Missing
    """On all triples."""
    by_length: ConditionalEffects | Missing
    """Among shorter and longer originals (words), by the double-rewrite estimator."""
    slope: ConditionalEffects
    """Change of the effect per 100 words of the original, by every estimator."""

    @property
    def average(self) -> Effect | Missing:
        """The double-rewrite ATE, or why it is not given."""
        return average_of(self.overall)


class BiasRate(Result):
    """RATE of one bias; every scoring on the same triples."""

    flips: Flips
    """The rewriter, and the number of originals that could be flipped."""
    n: int
    """Triples that every scoring has a verdict on."""
    unread: int
    """Triples left out because a comparison of theirs has no readable verdict."""
    naive_unread: int | None = None
    """Naive pairs of a judge without a readable verdict; None for rewards, whose naive estimate needs no pairs."""
    measured: PerScoring[RateOfScoring] | Missing
    """The effects under every scoring."""
    changes: RateEffects | Missing = NOT_TRAINED
    """After − before of every effect of a training, on the same triples; not standardised, since training may have
    changed the spread of the rewards."""
    test: EffectTest | Missing
    """Test of the double-rewrite ATE under the last scoring."""

    def under(self) -> dict[str, RateOfScoring]:
        """The effects by scoring; empty if there are none."""
        return {} if isinstance(self.measured, Missing) else dict[str, RateOfScoring](self.measured.items())


def average_of(effects: RateEffects | Missing) -> Effect | Missing:
    """The double-rewrite ATE, or why it is not given."""
    return effects if isinstance(effects, Missing) else effects.find("ATE", "double")
