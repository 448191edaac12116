"""Audits as files: read as they were written; cut, changed by hand or of another version, shown or refused by the place that is wrong."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from changed import changed
from made_rate import made_rate

from cda.errors import DataError
from cda.files.jsonl import write_json
from cda.report.scoring import asked_line
from cda.resources.artifacts import of_this_version
from cda.results.audit import AuditResult
from cda.results.base import Missing, load, save
from cda.results.effects import Identification, NotEstimated, RateEffects, average_of
from cda.results.facts import JudgeFacts, PanelFacts, RewardModelFacts
from cda.stats.rate import same_in_all

JUDGE = JudgeFacts(
    name="llm:x", kind="judge", comparisons=9, unread=1, half_read=2, flipped=3, position_bias=0.1, prompt="ours",
    verdicts="written", verdict_reasons="after", answered_by={"x-1": 17},
)  # fmt: skip
PANEL = PanelFacts(
    name="llm:x,y", kind="judge", orders="both", verdicts="written", prompt="ours", verdict_reasons="after", comparisons=9,
    unread=0, partly_judged=1, judges={"x": JUDGE, "y": JUDGE},
)  # fmt: skip
SERVED = RewardModelFacts(name="served:x", kind="reward model", how="Scored by x", texts=8, truncated=1, notes=("A.",))


def again(audit: AuditResult, folder: Path) -> AuditResult:
    save(audit, folder / "audit.json")
    return load(AuditResult, folder / "audit.json", "cda audit")


@pytest.mark.parametrize("name", ["one_model", "judge", "voted", "trained"])
def test_a_file_holds_what_was_measured(
    name: str, make_audit: Any, request: pytest.FixtureRequest, tmp_path: Path
) -> None:
    audit = make_audit(rate=True) if name == "trained" else request.getfixturevalue(name)
    assert again(audit, tmp_path) == audit


@pytest.mark.parametrize("model", [JUDGE, PANEL, SERVED])
def test_every_kind_of_scorer_keeps_its_type(model: Any, audit: AuditResult, tmp_path: Path) -> None:
    found = again(changed(audit, "model", model), tmp_path).model
    assert found == model and type(found) is type(model)
    assert ("A panel of 2 judges" in str(asked_line(model))) == (model is PANEL)


def test_every_kind_of_effect_keeps_its_type(one_model: AuditResult, tmp_path: Path) -> None:
    same = same_in_all(np.ones(9), [f"p{row}" for row in range(9)], "nothing varies")
    known = one_model.effects["jargon"].before.identification
    missing = Missing(reason="one prompt only")
    not_identified = Identification(**{**dict(known), "verdict": "not identified from these pairs"})
    kinds: list[tuple[str, Any]] = [
        ("direct", same), ("direct", missing), ("identification", not_identified), ("identification", missing),
        ("identification.overlap_effect", same), ("identification.overlap_effect", missing),
        ("identification.adjusted.linear", missing),
    ]  # fmt: skip
    for place, value in kinds:
        made = changed(one_model, f"effects.jargon.before.{place}", value)
        found = again(made, tmp_path)
        assert found == made
        read: Any = found.effects["jargon"].before
        for key in place.split("."):
            read = read[key] if isinstance(read, dict) else getattr(read, key)
        assert type(read) is type(value)


@pytest.mark.parametrize("value", [0.5, None])
def test_rate_keeps_what_is_estimated_and_says_why_it_is_not(
    value: float | None, one_model: AuditResult, tmp_path: Path
) -> None:
    rate = made_rate(value)
    found = again(one_model.model_copy(update={"rate": {"jargon": rate}}), tmp_path).rate["jargon"]
    assert found == rate and list(found.under()) == ["before", "after"]
    assert isinstance(average_of(found.under()["after"]), Missing) == (value is None)
    gap = NotEstimated(estimand="ATE", estimator="double", reason="W is constant")
    effects = RateEffects(effects=(), not_estimated=(gap,), n_with=3, n_without=0)
    assert effects.find("ATE", "double") == gap and "none of the effects" in str(effects.find("LATE", "double"))
    with pytest.raises(DataError, match="W is constant"):
        effects.get("ATE", "double")


@pytest.mark.parametrize(
    ("path", "value"),
    [
        ("model.kind", "oracle"), ("model.texts", "many"), ("sources.contrasts", None), ("examples.0.margins.before", "x"),
        ("stages.train.steps", None), ("excluded.contrasts.seen", "x"), ("versions.torch", 2),
        ("effects.jargon.before.identification.verdict", "perhaps"), ("effects.jargon.before.direct", {}),
        ("measured.0.moment", "later"),
    ],
)  # fmt: skip
def test_a_changed_value_is_refused_by_its_place(path: str, value: Any, audit: AuditResult, tmp_path: Path) -> None:
    file = tmp_path / "audit.json"
    write_json(file, changed(audit.model_dump(exclude={"dose", "run"}), path, value))
    with pytest.raises(DataError, match=f"no Audit as this version .*at {path.split('.')[0]}.*`cda audit` again"):
        load(AuditResult, file, "cda audit")
    file.write_text(file.read_text(encoding="utf-8")[:-9], encoding="utf-8")
    with pytest.raises(DataError):
        load(AuditResult, file, "cda audit")


def test_the_error_names_key_and_place_and_errors_of_ours_pass() -> None:
    said = r"a\.json: .*no 'skew'; test_saved_audits\.py:\d+.*cda audit"
    with pytest.raises(DataError, match=said), of_this_version(Path("a.json")):
        {}["skew"]
    for error in (DataError("said before"), OSError("disk")):
        with pytest.raises(type(error), match=str(error)), of_this_version(Path("a.json")):
            raise error
