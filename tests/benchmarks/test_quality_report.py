"""Tables, Markdown and page of `cda quality`: flags in words, one decimal, at most 100 columns, and inert text."""

from __future__ import annotations

import re
from typing import Any

import pytest
from changed import changed
from page_checks import checked, figures, section_ids, words

from cda.benchmarks.quality_report import (
    quality_markdown,
    quality_page,
    quality_page_plots,
    quality_summary,
    rewardbench_files,
)
from cda.records import Exclusions
from cda.results.base import Estimate
from cda.results.benchmarks import Accuracy, AccuracyGroup, AccuracyShift, QualityResult, QualityScoring, SetQuality
from cda.results.facts import JudgeFacts, RewardModelFacts


def _estimate(value: float, half: float, n: int, n_prompts: int) -> Estimate:
    return Estimate(
        value=value, low=value - half, high=value + half, n=n, n_prompts=n_prompts, unit="share", method="m"
    )


def score(value: float, n: int = 1161) -> Accuracy:
    return Accuracy(estimate=_estimate(value, 0.03, n, n - 1), standard_error=0.0123, n_ties=2)


def group(name: str, change: float = -0.012, **shift: Any) -> AccuracyGroup:
    found: dict[str, Any] = {"fell": change < -0.01, "excludes_0": False, "rules_out_fall": False, **shift}
    return AccuracyGroup(
        name=name,
        scores={"before": score(0.841), "after": score(0.841 + change)},
        shift=AccuracyShift(
            estimate=_estimate(change, 0.02, 1161, 1160),
            standard_error=0.01,
            p_value=0.21,
            p_holm=0.84,
            p_method="m",
            **found,
        ),
    )


def alone(result: QualityResult) -> QualityResult:
    """The same of one model."""

    def one_model(one: AccuracyGroup) -> AccuracyGroup:
        return AccuracyGroup(name=one.name, scores={"before": score(0.841)}, shift=None)

    (one,) = result.sets
    each = {name: tuple(map(one_model, getattr(one, name))) for name in ("sections", "subsets", "cells")}
    made = one.model_copy(update={"overall": one_model(one.overall), **each})
    return result.model_copy(update={"scorings": result.scorings[:1], "sets": (made,)})


FACTS = RewardModelFacts(
    kind="reward model",
    name="org/m",
    precision="fp32",
    form="chat template",
    max_length_tokens=64,
    texts=9,
    truncated=1,
)
CELLS = tuple(group(f"{i} over {j}") for i in (1, 2, 3) for j in (1, 2, 3))
HOSTILE = 'a<script>alert(1)</script>\x1b[31mred\u202eb\ud800\ufffe | "&'


def quality(*sections: AccuracyGroup, form: str = "rewardbench", **changes: Any) -> QualityResult:
    before = QualityScoring(
        label="before", model="org/m", unit="reward", adapter=None, adapter_content=None, dose=None, facts=FACTS, target="org/m",
        target_kind="classifier", revision=None,
    )  # fmt: skip
    one = SetQuality(
        name="rb", source="rb.jsonl", format=form, n_items=1161, unread=0, unread_reasons={}, cells=(),
        exclusions=Exclusions(1168, {"prior set": 7}), left_out_rows={"prior set": (1, 2, 3, 4, 5)},
        n_expected={"hep-go": 164}, overall=group("overall"), sections=sections, subsets=(group("hep-go"),),
    )  # fmt: skip
    return QualityResult(
        scorings=(before, before.model_copy(update={"label": "after", "adapter": "a", "dose": 0.5})),
        n_tests=len(sections), sets=(one.model_copy(update=changes),), seed=42, versions={"cda": "0.1.0"}, files={"rb": "1"},
    )  # fmt: skip


def row_of(text: str, name: str) -> str:
    return next(line for line in text.splitlines() if line.lstrip("| ").startswith(name))


