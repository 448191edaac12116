"""Runs the stages that are missing, in order; the others are reused as they are."""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

from pydantic_core import to_jsonable_python

from cda.auditing import audit
from cda.counterfactuals import label, synthesize
from cda.dosing import stage as dose
from cda.errors import CdaError, DataError, RunError
from cda.files.jsonl import write_json
from cda.files.paths import own_folder
from cda.finetuning import applied, train
from cda.finetuning.train import Training, trainings
from cda.launch import clear_failure, is_main, launch_id, say, tell_failure, wait_until, world_size
from cda.llm.counted import Tally
from cda.pipeline import plan as planning
from cda.pipeline import report
from cda.recipe.load import LoadedRecipe
from cda.resources.llm_access import llm_counts
from cda.results.base import Result
from cda.run import RunFolder, Stage, fingerprint
from cda.user_errors import disk_is_full

STAGES = ("label", "synthesize", "train", "dose", "adapter", "audit", "report")
"""In order: the dose is chosen before the audit, so that what is audited is the run's result."""
_OF_EACH = ("train", "dose", "adapter")
"""Stages that every training of the run has of its own; the others are shared."""
Produce = Callable[[Path], Result | dict[str, Any]]


def run_stages(loaded: LoadedRecipe, last: str = "report", only: bool = False, figures: str | None = None) -> RunFolder:
    """Run everything up to a stage.

    Args:
        loaded: The recipe.
        last: The stage to end with.
        only: Run this stage alone; earlier ones must have finished.
        figures: Format in which the report's figures are written as files; None: they are not.

    Raises:
        CdaError: Anything a user can act on.
    """
    folder = planning.run_folder(loaded)
    try:
        if is_main():
            planning.check(loaded)
            say(planning.plan(loaded))
            with folder.lock():
                clear_failure(folder.path)
                _run(loaded, folder, last, only, figures)
        else:
            _run(loaded, folder, last, only, figures)
    except BaseException as error:
        tell_failure(folder.path)
        if not isinstance(error, CdaError) and disk_is_full(error):
            raise RunError(
                f"{folder.path}: the disk is full. Nothing finished is lost: free some space, and the same command goes on "
                "from here"
            ) from error
        raise
    return folder


def _run(loaded: LoadedRecipe, folder: RunFolder, last: str, only: bool, figures: str | None) -> None:
    made, several = _made(loaded, folder), trainings(loaded.recipe.seeds)
    # Whoever chooses a dose alone wants the adapter at that dose.
    end = "adapter" if last == "dose" else last
    asked = ("audit", "report") if loaded.only_audit else STAGES[: STAGES.index(end) + 1]
    each = [(stage, one.stage(stage)) for stage in asked for one in (several if stage in _OF_EACH else several[:1])]
    takes_dose = False
    for kind, name in each:
        if kind == "report":
            if is_main():
                report.run(folder, figures)
            continue
        # The other processes take part in training and in the audit's scoring; the rest is the main one's work.
        if not is_main() and kind == "audit":
            if not loaded.only_audit:
                for trained in [made[one.stage("train")][0]() for one in several]:
                    wait_until(lambda trained=trained: folder.is_done(trained), folder.path)  # type: ignore[misc]
                wait_until(_settled_file(loaded, folder).is_file, folder.path)
            audit.assist(loaded, folder)
            return
        if not is_main() and kind in ("dose", "adapter"):
            continue
        if kind == "dose":
            if name == kind:
                takes_dose = not (only and last != kind) and dose.is_wanted(loaded)
            if not takes_dose:
                continue
        stage, produce = made[name]
        if only and kind not in (last, "adapter"):
            _require(stage(), folder)
            continue
        if kind == "train":
            _run_train(stage(), produce, folder)
            if name == several[-1].stage(kind):
                _part()
        elif kind == "dose" and loaded.recipe.dose.on == "auto":
            _run_if_possible(stage(), produce, folder, loaded)
        elif is_main():
            run_stage(stage(), produce, folder, loaded)
        else:
            expected = stage()
            wait_until(lambda expected=expected: folder.is_done(expected), folder.path)  # type: ignore[misc]
        if name == several[-1].stage("adapter") and world_size() > 1:
            _tell_settled(loaded, folder)
        if is_main():
            folder.write_manifest(loaded.recipe.model_dump(mode="json"), list(made))


