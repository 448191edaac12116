"""Tables next to people, of judges, effects and RATE, with known answers; what they say of ties, tests and exclusions."""

from __future__ import annotations

from typing import Any

import pytest
from changed import changed

from cda.auditing.report_data import effects_table, exclusion_table, rate_tables
from cda.auditing.report_forms import render_markdown, summary_table
from cda.auditing.report_scoring import caveats, provenance
from cda.auditing.report_sections import glossary, sections
from cda.auditing.report_tables import panel_sentence, panel_table, powered_table, preference_tables, votes_table
from cda.records import Exclusions
from cda.report.numbers import share
from cda.report.scoring import scored_line
from cda.report.tables import Table
from cda.results.base import Missing
from cda.results.facts import Dropped


def _row(table: Table | None, name: str) -> dict[str, str]:
    assert table is not None
    (row,) = [row for row in table.rows if row[0] == name]
    assert len(row) == len(table.header)
    return dict(zip(table.header, row, strict=True))


def test_gap_has_no_sign_and_its_direction_and_test_stand_beside_it(voted: Any, one_model: Any) -> None:
    table = votes_table(voted)
    gap, signed = _row(table, "jargon gap"), _row(table, "jargon skew − human skew")
    assert (gap["before"], signed["before"]) == ("43 [33, 52] points", "+43 [33, 52] points")
    assert gap["after"].startswith("5 [0.") and signed["after"].startswith("−5 [−10, −0.")
    assert gap["change (points)"].startswith("−38 [")
    assert signed["change (points)"] == _row(table, "jargon skew on voted contrasts")["change (points)"]
    moved = _row(table, "jargon miscalibration")
    assert (moved["p"], moved["p (Holm)"]) == ("< 0.001", "< 0.001")
    test = one_model.votes["jargon"].gap_test.model_copy(update={"p_value": 0.0123, "p_holm": 0.0246})
    table = votes_table(changed(one_model, "votes.jargon.gap_test", test))
    differs = _row(table, "jargon skew − human skew")
    assert (differs["share"], differs["p"], differs["p (Holm)"]) == ("+43 [33, 52] points", "0.012", "0.025")
    assert _row(table, "jargon gap")["p"] == ""


@pytest.mark.parametrize(
    ("ties", "said", "n"),
    [
        ("drop", "Ties are left out", "100"),
        ("half", "Ties count as half", "104"),
        ("as-released", "publisher states", "100"),
    ],
)
def test_the_tie_rule_is_said(make_audit: Any, ties: str, said: str, n: str) -> None:
    audit = make_audit({"jargon": (0.88,)}, votes={"jargon": (0.88, 0.45)}, others=(), quality=None, ties=ties)
    assert said in " ".join(next(section for section in sections(audit) if section.id == "votes").paragraphs)
    row = _row(votes_table(audit), "jargon human skew")
    assert (row["share"], row["n"]) == ("45% [36, 55]", n)


def test_all_pairs_are_the_direct_contrast_of_the_first_table(one_model: Any) -> None:
    direct = one_model.effects["jargon"].before.direct.estimate
    row = _row(effects_table(one_model), "jargon")
    assert row["all pairs"] == f"+{direct.value:.2f} [+{direct.low:.2f}, +{direct.high:.2f}]"
    assert (row["p, all pairs"], row["p (Holm)"]) == ("< 0.001", "< 0.001")
    one_model = changed(one_model, "effects.jargon.before.direct", Missing(reason="nothing varies"))
    one_model = changed(one_model, "effects.jargon.test", Missing(reason="nothing varies"))
    row = _row(effects_table(one_model), "jargon")
    assert (row["all pairs"], row["p, all pairs"]) == ("nothing varies", "")
    one_model = changed(one_model, "effects.vagueness.before.identification", Missing(reason="one prompt only"))
    row = _row(effects_table(one_model), "vagueness")
    assert row["among like pairs"] == "one prompt only"
    assert row["all pairs"].startswith("−0.00 [")


def test_rate_tells_unadjusted_from_adjusted(one_model: Any) -> None:
    one_model = changed(one_model, "rate.jargon.test.p_holm", 0.0415)
    (table,) = rate_tables(one_model)
    assert "p (unadjusted)" in table.header
    assert f"Holm-adjusted p of 'ATE, double' = 0.042, for all {one_model.n_tests} tests" in table.caption
    assert one_model.n_tests == 4  # two mean margins, one gap, one RATE effect


def test_a_judge_s_unread_and_unjudged_are_counted(judge: Any) -> None:
    row = _row(powered_table(judge), "jargon human skew")
    assert (row["voted + judged alone"], row["left out: no verdict"]) == ("104 + 4", "2 of 110")
    assert "3 unreadable, 4 readable in one order only, 5 followed the place" in scored_line(judge.model)


