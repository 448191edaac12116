"""Azure's addresses (a deployment in the path, an `api-version` in the query, the form /openai/v1/), its header and its errors."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import closing, contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest
from serving import said
from stub_client import QUESTION, client

from cda.errors import LLMError
from cda.keys import address_problem
from cda.llm.batch import BatchServer
from cda.llm.protocol import FILTERED, complete

KEY = "0123456789abcdef0123456789abcdef"
TOKEN = "eyJhbGciOiJSUzI1NiJ9.e30.c2ln"
VERSION = "api-version=2024-10-21"


class Azure(BaseHTTPRequestHandler):
    """By Azure's reference: deployments want a version and one of two headers, /openai/v1/ takes either header."""

    seen: list[str]
    reply: tuple[int, Any] | None = None

    def do_POST(self) -> None:
        self.rfile.read(int(self.headers["Content-Length"]))
        self.answer()

    def do_GET(self) -> None:
        self.answer()

    def answer(self) -> None:
        type(self).seen.append(self.path)
        status, body = self.reply or self.ruled()
        payload = json.dumps(body).encode()
        self.send_response(status)
        self.send_header("Content-Length", str(len(payload)))
        self.end_headers()
        self.wfile.write(payload)

    def ruled(self) -> tuple[int, Any]:
        path, _, query = self.path.partition("?")
        key, bearer = self.headers["api-key"], self.headers["Authorization"]
        is_new = path.startswith("/openai/v1/")
        if not is_new and query != VERSION:
            return 404, {"error": {"code": "404", "message": "Resource not found"}}
        if key and bearer:
            return 400, {"message": "Either API-KEY or Authorization header must be provided but not both"}
        if not (key == KEY or bearer == f"Bearer {TOKEN}" or (is_new and bearer == f"Bearer {KEY}")):
            return 401, {"error": {"code": "401", "message": "Access denied due to invalid subscription key."}}
        if path == "/openai/deployments/gone/chat/completions":
            return 404, {"error": {"code": "DeploymentNotFound", "message": "The API deployment does not exist."}}
        if path in ("/openai/deployments/judge/chat/completions", "/openai/v1/chat/completions"):
            return said("fine")[:2]
        return (200, {"data": []}) if path == "/openai/v1/batches" else (404, {"error": {"message": path}})

    def log_message(self, *_: object) -> None:
        pass


@contextmanager
def azure(reply: tuple[int, Any] | None = None) -> Iterator[tuple[str, list[str]]]:
    """A server as Azure's, its address, and the paths that were asked."""
    handler = type("Handler", (Azure,), {"seen": [], "reply": reply})
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{server.server_port}", handler.seen
    finally:
        server.shutdown()
        server.server_close()


@pytest.mark.parametrize("key", [KEY, TOKEN], ids=["key", "token"])
@pytest.mark.parametrize(
    ("path", "asked"),
    [
        (f"/openai/deployments/judge?{VERSION}", f"/openai/deployments/judge/chat/completions?{VERSION}"),
        (f"/openai/deployments/judge/?{VERSION}", f"/openai/deployments/judge/chat/completions?{VERSION}"),
        (
            f"/openai/deployments/judge/chat/completions?{VERSION}",
            f"/openai/deployments/judge/chat/completions?{VERSION}",
        ),
        ("/openai/v1/", "/openai/v1/chat/completions"),
        ("/openai/v1?api-version=preview", "/openai/v1/chat/completions?api-version=preview"),
    ],
)
def test_every_form_of_azures_address_is_asked_with_its_query_and_one_header(
    monkeypatch: pytest.MonkeyPatch, path: str, asked: str, key: str
) -> None:
    monkeypatch.setenv("AZURE_OPENAI_API_KEY", key)
    with azure() as (root, seen):
        llm = client(root + path, api_key_env="AZURE_OPENAI_API_KEY")
        assert llm.check() == []
        assert [one.text for one in complete(llm, [QUESTION] * 2, "asking")] == ["fine"] * 2
        assert seen == [asked] * 2


def test_batches_keep_the_query_too(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AZURE_OPENAI_API_KEY", KEY)
    with azure() as (root, seen):
        llm = client(f"{root}/openai/v1/?api-version=preview", api_key_env="AZURE_OPENAI_API_KEY")
        with closing(BatchServer(llm, lambda _: None, attempts=1, max_bytes=100)) as server:
            assert server.listed("part", "file") is None
    assert seen == ["/openai/v1/batches?api-version=preview&limit=100"]


def test_its_errors_end_in_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AZURE_OPENAI_API_KEY", KEY)
    with azure() as (root, _):
        for path, key, words in (
            ("gone", KEY, r"no model 'm' \(404\): The API deployment does not exist; check llm.model and llm.base_url"),
            (
                "judge",
                "ffff" * 8,
                r"the key in AZURE_OPENAI_API_KEY is refused \(401\): Access denied due to invalid sub",
            ),
        ):
            monkeypatch.setenv("AZURE_OPENAI_API_KEY", key)
            with pytest.raises(LLMError, match=words) as caught:
                llm = client(f"{root}/openai/deployments/{path}?{VERSION}", api_key_env="AZURE_OPENAI_API_KEY")
                complete(llm, [QUESTION], "asking")
            assert "\n" not in str(caught.value) and key not in str(caught.value)
    inner = {"code": "ResponsibleAIPolicyViolation", "content_filter_result": {"hate": {"filtered": True}}}
    filtered = {
        "message": "The response was filtered",
        "param": "prompt",
        "code": "content_filter",
        "innererror": inner,
    }
    for content in (filtered, filtered | {"code": None}):
        with azure((400, {"error": content})) as (root, _):
            (found,) = complete(client(f"{root}/openai/deployments/judge?{VERSION}"), [QUESTION], "asking")
            assert found.reason == FILTERED
    by_gateway = {"statusCode": 429, "message": "Rate limit is exceeded. 9 calls per day"}
    with azure((429, by_gateway)) as (root, _), pytest.raises(LLMError, match="the limit of a day is used up"):
        complete(client(f"{root}/openai/deployments/judge?{VERSION}"), [QUESTION], "asking")


@pytest.mark.parametrize(
    "query", ["key=abc", "api-version=0123456789abcdef", f"{VERSION}&code=abc", f"{VERSION}#abc", "api-version="]
)
def test_any_other_query_may_hold_a_key_and_is_refused(query: str) -> None:
    url = f"https://host/openai/deployments/judge?{query}"
    (problem,) = client(url).check()
    assert "other than api-version=DATE" in problem and "abc" not in problem
    assert address_problem(f"https://host/?{VERSION}", with_version=True) is None
    assert "holds a query (from '?' or '#' on), which" in str(address_problem(f"https://host/?{VERSION}"))
