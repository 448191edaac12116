"""Recipe file + presets + `key=value` overrides -> one validated Recipe, with every mistake reported at once. Later wins:
schema defaults < model preset < data preset < audit preset < recipe file < command line."""

from __future__ import annotations

import re
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import MappingProxyType
from typing import Any, Literal, TypeVar, cast

from pydantic import ValidationError

from cda.biases import Bias, load_bias
from cda.embedded.texts import EMBEDDED_BIASES
from cda.errors import RecipeError, did_you_mean, near
from cda.files.hub import ask_again
from cda.files.paths import is_a_file, near_path
from cda.files.shipped import names_in, recipes_folder
from cda.files.yaml_file import describe_errors, read_yaml_mapping
from cda.prompts import Prompts, load_prompt, ours
from cda.recipe import checks, presets
from cda.recipe.schema import Recipe
from cda.run import MANIFEST, fingerprint
from cda.scorers.kinds import scorer_kind

_QUOTED = 20
NO_SETTINGS: Mapping[str, Any] = MappingProxyType({})
# A discovered bias has no votes: it is taught to make no difference, rather than to be worse.
_FOR_A_BIAS_FILE: dict[str, object] = {
    "model": "embedded",
    "data": "embedded",
    "objectives": ["neutral", "keep"],
    "synthesize": {"supplementary": 100},
}
T = TypeVar("T")
_PROMPTS = {
    "label": ("label", "prompt"),
    "rewrite": ("rewrite", "prompt"),
    "judge": ("score", "judge", "prompt"),
    "grade": ("score", "grade", "prompt"),
}
"""Places of the prompt files."""
Consent = Literal["given", "by question", "by budget"]
"""To spending money: given beforehand, by a question to the user, or by a budget that holds the estimate (from Python)."""


class Opened:
    """Inputs and clients of one run, made on first use. Callers must not change them."""

    def __init__(self) -> None:
        self._made: dict[Hashable, object] = {}

    def once(self, key: Hashable, make: Callable[[], T]) -> T:
        """The object made under this key (its kind, then all that decides it), or made now; an error leaves nothing behind."""
        if key not in self._made:
            self._made[key] = make()
        return cast(T, self._made[key])


@dataclass(frozen=True, slots=True)
class LoadedRecipe:
    """A recipe with its bias files, ready to be planned."""

    path: Path
    """Its file, or its name in messages if there is no file."""
    recipe: Recipe
    biases: tuple[Bias, ...]
    only_audit: bool = False
    """Nothing is trained: one model or judge is measured as it is."""
    consent: Consent = "by question"
    """To spending money: given in advance (`--yes`); by asking the user, as a command does; or, in calls from Python, by a budget."""
    fresh: bool = False
    """What was measured before is measured again (`--fresh`)."""
    brief: bool = False
    """It is one of several that are compared: a terminal has its headline alone."""
    command: tuple[str, ...] = ()
    """Of a quick look at a training: words of the command without its limit."""
    prompts: Prompts = field(default_factory=ours)
    """The LLM's instructions; the judge's with the recipe's own order and place of reasons."""
    notes: tuple[str, ...] = ()
    """Presets that were made for another model or other data; shown with the plan."""
    opened: Opened = field(default_factory=Opened, compare=False, repr=False)
    """Files and models that the run has opened, shared by all copies with other settings."""


def is_recipe(reference: str) -> bool:
    """True for a reference to a recipe (a YAML file, or a shipped one), False for a model."""
    return Path(reference).suffix in (".yaml", ".yml") or is_a_file(recipes_folder() / f"{reference}.yaml")


def find_recipe(reference: str) -> Path:
    """The file of a recipe given by path, by the name of a shipped one, or by the folder of a run; RecipeError if it is neither."""
    path = Path(reference)
    if is_a_file(path / MANIFEST):
        return path / MANIFEST
    for file in (path, recipes_folder() / f"{reference}.yaml"):
        if is_a_file(file):
            return file
    names = names_in(recipes_folder())
    close = near_path(reference)
    hint = f" Did you mean '{close}'?" if close else did_you_mean(path.stem, names)
    raise RecipeError(
        [f"{reference}: no such recipe.{hint} Shipped: {', '.join(names)}; or give the path of a YAML file"]
    )


