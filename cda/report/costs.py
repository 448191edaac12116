"""Time of a run's stages, and the calls, tokens and dollars of each LLM."""

from __future__ import annotations

from collections.abc import Mapping

from cda.report.numbers import duration
from cda.report.tables import Table, table
from cda.results.facts import RunFacts, StageRun


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
