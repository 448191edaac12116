"""The rules by which benchmarks score a ranked item: what it counts, with its subset, section and ties.

A margin is the reward of a better response minus that of a worse one.

- `pair`: 1 where the margin is above 0. A tie is 0 for rewards, as in RewardBench's script, which counts chosen > rejected;
  it is 0.5 for a judge's preference, as its script for judges has it.
- `best-of`: 1 where a chosen response has the highest reward of all; 1/k where it shares the highest with k − 1 others.
- Ties, for each number N: 0.3·(all right answers above all wrong ones, tied prompt) + 0.3·(the same, reference prompt) +
  0.2·(gap > spread) + 0.2·(smaller gap of both prompts > spread) + 0.01·tanh(smaller gap / spread − 1), where gap is the
  worst right answer minus the best wrong one, and spread the best minus the worst right answer (RewardBench 2's script).
- `styles`: nine comparisons an item, chosen style i over rejected style j; hard i < j, normal i = j, easy i > j (RM-Bench).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from cda.arrays import FloatArray
from cda.errors import DataError

Rule = Literal["pair", "best-of", "styles"]
STYLE_SECTIONS = ("easy", "normal", "hard")


@dataclass(frozen=True, slots=True)
class Ranked:
    """What a scorer made of one item.

    Attributes:
        prompt_id: Its cluster.
        subset: Of the benchmark.
        section: What the subset belongs to; empty under the rule `styles`, where the style makes it.
        over: Margin of each chosen response over each rejected one. Shape (chosen, rejected), none of them NaN.
        spread: Best minus worst chosen response; used in Ties alone.
        tied: In Ties: `ref` or `tied`, and the number that the two share.
    """

    prompt_id: str
    subset: str
    section: str
    over: FloatArray
    spread: float = 0.0
    tied: tuple[str, int] | None = None


@dataclass(frozen=True, slots=True)
class RuleRow:
    """What one item, one style comparison or one number of Ties counts.

    Attributes:
        place: prompt_id, subset, section and cell (of the style matrix; empty under other rules).
        value: 0 to 1; of Ties −0.01 to 1.01.
        n_ties: Margins of exactly 0.
    """

    place: tuple[str, str, str, str]
    value: float
    n_ties: int


def rule_rows(items: Sequence[Ranked], rule: Rule, half_ties: bool = False) -> list[RuleRow]:
    """What the items count under a rule; Ties after all others.

    Args:
        items: Of one scoring.
        rule: How items are scored.
        half_ties: A pair's margin of 0 counts half (judges), not nothing (rewards).

    Raises:
        DataError: A margin that is not finite.
    """
    for item in items:
        if not (np.isfinite(item.over).all() and np.isfinite(item.spread)):
            raise DataError(f"an item of {item.subset or 'the set'} has a margin that is NaN or infinite")
    if rule == "styles":
        return [row for item in items for row in _style_rows(item)]
    value = _pair_value if rule == "pair" else _best_of_value
    own = [
        RuleRow((one.prompt_id, one.subset, one.section, ""), value(one.over, half_ties), int((one.over == 0).sum()))
        for one in items
        if one.tied is None
    ]
    return own + _tied_rows([one for one in items if one.tied is not None])


def _pair_value(over: FloatArray, half_ties: bool) -> float:
    margin = float(over[0, 0])
    return 0.5 if margin == 0 and half_ties else float(margin > 0)


def _best_of_value(over: FloatArray, _half_ties: bool) -> float:
    """Share of the chosen among the responses of highest reward."""
    worst = over.min(axis=1)
    best = int(worst.argmax())
    if worst[best] != 0:
        return float(worst[best] > 0)
    n_chosen, n_rejected = int((worst == 0).sum()), int((over[best] == 0).sum())
    return n_chosen / (n_chosen + n_rejected)


def _style_rows(item: Ranked) -> list[RuleRow]:
    return [
        RuleRow(
            (item.prompt_id, item.subset, STYLE_SECTIONS[int(np.sign(j - i)) + 1], f"{i + 1} over {j + 1}"),
            float(margin > 0),
            int(margin == 0),
        )
        for (i, j), margin in np.ndenumerate(item.over)
    ]


def _tied_rows(items: Sequence[Ranked]) -> list[RuleRow]:
    """A row for each number whose reference and tied prompt are both there."""
    found = {item.tied: item for item in items}
    rows = []
    for tied in (item for item in items if item.tied and item.tied[0] == "tied"):
        number = tied.tied[1] if tied.tied else 0
        reference = found[("ref", number)]
        ties = sum(int((one.over == 0).sum()) for one in (reference, tied))
        value = tied_value(float(reference.over.min()), float(tied.over.min()), tied.spread)
        rows.append(RuleRow((tied.prompt_id, tied.subset, tied.section, ""), value, ties))
    return rows


def tied_value(reference_gap: float, tied_gap: float, spread: float) -> float:
    """Score of one number of RewardBench 2's Ties; see the module. −0.01 to 1.01."""
    smaller = min(reference_gap, tied_gap)
    # Without a spread the limit, ±1; their script makes 0/0 a 0.
    closeness = float(np.tanh(smaller / spread - 1)) if spread > 0 else float(np.sign(smaller))
    steps = 0.3 * (tied_gap > 0) + 0.3 * (reference_gap > 0) + 0.2 * (tied_gap > spread) + 0.2 * (smaller > spread)
    return float(steps + 0.01 * closeness)
