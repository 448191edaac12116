"""Which way of taking the bias out does best, what is left out, and what the report says of it; on planted rewards."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from changed import changed
from made_audits import make_audit
from planted_dose import ALWAYS, AS_PEOPLE, CONTRASTS, DOSES, NEVER, PAIRS, REST, WORSE, N, planted_dose, rewards

from cda.auditing.report_trainings import dose_document, dose_line, dose_sentences, dose_tables
from cda.biases import load_bias
from cda.dosing.stage import aimed, dose_result, losses_of
from cda.errors import DataError
from cda.recipe.sections import DoseSection
from cda.records import Contrast, user_prompt
from cda.scorers.compared import Rewards, text_id

AUDIT = make_audit()


def test_the_dose_that_agrees_with_people_is_chosen_and_is_best() -> None:
    found = planted_dose(dose=(ALWAYS, AS_PEOPLE, NEVER))
    assert found.chosen == 0.5
    held = found.methods["dose"].held_out["jargon"].people
    assert (held["miscalibration"].value, held["gap"].value) == (0, 0)
    assert found.best == "dose"
    assert found.losses == pytest.approx({"dose": 0, "mixing": 0.5, "no training": 1.5, "plain CDA": 0.5})
    sentences = " ".join(dose_sentences(found))
    assert "Dose 0.5 is the one of least miscalibration + gap" in sentences
    assert "No other way tried leaves less" in sentences
    assert dose_line(AUDIT) == ""
    assert dose_line(changed(AUDIT, "dose", found)).startswith(
        "Dose 0.5 was chosen by people's votes on the same contrasts and quality pairs; shown are the results of such choices on "
        "held-out halves: jargon miscalibration 0% ["
    )
    assert "Not tried: removing a hidden direction (its head is not given hidden states)." in sentences


@pytest.mark.parametrize("aim", ["votes", "tie"])
def test_votes_on_a_bias_that_was_not_taught_bar_doses_and_are_shown(aim: Any) -> None:
    """People want structure always: what follows them on jargon leaves them there."""
    structured = [replace(one, bias="structure", preferred="perturbed") for one in CONTRASTS]
    curve = dict(zip(DOSES, (ALWAYS, AS_PEOPLE, NEVER), strict=True))
    settings = DoseSection(doses=list(DOSES), repeats=4)
    found = dose_result(
        {"dose": curve}, [*CONTRASTS, *structured], [load_bias("jargon")], PAIRS, "drop", settings, 0, aim, **REST
    )
    assert (found.chosen, found.biases, found.guards) == (0, ("jargon",), ("structure",))
    assert found.losses.keys() == {"dose", "mixing", "no training"}  # plain CDA leaves people, too
    assert found.methods["dose"].held_out["structure"].plain["miscalibration"].value == 1
    limit = "away from people who voted on it (5 points of miscalibration)"
    assert f"structure was not taught, and no dose may move it {limit}: not 0.5, 1." in dose_sentences(found)
    assert [table.caption.split(":")[0] for table in dose_tables(found)] == ["jargon", "structure"]
    assert "miscalibration" in dose_tables(found)[1].header


def test_where_nobody_voted_the_dose_aims_at_a_tie_and_says_so() -> None:
    half = rewards(lambda row: row % 2 == 0, lambda row: row % 5)
    found = planted_dose(aim="tie", dose=(ALWAYS, half, AS_PEOPLE))
    assert found.chosen == 0.5 and found.aim == "tie"
    point = {one.dose: one.people for one in found.methods["dose"].response["jargon"]}
    assert [point[dose]["gap"].value for dose in DOSES] == pytest.approx([0.5, 0, 0.25])
    # Miscalibration would be a half at every dose: the gap alone decides which way is best.
    assert found.losses["no training"] == pytest.approx(0.5)
    assert found.losses["dose"] < found.losses["plain CDA"] < 0.4
    sentences = " ".join(dose_sentences(found))
    assert sentences.startswith("No votes chose this dose.") and "no one's opinion" in sentences
    assert "Dose 0.5 is the one of least gap among" in sentences and "miscalibration" not in sentences
    for table in dose_tables(found):
        assert {"skew", "gap to 50% on halves"} <= set(table.header) and {len(row) for row in table.rows} == {
            len(table.header)
        }
        assert "miscalibration" not in f"{table.header}{table.caption}" and "people" not in table.caption


def test_a_removal_without_training_that_does_better_is_named() -> None:
    found = planted_dose(dose=(ALWAYS, ALWAYS, NEVER), features=(ALWAYS, AS_PEOPLE, AS_PEOPLE))
    assert found.best == "features"
    said = next(line for line in dose_sentences(found) if "another way" in line)
    assert "measured features taken off, strength chosen leaves 0.0 points" in said
    assert "against 50.0 of the chosen dose" in said


def test_a_way_that_loses_quality_held_out_is_not_the_best() -> None:
    methods = planted_dose(dose=(ALWAYS, AS_PEOPLE, NEVER)).methods
    lost = methods["dose"].model_copy(update={"quality_kept": False, "plain_keeps_quality": False})
    assert set(losses_of(methods | {"dose": lost})) == {"mixing", "no training"}


def test_a_dose_that_loses_quality_is_barred_although_it_agrees_with_people() -> None:
    found = planted_dose(dose=(ALWAYS, WORSE, NEVER))
    assert found.chosen == 1.0
    assert found.methods["dose"].barred == (0.5,)
    assert "Doses that lose too much quality: 0.5." in dose_sentences(found)


def test_a_chosen_dose_is_compared_on_the_halves_that_it_was_measured_on() -> None:
    """On all votes at once the gap of plain CDA is 0 and that of the adapter's own curve too; on halves chance adds to both."""
    draw = np.random.default_rng(2).permutation(N)
    as_often = rewards(lambda row: draw[row] < N / 4, lambda row: row % 5)
    found = planted_dose(dose=(ALWAYS, ALWAYS, as_often))
    held = found.methods["dose"].held_out["jargon"]
    assert held.plain["signed_gap"].value == 0 and held.plain["gap"].value > 0.02
    plain = held.plain["miscalibration"].value + held.plain["gap"].value
    assert found.losses["plain CDA"] == pytest.approx(plain)
    assert found.chosen == 1 and found.losses["dose"] == pytest.approx(plain)
    assert held.against_plain["gap"].value == 0
    rows = {row[0]: row for row in dose_tables(found)[0].rows}
    moved = held.plain["miscalibration"].value - held.base["miscalibration"].value
    assert held.plain_change["miscalibration"].value == pytest.approx(moved) and moved < 0
    assert rows["plain CDA (dose 1)"][5].startswith(f"−{-100 * moved:.0f} [") and rows["no training"][5] == ""
    assert rows["plain CDA (dose 1)"][4] == f"{100 * held.plain['gap'].value:.0f}"
    sentences = " ".join(dose_sentences(found))
    assert "on the same halves" in sentences and "measured on all" not in sentences


