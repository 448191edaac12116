"""The result of a training, from its finished run folder."""

from __future__ import annotations

from cda.errors import RunError
from cda.files.jsonl import read_jsonl
from cda.results.audit import AuditResult
from cda.results.base import Missing
from cda.results.facts import TrainCounts
from cda.results.saved import load
from cda.results.train import TrainResult
from cda.run import RunFolder
from cda.stages.applied import NAME as ADAPTER
from cda.stages.applied import applied_dose
from cda.stages.audit import RESULT
from cda.stages.counted import stage_counts


def train_result(run_folder: RunFolder) -> TrainResult:
    """The run's training: of several with other seeds, the first.

    Raises:
        RunError: The training, or its adapter, is not finished, or was made by another version of cda.
        DataError: The audit is of another version of cda, or a file cannot be read.
    """
    output = run_folder.output_of("train")
    counts, dose = stage_counts(run_folder, "train", TrainCounts), applied_dose(run_folder)
    if counts is None or dose is None:
        raise RunError(f"{run_folder.path}: no adapter of its training; run `cda train` with its recipe again")
    is_audited = run_folder.record("audit").inputs.get("train") == output
    return TrainResult(
        folder=run_folder.path,
        adapter=run_folder.stage(ADAPTER),
        dose=dose,
        steps=counts.steps,
        best_step=counts.best_step,
        validation_accuracy=_accuracy(run_folder, counts),
        seconds=run_folder.record("train").seconds,
        audit=load(AuditResult, run_folder.stage("audit") / RESULT, "cda audit")
        if is_audited
        else Missing(reason="the training has not been audited"),
    )


def _accuracy(run_folder: RunFolder, counts: TrainCounts) -> float | Missing:
    if counts.per_bias is not None:
        return Missing(reason="every bias has an adapter of its own, with an accuracy of its own")
    if not counts.validation:
        return Missing(reason="there are no validation pairs")
    measured = {
        entry["step"]: float(entry["eval_accuracy"])
        for entry in read_jsonl(run_folder.stage("train") / "history.jsonl")
        if "eval_accuracy" in entry
    }
    kept = counts.steps if counts.best_step is None else counts.best_step
    if kept not in measured:
        return Missing(reason="it was not measured at the checkpoint that was kept")
    return measured[kept]
