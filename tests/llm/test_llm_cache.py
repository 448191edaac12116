"""Answers on disk: asked once, found again, shared by processes, and there after a kill, a broken file or a full disk."""

from __future__ import annotations

import os
import signal
import sqlite3
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from fault_server import FaultServer
from serving import Answer, Reply, said, user_text
from stub_client import SETTINGS, Stub, asked, budgeted, client

from cda.errors import LLMError
from cda.llm.cache import Cache, CachedLLM, key_of
from cda.llm.money import Price
from cda.llm.openai_client import OpenAIClient
from cda.llm.protocol import Completion, Request, complete
from cda.llm.purse import Claims

ROOT = Path(__file__).parent.parent.parent
REQUEST = Request("s", "u", {"type": "object", "required": ["a"]}, "plain", 0)
READ = (("1", -0.1), ("2", -2.4))


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "folder" / "answers.sqlite"


def python(code: str, *arguments: object) -> subprocess.Popen[str]:
    command = [sys.executable, "-c", code, *map(str, arguments)]
    return subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def test_what_was_answered_is_never_asked_again(path: Path) -> None:
    stub = Stub()
    with Cache(path) as cache:
        first = complete(CachedLLM(stub, cache), asked(*range(200)), "asking")
    with Cache(path) as cache:
        again = complete(CachedLLM(stub, cache), asked(*range(200), "new"), "asking")
        assert len(cache) == 201
        for _ in CachedLLM(stub, cache).answers(asked(*range(200)), "asking"):
            assert all(thread.name != "llm-workers" for thread in threading.enumerate())
    assert again == [replace(one, cached=True) for one in first] + [Completion("NEW", None, 10, 2)]
    assert set(stub.calls.values()) == {1}


@pytest.mark.parametrize(
    "change",
    [{"name": "n"}, {"base_url": "http://y/v1"}, {"temperature": 0.5}, {"seed": 2}, {"max_tokens": 65}],
    ids=str,
)
def test_settings_that_decide_an_answer_are_in_its_key(change: dict[str, Any]) -> None:
    first = client("http://x/v1", seed=1, max_tokens=64)
    assert key_of(replace(first).settings, REQUEST) == key_of(first.settings, REQUEST)
    assert key_of(replace(first, **change).settings, REQUEST) != key_of(first.settings, REQUEST)


@pytest.mark.parametrize(
    "change",
    [{"system": "t"}, {"user": "v"}, {"schema": None}, {"schema": {"type": "array"}}, {"plain": ""}, {"sample": 1},
     {"system": "su", "user": ""}, {"top_logprobs": 5}],
)  # fmt: skip
def test_everything_in_a_request_is_in_its_key(change: dict[str, Any]) -> None:
    assert key_of(SETTINGS, replace(REQUEST, **change)) != key_of(SETTINGS, REQUEST)
    turned = replace(REQUEST, schema={"required": ["a"], "type": "object"})
    assert key_of(dict(reversed(SETTINGS.items())), turned) == key_of(SETTINGS, REQUEST)


def test_keys_of_earlier_versions_are_still_valid() -> None:
    held = Request("s", "u", {"type": "object"}, "plain", 3)
    assert key_of(SETTINGS, Request("s", "u")) == "0d4c21467c647e985feae25f1b511855fecaefd57674e65aaabe1cf22e81e6dd"
    assert key_of(SETTINGS, held) == "b178115fe74ee4fb05c776a0cfb88eabc0b208c4c9835cc1df1987c94e4d6290"


def test_files_of_earlier_versions_are_read_and_written_by_both(path: Path) -> None:
    path.parent.mkdir()
    with closing(sqlite3.connect(path)) as old, old:
        old.execute(
            "CREATE TABLE answers (key TEXT PRIMARY KEY, text TEXT, reason TEXT, input_tokens INTEGER NOT NULL, "
            "output_tokens INTEGER NOT NULL, at REAL NOT NULL)"
        )
        old.execute("INSERT INTO answers VALUES ('old', 'text', NULL, 3, 4, 0.0)")
    with Cache(path) as cache:
        cache.put("new", Completion("1", None, 5, 1, logprobs=READ, model="j-1"))
        cache.put("new", Completion("2", None, 5, 1, logprobs=READ[::-1]))  # the first answer stays, with its own
    with Cache(path) as cache:
        assert cache.get("old") == Completion("text", None, 3, 4, cached=True)
        assert cache.get("new") == Completion("1", None, 5, 1, cached=True, logprobs=READ, model="j-1")
    # A program of an earlier version, which knows of one table with six columns, still writes and reads.
    with closing(sqlite3.connect(path)) as old, old:
        old.execute("INSERT INTO answers VALUES ('later', 'text', NULL, 3, 4, 0.0)")
        assert old.execute("SELECT count(*) FROM answers").fetchone() == (3,)


