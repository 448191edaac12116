"""Numbers and foreign text as they are printed: estimates with intervals and n, and text made inert."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import TypeVar

from cda.inert import clipped as clipped
from cda.inert import inert as inert
from cda.inert import visible as visible
from cda.inert import width as width
from cda.numbers.measures import MEASURES, Unit
from cda.results.base import Estimate, Missing
from cda.results.effects import SameMargin
from cda.stats.digits import MINUS as MINUS
from cda.stats.digits import plain as plain
from cda.stats.digits import two_digits as two_digits
from cda.stats.digits import with_ends as with_ends
from cda.stats.verdict import TOLERATED_LOSS

T = TypeVar("T")
NOT_ESTIMATED, NOT_MEASURED, NO_VOTES = "not estimated", "not measured", "no votes"
FEW_PROMPTS = 10
"""Below it the intervals of means cover less than they say, and those of shares are as wide as a guess."""
_LEVELS = (0.05, 0.01)
"""Levels that p-values are compared with."""
_MOST_DIGITS = 6
"""Differences beyond are rounding."""
_ROUNDING, _TINY = 1e-12, 1e-4
"""Numbers between them are written with an exponent if decimals do not show their digits; smaller ones are rounding."""


def share(estimate: Estimate, limit: float | None = None) -> str:
    """A share with its interval; with a limit, the digits that say on which side of it each end lies."""
    low, high = _percent(estimate.low, limit), _percent(estimate.high, limit)
    return f"{percent(estimate.value)} [{low}, {high}]"


def percent(value: float) -> str:
    """A share without its interval, for running text next to one that has it.

    >>> percent(0.996), percent(0.5)
    ('99.6%', '50%')
    """
    return f"{_percent(value)}%"


def points(estimate: Estimate, unit: str = " points", limit: float | None = None) -> str:
    """A change of a share with its interval, in percentage points, signed; ends keep the digits that tell them from 0 or a
    limit."""
    value = _points(estimate.value)
    sign = "+" if estimate.value > 0 and value != "0" else ""
    low, high = _end(estimate.low, limit), _end(estimate.high, limit)
    return f"{sign}{value} [{low}, {high}]{unit}"


def distance(estimate: Estimate) -> str:
    """A distance between two shares, which has no sign, with its interval in percentage points."""
    low, high = _points(estimate.low, fewest=0.05), _points(estimate.high, fewest=0.05)
    return f"{_points(estimate.value)} [{low}, {high}] points"


FORMS: Mapping[Unit, Callable[[Estimate], str]] = {
    "share": share,
    "share difference": lambda estimate: points(estimate, ""),
    "distance of shares": distance,
    "AUC": lambda estimate: decimals(estimate),
    "correlation": lambda estimate: decimals(estimate),
    "rank": lambda rank: f"{rank.value:g} [{rank.low:g}, {rank.high:g}]",
}
"""How an estimate of a measure is printed, by the measure's unit; others are `signed`."""


def printed(key: str, moment: str, found: Estimate) -> str:
    """An estimate of a measure, in points if it is a change of a share. A change of quality gets the digits that tell it from the loss that
    is tolerated."""
    measure = MEASURES[key]
    if moment == "change" and "share" in measure.unit:
        return points(found, "", -TOLERATED_LOSS if measure.on == "quality" else None)
    return signed(found) if moment == "change" else FORMS.get(measure.unit, signed)(found)


MANY_TIES = 0.1
"""Share of rows from which ties are said next to a number."""


def ranked_right(found: Estimate, ties: int, form: Callable[[Estimate], str] = share, brief: bool = False) -> str:
    """An accuracy as `form` prints it; with many ties, which are no wrong answers, their number behind it, such as `40% (60 of 164 tied)`.
    Without an interval if it is `brief`; if all are tied, that alone, since the share would only show how ties are counted."""
    if ties == found.n:
        return "all tied"
    if ties < max(1, MANY_TIES * found.n):
        return form(found)
    return f"{percent(found.value) if brief else form(found)} ({ties} of {found.n} tied)"


def count(estimate: Estimate | SameMargin) -> str:
    """n, with the number of prompts if prompts repeat."""
    n, n_prompts = estimate.n, estimate.n_prompts
    return f"{n}" if n == n_prompts else f"{n} ({n_prompts} prompts)"


def cell(found: T | Missing | None, form: Callable[[T], str], missing: str | None = NOT_ESTIMATED) -> str:
    """A value as `form` prints it; empty for None. A missing one is `missing`, or its reason if that is None."""
    if isinstance(found, Missing):
        return found.reason if missing is None else missing
    return "" if found is None else form(found)


def p_value(p: float) -> str:
    """A p-value to two decimals, to three below 0.1; to more if these would hide on which side of 0.05 or 0.01 it lies.

    >>> p_value(0.0), p_value(0.0321), p_value(1.0), p_value(0.04998)
    ('< 0.001', '0.032', '1.00', '0.04998')
    """
    return "< 0.001" if p < 0.001 else _apart(p, _LEVELS, 3 if p < 0.1 else 2)


def p_equals(p: float) -> str:
    """A p-value for running text: `< 0.001` or `= 0.032`."""
    text = p_value(p)
    return text if text.startswith("<") else f"= {text}"


