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
from simulated import Choose, cda, contrast_rows, for_side, key_of, planted, result_of, write_rows

from cda.data.contrasts import clean_contrasts
from cda.data.load import load_rows
from cda.data.votes import load_votes
from cda.errors import DataError
from cda.studies.design import Pairing, Plan, designed
from cda.studies.export import guarded, sheet, sheet_rows, unguarded

CODES = ("p01", "p02", "p03", "p04")


def written(folder: Path, *contents: Any) -> list[Path]:
    """What came back, a file each."""
    files = [folder / f"back{at}.json" for at in range(len(contents))]
    for file, content in zip(files, contents, strict=True):
        file.write_text(json.dumps(content), encoding="utf-8")
    return files


def imported(study: Path, out: Path, *contents: Any, options: tuple[object, ...] = ()) -> dict[str, Any]:
    """The summary of an import that succeeds; a path stands for its own file."""
    files = [content for content in contents if isinstance(content, Path)] or written(out, *contents)
    result = cda("study", "import", study, *files, "--out", out / "votes.jsonl", *options)
    assert result.exit_code == 0, result.output
    return json.loads((out / "votes.summary.json").read_text(encoding="utf-8"))


def by_everybody(study: Path, choose: Choose) -> list[dict[str, Any]]:
    return [result_of(study, code, choose) for code in CODES]


def votes_in(folder: Path) -> dict[str, tuple[str, ...]]:
    return dict(load_votes(str(folder / "votes.jsonl")))


def is_planted(votes: Mapping[str, Sequence[str]]) -> bool:
    return all(set(words) == {"perturbed" if int(name[1:]) < 5 else "base"} for name, words in votes.items())


def test_planted_preferences_come_back_as_votes(study: Path, tmp_path: Path) -> None:
    found, votes = imported(study, tmp_path, *by_everybody(study, planted)), votes_in(tmp_path)
    assert is_planted(votes) and {len(words) for words in votes.values()} == {3} and len(votes) == 20
    contrasts = clean_contrasts(load_rows(str(study.parent / "contrasts.jsonl")), ["jargon"], {}, "contrasts", votes)
    assert [contrast.votes.count("perturbed") for contrast in contrasts.contrasts] == [3] * 5 + [0] * 15
    assert found["biases"]["jargon"]["skew"]["value"] == 0.25 and found["biases"]["jargon"]["skew"]["n"] == 20
    assert found["all"]["agreement"]["alpha"]["value"] == 1
    assert (found["n_votes"], found["n_check_answers"], found["exclusions"]) == (60, 8, {"seen": 68, "reasons": {}})
    assert all(person["disagrees"]["value"] == 0 for person in found["participants"])
    assert not any(item["missing"] for item in found["items"])


def test_the_careless_are_left_out_and_their_items_listed(study: Path, tmp_path: Path) -> None:
    wrong = result_of(study, "p03", lambda _, item, a: "B" if for_side(item, a, "base") == "A" else "A")
    found = imported(study, tmp_path, *by_everybody(study, planted)[:2], wrong)
    third = next(person for person in found["participants"] if person["participant"] == "p03")
    assert third["attention"] == {"answered": 2, "right": 0, "passed": False} and third["votes"] == 0
    assert found["exclusions"]["reasons"] == {"of a participant who failed the attention checks": 15}
    assert found["silent"] == ["p04"] and sum(item["missing"] for item in found["items"]) == 30
    assert imported(study, tmp_path, wrong, options=("--attention-pass", 0))["n_votes"] == 15


def test_who_always_takes_a_is_noticed(study: Path, tmp_path: Path) -> None:
    def always_a(_code: str, item: Mapping[str, Any], a: int) -> str:
        return for_side(item, a, "base") if item["right"] is not None else "A"

    found = imported(study, tmp_path, *by_everybody(study, always_a))
    assert found["position"]["share_a"]["value"] == 1 and found["position"]["p_value"] < 0.001
    assert found["all"]["agreement"]["alpha"]["value"] < 0.1


