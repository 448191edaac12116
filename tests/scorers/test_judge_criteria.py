"""A judge with a rubric: a verdict on each criterion in one call, or one call each for verdicts of one token."""

from __future__ import annotations

import math
import re

import numpy as np
import pytest
from scripted_llm import ScriptedLLM

from cda.llm.protocol import Completion, Request
from cda.prompts import Criterion, JudgePrompt, ours
from cda.records import user_prompt
from cda.scorers.judge import LLMJudge

NAMES = ["accuracy", "tone of voice"]
RUBRIC = ours().judge.model_copy(
    update={"criteria": (Criterion(name=NAMES[0]), Criterion(name=NAMES[1], question="Which is friendlier?"))}
)
PROMPTS = [user_prompt("q")] * 2


def shown(request: Request) -> list[str]:
    return re.findall(r"<<<ANSWER \d>>>\n(.*?)\n<<<END>>>", request.user, re.S)


def better(first: bool) -> str:
    return "1" if first else "2"


def test_one_call_in_each_order_gives_all_verdicts() -> None:
    def answer(request: Request) -> str:
        first, second = shown(request)
        tone = "tie" if "kind" not in first + second else better("kind" in first)
        return f"So.\nVerdict on accuracy: {better(len(first) < len(second))}\n**Verdict on tone of voice: {tone}**\nVerdict: 1"

    llm = ScriptedLLM(answer)
    judge = LLMJudge(llm, instructions=RUBRIC)
    margins = judge.margin(PROMPTS, ["short", "kind"], ["much longer", "kin"])
    assert len(llm.asked) == 4
    assert margins.tolist() == [0, 0] and judge.orders.n_flipped == 2  # overall follows the place
    assert {name: values.tolist() for name, values in judge.by_criterion.items()} == {
        "accuracy": [1, -1], "tone of voice": [0, 1],
    }  # fmt: skip


def test_a_verdict_that_is_missing_on_a_criterion_is_none_on_it_alone() -> None:
    judge = LLMJudge(ScriptedLLM(lambda _: "Verdict on accuracy: tie\nVerdict: 1"), ties=False, instructions=RUBRIC)
    judge.margin(PROMPTS[:1], ["a"], ["b"])
    assert judge.orders.n_flipped == 1 and judge.reasons == {}
    assert np.isnan(judge.by_criterion["accuracy"]).all()  # a tie, where none is allowed
    assert np.isnan(judge.by_criterion["tone of voice"]).all()
    refused = LLMJudge(ScriptedLLM(lambda _: None), instructions=RUBRIC)
    assert np.isnan(refused.margin(PROMPTS[:1], ["a"], ["b"])).all() and refused.reasons == {"refused": 2}
    assert np.isnan(refused.by_criterion["accuracy"]).all()
    assert LLMJudge(ScriptedLLM(lambda _: ""), instructions=RUBRIC).margin([], [], []).shape == (0,)


def test_verdicts_of_one_token_are_asked_for_one_by_one() -> None:
    def answer(request: Request) -> Completion:
        first, _ = shown(request)
        likes = "friendlier" not in request.user if first == "a" else "friendlier" in request.user
        return Completion("1", logprobs=((better(likes), math.log(0.9)), (better(not likes), math.log(0.1))))

    llm = ScriptedLLM(answer)
    judge = LLMJudge(llm, by_token=True, instructions=RUBRIC.model_copy(update={"orders": "one"}))
    margins = judge.margin(PROMPTS[:1], ["a"], ["b"])
    asked = [request.user.splitlines()[-1] for request in llm.asked]
    assert [words.partition("?")[0] for words in asked] == [
        "Which answer is better", "Which answer is better in accuracy", "Which is friendlier",
    ]  # fmt: skip
    assert margins == pytest.approx([0.8])
    assert judge.by_criterion["accuracy"] == pytest.approx([0.8])
    assert judge.by_criterion["tone of voice"] == pytest.approx([-0.8])
    assert all("Verdict" not in request.system for request in llm.asked)


def test_a_prompt_without_criteria_is_the_same_content_as_before_there_were_any() -> None:
    assert "criteria" not in ours().judge.model_dump(mode="json")
    again = JudgePrompt.model_validate(RUBRIC.model_dump(mode="json"))
    assert again == RUBRIC
