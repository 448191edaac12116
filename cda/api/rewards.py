"""The reward of an audit as a function: for reinforcement learning, for best-of-n, and to check one text against a known number."""

from __future__ import annotations

from contextlib import ExitStack
from functools import partial
from os import PathLike
from pathlib import Path
from typing import Any, Unpack

from cda.api.results import Audit, Run
from cda.errors import RecipeError, RunError
from cda.files.paths import user_path
from cda.finetuning.applied import asked_subjects, check_subject
from cda.jobs.options import Model, RewardArguments
from cda.jobs.terms import Terms, declared, loaded_for_model, path_text, refuse_recipe, refuse_results, set_at
from cda.resources.artifacts import shown_path, shown_target
from cda.resources.dry_run import stop_if_dry
from cda.resources.named_scorer import scorer_settings
from cda.resources.reward_function import RewardFunction
from cda.resources.scorers import open_scorer
from cda.run import RunFolder
from cda.scorers.calibrated import Corrector


@declared(RewardArguments)
def reward_function(model: Model | Run | Audit, /, **options: Unpack[RewardArguments]) -> RewardFunction:
    """The reward that an audit measures, as a function (prompts, completions) -> rewards for TRL's GRPO and RLOO and for others.

    It reads texts as the audit does: the same template, truncation, precision, adapter, dose and calibration. In fp32 it gives the
    same rewards; below, they differ by rounding, since a reward depends on its batch there. The model is loaded at once, before
    the policy is; under `accelerate launch` each process loads its own, on its own GPU. With DeepSpeed ZeRO-3 make it before the
    trainer's arguments, which have every model that is loaded later cut into parts.

    Args:
        model: As for `cda.audit`, if it rewards single texts; or a finished run, its folder or result: of a training the base with
            the adapter at the chosen dose, of an audit the audited model, both with the settings of the run.
        settings: By the recipe's names, such as `model={"precision": "bf16"}` or `score={"batch_tokens": 8192}`.

    Returns:
        A callable; its `__name__`, under which trainers log, is the model's or run's.

    Raises:
        RecipeError: A wrong setting, or several; all at once.
        ModelError: A model or adapter that cannot be used, or one that compares two answers.
        CdaError: Base of all of these and of every other error that a user can act on.

    Example:
        >>> import cda
        >>> def longer(prompts, responses):
        ...     return [float(len(response)) for response in responses]
        >>> reward = cda.reward_function(longer)
        >>> reward(["Why?", [{"role": "user", "content": "How?"}]], ["So.", [{"role": "assistant", "content": "Like this."}]])
        [3.0, 10.0]
    """
    terms, again = Terms.of("cda.reward_function", RewardArguments, options), partial(reward_function, model, **options)
    asked, model, adapter = _of_run(model, options["adapter"])
    if problems := [*refuse_results(model), *refuse_recipe(model)]:
        raise RecipeError(problems)
    for section, value in terms.nested().items():
        set_at(asked, section, value)
    with ExitStack() as stack:
        loaded = stack.enter_context(loaded_for_model(model, asked, terms))
        subject = asked_subjects(loaded.recipe.model, path_text(adapter), None, options["dose"])[-1]
        scoring = scorer_settings(loaded)
        check_subject(subject, scoring, shares=True, singly=True)
        named = open_scorer(subject, scoring)
        steps = [f"scores      one text with {subject.name}; writes no file", *named.read_lines()]
        stop_if_dry(loaded, lambda: steps, ("biases", "name"))
        scorer, calibration = named.as_pointwise().text_scorer(), named.calibration()
        name = shown_target(subject.name) if adapter is None else shown_path(str(adapter).rstrip("/"))
        corrector = None if calibration is None else Corrector(calibration)
        return RewardFunction(name.removeprefix("memory:"), scorer, corrector, stack.pop_all(), again)


def _of_run(
    model: Model | Run | Audit, adapter: str | Path | None
) -> tuple[dict[str, object], Model, str | Path | None]:
    """Settings, model and adapter of a finished run; anything else as it is. RunError: a run that names no model."""
    if isinstance(model, Audit) and model.folder is None:
        raise RunError("an audit that was read from a file has no settings: give the folder of its run, or the model")
    asked: Any = model.folder if isinstance(model, Run | Audit) else model
    if not isinstance(asked, str | PathLike):
        return {}, asked, adapter
    place = user_path(str(asked))
    run = RunFolder(place)
    trained = run.record("train")
    if not trained and not run.record("audit"):
        return {}, str(asked), adapter
    recipe = run.manifest().recipe
    section = dict(trained.settings.get("model") or recipe.get("model") or {})
    if "name_or_path" not in section:
        raise RunError(f"{asked}: its manifest.json, which names the model, is missing or damaged. Run it again")
    if not trained:  # the settings of a training name a precision; `auto` may mean another on another machine
        section["precision"] = getattr(Run(place).audit.model, "precision", None) or section.get("precision", "auto")
    section.pop("preset", None)
    held = str(asked) if trained and adapter is None else adapter
    return {"model": section, "score": recipe.get("score", {})}, section["name_or_path"], held
