r"""Regular expressions of a user's files: in Python's dialect, and stopped if they take too long over a text.

Python's own `re` cannot be stopped, and google-re2, which needs no stopping, has no lookaround, on which the shipped rules and
the patterns that discovery writes rest. The package `regex` has both, but reads some marks in its own way: these are
spelled out, so that a pattern finds the same matches as `re`.
"""

from __future__ import annotations

import re
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import regex

LIMIT_S = 5.0
"""Processor time that a pattern may take over one text. One that is made well takes milliseconds for a long one."""
# To `regex`, accents and the sign that makes a symbol an emoji belong to a word, and fractions and raised digits do not.
_WORD, _NO_WORD = r"[\p{L}\p{N}_]", r"[^\p{L}\p{N}_]"
_EDGE = rf"(?<={_WORD})(?!{_WORD})|(?<!{_WORD})(?={_WORD})"
_SPELLED = {r"\w": _WORD, r"\W": _NO_WORD, r"\s": r"[\s\x1c-\x1f]", r"\S": r"[^\s\x1c-\x1f]"}
_OUTSIDE_SETS = {r"\b": f"(?:{_EDGE})", r"\B": f"(?!{_EDGE})"}
# A brace that opens no repetition is itself to `re`, and a number of tolerated typing errors to `regex`.
_PART = re.compile(r"\\N\{[^}]*\}|\\.|\[\^?\]?|\]|\{(?!\d+,?\d*\}|,\d*\})", re.DOTALL)


class SlowPatternError(Exception):
    """A pattern was stopped; the caller that knows its file names that too."""


@dataclass(frozen=True, slots=True)
class Pattern:
    """A compiled pattern with its source. Every method raises SlowPatternError after LIMIT_S over one text."""

    source: str
    _compiled: Any

    def search(self, text: str) -> object:
        """First match, or None."""
        return self._limited(text, lambda: self._compiled.search(text, timeout=LIMIT_S))

    def finditer(self, text: str) -> Iterator[object]:
        """Matches from left to right, overlaps left out."""
        return iter(self._limited(text, lambda: list(self._compiled.finditer(text, timeout=LIMIT_S))))

    def subn(self, put: Callable[[Any], str], text: str) -> tuple[str, int]:
        """The text with every match replaced, and their number."""
        return self._limited(text, lambda: self._compiled.subn(put, text, timeout=LIMIT_S))  # type: ignore[no-any-return]

    def _limited(self, text: str, action: Callable[[], Any]) -> Any:
        try:
            return action()
        except TimeoutError:
            raise SlowPatternError(
                f"{self.source!r} was stopped after {LIMIT_S:g} s over a text of {len(text):,} characters "
                f"({text[:40]!r}…). Write it so that no text can be matched in many ways: no repetition within a repetition, "
                "and a limit such as {1,80} in place of + or *"
            ) from None


@lru_cache(maxsize=4096)
def compiled(source: str, multiline: bool = False) -> Pattern:
    r"""A user's pattern, in the dialect of Python's `re`; re.error if it is none, or could be read in two ways.

    `multiline`: `^` and `$` stand for the ends of a line, `\A` and `\Z` for those of the text.
    """
    with warnings.catch_warnings():
        warnings.simplefilter("error", FutureWarning)
        try:
            re.compile(source, re.MULTILINE if multiline else 0)
        except FutureWarning as ambiguous:
            raise re.error(f"{ambiguous}; put a backslash before the sign that is meant itself") from None
    flags = regex.VERSION1 | (regex.MULTILINE if multiline else 0)
    try:
        return Pattern(source, regex.compile(f"(?-f){_spelled_out(source)}", flags))
    except regex.error as error:
        raise re.error(str(error)) from None


def _spelled_out(source: str) -> str:
    in_set = False

    def part(match: re.Match[str]) -> str:
        nonlocal in_set
        mark = match.group(0)
        if mark.startswith("["):
            # A bracket within a set is itself; one right behind the opening one too.
            opened, in_set = not in_set, True
            return mark if opened else rf"\[{mark[1:]}"
        if mark == "]":
            in_set = False
        if mark == "{":
            return r"\{"
        return _SPELLED.get(mark) or (not in_set and _OUTSIDE_SETS.get(mark)) or mark

    return _PART.sub(part, source)
