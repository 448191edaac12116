"""An OpenAI-compatible server that misbehaves on request: chat completions, files and batches over real sockets.

    with FaultServer(latency_s=0.01, rates={"500": 0.05}) as server: ... server.url, server.stats()
    python tests/llm/fault_server.py '{"latency_s": 0.2, "rates": {"429": 0.02}}'     prints `PORT 12345`, then serves

Answers depend on the request's text alone. Faults come by rate (drawn from the request and its attempt, so the same in
every run), in bursts, from a list per endpoint (`script={"create": ["500"]}`, used up in order), or from the text itself:
`[[500 429]]` in the user's message fails its first two attempts in these ways and answers the third; `[[refusal*]]` holds
for every attempt. Faults of a call: a status (401, 404, 413, 429, 500, ...), hang, reset (the connection dies in the middle of
the body, the work is done), drop (it dies before any work), json (not JSON), refusal, filter, length, empty, none
(no choices). Whether a key came is checked; the key itself is never kept.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import random
import re
import subprocess
import sys
import threading
import time
import urllib.request
from collections import Counter, deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from email.parser import BytesParser
from email.policy import HTTP
from typing import Any
from urllib.parse import parse_qs, urlsplit

SCRIPT = re.compile(r"\[\[([^\]]*)\]\]")
WORDS_OF_ANSWER = ("refusal", "filter", "length", "empty", "none")
"""Faults that are a well-formed answer with status 200."""


@dataclass
class BatchPlan:
    """Course of one batch."""

    end: str = "completed"  # failed, expired or cancelled
    answered: int | None = None  # None: all; the rest of an expired batch gets error lines, of any other batch nothing
    running_polls: int = 1
    shuffled: bool = False
    quiet: bool = False  # no error lines for requests that an expired batch left out
    code: str = "invalid_json_line"


@dataclass
class _Batch:
    id: str
    plan: BatchPlan
    content: dict[str, Any]
    polls: int = 0


@dataclass
class Stats:
    """What the server saw. Calls count chat completions by the hash of their body, a batch's requests apart."""

    calls: Counter[str] = field(default_factory=Counter)
    answered: Counter[str] = field(default_factory=Counter)
    batched: Counter[str] = field(default_factory=Counter)
    endpoints: Counter[str] = field(default_factory=Counter)
    faults: Counter[str] = field(default_factory=Counter)
    in_flight: int = 0
    max_in_flight: int = 0
    lost: int = 0
    """Calls whose connection the client left before they were answered."""
    without_key: int = 0

    def summary(self) -> dict[str, Any]:
        """Numbers alone, for `GET /_stats`."""
        return vars(self) | {
            "calls": self.calls.total(),
            "requests": len(self.calls),
            "repeated": self.calls.total() - len(self.calls),
            "answered": self.answered.total(),
            "answered_twice": self.answered.total() - len(self.answered),
            "batched": self.batched.total(),
            "endpoints": dict(self.endpoints),
            "faults": dict(self.faults),
        }


