"""The `cda` command itself, to which each module of this folder adds its subcommands."""

from __future__ import annotations

import typer

app = typer.Typer(
    add_completion=False,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    help="Find the stylistic biases of reward models, measure them, and train them away.",
)
