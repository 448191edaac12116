"""CATE in groups and slopes: planted differences are found, against least squares and its sandwich error."""

from __future__ import annotations

import math

import numpy as np
import pytest

from cda.errors import DataError
from cda.results.base import Estimate
from cda.stats.clustered import Resampling
from cda.stats.rate import Contrasts, conditional_effects, effect, effect_slope, from_preferences, from_rewards


def planted(n: int = 600, seed: int = 3) -> tuple[Contrasts, np.ndarray]:
    """The effect is 1 + 2x; the originals' naive difference changes by 5 for one unit of x."""
    random = np.random.default_rng(seed)
    x, w = random.uniform(-1, 1, n), np.arange(n) % 2
    base = random.normal(size=n)
    having = base + 1 + 2 * x + random.normal(0, 0.5, n)
    contrasts = from_rewards(
        base + 5 * x * w, np.where(w, base, having), np.where(w, having, base), w, [f"p{row // 2}" for row in range(n)]
    )
    return contrasts, x


def test_groups_hold_their_planted_effects_and_average_to_the_whole() -> None:
    contrasts, x = planted()
    names = np.where(x > 0, "high", "low").tolist()
    found = {one.estimand: one for one in conditional_effects(contrasts, names).effects}
    assert found["CATE: high"].estimate.low < 2 < found["CATE: high"].estimate.high
    assert found["CATE: low"].estimate.low < 0 < found["CATE: low"].estimate.high
    total = sum(one.estimate.value * one.estimate.n for one in found.values()) / len(contrasts)
    assert total == pytest.approx(effect(contrasts).estimate.value)


def test_a_group_that_is_too_small_is_listed_with_the_reason() -> None:
    contrasts, _ = planted(20)
    found = conditional_effects(contrasts, ["big"] * 19 + ["alone"])
    assert [one.estimand for one in found.effects] == ["CATE: big"]
    assert "come from 1 prompt" in found.not_estimated[0].reason
    with pytest.raises(DataError, match="CATE: alone"):
        conditional_effects(from_rewards([1.0], [2.0], [3.0], [1], ["a"]), ["alone"])
    with pytest.raises(DataError, match="one each"):
        conditional_effects(contrasts, ["big"])


def test_slopes_are_least_squares() -> None:
    contrasts, x = planted()
    found = effect_slope(contrasts, x, "double", Resampling(np.random.default_rng(0), 2000))
    assert found.estimate.value == pytest.approx(np.polyfit(x, contrasts.double, 1)[0])
    assert isinstance(found.bca, Estimate)
    assert (found.bca.low, found.bca.high) == pytest.approx((found.estimate.low, found.estimate.high), abs=0.03)


def test_slope_intervals_cover_the_planted_slope() -> None:
    samples = [planted(200, seed) for seed in range(200)]
    for estimator, slope in (("double", 2), ("naive", 5)):
        found = [effect_slope(contrasts, x, estimator).estimate for contrasts, x in samples]  # type: ignore[arg-type]
        covered = np.mean([one.low <= slope <= one.high for one in found])
        assert 0.90 <= covered <= 0.985  # 95% ± 3 standard errors of the simulation


def test_slope_error_is_the_sandwich() -> None:
    contrasts, x = planted(60)
    design = np.column_stack([np.ones(60), x])
    bread = np.linalg.inv(design.T @ design)
    residual = contrasts.double - design @ (bread @ design.T @ contrasts.double)
    scores = (design * residual[:, None]).reshape(30, 2, 2).sum(axis=1)  # two rows a prompt
    variance = bread @ (scores.T @ scores) @ bread * 30 / 29
    assert effect_slope(contrasts, x).standard_error == pytest.approx(math.sqrt(variance[1, 1]))


def test_naive_slope_is_the_interaction() -> None:
    contrasts, x = planted()
    assert contrasts.originals is not None
    w = contrasts.attribute
    design = np.column_stack([np.ones(len(x)), w, x, x * w])
    bread = np.linalg.inv(design.T @ design)
    coefficients = bread @ design.T @ contrasts.originals
    scores = (design * (contrasts.originals - design @ coefficients)[:, None]).reshape(300, 2, 4).sum(axis=1)
    variance = bread @ (scores.T @ scores) @ bread * 300 / 299
    found = effect_slope(contrasts, x, "naive")
    assert found.estimate.value == pytest.approx(coefficients[3])
    assert found.standard_error == pytest.approx(math.sqrt(variance[3, 3]))
    assert found.estimate.low < 5 < found.estimate.high


def test_slopes_that_cannot_be_estimated() -> None:
    contrasts, x = planted(20)
    for covariate, message in (
        (np.ones(20), "the same in every row"),
        (x[:5], "one finite value each"),
        (np.where(x > 0, np.nan, x), "one finite value each"),
    ):
        with pytest.raises(DataError, match=message):
            effect_slope(contrasts, covariate)
    with pytest.raises(DataError, match="does not vary among originals with w = 1"):
        effect_slope(contrasts, np.where(contrasts.attribute, 1.0, x), "naive")
    judge = from_preferences([0.0, 1, 0], [0.0, 1, 0], [0.0, 1, 0], [1, 0, 1], ["a", "b", "c"])
    with pytest.raises(DataError, match="no rewards"):
        effect_slope(judge, [1, 2, 3], "naive")
    line = from_rewards([0, 1, 2], [0, 0, 0], [1, 2, 3], [1, 1, 1], ["a", "b", "c"])
    with pytest.raises(DataError, match="nothing varies"):
        effect_slope(line, [1, 2, 3])
    with pytest.raises(DataError, match="three prompts"):
        effect_slope(from_rewards([0, 1], [0, 0], [1, 3], [1, 1], ["a", "b"]), [1, 2])
