"""Errors that a user can act on."""

from __future__ import annotations

import pytest

from cda.errors import DataError, RecipeError, did_you_mean, refuse


def test_a_few_problems_are_all_told_and_of_many_the_first_ten() -> None:
    refuse([])
    with pytest.raises(DataError, match="one\ntwo"):
        refuse(["one", "two"])
    with pytest.raises(DataError) as caught:
        refuse([f"problem {number}" for number in range(12)], "more rows")
    assert str(caught.value).splitlines()[9:] == ["problem 9", "… and 2 more rows"]


def test_a_recipe_error_carries_every_mistake() -> None:
    error = RecipeError(line for line in ("first", "second"))
    assert error.problems == ("first", "second")
    assert str(error) == "first\nsecond"


@pytest.mark.parametrize(
    ("word", "expected"),
    [("jargn", " Did you mean 'jargon'?"), ("lenght", " Did you mean 'length'?"), ("zzz", ""), ("", "")],
)
def test_did_you_mean(word: str, expected: str) -> None:
    assert did_you_mean(word, ["length", "jargon"]) == expected
