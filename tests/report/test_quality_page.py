"""The page of `cda quality`: sets with change and flags first, figures with what they show in words, inert text."""

from __future__ import annotations

import re
from typing import Any

import pytest
from changed import changed
from page_checks import checked, figures, section_ids, words
from test_quality_text import alone, group, quality

from cda.benchmarks.quality_report import findings, quality_page, quality_page_plots, quality_plots

HOSTILE = 'a<script>alert(1)</script>\x1b[31mred\u202eb\ud800\ufffe | "&'
CELLS = tuple(group(f"{i} over {j}") for i in (1, 2, 3) for j in (1, 2, 3))


def test_the_first_screen_holds_change_n_and_what_fell() -> None:
    result = quality(group("Chat", fell=True, excludes_0=True), group("Hard", -0.03, fell=True), group("Safety", 0.0))
    text = quality_page(result)
    first = words(text.split("<nav")[0])
    assert "rb: accuracy 84.1% [81.1, 87.1] before, 82.9% [79.9, 85.9] after; change −1.2 [−3.2, 0.8] points" in first
    assert "(n = 1161 (1160 prompts))" in first
    assert "Fell by more than 1 point: Chat −1.2 [−3.2, 0.8]*, Hard −3.0 [−5.0, −1.0] (*: and" in first
    assert text.count('<li class="bad">') == 1
    assert section_ids(checked(text)) == ["set-1", "scoring", "meaning"]


@pytest.mark.parametrize(
    ("flags", "kind"),
    [
        ({"rules_out_fall": True}, "good"),
        ({}, "none"),
        ({"fell": True}, "none"),
        ({"fell": True, "excludes_0": True}, "bad"),
    ],
)
def test_only_what_is_shown_is_good_or_bad(flags: dict[str, Any], kind: str) -> None:
    result = quality(group("Chat", **{"fell": False, **flags}))
    (finding,) = findings(result)
    assert finding.kind == kind


def test_figures_mark_what_fell_and_say_their_numbers() -> None:
    result = quality(group("Chat", fell=True, excludes_0=True), group("Safety", 0.0), form="rm-bench", cells=CELLS)
    text = quality_page(result)
    assert figures(checked(text)) == ["accuracy-1", "change-1", "styles-1-1", "styles-1-2"]
    assert [one.id for one in quality_page_plots(result)] == figures(checked(text))  # what is written as files
    accuracy, change, styles, _ = quality_plots(result.sets[0], 1)
    assert accuracy.description.startswith("Chat: 84% [81, 87] before, 83% [80, 86] after. Safety: ")
    assert change.description.startswith("Chat: −1.2 [−3.2, 0.8] fell*. Safety: 0.0 [−2.0, 2.0]")
    assert "style 1 over 2: 84% [81, 87]." in styles.description
    svg = text.split("</svg>")[0]
    assert "Chat (fell*)" in svg and ">Safety<" in svg


def test_one_model_has_no_change() -> None:
    text = quality_page(alone(quality(group("Chat"), cells=CELLS, form="rm-bench")))
    assert figures(checked(text)) == ["accuracy-1", "styles-1-1"]
    assert (
        "rb: accuracy 84.1% [81.1, 87.1] (n = 1161" in words(text)
        and "change" not in words(text).split("How it was scored")[1]
    )


def test_what_was_left_out_stands_with_the_set() -> None:
    text = words(quality_page(quality(group("Chat"))))
    assert "Left out 7 of 1168 rows: 7 prior set" in text and "2 before, 2 after" in text


def test_hostile_names_are_inert() -> None:
    result = quality(group(HOSTILE, fell=True), group(f"{HOSTILE}2"), name=HOSTILE, source=HOSTILE)
    result = changed(changed(result, "scorings.0.model", HOSTILE), "scorings.0.facts.notes", (HOSTILE,))
    text = quality_page(result)
    checked(text)
    assert "<script>alert" not in text and "[U+202E]" in text and re.search(r"\[U\+FFFE\]", text)


def test_sets_keep_apart() -> None:
    result = quality(group("Chat"))
    result = changed(result, "sets", (*result.sets, changed(result.sets[0], "name", "other")))
    assert figures(checked(quality_page(result))) == ["accuracy-1", "change-1", "accuracy-2", "change-2"]
