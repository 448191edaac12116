"""Shares and their changes, the exact test, prompts of several rows, preferences by majority and the change beyond noise."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from rows import ids
from scipy import stats

from cda.errors import DataError
from cda.stats.estimators import effective_rows, paired_change, share_of, wilson
from cda.stats.proportions import (
    beyond_noise,
    exact_change_test,
    positive_share,
    positive_shares,
)


def paired_table(both: int, only_before: int, only_after: int, neither: int) -> tuple[list[int], list[int]]:
    before = [1] * both + [1] * only_before + [0] * only_after + [0] * neither
    after = [1] * both + [0] * only_before + [1] * only_after + [0] * neither
    return before, after


@settings(deadline=None, derandomize=True)
@given(st.integers(1, 500).flatmap(lambda n: st.tuples(st.integers(0, n), st.just(n))))
def test_wilson_is_scipy_s(counts: tuple[int, int]) -> None:
    hits, n = counts
    expected = stats.binomtest(hits, n).proportion_ci(0.95, method="wilson")
    assert wilson(hits, n) == pytest.approx((expected.low, expected.high), abs=1e-9)


@pytest.mark.parametrize(
    ("table", "low", "high"),
    [
        # Newcombe (1998), Statistics in Medicine 17, 2635-2650, method 10: 36 + 12 against 36 + 2 of 50.
        ((36, 12, 2, 0), -0.3404, -0.0569),
        # Bentur et al. (2009) as in Fagerland, Lydersen and Laake (2014), "Newcombe square-and-add": 7 against 1 of 21.
        ((1, 7, 1, 12), -0.507, -0.026),
    ],
)
def test_newcombe_published(table: tuple[int, int, int, int], low: float, high: float) -> None:
    before, after = paired_table(*table)
    found = paired_change(before, after, ids(len(before)))
    assert (found.low, found.high) == pytest.approx((low, high), abs=5e-4)


def test_newcombe_by_hand() -> None:
    # 20 both, 12 only before, 2 only after, 16 neither: 32/50 -> 22/50.
    before, after = paired_table(20, 12, 2, 16)
    found = paired_change(before, after, ids(50))
    ((lb, ub), (la, ua)) = wilson(32, 50), wilson(22, 50)
    phi = (20 * 16 - 12 * 2 - 25) / math.sqrt(32 * 18 * 22 * 28)
    low = -0.2 - math.sqrt((0.44 - la) ** 2 - 2 * phi * (0.44 - la) * (ub - 0.64) + (ub - 0.64) ** 2)
    high = -0.2 + math.sqrt((ua - 0.44) ** 2 - 2 * phi * (ua - 0.44) * (0.64 - lb) + (0.64 - lb) ** 2)
    assert (found.value, found.low, found.high) == pytest.approx((-0.2, low, high), abs=1e-12)


def mcnemar_p(before: Sequence[float], after: Sequence[float]) -> float:
    """McNemar's exact test of rows, as if each were of its own prompt."""
    difference = np.asarray(after, float) - np.asarray(before, float)
    up, down = int((difference > 0).sum()), int((difference < 0).sum())
    return float(stats.binomtest(up, up + down, 0.5).pvalue) if up + down else 1.0


@settings(deadline=None, derandomize=True)
@given(st.integers(0, 60), st.integers(0, 60), st.integers(0, 5))
def test_it_is_mcnemar_where_each_prompt_occurs_once(up: int, down: int, same: int) -> None:
    assume(up + down)
    before, after = paired_table(same, down, up, same)
    found = exact_change_test(before, after, ids(len(before)))
    assert found.p_value == pytest.approx(mcnemar_p(before, after), rel=1e-9)
    assert found.method == "exact McNemar"


halves = st.sampled_from([0.0, 0.5, 1.0])


@settings(deadline=None, derandomize=True, max_examples=60)
@given(st.lists(st.tuples(halves, halves, st.integers(0, 8)), min_size=1, max_size=30))
def test_it_is_what_listing_every_choice_of_signs_gives(rows: list[tuple[float, float, int]]) -> None:
    before, after, prompts = zip(*rows, strict=True)
    sums = np.bincount(prompts, np.subtract(after, before))
    flips = np.array(list(itertools.product((-1, 1), repeat=len(sums))))
    expected = np.mean(np.abs(flips @ sums) >= abs(sums.sum()))
    found = exact_change_test(before, after, [f"p{one}" for one in prompts])
    assert found.p_value == pytest.approx(expected, rel=1e-9)
    once = len(set(prompts)) == len(rows) and 0.5 not in (*before, *after)
    assert found.method == ("exact McNemar" if once else "exact sign-flip over prompts")


