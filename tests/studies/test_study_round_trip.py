"""Export, answers, import: the planted preference comes out as votes that an audit reads."""

from __future__ import annotations

import csv
import io
import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest
from simulated import cda, contrast_rows, for_side, key_of, planted, result_of, write_rows

from cda.data.contrasts import clean_contrasts
from cda.data.load import load_rows
from cda.data.votes import load_votes

CODES = ("p01", "p02", "p03", "p04")
Save = Callable[[Any, str], Path]


def imported(study: Path, out: Path, *files: Path, options: tuple[object, ...] = ()) -> dict[str, Any]:
    """The summary of an import that succeeds."""
    result = cda("study", "import", study, *files, "--out", out / "votes.jsonl", *options)
    assert result.exit_code == 0, result.output
    return json.loads((out / "votes.summary.json").read_text(encoding="utf-8"))


def test_planted_preferences_come_back_as_votes(study: Path, save: Save, tmp_path: Path) -> None:
    files = [save(result_of(study, code, planted), f"{code}.json") for code in CODES]
    found = imported(study, tmp_path, *files)
    votes = load_votes(str(tmp_path / "votes.jsonl"))
    assert {name: set(words) for name, words in votes.items()} == {
        f"c{at}": {"perturbed" if at < 5 else "base"} for at in range(20)
    }
    assert {len(words) for words in votes.values()} == {3}
    contrasts = clean_contrasts(load_rows(str(study.parent / "contrasts.jsonl")), ["jargon"], {}, "contrasts", votes)
    assert [one.votes.count("perturbed") for one in contrasts.contrasts] == [3] * 5 + [0] * 15
    assert found["biases"]["jargon"]["skew"]["value"] == 0.25 and found["biases"]["jargon"]["skew"]["n"] == 20
    assert found["all"]["agreement"]["alpha"]["value"] == 1
    assert (
        found["n_votes"] == 60 and found["n_check_answers"] == 8 and found["exclusions"] == {"seen": 68, "reasons": {}}
    )
    assert all(one["disagrees"]["value"] == 0 for one in found["participants"])
    assert not any(one["missing"] for one in found["items"])


def test_the_careless_are_left_out_and_their_items_listed(study: Path, save: Save, tmp_path: Path) -> None:
    def careless(code: str, item: dict[str, Any], a: int) -> str:
        return "A" if code == "p03" else planted(code, item, a)

    wrong = result_of(study, "p03", lambda _, item, a: "B" if for_side(item, a, "base") == "A" else "A")
    found = imported(study, tmp_path, *(save(result_of(study, c, careless), f"{c}.json") for c in CODES[:2]),
                     save(wrong, "p03.json"))  # fmt: skip
    third = next(one for one in found["participants"] if one["participant"] == "p03")
    assert third["attention"] == {"answered": 2, "right": 0, "passed": False} and third["votes"] == 0
    assert found["exclusions"]["reasons"] == {"of a participant who failed the attention checks": 15}
    assert found["silent"] == ["p04"]
    assert sum(one["missing"] for one in found["items"]) == 30
    page = (tmp_path / "votes.summary.html").read_text(encoding="utf-8")
    assert "1 of 3 participants failed and are left out: p03" in page
    kept = imported(study, tmp_path, save(wrong, "p03.json"), options=("--attention-pass", 0))
    assert kept["n_votes"] == 15


def test_who_always_takes_a_is_noticed(study: Path, save: Save, tmp_path: Path) -> None:
    def always_a(_code: str, item: dict[str, Any], a: int) -> str:
        return for_side(item, a, "base") if item["right"] is not None else "A"

    found = imported(study, tmp_path, *(save(result_of(study, code, always_a), f"{code}.json") for code in CODES))
    assert found["position"]["share_a"]["value"] == 1 and found["position"]["p_value"] < 0.001
    assert found["all"]["agreement"]["alpha"]["value"] < 0.1


