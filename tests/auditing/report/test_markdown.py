"""The Markdown report: the same numbers, and no markup from outside."""

from __future__ import annotations

import re
from itertools import pairwise
from typing import Any

import pytest
from changed import changed

from cda.auditing.report_text import render_markdown


def test_numbers_and_sections(voted: Any) -> None:
    text = render_markdown(voted)
    assert "| vagueness skew | 70% \\[60, 78\\] | 30% \\[22, 40\\] |" in text
    for title in ("Beside people", "Every bias", "Quality", "What was left out", "What the numbers mean"):
        assert f"\n## {title}\n" in text


@pytest.mark.parametrize("name", ["voted", "one_model", "judge"])
def test_tables_are_whole(name: str, request: pytest.FixtureRequest) -> None:
    text = render_markdown(request.getfixturevalue(name))
    rows = [line for line in text.splitlines() if line.startswith("|")]
    assert rows
    for row, following in pairwise(rows):
        if set(following) <= set("|- "):
            assert row.count("|") == following.count("|")


def test_examples_say_who_agrees(voted: Any) -> None:
    disputed = changed(changed(voted.examples[0], "prompt", "disputed"), "margins.after", 0.9)
    agreed = [changed(changed(disputed, "prompt", f"agreed {n}"), "margins.after", -1.0 - n) for n in range(4)]
    text = render_markdown(voted.model_copy(update={"examples": [*agreed, disputed]}))
    assert "people preferred the side without the bias; the model disagreed before, disagrees after" in text
    assert "disputed" in text and "agreed 3" in text and "agreed 1" not in text
    assert "no random sample" in text


def test_hostile_text_is_inert(hostile: Any) -> None:
    text = render_markdown(hostile)
    outside = re.sub(r"^(`{3,})text\n.*?\n\1$", "", text, flags=re.S | re.M)
    assert "````text" in text  # the fence is longer than the run inside
    assert "<" not in outside
    assert "://" not in outside
    assert not re.search("[\x00-\x08\x0b-\x1f\x7f\x9b\u202e]", text)
    text.encode("utf-8")
