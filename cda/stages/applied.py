"""Stage `adapter`: the result of a run, as one ordinary PEFT adapter at the run's dose, and that dose for whoever uses a run.

The dose is the chosen one where one was chosen, else 1, which is plain CDA. Scores at a dose are those of the trained adapter
scaled in memory; the adapter that is written gives the same.
"""

from __future__ import annotations

import shutil
from pathlib import Path

from cda.config.load import LoadedRecipe
from cda.errors import RunError
from cda.files.jsonl import read_json
from cda.files.paths import user_path
from cda.launch import say
from cda.results.dose import DoseResult
from cda.results.saved import load
from cda.run import RunFolder, Stage
from cda.stages.sources import model_spec
from cda.stages.train import ADAPTER
from cda.stages.trainings import Training
from cda.training.dose import export_dose, read_head

NAME = "adapter"
PLAIN = 1.0
"""The dose of an adapter as it was trained."""
TEXTS = "texts.json"
"""Beside dose.json: `text_id` of every text that the dose stage scored, in its order."""
_CHOSEN = "dose.json"
_CONFIG = "adapter_config.json"


def stage(run_folder: RunFolder, chosen: float | None, training: Training) -> Stage:
    """What decides the adapter: the training, and the dose where one was chosen."""
    inputs = {"train": run_folder.output_of(training.stage("train"))}
    if chosen is not None:
        inputs["dose"] = run_folder.output_of(training.stage("dose"))
    return Stage(training.stage(NAME), {"dose": PLAIN if chosen is None else chosen}, inputs)


def run(
    loaded: LoadedRecipe, run_folder: RunFolder, chosen: float | None, training: Training, folder: Path
) -> dict[str, object]:
    """Write the adapter at its dose; one as it was trained is copied."""
    trained = run_folder.stage(training.stage("train")) / ADAPTER
    if chosen is None or chosen == PLAIN:
        shutil.copytree(trained, folder, dirs_exist_ok=True)
    else:
        export_dose(trained, chosen, read_head(model_spec(loaded.recipe.model)), folder)
    return {}


def applied_dose(run_folder: RunFolder, training: Training | None = None) -> float | None:
    """The dose of a training's adapter, None: of the run's result; None where none was settled since the training."""
    name, trained = (training.stage(NAME), training.stage("train")) if training else (NAME, "train")
    record = run_folder.record(name)
    dose = record.settings.get("dose")
    fits = record.inputs.get("train") == run_folder.record(trained).output
    return float(dose) if fits and isinstance(dose, int | float) else None


def chosen_dose(run_folder: RunFolder) -> DoseResult | None:
    """How the dose of a run's result was chosen; None where it was not chosen, but is 1.

    Raises:
        DataError: dose.json is of another version of cda, or was changed.
    """
    file = _of_dose(run_folder, _CHOSEN)
    return None if file is None else load(DoseResult, file, "cda train")


def texts_of_dose(run_folder: RunFolder) -> list[str]:
    """`text_id` of the texts that the dose was chosen on, in the order in which they were scored; none without a dose."""
    file = _of_dose(run_folder, TEXTS)
    return [] if file is None else list(read_json(file))


def _of_dose(run_folder: RunFolder, file: str) -> Path | None:
    """A file of the dose stage that the run's adapter was made from; None without one."""
    wanted = run_folder.record(NAME).inputs.get("dose")
    if wanted is None or applied_dose(run_folder) is None or wanted != run_folder.record("dose").output:
        return None
    return run_folder.stage("dose") / file


def adapter_at(given: str, dose: float | None) -> tuple[Path, float]:
    """The adapter that a user named, and the dose to apply: the one asked for, else a run's own, else 1; says which.

    Args:
        given: Folder of an adapter, which is taken as it is, or of a run.
        dose: Asked for by number; None: the run's.

    Raises:
        RunError: Neither an adapter nor a run with a finished training.
    """
    path = user_path(given)
    if (path / _CONFIG).is_file():
        return path, PLAIN if dose is None else dose
    run_folder = RunFolder(path)
    adapter = run_folder.stage("train") / ADAPTER
    if not (adapter / _CONFIG).is_file():
        raise RunError(
            f"{given}: neither the folder of an adapter ({_CONFIG}) nor of a run with a finished training (train/{ADAPTER})"
        )
    if dose is not None:
        return adapter, dose
    found = applied_dose(run_folder)
    if found is None:
        say(f"{given}: its run settled no dose since the training, so dose 1 is taken; `cda train` goes on from there")
        return adapter, PLAIN
    if "dose" in run_folder.record(NAME).inputs:
        say(
            f"{given}: dose {found:g}, as chosen in that run"
            + (f"; --dose 1 for plain CDA{_left(found)}" if found != 1 else "")
        )
    return adapter, found


def _left(dose: float) -> str:
    return " (dose 0 is the base model as it was)" if dose == 0 else ""
