"""What an audit says of how it was made: written and read again, and refused where it is cut or changed."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from changed import changed

from cda.errors import DataError
from cda.files.jsonl import write_json
from cda.results.audit import AuditResult
from cda.results.base import load, save
from cda.results.facts import JudgeFacts, PanelFacts, RewardModelFacts, ScoringCounts

JUDGE = JudgeFacts(
    name="llm:x", kind="judge", comparisons=9, unread=1, half_read=2, flipped=3, position_bias=0.1, prompt="ours",
    verdicts="written", verdict_reasons="after", answered_by={"x-1": 17},
)  # fmt: skip
PANEL = PanelFacts(
    name="llm:x,y", kind="judge", orders="both", verdicts="written", prompt="ours", verdict_reasons="after", comparisons=9,
    unread=0, partly_judged=1, judges={"x": JUDGE, "y": JUDGE},
)  # fmt: skip
SERVED = RewardModelFacts(
    name="served:x", kind="reward model", how="Scored by x", texts=8, truncated=1, notes=("A note.",)
)


@pytest.mark.parametrize("model", [JUDGE, PANEL, SERVED])
def test_every_kind_of_scorer_comes_back_as_it_was(model: Any, audit: AuditResult, tmp_path: Path) -> None:
    counted = model.model_copy(update={"by_scoring": {"before": ScoringCounts(texts=8, truncated=1)}})
    audit = changed(audit, "model", counted)
    save(audit, tmp_path / "audit.json")
    again = load(AuditResult, tmp_path / "audit.json", "cda audit")
    assert again.model == counted and type(again.model) is type(model)
    for name in ("biases", "sources", "examples", "excluded", "stages", "versions", "seed", "recipe"):
        assert getattr(again, name) == getattr(audit, name)


@pytest.mark.parametrize(
    ("path", "value"),
    [
        ("model.kind", "oracle"),
        ("model.texts", "many"),
        ("sources.contrasts", None),
        ("examples.0.margins.before", "x"),
        ("stages.train.steps", None),
        ("stages.synthesize.biases.jargon.made", "x"),
        ("excluded.contrasts.seen", "x"),
        ("versions.torch", 2),
    ],
)
def test_a_changed_fact_is_refused(path: str, value: Any, audit: AuditResult, tmp_path: Path) -> None:
    file = tmp_path / "audit.json"
    write_json(file, changed(audit.model_dump(exclude={"dose", "run"}), path, value))
    with pytest.raises(DataError, match=f"no AuditResult as this version of cda writes it .at {path.split('.')[0]}"):
        load(AuditResult, file, "cda audit")
