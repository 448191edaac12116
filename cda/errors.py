"""Errors that a user can act on: place, finding, remedy."""

from __future__ import annotations

import difflib
import errno
from collections.abc import Iterable, Sequence

from cda.inert import short_lines, visible


class CdaError(Exception):
    """Base of every error that is shown to a user as one message, without a traceback.

    Names out of files stand in messages, so control and hidden characters are spelled out here, for all of them.
    """

    def __init__(self, *parts: object) -> None:
        super().__init__(*(short_lines(visible(part)) if isinstance(part, str) else part for part in parts))

    def _render_traceback_(self) -> list[str]:
        """What a notebook shows in place of a traceback."""
        return [f"{type(self).__name__}: {self}"]


class Terminated(KeyboardInterrupt):
    """SIGTERM, answered as Ctrl-C is: calls that are paid for may end first."""


class RecipeError(CdaError):
    """A recipe, preset, override or bias file is wrong. Carries every mistake found, not only the first."""

    def __init__(self, problems: Iterable[str]) -> None:
        self.problems = tuple(short_lines(visible(problem)) for problem in problems)
        super().__init__("\n".join(self.problems))


class DataError(CdaError):
    """A data file, column or row cannot be used, or there is too little data to say anything."""


class ModelError(CdaError):
    """A model, tokenizer or adapter cannot be used as a reward model."""


class LLMError(CdaError):
    """An LLM endpoint refused, is missing, or never answered in the asked format."""


class MovedError(LLMError):
    """Another model answers under a name than until now, and answers of both were taken."""


class SpendingError(CdaError):
    """A cost that the user has not agreed to: an estimate in dollars, None if no price is known."""

    def __init__(self, message: str, dollars: float | None = None) -> None:
        super().__init__(message)
        self.dollars = dollars


class RunError(CdaError):
    """The run folder or the launch does not allow the work to go on."""


_KINDS: dict[type, str] = {type(None): "None", str: "text", int: "a number", float: "a number"}


def type_in_words(value: object) -> str:
    """What a value is, for "found ...".

    >>> type_in_words(3), type_in_words("words"), type_in_words([]), type_in_words(None)
    ('a number', 'text', 'a list', 'None')
    """
    name = type(value).__name__
    return _KINDS.get(type(value)) or f"{'an' if name[0].lower() in 'aeiou' else 'a'} {name}"


def refuse(problems: Sequence[str], rest: str = "") -> None:
    """Raise all problems as one DataError, if there are any; only ten if `rest` names the others, such as `more rows`."""
    if problems:
        more = [f"… and {len(problems) - 10} {rest}"] if rest and len(problems) > 10 else []
        raise DataError("\n".join([*(problems[:10] if rest else problems), *more]))


def near(word: str, known: Iterable[str]) -> str | None:
    """A known name that differs so little that no other thing is meant, such as `embedded` for `embeded`.

    >>> near("embeded", ["embedded", "jargon"]), near("bert", ["embedded", "jargon"]), near("jargon", ["jargon"])
    ('embedded', None, None)
    """
    others = [name for name in known if name != word]
    close = difflib.get_close_matches(word, others, n=1, cutoff=0.8)
    return close[0] if close else None


def did_you_mean(word: str, known: Iterable[str]) -> str:
    """Suggestion for a misspelt name, as a sentence with a leading space, or an empty string.

    >>> did_you_mean("jargn", ["length", "jargon"]), did_you_mean("lr", ["lora_alpha", "learning_rate"])
    (" Did you mean 'jargon'?", " Did you mean 'learning_rate'?")
    """
    names = list(known)
    initials = [name for name in names if "".join(part[:1] for part in name.split("_")) == word]
    close = difflib.get_close_matches(word, names, n=1, cutoff=0.6) or initials
    return f" Did you mean '{close[0]}'?" if close else ""


def out_of_files(error: BaseException | None, lower: str = "") -> str | None:
    """Advice for an error that comes from too many open files, however deep in its causes; None for any other.

    `lower` is the setting of how many calls are under way at once, with its value, if there is one.
    """
    seen: set[int] = set()
    left: list[BaseException | None] = [error]
    while left:
        current = left.pop()
        if current is None or id(current) in seen:
            continue
        seen.add(id(current))
        if isinstance(current, OSError) and current.errno in (errno.EMFILE, errno.ENFILE):
            instead = f", or lower {lower}" if lower else ""
            return f"too many open files: allow this process more of them (such as ulimit -n 4096){instead}, and start again"
        left += [current.__cause__, current.__context__, *getattr(current, "exceptions", ())]
    return None
