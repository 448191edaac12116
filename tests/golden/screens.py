"""What a command printed as its result: without the log of its stages, at most a screen, and the command that it names as the next."""

from __future__ import annotations

import re
import shlex

LINES, COLUMNS = 12, 100
_TEXTS = re.compile(r"^── ", re.MULTILINE)
# Stages and what they say, indented; which model or topic is under way; what was read.
_LOG = re.compile(
    r"\s*$|  |[a-z]+(?:-seed-\d+)?$|[\w-]+: done before, reused|\[\d+/\d+\] |topic \d+ of |\d+ attributes? of other topics|"
    r"\d+ models, their LLM calls|\d+ pairs \(|.* items, read as |llm  |label  |synthesize  |train  |adapter  |dose  |model  |audit  |report  "
)


def result_of(printed: str) -> list[str]:
    """The lines of the result: those behind the last line of the log, and before the texts that `cda inspect` shows."""
    shown, _, texts = printed.partition("\nNext:")
    lines = _TEXTS.split(shown)[0].rstrip("\n").split("\n")
    start = next((at for at in range(len(lines), 0, -1) if _LOG.match(lines[at - 1])), 0)
    return [*lines[start:], *(f"Next:{texts}".rstrip("\n").split("\n") if texts else [])]


def next_command(printed: str) -> list[str] | None:
    """Words of the next command behind `cda`; None if nothing is to be run. AssertionError: there is no next step at all."""
    found = re.search(r"^Next: .*(?:\n +.*)*", printed, re.MULTILINE)
    assert found, f"no next step in:\n{printed}"
    command = re.search(r":\s+cda ((?:.|\n)*)", found[0].replace("\\\n", " "))
    return shlex.split(command[1]) if command else None
