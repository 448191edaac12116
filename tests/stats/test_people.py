"""Models, judges, panels and preference data against people, by hand; AUC against scipy and DeLong, PPI++ against ppi-python."""

from __future__ import annotations

from itertools import permutations

import numpy as np
import pytest
from numpy.typing import ArrayLike
from rows import ids, rng
from scipy import stats

from cda.arrays import FloatArray
from cda.errors import DataError
from cda.records import Exclusions, Preference
from cda.results.base import Estimate, Missing
from cda.stats.estimators import Z, paired_change, wilson
from cda.stats.people import (
    PoweredShare,
    against_people,
    alpha_change,
    auc,
    auc_change,
    human_skew,
    left_out,
    mean_against_people,
    panel_margins,
    people_change,
    powered_human_skew,
    powered_miscalibration,
    prediction_powered_mean,
    verdict_counts,
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
    assert (found.skew.value, found.human_skew.value, found.miscalibration.value) == (2 / 4, 1 / 4, 1 / 4)
    assert (found.signed_gap.value, found.gap.value, found.n_ties, found.skew.n) == (1 / 4, 1 / 4, 1, 4)
    assert found.auc is not None and found.auc.value == 1.0


def test_tie_rules_by_hand() -> None:
    half = against_people(MARGINS, PEOPLE, ids(5), "half")
    assert (half.skew.value, half.miscalibration.value) == (2.5 / 4, 1.5 / 4)
    drop = against_people(MARGINS, PEOPLE, ids(5), "drop")
    assert (drop.skew.value, drop.miscalibration.value, drop.skew.n, drop.n_ties) == (2 / 3, 1 / 3, 3, 1)
    with_ties = against_people(MARGINS, HALF, ids(5))
    assert (with_ties.human_skew.value, with_ties.miscalibration.value) == (1.5 / 5, 1.5 / 5)


def test_mean_over_models_and_its_gap() -> None:
    margins = [[1.0, 1.0, -1.0, 0.0, 1.0], [-1.0, 1.0, 1.0, 0.0, -1.0]]
    found = mean_against_people(margins, PEOPLE, ids(5))
    each = [against_people(one, PEOPLE, ids(5)) for one in margins]
    assert found.skew.value == pytest.approx(np.mean([one.skew.value for one in each]))
    assert found.miscalibration.value == pytest.approx(np.mean([one.miscalibration.value for one in each]))
    assert found.gap.value == pytest.approx(abs(found.skew.value - 1 / 4))
    assert (found.auc, found.n_ties) == (None, 0)


PREFERRED = [["perturbed"], ["base"], ["base"], ["tie"], [], ["base"]]
WAS = [1.0, 2.0, -1.0, 5.0, -5.0, 0.0]
BECAME = [1.0, -2.0, -1.0, -5.0, 5.0, 3.0]


def people(votes: list[list[str]]) -> Majority:
    return majority(count_votes(votes), "drop")


def test_beside_people_by_hand() -> None:
    found = people_change(WAS, BECAME, people(PREFERRED), ids(6))
    # Voted rows 0, 1, 2, 5, of which people prefer the first perturbed. Before, the model prefers 0 and 1 (5 is a margin of
    # 0, which counts as base); after, 0 and 5.
    human = human_skew(people(PREFERRED), ids(6))
    assert (human.value, human.n) == (1 / 4, 4)
    assert (found.miscalibration.before.value, found.miscalibration.after.value) == (1 / 4, 1 / 4)
    assert (found.skew_on_voted.before.value, found.skew_on_voted.after.value) == (2 / 4, 2 / 4)
    assert (found.gap.before.value, found.gap.change.value) == (1 / 4, 0.0)
    assert (found.miscalibration.ties.before, found.miscalibration.ties.after) == (1, 0)
    assert found.gap.change.low <= 0.0 <= found.gap.change.high


def test_a_model_that_votes_like_people_is_calibrated() -> None:
    like = np.array([1.0, -1.0] * 5)
    found = people_change(-like, like, people([["perturbed"], ["base"]] * 5), ids(10))
    missed, auc = found.miscalibration, found.auc
    assert (missed.before.value, missed.after.value, missed.change.value) == (1.0, 0.0, -1.0)
    assert missed.test.p_value == pytest.approx(2 / 2**10)
    assert (auc.before.value, auc.after.value, auc.change.value) == (0.0, 1.0, 1.0)


def test_a_shift_of_all_margins_moves_everything_but_the_auc() -> None:
    sides = rng(1).random(80) < 0.4
    before = np.where(sides, 0.5, -0.5) + rng(2).normal(size=80)
    voted = people([["perturbed"] if one else ["base"] for one in sides])
    found = people_change(before + 2, before, voted, ids(80))
    assert found.gap.change.high < 0 and found.miscalibration.change.high < 0
    assert (found.auc.change.value, found.auc.change.low, found.auc.change.high) == (0.0, 0.0, 0.0)


def test_contingency_by_hand() -> None:
    chosen = [True, True, True, False, False, None, True]
    rejected = [True, False, False, True, False, True, None]
    found = contingency(chosen, rejected, ids(7))
    assert (found.both, found.only_chosen, found.only_rejected, found.neither) == (1, 2, 1, 1)
    assert (found.selection_rate.value, found.selection_rate.n) == (2 / 3, 3)
    assert (found.selection_rate.low, found.selection_rate.high) == pytest.approx(wilson(2, 3))
    assert (found.chosen_rate.value, found.rejected_rate.value) == (3 / 5, 2 / 5)
    assert found.exclusions.reasons == {"unparsed label": 2}
    swapped = contingency(rejected, chosen, ids(7))
    assert swapped.selection_rate.value == pytest.approx(1 - found.selection_rate.value)
    assert contingency(chosen, rejected, ["p"] * 7).selection_rate.n_prompts == 1


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
    half = Z * np.sqrt(variance) / (area * (1 - area))
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


NAN = float("nan")


def alpha_by_pairs(verdicts: FloatArray) -> float:
    """Krippendorff's nominal alpha: every ordered pair of verdicts on one contrast, against all pairs of all verdicts."""
    signs = np.sign(verdicts)
    units = [row[~np.isnan(row)].tolist() for row in signs.T]
    units = [unit for unit in units if len(unit) > 1]
    observed = sum(sum(a != b for a, b in permutations(unit, 2)) / (len(unit) - 1) for unit in units)
    every = [value for unit in units for value in unit]
    expected = sum(a != b for a, b in permutations(every, 2)) / (len(every) - 1)
    return 1 - observed / expected


def panel(n: int = 60, seed: int = 3) -> tuple[FloatArray, list[str]]:
    """Two judges who mostly agree, and one who throws coins; a tenth of the verdicts are missing."""
    rng = np.random.default_rng(seed)
    truth = rng.choice([-1.0, 1.0], n)
    flips = rng.random((2, n)) < 0.1
    verdicts = np.vstack([np.where(flips, -truth, truth), rng.choice([-1.0, -0.5, 0.0, 1.0], n)])
    verdicts[rng.random(verdicts.shape) < 0.1] = NAN
    return verdicts, [f"p{row // 2}" for row in range(n)]


def test_the_change_of_alpha_is_that_of_pairs_counted_one_by_one() -> None:
    verdicts, ids = panel()
    others = verdicts[:2]
    found = alpha_change(verdicts, others, ids)
    assert found.value == pytest.approx(alpha_by_pairs(others) - alpha_by_pairs(verdicts))
    assert 0 < found.low < found.value < found.high and found.unit == "alpha difference"


def test_the_judge_that_disagrees_is_the_one_without_whom_alpha_rises() -> None:
    verdicts, ids = panel()
    without = [left_out(verdicts, judge, ids) for judge in range(3)]
    changes = [found.alpha_change for found in without]
    assert all(isinstance(change, Estimate) for change in changes)
    assert [change.low > 0 for change in changes if isinstance(change, Estimate)] == [False, False, True]
    alpha, skew = without[2].alpha, without[2].skew
    assert isinstance(alpha, Estimate) and alpha.value == pytest.approx(alpha_by_pairs(verdicts[:2]))
    mean = np.nanmean(verdicts[:2][:, ~np.isnan(verdicts[:2]).all(axis=0)], axis=0)
    assert isinstance(skew, Estimate)
    assert skew.value == pytest.approx(np.where(mean == 0, 0.5, mean > 0).mean())


def test_a_panel_that_agrees_throughout_has_no_change_to_show() -> None:
    same = np.vstack([np.array([1.0, -1] * 20)] * 3)
    found = left_out(same, 0, [str(row) for row in range(40)])
    assert isinstance(found.alpha_change, Missing) and "no draw" in found.alpha_change.reason
    assert isinstance(found.skew_change, Estimate) and found.skew_change.value == 0
    one_word = left_out(np.ones((3, 4)), 0, list("abcd"))
    assert isinstance(one_word.alpha_change, Missing) and "undefined" in one_word.alpha_change.reason
    alone = left_out(np.array([[1.0, 1], [NAN, NAN], [NAN, NAN]]), 0, list("ab"))
    assert (
        isinstance(alone.alpha, Missing) and isinstance(alone.skew, Missing) and isinstance(alone.skew_change, Missing)
    )


def test_without_a_judge_the_others_are_the_panel_by_its_rule() -> None:
    """Two of three are unsure and outvote the sure one, whose word decides the mean; without one of the two it is a tie."""
    verdicts = np.array([[-1.0] * 6, [0.25] * 6, [0.25] * 6])
    of_mean, by_vote = (left_out(verdicts, 1, list("abcdef"), rule) for rule in ("mean", "majority"))
    assert isinstance(of_mean.skew, Estimate) and isinstance(by_vote.skew, Estimate)
    assert (of_mean.skew.value, by_vote.skew.value) == (0, 0.5)
    assert isinstance(by_vote.skew_change, Estimate) and by_vote.skew_change.value == -0.5


def test_the_majority_counts_each_judge_once() -> None:
    verdicts = np.array([[1.0, 0.1, NAN, 0.0], [-0.2, 0.1, NAN, 1.0], [-0.2, -1.0, NAN, -1.0]])
    margins, excluded = panel_margins(verdicts, "majority")
    assert margins[[0, 1, 3]].tolist() == [-1, 1, 0] and np.isnan(margins[2]) and excluded.dropped == 1
    assert panel_margins(verdicts)[0][[0, 1, 3]] == pytest.approx([0.2, -0.8 / 3, 0])
    assert verdict_counts(verdicts).tolist() == [[1, 2, 0], [2, 1, 0], [0, 0, 0], [1, 1, 1]]


COINS = [1.0, 0, 0, 1, 1, 0, 1, 0, 0, 1, 0, 0]


def of_rows(y: ArrayLike, f: ArrayLike, g: ArrayLike, labelled: list[str], unlabelled: list[str]) -> PoweredShare:
    return prediction_powered_mean(*(np.asarray(side, float) for side in (y, f, g)), labelled, unlabelled)


def ratio(found: PoweredShare) -> float:
    """Width with predictions over that of the labels alone."""
    widths = [own.high - own.low for own in (found.estimate, found.classical)]
    return widths[0] / widths[1]


def independent(y: ArrayLike, f: ArrayLike, g: ArrayLike) -> PoweredShare:
    """Each prompt once."""
    return of_rows(y, f, g, ids(len(y), name="labelled"), ids(len(g), name="unlabelled"))


def draw(random: np.random.Generator, n: int, skill: float) -> tuple[np.ndarray, np.ndarray]:
    """Labels with mean 0.3, and a judge's preference in [0, 1] that is 0.15 too high on average."""
    y = (random.random(n) < 0.3).astype(float)
    f = np.where(random.random(n) < skill, y, random.random(n) < 0.3) * 0.7 + 0.3 * random.random(n) + 0.09
    return y, f


def test_one_prompt_each_is_ppi_python() -> None:
    from ppi_py import classical_mean_ci, ppi_mean_ci, ppi_mean_pointestimate

    random = np.random.default_rng(3)
    for n, unlabelled, skill in ((30, 50, 0.9), (200, 3000, 0.6), (80, 40, 0.2), (40, 400, 0.0), (500, 500, 1.0)):
        (y, f), (_, g) = draw(random, n, skill), draw(random, unlabelled, skill)
        found = independent(y, f, g)
        low, high = ppi_mean_ci(y, f, g, alpha=0.05)
        assert found.estimate.value == pytest.approx(ppi_mean_pointestimate(y, f, g).item(), abs=1e-6)
        assert (found.estimate.low, found.estimate.high) == pytest.approx((low.item(), high.item()), abs=1e-6)
        low, high = classical_mean_ci(y, alpha=0.05)
        assert found.classical.value == pytest.approx(y.mean())
        assert (found.classical.low, found.classical.high) == pytest.approx((low.item(), high.item()), abs=1e-9)
        counts = found.estimate.n, found.estimate.n_prompts, found.classical.n, found.n_unlabelled
        assert counts == (n + unlabelled, n + unlabelled, n, unlabelled)


def test_clustered_error_by_hand() -> None:
    # Prompts a and b stand on both sides, c among the unlabelled only.
    y, f, labelled = np.array([1.0, 0, 1, 0]), np.array([0.8, 0.4, 0.9, 0.1]), ["a", "a", "b", "d"]
    g, unlabelled = np.array([0.5, 0.9, 0.2, 0.3, 0.6]), ["a", "b", "b", "c", "c"]
    found = of_rows(y, f, g, labelled, unlabelled)
    lam, residuals = found.power_tuning, y - found.power_tuning * f
    moved = dict.fromkeys("abcd", 0.0)
    for prompt, residual in zip(labelled, residuals, strict=True):
        moved[prompt] += (residual - residuals.mean()) / 4
    for prompt, prediction in zip(unlabelled, g, strict=True):
        moved[prompt] += lam * (prediction - g.mean()) / 5
    half = 1.959963984540054 * sum(one**2 for one in moved.values()) ** 0.5
    assert 0 < lam < 1
    assert found.estimate.value == pytest.approx(y.mean() + lam * (g.mean() - f.mean()))
    assert (found.estimate.high - found.estimate.low) / 2 == pytest.approx(half)
    assert (found.estimate.n, found.estimate.n_prompts, found.classical.n_prompts) == (9, 4, 3)


@pytest.mark.parametrize("predictions", [[0.5] * 12, [1 - one for one in COINS]])
def test_useless_predictions_leave_the_labels_alone(predictions: list[float]) -> None:
    found = independent(COINS, predictions, [0.5] * 12 + [0.4] * (max(predictions) == 1))
    assert (found.power_tuning, ratio(found)) == (0.0, 1.0)
    assert (found.estimate.value, found.estimate.low) == (found.classical.value, found.classical.low)


VOTES = [["perturbed"], ["base"], ["base"], ["perturbed"], ["base"], [], [], [], []]
SOME_VOTED = majority(count_votes(VOTES), "drop")
JUDGE = [1, -1, 0, 1, NAN, -1, 0.5, 0, NAN]
OF_NINE = [2.0, 1.0, -1.0, -3.0, 1.0, 1.0, 0.0, -1.0, 1.0]


def test_skew_takes_verdicts_as_shares_and_leaves_out_rows_without_one() -> None:
    found = powered_human_skew(SOME_VOTED, JUDGE, ids(9))
    expected = of_rows([1, 0, 0, 1], [1, 0, 0.5, 1], [0, 0.75, 0.5], ["p0", "p1", "p2", "p3"], ["p5", "p6", "p7"])
    assert found.estimate.value == pytest.approx(expected.estimate.value)
    assert (found.power_tuning, ratio(found)) == (expected.power_tuning, ratio(expected))
    assert (found.classical.value, found.classical.n, found.n_unlabelled) == (0.5, 4, 3)
    assert found.exclusions == Exclusions(9, {"no verdict": 2})


def test_miscalibration_by_hand() -> None:
    found = powered_miscalibration(OF_NINE, SOME_VOTED, JUDGE, ids(9))
    # Hits 1 1 0 0 against people 1 0 0 1 and the judge 1 0 ½ 1; hits 1 0 0 (a margin of 0 is none) against 0 ¾ ½.
    expected = of_rows([0, 1, 0, 1], [0, 1, 0.5, 1], [1, 0.75, 0.5], ids(4), ["p5", "p6", "p7"])
    assert found.estimate.value == pytest.approx(expected.estimate.value)
    assert found.power_tuning == expected.power_tuning
    assert found.classical.value == 0.5


def test_bounds_stay_within_a_share() -> None:
    people = majority(count_votes([["perturbed"]] * 19 + [["base"]] + [[]] * 30), "drop")
    found = powered_human_skew(people, [1] * 18 + [-1, -1] + [1] * 30, ids(50))
    assert found.estimate.high == found.classical.high == 1.0
    assert 0 < found.estimate.low < found.estimate.value <= 1


def test_ties_of_people_are_refused_unless_they_count_half() -> None:
    votes = [*VOTES[:4], ["tie"], ["base", "perturbed"], [], [], []]
    judge = np.nan_to_num(JUDGE)
    with pytest.raises(DataError, match=r"2 of 9 dropped \(1 split, 1 tie\).*tie rule 'half'"):
        powered_human_skew(majority(count_votes(votes), "drop"), judge, ids(9))
    found = powered_human_skew(majority(count_votes(votes), "half"), judge, ids(9))
    assert (found.classical.value, found.classical.n, found.n_unlabelled) == (0.5, 6, 3)


@pytest.mark.parametrize(
    ("people", "judge", "n", "message"),
    [
        (SOME_VOTED, [2, *JUDGE[1:]], 9, r"preference in \[-1, 1\]"),
        (SOME_VOTED, [NAN] * 9, 9, "the judge cannot be checked"),
        (SOME_VOTED, [*JUDGE[:5], NAN, NAN, NAN, NAN], 9, "the judge adds nothing"),
        (SOME_VOTED, [1, *[NAN] * 4, *JUDGE[5:]], 9, "all 1 labelled rows are of one prompt"),
    ],
)
def test_shares_that_cannot_be_estimated_raise(people: Majority, judge: list[float], n: int, message: str) -> None:
    with pytest.raises(DataError, match=message):
        powered_human_skew(people, judge, ids(n))
