"""An audit as its report reads it: its kind, its targets, words of its sections, and cells of margins and changes."""

from __future__ import annotations

from functools import cache
from importlib import resources
from typing import Any

import yaml

from cda.numbers.measures import MEASURES
from cda.report.numbers import NOT_ESTIMATED, in_each, signed
from cda.results.audit import AuditResult, On
from cda.results.base import Estimate, Measure, Missing, Number
from cda.results.effects import (
    BiasRate,
    Effect,
    Grouping,
    Identification,
    RateEffects,
    SameMargin,
)
from cda.results.skew import BiasSkew, OverSeeds, Seeds, VotedBias
from cda.stats.verdict import Margin

EMBEDDED = "embedded"
"""Name of the model that ships with the package."""
REWRITTEN = "embedded answers rewritten"
"""Opens the source of contrasts that a rewriter made for the audit."""


@cache
def report_texts(name: str = "sections.yaml") -> dict[str, dict[str, Any]]:
    """glossary.yaml, or sections.yaml: titles and words of the sections, by their ids."""
    found: dict[str, dict[str, Any]] = yaml.safe_load(
        (resources.files("cda.auditing") / name).read_text(encoding="utf-8")
    )
    return found


def said(section: str, key: str = "text", **values: object) -> str:
    """Words of sections.yaml, with the values that they have places for."""
    return str(report_texts()[section][key].format(**values))


def compares(audit: AuditResult) -> bool:
    """True if the audit compares before and after a training; else it measures one model or judge as it is."""
    return len(audit.scorings) > 1


def tests_named(audit: AuditResult) -> str:
    """The tests that Holm's correction of an audit allows for, in words."""
    return {0: "the tests", 1: "the one test"}.get(audit.n_tests, f"all {audit.n_tests} tests")


def of_mean(audit: AuditResult) -> AuditResult:
    """The audit with the means over its trainings in place of the first training's skew, votes and quality, of which the verdicts are;
    the audit itself without several trainings. Doses chosen on the same contrasts are not held out there."""
    seeds = audit.seeds
    if seeds is None or not seeds.several:
        return audit
    mean = seeds.measures

    def stored(number: Number) -> Number:
        over = mean.get(number.measure, {}).get(number.at.get("bias", ""))
        moves = number.moment in ("after", "change") and "interval" not in number.at
        if not moves or not isinstance(over, OverSeeds) or over.test is None:
            return number
        tested = {"test": over.test} if number.moment == "change" else {}
        return number.model_copy(update={"found": getattr(over, number.moment), **tested})

    skew = {name: _moved(one, mean.get("skew", {}).get(name)) for name, one in audit.skew.items()}
    tests = [over for key in mean.values() for over in key.values() if isinstance(over, OverSeeds) and over.test]
    update = {
        "skew": skew, "votes": {name: _votes_moved(one, name, seeds) for name, one in audit.votes.items()}, "in_sample": None,
        "measured": tuple(stored(each) for each in audit.measured if MEASURES[each.measure].on not in ("added", "removed")),
        "dose_applied": max(seeds.doses, default=1.0), "n_tests": len(tests),
    }  # fmt: skip
    return audit.model_copy(update=update)


def _moved(measure: Measure, over: OverSeeds | Missing | None) -> Measure:
    if not isinstance(over, OverSeeds) or over.test is None:
        return measure
    numbers = {"before": over.before, "after": over.after, "change": over.change, "test": over.test}
    return measure.model_copy(update=numbers)


def _votes_moved(votes: VotedBias, name: str, seeds: Seeds) -> VotedBias:
    over = {
        key: _moved(each, seeds.measures.get(key, {}).get(name)) if isinstance(each, Measure) else each
        for key, each in votes.measured.items()
    }
    moved = votes.model_copy(update={"measured": over})
    gap = votes.gap.model_copy(update={"change": _change_of_gap(moved.skew_on_voted, votes.human_skew.value)})
    return moved.model_copy(update={"measured": over | {"gap": gap}})


def _change_of_gap(skew: Measure, human: float) -> Estimate:
    """Change of |skew − human skew| by that of skew, with the gap before taken as known."""
    before, after, change, _ = skew.of_training()
    first, last = before.value - human, after.value - human
    side, crossed = (1 if (last or first) > 0 else -1), 2 * abs(first) * (first * last < 0)
    low, high = sorted(side * end - crossed for end in (change.low, change.high))
    return change.model_copy(update={"value": abs(last) - abs(first), "low": low, "high": high})


def targets(audit: AuditResult) -> list[str]:
    """The biases that were trained on."""
    return [name for name, skew in audit.skew.items() if skew.target]


def voted_names(audit: AuditResult) -> list[str]:
    """Biases with votes, targets first."""
    return [name for name in audit.skew if name in audit.votes]


def applied(audit: AuditResult) -> float:
    """The dose that `after` is of."""
    return 1.0 if audit.dose_applied is None else float(audit.dose_applied)


def margin_unit(audit: AuditResult) -> str:
    """Unit of all margins of an audit."""
    return next(iter(audit.effects.values())).unit


def margin_cell(direct: Effect | SameMargin | Missing, missing: str | None = NOT_ESTIMATED) -> str:
    """A mean margin, or the one that all pairs share; `missing` as for `cell`."""
    margin = average_margin(direct)
    return direct.reason if margin is None and missing is None and isinstance(direct, Missing) else margin_words(margin)


def margin_words(margin: Margin | None) -> str:
    """A mean margin, or the one that all pairs share."""
    return NOT_ESTIMATED if margin is None else in_each(margin) if isinstance(margin, float) else signed(margin)


def at_no_drift(identification: Identification | Missing) -> dict[str, Margin | None]:
    """The mean margin among like pairs (`alike`) and each adjusted form's; None for one that could not be estimated."""
    if isinstance(identification, Missing):
        return {}
    adjusted: dict[str, Margin | None] = {form: average_margin(fit) for form, fit in identification.adjusted.items()}
    return {"alike": average_margin(identification.overlap_effect), **adjusted}


def average_margin(found: Effect | Estimate | SameMargin | Missing) -> Margin | None:
    """An estimate of the audit; a plain number if all pairs share it, None if there is neither."""
    match found:
        case SameMargin():
            return found.value
        case Missing():
            return None
        case Effect():
            return found.estimate
        case Estimate():
            return found


def effects_in(part: RateEffects | Missing) -> tuple[Effect, ...]:
    """The effects that could be estimated; none of a part that is missing."""
    return () if isinstance(part, Missing) else part.effects


def flipped_cell(rate: BiasRate) -> str:
    """Number of originals that could be flipped and flipped back, of all."""
    flips = rate.flips
    flipped, tried = flips.flipped_with + flips.flipped_without, flips.tried_with + flips.tried_without
    return f"{flipped} of {tried} flipped" if flips.checked_by else f"{flipped} of {tried}, unchecked"


def contrasts_flipped(skew: BiasSkew, form: str = "{}") -> str:
    """Number of rewrites for contrasts that flipped the bias; empty for contrasts that were not rewritten here."""
    if not skew.source.startswith(REWRITTEN):
        return ""
    return form.format(f"{skew.available} of {skew.available + sum(skew.rewrites_failed.values())} flipped")


def divided(audit: AuditResult, on: On) -> dict[str, Grouping]:
    """Bias and column, in words, with what the column divides: contrasts or triples."""
    return {
        f"{bias}, {column}": by
        for bias, found in audit.by.items()
        for column, by in found[on].items()
        if isinstance(by, Grouping)
    }
