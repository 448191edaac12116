"""The model of a discovery as a function of texts, and its judge as a function of comparisons."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from cda.arrays import FloatArray
from cda.discovery.candidates import Reward, Text
from cda.discovery.setup import Asked
from cda.errors import LLMError, ModelError
from cda.launch import say
from cda.resources.named_scorer import Pairwise
from cda.results.evidence import Verdicts
from cda.scorers.calibrated import Corrector
from cda.scorers.compared import Comparison, Rewards, compare_distinct, text_id
from cda.scorers.judge import LLMJudge


def reward_of(asked: Asked) -> Reward:
    """The model as a function of texts; NaN for those that are too long for it, of which it may not have read the change."""

    def reward(texts: Sequence[Text]) -> FloatArray:
        scores, _ = asked.scorer().score(texts)
        whole = {name: reward for name, reward in scores.by_text.items() if name not in scores.read}
        return np.array([whole.get(text_id(*text), np.nan) for text in texts])

    return reward


@dataclass
class AskedJudge:
    """The judge as a function of comparisons; counts of the latest call stand in `verdicts` (if it compares) and `n_cut`.

    Verdicts in both orders are averaged; a verdict in one order alone may favour the place, and gives no preference. With
    rewards the sign decides; a truncated text gives no preference, just as it gives no reward in `reward_of`, and is counted
    in `n_cut`.
    """

    asked: Asked
    verdicts: Verdicts | None = field(default=None, init=False)
    n_cut: int = field(default=0, init=False)

    def __call__(self, comparisons: Sequence[Comparison]) -> FloatArray:
        """Preferences for the first text: 1, 0.5 or 0, or between them; NaN for missing ones. Shape (n,)."""
        self.verdicts, self.n_cut = None, 0
        if not comparisons:
            return np.zeros(0)
        scorer = self.asked.scorer()
        if scorer.compares:
            # A comparison counts only if it was read in both orders.
            margins, self.verdicts = _verdicts(replace(scorer.pairwise(), both_orders=True), comparisons)
            if (calibration := scorer.calibration()) is not None:
                margins = Corrector(calibration).margins(margins, comparisons)
            return (margins + 1) / 2
        compared, _ = scorer.compare(comparisons)
        preferences = compared.margins(comparisons)
        if isinstance(compared, Rewards):
            preferences = np.sign(preferences)
            cut = [any(text_id(prompt, text) in compared.read for text in texts) for prompt, *texts in comparisons]
            preferences[cut] = np.nan
            self.n_cut = sum(cut)
            if self.n_cut:
                say(f"  {self.n_cut} comparisons without a preference: the judge has read a side in part only")
        return np.asarray((preferences + 1) / 2, dtype=np.float64)


def _verdicts(judge: Pairwise, comparisons: Sequence[Comparison]) -> tuple[FloatArray, Verdicts]:
    """Preferences for the first text, −1 to 1, without a message on costs, which was printed for the whole discovery.

    LLMError or ModelError if not one can be read in both orders.
    """
    compared = compare_distinct(judge, comparisons)
    why = ", ".join(f"{count} × {reason}" for reason, count in judge.reasons.items())
    if judge.orders.n_unread or judge.orders.n_half_read or why:
        say(
            f"  {judge.orders.n_unread} comparisons without a readable verdict, {judge.orders.n_half_read} with one in one "
            f"order alone, which does not count{f' ({why})' if why else ''}"
        )
    margins = compared.margins(comparisons)
    if np.isnan(margins).all():
        error = LLMError if isinstance(judge, LLMJudge) else ModelError
        raise error(
            f"{judge.name}: no verdict readable in both orders on any of {len(comparisons)} comparisons ({why or 'NaN'})"
        )
    return margins, Verdicts(
        asked=len(compared.by_comparison),
        unread=judge.orders.n_unread,
        reasons=dict(judge.reasons),
        half_read=judge.orders.n_half_read,
        flipped=judge.orders.n_flipped or 0,
        position_bias=judge.orders.position_bias,
    )
