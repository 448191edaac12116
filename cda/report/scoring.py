"""How a reward model or a judge was asked, in sentences."""

from __future__ import annotations

from collections.abc import Mapping

from cda.report.numbers import inert
from cda.results.base import Estimate
from cda.results.facts import JudgeFacts, JudgeReasons, PanelFacts, Scorer

ONE_ORDER = "one order each, drawn, so that a taste for a place stays in each margin"


_REASONS: dict[JudgeReasons, str] = {
    "before": ", reasons before the verdict",
    "after": ", verdict before the reasons",
    "none": ", no reasons asked for",
}


def scored_line(facts: Scorer) -> str:
    """Precision and cut texts; of a judge, how it was asked."""
    if isinstance(facts, PanelFacts):
        each = "; ".join(f"{name}: {scored_line(one)}" for name, one in facts.judges.items())
        return f"{panel_line(len(facts.judges), facts.comparisons, facts.unread, facts.partly_judged)}. {each}"
    if isinstance(facts, JudgeFacts):
        by_place = place(facts.position_bias, facts.position)
        by_place += told(facts.prompt, facts.verdict_reasons, facts.answered_by)
        if facts.orders == "one":
            return f"Asked {facts.comparisons} comparisons in {ONE_ORDER}; {facts.unread} unreadable{by_place}"
        return (
            f"Asked {facts.comparisons} comparisons in both orders; {facts.unread} unreadable, "
            f"{facts.half_read} readable in one order only, {facts.flipped} followed the place{by_place}"
        )
    if facts.how is not None:
        cut = f"; {facts.truncated} of {facts.texts} texts cut" if facts.truncated else ""
        return f"{facts.how}{cut}"
    return (
        f"Scored in {facts.precision}; {facts.truncated} of {facts.texts} texts cut at {facts.max_length_tokens} tokens"
    )


def place(bias: float | None, interval: Estimate | None) -> str:
    """How much a judge preferred the place that came first; with an interval if one order was asked."""
    if bias is None:
        return ""
    if interval is None:
        return f"; first place minus second: {bias:+.2f}"
    return f"; first place minus second: {bias:+.2f} [{interval.low:+.2f}, {interval.high:+.2f}] (n = {interval.n})"


def told(prompt: str | None, reasons: JudgeReasons | None, answered_by: Mapping[str, int]) -> str:
    """The prompt of a judge, and the names under which its server answered; empty for a function."""
    if prompt is None or reasons is None:
        return ""
    counts = ", ".join(f"{inert(name)} ({n})" for name, n in answered_by.items())
    return f"; prompt {prompt}{_REASONS[reasons]}{f'; answered by {counts}' if counts else ''}"


def panel_line(n_judges: int, comparisons: int, unread: int, partly_judged: int) -> str:
    """How many judges a panel has, and how many comparisons some of them or all gave no verdict on."""
    return (
        f"A panel of {n_judges} judges, the mean of their preferences; of {comparisons} comparisons "
        f"{unread} without a verdict of any judge, {partly_judged} with verdicts of some only"
    )
