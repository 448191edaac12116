"""Tables next to people, of judges, effects and RATE, with known answers; what they say of ties, tests and exclusions."""

from __future__ import annotations

import re
from typing import Any

import pytest
from changed import changed

from cda.auditing.report import INTERVALS, METHODS, every_entry, method_table, methods_of, sections
from cda.auditing.report_data import exclusion_table
from cda.auditing.report_tables import votes_table
from cda.report.tables import Table
from cda.results.base import Result
from cda.stats.estimators import N_DRAWS


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


def test_the_table_of_methods_names_fields_that_results_have() -> None:
    kinds: list[type[Result]] = [Result]
    for kind in kinds:
        kinds += kind.__subclasses__()
    steps = {step for _, *paths in METHODS for path in paths for step in re.split(r"[.| ]", path)}
    assert len(steps) > 40 and steps - {"*", ""} <= {field for kind in kinds for field in kind.model_fields}


@pytest.mark.parametrize("name", ["audit", "voted", "one_model", "judge"])
def test_the_table_covers_every_method_of_the_audit(name: str, request: pytest.FixtureRequest) -> None:
    audit = request.getfixturevalue(name)
    found = {method.replace("_", " ") for method in methods_of(audit)}  # no keys of results on a page
    printed = {part for row in method_table(audit).rows for cell in row[1:] for part in cell.split("; ")}
    assert len(found) >= 5 and found <= printed
    assert all(
        any(word in method for word in (*every_entry()[INTERVALS], "unpaired two-proportion")) for method in found
    )


def test_draws_are_those_of_the_code() -> None:
    numbers = re.findall(r"[\d,]*,000", every_entry()[INTERVALS]["bootstrap over prompts"].formula)
    assert [int(number.replace(",", "")) for number in numbers] == [N_DRAWS]
