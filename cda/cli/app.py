"""The `cda` command itself, the arguments and options that several subcommands share, and `job`, which makes a subcommand of a
function. Imports nothing heavy."""

from __future__ import annotations

import inspect
import json
import re
import sys
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager, redirect_stdout
from dataclasses import dataclass, is_dataclass, replace
from functools import cached_property, partial
from importlib import import_module
from operator import getitem
from typing import TYPE_CHECKING, Annotated, Any, TypedDict, get_args, get_origin

import typer
from typer.core import TyperGroup

from cda import __version__
from cda.cli import complete
from cda.errors import RecipeError
from cda.files.paths import is_there
from cda.jobs.options import COLUMN_SETTINGS, COMMON, Arg, Figures, Limit, Option, options_of
from cda.launch import is_main, say, use_all_cores
from cda.terminal import put, quiet_libraries
from cda.user_errors import user_errors

if TYPE_CHECKING:
    from pydantic import BaseModel
    from typer import Context

    from cda.auditing.conditions import Condition
    from cda.jobs.terms import Terms

CONDITION_HOLDS = 1


class Output:
    """The one result that a command shows."""

    def __init__(self, as_json: bool, dry_run: bool = False, full: bool = False) -> None:
        self.as_json, self.dry_run, self.full = as_json, dry_run, full
        self.status = 0
        self._result: BaseModel | Callable[[], BaseModel] | None = None

    def show(self, result: BaseModel | Callable[[], BaseModel], text: str | None = None) -> None:
        """Show a result: its summary, or `text`, as a message (nothing if that is empty); with --json what it holds, once the
        command has ended."""
        self._result = result
        said = getattr(result, "summary", "") if text is None else text
        if not self.as_json and said:
            say(said)

    def fail(self, problems: list[str]) -> None:
        """End with exit code 1, after the result was shown, and say why on standard error."""
        for problem in problems:
            put(f"failed: {problem}")
        self.status = CONDITION_HOLDS if problems else self.status

    def json(self) -> str:
        if self._result is None:
            raise ValueError("the command has shown no result")
        return json.dumps(written(self._result() if callable(self._result) else self._result), indent=1)


@contextmanager
def running(
    as_json: bool = False, dry_run: bool = False, full: bool = False, context: Context | None = None
) -> Iterator[Output]:
    """Run a command: errors a user can act on become messages; with --json everything else that is printed goes to standard
    error; a dry run ends where everything is checked (`cda.resources.dry_run`), and its plan is the result. A command without
    settings of a recipe gives its `context`, whose options a dry run shows instead."""
    output, stdout = Output(as_json, dry_run, full), sys.stdout
    with redirect_stdout(sys.stderr if as_json else stdout), user_errors():
        if full and not dry_run:
            raise RecipeError(["--full: only with --dry-run, whose settings it lists"])
        if dry_run:
            from cda.resources.dry_run import planning

            with planning(full, given_options(context, full), output.show):
                yield output
        else:
            yield output
        if as_json and is_main():
            print(output.json(), file=stdout)
        if output.status:
            sys.exit(output.status)


_HOW = ("dry_run", "full", "json", "yes")
"""Options that say how a command is run, not what it does."""


def given_options(context: Context | None, full: bool = False) -> dict[str, Any]:
    """A command's options by name, those that differ from their defaults, or all of them."""
    if context is None:
        return {}
    found: dict[str, Any] = {}
    for parameter in context.command.params:
        if parameter.param_type_name != "option" or parameter.name in _HOW:
            continue
        value, default = context.params[str(parameter.name)], parameter.default
        value = list(value) or None if isinstance(value, list | tuple) else value  # of an option that may be repeated
        if full or value != default:
            found[parameter.opts[0].removeprefix("--")] = value
    return found


def written(result: BaseModel) -> dict[str, Any]:
    """A result as its file holds it."""
    return result.model_dump(mode="json", exclude=set(getattr(result, "in_memory", ())))


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
    "audit --compare": "compare MODEL MODEL …",
    "win-rate": "quality MODEL FIRST --over SECOND",
    "pairs": "triples",
    "dose --before": "dose scores:BEFORE --against scores:AFTER",
    "calibrate --scores": "calibrate scores:FILE",
    **{f"{command} --pairs": f"{command} --contrasts" for command in ("audit", "compare", "dose", "calibrate")},
}
"""Commands, or commands with an option, to what they are called now."""


