"""The LLM client against a real server on this machine over real HTTP: answers, failures by reason, retries, memory."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import pytest
from fault_server import FaultServer
from serving import Answer, Reply, Served, error, said, status, user_text
from stub_client import QUESTION, SCHEMA, client

from cda.errors import LLMError
from cda.keys import address_problem
from cda.llm.batch import BatchLLM
from cda.llm.batch_server import BatchServer
from cda.llm.cache import Cache
from cda.llm.openai_client import OpenAIClient
from cda.llm.outcome import Again, Endpoint, of_content
from cda.llm.protocol import CUT_OFF, EMPTY, FILTERED, Completion, Request, complete


def script(*replies: Reply) -> tuple[Answer, list[dict[str, Any]]]:
    """One reply a call, the last for ever; and the bodies that came."""
    bodies: list[dict[str, Any]] = []

    def answer(body: dict[str, Any]) -> Reply:
        bodies.append(body)
        return replies[min(len(bodies), len(replies)) - 1]

    return answer, bodies


def one(llm: OpenAIClient, request: Request | None = None) -> Completion:
    (found,) = complete(llm, [request or QUESTION], "asking")
    return found


def test_answers_come_by_position_with_their_tokens(speak: Callable[[Answer], str]) -> None:
    llm = client(speak(lambda body: said(user_text(body)[::-1])), concurrency=8)
    asked = [Request("system", f"question {number}") for number in range(40)]
    found = complete(llm, asked, "asking")
    assert [answer.text for answer in found] == [request.user[::-1] for request in asked]
    assert {(answer.input_tokens, answer.output_tokens, answer.cached) for answer in found} == {(7, 3, False)}
    assert complete(llm, [], "nothing") == []
    assert one(llm, Request("s", "lone \udc80")).text == "? enol"


@pytest.mark.parametrize(
    ("answer", "reason"),
    [
        (said("half a sen", finish="length"), "cut off at llm.max_tokens"),
        (said(None), "refused"),
        (said("", finish="content_filter"), "content filter"),
        (error("no such thing", code="content_filter"), "content filter"),
        (said("  "), "empty answer"),
        (error("This model's maximum context length is 4096 tokens, 'max_completion_tokens' is 9"), "context too long"),
        (error("too many", code="context_length_exceeded"), "context too long"),
        (status(422, {"error": "what is\nthis?"}), "status 422: what is this?"),
        (error("must not hold the word temperature", "messages"), "status 400: must not hold the word temperature"),
        (status(422, {"detail": [{"loc": {"a": 1}, "msg": "no"}]}), "status 422: no"),
        (status(422, {"detail": [{"loc": [[]], "msg": "no"}]}), "status 422: no"),
        (status(418, {"object": "error", "message": "teapot"}), "status 418: teapot"),
        ((413, b"too large", {"Content-Type": "text/plain"}), "status 413: too large"),
        (status(503), "no answer after 1 try (last: status 503)"),
        (status(200, {"error": {"message": "upstream"}}), "no answer after 1 try (last: unfinished answer (error 503: upstream))"),
        (
            (200, b"<html>"),
            "no answer after 1 try (last: status 200 with a web page; is the address that of the API, which mostly ends in /v1?)",
        ),
        ("reset", "no answer after 1 try (last: connection lost)"),
        ("drop", "no answer after 1 try (last: connection lost)"),
        ("hang", "no answer after 1 try (last: timed out after 0.3 s)"),
    ],
)  # fmt: skip
def test_each_failure_has_a_reason_of_its_own_and_no_text(
    speak: Callable[[Answer], str], answer: Reply, reason: str
) -> None:
    answers, bodies = script(answer)
    found = one(client(speak(answers), timeout_s=0.3))
    assert found.text is None and found.reason == reason and len(bodies) == 1


def test_errors_that_no_call_survives_stop_at_once(
    speak: Callable[[Answer], str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MY_KEY", "sk-very-secret")
    quota = {"error": {"message": "You exceeded", "type": "insufficient_quota", "code": "insufficient_quota"}}
    for reply, expected in (
        (status(401), r"MY_KEY is refused \(401\)"),
        (status(403), r"MY_KEY is refused \(403\)"),
        (status(404), "no model 'm'"),
        (status(429, quota), "quota is spent"),
    ):
        url = speak(lambda _, reply=reply: reply).replace("http://", "http://user:pass-word@")  # type: ignore[misc]
        with pytest.raises(LLMError, match=expected) as caught:
            one(client(url, api_key_env="MY_KEY", retries=3))
        assert "127.0.0.1" in str(caught.value)
        assert "secret" not in str(caught.value) and "pass-word" not in str(caught.value)
    with pytest.raises(LLMError, match="cannot be reached"):
        one(client("http://127.0.0.1:9/v1", retries=3))


def test_a_server_that_is_gone_fails_some_requests_and_then_the_run() -> None:
    with FaultServer() as server:
        llm = client(server.url, retries=1, concurrency=4)
        assert one(llm).text
    assert one(llm).reason == "no answer after 2 tries (last: connection refused)"
    found = []
    with pytest.raises(LLMError, match="cannot be reached any more"):
        found.extend(answer for _, answer in llm.answers(iter([Request("s", "u")] * 1000), "asking"))
    assert len(found) < 50


def test_a_key_is_never_said_even_where_the_server_repeats_it(
    speak: Callable[[Answer], str], monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setenv("MY_KEY", "sk-very-secret\n")
    caplog.set_level("DEBUG")
    found = one(client(speak(lambda _: error("bad key sk-very-secret sent")), api_key_env="MY_KEY"))
    assert found.reason == "status 400: bad key *** sent"
    assert "sk-very-secret" not in caplog.text + repr(client("http://x", api_key_env="MY_KEY"))
    monkeypatch.setenv("MY_KEY", "sk-\x07-secret")
    with pytest.raises(LLMError, match="MY_KEY holds characters") as caught:
        one(client("http://127.0.0.1:9/v1", api_key_env="MY_KEY"))
    assert "secret" not in str(caught.value)


def test_missing_key_is_said_before_any_call(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("NO_SUCH_KEY", raising=False)
    (problem,) = OpenAIClient("gpt-4o", api_key_env="NO_SUCH_KEY").missing_key()
    assert "NO_SUCH_KEY" in problem
    assert OpenAIClient("local", "http://127.0.0.1:9/v1", api_key_env="NO_SUCH_KEY").missing_key() == []
    (problem,) = OpenAIClient("local", "http://me:pass-word@127.0.0.1:9/v1").wrong_address()
    assert "llm.base_url" in problem and "pass-word" not in problem


def test_parameters_the_server_rejects_are_dropped_remembered_and_said_once(speak: Callable[[Answer], str]) -> None:
    bodies: list[dict[str, Any]] = []

    def answer(body: dict[str, Any]) -> Reply:
        bodies.append(body)
        if "max_completion_tokens" in body:
            detail = {"type": "extra_forbidden", "loc": ["body", "max_completion_tokens"], "msg": "Extra inputs"}
            return status(422, {"detail": [detail]})
        if "temperature" in body:
            return error("Unsupported value: 'temperature' does not support 0.0 with this model.", "temperature")
        if "seed" in body:
            return error("Unrecognized request argument supplied: seed")
        return said("fine")

    messages: list[str] = []
    llm = client(speak(answer), concurrency=4, seed=3, max_tokens=50, say=messages.append)
    found = complete(llm, [Request("s", f"what temperature, {number}?") for number in range(20)], "asking")
    assert {answer.text for answer in found} == {"fine"}
    assert len(messages) == 3
    n_first = len(bodies)
    assert one(llm).text == "fine"
    assert bodies[n_first:] == [bodies[-1]] and bodies[-1]["max_tokens"] == 50
    assert not {"max_completion_tokens", "temperature", "seed"} & set(bodies[-1])


def test_a_schema_is_sent_strict_and_its_json_handed_on(speak: Callable[[Answer], str]) -> None:
    answer, bodies = script(
        said('{"label": "yes"}'),
        said("Label: no"),
        said("Label: no"),
        said('{"label": "no"}'),
        said(None),
    )
    llm = client(speak(answer))
    request = Request("s", "u", SCHEMA, "End with a line 'Label: yes' or 'Label: no'.")
    assert one(llm, request).text == '{"label": "yes"}'
    assert bodies[0]["response_format"]["json_schema"]["strict"] is True
    assert bodies[0]["response_format"]["json_schema"]["schema"] == SCHEMA
    # A single lapse of a server that follows schemas: asked again in plain words, both paid; then with the schema again.
    lapse = one(llm, request)
    assert (lapse.text, lapse.input_tokens, lapse.output_tokens) == ("Label: no", 14, 6)
    assert "response_format" not in bodies[2] and bodies[2]["messages"][0]["content"].endswith("'Label: no'.")
    assert one(llm, request).text == '{"label": "no"}' and "response_format" in bodies[3]
    assert one(llm, request).reason == "refused" and len(bodies) == 5


@pytest.mark.parametrize("how", ["rejected", "ignored"])
def test_a_server_without_schemas_is_found_out_once_and_asked_plainly(speak: Callable[[Answer], str], how: str) -> None:
    bodies: list[dict[str, Any]] = []

    def answer(body: dict[str, Any]) -> Reply:
        bodies.append(body)
        if "response_format" in body and how == "rejected":
            return error("response_format.type: json_schema is not supported", "response_format.type")
        return said("Label: yes")

    messages: list[str] = []
    llm = client(speak(answer), concurrency=2, say=messages.append)
    found = complete(llm, [Request("s", str(n), SCHEMA, "Say it plainly.") for n in range(12)], "asking")
    assert {answer.text for answer in found} == {"Label: yes"}
    assert len(messages) == 1 and "plain words" in messages[0]
    assert sum("response_format" in body for body in bodies) <= 2
    assert all("Say it plainly." in body["messages"][0]["content"] for body in bodies if "response_format" not in body)


SERVER = Endpoint("http://x", "m", "NO_SUCH_KEY")
ASKED = Request("s", "u", top_logprobs=20)
LISTED = [{"token": "1", "logprob": -0.1}, {"token": "2", "logprob": -2.4}]
READ = (("1", -0.1), ("2", -2.4))


def data(listed: object, text: str = "1", finish: str = "length") -> dict[str, Any]:
    logprobs = {"content": [{"token": "1", "logprob": -0.1, "top_logprobs": listed}]}
    return {"choices": [{"finish_reason": finish, "message": {"content": text}, "logprobs": logprobs}]}


@pytest.mark.parametrize(
    ("answer", "expected"),
    [
        (data(LISTED), Completion("1", logprobs=READ)),
        (data(LISTED, text=" "), Completion("", logprobs=READ)),
        (data([*LISTED, {"token": "3", "logprob": None}, {"logprob": -1}, "x"]), Completion("1", logprobs=READ)),
        (data([{"token": "1", "logprob": -math.inf}, *LISTED[1:]]), Completion("1", logprobs=READ[1:])),
        (data([]), Completion("1")),
        (data(None), Completion("1")),
        (data("none"), Completion("1")),
        (data([], text=""), Completion(None, EMPTY)),
        (data(LISTED, finish="content_filter"), Completion(None, FILTERED)),
        ({"choices": [{"message": {"content": "1"}, "logprobs": {"content": None}}]}, Completion("1")),
        ({"choices": [{"message": {"content": "1"}, "logprobs": [1]}]}, Completion("1")),
    ],
)
def test_candidates_are_read_from_any_answer(answer: dict[str, Any], expected: Completion) -> None:
    assert of_content(json.dumps(answer).encode(), SERVER, one_token=True) == expected


@pytest.mark.parametrize(
    ("content", "text"),
    [
        ([{"type": "text", "text": "whole"}], "whole"),
        (["who", {"text": "le"}, {"type": "thinking", "thinking": [{"text": "hm"}]}], "whole"),
        ([{"type": "text", "text": None}], None),
        ([{"type": "text"}, {"text": None}, None, 7, {"text": {"value": 1}}], None),
        ([None, {"text": "whole"}], "whole"),
        ([], None),
    ],
)
def test_parts_of_an_answer_without_a_text_are_none(content: list[object], text: str | None) -> None:
    answer = {"choices": [{"message": {"content": content}, "finish_reason": "stop"}]}
    expected = Completion(text) if text else Completion(None, EMPTY)
    assert of_content(json.dumps(answer).encode(), SERVER) == expected


def test_an_answer_in_full_that_is_cut_off_stays_a_failure() -> None:
    assert of_content(json.dumps(data(LISTED)).encode(), SERVER) == Completion(None, CUT_OFF)
    assert isinstance(of_content(b"[]", SERVER, one_token=True), Again)


def test_one_token_is_asked_for_also_where_only_max_tokens_is_known(speak: Callable[[Answer], str]) -> None:
    bodies: list[dict[str, Any]] = []

    def answer(body: dict[str, Any]) -> Reply:
        bodies.append(body)
        return (
            error("unknown", "max_completion_tokens") if "max_completion_tokens" in body else status(200, data(LISTED))
        )

    llm = client(speak(answer), temperature=0.7, max_tokens=50)
    assert one(llm, ASKED) == Completion("1", logprobs=READ)
    assert bodies[-1]["max_tokens"] == 1
    assert bodies[-1]["temperature"] == 0.0
    assert one(client(speak(lambda _: error("bad words"))), ASKED).reason == "status 400: bad words"
    assert llm.body(Request("s", "u"))["max_tokens"] == 50
    assert llm.body(Request("s", "u"))["temperature"] == 0.7
    assert "logprobs" not in llm.body(Request("s", "u"))


def test_batches_do_without(start: Callable[..., FaultServer], tmp_path: Path) -> None:
    server = start()
    with Cache(tmp_path / "answers.sqlite") as cache, pytest.raises(LLMError, match=r"set llm\.mode=calls"):
        complete(BatchLLM(client(server.url), cache), [ASKED], "asking")
    assert server.stats()["endpoints"] == {}


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