def test_ties_and_disagreement_are_counted(study: Path, tmp_path: Path) -> None:
    def contrary(code: str, item: Mapping[str, Any], a: int) -> str:
        if code == "p02" and item["right"] is None:
            return for_side(item, a, "perturbed")
        return planted(code, item, a) if item["right"] is not None or code != "p04" else "tie"

    found = imported(study, tmp_path, *by_everybody(study, contrary))
    by_code = {person["participant"]: person for person in found["participants"]}
    assert by_code["p04"]["ties"] == 15 and by_code["p01"]["ties"] == 0
    assert sum(words.count("tie") for words in votes_in(tmp_path).values()) == 15
    # Leave-one-out: p04 sees no difference where the two others agree on a side.
    assert by_code["p04"]["disagrees"]["value"] == 1


def test_fast_answers_go_only_when_asked(study: Path, tmp_path: Path) -> None:
    answers = result_of(study, "p01", planted)
    contrasts = [one for one in answers["answers"] if key_of(study)[one["item"]]["right"] is None]
    for one in contrasts[:4]:
        one["seconds"] = 1.0
    contrasts[4]["seconds"] = None
    found = imported(study, tmp_path, answers)
    assert found["n_votes"] == 15 and found["time"]["n_fast"] == 4 and found["time"]["n_known"] == 14
    found = imported(study, tmp_path, answers, options=("--min-seconds", 2))
    assert found["n_votes"] == 11 and found["exclusions"]["reasons"] == {"given in less than 2 s": 4}


def test_answers_that_do_not_belong_are_counted_by_reason(study: Path, tmp_path: Path) -> None:
    mine = result_of(study, "p01", planted)
    key, given = key_of(study), {one["item"] for one in mine["answers"]}
    rows = [one for one in mine["answers"] if key[one["item"]]["right"] is None]
    rows[0]["a"] = 1 - rows[0]["a"]
    rows[1]["choice"] = "C"
    rows[2]["item"] = "i999"
    rows[3]["item"] = next(name for name in key if name not in given)
    stranger = result_of(study, "p02", planted) | {"participant": "<script>"}
    found = imported(study, tmp_path, mine, stranger)
    assert found["exclusions"]["reasons"] == {
        "of an unknown participant": 17,
        "to an item that the participant was not given": 1,
        "to an unknown item": 1,
        "with other sides or texts than were given out": 1,
        "without a readable choice": 1,
    }
    assert found["n_votes"] == 11


def test_the_last_download_of_a_session_counts_and_two_people_under_a_code_do_not(study: Path, tmp_path: Path) -> None:
    def other_way(code: str, item: Mapping[str, Any], a: int) -> str:
        return for_side(item, a, "perturbed") if item["right"] is None else planted(code, item, a)

    early, late = result_of(study, "p01", other_way), result_of(study, "p01", planted, revision=2)
    found = imported(study, tmp_path, late, early)
    assert found["exclusions"]["reasons"].keys() == {"replaced later", "the same answer again"}
    assert found["n_votes"] == sum(found["all"]["votes"].values()) == 15 and found["all"]["votes"]["base"] > 8
    for session, n in (
        ("another browser", 2),
        ("s", 1),
    ):  # in one session two files of the same number: one was changed
        found = imported(study, tmp_path, late, result_of(study, "p01", other_way, session=session, revision=2))
        twice = found["exclusions"]["reasons"]["given twice, and differently, under one participant's code"]
        assert twice == n * (15 - found["n_votes"]) > 0


def test_files_that_are_no_results_are_all_named(study: Path, tmp_path: Path) -> None:
    other = result_of(study, "p01", planted) | {"study": "0123456789abcdef"}
    files = {
        "other.json": (json.dumps(other), "answers to another study (0123456789abcdef)"),
        "odd.json": ('{"hello": 1}', "holds no answers; they come back as a result file"),
        "cut.json": ('{"format": "cda-study-result", ', "not valid JSON"),
        "min.json": ('[{"annotator": 1, "choice": "A is better"}]', "Label Studio's short form"),
        "contrasts.jsonl": ('{"id": "c0"}\n{"id": "c1"}\n', "JSON lines"),
        "ls.csv": (
            '"annotation_id","annotator","choice"\n1,"3","A is better"\n',
            "Label Studio's table of annotations",
        ),
    }
    for name, (text, _) in files.items():
        (tmp_path / name).write_text(text, encoding="utf-8")
    result = cda("study", "import", study, tmp_path / "none.json", *(tmp_path / name for name in files))
    assert result.exit_code == 2 and "Traceback" not in result.output and "none.json: no such file" in result.stderr
    assert [name for name, (_, words) in files.items() if words not in result.stderr] == []


