"""Errors in a body of status 200, in the shapes that providers and proxies publish, over real HTTP: each ends in the action of its
own status, and the provider's words are shown."""

from __future__ import annotations

import gzip
import json
import re
import resource
import subprocess
import sys
import threading
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from fault_server import FaultServer
from serving import Answer, Reply, said, status, user_text
from stub_client import QUESTION, asked, client

from cda.errors import LLMError
from cda.llm.batch import BatchLLM
from cda.llm.cache import Cache, CachedLLM
from cda.llm.outcome import answer_in
from cda.llm.protocol import CUT_OFF, FILTERED, TOO_LONG, Completion, Request, complete
from cda.records import user_prompt
from cda.scorers.served_client import ServedClient, ServedScorer

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


ROOT = Path(__file__).parent.parent.parent
NESTED = b"[" * 100_000 + b"]" * 100_000
HALF = "The kettle keeps water warm becau"


def changed(**parts: Any) -> Reply:
    """A chat completion with half a sentence, of which some parts are otherwise; `choice` and `message` change theirs."""
    data = said(HALF)[1]
    data["choices"][0]["message"] |= parts.pop("message", {})
    data["choices"][0] |= parts.pop("choice", {})
    return status(200, data | parts)


BROKEN = {
    "empty choices": changed(choices=[]),
    "null choices": changed(choices=None),
    "null content": changed(message={"content": None}),
    "finish reason error": changed(choice={"finish_reason": "error"}),
    "finish reason abort": changed(choice={"finish_reason": "abort"}),
    "finish reason null": changed(choice={"finish_reason": None}),
    "finish reason of another type": changed(choice={"finish_reason": {"a": 1}}),
    "error in the choice": changed(choice={"error": {"code": 502}}),
    "error beside the choices": changed(error={"message": "upstream"}),
    "no message": changed(choice={"message": None}),
}


def ask(url: str, cache: Cache, *requests: Request, **options: Any) -> list[Completion]:
    llm = CachedLLM(client(url, **options), cache, pauses_s=(0.0, 0.0))
    return complete(llm, requests or [QUESTION], "asking")


@pytest.mark.parametrize("reply", BROKEN.values(), ids=BROKEN)
def test_an_answer_that_broke_off_is_not_kept_and_a_repaired_server_is_asked(
    speak: Callable[[Answer], str], tmp_path: Path, reply: Reply
) -> None:
    repaired = False
    url = speak(lambda _: said("The whole.") if repaired else reply)
    with Cache(tmp_path / "cache.sqlite") as cache:
        (broken,) = ask(url, cache)
        assert broken.text is None and ("unfinished answer" in broken.reason or "without choices" in broken.reason)
        assert len(cache) == 0
        repaired = True
        assert ask(url, cache)[0].text == "The whole."


@pytest.mark.parametrize(
    ("choice", "expected"),
    [
        *[({"finish_reason": word}, Completion("all of it")) for word in ("stop", "STOP", "eos_token", "end_turn")],
        ({}, Completion("all of it")),
        *[({"finish_reason": word}, Completion(None, CUT_OFF)) for word in ("length", "max_tokens", "MAX_TOKENS")],
        *[({"finish_reason": word}, Completion(None, FILTERED)) for word in ("content_filter: x", "CONTENT_FILTER")],
    ],
)
def test_servers_that_say_the_end_in_words_of_their_own_are_believed(
    choice: dict[str, str], expected: Completion
) -> None:
    assert answer_in({"choices": [{"message": {"content": "all of it"}} | choice]}) == expected


def test_failures_are_asked_again_where_that_is_wanted_and_once(speak: Callable[[Answer], str], tmp_path: Path) -> None:
    calls: list[str] = []
    mended = False

    def answer(body: dict[str, Any]) -> Reply:
        calls.append(user_text(body))
        return said(HALF, finish="length") if user_text(body) != "fine" and not mended else said("whole")

    url, path = speak(answer), tmp_path / "cache.sqlite"
    both = asked("fine", "cut")
    with Cache(path) as cache:
        ask(url, cache, *both)
        assert [one.cached for one in ask(url, cache, *both)] == [True, True] and len(calls) == 2
    with Cache(path, ask_failures_again=True) as cache:
        assert [one.reason for one in ask(url, cache, *both)] == [None, CUT_OFF]
        ask(url, cache, *both)  # what failed again now is known now
        assert calls == ["fine", "cut", "cut"] or calls == ["cut", "fine", "cut"]
    mended = True
    with Cache(path, ask_failures_again=True) as cache:
        assert ask(url, cache, *both)[1].text == "whole"
    with Cache(path) as cache:
        assert ask(url, cache, *both)[1] == Completion("whole", None, 7, 3, cached=True)
    assert len(calls) == 4


LARGE = b'{"choices": [' + b" " * (17 << 20) + b"]}"
PACKED = {"Content-Encoding": "gzip"}


@pytest.mark.parametrize(
    "reply",
    [
        (200, LARGE),
        (200, gzip.compress(LARGE, 1), PACKED),
        (500, LARGE),
        (400, gzip.compress(LARGE, 1), PACKED),
    ],
    ids=["long", "packed", "long error", "packed error"],
)
def test_an_answer_of_too_many_bytes_is_not_read_to_its_end(speak: Callable[[Answer], str], reply: Reply) -> None:
    (found,) = complete(client(speak(lambda _: reply)), [QUESTION], "asking")
    assert found == Completion(None, "answer of too many bytes")


