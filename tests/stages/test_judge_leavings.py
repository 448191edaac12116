"""What a failed audit says of the answers it leaves, and marks of chat templates in the texts that a report names."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from cda.cli import app

N = 12
Answer = Callable[[dict[str, Any]], tuple[int, dict[str, Any]]]


def said(text: str | None, finish: str = "stop") -> tuple[int, dict[str, Any]]:
    choice = {"index": 0, "finish_reason": finish, "message": {"role": "assistant", "content": text}}
    return 200, {"choices": [choice], "usage": {"prompt_tokens": 5, "completion_tokens": 5}}


def audit(target: object, folder: Path, *more: object, mark: str = "") -> Any:
    rows = [
        {"prompt": f"w{row} w1", "perturbed": f"w{row % 7} good {mark}", "base": f"w{row % 5} bad w3"}
        for row in range(N)
    ]
    pairs = folder / "pairs.jsonl"
    pairs.write_text("\n".join(map(json.dumps, rows)), encoding="utf-8")
    words = ["audit", target, "--bias", "jargon", "--pairs", pairs, "--quality", "none", "--triples", "none"]
    return CliRunner().invoke(app, [*map(str, words), "--out", str(folder / "run"), *map(str, more)])


def test_unread_verdicts_name_the_cache_and_what_asks_again(serve: Callable[[Answer], str], tmp_path: Path) -> None:
    mended = False
    url = serve(lambda _: said("Verdict: 1") if mended else said("Verdi", finish="length"))
    done = audit("judge:m", tmp_path, f"llm.base_url={url}")
    words = " ".join(done.output.split())
    assert done.exit_code == 1 and "24 × cut off at llm.max_tokens" in words
    assert f"are kept in {tmp_path / 'llm-cache.sqlite'}" in words and "llm.ask_failures_again=true" in words
    mended = True
    assert audit("judge:m", tmp_path, f"llm.base_url={url}").exit_code == 1  # a failure that lasts, until it is said
    again = audit("judge:m", tmp_path, f"llm.base_url={url}", "llm.ask_failures_again=true")
    assert again.exit_code == 0, again.output
    assert "Asked 12 comparisons in both orders; 0 unreadable" in again.output


def test_a_repaired_server_is_asked_again_by_the_same_command(serve: Callable[[Answer], str], tmp_path: Path) -> None:
    mended = False
    url = serve(lambda _: said("Verdict: 1") if mended else (200, {"choices": []}))
    options = (f"llm.base_url={url}", "llm.retries=0")
    assert audit("judge:m", tmp_path, *options).exit_code == 1
    mended = True
    done = audit("judge:m", tmp_path, *options)
    assert done.exit_code == 0, done.output


@pytest.mark.parametrize("kind", ["judge", "model"])
def test_texts_with_marks_of_chat_templates_are_counted_in_the_report(
    serve: Callable[[Answer], str], llama: Path, tmp_path: Path, kind: str
) -> None:
    url = serve(lambda _: said("Verdict: 1"))
    target, options = ("judge:m", [f"llm.base_url={url}"]) if kind == "judge" else (llama, ["model.precision=fp32"])
    done = audit(target, tmp_path, *options, mark="<|end|>")
    assert done.exit_code == 0, done.output
    note = "12 of 24 texts hold marks of chat templates"
    assert note in " ".join(done.output.split())
    report = tmp_path / "run" / "report"
    assert note in (report / "report.md").read_text(encoding="utf-8")
    assert note in (report / "report.html").read_text(encoding="utf-8")


def test_who_answered_is_said_where_no_verdict_can_be_read(serve: Callable[[Answer], str], tmp_path: Path) -> None:
    status, answer = said("no verdict")
    url = serve(lambda _: (status, {**answer, "model": "another"}))
    done = audit("judge:m", tmp_path, f"llm.base_url={url}")
    assert done.exit_code == 1
    assert "m was asked for, but the server says that another answered" in " ".join(done.output.split())


def test_votes_under_the_id_of_a_row_on_the_same_texts_are_looked_at(
    serve: Callable[[Answer], str], tmp_path: Path
) -> None:
    """Not as lost: the one vote there is cannot be read."""
    rows = [{"id": f"r{row}", "prompt": "q", "perturbed": "a b", "base": "a c"} for row in range(2)]
    (tmp_path / "twice.csv").write_text(
        "id,prompt,perturbed,base\n" + "".join(f"{','.join(row.values())}\n" for row in rows), encoding="utf-8"
    )
    (tmp_path / "votes.csv").write_text("id,vote\nr1,sideways\n", encoding="utf-8")
    words = ["audit", "judge:m", "--bias", "jargon", "--pairs", str(tmp_path / "twice.csv"), "--quality", "none",
             "--triples", "none", "--votes", str(tmp_path / "votes.csv"), "--out", str(tmp_path / "run"),
             f"llm.base_url={serve(lambda _: said('Verdict: 1'))}"]  # fmt: skip
    done = CliRunner().invoke(app, words)
    assert done.exit_code == 1 and "none of its 1 votes can be read" in " ".join(done.output.split()), done.output