def _made(loaded: LoadedRecipe, folder: RunFolder) -> dict[str, tuple[Callable[[], Stage], Produce]]:
    """Every stage of the recipe by its name, in order: what it is, and what makes it."""

    def settled(one: Training) -> Stage:
        return applied.stage(folder, dose.chosen(loaded, folder, one), one)

    def settle(one: Training, out: Path) -> dict[str, object]:
        return applied.run(loaded, folder, dose.chosen(loaded, folder, one), one, out)

    several = trainings(loaded.recipe.seeds)
    made: dict[str, tuple[Callable[[], Stage], Produce]] = {
        "label": (lambda: label.stage(loaded), partial(label.run, loaded)),
        "synthesize": (partial(synthesize.stage, loaded, folder), partial(synthesize.run, loaded, folder)),
    }
    of_each: dict[str, Callable[[Training], tuple[Callable[[], Stage], Produce]]] = {
        "train": lambda one: (partial(train.stage, loaded, folder, one), partial(train.run, loaded, folder, one)),
        "dose": lambda one: (partial(dose.stage, loaded, folder, one), partial(dose.run, loaded, folder, one)),
        "adapter": lambda one: (partial(settled, one), partial(settle, one)),
    }
    made |= {one.stage(kind): of_each[kind](one) for kind in _OF_EACH for one in several}
    return made | {"audit": (partial(audit.stage, loaded, folder), partial(audit.run, loaded, folder))}


def _settled_file(loaded: LoadedRecipe, folder: RunFolder) -> Path:
    """Tells the other processes of a launch that every adapter of the run has its dose; named by what decides these doses."""
    doses = [dose.stage(loaded, folder, one).fingerprint for one in trainings(loaded.recipe.seeds)]
    name = fingerprint([*doses, loaded.recipe.dose.on, launch_id()])
    return folder.path / "scoring" / f"settled-{name}.json"


def _tell_settled(loaded: LoadedRecipe, folder: RunFolder) -> None:
    settled = _settled_file(loaded, folder)
    for old in own_folder(settled.parent).glob("settled-*.json"):
        old.unlink(missing_ok=True)
    write_json(settled, {"dose": applied.applied_dose(folder)})


def _require(stage: Stage, folder: RunFolder) -> None:
    """An earlier stage must be there, made from this very recipe."""
    if not folder.is_done(stage):
        reason = folder.why_redo(stage) or "it has not been run"
        raise RunError(
            f"{folder.path}: stage '{stage.name}' does not fit this recipe ({reason}). Leave out --only to run it"
        )


def run_stage(stage: Stage, produce: Produce, folder: RunFolder, loaded: LoadedRecipe) -> None:
    """Make a stage by the main process, or reuse it as it is; what it asks of LLMs is counted with it."""
    if _is_reused(stage, folder):
        return
    start, before = time.monotonic(), llm_counts(loaded.opened)
    counts = to_jsonable_python(produce(folder.begin(stage)))
    asked = {name: tally.since(before.get(name, Tally())) for name, tally in llm_counts(loaded.opened).items()}
    if used := {name: one for name, one in asked.items() if one}:
        counts = {**counts, "llm": used}
    folder.finish(stage, counts, time.monotonic() - start)


def _run_if_possible(stage: Stage, produce: Produce, folder: RunFolder, loaded: LoadedRecipe) -> None:
    """A stage that nobody asked for: where the data do not allow it, that is said, and the run goes on."""
    try:
        run_stage(stage, produce, folder, loaded)
    except DataError as error:
        say(f"  left out: {error}")
        folder.retire(stage.name)


def _run_train(stage: Stage, produce: Produce, folder: RunFolder) -> None:
    if _is_reused(stage, folder):
        return
    start = time.monotonic()
    if is_main():
        partial = folder.begin(stage)
    else:
        # Done after all: the main process may only have had to take the last step of a launch that was killed.
        wait_until(lambda: folder.has_begun(stage) or folder.is_done(stage), folder.path)
        if folder.is_done(stage):
            return
        partial = folder.partial(stage.name)
    counts = to_jsonable_python(produce(partial))
    if group := _group():
        group.barrier()
    if is_main():
        folder.finish(stage, counts, time.monotonic() - start)


def _group() -> Any:
    """`torch.distributed` where the processes of this launch met to train, else None."""
    if world_size() == 1:
        return None
    import torch.distributed

    return torch.distributed if torch.distributed.is_initialized() else None


def _part() -> None:
    """End the processes' group after the last training; nothing that follows is a collective."""
    if group := _group():
        group.destroy_process_group()


def _is_reused(stage: Stage, folder: RunFolder) -> bool:
    if is_main():
        folder.complete(stage)
    if folder.is_done(stage):
        say(f"\n{stage.name}: done before, reused ({folder.stage(stage.name)})")
        return True
    reason = folder.why_redo(stage) if is_main() else None
    say(f"\n{stage.name}" + (f": made again, because {reason}" if reason else ""))
    return False