def interval(hits: list[float], ids: list[str]) -> tuple[float, float]:
    found = share_of(hits, ids)
    return found.low, found.high


@pytest.mark.parametrize("hits", [[1.0, 0, 0, 1, 1], [0.5, 0, 0, 0, 0], [0.0] * 5, [1.0] * 5, [0.5] * 5])
def test_one_row_a_prompt_is_wilson_s(hits: list[float]) -> None:
    assert interval(hits, list("abcde")) == pytest.approx(wilson(sum(hits), 5))


def test_copies_of_a_row_are_worth_one() -> None:
    hits, ids = [1.0, 0, 0, 1, 1, 0, 0], list("abcdefg")
    assert effective_rows(hits * 4, ids * 4) == pytest.approx(7)
    assert interval(hits * 4, ids * 4) == pytest.approx(wilson(3, 7))
    assert interval([0.0] * 28, ids * 4) == pytest.approx(wilson(0, 7))


def test_the_design_effect_by_hand() -> None:
    # Sums −1 and 1 around the mean: variance 2/64, against ¼ / 8 of independent rows: worth 8, and with 4 more prompts of
    # rows that are alike, where they are worth 2: 6 / (2/8 + 4/2).
    hits, ids = [1, 0, 0, 0, 1, 1, 1, 0], list("aaaabbbb")
    assert effective_rows(hits, ids) == pytest.approx(6 / (2 / 8 + 4 / 2))
    # Sizes 3 and 1 are 16/10 prompts. Sums −¼ and ¼: variance ⅛ / 16, against 3/16 / 4: a sixth, so worth 24.
    assert effective_rows([1, 1, 0, 1], list("aaab")) == pytest.approx(5.6 / (1.6 / 24 + 4 / 1.6))


def test_rows_that_balance_within_their_prompts_are_worth_more_the_more_prompts_show_it() -> None:
    for n_prompts, least, most in ((2, 2.5, 3.5), (10, 18, 36), (200, 400, 20_000)):
        worth = effective_rows([1.0, 0.0] * n_prompts, np.repeat(np.arange(n_prompts), 2).astype(str).tolist())
        assert least < worth < most


@pytest.mark.parametrize(("n", "n_hits"), [(5, 1), (5, 2), (10, 1), (10, 5), (20, 1), (20, 6)])
def test_one_more_row_of_a_prompt_hardly_changes_the_width(n: int, n_hits: int) -> None:
    hits, ids = [1.0] * n_hits + [0.0] * (n - n_hits), [f"p{row}" for row in range(n)]
    for estimate in (share_of, lambda values, names: paired_change([0.0] * len(values), values, names)):
        once, twice = estimate(hits, ids), estimate([*hits, 0.0], [*ids, ids[-1]])
        assert (twice.high - twice.low) / (once.high - once.low) == pytest.approx(1, abs=0.05)


def test_means_of_several_answers_are_worth_up_to_so_many() -> None:
    ids = [f"p{row}" for row in range(40)]
    thirds = np.tile([1 / 3, 2 / 3], 20)  # variance 1/36 against ¼: worth some nine answers, of which there are three
    assert interval(thirds.tolist(), ids) == pytest.approx(wilson(20, 40))
    found = share_of(thirds, ids, answers_a_row=3)
    worth = 120 * (1.959964 / 2.022691) ** 2  # cut by Student's t of 39 degrees of freedom
    assert (found.low, found.high) == pytest.approx(wilson(worth / 2, worth))
    assert share_of([0.0, 1.0] * 20, ids, answers_a_row=3).low == pytest.approx(
        wilson(20, 40)[0]
    )  # models that all agree
    assert share_of([0.5] * 40, ids, answers_a_row=3).low == pytest.approx(wilson(20, 40)[0])  # nothing varies: no gain
    few = share_of(np.tile([0.4, 0.6, 0.2, 0.8], 10), ids, answers_a_row=100)
    # ¼ over 0.05 · 40/39, cut likewise.
    worth = 40 * 0.25 / (0.05 * 40 / 39) * (1.959964 / 2.022691) ** 2
    assert (few.low, few.high) == pytest.approx(wilson(worth / 2, worth))


BEFORE = [1.0, 2.0, -1.0, 5.0, -5.0, 0.0]
AFTER = [1.0, -2.0, -1.0, -5.0, 5.0, 3.0]


def test_skew_is_the_share_above_zero_and_a_tie_is_no_hit() -> None:
    found = positive_share([1e-9, -1, 0, 2], ids(4))
    assert (found.value, found.n, found.unit) == (0.5, 4, "share")


