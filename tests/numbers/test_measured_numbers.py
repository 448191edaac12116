"""Results as rows: known numbers, what can be asked of them, and a measure that is one entry of the table."""

from __future__ import annotations

import logging
import math
from typing import Any

import numpy as np
import pytest
from made_audits import KINDS, make_audit

from cda.auditing.conditions import conditions_of, failures
from cda.auditing.groups import Group
from cda.auditing.shares import means
from cda.biases import load_bias
from cda.errors import DataError, RecipeError
from cda.numbers.measures import MEASURES
from cda.numbers.views import Numbers, numbers_in
from cda.results.audit import AuditResult
from cda.results.base import BeforeAfter, Estimate, Missing, Number


def estimate(value: float, unit: str = "share") -> Estimate:
    low, high = (max(0.0, value - 0.1), min(1.0, value + 0.1)) if unit == "share" else (value - 0.1, value + 0.1)
    return Estimate(value=value, low=low, high=high, n=40, n_prompts=40, unit=unit, method="made")


@pytest.fixture(scope="module")
def voted() -> AuditResult:
    return make_audit(**KINDS["voted"])


@pytest.fixture(scope="module")
def alone() -> AuditResult:
    return make_audit(**KINDS["one_model"])


def test_the_numbers_of_an_audit_are_those_of_its_fields(voted: AuditResult) -> None:
    numbers, votes = numbers_in(voted), voted.votes["jargon"]
    change = numbers.where("skew", "change", bias="jargon")
    assert [each.found for each in change] == [voted.skew["jargon"].change]
    assert change[0].test == voted.skew["jargon"].test
    for key, before in (
        ("human_skew", votes.human_skew),
        ("skew_on_voted", votes.skew_on_voted.before),
        ("signed_gap", votes.signed_gap.before),
        ("miscalibration", votes.miscalibration.before),
        ("gap", votes.gap.before),
    ):
        assert [each.found for each in numbers.where(key, "before", bias="jargon")] == [before], key
    assert numbers.where("signed_gap", "change", bias="jargon")[0].found == votes.skew_on_voted.change
    assert voted.quality is not None
    assert numbers.where("accuracy", "after")[0].found == voted.quality.after


def test_one_model_has_one_moment_and_a_measure_without_numbers_says_why(alone: AuditResult) -> None:
    numbers = numbers_in(alone)
    assert {each.moment for each in numbers} == {"model"}
    (bias,) = numbers.where("skew").values_of("bias")[:1]
    missing = numbers.where("miscalibration", bias=bias)[0].found
    assert missing == Missing(reason="people did not vote on its contrasts") or bias in alone.votes


def test_a_pivot_has_rows_and_columns_and_refuses_two_numbers_in_a_cell(voted: AuditResult) -> None:
    skew = numbers_in(voted).where("skew")
    by_bias = skew.pivot("bias", "moment")
    assert list(by_bias) == list(voted.skew)
    assert by_bias["jargon"]["after"].found == voted.skew["jargon"].after
    assert list(by_bias["jargon"]) == ["before", "after", "change"]
    with pytest.raises(DataError, match=r"two numbers of skew and jargon.*choose with where"):
        skew.pivot("measure", "bias")
    chosen = skew.where(moment="after").pivot("measure", "bias")  # what the message says
    assert chosen["skew"]["jargon"].found == voted.skew["jargon"].after


def test_unknown_measures_moments_and_levels_are_refused_together_with_the_nearest_names(voted: AuditResult) -> None:
    with pytest.raises(DataError) as refused:
        numbers_in(voted).where("skw", "befor", bias="jargn", topc="law")
    said = str(refused.value)
    for words in (
        "'skw' is no measure. Did you mean 'skew'?",
        "'befor' is no moment. Did you mean 'before'? Known: model, before, after, change",
        "'jargn' is no bias. Did you mean 'jargon'?",
        "'topc' is no level. Did you mean 'topic'?",
    ):
        assert words in said


def test_a_level_that_no_number_has_is_said_to_have_none(voted: AuditResult) -> None:
    with pytest.raises(DataError, match=r"'law' is no topic\. Known: none"):
        numbers_in(voted).where(topic="law")


