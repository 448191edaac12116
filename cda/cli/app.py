"""The `cda` command itself, the arguments and options that several subcommands share, and `job`, which makes a subcommand of a
function. Imports nothing heavy."""

from __future__ import annotations

import inspect
import json
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import islice
from operator import getitem
from typing import Annotated, Any, Literal

import typer
from typer.core import TyperGroup

from cda import __version__
from cda.cli import complete
from cda.cli.output import Output, running
from cda.errors import RecipeError
from cda.files.paths import is_there
from cda.jobs.options import COLUMN, FIGURES, LIMIT, Flag, common, options_of, switch

_SETTING = re.compile(r"[\w.-]+\s*=")
MEASURE, TRAIN, SHOW, MAKE, LOOK_UP = "Measure", "Train and correct", "Compare and pass on", "Make data", "Look up"
"""Groups of commands in `cda --help`."""
EXIT_CODES = {
    0: "done",
    1: "a condition of --fail-if holds, or has no number; or the reward is not that of --check-reward",
    2: "something to mend: an option, a file, a model, the disk",
    3: "a fault of cda, with a traceback; please report it",
    130: "stopped by Ctrl-C; the same command goes on from there",
    143: "stopped by SIGTERM; likewise",
}

RENAMED = {
    "leaderboard": "compare FOLDER",
    "panel": "compare MODEL MODEL …",
    "report --compare": "compare RUN RUN …",
    "dose --before": "dose scores:BEFORE --against scores:AFTER",
    "calibrate --scores": "calibrate scores:FILE",
}
"""Commands, or commands with an option, to what they are called now."""


class _Commands(TyperGroup):
    """Commands that name the new spelling of an old one."""

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        for old, new in RENAMED.items():
            command, *options = old.split()
            if args[:1] == [command] and set(options) <= {word.partition("=")[0] for word in args}:
                ctx.fail(f"`cda {old}` is now `cda {new}`.")
        return super().resolve_command(ctx, args)


app = typer.Typer(
    cls=_Commands,
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
_SHARED = {
    "only": switch("--only", "Run this stage alone; earlier ones must have finished."),
    "fail_if": Flag(
        "End with exit code 1 if this holds, such as 'jargon.skew>0.7' or 'quality.accuracy<0.75'; several times for several.",
        list[str] | None,
        ("--fail-if",),
    ),
    "limit": LIMIT,
    "seed": common("Seed of every random choice. Default: 42.", int | None, "--seed", min=0),
    "column": COLUMN,
    "columns": common(
        f"{COLUMN.help.partition(';')[0]}; FILE.ours=theirs for another file that the command reads "
        "(pairs, contrasts, triples, quality, supplement, taught); several times for several.",
        list[str] | None,
        "--column",
        "column",
    ),
    "figures": FIGURES,
    "out": common("Folder of the run. Default: runs/<recipe>.", str | None, "--out"),
    "dry_run": common(
        "Check everything, print the settings that differ from the defaults and the plan, do nothing.",
        bool,
        "--dry-run",
    ),
    "full": common("With --dry-run: print all settings.", bool, "--full"),
    "as_json": common("Print the result as JSON and nothing else; messages go to standard error.", bool, "--json"),
    "yes": common("Agree beforehand to what asking an LLM will cost.", bool, "--yes"),
}
"""Options of commands alone, by the parameter's name; those of functions too are declared in `cda.jobs.options`."""
ALWAYS = "dry_run full as_json"


@dataclass(frozen=True)
class Call:
    """How a command was called, by the options that several commands share, and the place for its result."""

    output: Output
    only: bool = False
    fail_if: Sequence[str] | None = None
    limit: int | None = None
    fresh: bool = False
    seed: int | None = None
    column: Sequence[str] | None = None
    figures: str | None = None
    out: str | None = None
    yes: bool = False

    @property
    def confirm(self) -> bool | Literal["ask"]:
        """`--yes` agrees beforehand; without it the user is asked."""
        return True if self.yes else "ask"

    @property
    def columns(self) -> dict[str, str]:
        return columns_of(self.column or ())

    def words(self, overrides: Sequence[str] | None, *files: str) -> list[str]:
        """Settings with those of --seed and, for a command that reads `files` of a recipe, --column."""
        return with_options(overrides, self.seed, self.column if files else None, files)

    def paid(self, overrides: Sequence[str] | None, *files: str) -> dict[str, Any]:
        """Arguments of every function that may ask an LLM."""
        return {"confirm": self.confirm, "overrides": self.words(overrides, *files)}


def job(
    panel: str | None,
    order: str = "",
    options: type | None = None,
    end: str = f"{ALWAYS} yes",
    name: str | None = None,
    group: typer.Typer = app,
) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Make a command of a function, which gets a `Call`, its own parameters, and as keywords the declared `options` of a job.

    The function's parameters come first in the help, then the options, then those that `order` names, which may be any of them or
    shared ones; `end` comes last.
    """

    def register(function: Callable[..., None]) -> Callable[..., None]:
        every = options_of(options) if options else {}
        declared = {key: option.flag for key, option in every.items() if option.flag is not None}
        own = dict(islice(inspect.signature(function, eval_str=True).parameters.items(), 1, None))
        own = {key: parameter for key, parameter in own.items() if parameter.kind is not parameter.VAR_KEYWORD}
        named = order.split()
        names = [key for key in (*own, *declared) if key not in named]
        names += [*named, *(key for key in end.split() if key not in named)]
        parameters: dict[str, inspect.Parameter] = {}
        for key in names:
            parameters[key] = own.get(key) or _parameter(key, declared.get(key) or _SHARED[key])

        def command(context: typer.Context, **given: Any) -> None:
            values = {key: given[parameter.name] for key, parameter in parameters.items()}
            how = {parameters[key].name: values.pop(key) for key in names if key not in own and key not in declared}
            as_json, dry_run, full = (how.pop(key, False) for key in ("as_json", "dry_run", "full"))
            with running(as_json, dry_run, full, context) as output:
                if "columns" in values:
                    values["columns"] = columns_of(values["columns"] or ())
                function(Call(output, **how), **values)

        whole = [_CONTEXT, *parameters.values()]
        command.__signature__ = inspect.Signature(whole)  # type: ignore[attr-defined]
        command.__annotations__ = {parameter.name: parameter.annotation for parameter in whole}
        command.__doc__, command.__name__ = function.__doc__, function.__name__
        group.command(name=name or function.__name__, rich_help_panel=panel)(command)
        return function

    return register


_CONTEXT = inspect.Parameter("context", inspect.Parameter.POSITIONAL_OR_KEYWORD, annotation=typer.Context)


def _parameter(name: str, flag: Flag) -> inspect.Parameter:
    """The parameter by which Typer makes an option."""
    more = {key: getattr(complete, value) if key == "autocompletion" else value for key, value in flag.more.items()}
    kind = getitem(Annotated, (flag.kind, typer.Option(*flag.words, help=flag.help, **more)))
    return inspect.Parameter(
        flag.name or name, inspect.Parameter.POSITIONAL_OR_KEYWORD, default=flag.default, annotation=kind
    )


TARGET = (
    "A reward model (hub id, folder, or `embedded`), `judge:NAME` for an LLM judge (`judge:NAME,NAME`: a panel), `grade:NAME` for an LLM that grades single answers, `served:URL` for a served model, "
    "`dpo:POLICY,REFERENCE` for causal models, `scores:FILE` for scores that you have, or `module:function` for your own."
)


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
