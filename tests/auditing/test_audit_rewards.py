"""Rewards of single texts: which texts are counted where, and what of a judge."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import numpy as np

from cda.auditing.analysis import rewards
from cda.auditing.groups import Group, make_groups, people_of, sides_of
from cda.biases import load_bias
from cda.records import Contrast, TieRule, Triple, user_prompt
from cda.results.audit import RewardSpread
from cda.results.base import Distribution, Kinds
from cda.scorers.compared import Rewards, text_id

N = 12
PROMPTS = [user_prompt(f"q{row}") for row in range(N)]
CONTRASTS = [Contrast("jargon", prompt, f"biased {row}", f"plain {row}") for row, prompt in enumerate(PROMPTS)]
TRIPLES = [
    Triple("jargon", prompt, f"first {row}", f"flipped {row}", f"back {row}", row < 4)
    for row, prompt in enumerate(PROMPTS)
]
LEVEL = {"biased": 3.0, "plain": 0.0, "first": 1.0, "flipped": 2.0, "back": 5.0}
SCORES = Rewards({
    text_id(prompt, f"{word} {row}"): level + row / 10
    for row, prompt in enumerate(PROMPTS) for word, level in LEVEL.items()
})  # fmt: skip


def known(kinds: Kinds) -> dict[str, Distribution]:
    found = {kind: one for kind, one in kinds.items() if isinstance(one, Distribution)}
    assert found.keys() == kinds.keys()
    return found


def test_sides_and_texts_have_their_own_rewards_on_common_bins() -> None:
    groups = make_groups(CONTRASTS, {"jargon": load_bias("jargon")}, ["jargon"], {"model": SCORES})
    found = rewards(groups, TRIPLES, {"model": SCORES}, 0)
    assert isinstance(found, RewardSpread)
    json.dumps(found.model_dump(), allow_nan=False)
    sides = known(found.contrasts.of["jargon"].before)
    assert (round(sides["perturbed"].mean.value, 6), round(sides["base"].mean.value, 6)) == (3.55, 0.55)
    assert (found.contrasts.edges[0], round(found.contrasts.edges[-1], 6)) == (0.0, 4.1)
    texts = known(found.triples["jargon"].of.before)
    assert {kind: one.mean.n for kind, one in texts.items()} == {
        f"{start}, {text}": n
        for start, n in (("with", 4), ("without", 8))
        for text in ("original", "rewrite", "rewrite_of_rewrite")
    }
    assert round(texts["with, rewrite_of_rewrite"].mean.value, 6) == 5.15


def test_texts_without_a_reward_are_left_out_of_n() -> None:
    missing = dict(SCORES.by_text) | {text_id(PROMPTS[0], "first 0"): float("nan")}
    found = rewards([], TRIPLES, {"model": Rewards(missing)}, 0)
    assert isinstance(found, RewardSpread)
    texts = known(found.triples["jargon"].of.before)
    assert (texts["with, original"].mean.n, texts["with, rewrite"].mean.n) == (3, 4)


def test_sides_of_people_hold_ties_under_every_rule() -> None:
    def group_of(*contrasts: Contrast) -> Group:
        (group,) = make_groups(contrasts, {"jargon": load_bias("jargon")}, ["jargon"], {"model": SCORES})
        return group

    votes: list[Any] = [("perturbed",), ("base",), ("tie",), ("base", "perturbed"), ()]
    rows = [replace(CONTRASTS[at], votes=words) for at, words in enumerate(votes)]
    rules: tuple[TieRule, ...] = ("drop", "half")
    for rule in rules:
        people = people_of(group_of(*rows), rule)
        assert people is not None
        assert sides_of(group_of(*rows), people) == ["perturbed", "base", "tie", "tie", None]
    stated = group_of(
        *(replace(CONTRASTS[at], preferred=word, votes=("base",)) for at, word in enumerate(("tie", "perturbed")))
    )
    people = people_of(stated, "as-released")
    assert people is not None and sides_of(stated, people) == ["tie", "perturbed"]
    assert np.isfinite(stated.margins["model"]).all()
