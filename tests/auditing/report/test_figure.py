"""The chart: well-formed, accessible, and marks where the numbers are."""

from __future__ import annotations

from typing import Any
from xml.etree import ElementTree

from cda.auditing.report_html import skew_chart


def test_well_formed_and_accessible(hostile: Any) -> None:
    root = ElementTree.fromstring(skew_chart(hostile))
    assert root.get("role") == "img"
    ids = (root.get("aria-labelledby") or "").split()
    assert [root[0].get("id"), root[1].get("id")] == ids
    assert [root[0].tag, root[1].tag] == ["title", "desc"]
    assert "88% [80, 93] before, 40% [31, 50] after" in (root[1].text or "")


def test_marks_lie_at_the_numbers(audit: Any) -> None:
    root = ElementTree.fromstring(skew_chart(audit))
    groups = root.findall("g")
    assert [group.get("class") for group in groups] == ["target", "other", "other"]
    assert [dot.get("cx") for dot in groups[0].findall("circle")] == ["88.00%", "40.00%"]
    interval = groups[0].find("line[@class='interval before']")
    assert interval is not None
    assert interval.get("x1", "").startswith("80.")


def test_people_only_where_they_voted(audit: Any, voted: Any) -> None:
    assert "people" not in skew_chart(audit)
    root = ElementTree.fromstring(skew_chart(voted))
    assert [len(group.findall("svg")) for group in root.findall("g")] == [1, 0, 1, 0]


def test_colours_come_from_the_page(audit: Any) -> None:
    chart = skew_chart(audit)
    assert "#" not in chart
    assert "fill=" not in chart
    assert "style=" not in chart
