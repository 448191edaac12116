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
from typer.testing import CliRunner, Result

from cda.benchmarks.win_rate import win_rate
from cda.cli import app
from cda.errors import DataError, RunError
from cda.resources.artifacts import out_folder
from cda.stats.proportions import wilson


def _ids(n: int) -> list[str]:
    return [f"p{row}" for row in range(n)]


def test_shares_of_one_row_a_prompt() -> None:
    preferences = [1.0, 0.5, 0.1, 1.0, 1.0, 1.0, 0.0, 0.0, -1.0, -0.2]
    found = win_rate(preferences, _ids(10))
    assert (found.wins.value, found.ties.value, found.losses.value) == (0.6, 0.2, 0.2)
    assert found.win_rate.value == pytest.approx(0.7)
    assert (found.win_rate.low, found.win_rate.high) == pytest.approx(wilson(7.0, 10))
    assert (found.win_rate.n, found.win_rate.n_prompts, found.n_unread) == (10, 10, 0)
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
    assert repeated.win_rate.low < low
    assert repeated.win_rate.high > high
    assert repeated.win_rate.method == "Wilson 95% on the effective number of rows"


def test_unread_rows_are_counted_and_left_out() -> None:
    found = win_rate([np.nan, 1.0, -1.0, 1.0, np.nan], _ids(5))
    assert (found.n_unread, found.win_rate.n) == (2, 3)
    assert found.win_rate.value == pytest.approx(2 / 3)


def test_ties_alone_say_nothing() -> None:
    found = win_rate([0.0] * 6, _ids(6))
    assert (found.win_rate.value, found.ties.value, found.test.p_value) == (0.5, 1.0, 1.0)
    assert found.win_rate.low < 0.5 < found.win_rate.high


def test_the_interval_covers_a_known_rate() -> None:
    draws, hits = np.random.default_rng(1), 0
    for _ in range(200):
        values = draws.choice([1.0, 0.0, -1.0], size=120, p=[0.5, 0.2, 0.3])
        found = win_rate(values, _ids(120))
        hits += found.win_rate.low <= 0.6 <= found.win_rate.high
    assert hits >= 186  # 95% of 200 is 190; the chance of fewer than 186 is below 1% at exactly 95%


@pytest.mark.parametrize(
    ("preferences", "prompt_ids", "said"),
    [
        ([np.nan, np.nan], ["a", "b"], "none of 2 comparisons has a readable verdict"),
        ([], [], "none of 0 comparisons"),
        ([1.0, 3.2], ["a", "b"], "reach 3.2: are they rewards"),
        ([1.0], ["a", "b"], "one each is needed"),
        ([[1.0], [0.0]], ["a", "b"], "one each is needed"),
    ],
)
def test_what_cannot_be_used(preferences: list[float], prompt_ids: list[str], said: str) -> None:
    with pytest.raises(DataError, match=said):
        win_rate(preferences, prompt_ids)


@pytest.fixture
def longer(tmp_path: Path) -> str:
    """A reward that is a text's length."""
    code = tmp_path / "mine.py"
    code.write_text("def reward(prompts, responses):\n    return [float(len(r)) for r in responses]\n")
    return f"{code}:reward"


@pytest.fixture
def write(tmp_path: Path) -> Callable[..., str]:
    """Writes prompts with their outputs, a row each; gives the file's name."""

    def written(name: str, *rows: tuple[Any, ...], columns: tuple[str, ...] = ("prompt", "response")) -> str:
        path = tmp_path / f"{name}.jsonl"
        path.write_text("".join(json.dumps(dict(zip(columns, row, strict=True))) + "\n" for row in rows))
        return str(path)

    return written


def asked(*words: object) -> Result:
    return CliRunner().invoke(app, ["win-rate", *map(str, words)])


def done(out: Path, *words: object) -> tuple[dict[str, Any], str]:
    """The result and what was printed."""
    result = asked(*words, "--out", out)
    assert result.exit_code == 0, result.output
    return json.loads((out / "win_rate.json").read_text()), result.output


def refused(*words: object) -> str:
    result = asked(*words)
    assert result.exit_code == 1 and isinstance(result.exception, SystemExit), result.output
    assert "Traceback" not in result.output and "error: " in result.output
    return result.output


