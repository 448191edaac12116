"""Random streams, and the clustered bootstrap against scipy, formulas and simulations."""

from __future__ import annotations

import tracemalloc

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from rows import ids, rng
from scipy import stats

from cda.errors import DataError
from cda.results.base import Estimate
from cda.stats import draws
from cda.stats.draws import Method, Stream, drawn, generator
from cda.stats.estimators import mean_of, resampled

# At most 7 prompts: below 8 no two are merged as alike.
rows = st.tuples(st.integers(-50, 50).map(lambda x: x / 10), st.sampled_from("abcdefg"))
tables = st.lists(rows, min_size=2, max_size=30).filter(lambda table: len({name for _, name in table}) > 1)


def error_of(found: Estimate) -> float:
    """Standard error behind an interval that is nearly normal."""
    return (found.high - found.low) / (2 * 1.96)


@pytest.mark.parametrize(("method", "name"), [("percentile", "percentile"), ("bca", "BCa")])
def test_it_is_scipy_s_where_each_prompt_occurs_once(method: Method, name: str) -> None:
    values = rng(3).exponential(2.0, 40)  # so few and so skewed that the acceleration counts
    found = bootstrap_mean(values, ids(40), rng(), n_draws=20_000, method=method)
    expected = stats.bootstrap((values,), np.mean, n_resamples=20_000, method=name, rng=rng(1), batch=500)
    low, high = expected.confidence_interval
    assert found.value == pytest.approx(values.mean())
    assert (found.low, found.high) == pytest.approx((low, high), abs=0.03 * (high - low))
    assert (found.n, found.n_prompts) == (40, 40)


def test_hits_and_misses_are_binomial() -> None:
    found = bootstrap_mean([1] * 70 + [0] * 130, ids(200), rng(), n_draws=50_000)
    expected = stats.binom.ppf((0.025, 0.975), 200, 0.35) / 200
    assert (found.low, found.high) == pytest.approx(expected, abs=0.006)


def test_clustered_errors_are_the_sandwich_s() -> None:
    """Σ over prompts of (sum of residuals)², the usual cluster-robust variance of a mean."""
    sizes = rng(6).integers(1, 6, 300)
    clusters = np.repeat(np.arange(300), sizes)
    values = rng(5).normal(size=300)[clusters] + 0.3 * rng(7).normal(size=len(clusters))
    names = [f"p{cluster}" for cluster in clusters]
    found = bootstrap_mean(values, names, rng())
    residual = np.bincount(clusters, values - values.mean())
    expected = np.sqrt((residual**2).sum()) / len(values)
    assert error_of(found) == pytest.approx(expected, rel=0.05)
    assert clustered_error((values - values.mean()) / len(values), names) == pytest.approx(
        expected * np.sqrt(300 / 299)
    )
    assert error_of(found) > 1.3 * error_of(bootstrap_mean(values, ids(len(values)), rng()))
    assert (found.n, found.n_prompts) == (len(values), 300)


def ratio(sums: np.ndarray) -> np.ndarray:
    return np.divide(sums[:, 0], sums[:, 1], out=np.full(len(sums), np.nan), where=sums[:, 1] > 0)


def test_a_ratio_of_sums_is_the_delta_method_s() -> None:
    top, bottom = rng(1).gamma(4, 1, 400), rng(2).gamma(6, 1, 400)
    found = resampled(np.column_stack([top, bottom]), ids(400), ratio, rng(), "ratio")
    expected = top.sum() / bottom.sum()
    assert found.value == pytest.approx(expected)
    assert error_of(found) == pytest.approx(np.sqrt(((top - expected * bottom) ** 2).sum()) / bottom.sum(), rel=0.05)


def test_duplicated_hits_change_nothing_though_alike_prompts_are_merged() -> None:
    hits = rng(1).random(120) < 0.4
    once, threefold = bootstrap_mean(hits, ids(120), rng()), bootstrap_mean(np.repeat(hits, 3), ids(360, 3), rng())
    assert (threefold.value, threefold.low, threefold.high) == pytest.approx((once.value, once.low, once.high))


