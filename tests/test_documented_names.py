"""Files, settings and options that a document names exist; how-tos answer first; the site's search finds what readers look for."""

from __future__ import annotations

import dataclasses
import json
import os
import re
import subprocess
import sys
from functools import cache
from pathlib import Path
from typing import Any

import command_reference
import pytest
from documented_commands import READMES, ROOT
from typer.main import get_command

from cda.cli import app
from cda.pipeline.stages import Run
from cda.recipe.explain import all_settings
from cda.recipe.schema import SEEDS
from cda.results.audit import AuditResult

DOCUMENTS = [*READMES, ROOT / "evals" / "README.md", ROOT / "tests" / "golden" / "README.md"]
HOWTOS = [*sorted((ROOT / "docs" / "how-to").glob("*.md")), ROOT / "cda" / "studies" / "README.md"]
_FILE = re.compile(r"`([\w./-]+\.(py|md|yaml|yml|jsonl?|csv|html|sqlite|ipynb|toml|txt))(?::\w+)?`")
_PATH = re.compile(r"`([\w./-]+)(?::[\w.]+)?`")
_SETTING = re.compile(
    r"`(?:--column )?((?:model|data|audit|train|lora|llm|score|label|rewrite|synthesize|dose|discover|run)(?:\.[a-z_]+)+)"
)
_OPTION = re.compile(r"(?<![\w-])--[a-z][a-z_-]+")
THEIRS = {
    "accelerate": "--config_file --num_processes --num_machines --multi_gpu --cpu --mixed_precision --dynamo_backend --machine_rank "
    "--main_process_ip --main_process_port --quiet --use_fsdp",
    "torchrun, pip, pytest, tensorboard, hf": "--nproc_per_node --no-deps --write-golden --logdir --exclude --help",
    "Slurm": "--array --gres --nodes --ntasks-per-node --gpus-per-node --cpus-per-task",
    "OpenRLHF and the documents' own programs": "--remote_rm_url --label_key --data --reward --release",
}
"""Options of programs that are not ours, by program."""
OF_A_READER = re.compile(
    r"(^|/)(my[_-]|NAME|paper-files/|file\.py$|(rewardbench|counterfactuals)\.jsonl$|.*_500\.jsonl$|tokenizer_config\.json$)"
)
"""Files that a reader has."""


@cache
def code() -> str:
    """All of our code, which writes the files that documents name."""
    return "\n".join(
        path.read_text(encoding="utf-8")
        for folder in ("cda", "scripts", "tests/golden")
        for path in (ROOT / folder).rglob("*.py")
    )


@cache
def settings() -> frozenset[str]:
    from trl import RewardConfig

    train = {f"train.{name}" for name in (*(field.name for field in dataclasses.fields(RewardConfig)), SEEDS)}
    keys = {info.key for info in all_settings()}
    parents = {".".join(key.split(".")[:n]) for key in keys for n in range(1, key.count(".") + 1)}
    return frozenset(keys | train | parents)


def is_written(name: str) -> bool:
    """True for a file that a command writes: its name stands in the code, that of the JSON next to it, or its ending of two parts."""
    stem, _, ending = name.partition(".")
    return (
        f'{name}"' in code()
        or f'"{stem}.json"' in code()
        or ("." in ending and f".{ending.partition('.')[0]}." in code())
    )


def is_known(name: str) -> bool:
    """True for a setting, a column of a file, an attribute in Python, or a file."""
    if name in settings() or f"{name.rpartition('.')[0]}" in {key for key in settings() if key.endswith("columns")}:
        return True
    first, _, rest = name.partition(".")
    of = {"audit": AuditResult, "run": Run}.get(first)
    attribute = rest.partition(".")[0]
    if of is not None and (attribute in getattr(of, "model_fields", {}) or hasattr(of, attribute)):
        return True
    return rest in ("json", "jsonl", "md")


