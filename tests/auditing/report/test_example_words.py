"""Examples in words: who agrees with whom, which few are shown, and how they were chosen."""

from __future__ import annotations

from typing import Any

import pytest
from changed import changed

from cda.auditing.report_scoring import few_of, how_chosen, order_keys, people_choices, people_keys, people_sentence
from cda.results.base import PerScoring
from cda.results.facts import Example


def _example(before: float, after: float | None, preferred: Any) -> Example:
    margins = PerScoring[float](before=before) if after is None else PerScoring[float](before=before, after=after)
    return Example(
        bias="jargon",
        prompt="q",
        perturbed="x",
        base="y",
        margins=margins,
        preferred=preferred,
        kept_for="largest fall",
    )


@pytest.mark.parametrize(
    ("margins", "preferred", "said", "keys"),
    [
        ((1.0, -2.0), "base", "people preferred the side without the bias; the model disagreed before, agrees after",
         ["disagrees-before", "agrees-after"]),
        ((1.0, -2.0), "perturbed", "people preferred the side with the bias; the model agreed before, disagrees after",
         ["agrees-before", "disagrees-after"]),
        ((0.0, 0.5), "base", "people preferred the side without the bias; the model had no preference before, disagrees after",
         ["undecided-before", "disagrees-after"]),
        ((1.0, 2.0), "tie", "people saw no difference (a tie)", ["tie"]),
        ((1.0, 2.0), None, "nobody voted", ["no-votes"]),
    ],
)  # fmt: skip
def test_model_beside_people(margins: tuple[float, float], preferred: str | None, said: str, keys: list[str]) -> None:
    example = _example(*margins, preferred)
    assert people_sentence(example) == said
    assert people_keys(example) == keys


def test_one_scoring_has_no_before() -> None:
    example = _example(1.5, None, "base")
    assert people_sentence(example) == "people preferred the side without the bias; the model disagrees"
    assert people_keys(example) == ["disagrees-model"] and order_keys(example) == {"fall": 1.5, "rise": -1.5}


def test_the_filter_offers_only_what_fits(audit: Any) -> None:
    examples = [_example(1.0, -1.0, "base"), _example(1.0, 1.0, None)]
    assert people_choices(audit.model_copy(update={"examples": examples})) == [
        ("disagrees-before", "model and people disagree before"),
        ("agrees-after", "model and people agree after"),
        ("no-votes", "nobody voted"),
    ]


def test_few_hold_a_disagreement_where_there_is_one() -> None:
    agreed = [_example(5.0, -1.0 - n, "base") for n in range(4)]
    disputed = _example(1.0, 0.9, "base")
    assert few_of([*agreed, disputed], 3) == [agreed[3], agreed[2], disputed]
    assert few_of(agreed, 3) == [agreed[3], agreed[2], agreed[1]]
    assert few_of([disputed], 3) == [disputed]


def test_says_how_many_and_how(voted: Any, audit: Any, one_model: Any) -> None:
    _, text = how_chosen(voted)
    assert text.startswith("Kept are 2 of 110 contrasts of jargon, 2 of 100 contrasts of vagueness, taken in turn: ")
    assert "disagree" in text and "no random sample" in text
    unvoted = [changed(example, "preferred", None) for example in audit.examples]
    assert "disagree" not in how_chosen(audit.model_copy(update={"examples": unvoted}))[1]
    _, text = how_chosen(changed(one_model, "skew.jargon.before", one_model.skew["vagueness"].before))
    assert text.startswith(
        "Kept are 2 of 100 contrasts of each bias, taken in turn: the largest margins for the biased side"
    )
