"""Results as rows: known numbers, what can be asked of them, and a measure that is one entry of the table."""

from __future__ import annotations

import csv
import io
import json
import logging
import math
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from made_audits import KINDS, make_audit
from scipy import stats

from cda.auditing.conditions import conditions_of, failures
from cda.auditing.report_tables import main_table
from cda.auditing.shares import measured_numbers, tied
from cda.comparing.compare import compare_audits
from cda.comparing.members import gather
from cda.comparing.page import comparison_csv, comparison_document
from cda.comparing.row import audit_row, read_row
from cda.errors import DataError, RecipeError
from cda.numbers.measures import MEASURES, AuditMeasure, Rows, hits
from cda.numbers.views import Numbers, as_metrics, numbers_in
from cda.results.audit import AuditResult
from cda.results.base import Estimate, Missing, Number, save
from cda.stats.proportions import positive_shares


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


MARGINS = np.array([0.0, math.log(3), -math.log(3)])


def rows(unit: str = "reward", bias: str = "jargon", **scored: Any) -> Rows:
    at = {"bias": bias} if bias else {}
    some = {label: np.asarray(margins, dtype=np.float64) for label, margins in scored.items()}
    return Rows(at=at, scored=some, prompt_ids=[str(row) for row in range(len(next(iter(some.values()))))], unit=unit)


def numbers_of(key: str, material: dict[Any, Any]) -> dict[str, Number]:
    return {each.moment: each for each in measured_numbers(material, [key]) if "interval" not in each.at}


def test_a_mean_over_contrasts_is_computed_as_its_entry_says() -> None:
    found = numbers_of(
        "probability", {"contrasts": [rows(before=MARGINS, after=np.add(MARGINS, [0.0, 0.0, 2 * math.log(3)]))]}
    )
    assert [found[when].found.value for when in ("before", "after", "change")] == pytest.approx([1 / 2, 2 / 3, 1 / 6])
    assert found["change"].test is None  # no rows of hits
    alone = numbers_of("probability", {"contrasts": [rows("preference", model=[1.0, 0.0, -0.5])]})
    assert alone["model"].found.value == pytest.approx((1 + 0.5 + 0.25) / 3) and list(alone) == ["model"]


def test_hits_have_an_exact_test_an_unpaired_interval_and_ties() -> None:
    own = rows(before=[1.0] * 8 + [0.0] * 2, after=[-1.0] * 8 + [0.0, 2.0])
    found = measured_numbers({"triples": [own]}, ["triple_skew"])
    assert [(each.moment, *each.at.values()) for each in found] == [
        ("before", "jargon"), ("after", "jargon"), ("change", "jargon"), ("change", "jargon", "unpaired"),
    ]  # fmt: skip
    known = positive_shares(own.scored.values(), own.prompt_ids)
    assert [each.found for each in found] == [known.before, known.after, known.change, known.unpaired]
    assert found[2].test == known.test and tied({"triples": [own]}) == {"triples": {"jargon": known.ties}}
    half = numbers_of("triple_skew", {"triples": [rows("preference", model=[1.0, 0.0, 0.0, -1.0])]})
    assert half["model"].found.value == 0.5


def a_mean(**more: Any) -> AuditMeasure:
    """The mean of |margin|, which is no measure of the package."""
    made_up: dict[str, Any] = {
        "title": "size", "unit": "reward", "on": "triples", "values": lambda margins, _: np.abs(margins), "term": "size",
        "formula": "mean of |margin|", "meaning": "How large margins are.", "caption": "Sizes", "null": 0.0,
    }  # fmt: skip
    return AuditMeasure(**(made_up | more))


