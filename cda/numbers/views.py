"""The numbers of results: of an audit, of a row that is shared, of a comparison, a leaderboard and a panel."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import singledispatch

from cda.errors import DataError
from cda.numbers.measures import MEASURES, Measure, of_audits
from cda.numbers.number import Number, Numbers
from cda.results.audit import AuditResult
from cda.results.base import Missing, Result
from cda.results.panel import (
    ComparisonResult,
    LeaderboardResult,
    LeaderboardRow,
    RankedGroup,
)
from cda.results.skew import OverSeeds, Plain


@singledispatch
def numbers_of(result: object) -> Numbers:
    """The numbers of a result; DataError: its kind has none here."""
    raise DataError(f"{type(result).__name__} has no numbers by measure and moment; to_frame() gives its estimates")


@numbers_of.register(AuditResult)
@numbers_of.register(Plain)
def _of_audit(audit: AuditResult | Plain) -> Numbers:
    return Numbers(
        Number(key, moment, {"bias": bias} if bias else {}, found, measure.tested(audit, bias, moment))
        for key, measure in of_audits().items()
        for bias in (audit.skew if measure.of_bias else [""])
        for moment, found in measure.moments(audit, bias).items()
    )


def over_seeds(audit: AuditResult) -> Iterator[tuple[str, str, OverSeeds | Missing]]:
    """Measure, bias and result over several trainings."""
    for key, measure in MEASURES.items() if audit.seeds and audit.seeds.several else ():
        found = getattr(audit.seeds, measure.shown_as.get("row", key) if not measure.of_bias else key, None)
        by_bias = found if isinstance(found, Mapping) else {"": found} if found is not None else {}
        yield from ((key, bias, each) for bias, each in by_bias.items())


def shared() -> dict[str, Measure]:
    """Measures of rows, by key."""
    return {key: measure for key, measure in MEASURES.items() if measure.shared}


@numbers_of.register
def _of_row(row: LeaderboardRow) -> Numbers:
    return Numbers(_in_row(row, {}))


def _in_row(row: LeaderboardRow, at: Mapping[str, str]) -> Iterator[Number]:
    for key, measure in shared().items():
        parts: Mapping[str, Result] = row.biases if measure.of_bias else {"": row}
        for bias, part in parts.items():
            if (found := getattr(part, measure.shown_as.get("row", key), None)) is not None:
                yield Number(
                    key, "after" if row.training else "model", {**at, **({"bias": bias} if bias else {})}, found
                )


@numbers_of.register
def _of_comparison(result: ComparisonResult) -> Numbers:
    return Numbers(number for name, row in result.audits.items() for number in _in_row(row, {"audit": name}))


@numbers_of.register
def _of_group(group: RankedGroup) -> Numbers:
    return Numbers(number for entry in group.entries for number in _in_row(entry.row, {"audit": entry.file}))


@numbers_of.register
def _of_leaderboard(result: LeaderboardResult) -> Numbers:
    return Numbers(number for group in result.groups for number in _of_group(group))
