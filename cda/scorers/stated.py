"""The verdict or grade in an LLM's answer, in the form that its prompt states: the last one, or the first if reasons follow.

An answer may quote the texts it is about, and these may pose as a verdict. So what is read has to stand where it was asked
for, without another one of the same form beside it, and in words that none of the texts holds.
"""

from __future__ import annotations

import math
import re
import unicodedata
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from cda.errors import DataError
from cda.inert import skeleton
from cda.llm.protocol import without_thoughts
from cda.patterns import Pattern, SlowPatternError, compiled
from cda.prompts.forms import same_text
from cda.results.facts import JudgeReasons

LEAST_MASS = 0.5
NOT_STATED = "nothing in the form that the prompt states"
NOT_IN_PLACE = "not where it was asked for: at the end, or at the start if reasons follow"
QUOTED = "could be a quotation: one of the texts holds it too"
SEVERAL = "two that differ, side by side"
_FENCE = re.compile(r"^[ \t]*```\w*[ \t]*$", re.MULTILINE)
_LIGHT = frozenset("*_`\"'")
"""Marks that a quotation may have more or fewer of."""
_LEAST_OF_BEGINNING = 0.01


class UnreadError(Exception):
    """An answer without a verdict or grade that can be read; the reason, in words that are counted and reported."""


def stated(answer: str, pattern: str, texts: Sequence[str], reasons: JudgeReasons, source: str) -> str:
    """The text in the group of the pattern, where the answer states its own.

    It has to close the answer (only marks may follow), or, if `reasons` come after, to stand in its first line. Beside it, in
    its own line or in one of the same words next to it, there must not be another one that differs. What one of the `texts`
    that the LLM was shown holds as well is never read, and stands in nobody's way.

    Raises:
        UnreadError: There is none.
        DataError: The pattern was stopped; `source` says whose it is.
    """
    found = compiled(pattern)
    own = (without_thoughts(answer) or "").rpartition("</think>")[2]  # some templates open the reasoning in the prompt
    try:
        return _own_text(found, _FENCE.sub("", own), texts, reasons == "after")
    except SlowPatternError as error:
        raise DataError(f"{source}: pattern: {error}") from None


def _own_text(pattern: Pattern, answer: str, texts: Sequence[str], is_first: bool) -> str:
    def own(part: str) -> list[Any]:
        return [match for match in found(part) if not any(_holds(pattern, text, match[0]) for text in texts)]

    def found(part: str) -> list[Any]:
        return list(pattern.finditer(part))

    every, edge = found(answer), 0 if is_first else -1
    if not every:
        raise UnreadError(NOT_STATED)
    match = every[edge]
    if any(_holds(pattern, text, match[0]) for text in texts):
        raise UnreadError(QUOTED)
    before, after = answer[: match.start()], answer[match.end() :]
    start, end = before.rfind("\n") + 1, match.end() + len(after.partition("\n")[0])
    if skeleton(answer[:start] if is_first else after):
        raise UnreadError(NOT_IN_PLACE)
    line = answer[start:end]
    further = answer[end:].splitlines() if is_first else reversed(answer[:start].splitlines())
    beside = next((other for other in further if skeleton(other)), "")
    rivals = own(line) + (own(beside) if _words(pattern, beside) == _words(pattern, line) else [])
    if any(same_text(other[1] or "") != same_text(match[1] or "") for other in rivals):
        raise UnreadError(SEVERAL)
    return match[1] or ""


def _words(pattern: Pattern, line: str) -> str:
    return skeleton(pattern.subn(lambda _: "", line)[0])


def _holds(pattern: Pattern, text: str, match: str) -> bool:
    """True if a text holds a match, however it is spaced or marked; one without marks of its own, if the pattern finds it there."""
    mark = _plain(match).replace(" ", "")
    if mark.isalnum():
        return any(_plain(other[0]) == mark for other in pattern.finditer(text))  # type: ignore[index]
    whole = r"(?!\d)" if mark[-1:].isdigit() else ""  # a text with a 10 holds no 1
    return re.search(" ?".join(map(re.escape, mark)) + whole, _plain(text)) is not None


def _plain(text: str) -> str:
    letters = unicodedata.normalize("NFKC", text).casefold()
    kept = (
        char for char in letters if char.isspace() or not (char in _LIGHT or unicodedata.category(char) in ("Cc", "Cf"))
    )
    return " ".join("".join(kept).split())


def expected_value(logprobs: Iterable[tuple[str, float]], values: Mapping[str, float], what: str) -> float:
    """Mean of the values of one-token answers, weighted by their probabilities; `what` they are, for reasons.

    `logprobs` are candidates for the first token with natural log probabilities; those that differ only in spaces around them
    are added up.

    Raises:
        UnreadError: Less than LEAST_MASS lies on the answers: the LLM did not mean to give one. Or a likely one is the beginning
            of another (1 of 10) that is no token by itself here.

    >>> values = {"1": 1.0, "2": -1.0}
    >>> round(expected_value([("1", math.log(0.6)), (" 2", math.log(0.2)), ("The", math.log(0.2))], values, "a verdict"), 3)
    0.5
    """
    mass = dict.fromkeys(values, 0.0)
    for token, logprob in logprobs:
        text = token.strip(" \t\r\n▁Ġ")
        if text in mass:
            mass[text] += math.exp(min(logprob, 0.0))
    total = sum(mass.values())
    if total < LEAST_MASS:
        raise UnreadError(f"less than {LEAST_MASS:.0%} of the probability is on {what}")
    for text in (text for text, share in mass.items() if share == 0):
        if any(text.startswith(one) and share > _LEAST_OF_BEGINNING * total for one, share in mass.items()):
            raise UnreadError(f"the beginning of {text}, which is no token by itself, may be meant by another")
    return sum(share * values[text] for text, share in mass.items()) / total
