"""`count:FEATURE`: a scorer that counts a feature of the answer, such as its words, and reads nothing else."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from cda.features import TEXT_FEATURES
from cda.resources.scorers import Function
from cda.run import fingerprint
from cda.scorers.own import OwnScorer, scorer_in_memory


class Counted(Function):
    """A scorer that rewards each answer with a feature of its text."""

    versioned = False
    how = "a count of the text"

    def plain_name(self) -> str:
        return self.bare

    def _load(self) -> OwnScorer:
        count = TEXT_FEATURES[self.bare].of

        def score(_prompts: Sequence[object], responses: Sequence[str]) -> list[float]:
            return [float(count(response)) for response in responses]

        return scorer_in_memory(score, self.name)

    def missing(self) -> list[str]:
        known = ", ".join(TEXT_FEATURES)
        return (
            []
            if self.bare in TEXT_FEATURES
            else [f"{self.name}: '{self.bare}' is no feature of a text. Known: {known}"]
        )

    def source(self) -> str:
        return fingerprint(self.bare)

    def deciding_settings(self) -> dict[str, Any]:
        return {}
