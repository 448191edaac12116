"""Shared rows: checked, grouped by their texts, ranked within a group, and written as a page and a table."""

from __future__ import annotations

import csv
import io
import json
from pathlib import Path
from typing import Any

import pytest
from cda.panels.leaderboard import (
    leaderboard_csv,
    leaderboard_document,
    mean_of_biases,
    place,
    ranked,
    read_leaderboard,
)
from cda.results.panel import BiasRow, LeaderboardResult, LeaderboardRow, MeasuredTexts, ScoredAs
from made_audits import HOSTILE
from page_checks import checked
from typer.testing import CliRunner

from cda.api.results import Leaderboard
from cda.cli import app
from cda.errors import CdaError, DataError
from cda.results.base import Estimate, Missing, save

NONE = Missing(reason="people did not vote on its contrasts")


def number(value: float, half: float = 0.05, unit: str = "share") -> Estimate:
    low, high = (max(0.0, value - half), min(1.0, value + half)) if unit == "share" else (value - half, value + half)
    return Estimate(value=value, low=low, high=high, n=100, n_prompts=100, unit=unit, method="made")


def bias(skew: float, wrong: float | None = None, rate: float | None = None, half: float = 0.05) -> BiasRow:
    return BiasRow(
        contrasts=MeasuredTexts(name="embedded", n=100, content="c" * 16), skew=number(skew, half),
        people=NONE if wrong is None else number(0.5), distance=NONE if wrong is None else number(skew - 0.5, unit="share difference"),
        miscalibration=NONE if wrong is None else number(wrong, half), rate=NONE if rate is None else number(rate, half, "SD"),
    )  # fmt: skip


