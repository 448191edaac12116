"""Numbers and foreign text as they are printed: estimates with intervals and n, and text made inert."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Mapping
from typing import Any

Json = Mapping[str, Any]

MINUS = "−"
_ANSI = re.compile(
    r"(?:\x1b\[|\x9b)[0-?]*[ -/]*[@-~]"  # colours, cursor
    r"|(?:\x1b[\]PX^_]|[\x9d\x90\x98\x9e\x9f])[^\x07\x1b\x9c]*(?:\x07|\x1b\\|\x9c|$)"  # titles, links, device strings
    r"|\x1b[ -/]*[0-~]?"
)
_LINE_BREAKS = re.compile(r"\r\n|[\n\r\v\f\x85\u2028\u2029]")
# Embedding, override and isolate controls, marks, invisible tags and the byte order mark. Joiners stay: emoji need them.
_HIDDEN = re.compile(r"[\u061c\u200b\u200e\u200f\u202a-\u202e\u2060-\u2069\ufeff\ufff9-\ufffb\U000e0000-\U000e007f]")


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


def inert(text: object) -> str:
    """Text as one line that a terminal prints and never obeys: no ANSI, control or hidden direction characters.

    >>> inert("a\\x1b[31mb\\u202ec\\nd")
    'abc d'
    """
    plain = _LINE_BREAKS.sub(" ", _ANSI.sub("", str(text)))
    return "".join(
        " " if char == "\t" else char for char in _HIDDEN.sub("", plain) if not _is_control(char) or char == "\t"
    )


def visible(text: object) -> str:
    """Text with its line breaks, in which every control or hidden character is spelled out.

    >>> visible("a\\u202eb")
    'a[U+202E]b'
    """
    lined = _LINE_BREAKS.sub("\n", str(text))
    spelled = _HIDDEN.sub(lambda match: _spelled(match[0]), lined)
    return "".join(_spelled(char) if _is_control(char) and char not in "\n\t" else char for char in spelled)


def width(text: str) -> int:
    """Columns of a text in a terminal: wide characters take two, combining ones none."""
    return sum(
        0 if unicodedata.combining(char) else 2 if unicodedata.east_asian_width(char) in "WF" else 1 for char in text
    )


def clipped(text: str, most: int) -> str:
    """Text cut to so many columns, with `…` where something was cut.

    >>> clipped("vagueness", 5)
    'vagu…'
    """
    if width(text) <= most:
        return text
    kept = text
    while width(kept) > most - 1:
        kept = kept[:-1]
    return kept.rstrip() + "…"


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


def _is_control(char: str) -> bool:
    return unicodedata.category(char) in ("Cc", "Cs")


def _spelled(char: str) -> str:
    return f"[U+{ord(char):04X}]"
