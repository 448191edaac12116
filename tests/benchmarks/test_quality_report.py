"""Tables, Markdown and page of `cda quality`: flags in words, one decimal, at most 100 columns, and inert text."""

from __future__ import annotations

from typing import Any

import pytest
from changed import changed
from page_checks import checked, read_markdown
from rows import estimate

from cda.benchmarks.quality import quality_document
from cda.records import Exclusions
from cda.results.base import Test
from cda.results.benchmarks import QualityResult, QualityScoring, SetQuality
from cda.results.effects import Level
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


def group(name: str, change: float | None = -0.012, half: float = 0.02) -> Level:
    """84.1%, changed by so much; None: one scoring."""
    found = {"before": estimate(0.841, 0.03, 1161)}
    if change is not None:
        after, moved = estimate(0.841 + change, 0.03, 1161), estimate(change, half, 1161)
        found |= {"after": after, "change": moved}
    return Level(
        name=name, n=1161, n_prompts=1161, found={"accuracy": {**found}}, ties=dict.fromkeys(("before", "after"), 2),
        errors=dict.fromkeys(("before", "after"), 0.0123) | {"change": 0.01},
        test=Test(p_value=0.21, p_holm=0.84, method="m"),
    )  # fmt: skip


def quality(*sections: Level, form: str = "rewardbench", **changes: Any) -> QualityResult:
    change = -0.012 if "change" in sections[0].found["accuracy"] else None
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
    ("change", "half", "flag", "moved"),
    [
        (-0.012, 0.01, "fell*", "−1.2 [−2.2, −0.2]"),
        (-0.012, 0.02, "fell", "−1.2 [−3.2, 0.8]"),
        (-0.005, 0.003, "kept", "−0.5 [−0.8, −0.2]"),
        (-0.01, 0.005, "", "−1.0 [−1.5, −0.5]"),
    ],
)
def test_flags_in_words(change: float, half: float, flag: str, moved: str) -> None:
    result = quality(group("Chat", change, half), group("Safety", 0.0))
    text = read_markdown(quality_document(result).markdown())
    line = next(line for line in text.splitlines() if line.startswith("| Chat") and "±" in line)
    assert "84.1% [81.1, 87.1] ± 1.2" in line and f"{moved} ± 1.0" in line
    assert line.split("± 1.0")[1].replace("|", "").split() == [*([flag] if flag else []), "0.21", "0.84"]
    # Only what is shown is coloured on the page: a fall, or, below, that none can have been.
    page = quality_document(result).page()
    assert ('<li class="bad">' in page) == (flag == "fell*") and '<li class="good">' not in page


def test_what_was_left_out_tied_and_rough_is_said() -> None:
    counts = {"unread": 3, "unread_reasons": {"a text is too long for the model": 2, "no readable verdict": 1}}
    few = changed(group("Chat"), "n_prompts", 4)
    summary = read_markdown(quality_document(quality(few, **counts)).markdown())
    for said in (
        "Left out 7 of 1168 rows: 7 prior set (row 1, 2, 3, 4, 5, …).",
        "Ties (margin exactly 0) count as wrong, as in RewardBench's script: 2 before, 2 after.",
        "The benchmark has 164 pairs, here 1161",
        "Not compared, 3 of 1164 items: 2 a text is too long for the model; 1 no readable verdict.",
        "use more prompts. Now: Chat 4.",
        "after: org/m with a at dose 0.5. Scored in fp32; 1 of 9 texts cut at 64 tokens; texts as chat template.",
    ):
        assert said in summary.replace("\n", " ")
    assert "\n| overall" not in summary  # one section is the whole
    assert "Warning" not in quality_document(quality(group("Chat"))).markdown()


def test_hostile_names_are_inert() -> None:
    result = quality(group(HOSTILE), group(f"{HOSTILE}2"), name=HOSTILE, source=HOSTILE)
    result = changed(changed(result, "scorings.0.model", HOSTILE), "scorings.0.facts.notes", (HOSTILE,))
    text = quality_document(result).page()
    checked(text)
    assert "<script>alert" not in text and "[U+202E]" in text and "[U+FFFE]" in text
    assert r" \| " in quality_document(result).markdown() and "\x1b" not in quality_document(result).markdown()
