"""The `cda` command itself, and the arguments and options that several subcommands share. Imports nothing heavy."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from typing import Annotated, Literal

import typer

from cda import __version__
from cda.cli import complete
from cda.errors import RecipeError
from cda.files.paths import is_there

_SETTING = re.compile(r"[\w.-]+\s*=")
MEASURE, TRAIN, SHOW, MAKE, LOOK_UP = "Measure", "Train and correct", "Compare and pass on", "Make data", "Look up"
"""Groups of commands in `cda --help`."""
COMMON = "Common options"
EXIT_CODES = {
    0: "done",
    1: "a condition of --fail-if holds, or has no number; or the reward is not that of --check-reward",
    2: "something to mend: an option, a file, a model, the disk",
    3: "a fault of cda, with a traceback; please report it",
    130: "stopped by Ctrl-C; the same command goes on from there",
    143: "stopped by SIGTERM; likewise",
}

app = typer.Typer(
    add_completion=False,  # `cda completion` prints the script; the options of typer would write into the user's files
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
    help="Find the stylistic biases of reward models, measure them, and train them away.",
    epilog="\n\n".join(["Exit codes:", *(f"{code:>3}  {meaning}" for code, meaning in EXIT_CODES.items())]),
)


def _print_version(asked: bool) -> None:
    if asked:
        print(__version__)
        raise typer.Exit


@app.callback()
def _options(
    version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version, and exit.")
    ] = False,
) -> None: ...


Recipe = Annotated[
    str,
    typer.Argument(
        help="Path of a recipe or of a bias file, or the name of a shipped recipe (`cda list recipes`).",
        autocompletion=complete.recipes,
    ),
]
Overrides = Annotated[
    list[str] | None,
    typer.Argument(
        help="section.key=value, as many as you like; `cda config` explains each.", autocompletion=complete.settings
    ),
]
DryRun = Annotated[
    bool,
    typer.Option(
        "--dry-run",
        help="Check everything, print the settings that differ from the defaults and the plan, do nothing.",
        rich_help_panel=COMMON,
    ),
]
Full = Annotated[bool, typer.Option("--full", help="With --dry-run: print all settings.", rich_help_panel=COMMON)]
Json = Annotated[
    bool,
    typer.Option(
        "--json",
        help="Print the result as JSON and nothing else; messages go to standard error.",
        rich_help_panel=COMMON,
    ),
]
Yes = Annotated[
    bool, typer.Option("--yes", help="Agree beforehand to what asking an LLM will cost.", rich_help_panel=COMMON)
]
Only = Annotated[bool, typer.Option("--only", help="Run this stage alone; earlier ones must have finished.")]
Fresh = Annotated[bool, typer.Option("--fresh", help="Measure again, even if the folder holds the same.")]
Figures = Annotated[
    str | None,
    typer.Option(
        "--figures", help="Also write every figure of the report at paper size, as svg or pdf.", rich_help_panel=COMMON
    ),
]
Column = Annotated[
    list[str] | None,
    typer.Option(
        "--column",
        help="A column of your file under another name, ours=theirs; several times for several.",
        rich_help_panel=COMMON,
    ),
]
Columns = Annotated[
    list[str] | None,
    typer.Option(
        "--column",
        help="A column of your file under another name, ours=theirs; FILE.ours=theirs for another file that the command reads "
        "(pairs, contrasts, triples, quality, supplement, taught); several times for several.",
        rich_help_panel=COMMON,
    ),
]
Limit = Annotated[
    int | None,
    typer.Option(
        "--limit",
        min=1,
        help="For a quick look: take at most so many prompts, pairs or contrasts of each file and bias, drawn with the seed.",
        rich_help_panel=COMMON,
    ),
]
Seed = Annotated[
    int | None, typer.Option("--seed", min=0, help="Seed of every random choice. Default: 42.", rich_help_panel=COMMON)
]
RunFolderOption = Annotated[
    str | None,
    typer.Option("--out", help="Folder of the run. Default: runs/<recipe>.", rich_help_panel=COMMON),
]
FailIf = Annotated[
    list[str] | None,
    typer.Option(
        "--fail-if",
        help="End with exit code 1 if this holds, such as 'jargon.skew>0.7' or 'quality.accuracy<0.75'; several times for several.",
    ),
]
Against = Annotated[str | None, typer.Option("--against", help="Compare with a second model.")]
Dose = Annotated[
    float | None,
    typer.Option(
        "--dose", help="How much of the adapter, 1 as trained; left out: the dose chosen in a run, 1 of an adapter."
    ),
]
BiasOption = Annotated[
    list[str] | None,
    typer.Option(
        "--bias",
        help="Name or bias file; several times for several. Default: all five.",
        autocompletion=complete.biases,
    ),
]
SplitName = Annotated[str, typer.Option("--split", help="Of a folder or hub id with several.")]
TARGET = (
    "A reward model (hub id, folder, or `embedded`), `judge:NAME` for an LLM judge (`judge:NAME,NAME`: a panel), `grade:NAME` for an LLM that grades single answers, `served:URL` for a served model, "
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


COLUMN_SETTINGS = {
    "pairs": "data.columns",
    "supplement": "data.supplement_columns",
    "taught": "data.contrast_columns",
    "contrasts": "audit.columns",
    "triples": "audit.triple_columns",
    "quality": "audit.quality_columns",
    "responses": "discover.columns",
}
"""A file that a command reads to the setting with its columns."""


def with_options(
    overrides: Sequence[str] | None,
    seed: int | None = None,
    column: Sequence[str] | None = None,
    files: Sequence[str] = (),
) -> list[str]:
    """The settings of a command with those that --seed and --column stand for; `files` are those whose columns it reads, the
    one that a column without a file's name belongs to first. RecipeError: another form, or another file."""
    words = [*(overrides or ()), *([] if seed is None else [f"seed={seed}"])]
    problems = []
    for name, theirs in columns_of(column or ()).items():
        file, dot, ours = name.partition(".")
        file, ours = (file, ours) if dot else (files[0], name)
        if file in files and ours:
            words.append(f"{COLUMN_SETTINGS[file]}.{ours}={json_word(theirs)}")
        else:
            problems.append(f"--column {name}: '{file}' is no file with columns here; known: {', '.join(files)}")
    if problems:
        raise RecipeError(problems)
    return words


def json_word(value: str | Sequence[str]) -> str:
    """Text or texts as a YAML value that is read as this very text."""
    return json.dumps(value, ensure_ascii=False)
