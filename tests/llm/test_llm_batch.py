"""Batch mode with the real openai client over real sockets: every way a batch may end, and a kill between any two steps."""

from __future__ import annotations

import errno
import json
import multiprocessing
import os
import signal
import time
import tracemalloc
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future
from contextlib import nullcontext, suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from fault_server import BatchPlan, FaultServer, default_answer, in_a_process
from odd_batches import ENDPOINTS, PRICE, Oddity, OddServer, batches, oddities, tried
from stub_client import SCHEMA, asked, budgeted, client

from cda.errors import LLMError
from cda.llm.batch import BatchLLM, End
from cda.llm.batch_server import Batch, Line, MadeOnServer, OddAnswerError, Page, read
from cda.llm.cache import Cache, CachedLLM
from cda.llm.money import Price
from cda.llm.openai_client import OpenAIClient
from cda.llm.outcome import Endpoint
from cda.llm.protocol import Completion, Request, complete
from cda.llm.purse import Purse

Starter = Callable[..., FaultServer]
FORK = multiprocessing.get_context("forkserver")


def questions(count: int, text: str = "question") -> list[Request]:
    return [Request("system", f"{text} {number}") for number in range(count)]


def batch_llm(server: FaultServer, folder: Path, pauses: list[float] | None = None, **options: Any) -> BatchLLM:
    def sleep(seconds: float) -> None:
        if pauses is not None:
            pauses.append(seconds)
        time.sleep(0.001)

    cache = Cache(folder / "llm.sqlite")
    return BatchLLM(OpenAIClient("local", base_url=server.url), cache, sleep=sleep, **options)


def said(request: Request) -> str:
    return default_answer({"messages": [{"content": request.system}, {"content": request.user}]})


def texts(found: Sequence[Completion]) -> list[str | None]:
    return [one.text for one in found]


def n(server: FaultServer, endpoint: str) -> int:
    return server.seen.endpoints[endpoint]


def sizes(server: FaultServer) -> list[int]:
    """Number of requests of each batch."""
    return [len(server.files[batch.content["input_file_id"]].splitlines()) for batch in server.batches.values()]


def test_answers_are_right_and_later_calls_of_either_mode_cost_nothing(start: Starter, tmp_path: Path) -> None:
    server = start()
    llm = batch_llm(server, tmp_path)
    asked = [*questions(30), replace(questions(1)[0], sample=1), *questions(2)]
    found = complete(llm, asked, "asking")
    assert texts(found) == [said(one) for one in asked]
    assert all(one.input_tokens > 0 and one.output_tokens > 0 for one in found)
    assert sum(one.cached for one in found) == 2
    again = complete(llm, asked, "asking")
    assert texts(again) == texts(found) and all(one.cached for one in again)
    assert (n(server, "upload"), n(server, "create"), n(server, "chat")) == (1, 1, 0)
    assert server.seen.without_key == 0 and sizes(server) == [31]
    assert not list((tmp_path / "llm.sqlite.batches").iterdir())
    client = OpenAIClient("local", base_url=server.url)
    more = complete(CachedLLM(client, Cache(tmp_path / "llm.sqlite")), questions(34), "asking")
    assert [one.cached for one in more] == [True] * 30 + [False] * 4 and n(server, "chat") == 4
    assert all(one.cached for one in complete(llm, questions(34), "asking"))


def test_requests_are_split_by_number_and_by_bytes(start: Starter, tmp_path: Path) -> None:
    server = start()
    llm = batch_llm(server, tmp_path, max_requests=10)
    found = complete(llm, questions(25), "asking")
    assert texts(found) == [said(one) for one in questions(25)] and n(server, "create") == 3
    long = [Request("s", "word " * 1000 + str(number)) for number in range(4)]
    complete(batch_llm(server, tmp_path, max_bytes=12_000), long, "asking")
    assert n(server, "create") == 5
    assert max(map(len, server.files.values())) < 12_000
    with pytest.raises(LLMError, match="larger than a batch file"):
        complete(batch_llm(server, tmp_path, max_bytes=12_000), [Request("s", "word " * 4000)], "asking")


