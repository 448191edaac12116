"""What the place of an answer decides when a judge compares two, beside what they say, and whether it agrees with itself: in words, and the tables of a section."""

from __future__ import annotations

from cda.numbers.measures import MEASURES
from cda.records import PERCENT
from cda.report.names import called, capital
from cda.report.numbers import NOT_ESTIMATED, cell, count, percent, share
from cda.report.tables import Row, Table, table
from cda.results.audit import AuditResult
from cda.results.base import Estimate
from cda.results.facts import ComparerFacts, JudgeFacts, PanelFacts
from cda.stats.verdict import mostly_by_place


def decided(audit: AuditResult, bias: str = "") -> Estimate | None:
    """Share of comparisons, or of those of a bias, that the place decided; None if that is not known."""
    model = audit.model
    if bias:
        found = model.by_place_of.get(bias) if isinstance(model, ComparerFacts) else None
    else:
        found = of_judge(audit).get("position")
    return found if isinstance(found, Estimate) else None


def of_judge(audit: AuditResult) -> dict[str, Estimate]:
    """Measures of a judge as a whole, by key: what the place decides and, if it was asked again, its agreement with itself."""
    found = {key: one.moments(audit, "").get("model") for key, one in MEASURES.items() if one.on == "places"}
    return {key: each for key, each in found.items() if isinstance(each, Estimate)}


def followed(found: Estimate) -> int:
    """Comparisons that the place decided; of a panel, as many as its judges' verdicts are worth."""
    return round(found.value * found.n)


def kept_words(audit: AuditResult, bias: str) -> str:
    """How many comparisons of a bias say nothing of it, since the place decides; empty if all do, or if that is not known."""
    found = decided(audit, bias)
    if not found or not followed(found):
        return ""
    return f"{'all ' if followed(found) == found.n else f'{followed(found)} of '}{found.n} decided by place"


def opening(audit: AuditResult) -> str:
    """The beginning of the headline if the place decides much, a space at its end; else empty."""
    model, found = audit.model, decided(audit)
    named = "the embedded judge" if model.name == "embedded" else capital(called(model.name))
    weak = "bias estimates are weak. "
    if found is not None and mostly_by_place(found):
        picks = f", picking the {_side(model)}" if isinstance(model, JudgeFacts) and model.position_bias else ""
        return f"{named} goes by the place in {share(found)} of comparisons, whatever the answers say{picks}; {weak}"
    if isinstance(model, JudgeFacts) and model.position is not None and mostly_by_place(model.position):
        return f"{named}, asked in one order, picks the {_side(model)}; {weak}"
    return ""


def _side(model: JudgeFacts) -> str:
    """The answer that a judge picks more often, with its share of the verdicts."""
    bias = model.position_bias or 0.0
    return f"{'first' if bias > 0 else 'second'} in {percent((1 + abs(bias)) / 2)} of verdicts"


def sentence(audit: AuditResult) -> str:
    """How often the place decides, and a judge that was asked again agrees with itself; empty for a reward model."""
    model, found = audit.model, decided(audit)
    if found is not None:
        picks = f"; it picks the {_side(model)}" if isinstance(model, JudgeFacts) and model.position_bias else ""
        said = (
            f"Position: the place decides {share(found)} of comparisons read in both orders, n = {count(found)}{picks}."
        )
    elif isinstance(model, JudgeFacts) and model.position_bias is not None:
        said = f"Position: asked in one order, it picks the {_side(model)}; how often the place decides is not shown."
    else:
        return ""
    again = of_judge(audit).get("stability")
    times = model.repeats if isinstance(model, ComparerFacts) else 1
    return f"{said} Asked {times} times, it agrees with itself in {share(again)} of them." if again else said


def position_tables(audit: AuditResult) -> tuple[Table | None, ...]:
    """By judge, what the place decides and what was not read; by bias, how many comparisons it leaves."""
    model = audit.model
    if not isinstance(model, ComparerFacts):
        return ()
    judges = model.judges if isinstance(model, PanelFacts) else {model.name: model}
    shares = {"by_place": "decided by place", "unread_share": "unread"}
    shares |= {"stability": "same when asked again"} if model.repeats > 1 else {}
    rows: list[Row] = [
        (
            name,
            *(cell(getattr(own, field), share) for field in shares),
            _first(own),
            str(own.comparisons),
            str(own.half_read),
        )
        for name, own in judges.items()
        if isinstance(own, JudgeFacts)
    ]
    of_biases: list[Row] = [
        (name, share(found), str(found.n), str(found.n - followed(found)))
        for name in model.by_place_of
        if (found := decided(audit, name))
    ]
    header = ("judge", *shares.values(), "picks the first", "comparisons", "read in one order only")
    left = ("bias", "decided by place", "n", "not decided by place")
    return (
        table(f"What the place decides, with {PERCENT} intervals", header, rows),
        table("Contrasts that the numbers of a bias rest on", left, of_biases),
    )


def _first(judge: JudgeFacts) -> str:
    """Share of verdicts for the first answer, with an interval if one order was asked."""
    if (one := judge.position) is not None:
        ends = {end: (1 + getattr(one, end)) / 2 for end in ("value", "low", "high")}
        return share(one.model_copy(update=ends))
    return NOT_ESTIMATED if judge.position_bias is None else percent((1 + judge.position_bias) / 2)
