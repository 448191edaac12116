"""What a command asks: one model, a model before and after an adapter, or two models beside each other."""

from __future__ import annotations

from cda.config.load import LoadedRecipe
from cda.config.schema import ModelSection
from cda.config.scoring import bare_name, kind_of
from cda.errors import RecipeError, RunError
from cda.keys import address_problem
from cda.launch import world_size
from cda.models.load import check_adapter, head_names, load_config
from cda.score.own import OwnPairwise
from cda.stages.applied import adapter_at
from cda.stages.scorer_kinds import Function, Subject
from cda.stages.scorers import open_scorer
from cda.stages.sources import model_spec
from cda.training.adapter import adapter_config
from cda.training.dose import check_dose


def asked_subjects(
    model: ModelSection, adapter: str | None = None, against: str | None = None, dose: float | None = None
) -> list[Subject]:
    """The subjects of `MODEL [--adapter FOLDER [--dose λ] | --against MODEL2]`; of a run's folder, at the run's dose.

    Raises:
        RecipeError: Options that do not go together.
        RunError: The folder is neither an adapter's nor a run's with a finished training.
        DataError: No such dose.
    """
    problems = []
    if adapter and against:
        problems.append("--adapter and --against: give one of them")
    if dose is not None and adapter is None:
        problems.append("--dose: needs --adapter, of which it is a part")
    if adapter and kind_of(model.name_or_path) != "classifier":
        problems.append(f"--adapter: {model.name_or_path} takes none; an adapter is a sequence classifier's")
    if against and "judge" in {kind_of(model.name_or_path), kind_of(against)}:
        problems.append("--against: a judge cannot be one of two; ask each by itself")
    if against and kind_of(against) == "served" and (problem := address_problem(bare_name(against))):
        problems.append(f"--against: the address {problem} (score.served.api_key_env)")
    if problems:
        raise RecipeError(problems)
    if adapter is not None:
        if dose is not None:
            check_dose(dose)
        return [Subject("before", model), Subject("after", model, *adapter_at(adapter, dose))]
    if against is not None:
        # What was allowed and pinned is the first model's.
        other = model.model_copy(update={"name_or_path": against, "revision": None, "trust_remote_code": False})
        return [Subject("first", model), Subject("second", other)]
    return [Subject("model", model)]


def check_subject(subject: Subject, loaded: LoadedRecipe) -> None:
    """Find what can be found wrong before anything is scored.

    Raises:
        CdaError: The model or adapter cannot be used, or a setting is missing.
    """
    scorer = open_scorer(subject.section, loaded)
    if problems := scorer.problems():
        raise RunError("\n".join(problems))
    kind = kind_of(subject.name)
    if kind != "classifier" and world_size() > 1:
        raise RunError(f"{subject.name}: {world_size()} processes would each ask it everything; start one")
    if isinstance(scorer, Function) and subject.label in ("first", "second") and isinstance(scorer.own, OwnPairwise):
        raise RunError(
            f"{subject.name}: compares two answers, so that it cannot stand beside another scorer; ask it alone"
        )
    if kind != "classifier":
        return
    spec = model_spec(subject.section)
    heads = head_names(load_config(spec), spec)
    if subject.adapter is not None:
        check_adapter(subject.adapter, heads)
        if subject.dose != 1:
            adapter_config(subject.adapter)
