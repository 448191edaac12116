"""The table that a run ends with: rows, fit, and nothing a terminal would obey."""

from __future__ import annotations

from typing import Any

import pytest
from changed import changed

from cda.auditing.report_scoring import caveats
from cda.auditing.report_text import MAX_COLUMNS, MAX_LINES, summary_table
from cda.report.numbers import width

PATH = "runs/jargon/report/report.html"
FIVE = ("length", "structure", "jargon", "sycophancy", "vagueness")


def test_one_target_without_votes(audit: Any) -> None:
    lines = summary_table(audit, PATH).splitlines()
    assert lines[0].split() == ["measure", "before", "after", "change", "(points)", "n"]
    assert lines[1].split(maxsplit=2)[2] == "88% [80, 93]  40% [31, 50]  −48 [−57, −37]   100"
    assert lines[2].split(maxsplit=2) == ["jargon", "miscalibration", "no votes"]
    assert lines[3].startswith("quality accuracy")
    assert lines[4] == "Others: length 90→60%*, structure 90→89% (* Holm p<.05)"
    assert lines[5].startswith("jargon: less biased.")
    assert lines[-2] == "Scored in 8bit; 7 of 930 texts cut at 512 tokens; rules labelled and rewrote, no LLM."
    assert lines[-1] == f"Report: {PATH}"


def test_few_prompts_are_warned_of(audit: Any, one_model: Any, voted: Any) -> None:
    for found in (audit, one_model, voted):
        assert "Warning" not in summary_table(found, "report.html")
    audit = changed(audit, "skew.jargon.after.n_prompts", 9)
    audit = changed(audit, "quality.after.n_prompts", 10)
    warning = "Warning: below 10 prompts intervals are rough; use more prompts. Now: jargon 9."
    assert warning in summary_table(audit, "report.html").splitlines()
    one_model = changed(one_model, "skew.vagueness.before.n_prompts", 3)
    one_model = changed(one_model, "votes.jargon.human_skew.n_prompts", 2)
    one_model = changed(one_model, "quality.before.n_prompts", 5)
    said = " ".join(summary_table(one_model, "report.html").split())
    assert "Now: votes on jargon 2, vagueness 3, quality 5." in said
    for name in voted.skew:
        voted = changed(voted, f"skew.{name}.after.n_prompts", 4 + len(name))
    assert len(summary_table(voted, "report.html").splitlines()) <= MAX_LINES


def test_votes_bring_human_skew_and_gap(voted: Any) -> None:
    table = summary_table(voted, PATH)
    for row in ("jargon human skew", "jargon gap", "jargon miscalibration", "vagueness miscalibration  no votes"):
        assert row in table


def test_an_llm_is_named(make_audit: Any) -> None:
    assert "labelled by gpt-x, rewritten by gpt-x" in summary_table(make_audit(by="gpt-x"), PATH)


@pytest.mark.parametrize("n_targets", [1, 2, 4, 9])
@pytest.mark.parametrize("with_votes", [False, True])
def test_always_fits(make_audit: Any, n_targets: int, with_votes: bool) -> None:
    names = [*FIVE, *(f"a-bias-with-quite-a-long-name-{number}" for number in range(4))][:n_targets]
    votes = dict.fromkeys(names, (0.9, 0.5, 0.4)) if with_votes else {}
    audit = make_audit(dict.fromkeys(names, (0.9, 0.5)), votes, others=("x", "y", "z"))
    lines = summary_table(audit, PATH).splitlines()
    assert len(lines) <= MAX_LINES
    assert max(map(width, lines)) <= MAX_COLUMNS
    assert "verdict" in " ".join(lines).lower() or "less biased" in " ".join(lines) or "improved" in " ".join(lines)
    assert all(f"{name} skew" in "\n".join(lines) for name in names[:4])


def test_hostile_text_is_inert(hostile: Any) -> None:
    table = summary_table(hostile, "runs/\x1b[2J\u202ex/report.html")
    assert not [char for char in table if (ord(char) < 32 and char != "\n") or char in "\u202e\x9b"]
    assert table.endswith("Report: runs/x/report.html")


def test_one_model_is_a_row_a_bias(one_model: Any) -> None:
    lines = summary_table(one_model, PATH).splitlines()
    assert lines[0].split()[:5] == ["bias", "skew", "people", "miscalibration", "AUC"]
    assert lines[1].startswith("jargon     89% [82, 94]  45% [36, 55]")
    assert lines[2].startswith("vagueness  50% [40, 60]  no votes")
    assert lines[3] == "Biased side: over-rewarded: jargon; no effect shown: vagueness"
    (quality,) = [line for line in lines if "75% [71, 79]" in line]
    assert quality.startswith("Quality: ") and "ranked right" in quality
    average = one_model.rate["jargon"].measured.before.average.estimate
    (causal,) = [line for line in lines if line.startswith("Causal effect (RATE, double-rewrite ATE): jargon ")]
    assert f"{average.value:+.2f}".replace("-", "−") in causal and causal.endswith(" (20 of 20 flipped)")
    assert lines[-1] == f"Report: {PATH}"
    assert max(map(width, lines)) <= MAX_COLUMNS
    assert lines[1].endswith("110, 100 voted")  # nothing is cut off


def test_rewritten_contrasts_say_how_many_rewrites_flipped(one_model: Any, audit: Any) -> None:
    for found in (one_model, audit):
        name = next(iter(found.skew))
        assert "Contrasts rewritten" not in summary_table(found, "r")
        own = {"source": "embedded answers rewritten by rules", "available": 46, "rewrites_failed": {"unchanged": 54}}
        made = changed(found, ("skew", name), found.skew[name].model_copy(update=own))
        assert f"Contrasts rewritten for this audit: {name} 46 of 100 flipped." in summary_table(made, "r")
        assert any("embedded answers rewritten by rules (46 of 100 flipped)" in note for note in caveats(made))
