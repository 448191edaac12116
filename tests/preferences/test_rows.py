"""`cda data --rows` and `cda label FILE`: every row stays with its own columns, and gets what was found of it or why nothing was."""

from __future__ import annotations

import json
import os
import re
import tracemalloc
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from replies import Answer, reply
from typer.testing import CliRunner, Result

import cda
from cda.biases import load_bias
from cda.cli import app
from cda.errors import DataError
from cda.preferences.pair_data import pair_data
from cda.results.data import DataWeights
from cda.rewriting.labels import exhibits

ROOT = Path(__file__).parent.parent.parent
LIST, PROSE = "- one point\n- another point\n- a third", "one point, another point, a third"
OWN = ("prompt", "chosen", "rejected", "source", "extra")


@pytest.fixture(autouse=True)
def _here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def pairs(n: int = 80) -> list[dict[str, Any]]:
    """The longer side is chosen in seven of eight pairs, the one with a list in half; then rows that are no pairs."""
    made = []
    for number in range(n):
        more, fewer = f"so {'very ' * (4 + number % 5)}much", "so much"
        sides = (more, fewer) if number % 8 else (fewer, more)
        layout = (LIST, PROSE) if number % 4 < 2 else (PROSE, PROSE)
        layout = layout[:: 1 if number % 4 == 0 else -1]
        made.append(
            {"prompt": f"Question {number // 2}?", "chosen": f"{layout[0]}\n{sides[0]}", "rejected": f"{layout[1]}\n{sides[1]}",
             "source": "web" if number % 2 else None, "extra": {"n": [number]}}
        )  # fmt: skip
    same = {"prompt": "Same?", "chosen": "yes", "rejected": "yes", "source": "web", "extra": None}
    return [*made, same, dict(made[3])]


def written(rows: list[dict[str, Any]], name: str = "pairs.jsonl") -> str:
    Path(name).write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return name


def read(name: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in Path(name).read_text(encoding="utf-8").splitlines()]


def run(command: str, *words: str) -> Result:
    return CliRunner().invoke(app, [command, *words])


BIASES = ("--bias", "length", "--bias", "structure")


def test_every_row_stays_with_its_columns_and_gets_sides_values_and_a_weight_or_a_reason() -> None:
    made = pairs()
    result = run("data", written(made), *BIASES, "--rows", "rows.jsonl", "--out", "found")
    assert result.exit_code == 0, result.output
    rows = read("rows.jsonl")
    assert [{name: row[name] for name in OWN} for row in rows] == made
    assert [row["row"] for row in rows] == [*range(1, 83)]
    assert [row["left_out"] for row in rows[:80]] == [None] * 80
    assert [(row["left_out"], row["weight"], row["sides"], row["alone"]) for row in rows[80:]] == [
        ("identical sides", None, None, None), ("duplicate", None, None, None),
    ]  # fmt: skip
    first = rows[0]  # a list, and the shorter side
    assert first["sides"] == {"length": "rejected", "structure": "chosen"} and first["alone"] is None
    assert first["values"]["structure"] == {"chosen": 3.0, "rejected": 0.0}
    words = [len(re.findall(r"[a-z]+", first[side])) for side in ("chosen", "rejected")]
    assert first["values"]["length"] == dict(zip(("chosen", "rejected"), map(float, words), strict=True))
    assert (rows[3]["sides"], rows[3]["alone"]) == ({"length": "chosen", "structure": "neither"}, "length")
    weights = np.array([row["weight"] for row in rows[:80]])
    is_longer = np.array([row["sides"]["length"] == "chosen" for row in rows[:80]])
    assert weights.mean() == pytest.approx(1, abs=1e-4) and weights[is_longer].max() < weights[~is_longer].min()
    found = cda.load("found")
    assert isinstance(found, cda.DataAudit) and isinstance(found.weights, DataWeights) and found.rows == "rows.jsonl"
    assert found.weights.effective_n == pytest.approx(weights.sum() ** 2 / (weights**2).sum(), rel=1e-4)
    assert found.weights.alone == {"length": int(sum(row["alone"] == "length" for row in rows)), "structure": 0}
    before, after = found.bias("length").r_train, found.weights.r["length"]
    assert isinstance(before, cda.Estimate) and isinstance(after, cda.Estimate)
    assert before.value > 0.6 and abs(after.value) < 0.3
    stated = f"Effective n {found.weights.effective_n:,.0f} of 80."
    assert all(
        stated in text
        for text in (result.output, Path("found/report.html").read_text(), Path("found/data.md").read_text())
    )
    assert 0.8 < found.weights.told.value <= 70 / 80