def test_of_two_scorings_the_mixture_is_chosen_and_compared_with_its_ends() -> None:
    """Margins fall from 4 or 2.2 by 2: people's votes tell them apart from dose 1.25 on."""
    by_text = {}
    for row, one in enumerate(CONTRASTS):
        by_text |= {
            text_id(one.prompt, one.perturbed): 4.0 if row % 4 == 0 else 2.2,
            text_id(one.prompt, one.base): 0.0,
        }
    before = Rewards(by_text)
    after = Rewards({name: value - 2 * (value > 0) for name, value in by_text.items()})
    mixed = dose_result(
        {"mixing": {0.0: before, 1.0: after}}, CONTRASTS, [load_bias("jargon")], [], "drop", DoseSection(repeats=4), 0, **REST,
        mixed=("before", "after"),
    )  # fmt: skip
    assert (mixed.chosen, mixed.own.shares["1.25"], mixed.best) == (1.25, 1, "mixing")
    assert mixed.doses[-1] == 2.5 and list(mixed.methods) == ["mixing"]
    assert mixed.own.held_out["jargon"].against_base["miscalibration"].value == -0.75
    document = dose_document(mixed)
    text = document.markdown()
    assert document.text().startswith("Dose 1.25 of after, chosen by votes, is nearer to people on jargon, held out.")
    assert "Dose 1.25 of after was chosen; 0 is before." in text and "Scaling an adapter's weights" in text
    assert "No other way tried leaves less" in text


def unread(first: int, curve: tuple[Rewards, ...]) -> tuple[Rewards, ...]:
    """The first quality pairs were too long at the last dose."""
    lost = {text_id(pair.prompt, pair.chosen): float("nan") for pair in PAIRS[:first]}
    return (*curve[:-1], Rewards({**curve[-1].by_text, **lost}))


def test_quality_pairs_that_some_dose_cannot_read_are_counted_and_said() -> None:
    found = planted_dose(dose=unread(6, (ALWAYS, AS_PEOPLE, NEVER)))
    quality = found.methods["dose"].quality
    assert quality is not None and found.quality_pairs == N - 6 == quality.n
    assert found.left_out["contrasts"] == {}
    assert list(found.left_out["quality pairs"].values()) == [6]
    said = next(line for line in dose_sentences(found) if line.startswith("Left out"))
    assert said == "Left out: 6 quality pairs (6: a text too long, or both sides the same after cutting)."
    assert "Left out" not in " ".join(dose_sentences(planted_dose(dose=(ALWAYS, AS_PEOPLE, NEVER))))


def test_without_one_readable_quality_pair_no_dose_is_chosen_and_without_any_it_is_said() -> None:
    with pytest.raises(DataError, match=r"none of 40 quality pairs can be read at every dose .*audit\.quality=null"):
        planted_dose(dose=unread(N, (ALWAYS, WORSE, NEVER)))
    found = planted_dose([], dose=(ALWAYS, WORSE, NEVER))
    assert found.chosen == 0.5 and found.quality_pairs == 0
    sentences = " ".join(dose_sentences(found))
    assert "There are no quality pairs" in sentences and "quality accuracy" not in sentences


@pytest.mark.parametrize("aim", ["votes", "tie"])
def test_a_prompt_in_two_spellings_has_one_say_in_the_dose(aim: Any) -> None:
    spelled = [
        Contrast("jargon", user_prompt(f"q{row // 2}" + "\r\n" * (row % 2)), f"biased {row}", f"plain {row}", "base")
        for row in range(N)
    ]
    counted = aimed(spelled, [load_bias("jargon")], aim, "drop", ties_taught=aim == "tie")
    assert counted[2] == {"jargon": N // 2}
