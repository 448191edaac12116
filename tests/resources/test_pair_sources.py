"""Pairs of a recipe that cannot be used: the message names the columns and the setting."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from cda.counterfactuals.triples import read_responses
from cda.errors import DataError
from cda.recipe.sections import AuditSection
from cda.resources.sources import load_pairs


def test_prompts_under_another_name_are_told_how_to_be_mapped(tmp_path: Path) -> None:
    path = tmp_path / "theirs.jsonl"
    path.write_text(json.dumps({"question": "Why?", "chosen": "So.", "rejected": "Thus."}) + "\n", encoding="utf-8")
    with pytest.raises(DataError) as error:
        load_pairs(str(path), "train", {}, "data.columns")
    assert "no usable pair" in str(error.value)
    assert "the columns are question, chosen, rejected" in str(error.value)
    assert "data.columns.prompt=<your column>" in str(error.value)
    assert len(load_pairs(str(path), "train", {"prompt": "question"}, "data.columns").pairs) == 1


def test_one_response_is_read_once_and_not_with_and_without_the_attribute() -> None:
    audit = AuditSection()
    rows = [{"prompt": "q", "response": "a", "has_attribute": word} for word in ("", "yes")]
    rows += [{"prompt": "q ", "response": [{"role": "assistant", "content": "a\r\n"}], "has_attribute": "yes"}]
    found, exclusions = read_responses(rows, "f.csv", audit)
    assert [(one.response, one.has_attribute) for one in found] == [("a", True)]
    assert dict(exclusions.reasons) == {"duplicate": 2}
    with pytest.raises(
        DataError, match=r"f\.csv: rows 1, 2, 3, 4: the same response, and has_attribute says yes and no"
    ):
        read_responses([*rows, rows[0] | {"has_attribute": "no"}], "f.csv", audit)
