"""The paper's outcome in the report: this run's numbers, the paper's own beside them, skew over triples, sections."""

from __future__ import annotations

from typing import Any

import pytest
from changed import changed

from cda.auditing.paper import paper_sentences, paper_tables
from cda.data.release import SOURCE
from cda.report.tables import Table

SHARES = {"jargon": (0.88, 0.40)}
VOTES = {"jargon": (0.88, 0.40, 0.45)}


@pytest.fixture
def trained(make_audit: Any) -> Any:
    return make_audit(SHARES, votes=VOTES, ties="as-released", rate=True, paper=True)


@pytest.fixture
def alone(make_audit: Any) -> Any:
    return make_audit(
        {"jargon": (0.88,)}, votes={"jargon": (0.88, 0.45)}, quality=(0.75,), others=(), rate=True, paper=True
    )


def first_cells(table: Table) -> list[str]:
    return [row[0] for row in table.rows]


def test_this_run_s_outcome(trained: Any) -> None:
    assert "jargon skew (triples)" not in first_cells(
        paper_tables(trained, trained.paper)[0]
    )  # those triples are of rules, not of the release
    trained = changed(trained, "rate.jargon.flips.by", SOURCE)
    outcome = paper_tables(trained, trained.paper)[0]
    assert outcome.header == ("measure", "before", "after", "change (points)", "n")
    assert first_cells(outcome) == [
        "jargon human skew", "jargon skew, where people have a majority", "jargon miscalibration", "jargon skew (triples)",
        "bench: Chat", "bench: Safety", "bench: overall",
    ]  # fmt: skip
    rows = {row[0]: row[1:] for row in outcome.rows}
    assert rows["bench: Chat"][:3] == ("100.0% [83.9, 100.0]", "100.0% [83.9, 100.0]", "0.0 [−16.1, 16.1]")
    assert rows["bench: Safety"][1].startswith("0.0%") and rows["bench: Safety"][2].startswith("−100.0")
    assert rows["jargon human skew"][1] == "the same"


def test_the_paper_s_own_beside_it(trained: Any) -> None:
    _, models, judges, bench, labels = paper_tables(trained, trained.paper)
    rows = {row[0]: row[1:] for row in models.rows}
    assert rows["jargon, 2B: skew"][0].startswith("50% [") and rows["jargon, 2B: skew"][2].startswith("−25 [")
    assert rows["jargon, 3B: skew"][1:3] == ("no scores", "") and rows["jargon, 3B: skew"][4] == "2"
    assert rows["jargon, 8B"][0] == "no pair with a majority has a score" and rows["jargon, 8B"][4] == "48"
    assert "jargon, mean of 2B, 3B: miscalibration" in rows
    assert judges.rows[0][3:] == ("40", "5", "1") and judges.rows[1][1] == "not estimated"
    assert bench.rows[0] == ("jargon, 2B: Chat", "80.7%", "81.3%", "0.6") and "no interval" in bench.caption
    assert labels.rows[0][0] == "jargon"


def test_what_the_release_lacks_and_which_rule_holds_is_said(trained: Any) -> None:
    said = " ".join(paper_sentences(trained, trained.paper))
    assert (
        "jargon: 48 pairs that people voted on, 40 with a majority for one side; 60 triples, of which people voted on 41."
        in said
    )
    assert "left out, as in the paper's Table 6" in said
    assert "Missing in the release: labels of the training sample of length." in said
    assert "RewardBench by section was not measured" not in said
    without = changed(trained, "quality_sections", None)
    assert "RewardBench by section was not measured" in " ".join(paper_sentences(without, without.paper))
