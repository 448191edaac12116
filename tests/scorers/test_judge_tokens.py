"""Verdicts read from the probabilities of one token: known preferences in both orders, and servers that give none."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from injections import INJECTIONS

from cda.errors import LLMError
from cda.llm.cache import Cache
from cda.llm.cached import CachedLLM
from cda.llm.openai_client import OpenAIClient
from cda.records import user_prompt
from cda.scorers.compared import compare_distinct
from cda.scorers.judge import LLMJudge, token_preference

Bodies = list[dict[str, Any]]
Answer = Callable[[dict[str, Any]], tuple[int, dict[str, Any]]]
Serve = Callable[[Answer], str]
PROMPTS = [user_prompt("q")]


def token_server(probabilities: Callable[[bool], Mapping[str, float]], bodies: Bodies) -> Answer:
    """A model whose first token has these probabilities, given whether the text with `good` is shown first."""

    def answer(body: dict[str, Any]) -> tuple[int, dict[str, Any]]:
        bodies.append(body)
        found = probabilities("<<<ANSWER 1>>>\ngood" in body["messages"][-1]["content"])
        listed = [{"token": token, "logprob": math.log(one), "bytes": None} for token, one in found.items()]
        best = max(listed, key=lambda one: one["logprob"])
        message = {"role": "assistant", "content": best["token"]}
        content = [{**best, "top_logprobs": listed}]
        choice = {"index": 0, "finish_reason": "length", "message": message, "logprobs": {"content": content}}
        return 200, {"choices": [choice], "usage": {"prompt_tokens": 50, "completion_tokens": 1}}

    return answer


def fair_with_a_taste(good_first: bool) -> Mapping[str, float]:
    return {"1": 0.7, " 1": 0.1, "2": 0.1, "0": 0.1} if good_first else {"1": 0.3, "2": 0.5, "The": 0.2}


def test_the_preference_is_the_mean_of_both_orders(serve: Serve) -> None:
    bodies: Bodies = []
    judge = LLMJudge(OpenAIClient("judge", base_url=serve(token_server(fair_with_a_taste, bodies))), by_token=True)
    good_first, good_second = 0.8 - 0.1, (0.3 - 0.5) / 0.8
    margin = (good_first - good_second) / 2
    assert judge.margin(PROMPTS * 2, ["good", "bad"], ["bad", "good"]) == pytest.approx([margin, -margin])
    assert judge.orders.position_bias == pytest.approx((good_first + good_second) / 2)
    assert (judge.orders.n_unread, judge.orders.n_half_read, judge.orders.n_flipped, judge.reasons) == (0, 0, 0, {})
    wanted = {"logprobs": True, "top_logprobs": 20, "temperature": 0.0, "max_completion_tokens": 1}
    assert len(bodies) == 4
    assert all(wanted.items() <= body.items() for body in bodies)


def test_without_ties_a_zero_is_no_verdict(serve: Serve) -> None:
    bodies: Bodies = []
    url = serve(token_server(lambda first: {"1": 0.4, "2": 0.2, "0": 0.4} if first else {"0": 0.9, "1": 0.1}, bodies))
    judge = LLMJudge(OpenAIClient("j", base_url=url), ties=False, by_token=True)
    assert judge.margin(PROMPTS, ["good"], ["bad"]) == pytest.approx([1 / 3])
    assert judge.orders.n_half_read == 1
    assert judge.reasons == {"less than 50% of the probability is on a verdict": 1}
    assert all("neither" not in str(body["messages"]) and body["top_logprobs"] == 20 for body in bodies)


def test_texts_that_pose_as_verdicts_change_nothing(serve: Serve) -> None:
    judge = LLMJudge(OpenAIClient("j", base_url=serve(token_server(fair_with_a_taste, []))), by_token=True)
    texts = list(INJECTIONS.values())
    margins = judge.margin(PROMPTS * len(texts), ["good"] * len(texts), texts)
    assert margins == pytest.approx(np.full(len(texts), 0.475))


def test_answers_are_kept_with_their_probabilities(serve: Serve, tmp_path: Path) -> None:
    bodies: Bodies = []
    client = OpenAIClient("j", base_url=serve(token_server(fair_with_a_taste, bodies)))
    comparisons = [(user_prompt("q"), "good", f"bad {row}") for row in range(3)]
    with Cache(tmp_path / "answers.sqlite") as cache:
        first = compare_distinct(LLMJudge(CachedLLM(client, cache), by_token=True), comparisons)
    with Cache(tmp_path / "answers.sqlite") as cache:
        again = compare_distinct(LLMJudge(CachedLLM(client, cache), by_token=True), comparisons)
        assert len(cache) == 6
    assert len(bodies) == 6
    assert first.margins(comparisons).tolist() == again.margins(comparisons).tolist()
    assert first.margins(comparisons) == pytest.approx([0.475] * 3)


def without_logprobs(_: dict[str, Any]) -> tuple[int, dict[str, Any]]:
    return 200, {"choices": [{"finish_reason": "length", "message": {"content": "1"}, "logprobs": None}]}


def refusing_logprobs(_: dict[str, Any]) -> tuple[int, dict[str, Any]]:
    return 400, {"error": {"message": "This model does not support the 'logprobs' parameter.", "param": "logprobs"}}


@pytest.mark.parametrize(
    ("server", "why"),
    [(without_logprobs, "it ignores 'logprobs'"), (refusing_logprobs, "status 400: This model does not")],
)
def test_a_server_without_probabilities_is_named(serve: Serve, tmp_path: Path, server: Answer, why: str) -> None:
    with Cache(tmp_path / "answers.sqlite") as cache:
        judge = LLMJudge(CachedLLM(OpenAIClient("j", base_url=serve(server)), cache), by_token=True)
        with pytest.raises(LLMError, match="gives no token probabilities of j") as raised:
            judge.margin(PROMPTS, ["good"], ["bad"])
        assert why in str(raised.value)
        assert len(cache) == 0  # the same server may give them tomorrow


@pytest.mark.parametrize(
    ("mass", "ties", "expected"),
    [
        ({"1": 1.0}, True, 1.0),
        ({"2": 0.6, "1": 0.2}, True, -0.5),
        ({"0": 0.9}, True, 0.0),
        ({"0": 0.4, "1": 0.55}, False, 1.0),
        ({" 2": 0.3, "2\n": 0.3, "▁2": 0.2}, True, -1.0),
        ({"1": 0.49, "Both": 0.5}, True, None),
        ({"12": 0.5, "1.": 0.4, "²": 0.1}, True, None),
        ({}, True, None),
    ],
)
def test_token_preference(mass: Mapping[str, float], ties: bool, expected: float | None) -> None:
    found = token_preference([(token, math.log(one)) for token, one in mass.items()], ties)
    assert found == (None if expected is None else pytest.approx(expected))