def test_a_mean_has_a_clustered_interval_and_student_s_test(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(MEASURES, "size", a_mean())
    before, after = np.array([1.0, -2.0, 3.0, -4.0]), np.array([2.0, -4.0, 3.5, -4.0])
    found = numbers_of("size", {"triples": [rows(before=before, after=after)]})
    moved = np.abs(after) - np.abs(before)
    known = stats.ttest_1samp(moved, 0)
    assert [found[when].found.value for when in ("before", "after", "change")] == pytest.approx([2.5, 3.375, 0.875])
    change, test = found["change"].found, found["change"].test
    assert test is not None and test.p_value == pytest.approx(known.pvalue)
    assert (change.low, change.high) == pytest.approx(tuple(known.confidence_interval()))


def test_a_statistic_of_sums_is_resampled_and_so_is_its_change(monkeypatch: pytest.MonkeyPatch) -> None:
    def columns(margins: Any, _: Rows) -> Any:
        return np.column_stack([np.maximum(margins, 0), np.abs(margins)])

    entry = a_mean(unit="share", values=columns, statistic=lambda sums: sums[:, 0] / sums[:, 1])
    monkeypatch.setitem(MEASURES, "size", entry)
    margins = np.arange(1.0, 21.0) * (-1) ** np.arange(20)
    found = numbers_of("size", {"triples": [rows(before=margins, after=np.abs(margins))]})
    value = margins[margins > 0].sum() / 210
    assert [found[when].found.value for when in ("before", "after", "change")] == pytest.approx([value, 1.0, 1 - value])
    assert found["change"].found.unit == "share difference" and "bootstrap" in found["change"].found.method
    assert found["change"].found.low < 1 - value < found["change"].found.high and found["change"].test is None


def test_a_measure_of_all_contrasts_together(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(MEASURES, "size", a_mean(on="audit"))
    (found,) = measured_numbers({"audit": [rows(bias="", model=[1.0, -2.0])]}, ["size"])
    assert (found.at, found.found.value) == ({}, 1.5)  # type: ignore[union-attr]
    (condition,) = conditions_of(["size>1"])
    assert (condition.subject, condition.measure) == ("", "size")


@pytest.fixture(scope="module")
def with_two_entries() -> Iterator[AuditResult]:
    """An audit of a training, with a measure of triples and one of quality pairs that are one entry each."""
    ranked = a_mean(
        title="ranked well", unit="share", on="quality", values=hits, term="", caption="Ranked well", family=True
    )
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(MEASURES, "size", a_mean())
        patch.setitem(MEASURES, "ranked", ranked)
        yield make_audit(**KINDS["audit"], rate=True)


def test_two_entries_are_in_the_file_the_numbers_conditions_and_the_report(
    with_two_entries: AuditResult, tmp_path: Path
) -> None:
    audit = with_two_entries
    save(audit, tmp_path / "audit.json")
    kept = json.loads((tmp_path / "audit.json").read_text())["measured"]
    assert [(each["moment"], each["at"]) for each in kept if each["measure"] == "size"] == [
        (moment, {"bias": "jargon"}) for moment in ("before", "after", "change")
    ]
    assert audit.quality is not None
    for key, subject, own in (("size", "jargon", None), ("ranked", "quality", audit.quality)):
        at = {"bias": subject} if key == "size" else {}
        before, after, change = audit.numbers.where(key, **at)[:3]
        assert own is None or [before.found, after.found, change.found] == [own.before, own.after, own.change]
        assert change.test is not None and (change.test.p_holm is not None) == (key == "ranked")  # in the family
        (failed,) = audit.failures(f"{subject}.{key}>0")
        assert failed.startswith(f"{subject}.{key}>0: found {after.found.value:.3g}"[:25])  # type: ignore[union-attr]
    table = {row[0]: row[1:] for row in main_table(audit).rows}
    assert table["ranked well"] == table["quality accuracy"]
    assert table["jargon size"][3] == "20"
    assert "jargon size" in audit.document().markdown() and "How large margins are." in audit.document().page()
    tracked = as_metrics(audit)
    assert tracked["cda/ranked/after"] == audit.quality.last.value and "cda/size/jargon/change" in tracked


def test_two_entries_are_in_frames_rows_and_comparisons(with_two_entries: AuditResult, tmp_path: Path) -> None:
    audit = with_two_entries
    row = audit_row(audit, None)
    save(row, tmp_path / "row.json")
    assert read_row(tmp_path / "row.json") == row and audit.quality is not None
    assert (
        row.last("ranked") == audit.quality.after
        and row.last("size", "jargon") == audit.numbers.where("size", "after")[0].found
    )
    save(row.model_copy(update={"model": "other"}), tmp_path / "other.json")
    result = compare_audits(gather([tmp_path]), 0)
    lines = list(csv.DictReader(io.StringIO(comparison_csv(result))))
    for key in ("size", "ranked"):
        assert len([line for line in lines if line["measure"] == key and line["moment"] == "after"]) == 2
    said = comparison_document(result).markdown()
    assert "Sizes" in said and "ranked well, n 400" in said
    pytest.importorskip("pandas")
    frame = audit.to_frame()
    assert list(frame[frame.measure == "ranked"].moment) == ["before", "after", "change", "unpaired"]
    assert list(frame[frame.measure == "size"].bias) == ["jargon"] * 3


def test_single_texts_have_mean_rewards_by_kind_and_no_condition() -> None:
    audit = make_audit(**KINDS["one_model"])
    found = audit.numbers.where("reward", bias="jargon", text="with, rewrite")
    assert [each.found for each in found] == [audit.rewards["jargon"].before["with, rewrite"]]
    with pytest.raises(RecipeError, match="'reward' is no measure of jargon"):
        conditions_of(["jargon.reward>0"])
