"""Numbers and inert text, with known answers."""

from __future__ import annotations

import doctest

import pytest

import cda.report.differences
import cda.report.numbers
from cda.report.differences import word_differences
from cda.report.numbers import clipped, count, decimals, distance, inert, p_value, points, share, signed, visible, width
from cda.results.base import Estimate


def _estimate(value: float, low: float, high: float, n: int = 100, n_prompts: int = 100) -> Estimate:
    return Estimate(value=value, low=low, high=high, n=n, n_prompts=n_prompts, unit="share", method="")


@pytest.mark.parametrize("module", [cda.report.numbers, cda.report.differences])
def test_docstring_examples(module: object) -> None:
    result = doctest.testmod(module)  # type: ignore[arg-type]
    assert result.attempted > 0
    assert result.failed == 0


def test_share_never_rounds_to_all_or_none() -> None:
    assert share(_estimate(1.0, 0.963, 1.0)) == "100% [96, 100]"
    assert share(_estimate(0.998, 0.99, 0.9996)) == "99.8% [99, 99.9]"
    assert share(_estimate(0.0, 0.0, 0.002)) == "0% [0, 0.2]"


def test_an_end_has_the_digits_that_tell_it_from_a_limit() -> None:
    assert share(_estimate(0.4, 0.31, 0.4963), limit=0.5) == "40% [31, 49.6]"
    assert points(_estimate(-0.016, -0.0496, -0.0004), limit=-0.05) == "−2 [−4.96, −0.04] points"


def test_numbers_that_are_no_shares_have_two_decimals_and_a_minus() -> None:
    assert signed(_estimate(1.234, -0.5, 3.0)) == "+1.23 [−0.50, +3.00]"
    assert decimals(_estimate(0.876, -0.8, 0.93)) == "0.88 [−0.80, 0.93]"


def test_points_keep_the_side_of_zero() -> None:
    assert points(_estimate(-0.48, -0.58, -0.37)) == "−48 [−58, −37] points"
    assert points(_estimate(0.03, -0.004, 0.08)) == "+3 [−0.4, 8] points"
    assert points(_estimate(0.0, -0.02, 0.02)) == "0 [−2, 2] points"
    assert points(_estimate(-0.003, -0.02, -0.0004)) == "−0.3 [−2, −0.04] points"
    assert points(_estimate(0.0004, -0.0003, 0.0012)) == "+0.04 [−0.03, 0.1] points"
    assert points(_estimate(1e-9, -0.01, 0.01)) == "0 [−1, 1] points"


def test_a_distance_has_no_sign_and_no_digits_too_many() -> None:
    assert distance(_estimate(0.5, 0.00006, 0.81)) == "50 [0, 81] points"
    assert distance(_estimate(0.05, 0.004, 0.1)) == "5 [0.4, 10] points"
    assert distance(_estimate(0.0, 0.0, 0.2)) == "0 [0, 20] points"


def test_count_names_prompts_only_where_they_repeat() -> None:
    assert count(_estimate(0, 0, 0)) == "100"
    assert count(_estimate(0, 0, 0, n_prompts=50)) == "100 (50 prompts)"


def test_p_value_is_never_zero() -> None:
    assert p_value(0.0) == "< 0.001"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("\x1b[31mred\x1b[0m", "red"),
        ("\x1b]8;;http://evil.example\x07link\x1b]8;;\x1b\\", "link"),
        ("\x9b2Jcleared", "cleared"),
        ("a\u202eb\u2066c\u200ed", "abcd"),
        ("one\r\ntwo\u2028three\tfour", "one two three four"),
        ("a\x00\x07\x08b\ud800", "ab"),
    ],
)
def test_inert(text: str, expected: str) -> None:
    assert inert(text) == expected


def test_visible_spells_out_what_hides() -> None:
    assert visible("a\u202eb\x1b[31m\ud800\nc\td") == "a[U+202E]b[U+001B][31m[U+D800]\nc\td"


def test_emoji_joiners_stay() -> None:
    family = "👨\u200d👩\u200d👧"
    assert inert(family) == visible(family) == family


def test_width_and_clipping_count_columns() -> None:
    assert width("漢字") == 4
    assert clipped("漢字漢字", 5) == "漢字…"


def test_differences_join_to_the_texts() -> None:
    first, second = "Use a pan.\nStir  it <b>now</b>.", "Utilize a pan.\nAgitate  it <b>now</b>, please."
    left, right = word_differences(first, second)
    assert "".join(piece.text for piece in left) == first
    assert "".join(piece.text for piece in right) == second
    assert [piece.text for piece in left if piece.differs] == ["Use", "Stir"]


def test_differences_of_very_long_texts_are_not_searched() -> None:
    left, right = word_differences("word " * 50_000, "other " * 50_000)
    assert [len(left), len(right)] == [1, 1]
    assert not left[0].differs