@pytest.mark.parametrize(
    ("plan", "why"),
    [
        (BatchPlan(end="failed"), r"batch failed: line 1 cannot be read \(asked 3 times\); no answer to 20 of its 20"),
        (BatchPlan(end="expired", answered=0, quiet=True), r"batch expired \(asked 3 times\); no answer to 20 of its 20"),
        (BatchPlan(end="cancelled", answered=4), r"batch cancelled \(asked 3 times\); no answer to 16 of its 20 requests"),
        (
            BatchPlan(end="completed", answered=0),
            r"its results hold no answer \(asked 11 times\); no answer to 20 of its 20 requests, which may have been",
        ),
    ],
)  # fmt: skip
def test_a_batch_is_submitted_again_only_if_the_user_agrees(
    start: Starter, tmp_path: Path, plan: BatchPlan, why: str
) -> None:
    server = start(plans=[plan])
    asked = questions(20)
    for _ in range(2):  # the same command looks once more, and pays nothing
        with pytest.raises(LLMError, match=rf"batch_0: {why}.*or add llm\.resubmit=yes") as stop:
            complete(batch_llm(server, tmp_path), asked, "asking")
        assert "\n" not in str(stop.value) and sizes(server) == [20]
    reasons: list[str] = []
    llm = batch_llm(server, tmp_path, resubmit=lambda reason: not reasons.append(reason))
    assert texts(complete(llm, asked, "asking")) == [said(one) for one in asked]
    assert sizes(server) == [20, 20 - (plan.answered or 0)] and max(server.seen.batched.values()) == 1
    assert len(reasons) == 1 and reasons[0] in str(stop.value)


def test_results_that_are_fewer_than_the_server_says_are_not_paid_for_again(start: Starter, tmp_path: Path) -> None:
    """The end of the file is lost; what came is kept."""
    server = start()
    server.changed = (
        lambda endpoint, status, payload: (  # type: ignore[method-assign]
            status,
            b"\n".join(payload.splitlines()[:3]) if endpoint == "output" else payload,
        )
    )
    with pytest.raises(LLMError, match=r"batch_0: 3 of 20 answers came \(asked 11 times\); no answer to 17 of its 20"):
        complete(batch_llm(server, tmp_path), questions(20), "asking")
    with Cache(tmp_path / "llm.sqlite") as cache:
        assert len(cache) == 3
    del server.changed  # type: ignore[method-assign]
    found = complete(batch_llm(server, tmp_path, price=Price(input=1.0, output=1.0)), questions(20), "asking")
    assert texts(found) == [said(one) for one in questions(20)] and sizes(server) == [20]
    assert [one.cached for one in found].count(True) == 3


def test_each_request_fails_in_its_own_way(start: Starter, tmp_path: Path) -> None:
    server = start()
    scripts = ["", "[[500]] ", "[[500*]] ", "[[400*]] ", "[[refusal*]] ", "[[filter*]] ", "[[length*]] ", "[[empty*]] "]
    llm = batch_llm(server, tmp_path)
    asked = [Request("s", f"{script}question") for script in scripts]
    found = complete(llm, asked, "asking")
    live = complete(OpenAIClient("local", base_url=start().url), [asked[row] for row in (3, 4, 5, 6, 7)], "asking")
    assert [one.text for one in found[:2]] == [said(one) for one in asked[:2]]
    assert [one.text for one in found[2:]] == [None] * 6
    assert found[2].reason == "status 500"
    # The same words as in the other mode, so that they are counted together.
    assert [one.reason for one in found[3:]] == [one.reason for one in live]
    # Only the 500s were sent again.
    assert sizes(server) == [8, 2]


