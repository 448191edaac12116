"""What a rewriter is."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol, runtime_checkable

from cda.biases import Bias
from cda.records import Prompt, Rewrite, RewriteRequest

Labeller = Callable[[Sequence[Prompt], Sequence[str], Bias], Sequence[bool | None]]
"""Prompts and responses, one label for each response: whether it exhibits the bias, None where that could not be told."""


class Rewriter(Protocol):
    """Adds or removes a bias. One outcome for each request, in order; a failure is never the unmodified text."""

    @property
    def name(self) -> str:
        """How artifacts name it: `rules`, or the LLM's model name."""
        ...

    def rewrite(self, requests: Sequence[RewriteRequest], bias: Bias) -> list[Rewrite]:
        """Rewrite every request."""
        ...


@runtime_checkable
class Resampling(Protocol):
    """A rewriter that can be asked for another answer to the same request."""

    def resampled(self, sample: int) -> Rewriter:
        """The rewriter that gives answer number `sample`, 0 being the first."""
        ...


@runtime_checkable
class Mixed(Protocol):
    """A rewriter that takes requests for several biases at once."""

    def rewrite_mixed(self, requests: Sequence[RewriteRequest], biases: Sequence[Bias]) -> list[Rewrite]:
        """Rewrite every request for the bias at its place."""
        ...