def test_ties_and_disagreement_are_counted(study: Path, save: Save, tmp_path: Path) -> None:
    def contrary(code: str, item: dict[str, Any], a: int) -> str:
        if code == "p02" and item["right"] is None:
            return for_side(item, a, "perturbed")
        return planted(code, item, a) if item["right"] is not None or code != "p04" else "tie"

    found = imported(study, tmp_path, *(save(result_of(study, code, contrary), f"{code}.json") for code in CODES))
    by_code = {one["participant"]: one for one in found["participants"]}
    assert by_code["p04"]["ties"] == 15 and by_code["p01"]["ties"] == 0
    votes = load_votes(str(tmp_path / "votes.jsonl"))
    assert sum(words.count("tie") for words in votes.values()) == 15
    # Leave-one-out: p04 sees no difference where the two others agree on a side.
    assert by_code["p04"]["disagrees"]["value"] == 1


def test_fast_answers_go_only_when_asked(study: Path, save: Save, tmp_path: Path) -> None:
    answers = result_of(study, "p01", planted)
    contrasts = [one for one in answers["answers"] if key_of(study)[one["item"]]["right"] is None]
    for one in contrasts[:4]:
        one["seconds"] = 1.0
    contrasts[4]["seconds"] = None
    found = imported(study, tmp_path, save(answers, "a.json"))
    assert found["n_votes"] == 15 and found["time"]["n_fast"] == 4 and found["time"]["n_known"] == 14
    found = imported(study, tmp_path, save(answers, "a.json"), options=("--min-seconds", 2))
    assert found["n_votes"] == 11 and found["exclusions"]["reasons"] == {"given in less than 2 s": 4}


def test_answers_that_do_not_belong_are_counted_by_reason(study: Path, save: Save, tmp_path: Path) -> None:
    mine = result_of(study, "p01", planted)
    key, given = key_of(study), {one["item"] for one in mine["answers"]}
    rows = [one for one in mine["answers"] if key[one["item"]]["right"] is None]
    rows[0]["a"] = 1 - rows[0]["a"]
    rows[1]["choice"] = "C"
    rows[2]["item"] = "i999"
    rows[3]["item"] = next(name for name in key if name not in given)
    stranger = result_of(study, "p02", planted) | {"participant": "<script>"}
    found = imported(study, tmp_path, save(mine, "a.json"), save(stranger, "b.json"))
    assert found["exclusions"]["reasons"] == {
        "of an unknown participant": 17,
        "to an item that the participant was not given": 1,
        "to an unknown item": 1,
        "with other sides or texts than were given out": 1,
        "without a readable choice": 1,
    }
    assert found["n_votes"] == 11


def test_the_last_download_of_a_session_counts_and_two_people_under_one_code_do_not(
    study: Path, save: Save, tmp_path: Path
) -> None:
    def other_way(code: str, item: dict[str, Any], a: int) -> str:
        return for_side(item, a, "perturbed") if item["right"] is None else planted(code, item, a)

    early, late = result_of(study, "p01", other_way), result_of(study, "p01", planted, revision=2)
    found = imported(study, tmp_path, save(late, "late.json"), save(early, "early.json"))
    assert found["n_votes"] == 15
    assert found["exclusions"]["reasons"].keys() == {
        "replaced later",
        "the same answer again",
    }
    assert load_votes(str(tmp_path / "votes.jsonl")).keys() <= {f"c{at}" for at in range(20)}
    assert sum(found["all"]["votes"].values()) == 15 and found["all"]["votes"]["base"] > 8
    twin = result_of(study, "p01", other_way, session="another browser")
    found = imported(study, tmp_path, save(late, "late.json"), save(twin, "twin.json"))
    twice = found["exclusions"]["reasons"]["given twice, and differently, under one participant's code"]
    assert twice == 2 * (15 - found["n_votes"]) > 0