@pytest.mark.parametrize("schema", ["hold", "ignore", "reject"])
def test_a_schema_is_held_or_asked_for_again_in_plain_words(start: Starter, tmp_path: Path, schema: str) -> None:
    server = start(schema=schema)
    llm = batch_llm(server, tmp_path)
    plain = "End with a line `Label: yes` or `Label: no`."
    asked = [Request("s", f"question {number}", SCHEMA, plain) for number in range(8)]
    form, n_again = ('{{"label": "{}"}}', 0) if schema == "hold" else ("It depends.\nLabel: {}", 8)
    assert {one.text for one in complete(llm, asked, "asking")} == {form.format("yes"), form.format("no")}
    assert sizes(server) == [8, n_again][: 1 + bool(n_again)]
    assert all(one.cached for one in complete(llm, asked, "asking"))


@pytest.mark.parametrize("full_at", [None, 3])
def test_what_is_asked_again_may_fill_more_than_one_file(
    start: Starter, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, full_at: int | None
) -> None:
    """Also if the disk is full between the files, so that a request stands in the old batch and in a new file at once."""
    writes: list[int] = []

    def fsync(file: int) -> None:
        writes.append(file)
        if len(writes) == full_at:
            raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr("cda.llm.ledger.os.fsync", fsync)
    server = start(schema="reject", plans=[BatchPlan(), BatchPlan(running_polls=3)])
    plain = "End with a line `Label: yes` or `Label: no`. " * 40  # longer than the schema that it stands for
    asked = [Request("s", f"question {number}", SCHEMA, plain) for number in range(8)]
    llm = batch_llm(server, tmp_path, max_bytes=4_500)
    with pytest.raises(LLMError, match="No space left") if full_at else nullcontext():
        complete(llm, asked, "asking")
    found = complete(batch_llm(server, tmp_path, max_bytes=4_500), asked, "asking")
    assert all(one.text is not None for one in found), {one.reason for one in found}
    assert n(server, "create") == 1 + 4 and max(map(len, server.files.values())) <= 4_500


def test_samples_keep_their_seeds_when_they_are_asked_again(start: Starter, tmp_path: Path) -> None:
    seeds: list[list[int]] = []
    server = start(plans=[BatchPlan(end="expired", answered=0)])
    original = server.create

    def create(body: dict[str, Any]) -> tuple[int, dict[str, Any]]:
        lines = server.files[body["input_file_id"]].decode().splitlines()
        seeds.append([json.loads(line)["body"]["seed"] for line in lines])
        return original(body)

    server.create = create  # type: ignore[method-assign]
    client = OpenAIClient("local", base_url=server.url, seed=5)
    llm = BatchLLM(client, Cache(tmp_path / "llm.sqlite"), sleep=lambda _: None)
    found = complete(llm, [Request("s", "a", sample=number) for number in range(3)], "asking")
    assert all(one.text for one in found) and seeds == [[5, 6, 7], [5, 6, 7]]


