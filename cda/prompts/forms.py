"""The form of a judge's answer as a prompt file states it: a pattern, and the meaning of what its group finds."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Annotated

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, model_validator

from cda.patterns import compiled

TOP_LOGPROBS = 20
"""Probabilities of a token that an LLM is asked for: the most that OpenAI gives. The verdicts are among them if it follows its
instructions."""


def _with_one_group(pattern: str) -> str:
    try:
        compiled(pattern)
    except (re.error, OverflowError, RecursionError) as error:
        raise ValueError(f"not a regular expression ({error})") from None
    if (n_groups := re.compile(pattern).groups) != 1:
        raise ValueError(
            f"{n_groups} groups in round brackets; one is needed, around what is to be read ((?:…) groups without reading)"
        )
    if re.search(pattern, ""):
        raise ValueError("finds something in an empty answer")
    return pattern


def normal_verdict(text: str) -> str:
    """A verdict as it is compared: without regard to case and white space."""
    return "".join(text.split()).casefold()


def _as_strengths(value: object) -> object:
    if isinstance(value, Mapping):
        return {str(text): strength for text, strength in value.items()}
    return dict.fromkeys(_as_texts(value), 1.0)


def _as_texts(value: object) -> tuple[str, ...]:
    listed = value if isinstance(value, list | tuple) else [value]
    # YAML reads 1 as a number and yes as a boolean.
    if wrong := [text for text in listed if isinstance(text, bool) or not isinstance(text, str | int) or text == ""]:
        raise ValueError(
            f"a verdict is a text, in quotes if YAML would read it as something else; {wrong[0]!r} is none"
        )
    return tuple(map(str, listed))


_Strength = Annotated[float, Field(gt=0, le=1)]
_Side = Annotated[dict[str, _Strength], BeforeValidator(_as_strengths), Field(min_length=1)]


class AnswerForm(BaseModel):
    """The pattern that finds a verdict or grade, as text in the pattern's only group."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    pattern: Annotated[str, AfterValidator(_with_one_group)]


class VerdictForm(AnswerForm):
    """A verdict on two answers. A side is a text, several texts, or texts with strengths above 0 and up to 1."""

    first: _Side
    """Verdicts for the answer shown first."""
    second: _Side
    """Verdicts for the answer shown second."""
    tie: Annotated[tuple[str, ...], BeforeValidator(_as_texts)] = ()
    """Verdicts for neither; none if the prompt allows no tie."""

    @model_validator(mode="after")
    def _each_once(self) -> VerdictForm:
        texts = [normal_verdict(text) for text in (*self.first, *self.second, *self.tie)]
        if twice := [text for text in texts if texts.count(text) > 1]:
            raise ValueError(f"'{twice[0]}' stands for two verdicts")
        return self

    @property
    def values(self) -> dict[str, float]:
        """Preference for the answer shown first, −1 to 1, of every verdict by its `same_text`."""
        sides = self.first | {text: -strength for text, strength in self.second.items()} | dict.fromkeys(self.tie, 0.0)
        return {normal_verdict(text): value for text, value in sides.items()}

    @property
    def one_token(self) -> dict[str, float] | None:
        """The same by the verdict itself; None unless there is one of one character for each side, and for a tie one at most."""
        texts = [*self.first, *self.second, *self.tie]
        if len(self.first) != 1 or len(self.second) != 1 or len(self.tie) > 1 or max(map(len, texts)) > 1:
            return None
        return {text: self.values[normal_verdict(text)] for text in texts}


class GradeForm(AnswerForm):
    """A grade of one answer."""

    lowest: int
    highest: int

    @model_validator(mode="after")
    def _in_order(self) -> GradeForm:
        if self.lowest >= self.highest:
            raise ValueError(f"lowest ({self.lowest}) is not below highest ({self.highest})")
        return self

    @property
    def one_token(self) -> dict[str, float] | None:
        """Every whole grade by its text; None if there are more than TOP_LOGPROBS, or some are below 0."""
        if self.lowest < 0 or self.highest - self.lowest >= TOP_LOGPROBS:
            return None
        return {str(grade): float(grade) for grade in range(self.lowest, self.highest + 1)}
