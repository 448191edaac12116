"""How long a server asks to wait, from the headers of its answer."""

from __future__ import annotations

import re
from collections.abc import Mapping
from email.utils import parsedate_to_datetime

_PART = re.compile(r"(\d+(?:\.\d+)?)(ms|us|µs|ns|d|h|m|s)")
_SECONDS = {"d": 86400.0, "h": 3600.0, "m": 60.0, "s": 1.0, "ms": 1e-3, "us": 1e-6, "µs": 1e-6, "ns": 1e-9}
_EPOCH = 1e9
"""Numbers beyond this are points in time, not durations."""


_LONGEST_S = 365 * 86_400.0
"""More is not told apart from this."""
_LONGEST = 100
"""Characters of a wait; over a longer row of digits the pattern would run for minutes."""


def retry_after_s(headers: Mapping[str, str], now: float) -> float | None:
    """Seconds to wait; None where the headers do not say.

    Read in this order: `retry-after-ms`; `retry-after` in seconds or as a date; `x-ratelimit-reset-requests` and
    `-tokens` of whichever limit has nothing remaining, of both where that is not said.

    Args:
        headers: With names in lower case, or insensitive to it.
        now: Seconds since 1970, for dates.

    >>> retry_after_s({"retry-after-ms": "1500"}, 0.0), retry_after_s({"x-ratelimit-reset-tokens": "6m0s"}, 0.0)
    (1.5, 360.0)
    """
    wait_s = _asked_s(headers, now)
    return None if wait_s is None else min(wait_s, _LONGEST_S)


def _asked_s(headers: Mapping[str, str], now: float) -> float | None:
    milliseconds = _number(headers.get("retry-after-ms"))
    if milliseconds is not None:
        return max(0.0, milliseconds / 1000)
    asked = headers.get("retry-after")
    if asked is not None:
        seconds = _wait(asked, now)
        return seconds if seconds is not None else _until(asked, now)
    waits = {kind: _wait(headers.get(f"x-ratelimit-reset-{kind}"), now) for kind in ("requests", "tokens")}
    spent = {kind for kind in waits if _number(headers.get(f"x-ratelimit-remaining-{kind}")) == 0}
    known = [wait for kind, wait in waits.items() if wait is not None and (not spent or kind in spent)]
    return max(known, default=None)


def _wait(value: str | None, now: float) -> float | None:
    """Seconds from a number, or from a duration such as 1h2m3.5s or 120ms."""
    if len(value or "") > _LONGEST:
        return None
    number = _number(value)
    if number is not None:
        point = number / 1000 if number > 1000 * _EPOCH else number
        return max(0.0, point - now if point > _EPOCH else point)
    parts = _PART.findall(value or "")
    if not parts or "".join(number + unit for number, unit in parts) != (value or "").strip():
        return None
    return sum(float(number) * _SECONDS[unit] for number, unit in parts)


def _number(value: str | None) -> float | None:
    try:
        number = float(value or "")
    except ValueError:
        return None
    return number if abs(number) < float("inf") else None  # also drops nan


def _until(date: str, now: float) -> float | None:
    try:
        return max(0.0, parsedate_to_datetime(date).timestamp() - now)
    except (TypeError, ValueError, OverflowError):
        return None
