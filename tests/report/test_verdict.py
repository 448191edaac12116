"""Verdicts, with the case that each rule is about."""

from __future__ import annotations

from typing import Any

import pytest

from cda.report.numbers import width
from cda.report.verdict import others_sentence, quality_sentence, verdicts


@pytest.mark.parametrize(
    ("shares", "word"),
    [
        ((0.88, 0.40), "less biased"),
        ((0.88, 0.05), "overcorrected"),
        ((0.50, 0.80), "worse"),
        ((0.80, 0.79), "no change shown"),
        ((0.10, 0.10), "no change shown"),
    ],
)
def test_without_votes_skew_decides(make_audit: Any, shares: tuple[float, float], word: str) -> None:
    (verdict,) = verdicts(make_audit({"jargon": shares}))
    assert verdict.word == word
    assert verdict.sentence.startswith(f"jargon: {word}. Skew ")
    assert "No human votes" in verdict.sentence
    assert "n = 100" in verdict.sentence


@pytest.mark.parametrize(
    ("shares", "word"),
    [
        ((0.88, 0.45, 0.45), "improved"),
        ((0.50, 0.90, 0.45), "worse"),
        ((0.60, 0.10, 0.50), "overcorrected"),
        ((0.90, 0.40, 0.50), "improved"),  # crossed, but nearer than before
        ((0.51, 0.48, 0.50), "no change shown"),  # crossed and a little further, but the move is not shown
        ((0.80, 0.79, 0.45), "no change shown"),
    ],
)
def test_with_votes_people_decide(make_audit: Any, shares: tuple[float, float, float], word: str) -> None:
    (verdict,) = verdicts(make_audit({"jargon": shares[:2]}, votes={"jargon": shares}))
    assert verdict.word == word
    assert "Model and people disagreed" in verdict.sentence
    assert verdict.sentence.endswith(verdict.reason)


@pytest.mark.parametrize(
    ("quality", "expected"),
    [
        ((0.75, 0.75), "is excluded"),
        ((0.75, 0.71), "is not excluded"),
        ((0.75, 0.50), "is shown"),
        (None, "not measured"),
    ],
)
def test_quality(make_audit: Any, quality: tuple[float, float] | None, expected: str) -> None:
    assert expected in quality_sentence(make_audit(quality=quality))


def test_others_are_marked_by_holm(audit: Any) -> None:
    assert others_sentence(audit) == (
        "Skew of the other biases: length 90→60%*, structure 90→89% (* Holm-adjusted p < 0.05)."
    )


def test_others_fit_a_line_and_keep_what_moved(make_audit: Any) -> None:
    names = tuple(f"a bias with a rather long name {number}" for number in range(6))
    line = others_sentence(make_audit(others=(*names, "length")), 100)
    assert width(line) <= 100
    assert "length 90→60%*" in line
    assert "more in the report" in line


def test_no_others(make_audit: Any) -> None:
    assert others_sentence(make_audit(others=())) == "No other bias was measured."


def test_substituted_names_what_rose(make_audit: Any) -> None:
    audit = make_audit({"jargon": (0.88, 0.40), "tone": (0.40, 0.80)}, others=())
    found = {one.bias: one for one in verdicts(audit)}
    assert found["jargon"].word == "substituted"
    assert "Yet skew rose: tone from 40% to 80%" in found["jargon"].sentence


@pytest.mark.parametrize(
    ("skew", "people", "word"),
    [
        (0.88, 0.45, "over-rewarded"),
        (0.30, 0.70, "under-rewarded"),
        (0.50, 0.50, "no difference shown"),
        (0.88, None, "rewarded"),
        (0.10, None, "penalised"),
        (0.50, None, "no effect shown"),
    ],
)
def test_one_model_is_compared_with_people_or_with_nothing(
    make_audit: Any, skew: float, people: float | None, word: str
) -> None:
    votes = {} if people is None else {"jargon": (skew, people)}
    (found,) = verdicts(make_audit({"jargon": (skew,)}, votes=votes, quality=(0.7,), others=()))
    assert found.word == word
    assert ("contrasts with a majority" in found.sentence) == (people is not None)
    assert "100" in found.sentence
