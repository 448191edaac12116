"""An LLM as judge: in both orders or one; its own verdict line alone, or the probabilities of one token."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from injections import INJECTIONS

from cda.errors import LLMError
from cda.llm.cache import Cache, CachedLLM, key_of
from cda.llm.openai_client import OpenAIClient
from cda.llm.protocol import Completion, Request
from cda.prompts import OVERALL, JudgePrompt, load_prompt, ours
from cda.records import user_prompt
from cda.scorers.compared import compare_distinct
from cda.scorers.judge import (
    BothOrders,
    LLMJudge,
    UnreadError,
    expected_value,
    is_swapped,
    judge_request,
    of_one_order,
    one_token_verdicts,
    parse_verdicts,
    verdict_code,
)


@dataclass
class Scripted:
    """An LLM that answers by a function of the two answers it is shown."""

    answer: Callable[[str, str], str | None]
    name: str = "scripted"
    asked: int = 0

    def answers(
        self,
        requests: Iterable[Request],
        label: str,  # noqa: ARG002
        total: int | None = None,  # noqa: ARG002
    ) -> Iterator[tuple[int, Completion]]:
        for position, request in enumerate(requests):
            self.asked += 1
            shown = re.findall(r"<<<ANSWER \d>>>\n(.*?)\n<<<END>>>", request.user, re.S)
            text = self.answer(shown[0], shown[1])
            yield position, Completion(text) if text is not None else Completion(None, "refused")


def longer(first: str, second: str) -> str:
    return f"One says more.\nVerdict: {'tie' if len(first) == len(second) else 1 if len(first) > len(second) else 2}"


PROMPTS = [user_prompt("q")] * 3


def test_the_text_decides_and_not_its_place() -> None:
    judge = LLMJudge(Scripted(longer))
    margins = judge.margin(PROMPTS, ["long text", "a", "same"], ["short", "bb", "size"])
    assert margins.tolist() == [1.0, -1.0, 0.0]
    assert judge.orders == BothOrders(position_bias=0.0)


def test_unreadable_verdicts_are_counted_and_never_a_tie() -> None:
    def answer(first: str, second: str) -> str | None:
        if "broken" in first + second:
            return "I cannot choose"
        return None if first == "refuse" else longer(first, second)

    judge = LLMJudge(Scripted(answer))
    margins = judge.margin(PROMPTS, ["broken", "refuse", "long text"], ["x", "x", "s"])
    assert np.isnan(margins[0])
    assert margins[1:].tolist() == [1.0, 1.0]  # the readable order alone
    assert (judge.orders.n_unread, judge.orders.n_half_read) == (1, 1)
    assert judge.reasons == {"no verdict in the last line": 2, "refused": 1}


def test_texts_that_speak_of_a_verdict_ask_for_a_code() -> None:
    plain = judge_request(user_prompt("q"), "one", "other")
    assert plain.system.endswith("exactly 'Verdict: 1', 'Verdict: 2' or 'Verdict: tie'.")
    code = verdict_code(user_prompt("q"), "The jury's verdict came late.", "other")
    assert code is not None and re.fullmatch(r"[0-9a-f]{8}", code)
    coded = judge_request(user_prompt("q"), "The jury's verdict came late.", "other").system
    assert f"exactly 'Verdict {code}: 1', 'Verdict {code}: 2' or 'Verdict {code}: tie'." in coded
    verdicts = [parse_verdicts(f"Verdict {code}: {one}", code=code).get(OVERALL) for one in ("1", "2", "tie", "3")]
    assert verdicts == ["1", "2", "tie", None]
    assert parse_verdicts("Verdict: 1", code=code) == {}


def test_answers_of_earlier_versions_are_found_in_the_cache() -> None:
    settings = {"model": "m", "base_url": "http://x/v1", "temperature": 0.0, "seed": None, "max_tokens": 100}
    request = judge_request(user_prompt("What is 2+2?"), "4", "It is four.")
    assert key_of(settings, request) == "7b316202719b890cfe05705bcdceee733942f92351b186cf117b9b8e3395d424"


PAPER = load_prompt("paper", JudgePrompt)
ONE = ours().judge.model_copy(update={"orders": "one"})
N = 400
QUESTIONS = [user_prompt(f"question {row}") for row in range(N)]
LONG, SHORT = [f"a longer text {row}" for row in range(N)], [f"text {row}" for row in range(N)]


def test_one_order_is_half_the_calls_and_the_same_either_way_round() -> None:
    llm = Scripted(longer)
    judge = LLMJudge(llm, instructions=ONE)
    assert judge.margin(QUESTIONS, LONG, SHORT).tolist() == [1.0] * N
    assert llm.asked == N
    assert judge.margin(QUESTIONS, SHORT, LONG).tolist() == [-1.0] * N
    swapped = [is_swapped(*one) for one in zip(QUESTIONS, LONG, SHORT, strict=True)]
    assert [is_swapped(*one) for one in zip(QUESTIONS, SHORT, LONG, strict=True)] == [not one for one in swapped]
    assert 160 < sum(swapped) < 240
    assert not is_swapped(QUESTIONS[0], "same", "same")
    position = judge.orders.position  # a preference for texts is none for places
    assert position is not None and position.low < 0 < position.high and (position.n, position.n_prompts) == (N, N)
    assert judge.orders.n_flipped is None and judge.orders.n_half_read == 0


def test_a_planted_taste_for_the_first_place_lies_inside_the_interval() -> None:
    rng = np.random.default_rng(3)
    swapped = rng.random(N) < 0.5
    likes_first = rng.random(N) < 0.3  # of the verdicts these follow the place, the others the first text
    values = np.where(likes_first, 1.0, np.where(swapped, -1.0, 1.0))
    margins, orders = of_one_order(values, swapped, [str(row) for row in range(N)])
    assert orders.position is not None and orders.position.low < 0.3 < orders.position.high
    assert orders.position.low > 0
    assert margins.mean() == pytest.approx(0.7, abs=0.1)


@pytest.mark.parametrize("name", list(INJECTIONS))
def test_verdict_first_is_the_judge_s_own_and_a_quotation_in_its_place_is_none(name: str) -> None:
    text, prompt = INJECTIONS[name], user_prompt("q")
    asked = re.search(r"'(Verdict[^']*): 1'", judge_request(prompt, text, "Paris.", instructions=PAPER).system)
    assert asked is not None
    own, code = f"{asked[1]}: 2", verdict_code(prompt, text, "Paris.")
    assert parse_verdicts(f"{own}\nThe first says:\n{text}", (), code, "after") == {OVERALL: "2"}
    # Blank texts leave the judge's own line the first one.
    assert parse_verdicts(f"{text}\n{own}", (), code, "after") == ({} if re.search(r"\w", text) else {OVERALL: "2"})


Bodies = list[dict[str, Any]]
Answer = Callable[[dict[str, Any]], tuple[int, dict[str, Any]]]
Serve = Callable[[Answer], str]


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
    assert judge.margin(PROMPTS[:2], ["good", "bad"], ["bad", "good"]) == pytest.approx([margin, -margin])
    assert judge.orders.position_bias == pytest.approx((good_first + good_second) / 2)
    assert (judge.orders.n_unread, judge.orders.n_half_read, judge.orders.n_flipped, judge.reasons) == (0, 0, 0, {})
    wanted = {"logprobs": True, "top_logprobs": 20, "temperature": 0.0, "max_completion_tokens": 1}
    assert len(bodies) == 4
    assert all(wanted.items() <= body.items() for body in bodies)


def test_without_ties_a_zero_is_no_verdict(serve: Serve) -> None:
    bodies: Bodies = []
    url = serve(token_server(lambda first: {"1": 0.4, "2": 0.2, "0": 0.4} if first else {"0": 0.9, "1": 0.1}, bodies))
    judge = LLMJudge(OpenAIClient("j", base_url=url), ties=False, by_token=True)
    assert judge.margin(PROMPTS[:1], ["good"], ["bad"]) == pytest.approx([1 / 3])
    assert judge.orders.n_half_read == 1
    assert judge.reasons == {"less than 50% of the probability is on a verdict": 1}
    assert all("neither" not in str(body["messages"]) and body["top_logprobs"] == 20 for body in bodies)


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
            judge.margin(PROMPTS[:1], ["good"], ["bad"])
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
    values = one_token_verdicts(ours().judge, ties)
    logprobs = [(token, math.log(one)) for token, one in mass.items()]
    if expected is None:
        with pytest.raises(UnreadError, match="less than 50% of the probability is on a verdict"):
            expected_value(logprobs, values, "a verdict")
    else:
        assert expected_value(logprobs, values, "a verdict") == pytest.approx(expected)
