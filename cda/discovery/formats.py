"""Attributes that are at hand before anybody proposes one: the known format biases, and marks of style that rules can set."""

from __future__ import annotations

from functools import cache
from pathlib import Path

from cda.biases import Bias, load_bias

_FOLDER = Path(__file__).parent
FORMATS = ("affirmative", "bold", "emoji", "exclamations", "headers", "links", "lists")
_BUILT_IN = ("length", "jargon", "vagueness")


def format_biases() -> list[Bias]:
    """The seven format attributes that studies of reward models name: each can be asked about, rewritten and measured."""
    return [load_bias(str(_FOLDER / "formats" / f"{name}.yaml")) for name in FORMATS]


def mark_biases() -> list[Bias]:
    """Further openings, closings, phrases, punctuation and spacing that rules can put in and take out, by name."""
    return [load_bias(str(path)) for path in sorted((_FOLDER / "marks").glob("*.yaml"))]


@cache
def catalogue() -> tuple[Bias, ...]:
    """All that can be looked for in any responses: formats, marks, and the built-in biases that rules can add."""
    return (*format_biases(), *mark_biases(), *(load_bias(name) for name in _BUILT_IN))
