"""Direct contrasts, never RATE, differences of two groups, and margins that all pairs share."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from cda.results.base import Missing
from cda.stats.rate import direct_contrast, same_in_all


def test_a_paired_mean_under_its_own_name() -> None:
    random = np.random.default_rng(0)
    margins = random.normal(0.3, 0.2, 50)
    found = direct_contrast(margins, [f"p{row}" for row in range(50)])
    assert (found.estimand, found.estimator) == ("mean margin", "direct contrast")
    assert found.estimate.value == pytest.approx(margins.mean())
    assert found.standard_error == pytest.approx(stats.sem(margins))
    assert isinstance(found.standardised, Missing) and found.standardised.reason


PROMPTS = ["a", "b", "b", "c"]


@pytest.mark.parametrize("value", [1.0, -1.0, 0.1 + 0.2])
def test_prompts_and_not_pairs_are_counted(value: float) -> None:
    found = same_in_all([value] * 4, PROMPTS)
    assert found is not None
    assert (found.value, found.n, found.n_prompts, found.p_value) == (value, 4, 3, pytest.approx(2 * 0.5**3))


def test_a_margin_of_0_has_no_sign_to_test() -> None:
    found = same_in_all([0.0] * 4, PROMPTS)
    assert found is not None
    assert (found.value, found.n, found.n_prompts, found.p_value) == (0.0, 4, 3, None)


@pytest.mark.parametrize(
    ("margins", "prompts"),
    [
        ([1.0, 1.0, 1.0, 0.9], PROMPTS),
        ([1.0, 2.0, 0.0, 1.0], PROMPTS),  # each prompt's mean is the same, its pairs' margins are not
        ([1.0, 1.0], ["a", "a"]),  # one prompt says nothing of others
        ([float("nan")] * 4, PROMPTS),
    ],
)
def test_margins_that_differ_or_are_of_one_prompt_are_not_the_same(margins: list[float], prompts: list[str]) -> None:
    assert same_in_all(margins, prompts) is None
