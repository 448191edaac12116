"""Answers of a Batch API, read or refused with the words that a user sees."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from cda.llm.batch import End
from cda.llm.batch_server import Batch, Line, Made, OddAnswerError, Page, read
from cda.llm.outcome import Endpoint

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
        read(Made, content, SERVER)
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
