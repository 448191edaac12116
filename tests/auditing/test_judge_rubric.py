"""`cda audit judge:…` with a rubric and with a panel, over HTTP: bias by criterion, agreement, prompts, costs."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from replies import Answer, reply
from typer.testing import CliRunner

from cda.cli import app

N = 24
RUBRIC = "score.judge.criteria=[accuracy, {name: wording, question: Which is worded better}]"


def shown(body: dict[str, Any]) -> list[str]:
    return re.findall(r"<<<ANSWER \d>>>\n(.*?)\n<<<END>>>", body["messages"][1]["content"], re.S)


def for_good(first: str) -> str:
    return "1" if "good" in first else "2"


def for_bad(first: str) -> str:
    return "1" if "bad" in first else "2"


def rubric_judge(body: dict[str, Any]) -> tuple[int, dict[str, Any]]:
    """Of the biased side in wording, of the other in accuracy; overall neither; nothing on wording where w3 is."""
    first, other = shown(body)
    wording = "" if "w3" in f"{first} {other}".split() else f"Verdict on wording: {for_good(first)}\n"
    return reply(f"So.\nVerdict on accuracy: {for_bad(first)}\n{wording}Verdict: tie")


def test_the_bias_is_seen_by_criterion(serve: Any, audit: Any, report: Callable[[], str], votes: Path) -> None:
    url = f"llm.base_url={serve(rubric_judge)}"
    said, found = audit("judge:local", url, RUBRIC, "--votes", votes)
    n_wordless = sum("w3" in f"w{row % 7} w{row % 11} w{row % 5}".split() for row in range(N))
    own = found["criteria"]["jargon"]
    shares = {name: (one["skew"]["value"], one["skew"]["n"], one["unread"]) for name, one in own.items()}
    assert shares == {"accuracy": (0.0, N, 0), "wording": (1.0, N - n_wordless, n_wordless)} and n_wordless
    assert {name: one["against_overall"]["value"] for name, one in own.items()} == {"accuracy": -0.5, "wording": 0.5}
    assert found["skew"]["jargon"]["before"]["value"] == 0.5
    # Every third majority is for the biased side: 8 of 22.
    assert own["accuracy"]["miscalibration"]["value"] == pytest.approx(8 / 22)
    model = found["model"]
    assert model["criteria"] == ["accuracy", "wording"] and model["comparisons"] == N
    assert f"no readable verdict on wording for {n_wordless} of {N} comparisons." in said
    assert "overall and by accuracy and wording" in said
    text = report()
    assert "| jargon, by wording | 100%" in text and "| jargon | 50%" in text
    assert text.count("50% \\[25, 75\\] | 22 (11 prompts)") >= 1  # miscalibration of the verdict overall
    assert "## By judge and criterion" in text and "A criterion whose skew is above the one overall" in text


def test_criteria_by_token_are_calls_of_their_own_and_cost_so(serve: Any, audit: Any) -> None:
    asked: list[str] = []

    def answer(body: dict[str, Any]) -> tuple[int, dict[str, Any]]:
        asked.append(body["messages"][1]["content"].splitlines()[-1])
        good = for_good(shown(body)[0]) if "accuracy" in asked[-1] else for_bad(shown(body)[0])
        top = [{"token": good, "logprob": math.log(0.75)}, {"token": "0", "logprob": math.log(0.25)}]
        return reply(good, logprobs={"content": [{"token": good, "logprob": 0.0, "top_logprobs": top}]})

    url = f"llm.base_url={serve(answer)}"
    words = ("judge:local", url, "score.judge.by_token=true", "score.judge.criteria=accuracy")
    said, found = audit(*words)
    assert f"judging, each in both orders, overall and by 1 criterion: about {4 * N} calls" in said
    assert len(asked) == 4 * N
    assert found["criteria"]["jargon"]["accuracy"]["skew"]["value"] == 1
    assert found["skew"]["jargon"]["before"]["value"] == 0


def judges(**by_model: Callable[[str], str]) -> Answer:
    def answer(body: dict[str, Any]) -> tuple[int, dict[str, Any]]:
        own = by_model[body["model"]](shown(body)[0])
        return reply(f"So.\nVerdict on accuracy: {own}\nVerdict: {own}")

    return answer


def test_a_panel_says_who_disagrees(serve: Any, audit: Any, report: Callable[[], str], pairs: Path) -> None:
    rows = [json.loads(line) for line in pairs.read_text(encoding="utf-8").splitlines()]
    # Half of the pairs the other way round, so that agreement beyond chance can be told.
    turned = [
        row | {"perturbed": row["base"], "base": row["perturbed"]} if place % 4 < 2 else row
        for place, row in enumerate(rows)
    ]
    pairs.write_text("\n".join(map(json.dumps, turned)), encoding="utf-8")
    url = serve(
        judges(one=for_good, two=for_good, odd=lambda first: for_good(first) if "w1 " in first else for_bad(first))
    )
    _, found = audit("judge:one,two,odd", f"llm.base_url={url}", "score.judge.criteria=accuracy")
    panel = found["panel"]["jargon"]
    assert panel["majority"]["skew"]["value"] == 0.5 == found["skew"]["jargon"]["before"]["value"]
    without = panel["without"]
    assert without["odd"]["alpha"]["value"] == 1
    assert without["odd"]["alpha_change"]["low"] > 0 > without["one"]["alpha_change"]["high"]
    assert panel["agreement"]["n_votes"] == 3 * N
    assert panel["agreement"]["alpha"]["value"] + without["odd"]["alpha_change"]["value"] == pytest.approx(1)
    assert found["criteria"]["jargon"]["accuracy"]["skew"]["value"] == 0.5  # by the mean of the judges
    text = report()
    assert "| jargon, without odd | 1.00" in text and "| jargon, majority of the judges | 50%" in text
    assert "the others disagree with that judge" in text
    two = audit("judge:one,odd", f"llm.base_url={url}")[1]["panel"]["jargon"]
    assert two["without"] == {} and two["agreement"]["alpha"]["value"] < 0.5


@pytest.mark.parametrize("model", ["judge:sure", "embedded"])
def test_a_rule_for_a_panel_needs_a_panel(model: str) -> None:
    done = CliRunner().invoke(app, ["audit", model, "score.judge.panel=majority", "--dry-run"])
    said = " ".join(done.output.split())
    assert done.exit_code == 2 and f"score.judge.panel=majority: {model} is no panel of judges; name several" in said


def test_two_prompts_of_one_judge_are_told_apart(serve: Any, audit: Any, report: Callable[[], str]) -> None:
    """The workflow of a mitigation: the same judge with two prompts, each named with the mark of its content."""

    def answer(body: dict[str, Any]) -> tuple[int, dict[str, Any]]:
        blind = "do not let style decide" in body["messages"][0]["content"]
        return reply(f"So.\nVerdict: {'tie' if blind else for_good(shown(body)[0])}")

    url, prompt = f"llm.base_url={serve(answer)}", "score.judge.prompt=style-blind"
    _, before = audit("judge:local", url)
    marks, skews = [before["model"]["prompt_content"]], [before["skew"]["jargon"]["before"]["value"]]
    for words in ((prompt,), ("score.judge.criteria=accuracy", prompt)):
        _, found = audit("judge:local", url, *words)
        marks.append(found["model"]["prompt_content"])
        skews.append(found["skew"]["jargon"]["before"]["value"])
        assert f"{found['model']['prompt']}, content {marks[-1][:8]}" in report()
    assert len(set(marks)) == 3 and skews == [1, 0.5, 0.5]


def test_commands_that_report_no_criteria_do_not_pay_for_them(tmp_path: Path) -> None:
    rows = tmp_path / "quality.jsonl"
    rows.write_text(json.dumps({"prompt": "q", "chosen": "a", "rejected": "b"}), encoding="utf-8")
    words = ("quality", "judge:local", rows, "llm.base_url=http://127.0.0.1:9/v1", "score.judge.by_token=true")
    done = CliRunner().invoke(app, [*map(str, words), "score.judge.criteria=accuracy"])
    assert done.exit_code == 2 and "score.judge.criteria=[] here" in " ".join(done.output.split())
