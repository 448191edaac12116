"""Errors in a body of status 200, in the shapes that providers and proxies publish, over real HTTP: each ends in the action of its
own status, and the provider's words are shown."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from fault_server import FaultServer
from serving import Answer, Reply, said, status
from stub_client import QUESTION, asked, client

from cda.errors import LLMError
from cda.llm.batch import BatchLLM
from cda.llm.cache import Cache
from cda.llm.protocol import FILTERED, TOO_LONG, complete

KEY = "sk-or-v1-0123456789abcdef"


def inside(error: object, **beside: Any) -> Reply:
    return status(200, {"error": error} | beside)


def chosen(error: object, finish: str = "error", text: str | None = "Half a") -> Reply:
    """OpenRouter's form of an error while the answer was written."""
    choice = {"index": 0, "finish_reason": finish, "message": {"role": "assistant", "content": text}, "error": error}
    return status(200, {"id": "gen-1", "object": "chat.completion", "choices": [choice]})


RAW = json.dumps({"error": {"type": "invalid_request_error", "message": "at most 1 image per prompt"}})
GOOGLE = {
    "code": 429,
    "message": "You exceeded your current quota, please check your plan and billing details.",
    "status": "RESOURCE_EXHAUSTED",
}
DAY = {"details": [{"violations": [{"quotaId": "GenerateRequestsPerDayPerProjectPerModel-FreeTier"}]}]}
STOPS: dict[str, tuple[Reply, str]] = {
    "OpenRouter, no credits": (inside({"code": 402, "message": "Insufficient credits"}), "quota is spent.*Insufficient"),
    "code as text": (inside({"code": "402", "message": "Pay first"}), r"quota is spent \(402\): Pay first;"),
    "status in place of a code": (inside({"status": 402, "message": "Pay first"}), "quota is spent.*Pay first"),
    "no choices beside": (inside({"code": 402, "message": "Pay first"}, choices=[]), "quota is spent.*Pay first"),
    "in the choice": (chosen({"code": 402, "message": "Pay first"}), "quota is spent.*Pay first"),
    "a plain string": (inside("Insufficient credits on this account"), "quota is spent.*Insufficient credits"),
    "OpenRouter, guardrail": (
        inside({"code": 403, "message": "Budget limit", "metadata": {"limit_source": "openrouter_guardrail_budget"}}),
        r"quota is spent \(403\): Budget limit",
    ),
    "LiteLLM, budget": (
        inside({"message": "over budget", "type": "budget_exceeded", "param": None, "code": "400"}),
        "quota is spent.*over budget",
    ),
    "DeepSeek, balance": (
        inside({"message": "Insufficient Balance", "type": "unknown_error", "code": "invalid_request_error"}),
        "quota is spent.*Insufficient Balance",
    ),
    "OpenRouter, day": (
        inside({"code": 429, "message": "Rate limit exceeded: free-models-per-day"}),
        r"limit of a day is used up \(429\): Rate limit exceeded: free-models-per-day;.* on the next day",
    ),
    "OpenRouter, day with its end": (
        inside({"code": 429, "message": "per-day", "metadata": {"headers": {"X-RateLimit-Reset": "1999999999000"}}}),
        r"limit of a day.*Start again in [\d,.]+ hours",
    ),
    "Groq, tokens per day": (
        inside({"message": "Limit reached on tokens per day (TPD)", "type": "tokens", "code": "rate_limit_exceeded"}),
        "limit of a day",
    ),
    "Gemini, day": (status(200, [{"error": GOOGLE | DAY}]), "limit of a day.*You exceeded your current quota"),
    "Gemini, key": (
        status(200, [{"error": {"code": 400, "message": "No", "details": [{"reason": "API_KEY_INVALID"}]}}]),
        r"MY_KEY is refused \(401\): No",
    ),
    "Fireworks, key": (inside({"object": "error", "type": "error", "code": 401, "message": "U"}), "MY_KEY is refused.*U"),
    "Azure, key": (
        status(200, {"statusCode": 401, "message": "Access denied due to invalid subscription key"}),
        "MY_KEY is refused.*Access denied",
    ),
    "Cloudflare, key": (
        status(200, {"success": False, "errors": [{"code": 10000, "message": "Authentication error"}]}),
        "MY_KEY is refused.*Authentication error",
    ),
    "no right to the model": (inside({"code": 403, "message": "Not on your plan"}), r"MY_KEY is refused \(403\): Not on"),
    "Ollama, no model": (
        inside({"message": 'model "m" not found, try pulling it first', "type": "api_error", "code": None}),
        r"no model 'm' \(404\): model \"m\" not found",
    ),
    "a flag, and words beside it": (status(200, {"error": True, "message": "Pay", "code": 402}), "quota is spent.*: Pay;"),
    "MiniMax": (
        status(200, {"choices": None, "base_resp": {"status_code": 1008, "status_msg": "insufficient balance"}}),
        "quota is spent.*: insufficient balance;",
    ),
    "FastAPI": (status(200, {"detail": "Not authenticated"}), "MY_KEY is refused.*Not authenticated"),
    "Azure, no deployment": (
        inside({"code": "DeploymentNotFound", "message": "The API deployment does not exist"}),
        "no model 'm'.*deployment does not exist",
    ),
}  # fmt: skip


