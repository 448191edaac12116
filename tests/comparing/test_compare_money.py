"""Money of a comparison: one estimate and one question for all models, one budget that holds for all of them, and plans."""

from __future__ import annotations

import builtins
import re
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
from replies import Answer, reply
from typer.testing import CliRunner

import cda
from cda.cli import app
from cda.files.jsonl import write_jsonl

N = 6
PRICES = {"one": {"input": 1000, "output": 1000}, "two": {"input": 3000, "output": 3000}}
OWN_BIAS = """\
name: italics
description: Puts words in italics.
question: Does the response put words in italics?
keep: [every fact]
instructions: {add: Put two words in italics., remove: Take the italics away.}
"""


def contrasts() -> list[dict[str, Any]]:
    return [
        {"id": f"c{row}", "prompt": f"What is {row}?", "base": f"Thing {row}.", "perturbed": f"Paradigm {row}."}
        for row in range(N)
    ]


def length(_: Sequence[Any], responses: Sequence[str]) -> list[float]:
    return [float(len(text)) for text in responses]


@pytest.fixture
def asked() -> list[str]:
    """Models that the server was asked for, one for each call."""
    return []


@pytest.fixture
def given(
    asked: list[str], serve: Callable[[Answer], str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> dict[str, Any]:
    """Arguments of a comparison of judges on a few contrasts; nobody is asked on the terminal."""

    def answer(body: dict[str, Any]) -> tuple[int, dict[str, Any]]:
        asked.append(body["model"])
        return reply("Verdict: 1", tokens=(400, 50))

    monkeypatch.setattr(builtins, "input", lambda *_: pytest.fail("nobody is asked"))
    llm = {"base_url": serve(answer), "prices": PRICES, "concurrency": 1, "max_tokens": 60}
    return {"biases": "jargon", "contrasts": contrasts(), "quality": "none", "triples": "none", "progress": False,
            "out": tmp_path / "out", "llm": llm}  # fmt: skip


JUDGES = ["judge:one", "judge:two"]


def test_all_models_are_agreed_to_together_by_a_budget_that_holds_them(
    given: dict[str, Any], asked: list[str], tmp_path: Path
) -> None:
    dollars = {}
    for name in JUDGES:
        with pytest.raises(cda.SpendingError) as alone:
            cda.audit(name, **{**given, "out": tmp_path / name[-3:]})
        dollars[name] = alone.value.dollars or 0.0
    with pytest.raises(cda.SpendingError, match="nothing was sent") as together:
        cda.compare(*JUDGES, length, **given)
    total = together.value.dollars or 0.0
    assert total == pytest.approx(sum(dollars.values())) and dollars["judge:two"] == pytest.approx(
        3 * dollars["judge:one"]
    )
    with pytest.raises(cda.SpendingError):  # each alone is within it
        cda.compare(*JUDGES, budget_usd=0.9 * total, **given)
    assert not asked and not list(tmp_path.rglob("audit.json"))
    comparison = cda.compare(*JUDGES, length, budget_usd=3 * total, **given)
    assert not comparison.failed and len(comparison.audits) == 3 and len(asked) == 2 * 2 * N
    again = cda.compare(*JUDGES, budget_usd=0.01, **given)  # finished, so that nothing is to be paid
    assert len(again.audits) == 2 and len(asked) == 2 * 2 * N


def test_one_budget_is_spent_by_all_models(given: dict[str, Any], asked: list[str]) -> None:
    # 12 calls of $0.45 by the first; of the $8.2 left after them the second, at $1.35 a call, gets five.
    comparison = cda.compare(*JUDGES, budget_usd=13.6, confirm=True, **given)
    assert list(comparison.failed) == ["judge:two"] and "budget of $13.6" in comparison.failed["judge:two"]
    assert asked.count("one") == 2 * N and 0 < asked.count("two") < 2 * N
    assert 12 * 0.45 + asked.count("two") * 1.35 <= 13.6


def test_the_command_asks_once_and_a_plan_says_the_cost(
    given: dict[str, Any], asked: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    write_jsonl(Path("contrasts.jsonl"), contrasts())
    prices = "llm.prices={one: {input: 1000, output: 1000}, two: {input: 3000, output: 3000}}"
    words = ["--bias", "jargon", "--contrasts", "contrasts.jsonl", "--quality", "none", "--triples", "none", "--out", "runs",
             f"llm.base_url={given['llm']['base_url']}", prices]  # fmt: skip
    planned = CliRunner().invoke(app, ["compare", *JUDGES, *words, "--dry-run"])
    assert planned.exit_code == 0, planned.output
    (total,) = re.findall(r"in all about \$([\d.]+)", planned.output)
    assert planned.output.count("about 12 calls of") == 2 and not Path("runs").exists()
    alone = CliRunner().invoke(app, ["audit", "judge:one", *words, "--dry-run"])
    assert "about 12 calls of one" in alone.output and not Path("runs").exists()
    refused = CliRunner().invoke(app, ["compare", *JUDGES, *words])
    assert refused.exit_code == 2 and "2 steps would spend money" in refused.output and not asked
    questions: list[str] = []

    def agree(question: str = "") -> str:
        questions.append(question)
        return "y"

    class Terminal:
        def isatty(self) -> bool:
            return True

    monkeypatch.setattr(builtins, "input", agree)
    monkeypatch.setattr(sys, "stdin", Terminal())
    comparison = cda.compare(
        *JUDGES, biases="jargon", contrasts=contrasts(), quality="none", triples="none", llm=given["llm"], out="runs",
        confirm="ask", progress=False,
    )  # fmt: skip
    assert len(questions) == 1 and len(comparison.audits) == 2 and len(asked) == 2 * 2 * N and float(total) > 0


def test_a_model_that_cannot_be_asked_is_known_before_money_is_spent(
    given: dict[str, Any], asked: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    with pytest.raises(cda.RunError, match="judge:one"):
        cda.compare(
            *JUDGES, confirm=True, **{**given, "llm": {**given["llm"], "base_url": None, "api_key_env": "NO_KEY"}}
        )
    assert not asked


def test_texts_that_an_llm_writes_are_agreed_to_before_they_are_written(
    given: dict[str, Any], asked: list[str], tmp_path: Path
) -> None:
    (tmp_path / "italics.yaml").write_text(OWN_BIAS, encoding="utf-8")
    own = {**given, "biases": str(tmp_path / "italics.yaml"), "contrasts": None}
    own["llm"] = {**given["llm"], "model": "one"}
    with pytest.raises(cda.SpendingError, match="rewriting for the contrasts of italics"):
        cda.audit(length, **own)
    assert not asked
    with pytest.raises(cda.SpendingError, match=r"rewriting for the contrasts of italics.*judging") as judged:
        cda.compare("judge:one", length, **own)
    assert not asked and judged.value.dollars
    # The judge's comparisons of contrasts that are still to be written are counted, one each in both orders.
    (rewrites, verdicts) = map(int, re.findall(r"about (\d+) calls", str(judged.value)))
    assert rewrites == verdicts > 0
    # A quick look has no more written than it compares.
    with pytest.raises(cda.SpendingError) as limited:
        cda.compare("judge:one", length, limit=3, **own)
    assert [*map(int, re.findall(r"about (\d+) calls", str(limited.value)))] == [2 * 3, 2 * 3]  # the gate labels each
