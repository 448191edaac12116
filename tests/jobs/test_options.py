"""Options are declared once: functions and commands have every one of them, with its type, default and sentence."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from typing import Annotated, Any, Unpack, get_args

import pytest
import typer
from typer.main import get_command
from typer.testing import CliRunner

import cda
from cda.cli.app import Call, job
from cda.jobs import options
from cda.jobs.options import Arg, Called, Option, options_of
from cda.jobs.terms import Terms, declared
from cda.recipe.schema import Recipe
from cda.results.commands import PromptsShown

FUNCTIONS: dict[Callable[..., object], tuple[type, str]] = {
    cda.audit: (options.AuditArguments, "audit"),
    cda.train: (options.TrainArguments, "train"),
    cda.audit_data: (options.DataArguments, "data"),
    cda.quality: (options.QualityArguments, "quality"),
    cda.best_of: (options.BestOfArguments, "best-of"),
    cda.calibrate: (options.CalibrateArguments, "calibrate"),
    cda.dose: (options.DoseArguments, "dose"),
    cda.discover: (options.DiscoverArguments, "discover"),
}


class Named(Called, total=False):
    """A job with an option that nothing else knows of."""

    colour: Annotated[str | None, Arg(default="red", setting="run.name audit.colour")]
    """Colour of
    the page."""
    deep: bool
    """Look deeper."""
    unsaid: bool


@pytest.mark.parametrize("function", FUNCTIONS, ids=lambda function: function.__name__)
def test_a_function_has_its_declared_options_in_signature_and_help(function: Callable[..., object]) -> None:
    known, parameters = options_of(FUNCTIONS[function][0]), inspect.signature(function).parameters
    given = [name for name, each in parameters.items() if each.kind is each.KEYWORD_ONLY]
    assert sorted(given) == sorted(known) and len(given) >= 6
    assert all(parameters[name].default == option.arg.default for name, option in known.items())
    assert [*parameters.values()][-1].kind is inspect.Parameter.VAR_KEYWORD
    said = " ".join(str(inspect.getdoc(function)).split())
    assert all(f" {name}: {option.arg.says} " in said for name, option in known.items())


@pytest.mark.parametrize("function", FUNCTIONS, ids=lambda function: function.__name__)
def test_its_command_has_those_that_are_declared_for_commands(function: Callable[..., object]) -> None:
    kind, command = FUNCTIONS[function]
    commands: Any = get_command(cda_app())
    helped = {parameter.name: parameter.help for parameter in commands.commands[command].params}
    args = {name: option.arg for name, option in options_of(kind).items() if option.arg.flag != ""}
    assert "limit" in args
    for name, arg in args.items():
        if command != "train":  # a recipe says the others
            assert str(helped[arg.flag or name]).removesuffix(" Several times for several.") == arg.says, name


def cda_app() -> typer.Typer:
    from cda.cli import app

    return app


def test_settings_are_the_sections_of_a_recipe() -> None:
    """A section that is missing here would be an unknown keyword for a type checker."""
    known = set(get_args(options.Settings) or options.Settings.__annotations__) | {"model", "dose", "biases"}
    assert known == set(Recipe.model_fields)


def test_one_declaration_makes_the_argument_and_the_option() -> None:
    group = typer.Typer()

    @declared(Named)
    def paint(what: str, /, **given: Unpack[Named]) -> str:
        """Paint it.

        Args:
            what: A thing.
            settings: As usual.

        Returns:
            Words.
        """
        terms = Terms.of("paint", Named, given)
        return f"{what} {given['colour']} {given['deep']} {terms.words} {terms['progress']}"

    @group.callback()
    def whole() -> None: ...

    @job(None, "limit", Named, "as_json", group=group)
    def command(call: Call, what: Annotated[str, typer.Argument()], **given: Any) -> None:
        """Paint it."""
        call.output.show(PromptsShown(text="x"), f"{paint(what, **given)} {call.limit}")

    assert paint("wall", colour="blue", seed=3) == "wall blue False ['seed=3'] True"
    assert str(inspect.signature(paint)) == (
        "(what: 'str', /, *, colour: 'str | None' = 'red', deep: 'bool' = False, progress: 'bool' = True, "
        "overrides: 'Sequence[str] | None' = None, **settings: 'object') -> 'str'"
    )
    assert "    colour: Colour of the page.\n    deep: Look deeper.\n    progress: " in str(inspect.getdoc(paint))
    done = CliRunner().invoke(group, ["command", "wall", "--deep", "--limit", "4"])
    assert (done.exit_code, done.stdout) == (0, "wall red True [] True 4\n")
    helped = CliRunner().invoke(group, ["command", "--help"], env={"COLUMNS": "120", "TERM": "dumb"}).stdout
    assert helped.index("--colour") < helped.index("--deep") < helped.index("--limit") < helped.index("--json")


def test_options_stand_for_settings_and_what_is_no_option_is_one() -> None:
    terms = Terms.of("paint", Named, {"colour": "blue", "seed": 3, "audit": {"by": "x"}, "name": "run"})
    settings = {"seed": 3, "audit": {"by": "x", "colour": "blue"}, "name": "run", "run": {"name": "blue"}}
    assert terms.nested() == settings and terms.given == ["colour"]
    assert terms.but(colour=None).nested() == {"seed": 3, "audit": {"by": "x"}, "name": "run"}
    votes = Terms.of("cda.audit", options.AuditArguments, {"votes": "none", "limit": 4, "biases": "a", "budget_usd": 0})
    limits = dict.fromkeys(("max_contrasts", "max_triples", "max_quality", "max_samples"), 4)
    assert votes.nested() == {"audit": {"votes": None} | limits, "biases": ["a"], "llm": {"budget_usd": 0}}


FORMS: list[tuple[Any, object, object, str]] = [
    (bool, True, 1, "True or False"),
    (int | None, 3, True, "a whole number"),
    (float | None, 3, "3", "a number"),
    (options.Place, "x", 3, "a path"),
    (options.Confirm, "ask", "yes", "True, False or 'ask'"),
    (Sequence[int] | None, (1, 2), [1.5], "a list of whole numbers"),
    (Sequence[float], [1, 0.5], "1", "a list of numbers"),
    (Mapping[str, str] | None, {"a": "b"}, {"a": 1}, "a dict of names, such as {'prompt': 'question'}"),
]


@pytest.mark.parametrize(("kind", "right", "wrong", "words"), FORMS, ids=lambda value: str(value)[:30])
def test_a_type_says_what_it_takes(kind: Any, right: object, wrong: object, words: str) -> None:
    option = Option(kind, Arg("It."))
    assert option.form == words and option.takes(right) and option.takes(None) and not option.takes(wrong)
    assert Option(kind, Arg("It.", form="a thing")).form == "a thing"


def test_a_least_value_and_types_that_are_checked_where_they_are_read() -> None:
    limit = Option(int | None, options.LIMIT)
    assert limit.form == "a whole number from 1" and limit.takes(1) and not limit.takes(0)
    assert Option(options.Data | None, Arg("Rows.")).takes(object())


@pytest.mark.parametrize("function", FUNCTIONS, ids=lambda function: function.__name__)
def test_every_argument_of_another_type_is_named_at_once(function: Callable[..., Any]) -> None:
    checked = {name: option for name, option in options_of(FUNCTIONS[function][0]).items() if option.form}
    checked.pop("overrides")  # with them, messages name the command line
    wrong: dict[str, Any] = {name: object() for name in checked}
    with pytest.raises(cda.RecipeError) as caught:
        function(*["embedded"] * (2 if function in (cda.quality, cda.best_of, cda.dose) else 1), **wrong)
    words = [f"cda.{function.__name__}: {name}: give {option.form}; found <object" for name, option in checked.items()]
    assert [problem.partition(" object ")[0] for problem in caught.value.problems] == words and len(words) >= 6


def test_a_recipe_says_itself_what_options_of_an_audit_say() -> None:
    own = ("out", "limit", "budget_usd")
    said = {option.word(name): option.arg.setting for name, option in options_of(options.AuditArguments).items()
            if option.arg.setting and name not in own}  # fmt: skip
    done = CliRunner().invoke(cda_app(), ["audit", "jargon", *(word for name in said for word in (f"--{name}", "x"))])
    assert done.exit_code == 2 and {"by", "votes", "bias"} <= set(said)
    lines = {f"error: --{name}: not with a recipe, which says it itself; use {path}=..." for name, path in said.items()}
    assert {line if line.startswith("error") else f"error: {line}" for line in done.stderr.splitlines()} == lines
