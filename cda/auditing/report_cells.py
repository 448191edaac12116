"""An audit as its report reads it, and cells of its tables: shares with their change, margins, and RATE's average effect."""

from __future__ import annotations

from functools import cache, partial
from importlib import resources
from typing import Any

import yaml

from cda.numbers.measures import MEASURES, of_place
from cda.report.numbers import (
    FORMS,
    NO_VOTES,
    NOT_ESTIMATED,
    NOT_MEASURED,
    cell,
    count,
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
)
from cda.results.skew import BiasSkew, OverSeeds
from cda.stats.verdict import TOLERATED_LOSS, Margin

EMBEDDED = "embedded"
"""Name of the model that ships with the package."""


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


def number_cells(audit: AuditResult, key: str, bias: str = "") -> Row:
    """A measure in the columns of `estimates`, with the originals that could be flipped as the n of RATE. A change of quality gets
    the digits that tell it from the loss that is tolerated."""
    measure = MEASURES[key]
    found = {str(moment): each for moment, each in measure.moments(audit, bias).items()}
    form = points if measure.unit == "share difference" else FORMS.get(measure.unit, signed)
    limit = -TOLERATED_LOSS if measure.on == "quality" else None
    moved = partial(points, unit="", limit=limit) if "share" in measure.unit else signed
    plain = measure.last(audit.plain, bias) if audit.plain else None
    last = () if plain is None else (cell(plain, form, NOT_MEASURED if "change" in found else ""),)
    change, first = found.pop("change", None), found.get("model") or found["before"]
    flipped = flipped_cell(audit.rate[bias]) if key == "rate" and bias in audit.rate else ""
    if isinstance(first, Missing):
        why = first.reason if measure.unit == "AUC" else NOT_ESTIMATED
        return why, *([""] * 2 if compares(audit) else []), flipped, *last
    cells = [cell(each, form) for each in found.values()]
    cells += [cell(change, moved)] if change else ["the same", ""] if compares(audit) else []
    return *cells, flipped or count(change if isinstance(change, Estimate) else first), *last


def measures(audit: AuditResult, name: str) -> dict[str, Row]:
    """Cells of the measures of a bias that the first table has, by their names there, in the columns of `estimates`."""
    rows: dict[str, Row] = {}
    for key, measure in of_place("report").items():
        found = measure.find(audit, name) if measure.find and measure.of_bias else None
        if found is None and measure.on == "votes":
            rows[measure.title] = NO_VOTES, NO_VOTES, "", "", *blank_of_plain(audit)
        elif found is not None:
            rate = list(audit.rate[name].under().values()) if key == "rate" else []
            units = [f" ({effect.estimate.unit})" for scored in rate for effect in effects_in(scored.overall)]
            rows["".join([measure.title, *units[:1]])] = number_cells(audit, key, name)
        if key == "skew":
            rows |= {f"skew, {way}": cells for way, cells in direction_cells(audit, name).items()}
    return rows


def direction_cells(audit: AuditResult, name: str) -> dict[str, Row]:
    """Cells of skew by the way in which the contrasts were made, if they were made in both."""
    plain = audit.plain.skew[name].by_direction if audit.plain else {}
    return {
        way: (*change_cells(part), *plain_cell(audit, plain.get(way)))
        for way, part in audit.skew[name].by_direction.items()
    }


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


def effects_in(part: RateEffects | ConditionalEffects | Missing) -> tuple[Effect, ...]:
    """The effects that could be estimated; none of a part that is missing."""
    return () if isinstance(part, Missing) else part.effects


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
