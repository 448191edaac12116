"""The content of every `--help`, without the frame that the version of a library and a terminal's width draw around it."""

from __future__ import annotations

import inspect
import re
import typing
from collections.abc import Callable, Iterator
from typing import Any

import typer
from recorded import LEAVES
from typer.models import ArgumentInfo, OptionInfo
from typer.testing import CliRunner

from cda.cli import app

_NO_LETTER = re.compile(r"[\W_]+")


def help_of_every_command() -> dict[str, Any]:
    """A record for each command: its description and parameters. That its `--help` prints each of these texts is checked."""
    found = {}
    for words, callback in commands(app):
        content = {"help": " ".join(str(callback.__doc__).split()), "parameters": list(parameters(callback))}
        result = CliRunner().invoke(app, [*words, "--help"])
        assert result.exit_code == 0, result.output
        shown = _NO_LETTER.sub("", result.output)
        for text in (content["help"], *(parameter["help"] for parameter in content["parameters"])):
            assert _NO_LETTER.sub("", text or "") in shown, f"cda {' '.join(words)} --help does not say: {text}"
        found[f"{'-'.join(['cda', *words])}{LEAVES}"] = content
    found[f"cda{LEAVES}"] = {"help": app.info.help}
    return found


def commands(group: typer.Typer, before: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], Callable[..., Any]]]:
    """The words and the function of every command, those of groups included."""
    for command in group.registered_commands:
        assert command.callback is not None
        yield (*before, command.name or command.callback.__name__), command.callback
    for inner in group.registered_groups:
        assert inner.typer_instance is not None
        yield from commands(inner.typer_instance, (*before, str(inner.name)))


def parameters(callback: Callable[..., Any]) -> Iterator[dict[str, Any]]:
    """Name, words, type, default and help of each parameter."""
    hints = typing.get_type_hints(callback, include_extras=True)
    for name, parameter in inspect.signature(callback).parameters.items():
        if hints[name] is typer.Context:
            continue
        kind, *notes = typing.get_args(hints[name])
        (info,) = (note for note in notes if isinstance(note, (ArgumentInfo, OptionInfo)))
        no_default = parameter.default is inspect.Parameter.empty
        yield {
            "name": name,
            "kind": "argument" if isinstance(info, ArgumentInfo) else "option",
            "words": list(info.param_decls or ()),
            "type": str(kind).replace("<class '", "").replace("'>", ""),
            "default": "required" if no_default else parameter.default,
            "help": info.help,
        }
