"""Numbers and foreign text as they are printed: estimates with intervals and n, and text made inert."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from cda.inert import clipped as clipped
from cda.inert import inert as inert
from cda.inert import visible as visible
from cda.inert import width as width

Json = Mapping[str, Any]

MINUS = "−"
NOT_ESTIMATED = "not estimated"


def share(estimate: Json) -> str:
    """A share with its interval.

    >>> share({"value": 0.88, "low": 0.80, "high": 0.93})
    '88% [80, 93]'
    """
    low, high = _percent(estimate["low"]), _percent(estimate["high"])
    return f"{percent(estimate['value'])} [{low}, {high}]"


def percent(value: float) -> str:
    """A share without its interval, for running text beside one that has it.

    >>> percent(0.996), percent(0.5)
    ('99.6%', '50%')
    """
    return f"{_percent(value)}%"


def points(estimate: Json, unit: str = " points") -> str:
    """A change of a share with its interval, in percentage points, signed.

    >>> points({"value": -0.48, "low": -0.58, "high": -0.37})
    '−48 [−58, −37] points'
    """
    value = _points(estimate["value"])
    sign = "+" if estimate["value"] > 0 and value != "0" else ""
    return f"{sign}{value} {_ends(estimate)}{unit}"


def distance(estimate: Json) -> str:
    """A distance between two shares, which has no sign, with its interval in percentage points.

    >>> distance({"value": 0.5, "low": 0.00006, "high": 0.81})
    '50 [0, 81] points'
    """
    return f"{_points(estimate['value'])} {_ends(estimate)} points"


def count(estimate: Json) -> str:
    """n, with the number of prompts where prompts repeat.

    >>> count({"n": 200, "n_prompts": 50}), count({"n": 1200, "n_prompts": 1200})
    ('200 (50 prompts)', '1200')
    """
    n, n_prompts = estimate["n"], estimate["n_prompts"]
    return f"{n}" if n == n_prompts else f"{n} ({n_prompts} prompts)"


def p_value(p: float) -> str:
    """A p-value to three decimals.

    >>> p_value(0.0), p_value(0.0321), p_value(1.0)
    ('< 0.001', '0.032', '1.000')
    """
    return "< 0.001" if p < 0.001 else f"{p:.3f}"


def reward(value: float) -> str:
    """A margin in reward units, signed.

    >>> reward(-1.234), reward(0.5)
    ('−1.23', '+0.50')
    """
    return f"{value:+.2f}".replace("-", MINUS)


def signed(estimate: Json) -> str:
    """An estimate in reward units or the like, signed, with its interval.

    >>> signed({"value": 1.234, "low": -0.5, "high": 3.0})
    '+1.23 [−0.50, +3.00]'
    """
    return f"{reward(estimate['value'])} [{reward(estimate['low'])}, {reward(estimate['high'])}]"


def in_each(margin: float) -> str:
    """A margin that is the same in every pair, and so has no interval.

    >>> in_each(-1.0), in_each(0.0)
    ('−1.00 in each pair', '0 in each pair')
    """
    return f"{reward(margin) if margin else '0'} in each pair"


def decimals(estimate: Json) -> str:
    """A number between −1 and 1 (AUC, r, alpha) with its interval.

    >>> decimals({"value": 0.876, "low": 0.8, "high": 0.93})
    '0.88 [0.80, 0.93]'
    """
    numbers = (f"{estimate[key]:.2f}".replace("-", MINUS) for key in ("value", "low", "high"))
    return "{} [{}, {}]".format(*numbers)


def excludes_zero(estimate: Json) -> bool:
    """Whether the interval lies on one side of 0."""
    return bool(estimate["high"] < 0 or estimate["low"] > 0)


def _percent(value: float) -> str:
    """Whole percent; a decimal where rounding would claim none or all."""
    hundredths = 100 * value
    if round(hundredths) in (0, 100) and abs(hundredths - round(hundredths)) > 1e-9:
        return f"{min(max(hundredths, 0.1), 99.9):.1f}"
    return f"{round(hundredths)}"


def _points(value: float) -> str:
    """Whole points; where that would be 0, one digit that is not."""
    hundredths = 100 * value
    if round(hundredths) != 0:
        text = f"{round(hundredths)}"
    else:
        text = "0" if abs(hundredths) < 1e-4 else f"{hundredths:.1g}"
    return text.replace("-", MINUS)


def _ends(estimate: Json) -> str:
    return f"[{_end(estimate['low'])}, {_end(estimate['high'])}]"


def _end(value: float) -> str:
    """An interval's end in whole points; a decimal where rounding would hide on which side of 0 it lies."""
    hundredths = 100 * value
    text = f"{round(hundredths)}" if round(hundredths) != 0 else f"{hundredths:.1f}"
    return "0" if float(text) == 0 else text.replace("-", MINUS)
