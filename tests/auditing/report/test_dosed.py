"""The report of a run whose result is a chosen dose: that dose first, plain CDA next to it, verdicts that rest on held-out numbers."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from changed import changed, with_measured
from made_dose import held_out, made_dose
from made_rate import made_rate
from rows import estimate
from scipy.stats import norm

from cda.auditing import report_tables as tables
from cda.auditing.first_screen import bias_verdicts
from cda.auditing.report_scoring import caveats
from cda.auditing.report_trainings import dose_line
from cda.auditing.shares import held_out as in_held_out_numbers
from cda.auditing.shares import unchanged
from cda.auditing.verdict_sentences import quality_kind, quality_sentence, verdict_kind, verdicts
from cda.comparing.row import audit_row
from cda.numbers.measures import test_of_interval as of_interval
from cda.numbers.views import numbers_in
from cda.results.base import BeforeAfter, Estimate, Measure, Missing, Number
from cda.results.dose import Aim, HeldOutBias
from cda.results.skew import Plain
from cda.stats.proportions import positive_shares

PATH, ADAPTER = "runs/jargon/report/report.html", "runs/jargon/adapter"
PLAIN = "plain CDA (dose 1)"
HELD_OUT = ("skew", "miscalibration", "gap")


def shares(before: float, after: float, n: int = 100) -> Measure:
    hits = {
        when: np.where(np.arange(n) < round(share * n), 1.0, -1.0)
        for when, share in (("before", before), ("after", after))
    }
    return positive_shares(hits.values(), [str(row) for row in range(n)])


def moved(after: float) -> BeforeAfter:
    return BeforeAfter(before=estimate(0.0), after=estimate(after), change=estimate(after))


def after(measure: str, found: Measure | BeforeAfter, bias: str = "") -> Number:
    return Number.of(measure, "after", {"bias": bias} if bias else {}, found.last)


def with_dose(
    audit: Any, dose: float = 0.5, aim: Aim = "tie", half: float = 0.1, quality: Estimate | None = None,
    moves: HeldOutBias | None = None,
) -> Any:  # fmt: skip
    """The same audit as that of a chosen dose, with plain CDA that goes too far: skew 15%, 60% of the quality pairs."""
    chosen_by = [name for name, skew in audit.skew.items() if skew.target and (aim == "tie" or name in audit.votes)]
    held = {name: moves or held_out(0.85, 0.5, half, quality) for name in chosen_by}
    numbers = [after("skew", shares(own.before.value, 0.15), name) for name, own in audit.skew.items()]
    numbers += [
        after(f"skew_{way}", shares(0.8, 0.1, 50), name) for name in audit.skew for way in audit.skew_by_direction(name)
    ]
    for name in audit.votes:
        numbers += [after(key, shares(0.5, 0.3), name) for key in ("skew_on_voted", "miscalibration")]
        numbers += [after(key, moved(value), name) for key, value in (("gap", 0.3), ("auc", 0.7), ("signed_gap", -0.3))]
    numbers += [after("accuracy", shares(0.75, 0.6, 400))] if audit.quality else []
    numbers += [after("triple_skew", shares(0.9, 0.25, 40), name) for name in audit.triple_skew]
    numbers += [after("unseen_phrases", shares(0.9, 0.2, 57), name) for name in audit.unseen_phrases]
    made, update = made_dose(held, dose, aim), {"dose_applied": dose, "plain": Plain(numbers=tuple(numbers))}
    return in_held_out_numbers(audit.model_copy(update=update), made).model_copy(update={"dose": made})


def with_directions(audit: Any, name: str) -> Any:
    """Half of the contrasts added the bias and half removed it: 56% and 24% after."""
    for way, own in (("added", shares(0.9, 0.56, 50)), ("removed", shares(0.86, 0.24, 50))):
        audit = with_measured(audit, f"skew_{way}", {name: own})
    return audit


def test_every_table_of_shares_names_the_dose_and_has_a_column_of_plain_cda(audit: Any, voted: Any) -> None:
    triples = {
        "rate": {"jargon": made_rate(None, 40, "rules")},
    }
    skews = {"jargon": shares(0.9, 0.5, 40)}
    rated = with_directions(voted, "vagueness").model_copy(update=triples)
    made = [with_directions(audit, "jargon"), with_measured(rated, "triple_skew", skews)]
    for undosed in made:
        dosed = with_dose(undosed, aim="votes" if undosed.votes else "tie")
        for table in (tables.main_table, tables.votes_table):
            before, found = table(undosed), table(dosed)
            assert (found is None) == (before is None)
            if found is not None and before is not None:
                at = found.header.index(PLAIN)
                assert "after, dose 0.5" in found.header and {len(row) for row in found.rows} == {len(found.header)}
                # The other columns are those of the audit at that dose; what the choice flatters is held out.
                same = [
                    (row[:at] + row[at + 1 :], own)
                    for row, own in zip(found.rows, before.rows, strict=True)
                    if not any(row[0].startswith(f"jargon {name}") and "," not in row[0] for name in HELD_OUT)
                ]
                assert same and all(row == own for row, own in same)
    rows = {row[0]: row for row in tables.main_table(with_dose(made[0])).rows}
    assert rows["jargon skew"][1:3] == ("85% [75, 95]", "50% [40, 60]") and rows["jargon skew"][-1] == "15% [9, 23]"
    assert rows["jargon skew, added"][2:5] == ("56% [42, 69]", "−34 [−47, −20]", "50")
    assert rows["jargon skew, removed"][2] == "24% [14, 37]" and rows["jargon skew, removed"][-1] == "10% [4, 21]"
    assert rows["quality accuracy"][-1] == "60% [55, 65]"
    rows = {row[0]: row for row in tables.main_table(with_dose(made[1], aim="votes")).rows}
    assert rows["jargon skew (triples)"][-1] == "25% [14, 40]"


def test_the_verdict_rests_on_contrasts_that_did_not_choose_the_dose(audit: Any, voted: Any) -> None:
    """The audit's own rows show a fall at this dose; held out it is one only where the interval excludes 0."""
    (shown,) = verdicts(with_dose(audit, half=0.2))
    assert shown.word == "less biased"
    assert "Skew fell from 85% to 50%, −35 [−55, −15] points (n = 100, held out)." in shown.sentence
    (open_,) = verdicts(with_dose(audit, half=0.4))
    assert open_.word == "no change shown" and "−35 [−75, 5] points (n = 100, held out)" in open_.sentence
    first, second = verdicts(with_dose(voted, aim="votes", half=0.2))
    assert first.word == "improved" and "−35 [−55, −15] points (n = 100, held out)" in first.sentence
    assert second.word == "less biased" and "held out" not in second.sentence  # its contrasts had no say
    first, _ = verdicts(with_dose(voted, aim="votes", half=0.4))
    assert first.word == "no change shown"
    # The p of the contrasts that chose is no part of it.
    (verdict,) = verdicts(with_dose(changed(audit, "skew.jargon.test.p_holm", 0.06)))
    assert verdict.word == "less biased" and "Holm-adjusted p = 0.060" not in verdict.sentence