class _Commands(TyperGroup):
    """Commands that name the new spelling of an old one."""

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        for old, new in RENAMED.items():
            command, *options = old.split()
            if args[:1] == [command] and {*options} <= {word.partition("=")[0] for word in args}:
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
        help="Path of a recipe or of a bias file, the name of a shipped recipe (`cda list recipes`), or the folder of a run, "
        "whose settings it stands for.",
        autocompletion=complete.recipes,
    ),
]
Overrides = Annotated[
    list[str] | None,
    typer.Argument(
        help="section.key=value, as many as you like; `cda config` explains each.", autocompletion=complete.settings
    ),
]
_MORE = {"rich_help_panel": COMMON}


class _Shared(TypedDict, total=False):
    """Options of commands alone, by the parameter's name; those of functions too are declared in `cda.jobs.options`."""

    only: bool
    """Run this stage alone; earlier ones must have finished."""
    fail_if: Sequence[str]
    """End with exit code 1 if this holds, such as 'jargon.skew>0.7', 'quality.accuracy<0.75' or, of a judge, 'position>0.5'."""
    limit: Limit
    figures: Figures
    seed: Annotated[int | None, Arg(more={"min": 0, **_MORE})]
    """Seed of every random choice. Default: 42."""
    columns: Annotated[Sequence[str], Arg(flag="column", more=_MORE)]
    """A column of your file under another name, ours=theirs; FILE.ours=theirs for another file that the command reads
    (pairs, contrasts, triples, quality, samples, supplement, taught)."""
    out: Annotated[str | None, Arg(more=_MORE)]
    """Folder of the run. Default: runs/<recipe>."""
    dry_run: Annotated[bool, Arg(more=_MORE)]
    """Check everything, print the settings that differ from the defaults and the plan, do nothing."""
    full: Annotated[bool, Arg(more=_MORE)]
    """With --dry-run: print all settings."""
    as_json: Annotated[bool, Arg(flag="json", more=_MORE)]
    """Print the result as JSON and nothing else; messages go to standard error."""
    yes: Annotated[bool, Arg(more=_MORE)]
    """Agree beforehand to what asking an LLM will cost."""


ALWAYS = "dry_run full as_json"


@dataclass(frozen=True)
class Call:
    """How a command was called, by the options that several commands share, and the place for its result."""

    output: Output
    given: Collection[str] = ()
    """Options that were given another value than their default, by the words of the command line."""
    only: bool = False
    fail_if: Sequence[str] | None = None
    limit: int | None = None
    seed: int | None = None
    columns: Sequence[str] | None = None
    figures: str | None = None
    out: str | None = None
    yes: bool = False

    def refuse(self, reasons: Mapping[str, str]) -> None:
        """RecipeError for options that were given and have no effect here, each with its reason."""
        if problems := [f"--{name}: {reasons[name]}" for name in self.given if name in reasons]:
            raise RecipeError(problems)

    def words(self, overrides: Sequence[str] | None, *files: str) -> list[str]:
        """Settings with those that --seed and --column stand for; `files` are those whose columns the command reads, the one that a
        column without a file's name belongs to first. RecipeError: another form, or another file."""
        words = [*(overrides or ()), *([] if self.seed is None else [f"seed={self.seed}"])]
        problems = []
        for name, theirs in columns_of(self.columns or ()).items() if files else ():
            file, dot, ours = name.partition(".")
            file, ours = (file, ours) if dot else (files[0], name)
            if file in files and ours:
                words.append(f"{COLUMN_SETTINGS[file]}.{ours}={json.dumps(theirs, ensure_ascii=False)}")
            else:
                problems.append(f"--column {name}: '{file}' is no file with columns here; known: {', '.join(files)}")
        if problems:
            raise RecipeError(problems)
        return words

    def paid(self, overrides: Sequence[str] | None, *files: str) -> dict[str, Any]:
        """Arguments of every function that may ask an LLM; `--yes` agrees beforehand, without it the user is asked."""
        return {"confirm": True if self.yes else "ask", "overrides": self.words(overrides, *files)}

    def terms(
        self, function: str, declared: type, options: Mapping[str, Any], words: Sequence[str], *files: str
    ) -> Terms:
        """Terms of a function of the API with the conditions of --fail-if."""
        from cda.auditing.conditions import check_conditions
        from cda.jobs.terms import Terms

        terms = Terms.of(function, declared, {**options, **self.paid(words, *files)})
        return replace(terms, check=partial(check_conditions, self.conditions))

    @cached_property
    def conditions(self) -> Sequence[Condition]:
        """Those of --fail-if; RecipeError: another form, or an unknown measure."""
        from cda.auditing.conditions import conditions_of

        return conditions_of(self.fail_if or ())


