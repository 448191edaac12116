"""`cda.label` and `cda.rewrite`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import cda

LIST = "- Go to bed early\n- Drink no coffee"
PLAIN = "Go to bed early. Drink no coffee in the evening. Keep the room dark and cool."


def test_responses_and_pairs_are_labelled_by_measure(tmp_path: Path) -> None:
    rows = [{"prompt": "Sleep?", "response": LIST}, {"prompt": "Sleep?", "response": PLAIN}]
    assert [label.present for label in cda.label(rows, "structure")] == [True, False]
    pairs = cda.label([{"prompt": "Sleep?", "chosen": PLAIN, "rejected": LIST}], "structure")
    assert pairs[0].labels == {"chosen": False, "rejected": True} and pairs[0].n_asked == 0
    with pytest.raises(cda.DataError, match="give that as `reference`"):
        cda.label(rows[1:], "length")
    assert cda.label([{**rows[1], "reference": "No."}], "length")[0].present is True
    assert not list(tmp_path.iterdir())


def test_every_unusable_row_is_named() -> None:
    rows: list[dict[str, Any]] = [{"prompt": "", "response": LIST}, {"prompt": "Sleep?", "response": None}]
    with pytest.raises(cda.DataError, match=r"row 1: empty prompt\ndata, row 2: a side is missing"):
        cda.label(rows, "structure")
    needed = r"needs the columns response, or chosen and rejected. Found: answer, prompt"
    with pytest.raises(cda.DataError, match=needed):
        cda.label([{"prompt": "Sleep?", "answer": LIST}], "structure")


def test_rewrites_carry_the_bias_or_have_a_reason() -> None:
    rows = [{"prompt": "Sleep?", "response": PLAIN}, {"prompt": "Sleep?", "response": "Yes."}]
    written, refused = cda.rewrite(rows, "structure")
    assert written.text is not None and "\n- " in written.text
    assert refused.text is None and refused.reason
    back = cda.rewrite([{"prompt": "Sleep?", "response": written.text}], "structure", direction="remove")[0]
    assert back.text is not None and "- " not in back.text
    with pytest.raises(cda.DataError, match="'add' or 'remove'"):
        cda.rewrite(rows, "structure", direction="more")  # type: ignore[arg-type]