def named(document: Path, pattern: re.Pattern[str]) -> list[str]:
    return list(dict.fromkeys(match[1] for match in pattern.finditer(document.read_text(encoding="utf-8"))))


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: path.relative_to(ROOT).as_posix())
def test_every_file_and_setting_that_is_named_exists(document: Path) -> None:
    names, folders = named(document, _FILE), [document.parent, ROOT, ROOT / "cda", ROOT / "recipes"]
    # A file may stand without its folder once another of it was named.
    there = [folder / name for name in named(document, _PATH) for folder in folders if (folder / name).exists()]
    folders += [place if place.is_dir() else place.parent for place in there]
    written = {name for name in names if not name.endswith(".py") and is_written(Path(name).name)}
    found = {name for name in names if any((folder / name).exists() for folder in folders)}
    assert [name for name in names if name not in found | written and not OF_A_READER.search(name)] == []
    assert [name for name in named(document, _SETTING) if not is_known(name)] == []


def test_every_option_that_is_named_exists() -> None:
    ours = {name for _, command in command_reference.every_command(get_command(app)) for param in command.params
            for name in (*param.opts, *param.secondary_opts)}  # fmt: skip
    theirs = {name for names in THEIRS.values() for name in names.split()}
    found: dict[str, str] = {}
    for document in DOCUMENTS:
        text = document.read_text(encoding="utf-8")
        for code_ in (*re.findall(r"`([^`\n]+)`", text), *re.findall(r"^```.*?^```$", text, re.DOTALL | re.MULTILINE)):
            found |= dict.fromkeys(_OPTION.findall(code_), document.name)
    assert len(found) > 50 and {name: where for name, where in found.items() if name not in ours | theirs} == {}
    assert theirs <= found.keys()


@pytest.mark.parametrize("document", HOWTOS, ids=lambda path: path.name)
def test_a_how_to_answers_its_question_first(document: Path) -> None:
    """A title, at most four lines of what it is about, and the command."""
    lines = document.read_text(encoding="utf-8").splitlines()
    fence = next(number for number, line in enumerate(lines) if line.startswith("```"))
    assert lines[0].startswith("# ") and fence <= 9, f"its first command stands in line {fence + 1}"
    assert not [line for line in lines[1:fence] if line.startswith("#")]


def test_eleven_questions_have_their_command() -> None:
    text = (ROOT / "docs" / "which-command.md").read_text(encoding="utf-8")
    rows = [line.split(" | ") for line in text.splitlines() if line.startswith("| ") and "`cda " in line]
    assert len(rows) == 11
    assert all(row[0].endswith("?") and row[1].startswith("`cda ") and "](" in row[2] for row in rows)
    assert len({row[1].split()[1] for row in rows}) >= 8  # audit answers three
    assert "docs/which-command.md" in (ROOT / "README.md").read_text(encoding="utf-8")


@pytest.fixture(scope="module")
def index(tmp_path_factory: pytest.TempPathFactory) -> list[dict[str, Any]]:
    """The index that the search of the built site reads."""
    site = tmp_path_factory.mktemp("site")
    environment = {**os.environ, "NO_MKDOCS_2_WARNING": "1"}
    command = [sys.executable, "-m", "mkdocs", "build", "--quiet", "--site-dir", str(site)]
    subprocess.run(command, cwd=ROOT, env=environment, check=True, capture_output=True)
    found = json.loads((site / "search" / "search_index.json").read_text(encoding="utf-8"))["docs"]
    assert isinstance(found, list)
    return found


SEARCHES = {
    "position bias": "how-to/judges/",
    "length baseline": "how-to/audit/",
    "weights": "reference/recipes/",
    "reward function": "how-to/rl/",
    "which command": "which-command/",
    "people's votes": "how-to/votes/",
    "LLM judge": "how-to/judges/",
    "several GPUs": "how-to/several-gpus/",
    "result fields miscalibration": "results/",
}


@pytest.mark.parametrize("words", SEARCHES)
def test_the_search_finds_it_by_a_title(words: str, index: list[dict[str, Any]]) -> None:
    """All words, but for plurals, stand in the title of a section of the page that answers (the text of the section for the last)."""
    stems = [re.sub(r"s$", "", word) for word in words.lower().split()]
    places = [each["location"] for each in index if all(stem in each["title"].lower() for stem in stems)]
    if words.startswith("result fields"):
        places = [
            each["location"]
            for each in index
            if each["location"].startswith("results/") and stems[-1] in each["text"].lower()
        ]
    assert any(place.startswith(SEARCHES[words]) for place in places), places
