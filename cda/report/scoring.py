"""Sentences about the scoring by a reward model or a judge; time of a run's stages, and calls, tokens and dollars of each LLM."""

from __future__ import annotations

from collections.abc import Mapping

from cda.report.numbers import MINUS, duration, inert
from cda.report.tables import Table, table
from cda.results.facts import JudgeFacts, JudgeReasons, PanelFacts, RewardModelFacts, RunFacts, Scorer, StageRun

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


def time_table(stages: Mapping[str, StageRun]) -> Table | None:
    """Time of each stage; None without stages."""
    rows = ((name, duration(stage.seconds), stage.finished) for name, stage in stages.items())
    return table("Time of each stage, wall clock", ("stage", "took", "finished (UTC)"), rows)


def llm_table(stages: Mapping[str, StageRun]) -> Table | None:
    """Calls, tokens and dollars of each stage and LLM; None if no LLM was asked."""
    header = ("stage and LLM", "asked", "from the cache", "no usable answer", "tokens in", "tokens out", "dollars")
    rows = (
        (f"{name}, {llm}", f"{use.asked:,}", f"{use.cached:,}", f"{use.unusable:,}", f"{use.input_tokens:,}",
         f"{use.output_tokens:,}", _dollars(use.dollars))
        for name, stage in stages.items()
        for llm, use in stage.llm.items()
    )  # fmt: skip
    return table("What was asked of an LLM", header, rows)


def cost_sentences(stages: Mapping[str, StageRun]) -> tuple[str, ...]:
    """The total cost of the run, and the limits of the numbers."""
    uses = [use for stage in stages.values() for use in stage.llm.values()]
    if not uses:
        return ("No LLM was asked, so nothing was paid for answers.",)
    priced = [use.dollars for use in uses if use.dollars is not None]
    total = f"{sum(use.asked for use in uses):,} answers were asked for"
    total += f", for {_dollars(sum(priced))}" if priced else ", at a price that the recipe does not give (llm.prices)"
    unpriced = any(use.dollars is None and use.asked for use in uses)
    total += "; some of the models have no price in the recipe." if priced and unpriced else "."
    sentences = [
        total,
        "Tokens are those that the server counted for what was asked when a stage was finished. Answers from the cache cost nothing "
        "then: another run paid for them, or this one did and was interrupted.",
    ]
    if uncounted := sum(use.uncounted for use in uses):
        sentences.append(
            f"Of {uncounted:,} answers the server counted no tokens; they are missing in tokens and dollars."
        )
    return tuple(sentences)


def place_facts(run: RunFacts) -> tuple[tuple[str, str], ...]:
    """The code and the machine of a run."""
    facts = {"commit of this package": run.git, "Python": run.python, "machine": run.platform}
    return tuple((name, value) for name, value in facts.items() if value)


def _dollars(value: float | None) -> str:
    """Dollars to the cent, or to the first digit that is not 0."""
    if value is None:
        return "no price given"
    return f"${value:,.2f}" if value >= 0.1 or value == 0 else f"${value:.2g}"
