"""Plain CDA beside a run's result: the same rows and the same `before`, `after` at dose 1, and no test in the family."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from made_audits import make_audit
from made_rate import made_rate
from planted_dose import CONTRASTS, PAIRS, N, rewards

from cda.auditing.audit import margin_rows
from cda.auditing.groups import Group, main_group, make_groups, votes
from cda.auditing.shares import adjust_for_all_tests, material, measured_numbers, plain_part, skews, tied, unchanged
from cda.auditing.texts import Triples
from cda.biases import load_bias
from cda.results.base import Estimate, Missing

BEFORE = rewards(lambda _: True, lambda row: row % 5)
RESULT = rewards(lambda row: row % 4 == 0, lambda row: row % 5)
PLAIN = rewards(lambda _: False, lambda row: row % 2)
FLAT = rewards(lambda _: True, lambda row: 0.5 + (-1) ** row)
TEXTS: Any = SimpleNamespace(pairs=tuple(PAIRS), quality=None, triples=Triples(), available={"jargon": N}, failed={})
SCORED = {"before": BEFORE, "after": RESULT, "plain": PLAIN}


ANY_AUDIT = make_audit(sections=True)


def groups(scored: Any = None) -> list[Group]:
    return make_groups(CONTRASTS, {"jargon": load_bias("jargon")}, ["jargon"], scored or SCORED)


def stored(of: list[Group], scorings: Any, **texts: Any) -> dict[str, Any]:
    """The fields of an audit that the table of measures computes."""
    rows = material(of, SimpleNamespace(**(vars(TEXTS) | texts)), scorings, by_rules=True)
    return {"measured": measured_numbers(rows), "ties": tied(rows)}


def beyond_noise_of(of: list[Group], scorings: Any, **texts: Any) -> list[Any]:
    return [each.found for each in stored(of, scorings, **texts)["measured"] if each.measure == "beyond_noise"]


def test_known_shares_at_dose_1_on_the_rows_of_the_result() -> None:
    found = plain_part(groups(), TEXTS, SCORED, "drop", by_rules=True)
    assert found is not None
    own = skews([main_group(one) for one in groups()], {"jargon": N}, {})["jargon"]
    assert (own.before.value, own.last.value) == (1.0, 0.25)
    skew = found.last("skew", "jargon")
    assert skew is not None and (skew.value, skew.n) == (0.0, N)
    assert own.before in [each.found for each in found.numbers if (each.measure, each.moment) == ("skew", "before")]
    # People want the biased side once in four: plain CDA misses all of these, the result none.
    people = votes([main_group(one) for one in groups()], "drop")["jargon"]
    assert people.miscalibration.last.value == 0.0
    values = {
        key: each.value
        for key in ("miscalibration", "gap", "accuracy")
        if (each := found.last(key, "jargon" * (key != "accuracy")))
    }
    assert values == {"miscalibration": 0.25, "gap": pytest.approx(0.25), "accuracy": 0.5}


def test_every_margin_is_written_and_the_family_of_tests_stays_that_of_the_result() -> None:
    row = margin_rows(CONTRASTS, PAIRS, SCORED)[1]
    assert (row["perturbed_before"], row["perturbed_after"], row["perturbed_plain"]) == (1.0, 0.0, 0.0)
    own = [main_group(one) for one in groups()]
    audit = ANY_AUDIT.model_copy(update={
        "skew": skews(own, {"jargon": N}, {}), "votes": votes(own, "drop"), "effects": {}, "rate": {},
        **stored(own, {"before": BEFORE, "after": RESULT}), "plain": plain_part(groups(), TEXTS, SCORED, "drop", by_rules=True),
    })  # fmt: skip
    audit = adjust_for_all_tests(audit)
    assert audit.plain is not None and audit.n_tests == 4
    tests = [each.test for each in audit.plain.numbers if each.test]
    assert {test.p_holm for test in tests} == {None} and len(tests) == 5  # that of unseen phrases, too


def test_the_mean_margin_beyond_noise_is_of_two_scorings_and_needs_quality_pairs() -> None:
    own, two = [main_group(one) for one in groups()], {"before": BEFORE, "after": RESULT}
    (found,) = beyond_noise_of(own, two)
    # From 0.5 on every contrast to −0.25 on average, and the quality pairs as they were.
    assert isinstance(found, Estimate)
    assert found.value == pytest.approx(-0.25 - 0.5) and found.high < 0 and found.n == N
    assert beyond_noise_of(own, two, pairs=()) == [Missing(reason="quality was not measured")]
    (flat,) = beyond_noise_of(groups({"before": FLAT, "after": RESULT}), {"before": FLAT, "after": RESULT})
    assert isinstance(flat, Missing) and "yardstick" in flat.reason
    assert beyond_noise_of(groups({"model": BEFORE}), {"model": BEFORE}) == []


def test_at_dose_0_no_sample_can_say_that_anything_changed() -> None:
    same = groups({"before": BEFORE, "after": BEFORE})
    audit = ANY_AUDIT.model_copy(update={
        "skew": skews(same, {"jargon": N}, {}), "votes": votes(same, "drop"),
        **stored(same, {"before": BEFORE, "after": BEFORE}),
        "rate": {"jargon": made_rate(1.5)},
    })  # fmt: skip
    assert audit.quality is not None and audit.quality.of_training().change.high > 0
    assert audit.quality_sections is not None
    assert audit.quality_sections.sections[0].of("accuracy", "change").high > 0  # type: ignore[union-attr]
    audit = unchanged(audit)
    assert audit.quality is not None
    ranked: Any = audit.quality
    for change in (audit.skew["jargon"].of_training().change, ranked.change, ranked.unpaired):
        assert (change.value, change.low, change.high) == (0, 0, 0)
    for what in ("miscalibration", "gap"):
        change = getattr(audit.votes["jargon"], what).change
        assert (change.value, change.low, change.high) == (0, 0, 0)
    assert audit.quality_sections is not None
    for group in (audit.quality_sections.overall, *audit.quality_sections.sections):
        still = group.of("accuracy", "change")
        assert still is not None and (still.low, still.high) == (0, 0)
    rate: Any = audit.rate["jargon"]
    (change,) = rate.changes.effects
    nothing = {"value": 0, "low": 0, "high": 0, "n": 9, "n_prompts": 9, "unit": "reward", "method": "x"}
    assert change.estimate == Estimate(**nothing) and change.p_value == 1
    assert isinstance(change.standardised, Missing)
    assert rate.measured.after.effects[0].estimate.value == 1.5
    assert audit.quality.before.low < 0.8
