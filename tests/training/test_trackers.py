"""Trackers as they are: a tiny training in a real run of each, taken up again for later numbers, and trackers that cannot be used."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

from cda.models.config import ModelSpec
from cda.models.load import load_reward_model
from cda.records import Pair, TrainingExample
from cda.training import trackers
from cda.training.arguments import Lora
from cda.training.lora import train_adapter
from cda.training.trackers import RUNS, Tracked, asked_trackers, tracker_problems

NUMBERS = {"cda/skew/jargon/after": 0.55, "cda/skew/jargon/after_n": 20.0}


@pytest.fixture
def store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Places of this test for every tracker, without a network."""
    monkeypatch.chdir(tmp_path)
    places = {
        "MLFLOW_TRACKING_URI": f"file://{tmp_path}/mlruns",
        "MLFLOW_ALLOW_FILE_STORE": "true",
        "WANDB_MODE": "offline",
    }
    for name, value in places.items():
        monkeypatch.setenv(name, value)
    for name in ("TENSORBOARD_LOGGING_DIR", "WANDB_PROJECT", "MLFLOW_EXPERIMENT_NAME", "MLFLOW_RUN_ID"):
        monkeypatch.delenv(name, raising=False)
    return tmp_path


def needs(tracker: str) -> None:
    if find_spec(tracker) is None:
        pytest.skip(f"{tracker} is not installed: pip install {'mlflow-skinny' if tracker == 'mlflow' else tracker}")


@pytest.fixture
def trained(
    store: Path, llama: Path, preference_pairs: list[Pair], lora: Lora, train_arguments: Mapping[str, Any]
) -> Callable[[str, str], Tracked]:
    """Trains three steps with a tracker, logs `NUMBERS` afterwards, and gives the training."""

    def run(tracker: str, name: str) -> Tracked:
        needs(tracker)
        folder, train = store / name, {**train_arguments, "max_steps": 3, "report_to": tracker}
        assert tracker_problems(train) == []
        examples = [TrainingExample(pair) for pair in preference_pairs]
        folder.mkdir()
        with Tracked.of(train, name, folder).training():
            model = load_reward_model(ModelSpec(str(llama), "fp32", 64))
            train_adapter(model, examples[:12], examples[12:], lora, train, folder, 0)
        later = Tracked.of(train, name, folder)
        later.log(tracker, NUMBERS, store / "logs")
        return later

    return run


def events(folder: Path) -> dict[str, list[float]]:
    """What TensorBoard reads below a folder."""
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    found: dict[str, list[float]] = {}
    for file in folder.rglob("events.out.tfevents.*"):
        read = EventAccumulator(str(file))
        read.Reload()
        found |= {name: [event.value for event in read.Scalars(name)] for name in read.Tags()["scalars"]}
    return found


def test_tensorboard_has_the_training_and_the_numbers(trained: Callable[[str, str], Tracked], store: Path) -> None:
    trained("tensorboard", "jargon")
    training = events(store / "jargon")
    assert len(training["train/loss"]) == 3 and 0 <= training["eval/accuracy"][-1] <= 1
    logged = events(store / "logs" / "jargon")
    assert {name: values for name, (values,) in logged.items()} == pytest.approx(NUMBERS)


def test_mlflow_has_a_run_for_each_training(trained: Callable[[str, str], Tracked]) -> None:
    first, second = trained("mlflow", "jargon"), trained("mlflow", "jargon-seed-3")
    import mlflow

    assert mlflow.active_run() is None
    for own in (first, second):
        run = mlflow.get_run(json.loads((own.folder / RUNS).read_text())["mlflow"])
        assert (run.info.run_name, run.info.status) == (own.name, "FINISHED")
        assert mlflow.get_experiment(run.info.experiment_id).name == "cda"
        assert {name: run.data.metrics[name] for name in NUMBERS} == NUMBERS
        assert 0 <= run.data.metrics["eval_accuracy"] <= 1 and run.data.metrics["loss"] > 0
    # The user's own run stays open, and takes everything.
    with mlflow.start_run(run_name="mine") as mine:
        trained("mlflow", "inside")
        assert mlflow.active_run().info.run_id == mine.info.run_id
    assert mlflow.get_run(mine.info.run_id).data.metrics["cda/skew/jargon/after"] == 0.55


def test_weights_and_biases_goes_on_with_its_run(trained: Callable[[str, str], Tracked], store: Path) -> None:
    run = json.loads((trained("wandb", "jargon").folder / RUNS).read_text())["wandb"]
    import wandb

    assert wandb.run is None
    folders = sorted(store.glob("wandb/offline-run-*"))
    assert len(folders) == 2 and all(folder.name.endswith(run) for folder in folders)
    said = [b"".join(file.read_bytes() for file in folder.glob("*.wandb")) for folder in folders]
    assert b"eval/accuracy" in said[0] and b"train/loss" in said[0] and b"cda/skew/jargon/after" in said[1]


@pytest.mark.parametrize("tracker", ["tensorboard", "wandb", "mlflow"])
def test_a_tracker_that_is_not_installed_is_one_sentence(tracker: str, monkeypatch: pytest.MonkeyPatch) -> None:
    from transformers.integrations import integration_utils

    monkeypatch.setattr(integration_utils, f"is_{tracker}_available", lambda: False)
    assert tracker_problems({"report_to": [tracker]}) == [
        f"train.report_to={tracker}: not installed here: `pip install {tracker}`. Without a tracker: train.report_to=none"
    ]


def test_a_store_of_mlflow_that_does_not_answer(store: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    needs("mlflow")
    monkeypatch.setenv("MLFLOW_TRACKING_URI", "http://127.0.0.1:9")
    (problem,) = tracker_problems({"report_to": "mlflow"})
    assert problem.startswith("train.report_to=mlflow: the store of MLflow cannot be used (http://127.0.0.1:9: ")
    assert "\n" not in problem and "set MLFLOW_TRACKING_URI" in problem
    (store / "file").touch()
    monkeypatch.setenv("MLFLOW_TRACKING_URI", f"file://{store}/file")
    assert "cannot be used" in tracker_problems({"report_to": "mlflow"})[0]


def test_all_are_those_that_are_installed(monkeypatch: pytest.MonkeyPatch) -> None:
    from transformers.integrations import integration_utils

    monkeypatch.setattr(integration_utils, "get_available_reporting_integrations", lambda: ["tensorboard"])
    assert asked_trackers({"report_to": "all"}) == ["tensorboard"] and asked_trackers({"report_to": "none"}) == []
    assert asked_trackers({}) == asked_trackers({"report_to": []}) == []


def test_other_processes_open_no_run(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(trackers, "is_main", lambda: False)
    with Tracked.of({"report_to": ["wandb", "mlflow"]}, "jargon", tmp_path).training():
        assert not list(tmp_path.iterdir())
