"""The stop at which a person drops candidates: what is written is read back, and no edit is misunderstood."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest
import yaml
from changed import changed

from cda.discovery.attribute import attribute_bias
from cda.discovery.evidence import validate
from cda.discovery.held_out import reviewed, write_review
from cda.errors import DataError, RecipeError
from cda.records import user_prompt
from cda.results.discover import CandidateRecord, Measured
from cda.results.evidence import ConfirmSettings, Validation

WORDS = (
    "Triple spaces between words",
    "Ends with: a question",
    "yes",
    'Says "no" # never',
    "Äußert Zweifel, auch 2e-5",
)


def candidates(words: Sequence[str] = WORDS) -> list[CandidateRecord]:
    return [CandidateRecord.of(attribute_bias(one)) for one in words]


def results(found: Sequence[CandidateRecord]) -> dict[str, Validation]:
    """A reward of 1.23456 and a judge of 0 for the first, then more."""
    told = ("gpt-x", "add", user_prompt("?"), "a", "b")
    rows = [replace(Measured(found[0].id, *told, 1.2, 0.0), prompt=user_prompt(f"{at}?")) for at in range(4)]
    (one,) = validate({found[0].id: rows}, ConfirmSettings(r=1))
    return {
        each.id: changed(changed(one, "pooled.reward.value", 1.23456 + at), "pooled.judge.value", 0.1 * at)
        for at, each in enumerate(found)
    }


def written(folder: Path, found: Sequence[CandidateRecord]) -> Path:
    path = folder / "review.yaml"
    write_review(path, found, results(found))
    return path


def drop(path: Path, candidate: CandidateRecord) -> None:
    head, tail = path.read_text(encoding="utf-8").split(f'"{candidate.id}":', 1)
    path.write_text(f'{head}"{candidate.id}":{tail.replace("keep: true", "keep: false", 1)}', encoding="utf-8")


def test_everyone_is_kept_until_somebody_says_otherwise(tmp_path: Path) -> None:
    found = candidates()
    assert reviewed(tmp_path / "review.yaml", found) is None  # nobody was asked
    path = written(tmp_path, found)
    text = path.read_text(encoding="utf-8")
    assert text.startswith("# ") and "keep: false" in text and "used once" in text
    content = yaml.safe_load(text)
    assert list(content) == [one.id for one in found]
    assert content[found[0].id] == {"attribute": WORDS[0], "reward": 1.2346, "judge": 0.0, "keep": True}
    assert reviewed(path, found) == found and reviewed(path, []) is None
    drop(path, found[1])
    drop(path, found[3])
    assert reviewed(path, found) == [found[0], found[2], found[4]]
    assert reviewed(path, found[::-1]) == [found[4], found[2], found[0]]  # in the order asked for
    for one in (found[0], found[2], found[4]):
        drop(path, one)
    assert reviewed(path, found) == []


@pytest.mark.parametrize("name", ["12345678901234e5", "1234567890123456", "0123456701234567", "0x12345678901234"])
def test_an_id_that_looks_like_a_number_stays_an_id(name: str, tmp_path: Path) -> None:
    found = [candidates(["Ends with a question"])[0].model_copy(update={"id": name})]
    path = written(tmp_path, found)
    assert reviewed(path, found) == found
    drop(path, found[0])
    assert reviewed(path, found) == []


def test_a_review_of_other_candidates_is_an_error(tmp_path: Path) -> None:
    found = candidates()
    path = written(tmp_path, found)
    other = candidates(["Another one"])
    # Another validation, one that fewer passed, and one that some others passed.
    for now, n in ((other, 5), (found[:2], 3), ([*found[1:], *other], 1)):
        said = rf"{n} of 5 entries, .* are not among the {len(now)} .*Delete it, and start"
        with pytest.raises(DataError, match=said):
            reviewed(path, now)


def test_a_deleted_entry_is_no_consent(tmp_path: Path) -> None:
    found = candidates()
    path = written(tmp_path, found)
    content = yaml.safe_load(path.read_text(encoding="utf-8"))
    del content[found[1].id]
    path.write_text(yaml.safe_dump(content), encoding="utf-8")
    with pytest.raises(DataError, match=r"review\.yaml: no entry for 1 of 5 candidates, such as 'Ends with: a"):
        reviewed(path, found)
    path.write_text("# all gone\n", encoding="utf-8")
    with pytest.raises(DataError, match="no entry for 5 of 5"):
        reviewed(path, found)


@pytest.mark.parametrize("entry", ["keep: nope", "keep: no", "keep:", "attribute: x", "[]"])
def test_what_is_neither_yes_nor_no_is_an_error(entry: str, tmp_path: Path) -> None:
    found = candidates(["Ends with a question"])
    path = written(tmp_path, found)
    path.write_text(f'"{found[0].id}":\n  {entry}\n', encoding="utf-8")
    with pytest.raises(DataError, match=rf"{found[0].id}: `keep: true` or `keep: false` is missing"):
        reviewed(path, found)
    path.write_text(f'"{found[0].id}":\n  keep: [true\n', encoding="utf-8")
    with pytest.raises(RecipeError, match=r"review\.yaml:3"):
        reviewed(path, found)


def test_hostile_words_are_inert_in_the_file(tmp_path: Path) -> None:
    hostile = 'Ends\x1b[31m with \u202e\u2028```|<script>\ud800\n"x": {keep: false}'
    bias = attribute_bias("Ends with a question").model_copy(update={"description": hostile})
    found = [CandidateRecord.of(bias), *candidates(["Another one"])]
    path = written(tmp_path, found)
    text = path.read_text(encoding="utf-8")
    assert not [char for char in text if (ord(char) < 32 and char != "\n") or char in "\u202e\u2028"]
    assert reviewed(path, found) == found
    drop(path, found[0])
    assert reviewed(path, found) == found[1:]