def test_a_full_queue_waits_for_its_turn(start: Starter, tmp_path: Path) -> None:
    full = BatchPlan(end="failed", code="token_limit_exceeded")
    server = start(plans=[BatchPlan(running_polls=3), full, BatchPlan(), full])
    firsts: list[str] = []

    def event(endpoint: str, when: str) -> bool:
        if (endpoint, when) == ("create", "before") and server.batches:
            firsts.append(server.batches["batch_0"].content["status"])
        return False

    server.event = event
    llm = batch_llm(server, tmp_path, max_requests=5)
    assert texts(complete(llm, questions(10), "asking")) == [said(one) for one in questions(10)]
    assert sizes(server) == [5] * 3 and n(server, "upload") == 2 and firsts[1] == "completed"
    # Where nothing else of ours is waiting, waiting does not help.
    with pytest.raises(LLMError, match=r"batch_3: batch failed: line 1 cannot be read"):
        complete(llm, questions(1, "another"), "asking")
    (found,) = complete(replace(llm, resubmit=lambda _: True), questions(1, "another"), "asking")
    assert found.text is not None and sizes(server)[3:] == [1, 1]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"script": {"upload": ["401"]}}, r"the key in MY_KEY is refused \(401\)"),
        ({"script": {"upload": ["404"] * 3}}, r"the server may offer no batches: set llm.mode=calls"),
        ({"script": {"create": ["404"] * 6}}, r"status 404, 6 times.*or set llm.mode=calls: the server may offer no batches"),
        ({"script": {"upload": ["413"]}}, r"too large for this server \(413\)"),
        ({"max_upload_bytes": 100}, r"too large for this server \(413\)"),
        ({"script": {"create": ["400"]}}, r"a batch is refused \(400\): .*scripted 400"),
        ({"script": {"create": ["403"]}}, r"the key in MY_KEY is refused \(403\)"),
        ({"script": {"upload": ["500"] * 6}}, r"failed 6 times, at last with: status 500"),
        ({"script": {"poll": ["500"] * 20}}, r"run the same command again"),
    ],
)  # fmt: skip
def test_errors_say_what_to_do_and_never_the_key(
    start: Starter, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, options: dict[str, Any], message: str
) -> None:
    monkeypatch.setenv("MY_KEY", "sk-very-secret")
    server = start(**options)

    def llm() -> BatchLLM:
        client = OpenAIClient("local", base_url=server.url, api_key_env="MY_KEY")
        return BatchLLM(client, Cache(tmp_path / "llm.sqlite"), sleep=lambda _: None)

    with pytest.raises(LLMError, match=message) as error:
        complete(llm(), questions(4), "asking")
    assert "sk-very-secret" not in str(error.value)
    for path in tmp_path.rglob("*"):
        assert path.is_dir() or b"sk-very-secret" not in path.read_bytes()
    if "max_upload_bytes" not in options:  # what was wrong is over: the work goes on where it stopped
        assert texts(complete(llm(), questions(4), "asking")) == [said(one) for one in questions(4)]
        assert len(server.batches) == 1


def test_one_process_at_a_time(start: Starter, tmp_path: Path) -> None:
    server = start()
    first = batch_llm(server, tmp_path).answers(questions(3), "asking")
    next(first)
    with pytest.raises(LLMError, match="another process"):
        complete(batch_llm(server, tmp_path), questions(3), "asking")
    first.close()  # type: ignore[attr-defined]
    assert all(one.text for one in complete(batch_llm(server, tmp_path), questions(3), "asking"))


# Where the process dies: at the server's endpoint, before or after its work; the client never sees the answer.
DEATHS = [(endpoint, when) for endpoint in ("upload", "create", "poll", "content") for when in ("before", "after")]


def child(url: str, folder: str, count: int, dies_at_put: int) -> None:
    """A process that asks in batches; it may kill itself while it fills the cache."""

    class Dying(Cache):
        puts = 0

        def keep(self, key: str, completion: Completion) -> Future[None]:
            Dying.puts += 1
            if Dying.puts == dies_at_put:
                os.kill(os.getpid(), signal.SIGKILL)
            return super().keep(key, completion)

    llm = BatchLLM(
        OpenAIClient("local", base_url=url), Dying(Path(folder) / "llm.sqlite"), sleep=lambda _: time.sleep(0.001)
    )
    complete(llm, questions(count), "asking")


def kill(pid: int | None) -> None:
    """End a process, and wait until it is gone."""
    assert pid
    with suppress(ProcessLookupError):
        os.kill(pid, signal.SIGKILL)
        while True:
            os.kill(pid, 0)
            time.sleep(0.002)


def killed(
    server: FaultServer, folder: Path, place: tuple[str, str] | None, dies_at_put: int = 0, nth: int = 1
) -> None:
    """Run the child until it is dead: the nth time that the server is at a place, or when it fills the cache."""
    FORK.set_forkserver_preload(["openai", "cda.llm.batch"])
    process = FORK.Process(target=child, args=(server.url, str(folder), 40, dies_at_put))
    been: Counter[tuple[str, str]] = Counter()

    def event(endpoint: str, when: str) -> bool:
        been[endpoint, when] += 1
        if place != (endpoint, when) or been[place] != nth:
            return False
        kill(process.pid)
        return True

    server.event = event
    process.start()
    process.join(timeout=60)
    server.event = None
    assert process.exitcode == -signal.SIGKILL, process.exitcode


