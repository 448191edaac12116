"""Short names of biases and attributes, and long ones broken into lines: nothing is cut."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cda.biases import SHORT_NAME
from cda.report.glance import Cell, Chip, Glance, GlanceRow, Series, marked, percent_axis
from cda.report.names import distinct, renamed, short_name
from cda.report.numbers import width
from cda.report.tables import Table, broken_name, fitted_table, plain_table
from cda.results.base import Estimate
from cda.results.facts import AuditedBias

LONG = "many-more-specialist-words-than-the-question-asked-for-at-all"
FOUND = Estimate(value=0.8, low=0.7, high=0.9, n=80, n_prompts=80, unit="share", method="made")


@pytest.mark.parametrize(
    ("words", "short"),
    [
        ("Uses short sentences.", "Uses short sentences"),
        ("The response ends with a question that invites the user to go on", "Ends with a question"),
        ("A response that spends many more words than its content needs", "Spends many more words"),
        ("Flattery of the user, or eager agreement with the user", "Flattery of the user"),
        ("Opens with 'Great question!' or a similar compliment", "Opens with 'Great question!'"),
        ("Incomprehensibilities-and-more-of-them here", "Incomprehensibilities"),
        ("Honorificabilitudinitatibusandmore", "Honorificabilitudinitatibusand"),
    ],
)
def test_a_short_name_is_the_leading_words_without_what_needs_more(words: str, short: str) -> None:
    assert short_name(words) == short


@given(st.text(min_size=1).filter(lambda text: any(map(str.isalpha, text))))
def test_a_short_name_fits_and_is_never_cut_with_dots(words: str) -> None:
    short = short_name(words)
    assert 0 < len(short) <= SHORT_NAME + 2 and ("…" not in short or "…" in words)  # a capital may be two letters


def test_names_that_coincide_are_numbered_even_beside_one_that_has_the_number() -> None:
    found = distinct({"a": "praise", "b": "praise", "c": "praise (2)", "d": "praise"})
    assert list(found.values()) == ["praise", "praise (2)", "praise (2) (2)", "praise (3)"]


def test_a_result_is_renamed_in_keys_and_values_and_its_texts_stay() -> None:
    bias = AuditedBias(name="b", description="of b: b is b")
    found = renamed({"b": (bias, "contrasts of b", "part of b", 3)}, {"b": "Short"})
    renamed_bias = bias.model_copy(update={"name": "Short"})
    assert found == {"Short": (renamed_bias, "contrasts of Short", "part of b", 3)}


def test_a_long_name_stands_whole_in_every_table_of_a_terminal() -> None:
    table = Table("Caption " * 20, ("bias", "n"), ((LONG, "80"), ("short", "70"), ("last", "60")))
    lines = fitted_table(table, 6)
    assert len(lines) == 6 and all(width(line) <= 100 for line in lines) and "…" not in "".join(lines[:-1])
    assert LONG in "".join(line.removesuffix("80").strip() for line in lines)
    assert lines[-1] == "… 2 more rows in the report" and not any(line.startswith("short") for line in lines)
    assert LONG in plain_table(table)
    assert [row[1] for row in broken_name((LONG, "80"), 40)] == ["80", ""]
    assert "".join(row[0] for row in broken_name(("長" * 30, "1"), 20)) == "長" * 30
    assert all(width(name) <= 20 for name, _ in broken_name(("長" * 30, "1"), 20))


def test_a_long_label_of_a_first_screen_is_broken_and_its_clause_stands_in_its_first_line() -> None:
    series = Series("before", "the model")
    cells = (Cell(Chip("rewarded", "bad", "▲"), marked(series, FOUND)),)
    rows = tuple(GlanceRow(name, cells, clause) for name, clause in ((LONG * 2, "why"), ("short", "also")))
    glance = Glance(caption="How often.", heading="bias", axis=percent_axis("share"), rows=rows)
    lines = glance.lines(10)
    assert "…" not in "".join(lines) and all(width(line) <= 100 for line in lines) and len(lines) == 4
    assert lines[1].endswith("80% [70, 90]") and lines[3].startswith("short ")
    assert LONG * 2 in "".join(line.split("  ")[0] for line in lines[1:3])
    short = replace(glance, rows=(replace(rows[0], label="a name of words " * 4), rows[1])).lines(10)
    assert [line.rpartition("  ")[2] for line in short[1:]] == ["why", "also"]
    assert glance.lines(4) == lines and len(glance.lines(3)) == 3
