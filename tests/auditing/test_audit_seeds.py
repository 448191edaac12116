"""Means over trainings from known margins: skew, miscalibration, triples, RATE's effect and quality."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from made_rate import made_rate
from planted_dose import CONTRASTS, PAIRS, N, rewards
from rows import triples

from cda.auditing.groups import main_group, make_groups, votes
from cda.auditing.shares import material, measured_numbers, seeds, skews
from cda.auditing.texts import Triples
from cda.biases import load_bias
from cda.finetuning.train import trainings
from cda.results.base import Missing
from cda.scorers.compared import Rewards, text_id

TRIPLES = triples(10)


def scored(wins: int, biased: Any, right: Any) -> Rewards:
    """Rewards of contrasts and pairs, and of triples of which the side with the bias leads in the first `wins` by 2 units."""
    sides = {}
    for row, one in enumerate(TRIPLES):
        both = (one.rewrite, one.rewrite_of_rewrite)
        having, lacking = reversed(both) if one.has_attribute else both
        sides |= {text_id(one.prompt, having): 2.0 * (row < wins), text_id(one.prompt, lacking): 1.0 * (row >= wins)}
        sides[text_id(one.prompt, one.original)] = 0.0
    found = rewards(biased, right)
    return replace(found, by_text={**found.by_text, **sides})


SCORED = {
    "before": scored(10, lambda _: True, lambda row: row % 5),
    "after": scored(4, lambda row: row % 4 == 0, lambda row: row % 5),
    "seed-3": scored(6, lambda row: row % 2 == 0, lambda row: row % 2),
    "seed-1": scored(2, lambda _: False, lambda _: True),
}
TEXTS: Any = SimpleNamespace(pairs=tuple(PAIRS), triples=Triples(TRIPLES))
ESTIMATED = {"jargon": made_rate(0.2), "length": made_rate(None)}


def groups(scorings: Any = SCORED) -> Any:
    return make_groups(CONTRASTS, {"jargon": load_bias("jargon")}, ["jargon"], scorings)


def made(listed: list[int], scorings: Any = SCORED, texts: Any = TEXTS) -> Any:
    return seeds(dict.fromkeys(trainings(listed), 1.0), groups(scorings), texts, scorings, ESTIMATED, "drop")


def test_each_training_s_values_are_those_of_an_audit_of_its_own() -> None:
    found = made([42, 3, 1])
    skew, people, right = (
        found.measures[key][at] for key, at in (("skew", "jargon"), ("miscalibration", "jargon"), ("accuracy", ""))
    )
    assert skew.by_seed == (0.25, 0.5, 0.0) and skew.sd == pytest.approx(0.25)
    assert (skew.before.value, skew.after.value, skew.change.value) == (1.0, 0.25, -0.75)
    for at, label in enumerate(("after", "seed-3", "seed-1")):
        two = {"before": SCORED["before"], "after": SCORED[label]}
        own = groups(two)
        voted = votes(own, "drop")["jargon"].miscalibration
        alone = skews(own, {"jargon": N}, {})["jargon"], voted
        ranked = measured_numbers(material(own, TEXTS, two, by_rules=False), ["accuracy"])
        singles: Any = [*((each.before, each.last) for each in alone), (ranked[0].found, ranked[1].found)]
        for measure, (before, after) in zip((skew, people, right), singles, strict=True):
            assert measure.by_seed[at] == pytest.approx(after.value) and measure.after.n == after.n
            assert measure.before.value == pytest.approx(before.value)


def test_triples_and_their_effect() -> None:
    found = made([42, 3, 1])
    assert found.measures["triple_skew"]["jargon"].by_seed == (0.4, 0.6, 0.2)
    effect = found.measures["rate"]["jargon"]  # 2 units where the side with the bias leads, −1 elsewhere
    assert effect.before == 2.0 and effect.by_seed == pytest.approx([0.2, 0.8, -0.4])
    assert effect.change.value == pytest.approx(0.2 - 2) and effect.after.unit == "reward"
    assert effect.change.low < -1.8 < effect.change.high < 0
    assert set(found.measures["rate"]) == {"jargon"}  # one training gave length no effect


def test_intervals_hold_more_than_one_training_s() -> None:
    every = made([42, 3, 1]).measures["skew"]["jargon"].after
    single = skews([main_group(group) for group in groups()], {"jargon": N}, {})["jargon"].last
    assert single.value == every.value
    assert every.low < single.low and single.high < every.high


def test_a_text_without_a_reward_leaves_all_trainings() -> None:
    pair = PAIRS[0]
    lost = {**SCORED["seed-3"].by_text, text_id(pair.prompt, pair.chosen): np.nan}
    found = made([42, 3], SCORED | {"seed-3": replace(SCORED["seed-3"], by_text=lost)})
    assert found.measures["accuracy"][""].after.n == len(PAIRS) - 1


def test_what_cannot_be_estimated_is_said() -> None:
    texts = SimpleNamespace(pairs=PAIRS[:1], triples=Triples())
    found = made([42, 3], texts=texts)
    assert found.measures["accuracy"][""] == Missing(
        reason="2 seeds and 1 prompts: two of each are needed to see how far they differ"
    )
    assert found.measures["triple_skew"] == {}
    assert made([42, 3], texts=SimpleNamespace(pairs=(), triples=Triples())).measures["accuracy"] == {}
