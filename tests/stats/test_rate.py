"""RATE: effects counted by hand, clustered errors against formulas, and the invariants that any sample must obey."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from cda.errors import DataError
from cda.results.base import Estimate, Missing
from cda.results.effects import Effect
from cda.stats.clustered import Resampling
from cda.stats.rate import Contrasts, Estimand, Estimator, effect, from_rewards, rate_effects, rewrite_effect

# w, original, rewrite, rewrite of rewrite
ROWS = [(1, 5.0, 2.0, 4.0), (1, 7.0, 3.0, 5.5), (0, 1.0, 4.0, 2.0), (0, 3.0, 3.0, 2.5), (0, 2.0, 6.0, 1.0)]
ESTIMANDS: tuple[Estimand, ...] = ("ATT", "ATU", "ATE")
REWRITE: tuple[Estimator, ...] = ("double", "single")

reward = st.floats(-10, 10).map(lambda value: round(value, 3))
samples = st.lists(st.tuples(st.booleans(), reward, reward, reward, st.integers(0, 9)), min_size=8, max_size=30)


def rng() -> np.random.Generator:
    return np.random.default_rng(0)


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
    assert found.estimate.high - found.estimate.value == pytest.approx(1.959964 * found.standard_error)
    assert found.p_value == pytest.approx(2 * stats.norm.sf(2.4 / found.standard_error))


def test_paired_errors_are_not_welch_s() -> None:
    """Rewrites of one response share most of their reward: unpaired errors, as the reference code has them, are wrong."""
    random = rng()
    shared, w = random.normal(0, 3, 400), np.arange(400) % 2
    without, having = shared + random.normal(0, 0.3, 400), shared + 0.5 + random.normal(0, 0.3, 400)
    contrasts = from_rewards(
        shared, np.where(w, without, having), np.where(w, having, without), w, [f"p{row}" for row in range(400)]
    )
    found = effect(contrasts, "ATE", "double")
    assert found.estimate.low < 0.5 < found.estimate.high
    assert found.standard_error == pytest.approx(stats.sem(having - without))
    welch = math.sqrt(having.var(ddof=1) / 400 + without.var(ddof=1) / 400)
    assert stats.ttest_ind(having, without, equal_var=False).statistic == pytest.approx(found.estimate.value / welch)
    assert found.standard_error < 0.15 * welch
    assert stats.ttest_rel(having, without).statistic == pytest.approx(found.estimate.value / found.standard_error)


def test_clustered_error_by_hand() -> None:
    contrasts = make(ROWS, ["a", "b", "a", "b", "c"])
    sums = [(2 - 2.4) + (2 - 2.4), (2.5 - 2.4) + (0.5 - 2.4), 5 - 2.4]
    expected = math.sqrt(3 / 2 * sum(value**2 for value in sums)) / 5
    assert effect(contrasts, "ATE", "double").standard_error == pytest.approx(expected)


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


def test_bca_interval_is_near_the_normal_one_for_symmetric_data() -> None:
    random = rng()
    w = np.arange(300) % 2
    zeros = np.zeros(300)
    contrasts = from_rewards(
        random.normal(size=300),
        zeros,
        np.where(w, 1, -1) * random.normal(0.4, 1, 300),
        w,
        [f"p{row}" for row in range(300)],
    )
    found = effect(contrasts, "ATE", "double", Resampling(rng(), 4000))
    assert isinstance(found.bca, Estimate)
    assert (found.bca.low, found.bca.high) == pytest.approx((found.estimate.low, found.estimate.high), abs=0.02)
    assert effect(contrasts, "ATE", "double").bca == Missing(reason="not asked for")
    few = effect(make(ROWS[:4]), "ATE", "double", Resampling(rng(), 100))
    assert isinstance(few.bca, Missing) and "too few" in few.bca.reason


def test_naive_is_drawn_once_for_all_estimands() -> None:
    random = rng()
    contrasts = from_rewards(*random.normal(size=(3, 40)), np.arange(40) % 2, [f"p{row}" for row in range(40)])
    found = rate_effects(contrasts, Resampling(rng(), 500))
    assert len({str(found.get(estimand, "naive").bca) for estimand in ESTIMANDS}) == 1


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


@settings(deadline=None, derandomize=True, max_examples=60)
@given(samples)
def test_swapping_the_label_flips_every_sign(rows) -> None:
    there = estimated(from_sample(rows))
    back = estimated(from_sample([(not row[0], *row[1:]) for row in rows]))
    swapped = {"ATT": "ATU", "ATU": "ATT", "ATE": "ATE"}
    for (estimand, estimator), one in there.items():
        if estimator == "rewrite effect":
            continue
        other = back[swapped[estimand], estimator]
        assert other.estimate.value == pytest.approx(-one.estimate.value, abs=1e-9)
        assert (other.estimate.low, other.estimate.high) == pytest.approx(
            (-one.estimate.high, -one.estimate.low), abs=1e-9
        )
        assert other.standard_error == pytest.approx(one.standard_error)


@settings(deadline=None, derandomize=True, max_examples=60)
@given(samples, st.randoms(use_true_random=False))
def test_order_does_not_matter(rows, random) -> None:
    shuffled = list(rows)
    random.shuffle(shuffled)
    _same(estimated(from_sample(rows)), estimated(from_sample(shuffled)))


@settings(deadline=None, derandomize=True, max_examples=60)
@given(samples, st.integers(2, 4))
def test_repeating_rows_within_their_prompt_adds_no_information(rows, times: int) -> None:
    once, repeated = estimated(from_sample(rows)), estimated(from_sample(rows * times))
    _same(once, repeated, scaled=False)
    for key, one in once.items():
        assert repeated[key].estimate.n == times * one.estimate.n
        assert repeated[key].estimate.n_prompts == one.estimate.n_prompts


@settings(deadline=None, derandomize=True, max_examples=60)
@given(samples, st.floats(0.1, 10), st.floats(-5, 5))
def test_rewards_on_another_scale(rows, factor: float, shift: float) -> None:
    there = estimated(from_sample(rows))
    other = estimated(from_sample([(row[0], *(factor * value + shift for value in row[1:4]), row[4]) for row in rows]))
    for key in there.keys() & other.keys():
        assert other[key].estimate.value == pytest.approx(factor * there[key].estimate.value, abs=1e-6)
        if there[key].standardised and other[key].standardised:
            first, second = there[key].standardised.value, other[key].standardised.value
            assert second == pytest.approx(first, rel=1e-4, abs=1e-4)


@settings(deadline=None, derandomize=True, max_examples=60)
@given(samples)
def test_bounds(rows) -> None:
    contrasts = from_sample(rows)
    for (estimand, estimator), one in estimated(contrasts).items():
        numbers = (one.estimate.value, one.estimate.low, one.estimate.high, one.standard_error, one.p_value)
        assert all(math.isfinite(number) for number in numbers)
        assert one.estimate.low < one.estimate.value < one.estimate.high
        assert 0 <= one.p_value <= 1 and one.standard_error > 0
        if estimator in REWRITE and estimand == "ATE":
            values = contrasts.double if estimator == "double" else contrasts.single
            assert values.min() - 1e-9 <= one.estimate.value <= values.max() + 1e-9


def _same(there: dict[tuple[str, str], Effect], other: dict[tuple[str, str], Effect], scaled: bool = True) -> None:
    assert there.keys() == other.keys()
    for key, one in there.items():
        assert other[key].estimate.value == pytest.approx(one.estimate.value, abs=1e-9)
        assert other[key].standard_error == pytest.approx(one.standard_error, abs=1e-9)
        theirs = other[key].standardised
        if scaled and isinstance(one.standardised, Estimate) and isinstance(theirs, Estimate):
            assert theirs.value == pytest.approx(one.standardised.value)


@pytest.mark.parametrize(("w", "possible", "impossible"), [(1, "ATT", "ATU"), (0, "ATU", "ATT")])
def test_a_constant_attribute_leaves_one_estimand(w: int, possible: str, impossible: str) -> None:
    found = rate_effects(make([(w, 1.0, 2.0, 3.0), (w, 2.0, 3.0, 1.0), (w, 2.0, 1.0, 5.0)]))
    assert {one.estimand for one in found.effects} == {possible, f"w = {w}"}
    with pytest.raises(DataError, match=rf"{impossible} \(double\) cannot be estimated: W is constant"):
        found.get(impossible, "double")
    with pytest.raises(DataError, match="W is constant"):
        found.get("ATE", "naive")
    with pytest.raises(DataError, match="W is constant"):
        rewrite_effect(make([(w, 1.0, 2.0, 3.0), (w, 2.0, 3.0, 1.0)]), 1 - w)
    standardised = found.effects[0].standardised
    assert isinstance(standardised, Missing) and "W is constant" in standardised.reason


def test_one_prompt_has_no_spread_between_prompts() -> None:
    with pytest.raises(DataError, match="5 triples come from 1 prompt"):
        effect(make(ROWS, ["a"] * 5))
    with pytest.raises(DataError, match="cannot be estimated"):
        rate_effects(make(ROWS, ["a"] * 5))


def test_contrasts_that_do_not_vary_have_no_error() -> None:
    rows = [
        (w, 0.1 * number, 0.1 * number - 0.3 * w, 0.1 * number - 0.3 * (1 - w)) for number, w in enumerate([0, 1] * 9)
    ]
    with pytest.raises(DataError, match="nothing varies between its 18 prompts"):
        effect(make(rows))
    with pytest.raises(DataError, match="nothing varies"):
        effect(make([(number % 2, 0.1, 0.1, 0.1) for number in range(9)]), "ATE", "naive")


def test_a_side_with_one_prompt_has_no_naive_error() -> None:
    with pytest.raises(DataError, match="an original without the attribute: 1, two at least"):
        effect(make(ROWS[:3]), "ATE", "naive")


def test_an_unknown_effect_is_said_to_be_none() -> None:
    with pytest.raises(DataError, match="none of the effects"):
        rate_effects(make(ROWS)).get("LATE", "double")


def test_a_refused_estimand_is_estimated_by_no_rewrite_and_the_others_are() -> None:
    rows = [(w, 1.0 * row, 2.0 + row % 3, 0.5 * row) for row in range(12) for w in (0, 1)]
    found = rate_effects(make(rows), refused={"ATT": "too few rewrites flipped"})
    assert {one.estimand for one in found.effects if one.estimator in REWRITE} == {"ATU", "ATE"}
    said = {(one.estimand, one.estimator): one.reason for one in found.not_estimated}
    assert {said[("ATT", estimator)] for estimator in REWRITE} == {"too few rewrites flipped"}


def test_the_effect_of_rewriting_is_in_the_unit_of_the_rewards() -> None:
    contrasts = make([(1, 1.0, 2.0, 3.0), (1, 2.0, 3.0, 1.0), (1, 0.0, 1.0, 2.5)])
    assert rewrite_effect(contrasts, 1).estimate.unit == contrasts.unit == "reward"
