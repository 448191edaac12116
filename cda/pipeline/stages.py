"""Runs the stages that are missing, in order; the others are reused as they are. The results of a run's folder, and its
report."""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from pathlib import Path
from textwrap import fill
from typing import Any

from pydantic_core import to_jsonable_python

from cda.auditing import audit
from cda.auditing.audit import AUDIT_FILE
from cda.auditing.first_screen import headline
from cda.auditing.report import audit_document
from cda.counterfactuals import label, synthesize
from cda.dosing import stage as dose
from cda.errors import CdaError, DataError, ModelError, MovedError, RecipeError, RunError
from cda.files.hub import untold
from cda.files.jsonl import read_json, read_jsonl, write_json, write_text
from cda.files.paths import is_a_file, own_folder, refuse_link, user_path
from cda.files.reads import answering, contents, states
from cda.finetuning import applied, train
from cda.finetuning.applied import NAME, applied_dose, chosen_dose
from cda.finetuning.applied import NAME as ADAPTER
from cda.finetuning.train import Training, tracked, trainings
from cda.inspection.inspect import with_rewrites
from cda.jobs.given import from_python
from cda.jobs.perform import PAGE, Job, LockedRun, Made, ResultsFolder, perform
from cda.launch import check_shared, clear_failure, is_main, launch_id, say, tell_failure, wait_until, world_size
from cda.llm.money import Tally
from cda.models.refusals import first_line
from cda.numbers.views import as_metrics, seed_metrics
from cda.pipeline import plan as planning
from cda.pipeline.merge import write_adapter_cards
from cda.pipeline.plan import STAGES, check_conversations, planned_progress, stages_of
from cda.progress import RunProgress, run_progress
from cda.recipe.load import LoadedRecipe, Opened
from cda.recipe.schema import Recipe
from cda.report.document import Document
from cda.report.drawing import FigureForm
from cda.report.next_step import COLUMNS, after_stage
from cda.resources.artifacts import of_this_version, stage_counts
from cda.resources.dry_run import plan_text, planned
from cda.resources.llm_access import llm_counts, note_models
from cda.resources.scorers import watched
from cda.results.audit import AuditResult, TrainResult
from cda.results.base import Documented, MadeBy, Missing, Result, load
from cda.results.commands import Plan
from cda.results.dose import DoseResult
from cda.results.facts import LLMUse, RunFacts, StageRun
from cda.results.kinds import FILES
from cda.results.stages import LabelCounts, SynthesizeCounts, TrainCounts
from cda.run import SUPERSEDED, RunFolder, Stage, fingerprint
from cda.training.hub import NOT_UPLOADED, asked_repository, made_repository, push
from cda.training.trackers import TRACKERS, asked_trackers
from cda.user_errors import disk_is_full

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
    measured = {"cda/validation_accuracy": accuracy} if isinstance(accuracy, float) else {}
    try:
        for at, training in enumerate(trainings(recipe.seeds)):
            folder = run_folder.stage(training.stage("train"))
            numbers = as_metrics(audit) | measured if training.is_first else seed_metrics(audit, at)
            tracked(recipe, training.seed, folder).log(tracker, numbers, run_folder.path / "report" / "logs")
    except Exception as error:  # of a tracker's own library, its files or its server
        say(
            f"{tracker}: the audit's numbers could not be logged ({first_line(error)}). The run is whole; the same command logs "
            "them again"
        )
        return False
    say(f"{tracker}: the audit's numbers are logged")
    return True


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


_OF_EACH = ("train", "dose", "adapter")
"""Stages that every training of the run has separately; the others are shared."""
Produce = Callable[[Path], Result | dict[str, Any]]


def run_stages(loaded: LoadedRecipe, last: str = "report", only: bool = False, figures: str | None = None) -> RunFolder:
    """Run everything up to the stage `last`, or (`only`) this stage alone if earlier ones have finished; `figures`: format in
    which figures are written as files. CdaError: anything a user can act on."""
    folder = RunFolder(loaded.recipe.run_path)
    try:
        check_shared(folder.path)
        if is_main():
            planning.check(loaded)
            if (
                plan := planning.plan(loaded, last, only)
                if planning.pays(loaded, last, only)
                else planning.notes(loaded)
            ):
                say(plan)
            check_conversations(loaded, download=True)
            _open_hub(loaded, folder, last)
            with folder.lock(), run_progress(_planned(loaded, last, only)) as progress:
                clear_failure(folder.path)
                _run(loaded, folder, last, only, figures, progress)
            if step := after_stage(last, str(folder.path)):
                say("\n".join(["", *step.lines(python=from_python())]))
        else:
            _run(loaded, folder, last, only, figures, RunProgress([]))
    except BaseException as error:
        tell_failure(folder.path)
        if not isinstance(error, CdaError) and disk_is_full(error):
            raise RunError(
                f"{folder.path}: the disk is full. Nothing finished is lost: free some space, and the same command goes on "
                "from here"
            ) from error
        raise
    return folder


