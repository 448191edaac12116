"""Levels of a covariate, and the test that they differ against a computation by hand and its own level."""

from __future__ import annotations

import numpy as np
import pytest
from rows import ids
from scipy import stats

from cda.errors import DataError
from cda.results.base import Test
from cda.results.effects import Grouping, Heterogeneity, Level
from cda.stats.levels import MOST_LEVELS, POOLED, WELCH, Levels, heterogeneity, levels_differ, levels_of, one_family


def test_categories_with_few_prompts_are_pooled_and_counted() -> None:
    values = [*["tea"] * 12, *["music"] * 10, *["rare"] * 20, "odd", None]
    prompts = [*ids(22), *[f"r{row // 5}" for row in range(20)], "o", "none"]  # `rare` has 20 rows of 4 prompts
    found = levels_of(values, prompts)
    assert found.names == ("music", "tea", POOLED) and found.pooled == {"odd": 1, "rare": 4}
    assert [int(found.rows(name).sum()) for name in found.names] == [10, 12, 21] and found.of.count(None) == 1
    assert found.numbers is None
    many = levels_of([f"v{row // 10}" for row in range(230)] + ["v0"], ids(231))
    assert len(many.names) == MOST_LEVELS + 1 and many.names[0] == "v0" and set(many.pooled.values()) == {10}


def test_numbers_are_cut_at_cutoffs_or_into_equally_filled_ranges() -> None:
    values = [str(number) for number in range(30)]
    found = levels_of([*values, None], ids(31), [10, 25])
    assert found.names == ("below 10", "10 to below 25", "25 or more")
    assert [int(found.rows(name).sum()) for name in found.names] == [10, 15, 5] and found.of.count(None) == 1
    assert found.numbers is not None and np.isnan(found.numbers[30]) and found.numbers[9] == 9
    equal = levels_of(values, ids(30))
    assert [int(equal.rows(name).sum()) for name in equal.names] == [10, 10, 10]
    # Few numbers are categories, such as grades.
    assert levels_of(["1", "2"] * 15, ids(30)).names == ("1", "2")


@pytest.mark.parametrize(
    ("values", "cutoffs", "said"),
    [
        ([None, None], [], "empty in every row"),
        (["a", "a", None], [], r"the same in every row \('a'\)"),
        (["1", "x"], [1.0], "'x' is no number"),
        (["1", "2"], [5.0], r"in one range \(below 5\)"),
        (["a", "b"], [], r"none of its 2 levels has 10 prompts \(the largest has 1\)"),
    ],
)
def test_a_column_that_does_not_divide_rows_is_refused(
    values: list[str | None], cutoffs: list[float], said: str
) -> None:
    with pytest.raises(DataError, match=said):
        levels_of(values, ids(len(values)), cutoffs)


def test_two_levels_differ_by_the_clustered_error_of_their_means() -> None:
    """With one difference, F is its square over the sandwich's variance: prompts stay whole, also if they have both levels."""
    rng = np.random.default_rng(0)
    values, prompts = rng.normal(size=80), ids(80, 4)
    second = np.arange(80) % 4 > 1
    levels = levels_of(["b" if own else "a" for own in second], prompts)
    mean = [values[~second].mean(), values[second].mean()]
    pieces = np.where(second, (values - mean[1]) / 40, -(values - mean[0]) / 40).reshape(20, 4).sum(axis=1)
    variance = 20 / 19 * (pieces**2).sum()
    expected = stats.f.sf((mean[1] - mean[0]) ** 2 / variance, 1, 19)
    assert levels_differ(values, levels, prompts).p_value == pytest.approx(float(expected))


