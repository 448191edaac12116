"""Labels of pairs from files: both layouts, words with decoration, and what holds no labels."""

from __future__ import annotations

from pathlib import Path

import pytest
from made_release import write_rows

from cda.data.pairs import load_labels, training_labels
from cda.errors import DataError
from cda.records import LabelledPair, Pair, prompt_id, user_prompt


def test_words_are_read_through_their_decoration(tmp_path: Path) -> None:
    words = ["Yes", "**no**", "[yes] because it lists", "1", "maybe", None]
    rows = [{"chosen_jargon": word, "rejected_jargon": "No"} for word in words]
    found = load_labels(str(write_rows(tmp_path / "labels.jsonl", rows)), ["jargon", "length"])
    assert list(found) == ["jargon"]
    assert found["jargon"].chosen == (True, False, True, True, None, None)
    assert found["jargon"].rejected == (False,) * 6 and found["jargon"].sides is None


def test_what_the_label_stage_writes(tmp_path: Path) -> None:
    row = {
        "prompt": [{"role": "user", "content": "why"}],
        "chosen": [{"role": "assistant", "content": "a b c"}],
        "rejected": [{"role": "assistant", "content": "a"}],
        "labels": {"length": {"chosen": True, "rejected": False}},
    }
    found = load_labels(str(write_rows(tmp_path / "pairs.jsonl", [row, row])), ["length"])["length"]
    assert found.sides == (("a b c", "a"),) * 2 and set(found.prompt_ids) == {prompt_id(user_prompt("why"))}
    labelled = LabelledPair(Pair(user_prompt("why"), "a b c", "a"), "train", row["labels"])  # type: ignore[arg-type]
    assert training_labels([labelled, labelled], "length") == found and training_labels([labelled], "jargon") is None


def test_a_file_without_labels_says_what_it_needs(tmp_path: Path) -> None:
    path = write_rows(tmp_path / "labels.jsonl", [{"chosen_tone": "yes", "rejected_tone": "no"}])
    with pytest.raises(
        DataError, match=r"no labels of jargon\. Found: chosen_tone, rejected_tone\. Needed: the columns"
    ):
        load_labels(str(path), ["jargon"])