@pytest.mark.parametrize(
    ("shift", "flag", "kind"),
    [
        ({"fell": True, "excludes_0": True}, "fell*", "bad"),
        ({"fell": True}, "fell", None),
        ({"fell": False, "rules_out_fall": True}, "kept", None),
        ({"fell": False, "excludes_0": True}, "", None),
    ],
)
def test_flags_in_words(shift: dict[str, Any], flag: str, kind: str | None) -> None:
    result = quality(group("Chat", **shift), group("Safety", 0.0))
    text = quality_summary(result)
    line = row_of(text, "Chat")
    assert line.split()[:2] == ["Chat", "1161"] and "84.1±1.2 [81, 87]  82.9±1.2 [80, 86]" in line
    assert "−1.2 [−3.2, 0.8]" in line and line.endswith("0.840")
    assert line.split("0.8]")[1].split("0.840")[0].strip() == flag
    assert "overall" in text
    # Only what is shown is coloured on the page: a fall, or, below, that none can have been.
    page = quality_page(result)
    assert ('<li class="bad">' in page) == (kind == "bad") and '<li class="good">' not in page


def test_only_a_fall_that_is_ruled_out_everywhere_is_good() -> None:
    assert '<li class="good">' in quality_page(quality(group("Chat", fell=False, rules_out_fall=True)))


def test_sections_of_few_prompts_are_warned_of() -> None:
    few = changed(group("Chat"), "scores.after.estimate.n_prompts", 4)
    assert "use more prompts. Now: Chat 4." in quality_summary(quality(few, group("Safety")))
    assert "Warning" not in quality_summary(quality(group("Chat"), group("Safety")))


def test_what_was_left_out_and_tied_is_said() -> None:
    counts = {"unread": 3, "unread_reasons": {"a text is too long for the model": 2, "no readable verdict": 1}}
    result = quality(group("Chat"), **counts)
    summary = quality_summary(result)
    assert "Left out 7 of 1168 rows: 7 prior set (row 1, 2, 3, 4, 5, …)." in summary
    assert "Ties (margin exactly 0) count as wrong, as in RewardBench's script: 2 before, 2 after." in summary
    assert "The benchmark has 164 pairs, here 1161" in summary
    assert "after: org/m with a at dose 0.5, fp32" in summary.replace("\n", " ")
    assert "\noverall" not in summary  # one section is the whole
    missing = "Not compared, 3 of 1164 items: 2 a text is too long for the model; 1 no readable verdict."
    assert missing in summary and "Not compared, 3 of 1164 items" in quality_markdown(result)
    page = words(quality_page(result))
    assert "Left out 7 of 1168 rows: 7 prior set" in page and "2 before, 2 after" in page


def test_always_fits_and_never_obeys() -> None:
    worst = group("\x1b[31m" + "named " * 20, -1.0, fell=True, excludes_0=True)
    worst = changed(worst, "scores", {label: score(1.0) for label in ("before", "after")})
    worst = changed(worst, "shift.estimate", _estimate(-0.95, 0.05, 1161, 1160))
    text = quality_summary(quality(worst, worst, name="\x1b]0;x\x07" + "file" * 40))
    assert "\x1b" not in text and all(len(line) <= 100 for line in text.splitlines())
    assert "fell*" in text


def test_markdown_holds_intervals_errors_and_matrix() -> None:
    text = quality_markdown(quality(group("hard | normal"), form="rm-bench", cells=CELLS))
    line = row_of(text, "hard")
    assert (
        line.startswith(r"| hard \| normal | 84.1% \[81.1, 87.1\] ± 1.2 |") and "1161 (1160 prompts) | 2 / 2 |" in line
    )
    assert text.count("Style matrix") == 2
    assert "chosen detailed, Markdown" in text


def test_one_model_has_no_change() -> None:
    result = alone(quality(group("Chat"), cells=CELLS, form="rm-bench"))
    text = quality_summary(result) + quality_markdown(result)
    assert "change" not in text and "accuracy" in text
    page = quality_page(result)
    assert figures(checked(page)) == ["accuracy-1", "styles-1-1"]
    assert "rb: accuracy 84.1% [81.1, 87.1] (n = 1161" in words(page)
    assert "change" not in words(page).split("How it was scored")[1]


