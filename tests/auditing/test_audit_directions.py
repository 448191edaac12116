"""Skew by how a contrast was made: the bias added to a plain answer, or removed from one that had it."""

from __future__ import annotations

import numpy as np
import pytest
from documents import report_audits

from cda.auditing.groups import Group
from cda.auditing.report_tables import direction_table
from cda.auditing.result import skews
from cda.biases import load_bias
from cda.records import Contrast, prompt_id, user_prompt
from cda.results.skew import BiasSkew

MADE = ("added",) * 4 + ("removed",) * 2


def group(made: tuple[str, ...], **margins: list[float]) -> Group:
    contrasts = tuple(
        Contrast("jargon", user_prompt(f"q{row}"), "biased", "plain", tags={"direction": direction})
        for row, direction in enumerate(made)
    )
    ids = tuple(prompt_id(one.prompt) for one in contrasts)
    found = {label: np.array(values) for label, values in margins.items()}
    return Group(load_bias("jargon"), True, contrasts, ids, found, "reward", 0)


ANY_AUDIT = report_audits().make_audit.__wrapped__()()


def skew_of(one: Group) -> BiasSkew:
    return skews([one], {"jargon": len(one)}, {})["jargon"]


def test_each_direction_has_a_share_of_its_own() -> None:
    one = group(MADE, before=[1, 1, 1, -1, 1, 0], after=[-1, -1, 1, -1, 1, 1])
    found = {name: each.of_training() for name, each in skew_of(one).by_direction.items()}
    shares = {name: (each.before.value, each.after.value, each.change.n) for name, each in found.items()}
    assert shares == {"added": (0.75, 0.25, 4), "removed": (0.5, 1.0, 2)}
    table = direction_table(
        ANY_AUDIT.model_copy(update={"scorings": ("before", "after"), "skew": {"jargon": skew_of(one)}})
    )
    assert table is not None
    assert [row[0] for row in table.rows] == ["jargon added", "jargon removed"]
    assert [row[-1] for row in table.rows] == ["4", "2"]


@pytest.mark.parametrize("made", [("added",) * 3, ("",) * 3, ("removed", "", "")])
def test_one_direction_alone_is_no_comparison(made: tuple[str, ...]) -> None:
    found = skew_of(group(made, model=[1, 1, -1]))
    assert found.by_direction == {}
    assert direction_table(ANY_AUDIT.model_copy(update={"scorings": ("model",), "skew": {"jargon": found}})) is None
