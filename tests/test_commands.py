"""Every command of every document parses and dry-runs, or runs as far as it can; the command line starts light."""

from __future__ import annotations

import importlib.util
import re
import shlex
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from click.testing import Result
from command_reference import NOT_DRY
from documented_commands import LAUNCHES, RECIPES, ROOT, commands, inline_commands, python_programs, write_user_files
from typer.main import get_command
from typer.testing import CliRunner

from cda.cli import app

COMMANDS = commands()
OURS = [one for one in COMMANDS if one.startswith("cda ") and not one.startswith("cda launch ")]
_LAUNCHED = re.compile(r"((?:accelerate|cda) launch .*?)(scripts/train\.py|(?:-m cda )?(?:train|score)) (.+)")
LAUNCHED = [one for one in COMMANDS if _LAUNCHED.fullmatch(one)]
# Those that only print are run.
RUN = {"samples", *NOT_DRY}
# What a command may miss here: runs, and files that no test makes.
ABSENT = re.compile(
    r"runs/|rewardbench\.jsonl|samples\.jsonl|outputs_before\.jsonl|my_log\.jsonl|my-study/|calibration\.json|filled\.csv|results-\*"
    r"|(?<=compare )rows|^rows$|uses-hedging\.yaml|my_rows/"
)


@pytest.fixture(scope="module")
def workplace(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the user's files that the documents name."""
    folder = tmp_path_factory.mktemp("user")
    write_user_files(folder)
    return folder


@pytest.fixture(autouse=True)
def _there(workplace: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(workplace)
    monkeypatch.setenv("OPENAI_API_KEY", "unused")
    monkeypatch.setenv("HF_TOKEN", "unused")


def invoked(words: list[str]) -> Result:
    # Models that are here stand for those on a hub, where a dry run would load them.
    here = {"my-org/my-reward-model": "embedded", "my-org/other-reward-model": "embedded-judge"}
    return CliRunner().invoke(app, [here.get(word, word) for word in words] if words[0] == "discover" else words)


@pytest.mark.parametrize("command", LAUNCHED)
def test_a_launch_dry_runs(command: str) -> None:
    found = _LAUNCHED.fullmatch(command)
    assert found is not None
    launcher, started, words = found.groups()
    config = re.search(r"--config_file (\S+)", launcher)
    assert config is None or (ROOT / config.group(1)).is_file()
    if started.endswith("score"):
        assert_only_a_file_is_missing(words, invoked(["score", *shlex.split(words), "--dry-run"]))
        return
    result = invoked(["train", *shlex.split(words), "--dry-run"])
    assert result.exit_code == 0, result.output
    assert "\ntrain       " in result.stdout


@pytest.mark.parametrize("command", [one for one in OURS if one.split()[1] not in RUN])
def test_a_command_dry_runs(command: str) -> None:
    result = invoked([*shlex.split(command)[1:], "--dry-run"])
    if "served.tokenizer=" in command:
        assert_only_a_tokenizer_is_missing(result)
    elif ABSENT.search(command):
        assert_only_a_file_is_missing(command, result)
    else:
        assert result.exit_code == 0, result.output
        assert re.search(r"Nothing was asked|\nDry run: nothing was done\.\n|^{\n \"settings\": {", result.stdout), (
            result.stdout
        )


@pytest.mark.parametrize("command", [one for one in OURS if one.split()[1] in RUN])
def test_a_command_that_only_prints_runs(command: str) -> None:
    result = invoked(shlex.split(command)[1:])
    assert result.exit_code == 0 and result.stdout, result.output


def assert_only_a_tokenizer_is_missing(result: Result) -> None:
    """A user error: a dry run asks no server, and loads the tokenizer that it is named."""
    assert result.exit_code == 2 and isinstance(result.exception, SystemExit), result.output
    errors = [line for line in result.output.splitlines() if line.startswith("error:")]
    assert errors and all(
        re.fullmatch(r"error: my-org/\S+: its tokenizer cannot be loaded .*", line) for line in errors
    ), result.output


def assert_only_a_file_is_missing(command: str, result: Result) -> None:
    """A user error, of which every line is about something that is not here."""
    named = {re.split(r"[=,]", word)[-1] for word in shlex.split(command) if ABSENT.search(word) or word == "my-study"}
    assert result.exit_code == 2 and isinstance(result.exception, SystemExit), result.output
    errors = [line for line in result.output.splitlines() if line.startswith("error:")]
    assert errors and all(any(name in line for name in named) for line in errors), result.output


def test_every_command_is_checked_by_one_of_these() -> None:
    elsewhere = [one for one in COMMANDS if one not in OURS and one not in LAUNCHED]
    installs = ("pip install -e ", "pip wheel --no-deps ", "pip install 'dist/")  # run by evals/reliability/installs.py
    release = "python scripts/paper_release.py Preference-Model-Biases paper-files"  # run by write_user_files
    assert all(one.startswith((*installs, "pytest")) or one == release for one in elsewhere), elsewhere
    assert len(LAUNCHED) >= 20 and len(OURS) >= 20
    assert len(RECIPES) == 8 and len(LAUNCHES) == 4
    for recipe in [*RECIPES, *LAUNCHES]:
        assert any(str(recipe.relative_to(ROOT)) in command for command in LAUNCHED), recipe


def test_commands_within_sentences_exist_with_their_options() -> None:
    group: Any = get_command(app)
    found = inline_commands()
    assert len(found) >= 20
    for command in found:
        _, name, *words = command.split()
        assert name in group.commands, command
        one = group.commands[name]
        if words and words[0] in getattr(one, "commands", {}):
            one = one.commands[words[0]]
        options = {option for parameter in one.params for option in parameter.opts}
        assert {word.split("=")[0] for word in words if word.startswith("--")} <= options | {"--dry-run", "--help"}, (
            command
        )


def test_programs_within_sentences_exist() -> None:
    found = python_programs()
    assert len(found) >= 3
    for program in found:
        is_file = program.endswith(".py")
        assert (ROOT / program).is_file() if is_file else importlib.util.find_spec(program), program


def test_help_imports_nothing_heavy() -> None:
    program = (
        "import sys\nfrom typer.testing import CliRunner\nfrom cda.cli import app\n"
        "assert CliRunner().invoke(app, ['--help']).exit_code == 0\n"
        "print([name for name in ('torch', 'transformers', 'numpy', 'scipy', 'pydantic', 'openai') if name in sys.modules])"
    )
    result = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert result.stdout.strip() == "[]"
