"""A rewriter that writes by a function of the request."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from cda.biases import Bias
from cda.records import Rewrite, RewriteRequest


@dataclass
class ScriptedRewriter:
    """None is a refusal."""

    write: Callable[[RewriteRequest], str | None]
    name: str = "scripted"
    requests: list[RewriteRequest] = field(default_factory=list)

    def rewrite(self, requests: Sequence[RewriteRequest], bias: Bias) -> list[Rewrite]:
        assert bias.name
        self.requests += requests
        texts = [self.write(request) for request in requests]
        return [Rewrite(None, "refused") if text is None else Rewrite(text) for text in texts]
