"""Every recipe and every command of the documentation parses and dry-runs; the command line starts light."""

from __future__ import annotations

import json
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

from cda.cli import app

ROOT = Path(__file__).parent.parent
RECIPES = sorted((ROOT / "recipes").glob("*.yaml"))
DOCUMENTS = [ROOT / "README.md", ROOT / "recipes" / "README.md", *RECIPES]
LAUNCH = re.compile(r"^#?\s*(?:.*&& )?(accelerate launch scripts/train\.py [^\n]+)$", re.MULTILINE)


AUDIT = re.compile(r"^(cda (?:audit|samples|dose) [^\n]+)$", re.MULTILINE)
ASKED = re.compile(r"^(cda (?:quality|best-of|win-rate) [^\n]+)$", re.MULTILINE)
DISCOVER = re.compile(r"^(cda discover [^\n]+)$", re.MULTILINE)
TRAIN = re.compile(r"^(cda train (?!runs/)[^\n]+)$", re.MULTILINE)
MERGE = re.compile(r"^cda merge ([^\n]+)$", re.MULTILINE)


def documented_commands() -> list[str]:
    commands = [match for path in DOCUMENTS for match in LAUNCH.findall(path.read_text(encoding="utf-8"))]
    return sorted(set(commands))


@pytest.fixture(scope="module")
def workplace(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the user's files that the documentation names."""
    folder = tmp_path_factory.mktemp("user")
    pair = {
        "question": "Why is the sky blue?",
        "prompt": "Why is the sky blue?",
        "chosen": "Light scatters.",
        "rejected": "It is.",
    }
    (folder / "my_pairs.jsonl").write_text(json.dumps(pair) + "\n", encoding="utf-8")
    (folder / "my_heldout.jsonl").write_text(json.dumps(pair) + "\n", encoding="utf-8")
    contrast = {"id": "a", "prompt": "Why?", "base": "So.", "perturbed": "Henceforth thus.", "preferred": "base"}
    scored = [f"r{number}" for number in range(24)]
    votes = ["id,vote", "a,base", "a,tie", *(f"{one},base" for one in scored)]
    (folder / "my_votes.csv").write_text("\n".join(votes) + "\n", encoding="utf-8")
    for when, margin in (("before", 1.0), ("after", -0.5)):
        rows = [json.dumps({"id": one, "margin": margin}) for one in scored]
        (folder / f"{when}.jsonl").write_text("\n".join(rows) + "\n", encoding="utf-8")
    (folder / "my_taught.jsonl").write_text(json.dumps(contrast | {"prompt": "How?"}) + "\n", encoding="utf-8")
    triple = {
        "prompt": "Why?",
        "original": "So.",
        "rewrite": "Thus.",
        "rewrite_of_rewrite": "So!",
        "has_attribute": "no",
    }
    (folder / "my_triples.jsonl").write_text(json.dumps(triple) + "\n", encoding="utf-8")
    contrasts = [contrast, *(contrast | {"id": one, "prompt": f"Why {one}?"} for one in scored)]
    (folder / "my_contrasts.jsonl").write_text("\n".join(map(json.dumps, contrasts)) + "\n", encoding="utf-8")
    jargon = (ROOT / "cda" / "biases" / "jargon.yaml").read_text(encoding="utf-8")
    (folder / "emoji.yaml").write_text(jargon.replace("name: jargon", "name: emoji", 1), encoding="utf-8")
    (folder / "recipes").symlink_to(ROOT / "recipes")
    return folder


@pytest.mark.parametrize("command", documented_commands())
def test_documented_command_dry_runs(command: str, workplace: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(workplace)
    monkeypatch.setenv("OPENAI_API_KEY", "unused")
    result = CliRunner().invoke(app, ["train", *shlex.split(command)[3:], "--dry-run"])
    assert result.exit_code == 0, result.output
    assert "\ntrain       " in result.stdout


def test_documented_audits_dry_run(workplace: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(workplace)
    monkeypatch.setenv("OPENAI_API_KEY", "unused")
    commands = AUDIT.findall((ROOT / "README.md").read_text(encoding="utf-8"))
    assert len(commands) >= 8
    for command in commands:
        words = shlex.split(command)[1:]
        resolves = words[0] == "audit" or "recipes/" in command
        result = CliRunner().invoke(app, [*words, "--dry-run"] if resolves else words)
        assert result.exit_code == 0, result.output


def test_documented_merges_name_options_that_exist(workplace: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(workplace)
    commands = MERGE.findall((ROOT / "README.md").read_text(encoding="utf-8"))
    assert len(commands) == 2
    for command in commands:
        result = CliRunner().invoke(app, ["merge", *shlex.split(command)])
        # The runs are not there; everything else about the command is right.
        assert result.exit_code == 1 and "runs/jargon" in result.output, result.output


def test_documented_questions_name_options_that_exist(workplace: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(workplace)
    monkeypatch.setenv("OPENAI_API_KEY", "unused")
    commands = ASKED.findall((ROOT / "README.md").read_text(encoding="utf-8"))
    assert {command.split()[1] for command in commands} == {"quality", "best-of", "win-rate"}
    for command in commands:
        result = CliRunner().invoke(app, shlex.split(command)[1:])
        # Files and runs are not there; everything else about the command is right.
        assert result.exit_code == 1, result.output
        assert re.search(r"(rewardbench|samples|outputs_before)\.jsonl: no such file|runs/jargon", result.output), (
            result.output
        )


def test_documented_discoveries_dry_run(workplace: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(workplace)
    monkeypatch.setenv("OPENAI_API_KEY", "unused")
    commands = DISCOVER.findall((ROOT / "README.md").read_text(encoding="utf-8"))
    assert len(commands) >= 5
    for command in commands:
        # Models that are here stand for those on a hub.
        here = command.replace("my-org/my-reward-model", "embedded").replace(
            "my-org/other-reward-model", "embedded-judge"
        )
        result = CliRunner().invoke(app, [*shlex.split(here)[1:], "--dry-run"])
        if "runs/jargon" in command:  # not there; everything else about the command is right
            assert result.exit_code == 1 and result.output.count("error:") == 1 and "runs/jargon" in result.output
        else:
            assert result.exit_code == 0 and " embedded against " in result.output, result.output


def test_a_bias_file_is_a_recipe(workplace: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(workplace)
    commands = TRAIN.findall((ROOT / "README.md").read_text(encoding="utf-8"))
    assert any("emoji.yaml" in command for command in commands)
    for command in commands:
        result = CliRunner().invoke(app, [*shlex.split(command)[1:], "--dry-run"])
        assert result.exit_code == 0 and "name: emoji" in result.stdout, result.output


def test_documentation_has_commands_and_names_every_recipe() -> None:
    commands = documented_commands()
    assert len(commands) >= 12
    assert len(RECIPES) == 7
    for recipe in RECIPES:
        assert any(f"recipes/{recipe.name}" in command for command in commands), recipe


def test_readme_opens_with_the_two_commands() -> None:
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    assert "pip install -e '.[quickstart]' && accelerate launch scripts/train.py recipes/jargon.yaml" in readme
    assert "pip install -e '.[test]' && pytest" in readme
    assert "pytest" in (ROOT / ".ci" / "run").read_text(encoding="utf-8")


def test_help_imports_nothing_heavy() -> None:
    program = (
        "import sys\nfrom typer.testing import CliRunner\nfrom cda.cli import app\n"
        "assert CliRunner().invoke(app, ['--help']).exit_code == 0\n"
        "print([name for name in ('torch', 'transformers', 'numpy', 'scipy', 'pydantic', 'openai') if name in sys.modules])"
    )
    result = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert result.stdout.strip() == "[]"


def test_scripts_have_a_file_for_each_stage() -> None:
    names = {path.stem for path in (ROOT / "scripts").glob("*.py")}
    assert names == {"label", "synthesize", "train", "audit", "dose", "report"}