def load_recipe(
    reference: str,
    overrides: Sequence[str] = (),
    settings: Mapping[str, object] = NO_SETTINGS,
    where: str = "command line",
) -> LoadedRecipe:
    """Resolve a recipe; the folder of a run stands for the settings that it was made with, a bias file for the recipe that debiases it,
    on the embedded model and data unless overridden, which also teaches the contrasts that a discovery left next to it, on
    pairs of its topic, unless `data.contrasts` and `data.topic` say otherwise. Overrides (`section.key=value`) win over the file, the
    nested mapping `settings` over them; RecipeError carries every mistake in all of these, and names the file, or `where` for both of the others."""
    path = find_recipe(reference)
    content = read_yaml_mapping(path)
    if (
        path.name == MANIFEST
    ):  # a run's settings, as they were resolved, are a recipe; its paths are of the current folder
        path, content = Path(reference), presets.without_presets(content.get("recipe") or {})
    if is_bias_content(content):
        bias = _check_bias(path, content)
        content = {"name": content.get("name"), "biases": [str(path)], **_FOR_A_BIAS_FILE}
        more = {"contrasts": str(contrasts_beside(path))} if is_a_file(contrasts_beside(path)) else {}
        more |= {} if bias.topic is None else {"topic": bias.topic}
        if more:
            content["data"] = {"preset": content["data"], **more}
    return _resolved(path, content, overrides, settings, where=where)


def is_bias_content(content: Mapping[Any, Any]) -> bool:
    """Tell a bias file, perhaps with mistakes, from a recipe: by most of its keys."""
    if "biases" in content:
        return False
    of_recipe, of_bias = set(Recipe.model_fields), {"instructions", *Bias.model_fields}
    n_recipe, n_bias = (
        sum(str(key) in names or near(str(key), names) is not None for key in content)
        for names in (of_recipe - set(Bias.model_fields), of_bias - of_recipe)
    )
    return n_bias > n_recipe


def _check_bias(path: Path, content: Mapping[Any, Any]) -> Bias:
    try:
        return load_bias(str(path))
    except RecipeError as error:
        keys = ", ".join(str(key) for key in content if key in Bias.model_fields and key not in Recipe.model_fields)
        raise RecipeError(
            [*error.problems, f"{path}: read as a bias file, for its keys {keys}; a recipe has `biases`"]
        ) from None


def contrasts_beside(bias_file: Path) -> Path:
    """File in which a discovery puts contrasts of a bias: next to its file, under its name."""
    return bias_file.with_name(bias_file.stem + ".contrasts.jsonl")


def load_model_audit(
    target: str, settings: Mapping[str, object], overrides: Sequence[str] = (), where: str = "command line"
) -> LoadedRecipe:
    """An audit of one model or judge (see `scorer_kind`), without a recipe file; overrides win over `settings`, those of
    command-line options in the form of a recipe. RecipeError names `where`, and carries every mistake."""
    base: dict[str, object] = {
        "name": f"audit-{_as_folder(target)}",
        "biases": list(EMBEDDED_BIASES),
        "model": {"name_or_path": target, "precision": "auto", "max_length_tokens": 2048},
        "data": {"pairs": "embedded"},
    }
    if llms := scorer_kind(target).llms(target):
        base["llm"] = {"model": llms[0]}
    asked = presets.merge_layers(base, presets.checked_layer(settings, where, []))
    return _resolved(Path(where), asked, overrides, only_audit=True, where=where)


def _as_folder(target: str) -> str:
    """A model's name as part of a folder's; of a long one its end, and a fingerprint that tells it from others with this end."""
    name = re.sub(r"[^A-Za-z0-9._-]+", "-", target).strip("-.") or "model"
    mark = f"-{fingerprint(target)[:6]}"
    return name if len(name) <= presets.LONGEST_NAME else name[len(mark) - presets.LONGEST_NAME :] + mark


