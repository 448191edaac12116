"""`cda win-rate`: known shares and tests counted by hand, then the command: what is compared, left out, and written."""

from __future__ import annotations

import json
from collections.abc import Callable
from math import comb
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from replies import Answer, reply

from cda.benchmarks.win_rate import win_rate
from cda.stats.estimators import wilson


def _ids(n: int) -> list[str]:
    return [f"p{row}" for row in range(n)]


def test_shares_of_one_row_a_prompt() -> None:
    preferences = [1.0, 0.5, np.nan, 0.1, 1.0, 1.0, 1.0, 0.0, 0.0, -1.0, -0.2]
    found = win_rate(preferences, _ids(11))
    assert (found.wins.value, found.ties.value, found.losses.value) == (0.6, 0.2, 0.2)
    assert found.win_rate.value == pytest.approx(0.7)
    assert (found.win_rate.low, found.win_rate.high) == pytest.approx(wilson(7.0, 10))
    assert (found.win_rate.n, found.win_rate.n_prompts, found.n_unread) == (10, 10, 1)
    # Six wins and two losses by fair coins: 2 · P(at most 2 of 8).
    assert found.test.p_value == pytest.approx(2 * sum(comb(8, lost) for lost in range(3)) / 2**8)
    assert found.test.method == "exact sign test"


def test_the_other_set_wins_what_this_one_loses() -> None:
    preferences = np.array([1.0, 0.3, 0.0, -1.0, 1.0, 0.0, np.nan])
    one, other = win_rate(preferences, _ids(7)), win_rate(-preferences, _ids(7))
    assert other.win_rate.value == pytest.approx(1 - one.win_rate.value)
    assert (other.win_rate.low, other.win_rate.high) == pytest.approx((1 - one.win_rate.high, 1 - one.win_rate.low))
    assert other.test == one.test


def test_rows_of_one_prompt_are_no_further_evidence() -> None:
    once = win_rate([1.0] * 7 + [-1.0], _ids(8))
    repeated = win_rate(np.repeat([1.0] * 7 + [-1.0], 25), list(np.repeat(_ids(8), 25)))
    assert repeated.win_rate.value == once.win_rate.value == 0.875
    assert (repeated.win_rate.n, repeated.win_rate.n_prompts) == (200, 8)
    assert repeated.test.p_value == pytest.approx(once.test.p_value) == pytest.approx(2 * 9 / 2**8)
    assert repeated.test.method == "exact sign-flip over prompts"
    low, high = wilson(175.0, 200)
    assert repeated.win_rate.low < low and repeated.win_rate.high > high


def test_the_interval_covers_a_known_rate() -> None:
    draws, hits = np.random.default_rng(1), 0
    for _ in range(200):
        values = draws.choice([1.0, 0.0, -1.0], size=120, p=[0.5, 0.2, 0.3])
        found = win_rate(values, _ids(120))
        hits += found.win_rate.low <= 0.6 <= found.win_rate.high
    assert hits >= 186  # 95% of 200 is 190; the chance of fewer than 186 is below 1% at exactly 95%


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
    """Runs the command; gives its result and what was printed."""

    def run(*words: object, out: str = "out") -> tuple[dict[str, Any], str]:
        printed = cda("win-rate", *words, "--out", tmp_path / out)
        return json.loads((tmp_path / out / "win_rate.json").read_text()), printed

    return run


def compared(out: Path) -> list[tuple[str, str, float | None]]:
    rows = [json.loads(line) for line in (out / "preferences.jsonl").read_text().splitlines()]
    return [(row["first"], row["second"], row["preference_for_first"]) for row in rows]


def judge(verdict: str) -> Answer:
    """A judge that gives one verdict, whatever it is shown."""
    return lambda _: reply(f"Reasons.\nVerdict: {verdict}")


def test_an_empty_output_moves_no_other_one(
    longer: str, outputs: Callable[..., Path], done: Callable[..., Any], tmp_path: Path
) -> None:
    """The second output of one file is compared with the second of the other, whatever the first ones are."""
    one = outputs("a", ("q", ""), ("q", "a2"), ("r", None), ("s", "aaa"), (" ", "no prompt"))
    other = outputs("b", ("q", "b1"), ("q", "b 2"), ("r", " "), ("s", "bb"))
    found, printed = done(longer, one, other)
    assert compared(tmp_path / "out") == [("a2", "b 2", -1.0), ("aaa", "bb", 1.0)]
    assert found["without_counterpart"] == 0
    reasons = {"empty response (first)": 1, "empty response (first) and empty response (second)": 1}
    assert found["excluded"]["pairs"] == {"seen": 4, "reasons": reasons}
    assert found["excluded"]["rows of the first file"] == {"seen": 5, "reasons": {"empty prompt": 1}}
    assert "Left out of 4 pairs of outputs: 1 empty response (first), 1 empty response (first) and" in printed
    assert "Left out of 5 rows of the first file: 1 empty prompt." in printed


