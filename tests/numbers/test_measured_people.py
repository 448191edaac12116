"""A measure against people that is one entry of the table stands in audits, held-out doses, calibrations, comparisons and pages."""

from __future__ import annotations

import csv
import io
import json
from pathlib import Path

import made_audits
import numpy as np
import pytest
from made_audits import KINDS, make_audit
from made_dose import held_out, made_dose
from made_measure import made_up as made_up
from rows import ids

from cda.auditing.conditions import conditions_of, failures
from cda.auditing.report import glossary
from cda.auditing.report_tables import main_table, votes_table
from cda.auditing.report_trainings import dose_tables
from cda.comparing.compare import compare_audits
from cda.comparing.members import gather
from cda.comparing.page import comparison_csv, comparison_document
from cda.comparing.row import audit_row, read_row
from cda.dosing.choice import DoseCurve
from cda.dosing.held_out import cross_validated_doses
from cda.errors import DataError
from cda.numbers.people import against_people, measured_against
from cda.numbers.views import as_metrics, numbers_in
from cda.records import Exclusions
from cda.results.audit import AuditResult
from cda.results.base import BeforeAfter, Estimate, Measure, save
from cda.stats.votes import Majority

PREFERRED = np.arange(80) % 2.0
BEFORE = np.where(PREFERRED, 4.0, 2.2)
PEOPLE = Majority(PREFERRED, np.ones(80, bool), "drop", Exclusions(80, {}))
LOST = {"reward": (1.1, 0.1), "share": (0.5, 0.5)}
"""Of margins 2 lower than before, 0.2 is lost on the half that people do not prefer; before, 2.2."""


def test_it_is_computed_as_its_entry_says(made_up: str) -> None:
    before, after = LOST[made_up]
    assert against_people(BEFORE, PEOPLE, ids(80))["lost"].value == pytest.approx(before)
    mean = against_people([BEFORE, BEFORE - 2, BEFORE - 3], PEOPLE, ids(80))  # the third agrees with people
    assert mean["lost"].value == pytest.approx((before + after) / 3) and "auc" not in mean
    found = measured_against([BEFORE, BEFORE - 2], PEOPLE, ids(80))["lost"]
    assert isinstance(found, Measure if made_up == "share" else BeforeAfter) and isinstance(found.change, Estimate)
    assert found.change.value == pytest.approx(after - before) and found.change.low <= found.change.value


def test_a_chosen_dose_has_it_held_out_with_its_change(made_up: str) -> None:
    curve = DoseCurve((0.0, 1.0), np.array([BEFORE, BEFORE - 2]), PEOPLE, ids(80)).mixed((0.0, 1.0, 1.5))
    held = cross_validated_doses(curve, np.random.default_rng(0), repeats=4).held_out[""]
    before, after = LOST[made_up]
    levels = [part["lost"].value for part in (held.base, held.plain, held.people)]
    assert levels == pytest.approx([before, after, 0])
    changes = [part["lost"].value for part in (held.against_base, held.against_plain, held.plain_change)]
    assert changes == pytest.approx([-before, -after, after - before])
    assert held.against_base["lost"].high < 0
    tables = dose_tables(made_dose({"jargon": held_out(0.8, 0.5, 0.1, None)}))
    assert "lost to people" in tables[0].header


@pytest.fixture
def voted(made_up: str, monkeypatch: pytest.MonkeyPatch) -> AuditResult:  # noqa: ARG001
    monkeypatch.setattr(made_audits, "_beside_people", made_audits._beside_people.__wrapped__)
    return make_audit(**KINDS["voted"])


def test_it_is_a_condition_a_tracked_number_a_glossary_entry_and_a_row_of_tables(voted: AuditResult) -> None:
    (number,) = numbers_in(voted).where("lost", "after", bias="jargon")
    found = number.found
    assert isinstance(found, Estimate) and found == voted.votes["jargon"].measured["lost"].last  # type: ignore[union-attr]
    (failed,) = failures(voted, conditions_of(["jargon.lost>=0"]))
    assert failed.startswith(f"jargon.lost>=0: found {found.value:.3g}"[:24])
    assert as_metrics(voted)["cda/lost/jargon/after"] == pytest.approx(found.value)
    assert [entry.formula for entry in glossary(voted) if entry.term == "lost to people"] == ["a formula"]
    table = votes_table(voted)
    assert table is not None
    for rows in (main_table(voted).rows, table.rows):
        assert "jargon lost to people" in [row[0] for row in rows]


def test_it_is_in_shared_rows_comparisons_and_frames(voted: AuditResult, tmp_path: Path) -> None:
    row, file = audit_row(voted, None), tmp_path / "row.json"
    save(row, file)
    assert read_row(file) == row
    (tmp_path / "other.json").write_text(row.model_copy(update={"model": "other"}).model_dump_json())
    result = compare_audits(gather([tmp_path]), 0)
    lines = [line for line in csv.DictReader(io.StringIO(comparison_csv(result))) if line["measure"] == "lost"]
    after = voted.votes["jargon"].measured["lost"].last  # type: ignore[union-attr]
    own = [float(line["value"]) for line in lines if (line["bias"], line["moment"]) == ("jargon", "after")]
    assert own == [pytest.approx(after.value)] * 2
    document = comparison_document(result)
    assert "Lost: what people would not have given" in document.markdown() and "A meaning." in document.page()
    (tmp_path / "audit.json").write_text(voted.model_dump_json(exclude=set(voted.in_memory)))
    read = AuditResult.model_validate_json((tmp_path / "audit.json").read_text())
    assert read.votes == voted.votes
    pytest.importorskip("pandas")
    frame = read.to_frame()
    assert set(frame[frame.measure == "lost"].moment) - {"unpaired"} == {"before", "after", "change"}
    content = row.model_dump()
    number = next(each for each in content["numbers"] if (each["measure"], each["moment"]) == ("skew", "after"))
    number["found"] |= {"value": 4.0, "high": 5.0}
    file.write_text(json.dumps(content))
    with pytest.raises(DataError, match=r"skew of .* is outside of 0 to 1"):
        read_row(file)
