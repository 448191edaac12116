"""Tables of judges and criteria: every number of a panel and a rubric, in a report's words."""

from __future__ import annotations

from made_audits import KINDS, make_audit

from cda.auditing.report import sections
from cda.auditing.report_tables import judge_tables
from cda.report.numbers import count, share

TWO_BIASES = {**KINDS["judge"], "targets": {"jargon": (0.88,), "vagueness": (0.5,)}, "panel": True}


def test_each_table_has_its_paragraph_and_stands_in_a_section_of_its_own() -> None:
    audit = make_audit(**TWO_BIASES)
    (section,) = [section for section in sections(audit) if section.id == "judges"]
    assert [len(table.rows) for table in section.tables] == [16, 8] and len(section.paragraphs) == 3
    criteria = {row[0]: row for row in section.tables[0].rows}
    skew = audit.criteria["vagueness"]["tone"].skew
    assert criteria["vagueness, by tone"][1:3] == (share(skew), count(skew))
    rows = {row[0]: row for row in section.tables[1].rows}
    assert rows["jargon, without gpt-z"][1:3] != rows["jargon, all"][1:3]


def test_an_audit_without_judges_says_nothing_of_them() -> None:
    audit = make_audit(**KINDS["one_model"])
    assert judge_tables(audit) == [None] * 2
    assert "judges" not in {section.id for section in sections(audit)}
