"""Fits of corrections: an independent optimiser agrees, sides can be swapped, a planted bias is found, and none where none is."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from scipy import optimize

from cda.arrays import FloatArray
from cda.calibration.calibrate import calibration_effects
from cda.calibration.fit import (
    FOLDS,
    PRIOR_SD,
    Problem,
    Scored,
    choose_strength,
    corrected_apart,
    fit_of,
    fitted,
    folds_of,
    newton,
)
from cda.records import Exclusions
from cda.results.base import Estimate
from cda.stats.votes import Majority

N, M = 240, 120


def made(planted: float, seed: int = 0, n: int = N, ties: Any = "no-hit") -> Problem:
    """One bias: people follow a hidden value; the scorer also likes the side with the bias, and a measure of it."""
    rng = np.random.default_rng(seed)
    value, measure = rng.normal(size=n), rng.normal(1, 1, n)
    margins = value + planted * (0.8 + 0.6 * measure) + 0.3 * rng.normal(size=n)
    target = (value + 0.5 * rng.normal(size=n) > 0).astype(float)
    quality_terms = np.column_stack([np.zeros(M), rng.normal(size=M)])
    quality = 1 + rng.normal(size=M) + planted * 0.6 * quality_terms[:, 1]
    return Problem(
        Scored(margins, np.column_stack([np.ones(n), measure]), [f"p{row // 2}" for row in range(n)]),
        Majority(target, np.ones(n, dtype=bool), "drop", Exclusions(n, {})),
        ("length",) * n,
        Scored(quality, quality_terms, [f"q{row}" for row in range(M)]),
        ties,
    )


def test_newton_agrees_with_an_independent_optimiser_draw_by_draw() -> None:
    rng = np.random.default_rng(1)
    design, target = rng.normal(size=(50, 3)), rng.choice([0.0, 0.5, 1.0], size=50)
    weights = rng.integers(0, 4, size=(3, 50)).astype(float)

    def loss(beta: FloatArray, own: FloatArray) -> float:
        odds = design @ beta
        return float((own * (np.logaddexp(0, odds) - target * odds)).sum() + (beta**2).sum() / (2 * PRIOR_SD**2))

    for own, found in zip(weights, newton(design, target, weights), strict=True):
        best = optimize.minimize(loss, np.zeros(3), args=(own,), method="BFGS", options={"gtol": 1e-8})
        assert found == pytest.approx(best.x, abs=1e-5)


def test_swapping_the_sides_of_pairs_changes_no_correction() -> None:
    problem = made(1.0)
    turned = np.where(np.random.default_rng(2).random(N) < 0.5, -1.0, 1.0)
    rows, target, once = problem.contrasts, problem.people.target, np.ones((1, N))
    swapped = Scored(rows.margins * turned, rows.terms * turned[:, None], rows.prompt_ids)
    other = np.where(turned < 0, 1 - target, target)
    assert fitted(swapped, other, once).corrections == pytest.approx(fitted(rows, target, once).corrections, rel=1e-6)


def test_units_of_margins_and_terms_do_not_matter() -> None:
    problem = made(1.0)
    rows, target, once = problem.contrasts, problem.people.target, np.ones((1, N))
    scaled = Scored(rows.margins * 10, rows.terms * np.array([1, 100]), rows.prompt_ids)
    assert fitted(scaled, target, once).corrections / [[10, 0.1]] == pytest.approx(
        fitted(rows, target, once).corrections, rel=1e-6
    )


def test_votes_for_one_side_alone_and_terms_of_zeros_leave_finite_corrections() -> None:
    problem = made(1.0)
    rows = replace(problem.contrasts, terms=problem.contrasts.terms * [1, 0])
    found = fitted(rows, np.zeros(N), np.ones((1, N))).corrections
    assert np.isfinite(found).all() and found[0, 0] > 1 and found[0, 1] == 0


def test_a_row_is_never_corrected_by_votes_of_its_own_half() -> None:
    problem = made(1.0)
    prompts = problem.prompts
    weights = np.ones((2, len(prompts.strata)))
    first = np.zeros(weights.shape, dtype=bool)
    first[:, ::2] = True
    turned = np.where(first[0, prompts.of_contrast], problem.people.target, 1 - problem.people.target)
    other = replace(problem, people=replace(problem.people, target=turned))
    held, again = (corrected_apart(own, prompts, weights, first, 0.5) for own in (problem, other))
    second = ~first[0, prompts.of_contrast]
    assert (held.margins[:, second] == again.margins[:, second]).all()
    assert (held.margins[:, ~second] != again.margins[:, ~second]).any()


def test_folds_divide_the_drawn_prompts_of_every_stratum() -> None:
    strata, weights = np.repeat([1, 2], 25), np.ones((4, 50))
    weights[:, :5] = 0
    folds = folds_of(strata, weights, np.random.default_rng(0))
    for row in folds:
        assert sorted(np.bincount(row[5:25], minlength=FOLDS)) == [4] * FOLDS
        assert sorted(np.bincount(row[25:], minlength=FOLDS)) == [5] * FOLDS


def test_a_prompt_drawn_twice_counts_as_two_prompts_of_the_same_rows() -> None:
    """But for the sizes of columns, by which the prior is scaled: they are those of all rows, drawn or not."""
    problem = made(1.0, n=80)
    prompts = problem.prompts
    weights = np.ones((1, len(prompts.strata)))
    weights[0, prompts.of_contrast[:2]] = 2
    rows = problem.contrasts
    doubled = replace(
        problem,
        contrasts=Scored(
            np.append(rows.margins, rows.margins[:2]), np.vstack([rows.terms, rows.terms[:2]]), [*rows.prompt_ids, "c", "c"]
        ),
        people=replace(
            problem.people, target=np.append(problem.people.target, problem.people.target[:2]), used=np.ones(82, dtype=bool)
        ),
        biases=("length",) * 82,
    )  # fmt: skip
    own = doubled.prompts
    assert fit_of(problem, prompts, weights).corrections == pytest.approx(
        fit_of(doubled, own, np.ones((1, len(own.strata)))).corrections, rel=0.002
    )


def test_a_strength_that_loses_accuracy_is_barred() -> None:
    problem = made(1.0)
    hurt = replace(problem, quality=Scored(np.full(M, 0.01), np.ones((M, 2)), problem.quality.prompt_ids))
    rng = np.random.default_rng(0)
    assert [choose_strength(own, 2, rng, limit).strength > 0 for own, limit in ((problem, 0.01), (hurt, 0.01), (hurt, 1.0))] == [
        True, False, True,
    ]  # fmt: skip


def test_the_gain_of_a_constant_taste_is_that_of_two_forecasts_by_hand() -> None:
    """People vote for the perturbed side on 30% of prompts, the scorer for it on all, and half of what remains is taken off."""
    n = 100
    target = np.repeat([1.0, 0.0], [30, 70])
    margins = np.where(target > 0, 2.0, 1.0)
    rows = Scored(margins, np.ones((n, 1)), [f"p{row}" for row in range(n)])
    people = Majority(target, np.ones(n, dtype=bool), "drop", Exclusions(n, {}))
    none = Scored(np.zeros(0), np.zeros((0, 1)), [])
    found = choose_strength(Problem(rows, people, ("length",) * n, none, "no-hit"), 3, np.random.default_rng(0), 0.01)
    # As it is: (1 − 0)² on 70 of 100. Corrected, its share is people's, 0.3: 0.7 · 0.3² + 0.3 · 0.7².
    assert found.strength > 0 and max(gain.estimate.value for gain in found.gains.values()) == pytest.approx(0.7 - 0.21)


def test_a_planted_bias_is_taken_off_and_the_interval_says_so() -> None:
    found = calibration_effects(made(1.0), seed=1, repeats=10, max_loss=0.01)
    own = found.biases["length"]
    assert found.strength > 0 and own.base["gap"].value > 0.25
    assert own.calibrated["gap"].value < own.base["gap"].value / 2
    assert own.change["gap"].high < 0 and own.change["miscalibration"].high < 0
    assert own.change["gap"].value == pytest.approx(own.calibrated["gap"].value - own.base["gap"].value)
    assert found.quality is not None and isinstance(found.quality.change, Estimate)
    assert found.quality.change.value > -0.03
    assert found.strengths[f"{found.strength:g}"].low > 0
    assert found.fit.corrections[0, 1] == pytest.approx(0.6, abs=0.25)
    low, high = np.quantile(found.drawn.corrections[:, 1], (0.025, 0.975))
    assert 0.2 < low < found.fit.corrections[0, 1] < high < 0.9


def test_where_nothing_is_planted_most_choices_are_none_and_nothing_is_lost() -> None:
    found = [calibration_effects(made(0.0, seed, n=120), seed=1, repeats=5, max_loss=0.01) for seed in range(4)]
    assert [own.strength for own in found] == [0.0] * 4
    assert all(own.biases["length"].change["gap"].value == 0 for own in found)


def test_ties_of_a_judge_count_half_as_it_is_and_are_decided_once_corrected() -> None:
    problem = made(1.0, ties="half")
    rows = replace(problem.contrasts, margins=np.where(np.arange(N) % 4 == 0, 0.0, problem.contrasts.margins))
    found = calibration_effects(replace(problem, contrasts=rows), seed=1, repeats=5, max_loss=0.01)
    own = found.biases["length"]
    hits = np.where(rows.margins == 0, 0.5, rows.margins > 0)
    assert own.base["skew_on_voted"].value == pytest.approx(hits.mean())
    assert own.calibrated["skew_on_voted"].value < own.base["skew_on_voted"].value
