"""A panel of judges: its majority, and who of it disagrees; against alpha counted pair by pair."""

from __future__ import annotations

from itertools import permutations

import numpy as np
import pytest

from cda.arrays import FloatArray
from cda.results.base import Estimate, Missing
from cda.stats.people import alpha_change, left_out, panel_margins, verdict_counts

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
