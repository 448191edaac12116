"""Distributions in few numbers: bins that several share, quantiles and means known beforehand."""

from __future__ import annotations

import numpy as np
import pytest

from cda.errors import DataError
from cda.stats.means import common_edges, distribution

VALUES = np.arange(101) / 10
IDS = [str(row) for row in range(101)]


def test_bins_reach_over_all_values() -> None:
    edges = common_edges([[1.0, 2.0], [-3.0], []], n_bins=5)
    assert edges == pytest.approx((-3, -2, -1, 0, 1, 2))
    assert common_edges([[2.0, 2.0]], n_bins=1) == (1.5, 2.5)


def test_mean_quantiles_and_counts() -> None:
    found = distribution(VALUES, IDS, common_edges([VALUES], 10), np.random.default_rng(0))
    assert (found.mean.value, found.mean.n, found.mean.unit) == (pytest.approx(5.0), 101, "reward")
    assert found.mean.low < 5 < found.mean.high
    assert found.quantiles == pytest.approx((0.5, 2.5, 5.0, 7.5, 9.5))
    assert sum(found.counts) == 101 and found.counts[-1] == 11


def test_what_is_no_distribution_is_said() -> None:
    with pytest.raises(DataError, match="no values"):
        common_edges([[], []])
    with pytest.raises(DataError, match="1 of 101 values lie outside"):
        distribution(VALUES, IDS, (0.0, 9.95), np.random.default_rng(0))
