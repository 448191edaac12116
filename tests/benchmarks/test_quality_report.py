"""Tables, Markdown and page of `cda quality`: flags in words, one decimal, at most 100 columns, and inert text."""

from __future__ import annotations

from typing import Any

import pytest
from changed import changed
from page_checks import checked
from rows import estimate

from cda.benchmarks.quality_report import quality_document
from cda.records import Exclusions
from cda.results.benchmarks import Accuracy, AccuracyGroup, AccuracyShift, QualityResult, QualityScoring, SetQuality
from cda.results.facts import RewardModelFacts

FACTS = RewardModelFacts(
    kind="reward model",
    name="org/m",
    precision="fp32",
    form="chat template",
    max_length_tokens=64,
    texts=9,
    truncated=1,
)
HOSTILE = 'a<script>alert(1)</script>\x1b[31mred\u202eb\ud800\ufffe | "&'


def group(name: str, change: float | None = -0.012, **flags: bool) -> AccuracyGroup:
    """84.1%, changed by so much; None: one scoring."""
    found = {"fell": (change or 0) < -0.01, "excludes_0": False, "rules_out_fall": False} | flags
    values = {"before": 0.841} if change is None else {"before": 0.841, "after": 0.841 + change}
    moved = estimate(change or 0, 0.02, 1161)
    shift = AccuracyShift(estimate=moved, standard_error=0.01, p_value=0.21, p_holm=0.84, p_method="m", **found)
    scores = {
        label: Accuracy(estimate=estimate(value, 0.03, 1161), standard_error=0.0123, n_ties=2)
        for label, value in values.items()
    }
    return AccuracyGroup(name=name, scores=scores, shift=None if change is None else shift)


def cells(change: float | None = -0.012) -> tuple[AccuracyGroup, ...]:
    return tuple(group(f"{i} over {j}", change) for i in (1, 2, 3) for j in (1, 2, 3))


def quality(*sections: AccuracyGroup, form: str = "rewardbench", **changes: Any) -> QualityResult:
    change = None if sections[0].shift is None else -0.012
    scorings = [
        QualityScoring(
            label=label, model="org/m", unit="reward", adapter=adapter, adapter_content=None, dose=dose, facts=FACTS,
            target="org/m", target_kind="classifier", revision=None,
        )
        for label, adapter, dose in (("before", None, None), ("after", "a", 0.5))
    ]  # fmt: skip
    found = SetQuality(
        name="rb", source="rb.jsonl", format=form, n_items=1161, unread=0, unread_reasons={}, cells=(),
        exclusions=Exclusions(1168, {"prior set": 7}), left_out_rows={"prior set": (1, 2, 3, 4, 5)},
        n_expected={"hep-go": 164}, overall=group("overall", change), sections=sections, subsets=(group("hep-go", change),),
    )  # fmt: skip
    return QualityResult(
        scorings=tuple(scorings[: 1 if change is None else 2]), n_tests=len(sections), seed=42, files={"rb": "1"},
        sets=(found.model_copy(update=changes),), versions={"cda": "0.1.0"},
    )  # fmt: skip


@pytest.mark.parametrize(
    ("shift", "flag", "bad"),
    [
        ({"fell": True, "excludes_0": True}, "fell*", True),
        ({"fell": True}, "fell", False),
        ({"fell": False, "rules_out_fall": True}, "kept", False),
        ({"fell": False, "excludes_0": True}, "", False),
    ],
)
def test_flags_in_words(shift: dict[str, bool], flag: str, bad: bool) -> None:
    result = quality(group("Chat", **shift), group("Safety", 0.0))
    line = next(line for line in quality_document(result).text().splitlines() if line.startswith("Chat"))
    assert "84.1% [81.1, 87.1] ± 1.2  82.9% [79.9, 85.9] ± 1.2" in line and "−1.2 [−3.2, 0.8] ± 1.0" in line
    assert line.split("± 1.0")[1].split() == [*([flag] if flag else []), "0.21", "0.84"]
    # Only what is shown is coloured on the page: a fall, or, below, that none can have been.
    page = quality_document(result).page()
    assert ('<li class="bad">' in page) == bad and '<li class="good">' not in page


def test_what_was_left_out_tied_and_rough_is_said() -> None:
    counts = {"unread": 3, "unread_reasons": {"a text is too long for the model": 2, "no readable verdict": 1}}
    few = changed(group("Chat"), "scores.after.estimate.n_prompts", 4)
    summary = quality_document(quality(few, **counts)).text()
    for said in (
        "Left out 7 of 1168 rows: 7 prior set (row 1, 2, 3, 4, 5, …).",
        "Ties (margin exactly 0) count as wrong, as in RewardBench's script: 2 before, 2 after.",
        "The benchmark has 164 pairs, here 1161",
        "Not compared, 3 of 1164 items: 2 a text is too long for the model; 1 no readable verdict.",
        "use more prompts. Now: Chat 4.",
        "after: org/m with a at dose 0.5. Scored in fp32; 1 of 9 texts cut at 64 tokens; texts as chat template.",
    ):
        assert said in summary.replace("\n", " ")
    assert "\noverall" not in summary  # one section is the whole
    assert "Warning" not in quality_document(quality(group("Chat"))).text()


def test_hostile_names_are_inert() -> None:
    result = quality(group(HOSTILE, fell=True), group(f"{HOSTILE}2"), name=HOSTILE, source=HOSTILE)
    result = changed(changed(result, "scorings.0.model", HOSTILE), "scorings.0.facts.notes", (HOSTILE,))
    text = quality_document(result).page()
    checked(text)
    assert "<script>alert" not in text and "[U+202E]" in text and "[U+FFFE]" in text
    assert r" \| " in quality_document(result).markdown() and "\x1b" not in quality_document(result).markdown()
