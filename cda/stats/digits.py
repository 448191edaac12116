"""Numbers of any size as words of a sentence: few digits, never an exponent."""

from __future__ import annotations

import math

import numpy as np

from cda.results.base import Estimate

MINUS = "−"


def two_digits(value: float) -> str:
    """A number that may be of any size, such as a slope, signed, with two digits that count.

    >>> two_digits(0.0000864), two_digits(-1.234), two_digits(123.4), two_digits(0)
    ('+0.000086', '−1.2', '+123', '0')
    """
    if not value:
        return "0"
    decimals = max(0, 1 - math.floor(math.log10(abs(value))))
    return f"{value:+.{decimals}f}".replace("-", MINUS)


def with_ends(estimate: Estimate) -> str:
    """An estimate of any size with its interval, each with two digits that count."""
    return f"{two_digits(estimate.value)} [{two_digits(estimate.low)}, {two_digits(estimate.high)}]"


def plain(value: float, digits: int = 6) -> str:
    """A number without a sign of its own, such as a bound of a range in the user's data, to so many digits.

    >>> plain(1970.0), plain(1_000_000), plain(0.00002), plain(-12.3456789)
    ('1970', '1000000', '0.00002', '−12.3457')
    """
    return np.format_float_positional(value, precision=digits, fractional=False, trim="-").replace("-", MINUS)
