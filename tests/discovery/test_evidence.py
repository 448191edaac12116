"""What one candidate's rows add up to, by hand: means, shares, missing verdicts, excluded rewriters, trimming."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest
from scipy import stats

from cda.discovery.evidence import evidence, strength
from cda.errors import DataError
from cda.records import user_prompt
from cda.results.discover import Measured
from cda.stats.proportions import wilson


def rows(
    margins: Sequence[float],
    preferences: Sequence[float | None] | None = None,
    rewriter: str = "r1",
    n_prompts: int | None = None,
) -> list[Measured]:
    """One row each; prompts are gone through again and again."""
    verdicts = preferences if preferences is not None else [0.0] * len(margins)
    return [
        Measured(
            "c", rewriter, "add", user_prompt(f"question {at % (n_prompts or len(margins))}"), "", "x", margin, one
        )
        for at, (margin, one) in enumerate(zip(margins, verdicts, strict=True))
    ]


def test_strength_by_hand() -> None:
    found = strength(rows([2.0, 1.0, 0.0, -1.0, 3.0], [0.0, 0.5, 0.0, 0.0, None]))
    assert found.reward.value == 1.0
    assert found.p_reward == pytest.approx(stats.ttest_1samp([2, 1, 0, -1, 3], 0, alternative="greater").pvalue)
    assert found.judge.value == 0.125
    assert found.judge.n == 4
    assert found.n_unjudged == 1
    assert found.p_judge == pytest.approx(stats.ttest_1samp([0, 0.5, 0, 0], 0.5, alternative="less").pvalue)
    assert (found.judge.low, found.judge.high) == pytest.approx(wilson(0.5, 4))
    assert found.win_rate.value == 0.6  # a margin of 0 is no win
    assert found.p_value == max(found.p_reward, found.p_judge)


def test_the_win_rate_s_interval_knows_of_repeated_prompts() -> None:
    found = strength(rows([1.0, -1, 1, 1, -1, 1] * 4, n_prompts=6))
    assert (found.win_rate_unclustered.low, found.win_rate_unclustered.high) == pytest.approx(wilson(16, 24))
    assert (found.win_rate.low, found.win_rate.high) == pytest.approx(wilson(4, 6))
    assert found.reward.n_prompts == 6


def test_a_rewriter_that_fails_too_often_is_left_out_of_the_pool_and_still_shown() -> None:
    usual, failing = rows([1.0, 2.0, 3.0, 2.0]), rows([50.0, 60.0], rewriter="r2")
    half = evidence(usual + failing, {"r2": {"refusal": 2}}, 0.5)
    assert [one.excluded for one in half.rewriters] == [None, None]  # half of its calls is not more than half
    most = evidence(usual + failing, {"r2": {"refusal": 2, "unchanged": 1}, "r3": {"no answer": 4}}, 0.5)
    assert [one.excluded for one in most.rewriters] == [None, "3 of 5 rewrites failed", "4 of 4 rewrites failed"]
    assert most.rewriters[1].failed == {"refusal": 2, "unchanged": 1}
    assert most.rewriters[1].strength is not None and most.rewriters[1].strength.reward.value == 55
    assert [one.rewriter for one in most.rewriters if one.excluded is None] == ["r1"]
    assert most.pooled is not None and most.pooled.reward.value == 2.0 and most.pooled.reward.n == 4


def test_a_rewriter_whose_rewrites_are_too_often_not_judged_is_left_out() -> None:
    usual, silent = rows([1.0, 2.0, 3.0, 2.0]), rows([50.0] * 8, [0.0] * 4 + [None] * 4, "r2")
    half = evidence(usual + silent, {}, 0.5)
    assert [one.excluded for one in half.rewriters] == [None, None]  # half of the verdicts is not more than half
    assert half.pooled is not None and half.pooled.n_unjudged == 4
    most = evidence([*usual, *silent, *rows([50.0], [None], "r2")], {}, 0.5)
    assert [one.excluded for one in most.rewriters] == [None, "5 of 9 rewrites have no verdict of the judge"]
    assert most.rewriters[1].strength is not None and most.rewriters[1].strength.n_unjudged == 5
    assert most.pooled is not None and (most.pooled.reward.value, most.pooled.n_unjudged) == (2.0, 0)
    assert [one.excluded for one in evidence(silent, {}, 0.0).rewriters] == [
        "4 of 8 rewrites have no verdict of the judge"
    ]
    assert [one.excluded for one in evidence(silent, {"r2": {"refusal": 99}}, 0.5).rewriters] == [
        "99 of 107 rewrites failed"
    ]


def test_too_little_for_a_rewriter_excludes_it_with_a_reason() -> None:
    found = evidence(rows([1.0, 2.0]) + rows([1.0], rewriter="r2") + rows([1.0, 2.0], [None, 0.0], "r3"), {}, 0.5)
    assert [one.excluded for one in found.rewriters] == [
        None,
        "1 rewrites of 1 prompts: two prompts are needed",
        "verdicts of the judge on 1 prompts: two are needed",
    ]
    assert [one.strength is None for one in found.rewriters] == [False, True, True]


def test_nothing_at_all_is_said() -> None:
    found = evidence([], {}, 0.5)
    assert (found.rewriters, found.pooled, found.untested) == ((), None, "no rewriter is left")


def test_trimming_is_never_the_default_and_warns_where_it_turns_a_mean() -> None:
    margins = [1.0, 1.2, 0.8, 1.1, 0.9, 1.0, -90.0]
    found = evidence(rows(margins) + rows([1.0, 2.0, 3.0] * 6, rewriter="r2"), {}, 0.5)
    assert found.rewriters[0].strength is not None
    assert found.rewriters[0].strength.reward.value == pytest.approx(-12)
    assert found.rewriters[0].strength.n_left_out == 0
    assert found.pooled is not None and found.pooled.reward.value == pytest.approx((-84 + 36) / 25)
    assert found.warnings == (
        "r1: leaving out 1 of 7 margins outside the fences turns the mean from -12 to +1",
        "pooled: leaving out 1 of 25 margins outside the fences turns the mean from -1.92 to +1.75",
    )


def test_trimming_on_request_counts_what_it_leaves_out_and_still_warns() -> None:
    found = evidence(rows([1.0, 1.2, 0.8, 1.1, 0.9, 1.0, -90.0], [0.0] * 6 + [1.0]), {}, 0.5, trim=True)
    assert found.pooled is not None
    assert found.pooled.reward.value == pytest.approx(1)
    assert (found.pooled.reward.n, found.pooled.n_left_out) == (6, 1)
    assert found.pooled.judge.n == 7  # the judge's verdicts and the wins are not trimmed
    assert found.pooled.win_rate.n == 7
    assert len(found.warnings) == 2


def test_margins_that_are_no_numbers_are_refused() -> None:
    with pytest.raises(DataError, match="NaN"):
        evidence(rows([1.0, np.nan, 2.0]), {}, 0.5)