@pytest.mark.parametrize(
    ("place", "listing"),
    [*((place, True) for place in DEATHS), *((place, False) for place in DEATHS if place[0] == "create")],
)
def test_a_kill_at_any_step_is_followed_by_one_that_goes_on(
    start: Starter, tmp_path: Path, place: tuple[str, str], listing: bool
) -> None:
    server = start(listing=listing)
    killed(server, tmp_path, place)
    if not listing:  # whether it runs is not known
        with pytest.raises(LLMError, match=r"40 requests, as file-0, cannot be looked up .*\(405\).* llm.resubmit=yes"):
            complete(batch_llm(server, tmp_path), questions(40), "asking")
    llm = batch_llm(server, tmp_path, resubmit=lambda _: not listing)
    assert texts(complete(llm, questions(40), "asking")) == [said(one) for one in questions(40)]
    # Only where the server cannot list its batches, and the user agrees, may one that was never recorded run twice.
    lost = place == ("create", "after") and not listing
    assert len(server.batches) == 1 + lost
    assert n(server, "upload") == 1 + (place[0] == "upload")
    assert not list((tmp_path / "llm.sqlite.batches").iterdir())


def test_abandoned_questions_are_collected_when_they_are_asked_again(start: Starter, tmp_path: Path) -> None:
    """A batch of more requests than are asked now is adopted, and all it brings is kept; nothing else is given up."""
    server = start(plans=[BatchPlan(end="expired", answered=20)])
    killed(server, tmp_path, ("poll", "before"))
    complete(batch_llm(server, tmp_path), questions(5), "asking")
    found = complete(batch_llm(server, tmp_path), questions(40), "asking")
    assert [(one.cached, one.text is None) for one in found] == [(True, False)] * 20 + [(False, False)] * 20
    assert len(server.batches) == 2


def test_memory_stays_bounded(tmp_path: Path) -> None:
    count, size = 1500, 20_000
    pad = "x" * size

    def stream() -> Iterator[Request]:
        for number in range(count):
            yield Request("s", f"{number} {pad}")

    # In a process of its own, so that only what we hold is counted.
    with in_a_process(answer="echo") as url:
        llm = BatchLLM(
            OpenAIClient("local", base_url=url), Cache(tmp_path / "llm.sqlite"), sleep=lambda _: time.sleep(0.001)
        )
        complete(llm, questions(1), "asking")  # imports are nobody's work
        tracemalloc.start()
        answered = 0
        for _, completion in llm.answers(stream(), "asking", count):
            answered += completion.text is not None and len(completion.text) > size
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
    assert answered == count
    assert peak < 0.15 * count * size


SERVER = Endpoint("http://server", "m", "MY_KEY", "llm")


def batch(**fields: Any) -> Batch:
    return read(Batch, json.dumps({"id": "batch_1", "status": "failed"} | fields).encode(), SERVER)


def line(**fields: Any) -> Line:
    return read(Line, json.dumps({"custom_id": "k"} | fields).encode(), SERVER)


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"", "an empty answer"),
        (b"  \n", "an empty answer"),
        (b"<html>", "a web page"),
        (b"soon", "an answer that is not JSON"),
        (b"[" * 100_000, "an answer that is not JSON"),
        (b"null", "null alone"),
        (b'"soon"', '"soon" alone'),
        (b"{}", "an answer without a usable 'id': {}"),
        (b'{"id": 5}', "an answer without a usable 'id': 5"),
        (b'{"id": ""}', "an answer without a usable 'id': \"\""),
        (b'{"error": {"message": "the key sk-secret-key\\n is\\u001b[31m odd."}}', "an error instead: the key *** is odd"),
        (b'{"x": "gsk_0123456789abcdef"}', 'an answer without a usable \'id\': {"x": "***"}'),
        (b'{"id": "\\ud800"}', "an answer without a usable 'id': \"\\ud800\""),
    ],
)  # fmt: skip
def test_what_is_no_answer_is_said_in_few_words(monkeypatch: pytest.MonkeyPatch, content: bytes, words: str) -> None:
    monkeypatch.setenv("MY_KEY", "sk-secret-key")
    with pytest.raises(OddAnswerError) as odd:
        read(MadeOnServer, content, SERVER)
    assert str(odd.value) == words


