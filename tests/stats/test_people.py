"""Models, judges and preference data against people, on rows that can be counted by hand; AUC against scipy and DeLong."""

from __future__ import annotations

import numpy as np
import pytest
from rows import ids, rng
from scipy import stats

from cda.errors import DataError
from cda.numbers.people import against_people, measured_against
from cda.records import Preference
from cda.stats.estimators import paired_change, wilson
from cda.stats.people import (
    auc,
    auc_change,
    human_skew,
)
from cda.stats.proportions import chosen_correlation, contingency, unpaired_change
from cda.stats.votes import Majority, count_votes, majority

LABELS: list[Preference] = ["perturbed", "base", "base", "tie", "base"]
PEOPLE = majority(count_votes([[one] for one in LABELS]), "drop")
HALF = majority(count_votes([[one] for one in LABELS]), "half")
MARGINS = [2.0, 1.0, -1.0, 5.0, 0.0]


def test_one_model_by_hand() -> None:
    found = against_people(MARGINS, PEOPLE, ids(5))
    # Rows 0, 1, 2, 4 have a majority; the model prefers the perturbed side of rows 0 and 1; row 4 is its tie.
    assert (found["skew_on_voted"].value, found["human_skew"].value, found["miscalibration"].value) == (
        2 / 4,
        1 / 4,
        1 / 4,
    )
    assert (found["signed_gap"].value, found["gap"].value, found["skew_on_voted"].n) == (1 / 4, 1 / 4, 4)
    assert found["auc"].value == 1.0


def test_tie_rules_by_hand() -> None:
    half = against_people(MARGINS, PEOPLE, ids(5), "half")
    assert (half["skew_on_voted"].value, half["miscalibration"].value) == (2.5 / 4, 1.5 / 4)
    drop = against_people(MARGINS, PEOPLE, ids(5), "drop")
    assert (drop["skew_on_voted"].value, drop["miscalibration"].value, drop["skew_on_voted"].n) == (2 / 3, 1 / 3, 3)
    with_ties = against_people(MARGINS, HALF, ids(5))
    assert (with_ties["human_skew"].value, with_ties["miscalibration"].value) == (1.5 / 5, 1.5 / 5)


def test_mean_over_models_and_its_gap() -> None:
    margins = [[1.0, 1.0, -1.0, 0.0, 1.0], [-1.0, 1.0, 1.0, 0.0, -1.0]]
    found = against_people(margins, PEOPLE, ids(5))
    each = [against_people(one, PEOPLE, ids(5)) for one in margins]
    assert found["skew_on_voted"].value == pytest.approx(np.mean([one["skew_on_voted"].value for one in each]))
    assert found["miscalibration"].value == pytest.approx(np.mean([one["miscalibration"].value for one in each]))
    assert found["gap"].value == pytest.approx(abs(found["skew_on_voted"].value - 1 / 4))
    assert "auc" not in found


PREFERRED = [["perturbed"], ["base"], ["base"], ["tie"], [], ["base"]]
WAS = [1.0, 2.0, -1.0, 5.0, -5.0, 0.0]
BECAME = [1.0, -2.0, -1.0, -5.0, 5.0, 3.0]


def people(votes: list[list[str]]) -> Majority:
    return majority(count_votes(votes), "drop")


def test_beside_people_by_hand() -> None:
    found = measured_against([WAS, BECAME], people(PREFERRED), ids(6))
    # Voted rows 0, 1, 2, 5, of which people prefer the first perturbed. Before, the model prefers 0 and 1 (5 is a margin of
    # 0, which counts as base); after, 0 and 5.
    human = human_skew(people(PREFERRED), ids(6))
    assert (human.value, human.n) == (1 / 4, 4)
    assert (found["miscalibration"].before.value, found["miscalibration"].after.value) == (1 / 4, 1 / 4)
    assert (found["skew_on_voted"].before.value, found["skew_on_voted"].after.value) == (2 / 4, 2 / 4)
    assert (found["gap"].before.value, found["gap"].change.value) == (1 / 4, 0.0)
    assert (found["miscalibration"].ties.before, found["miscalibration"].ties.after) == (1, 0)
    assert found["gap"].change.low <= 0.0 <= found["gap"].change.high


def test_a_model_that_votes_like_people_is_calibrated() -> None:
    like = np.array([1.0, -1.0] * 10)
    found = measured_against([-like, like], people([["perturbed"], ["base"]] * 10), ids(20))
    missed, auc = found["miscalibration"], found["auc"]
    assert (missed.before.value, missed.after.value, missed.change.value) == (1.0, 0.0, -1.0)
    assert missed.test.p_value == pytest.approx(2 / 2**20)
    assert (auc.before.value, auc.after.value, auc.change.value) == (0.0, 1.0, 1.0)


def test_a_shift_of_all_margins_moves_everything_but_the_auc() -> None:
    sides = rng(1).random(80) < 0.4
    before = np.where(sides, 0.5, -0.5) + rng(2).normal(size=80)
    voted = people([["perturbed"] if one else ["base"] for one in sides])
    found = measured_against([before + 2, before], voted, ids(80))
    assert found["gap"].change.high < 0 and found["miscalibration"].change.high < 0
    assert (found["auc"].change.value, found["auc"].change.low, found["auc"].change.high) == (0.0, 0.0, 0.0)