@pytest.mark.parametrize(("reply", "words"), STOPS.values(), ids=STOPS)
def test_what_no_call_survives_stops_at_the_first_answer(
    speak: Callable[[Answer], str], monkeypatch: pytest.MonkeyPatch, reply: Reply, words: str
) -> None:
    monkeypatch.setenv("MY_KEY", KEY)
    bodies: list[object] = []
    url = speak(lambda body: bodies.append(body) or reply)  # type: ignore[func-returns-value]
    with pytest.raises(LLMError, match=words) as caught:
        complete(client(url, api_key_env="MY_KEY", retries=5, concurrency=1), asked(*range(8)), "asking")
    assert len(bodies) == 1 and "\n" not in str(caught.value)


SLOWS: dict[str, Reply] = {
    "OpenRouter": inside({"code": 429, "message": "Provider returned error", "metadata": {"raw": "rate-limited upstream"}}),
    "Mistral": status(200, {"object": "error", "message": "Rate limit exceeded", "type": "rate_limited", "code": "1300"}),
    "Mistral, full": status(200, {"object": "error", "message": "Service tier capacity exceeded", "code": "3505"}),
    "Groq": inside({"message": "Rate limit reached on requests per minute (RPM)", "code": "rate_limit_exceeded"}),
    "LiteLLM": inside({"message": "litellm.RateLimitError: slow", "type": "throttling_error", "code": "429"}),
    "Gemini": status(200, [{"error": GOOGLE | {"details": [{"retryDelay": "0.01s"}]}}]),
    "JSON in the message": inside({"message": json.dumps({"error": {"code": 429, "message": "exhausted"}})}),
    "Together, a string": inside("Too many requests, rate limit of 60 queries per minute"),
    "OpenRouter, calls under way": inside(
        {
            "code": 402,
            "message": "in flight",
            "metadata": {"limit_source": "openrouter_in_flight_budget", "retry_after": 0.01},
        }
    ),
}  # fmt: skip


@pytest.mark.parametrize("reply", SLOWS.values(), ids=SLOWS)
def test_what_goes_too_fast_slows_all_calls_and_counts_as_no_try(speak: Callable[[Answer], str], reply: Reply) -> None:
    replies, messages = iter([reply]), list[str]()
    llm = client(speak(lambda _: next(replies, said("fine"))), retries=0, concurrency=4, say=messages.append)
    assert [one.text for one in complete(llm, asked(*range(3)), "asking")] == ["fine"] * 3
    assert llm._limiter.allowed < 4 and len(messages) == 1 and "asks to slow down (429)" in messages[0]


AGAIN: dict[str, tuple[Reply, str]] = {
    "OpenRouter, model down": (
        inside({"code": 502, "message": "Provider returned error", "metadata": {"raw": "socket hang up"}}),
        "error 502: Provider returned error: socket hang up",
    ),
    "OpenRouter, while writing": (chosen({"code": 502, "message": "Provider disconnected"}), "error 502: Provider disc"),
    "llama.cpp, loading": (inside({"code": 503, "message": "Loading model", "type": "unavailable_error"}), "error 503: Loading model"),
    "vLLM": (inside({"message": "", "type": "Internal Server Error", "code": 500}), "error 500"),
    "Anthropic": (status(200, {"type": "error", "error": {"type": "overloaded_error", "message": "Overloaded"}}), "error 503: Overloaded"),
    "Ollama": (inside("llama runner process has terminated"), "error: llama runner process has terminated"),
    "timed out": (inside({"code": 408, "message": "Timed out"}), "error 408: Timed out"),
    "a key in the words": (inside({"code": 500, "message": f"key {KEY} sk-proj-****9a2b7c1d ok"}), r"key \*\*\* \*\*\* ok"),
    "Baidu": (status(200, {"error_code": 18, "error_msg": "Open api qps limit"}), "error: Open api qps limit"),
    "Zhipu": (status(200, {"success": False, "code": 1113, "msg": "overdue"}), "error: overdue"),
    "a web page": ((200, b"<html>Sign in</html>"), "status 200 with a web page; is the address that of the API"),
    "a stream": ((200, b'data: {"choices": []}\n\n'), "status 200 with a stream of events"),
    "nothing said": (inside({"code": None, "message": None}), "unfinished answer"),
}  # fmt: skip


