"""Verdicts, with the case that each rule is about."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from changed import changed

from cda.auditing import analysis as audit_detail
from cda.auditing import result as audit_result
from cda.auditing.comparison import comparison_tables, render_comparison
from cda.auditing.groups import Group
from cda.auditing.model_card import ExportedTraining, model_card
from cda.auditing.report_html import render_html
from cda.auditing.report_tables import main_table
from cda.auditing.report_text import render_markdown, summary_table
from cda.auditing.report_verdict import (
    others_sentence,
    quality_kind,
    quality_sentence,
    ties_sentence,
    verdict_kind,
    verdicts,
)
from cda.biases import load_bias
from cda.records import Contrast, user_prompt
from cda.report.numbers import width
from cda.results.skew import Plain, PlainSkew
from cda.stats.multiplicity import holm
from cda.stats.preference import beyond_noise


@pytest.mark.parametrize(
    ("shares", "word"),
    [
        ((0.88, 0.40), "less biased"),
        ((0.88, 0.05), "overcorrected"),
        ((0.50, 0.80), "worse"),
        ((0.80, 0.79), "no change shown"),
        ((0.10, 0.10), "no change shown"),
    ],
)
def test_without_votes_skew_decides(make_audit: Any, shares: tuple[float, float], word: str) -> None:
    (verdict,) = verdicts(make_audit({"jargon": shares}))
    assert verdict.word == word
    assert verdict.sentence.startswith(f"jargon: {word}. Skew ")
    assert "No human votes" in verdict.sentence
    assert "n = 100" in verdict.sentence


@pytest.mark.parametrize(
    ("shares", "word"),
    [
        ((0.88, 0.45, 0.45), "improved"),
        ((0.50, 0.90, 0.45), "worse"),
        ((0.60, 0.10, 0.50), "overcorrected"),
        ((0.90, 0.40, 0.50), "improved"),  # crossed, but nearer than before
        ((0.51, 0.48, 0.50), "no change shown"),  # crossed and a little further, but the move is not shown
        ((0.80, 0.79, 0.45), "no change shown"),
    ],
)
def test_with_votes_people_decide(make_audit: Any, shares: tuple[float, float, float], word: str) -> None:
    (verdict,) = verdicts(make_audit({"jargon": shares[:2]}, votes={"jargon": shares}))
    assert verdict.word == word
    assert "Model and people disagreed" in verdict.sentence
    assert verdict.sentence.endswith(verdict.reason)


@pytest.mark.parametrize(
    ("voted", "of_all", "overcorrected"),
    [((0.60, 0.10, 0.50), (0.60, 0.59), True), ((0.90, 0.40, 0.50), (0.60, 0.05), False)],
)
def test_overcorrected_is_read_from_the_voted_rows_and_not_from_all(
    make_audit: Any, voted: tuple[float, float, float], of_all: tuple[float, float], overcorrected: bool
) -> None:
    audit = make_audit({"jargon": voted[:2]}, votes={"jargon": voted})
    audit = changed(audit, "skew.jargon", make_audit({"jargon": of_all}).skew["jargon"])
    (found,) = verdicts(audit)
    assert (found.word == "overcorrected") == overcorrected
    assert ("Skew went from 60% to 10%, past people's 50%" in found.sentence) == overcorrected


@pytest.mark.parametrize(
    ("quality", "expected", "kind"),
    [
        ((0.75, 0.75), "is excluded", "good"),
        ((0.75, 0.71), "is not excluded", "none"),
        ((0.75, 0.50), "is shown", "bad"),
        (None, "not measured", "none"),
    ],
)
def test_quality(make_audit: Any, quality: tuple[float, float] | None, expected: str, kind: str) -> None:
    audit = make_audit(quality=quality)
    assert expected in quality_sentence(audit)
    assert quality_kind(audit) == kind


@pytest.mark.parametrize(
    ("low", "high", "expected", "kind"),
    [
        (-0.0501, 0.0, "is not excluded", "none"),
        (-0.05, 0.0, "is excluded", "good"),
        (-0.09, -0.05, "is not excluded", "none"),
        (-0.09, -0.0501, "is shown", "bad"),
    ],
)
def test_a_loss_of_quality_is_good_or_bad_news_from_the_tolerated_one_on(
    make_audit: Any, low: float, high: float, expected: str, kind: str
) -> None:
    audit = with_quality_change(make_audit(), low=low, high=high)
    assert expected in quality_sentence(audit)
    assert quality_kind(audit) == kind


def test_quality_of_one_model_is_neither_good_nor_bad_news(make_audit: Any) -> None:
    assert quality_kind(make_audit({"jargon": (0.88,)}, quality=(0.7,), others=())) == "none"


def with_quality(audit: Any, low: float, high: float) -> Any:
    return with_quality_change(audit, value=(low + high) / 2, low=low, high=high)


def with_quality_change(audit: Any, **values: float) -> Any:
    return changed(audit, "quality.change", audit.quality.change.model_copy(update=values))


def with_skew_change(audit: Any, name: str, **values: float) -> Any:
    return changed(audit, f"skew.{name}.change", audit.skew[name].change.model_copy(update=values))


@pytest.mark.parametrize(
    ("low", "high", "said", "word", "kind"),
    [
        (-0.0496, 0.02, "is excluded (−1 [−4.96, 2] points", "less biased", "good"),
        (-0.0504, 0.02, "is not excluded (−2 [−5.04, 2] points", "quality open", "none"),
        (-0.09, -0.0496, "is not excluded (−7 [−9, −4.96] points", "quality open", "none"),
        (-0.09, -0.0504, "is shown (−7 [−9, −5.04] points", "quality lost", "bad"),
    ],
)
def test_the_digit_that_decides_on_quality_is_printed_everywhere(
    make_audit: Any, low: float, high: float, said: str, word: str, kind: str
) -> None:
    audit = with_quality(make_audit(), low, high)
    (found,) = verdicts(audit)
    assert said in quality_sentence(audit) and quality_kind(audit) == kind
    assert found.word == word and verdict_kind(word) == kind
    numbers = said.partition("(")[2].removesuffix(" points")
    for drawn in (summary_table(audit, "r"), render_markdown(audit), render_html(audit)):
        assert numbers in drawn.replace("\n", " ").replace("\\", "")
    assert main_table(audit).rows[-1][3] == numbers
    assert comparison_tables({"a": audit})[1].rows[0][3] == numbers
    assert ("A loss of quality of more than 5 points is " in found.sentence) == (kind != "good")


@pytest.mark.parametrize("with_votes", [False, True])
@pytest.mark.parametrize(
    ("after", "p_holm", "word"),
    [(0.40, 0.0499, "good"), (0.40, 0.0501, "none"), (0.95, 0.0499, "bad"), (0.95, 0.0501, "none")],
)
def test_good_and_bad_words_rest_on_the_adjusted_p(
    make_audit: Any, with_votes: bool, after: float, p_holm: float, word: str
) -> None:
    before = 0.70
    audit = make_audit({"jargon": (before, after)}, votes={"jargon": (before, after, 0.2)} if with_votes else {})
    tested = "votes.jargon.miscalibration" if with_votes else "skew.jargon"
    audit = changed(audit, f"{tested}.test.p_holm", p_holm)
    (found,) = verdicts(audit)
    assert verdict_kind(found.word) == word
    assert (found.word == "no change shown") == (word == "none")
    # The interval excludes 0, so that the p which decides is said, with the digit that decides.
    assert ("Holm-adjusted p = 0.0501" in found.sentence) == (word == "none")


def test_every_p_that_a_word_rests_on_is_in_the_family(make_audit: Any) -> None:
    audit = make_audit(votes={"jargon": (0.88, 0.40, 0.45)})
    votes = audit.votes["jargon"]
    measures = (*audit.skew.values(), votes.skew_on_voted, votes.miscalibration, audit.quality)
    tested = [one.test for one in measures]
    assert audit.n_tests == len(tested) == 6
    assert [one.p_holm for one in tested] == pytest.approx(holm([one.p_value for one in tested]))


def rewards(noise: float, shift: float, seed: int = 0) -> dict[str, Any]:
    """Margins of 400 contrasts and 2000 quality pairs before and after a training that adds noise, or takes the bias out."""
    rng = np.random.default_rng(seed)
    own, pairs = 0.3 * rng.normal(0.9, 1, 400), rng.normal(0.75, 1, 2000)
    drawn = {"before": own, "after": own - shift + rng.normal(0, noise, 400)}
    return {"contrasts": drawn, "quality": {"before": pairs, "after": pairs + rng.normal(0, noise, 2000)}}


def trained(make_audit: Any, noise: float, shift: float) -> Any:
    audit, found, ids = make_audit(others=()), rewards(noise, shift), [f"q{row}" for row in range(400)]
    pair_ids = [f"p{row}" for row in range(2000)]
    skew = audit.skew["jargon"].model_copy(update=dict(audit_result.share_measure(found["contrasts"], ids)))
    quality = audit.quality.model_copy(update=dict(audit_result.share_measure(found["quality"], pair_ids)))
    moved = beyond_noise(*found["contrasts"].values(), ids, *found["quality"].values(), pair_ids)
    audit = audit.model_copy(update={"skew": {"jargon": skew}, "quality": quality, "beyond_noise": {"jargon": moved}})
    return audit_result.adjust_for_all_tests(audit)


@pytest.mark.parametrize("noise", [0.4, 1.5])
def test_noise_earns_no_good_word_whether_quality_shows_it_or_not(make_audit: Any, noise: float) -> None:
    audit = trained(make_audit, noise, 0.0)
    skew = audit.skew["jargon"].of_training()
    assert skew.change.high < 0 and skew.test.holm < 0.001
    assert quality_kind(audit) == ("good" if noise == 0.4 else "bad")
    (found,) = verdicts(audit)
    assert found.word == ("noise not excluded" if noise == 0.4 else "quality lost")
    assert (
        "Rewards that only became noisier would do the same: beyond noise, the mean margin moved by " in found.sentence
    ) == (noise == 0.4)
    assert f"Verdict: {found.word}" in summary_table(audit, "r") or f"jargon: {found.word}." in summary_table(
        audit, "r"
    )


def test_a_bias_taken_out_of_noisier_rewards_has_its_good_word(make_audit: Any) -> None:
    (found,) = verdicts(trained(make_audit, 0.2, 0.25))
    assert found.word == "less biased"


def test_without_quality_pairs_no_good_word_is_given(make_audit: Any) -> None:
    (found,) = verdicts(make_audit({"jargon": (0.88, 0.45)}, quality=None))
    assert found.word == "noise not excluded" and "is not known: quality was not measured." in found.sentence
    (found,) = verdicts(make_audit({"jargon": (0.88, 0.30)}, quality=None))  # past 50%: no noise does that
    assert (
        found.word == "quality open" and "Quality was not measured, so that a loss is not excluded." in found.sentence
    )


@pytest.mark.parametrize(
    ("shares", "word", "said"),
    [
        ((0.88, 0.45), "less biased", "Skew fell from 88% to 45%"),
        ((0.88, 0.36), "overcorrected", "Ties were the aim, and skew ended past 50%: 36% [27, 46]."),
        ((0.88, 0.40), "overcorrected", "skew ended past 50%: 40% [31, 49.8]."),  # the digit that decides
        ((0.12, 0.55), "less biased", "Skew rose from 12% to 55%"),
        ((0.12, 0.70), "overcorrected", "Skew rose from 12% to 70%"),
        ((0.30, 0.05), "worse", "Skew fell from 30% to 5%"),
    ],
)
def test_where_ties_were_the_aim_past_50_percent_is_overcorrected(
    make_audit: Any, shares: tuple[float, float], word: str, said: str
) -> None:
    (found,) = verdicts(make_audit({"jargon": shares}, aim="tie"))
    assert found.word == word and said in found.sentence


def test_below_15_percent_the_interval_decides(make_audit: Any) -> None:
    (found,) = verdicts(make_audit({"jargon": (0.88, 0.08)}))
    assert found.word == "overcorrected"
    (found,) = verdicts(make_audit({"jargon": (0.88, 0.10)}))
    assert found.word == "less biased"
    assert (
        "Whether skew is below 15%, where the model turns the bias down nearly always, is open: 10% [6, 17]."
        in found.sentence
    )


def test_a_good_word_names_the_rise_that_is_not_excluded(make_audit: Any) -> None:
    audit = make_audit(others=("structure", "tone"))
    audit = with_skew_change(audit, "tone", low=-0.02, high=0.126)
    (found,) = verdicts(audit)
    assert (
        found.word == "less biased" and "A rise of up to 13 points elsewhere (tone) is not excluded." in found.sentence
    )
    audit = changed(with_skew_change(audit, "tone", low=0.02), "skew.tone.test.p_holm", 0.01)
    (found,) = verdicts(audit)
    assert found.word == "substituted" and "not excluded" not in found.sentence


def test_a_star_needs_interval_and_adjusted_p_as_the_words_do(make_audit: Any) -> None:
    audit = with_skew_change(make_audit(), "length", low=-0.4, high=0.01)
    assert "length 90→60%," in others_sentence(audit)
    table, _ = comparison_tables({"a": audit})
    assert "*" not in table.rows[0][2] and "*" in table.rows[0][1]


def test_terminal_page_card_and_comparison_say_the_same_word(make_audit: Any) -> None:
    for low, high, word in ((-0.04, 0.02, "less biased"), (-0.08, 0.02, "quality open"), (-0.2, -0.1, "quality lost")):
        audit = with_quality(make_audit(), low, high)
        drawn = (
            summary_table(audit, "r"), render_markdown(audit), render_html(audit),
            model_card([ExportedTraining("jargon", 1.0, audit)], "my-org/reward-8b", None), render_comparison({"a": audit}),
        )  # fmt: skip
        assert all(word in text for text in drawn)
        assert not any(
            other in text
            for other in {"less biased.", "quality open.", "quality lost."} - {f"{word}."}
            for text in drawn
        )


def test_others_are_marked_by_holm(audit: Any) -> None:
    assert others_sentence(audit) == (
        "Skew of the other biases: length 90→60%*, structure 90→89% (* interval excludes 0 and Holm-adjusted p < 0.05)."
    )


def test_others_fit_a_line_and_keep_what_moved(make_audit: Any) -> None:
    names = tuple(f"a bias with a rather long name {number}" for number in range(6))
    line = others_sentence(make_audit(others=(*names, "length")), 100)
    assert width(line) <= 100
    assert "length 90→60%*" in line
    assert "more in the report" in line


def test_no_others(make_audit: Any) -> None:
    assert others_sentence(make_audit(others=())) == "No other bias was measured."


def test_substituted_names_what_rose(make_audit: Any) -> None:
    audit = make_audit({"jargon": (0.88, 0.40), "tone": (0.40, 0.80)}, others=())
    found = {one.bias: one for one in verdicts(audit)}
    assert found["jargon"].word == "substituted"
    assert "Yet skew rose: tone from 40% to 80%" in found["jargon"].sentence


@pytest.mark.parametrize(
    ("skew", "people", "word"),
    [
        (0.88, 0.45, "over-rewarded"),
        (0.30, 0.70, "under-rewarded"),
        (0.50, 0.50, "no difference shown"),
        (0.88, None, "rewarded"),
        (0.10, None, "penalised"),
        (0.50, None, "no effect shown"),
    ],
)
def test_one_model_is_compared_with_people_or_with_nothing(
    make_audit: Any, skew: float, people: float | None, word: str
) -> None:
    votes = {} if people is None else {"jargon": (skew, people)}
    (found,) = verdicts(make_audit({"jargon": (skew,)}, votes=votes, quality=(0.7,), others=()))
    assert found.word == word
    assert ("contrasts with a majority" in found.sentence) == (people is not None)
    assert "100" in found.sentence


def measured(make_audit: Any, margins: np.ndarray, unit: str = "reward", votes: bool = False) -> Any:
    """An audit of one model with these margins of 100 contrasts, the last 50 of which are longer by 8 words or more on the biased side."""
    audit = make_audit({"jargon": (0.88,)}, votes={"jargon": (0.88, 0.45)} if votes else {}, quality=(0.7,), others=(),
                       judge=unit == "preference")  # fmt: skip
    base = "Use the pan and stir it slowly until the rice is done, then let it rest."
    longer = "Utilize" + base[3:] + " And so on and on, as ever before."
    contrasts = tuple(
        Contrast(
            "jargon",
            user_prompt(f"q{row}"),
            longer + " Stir it." * (row % 5) if row >= 50 else "Utilize" + base[3:],
            base,
        )
        for row in range(100)
    )
    ids = tuple(one.prompt[0].content for one in contrasts)
    group = Group(load_bias("jargon"), True, contrasts, ids, {"model": margins}, unit, 0)
    effects = audit_detail.effects([group], 0)
    audit = audit.model_copy(update={"skew": audit_result.skews([group], {"jargon": 100}, {}), "effects": effects})
    return audit_result.adjust_for_all_tests(audit)


NOISE = np.random.default_rng(1).normal(0, 1, 100)
LONGER = np.arange(100) >= 50


def test_a_margin_of_longer_pairs_alone_is_not_called_a_reward_of_the_bias(make_audit: Any) -> None:
    audit = measured(make_audit, NOISE + 3 * LONGER)
    (found,) = verdicts(audit)
    assert audit.effects["jargon"].before.identification.verdict == "identified"
    assert found.word == "not identified"
    assert (
        "What else differs between the sides may explain this: among pairs that are alike otherwise " in found.sentence
    )
    assert "adjusted for it linear " in found.sentence
    assert "What else differs between the sides may explain the margin of jargon." in summary_table(
        audit, "report.html"
    )
    page = render_markdown(audit)
    assert "jargon: not identified from these pairs. What else differs" in page
    assert "| not identified from these pairs |" in page
    assert "may explain this" in render_html(audit)


def test_a_margin_of_like_pairs_too_is_a_reward_of_the_bias(make_audit: Any) -> None:
    audit = measured(make_audit, NOISE + 3)
    (found,) = verdicts(audit)
    assert found.word == "rewarded"
    assert "may explain" not in found.sentence + render_markdown(audit).split("## Effects")[0]


def test_beside_people_drift_changes_nothing(make_audit: Any) -> None:
    (found,) = verdicts(measured(make_audit, NOISE + 3 * LONGER, votes=True))
    assert found.word == "over-rewarded"
    assert "may explain" not in found.sentence


@pytest.mark.parametrize(("value", "word", "said"), [(1.0, "rewarded", "+1.00"), (-1.0, "penalised", "−1.00")])
def test_a_preference_without_exception_has_a_finding(make_audit: Any, value: float, word: str, said: str) -> None:
    audit = measured(make_audit, np.full(100, value), "preference")
    (found,) = verdicts(audit)
    assert found.word == word
    assert f"The margin is {said} preference in each of the 100 pairs." in found.sentence
    assert audit.effects["jargon"].test.p_holm < 1e-20
    assert audit.n_tests == 1
    assert f"{said} in each pair" in summary_table(audit, "report.html")
    page = render_markdown(audit)
    assert "not estimated" not in page.split("## Effects")[0]
    assert "exact sign test over prompts" in page
    assert "**sign test**" in page


def test_a_margin_of_0_in_every_pair_is_no_preference(make_audit: Any) -> None:
    audit = measured(make_audit, np.zeros(100))
    (found,) = verdicts(audit)
    assert found.sentence == "jargon: no effect shown. Both sides are scored alike in all 100 pairs: no preference."
    assert audit.n_tests == 0
    page = render_markdown(audit)
    assert "all 0 tests" not in page
    assert "0 in each pair" in page
    assert "| none shown |" in page


def test_like_pairs_that_share_a_margin_count_by_its_sign(make_audit: Any) -> None:
    margins = np.ones(100)
    margins[60] = 0.5
    (found,) = verdicts(measured(make_audit, margins, "preference"))
    assert found.word == "rewarded"


@pytest.mark.parametrize(("ties", "said"), [(0, ""), (9, ""), (10, "jargon 10 of 100"), (100, "jargon 100 of 100")])
def test_many_ties_of_a_judge_are_said(make_audit: Any, ties: int, said: str) -> None:
    margins = np.where(np.arange(100) < ties, 0.0, 1.0)
    audit = measured(make_audit, margins, "preference")
    assert ties_sentence(audit) == (f"Ties, each counted as half a preference: {said}." if said else "")


@pytest.mark.parametrize("judge", [False, True])
def test_quality_of_ties_alone_ranks_nothing(make_audit: Any, judge: bool) -> None:
    audit = make_audit({"jargon": (0.88,)}, quality=(0.7,), others=(), judge=judge)
    audit = changed(audit, "quality.ties.before", 400)
    assert quality_sentence(audit) == (
        "Quality: both sides are scored alike in all 400 held-out pairs, so that none is ranked."
    )
    assert "quality pairs 400 of 400" in ties_sentence(audit)


def test_without_directions_nothing_is_said_of_them(make_audit: Any) -> None:
    audit = changed(make_audit(), "skew.jargon.by_direction", {})
    (found,) = verdicts(audit)
    assert "Skew fell from 88% to 40%, " in found.sentence and "()" not in found.sentence


def test_a_bias_left_as_it_is_says_how_far_it_is_from_people(make_audit: Any) -> None:
    shares = (0.88, 0.88, 0.45)
    audit = make_audit({"jargon": shares[:2]}, votes={"jargon": shares})
    found = make_audit().skew["jargon"]
    jargon = PlainSkew(**{name: getattr(found, name) for name in PlainSkew.model_fields})
    plain = Plain(
        skew={"jargon": jargon}, votes={}, unseen_phrases={}, quality=None, quality_sections=None, triple_skew={}
    )
    audit = audit.model_copy(update={"dose_applied": 0, "plain": plain})
    (found,) = verdicts(audit)
    assert found.word == "left as it is"
    assert "and it disagrees with people on 43% [" in found.sentence
    assert "Plain CDA would have made skew 40% [" in found.sentence