def reward(value: float, digits: int | None = None) -> str:
    """A margin in reward units, signed, with two decimals, or with an exponent if it is tiny; a zero has no sign.

    >>> reward(-1.234), reward(-0.001), reward(3.21e-7), reward(2e-17)
    ('−1.23', '0.00', '+3.2e-7', '0.00')
    """
    if digits is None and _ROUNDING < abs(value) < _TINY:
        return _with_exponent(value, 0)
    digits = 2 if digits is None else digits
    text = f"{value:+.{digits}f}".replace("-", MINUS)
    return text if round(value, digits) else text[1:]


def signed(estimate: Estimate) -> str:
    """An estimate in reward units or the like, signed, with its interval: two decimals, or as many as its half-width needs for a digit,
    and as tell an end from 0; of a tiny one that would need more than six, digits with an exponent."""
    ends = (estimate.value, estimate.low, estimate.high)
    half, largest = (estimate.high - estimate.low) / 2, max(map(abs, ends))
    needed = -math.floor(math.log10(2 * half or largest or 1))
    if needed >= _MOST_DIGITS and _ROUNDING < largest < _TINY:
        return "{} [{}, {}]".format(*(_with_exponent(end, needed) for end in ends))
    digits = 2 if half <= 0 else min(_MOST_DIGITS, max(2, needed))
    low, high = (reward(end, _digits_apart(end, (0.0,), digits)) for end in (estimate.low, estimate.high))
    return f"{reward(estimate.value, digits)} [{low}, {high}]"


def _with_exponent(value: float, decimals: int) -> str:
    """A tiny number, signed, with two digits that count, or those up to so many decimals.

    >>> _with_exponent(0.00000032, 7), _with_exponent(-0.0000045612, 8), _with_exponent(0.0, 7)
    ('+3.2e-7', '−4.56e-6', '0')
    """
    if not value:
        return "0"
    digits, power = f"{value:+.{max(1, decimals + math.floor(math.log10(abs(value))))}e}".split("e")
    return f"{digits.replace('-', MINUS)}e{int(power)}"


def in_each(margin: float) -> str:
    """A margin that is the same in every pair, and so has no interval."""
    return f"{reward(margin) if round(margin, 2) else two_digits(margin)} in each pair"


def in_unit(found: Estimate, sign: str = "", factor: float = 1.0) -> str:
    """A number in a unit of its own with its interval, to the first digit of the interval's half-width; `+` for a signed one."""
    ends = [factor * end for end in (found.value, found.low, found.high)]
    half = (ends[2] - ends[1]) / 2
    digits = max(-math.floor(math.log10(half)), 0) if half > 0 else 4

    def rounded(end: float) -> str:
        """More decimals for a value that is not 0 if rounding would hide on which side of 0 it lies."""
        hidden = end and round(end, digits) == 0
        return f"{end:{sign if end else ''}.{-math.floor(math.log10(abs(end))) if hidden else digits}f}"

    return "{} [{}, {}]".format(*map(rounded, ends)).replace("-", MINUS)


def decimals(estimate: Estimate) -> str:
    """A number between −1 and 1 (AUC, r, alpha) with its interval."""
    numbers = (f"{number:.2f}".replace("-", MINUS) for number in (estimate.value, estimate.low, estimate.high))
    return "{} [{}, {}]".format(*numbers)


def excludes_zero(estimate: Estimate) -> bool:
    """True if the interval lies on one side of 0."""
    return estimate.high < 0 or estimate.low > 0


def few_prompts(n_prompts: Mapping[str, int]) -> str:
    """A warning that names the numbers from fewer than `FEW_PROMPTS` prompts; empty if there are none."""
    few = [f"{inert(name)} {n}" for name, n in sorted(n_prompts.items(), key=lambda item: item[1]) if n < FEW_PROMPTS]
    warning = f"Warning: below {FEW_PROMPTS} prompts intervals are rough; use more prompts. Now: {', '.join(few)}."
    return warning if few else ""


def duration(seconds: float) -> str:
    """A time in the unit that suits it.

    >>> duration(42), duration(600), duration(9000)
    ('42 s', '10 min', '2.5 h')
    """
    if seconds < 90:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 5400 else f"{seconds / 3600:.1f} h"


def counted(reasons: Mapping[str, int]) -> str:
    """Counts with what they are of, such as `3 empty, 1 too long`."""
    return ", ".join(f"{n} {reason}" for reason, n in reasons.items())


def n_of(n: int, what: str) -> str:
    """A number of things.

    >>> n_of(1, "row"), n_of(0, "row"), n_of(1200, "row")
    ('1 row', '0 rows', '1,200 rows')
    """
    return f"{n:,} {what}{'' if n == 1 else 's'}"


def listed(names: Sequence[str]) -> str:
    """Names in running text, such as `a, b and c`; at least one."""
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"


def _percent(value: float, limit: float | None = None) -> str:
    """Whole percent; a decimal if rounding would claim none or all, and the digits that tell it from the limit."""
    hundredths = 100 * value
    if round(hundredths) in (0, 100) and abs(hundredths - round(hundredths)) > 1e-9:
        return f"{min(max(hundredths, 0.1), 99.9):.1f}"
    return _apart(hundredths, () if limit is None else (round(100 * limit, 9),))


def _points(value: float, fewest: float = 1e-4) -> str:
    """Whole points; if that would be 0, the first digit that is not, from `fewest` points on."""
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
    return f"{value:.{_digits_apart(value, limits, digits)}f}"


def _digits_apart(value: float, limits: tuple[float, ...], digits: int) -> int:
    while digits < _MOST_DIGITS and any(
        float(f"{value:.{digits}f}") == limit and abs(value - limit) > 10**-_MOST_DIGITS for limit in limits
    ):
        digits += 1
    return digits
