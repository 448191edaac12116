"""RATE: effects counted by hand and of the triples that the paper prints, clustered errors, groups and slopes against least squares."""

from __future__ import annotations

import json
import math
import os
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from rows import rng
from scipy import stats

from cda.errors import DataError
from cda.results.base import Missing
from cda.results.effects import Effect
from cda.stats.rate import (
    Contrasts,
    Estimand,
    Estimator,
    conditional_effects,
    effect,
    effect_slope,
    from_preferences,
    from_rewards,
    quantile_groups,
    rate_effects,
    rewrite_effect,
)

# w, original, rewrite, rewrite of rewrite
ROWS = [(1, 5.0, 2.0, 4.0), (1, 7.0, 3.0, 5.5), (0, 1.0, 4.0, 2.0), (0, 3.0, 3.0, 2.5), (0, 2.0, 6.0, 1.0)]
ESTIMANDS: tuple[Estimand, ...] = ("ATT", "ATU", "ATE")
REWRITE: tuple[Estimator, ...] = ("double", "single")
reward = st.floats(-10, 10).map(lambda value: round(value, 3))
samples = st.lists(st.tuples(st.booleans(), reward, reward, reward, st.integers(0, 9)), min_size=8, max_size=30)


def make(rows, prompts=None) -> Contrasts:
    w, original, rewrite, back = (list(column) for column in zip(*[row[:4] for row in rows], strict=True))
    return from_rewards(original, rewrite, back, w, prompts or [f"p{row}" for row in range(len(rows))])


def from_sample(rows) -> Contrasts:
    return make(rows, [f"p{row[4]}" for row in rows])


def estimated(contrasts: Contrasts) -> dict[tuple[str, str], Effect]:
    return {(one.estimand, one.estimator): one for one in _all(contrasts)}


def _all(contrasts: Contrasts) -> tuple[Effect, ...]:
    try:
        return rate_effects(contrasts).effects
    except DataError:
        return ()


def test_effects_by_hand() -> None:
    contrasts = make(ROWS)
    # double: at w = 1 4−2, 5.5−3; at w = 0 4−2, 3−2.5, 6−1. single: 5−2, 7−3; 4−1, 3−3, 6−2.
    expected = {
        ("ATT", "double"): 2.25,
        ("ATU", "double"): 2.5,
        ("ATE", "double"): 2.4,
        ("ATT", "single"): 3.5,
        ("ATU", "single"): 7 / 3,
        ("ATE", "single"): 14 / 5,
        ("ATT", "naive"): 4.0,
        ("ATU", "naive"): 4.0,
        ("ATE", "naive"): 4.0,
        ("w = 1", "rewrite effect"): -1.25,
        ("w = 0", "rewrite effect"): -1 / 6,
    }
    found = rate_effects(contrasts)
    assert {(e.estimand, e.estimator): e.estimate.value for e in found.effects} == pytest.approx(expected)
    assert found.not_estimated == ()
    assert (found.n_with, found.n_without) == (2, 3)
    assert found.get("ATE", "double").estimate.n == 5


def test_the_error_is_that_of_the_paired_differences() -> None:
    found = effect(make(ROWS), "ATE", "double")
    differences = [2, 2.5, 2, 0.5, 5]
    assert found.standard_error == pytest.approx(np.std(differences, ddof=1) / math.sqrt(5))
    assert found.estimate.high - found.estimate.value == pytest.approx(2.776445 * found.standard_error)
    assert found.p_value == pytest.approx(2 * stats.t.sf(2.4 / found.standard_error, 4))


def test_naive_error_keeps_prompts_together() -> None:
    # Every prompt has one original of each side: clustering is then pairing.
    random = rng()
    level = random.normal(0, 5, 60)
    having, lacking = level + 1 + random.normal(size=60), level + random.normal(size=60)
    prompts = [f"p{row}" for row in range(60)] * 2
    w = [1] * 60 + [0] * 60
    other = random.normal(size=120)
    contrasts = from_rewards(np.concatenate([having, lacking]), other, other + 1, w, prompts)
    found = effect(contrasts, "ATE", "naive")
    assert found.estimate.value == pytest.approx((having - lacking).mean())
    assert found.standard_error == pytest.approx(stats.sem(having - lacking))


def test_standardised_by_the_pooled_within_group_sd() -> None:
    found = effect(make(ROWS), "ATE", "double")
    sd = math.sqrt(((5 - 6) ** 2 + (7 - 6) ** 2 + (1 - 2) ** 2 + (3 - 2) ** 2 + 0) / (5 - 2))
    assert found.standardised is not None
    assert found.standardised.value == pytest.approx(2.4 / sd)
    assert "originals" in found.standardised.unit


