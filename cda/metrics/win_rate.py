"""Win rate of one set of outputs over another, from a judge's preferences: shares, interval, exact test against one half."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike

from cda.errors import DataError
from cda.results.base import Test
from cda.results.benchmarks import WinRate
from cda.stats.proportions import exact_change_test, share


def win_rate(preferences: ArrayLike, prompt_ids: Sequence[str]) -> WinRate:
    """Win, tie and loss shares with their win rate.

    The sign of a preference decides, whatever its size. Intervals are 95%, clustered by prompt where prompts repeat. No
    correction is made for a judge's taste for length: audit the judge for that.

    Args:
        preferences: Of a judge for the first text of each comparison, both orders averaged, −1 to 1; NaN where it gave no
            readable verdict. Shape (n,).
        prompt_ids: Cluster of each row. Length n.

    Raises:
        DataError: Nothing was read, lengths differ, or a preference is not between −1 and 1.
    """
    values = np.asarray(preferences, dtype=np.float64)
    if values.shape != (len(prompt_ids),):
        raise DataError(f"{values.shape} preferences for {len(prompt_ids)} prompts: one each is needed")
    read = ~np.isnan(values)
    if not read.any():
        raise DataError(f"none of {len(values)} comparisons has a readable verdict, so there is no win rate")
    signs, ids = values[read], [one for one, kept in zip(prompt_ids, read, strict=True) if kept]
    if (np.abs(signs) > 1).any():
        raise DataError(
            f"a judge's preferences lie between -1 and 1, and these reach {np.abs(signs).max():g}: are they rewards?"
        )
    won, tied, lost = signs > 0, signs == 0, signs < 0
    win, tie, loss = (share(one, ids) for one in (won, tied, lost))
    return WinRate(
        win_rate=share(won + 0.5 * tied, ids),
        wins=win,
        ties=tie,
        losses=loss,
        test=_test(won, lost, ids),
        n_unread=int((~read).sum()),
    )


def _test(won: ArrayLike, lost: ArrayLike, prompt_ids: Sequence[str]) -> Test:
    """With a prompt a row this is the sign test; else the signs of whole prompts' wins minus losses are flipped."""
    p_value = exact_change_test(lost, won, prompt_ids).p_value
    alone = len(set(prompt_ids)) == len(prompt_ids)
    return Test(p_value=p_value, method="exact sign test" if alone else "exact sign-flip over prompts")
