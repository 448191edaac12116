"""Dose: the best one of a planted curve is chosen, held-out results are not flattered, prompts are never torn apart."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from numpy.typing import ArrayLike
from rows import ids, rng

from cda.dosing.choice import (
    DOSES,
    MIN_PROMPTS,
    DoseCurve,
    choose_dose,
    dose_response,
    mean_size,
    on_halves,
    out_of_fold,
)
from cda.dosing.held_out import (
    cross_validated_doses,
    draw_prompts,
    draws_of,
    halves,
    resampled_choices,
)
from cda.errors import DataError
from cda.numbers.people import against_people
from cda.records import Exclusions
from cda.results.base import Estimate
from cda.stats.estimators import mean_of
from cda.stats.votes import Majority


def people(target: ArrayLike, used: ArrayLike | None = None) -> Majority:
    wanted = np.asarray(target, float)
    kept = np.ones(len(wanted), bool) if used is None else np.asarray(used)
    return Majority(np.where(kept, wanted, 0.5), kept, "drop", Exclusions(len(wanted), {}))


def mixed(
    before: ArrayLike,
    after: ArrayLike,
    target: ArrayLike,
    quality: ArrayLike | None = None,
    names: list[str] | None = None,
) -> DoseCurve:
    """The two scorings mixed at every dose; each contrast and each quality pair (shape (2, m)) of its own prompt."""
    margins, pairs = np.array([before, after], float), None if quality is None else np.asarray(quality, float)
    own = ids(0 if pairs is None else pairs.shape[1], name="q") if names is None else names
    scored = DoseCurve((0.0, 1.0), margins, people(target), ids(margins.shape[1]), pairs, own)
    return scored.mixed(DOSES)


def planted(n: int = 80) -> DoseCurve:
    """People prefer half of the perturbed sides; every margin falls by 2λ, and those of the other half start lower.

    Preferred ones start at 4, the others at 2.2: the others turn between 1 and 1.25, the preferred ones at 2.
    """
    target = (np.arange(n) % 2).astype(float)
    before = np.where(target == 1, 4.0, 2.2)
    return mixed(before, before - 2.0, target)


def drawn_curve(seed: int, n: int, share: float, before: float, after: float, pairs: int = 0) -> DoseCurve:
    generator = rng(seed)
    target = generator.random(n) < share
    quality = generator.normal(1, 1, (2, pairs)) if pairs else None
    return mixed(generator.normal(before, 1, n), generator.normal(after, 1, n), target, quality, ids(pairs))


def cross_validated_dose(curve: DoseCurve, *given: Any, **options: Any) -> SimpleNamespace:
    """The choice of a curve of one bias, and what it measures of it."""
    found = cross_validated_doses(curve, *given, **options)
    chosen = {float(dose): share for dose, share in found.shares.items()}
    own = dict(found.held_out[""])
    return SimpleNamespace(dose=found.chosen, chosen=chosen, barred=found.barred, quality=found.quality, **own)


def test_margins_are_mixed_linearly() -> None:
    margins, quality = np.array([[1.0, -2], [3, 2]]), np.array([[1.0], [0]])
    curve = DoseCurve((0.0, 1.0), margins, people([1, 0]), ["a", "b"], quality, ["q"]).mixed((0, 0.5, 1, 2))
    assert curve.margins.tolist() == [[1, -2], [2, 0], [3, 2], [5, 6]]
    assert curve.quality_margins is not None and curve.quality_margins.tolist() == [[1], [0.5], [0], [-1]]
    assert curve.margins_at(2).tolist() == [5, 6]


def test_the_planted_best_dose_is_chosen_and_holds_on_the_other_half() -> None:
    curve = planted()
    # 1.25, 1.5 and 1.75 agree with people everywhere; the nearest to 1 is taken.
    assert choose_dose(curve).dose == 1.25
    held = cross_validated_dose(curve, rng())
    assert held.dose == 1.25 and held.chosen[1.25] == 1.0 and sum(held.chosen.values()) == pytest.approx(1)
    assert held.people["miscalibration"].value == 0 and held.people["gap"].value == held.people["signed_gap"].value == 0
    assert held.people["skew_on_voted"].value == held.people["human_skew"].value == 0.5
    # Every margin is positive at 0 and at 1: half disagree.
    assert held.against_base["miscalibration"].value == held.against_plain["miscalibration"].value == -0.5
    assert held.against_base["gap"].value == held.against_base["skew_on_voted"].value == -0.5
    assert held.quality is None and "accuracy" not in held.against_base
    assert (held.people["skew_on_voted"].n, held.people["skew_on_voted"].n_prompts) == (80, 80)


def test_a_bias_that_people_share_is_left_alone() -> None:
    before = np.linspace(0.1, 1, 40)
    held = cross_validated_dose(mixed(before, before - 5, np.ones(40)), rng())  # every dose from 0.25 turns some
    assert held.dose == 0 and held.chosen[0.0] == 1.0
    assert held.people["gap"].value == 0 and held.people["human_skew"].value == 1
    assert (held.against_base["gap"].value, held.against_plain["gap"].value) == (0, -1)


@pytest.mark.parametrize(
    ("doses", "expected"),
    [
        ((0, 0.5, 1, 1.5), 1.0),
        ((0, 0.75, 0.9, 1, 1.1, 1.5), 0.9),  # 1 is made worse: 0.9 and 1.1 are as near, though not in binary
        ((0, 0.5, 1, 1.25, 2.5), 1.25),
        ((0, 1, 1.5), 1.5),
    ],
)
def test_ties_go_towards_1_and_then_to_the_smaller(doses: tuple[float, ...], expected: float) -> None:
    target = np.tile([1.0, 0.0], 15)
    margins = np.tile(2 * target - 1, (len(doses), 1))
    if expected != 1.0:
        margins[list(doses).index(1)] *= -1
    if doses[1] == 0.5 and expected == 1.25:
        margins[1] *= -1
    assert choose_dose(DoseCurve(tuple(map(float, doses)), margins, people(target), ids(30))).dose == expected


def with_quality(lost: float, n: int = 200) -> DoseCurve:
    """The planted curve; from dose 1.25 on, a share of the quality pairs turns wrong."""
    margins = np.ones((len(DOSES), n))
    margins[np.array(DOSES) >= 1.25, : round(lost * n)] = -1
    return replace(planted(), quality_margins=margins, quality_prompt_ids=ids(n, name="q"))


def test_the_quality_limit_binds() -> None:
    curve = with_quality(0.05)
    assert choose_dose(curve, max_quality_loss=0.05).dose == 1.25
    strict = choose_dose(curve, max_quality_loss=0.04)
    assert strict.dose == 1.0  # all that is left is as bad as the base; towards 1
    assert strict.barred == tuple(dose for dose in DOSES if dose > 1)
    held = cross_validated_dose(curve, rng(), max_quality_loss=0.2)
    assert held.quality is not None
    assert held.quality.value == pytest.approx(0.95) and held.quality.n == 200
    assert held.against_base["accuracy"].value == pytest.approx(-0.05)
    response = dose_response(curve)
    assert response[0].quality_change is None
    change = response[-1].quality_change
    assert change is not None and change.value == pytest.approx(-0.05) and change.low < -0.05 < change.high < 0


def test_the_limit_is_judged_on_the_half_that_chooses_and_dose_0_is_always_allowed() -> None:
    quality = -np.ones((len(DOSES), 100))
    quality[0] = 1  # every dose but 0 loses everything
    held = cross_validated_dose(replace(planted(), quality_margins=quality, quality_prompt_ids=ids(100)), rng())
    assert held.dose == 0 and held.chosen[0.0] == 1 and held.barred == DOSES[1:]
    assert held.quality is not None and held.quality.value == 1
    # Five of 100 pairs lost: a limit of 5% holds on average and is broken by many halves.
    halves = cross_validated_dose(with_quality(0.05, 100), rng(), max_quality_loss=0.05).chosen
    assert 0.2 < halves[1.25] < 0.9 and halves[1.25] + halves[1.0] == 1


def test_a_prompt_is_never_on_both_sides() -> None:
    n, generator = 90, rng(3)
    prompts, quality_prompts = ids(n, 3), [f"p{row % 40}" for row in range(80)]  # thirty shared, ten of their own
    voted, margins = people(generator.random(n) < 0.4), generator.normal(size=(11, n))
    curve = DoseCurve(DOSES, margins, voted, prompts, generator.normal(size=(11, 80)), quality_prompts)
    held = out_of_fold(curve, rng(), repeats=5)
    for repeat in range(5):
        side = {}
        for name, first in zip(prompts, held.first_half[repeat], strict=True):
            assert side.setdefault(name, first) == first
        assert sum(side.values()) in range(13, 18)
        # Every margin is that of the dose which the other half chose, for quality pairs of the same prompt too.
        by_side = {True: held.chosen[repeat, 1], False: held.chosen[repeat, 0]}
        for row in range(n):
            assert held.margins[repeat, row] == curve.margins_at(by_side[side[prompts[row]]])[row]
        assert held.quality_margins is not None and curve.quality_margins is not None
        for row, name in enumerate(quality_prompts):
            if name in side:
                at = DOSES.index(by_side[side[name]])
                assert held.quality_margins[repeat, row] == curve.quality_margins[at, row]


def test_the_half_that_is_measured_has_no_say() -> None:
    """Turning the votes of one half leaves the dose that it gets as it was."""
    curve = drawn_curve(8, 60, 0.4, 0.5, -0.5)
    one = out_of_fold(curve, rng(), repeats=1)
    turned = people(np.where(one.first_half[0], curve.people.target, 1 - curve.people.target))
    other = out_of_fold(replace(curve, people=turned), rng(), repeats=1)
    assert (one.first_half == other.first_half).all()
    assert other.chosen[0, 0] == one.chosen[0, 0] and other.chosen[0, 1] != one.chosen[0, 1]
    measured = ~one.first_half[0]
    assert (one.margins[0, measured] == other.margins[0, measured]).all()


def test_order_of_rows_changes_nothing() -> None:
    generator = rng(4)
    target, used = generator.random(70) < 0.4, generator.random(70) < 0.9
    scores, good = generator.normal([[0.5], [-0.5]], 1, (2, 70)), generator.normal(1, 1, (2, 40))

    def held(order: np.ndarray, pairs: np.ndarray) -> SimpleNamespace:
        prompts, names = [f"p{row % 50}" for row in order], [f"p{row + 30}" for row in pairs]
        voted = people(target[order], used[order])
        curve = DoseCurve((0.0, 1.0), scores[:, order], voted, prompts, good[:, pairs], names).mixed(DOSES)
        return cross_validated_dose(curve, rng(), max_quality_loss=0.1)

    one = held(np.arange(70), np.arange(40))
    two = held(rng(1).permutation(70), rng(2).permutation(40))
    assert one.chosen == two.chosen and one.dose == two.dose
    for first, second in zip(estimates(one), estimates(two), strict=True):
        assert (second.value, second.low, second.high) == pytest.approx((first.value, first.low, first.high))


def estimates(held: SimpleNamespace) -> list[Estimate]:
    parts = (held.people, held.base, held.plain, held.against_base, held.against_plain)
    return [held.quality, *(value for part in parts for value in part.values())]


def test_rows_without_a_majority_have_no_say_and_are_not_counted() -> None:
    curve = planted()
    wild = np.hstack([curve.margins, rng().normal(size=(11, 30))])
    more = people(np.concatenate([curve.people.target, np.zeros(30)]), np.arange(110) < 80)
    with_more = DoseCurve(DOSES, wild, more, ids(110))
    assert set(out_of_fold(with_more, rng(), repeats=9).first_half[:, :80].sum(axis=1)) == {40}
    held = cross_validated_dose(with_more, rng())
    assert held.chosen[1.25] == 1 and held.people["skew_on_voted"].n == 80 and held.against_base["gap"].n == 80


def test_changes_are_differences_of_the_levels_and_intervals_hold_them() -> None:
    curve = drawn_curve(11, 100, 0.3, 0.6, -0.5)
    held = cross_validated_dose(curve, rng())
    for dose, fixed, change in ((0, held.base, held.against_base), (1, held.plain, held.against_plain)):
        for name in ("skew_on_voted", "signed_gap", "miscalibration", "gap"):
            assert change[name].value == pytest.approx(held.people[name].value - fixed[name].value)
        whole = against_people(curve.margins_at(dose), curve.people, curve.prompt_ids)
        assert (fixed["skew_on_voted"], fixed["miscalibration"]) == (whole["skew_on_voted"], whole["miscalibration"])
        assert fixed["signed_gap"].value == whole["signed_gap"].value and fixed["gap"].value > whole["gap"].value - 1e-9
    for one in (
        held.people["skew_on_voted"],
        held.people["miscalibration"],
        held.people["gap"],
        held.plain["gap"],
        held.against_base["gap"],
    ):
        assert one.low <= one.value <= one.high and one.low < one.high


def test_draws_choose_as_the_rows_themselves_would() -> None:
    """Draws that hold every prompt once repeat the estimate, but for how the splits fall."""
    curve = drawn_curve(12, 60, 0.3, 0.6, -0.5, pairs=60)
    [drawn] = resampled_choices(curve, np.ones((200, 60)), rng(), 0.1)
    held = cross_validated_dose(curve, rng(), max_quality_loss=0.1)
    assert held.quality is not None
    for draws, value in (
        (draws_of(drawn.dose, "gap"), held.people["gap"]), (draws_of(drawn.base, "gap"), held.base["gap"]),
        (draws_of(drawn.plain, "gap"), held.plain["gap"]),
        (drawn.dose["skew_on_voted"], held.people["skew_on_voted"]), (drawn.dose["miscalibration"], held.people["miscalibration"]),
        (drawn.dose["accuracy"], held.quality),
    ):  # fmt: skip
        assert draws.mean() == pytest.approx(value.value, abs=0.01)
    assert set(drawn.plain["skew_on_voted"].round(9)) == {round(float((curve.margins_at(1) > 0).mean()), 9)}
    assert drawn.base["signed_gap"][0] == pytest.approx((curve.margins_at(0) > 0).mean() - curve.people.target.mean())


def test_intervals_of_a_change_cover_the_choice_too() -> None:
    """The change of skew against plain CDA: drawing prompts with the choices kept would be far too narrow."""
    generator = rng(0)
    target = generator.random(90) < 0.25
    before = generator.normal(0.1, 1, 90) + 0.3 * target
    curve = mixed(before, before - 1.1 + 0.7 * generator.normal(size=90), target)
    found = cross_validated_dose(curve, rng()).against_plain["skew_on_voted"]
    moved = (out_of_fold(curve, rng()).margins > 0).mean(axis=0) - (curve.margins_at(1) > 0)
    kept = mean_of(moved, ids(90)).estimate
    assert kept.value == pytest.approx(found.value) and found.low <= found.value <= found.high
    assert found.high - found.low > 1.5 * (kept.high - kept.low)


def test_gaps_of_the_two_halves_do_not_cancel() -> None:
    """What one half chooses too low for the other, the other chooses too high for it: put together, nothing would be left."""
    target = np.concatenate([np.ones(20), np.zeros(20)])
    first = np.arange(40)[None] < 20
    gaps = on_halves(np.full((1, 40), 0.5) - target, first)
    assert gaps.tolist() == [[-0.5, 0.5]] and gaps.mean() == 0
    assert mean_size(gaps).tolist() == [0.5]
    # A half without rows has no gap, and no say in the mean.
    assert mean_size(on_halves(np.ones(20), np.ones((2, 20), bool))).tolist() == [1, 1]
    assert np.isnan(mean_size(np.full(2, np.nan)))


def test_draws_keep_the_size_of_every_stratum_and_split_the_prompts_that_they_hold() -> None:
    strata = np.array([2] * 30 + [1] * 7)
    weights = draw_prompts(strata, rng(), 500)
    first = halves(strata, weights, rng())
    assert not (first & (weights == 0)).any()
    for members, n in ((slice(0, 30), 30), (slice(30, 37), 7)):
        own = weights[:, members]
        assert (own.sum(axis=1) == n).all() and own.mean(axis=0) == pytest.approx(np.ones(n), abs=0.15)
        drawn, here = (own > 0).sum(axis=1), first[:, members].sum(axis=1)
        assert set(np.abs(drawn - 2 * here)) == {0, 1}
    assert len({row.tobytes() for row in first}) == 500


def test_too_few_prompts_says_how_many_are_needed() -> None:
    curve = planted(2 * MIN_PROMPTS)
    torn = replace(curve, prompt_ids=ids(2 * MIN_PROMPTS, 4))
    with pytest.raises(DataError, match=r"^10 prompts with a majority .* at least 20; collect votes on 10 more$"):
        cross_validated_dose(torn, rng())
    few = replace(curve, quality_margins=np.ones((11, 12)), quality_prompt_ids=ids(12))
    with pytest.raises(DataError, match=r"^12 prompts with quality pairs: .* add pairs of 8 more$"):
        cross_validated_dose(few, rng())
    half = replace(curve, people=people(curve.people.target, np.arange(40) < MIN_PROMPTS))
    assert cross_validated_dose(half, rng(), repeats=2).people["skew_on_voted"].n == MIN_PROMPTS


def two_biases(n: int = 60, fall: float = 0.25) -> DoseCurve:
    """The dose brings `strong` down to people's share at 1, and `shared`, which people have too, away from theirs."""
    doses, ranks = (0.0, 0.5, 1.0, 1.5), np.tile((np.arange(n) + 0.5) / n, 2)
    targets = np.concatenate([rng(3).permutation(np.arange(n) < n / 2), np.ones(n)])
    # Skew at dose λ: 1 − λ/2 of `strong`, 1 − λ · fall of `shared`.
    slope = np.repeat([0.5, fall], n)
    margins = np.array([(1 - dose * slope) - ranks for dose in doses])
    return DoseCurve(doses, margins, people(targets), ids(2 * n), biases=("strong",) * n + ("shared",) * n)


