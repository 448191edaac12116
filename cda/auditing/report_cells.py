"""An audit as its report reads it: its kind, its targets, words of its sections, and cells of margins and changes."""

from __future__ import annotations

from functools import cache
from importlib import resources
from typing import Any

import yaml

from cda.report.numbers import NOT_ESTIMATED, in_each, signed
from cda.results.audit import AuditResult, On
from cda.results.base import Estimate, Missing
from cda.results.effects import (
    BiasRate,
    Effect,
    Grouping,
    Identification,
    RateEffects,
    SameMargin,
)
from cda.results.skew import BiasSkew
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
    margin = mean_margin(direct)
    return direct.reason if margin is None and missing is None and isinstance(direct, Missing) else margin_words(margin)


def margin_words(margin: Margin | None) -> str:
    """A mean margin, or the one that all pairs share."""
    return NOT_ESTIMATED if margin is None else in_each(margin) if isinstance(margin, float) else signed(margin)


def at_no_drift(identification: Identification | Missing) -> dict[str, Margin | None]:
    """The mean margin among like pairs (`alike`) and each adjusted form's; None for one that could not be estimated."""
    if isinstance(identification, Missing):
        return {}
    adjusted: dict[str, Margin | None] = {form: mean_margin(fit) for form, fit in identification.adjusted.items()}
    return {"alike": mean_margin(identification.overlap_effect), **adjusted}


def mean_margin(found: Effect | Estimate | SameMargin | Missing) -> Margin | None:
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
