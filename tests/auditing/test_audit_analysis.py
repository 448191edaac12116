"""Contrasts that an audit keeps for readers, skew by how a contrast was made, and rewards of single texts."""

from __future__ import annotations

from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from made_audits import make_audit

from cda.auditing.analysis import N_EXAMPLES, drifts, effects, examples
from cda.auditing.groups import Group
from cda.auditing.report_tables import main_table
from cda.auditing.shares import adjust_for_all_tests, material, measured_numbers, skews, tied
from cda.auditing.texts import Triples
from cda.biases import Bias, load_bias
from cda.records import Contrast, Triple, user_prompt
from cda.results.audit import AuditResult
from cda.results.base import Estimate, Missing
from cda.results.effects import Identification
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


def test_the_largest_falls_and_one_on_which_model_and_people_disagree() -> None:
    """Forty contrasts fall by much and are agreed upon; one that hardly moved is the only one against people."""
    before, after = [5.0 + row for row in range(40)] + [0.3], [-5.0] * 40 + [0.2]
    found = examples([group_of({"before": before, "after": after}, ["base"] * 41)])
    assert [one.prompt for one in found][:4] == ["q39", "q40", "q38", "q37"] and len(found) == N_EXAMPLES
    assert found[1].preferred == "base" and found[1].margins.after == 0.2
    assert [one.prompt for one in examples([group_of({"before": before, "after": after})])][:3] == ["q39", "q38", "q37"]


def test_without_votes_by_margins_alone() -> None:
    found = examples([group_of({"model": [float(row) for row in range(30)]})])
    assert [one.margins.before for one in found][:4] == [29.0, 28.0, 27.0, 26.0]
    assert all(one.preferred is None for one in found)


def test_few_contrasts_are_each_kept_once_and_others_not_at_all() -> None:
    group = group_of({"before": [1.0, 2.0], "after": [0.0, -1.0]}, ["base", "tie"])
    assert sorted(one.prompt for one in examples([group])) == ["q0", "q1"]
    assert examples([group_of({"model": [1.0]}, is_target=False)]) == ()


@pytest.mark.parametrize(
    ("limits", "n_alike"),
    [({}, 0), ({"words": {"ratio": 2.5}, "markers_per_100_words": {"difference": 0}}, 40), ({"words": None}, 40)],
)
def test_a_bias_file_s_own_limits_say_what_is_alike(limits: dict[str, Any], n_alike: int) -> None:
    """The sides differ in words alone: `utilize tools` and `use`."""
    bias = Bias.model_validate(load_bias("jargon").model_dump() | {"limits": limits, "markers": ["utilize"]})
    contrasts = tuple(Contrast("jargon", user_prompt(f"q{row}"), "Use the tools.", "Use it.") for row in range(40))
    margins = {"model": np.random.default_rng(0).normal(size=40)}
    group = Group(bias, True, contrasts, tuple(f"q{row}" for row in range(40)), margins, "reward", 0)
    identification = effects([group])["jargon"].before.identification
    assert isinstance(identification, Identification) and identification.overlap.n == n_alike
    found = drifts([group])["jargon"]
    assert not isinstance(found, Missing)
    (words,) = (each for each in found if each.feature == "words")
    assert (words.limit is None) == (limits.get("words", 0) is None)


def skew_of(one: Group) -> BiasSkew:
    return skews([one], {"jargon": len(one)}, {})["jargon"]


def with_ways(one: Group) -> AuditResult:
    nothing: Any = SimpleNamespace(triples=Triples(), pairs=())
    rows = material([one], nothing, dict.fromkeys(one.margins, Rewards({})), by_rules=False)
    kept = {"measured": measured_numbers(rows), "ties": tied(rows), "skew": {"jargon": skew_of(one)}}
    return adjust_for_all_tests(ANY_AUDIT.model_copy(update={**kept, "scorings": tuple(one.margins)}))


def test_each_direction_has_a_share_of_its_own() -> None:
    audit = with_ways(group_of({"before": [1, 1, 1, -1, 1, 0], "after": [-1, -1, 1, -1, 1, 1]}, made=MADE))
    ways = audit.skew_by_direction("jargon")
    found = {name: each.of_training() for name, each in ways.items()}
    shares = {name: (each.before.value, each.after.value, each.change.n) for name, each in found.items()}
    assert shares == {"added": (0.75, 0.25, 4), "removed": (0.5, 1.0, 2)}
    tested: Any = audit.skew["jargon"].test, ways["added"].test
    assert tested[0].p_holm is not None and tested[1].p_holm is None  # outside the family
    rows = {row[0]: row for row in main_table(audit).rows}
    assert [rows[f"jargon skew, {way}"][4] for way in ("added", "removed")] == ["4", "2"]


@pytest.mark.parametrize("made", [("added",) * 3, ("",) * 3, ("removed", "", "")])
def test_one_direction_alone_is_no_comparison(made: tuple[str, ...]) -> None:
    assert with_ways(group_of({"model": [1, 1, -1]}, made=made)).skew_by_direction("jargon") == {}


N = 12
PROMPTS = [user_prompt(f"q{row}") for row in range(N)]
TRIPLES = [
    Triple("jargon", prompt, f"first {row}", f"flipped {row}", f"back {row}", row < 4)
    for row, prompt in enumerate(PROMPTS)
]
LEVEL = {"first": 1.0, "flipped": 2.0, "back": 5.0}
SCORES = Rewards({
    text_id(prompt, f"{word} {row}"): level + row / 10
    for row, prompt in enumerate(PROMPTS) for word, level in LEVEL.items()
})  # fmt: skip


def rewards(scores: Rewards) -> dict[str, Any]:
    texts: Any = SimpleNamespace(triples=Triples(TRIPLES), pairs=())
    found = measured_numbers(material([], texts, {"model": scores}, by_rules=False), ["reward"])
    return ANY_AUDIT.model_copy(update={"measured": found}).rewards["jargon"].before


def test_texts_of_triples_have_their_own_mean_rewards() -> None:
    texts = rewards(SCORES)
    assert {kind: one.n for kind, one in texts.items() if isinstance(one, Estimate)} == {
        f"{start}, {text}": n
        for start, n in (("with", 4), ("without", 8))
        for text in ("original", "rewrite", "rewrite_of_rewrite")
    }
    assert getattr(texts["with, rewrite_of_rewrite"], "value", 0) == pytest.approx(5.15)
    missing = Rewards(dict(SCORES.by_text) | {text_id(PROMPTS[0], "first 0"): float("nan")})
    texts = rewards(missing)
    assert [getattr(texts[f"with, {text}"], "n", 0) for text in ("original", "rewrite")] == [3, 4]
