"""The numbers of results: of an audit, of a row that is shared, and of a comparison."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from functools import singledispatch
from itertools import chain

from cda.numbers.measures import MEASURES, of_audits
from cda.numbers.number import Number, Numbers
from cda.results.audit import AuditResult
from cda.results.base import Missing
from cda.results.comparison import AuditRow, ComparisonResult, SavedNumber
from cda.results.skew import OverSeeds, Plain


@singledispatch
def numbers_in(_result: object) -> Numbers:
    """The numbers of a result, of those kinds that are made of audits; none of others."""
    return Numbers()


@numbers_in.register(AuditResult)
@numbers_in.register(Plain)
def _of_audit(audit: AuditResult | Plain) -> Numbers:
    return Numbers(
        Number(key, moment, {"bias": bias} if bias else {}, found, measure.tested(audit, bias, moment))
        for key, measure in of_audits().items()
        for bias in (audit.skew if measure.of_bias else [""])
        for moment, found in measure.moments(audit, bias).items()
    )


def seed_numbers(audit: AuditResult) -> Iterator[tuple[str, str, OverSeeds | Missing]]:
    """Measure, bias and result over several trainings."""
    for key, measure in MEASURES.items() if audit.seeds and audit.seeds.several else ():
        found = getattr(audit.seeds, key if measure.of_bias else "quality", None)
        by_bias = found if isinstance(found, Mapping) else {"": found} if found is not None else {}
        yield from ((key, bias, each) for bias, each in by_bias.items())


@numbers_in.register
def _of_row(row: AuditRow) -> Numbers:
    return Numbers(_read(row.numbers, {}))


def _read(saved: Iterable[SavedNumber], at: Mapping[str, str]) -> Iterator[Number]:
    yield from (Number(each.measure, each.moment, {**at, **each.at}, each.found, each.test) for each in saved)


@numbers_in.register
def _of_comparison(result: ComparisonResult) -> Numbers:
    own = (_read(row.numbers, {"audit": name, "kind": row.kinds}) for name, row in result.audits.items())
    return Numbers([*chain.from_iterable(own), *_read(result.together, {})])
