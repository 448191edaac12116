"""Random draws: a run's streams, each for one step, and samples of its rows."""

from __future__ import annotations

from collections.abc import Sequence
from enum import IntEnum, unique
from typing import TypeVar

import numpy as np

T = TypeVar("T")


@unique
class Stream(IntEnum):
    """Draws of a run. The numbers seed the generators: another number gives other draws from the same seed."""

    PAIRS = 0
    """Pairs that are trained on, if there are more than `data.max_pairs`."""
    VALIDATION_SPLIT = 1
    """Prompts held out of training."""
    REWRITTEN = 2
    """Pairs that are rewritten; with the number of the bias."""
    AUDITED = 4
    """Contrasts, quality pairs and answers that are audited."""
    TAUGHT_SPLIT = 5
    """Prompts of taught contrasts held out of training."""
    INTERVALS = 6
    """Bootstraps and halves of choosing a dose, and of a calibration."""
    INSPECTED = 7
    """Rewrites that are shown."""
    SECOND_TURN_SPLIT = 8
    """Conversations held out of training; with the number of the bias."""
    SUPPLEMENT = 9
    """Order in which supplementary pairs are labelled, until there are enough."""
    WEIGHTS = 10
    """Folds of prompts of preference pairs whose weights are told by the other folds."""
    VALIDATION_RESPONSES = 10**6
    """Responses on which candidates of a discovery are validated. Its generations draw from 0, 1, 2, …"""
    TEST_RESPONSES = 10**6 + 1
    """Responses on which they are tested."""


def generator(seed: int, stream: Stream, *within: int) -> np.random.Generator:
    """A fresh generator of one stream of a run's seed; `within`: the number of a bias, if several biases draw from it."""
    return np.random.default_rng([seed, stream, *within])


def drawn(items: Sequence[T], most: int | None, seed: int, stream: Stream = Stream.AUDITED) -> list[T]:
    """At most so many of the items, drawn without replacement and left in their order; all of them if `most` is None."""
    if most is None or len(items) <= most:
        return list(items)
    kept = generator(seed, stream).choice(len(items), size=most, replace=False)
    return [items[index] for index in sorted(kept)]
