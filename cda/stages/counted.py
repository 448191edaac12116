"""Counts of a run's finished stages, read from their records."""

from __future__ import annotations

from typing import TypeVar

from pydantic import ValidationError

from cda.errors import RunError
from cda.results.base import Result
from cda.results.facts import LabelCounts, SynthesizeCounts, TrainCounts, TrainingStages
from cda.run import RunFolder

R = TypeVar("R", bound=Result)


def training_stages(run_folder: RunFolder) -> TrainingStages:
    """Counts of the stages that lead to the run's training, as far as they are finished.

    Raises:
        RunError: One was made by another version of cda.
    """
    return TrainingStages(
        label=stage_counts(run_folder, "label", LabelCounts),
        synthesize=stage_counts(run_folder, "synthesize", SynthesizeCounts),
        train=stage_counts(run_folder, "train", TrainCounts),
    )


def stage_counts(run_folder: RunFolder, name: str, kind: type[R]) -> R | None:
    """Counts of one stage; None where it has not finished.

    Raises:
        RunError: It was made by another version of cda.
    """
    record = run_folder.record(name)
    if not record:
        return None
    try:
        # What was asked of LLMs is counted with every stage alike.
        return kind.model_validate({key: count for key, count in record.counts.items() if key != "llm"})
    except ValidationError as error:
        problem = error.errors(include_url=False)[0]
        place = ".".join(map(str, problem["loc"]))
        raise RunError(
            f"{run_folder.stage(name) / 'stage.json'}: its counts are not as this version of cda writes them ({place}: "
            f"{problem['msg']}). Run `cda {name}` with its recipe again"
        ) from None