def test_change_by_hand() -> None:
    found = positive_shares([BEFORE, AFTER], ids(6))
    assert (found.before.value, found.after.value) == (3 / 6, 3 / 6)
    assert found.change.value == 0.0
    assert (found.ties.before, found.ties.after) == (1, 0)
    assert found.test.p_value == 1.0  # two rows up, two down


IDS = [f"q{row}" for row in range(200)]
PAIR_IDS = [f"p{row}" for row in range(300)]


def world(random: np.random.Generator, noise: float, stretch: float, shift: float) -> tuple[np.ndarray, ...]:
    """Contrasts and quality pairs before and after: rewards stretched, shifted on contrasts alone, and made noisier."""
    own, pairs = random.normal(0.9, 1, 200), random.normal(0.7, 1, 300)
    after = stretch * (own - shift) + random.normal(0, noise, 200)
    return own, after, pairs, stretch * pairs + random.normal(0, noise, 300)


def measured(own: np.ndarray, after: np.ndarray, pairs: np.ndarray, pairs_after: np.ndarray):
    return beyond_noise(own, after, IDS, pairs, pairs_after, PAIR_IDS)


def test_beyond_noise_by_hand() -> None:
    found = beyond_noise([1.0, 3.0], [1.0, 1.0], ["a", "b"], [1.0, 1.0], [2.0, 2.0], ["c", "d"])
    assert found.value == 1.0 - 2.0 * 2.0
    # Influences of the contrasts: (0 + 2·1)/2 and (0 − 2·1)/2, none of the pairs; G = 4 prompts, t with 1 degree of freedom.
    assert found.high - found.value == pytest.approx(12.7062047 * np.sqrt(4 / 3 * 2))
    three = beyond_noise([1.0, 3.0], [1.0, 1.0], ["a", "b"], [1.0, 1.0], [2.0, 2.0], ["c", "d"], 3)
    assert three.high - three.value == pytest.approx(stats.t.ppf(1 - 0.05 / 6, 1) * np.sqrt(4 / 3 * 2))
    assert three.method.endswith("3 biases together")


@pytest.mark.parametrize(("noise", "stretch"), [(0.0, 3.0), (2.0, 1.0), (3.0, 2.0), (1.0, 0.3)])
def test_noise_and_stretching_are_rarely_taken_for_a_change(noise: float, stretch: float) -> None:
    random = np.random.default_rng(0)
    found = [measured(*world(random, noise, stretch, 0.0)) for _ in range(200)]
    assert np.mean([one.high < 0 for one in found]) <= 0.05
    assert np.mean([one.low > 0 for one in found]) <= 0.05


def test_rows_of_one_prompt_are_not_taken_for_independent() -> None:
    own, after, pairs, pairs_after = world(np.random.default_rng(2), 0.5, 1.0, 0.3)
    once = measured(own, after, pairs, pairs_after)
    ids = [name for name in IDS for _ in range(3)]
    thrice = beyond_noise(np.repeat(own, 3), np.repeat(after, 3), ids, pairs, pairs_after, PAIR_IDS)
    assert thrice.high - thrice.low == pytest.approx(once.high - once.low, rel=1e-3)


def test_prompts_that_contrasts_and_pairs_share_are_one_cluster() -> None:
    random = np.random.default_rng(3)
    before, after = random.normal(1, 1, 50), random.normal(1, 1, 50)
    ids = [str(row) for row in range(50)]
    # Where the contrasts are the quality pairs, their errors cancel; taken for other prompts, they add up.
    shared = beyond_noise(before, after, ids, before, after, ids)
    assert abs(shared.value) < 1e-9 and shared.high - shared.low < 1e-9
    apart = beyond_noise(before, after, ids, before, after, [f"other {name}" for name in ids])
    assert apart.high - apart.low > 0.1


@pytest.mark.parametrize(
    ("own", "pairs", "said"), [([1.0, np.nan], [1.0, 1.1], "NaN"), ([1.0, 2.0], [-1.0, 1.0], "yardstick")]
)
def test_without_a_yardstick_there_is_no_answer(own: list[float], pairs: list[float], said: str) -> None:
    with pytest.raises(DataError, match=said):
        beyond_noise(own, own, ["a", "b"], pairs, pairs, ["c", "d"])
    with pytest.raises(DataError, match="fewer than two prompts"):
        beyond_noise([1.0, 2.0], [1.0, 2.0], ["a", "a"], [1.0, 1.1], [1.0, 1.1], ["c", "d"])
