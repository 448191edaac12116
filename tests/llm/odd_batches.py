"""Batch servers whose answers are odd, once or always: every field of every answer, pages and broken JSON, statuses."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from copy import deepcopy
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fault_server import BatchPlan, FaultServer, default_answer

from cda.errors import LLMError
from cda.llm.batch import BatchLLM
from cda.llm.cache import Cache
from cda.llm.money import Price
from cda.llm.openai_client import OpenAIClient
from cda.llm.protocol import Request, complete
from cda.llm.purse import Purse

N = 6
PRICE = Price(input=1e3, output=1e3)
ENDPOINTS = ("upload", "create", "list", "poll", "output", "error")
ABSENT = object()
Change = Callable[[int, bytes], tuple[int, bytes]]


@dataclass(frozen=True)
class Oddity:
    """What is odd about an endpoint's answer: a change of it after the work is done, or a fault in place of the work."""

    endpoint: str
    name: str
    change: Change | None = None
    fault: str | None = None
    one_line: bool = False
    """The answer to one request is odd, and no other."""

    def __str__(self) -> str:
        return f"{self.endpoint}: {self.name}"


class OddServer(FaultServer):
    """Shows an oddity so many times; None: always. Where it is in the list of batches, the first create goes unanswered.
    It keeps its book of what it bills.
    """

    dollars = 0.0

    def __init__(self, oddity: Oddity, times: int | None) -> None:
        bad = "[[500]] " if oddity.endpoint == "error" else ""
        self.asked = [Request("s", f"{bad if number == 0 else ''}question {number}") for number in range(N)]
        super().__init__(
            script={"create": ["reset"]} if oddity.endpoint == "list" else {}, plans=[BatchPlan(running_polls=2)]
        )
        self.oddity, self.left = oddity, times
        self.n_shown = 0

    def _shows(self, endpoint: str) -> bool:
        if endpoint != self.oddity.endpoint or self.left == 0:
            return False
        self.left = self.left and self.left - 1
        self.n_shown += 1
        return True

    def completion(self, body: dict[str, Any], fault: str | None) -> tuple[int, dict[str, Any]]:
        status, answer = super().completion(body, fault)
        if status == 200 and body["messages"]:
            self.dollars += PRICE.of(answer["usage"]["prompt_tokens"], answer["usage"]["completion_tokens"])
        return status, answer

    def next_fault(self, endpoint: str) -> str | None:
        if self.oddity.fault is not None and endpoint != "content" and self._shows(endpoint):
            return self.oddity.fault
        return super().next_fault(endpoint)

    def changed(self, endpoint: str, status: int, payload: bytes) -> tuple[int, bytes]:
        if self.oddity.change is None or not self._shows(endpoint):
            return status, payload
        return self.oddity.change(status, payload)


def _put(place: tuple[str | int, ...], value: object) -> Callable[[Any], None]:
    """Set a field of a JSON object to a value, or take it out."""

    def put(data: Any) -> None:
        for step in place[:-1]:
            data = data[step]
        if value is ABSENT:
            data.pop(place[-1], None)
        else:
            data[place[-1]] = deepcopy(value)

    return put


def _in_answer(edit: Callable[[Any], None]) -> Change:
    def change(status: int, payload: bytes) -> tuple[int, bytes]:
        data = json.loads(payload)
        edit(data)
        return status, json.dumps(data).encode()

    return change


def _in_first_line(edit: Callable[[Any], None]) -> Change:
    def change(status: int, payload: bytes) -> tuple[int, bytes]:
        first, *rest = payload.splitlines()
        return status, b"\n".join([_in_answer(edit)(status, first)[1], *rest])

    return change


def _words(place: tuple[str | int, ...], value: object) -> str:
    said = "absent" if value is ABSENT else json.dumps(value) if len(json.dumps(value)) < 40 else "long"
    return f"{'.'.join(map(str, place))} {said}"


