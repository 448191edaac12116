"""How many independent rows the rows of several prompts are worth."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike

from cda.stats.bootstrap import cluster_sums

_ROUNDING = 1e-12
_PRIOR_PROMPTS = 4
"""Prompts in which all rows are alike, added to those seen: few prompts do not show how alike the rows of a prompt are."""


def effective_rows(values: ArrayLike, prompt_ids: Sequence[str]) -> float:
    """Rows of prompts of their own that would tell as much about the mean.

    n over the design effect, which is the variance of the mean clustered by prompt over that of independent rows (Kish 1965;
    Dean and Pagano 2015, J. Surv. Stat. Methodol. 3, 484–503). Between few prompts that variance is by chance often much too
    small. So the design effect is averaged with that of rows which are all alike within their prompt, n / K, for K = n² / Σ mᵍ²
    prompts of mᵍ rows; the former counts K, the latter `_PRIOR_PROMPTS`. Where no row differs from another, every prompt
    counts as one row. Where each prompt occurs once, it is n, and a first prompt that repeats changes little; copies of all rows
    within their prompts change nothing.

    Args:
        values: Shape (n,), any unit, finite.
        prompt_ids: Cluster of each row. Length n.
    """
    rows = np.asarray(values, dtype=np.float64)
    n, deviations = len(rows), rows - rows.mean()
    sums, sizes = cluster_sums(np.column_stack([deviations, np.ones(n)]), prompt_ids).T
    prompts = n**2 / float((sizes**2).sum())
    spread = float((deviations**2).sum())
    if len(sizes) in (1, n) or spread <= _ROUNDING * n * max(1.0, float(np.abs(rows).max()) ** 2):
        return prompts
    seen = float((sums**2).sum()) / (spread * n)  # one over the rows that these prompts show
    return (prompts + _PRIOR_PROMPTS) / (prompts * seen + _PRIOR_PROMPTS / prompts)
