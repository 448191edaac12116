"""Tables of a discovery by topic: attributes over all topics, each in every topic, the topics; and the table as CSV rows."""

from __future__ import annotations

from collections.abc import Iterator

from cda.report.numbers import cell, clipped, count, inert, p_value, share, signed
from cda.report.tables import Row, Table
from cda.results.base import Missing
from cda.results.evidence import Strength
from cda.results.topics import Decision, Heterogeneity, TopicAttribute, TopicCell, TopicsResult

SHORT, _BRIEF, _TOPIC = 90, 50, 50
ALL = "all topics together"
SAID: dict[Decision, str] = {
    "confirmed": "confirmed",
    "shared": "holds here too",
    "opposite": "the opposite holds",
    "not shown": "not shown",
    "not tested": "not tested",
}
_CSV = ("attribute", "name", "topic", "found_here", "decision", "reward", "reward_low", "reward_high", "judge", "judge_low",
        "judge_high", "n", "n_prompts", "p", "p_corrected", "p_over_all", "p_opposite_corrected", "bias_file")  # fmt: skip


def numbered(result: TopicsResult, most: int = SHORT) -> list[tuple[str, TopicAttribute]]:
    """The attributes, shortened, with their numbers in the table."""
    return [(f"{at}. {clipped(inert(row.attribute), most)}", row) for at, row in enumerate(result.by_attribute, 1)]


def summary_table(result: TopicsResult, most: int = SHORT) -> Table:
    """One row for each attribute: where it holds, the numbers over all topics, and how much topics differ."""
    rows: list[Row] = []
    for name, row in numbered(result, most):
        pooled = row.pooled
        numbers = (signed(pooled.reward), share(pooled.judge)) if isinstance(pooled, Strength) else ("", "")
        rows.append((name, *(topics_with(row, decision) for decision in ("confirmed", "shared", "opposite")), *numbers,
                     "yes" if row.pooled_confirmed else "no", *_difference(row.differs)))  # fmt: skip
    header = ("attribute", "confirmed in", "holds too in", "opposite in", "reward, all topics", "judge prefers it, all topics",
              "confirmed, all topics", "topics differ, p", "I²")  # fmt: skip
    return Table("Attributes over all topics", header, tuple(rows))


def topics_with(row: TopicAttribute, decision: Decision) -> str:
    """The topics in which it was decided so, in words."""
    return ", ".join(inert(clipped(topic, _TOPIC)) for topic in row.in_topics(decision))


def _difference(differs: Heterogeneity | Missing) -> tuple[str, str]:
    if isinstance(differs, Missing):
        return "not known", ""
    return cell(differs.p_holm, p_value), f"{differs.i_squared:.0%}"


def attribute_tables(result: TopicsResult) -> list[Table]:
    """One table for each attribute: every topic, and all of them together."""
    return [attribute_table(name, row) for name, row in numbered(result)]


def attribute_table(caption: str, row: TopicAttribute) -> Table:
    """Every topic, and all of them together."""
    rows: list[Row] = [
        (inert(clipped(own.topic, SHORT)), *numbers_of(own.strength), _p(own), _decided(own)) for own in row.cells
    ]
    whole = "confirmed" if row.pooled_confirmed else "not shown" if row.pooled_p is not None else "not tested"
    rows.append((ALL, *numbers_of(row.pooled), cell(row.pooled_p_corrected, p_value), whole))
    header = ("topic", "reward", "judge prefers it", "n", "corrected p", "decision")
    return Table(caption, header, tuple(rows))


def numbers_of(strength: Strength | Missing) -> tuple[str, str, str]:
    """Reward, judge and n, or the reason for none."""
    if isinstance(strength, Missing):  # the topic's own report has the whole reason
        return clipped(strength.reason, _BRIEF), "", ""
    return signed(strength.reward), share(strength.judge), count(strength.reward)


def _p(own: TopicCell) -> str:
    """The corrected p of the direction in which the cell points."""
    if own.p_opposite is not None and own.p_opposite < (1.0 if own.p_corrected is None else own.p_corrected):
        return f"{cell(own.p_opposite, p_value)} (of the opposite)"
    return cell(own.p_corrected, p_value)


def _decided(own: TopicCell) -> str:
    more = "" if own.found_here or own.decision in ("shared", "not tested") else ", carried over"
    return f"{SAID[own.decision]}{more}"


def search_table(result: TopicsResult) -> Table:
    """One row for each topic; without the steps of a search if the attributes were given."""
    rows: list[Row] = []
    for search in result.searches:
        own: tuple[int, ...] = (*search.prompts.values(), search.n_candidates, search.n_validated, search.n_tested)
        own = (*own, search.n_confirmed, search.n_carried_in)
        if result.given:
            own = sum(search.prompts.values()), search.n_tested, search.n_confirmed
        rows.append((inert(clipped(search.topic, SHORT)), *map(str, own), f"{search.folder}/report.html"))
    steps = (
        "prompts to search on",
        "to validate",
        "to test",
        "candidates",
        "validated",
        "tested",
        "confirmed",
        "carried over to it",
    )
    header = ("prompts", "tested", "confirmed") if result.given else steps
    return Table("The topics", ("topic", *header, "its own report"), tuple(rows))


def table_rows(result: TopicsResult) -> Iterator[tuple[object, ...]]:
    """The header and rows of topics.csv: each attribute in each topic, then over all topics; empty for what is not known."""
    yield _CSV
    for row in result.by_attribute:
        for own in row.cells:
            ps = own.p_value, own.p_corrected, own.p_over_all, own.p_opposite
            names = (_guarded(row.attribute), row.name, _guarded(own.topic), own.found_here, own.decision)
            yield *names, *_values(own.strength), *map(_number, ps), own.file or ""
        whole = "confirmed" if row.pooled_confirmed else "not shown" if row.pooled_p is not None else "not tested"
        ps = row.pooled_p, row.pooled_p_corrected, None, None
        yield _guarded(row.attribute), row.name, ALL, "", whole, *_values(row.pooled), *map(_number, ps), ""


def _values(strength: Strength | Missing) -> tuple[object, ...]:
    if isinstance(strength, Missing):
        return ("",) * 8
    gain, judge = strength.reward, strength.judge
    return (
        *map(_number, (gain.value, gain.low, gain.high, judge.value, judge.low, judge.high)),
        gain.n,
        gain.n_prompts,
    )


def _number(value: float | None) -> object:
    return "" if value is None else float(f"{value:.6g}")


def _guarded(text: str) -> str:
    """A text that no spreadsheet takes for a formula."""
    return f"'{text}" if text[:1] in "=+-@" else text


def counted_word(n: int, what: str) -> str:
    """A number with its noun, in the plural if need be."""
    return f"{n} {what}{'' if n == 1 else 's'}"
