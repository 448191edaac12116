"""Questions and answers of an LLM: the protocol, the reasons why there is no answer, and material between markers."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Protocol

from cda.inert import without_turns

REFUSED = "refused"
FILTERED = "content filter"
CUT_OFF = "cut off at llm.max_tokens"
EMPTY = "empty answer"
TOO_LONG = "context too long"
TOO_LARGE = "answer of too many bytes"

LASTING = (REFUSED, FILTERED, CUT_OFF)
"""Failures that are kept: the model has decided. With any other, a repaired server may answer."""
_UNFINISHED = "unfinished answer"
_LEFT = "<\uff1c\ufe64\u2039\u00ab\u226a\u276e\u27e8\u27ea\u3008\u300a\u1438\u02c2"
_RIGHT = ">\uff1e\ufe65\u203a\u00bb\u226b\u276f\u27e9\u27eb\u3009\u300b\u1433\u02c3"
_UNSEEN = (
    "\\x00-\\x08\\x0e-\\x1f\\x7f\u00ad\u034f\u061c\u180e\u200b-\u200f\u202a-\u202e\u2060-\u206f\ufe00-\ufe0f\ufeff"
)
_MARKS = re.compile("|".join(rf"[{side}](?:[{_UNSEEN}]*[{side}]){{2,}}" for side in (_LEFT, _RIGHT)))
_THOUGHTS = re.compile(r"\A(?:\s*<think>.*?</think>)+", re.DOTALL)


def gave_up(tries: int, last: str) -> str:
    """Reason of a request without an answer after all tries.

    >>> gave_up(6, "status 503"), gave_up(1, "timed out")
    ('no answer after 6 tries (last: status 503)', 'no answer after 1 try (last: timed out)')
    """
    return f"no answer after {tries} {'try' if tries == 1 else 'tries'} (last: {last})"


def unfinished(why: str) -> str:
    """Reason of an answer that the server broke off."""
    return f"{_UNFINISHED} ({why})"


def without_thoughts(text: str) -> str | None:
    """An answer without the reasoning that some models write before it; None if it was cut off while reasoning.

    >>> without_thoughts("<think>Hm.</think> Yes."), without_thoughts("<think>Hm."), without_thoughts("Yes.")
    ('Yes.', None, 'Yes.')
    """
    answer = _THOUGHTS.sub("", text).strip()
    return None if answer.startswith("<think>") else answer


@dataclass(frozen=True, slots=True)
class Request:
    """One question."""

    system: str
    user: str
    schema: Mapping[str, Any] | None = None
    """JSON schema of the answer, for servers that can hold a model to one; None for an answer in free text."""
    plain: str = ""
    """How to write the answer if the server cannot; then added to the system text."""
    sample: int = 0
    """Index among several answers to the same question; each is asked for, and cached, separately."""
    top_logprobs: int = 0
    """0 for a written answer. Otherwise one token is asked for, at temperature 0, and the answer holds the log probabilities
    of this many candidates for it; most servers give at most 20."""


@dataclass(frozen=True, slots=True)
class Completion:
    """The answer's text, or the reason why there is none, in words that are counted and reported. Tokens are the
    server's count, or 0; `logprobs`, if requested, candidates for the first token with natural logs; `model` as it
    names it.
    """

    text: str | None
    reason: str | None = None
    input_tokens: int = 0
    output_tokens: int = 0
    cached: bool = False
    """It came from the cache and cost nothing now."""
    logprobs: tuple[tuple[str, float], ...] | None = None
    model: str | None = None

    @property
    def is_unfinished(self) -> bool:
        """The server broke it off, so that asking again may bring the whole."""
        return self.text is None and (self.reason or "").startswith(_UNFINISHED)

    @property
    def is_lasting(self) -> bool:
        """It is kept: an answer, or a failure that lies in the request and the model. No answer, a broken one, or a
        status that a setting may have caused is worth another try.
        """
        return self.text is not None or self.reason in LASTING

    def with_tokens_of(self, earlier: Completion) -> Completion:
        """This answer with the tokens of an earlier one to the same question added: both are paid for."""
        return replace(
            self,
            input_tokens=self.input_tokens + earlier.input_tokens,
            output_tokens=self.output_tokens + earlier.output_tokens,
        )


class LLM(Protocol):
    """Answers any number of requests in bounded memory."""

    @property
    def name(self) -> str:
        """Model name, for artifacts."""
        ...

    def answers(
        self, requests: Iterable[Request], label: str, total: int | None = None
    ) -> Iterator[tuple[int, Completion]]:
        """Position and answer of each request, as they come and in any order; each position once.

        Args:
            requests: Taken one by one as there is room; never held as a whole.
            label: Stands before the progress bar.
            total: Number of requests, for the bar; None takes len(requests), if there is one.

        Raises:
            LLMError: Nothing can be answered (key, model, server), or the budget is spent. Earlier answers are kept.
        """
        ...


def complete(llm: LLM, requests: Sequence[Request], label: str) -> list[Completion]:
    """All answers in the order of the requests, if that many fit in memory."""
    answers = dict(llm.answers(requests, label, len(requests)))
    return [answers.get(position, Completion(None, "no answer")) for position in range(len(requests))]


def fenced(name: str, material: str) -> str:
    """Material between markers that it cannot close itself.

    Three or more angle brackets in a row, of any alphabet and with any unseen characters between them, and marks by which
    chat templates end a turn are broken up with spaces. All other text stays as it is.

    >>> fenced("TEXT", "a\\n<<<END>>>\\nb <|im_end|>")
    '<<<TEXT>>>\\na\\n< < <END> > >\\nb < |im_end|>\\n<<<END>>>'
    """
    apart = _MARKS.sub(lambda run: " ".join(mark for mark in run[0] if mark in _LEFT + _RIGHT), material)
    return f"<<<{name}>>>\n{without_turns(apart)}\n<<<END>>>"
