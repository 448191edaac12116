"""An audit as its report reads it, and cells of its tables: shares with their change, margins, and RATE's average effect."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import cache, partial
from importlib import resources
from typing import Any

import yaml

from cda.report.numbers import (
    NO_VOTES,
    NOT_ESTIMATED,
    NOT_MEASURED,
    cell,
    count,
    distance,
    in_each,
    p_value,
    points,
    share,
    signed,
)
from cda.report.tables import Row
from cda.results.audit import AuditResult
from cda.results.base import Estimate, Measure, Missing, Test
from cda.results.effects import (
    Adjusted,
    BiasRate,
    ConditionalEffects,
    Effect,
    Identification,
    PairsEffect,
    RateEffects,
    SameMargin,
    average_of,
)
from cda.results.skew import BiasSkew, OverSeeds, Plain
from cda.stats.verdict import TOLERATED_LOSS, Margin

EMBEDDED = "embedded"
"""Name of the model that ships with the package."""
RATE = "RATE ATE"
"""Name of the average effect, before its unit."""
bare_points = partial(points, unit="")


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


def others(audit: AuditResult) -> list[str]:
    """The other biases that were measured."""
    return [name for name, skew in audit.skew.items() if not skew.target]


def voted_names(audit: AuditResult) -> list[str]:
    """Biases with votes, targets first."""
    return [name for name in audit.skew if name in audit.votes]


def applied(audit: AuditResult) -> float:
    """The dose that `after` is of."""
    return 1.0 if audit.dose_applied is None else float(audit.dose_applied)


def estimates(audit: AuditResult) -> Row:
    """Columns of a share: before, after, change and n, and plain CDA if that is not the result; or the share and n."""
    if not compares(audit):
        return ("share", "n")
    dose = audit.dose_applied
    after = "after" if dose in (None, 1) else f"after, dose {dose:g}"
    return ("before", after, "change (points)", "n", *(("plain CDA (dose 1)",) if audit.plain else ()))


def measures(audit: AuditResult, name: str) -> dict[str, Row]:
    """Cells of every measure of a bias, by its name in a report, in the columns of `estimates`."""
    own, plain = _shares(audit, name), _shares(audit.plain, name)
    rows = {what: (*change_cells(measure), *plain_cell(audit, plain.get(what))) for what, measure in own.items()}
    if name in audit.votes:
        people, same = audit.votes[name].human_skew, ("the same", "") if compares(audit) else ()
        rows["human skew"] = share(people), *same, count(people), *blank_of_plain(audit)
        rows["gap"] = gap_cells(audit, name)
    else:
        rows["miscalibration"] = NO_VOTES, NO_VOTES, "", "", *blank_of_plain(audit)
    if name in audit.triple_skew:
        rows["skew (triples)"] = triple_cells(name, audit)
    if name in audit.rate:
        rate = audit.rate[name]
        effects = [effect for scored in rate.under().values() for effect in effects_in(scored.overall)]
        unit = f" ({effects[0].estimate.unit})" if effects else ""
        rows[f"{RATE}{unit}"] = *average_cells(rate, audit), *plain_cell(audit, None)
    return rows


def _shares(result: AuditResult | Plain | None, name: str) -> dict[str, Measure]:
    """Shares of a bias in an audit, or in plain CDA's part of it."""
    if result is None or name not in result.skew:
        return {}
    skew, votes = result.skew[name], result.votes.get(name)
    shares: dict[str, Measure] = {"skew": skew, **{f"skew, {way}": part for way, part in skew.by_direction.items()}}
    if votes is not None:
        shares |= {"skew on voted contrasts": votes.skew_on_voted, "miscalibration": votes.miscalibration}
    return shares


def triple_cells(name: str, audit: AuditResult) -> Row:
    """Cells of the skew over a bias's triples."""
    own, plain = audit.triple_skew[name], audit.plain.triple_skew.get(name) if audit.plain else None
    last = plain_cell(audit, plain.skew if plain else None)
    if isinstance(own.skew, Missing):
        return NOT_ESTIMATED, *([""] * 2 if compares(audit) else []), str(own.n), *last
    return *change_cells(own.skew), *last


