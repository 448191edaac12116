"""Answers that broke off are no answers, and no server can fill the memory, the cache's integers or another host's hands."""

from __future__ import annotations

import gzip
import json
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
from cda.llm.protocol import CUT_OFF, FILTERED, Completion, Request, complete
from cda.records import user_prompt
from cda.scorers.served_client import ServedClient, ServedScorer

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
