"""Results as rows: each number with its measure, its moment, and what it is of; of an audit, of a row that is shared, and of a
comparison."""

from __future__ import annotations

from collections.abc import Iterator
from functools import singledispatch
from typing import TYPE_CHECKING, get_args

from cda.errors import DataError
from cda.numbers.measures import MEASURES, Found, known_key, of_audits, of_place, unknown
from cda.results.audit import AuditResult
from cda.results.base import ByName, Estimate, Missing, Moment, Number, Test, by_name
from cda.results.comparison import AuditRow, ComparisonResult
from cda.results.skew import OverSeeds, Plain

if TYPE_CHECKING:
    from pandas import DataFrame

LEVELS = ("bias", "text", "section", "audit", "kind", "audits", "topic", "seed", "dose", "judge", "kl")
"""What a number can be of: names of its `at`."""


class Numbers(tuple[Number, ...]):
    """Numbers in the order of their result."""

    def where(self, measure: str | None = None, moment: str | None = None, **at: str) -> Numbers:
        """Those of a measure, a moment, and one of each level that is named.

        Raises:
            DataError: No such measure, moment, level, or one of it; with the nearest name of each.
        """
        wanted = {"measure": measure and known_key(measure, MEASURES), "moment": moment, **at}
        problems = []
        for name, value in wanted.items():
            known = {"measure": tuple(MEASURES), "moment": get_args(Moment)}.get(name) or self.values_of(name)
            if name in at and name not in LEVELS:
                problems.append(unknown(name, LEVELS, "level"))
            elif value is not None and value not in known:
                problems.append(unknown(value, known, name))
        if problems:
            raise DataError("\n".join(problems))
        wanted = {name: value for name, value in wanted.items() if value is not None}
        return Numbers(number for number in self if all(number.value_of(key) == each for key, each in wanted.items()))

    def values_of(self, name: str) -> list[str]:
        """The measures, the moments, or those of a level, in the order of the numbers."""
        return list(dict.fromkeys(found for number in self if (found := number.value_of(name))))

    def pivot(self, rows: str, columns: str) -> ByName[ByName[Number]]:
        """Numbers by two of measure, moment and levels: those of a row by those of a column.

        Raises:
            DataError: Two numbers belong into one cell: choose among them with `where`.
            UnknownNameError: When a row or column is looked up that there is not, such as the moment `before` of one model as it
                is (`model`); the message has those that there are.
        """
        found = by_name({row: by_name(dict[str, Number](), columns) for row in self.values_of(rows)}, rows)
        for number in self:
            if (own := found.get(number.value_of(rows))) is not None and (column := number.value_of(columns)):
                if column in own:
                    raise DataError(
                        f"two numbers of {number.value_of(rows)} and {column}, such as {own[column]} and {number}: choose with where()"
                    )
                own[column] = number
        return found

    def to_frame(self) -> DataFrame:
        """As a pandas frame, with the columns of a result's `to_frame`. DataError: pandas is not installed."""
        from cda.numbers.frames import frame, rows  # imports this

        return frame(rows(self))

    def rows(self) -> Iterator[dict[str, object]]:
        """Each as a flat row: measure, moment, levels, then the estimate's fields, p-values of its test, and why there is none."""
        levels = [level for level in LEVELS if self.values_of(level)]
        for number in self:
            named = {name: number.value_of(name) for name in ("measure", "moment", *levels)}
            yield named | flat(number.found, number.test)


def flat(found: Found, test: Test | None) -> dict[str, object]:
    """An estimate's fields, p-values of its test, and the reason of a missing one."""
    blank = dict.fromkeys((*Estimate.model_fields, "p_value", "p_holm", "reason"))
    return {**blank, **(test.model_dump(include={"p_value", "p_holm"}) if test else {}), **found.model_dump()}


@singledispatch
def numbers_in(_result: object) -> Numbers:
    """The numbers of a result, of those kinds that are made of audits; none of others."""
    return Numbers()


@numbers_in.register
def _of_audit(audit: AuditResult) -> Numbers:
    own = [
        Number.of(key, moment, {"bias": bias} if bias else {}, found, measure.tested(audit, bias, moment))
        for key, measure in of_audits().items()
        for bias in (() if measure.level else audit.skew if measure.of_bias else [""])
        for moment, found in measure.moments(audit, bias).items()
        if measure.on != "places" or measure.own_moments(audit, bias)
    ]
    return Numbers([*own, *(each for each in audit.measured if MEASURES[each.measure].level)])


def seed_numbers(audit: AuditResult) -> Iterator[tuple[str, str, OverSeeds | Missing]]:
    """Measure, bias and result over several trainings."""
    found = audit.seeds.measures if audit.seeds else {}
    yield from ((key, bias, each) for key in MEASURES for bias, each in found.get(key, {}).items())


@numbers_in.register
def _of_plain(plain: Plain) -> Numbers:
    return Numbers(plain.numbers)


@numbers_in.register
def _of_row(row: AuditRow) -> Numbers:
    return Numbers(row.numbers)


@numbers_in.register
def _of_comparison(result: ComparisonResult) -> Numbers:
    own = [
        each.model_copy(update={"at": {"audit": name, "kind": row.kinds, **each.at}})
        for name, row in result.audits.items()
        for each in row.numbers
    ]
    return Numbers([*own, *result.together])


PREFIX = "cda"


def tracker_name(key: str, bias: str, *after: str) -> str:
    """Name of a number in trackers, such as `cda/skew/jargon/after`."""
    return "/".join(part for part in (PREFIX, MEASURES[key].shown_as.get("tracker", key), bias, *after) if part)


def tracked_numbers(result: AuditResult | Plain) -> list[tuple[Number, Estimate]]:
    """The numbers of an audit, or of plain CDA's part of it, that trackers and model cards have; missing ones are left out."""
    numbers = [number for number in numbers_in(result) if number.measure in of_place("tracker")]
    return [(number, number.found) for number in numbers if isinstance(number.found, Estimate)]


def as_metrics(audit: AuditResult) -> dict[str, float]:
    """The numbers of an audit's result for a tracker: each with the ends of its 95% interval and its n, and the dose; with
    several trainings the means over them and their spread too."""
    metrics: dict[str, float] = {} if audit.dose_applied is None else {f"{PREFIX}/dose": audit.dose_applied}
    for number, found in tracked_numbers(audit):
        metrics |= _with_interval(tracker_name(number.measure, number.at.get("bias", ""), number.moment), found)
    for key, bias, over in _over_seeds(audit):
        name = tracker_name(key, bias).replace("/", "/seeds/", 1)
        metrics |= _with_interval(f"{name}/after", over.after) | _with_interval(f"{name}/change", over.change)
        metrics[f"{name}/sd"] = over.sd
    return metrics


def seed_metrics(audit: AuditResult, at: int) -> dict[str, float]:
    """The numbers after one of several trainings, by its place among the seeds; they have no interval by themselves."""
    metrics = {f"{PREFIX}/dose": audit.seeds.doses[at]} if audit.seeds and audit.seeds.doses else {}
    return metrics | {tracker_name(key, bias, "after"): over.by_seed[at] for key, bias, over in _over_seeds(audit)}


def _with_interval(name: str, found: Estimate) -> dict[str, float]:
    return {name: found.value, f"{name}_low": found.low, f"{name}_high": found.high, f"{name}_n": float(found.n)}


def _over_seeds(audit: AuditResult) -> Iterator[tuple[str, str, OverSeeds]]:
    for key, bias, over in seed_numbers(audit):
        if key in of_place("tracker") and isinstance(over, OverSeeds):
            yield key, bias, over