def quality_cells(audit: AuditResult) -> Row:
    """Cells of quality accuracy, with the digits that tell its change from the loss that is tolerated."""
    if audit.quality is None:
        raise TypeError("quality was not measured")
    return *change_cells(audit.quality, -TOLERATED_LOSS), *plain_cell(
        audit, audit.plain.quality if audit.plain else None
    )


def plain_cell(audit: AuditResult, measure: Measure | Missing | None) -> Row:
    """The cell of plain CDA; none if plain CDA is the result itself."""
    if audit.plain is None:
        return ()
    return (NOT_MEASURED if measure is None or isinstance(measure, Missing) else share(measure.last),)


def blank_of_plain(audit: AuditResult) -> Row:
    """An empty cell in the column of plain CDA, if there is one."""
    return ("",) if audit.plain else ()


def change_cells(measure: Measure | Missing | OverSeeds, limit: float | None = None) -> Row:
    """Before, after, change and n of a paired change, or the one share and its n. The change gets the digits that tell its
    interval from 0 and from `limit`."""
    if isinstance(measure, Missing):
        raise TypeError(measure.reason)
    before, after, change = measure.before, measure.after, measure.change
    if isinstance(before, float):
        raise TypeError("a reward is no share")
    if isinstance(after, Missing) or isinstance(change, Missing):
        return share(before), count(before)
    return share(before), share(after), points(change, "", limit), count(change)


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


def mean_margin(found: Effect | PairsEffect | Adjusted | SameMargin | Missing) -> Margin | None:
    """An estimate of the audit; a plain number if all pairs share it, None if there is neither."""
    match found:
        case SameMargin():
            return found.value
        case Missing():
            return None
        case Effect():
            return found.estimate
        case PairsEffect():
            return found.mean_margin
        case Adjusted():
            return found.effect


def tested_cells(test: Test | Missing | None) -> tuple[str, str]:
    """p and Holm's p of a test of the audit's family; empty without such a test."""
    if test is None or isinstance(test, Missing) or test.p_holm is None:
        return "", ""
    return p_value(test.p_value), p_value(test.p_holm)


def gap_cells(audit: AuditResult, name: str) -> Row:
    """Cells of the gap, in points: a distance has no sign, its change has one."""
    votes, plain = audit.votes[name], audit.plain.votes.get(name) if audit.plain else None
    cells = paired_cells((gap for _, gap in votes.gap.items()), votes.gap.change, distance, bare_points)
    return *cells, count(votes.human_skew), *((cell(plain.gap.last, distance),) if plain else ())


def paired_cells(
    values: Iterable[Estimate | Missing], change: Estimate | Missing, form: Callable[[Estimate], str],
    change_form: Callable[[Estimate], str],
) -> Row:  # fmt: skip
    """Values under every scoring, and the change between them if there is one."""
    return *(cell(value, form) for value in values), *(() if isinstance(change, Missing) else (change_form(change),))


def effects_in(part: RateEffects | ConditionalEffects | Missing) -> tuple[Effect, ...]:
    """The effects that could be estimated; none of a part that is missing."""
    return () if isinstance(part, Missing) else part.effects


def average_cells(rate: BiasRate, audit: AuditResult) -> Row:
    """The average effect of one bias under every scoring, its change if there are two, and the share flipped."""
    averages = [scored.average for scored in rate.under().values()]
    if not averages or isinstance(averages[0], Missing):
        return (NOT_ESTIMATED, *([""] * 2 if compares(audit) else []), flipped_cell(rate))
    averages += [average_of(rate.changes)] if compares(audit) else []
    return (*map(margin_cell, averages), flipped_cell(rate))


def flipped_cell(rate: BiasRate) -> str:
    """Number of originals that could be flipped and flipped back, of all."""
    flips = rate.flips
    flipped, tried = flips.flipped_with + flips.flipped_without, flips.tried_with + flips.tried_without
    return f"{flipped} of {tried} flipped" if flips.checked_by else f"{flipped} of {tried}, unchecked"


def contrasts_flipped(skew: BiasSkew, form: str = "{}") -> str:
    """Number of rewrites for contrasts that flipped the bias; empty for contrasts that were not rewritten here."""
    if not skew.source.startswith("embedded answers rewritten"):
        return ""
    return form.format(f"{skew.available} of {skew.available + sum(skew.rewrites_failed.values())} flipped")
