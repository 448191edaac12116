"""RATE's average effect as cells of the main tables, and in words how many rewrites flipped the bias."""

from __future__ import annotations

from collections.abc import Sequence

from cda.report.numbers import NOT_ESTIMATED, signed
from cda.results.audit import AuditResult
from cda.results.base import Missing
from cda.results.effects import Effect
from cda.results.rate import BiasRate, ConditionalEffects, Flips, RateEffects, average_of
from cda.results.skew import BiasSkew


def effects_in(part: RateEffects | ConditionalEffects | Missing) -> tuple[Effect, ...]:
    """What could be estimated; nothing of a part that is missing."""
    return () if isinstance(part, Missing) else part.effects


def last_effects(one: BiasRate) -> tuple[Effect, ...]:
    """The effects of one bias under the last scoring."""
    return next((effects_in(found.overall) for found in reversed(one.under().values())), ())


def unit_of(one: BiasRate) -> str:
    """Unit of one bias's effects, in brackets; empty if there is none to say."""
    known = [effect for found in one.under().values() for effect in effects_in(found.overall)]
    return f" ({known[0].estimate.unit})" if known else ""


def average_cells(one: BiasRate, scorings: Sequence[str]) -> tuple[str, ...]:
    """The average effect of one bias under every scoring, its change where there are two, and the share flipped."""
    found = [part.average for part in one.under().values()]
    if not found or isinstance(found[0], Missing):
        return (NOT_ESTIMATED, *([""] * 2 if len(scorings) > 1 else []), flipped_cell(one))
    found += [average_of(one.changes)] if len(scorings) > 1 else []
    cells = [NOT_ESTIMATED if isinstance(each, Missing) else signed(each.estimate) for each in found]
    return (*cells, flipped_cell(one))


def flipped_cell(one: BiasRate) -> str:
    """How many originals could be flipped and back, of how many."""
    flips = one.flips
    flipped, tried = flips.flipped_with + flips.flipped_without, flips.tried_with + flips.tried_without
    return f"{flipped} of {tried} flipped" if flips.checked_by else f"{flipped} of {tried}, unchecked"


def contrasts_flipped(skew: BiasSkew) -> str:
    """How many rewrites that were to become contrasts flipped the bias; empty for contrasts that were not rewritten here."""
    if not skew.source.startswith("embedded answers rewritten"):
        return ""
    return f"{skew.available} of {skew.available + sum(skew.rewrites_failed.values())} flipped"


def rewritten_line(audit: AuditResult) -> str:
    """The same for every bias whose contrasts were rewritten here, as one sentence; empty without any."""
    found = [f"{name} {flipped}" for name, skew in audit.skew.items() if (flipped := contrasts_flipped(skew))]
    return f"Contrasts rewritten for this audit: {'; '.join(found)}." if found else ""


def flips_sentence(name: str, flips: Flips) -> str:
    """Who rewrote, in how many answers both rewrites flipped the bias, and who says so."""
    sides = (("with", flips.flipped_with, flips.tried_with), ("without", flips.flipped_without, flips.tried_without))
    parts = " and ".join(f"{flipped} of {tried} answers {side} it" for side, flipped, tried in sides if tried)
    if flips.checked_by is None:
        return f"{name}: rewritten by {flips.by}; {parts} are used. Nothing checks that the bias flipped."
    return f"{name}: rewritten by {flips.by}. Both rewrites flipped the bias in {parts} (told by: {flips.checked_by})."


def gap_sentence(name: str, one: BiasRate) -> str:
    """Why the average effect of a bias is not given; empty if it is."""
    missing = one.measured if isinstance(one.measured, Missing) else list(one.under().values())[-1].average
    return f"{name}: RATE's ATE is not estimated: {missing.reason}." if isinstance(missing, Missing) else ""
