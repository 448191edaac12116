"""The model's preferences by people's majorities, on tables that can be counted by hand."""

from __future__ import annotations

import numpy as np
import pytest

from cda.errors import DataError
from cda.stats.preference import preference_table

PEOPLE = ["perturbed", "perturbed", "perturbed", "perturbed", "base", "base", "tie", None]
MARGINS = [1.0, 2.0, 3.0, -1.0, 1.0, 0.0, -2.0, 5.0]
IDS = [str(row) for row in range(8)]


def rng() -> np.random.Generator:
    return np.random.default_rng(0)


def test_counts_and_what_the_model_prefers_given_people() -> None:
    found = preference_table(MARGINS, PEOPLE, IDS)  # type: ignore[arg-type]
    assert found.counts == {
        "perturbed": {"perturbed": 3, "base": 1, "tie": 0},
        "base": {"perturbed": 1, "base": 0, "tie": 1},
        "tie": {"perturbed": 0, "base": 1, "tie": 0},
    }
    assert {word: (one.value, one.n) for word, one in found.skew_given.items()} == {
        "perturbed": (0.75, 4), "base": (0.5, 2), "tie": (0.0, 1),
    }  # fmt: skip
    assert 0 < found.skew_given["perturbed"].low < 0.75 < found.skew_given["perturbed"].high < 1


def test_a_judges_tie_counts_half() -> None:
    found = preference_table(MARGINS, PEOPLE, IDS, "half")  # type: ignore[arg-type]
    assert found.skew_given["base"].value == 0.75


def test_a_word_that_is_nowhere_the_majority_has_no_share() -> None:
    found = preference_table([1.0, -1.0], ["base", "base"], ["a", "b"])
    assert set(found.skew_given) == {"base"} and sum(found.counts["tie"].values()) == 0


@pytest.mark.parametrize(
    ("margins", "people", "said"),
    [
        ([1.0], [None], "no contrast has votes"),
        ([1.0, 2.0], ["base"], "1 majorities"),
        ([float("nan")], ["base"], "NaN"),
    ],
)
def test_what_cannot_be_counted_is_said(margins: list[float], people: list[object], said: str) -> None:
    with pytest.raises(DataError, match=said):
        preference_table(margins, people, IDS[: len(margins)])  # type: ignore[arg-type]
