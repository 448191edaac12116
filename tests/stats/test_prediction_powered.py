"""PPI++ means and shares against ppi-python, by hand with clusters, and in simulations with a biased judge."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import ArrayLike
from rows import ids

from cda.errors import DataError
from cda.records import Exclusions
from cda.stats.estimators import effective_rows, share_of, wilson
from cda.stats.people import PoweredShare, powered_human_skew, powered_miscalibration, prediction_powered_mean
from cda.stats.votes import Majority, count_votes, majority

LABELS = [1.0, 0, 0, 1, 1, 0, 1, 0, 0, 1, 0, 0]
NAN = float("nan")


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
        least, most = classical_mean_ci(y, alpha=0.05)
        # Wilson's on as many labels as would have the error of ppi-python's normal interval.
        worth = n * ((most - least).item() / (high - low).item()) ** 2
        expected = wilson(found.estimate.value * worth, worth)
        assert (found.estimate.low, found.estimate.high) == pytest.approx(expected, abs=1e-6)
        assert found.classical == share_of(y, ids(n))
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
    of_labels = dict.fromkeys("abd", 0.0)
    for prompt, own in zip(labelled, y, strict=True):
        of_labels[prompt] += (own - y.mean()) / 4
    fall = sum(one**2 for one in moved.values()) / sum(one**2 for one in of_labels.values())
    worth = effective_rows(y, labelled) / fall
    assert 0 < lam < 1
    assert found.estimate.value == pytest.approx(y.mean() + lam * (g.mean() - f.mean()))
    assert (found.estimate.low, found.estimate.high) == pytest.approx(wilson(found.estimate.value * worth, worth))
    assert (found.estimate.n, found.estimate.n_prompts, found.classical.n_prompts) == (9, 4, 3)


@pytest.mark.parametrize("predictions", [[0.5] * 12, [1 - one for one in LABELS]])
def test_useless_predictions_leave_the_labels_alone(predictions: list[float]) -> None:
    found = independent(LABELS, predictions, [0.5] * 12 + [0.4] * (max(predictions) == 1))
    assert (found.power_tuning, ratio(found)) == (0.0, 1.0)
    assert (found.estimate.value, found.estimate.low) == (found.classical.value, found.classical.low)


def test_prompts_on_both_sides_count_once() -> None:
    random, n_runs, inside, apart, values, errors = np.random.default_rng(6), 1000, 0, 0, [], []
    prompts = np.repeat(np.arange(80), 4)  # one labelled row and three others for each prompt
    labelled, unlabelled = ids(80), [f"p{prompt}" for prompt in np.arange(80).repeat(3)]
    for _ in range(n_runs):
        tendency = random.normal(size=80)[prompts].reshape(80, 4)
        margins = tendency + random.normal(size=(80, 4))
        judged = tendency + 0.7 + random.normal(size=(80, 4))  # it sees what the prompt favours, and adds a bias
        y, f, g = (1.0 * (side > 0) for side in (margins[:, 0], judged[:, 0], judged[:, 1:].ravel()))
        found = of_rows(y, f, g, labelled, unlabelled).estimate
        inside += found.low <= 0.5 <= found.high
        values.append(found.value)
        errors.append((found.high - found.low) / 2 / 1.96)
        split = of_rows(y, f, g, labelled, [f"other {one}" for one in unlabelled]).estimate
        apart += split.low <= 0.5 <= split.high
    assert 0.92 <= inside / n_runs <= 0.971
    assert np.mean(errors) == pytest.approx(np.std(values), rel=0.06)
    assert apart < inside - 10  # the same prompts taken for other ones: too narrow


VOTES = [["perturbed"], ["base"], ["base"], ["perturbed"], ["base"], [], [], [], []]
PEOPLE = majority(count_votes(VOTES), "drop")
JUDGE = [1, -1, 0, 1, NAN, -1, 0.5, 0, NAN]
MARGINS = [2.0, 1.0, -1.0, -3.0, 1.0, 1.0, 0.0, -1.0, 1.0]


def test_skew_takes_verdicts_as_shares_and_leaves_out_rows_without_one() -> None:
    found = powered_human_skew(PEOPLE, JUDGE, ids(9))
    expected = of_rows([1, 0, 0, 1], [1, 0, 0.5, 1], [0, 0.75, 0.5], ["p0", "p1", "p2", "p3"], ["p5", "p6", "p7"])
    assert found.estimate.value == pytest.approx(expected.estimate.value)
    assert (found.power_tuning, ratio(found)) == (expected.power_tuning, ratio(expected))
    assert (found.classical.value, found.classical.n, found.n_unlabelled) == (0.5, 4, 3)
    assert found.exclusions == Exclusions(9, {"no verdict": 2})


def test_miscalibration_by_hand() -> None:
    found = powered_miscalibration(MARGINS, PEOPLE, JUDGE, ids(9))
    # Hits 1 1 0 0 against people 1 0 0 1 and the judge 1 0 ½ 1; hits 1 0 0 (a margin of 0 is none) against 0 ¾ ½.
    expected = of_rows([0, 1, 0, 1], [0, 1, 0.5, 1], [1, 0.75, 0.5], ids(4), ["p5", "p6", "p7"])
    assert found.estimate.value == pytest.approx(expected.estimate.value)
    assert found.power_tuning == expected.power_tuning
    assert found.classical.value == 0.5


def test_bounds_stay_within_a_share() -> None:
    people = majority(count_votes([["perturbed"]] * 19 + [["base"]] + [[]] * 30), "drop")
    found = powered_human_skew(people, [1] * 18 + [-1, -1] + [1] * 30, ids(50))
    for share in (found.estimate, found.classical):
        assert 0 < share.low < share.value <= share.high <= 1


def test_ties_of_people_are_refused_unless_they_count_half() -> None:
    votes = [*VOTES[:4], ["tie"], ["base", "perturbed"], [], [], []]
    judge = np.nan_to_num(JUDGE)
    with pytest.raises(DataError, match=r"2 of 9 dropped \(1 split, 1 tie\).*tie rule 'half'"):
        powered_human_skew(majority(count_votes(votes), "drop"), judge, ids(9))
    found = powered_human_skew(majority(count_votes(votes), "half"), judge, ids(9))
    assert (found.classical.value, found.classical.n, found.n_unlabelled) == (0.5, 6, 3)


def test_known_shares_are_covered_though_judge_and_model_share_a_bias() -> None:
    random, n, n_runs = np.random.default_rng(4), 800, 300
    skews, errors, ratios = 0, 0, []
    used = np.arange(n) < 160
    people = Exclusions(n, {"no votes": n - 160})
    for _ in range(n_runs):
        target = (random.random(n) < 0.4).astype(float)
        lure = random.random(n) < 0.25  # rows on which both fall for the perturbed side
        margins = np.where(lure, 1.0, np.where(random.random(n) < 0.9, 2 * target - 1, 1.0))
        judge = np.where(lure, 1.0, np.where(random.random(n) < 0.9, 2 * target - 1, 0.0))
        votes = Majority(np.where(used, target, 0.5), used, "drop", people)
        skew = powered_human_skew(votes, judge, ids(n))
        error = powered_miscalibration(margins, votes, judge, ids(n))
        skews += skew.estimate.low <= 0.4 <= skew.estimate.high
        # Wrong where people prefer the base (0.6) and the model is lured (0.25) or slips (0.75·0.1).
        errors += error.estimate.low <= 0.6 * 0.325 <= error.estimate.high
        ratios.append(ratio(skew))
    assert 0.91 <= skews / n_runs <= 0.99 and 0.91 <= errors / n_runs <= 0.99  # 95% ± three standard errors
    assert np.mean(ratios) < 0.85


@pytest.mark.parametrize(
    ("people", "judge", "n", "message"),
    [
        (PEOPLE, [2, *JUDGE[1:]], 9, r"preference in \[-1, 1\]"),
        (PEOPLE, [NAN] * 9, 9, "the judge cannot be checked"),
        (PEOPLE, [*JUDGE[:5], NAN, NAN, NAN, NAN], 9, "the judge adds nothing"),
        (PEOPLE, [1, *[NAN] * 4, *JUDGE[5:]], 9, "all 1 labelled rows are of one prompt"),
    ],
)
def test_shares_that_cannot_be_estimated_raise(people: Majority, judge: list[float], n: int, message: str) -> None:
    with pytest.raises(DataError, match=message):
        powered_human_skew(people, judge, ids(n))
