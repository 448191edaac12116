"""Human skew and miscalibration with a judge's help, against the same shares by hand and in simulations."""

from __future__ import annotations

import numpy as np
import pytest

from cda.errors import DataError
from cda.records import Exclusions
from cda.stats.prediction_powered import powered_human_skew, powered_miscalibration, prediction_powered_mean
from cda.stats.votes import Majority, count_votes, majority

NAN = float("nan")
VOTES = [["perturbed"], ["base"], ["base"], ["perturbed"], ["base"], [], [], [], []]
PEOPLE = majority(count_votes(VOTES), "drop")
JUDGE = [1, -1, 0, 1, NAN, -1, 0.5, 0, NAN]
MARGINS = [2.0, 1.0, -1.0, -3.0, 1.0, 1.0, 0.0, -1.0, 1.0]


def ids(n: int) -> list[str]:
    return [f"p{row}" for row in range(n)]


def test_skew_takes_verdicts_as_shares_and_leaves_out_rows_without_one() -> None:
    found = powered_human_skew(PEOPLE, JUDGE, ids(9))
    expected = prediction_powered_mean(
        [1, 0, 0, 1], [1, 0, 0.5, 1], [0, 0.75, 0.5], ["p0", "p1", "p2", "p3"], ["p5", "p6", "p7"]
    )
    assert found.share.estimate.value == pytest.approx(expected.estimate.value)
    assert (found.share.power_tuning, found.share.width_ratio) == (expected.power_tuning, expected.width_ratio)
    assert (found.share.classical.value, found.share.classical.n, found.share.n_unlabelled) == (0.5, 4, 3)
    assert found.exclusions == Exclusions(9, {"no verdict": 2})


def test_miscalibration_by_hand() -> None:
    found = powered_miscalibration(MARGINS, PEOPLE, JUDGE, ids(9)).share
    # Hits 1 1 0 0 against people 1 0 0 1 and the judge 1 0 ½ 1; hits 1 0 0 (a margin of 0 is none) against 0 ¾ ½.
    expected = prediction_powered_mean([0, 1, 0, 1], [0, 1, 0.5, 1], [1, 0.75, 0.5], ids(4), ["p5", "p6", "p7"])
    assert found.estimate.value == pytest.approx(expected.estimate.value)
    assert found.power_tuning == expected.power_tuning
    assert found.classical.value == 0.5


def test_bounds_stay_within_a_share() -> None:
    people = majority(count_votes([["perturbed"]] * 19 + [["base"]] + [[]] * 30), "drop")
    found = powered_human_skew(people, [1] * 18 + [-1, -1] + [1] * 30, ids(50)).share
    assert found.estimate.high == found.classical.high == 1.0
    assert 0 < found.estimate.low < found.estimate.value <= 1


def test_ties_of_people_are_refused_unless_they_count_half() -> None:
    votes = [*VOTES[:4], ["tie"], ["base", "perturbed"], [], [], []]
    judge = np.nan_to_num(JUDGE)
    with pytest.raises(DataError, match=r"2 of 9 dropped \(1 split, 1 tie\).*tie rule 'half'"):
        powered_human_skew(majority(count_votes(votes), "drop"), judge, ids(9))
    found = powered_human_skew(majority(count_votes(votes), "half"), judge, ids(9)).share
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
        skew = powered_human_skew(votes, judge, ids(n)).share
        error = powered_miscalibration(margins, votes, judge, ids(n)).share
        skews += skew.estimate.low <= 0.4 <= skew.estimate.high
        # Wrong where people prefer the base (0.6) and the model is lured (0.25) or slips (0.75·0.1).
        errors += error.estimate.low <= 0.6 * 0.325 <= error.estimate.high
        ratios.append(skew.width_ratio)
    assert 0.91 <= skews / n_runs <= 0.99 and 0.91 <= errors / n_runs <= 0.99  # 95% ± three standard errors
    assert np.mean(ratios) < 0.85


@pytest.mark.parametrize(
    ("people", "judge", "n", "message"),
    [
        (PEOPLE, [1, -1], 9, "9 majorities, 2 verdicts"),
        (PEOPLE, JUDGE, 8, "8 prompts"),
        (PEOPLE, [2, *JUDGE[1:]], 9, r"preference in \[-1, 1\]"),
        (PEOPLE, [JUDGE], 9, "one a row"),
        (PEOPLE, [NAN] * 9, 9, "the judge cannot be checked"),
        (PEOPLE, [*JUDGE[:5], NAN, NAN, NAN, NAN], 9, "the judge adds nothing"),
        (PEOPLE, [1, *[NAN] * 4, *JUDGE[5:]], 9, "all 1 labelled rows are of one prompt"),
    ],
)
def test_what_cannot_be_estimated_raises(people: Majority, judge: list[float], n: int, message: str) -> None:
    with pytest.raises(DataError, match=message):
        powered_human_skew(people, judge, ids(n))


def test_margins_belong_to_the_rows() -> None:
    with pytest.raises(DataError, match="one each"):
        powered_miscalibration([1.0], PEOPLE, JUDGE, ids(9))
    with pytest.raises(DataError, match="1 of 9 margins are NaN"):
        powered_miscalibration([NAN, *MARGINS[1:]], PEOPLE, JUDGE, ids(9))