def test_rows_that_were_not_drawn_and_labels_that_could_not_be_read_are_told() -> None:
    made = pairs()
    labels = written(
        [{"chosen_jargon": "yes" if at % 3 else "?", "rejected_jargon": "no"} for at in range(82)], "labels.jsonl"
    )
    result = run("data", written(made), "--labels", labels, "--limit", "60", "--rows", "rows.jsonl", "--out", "found")
    assert result.exit_code == 0, result.output
    rows = read("rows.jsonl")
    reasons = [row["left_out"] for row in rows]
    assert (len(rows), reasons.count("not drawn (--limit)"), reasons.count(None)) == (82, 20, 60)
    unread = [row for at, row in enumerate(rows) if row["left_out"] is None and at % 3 == 0]
    assert {row["sides"]["jargon"] for row in unread} == {"unparsed"} and all(row["weight"] > 0 for row in unread)
    assert all((row["weight"] is None) == (row["left_out"] is not None) for row in rows)


def test_few_prompts_have_rows_without_weights() -> None:
    result = run("data", written(pairs(8)), *BIASES, "--rows", "rows.jsonl", "--out", "found")
    assert result.exit_code == 0 and "No weights: pairs of 4 prompts; weights need 10." in result.output
    assert [row["weight"] for row in read("rows.jsonl")] == [None] * 10
    found = cda.load("found")
    assert isinstance(found, cda.DataAudit) and isinstance(found.weights, cda.Missing)


def test_answers_that_share_a_prompt_are_one_item_and_no_row_is_lost() -> None:
    rated = [
        {"prompt": f"Q{number // 3}", "response": f"answer {'long ' * (number % 3)}{number}", "helpfulness": number % 3,
         "correctness": 1, "coherence": 1}
        for number in range(45)
    ]  # fmt: skip
    assert run("data", written(rated), "--bias", "length", "--rows", "rows.jsonl").exit_code == 0
    rows = read("rows.jsonl")
    assert [row["weight"] is not None for row in rows] == [True, False, False] * 15
    assert {row["left_out"] for row in rows} == {None, "read together with an earlier row of its prompt"}


def test_labels_without_texts_have_rows_too() -> None:
    words = [{"chosen_jargon": "yes" if at % 4 else "no", "rejected_jargon": "no"} for at in range(40)]
    result = run("data", written(words), "--labels", "pairs.jsonl", "--rows", "rows.jsonl")
    assert result.exit_code == 0 and "Biases alone tell" in result.output and "data.weights" not in result.output
    assert [(row["sides"], row["values"]) for row in read("rows.jsonl")[:2]] == [
        ({"jargon": "neither"}, {}), ({"jargon": "chosen"}, {}),
    ]  # fmt: skip


def test_without_rows_nothing_is_written_or_said_of_weights() -> None:
    found = cda.audit_data(pairs(), biases="length", progress=False)
    assert found.weights is None and "weight" not in str(found).lower()
    assert not {"rows", "weights"} & found.model_dump().keys()


@pytest.mark.parametrize(
    ("file", "said"),
    [
        ("pairs.jsonl", "--rows pairs.jsonl: pairs.jsonl is read, and would be written over; name another file"),
        ("./pairs.jsonl", "--rows ./pairs.jsonl: pairs.jsonl is read, and would be written over"),
        ("link.jsonl", "--rows link.jsonl: pairs.jsonl is read, and would be written over"),
        ("rows.csv", "--rows rows.csv: rows are written as JSON lines; give a name that ends in .jsonl"),
        ("pairs.jsonl/x.jsonl", "pairs.jsonl"),
    ],
)
def test_places_that_rows_cannot_go_to(file: str, said: str) -> None:
    name = written(pairs())
    before = Path(name).read_bytes()
    Path("link.jsonl").hardlink_to(name)
    result = run("data", name, "--bias", "length", "--rows", file)
    assert result.exit_code == 2 and said in result.output, result.output
    assert Path(name).read_bytes() == before and "Traceback" not in result.output