PAGE = b"<html>\n<body>\n<h1>Maintenance</h1>\n" + b"<p>soon</p>\n" * 20 + b"</body></html>"
ERROR = json.dumps({"error": {"message": "upstream is out", "type": "server_error", "code": None}}).encode()
BODIES = {
    "a web page": PAGE, "empty": b"", "null": b"null", "a list": b"[]", "an object": b"{}", "a text": b'"soon"',
    "a number": b"7", "an error object": ERROR, "not UTF-8": b"\xff\xfe\x00", "nested without end": b"[" * 100_000,
    "a message": b'{"message": "no route", "detail": "x"}', "another error": b'{"errors": [{"message": "x"}]}',
}  # fmt: skip
STATUSES = ("404", "409", "408", "429", "500", "502", "503", "504")
WRONG = (ABSENT, None, 5, True, "", [], {}, ["x"], {"x": 1})
"""Missing, null, and of every wrong type; a field that takes one of them is not odd then."""
FIELDS: dict[str, dict[tuple[str | int, ...], tuple[object, ...]]] = {
    "upload": {("id",): WRONG, ("object",): WRONG, ("purpose",): WRONG, ("bytes",): (ABSENT, None, "x", -1)},
    "create": {("id",): WRONG, ("status",): (*WRONG, "odd"), ("input_file_id",): WRONG, ("metadata",): WRONG,
               ("object",): WRONG, ("endpoint",): WRONG},
    "list": {("data",): tuple(value for value in WRONG if value != []),  # an empty list is a word that is believed
              ("has_more",): (ABSENT, None, "x", True), ("object",): (ABSENT, 5),
             ("data", 0): WRONG[1:], ("data", 0, "id"): WRONG, ("data", 0, "metadata"): WRONG,
             ("data", 0, "input_file_id"): WRONG, ("data", 0, "status"): (*WRONG, "odd")},
    "poll": {("id",): (*WRONG, "batch_of_others"), ("input_file_id",): WRONG, ("metadata",): WRONG,
             ("status",): (*WRONG, "odd", "completed", "Completed", "failed", "expired", "cancelled", "canceled"),
             ("errors",): (*WRONG, "bad", {"data": None}, {"data": "x"}, {"data": [None]}, {"data": [{"code": 5}]},
                           [{"message": "m"}]),
             ("request_counts",): (*WRONG, {"completed": -1}, {"completed": "x"}, {"completed": 10**30}),
             ("output_file_id",): (*WRONG, "file-of-others", "x" * 5000, "../../models"),
             ("error_file_id",): (*WRONG, "file-of-others"), ("endpoint",): WRONG, ("created_at",): (ABSENT, "x")},
    "output": {("custom_id",): (*WRONG, "of others", "x" * 5000), ("id",): WRONG, ("error",): (*WRONG, "x"),
               ("response",): (*WRONG, "x"),
               ("response", "status_code"): (*WRONG, "200", 99999, 404, 429, 500), ("response", "body"): (*WRONG, "x"),
               ("response", "request_id"): WRONG, ("response", "body", "choices"): (*WRONG, "x", [None], [{}]),
               ("response", "body", "choices", 0, "message"): WRONG, ("response", "body", "usage"): WRONG,
               ("response", "body", "usage", "prompt_tokens"): (*WRONG, -1, 10**30),
               ("response", "body", "choices", 0, "message", "content"): WRONG,
               ("response", "body", "choices", 0, "finish_reason"): (*WRONG, "odd"),
               ("response", "body", "model"): WRONG, ("response", "body", "error"): (*WRONG, "x", {"code": 500})},
    "error": {("custom_id",): WRONG, ("response",): WRONG, ("response", "status_code"): (*WRONG, "500"),
              ("response", "body"): (*WRONG, "x"), ("error",): (*WRONG, "x", {"code": "batch_expired"})},
}  # fmt: skip