def test_a_judge_without_single_scores_has_no_score_files() -> None:
    rows = [{"set": "rb", "used": True, "before": {"margins": [1.0]}, "after": {"margins": [1.0]}}]
    assert rewardbench_files(quality(group("Chat")), rows) == {}


def test_a_judge_is_shown_with_what_swayed_it() -> None:
    judge = JudgeFacts(
        kind="judge", name="j", comparisons=9, unread=2, half_read=1, flipped=4, position_bias=-0.5,
        reasons={"no verdict in the last line": 5},
    )  # fmt: skip
    result = changed(quality(group("Chat")), "scorings.0.facts", judge)
    swayed = "4 followed the place; first place minus second: −0.50; answers that could not be read: 5 × no verdict"
    for text in (quality_summary(result).replace("\n", " "), quality_markdown(result)):
        assert "9 comparisons, each in both orders: 2 without a verdict, 1 with one in one order only" in text
        assert swayed in text
    quiet = judge.model_copy(update={"position_bias": None, "reasons": {}})
    assert "4 followed the place." in quality_markdown(changed(result, "scorings.0.facts", quiet))


def test_what_was_noticed_about_the_model_is_said() -> None:
    result = changed(quality(group("Chat")), "scorings.0.facts.notes", ("no self-check: \x1b[31m weights",))
    for text in (quality_summary(result), quality_markdown(result)):
        assert "before: no self-check" in text and "\x1b" not in text


def test_the_page_holds_change_n_and_what_fell() -> None:
    result = quality(group("Chat", fell=True, excludes_0=True), group("Hard", -0.03, fell=True), group("Safety", 0.0))
    text = quality_page(result)
    first = words(text.split("<nav")[0])
    assert "rb: accuracy 84.1% [81.1, 87.1] before, 82.9% [79.9, 85.9] after; change −1.2 [−3.2, 0.8] points" in first
    assert "(n = 1161 (1160 prompts))" in first
    assert "Fell by more than 1 point: Chat −1.2 [−3.2, 0.8]*, Hard −3.0 [−5.0, −1.0] (*: and" in first
    assert text.count('<li class="bad">') == 1
    assert section_ids(checked(text)) == ["set-1", "scoring", "meaning"]


def test_figures_mark_what_fell_and_say_their_numbers() -> None:
    result = quality(group("Chat", fell=True, excludes_0=True), group("Safety", 0.0), form="rm-bench", cells=CELLS)
    result = changed(result, "sets", (*result.sets, changed(changed(result.sets[0], "name", "other"), "cells", ())))
    text, plots = quality_page(result), quality_page_plots(result)
    names = ["accuracy-1", "change-1", "styles-1-1", "styles-1-2", "accuracy-2", "change-2"]
    assert figures(checked(text)) == [plot.id for plot in plots] == names
    accuracy, change, styles, *_ = plots
    assert accuracy.description.startswith("Chat: 84% [81, 87] before, 83% [80, 86] after. Safety: ")
    assert change.description.startswith("Chat: −1.2 [−3.2, 0.8] fell*. Safety: 0.0 [−2.0, 2.0]")
    assert "style 1 over 2: 84% [81, 87]." in styles.description
    svg = text.split("</svg>")[0]
    assert "Chat (fell*)" in svg and ">Safety<" in svg


def test_hostile_names_are_inert() -> None:
    result = quality(group(HOSTILE, fell=True), group(f"{HOSTILE}2"), name=HOSTILE, source=HOSTILE)
    result = changed(changed(result, "scorings.0.model", HOSTILE), "scorings.0.facts.notes", (HOSTILE,))
    text = quality_page(result)
    checked(text)
    assert "<script>alert" not in text and "[U+202E]" in text and re.search(r"\[U\+FFFE\]", text)
