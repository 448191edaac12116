"""Dose from score files: a planted dose is found, every layout reads, and what does not match is said."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from cda.dosing import files as dose_files
from cda.errors import DataError
from cda.files.jsonl import write_jsonl

Rows = list[dict[str, Any]]
N = 40


def dose_from_files(*given: Any, **options: Any) -> str:
    return dose_files.dose_files_text(dose_files.dose_from_files(*given, **options))


def write(path: Path, rows: Rows) -> Path:
    write_jsonl(path, rows)
    return path


def scores(after: bool, key: str = "id") -> Rows:
    """Preferred sides start at margin 4 and the others at 2.2; plain CDA takes 2 off: dose 1.25 tells them apart."""
    margins = [(4.0 if row % 2 else 2.2) - 2 * after for row in range(N)]
    return [{key: f"c{row}", "perturbed_score": 1 + margin, "base_score": 1.0} for row, margin in enumerate(margins)]


def votes() -> Rows:
    return [{"id": f"c{row}", "votes": ["perturbed", "perturbed", "tie"] if row % 2 else ["base"]} for row in range(N)]


def files(folder: Path) -> tuple[Path, Path, Path]:
    both = (write(folder / f"{name}.jsonl", scores(name == "after")) for name in ("before", "after"))
    return (*both, write(folder / "votes.jsonl", votes()))  # type: ignore[return-value]


def test_the_planted_dose_is_chosen_and_shown(tmp_path: Path) -> None:
    given = files(tmp_path)
    found = dose_files.dose_from_files(*given, repeats=5)
    assert found.held_out.dose == 1.25 and found.held_out.chosen[1.25] == 1
    assert [one.dose for one in found.response] == [step / 4 for step in range(11)]
    assert found.response[0].people.miscalibration.value == 0.5 and not found.left_out
    assert found.held_out.base.gap.value == pytest.approx(0.5, abs=0.02)
    text = dose_from_files(*given, repeats=5)
    assert "Chosen dose: 1.25 (halves chose 1.25 100%)" in text and "against plain CDA: miscalibration −50 [" in text


def test_margins_and_stated_preferences_and_prompts(tmp_path: Path) -> None:
    rows = [
        {"prompt": f"Question {row // 2}?", "id": row, "margin": 4.0 if row % 2 else 2.2, "preferred": "perturbed" if row % 2 else "base"}
        for row in range(N)
    ]  # fmt: skip
    before = write(tmp_path / "b.jsonl", rows)
    after = write(tmp_path / "a.jsonl", [{"id": row["id"], "margin": row["margin"] - 2} for row in rows])
    text = dose_from_files(before, after, repeats=2)
    assert "40 contrasts of 20 prompts" in text and "Chosen dose: 1.25" in text


def annotations(other_text: int | None = None) -> Rows:
    """People's annotations as a release has them; the biased response stands second in every third row."""
    rows: Rows = []
    for row in range(N):
        biased, other = ("response_2", "response_1") if row % 3 == 0 else ("response_1", "response_2")
        liked = biased if row % 2 else other
        word = liked.replace("response_", "Response ")
        entries = [{"overall_preference": word}, {"overall_preference": "Tie"}, {"overall_preference": word}]
        text = "something else" if row == other_text else f"biased {row}"
        rows.append(
            {"query": f"c{row}", biased: text, other: f"plain {row}", "more_jargony_response": biased,
             "reward_model_preferred_response": "response_1", "most_frequent_preference": liked, "entries": entries}
        )  # fmt: skip
    return rows


def released(after: bool) -> Rows:
    texts = [{"perturbed_response": f"biased {row}", "base_response": f"plain {row}"} for row in range(N)]
    unvoted = {"query": "more", "perturbed_score": 1.0, "base_score": 0.0}
    return [row | text for row, text in zip(scores(after, "query"), texts, strict=True)] + [unvoted]