def test_unread_is_worded_by_kind(judge: Any, make_audit: Any) -> None:
    judge = changed(judge, "rate.jargon.unread", 1)
    judge = changed(judge, "available_quality", 500)
    rows = exclusion_table(judge).rows
    assert ("contrasts of jargon", "no readable verdict of the judge", "2", "130") in rows
    assert ("contrasts of jargon", "not drawn (audit.max_contrasts)", "18", "130") in rows
    assert ("comparing quality pairs", "no readable verdict of the judge", "2", "500") in rows
    assert ("comparing quality pairs", "not drawn (audit.max_quality)", "98", "500") in rows
    assert ("comparing triples of jargon", "no readable verdict of the judge on a comparison", "1", "21") in rows
    cut = make_audit({"jargon": (0.88,)}, quality=(0.75,), others=(), rate=True, unread=2)
    cut = changed(cut, "rate.jargon.unread", 1)
    rows = exclusion_table(cut).rows
    assert ("contrasts of jargon", "both sides are the same after cutting", "2", "120") in rows
    assert ("comparing quality pairs", "both sides are the same after cutting", "2", "402") in rows
    assert ("comparing triples of jargon", "two of its texts are the same after cutting", "1", "21") in rows
    assert not any("judge" in reason for _, reason, _, _ in rows)


def test_what_a_file_or_a_stage_left_out_is_listed(voted: Any, make_audit: Any) -> None:
    wrong = changed(voted, "excluded", {"votes": Exclusions(300, {"not one of the words": 7})})
    assert ("loading votes", "not one of the words", "7", "300") in exclusion_table(wrong).rows
    dropped = Dropped(seen=336, dropped={"prompt is in the audit": 12})
    taught = changed(make_audit(), "stages.synthesize.in_audit", {"pairs": dropped})
    assert ("choosing what to teach of pairs", "prompt is in the audit", "12", "336") in exclusion_table(taught).rows


def test_provenance_names_what_was_given(voted: Any) -> None:
    assert not {"judges' verdicts", "RATE triples"} & dict(provenance(voted)).keys()
    voted = changed(changed(voted, "sources.verdicts", "panel.csv"), "sources.triples", "triples.jsonl")
    facts = dict(provenance(voted))
    assert (facts["judges' verdicts"], facts["RATE triples"]) == ("panel.csv", "triples.jsonl")


def test_votes_without_any_majority_are_not_called_no_votes(audit: Any) -> None:
    audit = audit.model_copy(update={"votes_undecided": {"jargon": 40}})
    text = " ".join(caveats(audit))
    assert "People voted on 40 contrasts of jargon, and on none of them more" in text
    assert "Nobody voted on the contrasts of jargon" not in text


def test_a_row_for_each_judge_the_panel_and_the_mean(make_audit: Any) -> None:
    audit = make_audit(
        {"jargon": (0.88,)}, votes={"jargon": (0.88, 0.45)}, quality=None, others=(), judge=True, panel=True
    )
    unvoted = make_audit({"vagueness": (0.5,)}, quality=None, others=(), judge=True, panel=True)
    audit = audit.model_copy(update={"panel": audit.panel | unvoted.panel})
    table = panel_table(audit)
    assert table is not None
    assert table.header == ("bias, judge", "skew", "n", "ties", "without a verdict", "miscalibration", "n voted")
    rows = {row[0]: row[1:] for row in table.rows}
    assert list(rows) == [f"{bias}, {one}" for bias in ("jargon", "vagueness")
                          for one in ("gpt-x", "gpt<y>", "the panel", "mean of the judges")]  # fmt: skip
    found = audit.panel["jargon"]
    one, other, panel, mean = found.judges["gpt-x"], found.judges["gpt<y>"], found.panel, found.mean
    # The second judge ties throughout: the panel prefers what the first one does, and the mean lies halfway to one half.
    assert panel.skew == one.skew == audit.skew["jargon"].before
    assert other.skew.value == 0.5 and other.ties == other.skew.n and other.unread == 1
    assert abs(mean.skew.value - (one.skew.value + 0.5) / 2) < 0.01 and mean.unread == 1
    assert rows["vagueness, the panel"][4:] == ("", "")  # nobody voted there
    assert rows["jargon, gpt-x"][4] == rows["jargon, the panel"][4] != ""


def test_the_terminal_and_the_page_say_it(make_audit: Any) -> None:
    audit = make_audit({"jargon": (0.88,)}, quality=None, others=(), judge=True, panel=True)
    said = panel_sentence(audit)
    skew = share(audit.skew["jargon"].before)
    assert said == f"Skew by judge: jargon: gpt-x {skew}, gpt<y> 50% [40, 60]; the panel {skew}."
    assert " ".join(summary_table(audit, "r").split()).count(said) == 1
    assert "mean of the judges" in render_markdown(audit)
    assert {"the panel", "mean of the judges"} <= {entry.term for entry in glossary(audit)}


def test_one_judge_is_no_panel(judge: Any, one_model: Any) -> None:
    for audit in (judge, one_model):
        assert panel_table(audit) is None and panel_sentence(audit) == ""
        assert "the panel" not in {entry.term for entry in glossary(audit)}


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


def test_one_scoring_names_no_stage_and_a_judge_has_ties(judge: Any, audit: Any) -> None:
    (table,) = preference_tables(judge)
    rows = {row[0]: row[1:] for row in table.rows}
    assert set(rows) == {"people: biased side", "people: other side", "people: tie", "sum"}
    assert int(rows["sum"][2].split()[0]) > 0 and preference_tables(audit) == []
