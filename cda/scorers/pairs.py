"""Preferences of a local model that reads two answers in one text, asked in both orders."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Literal

import numpy as np

from cda.arrays import FloatArray
from cda.records import Message, Prompt
from cda.scorers.compared import Rewards, Text, text_id
from cda.scorers.judge import BothOrders, of_both_orders

ALIKE = "cut before the answers differ"
TOO_LONG = "too long for the model"


def in_order(prompt: Prompt, first: str, second: str) -> Text:
    """A comparison in one order, as a text for `Template.encode`: the answer shown first ends the prompt."""
    return (*prompt, Message("assistant", first)), second


def preferred(
    log_odds: FloatArray, averages: Literal["log-odds", "probabilities"], needed: bool = False
) -> tuple[FloatArray, BothOrders]:
    """Preference for the first answer, 2p − 1, −1 to 1, shape (n,), and the counts, as of `of_both_orders`; `averages` over both
    orders what the model's authors do. `log_odds`: of the answer shown first, shape (n, 2), as given and in the other order; NaN for none.
    """
    preferences = np.tanh(log_odds / 2)
    margins, orders = of_both_orders(preferences, needed)
    if averages == "log-odds":
        margins = np.tanh(of_both_orders(log_odds, needed)[0] / 2)
    return margins, orders


@dataclass
class LocalPairwise:
    """A PairwiseScorer over a local model; see `LLMJudge`. `score` gives the log-odds of each text in one order (`in_order`)."""

    name: str
    score: Callable[[Sequence[Text]], Rewards]
    averages: Literal["log-odds", "probabilities"]
    both_orders: bool = False
    orders: BothOrders = field(default=BothOrders(), init=False)
    reasons: dict[str, int] = field(default_factory=dict, init=False)
    n_cut: int = field(default=0, init=False)
    """Comparisons of the last call that were cut in an order."""
    n_cached: int = field(default=0, init=False)
    """Of their `n_texts` distinct texts, one for each order, those whose log-odds came from the cache."""
    n_texts: int = field(default=0, init=False)

    def margin(self, prompts: Sequence[Prompt], first: Sequence[str], second: Sequence[str]) -> FloatArray:
        """Preference for the first text, −1 to 1, shape (n,); NaN if the two were too long, or cut before they differ. ModelError if
        the model gives a number that is not finite."""
        shown = [
            (in_order(prompt, one, other), in_order(prompt, other, one))
            for prompt, one, other in zip(prompts, first, second, strict=True)
        ]
        found = self.score([text for both in shown for text in both])
        names = [[text_id(*text) for text in both] for both in shown]
        values = np.array([[found.by_text[name] for name in both] for both in names]).reshape(-1, 2)
        cut = [[found.read.get(name) for name in both] for both in names]
        alike = [
            read[0] is not None and read[0] == read[1] and one != other
            for read, one, other in zip(cut, first, second, strict=True)
        ]
        counts = {TOO_LONG: int(np.isnan(values).all(axis=1).sum()), ALIKE: sum(alike)}
        self.reasons = {why: count for why, count in counts.items() if count}
        self.n_cut, self.n_cached, self.n_texts = sum(any(read) for read in cut), found.n_cached, len(found.by_text)
        values[alike] = np.nan
        margins, self.orders = preferred(values, self.averages, self.both_orders)
        return margins
