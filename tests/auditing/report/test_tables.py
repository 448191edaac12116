"""Tables next to people, of judges, effects and RATE, with known answers; what they say of ties, tests and exclusions."""

from __future__ import annotations

from typing import Any

import pytest
from changed import changed
from rows import estimate

from cda.auditing.report import every_entry, glossary, sections
from cda.auditing.report_tables import drift_sentences, effects_table, exclusion_table, votes_table
from cda.numbers.views import numbers_in
from cda.report.tables import Table
from cda.results.base import Estimate


def _row(table: Table | None, name: str) -> dict[str, str]:
    assert table is not None
    (row,) = [row for row in table.rows if row[0] == name]
    assert len(row) == len(table.header)
    return dict(zip(table.header, row, strict=True))


def test_gap_has_no_sign_and_its_direction_and_test_stand_beside_it(voted: Any, one_model: Any) -> None:
    table = votes_table(voted)
    gap, signed = _row(table, "jargon gap"), _row(table, "jargon skew − human skew")
    assert (gap["before"], signed["before"]) == ("43 [33, 52] points", "+43 [33, 52]")
    assert gap["after"].startswith("5 [0.") and signed["after"].startswith("−5 [−10, −0.")
    assert gap["change (points)"].startswith("−38 [")
    assert signed["change (points)"] == _row(table, "jargon skew on voted contrasts")["change (points)"]
    moved = _row(table, "jargon miscalibration")
    assert moved["p (Holm)"] == "< 0.001"
    test = one_model.votes["jargon"].gap_test.model_copy(update={"p_value": 0.0123, "p_holm": 0.0246})
    table = votes_table(changed(one_model, "votes.jargon.gap_test", test))
    differs = _row(table, "jargon skew − human skew")
    assert (differs["share"], differs["p (Holm)"]) == ("+43 [33, 52]", "0.025")
    assert _row(table, "jargon gap")["p (Holm)"] == ""


@pytest.mark.parametrize(
    ("ties", "said", "n"),
    [
        ("drop", "are left out (the tie rule drop)", "100"),
        ("half", "count as half", "104"),
        ("as-released", "publisher states", "100"),
    ],
)
def test_the_tie_rule_is_said(make_audit: Any, ties: str, said: str, n: str) -> None:
    audit = make_audit({"jargon": (0.88,)}, votes={"jargon": (0.88, 0.45)}, others=(), quality=None, ties=ties)
    assert said in " ".join(next(section for section in sections(audit) if section.id == "votes").paragraphs)
    row = _row(votes_table(audit), "jargon human skew")
    assert (row["share"], row["n"]) == ("45% [36, 55]", n)


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


@pytest.mark.parametrize("name", ["audit", "voted", "one_model", "judge"])
def test_every_method_of_an_interval_is_in_the_glossary(name: str, request: pytest.FixtureRequest) -> None:
    audit = request.getfixturevalue(name)
    methods = {one.found.method for one in numbers_in(audit) if isinstance(one.found, Estimate)}
    assert len(methods) >= 2 and all(any(word in method for word in every_entry()["Intervals"]) for method in methods)
    entries = {entry.term: entry.meaning for entry in glossary(audit)}
    said, used = set(entries), entries["intervals and tests"]
    assert "Wilson interval" in used and ("paired change" in used) == (len(audit.scorings) > 1)
    # What is not on this page is not explained there.
    assert ("gap" in said) == bool(audit.votes) and ("the panel" in said) == bool(audit.panel) and "dose" not in said


def test_what_else_differs_is_named_by_size_and_only_beyond_chance(voted: Any) -> None:
    assert _row(effects_table(voted), "jargon, before")["like pairs, of n"].endswith(
        f" of {voted.skew['jargon'].before.n}"
    )
    (first, *_) = voted.drift["jargon"]
    sizes = {"words": 0.2, "long_word_share": 2.0, "hedges": -0.5, "bold": 0.05, "sentences": 0.3, "headers": 0.4}
    features = tuple(
        first.model_copy(
            update={
                "feature": name,
                "is_treatment": name == "long_word_share",
                "standardised": estimate(size, n=9, unit="standard deviations"),
            }
        )
        for name, size in sizes.items()
    )
    said = drift_sentences(changed(voted, "drift.jargon", features))[0]
    assert said.startswith(
        "jargon: the sides also differ in hedges −0.50 [−0.60, −0.40], headers +0.40 [+0.30, +0.50], sentences +0.30 [+0.20, +0.40] (in"
    )