@pytest.mark.parametrize("status", ["Completed", " completed ", "COMPLETED"])
def test_a_status_is_read_in_any_spelling(status: str) -> None:
    assert batch(status=status).status == "completed" and batch(status=status).has_ended
    assert batch(status="canceled").status == "cancelled" and not batch(status="canceling").has_ended
    with pytest.raises(OddAnswerError, match="usable 'status': \"odd\""):
        batch(status="odd")


@pytest.mark.parametrize(
    ("errors", "why", "full"),
    [
        (None, "batch failed", False),
        ({"data": [{"message": "line 1", "code": "bad"}]}, "batch failed: line 1", False),
        ({"data": [{"code": "token_limit_exceeded"}]}, "batch failed: token_limit_exceeded", True),
        ({"data": [{"code": "token_limit_exceeded", "message": "wait"}]}, "batch failed: wait", True),
        ([{"message": "line 2"}], "batch failed: line 2", False),
        ("too long", "batch failed: too long", False),
        (7, "batch failed: 7", False),
        ({"data": [None]}, "batch failed: None", False),
        ({"data": {}}, "batch failed", False),
    ],
)
def test_errors_of_any_form_give_the_reason(errors: object, why: str, full: bool) -> None:
    assert (batch(errors=errors).why_unanswered, batch(errors=errors).is_queue_full) == (why, full)


def test_a_list_tells_whose_a_batch_is() -> None:
    rows = [
        {"id": "a", "input_file_id": "f"},
        {"id": "b", "metadata": {"cda_part": "p"}},
        {"id": "c", "input_file_id": "g", "metadata": None},
        {"id": "d", "metadata": 5},
        {"id": "e", "input_file_id": "f", "status": "failed"},
    ]
    page = read(Page, json.dumps({"data": rows}).encode(), SERVER)
    assert [one.is_of("p", "f") for one in page.data] == [True, True, False, False, False]
    assert [one.is_nameless for one in page.data] == [False, False, False, True, False]


def test_results_are_counted_by_the_requests_that_they_answer(tmp_path: Path) -> None:
    good = '{"custom_id": "a", "response": {"status_code": 200, "body": {"choices": [{}]}}}'
    file = tmp_path / "output"
    file.write_text(f'{good}\n\n{good}\n{{"custom_id": "b", "response": null}}\n<html>\n{{"custom_id": 5}}\n')
    end = End("completed", "", paths=[file]).count(SERVER)
    assert (end.n_lines, end.n_unreadable, end.names) == (3, 2, {"a"})
    end.delete_files()
    assert not file.exists()


NONE = Oddity("output", "none")
ALL = {str(oddity): oddity for oddity in oddities()}
POLLED = ("create", "poll", "output")
CHOSEN = [
    *(f"{endpoint}: {body}" for endpoint in POLLED for body in ("a web page", "empty", "null", "an error object")),
    *(f"{endpoint}: 404 and a page" for endpoint in ENDPOINTS),
    *(f"{endpoint}: the connection is lost in the answer" for endpoint in ("upload", "create", "list", "poll")),
    *(
        f"poll: {field}"
        for field in ('errors "bad"', 'status "odd"', 'status "failed"', 'status "expired"', "status absent")
    ),
    *(f"poll: {field}" for field in ('id "batch_of_others"', "output_file_id null", "request_counts 5")),
    *(f"output: {file}" for file in ("cut in the middle", "every line twice", "the first line is broken")),
    *(
        f"output: {line}"
        for line in ('custom_id "of others"', "response null", 'response.status_code "200"', "only the first line")
    ),
    *(f"output: response.{line}" for line in ("status_code 500", 'body ["x"]', "body.usage null", "body.choices null")),
    "create: 500 before any work",
    "list: data.0 null",
    "error: error null",
]