def test_a_changed_key_or_another_studys_key_is_refused(study: Path, tmp_path: Path) -> None:
    (answers,) = written(tmp_path, result_of(study, "p01", planted))
    for name in ("assignments.json", "key.json"):
        (tmp_path / name).write_bytes((study / name).read_bytes())
    key = json.loads((study / "key.json").read_text(encoding="utf-8"))
    item = next(item for item in key["items"] if item["perturbed"] is not None)
    item["perturbed"] = 1 - item["perturbed"]
    (tmp_path / "key.json").write_text(json.dumps(key), encoding="utf-8")
    assert "was changed after the export" in cda("study", "import", tmp_path, answers).stderr
    (tmp_path / "key.json").write_text('{"items": 3}', encoding="utf-8")
    assert "is not as `cda study export` wrote it" in cda("study", "import", tmp_path, answers).stderr
    (tmp_path / "key.json").unlink()
    assert "no study" in cda("study", "import", tmp_path, answers).stderr


def test_filled_tables_count_and_tampered_ones_do_not(study: Path, tmp_path: Path) -> None:
    rows = list(csv.DictReader(io.StringIO((study / "items.csv").read_text(encoding="utf-8-sig"), newline="")))
    key, shown = key_of(study), json.loads((study / "assignments.json").read_text(encoding="utf-8"))["participants"]
    a_of = {(code, task["item"]): task["a"] for code, given in shown.items() for task in given}
    assert len(rows) == len(a_of) == 68
    for row in rows:
        if row["participant"] in CODES[:2]:
            row["choice"] = planted("", key[row["item"]], a_of[row["participant"], row["item"]]).lower()
    swapped = next(row for row in rows if row["choice"] and key[row["item"]]["right"] is None)
    swapped["answer_a"], swapped["answer_b"] = swapped["answer_b"], swapped["answer_a"]
    path = tmp_path / "filled.csv"
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.DictWriter(file, rows[0].keys(), delimiter=";")  # as in other locales
        writer.writeheader()
        writer.writerows(rows)
    found = imported(study, tmp_path, path)
    assert found["n_votes"] == 29 and found["n_blank"] == 34
    assert found["exclusions"]["reasons"] == {"with other sides or texts than were given out": 1}
    assert is_planted(votes_in(tmp_path))


def test_label_studio_tasks_come_back_as_votes(study: Path, tmp_path: Path) -> None:
    tasks = json.loads((study / "label_studio.json").read_text(encoding="utf-8"))
    config = ElementTree.fromstring((study / "label_studio.xml").read_text(encoding="utf-8"))
    names = [one.get("value") for one in config.iter("Choice")]
    assert names == ["A is better", "B is better", "No difference"]
    assert {one.get("value", "")[1:] for one in config.iter("Text")} <= tasks[0]["data"].keys()
    # Spaces and tabs are part of an answer: a view around each text keeps them.
    kept = [view for view in config.iter("View") if "white-space: pre-wrap" in view.get("style", "")]
    assert {text for view in kept for text in view.iter("Text")} == set(config.iter("Text"))
    key = key_of(study)
    words = {"A": {"choices": ["A is better"]}, "B": {"selected": "right"}, "tie": {"choices": ["No difference"]}}
    for at, task in enumerate(tasks):
        item = key[task["data"]["item"]]
        mark = {"value": words[planted("", item, 0)], "type": "choices", "from_name": "choice", "to_name": "prompt"}
        result = [mark, {"value": {"text": ["clear"]}}]
        people = enumerate((1, {"id": 2, "email": "x@y.z"}))
        made = [{"id": 10 * at + who, "completed_by": by, "lead_time": 8.5, "result": result} for who, by in people]
        task["annotations"] = [*made, {"id": 999, "completed_by": 3, "was_cancelled": True, "result": [mark]}]
    tasks[0]["annotations"][0]["result"] = []
    found = imported(study, tmp_path, tasks)
    assert {person["participant"] for person in found["participants"]} == {"label-studio-1", "label-studio-2"}
    assert is_planted(votes_in(tmp_path)) and found["exclusions"]["reasons"] == {"without a readable choice": 1}
    assert found["participants"][1]["justified"] == found["participants"][1]["votes"]