def compared(out: Path) -> list[tuple[str, str, float | None]]:
    rows = [json.loads(line) for line in (out / "preferences.jsonl").read_text().splitlines()]
    return [(row["first"], row["second"], row["preference_for_first"]) for row in rows]


def judge(verdict: str) -> Answer:
    """A judge that gives one verdict, whatever it is shown."""
    return lambda _: reply(f"Reasons.\nVerdict: {verdict}")


def test_shares_by_hand(longer: str, write: Callable[..., str], tmp_path: Path) -> None:
    one = write("a", ("p", "long answer"), ("q", "short"), ("r", "same"), ("only a", "x"))
    other = write("b", ("p", "short"), ("q", "long answer"), ("r", "same"), ("only b", "x"))
    found, printed = done(tmp_path / "out", longer, one, other)
    shares = {name: found["result"][name]["value"] for name in ("win_rate", "wins", "ties", "losses")}
    assert shares == {"win_rate": 0.5, "wins": 1 / 3, "ties": 1 / 3, "losses": 1 / 3}
    assert found["without_counterpart"] == 2
    assert found["excluded"]["outputs"] == {"seen": 8, "reasons": {"to a prompt that the other file lacks": 2}}
    assert "2 outputs without a counterpart were left out: 2 to a prompt that the other file lacks." in printed
    assert "Scored by " in printed


def test_an_empty_output_moves_no_other_one(longer: str, write: Callable[..., str], tmp_path: Path) -> None:
    """The second output of one file is compared with the second of the other, whatever the first ones are."""
    one = write("a", ("q", ""), ("q", "a2"), ("r", None), ("s", "aaa"), (" ", "no prompt"))
    other = write("b", ("q", "b1"), ("q", "b 2"), ("r", " "), ("s", "bb"))
    found, printed = done(tmp_path / "out", longer, one, other)
    assert compared(tmp_path / "out") == [("a2", "b 2", -1.0), ("aaa", "bb", 1.0)]
    assert found["without_counterpart"] == 0
    assert found["excluded"]["pairs"] == {
        "seen": 4,
        "reasons": {"empty response (first)": 1, "empty response (first) and empty response (second)": 1},
    }
    assert found["excluded"]["rows of the first file"] == {"seen": 5, "reasons": {"empty prompt": 1}}
    assert "Left out of 4 pairs of outputs: 1 empty response (first), 1 empty response (first) and" in printed
    assert "Left out of 5 rows of the first file: 1 empty prompt." in printed


def test_what_has_no_counterpart_is_told_apart(longer: str, tmp_path: Path) -> None:
    """A row whose list cannot be read hides how many outputs of its prompt stood before the others."""
    rows = {
        "a": [("q", ["a1", "a22", "a3"]), ("r", "none"), ("r", ["r1"]), ("s", ["s"])],
        "b": [("q", ["b1", "b2"]), ("r", ["r1", "r2"]), ("t", ["t"])],
    }
    files = []
    for name, listed in rows.items():
        files.append(tmp_path / f"{name}.jsonl")
        lines = [json.dumps({"prompt": prompt, "responses": responses}) for prompt, responses in listed]
        files[-1].write_text("\n".join(lines))
    found, _ = done(tmp_path / "out", longer, *files)
    assert compared(tmp_path / "out") == [("a1", "b1", 0.0), ("a22", "b2", 1.0)]
    assert found["excluded"]["outputs"] == {
        "seen": 10,
        "reasons": {
            "beside an unreadable row of their prompt": 3,
            "more to their prompt than the other file has": 1,
            "to a prompt that the other file lacks": 2,
        },
    }


def test_nothing_to_compare(longer: str, write: Callable[..., str], tmp_path: Path) -> None:
    one, other = write("a", ("q", ""), ("r", "x")), write("b", ("q", "b"), ("s", "x"))
    said = refused(longer, one, other, "--out", tmp_path / "out")
    assert "no outputs can be compared" in said and "1 empty response (first)" in said
    assert not (tmp_path / "out").exists()