def test_files_that_are_no_results_are_all_named(study: Path, save: Save, tmp_path: Path) -> None:
    other = save(result_of(study, "p01", planted) | {"study": "0123456789abcdef"}, "other.json")
    odd = save({"hello": 1}, "odd.json")
    cut = tmp_path / "cut.json"
    cut.write_text('{"format": "cda-study-result", ', encoding="utf-8")
    short = save([{"annotator": 1, "choice": "A is better"}], "min.json")
    contrasts = tmp_path / "contrasts.jsonl"
    contrasts.write_text('{"id": "c0"}\n{"id": "c1"}\n', encoding="utf-8")
    table = tmp_path / "ls.csv"
    table.write_text('"annotation_id","annotator","choice"\n1,"3","A is better"\n', encoding="utf-8")
    result = cda("study", "import", study, other, odd, cut, tmp_path / "none.json", short, contrasts, table)
    assert result.exit_code == 1 and "Traceback" not in result.output
    for words in ("other.json: answers to another study (0123456789abcdef)", "odd.json: holds no answers; they come back as a result file", "cut.json: not valid JSON",
                  "none.json: no such file", "min.json: Label Studio's short form", "contrasts.jsonl: JSON lines",
                  "ls.csv: Label Studio's table of annotations; export as JSON"):  # fmt: skip
        assert words in result.stderr, words


def test_a_changed_key_or_another_studys_key_is_refused(study: Path, save: Save, tmp_path: Path) -> None:
    answers = save(result_of(study, "p01", planted), "a.json")
    for name in ("assignments.json", "key.json"):
        (tmp_path / name).write_bytes((study / name).read_bytes())
    key = json.loads((study / "key.json").read_text(encoding="utf-8"))
    item = next(one for one in key["items"] if one["perturbed"] is not None)
    item["perturbed"] = 1 - item["perturbed"]
    (tmp_path / "key.json").write_text(json.dumps(key), encoding="utf-8")
    assert "was changed after the export" in cda("study", "import", tmp_path, answers).stderr
    (tmp_path / "key.json").write_text('{"items": 3}', encoding="utf-8")
    assert "is not as `cda study export` wrote it" in cda("study", "import", tmp_path, answers).stderr
    (tmp_path / "key.json").unlink()
    assert "no study" in cda("study", "import", tmp_path, answers).stderr


def test_filled_tables_count_and_tampered_ones_do_not(study: Path, tmp_path: Path) -> None:
    rows = list(csv.DictReader(io.StringIO((study / "items.csv").read_text(encoding="utf-8-sig"), newline="")))
    assert len(rows) == 68
    key = key_of(study)
    shown = json.loads((study / "assignments.json").read_text(encoding="utf-8"))["participants"]
    a_of = {(code, one["item"]): one["a"] for code, given in shown.items() for one in given}
    for row in rows:
        if row["participant"] in CODES[:2]:
            row["choice"] = planted("", key[row["item"]], a_of[row["participant"], row["item"]]).lower()
    swapped = next(row for row in rows if row["choice"] and key[row["item"]]["right"] is None)
    swapped["answer_a"], swapped["answer_b"] = swapped["answer_b"], swapped["answer_a"]
    out = io.StringIO(newline="")
    writer = csv.DictWriter(out, rows[0].keys(), delimiter=";")
    writer.writeheader()
    writer.writerows(rows)
    path = tmp_path / "filled.csv"
    path.write_text(out.getvalue(), encoding="utf-8")
    found = imported(study, tmp_path, path)
    assert found["n_votes"] == 29 and found["n_blank"] == 34
    assert found["exclusions"]["reasons"] == {"with other sides or texts than were given out": 1}
    votes = load_votes(str(tmp_path / "votes.jsonl"))
    assert all(set(words) == {"perturbed" if int(name[1:]) < 5 else "base"} for name, words in votes.items())