@settings(deadline=None, derandomize=True, max_examples=60)
@given(samples)
def test_weights_and_identities(rows) -> None:
    contrasts, found = from_sample(rows), estimated(from_sample(rows))
    share = contrasts.attribute.mean()
    for estimator in REWRITE:
        parts = [found.get((estimand, estimator)) for estimand in ESTIMANDS]
        if all(parts):
            att, atu, ate = (part.estimate.value for part in parts if part)
            assert ate == pytest.approx(share * att + (1 - share) * atu, abs=1e-9)
    for name, w, sign in (("ATT", 1, 1), ("ATU", 0, -1)):
        double, single = (found.get((name, estimator)) for estimator in REWRITE)
        rewriting = found.get((f"w = {w}", "rewrite effect"))
        if double and single and rewriting:
            difference = sign * (double.estimate.value - single.estimate.value)
            assert difference == pytest.approx(rewriting.estimate.value, abs=1e-9)


def test_contrasts_that_do_not_vary_have_no_error() -> None:
    rows = [
        (w, 0.1 * number, 0.1 * number - 0.3 * w, 0.1 * number - 0.3 * (1 - w)) for number, w in enumerate([0, 1] * 9)
    ]
    with pytest.raises(DataError, match="nothing varies between its 18 prompts"):
        effect(make(rows))
    with pytest.raises(DataError, match="nothing varies"):
        effect(make([(number % 2, 0.1, 0.1, 0.1) for number in range(9)]), "ATE", "naive")


def test_a_refused_estimand_is_estimated_by_no_rewrite_and_the_others_are() -> None:
    rows = [(w, 1.0 * row, 2.0 + row % 3, 0.5 * row) for row in range(12) for w in (0, 1)]
    found = rate_effects(make(rows), refused={"ATT": "too few rewrites flipped"})
    assert {one.estimand for one in found.effects if one.estimator in REWRITE} == {"ATU", "ATE"}
    said = {(one.estimand, one.estimator): one.reason for one in found.not_estimated}
    assert {said[("ATT", estimator)] for estimator in REWRITE} == {"too few rewrites flipped"}


def test_a_pairwise_judge_gives_effects_without_a_reward() -> None:
    found = rate_effects(
        from_preferences([0.5, 1, 0, 1], [1, 1, 1, 0], [0, -1, 0, 1], [1, 0, 1, 0], ["a", "a", "b", "b"])
    )
    assert found.get("ATE", "double").estimate.value == pytest.approx(0.625)
    assert found.get("ATE", "double").estimate.unit == "preference"
    assert isinstance(found.get("ATE", "double").standardised, Missing)
    with pytest.raises(DataError, match="verdict on no original with the attribute against one without"):
        found.get("ATE", "naive")


def test_a_judge_s_naive_pairs_follow_their_rows() -> None:
    contrasts = from_preferences(
        [0.5, 1, 0, 1], [1, 1, 1, 0], [0, -1, 0, 1], [1, 0, 1, 0], ["a", "a", "b", "b"], [0.2, 1], [[0, 1], [2, 3]]
    )
    assert effect(contrasts, "ATE", "naive").estimate.value == pytest.approx(0.6)


@pytest.mark.parametrize(
    ("pairs", "message"), [([[1, 0]], "naive pair 0"), ([[0, 3]], "same prompt"), ([[0, 2]], "without it")]
)
def test_naive_pairs_that_are_refused(pairs: list[list[int]], message: str) -> None:
    with pytest.raises(DataError, match=message):
        from_preferences([0] * 4, [0] * 4, [0] * 4, [1, 0, 1, 0], ["a", "a", "b", "b"], [0.1], pairs)


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
    found = {name: one for name, one in conditional_effects(contrasts, names).items() if isinstance(one, Effect)}
    assert found["high"].estimate.low < 2 < found["high"].estimate.high
    assert found["low"].estimate.low < 0 < found["low"].estimate.high
    total = sum(one.estimate.value * one.estimate.n for one in found.values()) / len(contrasts)
    assert total == pytest.approx(effect(contrasts).estimate.value)


def test_a_group_that_is_too_small_is_listed_with_the_reason() -> None:
    contrasts, _ = planted(20)
    found = conditional_effects(contrasts, ["big"] * 19 + ["alone"])
    assert isinstance(found["big"], Effect) and isinstance(found["alone"], Missing)
    assert "come from 1 prompt" in found["alone"].reason


def test_slope_intervals_cover_the_planted_slope() -> None:
    samples = [planted(200, seed) for seed in range(200)]
    for estimator, slope in (("double", 2), ("naive", 5)):
        found = [effect_slope(contrasts, x, estimator).estimate for contrasts, x in samples]  # type: ignore[arg-type]
        covered = np.mean([one.low <= slope <= one.high for one in found])
        assert 0.90 <= covered <= 0.985  # 95% ± 3 standard errors of the simulation


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
    assert found.standard_error == pytest.approx(math.sqrt(variance[3, 3]), rel=0.01)
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


