"""Numbers and inert text, with known answers."""

from __future__ import annotations

import doctest

import pytest

import cda.report.numbers
import cda.report.page
import cda.stats.digits
from cda.report import numbers
from cda.report.scoring import cost_sentences, llm_table
from cda.results.base import Estimate
from cda.results.facts import LLMUse, StageRun


def _estimate(value: float, low: float, high: float) -> Estimate:
    return Estimate(value=value, low=low, high=high, n=100, n_prompts=100, unit="share", method="")


@pytest.mark.parametrize("module", [cda.report.numbers, cda.report.page, cda.stats.digits])
def test_docstring_examples(module: object) -> None:
    result = doctest.testmod(module)  # type: ignore[arg-type]
    assert result.attempted > 0 and result.failed == 0


@pytest.mark.parametrize(
    ("form", "ends", "expected"),
    [
        ("share", (1.0, 0.963, 1.0), "100% [96, 100]"),
        ("share", (0.998, 0.99, 0.9996), "99.8% [99, 99.9]"),
        ("share", (0.0, 0.0, 0.002), "0% [0, 0.2]"),
        ("signed", (1.234, -0.5, 3.0), "+1.23 [−0.50, +3.00]"),
        ("signed", (-0.04, -0.06, -0.003), "−0.04 [−0.06, −0.003]"),
        ("signed", (-0.00041, -0.00048, -0.00032), "−0.0004 [−0.0005, −0.0003]"),
        ("signed", (0.0, -1e-9, 1e-9), "0 [−1.0e-9, +1.0e-9]"),
        ("signed", (3.2e-7, 1.1e-7, 5.3e-7), "+3.2e-7 [+1.1e-7, +5.3e-7]"),
        ("signed", (-4.561e-6, -4.59e-6, -4.53e-6), "−4.56e-6 [−4.59e-6, −4.53e-6]"),
        ("signed", (-2.1e-6, -2.6e-6, -1.6e-6), "−2.1e-6 [−2.6e-6, −1.6e-6]"),
        ("signed", (3.2e-7, 3.2e-7, 3.2e-7), "+3.2e-7 [+3.2e-7, +3.2e-7]"),
        ("signed", (0.0, 0.0, 0.0), "0.00 [0.00, 0.00]"),
        ("decimals", (0.876, -0.8, 0.93), "0.88 [−0.80, 0.93]"),
        ("points", (-0.48, -0.58, -0.37), "−48 [−58, −37] points"),
        ("points", (0.03, -0.004, 0.08), "+3 [−0.4, 8] points"),
        ("points", (0.0, -0.02, 0.02), "0 [−2, 2] points"),
        ("points", (-0.003, -0.02, -0.0004), "−0.3 [−2, −0.04] points"),
        ("points", (0.0004, -0.0003, 0.0012), "+0.04 [−0.03, 0.1] points"),
        ("points", (1e-9, -0.01, 0.01), "0 [−1, 1] points"),
        ("distance", (0.5, 0.00006, 0.81), "50 [0, 81] points"),
        ("distance", (0.05, 0.004, 0.1), "5 [0.4, 10] points"),
    ],
)
def test_no_rounding_to_all_none_or_the_other_side_of_zero(
    form: str, ends: tuple[float, float, float], expected: str
) -> None:
    assert getattr(numbers, form)(_estimate(*ends)) == expected


def test_an_end_has_the_digits_that_tell_it_from_a_limit() -> None:
    assert numbers.share(_estimate(0.4, 0.31, 0.4963), limit=0.5) == "40% [31, 49.6]"
    assert numbers.points(_estimate(-0.016, -0.0496, -0.0004), limit=-0.05) == "−2 [−4.96, −0.04] points"


def test_count_names_prompts_only_where_they_repeat() -> None:
    once = _estimate(0, 0, 0)
    assert numbers.count(once) == "100"
    assert numbers.count(once.model_copy(update={"n_prompts": 50})) == "100 (50 prompts)"
    assert numbers.listed(["a"]) == "a" and numbers.listed(["a", "b", "c"]) == "a, b and c"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("\x1b[31mred\x1b[0m", "red"),
        ("\x1b]8;;http://evil.example\x07link\x1b]8;;\x1b\\", "link"),
        ("\x9b2Jcleared", "cleared"),
        ("a\u202eb\u2066c\u200ed", "abcd"),
        ("one\r\ntwo\u2028three\tfour", "one two three four"),
        ("a\x00\x07\x08b\ud800", "ab"),
        ("👨\u200d👩\u200d👧", "👨\u200d👩\u200d👧"),  # a joiner within an emoji stays
    ],
)
def test_inert(text: str, expected: str) -> None:
    assert numbers.inert(text) == expected


def test_calls_tokens_and_dollars_with_and_without_a_price() -> None:
    gpt = LLMUse(
        asked=1200, cached=30, unusable=2, input_tokens=410_000, output_tokens=18_000, uncounted=0, dollars=1.2
    )
    free = gpt.model_copy(update={"dollars": None, "uncounted": 7})

    def label(**llms: LLMUse) -> dict[str, StageRun]:
        return {"label": StageRun(seconds=12.3, finished="2026-11-21T10:00:00Z", llm=llms)}

    table = llm_table(label(gpt=gpt, free=free))
    counts = ("1,200", "30", "2", "410,000", "18,000")
    assert table is not None
    assert table.rows == (("label, gpt", *counts, "$1.20"), ("label, free", *counts, "no price given"))
    assert cost_sentences(label(gpt=gpt))[0] == "1,200 answers were asked for, for $1.20."
    first, *_, last = cost_sentences(label(free=free))
    assert "at a price that the recipe does not give" in first and last.startswith("Of 7 answers the server counted no")
    assert cost_sentences(label(gpt=gpt, other=free))[0].endswith("some of the models have no price in the recipe.")
