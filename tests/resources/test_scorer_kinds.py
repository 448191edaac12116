"""The table of kinds of scorers: every entry opens, and a kind is a file and a line of it."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
from letters import LETTERS
from typer.testing import CliRunner

import cda
from cda.cli import app
from cda.errors import RecipeError
from cda.recipe.load import load_model_audit, load_recipe
from cda.report.drawing import FigureForm
from cda.resources.artifacts import shown_target
from cda.resources.named_scorer import Subject, scorer_settings
from cda.resources.scorers import open_scorer
from cda.scorers import kinds
from cda.scorers.kinds import KINDS, scorer_kind

ROWS = [{"prompt": f"q{n}", "perturbed": "e" * (n % 5) + "x", "base": "ee"} for n in range(20)]
LETTERS_E = [n % 5 for n in range(20)]


@pytest.fixture
def letters(monkeypatch: pytest.MonkeyPatch) -> None:
    """The line."""
    monkeypatch.setattr(kinds, "KINDS", [LETTERS, *KINDS])


@pytest.fixture
def contrasts(tmp_path: Path) -> Path:
    path = tmp_path / "contrasts.jsonl"
    path.write_text("\n".join(map(json.dumps, ROWS)), encoding="utf-8")
    return path


@pytest.mark.usefixtures("letters")
def test_another_kind_is_planned_audited_and_set_next_to_others(contrasts: Path, tmp_path: Path) -> None:
    words = ["--bias", "jargon", "--contrasts", str(contrasts), "--quality", "none", "--triples", "none"]
    planned = CliRunner().invoke(app, ["audit", "letters:e", *words, "--out", str(tmp_path / "a"), "--dry-run"])
    assert planned.exit_code == 0 and "letters:e, by its letters" in planned.output
    done = CliRunner().invoke(app, ["audit", "letters:e", *words, "--out", str(tmp_path / "a")])
    assert done.exit_code == 0, done.output
    found = json.loads((tmp_path / "a" / "audit" / "audit.json").read_text(encoding="utf-8"))
    assert found["skew"]["jargon"]["before"]["value"] == sum(n > 2 for n in LETTERS_E) / len(ROWS)
    assert found["model"]["how"] == "Counted as letters:e"


@pytest.mark.usefixtures("letters")
def test_another_kind_has_a_public_name_and_a_quality(tmp_path: Path) -> None:
    pairs = tmp_path / "pairs.jsonl"
    rows = [{"prompt": row["prompt"], "chosen": row["perturbed"], "rejected": row["base"]} for row in ROWS]
    pairs.write_text("\n".join(map(json.dumps, rows)), encoding="utf-8")
    done = CliRunner().invoke(app, ["quality", "letters:e", str(pairs), "--out", str(tmp_path / "q")])
    assert done.exit_code == 0, done.output
    (scoring,) = json.loads((tmp_path / "q" / "quality.json").read_text(encoding="utf-8"))["scorings"]
    assert (scoring["model"], scoring["target"], scoring["target_kind"]) == ("letters/e", "letters:e", "letters")


@pytest.mark.usefixtures("letters")
def test_its_own_problems_and_what_it_cannot_do_are_said(contrasts: Path, tmp_path: Path) -> None:
    with pytest.raises(cda.RunError, match="letters:ex: ex is more than a letter; name one"):
        cda.audit("letters:ex", biases=["jargon"], contrasts=contrasts, out=tmp_path / "out")
    with pytest.raises(RecipeError, match="letters:: names no model after the colon"):
        cda.audit("letters:", biases=["jargon"], contrasts=contrasts, out=tmp_path / "out")
    with pytest.raises(RecipeError, match="letters:e cannot be trained"):
        load_recipe("jargon", ["model.name_or_path=letters:e"])


NAMES = {
    "judge": "judge:a,b", "grade": "grade:a", "log-ratio": "dpo:org/a,org/b",
    "served": "served:http://h/classify", "function": "mine.py:score", "scores": "scores:mine.jsonl", "classifier": "org/model",
}  # fmt: skip


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.name)
def test_every_entry_opens_a_scorer_that_says_of_itself_what_the_entry_does(kind: kinds.ScorerKind) -> None:
    name = NAMES.get(kind.name, f"{kind.starts[0]}words" if kind.starts else kind.name)
    loaded = load_model_audit(name, {}, [])
    assert scorer_kind(name) is kind is loaded.recipe.model.kind
    scorer = open_scorer(Subject("model", loaded.recipe.model), scorer_settings(loaded))
    assert f"{type(scorer).__module__}:{type(scorer).__qualname__}" == kind.opened_by
    assert bool(loaded.recipe.model.llms) == kind.asks_llm == ("llm" in scorer.identity())
    if kind.name in NAMES:
        assert (scorer.calls(10) is None) == (kind.name in ("log-ratio", "classifier"))


@pytest.mark.parametrize(
    ("name", "shown"),
    [
        ("/m/a", "a"), ("dpo:/m/a,/m/b", "dpo:a,b"), ("dpo:org/a,/m/b", "dpo:org/a,b"),
        ("/m/mine.py:f", "mine.py:f"), ("judge:/m/a,b", "judge:/m/a,b"), ("http://h/m/a", "http://h/m/a"),
        ("served:http://h/m/a", "served:http://h/m/a"), ("org/a", "org/a"), ("grade:a/b", "grade:a/b"),
    ],
)  # fmt: skip
def test_a_name_is_shown_without_the_paths_that_its_kind_has(name: str, shown: str) -> None:
    assert shown_target(name) == shown


def test_the_table_is_read_without_a_model_library() -> None:
    heavy = (
        "import sys, cda.scorers.kinds as k; k.scorer_kind('judge:a'); print({'torch', 'openai'} & set(sys.modules))"
    )
    assert subprocess.run([sys.executable, "-c", heavy], capture_output=True, text=True, check=True).stdout == "set()\n"


@pytest.mark.parametrize(
    "words",
    [("report", "jargon"), ("quality", "embedded", "none.jsonl"), ("best-of", "embedded", "none.jsonl"), ("discover", "embedded")],
    ids=lambda words: words[0],
)  # fmt: skip
def test_another_format_is_refused_before_anything_runs(
    words: tuple[str, ...], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(RecipeError, match="svg or pdf"):
        FigureForm.of("png")
    asked = CliRunner().invoke(app, [*words, "--figures", "png"])
    assert asked.exit_code == 2 and "figures are written as svg or pdf" in asked.output
    assert "none.jsonl" not in asked.output and not list(tmp_path.iterdir())
