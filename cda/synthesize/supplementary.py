"""Supplementary pairs: unchanged ones, in proportion to how often each label combination was observed."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

import numpy as np

from cda.biases import Bias
from cda.records import LabelledPair, Lesson, TrainingPair, text_key

Combination = tuple[bool, bool]


def label_frequencies(rows: Sequence[LabelledPair], bias: Bias) -> dict[Combination, int]:
    """Count of each (chosen exhibits, rejected exhibits); unparsed labels are left out."""
    counts = Counter((row.labels[bias.name]["chosen"], row.labels[bias.name]["rejected"]) for row in rows)
    return {(a, b): counts.get((a, b), 0) for a in (True, False) for b in (True, False)}


def proportional_quota(frequencies: dict[Combination, int], total: int) -> dict[Combination, int]:
    """Whole numbers that sum to `total` in the given proportions (largest remainders; ties by combination).

    >>> proportional_quota({(True, True): 1, (True, False): 1, (False, True): 0, (False, False): 2}, 5)
    {(True, True): 1, (True, False): 1, (False, True): 0, (False, False): 3}
    """
    observed = sum(frequencies.values())
    if not observed:
        return dict.fromkeys(frequencies, 0)
    exact = {key: total * count / observed for key, count in frequencies.items()}
    quota = {key: int(value) for key, value in exact.items()}
    by_remainder = sorted(exact, key=lambda key: (quota[key] - exact[key], key))
    for key in by_remainder[: total - sum(quota.values())]:
        quota[key] += 1
    return quota


def supplementary_pairs(
    source: Sequence[LabelledPair],
    bias: Bias,
    frequencies: dict[Combination, int],
    requested: int,
    taken: set[tuple[str, ...]],
    rng: np.random.Generator,
) -> list[TrainingPair]:
    """Draw unchanged pairs so that label combinations occur as often as in `frequencies`.

    Args:
        source: Labelled pairs to draw from.
        bias: Whose labels count.
        frequencies: Observed combinations.
        requested: How many are wanted; where a combination runs short, fewer are returned.
        taken: `text_key` of prompt, chosen and rejected of pairs used as counterfactuals; they are not drawn again.
        rng: Decides which.
    """
    drawn: list[TrainingPair] = []
    for combination, wanted in proportional_quota(frequencies, requested).items():
        pool = [
            row
            for row in source
            if (row.labels[bias.name]["chosen"], row.labels[bias.name]["rejected"]) == combination
            and text_key(row.pair.prompt, row.pair.chosen, row.pair.rejected) not in taken
        ]
        for index in rng.permutation(len(pool))[:wanted]:
            row = pool[index]
            drawn.append(TrainingPair(Lesson(row.pair), row.split, "supplementary", bias.name, row.pair.id))
    return drawn
