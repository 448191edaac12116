"""Rows that share prompts: worth all where they do not, one a prompt where they are copies, and intervals of them that cover."""

from __future__ import annotations

import numpy as np
import pytest

from cda.errors import DataError
from cda.stats.bootstrap import effective_rows
from cda.stats.proportions import paired_change, share, wilson


def interval(hits: list[float], ids: list[str]) -> tuple[float, float]:
    found = share(hits, ids)
    return found.low, found.high


@pytest.mark.parametrize("hits", [[1.0, 0, 0, 1, 1], [0.5, 0, 0, 0, 0], [0.0] * 5, [1.0] * 5, [0.5] * 5])
def test_one_row_a_prompt_is_wilson_s(hits: list[float]) -> None:
    assert interval(hits, list("abcde")) == pytest.approx(wilson(sum(hits), 5))
    assert share(hits, list("abcde")).method == "Wilson 95%"


def test_copies_of_a_row_are_worth_one() -> None:
    hits, ids = [1.0, 0, 0, 1, 1, 0, 0], list("abcdefg")
    assert effective_rows(hits * 4, ids * 4) == pytest.approx(7)
    assert interval(hits * 4, ids * 4) == pytest.approx(wilson(3, 7))
    assert interval([0.0] * 28, ids * 4) == pytest.approx(wilson(0, 7))
    assert share(hits * 4, ids * 4).method == "Wilson 95% on the effective number of rows"


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


def test_a_first_prompt_that_repeats_changes_little() -> None:
    """No jump from one method to another: 21 rows of 20 prompts tell about as much as 21 rows of their own."""
    own, repeated = [f"p{row}" for row in range(21)], [*(f"p{row}" for row in range(20)), "p19"]
    off = []
    for n_hits in range(1, 20):
        hits = [1.0] * n_hits + [0.0] * (21 - n_hits)
        off.append(np.subtract(interval(hits, own), interval(hits, repeated)))
        one, other = paired_change([0.0] * 21, hits, own), paired_change([0.0] * 21, hits, repeated)
        off.append([one.low - other.low, one.high - other.high])
    # The most where the two rows of the one prompt are the only misses.
    assert np.abs(off).mean() < 0.02 and np.abs(off).max() < 0.13


@pytest.mark.parametrize(("n", "n_hits"), [(5, 1), (5, 2), (10, 1), (10, 5), (20, 1), (20, 6)])
def test_one_more_row_of_a_prompt_hardly_changes_the_width(n: int, n_hits: int) -> None:
    hits, ids = [1.0] * n_hits + [0.0] * (n - n_hits), [f"p{row}" for row in range(n)]
    for estimate in (share, lambda values, names: paired_change([0.0] * len(values), values, names)):
        once, twice = estimate(hits, ids), estimate([*hits, 0.0], [*ids, ids[-1]])
        assert (twice.high - twice.low) / (once.high - once.low) == pytest.approx(1, abs=0.05)


def test_a_first_tie_that_counts_half_changes_little() -> None:
    ids = [f"p{row}" for row in range(30)]
    before, after = np.arange(30) < 20, np.arange(30) % 3 > 0
    plain = paired_change(before, after, ids)
    tied = paired_change(np.where(np.arange(30) == 7, 0.5, before), after, ids)
    assert abs(plain.low - tied.low) < 0.04 and abs(plain.high - tied.high) < 0.04


@pytest.mark.parametrize(("n_prompts", "a_prompt"), [(2, 5), (3, 5), (5, 2), (5, 5), (10, 3), (50, 3)])
def test_it_covers_the_truth_where_rows_move_together(n_prompts: int, a_prompt: int) -> None:
    random, covered, naive = np.random.default_rng(0), 0, 0
    ids = [str(row) for row in np.repeat(np.arange(n_prompts), a_prompt)]
    for _ in range(1000):
        # Shares of prompts around 0.6, half as far apart as they could be (ρ = 0.5).
        hits = (random.random(len(ids)) < np.repeat(random.beta(0.6, 0.4, n_prompts), a_prompt)).astype(float)
        low, high = interval(hits.tolist(), ids)
        covered += low <= 0.6 <= high
        low, high = wilson(float(hits.sum()), len(ids))
        naive += low <= 0.6 <= high
    assert covered / 1000 >= 0.93  # 95% less 3 standard errors of the simulation
    assert naive < covered


def test_changes_of_few_prompts_are_covered() -> None:
    """A fall from 0.8 to 0.5 whose rows go together within their prompt, which a percentile interval covers 84% of the time."""
    random, ids = np.random.default_rng(1), np.repeat(np.arange(5), 4).astype(str).tolist()
    covered = 0
    for _ in range(600):
        before = random.random(20) < np.repeat(random.beta(1.6, 0.4, 5), 4)
        after = before & (random.random(20) < np.repeat(random.beta(1.25, 0.75, 5), 4))  # 0.8 · 0.625
        found = paired_change(before, after, ids)
        covered += found.low <= -0.3 <= found.high
    assert covered / 600 >= 0.92


def test_means_of_several_answers_are_worth_up_to_so_many() -> None:
    ids = [f"p{row}" for row in range(40)]
    thirds = np.tile([1 / 3, 2 / 3], 20)  # variance 1/36 against ¼: worth nine answers, of which there are three
    assert interval(thirds.tolist(), ids) == pytest.approx(wilson(20, 40))
    found = share(thirds, ids, answers_a_row=3)
    assert (found.low, found.high) == pytest.approx(wilson(60, 120))
    assert share([0.0, 1.0] * 20, ids, answers_a_row=3).low == pytest.approx(wilson(20, 40)[0])  # models that all agree
    assert share([0.5] * 40, ids, answers_a_row=3).low == pytest.approx(wilson(20, 40)[0])  # nothing varies: no gain
    few = share(np.tile([0.4, 0.6, 0.2, 0.8], 10), ids, answers_a_row=100)
    assert (few.low, few.high) == pytest.approx(wilson(100, 200))  # ¼ over 0.05 is 5 answers


def test_one_prompt_is_one_row() -> None:
    assert effective_rows([1.0, 0, 1, 1], ["a"] * 4) == 1
    assert interval([1.0, 0, 1, 1], ["a"] * 4) == pytest.approx(wilson(0.75, 1))


def test_copies_of_all_rows_within_their_prompts_change_nothing() -> None:
    random = np.random.default_rng(3)
    for ids in (list("aabbccdde"), list("abcdefghi")):
        values = random.random(9)
        assert effective_rows(np.tile(values, 5), ids * 5) == pytest.approx(effective_rows(values, ids))


def test_scale_and_shift_change_nothing() -> None:
    values, ids = np.array([0.1, 0.3, -0.2, 0.7, 0.7, 0.0]), list("aabbcc")
    assert effective_rows(7 * values, ids) == pytest.approx(effective_rows(values, ids))
    assert effective_rows(values + 3, ids) == pytest.approx(effective_rows(values, ids))


def test_too_little_is_said() -> None:
    for hits, ids in (([], []), ([1.0], ["a", "b"]), ([2.0], ["a"]), ([np.nan], ["a"])):
        with pytest.raises(DataError):
            share(hits, ids)