@settings(deadline=None, derandomize=True, max_examples=60)
@given(tables, st.randoms(use_true_random=False), st.sampled_from(["percentile", "bca"]))
def test_the_order_of_rows_does_not_matter_at_all(table: list[tuple[float, str]], random, method: Method) -> None:
    shuffled = random.sample(table, len(table))
    first, second = (
        bootstrap_mean(*zip(*each, strict=True), rng(), n_draws=200, method=method) for each in (table, shuffled)
    )
    assert first == second


@pytest.mark.parametrize("values", [rng(1).normal(size=500), rng(1).random(500) < 0.3], ids=["margins", "hits"])
def test_chunks_are_only_about_memory(values: np.ndarray, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = bootstrap_mean(values, ids(500), rng(), n_draws=300)
    monkeypatch.setattr(draws, "_MAX_BYTES", 1)
    assert bootstrap_mean(values, ids(500), rng(), n_draws=300) == whole


def test_memory_does_not_grow_with_the_draws() -> None:
    values = rng(1).normal(size=5_000)
    tracemalloc.start()
    bootstrap_mean(values, ids(5_000), rng(), n_draws=2_000)  # 160 MB if all were drawn at once
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 12e6


@pytest.mark.parametrize("method", ["percentile", "bca"])
def test_coverage(method: Method) -> None:
    random, inside = rng(9), 0
    for _ in range(300):
        values = np.repeat(random.normal(1.0, 1.0, 40), 3) + random.normal(size=120)
        found = bootstrap_mean(values, ids(120, 3), random, n_draws=600, method=method)
        inside += found.low <= 1.0 <= found.high
    assert 0.90 <= inside / 300 <= 0.985  # 95% ± 3 standard errors, and the bootstrap's shortfall at 40 prompts


@pytest.mark.parametrize("method", ["percentile", "bca"])
def test_no_spread_is_said_by_an_interval_without_width(method: Method) -> None:
    found = bootstrap_mean([0.5] * 20, ids(20), rng(), method=method)
    assert (found.value, found.low, found.high) == (0.5, 0.5, 0.5)


def test_undefined_draws_are_left_out_or_refused() -> None:
    bottom = np.array([1.0] * 6 + [0.0] * 6)  # undefined in 2⁻¹² of the draws
    found = resampled(np.column_stack([np.arange(12) * bottom, bottom]), ids(12), ratio, rng(), "ratio")
    assert found.low <= found.value <= found.high
    with pytest.raises(DataError, match=r"undefined in \d+ of 10000 bootstrap draws"):
        resampled([[1, 1], [0, 0], [0, 0], [0, 0]], ids(4), ratio, rng(), "ratio")
    with pytest.raises(DataError, match="undefined on these 2 rows"):
        resampled([[0, 0], [0, 0]], ids(2), ratio, rng(), "ratio")


def test_every_stream_and_seed_draws_its_own_and_the_same_again() -> None:
    first = {(seed, stream): tuple(generator(seed, stream).random(3)) for seed in (0, 1, 42) for stream in Stream}
    again = {(seed, stream): tuple(generator(seed, stream).random(3)) for seed in (0, 1, 42) for stream in Stream}
    assert first == again
    assert len(set(first.values())) == len(first)
    assert tuple(generator(42, Stream.REWRITTEN, 0).random(3)) != tuple(generator(42, Stream.REWRITTEN, 1).random(3))


def test_a_stream_s_number_is_part_of_what_a_seed_means() -> None:
    assert generator(42, Stream.AUDIT_INTERVALS).random() == np.random.default_rng([42, 3]).random()


@pytest.mark.parametrize("most", [None, 9, 8, 3, 1])
def test_draws_are_distinct_and_in_order(most: int | None) -> None:
    items = [f"i{row}" for row in range(8)]
    found = drawn(items, most, 7)
    assert found == sorted(set(found)) and len(found) == min(len(items), most or 8)
    assert most in (None, 9, 8, 1) or found != drawn(items, most, 8)
