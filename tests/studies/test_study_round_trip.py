"""Export, answers, import: the planted preference comes out as votes that an audit reads."""

from __future__ import annotations

import csv
import io
import json
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from simulated import cda, contrast_rows, filled, for_side, key_of, planted, write_rows, write_table

from cda.data.contrasts import clean_contrasts, load_votes
from cda.data.load import load_rows
from cda.errors import DataError
from cda.studies.export import Pairing, StudyPlan, designed, guarded, sheet, sheet_rows, unguarded

CODES = ("p01", "p02", "p03", "p04")


def imported(
    study: Path, out: Path, *answers: list[dict[str, str]] | Path, options: tuple[object, ...] = ()
) -> dict[str, Any]:
    """The summary of an import that succeeds; rows are written as tables."""
    files = [
        own if isinstance(own, Path) else write_table(out / f"back{at}.csv", own) for at, own in enumerate(answers)
    ]
    result = cda("study", "import", study, *files, "--out", out / "votes.jsonl", *options)
    assert result.exit_code == 0, result.output
    return json.loads((out / "votes.summary.json").read_text(encoding="utf-8"))


def votes_in(folder: Path) -> dict[str, tuple[str, ...]]:
    return dict(load_votes(str(folder / "votes.jsonl")))


def is_planted(votes: Mapping[str, Sequence[str]]) -> bool:
    return all(set(words) == {"perturbed" if int(name[1:]) < 5 else "base"} for name, words in votes.items())


def test_planted_preferences_come_back_as_votes(study: Path, tmp_path: Path) -> None:
    found, votes = imported(study, tmp_path, filled(study, CODES, planted)), votes_in(tmp_path)
    assert is_planted(votes) and {len(words) for words in votes.values()} == {3} and len(votes) == 20
    contrasts = clean_contrasts(load_rows(str(study.parent / "contrasts.jsonl")), ["jargon"], {}, "contrasts", votes)
    assert [contrast.votes.count("perturbed") for contrast in contrasts.contrasts] == [3] * 5 + [0] * 15
    assert found["biases"]["jargon"]["skew"]["value"] == 0.25 and found["biases"]["jargon"]["skew"]["n"] == 20
    assert found["all"]["agreement"]["alpha"]["value"] == 1
    assert (found["n_votes"], found["n_check_answers"], found["exclusions"]) == (60, 8, {"seen": 68, "reasons": {}})
    assert all(person["disagrees"]["value"] == 0 for person in found["participants"])
    assert not any(item["missing"] for item in found["items"])


def test_the_careless_are_left_out_and_their_items_listed(study: Path, tmp_path: Path) -> None:
    wrong = filled(study, ["p03"], lambda _, item, a: "B" if for_side(item, a, "base") == "A" else "A")
    found = imported(study, tmp_path, filled(study, CODES[:2], planted), wrong)
    third = next(person for person in found["participants"] if person["participant"] == "p03")
    assert third["attention"] == {"answered": 2, "right": 0, "passed": False} and third["votes"] == 0
    assert found["exclusions"]["reasons"] == {"of a participant who failed the attention checks": 15}
    assert found["silent"] == ["p04"] and sum(item["missing"] for item in found["items"]) == 30
    assert imported(study, tmp_path, wrong, options=("--attention-pass", 0))["n_votes"] == 15


def test_who_always_takes_a_is_noticed(study: Path, tmp_path: Path) -> None:
    def always_a(_code: str, item: Mapping[str, Any], a: int) -> str:
        return for_side(item, a, "base") if item["right"] is not None else "A"

    found = imported(study, tmp_path, filled(study, CODES, always_a))
    assert found["position"]["share_a"]["value"] == 1 and found["position"]["p_value"] < 0.001
    assert found["all"]["agreement"]["alpha"]["value"] < 0.1


def test_ties_and_disagreement_are_counted(study: Path, tmp_path: Path) -> None:
    def contrary(code: str, item: Mapping[str, Any], a: int) -> str:
        if code == "p02" and item["right"] is None:
            return for_side(item, a, "perturbed")
        return planted(code, item, a) if item["right"] is not None or code != "p04" else "tie"

    found = imported(study, tmp_path, filled(study, CODES, contrary))
    by_code = {person["participant"]: person for person in found["participants"]}
    assert by_code["p04"]["ties"] == 15 and by_code["p01"]["ties"] == 0
    assert sum(words.count("tie") for words in votes_in(tmp_path).values()) == 15
    # Leave-one-out: p04 sees no difference where the two others agree on a side.
    assert by_code["p04"]["disagrees"]["value"] == 1


