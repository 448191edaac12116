"""The LLM client, labelling and rewriting against a real local server over real HTTP."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from cda.biases import load_bias
from cda.errors import LLMError
from cda.label.asked import label_pairs
from cda.llm.openai_client import OpenAIClient
from cda.llm.protocol import Request
from cda.records import Pair, RewriteRequest, user_prompt
from cda.rewrite.asked import LLMRewriter

Answer = Callable[[dict[str, Any]], tuple[int, dict[str, Any]]]


def completion(text: str | None, finish: str = "stop", refusal: str | None = None) -> tuple[int, dict[str, Any]]:
    message = {"role": "assistant", "content": text, "refusal": refusal}
    choice = {"index": 0, "finish_reason": finish, "message": message}
    return 200, {"id": "x", "object": "chat.completion", "created": 0, "model": "local", "choices": [choice]}


def user_text(body: dict[str, Any]) -> str:
    return str(body["messages"][1]["content"])


def test_answers_come_in_the_order_of_the_requests(serve: Callable[[Answer], str]) -> None:
    client = OpenAIClient("local", serve(lambda body: completion(user_text(body)[::-1])), concurrency=8)
    asked = [Request("system", f"question {number}") for number in range(40)]
    assert [one.text for one in client.complete(asked, "asking")] == [one.user[::-1] for one in asked]


@pytest.mark.parametrize(
    ("answer", "reason"),
    [
        (completion("half a sen", finish="length"), "cut off at llm.max_tokens"),
        (completion(None, refusal="I will not"), "refused"),
        (completion("", finish="content_filter"), "refused"),
        (completion("  "), "empty answer"),
        ((400, {"error": {"message": "too long"}}), "status 400"),
    ],
)
def test_a_failed_call_has_a_reason_and_no_text(
    serve: Callable[[Answer], str], answer: tuple[int, dict[str, Any]], reason: str
) -> None:
    client = OpenAIClient("local", serve(lambda _: answer), retries=0)
    (found,) = client.complete([Request("s", "u")], "asking")
    assert found.text is None and found.reason == reason


def test_a_server_error_is_tried_again(serve: Callable[[Answer], str]) -> None:
    calls: list[int] = []

    def flaky(_: dict[str, Any]) -> tuple[int, dict[str, Any]]:
        calls.append(1)
        return (500, {"error": {"message": "busy"}}) if len(calls) < 3 else completion("fine")

    (found,) = OpenAIClient("local", serve(flaky), retries=3).complete([Request("s", "u")], "asking")
    assert found.text == "fine" and len(calls) == 3


def test_a_refused_key_an_unknown_model_and_no_server_stop_at_once(
    serve: Callable[[Answer], str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MY_KEY", "sk-very-secret")
    for status, said in ((401, "MY_KEY is refused"), (404, "no model 'local'")):
        url = serve(lambda _, status=status: (status, {"error": {"message": "no"}}))  # type: ignore[misc]
        with pytest.raises(LLMError, match=said) as error:
            OpenAIClient("local", url, api_key_env="MY_KEY", retries=0).complete([Request("s", "u")], "asking")
        assert "sk-very-secret" not in str(error.value)
    with pytest.raises(LLMError, match="cannot be reached"):
        OpenAIClient("local", "http://127.0.0.1:9/v1", retries=0).complete([Request("s", "u")], "asking")


def test_missing_key_is_said_before_any_call(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("NO_SUCH_KEY", raising=False)
    (problem,) = OpenAIClient("gpt-4o", api_key_env="NO_SUCH_KEY").check()
    assert "NO_SUCH_KEY" in problem
    assert OpenAIClient("local", "http://127.0.0.1:9/v1", api_key_env="NO_SUCH_KEY").check() == []


def test_labels_are_parsed_and_unparsed_ones_are_none(serve: Callable[[Answer], str]) -> None:
    def judge(body: dict[str, Any]) -> tuple[int, dict[str, Any]]:
        response = user_text(body).split("<<<RESPONSE>>>")[1]
        if "unclear" in response:
            return completion("Hard to say.")
        return completion(f"It depends.\nLabel: {'yes' if 'leverage' in response else 'no'}")

    pairs = [
        Pair(user_prompt("Why?"), "We leverage it.", "We use it."),
        Pair(user_prompt("How?"), "unclear", "Label: yes"),
    ]
    labels = label_pairs(pairs, load_bias("jargon"), OpenAIClient("local", serve(judge)))
    assert labels == [{"chosen": True, "rejected": False}, {"chosen": None, "rejected": False}]


def test_failed_rewrites_never_return_the_unmodified_text(serve: Callable[[Answer], str]) -> None:
    def rewrite(body: dict[str, Any]) -> tuple[int, dict[str, Any]]:
        response = user_text(body).split("<<<RESPONSE>>>\n")[1].split("\n<<<END>>>")[0]
        if response == "refuse me":
            return completion(None, refusal="no")
        return completion(response if response == "keep me" else response.replace("use", "utilize"))

    requests = [RewriteRequest(user_prompt("Q"), text, "add") for text in ("We use it.", "refuse me", "keep me")]
    outcomes = LLMRewriter(OpenAIClient("local", serve(rewrite))).rewrite(requests, load_bias("jargon"))
    assert [one.text for one in outcomes] == ["We utilize it.", None, None]
    assert [one.reason for one in outcomes] == [None, "refused", "unchanged"]
