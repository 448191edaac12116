"""The page and the terminal text of a study: numbers as voted, hostile names inert."""

from __future__ import annotations

import pytest

from cda.records import Exclusions
from cda.results.base import Missing
from cda.results.study import Attention, Rules, StudyResult
from cda.studies.export import Item, ShownItem, Study
from cda.studies.import_answers import Screened, Vote, summarize_study
from cda.studies.study_page import left_out_table, participant_table, study_document

HOSTILE = "label-studio-<script>alert(1)</script>\x1b[31m"


@pytest.fixture(scope="module")
def result() -> StudyResult:
    """Ten pairs of which eight have votes: two people for the base of each, one of a hostile name against them."""
    made = (Item(f"i{at}", f"Why {at}?", ("x", "y"), f"prompt {at}", f"c{at}", "jargon", 0) for at in range(10))
    items = {item.id: item for item in made}
    study = Study("experts", 3, 0, items, {"p01": tuple(ShownItem(name, 0) for name in items), "p02": (), "p03": ()})
    choices = {"p01": ("B", "base"), "p02": ("B", "base"), HOSTILE: ("A", "perturbed")}
    votes = [Vote(f"i{at}", who, *choices[who], 20.0 + at, "") for at in range(8) for who in choices]
    attention = dict.fromkeys(("p01", "p02", HOSTILE), Attention(answered=2, right=2, passed=True))
    attention["p09"] = Attention(answered=2, right=0, passed=False)
    excluded = Exclusions(40, {"of a participant who failed the attention checks": 8})
    return summarize_study(study, Screened(tuple(votes), attention, 8, excluded), Rules(), n_blank=3)


def test_who_differs_stands_first(result: StudyResult) -> None:
    rows = participant_table(result).rows
    assert rows[0][0] == HOSTILE and rows[0][4:6] == ("100% [68, 100]", "8")
    # Each of the other two faces one vote for and one against: no majority to differ from.
    assert [row[4] for row in rows[1:3]] == ["not estimated", "not estimated"]
    assert rows[3][0] == "p09" and rows[3][-1] == "no: failed the attention checks"
    assert left_out_table(result).rows == (
        ("of a participant who failed the attention checks", "8"),
        ("answers to attention checks (no votes)", "8"),
        ("rows of tables that are not filled", "3"),
    )


def test_hostile_names_are_inert(result: StudyResult) -> None:
    page = study_document(result).page()
    assert "<script>alert" not in page and "&lt;script&gt;alert(1)" in page and "\x1b" not in page
    assert "\x1b" not in study_document(result).text()


def test_what_cannot_be_estimated_says_why() -> None:
    item = Item("i1", "Why?", ("x", "y"), "p", "c1", "jargon", 0)
    study = Study("crowd", 1, 0, {"i1": item}, {"p01": (ShownItem("i1", 0),)})
    vote = Vote("i1", "p01", "tie", "tie", None, "")
    screened = Screened((vote,), {"p01": Attention(answered=0, right=0, passed=True)}, 0, Exclusions(1, {}))
    found = summarize_study(study, screened, Rules(), 0)
    assert isinstance(found.all.skew, Missing) and found.position is None
    said = {one.name: one.text for one in study_document(found).findings}
    assert said["jargon:"].startswith("human skew not estimated: no item has a majority for one side")
    assert said["Agreement:"].startswith("not estimated: no item of 1 has two votes")
    assert "none given" in study_document(found).markdown() and study_document(found).page()
