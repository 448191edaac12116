"""Preferences asked for in both orders, as margins in which a taste for a place cancels, or in one; and what that taste was."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from cda.results.base import Estimate
from cda.score.protocols import FloatArray
from cda.stats.proportions import share


@dataclass(frozen=True, slots=True)
class BothOrders:
    """How comparisons came out that were each asked for in both orders, or in one.

    Attributes:
        n_unread: Comparisons without a readable verdict in either order.
        n_half_read: Comparisons of which one order of two was read.
        n_flipped: Comparisons whose verdict follows the position and not the text: where written, a margin of 0. None where
            one order was asked, which does not show it.
        position_bias: Mean preference for the text shown first, −1 to 1, among comparisons read in both orders (written
            verdicts: share for the first minus share for the second); 0: no position is preferred. None before
            anything was asked, or where nothing was read. In one order, of all that were read: which text came first was
            drawn, so that a preference for a text does not add up to one for a place.
        position: The same with an interval, clustered by prompt, where one order was asked and two prompts were read.
    """

    n_unread: int = 0
    n_half_read: int = 0
    n_flipped: int | None = 0
    position_bias: float | None = None
    position: Estimate | None = field(default=None, compare=False)


def of_both_orders(values: FloatArray, needed: bool = False) -> tuple[FloatArray, BothOrders]:
    """Preference for the first text, mean of both orders, shape (n,); NaN where there is none. And the counts.

    Args:
        values: Preference for the text that was shown first, −1 to 1, shape (n, 2): as given, and in the other order. NaN
            where there is no verdict.
        needed: A comparison read in one order only has no margin; otherwise that order alone counts.
    """
    read = ~np.isnan(values)
    both, count = read.all(axis=1), read.sum(axis=1)
    toward_first = values * np.array([1.0, -1.0])
    margins = np.full(len(values), np.nan)
    np.divide(np.nansum(toward_first, axis=1), count, out=margins, where=both if needed else count > 0)
    return margins, BothOrders(
        n_unread=int((count == 0).sum()),
        n_half_read=int((count == 1).sum()),
        # Both orders name the same position, that is, different texts.
        n_flipped=int((both & (values[:, 0] * values[:, 1] > 0)).sum()),
        position_bias=float(values[both].mean()) if both.any() else None,
    )


def of_one_order(
    values: FloatArray, swapped: NDArray[np.bool_], prompt_ids: Sequence[str]
) -> tuple[FloatArray, BothOrders]:
    """Preference for the first text, shape (n,), NaN where there is none; a taste for a place stays in it. And the counts.

    Args:
        values: Preference for the text that was shown first, −1 to 1, shape (n,). NaN where there is no verdict.
        swapped: Whether the second text was shown first, shape (n,).
        prompt_ids: Cluster of each comparison. Length n.
    """
    read = ~np.isnan(values)
    ids = [name for name, one in zip(prompt_ids, read, strict=True) if one]
    position = None
    if len(set(ids)) > 1:
        first = share((values[read] + 1) / 2, ids)
        value, low, high = (2 * share_first - 1 for share_first in (first.value, first.low, first.high))
        position = first.model_copy(update={"value": value, "low": low, "high": high, "unit": "preference"})
    return np.where(swapped, -values, values), BothOrders(
        n_unread=int((~read).sum()),
        n_flipped=None,
        position_bias=float(values[read].mean()) if read.any() else None,
        position=position,
    )