def test_what_has_no_counterpart_is_told_apart(
    longer: str, outputs: Callable[..., Path], done: Callable[..., Any], cda: Callable[..., str], tmp_path: Path
) -> None:
    """A row whose list cannot be read hides how many outputs of its prompt stood before the others."""
    columns = ("prompt", "responses")
    first = ("q", ["a1", "a22", "a3"]), ("r", "none"), ("r", ["r1"]), ("s", ["s"])
    second = ("q", ["b1", "b2"]), ("r", ["r1", "r2"]), ("t", ["t"])
    found, printed = done(longer, outputs("a", *first, columns=columns), outputs("b", *second, columns=columns))
    assert compared(tmp_path / "out") == [("a1", "b1", 0.0), ("a22", "b2", 1.0)]
    reasons = {
        "in a prompt with an unreadable row": 3,
        "more to their prompt than the other file has": 1,
        "to a prompt that the other file lacks": 2,
    }
    assert found["excluded"]["outputs"] == {"seen": 10, "reasons": reasons} and found["without_counterpart"] == 6
    assert "6 outputs without a counterpart were left out: 3 in a prompt with an unreadable row" in printed
    alone = outputs("c", ("q", ""), ("r", "x")), outputs("d", ("q", "b"), ("s", "x"))
    said = cda("win-rate", longer, *alone, "--out", tmp_path / "none", status=2)
    assert "no outputs can be compared" in said and "1 empty response (first)" in said


def test_texts_that_are_too_long_are_named_as_such(
    llama: Path, outputs: Callable[..., Path], done: Callable[..., Any], cda: Callable[..., str], tmp_path: Path
) -> None:
    long = "good " * 200
    one = outputs("a", ("w1", "good w1"), ("w2", long), ("w3", f"{long}w1"))
    other = outputs("b", ("w1", "bad"), ("w2", "bad"), ("w3", f"{long}w2"))
    settings = ("model.max_length_tokens=64", "model.precision=fp32")
    found, printed = done(llama, one, other, *settings, "score.over_length=drop", out="drop")
    too_long = {"with a text that is too long for the model": 2}
    assert found["excluded"]["comparisons"] == {"seen": 3, "reasons": too_long}
    assert (found["result"]["win_rate"]["n"], found["result"]["n_unread"], found["scorer"]["dropped"]) == (1, 2, 3)
    assert "Scored in fp32; 0 of 6 texts cut at 64 tokens; 3 too long and left out." in printed
    assert "verdict" not in printed
    assert [preference for *_, preference in compared(tmp_path / "drop")][1:] == [None, None]

    found, printed = done(llama, one, other, *settings, out="cut")
    same = {"with texts that are the same to the model once they are cut": 1}
    assert (
        found["excluded"]["comparisons"] == {"seen": 3, "reasons": same} and "3 of 6 texts cut at 64 tokens." in printed
    )
    alone = outputs("c", ("w2", long)), outputs("d", ("w2", f"{long}w1"))
    said = cda("win-rate", llama, *alone, *settings, "--out", tmp_path / "none", status=2)
    assert "nothing was decided; comparisons: 1 of 1 dropped (1 with texts that are the same" in said


def test_answers_of_a_judge_that_hold_no_verdict(
    serve: Callable[[Answer], str], four: tuple[Path, Path], done: Callable[..., Any], tmp_path: Path
) -> None:
    def answer(body: dict[str, Any]) -> tuple[int, dict[str, Any]]:
        shown = body["messages"][-1]["content"]
        if "q0" in shown:
            return judge("perhaps")(body)
        # Of q1 only one order can be read.
        first = shown.find("a1") < shown.find("b1")
        return judge("1" if first or "q1" not in shown else "none of them")(body)

    found, printed = done("judge:local", *four, f"llm.base_url={serve(answer)}")
    assert found["excluded"]["comparisons"] == {"seen": 4, "reasons": {"without a readable verdict": 1}}
    assert found["result"]["win_rate"]["n"] == 3 and compared(tmp_path / "out")[1] == ("a1", "b1", 1.0)
    assert "1 unreadable, 1 readable in one order only" in printed
    assert "Answers without a verdict: 3 no verdict in the last line." in printed


def test_other_columns_and_a_split(
    longer: str, outputs: Callable[..., Path], done: Callable[..., Any], cda: Callable[..., str], tmp_path: Path
) -> None:
    from datasets import Dataset, DatasetDict

    files = [outputs(name, ("q", f"{name}1"), columns=("question", "answer")) for name in "ab"]
    said = cda("win-rate", longer, *files, status=2)
    assert "Map it with --column prompt=<your column>" in said and "--column response=<your column>" in said
    found, _ = done(longer, *files, "--column", "prompt=question", "--column", "response=answer")
    assert found["result"]["win_rate"]["n"] == 1
    wrong = ("--column", "prompt", "--column", "response=a", "--column", "response=b")
    said = cda("win-rate", longer, *files, *wrong, status=2)
    assert "--column prompt: has the form ours=theirs" in said and "--column response: given as 'a' and as 'b'" in said

    saved = [tmp_path / f"saved-{name}" for name in "ab"]
    for folder, answer in zip(saved, ("long", "s"), strict=True):
        rows = Dataset.from_list([{"prompt": "q", "response": answer}])
        DatasetDict({"test": rows}).save_to_disk(str(folder))
    assert "Found: test. Choose one with --split ..." in cda("win-rate", longer, *saved, status=2)
    found, _ = done(longer, *saved, "--split", "test", out="split")
    assert found["result"]["win_rate"]["value"] == 1.0
    # A recipe's own settings of columns and split are not read here, and say so.
    said = cda("win-rate", longer, *files, "data.columns.prompt=question", "data.split=test", status=2)
    assert said.count("has no effect") == 2
