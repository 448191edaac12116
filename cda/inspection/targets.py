"""Targets of `cda inspect`: a run, a file of triples, a recipe, or a bias; and which options go with which."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from cda.biases import builtin_names
from cda.counterfactuals import synthesize
from cda.data.load import FILE_TYPES
from cda.errors import CdaError, RecipeError, RunError, did_you_mean
from cda.files.paths import user_path
from cda.files.yaml_file import read_yaml_mapping
from cda.inspection.sources import SourcedRewrites, has_rewrites, rewrites_of_file, rewrites_of_run
from cda.recipe.load import LoadedRecipe, find_recipe, is_bias_content, is_recipe, load_model_audit, load_recipe
from cda.recipe.sections import kind_of
from cda.run import RunFolder

WORST = ("reward", "drift", "failed")
_FOLDER = "runs/inspect"  # folder next to which caches of requests outside a run are stored


@dataclass(frozen=True, slots=True)
class InspectOptions:
    """Options of `cda inspect`, as its help explains them; `model` `none` asks none, and None takes a recipe's own or kept rewards."""

    n: int = 8
    bias: tuple[str, ...] = ()
    seed: int = 42
    worst: str | None = None
    model: str | None = None
    responses: str | None = None
    fresh: bool = False
    most: int = 200
    html: str | None = None
    confirmed: bool = False


@dataclass(frozen=True, slots=True)
class InspectionTarget:
    """Rewrites that are there, or a recipe by which to make some; and the settings of the model whose rewards are shown."""

    material: SourcedRewrites | None
    loaded: LoadedRecipe | None
    scored_by: LoadedRecipe | None


def check_options(options: InspectOptions) -> None:
    counts = {"n": options.n, "most": options.most}
    problems = [f"--{name} {value}: 1 or more is needed" for name, value in counts.items() if value < 1]
    if options.worst is not None and options.worst not in WORST:
        problems.append(f"--worst {options.worst}: there are {', '.join(WORST)}.{did_you_mean(options.worst, WORST)}")
    if options.worst == "reward" and options.model == "none":
        problems.append("--worst reward: needs rewards, and --model none asks for none")
    if options.html is not None and (user_path(options.html).is_dir() or not user_path(options.html).parent.is_dir()):
        problems.append(f"--html {options.html}: name a file in a folder that exists, such as inspect.html")
    if problems:
        raise RecipeError(problems)


def resolved(target: str, overrides: Sequence[str], options: InspectOptions) -> InspectionTarget:
    path = user_path(target)
    if path.is_dir() or path.suffix in FILE_TYPES:
        _check_nothing_to_rewrite(target, overrides, options)
        if not path.is_dir():
            material = rewrites_of_file(target, options.bias)
            return InspectionTarget(material, None, _named_model(options, _FOLDER, overrides))
        material = _of_biases(rewrites_of_run(path), options.bias)
        return InspectionTarget(material, None, _named_model(options, str(path), overrides))
    if _is_bias(target):
        return _together(None, _of_bias_alone(target, overrides, options), _named_model(options, _FOLDER, overrides))
    if not is_recipe(target):
        names = builtin_names()
        raise RunError(
            f"{target}: no run folder, no file of triples ({', '.join(FILE_TYPES)}), no recipe and no bias."
            f"{did_you_mean(target, names)} Biases: {', '.join(names)}; or the path of a bias file"
        )
    loaded = replace(load_recipe(target, overrides), confirmed=options.confirmed)
    folder = RunFolder(loaded.recipe.run_path)
    scored_by = _named_model(options, str(folder.path), overrides)
    own = loaded if options.model is None else None
    if options.fresh or options.responses or not has_rewrites(folder):
        return _together(None, _with_biases(loaded, options.bias), scored_by or own)
    material = _of_biases(rewrites_of_run(folder.path), options.bias)
    try:
        changed = folder.why_redo(synthesize.stage(loaded, folder))
    except CdaError:
        changed = None
    if changed:
        note = f"The recipe has changed since these rewrites were made ({changed}); --fresh makes new ones"
        material.notes.append(note)
    return _together(material, loaded, scored_by or (own if material.scored_by is None else None))