def test_texts_that_are_too_long_are_named_as_such(llama: Path, write: Callable[..., str], tmp_path: Path) -> None:
    long = "good " * 200
    one = write("a", ("w1", "good w1"), ("w2", long), ("w3", f"{long}w1"))
    other = write("b", ("w1", "bad"), ("w2", "bad"), ("w3", f"{long}w2"))
    settings = ("model.max_length_tokens=64", "model.precision=fp32")
    found, printed = done(tmp_path / "drop", llama, one, other, *settings, "score.over_length=drop")
    too_long = {"with a text that is too long for the model": 2}
    assert found["excluded"]["comparisons"] == {"seen": 3, "reasons": too_long}
    assert (found["result"]["win_rate"]["n"], found["result"]["n_unread"], found["scorer"]["dropped"]) == (1, 2, 3)
    assert "Left out of 3 comparisons: 2 with a text that is too long for the model." in printed
    assert "Scored in fp32; 0 of 6 texts cut at 64 tokens; 3 too long and left out." in printed
    assert "verdict" not in printed
    assert [preference for *_, preference in compared(tmp_path / "drop")][1:] == [None, None]

    found, printed = done(tmp_path / "cut", llama, one, other, *settings)
    same = {"with texts that are the same to the model once they are cut": 1}
    assert found["excluded"]["comparisons"] == {"seen": 3, "reasons": same}
    assert "3 of 6 texts cut at 64 tokens." in printed
    alone = (write("c", ("w2", long)), write("d", ("w2", f"{long}w1")))
    assert "nothing was decided; comparisons: 1 of 1 dropped (1 with texts that are the same" in refused(
        llama, *alone, *settings, "--out", tmp_path / "none"
    )


def test_a_judge_that_follows_the_place_is_shown_as_such(
    serve: Callable[[Answer], str], write: Callable[..., str], tmp_path: Path
) -> None:
    one, other = (write(name, *((f"q{row}", f"{name}{row}") for row in range(4))) for name in "ab")
    found, printed = done(tmp_path / "out", "judge:local", one, other, f"llm.base_url={serve(judge('1'))}")
    assert found["result"]["ties"]["value"] == 1.0
    assert (found["scorer"]["position_bias"], found["scorer"]["flipped"], found["scorer"]["half_read"]) == (1.0, 4, 0)
    assert (
        "0 readable in one order only, 4 followed the place; first place minus second: +1.00; prompt ours, reasons before the verdict; "
        "answered by j (8)." in printed
    )
    assert "counts as a tie" in printed


def test_a_panel_says_how_each_judge_answered(
    serve: Callable[[Answer], str], write: Callable[..., str], tmp_path: Path
) -> None:
    def answer(body: dict[str, Any]) -> tuple[int, dict[str, Any]]:
        first = "a0" in body["messages"][-1]["content"].split("ANSWER 2")[0]
        return judge("1" if body["model"] == "place" or first else "2")(body)

    one, other = write("a", ("q", "a0")), write("b", ("q", "b0"))
    found, printed = done(tmp_path / "out", "judge:sound,place", one, other, f"llm.base_url={serve(answer)}")
    assert compared(tmp_path / "out") == [("a0", "b0", 0.5)] and found["result"]["wins"]["value"] == 1.0
    assert "A panel of 2 judges" in printed and "place: Asked 1 comparisons" in printed and "counts as a tie" in printed
    pairs = write("pairs", ("q", "a0", "b0"), columns=("prompt", "chosen", "rejected"))
    quality = [
        "quality",
        "judge:sound,place",
        pairs,
        f"llm.base_url={serve(answer)}",
        "--out",
        str(tmp_path / "quality"),
    ]
    asked = CliRunner().invoke(app, quality)
    assert asked.exit_code == 0, asked.output
    page = "".join(path.read_text() for path in (tmp_path / "quality").rglob("*.md"))
    assert "A panel of 2 judges" in page + asked.output


def test_ones_own_preferences_for_the_first_place_are_ties(write: Callable[..., str], tmp_path: Path) -> None:
    code = tmp_path / "mine.py"
    code.write_text("def first(prompts, first, second):\n    return [1.0] * len(first)\n")
    one, other = (write(name, *((f"q{row}", f"{name}{row}") for row in range(4))) for name in "ab")
    found, printed = done(tmp_path / "out", f"{code}:first", one, other)
    assert found["result"]["ties"]["value"] == 1.0
    assert "0 readable in one order only, 4 followed the place; first place minus second: +1.00." in printed


