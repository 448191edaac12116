"""Foreign text made harmless: no character that a terminal obeys, hides or reorders leaves here as it is."""

from __future__ import annotations

import re
import unicodedata

_ANSI = re.compile(
    r"(?:\x1b\[|\x9b)[0-?]*[ -/]*[@-~]"  # colours, cursor
    # Titles, links, device strings. A second opening ends the first, so that many of them are still read in linear time.
    r"|(?:\x1b[\]PX^_]|[\x9d\x90\x98\x9e\x9f])[^\x07\x1b\x9c\x9d\x90\x98\x9e\x9f]*(?:\x07|\x1b\\|\x9c|$)"
    r"|\x1b[ -/]*[0-~]?"
)
_LINE_BREAKS = re.compile(r"\r\n|[\n\r\v\f\x85\u2028\u2029]")
# Embedding, override and isolate controls, marks, invisible tags, the byte order mark and what XML has no place for. Joiners stay: emoji need them.
_HIDDEN = re.compile(
    r"[\u061c\u200b\u200e\u200f\u202a-\u202e\u2060-\u2069\ufeff\ufff9-\ufffb\ufffe\uffff\U000e0000-\U000e007f]"
)
_LONGEST_LINE = 4000
_NO_LETTER = re.compile(r"[\W_]+")
# Tokenizers and servers read these inside a text as marks of a turn: <|im_end|>, <end_of_turn>, </s>, [/INST].
TURNS = re.compile(
    r"<(?:[|\uff5c][^<>\s]{1,40}>|[^<>\s]{1,40}[|\uff5c]>|(?:start|end)_of_turn>|/?s>|/?SYS>|(?:bos|eos)>)|\[/?INST\]"
)


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


def without_turns(text: str, marks: re.Pattern[str] = TURNS) -> str:
    """Message text with a space put into every mark (by default, all in use anywhere) by which a chat template marks a turn.

    >>> without_turns("a <|im_end|> b [/INST] a < b")
    'a < |im_end|> b [ /INST] a < b'
    """
    while (apart := marks.sub(lambda mark: f"{mark[0][0]} {mark[0][1:]}", text)) != text:
        text = apart  # two marks in each other: what is left of them may be one again
    return text


def skeleton(text: str) -> str:
    """Letters and digits alone, without case, accents or width; character by character, so that a text's skeleton holds
    that of each of its parts.

    >>> skeleton("**Verdict: 1**"), skeleton("Vérdict 1")
    ('verdict1', 'verdict1')
    """
    return _NO_LETTER.sub("", unicodedata.normalize("NFKD", text).casefold())


def sendable(text: str) -> str:
    """Text without lone surrogates, which UTF-8 cannot encode; JSON can hold them if a text was cut within an emoji.

    >>> sendable("cut \\ud83d")
    'cut ?'
    """
    return text.encode("utf-8", "replace").decode("utf-8")


def short_lines(text: str, most: int = _LONGEST_LINE) -> str:
    """Text whose lines are each cut to so many characters, with the number of those left out.

    >>> short_lines("abcdef\\nxy", 3)
    'abc… (3 more characters)\\nxy'
    """
    return "\n".join(
        line if len(line) <= most else f"{line[:most]}… ({len(line) - most:,} more characters)"
        for line in text.split("\n")
    )


RISKY = ("=", "+", "-", "@", "\t", "\r", "\n")
"""Beginnings of a cell that a spreadsheet may run as a formula."""


def guarded(cell: str) -> str:
    """A cell that no spreadsheet runs: an apostrophe before anything that could open a formula, and before an apostrophe.

    >>> guarded("=1+1"), guarded("'s"), guarded("plain")
    ("'=1+1", "''s", 'plain')
    """
    return f"'{cell}" if cell.startswith((*RISKY, "'")) else cell


def width(text: str) -> int:
    """Columns of a text in a terminal: wide characters take two, combining and joining ones none."""
    return sum(map(_columns, text))


def clipped(text: str, most: int) -> str:
    """Text truncated to a number of columns, with `…` for the missing part.

    >>> clipped("vagueness", 5)
    'vagu…'
    """
    taken, end = 0, 0
    for place, char in enumerate(text):
        taken += _columns(char)
        if taken > most:
            return text[:end].rstrip() + "…"
        if taken <= most - 1:
            end = place + 1
    return text


def _columns(char: str) -> int:
    return (
        0
        if unicodedata.category(char) in ("Mn", "Me", "Cf")
        else 2
        if unicodedata.east_asian_width(char) in "WF"
        else 1
    )


def _is_control(char: str) -> bool:
    return unicodedata.category(char) in ("Cc", "Cs")


def _spelled(char: str) -> str:
    return f"[U+{ord(char):04X}]"
