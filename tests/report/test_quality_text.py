"""The quality tables: flags in words, one decimal, at most 100 columns, and nothing a terminal or Markdown would obey."""

from __future__ import annotations

from typing import Any

import pytest
from changed import changed

from cda.benchmarks.quality_report import quality_markdown, quality_summary, rewardbench_files
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
    ("shift", "flag"),
    [
        ({"fell": True, "excludes_0": True}, "fell*"),
        ({"fell": True}, "fell"),
        ({"fell": False, "rules_out_fall": True}, "kept"),
        ({"fell": False, "excludes_0": True}, ""),
    ],
)
def test_flags_in_words(shift: dict[str, Any], flag: str) -> None:
    text = quality_summary(quality(group("Chat", **shift), group("Safety", 0.0)))
    line = row_of(text, "Chat")
    assert line.split()[:2] == ["Chat", "1161"] and "84.1±1.2 [81, 87]  82.9±1.2 [80, 86]" in line
    assert "−1.2 [−3.2, 0.8]" in line and line.endswith("0.840")
    assert line.split("0.8]")[1].split("0.840")[0].strip() == flag
    assert "overall" in text


def test_sections_of_few_prompts_are_warned_of() -> None:
    few = changed(group("Chat"), "scores.after.estimate.n_prompts", 4)
    assert "use more prompts. Now: Chat 4." in quality_summary(quality(few, group("Safety")))
    assert "Warning" not in quality_summary(quality(group("Chat"), group("Safety")))


def test_what_was_left_out_and_tied_is_said() -> None:
    text = quality_summary(quality(group("Chat")))
    assert "Left out 7 of 1168 rows: 7 prior set (row 1, 2, 3, 4, 5, …)." in text
    assert "Ties (margin exactly 0) count as wrong, as in RewardBench's script: 2 before, 2 after." in text
    assert "The benchmark has 164 pairs, here 1161" in text
    assert "after: org/m with a at dose 0.5, fp32" in text.replace("\n", " ")
    assert "\noverall" not in text  # one section is the whole


def test_always_fits_and_never_obeys() -> None:
    worst = group("\x1b[31m" + "named " * 20, -1.0, fell=True, excludes_0=True)
    worst = changed(worst, "scores", {label: score(1.0) for label in ("before", "after")})
    worst = changed(worst, "shift.estimate", _estimate(-0.95, 0.05, 1161, 1160))
    text = quality_summary(quality(worst, worst, name="\x1b]0;x\x07" + "file" * 40))
    assert "\x1b" not in text and all(len(line) <= 100 for line in text.splitlines())
    assert "fell*" in text


def test_markdown_holds_intervals_errors_and_matrix() -> None:
    cells = tuple(group(f"{i} over {j}") for i in (1, 2, 3) for j in (1, 2, 3))
    text = quality_markdown(quality(group("hard | normal"), form="rm-bench", cells=cells))
    line = row_of(text, "hard")
    assert (
        line.startswith(r"| hard \| normal | 84.1% \[81.1, 87.1\] ± 1.2 |") and "1161 (1160 prompts) | 2 / 2 |" in line
    )
    assert text.count("Style matrix") == 2
    assert "chosen detailed, Markdown" in text


def test_one_model_has_no_change_column() -> None:
    result = alone(quality(group("Chat")))
    text = quality_summary(result) + quality_markdown(result)
    assert "change" not in text and "accuracy" in text


def test_a_judge_without_single_scores_has_no_score_files() -> None:
    rows = [{"set": "rb", "used": True, "before": {"margins": [1.0]}, "after": {"margins": [1.0]}}]
    assert rewardbench_files(quality(group("Chat")), rows) == {}


def judged(**facts: Any) -> QualityResult:
    own: dict[str, Any] = {"position_bias": -0.5, "reasons": {"no verdict in the last line": 5}, **facts}
    judge = JudgeFacts(kind="judge", name="j", comparisons=9, unread=2, half_read=1, flipped=4, **own)
    found = quality(group("Chat"))
    first = found.scorings[0].model_copy(update={"facts": judge, "unit": "preference"})
    return changed(found, "scorings.0", first)  # type: ignore[no-any-return]


def test_a_judge_is_shown_with_what_swayed_it() -> None:
    for text in (quality_summary(judged()).replace("\n", " "), quality_markdown(judged())):
        assert "9 comparisons, each in both orders: 2 without a verdict, 1 with one in one order only" in text
        assert (
            "4 followed the place; first place minus second: −0.50; answers that could not be read: 5 × no verdict"
            in text
        )
    text = quality_markdown(judged(position_bias=None, reasons={}))
    assert "4 followed the place." in text


def test_what_was_noticed_about_the_model_is_said() -> None:
    found = changed(quality(group("Chat")), "scorings.0.facts.notes", ("no self-check: \x1b[31m weights",))
    for text in (quality_summary(found), quality_markdown(found)):
        assert "before: no self-check" in text and "\x1b" not in text


def test_why_items_were_not_compared() -> None:
    found = quality(
        group("Chat"), unread=3, unread_reasons={"a text is too long for the model": 2, "no readable verdict": 1}
    )
    assert (
        "Not compared, 3 of 1164 items: 2 a text is too long for the model; 1 no readable verdict."
        in quality_summary(found)
    )
    assert "Not compared, 3 of 1164 items" in quality_markdown(found)
