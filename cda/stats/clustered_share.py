"""Wilson's interval for a share over rows that share prompts: on as many rows as they are worth."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike

from cda.errors import DataError
from cda.stats.bootstrap import cluster_sums
from cda.stats.estimate import Estimate
from cda.stats.proportions import wilson


def clustered_wilson(hits: ArrayLike, prompt_ids: Sequence[str]) -> Estimate:
    """Share of hits with Wilson's 95% interval on the effective number of rows; without chance, unlike a bootstrap.

    Rows of one prompt that move together are worth fewer: n is divided by the design effect, the variance clustered by
    prompt over p(1 − p)/n (Kish 1965; for intervals, Dean and Pagano 2015, J. Surv. Stat. Methodol. 3, 484–503). The
    effective number is never more than n, so that ties counted as halves gain nothing. A share of 0 or 1 shows no
    variance to compare: there every prompt counts as one row. Where each prompt occurs once it is Wilson's interval.

    Args:
        hits: 1 or True for a hit, 0 for none, 0.5 where a tie counts half. Shape (n,).
        prompt_ids: Cluster of each row. Length n.

    Raises:
        DataError: No rows, lengths that differ, or rows that are not between 0 and 1.
    """
    rows = np.asarray(hits, dtype=np.float64)
    if rows.shape != (len(prompt_ids),) or not len(rows):
        raise DataError(f"{rows.shape} values for {len(prompt_ids)} prompts: one each is needed, and one at least")
    if not ((rows >= 0) & (rows <= 1)).all():
        raise DataError("a share is estimated from values between 0 and 1")
    sums = cluster_sums(np.column_stack([rows, np.ones(len(rows))]), prompt_ids)
    n, value = len(rows), float(sums[:, 0].sum()) / len(rows)
    variance = float(((sums[:, 0] - value * sums[:, 1]) ** 2).sum()) / n**2
    effective = _effective(value * (1 - value), variance, n, len(sums))
    low, high = wilson(value * effective, effective)
    method = "Wilson 95%" if len(sums) == n else "Wilson 95% on the effective number of rows"
    return Estimate(value, low, high, n, len(sums), "share", method)


def _effective(spread: float, variance: float, n: int, n_prompts: int) -> float:
    """How many independent rows with variance `spread` would give a mean with this variance."""
    if spread <= 0:
        return float(n_prompts)
    return min(float(n), spread / variance) if variance > 0 else float(n)
