"""Contrasts that an audit keeps for readers, skew by how a contrast was made, and rewards of single texts."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from made_audits import make_audit

from cda.auditing.analysis import N_EXAMPLES, examples, rewards
from cda.auditing.groups import Group, make_groups, people_of, sides_of
from cda.auditing.headline import adjust_for_all_tests, skews
from cda.auditing.report_tables import main_table
from cda.biases import load_bias
from cda.records import Contrast, TieRule, Triple, user_prompt
from cda.results.audit import RewardSpread
from cda.results.base import Distribution, Kinds
from cda.results.skew import BiasSkew
from cda.scorers.compared import Rewards, text_id

MADE = ("added",) * 4 + ("removed",) * 2
ANY_AUDIT = make_audit()


def group_of(
    margins: dict[str, Sequence[float]],
    preferred: Sequence[str | None] = (),
    made: Sequence[str] = (),
    is_target: bool = True,
) -> Group:
    n = len(next(iter(margins.values())))
    contrasts = tuple(
        Contrast("jargon", user_prompt(f"q{row}"), f"utilize {row}", f"use {row}", word, tags={"direction": how})  # type: ignore[arg-type]
        for row, word, how in zip(range(n), preferred or (None,) * n, made or ("",) * n, strict=True)
    )
    arrays = {label: np.array(values, dtype=float) for label, values in margins.items()}
    return Group(load_bias("jargon"), is_target, contrasts, tuple(f"q{row}" for row in range(n)), arrays, "reward", 0)


def test_disagreements_and_agreements_are_among_them() -> None:
    """Forty contrasts fall by much and are agreed upon; one that hardly moved is the only one against people."""
    before, after = [5.0 + row for row in range(40)] + [0.3], [-5.0] * 40 + [0.2]
    found = examples([group_of({"before": before, "after": after}, ["base"] * 41)])
    assert len(found) == N_EXAMPLES
    kept = {one.prompt: one.kept_for for one in found}
    assert kept["q39"] == "largest fall"
    assert kept["q40"] == "largest margin after"  # and the only one against people, so that it is there in any case
    assert list(kept.values()).count("agrees with people after") >= 2
    (against,) = [one for one in found if one.margins.after > 0]
    assert against.preferred == "base"


def test_without_votes_by_margins_alone() -> None:
    values = [float(row) for row in range(30)]
    found = examples([group_of({"model": values})])
    assert [one.margins.before for one in found][:4] == [29.0, 0.0, 28.0, 1.0]
    assert all(one.preferred is None for one in found)


def test_few_contrasts_are_each_kept_once_and_others_not_at_all() -> None:
    group = group_of({"before": [1.0, 2.0], "after": [0.0, -1.0]}, ["base", "tie"])
    assert sorted(one.prompt for one in examples([group])) == ["q0", "q1"]
    assert examples([group_of({"model": [1.0]}, is_target=False)]) == ()


def skew_of(one: Group) -> BiasSkew:
    return skews([one], {"jargon": len(one)}, {})["jargon"]


def test_each_direction_has_a_share_of_its_own() -> None:
    one = group_of({"before": [1, 1, 1, -1, 1, 0], "after": [-1, -1, 1, -1, 1, 1]}, made=MADE)
    found = {name: each.of_training() for name, each in skew_of(one).by_direction.items()}
    shares = {name: (each.before.value, each.after.value, each.change.n) for name, each in found.items()}
    assert shares == {"added": (0.75, 0.25, 4), "removed": (0.5, 1.0, 2)}
    audit = ANY_AUDIT.model_copy(update={"scorings": ("before", "after"), "skew": {"jargon": skew_of(one)}})
    tested: Any = adjust_for_all_tests(audit).skew["jargon"]
    assert tested.test.p_holm is not None and tested.by_direction["added"].test.p_holm is None  # outside the family
    rows = {row[0]: row for row in main_table(audit).rows}
    assert [rows[f"jargon skew, {way}"][4] for way in ("added", "removed")] == ["4", "2"]


@pytest.mark.parametrize("made", [("added",) * 3, ("",) * 3, ("removed", "", "")])
def test_one_direction_alone_is_no_comparison(made: tuple[str, ...]) -> None:
    found = skew_of(group_of({"model": [1, 1, -1]}, made=made))
    assert found.by_direction == {}


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
    found = rewards(groups, TRIPLES, {"model": SCORES})
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
    found = rewards([], TRIPLES, {"model": Rewards(missing)})
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
