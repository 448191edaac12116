"""What a run took, stage by stage: time, and what was asked of which LLM for how many dollars."""

from __future__ import annotations

from collections.abc import Mapping

from cda.report.numbers import duration
from cda.report.tables import Table
from cda.results.facts import RunFacts, StageRun


def time_table(stages: Mapping[str, StageRun]) -> Table | None:
    """How long each stage took; None without stages."""
    rows = [(name, duration(one.seconds), one.finished) for name, one in stages.items()]
    if not rows:
        return None
    return Table("Time of each stage, wall clock", ("stage", "took", "finished (UTC)"), tuple(rows))


def llm_table(stages: Mapping[str, StageRun]) -> Table | None:
    """Calls, tokens and dollars of each stage and LLM; None where no LLM was asked."""
    rows = [
        (f"{stage}, {name}", f"{one.asked:,}", f"{one.cached:,}", f"{one.unusable:,}", f"{one.input_tokens:,}",
         f"{one.output_tokens:,}", _dollars(one.dollars))
        for stage, made in stages.items()
        for name, one in made.llm.items()
    ]  # fmt: skip
    if not rows:
        return None
    header = ("stage and LLM", "asked", "from the cache", "no usable answer", "tokens in", "tokens out", "dollars")
    return Table("What was asked of an LLM", header, tuple(rows))


def cost_sentences(stages: Mapping[str, StageRun]) -> tuple[str, ...]:
    """What the run cost in all, and what the numbers leave out."""
    asked = [one for made in stages.values() for one in made.llm.values()]
    if not asked:
        return ("No LLM was asked, so nothing was paid for answers.",)
    priced = [one.dollars for one in asked if one.dollars is not None]
    total = sum(one.asked for one in asked)
    said = f"{total:,} answers were asked for"
    said += f", for {_dollars(sum(priced))}" if priced else ", at a price that the recipe does not give (llm.prices)"
    unpriced = any(one.dollars is None and one.asked for one in asked)
    said += "; some of the models have no price in the recipe." if priced and unpriced else "."
    sentences = [
        said,
        "Tokens are those that the server counted for what was asked when a stage was finished. Answers from the cache cost nothing "
        "then: another run paid for them, or this one did and was interrupted.",
    ]
    if uncounted := sum(one.uncounted for one in asked):
        sentences.append(
            f"Of {uncounted:,} answers the server counted no tokens; they are missing in tokens and dollars."
        )
    return tuple(sentences)


def place_facts(run: RunFacts) -> tuple[tuple[str, str], ...]:
    """Which code ran on what."""
    found = (("commit of this package", run.git), ("Python", run.python), ("machine", run.platform))
    return tuple((words, value) for words, value in found if value)


def _dollars(value: float | None) -> str:
    """Dollars to the cent, or to the digit that says something."""
    if value is None:
        return "no price given"
    return f"${value:,.2f}" if value >= 0.1 or value == 0 else f"${value:.2g}"
