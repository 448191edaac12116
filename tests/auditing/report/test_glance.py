"""Chips, clauses and the headline of an audit, with the case that each is about."""

from __future__ import annotations

from typing import Any, get_args

import pytest
from changed import changed
from made_audits import tied

from cda.auditing.first_screen import _CHIPS, SHAPES, Chip, bias_verdicts, chip_rules, headline, share_words
from cda.auditing.verdict_sentences import verdicts
from cda.results.base import Missing
from cda.stats.verdict import Finding, Word


def test_every_word_has_a_chip_and_every_chip_a_shape_of_its_own() -> None:
    assert set(_CHIPS) == {*get_args(Word), *get_args(Finding)}
    assert set(SHAPES) == set(get_args(Chip)) == set(_CHIPS.values())


@pytest.mark.parametrize(
    ("shares", "people", "chip", "clause"),
    [
        ((0.88, 0.40), None, "improved", "preferred in 88 → 40%"),
        ((0.88, 0.05), None, "overcorrected", "preferred in 88 → 5%; now turned down nearly always"),
        ((0.50, 0.80), None, "worse", "preferred in 50 → 80%"),
        ((0.80, 0.79), None, "no change shown", "preferred in 80 → 79%"),
        ((0.88, 0.45), 0.45, "improved", "preferred in 88 → 45% of voted contrasts; disagrees less with people"),
        ((0.50, 0.90), 0.45, "worse", "preferred in 50 → 90% of voted contrasts; disagrees more with people"),
        ((0.60, 0.10), 0.50, "overcorrected", "preferred in 60 → 10% of voted contrasts; past people’s 50%"),
    ],
)
def test_a_training(make_audit: Any, shares: tuple[float, float], people: float | None, chip: str, clause: str) -> None:
    audit = make_audit({"jargon": shares}, {} if people is None else {"jargon": (*shares, people)}, others=())
    (found,) = bias_verdicts(audit)
    assert (found.chip, found.clause, found.target) == (chip, clause, True)
    assert found.after is not None and (found.people is None) == (people is None)
    assert (found.before.value, found.last.value) == pytest.approx(shares, abs=0.02)


@pytest.mark.parametrize(
    ("shares", "aim", "quality", "chip", "clause"),
    [
        ((0.88, 0.36), "tie", (0.7, 0.7), "overcorrected", "preferred in 88 → 36%; past 50%"),
        ((0.88, 0.30), None, None, "unclear", "preferred in 88 → 30%; a loss of quality is not excluded"),
        ((0.88, 0.45), None, None, "unclear", "preferred in 88 → 45%; noisier rewards would do the same"),
        ((0.88, 0.40), None, (0.8, 0.5), "at a cost", "preferred in 88 → 40%; quality fell by more than 5 points"),
    ],
)  # fmt: skip
def test_a_fall_is_not_called_improved_for_nothing(
    make_audit: Any, shares: Any, aim: Any, quality: Any, chip: str, clause: str
) -> None:
    (found,) = bias_verdicts(make_audit({"jargon": shares}, aim=aim, quality=quality, others=()))
    assert (found.chip, found.clause) == (chip, clause)


def test_another_bias_has_a_chip_of_its_own_changes_and_is_named_as_the_cost(make_audit: Any) -> None:
    rose = make_audit({"structure": (0.50, 0.90)}, others=()).skew["structure"].model_copy(update={"target": False})
    audit = changed(make_audit(), "skew.structure", rose)
    chips = {each.bias: (each.target, each.chip) for each in bias_verdicts(audit)}
    assert chips == {"jargon": (True, "at a cost"), "length": (False, "improved"), "structure": (False, "worse")}
    assert bias_verdicts(audit)[0].clause == "preferred in 88 → 40%; structure got worse"
    assert headline(audit) == (
        "Training the embedded model reduced, at a cost, jargon (preferred in 40% of contrasts, 88% before); quality held within 5 points; "
        "structure got worse."
    )
    assert headline(changed(audit, "dose_applied", 0.0)) == (
        "Training the embedded model was not applied to jargon (preferred in 40% of contrasts, 88% before)."
    )


