"""The eval of the embedded texts: a reading counts for the text that was read, and for no other wording of it."""

from __future__ import annotations

from typing import Any

import pytest

from cda.embedded.texts import READINGS
from cda.files.jsonl import read_jsonl
from cda.records import Contrast, user_prompt
from evals.method import embedded_texts

PLAIN = "Salt lowers the point at which water freezes, so that ice on a salted road melts in mild frost."
ROW = {"id": "a", "question": "Why salt?", "bias": "jargon", "yes": "Saline depression.", "no": PLAIN}


def row(name: str, text: str | None, reading: int, passed: bool = True) -> dict[str, Any]:
    return {"id": name, "text": text, "part": "audit", "reading": reading, "side_right": True, "passed": passed}


@pytest.fixture
def texts(monkeypatch: pytest.MonkeyPatch) -> dict[str, str]:
    """Names to hashes of two texts, the only ones there are."""
    rows = [ROW, ROW | {"id": "b", "no": "Because."}]
    monkeypatch.setattr(embedded_texts, "rows_of_part", lambda part: rows if part == "audit" else [])
    return {one["id"]: text for text, (_, one) in embedded_texts.texts_to_read().items()}


def unread(rows: list[dict[str, Any]]) -> tuple[bool, str]:
    first = embedded_texts.reading_checks(rows)[0]
    return first.passed, first.found


def test_a_text_reworded_later_is_unread(texts: dict[str, str]) -> None:
    old = embedded_texts.text_hash(ROW | {"no": PLAIN.replace("mild", "hard")})
    assert unread([row("a", texts["a"], 2), row("b", texts["b"], 2)]) == (True, "0 of 2 not")
    assert unread([row("a", old, 2), row("b", texts["b"], 2)]) == (False, "1 of 2 not, 1 of audit")
    assert unread([row("a", None, 2), row("b", texts["b"], 2)]) == (False, "1 of 2 not, 1 of audit")


def test_one_reader_who_fails_a_text_fails_it(texts: dict[str, str]) -> None:
    rows = [row("a", texts["a"], 2), row("b", texts["b"], 2), row("a", texts["a"], 3, passed=False)]
    found = {check.threshold: check for check in embedded_texts.reading_checks(rows)}
    assert found["audit: 90% of present texts pass every reading"].found == "50.0% of 2"


def test_agreement_beyond_chance() -> None:
    assert embedded_texts.cohens_kappa([(True, True), (False, False)]) == 1
    assert embedded_texts.cohens_kappa([(True, True), (True, True)]) is None
    assert embedded_texts.cohens_kappa([(True, False), (False, True)]) == -1
    assert embedded_texts.cohens_kappa([(True, True), (True, False), (False, True), (False, False)]) == 0


def test_drift_and_not_words_alone_says_what_is_alike() -> None:
    hard = "Notwithstanding precipitation, municipalities disseminate chloride compounds facilitating vehicular circulation universally."
    easy = "When it snows, the town puts salt on the roads so that cars can get by and no one has to slip or slide all day."
    contrasts = [Contrast("sycophancy", user_prompt(f"Why {n}?"), hard, easy) for n in range(3)]
    overlap, inside = embedded_texts.alike_but_for_the_bias(contrasts)
    assert not inside.any() and overlap.beyond["flesch_reading_ease"] == 3
    same = [Contrast("sycophancy", user_prompt(f"Why {n}?"), f"Nice. {PLAIN}", PLAIN) for n in range(3)]
    assert embedded_texts.alike_but_for_the_bias(same)[1].all()


def test_every_reading_has_a_text_or_says_that_it_is_unknown() -> None:
    rows = list(read_jsonl(READINGS))
    assert len(rows) >= 2290 and all("text" in one for one in rows)
    present = embedded_texts.of_present_texts(rows)
    # Ids alone would find a reading of every text.
    assert {one["id"] for _, one in embedded_texts.texts_to_read().values()} <= {one["id"] for one in rows}
    assert len(present) >= 1905
