"""Why there is no answer: the words that are counted and reported, and which of them would be the same tomorrow."""

from __future__ import annotations

from cda.llm.protocol import Completion

REFUSED = "refused"
FILTERED = "content filter"
CUT_OFF = "cut off at llm.max_tokens"
EMPTY = "empty answer"
TOO_LONG = "context too long"

_LASTING = frozenset({REFUSED, FILTERED, CUT_OFF, EMPTY, TOO_LONG})


def gave_up(tries: int, last: str) -> str:
    """No answer although it was tried again.

    >>> gave_up(6, "status 503"), gave_up(1, "timed out")
    ('no answer after 6 tries (last: status 503)', 'no answer after 1 try (last: timed out)')
    """
    return f"no answer after {tries} {'try' if tries == 1 else 'tries'} (last: {last})"


def is_lasting(completion: Completion) -> bool:
    """Whether asking again would bring the same: an answer, or a reason that lies in the request and the model.

    Servers that did not answer, and statuses that a setting may have caused, are worth another try and are not kept.
    """
    return completion.text is not None or completion.reason in _LASTING