def _open_hub(loaded: LoadedRecipe, folder: RunFolder, last: str) -> None:
    """Make the repository of a first training before hours of work: ModelError, if the hub refuses, comes now."""
    repository = asked_repository(loaded.recipe.trainer)
    if repository is not None and "train" in stages_of(loaded, last) and not folder.record("train"):
        made_repository(repository)


def _planned(loaded: LoadedRecipe, last: str, only: bool) -> RunProgress:
    steps = _steps(stages_of(loaded, last), trainings(loaded.recipe.seeds))
    return planned_progress(loaded, [step for step in steps if not only or step[0] in (last, "adapter")])


def _run(
    loaded: LoadedRecipe, folder: RunFolder, last: str, only: bool, figures: str | None, progress: RunProgress
) -> None:
    several = trainings(loaded.recipe.seeds)
    takes_dose = False
    note_models(loaded, folder)
    for kind, training in _steps(stages_of(loaded, last), several):
        progress.begin(training.stage(kind))
        if kind == "report":
            if is_main():
                write_report(folder, figures, brief=loaded.brief)
                if not loaded.only_audit and asked_trackers(loaded.recipe.trainer):
                    log_audit(loaded, folder, train_result(folder).validation_accuracy)
                if not loaded.only_audit:
                    push_adapter(loaded, folder)
            continue
        # The other processes take part in training and in the audit's scoring; the rest is the main one's work.
        if not is_main() and kind == "audit":
            _assist(loaded, folder, several)
            return
        if not is_main() and kind in ("dose", "adapter"):
            continue
        if kind == "dose":
            if training.is_first:
                takes_dose = not (only and last != kind) and dose.is_wanted(loaded)
            if not takes_dose:
                progress.leave_out(training.stage(kind))
                continue
        stage, produce = _stage_and_producer(kind, training, loaded, folder)
        if only and kind not in (last, "adapter"):
            _check_done(stage, folder)
            continue
        if kind == "train":
            audits = training.is_first and last in ("audit", "report") and loaded.recipe.score.cache != "none"
            if audits and world_size() == 1 and not folder.is_done(stage):
                audit.first_look(loaded, folder)
            _run_train(stage, produce, folder)
            if training is several[-1] and (group := _group()):
                group.destroy_process_group()  # nothing that follows is a collective
        elif kind == "dose" and loaded.recipe.dose.on == "auto":
            try:
                run_stage(stage, produce, folder, loaded.opened)
            except DataError as error:  # not requested, and the data do not allow it: the run goes on
                say(f"  left out: {error}")
                folder.retire(stage.name)
        elif is_main():
            run_stage(stage, produce, folder, loaded.opened, fresh=loaded.fresh and kind == "audit")
        else:
            wait_until(partial(folder.is_done, stage), folder.path)
        if kind == "adapter" and training is several[-1] and world_size() > 1:
            _tell_settled(loaded, folder)
        if is_main():
            names = [each.stage(name) for name, each in _steps(STAGES[:-1], several)]
            folder.write_manifest(loaded.recipe.model_dump(mode="json"), names, loaded.command)


def check_earlier(loaded: LoadedRecipe, last: str) -> None:
    """Raise RunError unless every stage before `last`, which is to run alone, has finished for this recipe."""
    folder = RunFolder(loaded.recipe.run_path)
    for kind, training in _steps(stages_of(loaded, last), trainings(loaded.recipe.seeds)):
        if kind == last:
            return
        # A dose is chosen if it is wanted, and the adapter is written again at it.
        if kind not in ("dose", "adapter"):
            _check_done(_stage_and_producer(kind, training, loaded, folder)[0], folder)


def _check_done(stage: Stage, folder: RunFolder) -> None:
    if not folder.is_done(stage):
        reason = folder.why_redo(stage) or "it has not been run"
        raise RunError(
            f"{folder.path}: stage '{stage.name}' does not fit this recipe ({reason}). Leave out --only to run it"
        )


