# ruff: noqa: I001 (the order of these imports is that of `cda --help`)
"""The `cda` command: one subcommand a stage. Imports nothing heavy until a stage runs."""

from __future__ import annotations

from cda.cli import recipes, files
from cda.cli.app import app

__all__ = ["app", "files", "main", "recipes"]


def main() -> None:
    app()