@pytest.mark.parametrize(("reply", "words"), AGAIN.values(), ids=AGAIN)
def test_what_may_pass_is_tried_again(
    speak: Callable[[Answer], str], monkeypatch: pytest.MonkeyPatch, reply: Reply, words: str
) -> None:
    monkeypatch.setenv("MY_KEY", KEY)
    replies = iter([reply])
    llm = client(speak(lambda _: next(replies, said("fine"))), retries=1)
    assert complete(llm, [QUESTION], "asking")[0].text == "fine"
    (found,) = complete(client(speak(lambda _: reply), api_key_env="MY_KEY", retries=1), [QUESTION], "asking")
    assert found.reason is not None and "no answer after 2 tries" in found.reason
    assert re.search(words, found.reason), found.reason


ONE: dict[str, tuple[Reply, str]] = {
    "OpenRouter, moderation": (
        inside({"code": 403, "message": "flagged", "metadata": {"reasons": ["violence"], "flagged_input": "I will"}}),
        FILTERED,
    ),
    "Azure, filter": (inside({"code": "content_filter", "status": 400, "innererror": {"code": "ResponsibleAIPolicyViolation"}}), FILTERED),
    "OpenRouter, the provider's request": (
        inside({"code": 400, "message": "Provider returned error", "metadata": {"raw": RAW}}),
        "status 400: Provider returned error: at most 1 image per prompt",
    ),
    "FastChat, too long": (
        status(200, {"object": "error", "message": "This model's maximum context length is 2048", "code": 40303}),
        TOO_LONG,
    ),
}  # fmt: skip


@pytest.mark.parametrize(("reply", "reason"), ONE.values(), ids=ONE)
def test_what_is_about_one_text_is_its_failure_alone(speak: Callable[[Answer], str], reply: Reply, reason: str) -> None:
    replies = iter([reply])
    llm = client(speak(lambda _: next(replies, said("fine"))), concurrency=1)
    first, second = complete(llm, asked("bad", "good"), "asking")
    assert (first.text, first.reason, second.text) == (None, reason, "fine")


@pytest.mark.parametrize(
    ("row", "reason", "n_batches"),
    [
        ({"error": {"code": 402, "message": "Pay first"}}, "quota is spent (402): Pay first", 1),
        ({"error": {"code": "batch_expired", "message": "late"}}, "batch expired", 2),
        ({}, "no response", 2),
        ({"response": inside({"code": 502, "message": "Down"})}, "unfinished answer (error 502: Down)", 2),
        ({"response": inside({"code": 429, "message": "Slow"})}, "status 429", 2),
        ({"response": inside({"code": 401, "message": "No"})}, "is refused (401): No", 1),
        ({"response": inside({"code": 403, "metadata": {"reasons": ["x"]}})}, FILTERED, 1),
    ],
)
def test_rows_of_a_batch_are_read_alike(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, row: dict[str, Any], reason: str, n_batches: int
) -> None:
    code, body, _ = row.get("response", (0, None, None))
    written = {"response": {"status_code": code, "body": body} if code else None, "error": row.get("error")}
    monkeypatch.setattr("fault_server._result", lambda custom_id, *_: written | {"custom_id": custom_id})
    with FaultServer() as server, Cache(tmp_path / "cache.sqlite") as cache:
        llm = BatchLLM(client(server.url), cache, sleep=lambda _: None, first_pause_s=0.0)
        (found,) = complete(llm, [QUESTION], "asking")
        assert found.text is None and reason in (found.reason or "") and len(server.batches) == n_batches