def _resolved(
    path: Path,
    content: Mapping[Any, Any],
    overrides: Sequence[str],
    settings: Mapping[str, object] = NO_SETTINGS,
    only_audit: bool = False,
    where: str = "command line",
) -> LoadedRecipe:
    ask_again()
    problems: list[str] = []
    notes: list[str] = []
    layers = [presets.checked_layer(content, str(path), problems), presets.parse_overrides(overrides, problems)]
    layers.append(presets.checked_layer(settings, str(path), problems))
    own = presets.merge_layers(*layers)
    preset, unknown = presets.preset_layers(own, path, problems)
    fits = presets.fitting(preset, layers, path, problems, notes)
    if "model" in preset and "model" not in fits:
        own["model"] = {
            **own["model"],
            "preset": None,
        }  # the recipe as it was resolved names no preset that it does not use
    preset = fits
    names = own.get("biases", preset.get("biases"))
    merged = {"name": path.stem} | presets.merge_layers(
        presets.joint_alone(preset) if isinstance(names, list) and len(names) > 1 else preset, own
    )
    recipe: Recipe | None = None
    try:
        recipe = Recipe.model_validate(merged)
    except ValidationError as error:
        # Settings that an unknown preset would have made are not a second mistake.
        without = tuple(f"{path}: {section}." for section in unknown)
        problems += [line for line in describe_errors(error, Recipe, str(path)) if not line.startswith(without or "\0")]
    biases = _load_biases(merged.get("biases"), path, problems)
    problems += checks.unknown_train_keys(merged.get("train"), path)
    problems += checks.seed_problems(merged.get("train"), merged.get("seed", 42), only_audit, path)
    prompts = _load_prompts(merged, recipe, path, problems)
    if recipe is not None:
        found = checks.cross_checks(recipe, prompts, biases, only_audit)
        problems += [f"{path}: {problem}" for problem in found]
        problems += checks.misspelt_model(recipe.model.name_or_path)
    for held, problem in checks.written_keys(merged):
        # Another problem with the same setting would quote it.
        problems = [other for other in problems if held[:_QUOTED] not in other] + [f"{path}: {problem}"]
    if problems or recipe is None:
        given = presets.merge_layers(*layers[1:])
        raise RecipeError([_in_its_place(problem, path, layers[0], given, where) for problem in problems])
    return LoadedRecipe(path, recipe, tuple(biases), only_audit, prompts=prompts, notes=tuple(notes))


def _in_its_place(problem: str, path: Path, file: presets.Layer, given: presets.Layer, where: str) -> str:
    """A problem with a setting of the recipe's file; said of `where` if that gave the setting, or a section that the file lacks."""
    said = problem.removeprefix(f"{path}: ")
    value: object = given
    in_file: object = file
    for key in said.split(":")[0].split("."):
        value = value.get(key) if isinstance(value, Mapping) else value
        in_file = in_file.get(key) if isinstance(in_file, Mapping) else in_file
    of_file = value is None or (isinstance(value, Mapping) and in_file is not None)
    return problem if said == problem or of_file else f"{where}: {said}"


def _load_biases(names: object, path: Path, problems: list[str]) -> list[Bias]:
    biases = []
    for name in [names] if isinstance(names, str) else names if isinstance(names, list) else []:
        try:
            biases.append(load_bias(str(name), path.parent))
        except RecipeError as error:
            problems += [f"{path}: biases: {problem}" for problem in error.problems]
    return biases


def _load_prompts(merged: presets.Layer, recipe: Recipe | None, path: Path, problems: list[str]) -> Prompts:
    """The prompt files that a recipe names, the judge's with the recipe's own reasons, orders and criteria; ours for those with
    mistakes."""
    prompts = ours()
    for use, keys in _PROMPTS.items():
        if isinstance(reference := presets.value_at(merged, *keys), str):
            try:
                own = load_prompt(reference, type(getattr(prompts, use)), path.parent)
                prompts = replace(prompts, **{use: own})
            except RecipeError as error:
                problems.extend(f"{path}: {'.'.join(keys)}: {problem}" for problem in error.problems)
    asked = {name: presets.value_at(merged, "score", "judge", name) for name in ("reasons", "orders")}
    said: dict[str, object] = {name: value for name, value in asked.items() if value is not None}
    if recipe is not None and recipe.score.judge.criteria is not None:
        said["criteria"] = recipe.score.judge.criteria
    return replace(prompts, judge=prompts.judge.model_copy(update=said))