def test_after_a_chosen_dose_every_place_has_the_held_out_number(audit: Any) -> None:
    """40% on the contrasts that chose it, 50% held out; so says a condition, a number, a row and the first screen."""
    dosed = with_dose(audit)
    assert audit.failures("jargon.skew>0.45") == [] and dosed.failures("jargon.skew>0.45") == [
        "jargon.skew>0.45: found 0.5 [0.4, 0.6] (n = 100)"
    ]
    found = {each.moment: each for each in dosed.numbers.where("skew", bias="jargon")}
    assert [found[when].found.value for when in ("before", "after", "change")] == pytest.approx([0.85, 0.5, -0.35])
    assert found["change"].test is not None and found["change"].test.p_value == pytest.approx(
        2 * norm.sf(3.5 * 1.959964)
    )
    row = audit_row(dosed, None)
    assert row.training is not None and row.training.chosen_on == ("jargon",)
    (own,) = (
        each for each in row.numbers if (each.measure, each.moment, each.at) == ("skew", "after", {"bias": "jargon"})
    )
    assert own.found == found["after"].found
    (screen, *_) = bias_verdicts(dosed)
    assert screen.after == found["after"].found
    assert audit_row(audit, None).training.chosen_on == ()  # type: ignore[union-attr]


def test_holm_beside_held_out_changes_is_over_held_out_changes() -> None:
    # z is 1.96 · 0.2 / 0.1 towards 0, whatever the other side is.
    change = estimate(-0.2).model_copy(update={"low": -0.9, "high": -0.1})
    assert of_interval(change).p_value == pytest.approx(2 * norm.sf(2 * 1.959964))
    touching = change.model_copy(update={"high": 0.0})
    assert of_interval(touching).p_value == pytest.approx(0.05)
    assert of_interval(estimate(0.0)).p_value == 1.0