def test_columns_of_the_data_are_never_replaced() -> None:
    rows = [{**row, "weight": 3, "row": "a"} for row in pairs()]
    result = run("data", written(rows), "--bias", "length", "--rows", "rows.jsonl")
    assert (
        result.exit_code == 2
        and "pairs.jsonl: has columns row, weight, under whose names --rows writes its own; rename or remove them"
        in result.output
    )
    assert not Path("rows.jsonl").exists()


def test_a_dry_run_names_the_rows_and_writes_none() -> None:
    result = run("data", written(pairs()), "--bias", "length", "--rows", "rows.jsonl", "--dry-run")
    assert "rows        rows.jsonl: 82 rows with labels, values and weights" in result.output
    assert not Path("rows.jsonl").exists()


ALPACA = Path(os.environ.get("CDA_DATA", ROOT.parent / "shared" / "data")) / "alpaca_eval" / "pairs.jsonl.gz"


@pytest.mark.skipif(not ALPACA.is_file(), reason=f"public research data absent: {ALPACA} (set CDA_DATA)")
def test_on_real_pairs_weights_take_length_and_structure_out_of_the_choices() -> None:
    found = cda.audit_data(
        str(ALPACA), biases=["length", "structure"], rows="rows.jsonl", limit=1000, progress=False, seed=3
    )
    assert isinstance(found.weights, DataWeights) and 500 < found.weights.effective_n < 1000
    for bias in ("length", "structure"):
        before, after = found.bias(bias).r_train, found.weights.r[bias]
        assert isinstance(before, cda.Estimate) and isinstance(after, cda.Estimate)
        assert before.low > 0.2 and after.low < 0 < after.high and abs(after.value) < before.value / 3
    rows = read("rows.jsonl")
    assert len(rows) == 2546 and sum(row["weight"] is not None for row in rows) == 1000
    assert {row["left_out"] for row in rows} == {None, "not drawn (--limit)", "duplicate", "identical sides"}
    frame = found.to_frame()
    assert frame.value.notna().all() and (frame.unit == "correlation").sum() == 4


# --- cda label FILE ---


def test_a_file_is_labelled_for_several_biases_and_again_for_another() -> None:
    made = pairs()
    result = run("label", written(made), "--bias", "structure", "--bias", "length", "--out", "labelled.jsonl")
    assert result.exit_code == 0, result.output
    assert "Written: labelled.jsonl" in result.output and "structure: in both sides 0, only chosen 20" in result.output
    rows = read("labelled.jsonl")
    assert [{name: row[name] for name in OWN} for row in rows] == made
    assert rows[0]["labels"] == {
        "structure": {"chosen": True, "rejected": False},
        "length": {"chosen": False, "rejected": True},
    }
    assert rows[80]["labels"] is None and rows[80]["unlabelled"] == dict.fromkeys(
        ("structure", "length"), "identical sides"
    )
    assert run("label", "labelled.jsonl", "--bias", "jargon", "--out", "more.jsonl").exit_code == 0
    more = read("more.jsonl")
    assert (
        more[0]["labels"].keys() == {"structure", "length", "jargon"}
        and more[81]["unlabelled"]["jargon"] == "duplicate"
    )
    # What was labelled can be measured, by the labels of the file itself.
    found = cda.audit_data("more.jsonl", labels="more.jsonl", biases=["structure", "length"], progress=False)
    assert found.bias("structure").labelled_by == "more.jsonl"


