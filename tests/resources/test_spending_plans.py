"""What several steps will cost: said before anything is spent, asked about once, and held against one budget."""

from __future__ import annotations

import builtins
import re
import sys
from pathlib import Path
from typing import Any

import pytest

from cda.errors import RunError
from cda.llm.batch import BatchLLM
from cda.llm.money import CountedLLM
from cda.recipe.load import Opened
from cda.recipe.schema import LlmSection
from cda.resources.llm_access import LlmAccess, Planned, confirm_all, cost_sentence

PRICES = {
    "dear": {"input": 2.0, "output": 10.0},
    "cheap": {"input": 0.2, "output": 1.0},
    "own": {"input": 0, "output": 0},
}
HALF = Planned("proposing", 1000, 150, 20)  # 1000 calls at dear's prices: 0.30 + 0.20 = $0.50
JUDGING = Planned("judging", 2000, 1000, 100)  # at cheap's: 0.40 + 0.20 = $0.60


def llm(model: str, **changed: Any) -> LlmSection:
    return LlmSection.model_validate({"model": model, "prices": PRICES, "concurrency": 10, **changed})


@pytest.mark.parametrize(("words", "dollars"), [(130, 60), (230, 100)])
def test_25000_imdb_reviews_rewritten_twice_cost_what_rate_paid(words: int, dollars: float) -> None:
    """RATE paid about $60 at $1.25/$5, which is $0.0012 a rewrite: reviews of 130 words, at 1.3 tokens a word and 100
    tokens of instruction. Reviews of IMDB's mean of 230 words would cost $100 with answers of the same length.
    """
    rate = llm("rate", prices={"rate": {"input": 1.25, "output": 5.0}})
    said = cost_sentence(Planned("rewriting", 2 * 25_000, 1.3 * words + 100, 1.3 * words), rate)
    assert float(said.partition("about $")[2].partition(",")[0]) == pytest.approx(dollars, rel=0.03)


@pytest.mark.parametrize(("calls", "limit", "time"), [(1200, None, "10 min"), (1200, 60, "20 min"), (3, None, "5 s")])
def test_time_is_that_of_the_calls_or_of_the_limit_whichever_is_longer(
    calls: int, limit: int | None, time: str
) -> None:
    said = cost_sentence(Planned("judging", calls, 1, 1), llm("own", requests_per_minute=limit))
    assert said.endswith(f"about {time} at 5 s a call")


@pytest.fixture(autouse=True)
def _key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "k")


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """A user at a terminal, who agrees; what they were asked."""
    found: list[str] = []

    def agree(question: str) -> str:
        found.append(question)
        return "y"

    monkeypatch.setattr(sys.stdin, "isatty", lambda: True, raising=False)
    monkeypatch.setattr(builtins, "input", agree)
    return found


def test_every_step_is_said_and_all_are_asked_about_once(asked: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    confirm_all([(llm("dear"), HALF), (llm("cheap"), JUDGING)], "by question", Opened())
    lines = re.sub(r"\n    (?=\S)", " ", capsys.readouterr().out).splitlines()  # lines of 100 columns
    assert "proposing: about 1,000 calls of dear" in lines[0] and "about $0.50" in lines[0]
    assert "judging: about 2,000 calls of cheap" in lines[1] and "about $0.60" in lines[1]
    assert lines[2] == "  in all about $1.10" and len(lines) == 3
    assert len(asked) == 1


def test_steps_without_a_price_are_told_and_not_taken_for_free(
    asked: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    confirm_all([(llm("dear"), HALF), (llm("unknown"), JUDGING), (llm("own"), JUDGING)], "by question", Opened())
    out = capsys.readouterr().out
    assert "no price of unknown is given" in out and "in all about $0.50, and 1 step without a price" in out
    assert len(asked) == 1


@pytest.mark.parametrize("answer", ["", "n", "no", "maybe", "Y es"])
def test_anything_but_yes_spends_nothing(answer: str, asked: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(builtins, "input", lambda _: answer)
    with pytest.raises(RunError, match="nothing was spent"):
        confirm_all([(llm("dear"), HALF)], "by question", Opened())
    assert asked == []


def test_yes_beforehand_or_nothing_to_pay_is_not_asked_about(
    asked: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    confirm_all([(llm("dear"), HALF), (llm("cheap"), JUDGING)], "given", Opened())
    assert "in all about $1.10" in capsys.readouterr().out  # said all the same
    confirm_all(
        [(llm("own"), HALF), (llm("unknown", base_url="http://localhost:8000/v1"), JUDGING)], "by question", Opened()
    )
    assert "in all" not in capsys.readouterr().out
    confirm_all([(llm("dear"), Planned("nothing", 0, 10, 10))], "by question", Opened())
    confirm_all([], "by question", Opened())
    assert capsys.readouterr().out == "" and asked == []


def test_without_a_terminal_it_stops(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys.stdin, "isatty", lambda: False, raising=False)
    with pytest.raises(RunError, match=r"2 steps would spend money, .* --yes"):
        confirm_all([(llm("dear"), HALF), (llm("own"), HALF)], "by question", Opened())
    with pytest.raises(RunError, match="proposing would spend money"):
        confirm_all([(llm("dear"), HALF)], "by question", Opened())


@pytest.mark.parametrize(
    ("setting", "consent", "terminal", "answer", "sends"),
    [
        ("yes", "by budget", False, "n", True),
        ("no", "by question", True, "y", True),
        ("no", "by question", True, "n", False),
        ("no", "given", True, "y", True),
        ("no", "given", False, "y", False),  # --yes agrees to a cost, not to paying it twice
        ("no", "by budget", True, "y", False),
    ],
)
def test_batches_are_sent_again_by_a_setting_or_by_a_word_at_a_terminal(
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    setting: str,
    consent: Any,
    terminal: bool,
    answer: str,
    sends: bool,
) -> None:
    monkeypatch.setattr(sys.stdin, "isatty", lambda: terminal, raising=False)
    monkeypatch.setattr(builtins, "input", lambda _: answer)
    monkeypatch.setenv("OPENAI_API_KEY", "sk-test")
    access = LlmAccess(llm("dear", mode="batch", resubmit=setting), tmp_path / "llm.sqlite", tmp_path, consent=consent)
    counted = access.client()
    assert isinstance(counted, CountedLLM) and isinstance(counted.llm, BatchLLM)
    assert counted.llm.resubmit("the server does not know batch_1 any more") is sends


def test_batches_are_held_against_the_budget_together() -> None:
    """At half the price: 0.25 and 0.30, each within 0.40, together beyond it."""
    batch = {"mode": "batch", "budget_usd": 0.4}
    steps = [(llm("dear", **batch), HALF), (llm("cheap", **batch), JUDGING)]
    for step in steps:
        confirm_all([step], "given", Opened())
    with pytest.raises(
        RunError, match=r"all 2 steps together would cost about \$0\.55, more than llm\.budget_usd=0\.4"
    ):
        confirm_all(steps, "given", Opened())
    confirm_all(
        [(llm("dear", mode="batch", budget_usd=0.6), HALF), (llm("cheap", mode="batch"), JUDGING)], "given", Opened()
    )
