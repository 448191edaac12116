"""An audit as its report reads it, and cells of its tables: shares with their change, margins, and RATE's average effect."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import cache, partial
from importlib import resources
from typing import Any

import yaml

from cda.report.numbers import NOT_ESTIMATED, cell, count, distance, in_each, p_value, points, share, signed
from cda.report.tables import Row
from cda.results.audit import AuditResult
from cda.results.base import Estimate, Measure, Missing, Test
from cda.results.effects import BiasRate, ConditionalEffects, Effect, RateEffects, SameMargin, average_of
from cda.results.skew import BiasSkew, OverSeeds, Plain
from cda.stats.verdict import TOLERATED_LOSS

NO_VOTES = "no votes"
NOT_MEASURED = "not measured"
bare_points = partial(points, unit="")
Pick = Callable[[AuditResult | Plain], Measure | Missing | None]
"""Takes a measure out of an audit, or the same one out of plain CDA's part of it."""


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


def share_cells(audit: AuditResult, pick: Pick, limit: float | None = None) -> Row:
    """Cells of a share in the columns of `estimates`; `limit` as for `change_cells`."""
    measure = pick(audit)
    if measure is None:
        raise TypeError("this was not measured")
    return (*change_cells(measure, limit), *plain_cell(audit, pick))


def plain_cell(audit: AuditResult, pick: Pick) -> Row:
    """The cell of plain CDA; none if plain CDA is the result itself."""
    if audit.plain is None:
        return ()
    try:
        measure = pick(audit.plain)
    except KeyError:
        measure = None
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


def skew_cells(audit: AuditResult, name: str) -> Row:
    return share_cells(audit, lambda result: result.skew[name])


def missed_cells(audit: AuditResult, name: str) -> Row:
    """Cells of the miscalibration of a bias with votes."""
    return share_cells(audit, lambda result: result.votes[name].miscalibration)


def on_voted_cells(audit: AuditResult, name: str) -> Row:
    """Cells of a bias's skew on the contrasts with a majority."""
    return share_cells(audit, lambda result: result.votes[name].skew_on_voted)


def human_skew_cells(audit: AuditResult, name: str) -> Row:
    """Cells of human skew, which no training changes."""
    people = audit.votes[name].human_skew
    return share(people), *(("the same", "") if compares(audit) else ()), count(people), *blank_of_plain(audit)


def quality_cells(audit: AuditResult) -> Row:
    """Cells of quality accuracy, with the digits that tell its change from the loss that is tolerated."""
    return share_cells(audit, lambda result: result.quality, -TOLERATED_LOSS)


def direction_rows(name: str, audit: AuditResult) -> list[Row]:
    """Skew of contrasts with the bias added and with it removed, a row each; none if all have one direction."""

    def pick(direction: str, result: AuditResult | Plain) -> Measure:
        return result.skew[name].by_direction[direction]

    return [(way, *share_cells(audit, partial(pick, way))) for way in audit.skew[name].by_direction]


def margin_unit(audit: AuditResult) -> str:
    """Unit of all margins of an audit."""
    return next(iter(audit.effects.values())).unit


def margin_cell(direct: Effect | SameMargin | Missing, missing: str | None = NOT_ESTIMATED) -> str:
    """A mean margin, or the one that all pairs share; `missing` as for `cell`."""
    if isinstance(direct, SameMargin):
        return in_each(direct.value)
    return cell(direct, lambda effect: signed(effect.estimate), missing)


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


def triple_cells(name: str, audit: AuditResult) -> Row:
    """Cells of the skew over a bias's triples."""

    def pick(result: AuditResult | Plain) -> Measure | Missing:
        return result.triple_skew[name].skew

    if isinstance(pick(audit), Missing):
        blank = ("",) * (2 if compares(audit) else 0)
        return NOT_ESTIMATED, *blank, str(audit.triple_skew[name].n), *plain_cell(audit, pick)
    return share_cells(audit, pick)


def effects_in(part: RateEffects | ConditionalEffects | Missing) -> tuple[Effect, ...]:
    """The effects that could be estimated; none of a part that is missing."""
    return () if isinstance(part, Missing) else part.effects


def rate_row(name: str, audit: AuditResult) -> Row:
    """RATE's ATE of a bias before and after, its change, the rewrites that flipped it, and plain CDA, of which it is not
    measured; named by its unit."""
    rate = audit.rate[name]
    effects = [effect for scored in rate.under().values() for effect in effects_in(scored.overall)]
    unit = f" ({effects[0].estimate.unit})" if effects else ""
    return f" RATE ATE{unit}", *average_cells(rate, audit), *plain_cell(audit, lambda _: None)


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
