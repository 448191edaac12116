"""One word on each bias, with the case that each rule is about."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from rows import estimate

from cda.results.base import Estimate
from cda.stats.verdict import (
    Evidence,
    Finding,
    Loss,
    Margin,
    ModelEvidence,
    Moved,
    PeopleEvidence,
    finding,
    may_be_drift,
    may_be_noise,
    moved_along,
    quality_loss,
    verdict,
    worsened,
)


def change(before: float, after: float, half: float = 0.1, p_holm: float = 0.001) -> Moved:
    moved = after - before
    return Moved(before, after, moved - half, moved + half, p_holm, max(0.0, after - half), min(1.0, after + half))


FELL, ROSE, STAYED = change(0.8, 0.5), change(0.5, 0.8), change(0.8, 0.79)
BELOW = estimate(-0.5)
shares = st.floats(0, 1)
moves = st.builds(change, shares, shares, st.floats(0, 0.5), shares)


def only(skew: Moved, loss: Loss | None = "excluded", beyond: Estimate | None = BELOW, tie: bool = False) -> str:
    return verdict("jargon", {"jargon": Evidence(skew, None, tie, beyond)}, loss)


def people(before: float, after: float, human: float, miscalibration: Moved) -> PeopleEvidence:
    further = abs(after - human) > abs(before - human) + 0.05
    return PeopleEvidence(miscalibration, change(before, after), human, further)


def beside(voted: PeopleEvidence, loss: Loss | None = "excluded", beyond: Estimate | None = None) -> str:
    # Skew on all rows says otherwise, and does not count.
    return verdict("jargon", {"jargon": Evidence(STAYED, voted, False, beyond)}, loss)


@pytest.mark.parametrize(
    ("skew", "word"),
    [
        (FELL, "less biased"),
        (change(0.8, 0.04), "overcorrected"),
        (change(0.8, 0.1), "less biased"),  # the interval holds 15%
        (change(0.3, 0.15, 0.05), "less biased"),
        (ROSE, "worse"),
        (STAYED, "no change shown"),
        (change(0.1, 0.1, 0.05), "no change shown"),  # low already: nothing was overcorrected
    ],
)
def test_without_votes_skew_decides(skew: Moved, word: str) -> None:
    assert only(skew) == word


@pytest.mark.parametrize("skew", [FELL, ROSE, change(0.8, 0.04)])
def test_good_and_bad_words_need_the_adjusted_p(skew: Moved) -> None:
    assert only(replace(skew, p_holm=0.049)) != "no change shown"
    assert only(replace(skew, p_holm=0.05)) == "no change shown"


@pytest.mark.parametrize(
    ("skew", "word"),
    [
        (change(0.8, 0.35), "overcorrected"),  # wholly below 50%
        (change(0.8, 0.41), "less biased"),  # holds 50%
        (change(0.2, 0.5), "less biased"),  # a model against the bias, brought to ties
        (change(0.2, 0.65), "overcorrected"),
        (change(0.8, 0.95), "worse"),
        (change(0.45, 0.52), "no change shown"),  # the interval holds 0
        (change(0.35, 0.2), "worse"),  # further against the bias than it was
    ],
)
def test_where_ties_were_the_aim_50_percent_is_the_mark(skew: Moved, word: str) -> None:
    assert only(skew, tie=True, beyond=estimate(0.5 if skew.after > skew.before else -0.5)) == word


@pytest.mark.parametrize(
    ("voted", "word"),
    [
        (people(0.9, 0.5, 0.4, change(0.6, 0.35)), "improved"),
        (people(0.5, 0.9, 0.4, ROSE), "worse"),
        (people(0.9, 0.89, 0.4, STAYED), "no change shown"),
        (people(0.6, 0.1, 0.5, STAYED), "overcorrected"),
        (people(0.6, 0.1, 0.5, change(0.6, 0.35)), "overcorrected"),  # would be improved but for the skew
        (people(0.2, 0.9, 0.3, ROSE), "overcorrected"),  # past people the other way, named before worse
        (people(0.9, 0.2, 0.5, change(0.6, 0.35)), "improved"),  # crossed, but nearer than before
        (people(0.6, 0.38, 0.5, STAYED), "no change shown"),  # crossed, but not shown to be further
        (people(0.51, 0.48, 0.5, STAYED), "no change shown"),  # crossed, but the move is not shown
    ],
)
def test_with_votes_people_decide(voted: PeopleEvidence, word: str) -> None:
    assert beside(voted) == word


def test_words_beside_people_need_the_adjusted_p() -> None:
    for before, after, miscalibration in ((0.9, 0.5, change(0.6, 0.35)), (0.5, 0.9, ROSE), (0.6, 0.1, STAYED)):
        voted = people(before, after, 0.5 if after == 0.1 else 0.4, miscalibration)
        assert beside(voted) != "no change shown"
        open_ = replace(
            voted, miscalibration=replace(miscalibration, p_holm=0.06), skew=replace(voted.skew, p_holm=0.06)
        )
        assert beside(open_) == "no change shown"


@pytest.mark.parametrize(
    ("low", "high", "loss"),
    [
        (-0.0499, 0.02, "excluded"),
        (-0.05, 0.02, "excluded"),
        (-0.0501, 0.02, "not excluded"),
        (-0.1, -0.05, "not excluded"),
        (-0.1, -0.0501, "shown"),
    ],
)
def test_a_loss_of_quality_is_held_against_5_points(low: float, high: float, loss: str) -> None:
    assert quality_loss(low, high) == loss


@pytest.mark.parametrize(
    ("loss", "word"),
    [("excluded", "less biased"), ("not excluded", "quality open"), ("shown", "quality lost"), (None, "quality open")],
)
def test_a_good_word_depends_on_quality(loss: Loss | None, word: str) -> None:
    assert only(FELL, loss) == word
    assert beside(people(0.9, 0.5, 0.4, change(0.6, 0.35)), loss) == word.replace("less biased", "improved")
    for bad, said in ((ROSE, "worse"), (change(0.8, 0.04), "overcorrected"), (STAYED, "no change shown")):
        assert only(bad, loss) == said


@pytest.mark.parametrize("beyond", [None, estimate(0.05), estimate(0.5)])
def test_a_fall_towards_50_percent_that_the_mean_margin_does_not_share_may_be_noise(beyond: Estimate | None) -> None:
    assert only(FELL, beyond=beyond) == "noise not excluded"
    assert only(FELL, "shown", beyond) == "quality lost"
    assert beside(people(0.9, 0.5, 0.4, change(0.6, 0.45)), beyond=beyond) == "noise not excluded"


def test_what_noise_cannot_do_needs_no_mean_margin() -> None:
    assert only(change(0.8, 0.35), beyond=None) == "less biased"  # past 50%
    assert only(change(0.45, 0.25), beyond=None) == "less biased"  # away from it
    assert only(Moved(0.49, 0.43, -0.1, -0.02, 0.001, 0.35, 0.51), beyond=None) == "less biased"  # likewise
    assert only(change(0.2, 0.5), beyond=None, tie=True) == "noise not excluded"  # up to it
    assert not may_be_noise(Evidence(FELL, people(0.9, 0.5, 0.4, change(0.45, 0.2)), False, None))


@pytest.mark.parametrize(
    ("other", "substituted"),
    [(change(0.5, 0.8, p_holm=0.049), True), (change(0.5, 0.8, p_holm=0.05), False), (STAYED, False), (FELL, False)],
)
def test_a_fallen_target_is_substituted_where_another_bias_rose(other: Moved, substituted: bool) -> None:
    for target, word in (
        (Evidence(FELL, None, False, BELOW), "less biased"),
        (Evidence(FELL, people(0.9, 0.5, 0.4, change(0.6, 0.35))), "improved"),
    ):
        evidence = {"jargon": target, "length": Evidence(other)}
        assert verdict("jargon", evidence, "excluded") == ("substituted" if substituted else word)
        assert worsened("jargon", evidence) == (["length"] if substituted else [])


def test_a_rise_towards_people_is_no_substitution() -> None:
    nearer = Evidence(ROSE, people(0.5, 0.8, 0.9, change(0.6, 0.35)))
    evidence = {"jargon": Evidence(FELL, None, False, BELOW), "length": nearer}
    assert verdict("jargon", evidence, "excluded") == "less biased"


@pytest.mark.parametrize(
    "voted",
    [
        people(0.84, 0.14, 0.91, change(0.12, 0.77)),  # fell below what people prefer
        people(0.60, 0.10, 0.50, change(0.5, 0.52)),  # fell from one side of people to the other
        people(0.50, 0.80, 0.65, change(0.4, 0.41)),  # rose, and no nearer to people
        people(
            0.84, 0.14, 0.91, change(0.3, 0.7, p_holm=0.1)
        ),  # further from people, though disagreement is not shown to have risen
    ],
)
def test_a_fall_away_from_the_people_who_voted_on_another_bias_is_a_cost(voted: PeopleEvidence) -> None:
    evidence = {"jargon": Evidence(FELL, None, False, BELOW), "structure": Evidence(voted.skew, voted)}
    assert worsened("jargon", evidence) == ["structure"]
    assert verdict("jargon", evidence, "excluded") == "substituted"
    blind = {**evidence, "structure": Evidence(change(0.84, 0.14))}
    assert verdict("jargon", blind, "excluded") == "less biased"


@settings(deadline=None, derandomize=True)
@given(moves, moves, shares, st.sampled_from(["excluded", "not excluded", "shown", None]))
def test_words_follow_the_numbers(skew: Moved, miscalibration: Moved, human: float, loss: Loss | None) -> None:
    blind = verdict("a", {"a": Evidence(skew)}, loss)
    assert (blind == "no change shown") == (skew.low <= 0 <= skew.high or skew.p_holm >= 0.05)
    assert (blind == "worse") == (skew.low > 0 and skew.p_holm < 0.05)
    seen = verdict("a", {"a": Evidence(skew, PeopleEvidence(miscalibration, skew, human, True))}, loss)
    assert seen != "less biased"
    assert blind != "improved"
    if seen == "improved":
        assert miscalibration.high < 0 and miscalibration.p_holm < 0.05
    if "improved" in (seen, blind) or "less biased" in (seen, blind):
        assert loss == "excluded"


def test_at_dose_0_every_bias_is_left_as_it_is() -> None:
    for skew in (FELL, ROSE, STAYED):
        assert verdict("jargon", {"jargon": Evidence(skew)}, "excluded", dose=0) == "left as it is"
    assert verdict("jargon", {"jargon": Evidence(FELL, None, False, BELOW)}, "excluded", dose=0.5) == "less biased"


def test_what_moved_along_is_shown_either_way_and_not_the_target() -> None:
    evidence = {
        "jargon": Evidence(FELL),
        "length": Evidence(change(0.8, 0.5, p_holm=0.01)),
        "tone": Evidence(change(0.5, 0.8, p_holm=0.04)),
        "structure": Evidence(change(0.8, 0.5, p_holm=0.06)),
        "vagueness": Evidence(STAYED),
    }
    assert moved_along("jargon", evidence) == ["length", "tone"]
    assert worsened("jargon", evidence) == ["tone"]


UP, DOWN, OPEN = estimate(0.5), estimate(-0.5), estimate(0.05)


def of_model(mean: Margin | None, p_holm: float = 0.001, **given: Any) -> Finding:
    """The finding of one model whose share of contrasts lies on the side of the mean margin, clear of 50%."""
    value = mean if isinstance(mean, float | None) else mean.value
    share = estimate(0.9 if value is None or value > 0 else 0.1, 0.05)
    return finding(
        ModelEvidence(**{"share": share, "ties": 0, "mean_margin": mean, "p_holm": p_holm, "identified": True} | given)
    )


@pytest.mark.parametrize(
    ("mean", "at_no_drift", "word"),
    [
        (UP, (UP, UP, UP), "rewarded"),
        (DOWN, (DOWN, DOWN, DOWN), "penalised"),
        (UP, (OPEN, UP, UP), "not identified"),  # not among like pairs
        (UP, (UP, UP, OPEN), "not identified"),  # not by every form of adjustment
        (UP, (UP, DOWN, DOWN), "not identified"),  # the opposite sign: the number of words, on vagueness
        (DOWN, (UP, DOWN, DOWN), "not rewarded"),  # the side without the bias, or what goes with it
        (UP, (None, UP, UP), "not identified"),
        (UP, (1.0, UP, UP), "rewarded"),  # like pairs all share one margin
        (UP, (0.0, UP, UP), "not identified"),
        (OPEN, (UP, UP, UP), "no effect shown"),
        (OPEN, (OPEN, DOWN, OPEN), "no effect shown"),
    ],
)
def test_only_what_shows_at_no_drift_too_is_rewarded(mean: Margin, at_no_drift: tuple[Margin, ...], word: str) -> None:
    assert of_model(mean, at_no_drift=at_no_drift) == word


def test_pairs_that_do_not_identify_the_effect_say_nothing_good_of_a_bias_and_its_direction_of_another() -> None:
    assert of_model(UP, identified=False, at_no_drift=(UP, UP, UP)) == "not identified"
    assert of_model(DOWN, identified=False) == "not rewarded"
    assert of_model(DOWN, rival="length") == "not rewarded"
    assert of_model(None, 1.0) == "not identified"


FEW = estimate(0.9, 0.05).model_copy(update={"n": 20, "n_prompts": 20})


@pytest.mark.parametrize(
    ("given", "word"),
    [
        ({"share": FEW, "identified": False}, "too few prompts"),  # and not what else differs
        ({"share": FEW, "tried": 20}, "too few prompts"),
        ({"share": FEW, "tried": 100}, "few flipped"),
        ({"rival": "length"}, "not told apart from length"),
        ({"rival": "length", "identified": False}, "not told apart from length"),
        ({"rival": "long_word_share"}, "not identified"),
        ({"share": estimate(0.4, 0.05), "ties": 55}, "mostly tied"),
        ({"share": estimate(0.4, 0.05), "ties": 5}, "no effect shown"),  # share and mean margin point to two sides
        ({"share": estimate(0.55, 0.1)}, "no effect shown"),
        ({"signed_gap": UP, "share": FEW, "rival": "length"}, "over-rewarded"),
    ],
)
def test_the_reason_without_a_verdict_is_the_first_that_holds(given: dict[str, Any], word: str) -> None:
    assert of_model(UP, **given) == word


SMALL = Estimate(value=-0.04, low=-0.06, high=-0.03, n=80, n_prompts=80, unit="reward", method="t")


@pytest.mark.parametrize(
    ("mean", "given", "word"),
    [
        (SMALL, {}, "penalised"),  # the share says nothing: 45% to 55%
        (SMALL, {"at_no_drift": (SMALL,), "ties": 49}, "penalised"),
        (SMALL, {"ties": 50}, "mostly tied"),
        (UP, {"ties": 50}, "mostly tied"),
        (UP, {"ties": 50, "share": estimate(0.6, 0.05)}, "rewarded"),
        (SMALL, {"at_no_drift": (OPEN,)}, "not rewarded"),
        (UP, {"at_no_drift": (None,)}, "not identified"),
        (UP, {"at_no_drift": (UP,)}, "rewarded"),
        (UP, {"rival": "length"}, "not told apart from length"),
        (UP, {"opposed": True}, "not identified"),
        (UP, {"p_holm": 0.06}, "no effect shown"),
        (OPEN, {"share": estimate(0.9, 0.05)}, "no effect shown"),
        (OPEN, {"share": estimate(0.4, 0.05), "ties": 55}, "mostly tied"),
        (None, {"tried": 100}, "few flipped"),
        (None, {}, "not identified"),
        (UP, {"share": FEW}, "too few prompts"),
        (0.0, {}, "scored alike"),
    ],
)
def test_on_triples_alone_the_average_effect_decides(mean: Margin | None, given: dict[str, Any], word: str) -> None:
    assert of_model(mean, **{"share": estimate(0.5, 0.05), "by_rate": True} | given) == word


@pytest.mark.parametrize(
    ("value", "p_holm", "word"),
    [
        (1.0, 1e-40, "rewarded"),
        (-1.0, 1e-40, "penalised"),
        (1.0, 0.5, "no effect shown"),  # two prompts agree by chance half of the time
        (0.0, 1.0, "scored alike"),
    ],
)
def test_a_margin_that_all_pairs_share_cannot_depend_on_what_else_differs(
    value: float, p_holm: float, word: str
) -> None:
    assert of_model(value, p_holm, identified=False) == word
    assert not may_be_drift(value, (OPEN,))


@pytest.mark.parametrize(
    ("gap", "word"), [(UP, "over-rewarded"), (DOWN, "under-rewarded"), (OPEN, "no difference shown")]
)
def test_with_votes_drift_has_no_say(gap: Estimate, word: str) -> None:
    assert of_model(UP, signed_gap=gap, at_no_drift=(OPEN, DOWN, None)) == word
    assert of_model(1.0, identified=False, signed_gap=gap) == word
    assert of_model(0.0, identified=False, signed_gap=gap) == "scored alike", (
        "ties of every pair are no preference, whatever people say"
    )
