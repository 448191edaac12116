"""The 32 triples of rewards that the RATE paper prints, against the effects computed from them by hand."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from cda.errors import DataError
from cda.stats.rate import effect, from_rewards, rate_effects, rewrite_effect

ROOT = Path(__file__).parent.parent.parent
TRIPLES = Path(os.environ.get("CDA_DATA", ROOT.parent / "shared" / "data")) / "rate" / "paper_reward_triples.jsonl"
pytestmark = pytest.mark.skipif(not TRIPLES.is_file(), reason=f"public research data absent: {TRIPLES} (set CDA_DATA)")


def triples(attribute: str):
    rows = [json.loads(line) for line in TRIPLES.read_text(encoding="utf-8").splitlines()]
    mine = [row for row in rows if row["attribute"] == attribute]
    columns = {name: [row[name] for row in mine] for name in ("original", "rewrite", "rewrite_of_rewrite", "w")}
    return from_rewards(*columns.values(), [str(row) for row in range(len(mine))])


@pytest.mark.parametrize(
    ("attribute", "att", "atu", "ate", "single", "naive"),
    [
        ("length", -0.00002, 0.00409, 0.00203, 0.01878, 0.01406),
        ("sentiment", 0.00780, 0.00687, 0.00745, 0.00378, -0.00330),
        ("complexity", 0.00777, 0.01249, 0.01131, 0.00729, 0.05181),
    ],
)
def test_effects_and_identities(
    attribute: str, att: float, atu: float, ate: float, single: float, naive: float
) -> None:
    contrasts = triples(attribute)
    found = {(one.estimand, one.estimator): one.estimate.value for one in rate_effects(contrasts).effects}
    close = pytest.approx
    assert found["ATT", "double"] == close(att, abs=5.1e-6)
    assert found["ATU", "double"] == close(atu, abs=5.1e-6)
    assert found["ATE", "double"] == close(ate, abs=5.1e-6)
    assert found["ATE", "single"] == close(single, abs=5.1e-6)
    assert found["ATE", "naive"] == close(naive, abs=5.1e-6)
    assert found["ATT", "double"] - found["ATT", "single"] == close(rewrite_effect(contrasts, 1).estimate.value)
    assert found["ATU", "single"] - found["ATU", "double"] == close(rewrite_effect(contrasts, 0).estimate.value)


def test_one_triple_of_a_kind_gives_no_effect_of_that_kind() -> None:
    """Helpfulness has seven triples with w = 1 and one with w = 0."""
    contrasts = triples("helpfulness")
    assert effect(contrasts, "ATT").estimate.n == 7
    with pytest.raises(DataError, match=r"ATU \(double\) cannot be estimated"):
        effect(contrasts, "ATU")