@pytest.mark.parametrize("ties", ["drop", "as-released"])
def test_the_layout_of_the_release_is_read_as_it_is(tmp_path: Path, ties: Any) -> None:
    people = tmp_path / "jargon_grouped_human_annotations.json"
    people.write_text(json.dumps(annotations()), encoding="utf-8")
    before, after = (write(tmp_path / f"{name}.jsonl", released(name == "after")) for name in ("before", "after"))
    text = dose_from_files(before, after, people, repeats=2, ties=ties)
    assert "Chosen dose: 1.25" in text and "people's skew 50%" in text
    assert "scored rows without a majority: 1 of 41 dropped" in text
    people.write_text(json.dumps(annotations(other_text=7)), encoding="utf-8")
    text = dose_from_files(before, after, people, repeats=2, ties=ties)
    assert "1 items belong to other texts than the scores of the same query" in text
    assert "39 contrasts of 39 prompts" in text


def test_what_does_not_match_is_counted_and_named(tmp_path: Path) -> None:
    before, after, people = files(tmp_path)
    first = [*scores(False), {"id": "alone", "margin": 1}, {"id": "twice", "margin": 1}, {"id": "twice", "margin": 2}]
    nameless, odd = {"perturbed_score": 1, "base_score": 0}, {"id": "odd", "perturbed_score": "n/a", "base_score": 0}
    write(before, [*first, nameless, odd])
    write(people, [*votes(), {"id": "stranger", "votes": ["base"]}, {"id": "c0", "votes": ["sideways"]}])
    found = dose_files.dose_from_files(before, after, people, repeats=2)
    text = dose_files.dose_files_text(found)
    assert f"{before}: 4 of 45 dropped (2 whose id several rows have, 1 without a score, 1 without id)" in text
    assert f"{before}: 1 of 41 ids are in this file alone (alone)" in text
    assert f"{people}: 1 of 41 items have no scores (stranger)" in text
    assert "unreadable vote 'sideways'" in text and "40 contrasts" in text
    assert len(found.left_out) == 4


def test_errors_say_where_what_and_what_to_do(tmp_path: Path) -> None:
    before, after, people = files(tmp_path)
    other = write(tmp_path / "other.jsonl", [{**row, "id": f"x{row['id']}"} for row in scores(True)])
    lost = write(tmp_path / "lost.jsonl", [{**row, "id": f"v{row['id']}"} for row in votes()])
    bare = write(tmp_path / "bare.jsonl", [{"id": 1, "score": 2}])
    few = write(tmp_path / "few.jsonl", votes()[:12])
    two = annotations()
    two[0]["longer_response"] = "response_1"
    doubtful = tmp_path / "doubtful.json"
    doubtful.write_text(json.dumps(two), encoding="utf-8")
    cases: list[tuple[tuple[Any, ...], str]] = [
        ((before, after), r"^no votes: .* Give a file of votes"),
        ((before, other, people), r"other.jsonl: none of its 40 ids is one of .* There: xc0, xc1, xc2, …; here: c0"),
        ((before, after, lost), r"lost.jsonl: none of its 40 items is a row of both score files"),
        (
            (bare, after, people),
            r"bare.jsonl: needs a column .* perturbed_score and base_score, or margin. Found: id, score",
        ),
        ((before, after, people, (before, after)), r"chosen_score and rejected_score"),
        ((before, after, few), r"12 prompts with a majority of people: .* at least 20; collect votes on 8 more"),
        ((before, after, doubtful), r"one column must say which response carries the bias"),
    ]
    for given, message in cases:
        with pytest.raises(DataError, match=message):
            dose_from_files(*given)


def test_score_files_that_state_different_votes_are_refused(tmp_path: Path) -> None:
    rows = [[row | {"preferred": "base"} for row in scores(after)] for after in (False, True)]
    rows[1][0]["preferred"], rows[1][1]["preferred"], rows[0][2]["preferred"] = "tie", "", ""
    before, after = write(tmp_path / "b.jsonl", rows[0]), write(tmp_path / "a.jsonl", rows[1])
    said = r"^c0: the score files before and after state different votes; correct or remove them"
    with pytest.raises(DataError, match=said):
        dose_from_files(before, after)
