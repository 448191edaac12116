"""Means over models and ranks: known answers, coverage, bad input."""

from __future__ import annotations

import numpy as np
import pytest
from rows import ids

from cda.errors import DataError
from cda.stats.estimators import paired_change, share_of
from cda.stats.means import CROSSED
from cda.stats.panel import FEW_MODELS, mean_change, mean_share, ranks


def hits_of(k: int, n: int, seed: int = 0, spread: float = 1.0) -> np.ndarray:
    """Hits of models that differ, on contrasts that differ."""
    rng = np.random.default_rng(seed)
    models, contrasts = rng.normal(0, spread, k), rng.normal(0, 1.0, n)
    return (models[:, None] + contrasts + rng.normal(0, 1.0, (k, n)) > 0).astype(float)


def test_few_models_have_wilson_s_interval_of_their_mean_rows_and_say_so() -> None:
    hits, prompts = hits_of(3, 80), ids(80, 2)
    found = mean_share(hits, prompts)
    expected = share_of(hits.mean(axis=0), prompts, 3)
    assert (found.value, found.low, found.high) == (expected.value, expected.low, expected.high)
    assert found.value == pytest.approx(hits.mean()) and (found.n, found.n_prompts) == (80, 40)
    alone = mean_share(hits[:1], prompts)
    assert alone == share_of(hits[0], prompts)


def test_few_models_change_is_newcombe_s_and_people_are_the_same_for_all() -> None:
    hits, prompts = hits_of(4, 60), ids(60)
    people = (np.arange(60) % 3 == 0).astype(float)
    found = mean_change(people, hits, prompts)
    expected = paired_change(people, hits.mean(axis=0), prompts, 4)
    assert (found.value, found.low, found.high) == (expected.value, expected.low, expected.high)
    assert found.value == pytest.approx(float(np.mean([own.mean() - people.mean() for own in hits])))


def test_models_that_differ_widen_the_interval() -> None:
    prompts = ids(200)
    alike, apart = (hits_of(6, 200, 3, spread) for spread in (0.0, 2.0))
    widths = [(found := mean_share(hits, prompts)).high - found.low for hits in (alike, apart)]
    assert widths[1] > 2 * widths[0]


def test_a_change_over_models_is_paired() -> None:
    prompts, before = ids(120), hits_of(6, 120)
    after = before.copy()
    after[:, :30] = 0.0
    found = mean_change(before, after, prompts)
    assert found.value == pytest.approx(float((after - before).mean())) and found.high < 0
    share_width = (found_share := mean_share(before, prompts)).high - found_share.low
    assert found.high - found.low < share_width


def test_without_any_spread_the_interval_keeps_a_width() -> None:
    every = mean_share(np.ones((FEW_MODELS, 30)), ids(30))
    assert every.value == 1.0 and every.low < 0.95 and every.high == 1.0
    one_prompt = mean_share(hits_of(6, 10), ["p"] * 10)
    assert one_prompt.n_prompts == 1 and one_prompt.high - one_prompt.low > 0.5


def test_models_near_a_ceiling_have_an_interval_over_prompts() -> None:
    """Of five models whose misses are 12, 4, 2, 1 and 1 of 100, fewer than one in all answers otherwise; with 83 more misses, more."""
    hits = np.ones((5, 100))
    for model, missed in zip(hits, (12, 4, 2, 1, 1), strict=True):
        model[:missed] = 0
    assert mean_share(hits, ids(100)) == share_of(hits.mean(axis=0), ids(100), 5)
    hits[0, :95] = 0
    assert mean_share(hits, ids(100)).method == CROSSED


def test_ranks_follow_the_means_and_equal_models_share_places() -> None:
    shares = (0.9, 0.2, 0.5, 0.5)
    hits = np.array([(np.arange(400) < share * 400).astype(float) for share in shares])
    found = ranks(hits, ids(400))
    assert [rank.value for rank in found] == [1, 4, 2.5, 2.5]
    assert [(rank.low, rank.high) for rank in found] == [(1, 1), (4, 4), (2.5, 2.5), (2.5, 2.5)]
    assert all(rank.unit == "rank" and rank.n == 400 for rank in found)


def test_ranks_of_models_that_differ_by_chance_are_uncertain() -> None:
    found = ranks(hits_of(5, 60, 4, 0.0), ids(60))
    assert all(rank.high - rank.low >= 2 for rank in found)
    assert all(rank.low <= rank.value <= rank.high for rank in found)


def test_ranks_by_distance_from_people() -> None:
    people = (np.arange(200) < 80).astype(float)
    hits = np.array([(np.arange(200) < n).astype(float) for n in (190, 85, 10)])
    found = ranks(hits, ids(200), people)
    assert [rank.value for rank in found] == [3, 1, 2]  # 55, 2.5 and 35 points away


@pytest.mark.parametrize(
    ("call", "said"),
    [
        (lambda: mean_share(np.ones(4), ["a"] * 4), "a row for each model"),
        (lambda: mean_share(np.ones((2, 3)), ["a"] * 4), "for 4 contrasts"),
        (lambda: mean_share([[np.nan, 1.0]], ["a", "b"]), "NaN"),
        (lambda: ranks(np.ones((1, 20)), ids(20)), "two models and 20 prompts"),
        (lambda: ranks(np.ones((2, 20)), ids(19) + ids(1)), "here are 19"),
    ],
)
def test_what_cannot_be_averaged_or_ranked_is_refused(call: object, said: str) -> None:
    with pytest.raises(DataError, match=said):
        call()  # type: ignore[operator]
