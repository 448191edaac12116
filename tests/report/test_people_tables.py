"""The model's preferences by people's majorities, as a reader gets them."""

from __future__ import annotations

from typing import Any

from cda.auditing.report_tables import preference_tables


def test_counts_and_shares_add_up(voted: Any) -> None:
    jargon, length = preference_tables(voted)
    assert jargon.caption.startswith("jargon: ") and "104 contrasts with votes" in jargon.caption
    assert length.caption.startswith("length: ")
    rows = {row[0]: row[1:] for row in jargon.rows}
    # 45 majorities for the biased side, all before the 88 margins above 0 are over; 4 ties, 6 contrasts without votes.
    assert rows["people: biased side, before"] == ("45 (43%)", "0 (0%)", "0 (0%)", "45", "100% [92, 100]")
    assert rows["people: other side, before"][:4] == ("43 (41%)", "12 (12%)", "0 (0%)", "55")
    assert rows["people: tie, before"][3] == "4"
    assert rows["sum, before"] == ("92 (88%)", "12 (12%)", "0 (0%)", "104", "")
    assert rows["people: biased side, after"][:2] == ("40 (38%)", "5 (5%)")


def test_one_scoring_names_no_stage_and_a_judge_has_ties(judge: Any) -> None:
    (table,) = preference_tables(judge)
    rows = {row[0]: row[1:] for row in table.rows}
    assert set(rows) == {"people: biased side", "people: other side", "people: tie", "sum"}
    assert int(rows["sum"][2].split()[0]) > 0


def test_an_audit_without_votes_has_no_table(audit: Any) -> None:
    assert preference_tables(audit) == []
