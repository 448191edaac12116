"""An audit as a page, as Markdown and in a terminal: self-contained, inert, whole, and the known numbers in their places."""

from __future__ import annotations

import re
from html import unescape
from itertools import pairwise
from typing import Any
from xml.etree import ElementTree

import pytest
from changed import changed
from page_checks import checked, unreadable, words

from cda.auditing.report import audit_document
from cda.auditing.report_scoring import people_sentence
from cda.results.base import PerScoring
from cda.results.facts import Example


@pytest.mark.parametrize("name", ["audit", "voted", "hostile", "one_model", "judge"])
def test_page_loads_nothing_and_document_is_whole(name: str, request: pytest.FixtureRequest) -> None:
    audit = request.getfixturevalue(name)
    html = audit_document(audit).page()
    page = checked(html)
    assert name == "hostile" or unreadable(unescape(words(html))) == []
    assert not re.search(r"url\(|@import|fetch\(|https?:", page.inside["style"] + page.inside["script"])
    rows = [line for line in audit_document(audit).markdown().splitlines() if line.startswith("|")]
    for row, following in pairwise(rows):
        assert not set(following) <= set("|- ") or row.count("|") == following.count("|")


def test_hostile_text_is_inert_in_every_form(hostile: Any) -> None:
    page, text = audit_document(hostile).page(), audit_document(hostile).markdown()
    assert "<script>alert" not in page and "&lt;script&gt;alert(1)&lt;/script&gt;" in page and "[U+202E]" in page
    outside = re.sub(r"^(`{3,})text\n.*?\n\1$", "", text, flags=re.S | re.M)
    assert "````text" in text  # the fence is longer than the run inside
    assert "<" not in outside and "://" not in outside
    assert not re.search("[\x00-\x08\x0b-\x1f\x7f\x9b\u202e]", text)
    text.encode("utf-8")


def _strips(audit: Any) -> list[ElementTree.Element]:
    return [
        ElementTree.fromstring(svg)
        for svg in re.findall(
            r'<svg class="chart" role="img" aria-label="[^"]*" width="100%" height="26">.*?</svg>\n?(?=</td>)',
            audit_document(audit).page(),
            re.S,
        )
    ]


def test_marks_of_the_first_screen_lie_at_the_numbers_in_colours_of_the_page(audit: Any, voted: Any) -> None:
    target, *others = _strips(audit)
    assert len(others) == 2 and [dot.get("cx") for dot in target.findall("circle")] == ["88.00%", "40.00%"]
    assert target.get("aria-label") == "jargon: before 88% [80, 93], after 40% [31, 50], n = 100"
    interval = target.find("line[@class='interval before']")
    assert interval is not None and interval.get("x1", "").startswith("80.")
    assert not re.search("#|fill=|style=|people", ElementTree.tostring(target, encoding="unicode"))
    assert [len(strip.findall("svg")) for strip in _strips(voted)] == [1, 0, 1, 0]


def test_examples_are_few_sorted_and_marked(voted: Any) -> None:
    text = audit_document(voted).page()
    moves = [float(move.replace("−", "-")) for move in re.findall(r"after \(([+−][\d.]+)\)", text)]
    assert moves and moves == sorted(moves)
    assert "<del>Use</del><ins>Utilize</ins> a pan." in text
    assert "people preferred the side without the bias; the model disagreed before, agrees after" in text
    many = tuple(changed(voted.examples[0], "prompt", f"example {n}") for n in range(5))
    document = audit_document(voted.model_copy(update={"examples": many}))
    assert all(
        text.count("example ") >= 2 and "example 2" not in text for text in (document.page(), document.markdown())
    )
    assert "audit.json has 5." in document.markdown()


def _example(before: float, after: float | None, preferred: Any) -> Example:
    margins = PerScoring[float](before=before) if after is None else PerScoring[float](before=before, after=after)
    return Example(
        bias="jargon",
        prompt="q",
        perturbed="x",
        base="y",
        margins=margins,
        preferred=preferred,
    )


@pytest.mark.parametrize(
    ("margins", "preferred", "said"),
    [
        ((1.0, -2.0), "base", "people preferred the side without the bias; the model disagreed before, agrees after"),
        ((1.0, -2.0), "perturbed", "people preferred the side with the bias; the model agreed before, disagrees after"),
        ((0.0, 0.5), "base", "people preferred the side without the bias; the model had no preference before, disagrees after"),
        ((1.0, 2.0), "tie", "people saw no difference (a tie)"),
        ((1.0, 2.0), None, "nobody voted"),
        ((1.5, None), "base", "people preferred the side without the bias; the model disagrees"),
    ],
)  # fmt: skip
def test_model_beside_people(margins: tuple[float, float | None], preferred: str | None, said: str) -> None:
    assert people_sentence(_example(*margins, preferred)) == said