def job(
    panel: str | None,
    order: str = "",
    options: type | None = None,
    end: str = f"{ALWAYS} yes",
    name: str | None = None,
    group: typer.Typer = app,
    does: str | None = None,
    files: Sequence[str] = (),
) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Make a command of a function, which gets a `Call`, its own parameters, and the declared `options` of a job: as keywords, or of
    a dataclass as `options`. A declaration alone names the function that it `does`, by module and name: it gets the parameters by
    position, then settings as words (`overrides`, or those among `files`; with the columns of these files), and the options.

    The function's parameters come first in the help, then the options, then those that `order` names, which may be any of them or
    shared ones; `end` comes last.
    """

    def register(function: Callable[..., None]) -> Callable[..., None]:
        every, shared = options_of(options) if options else {}, options_of(_Shared)
        declared = {key: option for key, option in every.items() if option.arg.flag != ""}
        own = {
            key: each
            for key, each in inspect.signature(function, eval_str=True).parameters.items()
            if each.annotation is not Call and each.kind is not each.VAR_KEYWORD and key != "options"
        }
        named = order.split()
        names = [key for key in (*own, *declared) if key not in named]
        names += [*named, *(key for key in end.split() if key not in named)]
        parameters = {key: own.get(key) or _parameter(key, declared.get(key) or shared[key]) for key in names}

        def command(context: typer.Context, **given: Any) -> None:
            values = {key: given[parameter.name] for key, parameter in parameters.items()}
            how = {key: values.pop(key) for key in names if key not in own and key not in declared}
            with running(
                how.pop("as_json", False), how.pop("dry_run", False), how.pop("full", False), context
            ) as output:
                asked = {key: values.pop(key) for key in declared}
                if asked.get("columns") is not None:
                    asked["columns"] = columns_of(asked["columns"])
                asked = {key: every[key].arg.default if value is None else value for key, value in asked.items()}
                if is_dataclass(options):
                    kept = {key: tuple(value) if isinstance(value, list) else value for key, value in asked.items()}
                    kept |= {"consent": "given"} if how.get("yes") and hasattr(options, "consent") else {}
                    asked = {"options": options(**{key: value for key, value in kept.items() if value is not None})}
                call = Call(output, given_options(context), **how)
                if does is None:
                    function(call, **values, **asked)
                else:
                    output.show(_did(does, call, values, asked, files, set(every)))

        whole = [_CONTEXT, *parameters.values()]
        command.__signature__ = inspect.Signature(whole)  # type: ignore[attr-defined]
        command.__annotations__ = {parameter.name: parameter.annotation for parameter in whole}
        command.__doc__, command.__name__ = function.__doc__, function.__name__
        group.command(name=name or function.__name__, rich_help_panel=panel)(command)
        return function

    return register


def _did(
    does: str, call: Call, values: dict[str, Any], asked: dict[str, Any], files: Sequence[str], known: Collection[str]
) -> Any:
    """The result of a function that a declaration names."""
    use_all_cores()
    quiet_libraries()
    module, _, name = does.partition(":")
    if "files" in values:
        values["overrides"], values["files"] = settings_apart(values["files"])
    function, how = getattr(import_module(module), name), call.paid(values.get("overrides"), *files)
    if "overrides" in known:  # a function of the API
        values.pop("overrides", None)
        asked |= {key: value for key, value in how.items() if key in known}
    elif "overrides" in values:
        values["overrides"] = how["overrides"]
    return function(*values.values(), **asked)


_CONTEXT = inspect.Parameter("context", inspect.Parameter.POSITIONAL_OR_KEYWORD, annotation=typer.Context)


def _parameter(name: str, option: Option) -> inspect.Parameter:
    """The parameter by which Typer makes an option."""
    arg, kind = option.arg, option.in_command
    word = arg.flag or name
    more = {key: getattr(complete, value) if key == "autocompletion" else value for key, value in arg.more.items()}
    several = list in (get_origin(each) for each in get_args(kind))
    said = f"{arg.says} Several times for several." if several else arg.says
    switch = [f"--{word.replace('_', '-')}"] if kind is bool else []  # no --no-… of its own
    default = inspect.Parameter.empty if option.required else None if several else arg.default
    noted = getitem(Annotated, (kind, typer.Option(*switch, help=said, **more)))
    return inspect.Parameter(word, inspect.Parameter.POSITIONAL_OR_KEYWORD, default=default, annotation=noted)


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
