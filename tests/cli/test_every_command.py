"""Habits of every command: -h, --json, --dry-run, and the options that say what is read and where it goes; or why not."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest
from command_reference import NOT_DRY, every_command
from typer.main import get_command

from cda.cli import app

CDA: Any = get_command(app)
COMMANDS: dict[str, Any] = dict(every_command(CDA))
STARTER = "starts another command, which takes the option"
LOOKED_UP = dict.fromkeys(("list", "config", "completion", "version"), "reads nothing of the user's")
NO_ROWS = {
    **LOOKED_UP,
    "launch": STARTER,
    "samples": "reads no file",
    "texts": "copies the texts that ship, all of them",
    "merge": "reads weights",
    "study import": "reads every answer of a study, whose seed and columns are fixed",
}
NO_LLM = "asks no LLM"
LACKING: dict[str, Mapping[str, str]] = {
    "-h": {},
    "--json": {"launch": STARTER, "completion": "prints a script for a shell"},
    "--dry-run": NOT_DRY,
    "--full": NOT_DRY,
    "--limit": NO_ROWS | {"score": "scores every row; --part scores a part","bias new": "looks at 20 pairs, and at 500 others at most"},
    "--seed": NO_ROWS | {"score": "draws nothing"},
    "--column": NO_ROWS,
    "--out": {
        **LOOKED_UP,
        "launch": STARTER,
        "samples": "writes no file",
        "inspect": "prints; --html writes a page",
        **dict.fromkeys(("triples", "texts", "study export"), "the place is an argument"),
    },
    "--yes": {
        **LOOKED_UP,
        "launch": STARTER,
        **dict.fromkeys(("best-of", "merge", "samples", "texts", "study export", "study import"), NO_LLM),
    },
}  # fmt: skip
"""Option to the commands that lack it, each with the reason. Whoever adds a command gives it the option, or a reason here."""


@pytest.mark.parametrize("option", LACKING)
def test_every_command_has_it_or_a_reason(option: str) -> None:
    whole = CDA.make_context("cda", ["version"], resilient_parsing=True)

    def words(name: str) -> set[str]:
        command = COMMANDS[name]
        context = command.make_context(name, [], parent=whole, resilient_parsing=True)
        own = {word for parameter in command.params for word in parameter.opts}
        return own | set(command.get_help_option_names(context))

    have = {name for name in COMMANDS if option in words(name)}
    assert len(COMMANDS) >= 24
    assert set(COMMANDS) - have == set(LACKING[option]), option
    assert all(LACKING[option].values())