def test_fast_answers_go_only_when_asked(study: Path, tmp_path: Path) -> None:
    answers = filled(study, ["p01"], planted)
    contrasts = [row for row in answers if key_of(study)[row["item"]]["right"] is None]
    for row, seconds in zip(contrasts, ("1", "1,0", "1.0", "1", "soon"), strict=False):
        row["seconds"] = seconds
    found = imported(study, tmp_path, answers)
    assert found["n_votes"] == 15 and found["time"]["n_fast"] == 4 and found["time"]["n_known"] == 14
    found = imported(study, tmp_path, answers, options=("--min-seconds", 2))
    assert found["n_votes"] == 11 and found["exclusions"]["reasons"] == {"given in less than 2 s": 4}


def test_answers_that_do_not_belong_are_counted_by_reason(study: Path, tmp_path: Path) -> None:
    mine = filled(study, ["p01"], planted)
    key, given = key_of(study), {row["item"] for row in mine}
    rows = [row for row in mine if key[row["item"]]["right"] is None]
    rows[0]["answer_a"], rows[0]["answer_b"] = rows[0]["answer_b"], rows[0]["answer_a"]
    rows[1]["choice"] = "C"
    rows[2]["item"] = "i999"
    rows[3]["item"] = next(name for name in key if name not in given)
    stranger = [row | {"participant": "<script>"} for row in filled(study, ["p02"], planted)]
    twice = [row | {"choice": "tie"} for row in rows[4:6]]
    found = imported(study, tmp_path, mine, stranger, twice, rows[6:7])
    assert found["exclusions"]["reasons"] == {
        "of an unknown participant": 17,
        "to an item that the participant was not given": 1,
        "to an unknown item": 1,
        "with other sides or texts than were given out": 1,
        "without a readable choice": 1,
        "given twice, and differently, under one participant's code": 4,
        "the same answer again": 1,
    }
    assert found["n_votes"] == 9


def test_files_that_are_no_results_are_all_named(study: Path, tmp_path: Path) -> None:
    other = [row | {"study": "0123456789abcdef"} for row in filled(study, ["p01"], planted)]
    write_table(tmp_path / "other.csv", other)
    files = {
        "odd.json": ('{"format": "cda-study-result"}', "holds no answers; they come back as the exported table"),
        "cut.json": ('[{"annotations": ', "not valid JSON"),
        "min.json": ('[{"annotator": 1, "choice": "A is better"}]', "Label Studio's short form"),
        "contrasts.jsonl": ('{"id": "c0"}\n{"id": "c1"}\n', "JSON lines"),
        "ls.csv": (
            '"annotation_id","annotator","choice"\n1,"3","A is better"\n',
            "Label Studio's table of annotations",
        ),
    }
    for name, (text, _) in files.items():
        (tmp_path / name).write_text(text, encoding="utf-8")
    names = ("none.json", "other.csv", *files)
    result = cda("study", "import", study, *(tmp_path / name for name in names))
    assert result.exit_code == 2 and "Traceback" not in result.output and "none.json: no such file" in result.stderr
    assert "answers to another study (0123456789abcdef)" in result.stderr
    assert [name for name, (_, words) in files.items() if words not in result.stderr] == []


def test_a_changed_key_is_refused(study: Path, tmp_path: Path) -> None:
    answers = write_table(tmp_path / "back.csv", filled(study, ["p01"], planted))
    key = json.loads((study / "key.json").read_text(encoding="utf-8"))
    item = next(item for item in key["items"] if item["perturbed"] is not None)
    item["perturbed"] = 1 - item["perturbed"]
    for content, words in (
        (key, "was changed after the export"),
        ({"items": 3}, "is not as `cda study export` of this version"),
    ):
        (tmp_path / "key.json").write_text(json.dumps(content), encoding="utf-8")
        assert words in cda("study", "import", tmp_path, answers).stderr
    (tmp_path / "key.json").unlink()
    assert "no study" in cda("study", "import", tmp_path, answers).stderr


def test_a_table_of_a_spreadsheet_and_empty_rows_count(study: Path, tmp_path: Path) -> None:
    rows = filled(study, CODES, lambda code, item, a: planted(code, item, a).lower() if code in CODES[:2] else "")
    assert len(rows) == 68
    found = imported(study, tmp_path, write_table(tmp_path / "filled.csv", rows, ";"))  # as in other locales
    assert found["n_votes"] == 30 and found["n_blank"] == 34 and is_planted(votes_in(tmp_path))


