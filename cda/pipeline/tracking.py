"""What leaves a run at its end: the audit's numbers for the trackers of `train.report_to`, each training's in its own run there, and
the adapter with its card for the hub of `train.push_to_hub`."""

from __future__ import annotations

from typing import Any

from cda.auditing.audit import AUDIT_FILE
from cda.auditing.tracked import as_metrics, seed_metrics
from cda.errors import DataError, ModelError
from cda.files.hashes import contents
from cda.files.jsonl import read_json, write_json
from cda.files.paths import own_folder
from cda.finetuning.applied import NAME
from cda.finetuning.train import tracked, trainings
from cda.launch import say
from cda.models.refusals import first_line
from cda.recipe.load import LoadedRecipe
from cda.recipe.schema import Recipe
from cda.results.audit import AuditResult
from cda.results.base import Missing, load
from cda.run import RunFolder
from cda.training.hub import NOT_UPLOADED, asked_repository, push
from cda.training.trackers import TRACKERS, asked_trackers

_LOGGED = "tracked.json"
"""In the report's folder: the trackers that have an audit's numbers, and which audit's."""
_PUSHED = "pushed.json"
"""In the report's folder: the repository that has the adapter, of which training, and its files."""


def log_audit(loaded: LoadedRecipe, run_folder: RunFolder, accuracy: float | Missing) -> None:
    """Log the audit of every training once, by the main process, and the first one's validation accuracy. A tracker that fails
    is named, and costs the run nothing."""
    asked = asked_trackers(loaded.recipe.trainer)
    if not asked:
        return
    audited, report = run_folder.output_of("audit"), own_folder(run_folder.path / "report")
    done = _recorded(run_folder, _LOGGED)
    audit = load(AuditResult, run_folder.stage("audit") / AUDIT_FILE, "cda audit")
    for name in asked:
        if name not in TRACKERS:
            say(f"{name}: has the training; the audit's numbers go to {', '.join(TRACKERS)} alone")
        elif done.get(name) != audited and _log(name, audit, accuracy, loaded.recipe, run_folder):
            done[name] = audited
    write_json(report / _LOGGED, done)


def _log(tracker: str, audit: AuditResult, accuracy: float | Missing, recipe: Recipe, run_folder: RunFolder) -> bool:
    try:
        for at, training in enumerate(trainings(recipe.seeds)):
            folder = run_folder.stage(training.stage("train"))
            numbers = _numbers(audit, accuracy) if training.is_first else seed_metrics(audit, at)
            tracked(recipe, training.seed, folder).log(tracker, numbers, run_folder.path / "report" / "logs")
    except Exception as error:  # of a tracker's own library, its files or its server
        say(
            f"{tracker}: the audit's numbers could not be logged ({first_line(error)}). The run is whole; the same command logs "
            "them again"
        )
        return False
    say(f"{tracker}: the audit's numbers are logged")
    return True


def _numbers(audit: AuditResult, accuracy: float | Missing) -> dict[str, float]:
    return as_metrics(audit) | ({"cda/validation_accuracy": accuracy} if isinstance(accuracy, float) else {})


def _recorded(run_folder: RunFolder, name: str) -> dict[str, Any]:
    file = run_folder.path / "report" / name
    try:
        return dict(read_json(file)) if file.is_file() else {}
    except (DataError, TypeError, ValueError):
        return {}


def push_adapter(loaded: LoadedRecipe, run_folder: RunFolder) -> None:
    """Upload the run's adapter with its card to the repository that the trainer pushed checkpoints to, once, by the main process. A
    failure is said, and costs the run nothing."""
    repository = asked_repository(loaded.recipe.trainer)
    if repository is None:
        return
    adapter, file = run_folder.stage(NAME), own_folder(run_folder.path / "report") / _PUSHED
    # A repeated training has pushed its checkpoints, with the trainer's card, over an adapter that may be the same again.
    now = {
        "repository": repository.name,
        "branch": repository.branch,
        "trained": run_folder.record("train").finished,
        "files": contents(adapter, NOT_UPLOADED),
    }
    if _recorded(run_folder, _PUSHED) == now:
        return
    try:
        say(f"pushed to {repository.name}: {push(adapter, repository)}")
    except ModelError as error:
        say(f"train.push_to_hub: {error}, or with the command of this run again")
        return
    write_json(file, now)
