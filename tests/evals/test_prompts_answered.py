"""The eval of the prompts: kept answers are read again."""

from __future__ import annotations

from pathlib import Path

import pytest

from cda.embedded.texts import EMBEDDED_BIASES

EVALS = Path(__file__).parents[2] / "evals"
KEPT = EVALS / "answers" / "prompts.jsonl"


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
