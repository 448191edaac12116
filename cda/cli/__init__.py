"""The `cda` command: one subcommand a stage. Imports nothing heavy until a stage runs."""

from __future__ import annotations

import atexit
import gc
import os
import sys
import traceback
from collections.abc import Sequence

try:  # the first package that a command imports
    import typer  # noqa: F401
except ModuleNotFoundError:
    print(
        "error: cda's dependencies are not installed here (no typer). Run in its checkout: pip install -e '.[quickstart]'",
        file=sys.stderr,
    )
    sys.exit(2)

from cda.cli import commands
from cda.cli.app import app
from cda.terminal import never_fails

__all__ = ["app", "commands", "main"]
_FAULT = 3


def main(arguments: Sequence[str] | None = None) -> None:
    # The libraries make half a million objects that live until the end. Python would look through them for garbage at every growth
    # by some hundred objects, and once more at its end: 3 seconds of a run.
    for stream in (sys.stdout, sys.stderr):
        never_fails(stream)
    gc.set_threshold(50_000)
    atexit.register(gc.freeze)
    if "_CDA_COMPLETE" in os.environ:  # a shell asks, by the script of `cda completion`
        from typer._completion_classes import completion_init

        completion_init()
    try:
        app(args=arguments, prog_name="cda")
    except Exception:
        traceback.print_exc()
        sys.exit(_FAULT)