def test_of_several_biases_the_mean_over_biases_is_least() -> None:
    curve, losses = two_biases(), []
    for margins in curve.margins:
        excess = (margins > 0) - curve.people.target
        losses.append(np.mean([np.abs(one).mean() + abs(one.mean()) for one in (excess[:60], excess[60:])]))
    assert choose_dose(curve).dose == curve.doses[int(np.argmin(losses))]


def test_gaps_of_opposite_sign_do_not_cancel() -> None:
    # At 0 both biases match people; at 1 one is 30 points above and the other 30 below, which cancels in the pool.
    ranks = np.tile((np.arange(10) + 0.5) / 10, 2)
    margins = np.array([0.5 - ranks, np.repeat([0.8, 0.2], 10) - ranks])
    curve = DoseCurve((0.0, 1.0), margins, people(0.5 - ranks > 0), ids(20), biases=("a",) * 10 + ("b",) * 10)
    assert choose_dose(curve).dose == 0.0


def test_each_bias_is_measured_alone_at_doses_that_both_choose() -> None:
    curve = two_biases()
    method = cross_validated_doses(curve, rng(), repeats=5)
    found = method.held_out
    assert list(found) == ["shared", "strong"]
    assert {name: one.people["skew_on_voted"].n for name, one in found.items()} == {"strong": 60, "shared": 60}
    at = sum(float(dose) * share for dose, share in method.shares.items())
    assert 0 < at < 1.5
    assert found["strong"].people["skew_on_voted"].value == pytest.approx(1 - at / 2, abs=0.05)
    assert found["shared"].people["skew_on_voted"].value == pytest.approx(1 - at / 4, abs=0.05)
    for one in found.values():
        assert one.people["skew_on_voted"].low <= one.people["skew_on_voted"].value <= one.people["skew_on_voted"].high