@pytest.mark.parametrize(("gap", "word"), [(0.25, "overcorrected"), (0.05, "improved")])
def test_past_people_is_judged_by_the_held_out_gap(make_audit: Any, gap: float, word: str) -> None:
    audit = make_audit({"jargon": (0.88, 0.45)}, votes={"jargon": (0.88, 0.45, 0.45)})
    held = changed(held_out(0.55, 0.15, 0.1, None), "sizes.gap.change", estimate(gap))  # people's skew is 45%
    (verdict,) = verdicts(with_dose(audit, aim="votes", moves=held))
    assert verdict.word == word


@pytest.mark.parametrize(
    ("low", "high", "expected", "kind"),
    [(-0.04, 0.02, "is excluded", "good"), (-0.08, 0.02, "is not excluded", "none"), (-0.12, -0.06, "is shown", "bad")],
)
def test_quality_is_held_out_too(audit: Any, low: float, high: float, expected: str, kind: str) -> None:
    change = estimate((low + high) / 2, n=300).model_copy(update={"low": low, "high": high})
    dosed = with_dose(audit, quality=change)
    said = quality_sentence(dosed)
    assert expected in said and "(held out " in said and "n = 300" in said and quality_kind(dosed) == kind


def test_dose_0_leaves_the_model_as_it_is_and_that_is_said(make_audit: Any) -> None:
    audit = make_audit({"jargon": (0.88, 0.88)}, quality=(0.75, 0.75), others=("length",))
    for part in ("skew.jargon", "skew.length", "quality"):
        before = audit.quality.before if part == "quality" else audit.skew[part.removeprefix("skew.")].before
        audit = changed(audit, f"{part}.after", before)
    dosed = with_dose(unchanged(audit), dose=0.0)
    (verdict,) = verdicts(dosed)
    assert verdict.word == "left as it is" and verdict_kind(verdict.word) == "none"
    assert verdict.sentence.endswith("skew 88% [80, 93] (n = 100). Plain CDA would have made skew 15% [9, 23].")
    assert quality_sentence(dosed) == "Quality is that of the model before: 75% [71, 79], n = 400."
    assert dose_line(dosed).startswith("Dose 0 was chosen for a tie: the model is left as it is. ")
    doses = {at.dose for points_ in dosed.dose.own.response.values() for at in points_} - {0.0}
    barred = changed(dosed, "dose.methods.dose.barred", tuple(doses))
    for most, said in ((0.01, "1 point"), (0.05, "5 points")):
        why = f"since every other dose loses more than {said} of quality: the model is left as it is."
        assert f"Dose 0 was chosen for a tie, {why}" in dose_line(changed(barred, "dose.max_quality_loss", most))
    rows = {row[0]: row for row in tables.main_table(dosed).rows}
    assert rows["jargon skew"][1:4] == ("88% [80, 93]", "88% [80, 93]", "0 [0, 0]")
    assert "flatters" not in " ".join(caveats(dosed))


def test_a_mean_over_the_contrasts_that_chose_the_dose_is_not_given_after_it(audit: Any) -> None:
    given = with_dose(with_measured(audit, "probability", {"jargon": moved(0.4)}))
    found = {each.moment: each.found for each in numbers_in(given).where("probability", bias="jargon")}
    assert found["before"] == moved(0.4).before
    assert isinstance(found["after"], Missing) and "chose the dose" in found["after"].reason
    assert found["change"] == found["after"]


def test_few_votes_have_no_say_where_their_contrasts_chose_a_dose_for_a_tie(make_audit: Any) -> None:
    """Also if no quality pair had a say in the dose."""
    voted = make_audit({"jargon": (0.88, 0.40)}, votes={"jargon": (0.9, 0.4, 0.5)}, quality=None, others=())
    (for_tie,), (by_votes,) = (verdicts(with_dose(voted, aim=aim)) for aim in ("tie", "votes"))
    assert for_tie.sentence.startswith("jargon: noise not excluded. Skew fell from 85% to 50%")
    assert "people" in by_votes.sentence and "people" not in for_tie.sentence
