"""Azure's addresses (a deployment in the path, an `api-version` in the query, the form /openai/v1/), its header and its errors."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing, contextmanager
from typing import Any

import pytest
from serving import Served, said
from stub_client import QUESTION, client

from cda.errors import LLMError
from cda.keys import address_problem
from cda.llm.batch_server import BatchServer
from cda.llm.protocol import FILTERED, complete

KEY = "0123456789abcdef0123456789abcdef"
TOKEN = "eyJhbGciOiJSUzI1NiJ9.e30.c2ln"
VERSION = "api-version=2024-10-21"


@contextmanager
def azure(reply: tuple[int, Any] | None = None) -> Iterator[tuple[str, list[str]]]:
    """A server by Azure's reference, its address, and the paths that were asked: deployments want a version and one of two headers,
    /openai/v1/ takes either header.
    """
    seen: list[str] = []

    def ruled(_method: str, asked: str, _body: Any) -> Any:
        seen.append(asked)
        path, _, query = asked.partition("?")
        key, bearer = server.headers[-1]["api-key"], server.headers[-1]["Authorization"]
        is_new = path.startswith("/openai/v1/")
        if reply is not None:
            return reply
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

    server = Served(routes=ruled)
    try:
        yield server.url, seen
    finally:
        server.stop()


@pytest.mark.parametrize("key", [KEY, TOKEN], ids=["key", "token"])
@pytest.mark.parametrize(
    ("path", "asked"),
    [
        (f"/openai/deployments/judge?{VERSION}", f"/openai/deployments/judge/chat/completions?{VERSION}"),
        (f"/openai/deployments/judge/?{VERSION}", f"/openai/deployments/judge/chat/completions?{VERSION}"),
        (f"/openai/deployments/judge/chat/completions?{VERSION}", f"/openai/deployments/judge/chat/completions?{VERSION}"),
        ("/openai/v1/", "/openai/v1/chat/completions"),
        ("/openai/v1?api-version=preview", "/openai/v1/chat/completions?api-version=preview"),
    ],
)  # fmt: skip
def test_every_form_of_azures_address_is_asked_with_its_query_and_one_header(
    monkeypatch: pytest.MonkeyPatch, path: str, asked: str, key: str
) -> None:
    monkeypatch.setenv("AZURE_OPENAI_API_KEY", key)
    with azure() as (root, seen):
        llm = client(root + path, api_key_env="AZURE_OPENAI_API_KEY")
        assert llm.missing_key() + llm.wrong_address() == []
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
            ("judge", "ffff" * 8, r"the key in AZURE_OPENAI_API_KEY is refused \(401\): Access denied due to invalid"),
        ):
            monkeypatch.setenv("AZURE_OPENAI_API_KEY", key)
            with pytest.raises(LLMError, match=words) as caught:
                llm = client(f"{root}/openai/deployments/{path}?{VERSION}", api_key_env="AZURE_OPENAI_API_KEY")
                complete(llm, [QUESTION], "asking")
            assert "\n" not in str(caught.value) and key not in str(caught.value)
    inner = {"code": "ResponsibleAIPolicyViolation", "content_filter_result": {"hate": {"filtered": True}}}
    filtered = {"message": "It was filtered", "param": "prompt", "code": "content_filter", "innererror": inner}
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
    (problem,) = client(url).wrong_address()
    assert "other than api-version=DATE" in problem and "abc" not in problem
    assert address_problem(f"https://host/?{VERSION}", with_version=True) is None
    assert "holds a query (from '?' or '#' on), which" in str(address_problem(f"https://host/?{VERSION}"))
