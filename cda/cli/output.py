"""Standard output of a command: messages and a summary; with --json the typed result alone; in a dry run the plan."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, redirect_stdout
from typing import TYPE_CHECKING, Any

from cda.errors import RecipeError
from cda.launch import is_main, say
from cda.terminal import put
from cda.user_errors import user_errors

if TYPE_CHECKING:
    from pydantic import BaseModel
    from typer import Context

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
