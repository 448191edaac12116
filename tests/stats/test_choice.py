"""Odds of choices: known answers, an independent maximum and sandwich, planted truth, and terms that cannot be estimated."""

from __future__ import annotations

from collections.abc import Callable
from itertools import combinations_with_replacement, groupby
from math import exp, log, sqrt

import numpy as np
import pytest
from numpy.typing import NDArray
from rows import ids
from scipy import optimize, stats

from cda.errors import DataError
from cda.results.base import Missing
from cda.results.effects import LogOdds
from cda.stats.choice import choice_log_odds

Floats = NDArray[np.float64]


def estimated(found: LogOdds | Missing) -> LogOdds:
    assert isinstance(found, LogOdds), found
    return found


def reason(found: LogOdds | Missing) -> str:
    assert isinstance(found, Missing), found
    return found.reason


def chosen_first(x: Floats, beta: Floats, rng: np.random.Generator) -> Floats:
    """Differences of sides a − b as chosen − rejected, where a is chosen with the model's probability."""
    return x * np.where(rng.random(len(x)) < 1 / (1 + np.exp(-x @ beta)), 1.0, -1.0)[:, None]


def test_one_label_by_hand() -> None:
    x = [1.0] * 30 + [-1.0] * 10 + [0.0] * 60
    odds = estimated(choice_log_odds({"jargon": x}, ids(100))["jargon"])
    assert odds.estimate.value == pytest.approx(log(3))
    error = sqrt(40 / 39 * (1 / 30 + 1 / 10))  # Woolf's, with the factor of 40 prompts
    assert odds.standard_error == pytest.approx(error)
    assert odds.estimate.high == pytest.approx(log(3) + stats.t.ppf(0.975, 39) * error)
    assert (odds.estimate.n, odds.estimate.n_prompts, odds.estimate.unit) == (40, 40, "log odds")
    assert odds.test.p_value == pytest.approx(2 * stats.t.sf(log(3) / error, 39))
    # Copies of every pair within its prompt say nothing new.
    twice = estimated(choice_log_odds({"jargon": np.repeat(x, 2)}, ids(200, 2))["jargon"])
    assert twice.standard_error == pytest.approx(error)


def test_the_joint_fit_is_an_independent_maximum_with_an_independent_sandwich() -> None:
    rng = np.random.default_rng(3)
    prompts = ids(240, 3)
    shared = np.repeat(rng.normal(size=(80, 1)), 3, axis=0)
    x = np.column_stack([rng.integers(-1, 2, 240), rng.integers(-1, 2, 240), rng.normal(size=240)]) + 0.3 * shared
    x = chosen_first(x, np.array([0.8, -0.4, 0.5]), rng)
    found = choice_log_odds({"a": x[:, 0], "b": x[:, 1], "c": x[:, 2]}, prompts)

    def loss(beta: Floats) -> float:
        return float(np.log1p(np.exp(-(x @ beta))).sum())

    best = optimize.minimize(
        loss, np.zeros(3), method="Nelder-Mead", options={"xatol": 1e-9, "fatol": 1e-12, "maxiter": 5000}
    ).x
    step, unit = 1e-4, np.eye(3)
    hessian = np.array(
        [
            [
                (loss(best + step * (unit[i] + unit[j])) - loss(best + step * (unit[i] - unit[j]))
                 - loss(best - step * (unit[i] - unit[j])) + loss(best - step * (unit[i] + unit[j]))) / (4 * step**2)
                for j in range(3)
            ]
            for i in range(3)
        ]
    )  # fmt: skip
    meat = np.zeros((3, 3))
    for _, rows in groupby(range(240), key=lambda row: prompts[row]):
        score = sum((x[row] * (1 - 1 / (1 + exp(-float(x[row] @ best)))) for row in rows), np.zeros(3))
        meat += np.outer(score, score)
    covariance = np.linalg.inv(hessian) @ meat @ np.linalg.inv(hessian) * 80 / 79
    for at, name in enumerate("abc"):
        odds = estimated(found[name])
        assert odds.estimate.value == pytest.approx(best[at], abs=1e-5)
        assert odds.standard_error == pytest.approx(sqrt(covariance[at, at]), rel=1e-4)


def test_what_goes_along_with_length_alone_is_adjusted_away() -> None:
    rng = np.random.default_rng(5)
    length = rng.normal(size=1500)
    jargon = np.sign(length) * (rng.random(1500) < 0.5)
    x = chosen_first(np.column_stack([jargon, length]), np.array([0.0, 1.0]), rng)
    crude = estimated(choice_log_odds({"jargon": x[:, 0]}, ids(1500))["jargon"])
    adjusted = choice_log_odds({"jargon": x[:, 0], "length": x[:, 1]}, ids(1500))
    assert crude.estimate.low > 0.4
    assert estimated(adjusted["jargon"]).estimate.low < 0 < estimated(adjusted["jargon"]).estimate.high
    assert estimated(adjusted["length"]).estimate.low < 1 < estimated(adjusted["length"]).estimate.high


