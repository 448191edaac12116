"""`cda quality --over`: known shares and tests counted by hand, then the command: what is compared, left out, and written."""

from __future__ import annotations

import json
from collections.abc import Callable
from math import comb
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from page_checks import read_markdown
from rows import ids

from cda.benchmarks.quality import win_rate
from cda.stats.estimators import wilson


def test_shares_of_one_row_a_prompt() -> None:
    found = win_rate([1.0, 0.5, 0.1, 1.0, 1.0, 1.0, 0.0, 0.0, -1.0, -0.2], ids(10))
    assert (found.wins.value, found.ties.value, found.losses.value) == (0.6, 0.2, 0.2)
    assert (found.wins.n, found.wins.n_prompts) == (10, 10)
    # Six wins and two losses by fair coins: 2 · P(at most 2 of 8).
    assert found.test.p_value == pytest.approx(2 * sum(comb(8, lost) for lost in range(3)) / 2**8)
    assert found.test.method == "exact sign test"


def test_rows_of_one_prompt_are_no_further_evidence() -> None:
    once = win_rate([1.0] * 7 + [-1.0], ids(8))
    repeated = win_rate(np.repeat([1.0] * 7 + [-1.0], 25), list(np.repeat(ids(8), 25)))
    assert repeated.wins.value == once.wins.value == 0.875 and (repeated.wins.n, repeated.wins.n_prompts) == (200, 8)
    assert repeated.test.p_value == pytest.approx(once.test.p_value) == pytest.approx(2 * 9 / 2**8)
    assert repeated.test.method == "exact sign-flip over prompts"
    low, high = wilson(175.0, 200)
    assert repeated.wins.low < low and repeated.wins.high > high


@pytest.fixture
def outputs(write: Callable[..., Path]) -> Callable[..., Path]:
    """Writes prompts with their outputs, a row each; gives the file."""

    def written(name: str, *rows: tuple[Any, ...], columns: tuple[str, ...] = ("prompt", "response")) -> Path:
        return write(name, (dict(zip(columns, row, strict=True)) for row in rows))

    return written


@pytest.fixture
def four(outputs: Callable[..., Path]) -> tuple[Path, Path]:
    """Two files of outputs to four prompts."""
    one, other = (outputs(name, *((f"q{row}", f"{name}{row}") for row in range(4))) for name in "ab")
    return one, other


@pytest.fixture
def done(cda: Callable[..., str], tmp_path: Path) -> Callable[..., tuple[dict[str, Any], str]]:
    """Runs the command; gives its result, and what was printed and stands in its Markdown."""

    def run(*words: object, out: str = "out") -> tuple[dict[str, Any], str]:
        model, first, second, *more = words
        printed = cda("quality", model, first, "--over", second, *more, "--out", tmp_path / out)
        (found,) = json.loads((tmp_path / out / "quality.json").read_text())["sets"]
        return found, printed + read_markdown((tmp_path / out / "quality.md").read_text())

    return run


def compared(out: Path) -> list[tuple[str, str, bool]]:
    """Texts of each comparison, and True if it counts."""
    rows = [json.loads(line) for line in (out / "scores.jsonl").read_text().splitlines()]
    return [(row["chosen"][0], row["rejected"][0], row["used"]) for row in rows]


def rate(found: dict[str, Any]) -> float:
    return found["overall"]["found"]["accuracy"]["model"]["value"]


def test_an_empty_output_moves_no_other_one(
    longer: str, outputs: Callable[..., Path], done: Callable[..., Any], tmp_path: Path
) -> None:
    """The second output of one file is compared with the second of the other, whatever the first ones are."""
    one = outputs("a", ("q", ""), ("q", "a2"), ("r", None), ("s", "aaa"), (" ", "no prompt"))
    other = outputs("b", ("q", "b1"), ("q", "b 2"), ("r", " "), ("s", "bb"))
    found, printed = done(longer, one, other)
    assert compared(tmp_path / "out") == [("a2", "b 2", True), ("aaa", "bb", True)] and rate(found) == 0.5
    reasons = {
        "empty prompt (first file)": 1,
        "empty response (first)": 1,
        "empty response (first) and empty response (second)": 1,
    }
    assert found["exclusions"] == {"seen": 5, "reasons": reasons}
    assert "Left out 3 of 5 pairs of outputs: 1 empty prompt (first file); 1 empty response (first);" in printed


def test_what_has_no_counterpart_is_told_apart(
    longer: str, outputs: Callable[..., Path], done: Callable[..., Any], cda: Callable[..., str], tmp_path: Path
) -> None:
    """A row whose list cannot be read hides how many outputs of its prompt stood before the others."""
    columns = ("prompt", "responses")
    first = ("q", ["a1", "a22", "a3"]), ("r", "none"), ("r", ["r1"]), ("s", ["s"])
    second = ("q", ["b1", "b2"]), ("r", ["r1", "r2"]), ("t", ["t"])
    found, printed = done(longer, outputs("a", *first, columns=columns), outputs("b", *second, columns=columns))
    assert [texts[:2] for texts in compared(tmp_path / "out")] == [("a1", "b1"), ("a22", "b2")]
    assert rate(found) == 0.75  # a tie counts half, and so it says
    assert "Ties (margin exactly 0) count half: 1 tie." in printed
    reasons = {
        "beyond the other file's outputs": 1,
        "in a prompt with an unreadable row": 2,
        "to a prompt that one file lacks": 2,
    }
    assert found["exclusions"]["seen"] == 8 and found["exclusions"]["reasons"].items() >= reasons.items()
    one, other = outputs("c", ("q", ""), ("r", "x")), outputs("d", ("q", "b"), ("s", "x"))
    said = cda("quality", longer, one, "--over", other, "--out", tmp_path / "none", status=2)
    assert "no outputs can be compared" in said and "1 empty response (first)" in said
    assert "give one file of outputs, found 2" in cda("quality", longer, one, other, "--over", other, status=2)


def test_before_and_after_are_compared_on_the_same_outputs(
    longer: str, four: tuple[Path, Path], outputs: Callable[..., Path], cda: Callable[..., str], tmp_path: Path
) -> None:
    """A second model on the same outputs gives a second win rate, and their paired change."""
    long = outputs("c", *((f"q{row}", f"a longer answer {row}") for row in range(4)))
    (tmp_path / "other.py").write_text(
        "def reward(prompts, responses):\n    return [-float(len(each)) for each in responses]\n"
    )
    other = f"{tmp_path / 'other.py'}:reward"
    cda("quality", longer, long, "--over", four[1], "--against", other, "--out", tmp_path / "out")
    result = json.loads((tmp_path / "out" / "quality.json").read_text())
    assert {label: found["wins"]["value"] for label, found in result["sets"][0]["win_rates"].items()} == {
        "first": 1,
        "second": 0,
    }
    assert result["sets"][0]["overall"]["found"]["accuracy"]["change"]["value"] == -1 and result["n_tests"] == 0
    page = (tmp_path / "out" / "report.html").read_text(encoding="utf-8")
    assert "c over b" in page and "by second" in page and "fell" not in page