@pytest.mark.parametrize("odd", [3, None, [None], [{"result": 3}], [{"result": [{"value": {"choices": "A"}}]}]])
def test_odd_annotations_are_no_votes(study: Path, tmp_path: Path, odd: Any) -> None:
    tasks = json.loads((study / "label_studio.json").read_text(encoding="utf-8"))[:2]
    result = cda("study", "import", study, *written(tmp_path, [task | {"annotations": odd} for task in tasks]))
    assert result.exit_code == 2 and "no vote is left" in result.stderr and not (study / "votes.jsonl").exists()


def test_the_page_and_the_tasks_hold_no_hint_at_the_key(study: Path) -> None:
    page = (study / "index.html").read_text(encoding="utf-8")
    for name in ("index.html", "label_studio.json", "label_studio.xml", "assignments.json", "items.csv", "README.md"):
        text = (study / name).read_text(encoding="utf-8").lower()
        assert "perturbed" not in text and "jargon" not in text and "bias" not in text.replace("debias", ""), name
    assert not re.search(r"""\bc1?\d['"]""", page), "no id of a contrast"
    assert "default-src 'none'" in page and "http" not in page.split("<body>")[1]
    assert " style=" not in page and " onclick" not in page


def test_hostile_texts_stay_inside_their_data_block(tmp_path: Path) -> None:
    attack = "</script><script>alert(1)</script><!-- \u2028 \ud800 \u202e {{7*7}} '"
    texts = [(f"{attack} {at}", f"b{at} {attack}", f"p{at}") for at in range(3)]
    rows = [{"id": row[2], **dict(zip(("prompt", "base", "perturbed"), row, strict=True))} for row in texts]
    result = cda("study", "export", write_rows(tmp_path / "c.jsonl", rows), tmp_path / "out")
    assert result.exit_code == 0, result.output
    page = (tmp_path / "out" / "index.html").read_text(encoding="utf-8")
    assert page.count("</script>") == 2 and "<!--" not in page and "alert(1)</" not in page
    block = page.split('<script type="application/json" id="study">')[1].split("</script>")[0]
    prompts = {one["prompt"] for one in json.loads(block)["items"].values()}
    assert any("</script><script>alert(1)" in one and "[U+202E]" in one and "[U+D800]" in one for one in prompts)


@pytest.mark.parametrize(
    ("rows", "options", "message"),
    [
        ([], (), "has no rows"),
        ([{"id": "a", "prompt": "p", "base": "same", "perturbed": "same"}], (), "no usable contrast; .*identical sides"),
        ([{"prompt": "p", "base": "a", "perturbed": "b"}], (), "Give --bias NAME"),
        ([contrast_rows(2)[0], contrast_rows(2)[1] | {"id": "c0"}], (), "several contrasts share one: c0"),
        (contrast_rows(4), ("--quota", 1, "--people", 3), "Needed: --quota 4, or --people 12"),
        (contrast_rows(4), ("--participants", "cats"), "experts or crowd, found 'cats'"),
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
    assert (study / "key.json").stat().st_mode & 0o777 == 0o600 and (study / "index.html").stat().st_mode & 0o044


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
    imported(out, tmp_path, result_of(out, "p01", lambda _, item, a: for_side(item, a, "perturbed")))
    contrasts = clean_contrasts(made, ["vagueness"], {}, "made", votes_in(tmp_path)).contrasts
    assert [contrast.votes for contrast in contrasts] == [("perturbed",)] * 4


ATTACKS = ("=cmd|' /C calc'!A0", "+1", "-2+3", "@SUM(1)", "\t=1", "\r=1", "\n=1", "'=1", "''")


@settings(derandomize=True, max_examples=200, deadline=None)
@given(st.one_of(st.text(), st.sampled_from(ATTACKS)))
def test_a_guarded_cell_is_inert_and_comes_back(text: str) -> None:
    cell = guarded(text)
    assert not cell.startswith(("=", "+", "-", "@", "\t", "\r", "\n"))
    assert unguarded(cell) == text


def test_hostile_texts_are_guarded_and_counted() -> None:
    pairings = [Pairing(f"c{at}", "b", f"p{at}", text, f"base {at}", f"{text}!") for at, text in enumerate(ATTACKS)]
    study = designed(pairings, "experts", Plan(1, 1, len(ATTACKS), 0), seed=0)
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