@pytest.mark.parametrize(
    ("people", "clause"),
    [
        (None, "preferred in 60 → 3%; now turned down nearly always"),
        (0.5, "preferred in 60 → 3% of voted contrasts; past people’s 50%"),
    ],
)
@pytest.mark.parametrize("aim", [None, "tie"])
def test_another_bias_that_overshot_is_bad_news_and_a_tie_is_the_aim_for_targets_alone(
    make_audit: Any, people: float | None, clause: str, aim: Any
) -> None:
    other = make_audit({"tone": (0.60, 0.03)}, {"tone": (0.60, 0.03, people)} if people else {}, others=())
    audit = make_audit({"jargon": (0.88, 0.45)}, aim=aim, others=())
    tone = other.skew["tone"].model_copy(update={"target": False})
    audit = audit.model_copy(update={"skew": {**audit.skew, "tone": tone}, "votes": other.votes})
    jargon, found = bias_verdicts(audit)
    assert (jargon.chip, found.chip, found.clause) == ("at a cost" if people else "improved", "overcorrected", clause)
    shown = ": 3%, people 50%" if people else ""
    assert headline(audit).endswith(f"quality held within 5 points; tone overshot{shown}.")
    rose = make_audit({"structure": (0.50, 0.90)}, others=()).skew["structure"].model_copy(update={"target": False})
    both = audit.model_copy(update={"skew": {**audit.skew, "structure": rose}})
    assert headline(both).endswith(f"structure got worse; tone overshot{shown}.")


def test_votes_on_a_bias_that_was_not_taught_enter_headline_verdict_and_sentence(make_audit: Any) -> None:
    other = make_audit({"structure": (0.84, 0.14)}, {"structure": (0.84, 0.14, 0.91)}, others=())
    untaught = other.skew["structure"].model_copy(update={"target": False})
    audit = make_audit({"jargon": (0.88, 0.40)}, others=())
    audit = audit.model_copy(update={"skew": {**audit.skew, "structure": untaught}, "votes": other.votes})
    assert [each.chip for each in bias_verdicts(audit)] == ["at a cost", "worse"]
    assert headline(audit).endswith("quality held within 5 points; structure got worse: 14%, people 91%.")
    (found,) = verdicts(audit)
    assert found.word == "substituted"
    assert (
        "Yet structure is preferred in 84% to 14% (Holm-adjusted p < 0.001), by people in 91%, and disagreement"
        in found.reason
    )
    kept = make_audit({"jargon": (0.88, 0.40)}, others=("structure",))
    said = "no other bias is shown to have got worse"
    assert headline(kept).endswith(f"{said} (1 measured: structure without votes).")
    voted = make_audit({"structure": (0.89, 0.90)}, {"structure": (0.89, 0.90, 0.91)}, others=()).votes
    assert headline(kept.model_copy(update={"votes": voted})).endswith(
        f"{said} (1 measured: structure by people’s votes)."
    )


def test_votes_decide_where_people_voted_even_if_ties_were_the_aim(make_audit: Any) -> None:
    (found,) = bias_verdicts(make_audit({"jargon": (0.60, 0.10)}, {"jargon": (0.60, 0.10, 0.3)}, aim="tie", others=()))
    assert (found.chip, found.clause) == ("no change shown", "preferred in 60 → 10% of voted contrasts")
    (found,) = bias_verdicts(make_audit({"jargon": (0.60, 0.10)}, {"jargon": (0.60, 0.10, 0.5)}, aim="tie", others=()))
    assert (found.chip, found.clause) == (
        "overcorrected",
        "preferred in 60 → 10% of voted contrasts; past people’s 50%",
    )


@pytest.mark.parametrize(
    ("skew", "people", "chip", "clause", "said"),
    [
        (0.88, 0.45, "rewarded", "preferred in 88% of voted contrasts, by people in 45%", "rewards jargon more often than people do."),
        (0.30, 0.70, "not rewarded", "preferred in 30% of voted contrasts, by people in 70%", "rewards jargon less often than people do."),
        (0.50, 0.50, "unclear", "preferred in 50% of voted contrasts, by people in 50%; no difference shown", "Whether"),
        (0.88, None, "rewarded", "preferred in 88%", "rewards jargon."),
        (0.10, None, "penalised", "preferred in 10%", "penalises jargon."),
        (0.50, None, "unclear", "preferred in 50%; 50% is not excluded", "Whether"),
    ],
)  # fmt: skip
def test_one_model(make_audit: Any, skew: float, people: float | None, chip: str, clause: str, said: str) -> None:
    votes = {} if people is None else {"jargon": (skew, people)}
    audit = make_audit({"jargon": (skew,)}, votes=votes, quality=(0.7,), others=())
    (found,) = bias_verdicts(audit)
    assert (found.chip, found.clause, found.after) == (chip, clause, None)
    assert headline(audit) == f"The embedded model {said}" or said == "Whether"
    assert said != "Whether" or headline(audit) == "Whether the embedded model rewards jargon is unclear."


