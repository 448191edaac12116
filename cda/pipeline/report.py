"""The result of a training, from its finished run folder."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TypeVar

from cda.auditing.audit import AUDIT_FILE
from cda.auditing.report_forms import render_html, render_markdown, summary_table
from cda.auditing.report_plots import audit_plots
from cda.errors import RunError
from cda.files.jsonl import read_jsonl, write_text
from cda.files.paths import is_a_file, own_folder, user_path
from cda.finetuning.applied import NAME as ADAPTER
from cda.finetuning.applied import applied_dose, chosen_dose
from cda.finetuning.train import trainings
from cda.launch import say
from cda.resources.artifacts import checked_form, of_this_version, stage_counts, write_figures
from cda.results.audit import AuditResult, TrainResult
from cda.results.base import Missing, load
from cda.results.facts import LLMUse, RunFacts, StageRun, TrainCounts
from cda.run import RunFolder


def train_result(run_folder: RunFolder) -> TrainResult:
    """The run's training, of several the first. RunError: it or its adapter is not finished, or of another version of cda.
    DataError: the audit is of another version, or a file cannot be read."""
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
        audit=load(AuditResult, run_folder.stage("audit") / AUDIT_FILE, "cda audit")
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


def run(run_folder: RunFolder, figures: str | None = None) -> Path:
    """Draw the report anew from audit.json, print the table, return the HTML file; `figures` is a format (svg, pdf) for files."""
    audit = audit_of(run_folder, AuditResult)
    file = run_folder.stage("audit") / AUDIT_FILE
    has_adapter = len(audit.scorings) > 1 and applied_dose(run_folder) == audit.dose_applied
    adapter = str(run_folder.stage(ADAPTER)) if has_adapter else None
    folder = run_folder.path / "report"
    html = folder / "report.html"
    with of_this_version(file):
        page, text, table = render_html(audit), render_markdown(audit), summary_table(audit, str(html), adapter)
    own_folder(folder)
    write_text(html, page)
    write_text(folder / "report.md", text)
    say("\n" + table)
    if figures is not None:
        with of_this_version(file):
            say(write_figures(audit_plots(audit), folder, figures))
    return html


A = TypeVar("A", bound=AuditResult)
OTHER_RESULTS = ("quality.json", "best_of_n.json", "discover.json", "win_rate.json")


def audit_of(run_folder: RunFolder, kind: type[A]) -> A:
    """The finished audit of a run (else RunError), with the choice of its dose and the run's costs; DataError if it was changed."""
    run_folder.output_of("audit")  # names the command to run first if there is no audit
    audit = load(kind, run_folder.stage("audit") / AUDIT_FILE, "cda audit")
    trained = len(audit.scorings) > 1
    if trained and (chosen := chosen_dose(run_folder)) and chosen.chosen == audit.dose_applied:
        audit = audit.model_copy(update={"dose": chosen})
    several = trainings(audit.seeds.seeds if audit.seeds else (0,))
    kinds = ("train", "dose") if audit.dose else ("train",)
    own = [training.stage(kind) for kind in kinds for training in several]
    with of_this_version(run_folder.stage("audit") / AUDIT_FILE):
        return audit.model_copy(update={"run": _facts(run_folder, ["label", "synthesize", *own, "audit"])})


def redraw(given: str, words: Sequence[str], figures: str | None = None, dry_run: bool = False) -> None:
    """Draw the report of a finished run anew, from its folder alone. RunError: no finished audit, or `words` (settings), which
    only a recipe takes. RecipeError: another format of figures."""
    path = user_path(given)
    if figures is not None:
        checked_form(figures)
    if words:
        raise RunError(f"{given}: the folder of a run, whose report is drawn as it is; {words[0]} goes with a recipe")
    if not is_a_file(path / "audit" / AUDIT_FILE):
        results = [name for name in OTHER_RESULTS if is_a_file(path / name)]
        other = f"; it holds {results[0]} of another command, with its page next to it" if results else ""
        raise RunError(
            f"{given}: no finished audit here ({Path('audit') / AUDIT_FILE}){other}. Give a recipe, or the folder of a finished run"
        )
    if dry_run:
        say(f"report      {path / 'report' / 'report.html'}, from {path / 'audit' / AUDIT_FILE}")
        return
    run_folder = RunFolder(path)
    with run_folder.lock():
        run(run_folder, figures)


def _facts(run_folder: RunFolder, names: Sequence[str]) -> RunFacts:
    """Time, place and cost of these stages, as far as the run folder says."""
    manifest = run_folder.manifest()
    stages = {}
    for name in names:
        if record := run_folder.record(name):
            llm = {model: LLMUse(**use) for model, use in record.counts.get("llm", {}).items()}
            stages[name] = StageRun(seconds=record.seconds, finished=record.finished, llm=llm)
    return RunFacts(git=manifest.git, python=manifest.python, platform=manifest.platform, stages=stages)
