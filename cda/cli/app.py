"""The `cda` command itself, and the arguments and options that several subcommands share."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Annotated, Literal

import typer

from cda.errors import RecipeError
from cda.files.paths import is_there

_SETTING = re.compile(r"[\w.-]+\s*=")

app = typer.Typer(
    add_completion=False,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    help="Find the stylistic biases of reward models, measure them, and train them away.",
)

Recipe = Annotated[
    str, typer.Argument(help="Path of a recipe or of a bias file, or the name of a shipped recipe (jargon, length, …).")
]
Overrides = Annotated[list[str] | None, typer.Argument(help="section.key=value, as many as you like.")]
DryRun = Annotated[
    bool, typer.Option("--dry-run", help="Check everything, print the resolved recipe and the plan, do nothing.")
]
Yes = Annotated[bool, typer.Option("--yes", help="Agree beforehand to what asking an LLM will cost.")]
Only = Annotated[bool, typer.Option("--only", help="Run this stage alone; earlier ones must have finished.")]
Figures = Annotated[
    str | None, typer.Option("--figures", help="Also write every figure of the report at paper size, as svg or pdf.")
]
Column = Annotated[
    list[str] | None,
    typer.Option("--column", help="A column under another name, ours=theirs; may be given several times."),
]
Against = Annotated[str | None, typer.Option("--against", help="Compare with a second model.")]
Dose = Annotated[
    float | None,
    typer.Option(
        "--dose", help="How much of the adapter, 1 as trained; left out: the dose chosen in a run, 1 of an adapter."
    ),
]
BiasOption = Annotated[
    list[str] | None, typer.Option("--bias", help="Name or bias file; may be given several times. Default: all five.")
]
SplitName = Annotated[str, typer.Option("--split", help="Of a folder or hub id with several.")]
TARGET = (
    "A reward model (hub id, folder, or `embedded`), `judge:NAME` for an LLM judge (`judge:NAME,NAME`: a panel), `served:URL` for a served model, "
    "`dpo:POLICY,REFERENCE` or `steered:MODEL` for causal models, or `module:function` for your own."
)


def confirmed(yes: bool) -> bool | Literal["ask"]:
    """`--yes` agrees beforehand; without it the user is asked."""
    return True if yes else "ask"


def settings_apart(words: Sequence[str]) -> tuple[list[str], list[str]]:
    """Settings `section.key=value` among the words of a command, and the others, which name models or files."""
    settings = [word for word in words if _SETTING.match(word) and not is_there(word)]
    return settings, [word for word in words if word not in settings]


def columns_of(words: Sequence[str]) -> dict[str, str]:
    """Our columns to the user's, of `--column ours=theirs`; RecipeError for a word of another form, or two for one column."""
    columns: dict[str, str] = {}
    problems = []
    for word in words:
        ours, _, theirs = word.partition("=")
        if not (ours and theirs):
            problems.append(f"--column {word}: has the form ours=theirs, such as prompt=question")
        elif columns.setdefault(ours, theirs) != theirs:
            problems.append(f"--column {ours}: given as '{columns[ours]}' and as '{theirs}'")
    if problems:
        raise RecipeError(problems)
    return columns
