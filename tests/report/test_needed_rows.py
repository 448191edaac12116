"""How many rows a next step asks for, and the steps after labels."""

from __future__ import annotations

import pytest

from cda.data.triples import clean_triples
from cda.errors import DataError, RecipeError
from cda.recipe.load import load_model_audit
from cda.report.next_step import after_labels, more_needed
from cda.results.base import Estimate
from cda.stats.estimators import share_of


def _share(n: int, half: float) -> Estimate:
    estimate = share_of([True, False] * (n // 2), [str(row) for row in range(n)])
    return estimate.model_copy(update={"n": n, "low": 0.5 - half, "high": 0.5 + half})


def test_more_rows_are_asked_for_than_those_that_leave_the_interval_wide() -> None:
    assert more_needed([_share(100, 0.25), _share(20, 0.05)]) == 625
    assert more_needed([_share(20, 0.1)]) is None


def test_labels_are_read_with_the_columns_of_their_pairs() -> None:
    step = after_labels("out.jsonl", ["jargon"], ["prompt=question"])
    assert step.words == (
        "data", "out.jsonl", "--bias", "jargon", "--column", "prompt=question", "--labels", "out.jsonl",
    )  # fmt: skip


def test_errors_on_columns_of_triples_name_what_works() -> None:
    with pytest.raises(DataError) as caught:
        clean_triples([{"prompt": "p", "answer": "a"}], ["jargon", "length"], {}, "t.jsonl")
    said = str(caught.value)
    assert "or name one bias with --bias NAME" in said and "'original'" in said and "'has_attribute'" in said
    with pytest.raises(RecipeError, match=r"of a file of triples: triples\.original=answer"):
        load_model_audit("my/model", {}, ["audit.columns.original=answer"])
