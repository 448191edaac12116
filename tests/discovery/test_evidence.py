"""Evidence for a candidate: sums by hand, known p-values, r of k rewriters; quality of its pairs."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest
from numpy.typing import ArrayLike
from scipy import stats

from cda.biases import Bias
from cda.discovery.attribute import attribute_bias
from cda.discovery.discovery_result import run_strength, validated_strengths
from cda.discovery.held_out import agreements, confirm, evidence, fidelity, pair_drift, pair_quality, strength, validate
from cda.errors import DataError
from cda.records import Direction, Prompt, user_prompt
from cda.results.base import Estimate, Missing
from cda.results.discover import CandidateRecord, Measured
from cda.results.evidence import Confirmation, ConfirmSettings, PairQuality, Validation, ValidationResult
from cda.stats.estimators import wilson

LIKED = [2.0, 1.5, 2.5, 1.0, 3.0, 2.0, 2.2, 1.8]
IDLE = [1.0, -1.0, 0.5, -0.5, 0.2, -0.2, 0.1, -0.1]
SHAKY = [3.0, -1.0, 2.0, 1.0, -0.5, 2.0, 1.5, 0.5]
OUTLYING = [1.0, 1.2, 0.8, 1.1, 0.9, 1.0, -90.0]
WORSE, EITHER = [0.0] * 6 + [0.5] * 2, [0.5, 1.0, 0.0, 0.5, 0.5, 0.5, 1.0, 0.0]
Side = tuple[Sequence[float], Sequence[float | None]]


def row(
    number: int, rewriter: str, margin: float, verdict: float | None = 0.0, direction: Direction = "add"
) -> Measured:
    return Measured("x", rewriter, direction, user_prompt(f"question {number}"), "before", "after", margin, verdict)


def rows(
    margins: Sequence[float], verdicts: Sequence[float | None] = (), rewriter: str = "a", n_prompts: int = 99
) -> list[Measured]:
    """One row each; the prompts are gone through again and again."""
    told = verdicts or [0.0] * len(margins)
    return [row(at % n_prompts, rewriter, *found) for at, found in enumerate(zip(margins, told, strict=True))]


def entered(name: str = "x", **rewriters: Side) -> dict[str, list[Measured]]:
    found = [each for who, (margins, verdicts) in rewriters.items() for each in rows(margins, verdicts, who)]
    return {name: [replace(each, candidate=name) for each in found]}


GOOD = entered(a=(LIKED, WORSE), b=(LIKED, WORSE))


def p_of(margins: Sequence[float], verdicts: Sequence[float] = WORSE) -> float:
    reward = stats.ttest_1samp(margins, 0, alternative="greater").pvalue
    return float(max(reward, stats.ttest_1samp(verdicts, 0.5, alternative="less").pvalue))


def validated(candidates: dict[str, list[Measured]], **settings: float) -> Validation:
    return validate(candidates, ConfirmSettings.model_validate(settings))[0]


def confirmed(candidates: dict[str, list[Measured]], **settings: object) -> Confirmation:
    return confirm(candidates, ConfirmSettings.model_validate(settings))[0]


def test_strength_by_hand() -> None:
    found = strength(rows([2.0, 1.0, 0.0, -1.0, 3.0], [0.0, 0.5, 0.0, 0.0, None]))
    assert found.reward.value == 1.0
    assert found.p_reward == pytest.approx(stats.ttest_1samp([2, 1, 0, -1, 3], 0, alternative="greater").pvalue)
    assert (found.judge.value, found.judge.n, found.n_unjudged) == (0.125, 4, 1)
    assert found.p_judge == pytest.approx(stats.ttest_1samp([0, 0.5, 0, 0], 0.5, alternative="less").pvalue)
    assert (found.judge.low, found.judge.high) == pytest.approx(wilson(0.5, 4))
    assert found.win_rate.value == 0.6  # a margin of 0 is no win
    assert found.p_value == max(found.p_reward, found.p_judge)


def test_the_win_rate_s_interval_knows_of_repeated_prompts() -> None:
    found = strength(rows([1.0, -1, 1, 1, -1, 1] * 4, n_prompts=6))
    assert (found.win_rate.low, found.win_rate.high) == pytest.approx(wilson(4, 6))
    assert found.reward.n_prompts == 6


def test_a_rewriter_that_fails_too_often_is_left_out_of_the_pool_and_still_shown() -> None:
    usual, failing = rows([1.0, 2.0, 3.0, 2.0]), rows([50.0, 60.0], rewriter="b")
    half = evidence(usual + failing, {"b": {"refusal": 2}}, 0.5)
    assert [each.excluded for each in half.rewriters] == [None, None]  # half of its calls is not more than half
    most = evidence(usual + failing, {"b": {"refusal": 2, "unchanged": 1}, "c": {"no answer": 4}}, 0.5)
    assert [each.excluded for each in most.rewriters] == [None, "3 of 5 rewrites failed", "4 of 4 rewrites failed"]
    assert most.rewriters[1].failed == {"refusal": 2, "unchanged": 1}
    assert most.rewriters[1].strength is not None and most.rewriters[1].strength.reward.value == 55
    assert most.pooled is not None and (most.pooled.reward.value, most.pooled.reward.n) == (2.0, 4)


def test_a_rewriter_whose_rewrites_are_too_often_not_judged_is_left_out() -> None:
    usual, silent = rows([1.0, 2.0, 3.0, 2.0]), rows([50.0] * 8, [0.0] * 4 + [None] * 4, "b")
    half = evidence(usual + silent, {}, 0.5)
    assert [each.excluded for each in half.rewriters] == [None, None]  # half of the verdicts is not more than half
    assert half.pooled is not None and half.pooled.n_unjudged == 4
    most = evidence([*usual, *silent, row(9, "b", 50.0, None)], {}, 0.5)
    assert [each.excluded for each in most.rewriters] == [None, "5 of 9 rewrites have no verdict of the judge"]
    assert most.pooled is not None and (most.pooled.reward.value, most.pooled.n_unjudged) == (2.0, 0)
    assert evidence(silent, {"b": {"refusal": 99}}, 0.5).rewriters[0].excluded == "99 of 107 rewrites failed"


def test_too_little_for_a_rewriter_excludes_it_with_a_reason() -> None:
    found = evidence(rows([1.0, 2.0]) + rows([1.0], rewriter="b") + rows([1.0, 2.0], [None, 0.0], "c"), {}, 0.5)
    assert [each.excluded for each in found.rewriters] == [
        None,
        "1 rewrites of 1 prompts: two prompts are needed",
        "verdicts of the judge on 1 prompts: two are needed",
    ]
    assert [each.strength is None for each in found.rewriters] == [False, True, True]
    assert evidence([], {}, 0.5).untested == "no rewriter is left"


def test_a_mean_that_owes_its_sign_to_a_few_rows_is_told() -> None:
    found = evidence(rows(OUTLYING) + rows([1.0, 2.0, 3.0] * 6, rewriter="b"), {}, 0.5)
    assert found.pooled is not None and found.pooled.reward.value == pytest.approx((-84 + 36) / 25)
    assert found.warnings == (
        "a: leaving out 1 of 7 margins outside the fences turns the mean from −12 to +1.0",
        "pooled: leaving out 1 of 25 margins outside the fences turns the mean from −1.9 to +1.8",
    )


def test_validation_is_pooled_by_prompt_and_adjusted_for_all_that_entered() -> None:
    good, *rest = validate(GOOD | {"never rewritten": [], "nor this": []})
    # The second rewriter repeats the first one's margins, so that the clustered test is the test of one of them.
    assert good.p_reward == pytest.approx(3 * stats.ttest_1samp(LIKED, 0, alternative="greater").pvalue)
    assert good.p_judge == pytest.approx(3 * stats.ttest_1samp(WORSE, 0.5, alternative="less").pvalue)
    assert good.passed and good.n_entered == 3 and good.untested is None
    assert good.pooled is not None and (good.pooled.reward.n, good.pooled.reward.n_prompts) == (16, 8)
    told = {(each.passed, each.p_reward, each.pooled, each.untested) for each in rest}
    assert told == {(False, None, None, "0 of 0 rewriters can be used, 2 are needed")}
    crowded = validated(GOOD | {f"c{n}": [] for n in range(4000)})
    assert not crowded.passed and crowded.smallest_detectable and good.smallest_detectable
    assert good.smallest_detectable < crowded.smallest_detectable
    assert validate({}) == [] and confirm({}) == []


@pytest.mark.parametrize("side", [(IDLE, WORSE), (LIKED, EITHER), ([-margin for margin in LIKED], WORSE)])
def test_validation_needs_the_model_to_like_it_and_the_judge_not_to(side: Side) -> None:
    assert not validated(entered(a=side, b=side)).passed


def test_two_of_three_is_twice_the_middle_p_value() -> None:
    candidates = entered(a=(LIKED, WORSE), b=(SHAKY, WORSE), c=(IDLE, WORSE))
    found = confirmed(candidates)
    assert found.p_value == pytest.approx(2 * p_of(SHAKY))
    assert (found.k, found.r, found.confirmed) == (3, 2, False)  # p = 0.061
    assert confirmed(candidates, test_alpha=0.07).confirmed
    by_rewriter = {each.rewriter: each.strength.p_value for each in found.rewriters if each.strength}
    assert by_rewriter == pytest.approx({"a": p_of(LIKED), "b": p_of(SHAKY), "c": p_of(IDLE)})


@pytest.mark.parametrize(("n_liked", "r", "holds"), [(1, 1, True), (1, 2, False), (2, 2, True), (2, 3, False), (3, 3, True)])  # fmt: skip
def test_r_rewriters_have_to_show_it(n_liked: int, r: int, holds: bool) -> None:
    sides: dict[str, Side] = {f"r{at}": (LIKED if at < n_liked else IDLE, WORSE) for at in range(3)}
    assert confirmed(entered(**sides), r=r).confirmed is holds


def test_each_rewriter_has_to_show_both_sides_itself() -> None:
    """Two show a liked attribute, two a disliked one, but only one both: a pooled test would have let it pass."""
    candidates = entered(a=(LIKED, WORSE), b=(LIKED, EITHER), c=(IDLE, WORSE))
    assert validated(candidates).passed and not confirmed(candidates).confirmed


def test_p_is_corrected_for_all_that_entered_the_test_by_bonferroni_unless_another_method_is_named() -> None:
    shaky = [3.0, -0.5, 2.0, 1.0, 0.2, 2.0, 1.5, 0.5]
    candidates = GOOD | entered("weak", a=(shaky, WORSE), b=(shaky, WORSE)) | {"none": []}
    sure, weak, none = confirm(candidates)
    assert sure.p_value == pytest.approx(p_of(LIKED)) and weak.p_value == pytest.approx(p_of(shaky))
    assert weak.p_value is not None and 0.004 < weak.p_value < 0.01  # by itself below the level
    assert (sure.confirmed, weak.confirmed) == (True, False)
    assert (sure.p_corrected, weak.p_corrected) == pytest.approx((3 * p_of(LIKED), 3 * p_of(shaky)))
    assert (none.p_value, none.p_corrected, none.confirmed) == (None, None, False)
    assert {(each.n_entered, each.correct) for each in (sure, weak, none)} == {(3, "bonferroni")}
    _, by_holm, _ = confirm(candidates, ConfirmSettings(correct="holm"))
    assert by_holm.p_corrected == pytest.approx(2 * p_of(shaky)) and not by_holm.confirmed
    _, alone, _ = confirm(candidates, ConfirmSettings(correct="none"))
    assert alone.p_corrected == alone.p_value == weak.p_value and alone.confirmed


def test_a_rewriter_that_refuses_makes_k_smaller_until_nothing_can_be_confirmed() -> None:
    candidates = entered(a=(LIKED, WORSE), b=(LIKED, WORSE), c=(LIKED, WORSE))
    failed = {"x": {"c": {"refusal": 9}}}
    (found,) = confirm(candidates, failed=failed)
    assert found.k == 2 and found.confirmed and found.p_value == pytest.approx(p_of(LIKED))
    assert found.pooled is not None and found.pooled.reward.n == 16
    (gone,) = confirm(candidates, failed={"x": {"c": {"refusal": 9}, "b": {"no answer": 30}}})
    assert (gone.k, gone.p_value, gone.confirmed, gone.smallest_detectable) == (1, None, False, None)
    assert gone.untested == (
        "1 of 3 rewriters can be used, 2 are needed (b: 30 of 38 rewrites failed; c: 9 of 17 rewrites failed)"
    )
    assert gone.pooled is not None and gone.pooled.reward.n == 8
    assert confirm(candidates, ConfirmSettings(max_failed=0.6), failed)[0].k == 3


@pytest.mark.parametrize(
    ("candidates", "failed", "says"),
    [
        ({"z": rows([1.0])}, {}, "1 rows of candidate 'x' stand under 'z'"),
        ({"x": []}, {"z": {"a": {"refusal": 1}}}, "'z', which did not enter"),
        ({"x": rows([1.0, np.nan, 2.0])}, {}, "NaN"),
    ],
)
def test_mixed_up_candidates_and_margins_that_are_no_numbers_are_said(
    candidates: dict[str, list[Measured]], failed: dict[str, dict[str, dict[str, int]]], says: str
) -> None:
    with pytest.raises(DataError, match=says):
        confirm(candidates, failed=failed)


def test_rewriters_are_compared_on_the_responses_that_both_rewrote() -> None:
    # The second has none of the last two prompts, a prompt of its own, and a second response of the first prompt.
    margins = [0.0, 1.0, 2.0, 3.0, 4.0, 9.0, 5.0, 6.0, 7.0, 8.0]
    given = [row(number, "one", margin) for number, margin in enumerate([*margins, -50.0, -60.0])]
    given += [row(number, "two", 2 * margin) for number, margin in enumerate(margins)]
    given += [row(99, "two", 1000.0), row(0, "two", 77.0, direction="remove")]
    (found,) = agreements(given)
    assert (found.first, found.second, found.n_prompts, found.n_responses) == ("one", "two", 10, 10)
    assert isinstance(found.pearson, Estimate) and found.pearson.value == pytest.approx(1.0)


EAST, NORTH, NORTH_EAST, WEST = (2.0, 0.0), (0.0, 0.5), (1.0, 1.0), (-1.0, 0.0)
HALF = math.sqrt(0.5)  # cosine of 45°


@pytest.mark.parametrize(
    ("rewards", "embeddings", "value"),
    [
        ([1.0, 3.0], [EAST, NORTH], 4.0),  # unlike ones add up in full
        ([3.0, 1.0], [EAST, (7.0, 0.0)], 3.0),  # a repeat of a stronger one adds nothing
        ([3.0, 2.0], [EAST, WEST], 5.0),  # opposites are not worth more than unlike ones
        ([1.0, 1.0], [EAST, NORTH_EAST], 2 - HALF),
        # 3 in full, 2 at a right angle in full, 1 at 45° to both; then the strongest is the one between.
        ([2.0, 3.0, 1.0], [EAST, NORTH, NORTH_EAST], 5 + (1 - HALF)),
        ([2.0, 1.0, 3.0], [EAST, NORTH, NORTH_EAST], 3 + 3 * (1 - HALF)),
        ([], np.empty((0, 384)), 0.0),
    ],
)
def test_known_strengths(rewards: list[float], embeddings: ArrayLike, value: float) -> None:
    assert run_strength(rewards, [0.0] * len(rewards), embeddings, 0.5) == pytest.approx(value)


def test_only_rewarded_and_disliked_candidates_count_and_the_strength_need_not_rise() -> None:
    # The first repeats the second, but the judge likes it; the third costs reward; 0 is not above 0.
    found = run_strength([9.0, 2.0, -1.0, 0.0], [0.5, 0.4, 0.1, 0.1], [EAST, EAST, NORTH, NORTH], 0.5)
    assert found == pytest.approx(2.0)
    # The strong one lies between two weaker ones, which are at a right angle to each other.
    between = [2.0, 1.9, 1.9], [0.4, 0.1, 0.1], [NORTH_EAST, EAST, NORTH]
    curve = [run_strength(*between, threshold) for threshold in (0.1, 0.2, 0.5)]
    assert curve == pytest.approx([0.0, 3.8, 2 + 3.8 * (1 - HALF)])


def test_a_run_is_as_strong_as_what_the_validation_shows_to_be_rewarded(monkeypatch: pytest.MonkeyPatch) -> None:
    # At right angles. Both are rewarded by 2 on average and disliked by the judge, the second one on one prompt alone.
    monkeypatch.setattr("cda.embedded.model.encode_sentences", lambda texts: np.eye(len(texts)))
    sure, chance = (CandidateRecord.of(attribute_bias(name)) for name in ("Bold openings", "Questions at the end"))
    margins = {sure.id: [2.0 + 0.1 * (at % 3 - 1) for at in range(12)], chance.id: [24.0, *[0.0] * 11]}
    rows = {
        name: [
            Measured(name, "one", "add", user_prompt(f"{at}?"), "without", "with", margin, 0.0)
            for at, margin in enumerate(own)
        ]
        for name, own in margins.items()
    }
    results = validate(rows, ConfirmSettings(r=1), {name: {"one": {}} for name in rows})
    validation = ValidationResult(
        results=tuple(results), failed={}, already={}, n_prompts=12, verdicts=None, cut_for_judge=0
    )
    found = validated_strengths([sure, chance], validation, 0.05)
    assert isinstance(found, dict) and found["0.5"] == pytest.approx(2.0)
    both = validated_strengths([sure, chance], validation, 1.0)
    assert isinstance(both, dict) and both["0.5"] == pytest.approx(4.0)
    assert validated_strengths([sure, chance], validation, 0.0) == dict.fromkeys(found, 0.0)


@pytest.mark.parametrize("bad", [(0.0, 0.0), (np.nan, 1.0)])
def test_an_embedding_of_no_use_is_refused_where_it_is_needed(bad: tuple[float, float]) -> None:
    with pytest.raises(DataError, match="1 of 2 embeddings"):
        run_strength([2.0, 1.0], [0.0, 0.0], [EAST, bad], 0.5)
    assert run_strength([2.0, -1.0], [0.0, 0.0], [EAST, bad], 0.5) == 2.0


SHOUTING = Bias.model_validate({
    "name": "shouting", "description": "Ends its sentences with exclamation marks",
    "question": "Do sentences of the response end with exclamation marks?",
    "instructions": {"add": "End every sentence with an exclamation mark.", "remove": "Use full stops only."},
    "keep": ["every fact"], "measure": {"feature": "exclamations", "present_above": 0.5},
})  # fmt: skip


def marked(
    number: int, rewriter: str = "one", margin: float = 1.0, direction: Direction = "add", rewrite: str | None = None
) -> Measured:
    before, after = (f"It is {number}{mark}" for mark in (".!" if direction == "add" else "!."))
    return Measured("c", rewriter, direction, user_prompt(f"Number {number}?"), before, rewrite or after, margin)


def by_mark(prompts: Sequence[Prompt], responses: Sequence[str], bias: Bias) -> list[bool | None]:
    assert len(prompts) == len(responses) and bias is SHOUTING
    return [None if "?" in text else "!" in text for text in responses]


def test_fidelity_counts_both_sides_and_what_could_not_be_told_and_labels_each_text_once() -> None:
    seen: list[str] = []

    def label(prompts: Sequence[Prompt], responses: Sequence[str], bias: Bias) -> list[bool | None]:
        seen.extend(responses)
        return by_mark(prompts, responses, bias)

    rows = [
        marked(0),
        marked(1),
        marked(2, rewrite="It is 2."),
        marked(3, rewrite="It is 3?"),
        marked(4, direction="remove"),
    ]
    rows += [marked(0, "two"), marked(1, "two", rewrite="It is 1 .")]
    found = fidelity(rows, SHOUTING, label)
    own = found["one"]
    assert own.n == 5 and own.present is not None and own.absent is not None and own.both is not None
    assert [(one.value, one.n) for one in (own.present, own.absent, own.both)] == [(3 / 4, 4), (1.0, 5), (3 / 4, 4)]
    assert own.present.low < 0.75 < own.present.high and own.absent.low < 1
    assert (own.n_unparsed_with, own.n_unparsed_without) == (1, 0)
    assert len(seen) == len(set(seen)) and found.keys() == {None, "one", "two"}
    shares = [one.present.value for one in (found[None], found["two"]) if one.present is not None]
    assert shares == [pytest.approx(4 / 6), 0.5]


def test_drift_marks_the_attribute_and_shows_what_else_changed() -> None:
    rows = [marked(number, rewrite=f"It surely is {number}!") for number in range(12)]
    rows += [marked(number, direction="remove", rewrite=f"It is {number}.") for number in range(12)]
    drift = {one.feature: one for one in pair_drift(rows, SHOUTING)}
    assert drift["exclamations"].is_treatment and drift["exclamations"].difference.value == 1.0
    assert not drift["words"].is_treatment and drift["words"].difference.value == pytest.approx(0.5)
    with pytest.raises(DataError, match="one prompt"):
        pair_drift(rows[:1], SHOUTING)


def test_all_of_it_at_once_goes_to_json_and_without_a_labeller_the_rest_is_still_there() -> None:
    rows = [marked(number, name, number + (name == "two")) for number in range(12) for name in ("one", "two")]
    found = pair_quality(rows, SHOUTING, label=by_mark)
    assert PairQuality.model_validate_json(found.model_dump_json()) == found
    assert (found.candidate, found.n, found.n_prompts, found.labelled_by) == ("c", 24, 12, "measure")
    assert found.fidelity and found.fidelity.both and found.fidelity.both.value == 1.0
    assert set(found.fidelity_by_rewriter) == {"one", "two"}
    assert getattr(found.agreement[0].pearson, "value", None) == pytest.approx(1.0)
    assert isinstance(found.drift, tuple) and any(one.is_treatment for one in found.drift)
    bare = pair_quality([marked(0, "one"), marked(0, "two")], SHOUTING)
    assert bare.fidelity is None and bare.fidelity_by_rewriter == {}
    assert len(bare.agreement) == 1 and isinstance(bare.drift, Missing) and "one prompt" in bare.drift.reason
    with pytest.raises(DataError, match="no pairs"):
        pair_quality([], SHOUTING)