def _assist(loaded: LoadedRecipe, folder: RunFolder, several: Sequence[Training]) -> None:
    """Take part in the audit's scoring, once every adapter has its dose."""
    if not loaded.only_audit:
        for training in several:
            wait_until(partial(folder.is_done, train.stage(loaded, folder, training)), folder.path)
        wait_until(_settled_file(loaded, folder).is_file, folder.path)
    audit.assist(loaded, folder)


def _steps(kinds: Sequence[str], several: Sequence[Training]) -> list[tuple[str, Training]]:
    """Every stage of each training, in order; stages that all trainings share come once, with the first one."""
    return [(kind, training) for kind in kinds for training in (several if kind in _OF_EACH else several[:1])]


def _stage_and_producer(
    kind: str, training: Training, loaded: LoadedRecipe, folder: RunFolder
) -> tuple[Stage, Produce]:
    if kind == "label":
        return label.stage(loaded), partial(label.run, loaded)
    if kind == "synthesize":
        return synthesize.stage(loaded, folder), partial(synthesize.run, loaded, folder)
    if kind == "train":
        return train.stage(loaded, folder, training), partial(train.run, loaded, folder, training)
    if kind == "dose":
        return dose.stage(loaded, folder, training), partial(dose.run, loaded, folder, training)
    if kind == "adapter":
        model, chosen = loaded.recipe.model, dose.chosen(loaded, folder, training)
        return applied.stage(folder, chosen, training), partial(applied.run, model, folder, chosen, training)
    return audit.stage(loaded, folder), partial(audit.run, loaded, folder)


def _settled_file(loaded: LoadedRecipe, folder: RunFolder) -> Path:
    """File that tells the other processes of a launch that every adapter of the run has its dose, named by its inputs."""
    doses = [dose.stage(loaded, folder, training).fingerprint for training in trainings(loaded.recipe.seeds)]
    name = fingerprint([*doses, loaded.recipe.dose.on, launch_id()])
    return folder.path / "scoring" / f"settled-{name}.json"


def _tell_settled(loaded: LoadedRecipe, folder: RunFolder) -> None:
    settled = _settled_file(loaded, folder)
    for old in own_folder(settled.parent).glob("settled-*.json"):
        old.unlink(missing_ok=True)
    write_json(settled, {"dose": applied_dose(folder)})


def run_stage(stage: Stage, produce: Produce, folder: RunFolder, opened: Opened, *, fresh: bool = False) -> None:
    """Make a stage by the main process, or reuse it as it is unless a `fresh` one is asked for; calls of the run's LLMs (`opened`)
    are counted with it, and what the user's own code has read is noted."""
    if _is_reused(stage, folder, fresh):
        if own := ", ".join(watched(opened)):
            say(f"  {own}: its code and what it was seen to read are as they were; --fresh measures again")
        return
    try:
        _make(stage, produce, folder, opened)
    except MovedError as error:
        say(f"  {error}. {stage.name} is made anew")
        shutil.rmtree(folder.partial(stage.name))
        _make(stage, produce, folder, opened)


def _make(stage: Stage, produce: Produce, folder: RunFolder, opened: Opened) -> None:
    start, before = time.monotonic(), llm_counts(opened)
    counts = to_jsonable_python(produce(folder.begin(stage)))
    calls = {name: tally.since(before.get(name, Tally())) for name, tally in llm_counts(opened).items()}
    if used := {name: tally for name, tally in calls.items() if tally}:
        counts = {**counts, "llm": used}
    models = [answering(asked, model) for asked, tally in used.items() for model in tally.get("models", ())]
    reads = {name: state for watch in watched(opened).values() for name, state in watch.read.items()}
    folder.finish(stage, counts, time.monotonic() - start, reads | states(models))


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
    """`torch.distributed` if the processes of this launch met to train, else None."""
    if world_size() == 1:
        return None
    import torch.distributed

    return torch.distributed if torch.distributed.is_initialized() else None


def _is_reused(stage: Stage, folder: RunFolder, fresh: bool = False) -> bool:
    for line in untold():
        say(f"  {line}")
    if is_main():
        folder.complete(stage)
    is_done = folder.is_done(stage)
    if is_done and not fresh:
        say(f"\n{stage.name}: done before, reused ({folder.stage(stage.name)})")
        return True
    reason = "of --fresh" if is_done else folder.why_redo(stage) if is_main() else None
    kept = f" (the earlier one goes to {folder.path / SUPERSEDED})"
    notice = f"{stage.name}: made again, because {reason}{kept}" if reason else stage.name
    say("\n" + fill(notice, COLUMNS, subsequent_indent="  ", break_long_words=False, break_on_hyphens=False))
    return False