def test_a_report_of_prolific_comes_back_as_votes(study: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    assert (
        cda(
            "study", "export", study.parent / "contrasts.jsonl", out, "--to", "prolific", "--participants", "crowd"
        ).exit_code
        == 0
    )
    rows = list(csv.DictReader(io.StringIO((out / "prolific.csv").read_text(encoding="utf-8"), newline="")))
    assert list(rows[0]) == ["META_study", "META_TASK_GROUP_ID", "META_item", "prompt", "answer_a", "answer_b"]
    key = json.loads((out / "key.json").read_text(encoding="utf-8"))
    a_of = {(code, task["item"]): task["a"] for code, given in key["participants"].items() for task in given}
    words = {"A": "A is better", "B": "B is better"}
    # The report has the columns of the dataset, and one for each question under its own text.
    report = [
        row
        | {
            "participant_id": "5f",
            "Which answer is better?": words[
                planted("", key_of(out)[row["META_item"]], a_of[row["META_TASK_GROUP_ID"], row["META_item"]])
            ],
        }
        for row in rows
    ]
    found = imported(out, tmp_path, report)
    assert is_planted(votes_in(tmp_path)) and found["exclusions"]["reasons"] == {} and found["n_votes"] == 60
    two = [row | {"again": row["Which answer is better?"]} for row in report]
    refused = cda("study", "import", out, write_table(tmp_path / "two.csv", two))
    assert refused.exit_code == 2 and "no column choice, and 2 others hold A is better" in refused.stderr


@pytest.fixture(scope="module")
def for_label_studio(study: Path) -> Path:
    out = study.parent / "label-studio"
    done = cda(
        "study",
        "export",
        study.parent / "contrasts.jsonl",
        out,
        "--to",
        "labelstudio",
        "--participants",
        "crowd",
        "--attention",
        2,
    )
    assert done.exit_code == 0, done.output
    return out


def test_label_studio_tasks_come_back_as_votes(for_label_studio: Path, tmp_path: Path) -> None:
    study = for_label_studio
    tasks = json.loads((study / "label_studio.json").read_text(encoding="utf-8"))
    config = ElementTree.fromstring((study / "label_studio.xml").read_text(encoding="utf-8"))
    names = [one.get("value") for one in config.iter("Choice")]
    assert names == ["A is better", "B is better", "No difference"]
    assert {one.get("value", "")[1:] for one in config.iter("Text")} <= tasks[0]["data"].keys()
    # Spaces and tabs are part of an answer: a view around each text keeps them.
    kept = [view for view in config.iter("View") if "white-space: pre-wrap" in view.get("style", "")]
    assert {text for view in kept for text in view.iter("Text")} == set(config.iter("Text"))
    key = key_of(study)
    words = {
        "A": {"choices": ["A is better"]},
        "B": {"choices": ["B is better"]},
        "tie": {"choices": ["No difference"]},
    }
    for at, task in enumerate(tasks):
        item = key[task["data"]["item"]]
        mark = {"value": words[planted("", item, 0)], "type": "choices", "from_name": "choice", "to_name": "prompt"}
        result = [mark, {"value": {"text": ["clear"]}}]
        people = enumerate((1, {"id": 2, "email": "x@y.z"}))
        made = [{"id": 10 * at + who, "completed_by": by, "lead_time": 8.5, "result": result} for who, by in people]
        task["annotations"] = [*made, {"id": 999, "completed_by": 3, "was_cancelled": True, "result": [mark]}]
    tasks[0]["annotations"][0]["result"] = []
    (tmp_path / "export.json").write_text(json.dumps(tasks), encoding="utf-8")
    found = imported(study, tmp_path, tmp_path / "export.json")
    assert {person["participant"] for person in found["participants"]} == {"label-studio-1", "label-studio-2"}
    assert is_planted(votes_in(tmp_path)) and found["exclusions"]["reasons"] == {"without a readable choice": 1}
    assert found["participants"][1]["justified"] == found["participants"][1]["votes"]


@pytest.mark.parametrize("odd", [3, None, [None], [{"result": 3}], [{"result": [{"value": {"choices": "A"}}]}]])
def test_odd_annotations_are_no_votes(for_label_studio: Path, tmp_path: Path, odd: Any) -> None:
    tasks = json.loads((for_label_studio / "label_studio.json").read_text(encoding="utf-8"))[:2]
    (tmp_path / "odd.json").write_text(json.dumps([task | {"annotations": odd} for task in tasks]), encoding="utf-8")
    result = cda("study", "import", for_label_studio, tmp_path / "odd.json")
    assert result.exit_code == 2 and "no vote is left" in result.stderr
    assert not (for_label_studio / "votes.jsonl").exists()


def test_what_is_given_out_holds_no_hint_at_the_key(study: Path, for_label_studio: Path) -> None:
    for path in (
        study / "items.csv",
        study / "README.md",
        *(for_label_studio / f"label_studio.{end}" for end in ("json", "xml")),
    ):
        text = path.read_text(encoding="utf-8").lower()
        assert "perturbed" not in text and "jargon" not in text and "bias" not in text.replace("debias", ""), path
        assert not re.search(r"""\bc1?\d['"]""", text), "no id of a contrast"


@pytest.mark.parametrize(
    ("rows", "options", "message"),
    [
        ([], (), "has no rows"),
        ([{"id": "a", "prompt": "p", "base": "same", "perturbed": "same"}], (), "no usable contrast; .*identical sides"),
        ([{"prompt": "p", "base": "a", "perturbed": "b"}], (), "Give --bias NAME"),
        ([contrast_rows(2)[0], contrast_rows(2)[1] | {"id": "c0"}], (), "several contrasts share one: c0"),
        (contrast_rows(4), ("--quota", 1, "--people", 3), "Needed: --quota 4, or --people 12"),
        (contrast_rows(4), ("--participants", "cats", "--to", "csw"), r"--to: csv, labelstudio, prolific; found 'csw'.* 'csv'(.|\n)*--participants: crowd, experts; found 'cats'"),
        (contrast_rows(4), ("--bias", "length"), "no usable contrast; .*of another bias"),
        ([{"id": 1, "question": "p", "base": "a", "perturbed": "b"}], (), "no column 'prompt'. Map it with --column prompt="),
        ([{"prompt": "p", "chosen": "a", "rejected": "b"}], (), "needs the columns base and perturbed"),
    ],
)  # fmt: skip
def test_what_cannot_be_exported_is_refused(
    tmp_path: Path, rows: list[dict[str, Any]], options: tuple[object, ...], message: str
) -> None:
    result = cda("study", "export", write_rows(tmp_path / "c.jsonl", rows), tmp_path / "out", *options)
    assert result.exit_code == 2 and re.search(message, result.stderr), result.output
    assert not (tmp_path / "out").exists()


def test_a_folder_in_use_is_left_alone(study: Path) -> None:
    before = (study / "key.json").read_bytes()
    result = cda("study", "export", study.parent / "contrasts.jsonl", study)
    assert result.exit_code == 2 and "is not empty" in result.stderr
    assert (study / "key.json").read_bytes() == before
    assert (study / "key.json").stat().st_mode & 0o777 == 0o600 and (study / "items.csv").stat().st_mode & 0o044


def test_triples_become_contrasts_of_their_two_rewrites(tmp_path: Path) -> None:
    rows = [
        {"prompt": f"Question {at}?", "original": f"o{at}", "rewrite": f"r{at}", "rewrite_of_rewrite": f"rr{at}",
         "has_attribute": at % 2, "bias": "vagueness"}
        for at in range(4)
    ]  # fmt: skip
    out = tmp_path / "out"
    assert cda("study", "export", write_rows(tmp_path / "t.jsonl", rows), out).exit_code == 0
    made = load_rows(str(out / "contrasts.jsonl"))
    assert [row["perturbed"] for row in made] == ["r0", "rr1", "r2", "rr3"]
    assert [row["base"] for row in made] == ["rr0", "r1", "rr2", "r3"]
    imported(out, tmp_path, filled(out, ["p01"], lambda _, item, a: for_side(item, a, "perturbed")))
    contrasts = clean_contrasts(made, ["vagueness"], {}, "made", votes_in(tmp_path)).contrasts
    assert [contrast.votes for contrast in contrasts] == [("perturbed",)] * 4


ATTACKS = ("=cmd|' /C calc'!A0", "+1", "-2+3", "@SUM(1)", "\t=1", "\r=1", "\n=1", "'=1", "''")


@settings(derandomize=True, max_examples=100, deadline=None)
@given(st.one_of(st.text(), st.sampled_from(ATTACKS)))
def test_a_guarded_cell_is_inert_and_comes_back(text: str) -> None:
    cell = guarded(text)
    assert not cell.startswith(("=", "+", "-", "@", "\t", "\r", "\n"))
    assert unguarded(cell) == text


def test_hostile_texts_are_guarded_and_counted() -> None:
    pairings = [Pairing(f"c{at}", "b", f"p{at}", text, f"base {at}", f"{text}!") for at, text in enumerate(ATTACKS)]
    study = designed(pairings, "experts", StudyPlan(1, 1, len(ATTACKS), 0), seed=0)
    table, n_guarded = sheet(study)
    assert n_guarded == 2 * len(ATTACKS)  # the prompt and one answer of each row
    raw = list(csv.reader(io.StringIO(table, newline="")))
    assert len(raw) == 1 + len(ATTACKS)
    assert not any(cell.startswith(("=", "+", "-", "@", "\t", "\r", "\n")) for row in raw for cell in row)
    assert {row["prompt"] for _, row in sheet_rows(table, "items.csv")} == set(ATTACKS)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("item,choice\ni1,A\n", "no column study, participant"),
        ("study,participant,item,choice\nx,p01,i1\n", "row 2 has not as many cells"),
        ('study,participant,item,choice\nx,p01,i1,"A', "not valid CSV"),
        ("", "no column"),
    ],
)
def test_broken_tables_are_refused(text: str, message: str) -> None:
    with pytest.raises(DataError, match=message):
        list(sheet_rows(text, "f.csv"))
