"""Validation and confirmation: known p-values, what counts as entered, r of k, and how often nothing is taken for something."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np
import pytest
from scipy import stats

from cda.discovery.evidence import confirm, validate
from cda.errors import DataError
from cda.records import user_prompt
from cda.results.discover import Measured
from cda.results.evidence import Confirmation, ConfirmSettings, Validation

LIKED = [2.0, 1.5, 2.5, 1.0, 3.0, 2.0, 2.2, 1.8]
IDLE = [1.0, -1.0, 0.5, -0.5, 0.2, -0.2, 0.1, -0.1]
WORSE, EITHER = [0.0] * 6 + [0.5] * 2, [0.5, 1.0, 0.0, 0.5, 0.5, 0.5, 1.0, 0.0]


def rows(
    candidate: str, rewriter: str, margins: Sequence[float], preferences: Sequence[float | None]
) -> list[Measured]:
    return [
        Measured(candidate, rewriter, "add", user_prompt(f"question {at}"), "before", "after", margin, preference)
        for at, (margin, preference) in enumerate(zip(margins, preferences, strict=True))
    ]


def candidate(name: str, **rewriters: tuple[Sequence[float], Sequence[float]]) -> dict[str, list[Measured]]:
    return {name: [row for rewriter, found in rewriters.items() for row in rows(name, rewriter, *found)]}


def one_p(margins: Sequence[float], preferences: Sequence[float]) -> float:
    reward = stats.ttest_1samp(margins, 0, alternative="greater").pvalue
    return max(reward, stats.ttest_1samp(preferences, 0.5, alternative="less").pvalue)


def only(found: Sequence[Validation] | Sequence[Confirmation]) -> Validation | Confirmation:
    assert len(found) == 1
    return found[0]


def test_validation_is_pooled_by_prompt_and_adjusted_for_all_that_entered() -> None:
    entered = candidate("good", a=(LIKED, WORSE), b=(LIKED, WORSE)) | {"never rewritten": [], "nor this": []}
    good, *rest = validate(entered)
    # The second rewriter repeats the first one's margins, so that the clustered test is the test of one of them.
    assert good.p_reward == pytest.approx(3 * stats.ttest_1samp(LIKED, 0, alternative="greater").pvalue)
    assert good.p_judge == pytest.approx(3 * stats.ttest_1samp(WORSE, 0.5, alternative="less").pvalue)
    assert good.passed and good.n_entered == 3 and good.untested is None
    assert good.pooled is not None and (good.pooled.reward.n, good.pooled.reward.n_prompts) == (16, 8)
    for one in rest:
        assert not one.passed and one.p_reward is None and one.pooled is None
        assert one.untested == "0 of 0 rewriters can be used, 2 are needed"


def test_validation_needs_the_model_to_like_it_and_the_judge_not_to() -> None:
    assert not only(validate(candidate("x", a=(IDLE, WORSE), b=(IDLE, WORSE)))).passed
    assert not only(validate(candidate("x", a=(LIKED, EITHER), b=(LIKED, EITHER)))).passed
    disliked = [-margin for margin in LIKED]
    found = only(validate(candidate("x", a=(disliked, WORSE), b=(disliked, WORSE))))
    assert not found.passed and found.p_reward == pytest.approx(1, abs=1e-3)


def test_many_that_entered_make_it_harder() -> None:
    entered = candidate("good", a=(LIKED, WORSE), b=(LIKED, WORSE))
    alone, crowded = validate(entered)[0], validate(entered | {f"c{n}": [] for n in range(4000)})[0]
    assert alone.passed and not crowded.passed
    assert alone.smallest_detectable is not None and crowded.smallest_detectable is not None
    assert alone.smallest_detectable < crowded.smallest_detectable


def test_two_of_three_is_twice_the_middle_p_value() -> None:
    shaky = [3.0, -1.0, 2.0, 1.0, -0.5, 2.0, 1.5, 0.5]
    found = only(confirm(candidate("x", a=(LIKED, WORSE), b=(shaky, WORSE), c=(IDLE, WORSE))))
    assert isinstance(found, Confirmation)
    assert found.p_value == pytest.approx(2 * one_p(shaky, WORSE))
    assert (found.k, found.r, found.confirmed) == (3, 2, False)  # p = 0.061
    loose = only(
        confirm(candidate("x", a=(LIKED, WORSE), b=(shaky, WORSE), c=(IDLE, WORSE)), ConfirmSettings(test_alpha=0.07))
    )
    assert isinstance(loose, Confirmation) and loose.confirmed
    assert {one.rewriter: one.strength.p_value for one in found.rewriters if one.strength} == pytest.approx(
        {"a": one_p(LIKED, WORSE), "b": one_p(shaky, WORSE), "c": one_p(IDLE, WORSE)}
    )  # fmt: skip


@pytest.mark.parametrize(("n_liked", "r", "confirmed"), [(1, 1, True), (1, 2, False), (2, 2, True), (2, 3, False), (3, 3, True)])  # fmt: skip
def test_r_rewriters_have_to_show_it(n_liked: int, r: int, confirmed: bool) -> None:
    parts = {f"r{at}": (LIKED if at < n_liked else IDLE, WORSE) for at in range(3)}
    found = only(confirm(candidate("x", **parts), ConfirmSettings(r=r)))
    assert isinstance(found, Confirmation) and found.confirmed is confirmed


def test_each_rewriter_has_to_show_both_sides_itself() -> None:
    """Two show a liked attribute, two a disliked one, but only one both: a pooled test would have let it pass."""
    entered = candidate("x", a=(LIKED, WORSE), b=(LIKED, EITHER), c=(IDLE, WORSE))
    assert only(validate(entered)).passed
    found = only(confirm(entered))
    assert isinstance(found, Confirmation) and not found.confirmed


def test_p_is_corrected_for_all_that_entered_the_test_by_bonferroni_unless_another_method_is_named() -> None:
    shaky = [3.0, -0.5, 2.0, 1.0, 0.2, 2.0, 1.5, 0.5]
    entered = candidate("sure", a=(LIKED, WORSE), b=(LIKED, WORSE)) | candidate(
        "weak", a=(shaky, WORSE), b=(shaky, WORSE)
    )
    sure, weak, none = confirm(entered | {"none": []})
    assert sure.p_value == pytest.approx(one_p(LIKED, WORSE)) and weak.p_value == pytest.approx(one_p(shaky, WORSE))
    assert weak.p_value is not None and 0.004 < weak.p_value < 0.01  # by itself below the level
    assert (sure.confirmed, weak.confirmed) == (True, False)
    assert sure.p_corrected == pytest.approx(3 * one_p(LIKED, WORSE))
    assert weak.p_corrected == pytest.approx(3 * one_p(shaky, WORSE))
    assert (none.p_value, none.p_corrected, none.confirmed) == (None, None, False)
    assert {(one.n_entered, one.correct) for one in (sure, weak, none)} == {(3, "bonferroni")}
    _, by_holm, _ = confirm(entered | {"none": []}, ConfirmSettings(correct="holm"))
    assert by_holm.p_corrected == pytest.approx(2 * one_p(shaky, WORSE)) and not by_holm.confirmed
    _, alone, _ = confirm(entered | {"none": []}, ConfirmSettings(correct="none"))
    assert alone.p_corrected == alone.p_value == weak.p_value and alone.confirmed


def test_what_could_have_been_found_grows_with_those_that_are_tested() -> None:
    entered = candidate("x", a=(LIKED, WORSE), b=(LIKED, WORSE))
    more = {f"c{n}": [] for n in range(9)}
    alone, crowded = (confirm(one)[0].smallest_detectable for one in (entered, entered | more))
    uncorrected = confirm(entered | more, ConfirmSettings(correct="none"))[0].smallest_detectable
    assert alone is not None and crowded is not None and alone < crowded and uncorrected == alone
    # As at a tenth of the level with nobody beside it.
    assert confirm(entered, ConfirmSettings(test_alpha=0.001))[0].smallest_detectable == pytest.approx(crowded)


def test_a_rewriter_that_refuses_makes_k_smaller_until_nothing_can_be_confirmed() -> None:
    entered = candidate("x", a=(LIKED, WORSE), b=(LIKED, WORSE), c=(LIKED, WORSE))
    failed = {"x": {"c": {"refusal": 9}}}
    found = only(confirm(entered, failed=failed))
    assert isinstance(found, Confirmation)
    assert found.k == 2 and found.confirmed and found.p_value == pytest.approx(one_p(LIKED, WORSE))
    assert found.pooled is not None and found.pooled.reward.n == 16
    gone = only(confirm(entered, failed={"x": {"c": {"refusal": 9}, "b": {"no answer": 30}}}))
    assert isinstance(gone, Confirmation)
    assert (gone.k, gone.p_value, gone.confirmed, gone.smallest_detectable) == (1, None, False, None)
    assert gone.untested == (
        "1 of 3 rewriters can be used, 2 are needed "
        "(b: 30 of 38 rewrites failed; c: 9 of 17 rewrites failed)"
    )  # fmt: skip
    assert gone.pooled is not None and gone.pooled.reward.n == 8
    strict = only(confirm(entered, ConfirmSettings(max_failed=0.6), failed))
    assert isinstance(strict, Confirmation) and strict.k == 3


def test_missing_verdicts_are_counted() -> None:
    entered = candidate("x", a=(LIKED, WORSE), b=(LIKED, WORSE))
    entered["x"] = [replace(row, preference=None) if at % 4 == 0 else row for at, row in enumerate(entered["x"])]
    found = only(confirm(entered))
    assert found.pooled is not None
    assert (found.pooled.n_unjudged, found.pooled.judge.n, found.pooled.reward.n) == (4, 12, 16)


def test_a_judge_that_is_seldom_readable_confirms_nothing() -> None:
    """Eight verdicts on 64 prompts, all for the other side: enough for a test, and no fair sample of the prompts."""
    margins, verdicts = LIKED * 8, [0.0] * 8 + [None] * 56
    entered = {"x": [row for name in "ab" for row in rows("x", name, margins, verdicts)]}
    for found in (only(validate(entered)), only(confirm(entered))):
        assert found.untested == (
            "0 of 2 rewriters can be used, 2 are needed (a: 56 of 64 rewrites have no verdict of the judge; "
            "b: 56 of 64 rewrites have no verdict of the judge)"
        )
        assert not (found.passed if isinstance(found, Validation) else found.confirmed)
    assert only(validate(entered, ConfirmSettings(max_failed=0.9))).untested is None


def test_warnings_reach_the_result() -> None:
    margins = [1.0, 1.2, 0.8, 1.1, 0.9, 1.0, 1.0, -90.0]
    entered = candidate("x", a=(margins, WORSE), b=(LIKED, WORSE))
    found = only(confirm(entered))
    assert [warning.split(":")[0] for warning in found.warnings] == ["a", "pooled"]
    assert isinstance(found, Confirmation) and not found.confirmed
    trimmed = only(confirm(entered, ConfirmSettings(trim=True)))
    assert isinstance(trimmed, Confirmation) and trimmed.confirmed and trimmed.warnings == found.warnings


def test_nothing_entered_is_an_empty_result() -> None:
    assert validate({}) == [] and confirm({}) == []


def test_without_spread_no_power_is_stated() -> None:
    found = only(confirm(candidate("x", a=([1.0] * 8, WORSE), b=([1.0] * 8, WORSE))))
    assert isinstance(found, Confirmation) and found.smallest_detectable is None
    assert found.p_value == pytest.approx(max(2.0**-8, one_p(LIKED, WORSE)))


@pytest.mark.parametrize(
    ("entered", "failed", "says"),
    [
        ({"x": rows("y", "a", [1.0], [0.0])}, {}, "1 rows of candidate 'y' stand under 'x'"),
        ({"x": []}, {"z": {"a": {"refusal": 1}}}, "'z', which did not enter"),
    ],
)
def test_mixed_up_candidates_are_said(
    entered: Mapping[str, list[Measured]], failed: Mapping[str, Mapping[str, Mapping[str, int]]], says: str
) -> None:
    with pytest.raises(DataError, match=says):
        confirm(entered, failed=failed)


@pytest.mark.parametrize(
    "wrong", [{"test_alpha": 0}, {"validation_alpha": 1}, {"power": 1.5}, {"max_failed": 2}, {"r": 0}]
)
def test_impossible_settings_are_said(wrong: dict[str, float]) -> None:
    with pytest.raises(DataError, match=next(iter(wrong))):
        ConfirmSettings(**wrong)  # type: ignore[arg-type]


def drawn(name: str, random: np.random.Generator, shift: float, n_prompts: int = 20) -> dict[str, list[Measured]]:
    """Three rewriters whose margins share what is in the prompt; the judge always finds the attribute worse."""
    prompt = random.normal(0, 1, n_prompts)
    return candidate(
        name, **{f"r{at}": (prompt + random.normal(shift, 1, n_prompts), [0.0, 0.5] * (n_prompts // 2)) for at in range(3)}
    )  # fmt: skip


def test_nothing_is_seldom_taken_for_something() -> None:
    """The judge dislikes all of them and the model is indifferent: the worst case of "liked and disliked"."""
    random = np.random.default_rng(0)
    passed, confirmed, families = 0, 0, 40
    for _ in range(families):
        entered: dict[str, list[Measured]] = {}
        for at in range(5):
            entered |= drawn(f"c{at}", random, 0.0)
        passed += any(one.passed for one in validate(entered))
        confirmed += sum(one.confirmed for one in confirm(entered))
    assert passed / families <= 0.05 + 2 * (0.05 * 0.95 / families) ** 0.5
    assert confirmed / (5 * families) <= 0.01 + 2 * (0.01 * 0.99 / (5 * families)) ** 0.5


def test_the_stated_margin_is_found_as_often_as_stated() -> None:
    """Independent rewriters with errors that are known, for which the statement is made."""
    quantiles = stats.norm.ppf((np.arange(20) + 0.5) / 20)
    margins, verdicts = quantiles / quantiles.std(ddof=1), [0.0, 0.5] * 10
    shift = confirm(candidate("x", **{f"r{at}": (margins, verdicts) for at in range(3)}))[0].smallest_detectable
    assert shift is not None
    random, rounds, found = np.random.default_rng(1), 300, 0
    for _ in range(rounds):
        parts = {f"r{at}": (random.normal(shift, 1, 20), verdicts) for at in range(3)}
        found += confirm(candidate("x", **parts))[0].confirmed
    assert abs(found / rounds - 0.8) <= 2 * (0.8 * 0.2 / rounds) ** 0.5
