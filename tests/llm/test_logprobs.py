"""Token probabilities through the client: what is sent, what is read, and how a server without them is told."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from fault_server import FaultServer

from cda.errors import LLMError
from cda.llm.batch import BatchLLM
from cda.llm.cache import Cache
from cda.llm.cached import CachedLLM
from cda.llm.money import Budgeted, Price
from cda.llm.openai_client import OpenAIClient
from cda.llm.outcome import Again, of_content
from cda.llm.protocol import CUT_OFF, EMPTY, FILTERED, Completion, Request, complete

ASKED = Request("s", "u", top_logprobs=20)
LISTED = [{"token": "1", "logprob": -0.1}, {"token": "2", "logprob": -2.4}]
READ = (("1", -0.1), ("2", -2.4))
Answer = Callable[[dict[str, Any]], tuple[int, dict[str, Any]]]


def data(listed: object, text: str = "1", finish: str = "length") -> dict[str, Any]:
    logprobs = {"content": [{"token": "1", "logprob": -0.1, "top_logprobs": listed}]}
    return {"choices": [{"finish_reason": finish, "message": {"content": text}, "logprobs": logprobs}]}


@pytest.mark.parametrize(
    ("answer", "expected"),
    [
        (data(LISTED), Completion("1", logprobs=READ)),
        (data(LISTED, text=" "), Completion("", logprobs=READ)),
        (data([*LISTED, {"token": "3", "logprob": None}, {"logprob": -1}, "x"]), Completion("1", logprobs=READ)),
        (data([{"token": "1", "logprob": -math.inf}, *LISTED[1:]]), Completion("1", logprobs=READ[1:])),
        (data([]), Completion("1")),
        (data(None), Completion("1")),
        (data("none"), Completion("1")),
        (data([], text=""), Completion(None, EMPTY)),
        (data(LISTED, finish="content_filter"), Completion(None, FILTERED)),
        ({"choices": [{"message": {"content": "1"}, "logprobs": {"content": None}}]}, Completion("1")),
        ({"choices": [{"message": {"content": "1"}, "logprobs": [1]}]}, Completion("1")),
    ],
)
def test_candidates_are_read_from_any_answer(answer: dict[str, Any], expected: Completion) -> None:
    assert of_content(json.dumps(answer).encode(), one_token=True) == expected


def test_an_answer_in_full_that_is_cut_off_stays_a_failure() -> None:
    assert of_content(json.dumps(data(LISTED)).encode()) == Completion(None, CUT_OFF)
    assert isinstance(of_content(b"[]", one_token=True), Again)


def test_one_token_is_asked_for_also_where_only_max_tokens_is_known(serve: Callable[[Answer], str]) -> None:
    bodies: list[dict[str, Any]] = []

    def answer(body: dict[str, Any]) -> tuple[int, dict[str, Any]]:
        bodies.append(body)
        if "max_completion_tokens" in body:
            return 400, {"error": {"message": "unknown", "param": "max_completion_tokens"}}
        return 200, data(LISTED)

    client = OpenAIClient("m", base_url=serve(answer), temperature=0.7, max_tokens=50, say=lambda _: None)
    assert complete(client, [ASKED], "asking") == [Completion("1", logprobs=READ)]
    assert bodies[-1]["max_tokens"] == 1
    assert bodies[-1]["temperature"] == 0.0
    assert client.body(Request("s", "u"))["max_tokens"] == 50
    assert client.body(Request("s", "u"))["temperature"] == 0.7
    assert "logprobs" not in client.body(Request("s", "u"))


def test_candidates_pass_through_budget_and_cache(serve: Callable[[Answer], str], tmp_path: Path) -> None:
    url = serve(lambda _: (200, data(LISTED) | {"usage": {"prompt_tokens": 2, "completion_tokens": 1}}))
    client = OpenAIClient("m", base_url=url, max_tokens=1_000_000)
    # A million tokens would cost $10, and the budget is a cent: what is set aside is one token.
    with Cache(tmp_path / "answers.sqlite") as cache:
        llm = CachedLLM(Budgeted(client, Price(input=1.0, output=10.0), 0.01), cache)
        found = [complete(llm, [ASKED, ASKED], "asking") for _ in range(2)]
    assert [[one.logprobs for one in both] for both in found] == [[READ, READ], [READ, READ]]
    assert [[one.cached for one in both] for both in found] == [[False, True], [True, True]]
    assert llm.spent_usd == pytest.approx((2 * 1.0 + 1 * 10.0) / 1e6)


def test_another_rejection_is_a_failure_of_one_request(serve: Callable[[Answer], str]) -> None:
    client = OpenAIClient("m", base_url=serve(lambda _: (400, {"error": {"message": "bad words"}})))
    assert [one.reason for one in complete(client, [ASKED], "asking")] == ["status 400: bad words"]


def test_batches_do_without(start: Callable[..., FaultServer], tmp_path: Path) -> None:
    server = start()
    with Cache(tmp_path / "answers.sqlite") as cache, pytest.raises(LLMError, match=r"set llm\.mode=calls"):
        complete(BatchLLM(OpenAIClient("m", base_url=server.url), cache), [ASKED], "asking")
    assert server.stats()["endpoints"] == {}