def test_an_older_key_is_read_and_warns(voted: AuditResult, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO, "cda"):
        assert numbers_in(voted).where("ate") == numbers_in(voted).where("rate")
        (condition,) = conditions_of(["quality.quality_accuracy<0.5"])
    assert condition.measure == "accuracy"
    assert "'ate' is now called 'rate'" in caplog.text
    assert "'quality_accuracy' is now called 'accuracy'" in caplog.text


@pytest.mark.parametrize(
    ("word", "said"),
    [
        ("jargon.miscalibraton>0.2", "'miscalibraton' is no measure of jargon. Did you mean 'miscalibration'?"),
        ("jargon.skew.befor>0.2", "'befor' is no moment. Did you mean 'before'? Known: before, after, change"),
        ("quality.skew>0.2", "'skew' is no measure of quality. Known: accuracy"),
        ("jargon.accuracy>0.2", "'accuracy' is no measure of jargon"),
        ("jargon.rank_by_skew>1", "'rank_by_skew' is no measure of jargon"),
        ("jargon.auc>1.5", "would never hold"),
        ("jargon.signed_gap<-1.5", "is a share difference, from -1 to 1"),
        ("jargon.gap<-0.5", "is a share, from 0 to 1"),
    ],
)
def test_conditions_on_what_is_no_measure_or_outside_of_its_bounds_are_refused(word: str, said: str) -> None:
    with pytest.raises(RecipeError) as refused:
        conditions_of([word])
    assert said in str(refused.value)


def test_every_measure_can_be_a_condition_with_and_without_a_moment(voted: AuditResult, alone: AuditResult) -> None:
    assert voted.votes["jargon"].human_skew.value > 0
    (found,) = failures(voted, conditions_of(["jargon.human_skew>0"]))
    assert found.startswith("jargon.human_skew>0: found ")
    (none,) = failures(voted, conditions_of(["jargon.human_skew.after>0"]))
    assert none == "jargon.human_skew.after>0: no value: human skew has no value after"
    assert len(failures(voted, conditions_of(["jargon.auc>0", "jargon.signed_gap>-1", "jargon.skew_on_voted>=0"]))) == 3
    bias = next(iter(alone.skew))
    (same,) = failures(alone, conditions_of([f"{bias}.skew.before>=0"]))
    assert "found" in same
    (never,) = failures(alone, conditions_of([f"{bias}.skew.after>=0"]))
    assert never.endswith("no value: one model was measured, without a training")


def test_rows_are_flat_with_estimates_tests_and_reasons() -> None:
    test = Number.of("skew", "change", {"bias": "jargon"}, estimate(0.1, "share difference"))
    missing = Number.of("gap", "after", {"bias": "jargon", "audit": "m"}, Missing(reason="nobody voted"))
    first, second = Numbers([test, missing]).rows()
    assert (first["measure"], first["moment"], first["bias"], first["audit"], first["value"]) == (
        "skew", "change", "jargon", "", 0.1,
    )  # fmt: skip
    assert (second["value"], second["reason"]) == (None, "nobody voted")


def test_measures_have_bounds_by_their_unit() -> None:
    assert MEASURES["skew"].bounds() == (0, 1) and MEASURES["skew"].bounds("change") == (-1, 1)
    assert MEASURES["signed_gap"].bounds() == (-1, 1)
    assert MEASURES["rate"].bounds()[1] > 1e9
    assert all(measure.formula and measure.meaning for measure in MEASURES.values() if measure.term)


def test_a_mean_over_contrasts_is_computed_as_its_entry_says() -> None:
    ids, margins = ("a", "b", "c"), np.array([0.0, math.log(3), -math.log(3)])
    later = {"before": margins, "after": np.add(margins, [0.0, 0.0, 2 * math.log(3)])}

    def probability(margins: dict[str, Any], unit: str) -> BeforeAfter:
        group = Group(load_bias("jargon"), True, (), ids, margins, unit, 0)
        return means([group])["probability"]["jargon"]

    found = probability(later, "reward")
    assert (found.before.value, found.after.value, found.change.value) == pytest.approx((1 / 2, 2 / 3, 1 / 6))
    alone = probability({"model": np.array([1.0, 0.0, -0.5])}, "preference")
    assert alone.before.value == pytest.approx((1 + 0.5 + 0.25) / 3) and isinstance(alone.change, Missing)
