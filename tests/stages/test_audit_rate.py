"""RATE in an audit: planted effects come back, too few flips give no effect, changes are paired."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from cda.records import Triple, user_prompt
from cda.rewrite.triples import Flips, flips_of
from cda.score.compared import Rewards
from cda.score.distinct import text_id
from cda.stages.audit_rate import average_effect, rate, refusals

N = 40
SEED = 7


def triples() -> list[Triple]:
    return [
        Triple("jargon", user_prompt(f"q {row}"), f"first {row}", f"flipped {row}", f"back {row}", row % 2 == 0)
        for row in range(N)
    ]


def scored(effect: float, rewriting: float = 0.0, seed: int = SEED) -> Rewards:
    """The attribute is worth `effect`, having been rewritten `rewriting`, and every prompt has a level of its own."""
    rng = np.random.default_rng(seed)
    found = {}
    for row, triple in enumerate(triples()):
        texts = (triple.original, triple.rewrite, triple.rewrite_of_rewrite)
        has_it = (triple.has_attribute, not triple.has_attribute, triple.has_attribute)
        for at, (text, w) in enumerate(zip(texts, has_it, strict=True)):
            noise = rng.normal(0, 0.05)
            found[text_id(triple.prompt, text)] = row + effect * w + rewriting * (at > 0) + noise
    return Rewards(found)


def measured(scorings: dict[str, Rewards], flips: Flips | None = None, min_flipped: float = 0.5) -> Any:
    counts = flips or flips_of([one.has_attribute for one in triples()], triples(), "rules", "measured words")
    return rate(triples(), {"jargon": counts}, scorings, min_flipped, SEED)["jargon"]


def value(effects: Any, estimand: str, estimator: str) -> Any:
    (found,) = [one for one in effects["effects"] if (one["estimand"], one["estimator"]) == (estimand, estimator)]
    return found["estimate"]


def test_a_planted_effect_comes_back_and_rewriting_cancels() -> None:
    found = measured({"model": scored(0.5, rewriting=2.0)})
    for estimand in ("ATT", "ATU", "ATE"):
        assert value(found["model"], estimand, "double")["value"] == pytest.approx(0.5, abs=0.05)
    # The single estimator takes what rewriting adds for the attribute: the reverse at w = 1.
    assert value(found["model"], "ATT", "single")["value"] == pytest.approx(-1.5, abs=0.05)
    assert value(found["model"], "ATU", "single")["value"] == pytest.approx(2.5, abs=0.05)
    assert found["flips"]["flipped_with"] == found["flips"]["tried_without"] == N // 2


def test_changes_are_paired_for_every_effect() -> None:
    found = measured({"before": scored(0.5), "after": scored(0.1, seed=8)})
    changes = found["changes"]
    for estimand in ("ATT", "ATU", "ATE"):
        change = value(changes, estimand, "double")
        assert change["value"] == pytest.approx(-0.4, abs=0.06)
        assert change["value"] == pytest.approx(
            value(found["after"], estimand, "double")["value"] - value(found["before"], estimand, "double")["value"]
        )
    assert {one["estimator"] for one in changes["effects"]} >= {"double", "single", "naive"}
    assert all(one["standardised"] is None for one in changes["effects"])
    assert average_effect(changes) is not None and "test" in found


def test_too_few_flips_give_no_effect_but_the_naive_one() -> None:
    flips = Flips("rules", "measured words", 400, N // 2, N // 2, N // 2)
    found = measured({"model": scored(0.5)}, flips)
    given = {(one["estimand"], one["estimator"]) for one in found["model"]["effects"]}
    assert given == {
        ("ATU", "double"), ("ATU", "single"), ("ATT", "naive"), ("ATU", "naive"), ("ATE", "naive"), ("w = 0", "rewrite effect"),
    }  # fmt: skip
    reasons = {one["estimand"]: one["reason"] for one in found["model"]["not_estimated"]}
    assert reasons["ATT"].startswith("20 of 400 answers with the bias could be rewritten to flip it and back (5%;")
    assert reasons["ATE"] == reasons["ATT"] and "missing" in found["model"]["by_length"]
    assert "test" not in found
    assert average_effect(measured({"model": scored(0.5)}, flips, min_flipped=0.05)["model"]) is not None


def test_no_triple_left_is_said() -> None:
    flips = Flips("rules", "measured words", 3, 0, 0, 0)
    found = rate([], {"jargon": flips}, {"model": scored(0.5)}, 0.0, SEED)["jargon"]
    assert found["n"] == 0
    assert found["missing"].startswith("0 of 3 answers with the bias could be rewritten")


def test_the_reason_of_a_refusal_goes_before_that_of_an_empty_group() -> None:
    """All originals lack the attribute, and too few of them could be flipped."""
    own = [one for one in triples() if not one.has_attribute]
    flips = Flips("a file", "measured words", 0, 0, 400, len(own))
    found = rate(own, {"jargon": flips}, {"model": scored(0.5)}, 0.5, SEED)["jargon"]
    reason = found["model"].get("missing") or next(
        one["reason"]
        for one in found["model"]["not_estimated"]
        if (one["estimand"], one["estimator"]) == ("ATE", "double")
    )
    assert reason.startswith("20 of 400 answers without the bias could be rewritten")


def test_a_group_that_nobody_tried_is_no_refusal() -> None:
    assert refusals(Flips("file", None, 0, 0, 10, 10), 0.5) == {}
    assert set(refusals(Flips("file", None, 10, 4, 10, 4), 0.5)) == {"ATT", "ATU", "ATE"}
