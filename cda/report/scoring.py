"""Sentences about the scoring by a reward model or a judge."""

from __future__ import annotations

from cda.report.numbers import MINUS, inert
from cda.results.facts import JudgeFacts, JudgeReasons, PanelFacts, RewardModelFacts, Scorer

_ONE_ORDER = "one order each, drawn, so that a taste for a place stays in each margin"
_REASONS: dict[JudgeReasons, str] = {
    "before": ", reasons before the verdict",
    "after": ", verdict before the reasons",
    "none": ", no reasons asked for",
}


def scored_line(facts: Scorer) -> str:
    """Precision and cut texts of a reward model; how a judge was asked."""
    if isinstance(facts, PanelFacts):
        return f"{_panel(facts)}. {'; '.join(f'{name}: {scored_line(judge)}' for name, judge in facts.judges.items())}"
    if isinstance(facts, JudgeFacts):
        place = _place(facts) + _prompt(facts)
        if facts.orders == "one":
            return f"Asked {facts.comparisons} comparisons in {_ONE_ORDER}; {facts.unread} unreadable{place}"
        return (
            f"Asked {facts.comparisons} comparisons in both orders; {facts.unread} unreadable, "
            f"{facts.half_read} readable in one order only, {facts.flipped} followed the place{place}"
        )
    cut = f"{facts.truncated} of {facts.texts} texts cut"
    if facts.how is not None:
        return f"{facts.how}; {cut}" if facts.truncated else facts.how
    return f"Scored in {facts.precision}; {cut} at {facts.max_length_tokens} tokens"


def asked_line(facts: Scorer) -> str:
    """The same for a benchmark: also a reward model's form and the texts left out, and a judge's unreadable answers."""
    if isinstance(facts, PanelFacts):
        return "; ".join([_panel(facts), *(f"{name}: {asked_line(judge)}" for name, judge in facts.judges.items())])
    if isinstance(facts, RewardModelFacts):
        how = f"{facts.precision}, {facts.form}" if facts.form is not None else facts.how
        where = f" at {facts.max_length_tokens} tokens" if facts.max_length_tokens is not None else ""
        dropped = f", {facts.dropped} too long and left out" if facts.dropped else ""
        return f"{how}, {facts.truncated} of {facts.texts} texts cut{where}{dropped}"
    why = ", ".join(f"{n} × {reason}" for reason, n in facts.reasons.items())
    unread = f"; answers that could not be read: {why}" if why else ""
    place = _place(facts).replace("-", MINUS) + _prompt(facts) + unread
    if facts.orders == "one":
        return f"{facts.comparisons} comparisons in {_ONE_ORDER}: {facts.unread} without a verdict{place}"
    return (
        f"{facts.comparisons} comparisons, each in both orders: {facts.unread} without a verdict, "
        f"{facts.half_read} with one in one order only, {facts.flipped} followed the place{place}"
    )


def _place(facts: JudgeFacts) -> str:
    """A judge's preference for the first place; with an interval if one order was asked."""
    bias, interval = facts.position_bias, facts.position
    if bias is None:
        return ""
    ends = f" [{interval.low:+.2f}, {interval.high:+.2f}] (n = {interval.n})" if interval else ""
    return f"; first place minus second: {bias:+.2f}{ends}"


def _prompt(facts: JudgeFacts) -> str:
    """The prompt of a judge, and the names under which its server answered; empty for a function."""
    if facts.prompt is None or facts.verdict_reasons is None:
        return ""
    counts = ", ".join(f"{inert(name)} ({n})" for name, n in facts.answered_by.items())
    return f"; prompt {facts.prompt}{_REASONS[facts.verdict_reasons]}{f'; answered by {counts}' if counts else ''}"


def _panel(facts: PanelFacts) -> str:
    return (
        f"A panel of {len(facts.judges)} judges, the mean of their preferences; of {facts.comparisons} comparisons "
        f"{facts.unread} without a verdict of any judge, {facts.partly_judged} with verdicts of some only"
    )
