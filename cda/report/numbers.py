"""Numbers and foreign text as they are printed: estimates with intervals and n, and text made inert."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from cda.inert import clipped as clipped
from cda.inert import inert as inert
from cda.inert import visible as visible
from cda.inert import width as width
from cda.results.base import Estimate
from cda.results.effects import SameMargin

Json = Mapping[str, Any]

MINUS = "−"
NOT_ESTIMATED = "not estimated"
_LEVELS = (0.05, 0.01)
"""Levels that p-values are held against here."""
_MOST_DIGITS = 6
"""Differences beyond are rounding."""


def share(estimate: Estimate | Json, limit: float | None = None) -> str:
    """A share with its interval; where a limit is given, with the digits that say on which side of it each end lies.

    >>> share({"value": 0.88, "low": 0.80, "high": 0.93}), share({"value": 0.4, "low": 0.31, "high": 0.4963}, limit=0.5)
    ('88% [80, 93]', '40% [31, 49.6]')
    """
    low, high = _percent(_of(estimate, "low"), limit), _percent(_of(estimate, "high"), limit)
    return f"{percent(_of(estimate, 'value'))} [{low}, {high}]"


def percent(value: float) -> str:
    """A share without its interval, for running text beside one that has it.

    >>> percent(0.996), percent(0.5)
    ('99.6%', '50%')
    """
    return f"{_percent(value)}%"


def points(estimate: Estimate | Json, unit: str = " points", limit: float | None = None) -> str:
    """A change of a share with its interval, in percentage points, signed.

    An end that rounding would put on 0, or on a given limit, has the digits that say on which side of it it lies.

    >>> points({"value": -0.48, "low": -0.58, "high": -0.37})
    '−48 [−58, −37] points'
    >>> points({"value": -0.016, "low": -0.0496, "high": -0.0004}, limit=-0.05)
    '−2 [−4.96, −0.04] points'
    """
    value = _points(_of(estimate, "value"))
    sign = "+" if _of(estimate, "value") > 0 and value != "0" else ""
    low, high = (_end(_of(estimate, key), limit) for key in ("low", "high"))
    return f"{sign}{value} [{low}, {high}]{unit}"


def distance(estimate: Estimate | Json) -> str:
    """A distance between two shares, which has no sign, with its interval in percentage points.

    >>> distance({"value": 0.5, "low": 0.00006, "high": 0.81})
    '50 [0, 81] points'
    """
    low, high = (_points(_of(estimate, key), fewest=0.05) for key in ("low", "high"))
    return f"{_points(_of(estimate, 'value'))} [{low}, {high}] points"


def count(estimate: Estimate | SameMargin | Json) -> str:
    """n, with the number of prompts where prompts repeat.

    >>> count({"n": 200, "n_prompts": 50}), count({"n": 1200, "n_prompts": 1200})
    ('200 (50 prompts)', '1200')
    """
    n, n_prompts = _of(estimate, "n"), _of(estimate, "n_prompts")
    return f"{n}" if n == n_prompts else f"{n} ({n_prompts} prompts)"


def p_value(p: float) -> str:
    """A p-value to three decimals; to more where these would hide on which side of 0.05 or 0.01 it lies.

    >>> p_value(0.0), p_value(0.0321), p_value(1.0), p_value(0.04998)
    ('< 0.001', '0.032', '1.000', '0.04998')
    """
    return "< 0.001" if p < 0.001 else _apart(p, _LEVELS, 3)


def reward(value: float) -> str:
    """A margin in reward units, signed.

    >>> reward(-1.234), reward(0.5)
    ('−1.23', '+0.50')
    """
    return f"{value:+.2f}".replace("-", MINUS)


def signed(estimate: Estimate | Json) -> str:
    """An estimate in reward units or the like, signed, with its interval.

    >>> signed({"value": 1.234, "low": -0.5, "high": 3.0})
    '+1.23 [−0.50, +3.00]'
    """
    return f"{reward(_of(estimate, 'value'))} [{reward(_of(estimate, 'low'))}, {reward(_of(estimate, 'high'))}]"


def in_each(margin: float) -> str:
    """A margin that is the same in every pair, and so has no interval.

    >>> in_each(-1.0), in_each(0.0)
    ('−1.00 in each pair', '0 in each pair')
    """
    return f"{reward(margin) if margin else '0'} in each pair"


def decimals(estimate: Estimate | Json) -> str:
    """A number between −1 and 1 (AUC, r, alpha) with its interval.

    >>> decimals({"value": 0.876, "low": 0.8, "high": 0.93})
    '0.88 [0.80, 0.93]'
    """
    numbers = (f"{_of(estimate, key):.2f}".replace("-", MINUS) for key in ("value", "low", "high"))
    return "{} [{}, {}]".format(*numbers)


def excludes_zero(estimate: Estimate | Json) -> bool:
    """Whether the interval lies on one side of 0."""
    return bool(_of(estimate, "high") < 0 or _of(estimate, "low") > 0)


def as_estimate(found: Estimate | Json) -> Estimate:
    """An estimate, made from the dict of one where it is one."""
    if isinstance(found, Estimate):
        return found
    return Estimate(**{name: found[name] for name in Estimate.model_fields})


def _of(estimate: Estimate | SameMargin | Json, name: str) -> Any:
    """Read from an estimate, or from the dict of one."""
    return estimate[name] if isinstance(estimate, Mapping) else getattr(estimate, name)


def _percent(value: float, limit: float | None = None) -> str:
    """Whole percent; a decimal where rounding would claim none or all, and the digits that tell it from the limit."""
    hundredths = 100 * value
    if round(hundredths) in (0, 100) and abs(hundredths - round(hundredths)) > 1e-9:
        return f"{min(max(hundredths, 0.1), 99.9):.1f}"
    return _apart(hundredths, () if limit is None else (round(100 * limit, 9),))


def _points(value: float, fewest: float = 1e-4) -> str:
    """Whole points; where that would be 0, one digit that is not, of `fewest` points and more."""
    hundredths = 100 * value
    if round(hundredths) != 0:
        text = f"{round(hundredths)}"
    else:
        text = "0" if abs(hundredths) < fewest else f"{hundredths:.1g}"
    return text.replace("-", MINUS)


def _end(value: float, limit: float | None = None) -> str:
    """An interval's end in whole points, with the digits that tell it from 0 and from the limit."""
    hundredths = 100 * value
    text = _apart(hundredths, (0.0,) if limit is None else (0.0, round(100 * limit, 9)))
    return "0" if float(text) == 0 else text.replace("-", MINUS)


def _apart(value: float, limits: tuple[float, ...], digits: int = 0) -> str:
    """A number with this many decimals, or as many more as tell it from the limits that it does not equal."""
    while digits < _MOST_DIGITS and any(
        float(f"{value:.{digits}f}") == limit and abs(value - limit) > 10**-_MOST_DIGITS for limit in limits
    ):
        digits += 1
    return f"{value:.{digits}f}"