def _cut(status: int, payload: bytes) -> tuple[int, bytes]:
    return status, payload[: len(payload) // 2]


def _lines(edit: Callable[[list[bytes]], list[bytes]]) -> Change:
    return lambda status, payload: (status, b"\n".join(edit(payload.splitlines())))


FILES: dict[str, Change] = {
    "the first line is broken": _lines(lambda lines: [lines[0][:50], *lines[1:]]),
    "the first line is left out": _lines(lambda lines: lines[1:]),
    "the last line is left out": _lines(lambda lines: lines[:-1]),
    "only the first line": _lines(lambda lines: lines[:1]),
    "every line twice": _lines(lambda lines: lines * 2),
    "lines of others": _lines(lambda lines: [*lines, b'{"custom_id": "x", "response": null}']),
    "blank lines": _lines(lambda lines: [b"", b"  ", *lines, b""]),
    "lines end in CR LF": lambda status, payload: (status, payload.replace(b"\n", b"\r\n")),
    "no line end": lambda status, payload: (status, payload.rstrip()),
    "nothing but line ends": lambda status, _: (status, b"\n\n\n"),
}


def oddities() -> Iterator[Oddity]:
    """Every oddity, by endpoint."""
    for endpoint in ENDPOINTS:
        for name, body in BODIES.items():
            yield Oddity(endpoint, name, lambda status, _, body=body: (status, body))
        yield Oddity(endpoint, "cut in the middle", _cut)
        for code in STATUSES:
            yield Oddity(endpoint, f"{code} and a page", lambda *_, code=code: (int(code), PAGE))
            if endpoint not in ("output", "error"):
                yield Oddity(endpoint, f"{code} before any work", fault=code)
        if endpoint not in ("output", "error"):
            yield Oddity(endpoint, "the connection is lost before any work", fault="drop")
            yield Oddity(endpoint, "the connection is lost in the answer", fault="reset")
        else:
            for name, change in FILES.items():
                yield Oddity(endpoint, name, change, one_line="first line" in name or "last line" in name)
        lines = endpoint in ("output", "error")
        for place, values in FIELDS[endpoint].items():
            for value in values:
                edit = _put(place, value)
                yield Oddity(
                    endpoint, _words(place, value), (_in_first_line if lines else _in_answer)(edit), one_line=lines
                )


def tried(oddity: Oddity, times: int | None, folder: Path) -> str | None:
    """What goes wrong where a server shows an oddity, once or always (times=None), or None if nothing does.

    Once: all is answered, and one batch is paid for. Always: all is answered, or one line says what to do and names the
    batch; nothing is paid for twice, but for the one request whose answer is odd; the repaired server answers the rest; and
    `llm.resubmit=yes`, where it is named, goes on. In either case no less is counted than the server bills.
    """
    with OddServer(oddity, times) as server, Cache(folder / "llm.sqlite") as cache:
        purse = Purse(folder / "spent")
        wrong = _first(server, cache, oddity, always=times is None)
        if wrong or not server.n_shown:
            return wrong or "it was not shown"
        for _ in range(2):
            _asked(server, cache, resubmit=True)
        counted = purse.spent + purse.set_aside
        return None if counted >= server.dollars - 1e-9 else f"{server.dollars} dollars are billed, {counted} counted"


def batches(server: OddServer, cache: Cache, purse: Purse, budget: float = 100.0, resubmit: bool = False) -> BatchLLM:
    asker = OpenAIClient("local", base_url=server.url, max_tokens=50, say=lambda _: None)
    return BatchLLM(asker, cache, sleep=lambda _: None, price=PRICE, purse=purse, budget_usd=budget, resubmit=lambda _: resubmit)  # fmt: skip


def _asked(server: OddServer, cache: Cache, resubmit: bool = False) -> str:
    """`answered`, `partly`, or the words of the LLMError with which it ended."""
    try:
        found = complete(
            batches(server, cache, Purse(cache.path.parent / "spent"), resubmit=resubmit), server.asked, "asking"
        )
    except LLMError as error:
        return str(error)
    right = [one.text == default_answer({"messages": [{"content": asked.system}, {"content": asked.user}]})
             for one, asked in zip(found, server.asked, strict=True)]  # fmt: skip
    if any(one.text is None and not one.reason for one in found):
        return "a request without an answer and without a reason"
    return "answered" if all(right) else "partly" if all(right[1:-1]) else "wrong"


def _paid_twice(server: OddServer, oddity: Oddity) -> str | None:
    """How often a request ran that had no reason to."""
    many = sorted(count for count in server.seen.batched.values() if count > 1)
    allowed = oddity.one_line + (oddity.endpoint == "error")
    if len(many) > allowed or many[-1:] > [2]:
        return f"{len(many)} of {N} requests ran {many[-1]} times"
    return f"{len(server.batches)} batches" if len(server.batches) > 1 + allowed else None


def _first(server: OddServer, cache: Cache, oddity: Oddity, always: bool) -> str | None:
    end = _asked(server, cache)
    if wrong := _paid_twice(server, oddity):
        return f"{wrong} ({end})"
    fine = ("answered", "partly") if oddity.one_line else ("answered",)
    if end in fine:
        return None
    if not always or end in ("wrong", "partly"):
        return end
    is_named = any(name in end for name in server.batches)
    if "\n" in end or (oddity.endpoint in ("poll", "output", "error") and not is_named):
        return f"not one line that names the batch: {end}"
    return _later(server, cache, oddity, end)


def _later(server: OddServer, cache: Cache, oddity: Oddity, end: str) -> str | None:
    """The run that stopped goes on: by the remedy that it names, and by itself once the server is repaired."""
    if "llm.resubmit=yes" in end:
        before = len(server.batches)
        _asked(server, cache, resubmit=True)
        if len(server.batches) > before + 1:
            return f"one agreement made {len(server.batches) - before} batches"
    server.left = 0
    n_batches = len(server.batches)
    after = _asked(server, cache, resubmit="llm.resubmit=yes" in end)
    if after != "answered":
        return f"after the repair: {after} (before: {end})"
    if "llm.resubmit=yes" not in end and (wrong := _paid_twice(server, oddity)):
        return f"after the repair: {wrong} (before: {end})"
    return None if len(server.batches) <= n_batches + 1 else "more than one batch after the repair"
