"""The glossary and the table of methods: an entry for everything that occurs, true under each tie rule and kind of model."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
from changed import changed

import cda
from cda.auditing.report_sections import INTERVALS, every_entry, glossary, method_table, methods_of
from cda.stats import votes
from cda.stats.bootstrap import N_DRAWS

_METHODS = every_entry()[INTERVALS]
_SOURCE = "".join(path.read_text(encoding="utf-8") for path in Path(cda.__path__[0]).rglob("*.py"))
METHODS = (
    "Wilson 95%", "Wilson 95% over prompts", "Newcombe paired 95%", "Newcombe paired 95% on the effective number of rows",
    "prompt-clustered bootstrap 95%", "prompt-clustered BCa bootstrap 95%", "prompt-clustered normal 95%",
    "unpaired two-proportion z 95%", "Obuchowski clustered logit 95%", "Newcombe AUC score 95%",
    "paired DeLong, clustered 95%", "one prompt: nothing is known of others", "Fisher z 95% over prompts",
    "from Wilson 95% over prompts", "Dirichlet-multinomial vote model, prompt-clustered bootstrap 95%",
    "adjustment, CR 95%", ", SD as known", "PPI++ from ", "bounded by skew's ",
    "prompt-clustered t 95%, stretch from quality pairs",
    "prompts drawn and doses chosen anew, bootstrap 95%", "prompts drawn and split anew, bootstrap 95%",
)  # fmt: skip


def _entries(audit: Any) -> dict[str, Any]:
    return {entry.term: entry for entry in glossary(audit)}


def test_every_method_is_explained(audit: Any) -> None:
    for method in METHODS:
        # A method that is renamed in the source is found here; the source puts two together from these parts.
        assert all(part in _SOURCE for part in re.split(", |BCa ", method)), method
        assert any(word in method for word in (*_METHODS, "unpaired two-proportion"))
        # The entry `unpaired z` stands with the changes.
        explained = {entry.term for word, entry in _METHODS.items() if word in method} or {"unpaired z"}
        assert explained <= _entries(changed(audit, "skew.jargon.before.method", method)).keys(), method


@pytest.mark.parametrize("name", ["audit", "voted", "one_model", "judge"])
def test_the_table_covers_every_method_of_the_audit(name: str, request: pytest.FixtureRequest) -> None:
    audit = request.getfixturevalue(name)
    found = set(methods_of(audit))
    printed = {part for row in method_table(audit).rows for cell in row[1:] for part in cell.split("; ")}
    assert len(found) >= 5 and found <= printed
    assert all(any(word in method for word in (*_METHODS, "unpaired two-proportion")) for method in found)


def test_methods_stand_at_their_measures(one_model: Any, judge: Any) -> None:
    rows = {row[0]: row[1:] for row in method_table(one_model).rows}
    assert rows["skew"] == ("Wilson 95%", "")
    assert rows["skew − human skew"] == ("Newcombe paired 95%", "exact McNemar")
    assert rows["mean margin of all pairs"] == ("prompt-clustered normal 95%", "normal, from the clustered error")
    assert rows["RATE effects, BCa"] == ("prompt-clustered BCa bootstrap 95%", "")
    assert rows["AUC of the margin"] == ("Obuchowski clustered logit 95%", "")
    powered = {row[0]: row[1:] for row in method_table(judge).rows}
    assert powered["shares with judges' verdicts"][0] == "PPI++, prompt-clustered normal 95%"


def test_draws_are_those_of_the_code(voted: Any) -> None:
    numbers = re.findall(r"[\d,]*,000", _entries(voted)["prompt-clustered bootstrap"].meaning)
    assert [int(number.replace(",", "")) for number in numbers] == [N_DRAWS, votes._ALPHA_DRAWS, votes._CEILING_DRAWS]


@pytest.mark.parametrize(
    ("ties", "formula"),
    [("drop", "contrasts with a majority"), ("half", "½ · ties"), ("as-released", "stated majority")],
)
def test_entries_follow_the_tie_rule(make_audit: Any, ties: str, formula: str) -> None:
    audit = make_audit({"jargon": (0.88,)}, votes={"jargon": (0.88, 0.45)}, others=(), quality=None, ties=ties)
    skew, missed = (_entries(audit)[term] for term in ("human skew", "miscalibration"))
    assert formula in skew.formula and ("½: tie" in missed.formula) == (ties == "half")
    assert ("left out" in skew.meaning) and (("Ties" in skew.meaning) == (ties == "drop"))


def test_a_judges_ties_count_half(judge: Any, one_model: Any) -> None:
    judged, rewarded = _entries(judge), _entries(one_model)
    assert "count half" in judged["skew"].meaning and "counts as no preference" in rewarded["skew"].meaning
    assert "disagrees by half" in judged["miscalibration"].meaning
    assert "count half" in judged["quality accuracy"].meaning
    assert "Ties count as wrong" in rewarded["quality accuracy"].meaning
    assert judge.skew["jargon"].before.value == pytest.approx((88 + 20 / 2) / 110)