def test_levels_of_ten_prompts_and_other_spreads_are_rejected_at_the_level() -> None:
    """Wald's test rejects eight equal levels of ten prompts in 11% of draws; here a level of four prompts is left out, too."""
    rng = np.random.default_rng(4)
    names = [chr(97 + row // 10) for row in range(80)] + ["tiny"] * 4
    levels = Levels(tuple(names), tuple(sorted(set(names))), {}, None)
    scale = np.where(np.array(names) == "a", 3.0, 1.0)
    found = [levels_differ(scale * rng.normal(size=84), levels, ids(84)) for _ in range(300)]
    assert 0.025 < np.mean([test.p_value < 0.05 for test in found]) < 0.075 and found[0].method == WELCH


def test_rows_without_a_level_do_not_enter() -> None:
    rng = np.random.default_rng(2)
    values, names = rng.normal(size=40), ["a"] * 20 + ["b"] * 20
    alone = levels_differ(values, levels_of(names, ids(40)), ids(40))
    more = levels_differ(np.append(values, 99.0), levels_of([*names, None], ids(41)), ids(41))
    assert more == alone


def test_levels_without_spread_have_no_test() -> None:
    levels = levels_of(["a"] * 10 + ["b"] * 10, ids(20))
    with pytest.raises(DataError, match="nothing varies"):
        levels_differ(np.repeat([1.0, 2.0], 10), levels, ids(20))
    with pytest.raises(DataError, match="0 of 2 levels have 5 prompts, two are needed"):
        levels_differ(np.arange(20.0), levels, ids(20, 10))


def test_three_levels_give_scipys_welch_test() -> None:
    rng = np.random.default_rng(5)
    groups = [rng.normal(mean, spread, n) for mean, spread, n in ((0.2, 1, 10), (0.9, 3, 14), (-0.4, 0.5, 25))]
    levels = levels_of(["a"] * 10 + ["b"] * 14 + ["c"] * 25 + ["a"], ids(50))
    found = levels_differ(np.append(np.concatenate(groups), np.nan), levels, ids(50))  # a row that is not compared
    expected = stats.f_oneway(*groups, equal_var=False)
    assert isinstance(found, Heterogeneity) and found.statistic == pytest.approx(expected.statistic)
    assert found.p_value == pytest.approx(expected.pvalue) and (found.df, found.p_holm) == (2, None)


def test_i_squared_is_the_share_that_is_not_noise() -> None:
    # Weights are 1: the mean is 0, Q = 4 + 4 = 8 on one degree of freedom.
    found = heterogeneity([2.0, -2.0], [1.0, 1.0], [10, 10])
    assert found.i_squared == pytest.approx(1 - 1 / 8)
    same = heterogeneity([1.0, 1.0], [1.0, 1.0], [10, 10])
    assert (same.statistic, same.i_squared) == (0.0, 0.0) and same.p_value == pytest.approx(1.0)


@pytest.mark.parametrize(
    ("numbers", "said"),
    [(([1.0], [1.0], [5]), "1 groups"), (([1.0, 2.0], [1.0, 0.0], [5, 5]), "without spread"), (([1.0, 2.0], [1.0, 1.0], [5, 1]), "without spread")],
)  # fmt: skip
def test_too_little_is_an_error(numbers: tuple[list[float], list[float], list[int]], said: str) -> None:
    with pytest.raises(DataError, match=said):
        heterogeneity(*numbers)


def test_the_levels_of_all_groupings_are_one_family_and_the_tests_that_they_differ_another() -> None:
    def tested(p_value: float) -> Test:
        return Test(p_value=p_value, method="by hand")

    def by(differ: float, *p_values: float) -> Grouping:
        levels = (Level(name=f"{at}", n=9, n_prompts=9, found={}, test=tested(p)) for at, p in enumerate(p_values))
        return Grouping(levels=tuple(levels), differ={"model": tested(differ)})

    first, second = one_family([by(0.01, 0.01, 0.04), by(0.04, 0.03)])
    assert [level.test.holm for each in (first, second) for level in each.levels] == pytest.approx([0.03, 0.06, 0.06])  # type: ignore[union-attr]
    assert [each.differ["model"].holm for each in (first, second)] == pytest.approx([0.02, 0.04])  # type: ignore[union-attr]
