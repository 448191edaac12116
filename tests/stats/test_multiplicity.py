"""Bonferroni, Holm, Benjamini–Hochberg and the partial conjunction, on known values and by their properties."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cda.stats.multiplicity import benjamini_hochberg, corrected, holm, partial_conjunction


def test_known_values() -> None:
    assert holm([0.01, 0.04, 0.03, 0.005]) == pytest.approx([0.03, 0.06, 0.06, 0.02])  # R: p.adjust(p, "holm")
    assert holm([0.6, 0.9]) == [1.0, 1.0]
    assert holm([0.02]) == [0.02]
    assert holm([]) == []


@settings(deadline=None, derandomize=True)
@given(st.lists(st.floats(0, 1), min_size=1, max_size=12), st.randoms(use_true_random=False))
def test_properties(p_values: list[float], random) -> None:
    adjusted = holm(p_values)
    n = len(p_values)
    for raw, stepped in zip(p_values, adjusted, strict=True):
        assert raw - 1e-9 <= stepped <= min(1.0, n * raw) + 1e-9  # between none and Bonferroni's
    assert sorted(range(n), key=lambda row: p_values[row]) == sorted(
        range(n), key=lambda row: (adjusted[row], p_values[row])
    )
    order = list(range(n))
    random.shuffle(order)
    assert holm([p_values[row] for row in order]) == [adjusted[row] for row in order]


def test_benjamini_hochberg_known_values() -> None:
    # R: p.adjust(c(0.01, 0.04, 0.03, 0.005), "BH")
    assert benjamini_hochberg([0.01, 0.04, 0.03, 0.005]) == pytest.approx([0.02, 0.04, 0.04, 0.02])
    assert benjamini_hochberg([0.02]) == [0.02]
    assert benjamini_hochberg([]) == []


def test_corrections_by_their_name() -> None:
    p_values = [0.01, 0.04, 0.03]
    assert corrected(p_values, "bonferroni") == pytest.approx([0.03, 0.12, 0.09])
    assert corrected(p_values, "holm") == pytest.approx([0.03, 0.06, 0.06])
    assert corrected(p_values, "none") == p_values
    assert corrected([0.3, 0.5], "bonferroni") == pytest.approx([0.6, 1.0])
    assert corrected([], "bonferroni") == []


def test_partial_conjunction_known_values() -> None:
    p_values = [0.5, 0.001, 0.004]
    assert partial_conjunction(p_values, 1) == pytest.approx(0.003)  # Bonferroni's global test
    assert partial_conjunction(p_values, 2) == pytest.approx(2 * 0.004)
    assert partial_conjunction(p_values, 3) == 0.5  # the largest
    assert partial_conjunction([0.9, 0.8, 0.7], 2) == 1.0
    assert partial_conjunction([0.02], 1) == 0.02
    assert [partial_conjunction([0.01] * 3, r) for r in (1, 2, 3)] == pytest.approx([0.03, 0.02, 0.01])