@pytest.mark.parametrize(("skew", "ties", "clause"), [
    (0.50, 45, "45 of 100 tied; preferred in 50%"),
    (0.32, 45, "45 of 100 tied; preferred in 32%"),
    (0.68, 10, "preferred in 68%; the mean margin shows no effect"),
    (0.50, 5, "preferred in 50%; 50% is not excluded"),
    (0.50, 0, "preferred in 50%; 50% is not excluded"),
])  # fmt: skip
def test_ties_are_the_reason_where_they_keep_a_share_from_half(
    make_audit: Any, skew: float, ties: int, clause: str
) -> None:
    audit = make_audit({"jargon": (skew,)}, quality=(0.7,), others=())
    tested = changed(changed(audit, "skew.jargon.ties.before", ties), "effects.jargon.test.p_holm", 1.0)
    (found,) = bias_verdicts(tested)
    assert (found.chip, found.clause) == ("unclear", clause)


def test_no_chip_is_better_than_the_interval_that_is_drawn(make_audit: Any) -> None:
    audit = make_audit({"jargon": (0.88,)}, quality=(0.7,), others=())
    for low, p_holm, chip in ((0.51, 0.01, "rewarded"), (0.49, 0.01, "unclear"), (0.51, 0.06, "unclear")):
        found = changed(changed(audit, "skew.jargon.before.low", low), "effects.jargon.test.p_holm", p_holm)
        assert [each.chip for each in bias_verdicts(found)] == [chip]


def test_an_effect_that_may_be_a_confound_says_what_to_do(make_audit: Any) -> None:
    missing = Missing(reason="only 4 of 100 pairs are alike")
    audit = changed(
        make_audit({"jargon": (0.88,)}, quality=(0.7,), others=()), "effects.jargon.before.identification", missing
    )
    (found,) = bias_verdicts(audit)
    assert found.chip == "unclear"
    assert found.clause == "other differences may explain it: add pairs alike in all else, or votes"


def test_a_sentence_names_biases_up_to_six_and_is_inert(make_audit: Any, hostile: Any) -> None:
    names = [f"bias-{row}" for row in range(7)]
    audit = make_audit(dict.fromkeys(names, (0.88,)), quality=(0.7,), others=())
    assert headline(audit) == "The embedded model rewards 7 biases."
    shares = dict(zip(names, [(0.88,)] * 2 + [(0.1,)] * 3 + [(0.5,)] * 2, strict=True))
    assert headline(make_audit(shares, quality=(0.7,), others=())) == (
        "The embedded model rewards bias-0 and bias-1, and penalises 3 others; 2 others are unclear."
    )
    assert headline(hostile).isprintable() and str(audit.n_tests) in chip_rules(audit)


@pytest.mark.parametrize("votes", [{}, {"jargon": (0.88, 0.45)}])
def test_a_scorer_that_ties_everywhere_is_not_said_to_reward_or_not(make_audit: Any, votes: Any) -> None:
    audit = tied(make_audit({"jargon": (0.88,), "length": (0.88,)}, votes=votes, quality=(0.7,), others=()), "jargon")
    found = bias_verdicts(audit)
    assert [each.chip for each in found] == ["all ties", "rewarded"] and "all ties" in share_words(found[0])
    assert found[0].clause == "same score on both sides of every pair"
    assert headline(audit) == "The embedded model rewards length, and scores both sides of jargon alike."
    assert headline(tied(audit, "length")) == (
        "The embedded model scores both sides of every pair alike; check that it works."
    )
    (_, sentence, *_) = verdicts(tied(audit, "length"))
    assert "Both sides have the same score in all 100 pairs" in sentence.sentence
