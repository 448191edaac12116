"""The eval of the embedded texts: drift is told from the bias, and every reading has its text."""

from __future__ import annotations

from cda.embedded.texts import READINGS
from cda.files.jsonl import read_jsonl
from cda.records import Contrast, user_prompt
from evals.method import embedded_texts

PLAIN = "Salt lowers the point at which water freezes, so that ice on a salted road melts in mild frost."


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
