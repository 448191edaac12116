"""Time and cost of a run, as the report says them."""

from __future__ import annotations

from cda.report.scoring import cost_sentences, llm_table, place_facts, time_table
from cda.results.facts import LLMUse, RunFacts, StageRun

GPT = LLMUse(asked=1200, cached=30, unusable=2, input_tokens=410_000, output_tokens=18_000, uncounted=0, dollars=1.205)
FREE = GPT.model_copy(update={"dollars": None, "uncounted": 7})


def _stages(**llms: LLMUse) -> dict[str, StageRun]:
    return {
        "label": StageRun(seconds=12.3, finished="2026-11-21T10:00:00Z", llm=llms),
        "train": StageRun(seconds=1240.0, finished="2026-11-21T10:30:00Z"),
    }


def test_calls_tokens_and_dollars_with_and_without_a_price() -> None:
    table = llm_table(_stages(gpt=GPT, free=FREE))
    assert table is not None
    counts = ("1,200", "30", "2", "410,000", "18,000")
    assert table.rows == (("label, gpt", *counts, "$1.21"), ("label, free", *counts, "no price given"))
    assert cost_sentences(_stages(gpt=GPT))[0] == "1,200 answers were asked for, for $1.21."
    first, *_, last = cost_sentences(_stages(free=FREE))
    assert first == "1,200 answers were asked for, at a price that the recipe does not give (llm.prices)."
    assert last.startswith("Of 7 answers the server counted no tokens")
    assert cost_sentences(_stages(gpt=GPT, other=FREE))[0].endswith("some of the models have no price in the recipe.")
    assert llm_table(_stages()) is None
    assert cost_sentences(_stages()) == ("No LLM was asked, so nothing was paid for answers.",)


def test_time_and_place() -> None:
    table = time_table(_stages())
    assert table is not None and [row[:2] for row in table.rows] == [("label", "12 s"), ("train", "21 min")]
    run = RunFacts(git="0123abc", python="3.11.9", stages=_stages())
    assert place_facts(run) == (("commit of this package", "0123abc"), ("Python", "3.11.9"))
