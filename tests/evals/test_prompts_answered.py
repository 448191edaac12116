"""The eval of the prompts: kept answers are read again, and answers that cannot be taken are refused."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from cda.embedded.texts import EMBEDDED_BIASES
from cda.errors import DataError
from cda.files.jsonl import read_jsonl, write_jsonl

EVALS = Path(__file__).parents[2] / "evals"
KEPT = EVALS / "answers" / "prompts.jsonl"
Json = dict[str, Any]


@pytest.mark.parametrize(
    ("row", "problem"),
    [
        ({"id": "z", "answer": "x"}, "'z' is the id of no question"),
        ({"answer": "x"}, "None is the id of no question"),
        ({"id": "b", "answer": " "}, "no answer; give the reply's text"),
        ({"id": "b", "answer": {"groups": []}}, "no answer; give the reply's text"),
        ({"id": "a", "answer": "y"}, "a is answered a second time"),
        ({"id": "b", "anwser": "y"}, "anwser: unknown"),
        ({"id": "kept", "answer": "other"}, "kept has another answer already"),
    ],
)
def test_answers_that_cannot_be_taken_are_refused_and_none_is_taken(row: Json, problem: str, tmp_path: Path) -> None:
    from evals.method.prompts_answered import take

    path = tmp_path / "kept.jsonl"
    write_jsonl(path, [{"id": "kept", "kind": "label", "by": "m", "answer": "x"}])
    write_jsonl(tmp_path / "questions.jsonl", [{"id": one, "kind": "label"} for one in ("a", "b", "kept")])
    (tmp_path / "answers").mkdir()
    write_jsonl(tmp_path / "answers" / "one.jsonl", [{"id": "a", "answer": "x"}, row])
    with pytest.raises(DataError, match=f"answers/one.jsonl: row 2: {problem}"):
        take(tmp_path, "m", path)
    assert len(list(read_jsonl(path))) == 1


def test_a_few_kept_answers_are_read_again() -> None:
    from evals.method.prompts_answered import asked, kept_answers

    kept = kept_answers(KEPT)
    if not any(one.kind == "reading" for one in kept.values()):
        pytest.skip("evals/answers/prompts.jsonl holds no readings of the rewrites yet")
    found, server = asked(kept, 2)
    assert not server.open_questions and not server.asked_again
    assert {row.bias for row in found.labels} == set(EMBEDDED_BIASES)
    right = [row.label == row.has_bias for row in found.labels]
    assert len(right) == 20 and sum(right) >= 16
    assert len(found.rewrites) == 20 and sum(row.gate is None for row in found.rewrites) >= 16
    assert sum((row.margin or 0) > 0 for row in found.judgements) >= 1
    assert all(row.read for row in found.groupings) and all(row.attributes for row in found.proposals)
