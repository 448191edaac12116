"""Experiment trackers of `train.report_to`: a check before any work, one run for each training, and numbers that come later.

Transformers' callbacks log the training itself; Accelerate's trackers open the run that they log into, and log the rest.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from importlib import import_module
from pathlib import Path
from typing import Any

from cda.errors import did_you_mean
from cda.files.jsonl import read_json, write_json
from cda.launch import is_main
from cda.models.refusals import first_line

TRACKERS = ("tensorboard", "wandb", "mlflow")
"""Trackers that also take the audit's numbers, and several trainings; others of Transformers take one training."""
TRACKER_KEYS = ("report_to", "run_name", "project")
"""Settings of `train:` that decide where a training is logged, and nothing of the adapter."""
RUNS = "trackers.json"
"""File in a training's folder: tracker to the id of its run."""
_PROJECT = "cda"
_NONE = "Without a tracker: train.report_to=none"


def asked_trackers(train: Mapping[str, Any]) -> list[str]:
    """The trackers of `train.report_to`; of `all`, those that are installed."""
    asked = train.get("report_to") or "none"
    names = [asked] if isinstance(asked, str) else list(asked)
    if "all" in names:
        from transformers.integrations.integration_utils import get_available_reporting_integrations

        names = get_available_reporting_integrations()
    return [name for name in names if name != "none"]


def tracker_problems(train: Mapping[str, Any]) -> list[str]:
    """Trackers that are unknown, not installed, without the key they would ask for, or out of reach: a sentence each."""
    problems = [(name, _problem(name)) for name in asked_trackers(train)]
    return [f"train.report_to={name}: {problem}. {_NONE}" for name, problem in problems if problem]


def _problem(name: str) -> str | None:
    from transformers.integrations import get_reporting_integration_callbacks, integration_utils

    known = integration_utils.INTEGRATION_TO_CALLBACK
    if name in TRACKERS and not getattr(integration_utils, f"is_{name}_available")():
        return f"not installed here: `pip install {name}`"
    try:
        for callback in get_reporting_integration_callbacks([name]):
            callback()
    except Exception as error:  # each tracker's own: not known, not installed, not set up
        hint = "" if name in known else did_you_mean(str(name), known)
        return f"{str(error).rstrip('.')}.{hint}".rstrip(".")
    checks: dict[str, Callable[[], str | None]] = {"wandb": _wandb_problem, "mlflow": _mlflow_problem}
    return checks[name]() if name in checks else None


def _wandb_problem() -> str | None:
    # Weights & Biases asks for a key once the training begins; without a terminal it ends the run there.
    is_offline = os.environ.get("WANDB_MODE", "").lower() in ("offline", "disabled", "dryrun")
    if is_offline or import_module("wandb").api.api_key:
        return None
    return "no key of Weights & Biases is here; `wandb login`, or set WANDB_API_KEY or WANDB_MODE=offline"


def _mlflow_problem() -> str | None:
    mlflow = import_module("mlflow")
    before = {name: os.environ.get(name) for name in _ONCE}
    os.environ.update({name: value for name, value in _ONCE.items() if before[name] is None})
    try:
        mlflow.search_experiments(max_results=1)
    except Exception as error:  # of a file store, a database or a server
        place = os.environ.get("MLFLOW_TRACKING_URI", "its default place")
        return f"the store of MLflow cannot be used ({place}: {first_line(error)}); set MLFLOW_TRACKING_URI"
    finally:
        for name, value in before.items():
            if value is None:
                os.environ.pop(name, None)
    return None


_ONCE = {"MLFLOW_HTTP_REQUEST_MAX_RETRIES": "0", "MLFLOW_HTTP_REQUEST_TIMEOUT": "10"}
"""MLflow asks a server that does not answer for minutes."""


@dataclass(frozen=True, slots=True)
class Tracked:
    """A training as trackers know it: the trackers, its name and project there, and the folder that holds `RUNS`."""

    trackers: tuple[str, ...]
    name: str
    project: str
    folder: Path
    runs: dict[str, str] = field(default_factory=dict)

    @classmethod
    def of(cls, train: Mapping[str, Any], name: str, folder: Path) -> Tracked:
        """The training of a recipe's `train:`; `name` unless `run_name` is set, with what tells it from others of its run."""
        project = train.get("project") or os.environ.get("WANDB_PROJECT") or _PROJECT
        return cls(tuple(asked_trackers(train)), name, str(project), folder)

    @contextmanager
    def training(self) -> Iterator[None]:
        """Hold a run open in each tracker, by the main process alone; a training that goes on goes on with its run."""
        opened = [self._open(name) for name in self.trackers if name in ("wandb", "mlflow")] if is_main() else []
        if self.runs:
            write_json(self.folder / RUNS, self.runs)
        try:
            yield
        finally:
            for tracker in opened:
                if tracker is not None:
                    tracker.finish()

    def log(self, tracker: str, numbers: Mapping[str, float], logs: Path) -> None:
        """Log numbers to the run of this training in a tracker; TensorBoard's become a folder in `logs`."""
        opened = self._open(tracker, logs, quiet=True)
        if opened is not None:
            opened.log(numbers, **({} if tracker == "wandb" else {"step": 0}))
            opened.finish()
        elif tracker == "wandb":
            import_module("wandb").log(dict(numbers))
        else:
            import_module("mlflow").log_metrics(dict(numbers), step=0)

    def _open(self, name: str, logs: Path | None = None, quiet: bool = False) -> Any:
        """The tracker with its run begun or taken up again; None if the user's own program holds one open."""
        from accelerate.tracking import LOGGER_TYPE_TO_CLASS

        known = self._known_runs().get(name)
        if name == "tensorboard":
            given: dict[str, Any] = {
                "run_name": self.name,
                "logging_dir": os.environ.get("TENSORBOARD_LOGGING_DIR") or logs,
            }
        elif (active := _active_run(name)) is not None:
            self.runs[name] = active
            return None
        elif name == "wandb":
            given = {
                "run_name": self.project,
                "name": self.name,
                "id": known,
                "resume": "allow",
                "settings": {"quiet": quiet},
            }
        else:
            given = {"experiment_name": self.project, "run_name": self.name, "run_id": known}
        tracker = LOGGER_TYPE_TO_CLASS[name](**given)
        tracker.main_process_only = (
            False  # it is asked by the main process alone, at times before or after the others meet
        )
        tracker.start()
        if name != "tensorboard":
            self.runs[name] = tracker.tracker.id if name == "wandb" else tracker.tracker.info.run_id
        return tracker

    def _known_runs(self) -> Mapping[str, str]:
        file = self.folder / RUNS
        return dict(read_json(file)) if file.is_file() else {}


def _active_run(name: str) -> str | None:
    module = import_module(name)
    if name == "wandb":
        return None if module.run is None else str(module.run.id)
    return None if module.active_run() is None else str(module.active_run().info.run_id)