def test_packed_answers_are_read_and_what_is_packed_otherwise_is_not(speak: Callable[[Answer], str]) -> None:
    body = json.dumps(said("fine")[1]).encode()
    assert complete(client(speak(lambda _: (200, gzip.compress(body), PACKED))), [QUESTION], "x")[0].text == "fine"
    for reply in ((200, b"\x0b\x02\x80ab", {"Content-Encoding": "br"}), (200, b"no gzip", PACKED), (200, body, PACKED)):
        (found,) = complete(client(speak(lambda _, reply=reply: reply)), [QUESTION], "x")  # type: ignore[misc]
        assert found.text is None and "no answer after 1 try" in (found.reason or "")


@pytest.mark.parametrize("code", [302, 308])
def test_a_redirect_to_another_host_is_refused_and_nothing_goes_there(
    speak: Callable[[Answer], str], code: int
) -> None:
    there: list[object] = []
    other = speak(lambda body: there.append(body) or said("stolen"))  # type: ignore[func-returns-value]
    url = speak(lambda _: (code, {}, {"Location": f"{other}/chat/completions"}))
    with pytest.raises(
        LLMError, match=r"sends calls on to http://127.0.0.1:\d+, and nothing was sent there.*llm.base_url"
    ):
        complete(client(url), [QUESTION], "asking")
    assert there == []


def test_reward_servers_are_bounded_too(speak: Callable[[Answer], str]) -> None:
    def scorer(reply: Reply) -> ServedScorer:
        return ServedScorer(ServedClient(speak(lambda _: reply).removesuffix("/v1"), retries=0, backoff_s=0.01))

    def listing(reply: Reply) -> str:
        return "".join(scorer(reply).client.check())

    def score(reply: Reply) -> ServedScorer:
        asked = scorer(reply)
        asked.score([user_prompt("q")], ["a"])
        return asked

    with pytest.raises(LLMError, match="larger than 16,777,216 bytes"):
        score((200, gzip.compress(LARGE, 1), PACKED))
    with pytest.raises(LLMError, match="sends calls on to http://localhost"):
        score((307, {}, {"Location": "http://localhost:1/classify"}))
    assert "its description of itself: the answer is larger" in listing((200, gzip.compress(LARGE, 1), PACKED))
    assert listing((200, NESTED)) == ""
    usage = {"usage": {"prompt_tokens": 10**30}}
    assert score(status(200, {"data": [{"probs": [3.5]}], "model": "rm", **usage})).n_truncated == 0


def test_a_wait_without_end_is_said_in_few_words(speak: Callable[[Answer], str]) -> None:
    url = speak(lambda _: status(429, Retry_After="1e308"))
    with pytest.raises(LLMError, match="asks to wait 8760 hours"):
        complete(client(url), [QUESTION], "asking")


def test_too_few_file_descriptors_are_said(speak: Callable[[Answer], str], tmp_path: Path) -> None:
    code = (
        "import resource, sys; from cda.user_errors import user_errors\n"
        "import openai, httpx2, asyncio, sqlite3, encodings.idna\n"
        "from cda.llm.openai_client import OpenAIClient; from cda.llm.protocol import Request, complete\n"
        "from cda.llm.cache import Cache, CachedLLM; import cda.llm.connection\n"
        "with user_errors():\n"
        "    llm = OpenAIClient('m', sys.argv[1], concurrency=64)\n"
        "    cached = CachedLLM(llm, Cache(sys.argv[2]))\n"
        "    complete(llm, [Request('s', 'warm')], 'x')\n"
        "    resource.setrlimit(resource.RLIMIT_NOFILE, (40, 40))\n"
        "    complete(cached, [Request('s', str(n)) for n in range(200)], 'x')\n"
    )
    meet = threading.Barrier(64)

    def answer(body: dict[str, Any]) -> Reply:
        if user_text(body) != "warm":
            with suppress(threading.BrokenBarrierError):
                meet.wait(0.5)
        return said("fine")

    command = [sys.executable, "-c", code, speak(answer), str(tmp_path / "cache.sqlite")]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=60)
    assert done.returncode == 2 and "too many open files" in done.stderr and "ulimit -n" in done.stderr, done.stderr
    assert "Traceback" not in done.stderr and "cannot be reached" not in done.stderr
    assert resource.getrlimit(resource.RLIMIT_NOFILE)[0] > 40


def test_a_download_of_a_batch_is_bounded(tmp_path: Path) -> None:
    class Endless(FaultServer):
        def completion(self, body: dict[str, Any], fault: str | None) -> tuple[int, dict[str, Any]]:
            found = super().completion(body, fault)
            found[1]["choices"][0]["message"]["content"] = "x" * (18 << 20)
            return found

    with Endless() as server, Cache(tmp_path / "cache.sqlite") as cache:
        llm = BatchLLM(client(server.url, max_tokens=8), cache, sleep=lambda _: None, first_pause_s=0.0)
        with pytest.raises(LLMError, match="output file of batch_0: the answer is larger than"):
            complete(llm, [QUESTION], "asking")
    assert not list(tmp_path.rglob("*.output"))
