"""Features that explain margins, planted and found: their slopes, their part of the mean margin, and no others."""

from __future__ import annotations

import numpy as np
import pytest
from rows import ids, rng
from scipy import stats

from cda.arrays import FloatArray
from cda.results.base import Estimate, Missing
from cda.results.effects import Confound
from cda.stats.drift import adjusted_effect, confounds

Sides = tuple[dict[str, FloatArray], dict[str, FloatArray]]


def sides(n: int, seed: int = 0) -> Sides:
    """Pairs with 1.5 exclamations more on the biased side on average, and with as many words and hedges as on the other."""
    random = rng(seed)
    base = {
        "exclamations": np.zeros(n),
        "words": random.integers(80, 120, n) * 1.0,
        "hedges": random.integers(0, 5, n) * 1.0,
    }
    more = {
        "exclamations": random.integers(0, 4, n),
        "words": random.integers(-9, 10, n),
        "hedges": random.integers(-2, 3, n),
    }
    return {name: base[name] + more[name] for name in base}, base


def found_in(margins: FloatArray, texts: Sides, clusters: list[str] | None = None) -> dict[str, Confound]:
    return {found.feature: found for found in confounds(margins, *texts, clusters or ids(len(margins)))}


def test_a_scorer_of_exclamations_is_found_out() -> None:
    texts = sides(140)
    margins = texts[0]["exclamations"] - texts[1]["exclamations"]
    (found,) = confounds(margins, *texts, ids(140))
    assert found.feature == "exclamations" and isinstance(found.slope, float) and found.p_holm is None
    assert (found.slope, found.r_squared) == (pytest.approx(1), pytest.approx(1))
    # It is the mean margin, whose interval is known.
    interval = stats.ttest_1samp(margins, 0).confidence_interval()
    assert found.accounts_for.value == pytest.approx(margins.mean())
    assert (found.accounts_for.low, found.accounts_for.high) == pytest.approx((interval.low, interval.high), rel=0.02)
    for form in ("linear", "log_ratio"):
        left = adjusted_effect(margins, *texts, ids(140), form)  # type: ignore[arg-type]
        assert (
            not isinstance(left, Missing)
            or "the difference in exclamations explains the margins in full" in left.reason
        )


def test_slopes_are_those_of_a_regression_with_clustered_errors_by_hand() -> None:
    texts, random = sides(120, 1), rng(2)
    names = ["exclamations", "words", "hedges"]
    differences = np.column_stack([texts[0][name] - texts[1][name] for name in names])
    clusters = np.repeat(np.arange(60), 2)
    margins = 0.3 + 0.5 * differences[:, 0] - 0.1 * differences[:, 1] + random.normal(0, 0.5, 120)
    found = found_in(margins, texts, [str(prompt) for prompt in clusters])
    assert list(found) == sorted(found, key=lambda name: -found[name].r_squared) and set(found) == {
        "exclamations",
        "words",
    }
    design = np.column_stack([np.ones(120), differences])
    inverse = np.linalg.inv(design.T @ design)
    coefficients = inverse @ design.T @ margins
    scores = design * (margins - design @ coefficients)[:, None]
    summed = np.array([scores[clusters == prompt].sum(axis=0) for prompt in range(60)])
    errors = np.sqrt(np.diag(inverse @ (summed.T @ summed) @ inverse) * 60 / 56)
    p_values = 2 * stats.t.sf(np.abs(coefficients / errors)[1:], 56)
    for at, name in enumerate(names[:2], 1):
        slope = found[name].slope
        assert isinstance(slope, Estimate) and slope.unit == f"reward per {name}" and slope.n_prompts == 60
        assert slope.value == pytest.approx(coefficients[at])
        assert slope.high - slope.value == pytest.approx(stats.t.ppf(0.975, 56) * errors[at], rel=0.05)
        assert found[name].p_holm == pytest.approx(
            min(1, (3 - np.argsort(np.argsort(p_values))[at - 1]) * p_values[at - 1])
        )
        assert found[name].r_squared == pytest.approx(np.corrcoef(differences[:, at - 1], margins)[0, 1] ** 2)
    assert found["exclamations"].accounts_for.value == pytest.approx(coefficients[1] * differences[:, 0].mean())


def test_features_that_are_one_are_not_told_apart() -> None:
    texts = sides(60)
    twin = tuple({**side, "bold": side["exclamations"]} for side in texts)
    margins = texts[0]["exclamations"] + rng(3).normal(0, 0.1, 60)
    assert not found_in(margins, (twin[0], twin[1])) and list(found_in(margins, texts)) == ["exclamations"]
    same = (
        {"words": np.full(60, 9.0), "hedges": texts[0]["hedges"]},
        {"words": np.full(60, 8.0), "hedges": texts[1]["hedges"]},
    )
    left = adjusted_effect(margins, *same, ids(60))
    assert isinstance(left, Missing) and "a difference in words is the same in all pairs" in left.reason
    assert not found_in(np.ones(60), texts) and not found_in(
        margins[:4], tuple({name: side[name][:4] for name in side} for side in texts)
    )  # type: ignore[arg-type]
