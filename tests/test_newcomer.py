"""What a newcomer types first: near names, folders in place of recipes, half-written files; each is told apart and answered."""

from __future__ import annotations

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
    command = "audit rm.py:reward --contrasts pairs.csv --bias jargon --quality none --triples none"
    result = CliRunner().invoke(app, [*command.split(), *words])
    return result.exit_code, result.output


def test_an_audit_stays_where_it_is_until_the_new_one_is_complete(desk: Path) -> None:
    assert audit("--votes", "good.csv")[0] == 0
    folder = desk / "runs" / "audit-rm.py-reward"
    file = folder / "audit" / "audit.json"
    before = file.read_bytes()
    status, said = audit("--votes", "unread.csv")
    assert status == 2 and "unread.csv: none of its 2 votes can be read (1 × unreadable vote 'A'" in said
    status, said = audit("--votes", "others.csv")
    assert status == 2 and "others.csv: none of its 2 ids is an id of the contrasts" in said
    status, said = audit("--verdicts", "unread.csv", "--votes", "good.csv")
    assert status == 2 and "unread.csv: none of its 2 votes can be read" in said
    (desk / "rm.py").write_text(BROKEN, encoding="utf-8")
    assert audit()[0] == 2
    assert file.read_bytes() == before and not (folder / "superseded").exists()
    (desk / "rm.py").write_text(REWARD, encoding="utf-8")
    status, said = audit()
    assert status == 0 and "made again, because audit.votes: good.csv → not set" in " ".join(said.split())
    assert all(len(line) <= 100 for line in said.splitlines() if "made again" in line)
    assert (folder / "superseded" / "audit-1" / "audit.json").is_file()
    shutil.rmtree(folder / "report")
    result = CliRunner().invoke(app, ["report", "runs/audit-rm.py-reward"])
    assert result.exit_code == 0 and (folder / "report" / "report.html").is_file()
    for words, message in (
        (["runs"], "runs: no finished audit here"),
        (["runs/audit-rm.py-reward", "seed=3"], "seed=3 goes with a recipe"),
        (["runs/audit-rm.py-rewrd"], "no such folder. Did you mean 'runs/audit-rm.py-reward'?"),
        (["runs/none"], "runs/none: no such folder. Give the folder of a finished run, or a recipe"),
        (
            ["runs/audit-rm.py-reward/report/report.html"],
            "in the folder of a run; give that folder: cda report runs/audit-rm.py-reward",
        ),
        (["good.csv"], "good.csv: a file; give the folder of a finished run, or a recipe"),
        (["jargon", "--out", "page.html"], "--out page.html: of a recipe it is the folder of the run"),
    ):
        result = CliRunner().invoke(app, ["report", *words])
        assert result.exit_code == 2 and message in result.output


def test_scores_that_outlive_a_failure_are_said(desk: Path) -> None:
    (desk / "pairs.csv").write_text(HEADER + "".join(ROWS), encoding="utf-8")
    (desk / "rm.py").write_text(LATER, encoding="utf-8")
    _, said = audit()
    (kept,) = (desk / "runs").glob(".audit-*.sqlite")
    assert "scores are kept in" in said and kept.name in said


def test_near_names_are_suggested_before_the_hub_is_asked(desk: Path) -> None:
    (desk / "modls" / "mine1").mkdir(parents=True)
    for name, close in (("embeded", "embedded"), ("lama-8b", "llama-8b"), ("modls/mine", "modls/mine1")):
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