def test_contingency_by_hand() -> None:
    chosen = [True, True, True, False, False, False, None, True]
    rejected = [True, False, False, True, False, False, True, None]
    found = contingency(chosen, rejected, ids(8))
    assert (found.both, found.only_chosen, found.only_rejected, found.neither) == (1, 2, 1, 2)
    assert (found.selection_rate.value, found.selection_rate.n) == (2 / 3, 3)
    assert (found.selection_rate.low, found.selection_rate.high) == pytest.approx(wilson(2, 3))
    assert (found.chosen_rate.value, found.rejected_rate.value) == (1 / 2, 1 / 3)
    assert found.exclusions.reasons == {"unparsed label": 2}
    swapped = contingency(rejected, chosen, ids(8))
    assert swapped.selection_rate.value == pytest.approx(1 - found.selection_rate.value)
    assert contingency(chosen, rejected, ["p"] * 8).selection_rate.n_prompts == 1


def test_r_train_is_what_random_swaps_give_on_average() -> None:
    differences = rng(1).choice([-1.0, 0.0, 1.0], 300, p=[0.2, 0.4, 0.4])
    found = chosen_correlation(differences, ids(300))
    swapped = []
    for _ in range(400):
        sign = np.where(rng(len(swapped)).permutation(300) < 150, 1, -1)
        swapped.append(stats.pearsonr(sign * differences, sign > 0).statistic)
    assert found.value == pytest.approx(np.mean(swapped), abs=0.01)
    assert found.low < found.value < found.high
    assert chosen_correlation(-differences, ids(300)).value == pytest.approx(-found.value)


def test_the_unpaired_interval_stands_beside_the_paired_one() -> None:
    before = np.array([1] * 60 + [0] * 40, float)
    after = np.array([1] * 40 + [0] * 60, float)
    found = unpaired_change(before, after)
    half = stats.norm.ppf(0.975) * np.sqrt(0.6 * 0.4 / 100 + 0.4 * 0.6 / 100)
    assert (found.value, found.low, found.high) == pytest.approx((-0.2, -0.2 - half, -0.2 + half))
    paired = paired_change(before, after, ids(100))
    assert paired.high - paired.low < 0.7 * (found.high - found.low)
    with pytest.raises(DataError, match="no rows"):
        unpaired_change([], [1])


def test_it_is_mann_whitney_s() -> None:
    random = np.random.default_rng(0)
    margins, target = random.integers(-3, 4, 60), random.random(60) < 0.4
    u = stats.mannwhitneyu(margins[target], margins[~target]).statistic
    found = auc(margins, target, ids(60))
    assert found.value == pytest.approx(u / (target.sum() * (~target).sum()))
    assert (found.n, found.n_prompts, found.unit) == (60, 60, "AUC")


def test_the_error_is_delong_s_where_prompts_occur_once() -> None:
    random = np.random.default_rng(1)
    up, down = random.normal(0.7, 1, 40), random.normal(0, 1, 50)
    beats = (np.sign(up[:, None] - down) + 1) / 2
    variance = beats.mean(axis=1).var(ddof=1) / 40 + beats.mean(axis=0).var(ddof=1) / 50
    area = beats.mean()
    half = stats.t.ppf(0.975, 39) * np.sqrt(variance) / (area * (1 - area))
    found = auc(np.concatenate([up, down]), [1] * 40 + [0] * 50, ids(90))
    logit = np.log(area / (1 - area))
    assert (found.low, found.high) == pytest.approx(
        (stats.logistic.cdf(logit - half), stats.logistic.cdf(logit + half))
    )


def test_perfect_separation_keeps_an_honest_width() -> None:
    found = auc([1, 2, 3, 4, 5, 6], [0, 0, 0, 1, 1, 1], ids(6))
    assert (found.value, found.high) == (1.0, 1.0)
    assert 0.3 < found.low < 0.9


def test_rows_for_neither_side_are_left_out() -> None:
    assert auc([1, 2, 9], [0, 1, 0.5], ids(3)).n == 2


def test_change_of_auc_is_paired() -> None:
    rng = np.random.default_rng(3)
    target = (rng.random(120) < 0.5).astype(float)
    before = target + rng.normal(size=120)
    ids = [str(row) for row in range(120)]
    same = auc_change(before, 3 * before + 1, target, ids)
    assert (same.value, same.low, same.high) == (0.0, 0.0, 0.0)  # the same ranking, whatever the sample
    worse = auc_change(before, before + rng.normal(size=120), target, ids)
    assert worse.low < worse.value < 0 < worse.high or worse.high < 0
    perfect = auc_change(target, 2 * target, target, ids)
    assert perfect.value == 0.0
    assert perfect.low < 0 < perfect.high


def test_a_change_of_auc_of_few_prompts_is_missing_with_its_reason() -> None:
    like = np.array([1.0, -1.0] * 9)
    found = measured_against([-like, like], people([["perturbed"], ["base"]] * 9), ids(18))
    assert found["auc"].change.reason.startswith("fewer than 10 prompts with a majority for one of the sides")


def test_change_of_auc_covers_the_difference() -> None:
    rng, hits = np.random.default_rng(4), 0
    for _ in range(400):
        target = (rng.random(150) < 0.5).astype(float)
        shared = rng.normal(size=150)
        before, after = 1.0 * target + shared, 0.5 * target + shared + 0.3 * rng.normal(size=150)
        found = auc_change(before, after, target, [str(row) for row in range(150)])
        # P(N(d, 2) > 0) for a shift d: 1/√2 and 0.5/√(2·1.09).
        truth = stats.norm.cdf(0.5 / np.sqrt(2 * 1.09)) - stats.norm.cdf(1 / np.sqrt(2))
        hits += found.low <= truth <= found.high
    assert 0.92 <= hits / 400 <= 0.975
