"""Tables of judges and criteria: every number of a panel and a rubric, in a report's words."""

from __future__ import annotations

from made_audits import KINDS, make_audit

from cda.auditing.report import criteria_matrix, judge_tables, judge_words, sections
from cda.report.numbers import share

TWO_BIASES = {**KINDS["judge"], "targets": {"jargon": (0.88,), "vagueness": (0.5,)}, "panel": True}


def test_a_rubric_is_a_matrix_of_criteria_and_biases() -> None:
    audit = make_audit(**TWO_BIASES)
    table = criteria_matrix(audit)
    assert table is not None and table.header == ("criterion", "jargon", "vagueness")
    assert [row[0] for row in table.rows] == ["accuracy", "tone", "overall"]
    skew = audit.criteria["vagueness"]["tone"].skew
    assert table.rows[1][2] == f"{share(skew)}, n {skew.n}"
    assert table.rows[2][1] == f"{share(audit.skew['jargon'].before)}, n {audit.skew['jargon'].before.n}"
    assert criteria_matrix(make_audit(**{**KINDS["judge"], "panel": True})) is None  # one bias: the other table says it


def test_each_table_has_its_paragraph_and_stands_in_a_section_of_its_own() -> None:
    audit = make_audit(**TWO_BIASES)
    assert len(judge_words(audit)) == 4 == len([table for table in judge_tables(audit) if table])
    (section,) = [section for section in sections(audit) if section.id == "judges"]
    assert [len(table.rows) for table in section.tables] == [12, 8, 3, 6]
    rows = {row[0]: row for row in section.tables[1].rows}
    assert rows["jargon, without gpt-z"][1:3] != rows["jargon, all"][1:3]


def test_an_audit_without_judges_says_nothing_of_them() -> None:
    audit = make_audit(**KINDS["one_model"])
    assert judge_words(audit) == [] and judge_tables(audit) == [None] * 4
    assert "judges" not in {section.id for section in sections(audit)}


def test_a_panel_of_an_earlier_version_is_shown_as_far_as_it_was_measured() -> None:
    audit = make_audit(**{**KINDS["judge"], "panel": True})
    old = {
        name: {key: getattr(panel, key) for key in ("judges", "panel", "mean")} for name, panel in audit.panel.items()
    }
    kept = {name: type(audit.panel[name])(**parts) for name, parts in old.items()}
    earlier = audit.model_copy(update={"panel": kept, "criteria": {}})
    assert [table is not None for table in judge_tables(earlier)] == [True, False, False, False]