def test_identical_requests_of_one_run_are_asked_once(path: Path) -> None:
    stub = Stub(reasons={"3": "no answer after 2 tries (last: status 500)"})
    users = [number % 10 for number in range(300)]
    with Cache(path) as cache:
        found = complete(CachedLLM(stub, cache), asked(*users), "asking")
    assert [one.text for one in found] == [None if user == 3 else str(user) for user in users]
    assert sum(not one.cached for one in found) == stub.calls.total()
    assert {count for user, count in stub.calls.items() if user != "3"} == {1}


def test_the_bar_shows_hits_and_dollars_once(
    path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("cda.progress.on_terminal", lambda: True)
    with Cache(path) as cache:
        llm = CachedLLM(budgeted(Stub(), Price(input=1e5, output=0)), cache)
        complete(llm, asked(*range(3)), "first")
        complete(llm, asked(*range(5)), "second")
    shown = capsys.readouterr().err
    assert "5/5" in shown and "$5.00, 3 from the cache" in shown.splitlines()[-1]
    bars = {line.split(":")[0].strip() for line in shown.replace("\r", "\n").splitlines() if line.strip()}
    assert bars == {"first", "second"}


def test_a_killed_run_loses_no_more_than_the_calls_under_way(path: Path) -> None:
    n, concurrency = 240, 8
    code = (
        "import sys; from cda.llm.cache import Cache, CachedLLM\n"
        "from cda.llm.openai_client import OpenAIClient; from cda.llm.protocol import Request\n"
        "llm = CachedLLM(OpenAIClient('m', sys.argv[2], concurrency=8), Cache(sys.argv[1]))\n"
        "for _ in llm.answers((Request('s', f'question {n}') for n in range(240)), 'asking'): pass\n"
    )
    with FaultServer(latency_s=0.02) as server:
        process = python(code, path, server.url)
        while server.stats()["calls"] < 100:
            assert process.poll() is None, process.communicate()
            time.sleep(0.002)
        os.kill(process.pid, signal.SIGKILL)
        process.communicate()
        claims = path.with_name("answers.sqlite.claims")
        assert list(claims.iterdir())  # what it left holds nobody up
        with Cache(path) as cache:
            llm = CachedLLM(OpenAIClient("m", server.url, concurrency=concurrency), cache)
            found = complete(llm, asked(*(f"question {number}" for number in range(n))), "asking")
            assert len(cache) == n
        assert all(one.text for one in found) and sum(one.cached for one in found) >= 100 - concurrency
        assert server.stats()["calls"] <= n + concurrency
        assert not list(claims.iterdir())


def test_a_full_disk_stops_the_run_and_everything_before_is_kept(path: Path) -> None:
    code = (
        "import resource, sys; from cda.errors import LLMError; from cda.llm.cache import Cache\n"
        "from cda.llm.cache import CachedLLM; from cda.llm.protocol import Request; from stub_client import Stub\n"
        "requests, n = (Request('s', f'{n} ' + 'word ' * 400) for n in range(1000)), 0\n"
        "with Cache(sys.argv[1]) as cache:\n"
        "    resource.setrlimit(resource.RLIMIT_FSIZE, (400_000, 400_000))\n"
        "    try:\n"
        "        for _ in CachedLLM(Stub(), cache).answers(requests, 'asking', 1000): n += 1\n"
        "    except LLMError as error: print(n, error)\n"
    )
    shown, problems = python(
        f"import sys; sys.path.insert(0, {str(Path(__file__).parent)!r})\n{code}", path
    ).communicate(timeout=60)
    assert "full disk; what was answered until now is kept" in shown, shown + problems
    with Cache(path) as cache:
        assert len(cache) >= int(shown.split()[0]) > 10


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
