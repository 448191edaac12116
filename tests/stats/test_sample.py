"""Groups of a covariate."""

from __future__ import annotations

import numpy as np
import pytest

from cda.errors import DataError
from cda.stats.rate import quantile_groups


def test_quantile_groups_are_about_equally_filled_and_keep_ties() -> None:
    groups = quantile_groups(np.arange(100), 4)
    assert [groups.count(name) for name in sorted(set(groups))] == [25, 25, 25, 25]
    assert groups[0] == "1/4: 0 to 24"
    assert sorted(set(quantile_groups([1, 1, 1, 1, 2], 2))) == ["1/2: 1 to 1", "2/2: 2 to 2"]
    with pytest.raises(DataError, match="equal"):
        quantile_groups([1, 1, 1], 3)