def test_answers_of_a_judge_that_hold_no_verdict(
    serve: Callable[[Answer], str], write: Callable[..., str], tmp_path: Path
) -> None:
    def answer(body: dict[str, Any]) -> tuple[int, dict[str, Any]]:
        shown = body["messages"][-1]["content"]
        if "q0" in shown:
            return judge("perhaps")(body)
        # Of q1 only one order can be read.
        first = shown.find("a1") < shown.find("b1")
        return judge("1" if first or "q1" not in shown else "none of them")(body)

    one, other = (write(name, *((f"q{row}", f"{name}{row}") for row in range(3))) for name in "ab")
    found, printed = done(tmp_path / "out", "judge:local", one, other, f"llm.base_url={serve(answer)}")
    assert found["excluded"]["comparisons"] == {"seen": 3, "reasons": {"without a readable verdict": 1}}
    assert found["result"]["win_rate"]["n"] == 2 and compared(tmp_path / "out")[1] == ("a1", "b1", 1.0)
    assert "1 unreadable, 1 readable in one order only" in printed
    assert "Answers without a verdict: 3 no verdict in the last line." in printed


def test_other_columns_and_a_split(longer: str, write: Callable[..., str], tmp_path: Path) -> None:
    from datasets import Dataset, DatasetDict

    files = [write(name, ("q", f"{name}1"), columns=("question", "answer")) for name in "ab"]
    said = refused(longer, *files, "--out", tmp_path / "out")
    assert "Map it with --column prompt=<your column>" in said and "--column response=<your column>" in said
    mapped = ("--column", "prompt=question", "--column", "response=answer")
    found, _ = done(tmp_path / "out", longer, *files, *mapped)
    assert found["result"]["win_rate"]["n"] == 1
    said = refused(longer, *files, "--column", "prompt", "--column", "response=a", "--column", "response=b")
    assert "--column prompt: has the form ours=theirs" in said
    assert "--column response: given as 'a' and as 'b'" in said

    saved = [tmp_path / f"saved-{name}" for name in "ab"]
    for folder, answer in zip(saved, ("long", "s"), strict=True):
        rows = Dataset.from_list([{"prompt": "q", "response": answer}])
        DatasetDict({"test": rows}).save_to_disk(str(folder))
    assert "Found: test. Choose one with --split ..." in refused(longer, *saved, "--out", tmp_path / "split")
    found, _ = done(tmp_path / "split", longer, *saved, "--split", "test")
    assert found["result"]["win_rate"]["value"] == 1.0
    # A recipe's own settings of columns and split are not read here, and say so.
    said = refused(longer, *files, "data.columns.prompt=question", "data.split=test")
    assert said.count("says nothing here") == 2


def test_results_of_other_files_go_elsewhere(
    longer: str, write: Callable[..., str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    one, other = write("a", ("q", "aa")), write("b", ("q", "b"))
    monkeypatch.chdir(tmp_path)
    for files in ((one, other), (other, one), (one, other)):
        assert asked(longer, *files).exit_code == 0
    folders = sorted(path.parent for path in Path("runs").glob("*/win_rate.json"))
    assert len(folders) == 2
    assert "-of-a-over-b-" in folders[0].name and "-of-b-over-a-" in folders[1].name
    assert sorted(path.name for path in Path("runs").iterdir() if path.is_dir()) == [one.name for one in folders]


def test_a_folder_for_results(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.chdir(tmp_path)
    assert out_folder("~/new/one", "a.json", "cda a") == tmp_path / "new" / "one"
    assert (tmp_path / "new" / "one").is_dir() and not (tmp_path / "~").exists()
    (tmp_path / "new" / "one" / "a.json").write_text("{}")
    assert out_folder(tmp_path / "new" / "one", "a.json", "cda a").is_dir()  # its own, of an earlier call
    with pytest.raises(RunError, match=r"other than results of `cda b`.*--out"):
        out_folder(tmp_path / "new" / "one", "b.json", "cda b")
    for name in ("new/one/a.json", "new/one/a.json/below", "~nobody-of-this-name/x"):
        with pytest.raises(RunError, match=r"no folder for results can be made there .*--out"):
            out_folder(name, "a.json", "cda a")
