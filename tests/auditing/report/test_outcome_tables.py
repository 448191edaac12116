"""The paper's outcome in the report: this run's numbers, the paper's own beside them, skew over triples, sections."""

from __future__ import annotations

from typing import Any

import pytest
from changed import changed

from cda.auditing.paper import paper_sentences, paper_tables

SHARES = {"jargon": (0.88, 0.40)}
VOTES = {"jargon": (0.88, 0.40, 0.45)}


@pytest.fixture
def trained(make_audit: Any) -> Any:
    return make_audit(SHARES, votes=VOTES, ties="as-released", rate=True, paper=True)


def test_the_paper_s_own_beside_it(trained: Any) -> None:
    models, judges, bench, labels = paper_tables(trained.paper)
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
