"""What a run took, as the report says it."""

from __future__ import annotations

from cda.report.costs import cost_sentences, llm_table, place_facts, time_table
from cda.results.facts import LLMUse, RunFacts, StageRun

GPT = LLMUse(asked=1200, cached=30, unusable=2, input_tokens=410_000, output_tokens=18_000, uncounted=0, dollars=1.205)


def _stages(**llms: LLMUse) -> dict[str, StageRun]:
    return {
        "label": StageRun(seconds=12.3, finished="2026-11-21T10:00:00Z", llm=llms),
        "train": StageRun(seconds=1240.0, finished="2026-11-21T10:30:00Z"),
    }


RUN = RunFacts(git="0123abc", python="3.11.9", stages=_stages())


def test_calls_tokens_and_dollars() -> None:
    stages = _stages(gpt=GPT)
    table = llm_table(stages)
    assert table is not None
    assert table.rows == (("label, gpt", "1,200", "30", "2", "410,000", "18,000", "$1.21"),)
    assert cost_sentences(stages)[0] == "1,200 answers were asked for, for $1.21."


def test_a_model_without_a_price_is_said() -> None:
    free = GPT.model_copy(update={"dollars": None, "uncounted": 7})
    first, *_, last = cost_sentences(_stages(gpt=free))
    assert first == "1,200 answers were asked for, at a price that the recipe does not give (llm.prices)."
    assert last.startswith("Of 7 answers the server counted no tokens")
    table = llm_table(_stages(gpt=free))
    assert table is not None and table.rows[0][-1] == "no price given"
    assert cost_sentences(_stages(gpt=GPT, other=free))[0].endswith("some of the models have no price in the recipe.")


def test_no_llm() -> None:
    assert llm_table(_stages()) is None
    assert cost_sentences(_stages()) == ("No LLM was asked, so nothing was paid for answers.",)


def test_time_and_place() -> None:
    table = time_table(_stages())
    assert table is not None
    assert [row[:2] for row in table.rows] == [("label", "12 s"), ("train", "21 min")]
    assert place_facts(RUN) == (("commit of this package", "0123abc"), ("Python", "3.11.9"))
