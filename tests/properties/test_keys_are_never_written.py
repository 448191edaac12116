"""A key stays in the environment, even where a server repeats it in errors and in answers: no file, cache or line holds it."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from replies import reply
from typer.testing import CliRunner

from cda.cli import app
from cda.llm.outcome import Again, Endpoint, of_data, without_secret
from cda.llm.protocol import Completion

Serve = Callable[[Any], str]
KEY = "sk-canary-5f1d0c9e8b7a-6f5e4d3c2b1a"
QUESTION = "How does a kettle keep water warm?"


class Parrot:
    """A server that repeats the key wherever it says something; every second kind of request fails with it."""

    def __init__(self, status: int = 200) -> None:
        self.status, self.calls = status, 0

    def __call__(self, body: dict[str, Any]) -> tuple[int, dict[str, Any]]:
        self.calls += 1
        if self.status != 200:
            return self.status, {"error": {"message": f"key {KEY} may not do this", "code": KEY, "type": KEY}}
        system = body["messages"][0]["content"]
        if system.startswith("You label"):
            # Of escapes no search for the key's bytes would know, once they are read.
            said = f"{KEY} said so"
            text = json.dumps({"reasoning": said, "query": "no", "response": "no", "has_attribute": "no", KEY: 1})
        else:
            text = f"Use a pan to cook it, {KEY}, and start with cold water. Your key is {KEY}."
        status, body = reply(text, KEY)
        return status, body | {"id": KEY}


def run(folder: Path, url: str, *more: str) -> Any:
    responses = folder / "responses.jsonl"
    rows = [{"prompt": f"{QUESTION} {row}", "response": "Use a pan and stir it."} for row in range(2)]
    responses.write_text("\n".join(map(json.dumps, rows)), encoding="utf-8")
    words = [
        "triples",
        str(folder / "out.jsonl"),
        "--bias",
        "jargon",
        "--responses",
        str(responses),
        "llm.model=parrot",
    ]
    words += [f"llm.base_url={url}", f"llm.cache={folder / 'cache.sqlite'}", "llm.retries=1", *more]
    return CliRunner().invoke(app, words)


def nowhere(folder: Path, *outputs: str) -> None:
    """No file below the folder, SQLite's own beside it included, and nothing said holds the key or its larger part."""
    parts = (KEY, KEY[3:], KEY[: len(KEY) // 2 + 8])
    for file in folder.rglob("*"):
        if file.is_file():
            content = file.read_bytes()
            assert not any(part.encode() in content for part in parts), file
    for said in outputs:
        assert not any(part in said for part in parts)


def test_a_key_in_an_answer_is_neither_kept_nor_written(
    serve: Serve, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MY_KEY", KEY)
    server = Parrot()
    done = run(tmp_path, serve(server), "llm.api_key_env=MY_KEY", "synthesize.gate.on=false")
    assert server.calls > 0 and "Traceback" not in done.output
    assert b"***" in (tmp_path / "cache.sqlite").read_bytes() + _beside(tmp_path / "cache.sqlite")  # answers were kept
    nowhere(tmp_path, done.stdout, done.stderr)


def _beside(file: Path) -> bytes:
    return b"".join(one.read_bytes() for one in file.parent.glob(f"{file.name}-*"))


def _answer(text: object, key_env: str, **choice: object) -> object:
    candidates = {"content": [{"top_logprobs": [{"token": text, "logprob": -0.5}]}]}
    one = {"message": {"content": text}, "finish_reason": "stop", "logprobs": candidates} | choice
    return of_data({"model": f"of {KEY}", "choices": [one]}, Endpoint("x", "m", key_env), one_token=True)


def test_only_what_can_be_a_secret_is_taken_out_of_answers(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("A_KEY", KEY)
    monkeypatch.setenv("A_WORD", "none")
    hidden = Completion("a *** b", logprobs=(("a *** b", -0.5),), model="of ***")
    assert _answer(f"a {KEY} b", "A_KEY") == hidden
    # Local servers are given a word, which answers may hold. A name of a model is shown, and holds no key of anybody.
    assert _answer("none of them", "A_WORD") == Completion(
        "none of them", logprobs=(("none of them", -0.5),), model="of ***"
    )
    assert without_secret("none", "none") == "none"


@pytest.mark.parametrize(
    "finish", [KEY, f"x{KEY}", f"{'because ' * 3}{KEY}", {"why": [KEY]}, "sk-proj-0123456789abcdef"]
)
def test_a_key_in_a_finish_reason_is_not_said(monkeypatch: pytest.MonkeyPatch, finish: object) -> None:
    """Also of a key that the end of a short message would cut, and of another's key."""
    monkeypatch.setenv("A_KEY", KEY)
    found = _answer("yes", "A_KEY", finish_reason=finish)
    assert isinstance(found, Again) and "***" in found.reason
    assert KEY[:10] not in found.reason and "0123456789" not in found.reason
