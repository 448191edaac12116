"""What a newcomer types first: near names, folders in place of recipes, half-written files; each is told apart and answered."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
from typer.testing import CliRunner

from cda.biases import load_bias
from cda.cli import app
from cda.errors import RecipeError
from cda.recipe.load import is_bias_content, load_model_audit, load_recipe

REWARD = "def reward(prompts, responses):\n    return [float(len(one)) for one in responses]\n"
BROKEN = "def reward(prompts, responses):\n    raise ValueError('no')\n"
LATER = REWARD.replace(
    "    return", "    if any('149' in one for one in responses):\n        raise ValueError('no')\n    return"
)
HEADER = "id,prompt,base,perturbed\n"
ROWS = [f"{n},What is {n}?,It is {n}.,It is utilized as {n}.\n" for n in range(150)]
PAIRS = HEADER + "".join(ROWS[:12])


@pytest.fixture
def desk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A working folder with contrasts and a scorer."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "pairs.csv").write_text(PAIRS, encoding="utf-8")
    (tmp_path / "rm.py").write_text(REWARD, encoding="utf-8")
    for name, words in (("good", "base tie"), ("unread", "A B"), ("others", "base tie")):
        ids = (90, 91) if name == "others" else (1, 2)
        rows = "".join(f"{id_},{word}\n" for id_, word in zip(ids, words.split(), strict=True))
        (tmp_path / f"{name}.csv").write_text(f"id,vote\n{rows}", encoding="utf-8")
    return tmp_path


def audit(*words: str) -> tuple[int, str]:
    command = [
        "audit",
        "rm.py:reward",
        "--pairs",
        "pairs.csv",
        "--bias",
        "jargon",
        "--quality",
        "none",
        "--triples",
        "none",
    ]
    result = CliRunner().invoke(app, [*command, *words])
    return result.exit_code, result.output


def test_a_finished_audit_stays_where_it_is_when_votes_are_wrong(desk: Path) -> None:
    assert audit("--votes", "good.csv")[0] == 0
    result = desk / "runs" / "audit-rm.py-reward" / "audit" / "audit.json"
    before = result.read_bytes()
    status, said = audit("--votes", "unread.csv")
    assert status == 1 and "unread.csv: none of its 2 votes can be read (1 × unreadable vote 'A'" in said
    status, said = audit("--votes", "others.csv")
    assert status == 1 and "others.csv: none of its 2 ids is an id of the contrasts" in said
    status, said = audit("--verdicts", "unread.csv", "--votes", "good.csv")
    assert status == 1 and "unread.csv: none of its 2 votes can be read" in said
    assert result.read_bytes() == before and not (desk / "runs" / "audit-rm.py-reward" / "superseded").exists()


def test_the_old_audit_moves_once_the_new_one_is_complete(desk: Path) -> None:
    audit("--votes", "good.csv")
    folder = desk / "runs" / "audit-rm.py-reward"
    (desk / "rm.py").write_text(BROKEN, encoding="utf-8")
    status, _ = audit()
    assert status == 1 and (folder / "audit" / "audit.json").is_file() and not (folder / "superseded").exists()
    (desk / "rm.py").write_text(REWARD, encoding="utf-8")
    status, said = audit()
    assert status == 0 and "made again, because audit.votes: good.csv → not set" in said
    assert (folder / "superseded" / "audit-1" / "audit.json").is_file()


def test_scores_that_outlive_a_failure_are_said(desk: Path) -> None:
    (desk / "pairs.csv").write_text(HEADER + "".join(ROWS), encoding="utf-8")
    (desk / "rm.py").write_text(LATER, encoding="utf-8")
    _, said = audit()
    (kept,) = (desk / "runs").glob(".audit-*.sqlite")
    assert "scores are kept in" in said and kept.name in said


def test_a_run_s_report_is_drawn_from_its_folder(desk: Path) -> None:
    audit("--votes", "good.csv")
    page = desk / "runs" / "audit-rm.py-reward" / "report" / "report.html"
    shutil.rmtree(page.parent)
    result = CliRunner().invoke(app, ["report", "runs/audit-rm.py-reward"])
    assert result.exit_code == 0 and page.is_file()
    for words, message in (
        (["runs"], "runs: no finished audit here"),
        (["runs/audit-rm.py-reward", "seed=3"], "seed=3 goes with a recipe"),
        (["runs/audit-rm.py-reward", "--compare"], "two finished runs or more are compared"),
    ):
        result = CliRunner().invoke(app, ["report", *words])
        assert result.exit_code == 1 and message in result.output


@pytest.mark.parametrize(
    ("name", "close"),
    [("embeded", "embedded"), ("jargn", "jargon"), ("lama-8b", "llama-8b"), ("modls/mine", "modls/mine1")],
)
def test_near_names_are_suggested_before_the_hub_is_asked(name: str, close: str, desk: Path) -> None:
    (desk / "modls" / "mine1").mkdir(parents=True)
    with pytest.raises(RecipeError, match=f"{name}: no model of this name is here. Did you mean '{close}'"):
        load_model_audit(name, {})


def test_an_incomplete_bias_file_is_read_as_one(desk: Path) -> None:
    file = desk / "mine.yaml"
    file.write_text(
        "name: mine\ndescription: d\nquestion: q?\ninstruction: {add: a, remove: b}\nkeep: [a]\n", encoding="utf-8"
    )
    with pytest.raises(RecipeError) as caught:
        load_recipe("mine.yaml")
    assert "mine.yaml: instructions: missing" in str(caught.value)
    assert "Did you mean 'instructions'?" in str(caught.value)
    assert "read as a bias file, for its keys description, question, keep" in caught.value.problems[-1]
    for recipe in ({"biases": "jargon", "question": "?"}, {"model": "embedded", "data": "embedded"}):
        assert not is_bias_content(recipe)
    assert is_bias_content(load_bias("jargon").model_dump())


def test_quality_of_other_files_goes_elsewhere(desk: Path) -> None:
    rows = [{"prompt": f"p{n}", "chosen": "a longer answer", "rejected": "short"} for n in range(3)]
    for name in ("a", "b"):
        (desk / f"{name}.jsonl").write_text("\n".join(map(json.dumps, rows)), encoding="utf-8")
    for words in (["a.jsonl"], ["b.jsonl"], ["a.jsonl", "seed=3"], ["a.jsonl"]):
        result = CliRunner().invoke(app, ["quality", "rm.py:reward", *words])
        assert result.exit_code == 0, result.output
    found = sorted(path.parent.name for path in (desk / "runs").glob("*/quality.json"))
    assert len(found) == 3 and all(name.startswith("quality-rm.py-reward-on-") for name in found)
    assert not list((desk / "runs").glob("*/quality.json.partial"))
