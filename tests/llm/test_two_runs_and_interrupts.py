"""One question is paid for once: by two runs at a time, by one that is killed, and by one that is interrupted."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from fault_server import FaultServer
from serving import Answer, Reply, said, user_text
from stub_client import asked

from cda.errors import LLMError, Terminated
from cda.llm.cache import Cache, CachedLLM
from cda.llm.openai_client import OpenAIClient
from cda.llm.protocol import Completion, complete
from cda.llm.purse import Claims

ROOT = Path(__file__).parent.parent.parent
ASKING = """
import sys, time
from cda.user_errors import user_errors
with user_errors():
    from cda.llm.cache import Cache, CachedLLM
    from cda.llm.openai_client import OpenAIClient; from cda.llm.protocol import Request
    url, path, n, slow_s = sys.argv[1], sys.argv[2], int(sys.argv[3]), float(sys.argv[4])
    llm = CachedLLM(OpenAIClient('m', url, concurrency=8, timeout_s=60), Cache(path))
    asked = (Request('s', f'question {number}') for number in range(n))
    found = llm.answers(asked, 'asking', n)
    for _, one in found:
        assert one.text, one
        time.sleep(slow_s)
"""


def asking(url: str, path: Path, n: int, slow_s: float = 0.0) -> subprocess.Popen[str]:
    command = [sys.executable, "-c", ASKING, url, str(path), str(n), str(slow_s)]
    # A shell that starts the tests in the background has them ignore Ctrl-C.
    heard = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        return subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    finally:
        signal.signal(signal.SIGINT, heard)


def after_calls(server: FaultServer, n_calls: int, process: subprocess.Popen[str]) -> None:
    while server.stats()["calls"] < n_calls:
        assert process.poll() is None, process.communicate()
        time.sleep(0.002)


def test_two_runs_at_once_pay_once(tmp_path: Path) -> None:
    with FaultServer(latency_s=0.05) as server:
        runs = [asking(server.url, tmp_path / "cache.sqlite", 120) for _ in range(2)]
        problems = [run.communicate(timeout=60)[1] for run in runs]
        assert [run.returncode for run in runs] == [0, 0], problems
        assert server.stats()["calls"] == 120
    assert not list((tmp_path / "cache.sqlite.claims").iterdir())


def test_a_question_that_another_run_gave_up_is_asked(tmp_path: Path) -> None:
    path = tmp_path / "cache.sqlite"
    with FaultServer(latency_s=0.3, script={"chat": ["500"]}) as server, Cache(path) as one, Cache(path) as other:
        found: list[Completion] = []

        def ask(cache: Cache) -> None:
            llm = CachedLLM(OpenAIClient("m", server.url, retries=0), cache)
            found.extend(complete(llm, asked("u"), "asking"))

        threads = [threading.Thread(target=ask, args=(cache,)) for cache in (one, other)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(timeout=30)
        assert sorted(bool(completion.text) for completion in found) == [False, True]
        assert server.stats()["calls"] == 2


def test_claims_are_exclusive_and_follow_no_link(tmp_path: Path) -> None:
    claims, others = Claims(tmp_path / "c"), Claims(tmp_path / "c")
    held = claims.take("a" * 64)
    assert held is not None and claims.take("a" * 64) is None and others.take("a" * 64) is None
    held.release()
    again = others.take("a" * 64)
    assert again is not None
    again.release()
    victim = tmp_path / "victim"
    victim.write_text("mine")
    (tmp_path / "c" / ("b" * 32)).symlink_to(victim)
    with pytest.raises(LLMError, match="cannot be written"):
        claims.take("b" * 64)
    assert victim.read_text() == "mine"
    assert (tmp_path / "c" / ("b" * 32)).is_symlink()


@pytest.mark.parametrize(
    ("number", "status", "slow_s"),
    [(signal.SIGINT, 130, 0.0), (signal.SIGTERM, 143, 0.5)],
    ids=["ctrl-c while waiting", "sigterm in the code that takes the answers"],
)
def test_an_interrupt_keeps_every_answer_under_way(tmp_path: Path, number: int, status: int, slow_s: float) -> None:
    path = tmp_path / "cache.sqlite"
    with FaultServer(latency_s=0.6) as server:
        first = asking(server.url, path, 200, slow_s)
        after_calls(server, 14, first)
        time.sleep(0.2)
        os.kill(first.pid, number)
        _, problems = first.communicate(timeout=30)
        assert first.returncode == status and "stopped. The same command goes on" in problems, problems
        assert "Traceback" not in problems and "calls under way are paid for" in problems
        n_first = server.stats()["calls"]
        assert server.stats()["lost"] == 0 and 14 <= n_first < 60
        server.latency_s = 0.0
        second = asking(server.url, path, 200)
        assert second.wait(timeout=60) == 0, second.communicate()
        assert server.stats()["answered_twice"] == 0 and server.stats()["calls"] == 200


def test_a_second_interrupt_ends_at_once(tmp_path: Path) -> None:
    with FaultServer(latency_s=25.0) as server:
        run = asking(server.url, tmp_path / "cache.sqlite", 20)
        after_calls(server, 8, run)
        os.kill(run.pid, signal.SIGINT)
        assert run.stderr is not None
        while "paid for" not in run.stderr.readline():
            assert run.poll() is None
        os.kill(run.pid, signal.SIGINT)
        _, problems = run.communicate(timeout=10)
        assert run.returncode == 130 and "Traceback" not in problems, problems


def test_a_pause_is_not_waited_for(speak: Callable[[Answer], str], tmp_path: Path) -> None:
    """One call hangs on its way for a moment, the others wait for leave (429): the first alone is waited for."""
    sent: list[str] = []

    def answer(body: dict[str, Any]) -> Reply:
        sent.append(user_text(body))
        if len(sent) == 4:  # all are under way, and three of them soon pause
            threading.Timer(0.2, os.kill, (os.getpid(), signal.SIGTERM)).start()
        if user_text(body) == "0":
            time.sleep(0.7)
            return said("paid")
        return 429, {}, {"Retry-After": "1000"}

    url, path = speak(answer), tmp_path / "cache.sqlite"
    with Cache(path) as cache:
        llm = CachedLLM(OpenAIClient("m", url, concurrency=4, say=lambda _: None), cache)
        found = llm.answers(asked(*range(50)), "asking", 50)
        began = time.monotonic()
        with pytest.raises(Terminated):
            list(found)
        assert time.monotonic() - began < 10
        assert len(cache) == 1
    assert signal.getsignal(signal.SIGTERM) == signal.SIG_DFL
    assert len(sent) <= 5


def test_closing_early_keeps_what_is_paid_for(speak: Callable[[Answer], str], tmp_path: Path) -> None:
    def answer(body: dict[str, Any]) -> Reply:
        time.sleep(0.0 if user_text(body) == "0" else 0.4)
        return said("fine")

    with Cache(tmp_path / "cache.sqlite") as cache:
        llm = CachedLLM(OpenAIClient("m", speak(answer), concurrency=4), cache)
        found = llm.answers(asked(*range(50)), "asking", 50)
        next(found)
        time.sleep(0.1)
        found.close()
        assert 4 <= len(cache) <= 5
