"""Stage `adapter`: the result of a run as one ordinary PEFT adapter at the run's dose: the chosen one, else 1, which is plain
CDA. It gives the scores of the trained adapter scaled in memory."""

from __future__ import annotations

import shutil
from pathlib import Path

from cda.errors import RecipeError, RunError
from cda.files.jsonl import read_json
from cda.files.paths import user_path
from cda.finetuning.train import ADAPTER, Training
from cda.launch import say, world_size
from cda.models.adapters import check_adapter, check_base
from cda.models.config import load_config
from cda.models.weights import head_names
from cda.recipe.schema import ModelSection
from cda.resources.named_scorer import ScorerSettings, Subject
from cda.resources.scorers import open_scorer
from cda.resources.sources import model_spec
from cda.results.base import load
from cda.results.dose import DoseResult
from cda.run import RunFolder, Stage
from cda.scorers.kinds import scorer_kind
from cda.training.dose import check_dose, compose_adapters, plain_config, read_head

NAME = "adapter"
PLAIN = 1.0
"""The dose of an adapter as it was trained."""
TEXTS = "texts.json"
"""File next to dose.json: `text_id` of every text that the dose stage scored, in its order."""
_CONFIG = "adapter_config.json"


def stage(run_folder: RunFolder, chosen: float | None, training: Training) -> Stage:
    """The inputs that determine the adapter: the training, and the dose if one was chosen."""
    inputs = {"train": run_folder.output_of(training.stage("train"))}
    if chosen is not None:
        inputs["dose"] = run_folder.output_of(training.stage("dose"))
    return Stage(training.stage(NAME), {"dose": PLAIN if chosen is None else chosen}, inputs)


def run(
    model: ModelSection, run_folder: RunFolder, chosen: float | None, training: Training, folder: Path
) -> dict[str, object]:
    """Write the adapter at its dose; one as it was trained is copied."""
    trained = run_folder.stage(training.stage("train")) / ADAPTER
    if chosen is None or chosen == PLAIN:
        shutil.copytree(trained, folder, dirs_exist_ok=True)
    else:
        compose_adapters([(trained, chosen)], read_head(model_spec(model)), folder)
    return {}


def applied_dose(run_folder: RunFolder, training: Training | None = None) -> float | None:
    """The dose of a training's adapter (training None: of the run's result); None if it was not settled since the training."""
    name, trained = (training.stage(NAME), training.stage("train")) if training else (NAME, "train")
    record = run_folder.record(name)
    dose = record.settings.get("dose")
    fits = record.inputs.get("train") == run_folder.record(trained).output
    return float(dose) if fits and isinstance(dose, int | float) else None


def chosen_dose(run_folder: RunFolder) -> DoseResult | None:
    """The choice of the dose of a run's result; None if it was not chosen, but is 1. DataError: of another version, or changed."""
    file = _of_dose(run_folder, "dose.json")
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
    """The adapter that a user named (its folder or a run's, else RunError), and the dose asked for, else the run's, else 1;
    says which."""
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
    applied = applied_dose(run_folder)
    if applied is None:
        say(f"{given}: its run settled no dose since the training, so dose 1 is taken; `cda train` goes on from there")
        return adapter, PLAIN
    if "dose" in run_folder.record(NAME).inputs:
        other = "" if applied == PLAIN else "; --dose 1 for plain CDA"
        base = " (dose 0 is the base model as it was)" if applied == 0 else ""
        say(f"{given}: dose {applied:g}, as chosen in that run{other}{base}")
    return adapter, applied


def asked_subjects(
    model: ModelSection, adapter: str | None = None, against: str | None = None, dose: float | None = None
) -> list[Subject]:
    """The subjects of `MODEL [--adapter FOLDER [--dose λ] | --against MODEL2]`; of a run's folder, at its dose. RecipeError:
    options that do not go together. RunError: no adapter's folder, nor a run's with a finished training."""
    problems = []
    if adapter and against:
        problems.append("--adapter and --against: give one of them")
    if dose is not None and adapter is None:
        problems.append("--dose: needs --adapter, of which it is a part")
    if adapter and not model.kind.trainable:
        problems.append(f"--adapter: {model.name_or_path} takes none; an adapter is a sequence classifier's")
    if against and (model.kind.compares or scorer_kind(against).compares):
        problems.append("--against: a judge cannot be one of two; ask each by itself")
    if against and (problem := scorer_kind(against).key_problem(against)):
        problems.append(f"--against: the address {problem} (score.served.api_key_env)")
    if problems:
        raise RecipeError(problems)
    if adapter is not None:
        if dose is not None:
            check_dose(dose)
        return [Subject("before", model), Subject("after", model, *adapter_at(adapter, dose))]
    if against is not None:
        # Revision and permission for remote code are the first model's.
        other = model.model_copy(update={"name_or_path": against, "revision": None, "trust_remote_code": False})
        return [Subject("first", model), Subject("second", other)]
    return [Subject("model", model)]


def check_subject(subject: Subject, settings: ScorerSettings, *, shares: bool = False, singly: bool = False) -> None:
    """Raise CdaError, before anything is scored, if the model or adapter cannot be used, or a setting is missing. `shares`: each
    process of a launch scores texts of its own, with any kind of scorer. `singly`: a model has to reward single answers."""
    scorer = open_scorer(subject, settings)
    if singly and subject.section.kind.compares:
        scorer.as_pointwise()  # whatever else is missing, such as a key
    if problems := scorer.problems():
        raise RunError("\n".join(problems))
    if subject.section.kind.compares and settings.score.judge.by_token and settings.llm.prompts.judge.criteria:
        raise RunError(
            "score.judge.criteria: with score.judge.by_token each criterion takes calls of its own, and only `cda audit` reports "
            "them; set score.judge.criteria=[] here"
        )
    if not subject.section.kind.trainable and world_size() > 1 and not shares:
        raise RunError(f"{subject.name}: {world_size()} processes would each ask it everything; start one")
    if subject.label in ("first", "second") and scorer.compares:
        raise RunError(f"{subject.name}: compares two answers, so it cannot be used with another scorer; use it alone")
    if singly and not subject.section.kind.trainable:
        scorer.as_pointwise()
    if subject.section.kind.trainable:
        spec = model_spec(subject.section)
        config = load_config(spec, compares=not singly and subject.adapter is None)
        heads = head_names(config, spec)
        if subject.adapter is not None:
            check_adapter(subject.adapter, heads)
            if note := check_base(subject.adapter, spec, config):
                say(note)
            if subject.dose != 1:
                plain_config(subject.adapter)
