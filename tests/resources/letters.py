"""A kind of scorer that is not ours: `letters:e` rewards a response by the number of its letters e."""

from __future__ import annotations

from collections.abc import Generator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from cda.resources.named_scorer import NamedScorer, Rewarded, reward_facts
from cda.scorers.compared import Finished, Text, TextScore, TextScorer
from cda.scorers.engine import score_texts
from cda.scorers.kinds import ScorerKind

LETTERS = ScorerKind("letters", "letters:Letters", ("letters:",))


@dataclass
class Counted(TextScorer):
    letter: str

    @property
    def name(self) -> str:
        return f"letters:{self.letter}"

    def in_batches(
        self,
        texts: Sequence[Text],
        skip: frozenset[int] = frozenset(),  # noqa: ARG002
        known: Mapping[str, float] | None = None,  # noqa: ARG002
    ) -> Generator[Finished, None, None]:
        yield [(row, TextScore(float(text.count(self.letter)))) for row, (_, text) in enumerate(texts)]


class Letters(NamedScorer):
    how = "by its letters"

    def source(self) -> str:
        return self.name

    def deciding_settings(self) -> dict[str, Any]:
        return {}

    def missing(self) -> list[str]:
        letter = LETTERS.bare(self.name)
        return [] if len(letter) == 1 else [f"{self.name}: {letter} is more than a letter; name one"]

    def rewards(self, texts: Sequence[Text]) -> Rewarded:
        rewards = score_texts(self.text_scorer(), texts)
        return rewards, reward_facts(self.name, rewards, how=f"Counted as {self.name}")

    def text_scorer(self) -> Counted:
        return Counted(LETTERS.bare(self.name))