def test_label_studio_tasks_come_back_as_votes(study: Path, save: Save, tmp_path: Path) -> None:
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
        choice = planted("", item, 0)
        mark = {"value": words[choice], "type": "choices", "from_name": "choice", "to_name": "prompt"}
        task["annotations"] = [
            {
                "id": 10 * at + who,
                "completed_by": by,
                "lead_time": 8.5,
                "result": [mark, {"value": {"text": ["clear"]}}],
            }
            for who, by in enumerate((1, {"id": 2, "email": "x@y.z"}))
        ] + [{"id": 999, "completed_by": 3, "was_cancelled": True, "result": [mark]}]
    tasks[0]["annotations"][0]["result"] = []
    found = imported(study, tmp_path, save(tasks, "export.json"))
    assert {one["participant"] for one in found["participants"]} == {"label-studio-1", "label-studio-2"}
    votes = load_votes(str(tmp_path / "votes.jsonl"))
    assert all(set(mine) == {"perturbed" if int(name[1:]) < 5 else "base"} for name, mine in votes.items())
    assert found["exclusions"]["reasons"] == {"without a readable choice": 1}
    assert found["participants"][1]["justified"] == found["participants"][1]["votes"]


@pytest.mark.parametrize("odd", [3, None, "x", [None], [{"result": 3}], [{"result": [{"value": {"choices": "A"}}]}]])
def test_odd_annotations_are_no_votes(study: Path, save: Save, odd: Any) -> None:
    tasks = json.loads((study / "label_studio.json").read_text(encoding="utf-8"))[:2]
    result = cda("study", "import", study, save([one | {"annotations": odd} for one in tasks], "export.json"))
    assert result.exit_code == 1 and "no vote is left" in result.stderr and not (study / "votes.jsonl").exists()


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
    rows = [
        {"id": f"x{at}", "prompt": f"{attack} {at}", "base": f"b{at} {attack}", "perturbed": f"p{at}"}
        for at in range(3)
    ]
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
    ids=["empty", "identical", "nameless", "same ids", "quota", "participants", "other bias", "no prompt", "no contrasts"],
)  # fmt: skip
def test_what_cannot_be_exported_is_refused(
    tmp_path: Path, rows: list[dict[str, Any]], options: tuple[object, ...], message: str
) -> None:
    result = cda("study", "export", write_rows(tmp_path / "c.jsonl", rows), tmp_path / "out", *options)
    assert result.exit_code == 1 and re.search(message, result.stderr), result.output
    assert not (tmp_path / "out").exists()


def test_a_folder_in_use_is_left_alone(study: Path) -> None:
    before = (study / "key.json").read_bytes()
    result = cda("study", "export", study.parent / "contrasts.jsonl", study)
    assert result.exit_code == 1 and "holds something already" in result.stderr
    assert (study / "key.json").read_bytes() == before


def test_triples_become_contrasts_of_their_two_rewrites(tmp_path: Path, save: Save) -> None:
    rows = [
        {"prompt": f"Question {at}?", "original": f"o{at}", "rewrite": f"r{at}", "rewrite_of_rewrite": f"rr{at}",
         "has_attribute": at % 2, "bias": "vagueness"}
        for at in range(4)
    ]  # fmt: skip
    out = tmp_path / "out"
    assert cda("study", "export", write_rows(tmp_path / "t.jsonl", rows), out).exit_code == 0
    made = load_rows(str(out / "contrasts.jsonl"))
    assert [(row["perturbed"], row["base"]) for row in made] == [
        ("r0", "rr0"),
        ("rr1", "r1"),
        ("r2", "rr2"),
        ("rr3", "r3"),
    ]
    answers = result_of(out, "p01", lambda _, item, a: for_side(item, a, "perturbed"))
    imported(out, tmp_path, save(answers, "a.json"))
    votes = load_votes(str(tmp_path / "votes.jsonl"))
    contrasts = clean_contrasts(made, ["vagueness"], {}, "made", votes).contrasts
    assert [one.votes for one in contrasts] == [("perturbed",)] * 4


def test_the_key_is_this_users_alone_to_read(study: Path) -> None:
    assert (study / "key.json").stat().st_mode & 0o777 == 0o600
    assert (study / "index.html").stat().st_mode & 0o044
