"""Balanced loads, distinct judges, fair sides, checks that do not match, and refusals that say the number needed."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

import pytest

from cda.errors import DataError
from cda.studies.export import Pairing, StudyPlan, designed, planned_study

PAIRINGS = [
    Pairing(f"c{at}", "jargon", f"prompt {at % 25}", f"About thing{at % 25}?", f"plain thing{at % 25} {at}", f"fancy thing{at % 25} {at}")
    for at in range(50)
]  # fmt: skip
PLAN = StudyPlan(judgements=3, people=8, quota=19, checks=4)


def test_every_item_has_its_judges_and_nobody_more_than_the_quota() -> None:
    study = designed(PAIRINGS, "crowd", PLAN, seed=1)
    contrasts = {one.id for one in study.items.values() if not one.is_check}
    judged = Counter(one.item for given in study.participants.values() for one in given if one.item in contrasts)
    assert len(contrasts) == 50 and set(judged.values()) == {3} and judged.keys() == contrasts
    loads = [sum(shown.item in contrasts for shown in given) for given in study.participants.values()]
    assert sorted(loads) == [18, 18, 19, 19, 19, 19, 19, 19]
    for given in study.participants.values():
        names = [one.item for one in given]
        assert len(names) == len(set(names)), "nobody sees an item twice"
        assert sum(study.items[name].is_check for name in names) == 4


def test_sides_are_drawn_and_balanced_within_an_item() -> None:
    study = designed(PAIRINGS, "experts", StudyPlan(4, 4, 50, 0), seed=3)
    perturbed_as_a = Counter(
        one.item for given in study.participants.values() for one in given if one.a == study.items[one.item].perturbed
    )
    assert set(perturbed_as_a.values()) == {2} and len(perturbed_as_a) == 50
    # The order of texts and of items says nothing: about half of the biased texts stand first.
    first = sum(one.perturbed == 0 for one in study.items.values())
    assert 15 <= first <= 35
    alone = designed(PAIRINGS, "experts", StudyPlan(1, 1, 50, 0), seed=3).participants["p01"]
    assert 15 <= sum(shown.a for shown in alone) <= 35
    orders = {tuple(one.item for one in given) for given in study.participants.values()}
    assert len(orders) == 4


def test_the_same_seed_gives_the_same_study_and_another_seed_another() -> None:
    one, same, other = (designed(PAIRINGS, "crowd", PLAN, seed) for seed in (5, 5, 6))
    assert one == same and one.fingerprint == same.fingerprint
    assert one.fingerprint != other.fingerprint
    with pytest.raises(DataError, match="--seed: at least 0, found -1"):
        designed(PAIRINGS, "crowd", PLAN, -1)


def test_the_seed_alone_does_not_give_the_key_away() -> None:
    swapped = [replace(one, base=one.perturbed, perturbed=one.base) for one in PAIRINGS]
    one, other = (designed(pairings, "crowd", PLAN, seed=0) for pairings in (PAIRINGS, swapped))
    key, changed = (
        {item.contrast: item.perturbed for item in study.items.values() if not item.is_check} for study in (one, other)
    )
    assert 10 < sum(key[name] == changed[name] for name in key) < 40


def test_checks_put_an_answer_to_another_prompt_beside_an_own_one() -> None:
    study = designed(PAIRINGS, "crowd", PLAN, seed=2)
    checks = [one for one in study.items.values() if one.is_check]
    assert 4 <= len(checks) <= 16
    for one in checks:
        assert one.right is not None and one.perturbed is None and one.contrast is None
        subject = one.prompt.removeprefix("About ").removesuffix("?")
        assert subject in one.texts[one.right].split() and subject not in one.texts[1 - one.right].split()


def test_what_is_not_said_is_filled_in() -> None:
    assert planned_study(PAIRINGS, "experts", 3, None, None, None) == StudyPlan(3, 3, 50, 0)
    assert planned_study(PAIRINGS, "crowd", 3, None, None, None) == StudyPlan(3, 4, 40, 3)
    assert planned_study(PAIRINGS, "crowd", 3, None, 10, 0) == StudyPlan(3, 10, 15, 0)
    assert planned_study(PAIRINGS, "crowd", 3, 10, None, 0) == StudyPlan(3, 15, 10, 0)


def test_too_small_a_quota_says_what_is_needed() -> None:
    for quota, people, said in (
        (10, 5, r"--quota 10: 50 items × 3 judgements are 150.*Needed: --quota 30, or --people 15"),
        (50, 2, "--people 2: 3 judgements by different people need 3 or more"),
        (None, 200, "--people 200: 150 judgements are wanted in all"),
    ):
        with pytest.raises(DataError, match=said):
            planned_study(PAIRINGS, "crowd", 3, quota, people, 0)


def test_every_impossible_number_is_named_at_once() -> None:
    with pytest.raises(DataError) as caught:
        planned_study(PAIRINGS, "crowd", 0, 0, 0, -1)
    assert [line.split(":")[0] for line in str(caught.value).splitlines()] == [
        "--judgements", "--quota", "--people", "--attention",
    ]  # fmt: skip
    with pytest.raises(DataError, match=r"--attention 1: .*1 prompts allow 0"):
        planned_study(PAIRINGS[:1], "crowd", 1, None, None, 1)