@dataclass(eq=False)
class FaultServer:
    """Serves from a thread of its own until stopped."""

    latency_s: float = 0.0
    """Before a chat completion is answered."""
    rates: Mapping[str, float] = field(default_factory=dict)
    """Share of chat calls that fail, by fault."""
    script: Mapping[str, Sequence[str]] = field(default_factory=dict)
    """Faults of the next calls of an endpoint (chat, upload, content, create, poll, list), in order."""
    plans: Sequence[BatchPlan] = ()
    """Course of the next batches, in order; then all complete."""
    answer: Callable[[dict[str, Any]], str] | None = None
    schema: str = "hold"
    """hold (answers fit response_format), ignore, or reject (status 400)."""
    rejects: Sequence[str] = ()
    """Parameters that are answered with status 400."""
    listing: bool = True
    burst: tuple[int, int] = (0, 0)
    """Every so many chat calls, so many calls in a row get 429; (0, 0) never."""
    retry_after_s: float = 0.05
    max_upload_bytes: int = 1 << 29
    """Larger files get 413."""
    event: Callable[[str, str], bool] | None = None
    """Called in the server's thread with an endpoint's name and `before` or `after` its work, before the answer; True drops
    the connection there."""
    port: int = 0

    def __post_init__(self) -> None:
        self.waiting_faults = {endpoint: deque(faults) for endpoint, faults in self.script.items()}
        self.waiting_plans = deque(self.plans)
        self.seen = Stats()
        self.files: dict[str, bytes] = {}
        self.batches: dict[str, _Batch] = {}
        self._loop = asyncio.new_event_loop()
        self._thread: threading.Thread | None = None

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}/v1"

    def stats(self) -> dict[str, Any]:
        return self.seen.summary()

    def start(self) -> FaultServer:
        """Listen; returns when the port is known."""
        self._loop.run_until_complete(self.listen())
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self._thread.start()
        return self

    def stop(self) -> None:
        """Close the port and every connection."""
        if self._thread is None:
            return
        asyncio.run_coroutine_threadsafe(self._close(), self._loop).result(timeout=10)
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(timeout=10)
        self._thread = None
        self._loop.close()

    def __enter__(self) -> FaultServer:
        return self.start()

    def __exit__(self, *_: object) -> None:
        self.stop()

    async def listen(self) -> None:
        """Open the port in the running loop."""
        self._open: set[asyncio.Task[None]] = set()
        self._server = await asyncio.start_server(self._connection, "127.0.0.1", self.port, backlog=1024, limit=1 << 20)
        self.port = self._server.sockets[0].getsockname()[1]

    async def _close(self) -> None:
        self._server.close()
        for task in self._open:
            task.cancel()
        await asyncio.gather(*self._open, return_exceptions=True)

    def tell(self, endpoint: str, when: str) -> bool:
        """True if the connection is to be dropped."""
        return self.event is not None and self.event(endpoint, when)

    def changed(self, endpoint: str, status: int, payload: bytes) -> tuple[int, bytes]:
        """What is sent in place of an answer about files and batches; the work is done. A file is an `output` or an `error`."""
        del endpoint
        return status, payload

    def next_fault(self, endpoint: str) -> str | None:
        """The scripted fault of this call, if any."""
        waiting = self.waiting_faults.get(endpoint)
        fault = waiting.popleft() if waiting else None
        return None if fault in (None, "ok") else fault

    def chat_fault(self, body: dict[str, Any], key: str, attempt: int) -> str | None:
        """Fault of a chat call: from the endpoint's list, the text, a burst or the rates, in this order."""
        fault = self.next_fault("chat") or _told(body, attempt)
        if fault:
            return None if fault == "ok" else fault
        every, length = self.burst
        if every and (self.seen.calls.total() - 1) % every >= every - length:
            return "429"
        if self.rates:
            drawn = hashlib.sha256(f"0 {key} {attempt}".encode()).digest()
            share = int.from_bytes(drawn[:8], "big") / 2**64
            for name, rate in self.rates.items():
                share -= rate
                if share < 0:
                    return name
        return None

    def completion(self, body: dict[str, Any], fault: str | None) -> tuple[int, dict[str, Any]]:
        """Status and JSON of one chat completion."""
        if fault is not None and fault.isdigit():
            return int(fault), error(f"scripted {fault}")
        for name in self.rejects:
            if name in body:
                return 400, error(f"Unsupported parameter: '{name}'", param=name)
        held = body.get("response_format") if self.schema == "hold" else None
        if self.schema == "reject" and body.get("response_format"):
            return 400, error("response_format json_schema is not supported", param="response_format")
        schema = ((held or {}).get("json_schema") or {}).get("schema")
        text = json.dumps(fitting(schema, text_of(body))) if schema else (self.answer or default_answer)(body)
        content, finish = {
            "refusal": (None, "stop"),
            "filter": ("", "content_filter"),
            "length": (text[: len(text) // 2], "length"),
            "empty": ("", "stop"),
        }.get(fault or "", (text, "stop"))
        refusal = "I cannot help with that." if fault == "refusal" else None
        message = {"role": "assistant", "content": content, "refusal": refusal}
        asked = sum(len(str(one.get("content", "")).split()) for one in body.get("messages", ()))
        said = len(text.split())
        return 200, {
            "id": "chatcmpl-" + digest(text_of(body))[:12],
            "object": "chat.completion",
            "created": 0,
            "model": body.get("model", ""),
            "choices": [] if fault == "none" else [{"index": 0, "finish_reason": finish, "message": message}],
            "usage": {"prompt_tokens": asked, "completion_tokens": said, "total_tokens": asked + said},
        }

    def upload(self, content_type: str, body: bytes) -> tuple[int, dict[str, Any]]:
        """Keep an uploaded file."""
        parts = _multipart(content_type, body)
        if len(parts.get("file", b"")) > self.max_upload_bytes:
            return 413, error("file too large")
        if "file" not in parts or parts.get("purpose") != b"batch":
            return 400, error("file and purpose=batch are needed")
        name = f"file-{len(self.files)}"
        self.files[name] = parts["file"]
        return 200, {"id": name, "object": "file", "bytes": len(parts["file"]), "created_at": 0, "purpose": "batch"}

    def create(self, body: dict[str, Any]) -> tuple[int, dict[str, Any]]:
        """Start a batch over an uploaded file."""
        if body.get("endpoint") != "/v1/chat/completions" or body.get("completion_window") != "24h":
            return 400, error("endpoint and completion_window are wrong")
        if body.get("input_file_id") not in self.files:
            return 404, error(f"no file {body.get('input_file_id')}")
        plan = self.waiting_plans.popleft() if self.waiting_plans else BatchPlan()
        name = f"batch_{len(self.batches)}"
        content = {
            "id": name,
            "object": "batch",
            "endpoint": body["endpoint"],
            "completion_window": "24h",
            "created_at": int(time.time()),
            "input_file_id": body["input_file_id"],
            "metadata": body.get("metadata"),
            "status": "validating",
        }
        content["request_counts"] = {"total": 0, "completed": 0, "failed": 0}
        self.batches[name] = _Batch(name, plan, content)
        return 200, content

    def poll(self, name: str) -> tuple[int, dict[str, Any]]:
        """One step of a batch's life."""
        batch = self.batches.get(name)
        if batch is None:
            return 404, error(f"no batch {name}")
        batch.polls += 1
        content = batch.content
        if content["status"] in ("validating", "in_progress"):
            content["status"] = "in_progress"
            if batch.polls > batch.plan.running_polls or batch.plan.end == "failed":
                self._end(batch)
        return 200, content

    def listed(self, query: Mapping[str, list[str]]) -> tuple[int, dict[str, Any]]:
        """Batches, newest first, by page."""
        if not self.listing:
            return 405, error("listing is not offered")
        newest = [batch.content for batch in reversed(self.batches.values())]
        after, limit = query.get("after", [""])[0], int(query.get("limit", ["20"])[0])
        if after:
            newest = newest[[one["id"] for one in newest].index(after) + 1 :]
        page = newest[:limit]
        return 200, {"object": "list", "data": page, "has_more": len(newest) > limit}

    def _end(self, batch: _Batch) -> None:
        """Write the result files and set the last status."""
        plan, content = batch.plan, batch.content
        content["status"] = plan.end
        if plan.end == "failed":
            problem = {"code": plan.code, "message": "line 1 cannot be read", "line": 1, "param": None}
            content["errors"] = {"object": "list", "data": [problem]}
            return
        rows = [json.loads(line) for line in self.files[content["input_file_id"]].split(b"\n") if line.strip()]
        done = rows if plan.answered is None else rows[: plan.answered]
        good, bad = [], []
        for row in done:
            key = digest(row["body"])
            self.seen.batched[key] += 1
            fault = _told(row["body"], self.seen.batched[key])
            status, answer = self.completion(row["body"], None if fault == "ok" else fault)
            line = _result(row["custom_id"], status, answer)
            (good if status == 200 else bad).append(line)
        if plan.end == "expired" and not plan.quiet:
            missed = {
                "id": "r",
                "response": None,
                "error": {"code": "batch_expired", "message": "not executed in time"},
            }
            bad += [missed | {"custom_id": row["custom_id"]} for row in rows[len(done) :]]
        if plan.shuffled:
            random.Random(0).shuffle(good)
        content["request_counts"] = {"total": len(rows), "completed": len(good), "failed": len(rows) - len(good)}
        for name, written in (("output", good), ("error", bad)):
            if written:
                file = f"file-{len(self.files)}"
                self.files[file] = "".join(json.dumps(line) + "\n" for line in written).encode()
                content[f"{name}_file_id"] = file

    async def _connection(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """One keep-alive connection: reads whole requests, answers them in turn."""
        task = asyncio.current_task()
        assert task is not None
        self._open.add(task)
        try:
            while await self._answered(reader, writer):
                pass
        except (asyncio.IncompleteReadError, ConnectionError, asyncio.CancelledError):
            pass  # the client has left, or the port is closed
        finally:
            self._open.discard(task)
            writer.transport.abort()

    async def _answered(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bool:
        """Read a request and answer it; False if the connection is to be dropped."""
        first, *lines = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").strip().split("\r\n")
        method, path, _ = first.split(" ", 2)
        headers = {name.strip().lower(): value.strip() for name, _, value in (line.partition(":") for line in lines)}
        body = await reader.readexactly(int(headers.get("content-length", 0)))
        parts = urlsplit(path)
        if parts.path.startswith("/_"):
            if parts.path == "/_reset":
                self.seen = Stats(in_flight=self.seen.in_flight, max_in_flight=self.seen.in_flight)
            return await self._send(writer, 200, dict(self.seen.calls) if parts.path == "/_calls" else self.stats())
        pieces = parts.path.removeprefix("/v1/").strip("/").split("/")
        endpoint = _endpoint(method, pieces)
        self.seen.endpoints[endpoint] += 1
        # Only whether there is a key; never the key.
        if not headers.get("authorization", "").startswith("Bearer "):
            self.seen.without_key += 1
            return await self._send(writer, 401, error("no key"))
        if endpoint == "chat":
            return await self._chat(json.loads(body), reader, writer)
        fault = self.next_fault(endpoint)
        if self.tell(endpoint, "before") or fault == "drop":
            return False
        if fault == "hang":
            await _left(reader, None)
            return False
        if fault is not None and fault.isdigit():
            self.seen.faults[fault] += 1
            return await self._send(writer, int(fault), error(f"scripted {fault}"))
        if endpoint == "content" and pieces[1] in self.files:
            kinds = ("output", "error")
            kind = [
                kind
                for kind in kinds
                for one in self.batches.values()
                if one.content.get(f"{kind}_file_id") == pieces[1]
            ]
            status, raw = self.changed(kind[0], 200, self.files[pieces[1]])
            return await self._download(writer, raw, fault, status)
        status, content = 404, error(f"no {'/'.join(pieces)}")
        if endpoint == "upload":
            status, content = self.upload(headers.get("content-type", ""), body)
        elif endpoint == "create":
            status, content = self.create(json.loads(body))
        elif endpoint == "list":
            status, content = self.listed(parse_qs(parts.query))
        elif endpoint == "poll":
            status, content = self.poll(pieces[1])
        if self.tell(endpoint, "after"):
            return False
        return await self._send(writer, *self.changed(endpoint, status, json.dumps(content).encode()), fault)

    async def _chat(self, body: dict[str, Any], reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bool:
        seen, key = self.seen, digest(body)
        seen.calls[key] += 1
        seen.in_flight += 1
        seen.max_in_flight = max(seen.max_in_flight, seen.in_flight)
        fault = self.chat_fault(body, key, seen.calls[key])
        if fault:
            seen.faults[fault] += 1
        try:
            if fault == "drop":
                return False
            if await _left(reader, None if fault == "hang" else self.latency_s):
                self.seen.lost += fault != "hang"
                return False
            status, content = self.completion(body, fault)
            if status == 200 and (fault is None or fault in WORDS_OF_ANSWER):
                self.seen.answered[key] += 1
            return await self._send(writer, status, content, fault)
        finally:
            self.seen.in_flight -= 1

    async def _download(self, writer: asyncio.StreamWriter, raw: bytes, fault: str | None, status: int) -> bool:
        """Send a file; half of it goes out before the event, so that a kill there leaves half a file."""
        stop = len(raw) // 2 if fault == "reset" or self.event is not None else len(raw)
        await self._write(writer, status, "application/octet-stream", raw, stop)
        if fault == "reset":
            return False
        self.tell("content", "after")
        writer.write(raw[stop:])
        await writer.drain()
        return True

    async def _send(
        self, writer: asyncio.StreamWriter, status: int, content: Mapping[str, Any] | bytes, fault: str | None = None
    ) -> bool:
        payload = content if isinstance(content, bytes) else json.dumps(content).encode()
        if fault == "json":
            payload = payload[: len(payload) // 2]
        stop = len(payload) // 2 if fault == "reset" else len(payload)
        await self._write(writer, status, "application/json", payload, stop)
        return fault != "reset"

    async def _write(self, writer: asyncio.StreamWriter, status: int, kind: str, payload: bytes, stop: int) -> None:
        wait = f"Retry-After: {self.retry_after_s:g}\r\n" if status == 429 else ""
        head = f"HTTP/1.1 {status} X\r\nContent-Type: {kind}\r\n{wait}Content-Length: {len(payload)}\r\n\r\n"
        writer.write(head.encode() + payload[:stop])
        await writer.drain()
        if stop < len(payload):
            await asyncio.sleep(0.03)  # the half is on its way, or there would be no half


async def _left(reader: asyncio.StreamReader, seconds: float | None) -> bool:
    """Wait (None: without end); True if the client leaves meanwhile. It sends nothing more before it is answered."""
    try:
        async with asyncio.timeout(seconds):
            await reader.read(1)
    except TimeoutError:
        return False
    except ConnectionError:
        pass
    return True


def error(message: str, param: str | None = None) -> dict[str, Any]:
    return {"error": {"message": message, "type": "scripted", "code": None, "param": param}}


def echo(body: dict[str, Any]) -> str:
    """The user's text."""
    return str(body["messages"][-1]["content"])


@contextmanager
def in_a_process(**options: object) -> Iterator[str]:
    """Base URL of a server in a process of its own, which ends with the block; `answer` is "echo" for the user's text."""
    process = subprocess.Popen([sys.executable, __file__, json.dumps(options)], stdout=subprocess.PIPE, text=True)
    try:
        assert process.stdout is not None
        line = process.stdout.readline()
        if not line.startswith("PORT "):
            raise RuntimeError(f"the fault server did not start: {line!r}")
        yield f"http://127.0.0.1:{int(line.split()[1])}/v1"
    finally:
        process.kill()
        process.wait()


def control(url: str, name: str = "stats") -> dict[str, Any]:
    """What a server in another process says: its stats, or calls by request; `reset` sets both to zero."""
    with urllib.request.urlopen(url.removesuffix("v1") + f"_{name}", timeout=30) as answer:
        found: dict[str, Any] = json.load(answer)
    return found


def default_answer(body: dict[str, Any]) -> str:
    """Yes or no by the text's hash where a `Label:` line is asked for, else a few words."""
    text = text_of(body)
    found = digest(text)
    if "Label:" in text:
        return f"It depends.\nLabel: {'yes' if int(found[0], 16) % 2 else 'no'}"
    return f"answer {found[:16]}"


def text_of(body: dict[str, Any]) -> str:
    """All messages as one text."""
    return "\n".join(str(one.get("content", "")) for one in body.get("messages", ()))


def digest(content: Any) -> str:
    """Hash of a text, or of JSON whatever the order of its keys."""
    text = content if isinstance(content, str) else json.dumps(content, sort_keys=True)
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


def fitting(schema: Mapping[str, Any], text: str) -> Any:
    """A value that fits the schema, drawn from the text."""
    number = int(digest(text + json.dumps(schema, sort_keys=True))[:8], 16)
    if "enum" in schema:
        return schema["enum"][number % len(schema["enum"])]
    if schema.get("type", "object") == "object":
        return {name: fitting(inner, text) for name, inner in schema.get("properties", {}).items()}
    return f"answer {number:08x}"


def _told(body: dict[str, Any], attempt: int) -> str | None:
    """The fault that the text asks for at this attempt (1, 2, ...); None if it does not say."""
    found = SCRIPT.search(text_of(body))
    faults = found[1].split() if found else []
    if not faults:
        return None
    if faults[-1].endswith("*"):
        return faults[min(attempt, len(faults)) - 1].rstrip("*")
    return faults[attempt - 1] if attempt <= len(faults) else "ok"


def _result(custom_id: str, status: int, body: dict[str, Any]) -> dict[str, Any]:
    response = {"status_code": status, "request_id": "r", "body": body}
    return {"id": "batch_req_" + custom_id[:8], "custom_id": custom_id, "response": response, "error": None}


def _endpoint(method: str, pieces: list[str]) -> str:
    match (method, *pieces):
        case ("POST", "chat", "completions"):
            return "chat"
        case ("POST", "files"):
            return "upload"
        case ("GET", "files", _, "content"):
            return "content"
        case ("POST", "batches"):
            return "create"
        case ("GET", "batches"):
            return "list"
        case ("GET", "batches", _):
            return "poll"
    return "unknown"


def _multipart(content_type: str, body: bytes) -> dict[str, bytes]:
    """Parts of a form by name. The boundary is cut by hand: the email package needs minutes for 200 MB."""
    boundary = re.search(r'boundary="?([^";]+)', content_type)
    if boundary is None:
        return {}
    found = {}
    for part in body.split(b"--" + boundary[1].encode())[1:-1]:
        head, _, content = part.removeprefix(b"\r\n").partition(b"\r\n\r\n")
        name = BytesParser(policy=HTTP).parsebytes(head + b"\r\n\r\n").get_param("name", header="content-disposition")
        found[str(name)] = content.removesuffix(b"\r\n")
    return found


def main() -> None:
    options = json.loads(sys.argv[1])
    server = FaultServer(**options | {"answer": echo if options.get("answer") == "echo" else None})

    async def serve() -> None:
        await server.listen()
        print(f"PORT {server.port}", flush=True)
        await asyncio.Event().wait()

    asyncio.run(serve())


if __name__ == "__main__":
    main()
