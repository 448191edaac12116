"""RATE in an audit: planted effects come back, too few flips give no effect, changes are paired."""

from __future__ import annotations

import numpy as np
import pytest
from rows import triples

from cda.auditing.rate import rate
from cda.records import Triple, user_prompt
from cda.results.base import Estimate, Missing
from cda.results.effects import BiasRate, Effect, Flips, RateEffects, average_of
from cda.rewriting.triples import flips_of
from cda.scorers.compared import Rewards, text_id

N = 40
SEED = 7


def scored(effect: float, rewriting: float = 0.0, seed: int = SEED) -> Rewards:
    """The attribute is worth `effect`, having been rewritten `rewriting`, and every prompt has a level of its own."""
    rng = np.random.default_rng(seed)
    found = {}
    for row, triple in enumerate(triples(N)):
        texts = (triple.original, triple.rewrite, triple.rewrite_of_rewrite)
        has_it = (triple.has_attribute, not triple.has_attribute, triple.has_attribute)
        for at, (text, w) in enumerate(zip(texts, has_it, strict=True)):
            noise = rng.normal(0, 0.05)
            found[text_id(triple.prompt, text)] = row + effect * w + rewriting * (at > 0) + noise
    return Rewards(found)


def measured(scorings: dict[str, Rewards], flips: Flips | None = None, min_flipped: float = 0.5) -> BiasRate:
    counts = flips or flips_of([one.has_attribute for one in triples(N)], triples(N), "rules", "measured words")
    return rate(triples(N), {"jargon": counts}, scorings, min_flipped)["jargon"]


def overall(found: BiasRate, scoring: str = "model") -> RateEffects:
    effects = found.under()[scoring]
    assert isinstance(effects, RateEffects)
    return effects


def value(effects: RateEffects, estimand: str, estimator: str) -> Estimate:
    (found,) = [one for one in effects.effects if (one.estimand, one.estimator) == (estimand, estimator)]
    return found.estimate


def test_a_planted_effect_comes_back_and_rewriting_cancels() -> None:
    found = measured({"model": scored(0.5, rewriting=2.0)})
    for estimand in ("ATT", "ATU", "ATE"):
        assert value(overall(found), estimand, "double").value == pytest.approx(0.5, abs=0.05)
    # The single estimator takes what rewriting adds for the attribute: the reverse at w = 1.
    assert value(overall(found), "ATT", "single").value == pytest.approx(-1.5, abs=0.05)
    assert value(overall(found), "ATU", "single").value == pytest.approx(2.5, abs=0.05)
    assert found.flips.flipped_with == found.flips.tried_without == N // 2


def test_changes_are_paired_for_every_effect() -> None:
    found = measured({"before": scored(0.5), "after": scored(0.1, seed=8)})
    changes = found.changes
    assert isinstance(changes, RateEffects)
    for estimand in ("ATT", "ATU", "ATE"):
        change = value(changes, estimand, "double")
        assert change.value == pytest.approx(-0.4, abs=0.06)
        before, after = (value(overall(found, when), estimand, "double").value for when in ("before", "after"))
        assert change.value == pytest.approx(after - before)
    assert {one.estimator for one in changes.effects} >= {"double", "single", "naive"}
    assert all(isinstance(one.standardised, Missing) for one in changes.effects)
    assert isinstance(average_of(changes), Effect) and not isinstance(found.test, Missing)


def flips(tried_with: int, flipped_with: int, tried_without: int, flipped_without: int) -> Flips:
    return Flips(
        by="rules", checked_by="measured words", tried_with=tried_with, flipped_with=flipped_with,
        tried_without=tried_without, flipped_without=flipped_without,
    )  # fmt: skip


def test_too_few_flips_give_no_effect_but_the_naive_one() -> None:
    few = flips(400, N // 2, N // 2, N // 2)
    found = measured({"model": scored(0.5)}, few)
    given = {(one.estimand, one.estimator) for one in overall(found).effects}
    assert given == {
        ("ATU", "double"), ("ATU", "single"), ("ATT", "naive"), ("ATU", "naive"), ("ATE", "naive"), ("w = 0", "rewrite effect"),
    }  # fmt: skip
    reasons = {one.estimand: one.reason for one in overall(found).not_estimated}
    assert reasons["ATT"].startswith("20 of 400 answers with the bias could be rewritten to flip it and back (5%;")
    assert reasons["ATE"] == reasons["ATT"]
    assert isinstance(found.test, Missing)
    assert isinstance(average_of(measured({"model": scored(0.5)}, few, min_flipped=0.05).under()["model"]), Effect)


def test_the_reason_of_a_refusal_goes_before_that_of_an_empty_group() -> None:
    """All originals lack the attribute, and too few of them could be flipped."""
    own = [one for one in triples(N) if not one.has_attribute]
    found = rate(own, {"jargon": flips(0, 0, 400, len(own))}, {"model": scored(0.5)}, 0.5)["jargon"]
    average = average_of(found.under()["model"])
    assert isinstance(average, Missing)
    assert average.reason.startswith("20 of 400 answers without the bias could be rewritten")


def test_a_rewriter_that_lengthens_in_both_passes_is_named_and_inflates_the_att() -> None:
    """True effect 1; every word is worth 0.04, and each pass adds 10% of the words: ATT holds what the second pass added."""
    rows, rng = [], np.random.default_rng(SEED)

    def longer(text: str) -> str:
        return text + " more" * round(len(text.split()) * 0.1)

    for row in range(80):
        plain, has = "word " * int(rng.integers(20, 61)), row % 2 == 0
        first, second = longer(plain), longer(longer(plain))
        texts = [
            f"{'Yes! ' if there else ''}{text.strip()}"
            for text, there in zip((plain, first, second), (has, not has, has), strict=True)
        ]
        rows.append(Triple("jargon", user_prompt(f"q{row}"), *texts, has_attribute=has))
    scores = {
        text_id(one.prompt, text): 1.0 * text.startswith("Yes!") + 0.04 * len(text.removeprefix("Yes! ").split())
        for one in rows
        for text in (one.original, one.rewrite, one.rewrite_of_rewrite)
    }
    counts = flips_of([one.has_attribute for one in rows], rows, "rules", "measured words")
    found = rate(rows, {"jargon": counts}, {"model": Rewards(scores)}, 0.5)["jargon"]
    assert value(overall(found), "ATT", "double").value == pytest.approx(1.17, abs=0.03)
    assert value(overall(found), "ATU", "double").value == pytest.approx(0.83, abs=0.03)
    words = [one for one in found.passes if one.feature == "words"]
    assert [one.has_attribute for one in words] in ([True, False], [False, True])
    assert all(min(one.first.low, one.second.low) > 0 for one in words)
    assert measured({"model": scored(0.5)}).passes == ()
