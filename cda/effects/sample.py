"""Groups of triples by a numeric covariate."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from cda.errors import DataError


def quantile_groups(values: ArrayLike, n_groups: int) -> list[str]:
    """Labels of about equally filled ranges of a numeric covariate, lowest first: `1/4: 12 to 40`, ….

    Equal values stay together, so that ranges may be fewer or uneven.

    Raises:
        DataError: A value is missing or not finite, or fewer than two groups can be formed.
    """
    found = _finite(values)
    edges = np.unique(np.quantile(found, np.linspace(0, 1, n_groups + 1)[1:-1])) if found.size else np.array([])
    group = np.searchsorted(edges, found, side="left")
    present = np.unique(group)
    if len(present) < 2:
        raise DataError(
            f"{found.size} covariate values do not split into {n_groups} ranges: they are (almost) all equal"
        )
    names = {
        code: f"{rank}/{len(present)}: {found[group == code].min():g} to {found[group == code].max():g}"
        for rank, code in enumerate(present.tolist(), 1)
    }
    return [names[code] for code in group.tolist()]


def _finite(values: ArrayLike) -> NDArray[np.float64]:
    found = np.asarray(values, dtype=np.float64)
    if not np.isfinite(found).all():
        raise DataError(f"{int((~np.isfinite(found)).sum())} of {found.size} values are missing, NaN or infinite")
    return found
