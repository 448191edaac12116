"""Verdicts, with the case that each rule is about."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest
from changed import changed, with_measured
from made_audits import tied

from cda.auditing import analysis as audit_analysis
from cda.auditing import shares as audit_result
from cda.auditing.first_screen import audit_summary, bias_verdicts, headline
from cda.auditing.groups import Group
from cda.auditing.model_card import ExportedTraining, model_card
from cda.auditing.report import audit_document
from cda.auditing.report_tables import effects_table, identification_sentences, main_table
from cda.auditing.verdict_sentences import (
    confounds_sentence,
    drift_sentence,
    model_reason,
    model_word,
    quality_kind,
    quality_sentence,
    ties_sentence,
    verdict_kind,
    verdicts,
)
from cda.biases import load_bias
from cda.comparing.compare import compare_audits
from cda.comparing.members import Gathered, Member
from cda.comparing.page import comparison_document
from cda.comparing.row import audit_row
from cda.records import OF_TRIPLES, Contrast, user_prompt
from cda.results.base import Missing
from cda.results.effects import SameMargin
from cda.stats.proportions import beyond_noise, positive_shares


def clause_of(audit: Any) -> str:
    """The clause of the one bias of an audit."""
    return bias_verdicts(audit)[0].clause


def compared_alone(audit: Any) -> Any:
    """The document of a comparison that has this audit alone."""
    member = Member("a", "a", audit_row(audit, None), audit=audit)
    return comparison_document(compare_audits(Gathered((member,), {}, ()), 42))


NOISE = np.random.default_rng(1).normal(0, 1, 100)
LONGER = np.arange(100) >= 50
"""Contrasts of `measured` whose biased side is longer."""


def verdict_of(audit: Any) -> Any:
    (found,) = verdicts(audit)
    return found


@pytest.mark.parametrize(
    ("voted", "of_all", "overcorrected"),
    [((0.60, 0.10, 0.50), (0.60, 0.59), True), ((0.90, 0.40, 0.50), (0.60, 0.05), False)],
)
def test_overcorrected_is_read_from_the_voted_rows_and_not_from_all(
    make_audit: Any, voted: tuple[float, float, float], of_all: tuple[float, float], overcorrected: bool
) -> None:
    audit = make_audit({"jargon": voted[:2]}, votes={"jargon": voted})
    found = verdict_of(changed(audit, "skew.jargon", make_audit({"jargon": of_all}).skew["jargon"]))
    assert (found.word == "overcorrected") == overcorrected
    assert ("Skew went from 60% to 10%, past people's 50%" in found.sentence) == overcorrected


def with_change(audit: Any, place: str, low: float, high: float) -> Any:
    moved = {"value": (low + high) / 2, "low": low, "high": high}
    for key, value in moved.items():
        audit = changed(audit, f"{place}.change.{key}", value)
    return audit


@pytest.mark.parametrize(
    ("low", "high", "said", "word", "kind"),
    [
        (-0.0496, 0.02, "is excluded (−1 [−4.96, 2] points", "less biased", "good"),
        (-0.05, 0.02, "is excluded (−2 [−5, 2] points", "less biased", "good"),
        (-0.0504, 0.02, "is not excluded (−2 [−5.04, 2] points", "quality open", "none"),
        (-0.09, -0.0496, "is not excluded (−7 [−9, −4.96] points", "quality open", "none"),
        (-0.09, -0.0504, "is shown (−7 [−9, −5.04] points", "quality lost", "bad"),
    ],
)
def test_the_digit_that_decides_on_quality_and_the_word_are_the_same_everywhere(
    make_audit: Any, low: float, high: float, said: str, word: str, kind: str
) -> None:
    audit = with_change(make_audit(), "quality", low, high)
    found = verdict_of(audit)
    assert said in quality_sentence(audit) and quality_kind(audit) == kind
    assert quality_sentence(audit).startswith("Quality fell: ") == (high < 0)
    assert found.word == word and verdict_kind(word) == kind
    numbers = said.partition("(")[2].removesuffix(" points")
    compared = compared_alone(audit)
    change = compared.sections[0].tables[0].rows[2]
    assert main_table(audit).rows[-1][3] == change[-1] == numbers
    others = {"less biased.", "quality open.", "quality lost."} - {f"{word}."}
    card = model_card([ExportedTraining("jargon", 1.0, audit)], "my-org/reward-8b", None)
    for text in (
        audit_document(audit).markdown(),
        audit_document(audit).page(),
        card,
        compared.page(),
    ):
        assert numbers in text.replace("\n", " ").replace("\\", "")
        assert word in text and not [other for other in others if other in text]
    assert ("A loss of quality of more than 5 points is " in found.sentence) == (kind != "good")
    assert kind == "good" or numbers in found.sentence


def trained(make_audit: Any, noise: float, shift: float) -> Any:
    """400 contrasts and 2000 quality pairs before and after a training that adds noise to rewards, or takes the bias out."""
    rng, audit = np.random.default_rng(0), make_audit(others=())
    own, pairs = 0.3 * rng.normal(0.9, 1, 400), rng.normal(0.75, 1, 2000)
    contrasts = {"before": own, "after": own - shift + rng.normal(0, noise, 400)}
    ranked = {"before": pairs, "after": pairs + rng.normal(0, noise, 2000)}
    ids, pair_ids = [f"q{row}" for row in range(400)], [f"p{row}" for row in range(2000)]
    skew = audit.skew["jargon"].model_copy(update=dict(positive_shares(contrasts.values(), ids)))
    quality = audit.quality.model_copy(update=dict(positive_shares(ranked.values(), pair_ids)))
    moved = beyond_noise(*contrasts.values(), ids, *ranked.values(), pair_ids)
    audit = audit.model_copy(update={"skew": {"jargon": skew}})
    for key, own in (("accuracy", {"": quality}), ("beyond_noise", {"jargon": moved})):
        audit = with_measured(audit, key, own)
    return audit_result.adjust_for_all_tests(audit)


@pytest.mark.parametrize(("noise", "kind", "word"), [(0.4, "good", "noise not excluded"), (1.5, "bad", "quality lost")])
def test_noise_earns_no_good_word_whether_quality_shows_it_or_not(
    make_audit: Any, noise: float, kind: str, word: str
) -> None:
    audit = trained(make_audit, noise, 0.0)
    skew, found = audit.skew["jargon"].of_training(), verdict_of(audit)
    assert skew.change.high < 0 and skew.test.holm < 0.001
    assert quality_kind(audit) == kind and found.word == word
    assert ("beyond noise, the mean margin moved by " in found.sentence) == (word == "noise not excluded")
    assert verdict_of(trained(make_audit, 0.2, 0.25)).word == "less biased"  # noisier, and the bias taken out


def test_a_good_word_names_the_rise_that_is_not_excluded(make_audit: Any) -> None:
    audit = with_change(make_audit(others=("structure", "tone")), "skew.tone", -0.02, 0.126)
    found = verdict_of(audit)
    assert (
        found.word == "less biased" and "A rise of up to 13 points elsewhere (tone) is not excluded." in found.sentence
    )
    found = verdict_of(changed(with_change(audit, "skew.tone", 0.02, 0.126), "skew.tone.test.p_holm", 0.01))
    assert found.word == "substituted" and "not excluded" not in found.sentence


def measured(make_audit: Any, margins: np.ndarray, unit: str = "reward", votes: bool = False) -> Any:
    """An audit of one model with these margins of 100 contrasts, the last 50 of which are longer by 8 words or more on the biased
    side; a few others are shorter on it."""
    audit = make_audit({"jargon": (0.88,)}, votes={"jargon": (0.88, 0.45)} if votes else {}, quality=(0.7,), others=(),
                       judge=unit == "preference")  # fmt: skip
    base = "Use the pan and stir it slowly until the rice is done, then let it rest."
    biased = "Utilize" + base[3:]
    texts = [
        f"{biased} And so on and on, as ever before." + " Stir it." * (row % 5)
        if row >= 50
        else biased.replace("slowly ", "" if row % 4 == 0 else "slowly " if row % 4 == 1 else "gently ")
        for row in range(100)
    ]
    contrasts = tuple(Contrast("jargon", user_prompt(f"q{row}"), text, base) for row, text in enumerate(texts))
    ids = tuple(contrast.prompt[0].content for contrast in contrasts)
    group = Group(load_bias("jargon"), True, contrasts, ids, {"model": margins}, unit, 0)
    effects = audit_analysis.effects([group])
    audit = audit.model_copy(update={"skew": audit_result.skews([group], {"jargon": 100}, {}), "effects": effects})
    return audit_result.adjust_for_all_tests(audit)


def test_a_margin_of_longer_pairs_alone_is_not_called_a_reward_of_the_bias(make_audit: Any) -> None:
    audit = measured(make_audit, NOISE + 3 * LONGER)
    found, page = verdict_of(audit), audit_document(audit).markdown()
    assert audit.effects["jargon"].before.identification.verdict == "identified"
    assert found.word == "not identified"
    drift = drift_sentence("jargon", audit)
    assert "may explain this: among pairs that are alike otherwise " in drift and "adjusted for it linear " in drift
    assert re.search(
        r"The margin rises with words: \+[\d.]+ \[\+[\d.]+, \+[\d.]+\] for each one more, R² \d\d% alone, .* of the mean margin\. "
        r"Rewrite the pairs so that both sides match in words\.$",
        drift,
    )
    assert "jargon: not identified from these pairs. What else differs" in page
    assert "| not identified from these pairs |" in page and "may explain this" in audit_document(audit).page()
    # Of like pairs too, it is; and people saw what else differs.
    audit = measured(make_audit, NOISE + 3)
    found = verdict_of(audit)
    assert found.word == "rewarded"
    assert "may explain" not in found.sentence + audit_document(audit).markdown().split("## Effects")[0]
    found = verdict_of(measured(make_audit, NOISE + 3 * LONGER, votes=True))
    assert found.word == "over-rewarded" and "may explain" not in found.sentence


def test_margins_that_grow_with_length_are_not_told_apart_from_it(make_audit: Any) -> None:
    found = verdict_of(measured(make_audit, NOISE / 2 + LONGER * (4 + np.arange(100) % 5)))
    assert found.word == "not told apart from length"
    assert "a count of characters would prefer the biased side in 87%" in found.sentence
    assert re.search(
        r"\+[\d.]+ \[.*\] of the mean margin goes with the change in length; .* is left to the bias\.$", found.sentence
    )


def test_confounds_are_named_with_the_remedy(make_audit: Any) -> None:
    found = measured(make_audit, NOISE + 3 * LONGER).effects["jargon"].before.identification
    (words,) = found.confounds
    marks = words.model_copy(update={"feature": "list_lines", "slope": -2.0})
    said = confounds_sentence(found.model_copy(update={"confounds": (marks, words, words)}))
    assert (
        said.startswith(" The margin falls with list lines: −2.0 for each one more, R² ")
        and said.count("; it rises with words: +") == 1
    )
    assert said.endswith(" of the mean margin. Rewrite the pairs so that both sides match in list lines and words.")
    none = found.model_copy(update={"confounds": ()})
    remedy = "Rewrite the pairs so that both sides match in words."
    assert confounds_sentence(none) == f" Beyond the limits: words in 50 of 100 pairs. {remedy}"
    few = none.model_copy(update={"overlap": found.overlap.model_copy(update={"beyond": {"words": 19}})})
    assert confounds_sentence(few) == "" == confounds_sentence(Missing(reason="one prompt"))


@pytest.mark.parametrize(("p_holm", "word"), [(0.0499, "not identified"), (0.05, "no effect shown")])
def test_no_difference_may_explain_a_margin_that_is_not_shown(make_audit: Any, p_holm: float, word: str) -> None:
    audit = changed(measured(make_audit, NOISE + 3 * LONGER), "effects.jargon.test.p_holm", p_holm)
    assert verdict_of(audit).word == word
    assert bool(drift_sentence("jargon", audit)) == (word != "no effect shown")


@pytest.mark.parametrize(("opposite", "prefers"), [
    (None, "prefers the side without it, or what goes with that"), ("plain", "prefers the plain answer, or what goes with it"),
])  # fmt: skip
def test_a_preference_for_the_other_side_names_it_by_the_bias_files_word(
    make_audit: Any, opposite: str | None, prefers: str
) -> None:
    for margins, word, said in (
        (-3.0 * LONGER + NOISE, "not rewarded", prefers),
        (-3.0 + NOISE, "penalised", opposite and prefers.partition(",")[0]),
    ):
        audit = measured(make_audit, margins)
        audit = changed(audit, "biases", tuple(each.model_copy(update={"opposite": opposite}) for each in audit.biases))
        found = verdict_of(audit)
        assert found.word == word and (f" It {said}." if said else " reward.") in found.sentence
        assert ("prefers" in found.sentence) == bool(said)


@pytest.mark.parametrize(
    ("ties", "said"),
    [
        (0, "Quality: 70% [65, 74] of held-out pairs are ranked right, n = 400."),
        (39, "Quality: 70% [65, 74] of held-out pairs are ranked right, n = 400."),
        (399, "Quality: 70% [65, 74] (399 of 400 tied) of held-out pairs are ranked right, n = 400."),
        (400, "Quality: both sides are scored alike in all 400 held-out pairs, so that none is ranked."),
    ],
)
def test_quality_of_one_model(make_audit: Any, ties: int, said: str) -> None:
    audit = make_audit({"jargon": (0.88,)}, quality=(0.7,), others=())
    assert quality_sentence(changed(audit, "quality.ties.before", ties)) == said


@pytest.mark.parametrize(("value", "word", "said"), [(1.0, "rewarded", "+1.00"), (-1.0, "penalised", "−1.00")])
def test_a_preference_without_exception_has_a_finding(make_audit: Any, value: float, word: str, said: str) -> None:
    audit = measured(make_audit, np.full(100, value), "preference")
    found, page = verdict_of(audit), audit_document(audit).markdown()
    assert found.word == word and f"The margin is {said} preference in each of the 100 pairs." in found.sentence
    assert audit.effects["jargon"].test.p_holm < 1e-20 and audit.n_tests == 1
    assert f"{said} in each pair" in page
    assert "not estimated" not in page.split("## Effects")[0]
    assert "**intervals and tests**: sign test" in page


@pytest.mark.parametrize(("ties", "said"), [(0, ""), (9, ""), (10, "jargon 10 of 100"), (100, "jargon 100 of 100")])
def test_many_ties_of_a_judge_are_said(make_audit: Any, ties: int, said: str) -> None:
    audit = measured(make_audit, np.where(np.arange(100) < ties, 0.0, 1.0), "preference")
    assert ties_sentence(audit) == (f"Ties, each counted as half a preference: {said}." if said else "")


def test_a_scorer_of_ties_a_dose_of_0_and_missing_quality_are_said(make_audit: Any) -> None:
    one, votes = {"jargon": (0.88,)}, {"jargon": (0.88, 0.40, 0.45)}
    found = verdict_of(tied(make_audit(one, others=()), "jargon")).sentence
    assert "same score in all 100 pairs: the model does not tell them apart, and its skew of 88% only shows" in found
    left = verdict_of(make_audit(votes=votes).model_copy(update={"dose_applied": 0.0})).sentence
    assert "Dose 0 was chosen, so that the result is the model before: skew 89% [82, 94], and it disagrees with" in left
    assert "people on 43% [" in left
    assert quality_sentence(make_audit(one, quality=None, others=())) == "Quality was not measured."
    assert quality_sentence(make_audit(quality=None)) == "Quality was not measured, so a loss cannot be excluded."


@pytest.fixture
def on_triples(make_audit: Any) -> Any:
    """One model of which triples alone are known, its ATE on 40 of them positive, and no rival."""
    audit = make_audit({"jargon": (0.88,)}, quality=None, others=(), rate=True)
    audit = changed(audit, "skew.jargon.source", OF_TRIPLES)
    audit = changed(audit, "rate.jargon.test", audit.effects["jargon"].test.model_copy(update={"p_holm": 0.01}))
    return changed(audit, "effects.jargon.before.length", None)


def effects_of(audit: Any, **values: float) -> Any:
    """The audit with these double-rewrite effects alone, each ± 0.1."""
    measured = audit.rate["jargon"].measured.before
    effect = measured.get("ATE", "double")
    found = [
        effect.model_copy(
            update={
                "estimand": name,
                "estimate": effect.estimate.model_copy(
                    update={"value": value, "low": value - 0.1, "high": value + 0.1}
                ),
            }
        )
        for name, value in values.items()
    ]
    return changed(audit, "rate.jargon.measured.before.effects", tuple(found))


def test_the_verdict_on_triples_alone_says_the_effect_that_it_rests_on(on_triples: Any) -> None:
    both = effects_of(on_triples, ATE=0.5, ATT=0.4, ATU=0.6)
    assert (model_word("jargon", both), model_reason("jargon", both)) == ("rewarded", "ATE +0.50 [+0.40, +0.60]")
    said = verdict_of(both).sentence
    assert "By RATE it changes the score by +0.50 [+0.40, +0.60] reward (ATE, double rewrites; p (Holm) = 0.01" in said
    opposite = effects_of(on_triples, ATE=0.5, ATT=1.2, ATU=-0.2)
    assert model_word("jargon", opposite) == "not identified"
    assert model_reason("jargon", opposite) == "opposite effects: ATT +1.20, ATU −0.20"
    flips = {"tried_without": 0, "flipped_without": 0}
    alone = changed(
        effects_of(on_triples, ATT=0.4), "rate.jargon.flips", on_triples.rate["jargon"].flips.model_copy(update=flips)
    )
    assert model_reason("jargon", alone) == "ATT +0.40 [+0.30, +0.50]; answers with it alone"
    assert "(ATT, double rewrites of answers with it, there are no others; p (Holm)" in verdict_of(alone).sentence
    same = SameMargin(reason="nothing varies", value=0.0, n=40, n_prompts=20, p_value=None)
    assert model_word("jargon", changed(both, "effects.jargon.before.direct", same)) == "scored alike"


def test_what_else_differs_decides_on_triples_too_unless_few_pairs_are_alike(on_triples: Any) -> None:
    """Of both rewrites of triples, whose regressions contradict each other, or of which too few are alike."""
    effects = on_triples.effects["jargon"]
    against = effects.before.direct.estimate.model_copy(update={"value": -1.0, "low": -1.5, "high": -0.5})
    identified = effects.before.identification.model_copy(update={"verdict": "identified", "overlap_effect": against})
    on_triples = effects_of(on_triples, ATE=0.5, ATT=0.4, ATU=0.6)
    audit = changed(on_triples, "effects.jargon.before.identification", identified)
    audit = changed(audit, "effects.jargon.test.p_holm", 0.001)
    on_file = changed(audit, "skew.jargon.source", "file")
    for each in (audit, on_file):
        assert model_word("jargon", each) == "not identified"
        assert "What else differs" in drift_sentence("jargon", each) and "What else" in verdict_of(each).sentence
    few = {"verdict": "not identified from these pairs", "overlap_effect": Missing(reason="only 4 of 40 are alike")}
    few_alike, unexplained = (
        changed(on_triples, "effects.jargon.before.identification", identified.model_copy(update=few | more))
        for more in ({}, {"adjusted": {"linear": Missing(reason="words explain the margins in full")}})
    )
    assert model_word("jargon", few_alike) == "rewarded" and not identification_sentences(few_alike)
    assert effects_table(few_alike).rows[0][-1] == "by RATE: few like pairs"
    assert model_word("jargon", unexplained) == "not identified" and identification_sentences(unexplained)
    assert "not identified" in effects_table(unexplained).rows[0][-1]


def test_ties_decide_on_triples_too_and_are_said_on_the_first_screen(on_triples: Any) -> None:
    """As of a scorer that cannot see a bias, whose rewriter left another difference in a tenth of the pairs."""
    audit = effects_of(on_triples, ATE=-0.4, ATT=-0.4, ATU=-0.4)
    share = audit.skew["jargon"].before.model_copy(update={"value": 0.0, "low": 0.0, "high": 0.04})
    audit = changed(audit, "skew.jargon.before", share)
    alike = audit.effects["jargon"].before.identification
    below = alike.overlap_effect.model_copy(update={"value": -0.4, "low": -0.5, "high": -0.3})
    agreeing = {"overlap_effect": below, "adjusted": dict.fromkeys(alike.adjusted, below)}
    audit = changed(audit, "effects.jargon.before.identification", alike.model_copy(update=agreeing))
    (clear,) = bias_verdicts(audit)
    assert (clear.chip, clear.word) == ("penalised", "penalised") and "tied" not in clause_of(audit)
    assert headline(audit) == "The embedded model penalises jargon, by RATE on triples."
    tied = changed(audit, "skew.jargon.ties.before", 90)
    assert model_word("jargon", tied) == "mostly tied" and "Why: 90 of 100 tied." in verdict_of(tied).sentence
    assert clause_of(tied) == "90 of 100 tied" and "90 of 100 tied" in audit_summary(tied)
    rewarded = changed(effects_of(on_triples, ATE=0.5, ATT=0.4, ATU=0.6), "skew.jargon.ties.before", 60)
    assert clause_of(rewarded) == "ATE +0.50 [+0.40, +0.60]; 60 of 100 tied"


def test_too_few_prompts_are_counted(make_audit: Any) -> None:
    audit = changed(make_audit({"jargon": (0.88,)}, quality=None, others=()), "skew.jargon.before.n_prompts", 12)
    assert model_reason("jargon", audit) == "12 prompts; a verdict needs at least 30"


@pytest.mark.parametrize(("aim", "said"), [(None, True), ("tie", False)])
def test_a_fall_that_may_have_gone_too_far_is_open_unless_ties_were_the_aim(
    make_audit: Any, aim: str | None, said: bool
) -> None:
    audit = make_audit({"jargon": (0.88, 0.12)}, others=(), aim=aim)
    assert ("where the model turns the bias down nearly always, is open" in verdict_of(audit).sentence) is said
