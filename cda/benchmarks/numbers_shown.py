"""Levels and changes of followed attributes as they are printed."""

from __future__ import annotations

import math

from cda.report.numbers import MINUS, percent, plain, share
from cda.report.plots import named
from cda.results.benchmarks import Curve, Followed, Measured, NoSpread, TiltedAttribute

_ALIKE = " (all alike)"  # the same in every prompt, so that there is no interval


def titled(of: Curve | TiltedAttribute, most: int | None = None) -> str:
    """An attribute's name, in at most so many columns, with its kind; features are named by keys."""
    name = of.name.replace("_", " ") if of.kind == "mean" else of.name
    return f"{name if most is None else named(name, most)} ({of.kind})"


def level_text(kind: Followed, measured: Measured) -> str:
    """A share in percent or a mean in its unit, with its interval."""
    if kind == "mean":
        return interval_text(measured)
    return f"{percent(measured.value)}{_ALIKE}" if isinstance(measured, NoSpread) else share(measured)


def change_text(kind: Followed, measured: Measured) -> str:
    """A change with its sign: of a share in points, of a mean in its unit."""
    return interval_text(measured, 100.0, "+", " points") if kind == "share" else interval_text(measured, sign="+")


def interval_text(measured: Measured, scale: float = 1.0, sign: str = "", unit: str = "") -> str:
    """A value with its interval, to the first digit of the interval's half-width."""
    if isinstance(measured, NoSpread):
        alike = scale * measured.value
        return f"{sign if alike > 0 else ''}{plain(alike, 3)}{unit}{_ALIKE}"
    half = scale * (measured.high - measured.low) / 2
    digits = min(max(-math.floor(math.log10(half)), 0), 4) if half > 0 else 4

    def rounded(end: float) -> str:
        """More decimals for a value that is not 0 if rounding would hide on which side of 0 it lies."""
        hidden = end and round(end, digits) == 0
        return f"{end:{sign if end else ''}.{-math.floor(math.log10(abs(end))) if hidden else digits}f}"

    value, low, high = (rounded(scale * end) for end in (measured.value, measured.low, measured.high))
    return f"{value} [{low}, {high}]{unit}".replace("-", MINUS)
