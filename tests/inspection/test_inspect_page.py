"""The page and the text of `cda inspect`: inert, complete, and no wider than a terminal."""

from __future__ import annotations

import re
from typing import Any

import pytest
from changed import changed
from rows import estimate

from cda.inspection.tables import flipped_share_cell, gate_sentence, inspect_document, rewrites_table
from cda.report.next_step import after_inspection, inspection_conclusion
from cda.results.base import Missing
from cda.results.effects import FeatureDrift
from cda.results.inspect import InspectedBias, InspectResult, LostRewrites, PhraseAdded, RewriteShown, RewriteSummary

HOSTILE = 'a<script>alert(1)</script><img src=x onerror=alert(2)>\x1b[31mred\x1b]8;;http://evil.example\x07\u202egnp.exe\ud800 `| "&'
WIDE = "日本語の長い文章が続く場合も" * 9


def _feature(name: str, is_treatment: bool = False) -> FeatureDrift:
    return FeatureDrift(
        feature=name, is_treatment=is_treatment, perturbed_mean=12.0, base_mean=10.0, difference=estimate(2.0, n=40),
        standardised=estimate(0.5, n=40), median_ratio=1.2, beyond=None if is_treatment else estimate(0.3, n=40), limit=None,
    )  # fmt: skip


def _example(**changes: Any) -> RewriteShown:
    return RewriteShown.model_validate({
        "bias": "jargon", "source": "made now", "direction": "add", "prompt": "How?", "original": "Use a pan.",
        "rewrite": "Utilize a pan.", "failed": None, "rejected": [], "noticed": [], "rewards": [1.0, 2.5], "difference": 1.5,
        "label": {"before": False, "after": True, "by": "measured long_word_share", "flipped": True}, "distance": 1.0,
        "drift": [{"feature": "words", "before": 3.0, "after": 4.0, "is_treatment": False, "beyond": True}], **changes,
    })  # fmt: skip


@pytest.fixture
def inspection() -> InspectResult:
    return InspectResult(
        target="jargon", where="embedded answers", by="rules", scored_by="embedded", unit="reward", notes=("A note.",),
        worst=None, seed=42,
        biases=(InspectedBias(name="jargon", description="Long words.", add="Add them.", remove="Remove them."),),
        summaries=(RewriteSummary(
            bias="jargon", direction="add", n=40, n_prompts=40, available=90, n_written=38, sources={"made now": 40},
            labelled_by={"measured long_word_share": 38}, flipped=estimate(0.7, n=38), had_it_before=2,
            failed=estimate(0.2, n=40), failed_reasons={"refusal": 3, "unchanged": 5},
            lost=(LostRewrites(source="training pairs", tried=50, reasons={"refusal": 4}),), rejected=estimate(0.1, n=40),
            rejected_reasons={"word count beyond the limit": 4}, noticed={"drift in words": 7},
            reward=estimate(1.5, n=40, unit="reward"), n_without_reward=0, drift=(_feature("words"), _feature("long_word_share", True)),
            phrases=(PhraseAdded(words="in the event that", share=estimate(0.4, n=40)),),
        ),),
        examples=(
            _example(),
            _example(failed="refusal", rewrite="I cannot.", rejected=["refusal", "word count beyond the limit"]),
            _example(failed="too few places to change", rewrite=None, drift=[], rewards=None, difference=None,
                     label={"before": None, "after": None, "by": None, "flipped": None}),
        ),
    )  # fmt: skip


@pytest.fixture
def hostile(inspection: InspectResult) -> InspectResult:
    found = inspection.model_copy(update={"where": HOSTILE, "by": HOSTILE, "scored_by": HOSTILE})
    found = changed(found, "biases.0.add", HOSTILE)
    found = changed(found, "summaries.0.phrases.0.words", HOSTILE)
    found = changed(found, "summaries.0.failed_reasons", {HOSTILE: 8})
    more = (
        _example(prompt=HOSTILE, original=HOSTILE, rewrite=f"{HOSTILE}\n\n- {WIDE}", failed=HOSTILE, source=HOSTILE),
        _example(prompt=WIDE, original=WIDE * 20, rewrite="x" * 700, rejected=[WIDE]),
    )
    return changed(found, "examples", (*found.examples, *more))


def test_the_end_says_how_many_rewards_changed_and_what_follows(inspection: InspectResult) -> None:
    assert inspection_conclusion(inspection) == "The reward changed in 2 of 2 rewrites shown: 2 up, 0 down."
    assert after_inspection(inspection).words == ("train", "jargon")
    own = inspection.model_copy(update={"scored_by": "mine.py:lists"})
    assert after_inspection(own).words == ("audit", "mine.py:lists", "--bias", "jargon")
    none = own.model_copy(update={"examples": (_example(rewards=[0.0, 0.0], difference=0.0),)})
    assert inspection_conclusion(none) == "The reward changed in 0 of 1 rewrite shown: 0 up, 0 down."
    assert (
        after_inspection(none).why.startswith("mine.py:lists does not look at jargon")
        and not after_inspection(none).words
    )


def test_what_cannot_be_known_is_told_apart(inspection: InspectResult) -> None:
    missing = Missing(reason="none")
    table = rewrites_table(changed(inspection, "summaries.0.rejected", missing))
    assert table.rows[0][4] == "none was accepted"
    summary = changed(inspection.summaries[0], "flipped", missing)
    assert flipped_share_cell(summary).startswith("not known")
    assert flipped_share_cell(changed(summary, "n_written", 0)) == "no text was written"


def test_what_the_gate_says(inspection: InspectResult) -> None:
    passed, failed, empty = map(gate_sentence, inspection.examples)
    assert (passed, failed) == ("the gate passes it", "failed: refusal; also word count beyond the limit")
    assert empty == "failed: too few places to change; no text"
    accepted = gate_sentence(_example(rejected=["list lines changed"], noticed=["drift in words"]))
    assert accepted == "accepted, but the gate would reject it: list lines changed; counted only: drift in words"


def test_the_page_holds_everything_and_runs_nothing(hostile: InspectResult) -> None:
    page = inspect_document(hostile).page()
    assert page.count('<details class="example"') == 5
    assert "<script>alert" not in page and "<img" not in page and "\x1b" not in page and "[U+202E]" in page
    tags = re.findall(r"<[a-z][^>]*>", re.sub(r"<(script|style)>.*?</\1>", "", page, flags=re.S))
    assert tags and not [tag for tag in tags if re.search(r"\s(style|on\w+|src)=", tag)]
    page.encode("utf-8")