def write_report(
    run_folder: RunFolder, figures: str | None = None, out: Path | None = None, brief: bool = False
) -> Path:
    """Draw the report anew from audit.json, print the summary (`brief`: its headline alone), return the HTML file; `figures` is a format
    (svg, pdf) for files. With a folder `out` it is written there, and nothing in the run's folder."""
    audit = audit_of(run_folder)
    file = run_folder.stage("audit") / AUDIT_FILE
    has_adapter = len(audit.scorings) > 1 and applied_dose(run_folder) == audit.dose_applied
    adapter = str(run_folder.stage(ADAPTER)) if has_adapter else None
    folder = run_folder.path / "report" if out is None else out
    html = folder / PAGE
    with of_this_version(file):
        document = with_rewrites(audit_document(audit, str(html), adapter, int(figures is not None)), run_folder)
        page, text = document.page(), document.markdown()
    if out is None:
        own_folder(folder)
        drawn_before = folder / "figures"
        if drawn_before.is_dir() and drawn_before.stat().st_mtime < file.stat().st_mtime:  # of an earlier audit
            refuse_link(drawn_before)
            shutil.rmtree(drawn_before)
    write_text(html, page)
    write_text(folder / "report.md", text)
    if has_adapter and out is None:
        write_adapter_cards(run_folder, audit)
    with of_this_version(file):
        drawn = [] if figures is None else [document.write_figures(folder, figures)]
        say(f"  {headline(audit)}" if brief else f"\n{document.text(drawn, python=from_python())}")
    return html


def audit_of(run_folder: RunFolder) -> AuditResult:
    """The finished audit of a run (else RunError), with the choice of its dose and the run's costs; DataError if it was changed."""
    run_folder.output_of("audit")  # names the command to run first if there is no audit
    audit = load(AuditResult, run_folder.stage("audit") / AUDIT_FILE, "cda audit")
    trained = len(audit.scorings) > 1
    if trained and (chosen := chosen_dose(run_folder)) and chosen.chosen == audit.dose_applied:
        audit = audit.model_copy(update={"dose": chosen})
    several = trainings(audit.seeds.seeds if audit.seeds else (0,))
    kinds = ("train", "dose") if audit.dose else ("train",)
    own = [training.stage(kind) for kind in kinds for training in several]
    with of_this_version(run_folder.stage("audit") / AUDIT_FILE):
        return audit.model_copy(update={"run": _facts(run_folder, ["label", "synthesize", *own, "audit"])})


def redraw(given: str, words: Sequence[str], figures: str | None = None, out: str | None = None) -> Run:
    """Draw the report of a finished run anew, from its folder alone; into another folder `out`, if one is given. RunError: no
    finished audit, `words` (settings), which only a recipe takes, or a folder that holds something else. RecipeError: another format
    of figures."""
    path = user_path(given)
    if figures is not None:
        FigureForm.of(figures)
    if words:
        raise RunError(f"{given}: the folder of a run, whose report is drawn as it is; {words[0]} goes with a recipe")
    if not is_a_file(path / "audit" / AUDIT_FILE):
        results = [name for name in FILES if is_a_file(path / name)]
        other = f"; it holds {results[0]} of another command, with its page next to it" if results else ""
        raise RunError(
            f"{given}: no finished audit here ({Path('audit') / AUDIT_FILE}){other}. Give a recipe, or the folder of a finished run"
        )
    run_folder = RunFolder(path)

    def plan() -> list[str]:
        read = _read_from(path / "audit" / AUDIT_FILE, audit_of(run_folder))
        return [read, *([f"report      {path / 'report' / PAGE}"] if out is None else [])]

    def work(folder: Path) -> Made[Run]:
        write_report(run_folder, figures, None if out is None else folder)
        return Made(Run(path))

    place = LockedRun(run_folder) if out is None else ResultsFolder(out, MadeBy("cda report", PAGE, ""))
    return perform(Job(plan, work, place, unused=("only", "limit", "seed", "column")), None)


def _read_from(file: Path, audit: AuditResult) -> str:
    """The audit that a report is drawn from, as a step of a dry run."""
    when = ", before and after a training" if len(audit.scorings) > 1 else ""
    return f"reads       {file}: {audit.model.name}{when}; biases: {', '.join(bias.name for bias in audit.biases)}"