def _together(
    material: SourcedRewrites | None, loaded: LoadedRecipe, scored_by: LoadedRecipe | None
) -> InspectionTarget:
    """A target whose rewriter and scoring model share one budget and one count of requests."""
    return InspectionTarget(material, loaded, scored_by and replace(scored_by, opened=loaded.opened))


def recipe_of(target: str, overrides: Sequence[str], options: InspectOptions) -> LoadedRecipe:
    """The recipe of a target of which no run is looked at: a recipe, a bias, or `judge:NAME`; RunError for anything else."""
    if kind_of(target) == "judge":
        return load_model_audit(target, {"run": {"folder": _FOLDER}}, overrides)
    if user_path(target).is_dir() or not (_is_bias(target) or is_recipe(target)):
        known = builtin_names()
        raise RunError(
            f"{target}: no recipe, no bias and no judge:NAME, whose prompts could be shown.{did_you_mean(target, known)} Biases: "
            f"{', '.join(known)}; or the path of a bias file or a recipe"
        )
    if _is_bias(target):
        return _of_bias_alone(target, overrides, options)
    return _with_biases(load_recipe(target, overrides), options.bias)


def _of_bias_alone(target: str, overrides: Sequence[str], options: InspectOptions) -> LoadedRecipe:
    settings = {"name": "inspect", "biases": [target], "run": {"folder": _FOLDER}}
    loaded = replace(load_model_audit("embedded", settings, overrides), confirmed=options.confirmed)
    return _with_biases(loaded, options.bias)


def _is_bias(target: str) -> bool:
    """True if a target is a bias file, or the name of a built-in bias that is no recipe's name too."""
    if not is_recipe(target):
        return target in builtin_names()
    return is_bias_content(read_yaml_mapping(find_recipe(target)))


def _check_nothing_to_rewrite(target: str, overrides: Sequence[str], options: InspectOptions) -> None:
    problems = []
    if options.responses:
        problems.append(
            f"--responses: {target} holds rewrites already; give a recipe or a bias to rewrite these responses"
        )
    if options.fresh:
        problems.append(f"--fresh: {target} says only what was rewritten; give a recipe or a bias")
    if overrides and options.model in (None, "none"):
        problems.append(f"{overrides[0]}: has no effect when nothing is rewritten and no --model is given")
    if problems:
        raise RecipeError(problems)


def _named_model(options: InspectOptions, folder: str, overrides: Sequence[str]) -> LoadedRecipe | None:
    """Settings of the model of --model, with the overrides about models; those with another model's name are left out."""
    target = options.model
    if target is None or target == "none":
        return None
    names = ("model.name_or_path=", *(("llm.model=",) if kind_of(target) == "judge" else ()))
    words = [word for word in overrides if word.startswith(("score.", "llm.", "model.")) and not word.startswith(names)]
    return replace(load_model_audit(target, {"run": {"folder": folder}}, words), confirmed=options.confirmed)


def _with_biases(loaded: LoadedRecipe, names: Sequence[str]) -> LoadedRecipe:
    _check_biases(names, [bias.name for bias in loaded.biases], str(loaded.path))
    return replace(loaded, biases=tuple(bias for bias in loaded.biases if not names or bias.name in names))


def _of_biases(material: SourcedRewrites, names: Sequence[str]) -> SourcedRewrites:
    known = list(material.biases)
    _check_biases(names, known, material.where)
    rewrites = [rewrite for rewrite in material.rewrites if not names or rewrite.bias in names]
    if not rewrites:
        raise RunError(f"{material.where}: no rewrite of {', '.join(names or known)} was kept")
    lost = [(bias, failures) for bias, failures in material.lost if not names or bias in names]
    return replace(material, rewrites=rewrites, lost=lost)


def _check_biases(names: Sequence[str], known: Sequence[str], where: str) -> None:
    problems = [
        f"--bias {name}: no bias of {where}.{did_you_mean(name, known)} Its biases: {', '.join(known)}"
        for name in names
        if name not in known
    ]
    if problems:
        raise RecipeError(problems)
