"""Why there is no answer: the words that are counted and reported, and which of them would be the same tomorrow."""

from __future__ import annotations

from cda.llm.protocol import Completion

REFUSED = "refused"
FILTERED = "content filter"
CUT_OFF = "cut off at llm.max_tokens"
EMPTY = "empty answer"
TOO_LONG = "context too long"
TOO_LARGE = "answer of too many bytes"

LASTING = (REFUSED, FILTERED, CUT_OFF)
"""Failures that are kept: the model had its say. Of all others, a repaired server may make an answer."""
_UNFINISHED = "unfinished answer"


def gave_up(tries: int, last: str) -> str:
    """No answer although it was tried again.

    >>> gave_up(6, "status 503"), gave_up(1, "timed out")
    ('no answer after 6 tries (last: status 503)', 'no answer after 1 try (last: timed out)')
    """
    return f"no answer after {tries} {'try' if tries == 1 else 'tries'} (last: {last})"


def unfinished(why: str) -> str:
    """The server answered, and broke off before it had said all.

    >>> unfinished("finish reason 'error'")
    "unfinished answer (finish reason 'error')"
    """
    return f"{_UNFINISHED} ({why})"


def is_unfinished(completion: Completion) -> bool:
    """Whether the server broke off, so that asking again may bring the whole."""
    return completion.text is None and (completion.reason or "").startswith(_UNFINISHED)


def is_lasting(completion: Completion) -> bool:
    """Whether it is kept: an answer, or a failure that lies in the request and the model.

    Servers that did not answer, or not to the end, and statuses that a setting may have caused, are worth another try.
    """
    return completion.text is not None or completion.reason in LASTING
