"""Weights of pairs by what surface features tell of their choices: a planted rule, folds, balance, the cut, and the effective number."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import NDArray
from rows import ids, rng

from cda.errors import DataError
from cda.stats.choice_weights import FOLDS, MOST, choice_weights, effective_n
from cda.stats.proportions import chosen_correlation

Floats = NDArray[np.float64]


def planted(n: int, agree: float, seed: int = 1) -> Floats:
    """Differences in length of which a share points to the chosen side."""
    sizes = rng(seed).uniform(0.5, 2, n)
    return sizes * np.where(rng(seed + 1).random(n) < agree, 1.0, -1.0)


def test_a_planted_rule_of_length_gets_little_weight_on_the_pairs_that_it_explains() -> None:
    length = planted(2000, agree=0.85)
    found = choice_weights({"length": length, "noise": rng(5).normal(size=2000)}, ids(2000, 2), rng())
    explained, against = found.weights[length > 0], found.weights[length < 0]
    assert found.weights.mean() == pytest.approx(1)
    assert explained.max() < against.min()
    # What the weighted pairs show of the rule is nothing: the differences towards chosen and rejected add up to as much.
    assert abs((found.weights * length).sum()) < 0.02 * (found.weights * np.abs(length)).sum()
    assert explained.mean() < 0.7 and against.mean() > 2.5
    assert (found.told[length > 0] > 0.5).all()


def test_weighted_pairs_say_nothing_of_the_features_any_more() -> None:
    """Choices drawn from the model itself: the correlation of each feature with being chosen is that of chance."""
    x = rng(3).normal(size=(4000, 2))
    x *= np.where(rng(4).random(4000) < 1 / (1 + np.exp(-x @ [1.0, -0.5])), 1.0, -1.0)[:, None]
    own = ids(4000)
    found = choice_weights({"a": x[:, 0], "b": x[:, 1]}, own, rng())
    for column in x.T:
        before, after = chosen_correlation(column, own), chosen_correlation(column, own, found.weights)
        assert abs(before.value) > 0.15 > 0.05 > abs(after.value) and after.low < 0 < after.high
    # In alike pairs both choices get the same total: w = 1 − p, before the scale.
    assert found.weights * (1 - found.told).mean() == pytest.approx(1 - found.told)


def test_weights_of_no_use_are_all_but_alike() -> None:
    found = choice_weights({"noise": rng(7).normal(size=1000)}, ids(1000), rng())
    assert found.weights.std() < 0.1 and effective_n(found.weights) > 990


def test_no_pair_is_told_by_its_own_prompt() -> None:
    """The choices of one prompt turned round change the probabilities of other prompts, and its own into the other side's."""
    x, own = planted(300, agree=0.75), ids(300, 3)
    turned = x.copy()
    turned[:3] *= -1
    before, after = (choice_weights({"length": each}, own, rng()).told for each in (x, turned))
    assert after[:3] == pytest.approx(1 - before[:3], abs=1e-12)
    moved = {own[at] for at in np.flatnonzero(np.abs(before - after) > 1e-12)} - {"p0"}
    assert len(moved) == 100 - 100 // FOLDS  # those of the four other folds alone


def test_rows_of_one_prompt_are_in_one_fold_and_the_generator_decides_which() -> None:
    x, own = planted(200, agree=0.7), ids(200, 4)
    told = [choice_weights({"length": x}, own, rng(seed)).told for seed in (0, 0, 1)]
    assert (told[0] == told[1]).all() and (told[0] != told[2]).any()
    slopes = (np.log(told[0] / (1 - told[0])) / x).reshape(-1, 4)
    assert np.ptp(slopes, axis=1) == pytest.approx(0) and len(np.unique(slopes[:, 0].round(9))) == FOLDS


def test_no_weight_is_above_five_means_even_where_all_but_a_few_choices_are_told() -> None:
    length = np.ones(500)
    length[:4] = -1
    found = choice_weights({"length": length}, ids(500), rng())
    assert found.n_capped == 4 and (found.weights[:4] == found.weights.max()).all()
    raw = 1 - found.told
    assert found.weights.max() == pytest.approx(MOST * raw.mean() / np.minimum(raw, MOST * raw.mean()).mean())


def test_terms_that_separate_repeat_or_never_differ_do_no_harm() -> None:
    ones = np.ones(60)
    found = choice_weights({"all": ones, "again": ones, "never": 0 * ones}, ids(60), rng())
    assert np.isfinite(found.weights).all() and found.weights == pytest.approx(1, rel=0.05)


def test_too_few_prompts_or_nothing_that_differs() -> None:
    with pytest.raises(DataError, match="pairs of 9 prompts; weights need 10"):
        choice_weights({"length": planted(90, 0.7)}, ids(90, 10), rng())
    with pytest.raises(DataError, match="no pair differs in any bias or in length"):
        choice_weights({"length": np.zeros(50)}, ids(50), rng())
    with pytest.raises(DataError, match="1 of 50 differences in length are NaN or infinite"):
        choice_weights({"length": np.array([np.nan] + [1.0] * 49)}, ids(50), rng())


def test_the_effective_number_by_hand() -> None:
    assert effective_n(np.ones(7)) == pytest.approx(7)
    assert effective_n(np.array([2.0, 1.0, 1.0])) == pytest.approx(16 / 6)
    assert effective_n(np.array([3.0, 0.0, 0.0])) == pytest.approx(1)
    assert effective_n(np.array([1e200, 1e200])) == pytest.approx(2)
    assert effective_n(np.zeros(3)) == 0


def test_a_weighted_correlation_is_that_of_repeated_pairs() -> None:
    x, times = planted(60, agree=0.7), rng(2).integers(0, 4, 60)
    own = ids(60)
    repeated = chosen_correlation(np.repeat(x, times), np.repeat(own, times).tolist())
    assert chosen_correlation(x, own, times.astype(float)).value == pytest.approx(repeated.value)
    assert chosen_correlation(x, own, np.full(60, 0.3)).value == pytest.approx(chosen_correlation(x, own).value)