def test_quantile_groups_are_about_equally_filled_and_keep_ties() -> None:
    groups = quantile_groups(np.arange(100), 4)
    assert [groups.count(name) for name in sorted(set(groups))] == [25, 25, 25, 25]
    assert groups[0] == "1/4: 0 to 24"
    assert sorted(set(quantile_groups([1, 1, 1, 1, 2], 2))) == ["1/2: 1 to 1", "2/2: 2 to 2"]
    with pytest.raises(DataError, match="equal"):
        quantile_groups([1, 1, 1], 3)


@pytest.mark.parametrize("scored_as", ["preferences", "yes or no"])
def test_an_effect_that_is_the_same_in_all_triples_has_wilsons_interval(scored_as: str) -> None:
    """A judge, or a reward of 0 and 1, that always follows the attribute: of 20 prompts Wilson's lower end is 20 / (20 + 1.96²)."""
    w, ids = [1, 0] * 10, [str(row) for row in range(20)]
    ones = [1.0] * 20
    found = from_rewards(w, [1 - has for has in w], w, w, ids)
    if scored_as == "preferences":
        found = from_preferences(ones, ones, [0.0] * 20, w, ids)
    ate, unmoved = effect(found), rewrite_effect(found, 1)
    assert (ate.estimate.value, ate.estimate.high) == (1.0, 1.0)
    assert ate.standard_error == pytest.approx((1 - ate.estimate.low) / (2 * 1.959964))
    assert ate.estimate.low == pytest.approx(2 * 20 / (20 + 1.959964**2) - 1)
    assert ate.p_value == pytest.approx(2 * 0.5**20)
    assert unmoved.estimate.value == 0 and unmoved.estimate.low < 0 < unmoved.estimate.high and unmoved.p_value == 1
    with pytest.raises(DataError, match="nothing varies"):  # rewards without a bound
        effect(
            from_rewards([0.04 * has for has in w], [0.04 - 0.04 * has for has in w], [0.04 * has for has in w], w, ids)
        )


def test_a_slope_below_rounding_is_0() -> None:
    """Contrasts that rise and fall by the same on both sides of the covariate's mean."""
    x = np.array([-3.0, -1.0, 1.0, 3.0] * 5) + 0.1
    w = [1, 0] * 10
    found = from_preferences(np.abs(x - 0.1) / 3, [0.0] * 20, [0.0] * 20, w, [str(row) for row in range(20)])
    assert effect_slope(found, x).estimate.value == 0.0


ROOT = Path(__file__).parent.parent.parent
TRIPLES = Path(os.environ.get("CDA_DATA", ROOT.parent / "shared" / "data")) / "rate" / "paper_reward_triples.jsonl"
printed = pytest.mark.skipif(not TRIPLES.is_file(), reason=f"public research data absent: {TRIPLES} (set CDA_DATA)")


def triples(attribute: str) -> Contrasts:
    rows = [json.loads(line) for line in TRIPLES.read_text(encoding="utf-8").splitlines()]
    mine = [row for row in rows if row["attribute"] == attribute]
    columns = {name: [row[name] for row in mine] for name in ("original", "rewrite", "rewrite_of_rewrite", "w")}
    return from_rewards(*columns.values(), [str(row) for row in range(len(mine))])


@printed
@pytest.mark.parametrize(
    ("attribute", "att", "atu", "ate", "single", "naive"),
    [
        ("length", -0.00002, 0.00409, 0.00203, 0.01878, 0.01406),
        ("sentiment", 0.00780, 0.00687, 0.00745, 0.00378, -0.00330),
        ("complexity", 0.00777, 0.01249, 0.01131, 0.00729, 0.05181),
    ],
)
def test_effects_are_those_of_the_triples_that_the_paper_prints(
    attribute: str, att: float, atu: float, ate: float, single: float, naive: float
) -> None:
    contrasts = triples(attribute)
    found = {(one.estimand, one.estimator): one.estimate.value for one in rate_effects(contrasts).effects}
    expected = {
        ("ATT", "double"): att, ("ATU", "double"): atu, ("ATE", "double"): ate, ("ATE", "single"): single, ("ATE", "naive"): naive,
    }  # fmt: skip
    assert {name: found[name] for name in expected} == pytest.approx(expected, abs=5.1e-6)
    assert found["ATT", "double"] - found["ATT", "single"] == pytest.approx(rewrite_effect(contrasts, 1).estimate.value)
    assert found["ATU", "single"] - found["ATU", "double"] == pytest.approx(rewrite_effect(contrasts, 0).estimate.value)


@printed
def test_one_triple_of_a_kind_gives_no_effect_of_that_kind() -> None:
    """Helpfulness has seven triples with w = 1 and one with w = 0."""
    contrasts = triples("helpfulness")
    assert effect(contrasts, "ATT").estimate.n == 7
    with pytest.raises(DataError, match=r"ATU \(double\) cannot be estimated"):
        effect(contrasts, "ATU")