def test_a_term_that_cannot_be_estimated_is_named_and_the_others_stay() -> None:
    rng = np.random.default_rng(7)
    n = 200
    good = rng.choice([-1.0, 1.0], n, p=[0.4, 0.6])
    few = np.where(np.arange(n) < 8, good, 0.0)
    sure = np.where(np.arange(n) < 20, 1.0, 0.0)
    found = choice_log_odds({"good": good, "none": np.zeros(n), "few": few, "sure": sure}, ids(n))
    assert reason(found["none"]) == "no pair differs in it"
    assert reason(found["few"]) == "pairs of 8 prompts differ in it; 10 are needed"
    assert "in all 20 pairs that differ in it the chosen side has more of it" in reason(found["sure"])
    alone = choice_log_odds({"good": good[20:]}, ids(n)[20:])["good"]
    assert estimated(found["good"]).estimate.value == pytest.approx(estimated(alone).estimate.value)


def test_a_term_whose_pairs_another_decides_is_missing_with_that_reason() -> None:
    good = np.where(np.arange(60) % 3 == 0, -1.0, 1.0) * (np.arange(60) >= 20)
    sure, within, hardly = (np.where((np.arange(60) >= low) & (np.arange(60) < 20), 1.0, 0.0) for low in (0, 10, 8))
    hardly[20:23] = -1.0
    found = choice_log_odds({"sure": sure, "within": within, "hardly": hardly, "good": good}, ids(60))
    assert "in all 20 pairs that differ in it the chosen side" in reason(found["sure"])
    assert reason(found["within"]) == "no pair differs in it whose choice is not told by sure already"
    assert reason(found["hardly"]) == (
        "pairs of 3 prompts differ in it whose choice is not told by sure already; 10 are needed"
    )
    assert estimated(found["good"]).estimate.n == 40


DESIGNS: dict[str, Callable[[np.random.Generator, int], Floats]] = {
    "none": lambda _, n: np.zeros(n),
    "all chosen": lambda _, n: np.ones(n),
    "all rejected": lambda _, n: -np.ones(n),
    "half chosen": lambda _, n: (np.arange(n) % 2).astype(float),
    "other half rejected": lambda _, n: -((np.arange(n) + 1) % 2).astype(float),
    "one pair": lambda _, n: (np.arange(n) == 0).astype(float),
    "mixed": lambda rng, n: rng.choice([-1.0, 0.0, 1.0], n),
    "length": lambda rng, n: rng.normal(size=n),
    "tiny": lambda rng, n: 1e-9 * rng.normal(size=n),
    "huge": lambda rng, n: 1e9 * rng.normal(size=n),
}


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("n", [1, 2, 9, 10, 11, 24])
@pytest.mark.parametrize("n_terms", [1, 2, 3])
def test_every_small_design_gives_numbers_or_reasons(n: int, n_terms: int) -> None:
    """Terms of every kind next to each other, and one that is the sum of them."""
    n_odds, rng = 0, np.random.default_rng(n)
    for kinds in combinations_with_replacement(DESIGNS, n_terms):
        columns = {f"{kind} {at}": DESIGNS[kind](rng, n) for at, kind in enumerate(kinds)}
        if n_terms > 1:
            columns["sum"] = np.sum([*columns.values()], axis=0)
        for n_prompts in {n, max(1, n // 2)}:
            for term, found in choice_log_odds(columns, [str(row % n_prompts) for row in range(n)]).items():
                if isinstance(found, Missing):
                    assert found.reason, (kinds, term)
                    continue
                n_odds += 1
                ends = (found.estimate.low, found.estimate.value, found.estimate.high, found.standard_error)
                assert np.isfinite(ends).all() and 0 <= found.test.p_value <= 1, (kinds, term)
    assert (n_odds > 0) == (n >= 10)


def test_terms_that_add_up_or_decide_together_are_named() -> None:
    rng = np.random.default_rng(9)
    a, b = (rng.choice([-1.0, 1.0], 120, p=[0.4, 0.6]) for _ in range(2))
    c = rng.normal(size=120)
    found = choice_log_odds({"a": a, "c": c, "double": 2 * a}, ids(120))
    assert "it cannot be told from a" in reason(found["double"]) and "from double" in reason(found["a"])
    alone = choice_log_odds({"a": a, "c": c}, ids(120))["c"]
    assert estimated(found["c"]).estimate.value == pytest.approx(estimated(alone).estimate.value)
    # Neither tells every choice, and 3 · first + second does.
    first = np.where(a == 1, 1.0, -0.2)
    together = choice_log_odds({"first": first, "second": np.where(a == 1, -1.0, 1.0), "b": b}, ids(120))
    assert "first and second together tell choices without exception" in reason(together["first"])
    assert "without exception" in reason(together["second"])
    with pytest.raises(DataError, match="one each is needed"):
        choice_log_odds({"a": [1.0, 2.0]}, ["p"])