def _facts(run_folder: RunFolder, names: Sequence[str]) -> RunFacts:
    """Time, place and cost of these stages, as far as the run folder says."""
    manifest = run_folder.manifest()
    stages = {}
    for name in names:
        if record := run_folder.record(name):
            llm = {model: LLMUse(**use) for model, use in record.counts.get("llm", {}).items()}
            stages[name] = StageRun(seconds=record.seconds, finished=record.finished, llm=llm)
    own = {"git": manifest.git, "python": manifest.python, "platform": manifest.platform}
    return RunFacts(
        **own, folder=str(run_folder.path), settings=manifest.recipe, command=tuple(manifest.command), stages=stages
    )


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


@dataclass(frozen=True)
class Run(Documented):
    """A run's folder, whose results are read when they are asked for."""

    folder: Path
    plan: Plan | None = None
    """The plan of a dry run; None of a run."""

    @cached_property
    def audit(self) -> AuditResult:
        """Its audit; RunError if none is finished, DataError if it is of another version of cda or was changed."""
        audit = audit_of(RunFolder(self.folder))
        audit.placed(self.folder)
        return audit

    def document(self) -> Document:
        """The page of its audit; errors as of `audit`."""
        return self.audit.document()

    @cached_property
    def training(self) -> TrainResult:
        """Log of the training; RunError if none is finished."""
        return train_result(RunFolder(self.folder))

    @cached_property
    def dose(self) -> DoseResult | Missing:
        """Choice of the adapter's dose; DataError if dose.json was edited or written by another version of cda."""
        chosen = chosen_dose(RunFolder(self.folder))
        return Missing(reason="no dose was chosen, so that it is as trained") if chosen is None else chosen

    def outcome(self, until: str) -> LabelCounts | SynthesizeCounts | TrainResult | DoseResult:
        """Result of a run up to a stage: counts of `label` and `synthesize`, the choice of `dose`, else the training with its
        audit; RunError if the stage is not finished, or of another version of cda."""
        kinds: dict[str, type[LabelCounts] | type[SynthesizeCounts]] = {
            "label": LabelCounts,
            "synthesize": SynthesizeCounts,
        }
        found = stage_counts(RunFolder(self.folder), until, kinds[until]) if until in kinds else None
        if until in kinds and found is None:
            raise RunError(
                f"{self.folder}: no counts of stage '{until}' as this version of cda writes them; run it again"
            )
        if until == "dose" and not isinstance(self.dose, Missing):
            return self.dose
        return found if found is not None else self.training

    @property
    def adapter(self) -> Path:
        """Folder of the PEFT adapter at the run's dose; RunError if no training is finished."""
        return self.training.adapter

    def __repr__(self) -> str:
        return f"<Run in {self.folder}>"

    def __str__(self) -> str:
        """The first screen of its audit; the `repr` of a run without one."""
        try:
            return str(self.audit)
        except CdaError:
            return repr(self)


def carry_out(
    loaded: LoadedRecipe, until: str = "report", only: bool = False, figures: str | None = None, dry_run: bool = False
) -> Run:
    """The run of settings, up to a stage; a dry run checks everything, says the plan and does nothing."""
    known = [stage for stage in STAGES if stage != "adapter"]
    if until not in known:
        raise RecipeError([f"until: {', '.join(known)}; found '{until}'"])
    job = run_job(loaded, until, only, figures)
    if not dry_run:
        return perform(job, loaded)
    return Run(loaded.recipe.run_path, said_plan(job, loaded) if is_main() else None)


def run_job(loaded: LoadedRecipe, until: str = "report", only: bool = False, figures: str | None = None) -> Job[Run]:
    """A run as a job; its stages lock the folder themselves: the main process alone, once it has checked everything."""

    def plan() -> list[str]:
        planning.check(loaded)
        if only:
            check_earlier(loaded, until)
        return planning.plan(loaded, until, only).splitlines()

    def work(_: Path) -> Made[Run]:
        return Made(Run(run_stages(loaded, until, only, figures).path))

    costs = partial(audit.planned_calls, loaded) if until in ("audit", "report") else list
    return Job(plan, work, costs=costs, unused=planning.UNUSED.get(until, ()))


def said_plan(job: Job[Run], loaded: LoadedRecipe, full: bool = False) -> Plan:
    """Say and return the plan of a run; `full`: with all settings, not only those that differ from the defaults."""
    plan = planned(lambda: perform(job, loaded), full)
    say(plan_text(plan, full))
    return plan