@pytest.mark.parametrize(("fall", "chosen"), [(0.04, 1.0), (0.08, 0.5), (0.25, 0.0)])
def test_no_dose_moves_a_bias_that_was_not_taught_away_from_people(fall: float, chosen: float) -> None:
    """At dose λ people's agreement with `shared` falls by λ · `fall`, of which 5 points are tolerated; dose 1 is best for `strong`."""
    curve = two_biases(fall=fall)
    assert choose_dose(replace(curve, guards=("shared",))).dose == chosen
    method = cross_validated_doses(replace(curve, guards=("shared",)), rng(), repeats=5)
    assert method.chosen == chosen and method.barred == ()
    assert method.held_out["shared"].plain["miscalibration"].value == pytest.approx(fall, abs=0.01)
    # It has no say in the rest: how far it is from people within that limit changes nothing.
    assert choose_dose(curve.of("strong")).dose == 1.0


def test_prompts_with_votes_on_an_untaught_bias_alone_are_not_enough_to_choose_by() -> None:
    few = two_biases(MIN_PROMPTS // 2)
    assert list(cross_validated_doses(few, rng(), repeats=2).held_out) == ["shared", "strong"]
    with pytest.raises(DataError, match=r"^10 prompts with a majority .* collect votes on 10 more$"):
        cross_validated_doses(replace(few, guards=("shared",)), rng())


def test_a_few_rows_that_all_turn_one_way_show_no_change() -> None:
    """No draw of prompts holds a change to the other side; an exact test of 3 of 3 says p = 0.25."""
    before = np.full(80, 1.0)
    before[:16] = -1.0
    after = before.copy()
    after[16:19] = -1.0
    change = cross_validated_doses(mixed(before, after, np.full(80, 0.5)), rng(), repeats=5).held_out[""].against_base
    assert change["skew_on_voted"].value < 0 < change["skew_on_voted"].high
