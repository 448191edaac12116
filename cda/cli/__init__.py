# ruff: noqa: I001 (the order of these imports is that of `cda --help`)
"""The `cda` command: one subcommand a stage. Imports nothing heavy until a stage runs."""

from __future__ import annotations

import atexit
import gc
from collections.abc import Sequence

from cda.cli import recipes, calibration, reports, files, launch
from cda.cli.app import app

__all__ = ["app", "calibration", "files", "launch", "main", "recipes", "reports"]


def main(arguments: Sequence[str] | None = None) -> None:
    # The libraries make half a million objects that live until the end. Python would look through them for garbage at every growth
    # by some hundred objects, and once more at its end: 3 seconds of a run.
    gc.set_threshold(50_000)
    atexit.register(gc.freeze)
    app(args=arguments)