@pytest.mark.parametrize("times", [1, None], ids=["once", "always"])
@pytest.mark.parametrize("oddity", [ALL[name] for name in CHOSEN], ids=CHOSEN)
def test_an_odd_answer_is_paid_for_once(oddity: Oddity, times: int | None, tmp_path: Path) -> None:
    assert tried(oddity, times, tmp_path) is None


class Dies(Exception):  # noqa: N818 (no error of the product)
    """The process is dead."""


class Dying(Cache):
    """Dies when so many answers are kept."""

    left = -1

    def keep(self, key: str, completion: Completion) -> Any:
        self.left -= 1
        if self.left == 0:
            raise Dies
        return super().keep(key, completion)


@pytest.mark.parametrize("dies_at", [2, 4, 6])
def test_a_kill_while_results_are_kept_loses_no_part_of_the_bill(dies_at: int, tmp_path: Path) -> None:
    with OddServer(NONE, 0) as server:
        server.asked = [Request("s", f"question {number}") for number in range(6)]
        with Dying(tmp_path / "llm.sqlite") as cache, pytest.raises(Dies):
            cache.left = dies_at
            complete(batches(server, cache, Purse(tmp_path / "spent")), server.asked, "asking")
        purse = Purse(tmp_path / "spent")
        with Cache(tmp_path / "llm.sqlite") as cache:
            complete(batches(server, cache, purse), server.asked, "asking")
        assert purse.spent == pytest.approx(server.dollars) and purse.set_aside == 0


def test_a_batch_that_nobody_waits_for_is_not_waited_for(tmp_path: Path, serve: Callable[[Any], str]) -> None:
    """Its money stays set aside: what does not fit next to it is refused, in batches and in calls, and its remedy works."""
    with OddServer(Oddity("poll", "away", fault="500"), None) as server, Cache(tmp_path / "llm.sqlite") as cache:
        purse = Purse(tmp_path / "spent")
        with pytest.raises(LLMError, match="Its batch goes on"):
            complete(batches(server, cache, purse, 2.4), asked(*range(6)), "asking")
        aside = purse.set_aside
        assert 1.2 < aside < 2.4
        said = r"\$2\.\d+ are set aside for batches under way \(llm\.mode=batch collects them\)"
        with pytest.raises(LLMError, match=said):
            complete(batches(server, cache, purse, 2.4), asked(*range(100, 106)), "asking")
        calls = budgeted(client(serve(lambda _: None), max_tokens=900), PRICE, 2.4, purse)
        with pytest.raises(LLMError, match=said):
            list(calls.answers(asked("x"), "asking"))
        server.left = 0
        assert all(one.text for one in complete(batches(server, cache, purse, 2.4), asked(*range(6)), "asking"))
        assert purse.set_aside == 0 and purse.spent == pytest.approx(server.dollars)


def test_agreement_to_a_second_batch_counts_both(tmp_path: Path) -> None:
    """A batch whose making was not answered, on a server without a list, may run: with the other one it must fit the budget."""
    with (
        OddServer(ALL["create: the connection is lost in the answer"], 1) as server,
        Cache(tmp_path / "llm.sqlite") as cache,
    ):
        server.listing = False
        purse = Purse(tmp_path / "spent")
        with pytest.raises(LLMError, match=r"the budget of \$2\.4 .* is used up"):
            complete(batches(server, cache, purse, 2.4, resubmit=True), asked(*range(6)), "asking")
        assert len(server.batches) == 1
        complete(batches(server, cache, purse, 6.0, resubmit=True), asked(*range(6)), "asking")
        assert len(server.batches) == 2 and purse.spent > purse.uncounted > 1.2