def test_the_command_gives_its_counts_as_json_and_a_place_of_its_own() -> None:
    result = CliRunner().invoke(app, ["label", written(pairs()), "--bias", "length", "--json"])
    counts = json.loads(result.stdout)
    assert counts["pairs"] == {"seen": 82, "kept": 80, "dropped": {"duplicate": 1, "identical sides": 1}, "used": 80}
    assert counts["labels"]["length"]["chosen_only"] == 70
    (file,) = Path("runs").glob("label-of-pairs-*.jsonl")
    assert len(read(str(file))) == 82


def labeller(asked: list[str]) -> Answer:
    """Labels lists as the bias file measures them; nothing readable of question 1."""

    def answer(body: dict[str, Any]) -> tuple[int, dict[str, Any]]:
        text = body["messages"][-1]["content"]
        asked.append(text)
        shown = re.findall(r"<<<RESPONSE \d>>>\n(.*?)\n<<<END>>>", text, re.DOTALL)
        lists = [exhibits(each, load_bias("structure")) for each in shown]
        named = {"query": "no", **{f"response_{at}": "yes" if each else "no" for at, each in enumerate(lists, 1)}}
        return reply("Who knows?" if "Question 1?" in text else json.dumps({"reasoning": "lines", **named}), "judge")

    return answer


def test_an_llm_labels_a_file_and_what_it_could_not_is_named(serve: Callable[[Answer], str]) -> None:
    asked: list[str] = []
    words = ["llm.model=judge", f"llm.base_url={serve(labeller(asked))}", "label.ask_again=0"]
    result = run("label", written(pairs(24)), *words, "--bias", "structure", "--out", "labelled.jsonl")
    assert result.exit_code == 0 and "labelling structure: about 24 calls of judge" in result.output, result.output
    rows = read("labelled.jsonl")
    unread = [row for row in rows[:24] if row["unlabelled"]]
    assert len(asked) >= 24 and [row["prompt"] for row in unread] == ["Question 1?"] * 2
    assert unread[0]["labels"] == {"structure": {"chosen": None, "rejected": None}}
    assert rows[0]["labels"]["structure"] == {"chosen": True, "rejected": False}
    assert rows[0]["details"]["structure"]["n_asked"] == 1


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["jargn"], "jargn: no such recipe. Did you mean 'jargon'?"),
        (["jargon", "--bias", "length"], "--bias: only with a file of pairs; use biases=..."),
        (["pairs.jsonl", "--out", "pairs.jsonl"], "--out pairs.jsonl: pairs.jsonl is read, and would be written over"),
        (["pairs.jsonl", "--bias", "helpfulness"], "bias 'helpfulness' cannot be measured, so labelling it needs an LLM"),
        (["pairs.jsonl", "train.seeds=3"], "train.seeds: has no effect on `cda label FILE`"),
        (["none.jsonl"], "none.jsonl: no such file"),
        (["odd.jsonl", "--bias", "length"], "odd.jsonl: its column 'labels' is not one that `cda label` wrote"),
        (["known.jsonl", "--bias", "length"], "known.jsonl: has labels of length already; name other biases (--bias)"),
    ],
)  # fmt: skip
def test_mistakes_with_a_file_to_label(words: list[str], said: str) -> None:
    written(pairs())
    written([{**row, "labels": 1} for row in pairs()], "odd.jsonl")
    written([{**row, "labels": {"length": {"chosen": True, "rejected": False}}} for row in pairs()], "known.jsonl")
    result = run("label", *words)
    assert result.exit_code == 2 and said in result.output, result.output


def test_texts_of_pairs_do_not_stay_and_a_file_that_changes_is_told() -> None:
    file = written([{"prompt": f"Question {n}?", "chosen": "yes " * 500, "rejected": "no " * 500} for n in range(2000)])
    tracemalloc.start()
    data = pair_data(file, "train", {}, (), None, 42)
    grown, most = tracemalloc.get_traced_memory()
    assert (sum(1 for _ in data.pairs()), len(data.numbers)) == (2000, 2000)
    tracemalloc.stop()
    assert grown < 1e6 < Path(file).stat().st_size and most < 2e6
    written(read(file)[:-1])
    with pytest.raises(DataError, match="has changed while it was read"):
        list(data.pairs())
