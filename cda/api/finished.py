"""Finished runs in the place of a model or adapter: their settings, base and adapter."""

from __future__ import annotations

from os import PathLike
from pathlib import Path
from typing import Any

from cda.api.results import Audit, Run
from cda.errors import RunError
from cda.files.paths import user_path
from cda.jobs.options import Model
from cda.recipe.presets import merge_layers, without_presets
from cda.run import RunFolder
from cda.scorers.own_code import MEMORY

_SCORING = ("max_length_tokens", "precision", "reads", "head", "template_date")
"""Settings of a model that decide the scores of given files."""


def of_run(
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


def as_the_run(
    settings: dict[str, object], model: Model, adapter: str | Path | None
) -> tuple[dict[str, object], Model, str | Path | None]:
    """Settings over those of the finished run that the model is, with its base and adapter; of a run that an adapter is of, over how
    its texts were scored, since both are measured as they were trained. Anything else as it is; errors as of `of_run`."""
    asked, model, held = of_run(model, adapter)
    if not asked and isinstance(adapter, str | PathLike):
        place = user_path(str(adapter))
        of_it = (RunFolder(folder).record("train").settings.get("model") for folder in (place, *place.parents[:2]))
        section = next((found for found in of_it if isinstance(found, dict)), {})
        how = {key: section[key] for key in _SCORING if section.get(key) is not None}
        asked = {"model": how} if how else {}
    return merge_layers(asked, settings), model, held


def as_audited(settings: dict[str, object], target: Model) -> tuple[dict[str, object], Model]:
    """Settings over those of a finished audit of a model as it is, by its folder, and that model; anything else as it is."""
    run = RunFolder(user_path(str(target))) if isinstance(target, str | PathLike) else None
    if run is None or run.record("train") or not run.record("audit"):
        return settings, target
    recipe = without_presets(run.manifest().recipe)
    name = str(recipe.get("model", {}).get("name_or_path", MEMORY))
    return (settings, target) if name.startswith(MEMORY) else (merge_layers(recipe, settings), name)