def row(model: str, biases: dict[str, BiasRow], **given: Any) -> LeaderboardRow:
    fixed = {"cda_version": "0.1.0", "date": "2026-11-24", "revision": None, "content": None, "training": None, "text_set": "a" * 16,
             "scored": ScoredAs(kind="reward model", precision="bf16", template="pair", max_length_tokens=512, truncated=0.1),
             "quality": number(0.7), "quality_pairs": MeasuredTexts(name="embedded", n=100, content="q" * 16)}  # fmt: skip
    return LeaderboardRow(**{**fixed, "model": model, "biases": biases, **given})


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Three rows on the same texts, one of them in a folder of its own, and one on others."""
    (tmp_path / "more").mkdir()
    save(row("org/low", {"jargon": bias(0.5, 0.10)}), tmp_path / "a.json")
    save(row("org/high", {"jargon": bias(0.9, 0.40)}), tmp_path / "b.json")
    save(row("org/close", {"jargon": bias(0.6, 0.14)}), tmp_path / "more" / "c.json")
    save(row("org/low", {"jargon": bias(0.99)}, text_set="b" * 16), tmp_path / "d.json")
    return tmp_path


def test_rows_on_other_texts_are_not_ranked_together(folder: Path) -> None:
    result = read_leaderboard(folder)
    first, second = result.groups
    assert [(entry.row.model, place(entry)) for entry in first.entries] == [
        ("org/low", "1–2"), ("org/close", "1–2"), ("org/high", "3"),
    ]  # fmt: skip
    assert first.ranked_by == "miscalibration" and second.ranked_by == "distance of skew from 50%"
    assert [entry.file for entry in first.entries] == ["a.json", "more/c.json", "b.json"]
    assert [(entry.row.model, place(entry)) for entry in second.entries] == [("org/low", "1")]
    text = leaderboard_document(result).text()
    assert text.index("org/low") < text.index("org/close") < text.index("org/high") < text.index("Group 2")


def test_rows_that_are_not_told_apart_or_exactly_equal_are_marked() -> None:
    rows = {f"{name}.json": row(name, {"jargon": bias(0.5, wrong, half=half)})
            for name, wrong, half in (("one", 0.1, 0.05), ("two", 0.1, 0.05), ("three", 0.14, 0.05), ("four", 0.4, 0.0), ("five", 0.4, 0.0))}  # fmt: skip
    group = ranked("a" * 16, rows)
    found = {entry.row.model: (place(entry), entry.tied_with, entry.equal_to) for entry in group.entries}
    assert found == {
        "one": ("1–3", ("two.json", "three.json"), ("two.json",)), "two": ("1–3", ("one.json", "three.json"), ("one.json",)),
        "three": ("1–3", ("one.json", "two.json"), ()), "four": ("4–5", ("five.json",), ("five.json",)),
        "five": ("4–5", ("four.json",), ("four.json",)),
    }  # fmt: skip
    for entry in group.entries:  # the range of places is as long as there are ties
        assert entry.best_place and entry.worst_place and entry.worst_place - entry.best_place == len(entry.tied_with)
    result = LeaderboardResult(
        name="rows", groups=(group, ranked("b" * 16, {"one.json": row("alone", {"jargon": bias(0.9)})}))
    )
    text, page = leaderboard_document(result).text(), leaderboard_document(result).page()
    assert "1–3    2 others, 1 equal" in text and "4–5    1 other, 1 equal" in text and "only row" in text
    assert "one, 10% [5, 15]; exactly as low: two; 1 more may be as low." in page and "2 others, 1 equal" in page
    lines = list(csv.DictReader(io.StringIO(leaderboard_csv(result))))
    assert [(line["tied_with"], line["equal_to"]) for line in lines] == [("2", "1"), ("2", "1"), ("2", "0"), ("1", "1"), ("1", "1"), ("0", "0")]  # fmt: skip


def test_rows_of_other_biases_are_another_group_whatever_their_text_set_says(tmp_path: Path) -> None:
    save(row("one", {"jargon": bias(0.5, 0.1)}), tmp_path / "a.json")
    save(row("two", {"jargon": bias(0.5, 0.2), "tone": bias(0.5, 0.0)}), tmp_path / "b.json")
    assert [[entry.row.model for entry in group.entries] for group in read_leaderboard(tmp_path).groups] == [
        ["one"],
        ["two"],
    ]


def test_the_measure_is_the_first_that_every_row_has() -> None:
    votes = {"one": row("one", {"jargon": bias(0.5, 0.1, 2.0)}), "two": row("two", {"jargon": bias(0.5, None, -0.5)})}
    group = ranked("a" * 16, votes)
    assert group.ranked_by == "size of RATE's effect"
    assert [(entry.file, entry.score.value) for entry in group.entries if isinstance(entry.score, Estimate)] == [("two", 0.5), ("one", 2.0)]  # fmt: skip
    across_0 = ranked("a" * 16, {"one": row("one", {"jargon": bias(0.5, None, -0.02)})}).entries[0].score
    assert isinstance(across_0, Estimate) and (across_0.low, across_0.high) == (0.0, pytest.approx(0.07))
    unknown = ranked(None, votes)
    assert unknown.ranked_by is None and {place(entry) for entry in unknown.entries} == {"not ranked"}
    mean = mean_of_biases([number(0.2, 0.1), number(0.4, 0.2)])
    assert (mean.value, mean.low, mean.high, mean.n) == pytest.approx((0.3, 0.15, 0.45, 200))
    with pytest.raises(DataError, match="a value for each"):
        mean_of_biases([number(0.2), NONE])


def test_of_one_model_scored_alike_the_newest_row_is_shown(folder: Path) -> None:
    save(row("org/low", {"jargon": bias(0.5, 0.10)}), folder / "copy.json")
    save(row("org/high", {"jargon": bias(0.9, 0.30)}, date="2026-12-01"), folder / "newer.json")
    save(
        row("org/high", {"jargon": bias(0.9, 0.39)}, scored=ScoredAs(kind="reward model", precision="8bit")),
        folder / "other.json",
    )
    result = read_leaderboard(folder)
    assert {(each.file, each.by, each.same_numbers) for each in result.superseded} == {
        ("copy.json", "a.json", True), ("b.json", "newer.json", False),
    }  # fmt: skip
    shown = {entry.file for group in result.groups for entry in group.entries}
    assert shown == {"a.json", "newer.json", "other.json", "more/c.json", "d.json"}


def test_of_a_folder_without_rows_some_files_are_named(tmp_path: Path) -> None:
    for number in range(12):
        (tmp_path / f"{number:02}.json").write_text('{"schema_version": 2}')
    with pytest.raises(DataError) as caught:
        read_leaderboard(tmp_path)
    first, *files, last = str(caught.value).splitlines()
    assert "no row that `cda audit --export" in first and len(files) == 9 and last == "… and 3 more files"
    assert set(files) == {f"{number:02}.json: no row: a row has the field text_set" for number in range(9)}


def test_a_bad_row_is_named_and_counted_and_the_others_are_shown(folder: Path) -> None:
    good = json.loads((folder / "a.json").read_text())
    skew = good["biases"]["jargon"]["skew"]
    bad = {
        "cut.json": ('{"model": ', "not valid JSON"),
        "other.json": ('{"sets": [], "schema_version": 99}', "no row: a row has the field text_set"),
        "future.json": (json.dumps(good | {"schema_version": 99}), "a newer version of cda"),
        "beyond.json": (json.dumps(good | {"quality": skew | {"value": 1.5, "high": 2.0}}), "quality: 0.45 to 2 is outside of 0 to 1"),
        "no-interval.json": (json.dumps(good | {"quality": skew | {"low": 0.9}}), r"is no estimate"),
        "latin.json": ('{"model": "\udce9"}', "line 1: not UTF-8"),
        "no-bias.json": (json.dumps(good | {"biases": {}}), "no bias was measured"),
        "no-name.json": (json.dumps(good | {"model": " "}), "no model's name"),
        "no-day.json": (json.dumps(good | {"date": "yesterday"}), "date: 'yesterday' is no day such as 2026-11-24"),
        "no-prompts.json": (json.dumps(good | {"quality": skew | {"n_prompts": -5}}), "n = 100 of -5 prompts, is no estimate"),
        "huge.json": (json.dumps(good).replace(json.dumps(good["biases"]["jargon"]["rate"]), json.dumps(skew | {"value": 1e200, "high": 1e200})), "outside of -1e"),
        "more-fields.json": (json.dumps(good | {"rank": 1}), "rank: Extra inputs"),
    }  # fmt: skip
    for name, (text, _) in bad.items():
        (folder / name).write_bytes(text.encode("utf-8", "surrogateescape"))
    result = read_leaderboard(folder)
    assert set(result.refused) == set(bad)
    for name, (_, said) in bad.items():
        assert said in result.refused[name] and "\n" not in result.refused[name]
        assert str(folder) not in result.refused[name]
    assert sum(len(group.entries) for group in result.groups) == 4
    assert "12 of 16 files could not be read as rows." in leaderboard_document(result).text()


def test_the_command_writes_page_table_and_numbers_and_reads_them_not_as_rows(folder: Path) -> None:
    for _ in range(2):
        done = CliRunner().invoke(app, ["leaderboard", str(folder)])
        assert done.exit_code == 0, done.output
        assert "could not be read" not in done.output and "Page: " in done.output
    assert {"leaderboard.html", "leaderboard.csv", "leaderboard.json"} <= {path.name for path in folder.iterdir()}
    import cda

    again = cda.load(folder / "leaderboard.json")
    assert isinstance(again, Leaderboard) and dict(again) == dict(cda.leaderboard(folder))
    again.report(folder / "page.md")
    again.to_csv(folder / "page.csv")
    assert (folder / "page.csv").read_text() == (folder / "leaderboard.csv").read_text()
    assert repr(again) == f"<Leaderboard of 4 audits in {folder.name}>"


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["{}/nowhere"], "nowhere: no such folder"),
        (["{}/a.json"], "a.json: a file; give the folder that it lies in"),
        (["{}/empty"], "empty: no row that `cda audit --export"),
        (["{}", "--out", "page.htm"], "--out page.htm: a page ends in .html"),
    ],
)
def test_a_wrong_folder_or_page_is_one_sentence(folder: Path, words: list[str], said: str) -> None:
    (folder / "empty").mkdir()
    done = CliRunner().invoke(app, ["leaderboard", *(word.format(folder) for word in words)])
    assert done.exit_code == 2 and said in " ".join(done.output.split()) and "Traceback" not in done.output
    assert not (folder / "nowhere").exists()


def test_a_leaderboard_of_the_wrong_type_is_refused() -> None:
    import cda

    with pytest.raises(CdaError, match=r"cda\.leaderboard: folder: give a path; found 3"):
        cda.leaderboard(3)  # type: ignore[arg-type]


def test_hostile_names_stay_words(tmp_path: Path) -> None:
    save(row(HOSTILE, {HOSTILE: bias(0.5, 0.1)}), tmp_path / "a.json")
    save(row("=cmd()", {HOSTILE: bias(0.5, 0.2)}), tmp_path / "b.json")
    result = read_leaderboard(tmp_path)
    page = leaderboard_document(result).page()
    checked(page)
    assert (
        "<script>alert" not in page
        and "\x1b" not in leaderboard_document(result).text() + leaderboard_document(result).markdown()
    )
    cells = [cell for line in csv.reader(io.StringIO(leaderboard_csv(result))) for cell in line]
    assert "'=cmd()" in cells and not any(cell.startswith(("=", "+", "@")) for cell in cells)
    lines = list(csv.DictReader(io.StringIO(leaderboard_csv(result))))
    assert [float(line["score"]) for line in lines] == [0.1, 0.2] and lines[0]["quality n"] == "100"
