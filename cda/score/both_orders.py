"""Preferences asked for in both orders, as margins in which a taste for a place cancels, and what that taste was."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from cda.score.protocols import FloatArray


@dataclass(frozen=True, slots=True)
class BothOrders:
    """How comparisons came out that were each asked for in both orders.

    Attributes:
        n_unread: Comparisons without a readable verdict in either order.
        n_half_read: Comparisons read in one order only.
        n_flipped: Comparisons whose verdict follows the position and not the text: where written, a margin of 0.
        position_bias: Mean preference for the text shown first, −1 to 1, among comparisons read in both orders (written
            verdicts: share for the first minus share for the second); 0: no position is preferred. None before
            anything was asked, or where nothing was read.
    """

    n_unread: int = 0
    n_half_read: int = 0
    n_flipped: int = 0
    position_bias: float | None = None


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
