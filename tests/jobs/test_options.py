"""Options are declared once: functions and commands have every one of them, with its type, default and sentence."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Annotated, Any, Unpack, get_args

import pytest
import typer
from typer.main import get_command
from typer.testing import CliRunner

import cda
from cda.cli.app import Call, job
from cda.jobs import options
from cda.jobs.options import Arg, Called, options_of
from cda.jobs.terms import Terms, declared
from cda.recipe.schema import Recipe
from cda.results.commands import Prompts

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

    colour: Annotated[str | None, Arg("Colour of the page.", "red")]
    deep: Annotated[bool, Arg("Look deeper.", False)]


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
        call.output.show(Prompts(text="x"), f"{paint(what, **given)} {call.limit}")

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


def test_every_argument_of_another_type_is_named_at_once() -> None:
    with pytest.raises(cda.RecipeError) as caught:
        cda.quality("embedded", "embedded", dose="much", limit=0, out=3, confirm="perhaps")  # type: ignore[arg-type]
    assert [problem.split(": give")[0] for problem in caught.value.problems] == [
        f"cda.quality: {name}" for name in ("confirm", "dose", "out", "limit")
    ]
    with pytest.raises(cda.RecipeError, match="--figures png: figures are written as svg or pdf"):
        cda.quality("embedded", "first.jsonl", figures="png")
