"""The loss of preferences, ties and soft targets, with margins and weights: one formula for every objective."""

from __future__ import annotations

from typing import Any


def preference_loss(differences: Any, targets: Any, margins: Any, weights: Any) -> Any:
    """Weighted mean of the cross-entropy between taught and given preferences (Bradley and Terry).

        −t·log σ(d − m) − (1 − t)·log σ(−d − m)

    With t = 1 this is the pairwise loss of reward models, with a margin as in Llama 2's; with t = 0.5 and m = 0 it is least
    where both texts are rewarded the same; with t between them where σ(d) = t.

    Args:
        differences: reward(first) − reward(second). Tensor of shape (n,).
        targets: Taught probability that the first is better, in [0, 1]. Shape (n,).
        margins: Reward units by which the better side should lead, at least 0. Shape (n,).
        weights: How much each pair counts; the mean is over pairs, not over weights, so that a pair counts the same
            whatever batch it falls into. Shape (n,).

    Returns:
        The loss, a scalar tensor.
    """
    from torch.nn.functional import logsigmoid

    losses = -targets * logsigmoid(differences - margins) - (1 - targets) * logsigmoid(-differences - margins)
    return (weights * losses).mean()


def agreement(differences: Any, targets: Any) -> tuple[int, int]:
    """How many pairs with a preferred side the rewards order as taught, and how many there are; ties have none.

    Args:
        differences: reward(first) − reward(second). Tensor of shape (n,).
        targets: As in `preference_loss`.
    """
    decided = targets != 0.5
    right = (differences > 0) == (targets > 0.5)
    # Equal rewards prefer nothing.
    return int((right & decided & (differences != 0)).sum()), int(decided.sum())
