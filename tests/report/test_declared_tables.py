"""A declared table: rows by level, columns over numbers, words for what is missing."""

from __future__ import annotations

from cda.numbers.views import Numbers
from cda.report.tables import Column, Table, TableOf
from cda.results.base import Estimate, Missing, Number, Test


def _share(value: float, unit: str = "share") -> Estimate:
    return Estimate(value=value, low=value - 0.1, high=value + 0.1, n=40, n_prompts=40, unit=unit, method="Wilson 95%")


NUMBERS = Numbers([
    Number.of("skew", "before", {"bias": "jargon"}, _share(0.8)),
    Number.of("skew", "change", {"bias": "jargon"}, _share(-0.3, "points"), Test(p_value=0.004, method="t", p_holm=0.02)),
    Number.of("skew", "before", {"bias": "length"}, _share(0.6)),
    Number.of("miscalibration", "before", {"bias": "length"}, Missing(reason="nobody voted")),
])  # fmt: skip
COLUMNS = (
    Column("before", {"moment": "before"}),
    Column("change", {"moment": "change"}),
    Column("n", {"moment": "before"}, "n"),
    Column("p", {"moment": "change"}, "p (Holm)"),
)


def test_rows_are_levels_and_columns_moments_with_n_and_test() -> None:
    table = TableOf(caption="Skew", heading="bias", rows=("bias",), columns=COLUMNS, absent="no change")
    assert table.of(NUMBERS.where("skew")) == Table(
        "Skew", ("bias", "before", "change", "n", "p"),
        (("jargon", "80% [70, 90]", "−30 [−40, −20]", "40", "0.020"), ("length", "60% [50, 70]", "no change", "40", "")),
    )  # fmt: skip


def test_a_missing_number_is_a_word_or_its_reason() -> None:
    rows = NUMBERS.where("miscalibration")
    for missing, shown in (({}, "not estimated"), ({"votes": "no votes"}, "no votes"), ({"votes": ""}, "nobody voted")):
        table = TableOf(caption="", heading="", rows=("bias", "measure"), columns=COLUMNS[:1], missing=missing).of(rows)
        assert table is not None and table.rows == (("length miscalibration", shown),)


def test_labels_choose_and_order_the_rows() -> None:
    table = TableOf(caption="", heading="", rows=("bias",), columns=COLUMNS[:1], absent="not measured")
    found = table.of(NUMBERS.where("skew"), {"length": "length (target)", "tone": "tone"})
    assert found is not None and found.rows == (("length (target)", "60% [50, 70]"), ("tone", "not measured"))
    assert table.of(()) is None
