"""Contrasts that an audit keeps for readers, and skew by how a contrast was made: the bias added, or removed."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from made_audits import make_audit

from cda.auditing.analysis import N_EXAMPLES, examples
from cda.auditing.groups import Group
from cda.auditing.report_tables import direction_table
from cda.auditing.result import adjust_for_all_tests, skews
from cda.biases import load_bias
from cda.records import Contrast, user_prompt
from cda.results.skew import BiasSkew

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
    table = direction_table(audit)
    assert table is not None
    assert [row[0] for row in table.rows] == ["jargon added", "jargon removed"]
    assert [row[-1] for row in table.rows] == ["4", "2"]


@pytest.mark.parametrize("made", [("added",) * 3, ("",) * 3, ("removed", "", "")])
def test_one_direction_alone_is_no_comparison(made: tuple[str, ...]) -> None:
    found = skew_of(group_of({"model": [1, 1, -1]}, made=made))
    assert found.by_direction == {}
    assert direction_table(ANY_AUDIT.model_copy(update={"scorings": ("model",), "skew": {"jargon": found}})) is None
