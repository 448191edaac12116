"""The layers of a recipe: presets, its file, and overrides, each laid over the earlier ones."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from cda.embedded.model import ADAPTERS
from cda.errors import RecipeError, did_you_mean
from cda.files.paths import is_a_file
from cda.files.shipped import names_in, recipes_folder
from cda.files.yaml_file import parse_yaml, read_yaml_mapping
from cda.recipe.schema import ModelSection
from cda.training.arguments import PAPER_DEFAULTS, Lora

LONGEST_NAME = 90
_DEEPEST_KEY = 20
Layer = dict[str, Any]
_PRESET_FOLDERS = {"model": "models", "data": "data", "audit": "audit"}
"""In the order in which they are laid over each other; one may name the preset of a later section, as `data/paper.yaml` does."""
_OF_ONES_OWN = {"model": "name_or_path", "data": "pairs", "audit": "contrasts"}


def merge_layers(*layers: Mapping[str, Any]) -> Layer:
    """Deep merge of mappings; anything else is replaced by the later layer."""
    result: Layer = {}
    for layer in layers:
        for key, value in layer.items():
            both = isinstance(value, Mapping) and isinstance(result.get(key), Mapping)
            result[key] = merge_layers(result[key], value) if both else value
    return result


def value_at(settings: object, *keys: str) -> object:
    """The value at a place in nested mappings; None if there is none."""
    for key in keys:
        settings = settings.get(key) if isinstance(settings, Mapping) else None
    return settings


def checked_layer(layer: Mapping[Any, Any], where: str, problems: list[str]) -> Layer:
    """Give `model: NAME`, `data: NAME` and `audit: NAME` their long form, null for no preset; keys that are no words become problems."""
    problems += [f"{where}: {key!r}: keys are words" for key in layer if not isinstance(key, str)]
    return {
        key: {"preset": value} if key in _PRESET_FOLDERS and (value is None or isinstance(value, str)) else value
        for key, value in layer.items()
        if isinstance(key, str)
    }


def without_presets(resolved: Mapping[str, Any]) -> Layer:
    """A resolved recipe without the names of its presets: what they set stands in it, as far as it was used."""
    return {
        section: {key: value for key, value in content.items() if key != "preset"}
        if section in _PRESET_FOLDERS and isinstance(content, Mapping)
        else content
        for section, content in resolved.items()
    }


def parse_overrides(overrides: Sequence[str], problems: list[str]) -> Layer:
    """`section.key=value` words to a nested mapping; values are YAML."""
    result: Layer = {}
    for word in overrides:
        path, equals, raw = word.partition("=")
        keys = path.split(".")
        if not equals or not all(keys) or len(keys) > _DEEPEST_KEY:
            problems.append(f"{word[:LONGEST_NAME]}: an override has the form section.key=value")
            continue
        try:
            # The value of a setting such as llm.api_key_env may be a key.
            value = parse_yaml(raw, path if "key" in path or "url" in path else word[:LONGEST_NAME])
        except RecipeError as error:
            problems += error.problems
            continue
        layer: Layer = {keys[-1]: value}
        for key in reversed(keys[:-1]):
            layer = {key: layer}
        result = merge_layers(result, checked_layer(layer, word, problems))
    return result


def preset_layers(own: Mapping[str, Any], path: Path, problems: list[str]) -> tuple[Layer, list[str]]:
    """The presets that a recipe names, as one layer, and the sections whose preset is unknown."""
    layers: list[Layer] = []
    unknown = []
    for section, folder in _PRESET_FOLDERS.items():
        name = value_at(merge_layers(*layers, own), section, "preset")
        if name is None:
            continue
        preset = _find_preset(str(name), folder, path)
        if preset is None:
            unknown.append(section)
            names = names_in(recipes_folder() / folder)
            problems.append(
                f"{path}: {section}: preset '{name}' is unknown.{did_you_mean(str(name), names)} Known: {', '.join(names)}. "
                f"For one of your own: {section}.{_OF_ONES_OWN[section]}={name if '/' in str(name) else '...'}"
            )
            continue
        try:
            layers.append(checked_layer(read_yaml_mapping(preset), str(preset), problems))
        except RecipeError as error:
            problems += error.problems
    return merge_layers(*layers), unknown


def _find_preset(name: str, folder: str, recipe_path: Path) -> Path | None:
    candidates = [recipe_path.parent / folder / f"{name}.yaml", recipes_folder() / folder / f"{name}.yaml"]
    if name.endswith((".yaml", ".yml")):
        candidates = [Path(name), recipe_path.parent / name]
    return next((candidate for candidate in candidates if is_a_file(candidate)), None)


def fitting(presets: Layer, layers: Sequence[Layer], path: Path, problems: list[str], notes: list[str]) -> Layer:
    """Presets without settings that were made for another model than the named one, each with a note. Given next to each other, model
    and preset are both meant, but for the names of layers; the embedded model's learning rate fits no other all the same."""
    _note_numbers_of_data(presets, layers, notes)
    made_for = value_at(presets, "model", "name_or_path")
    (named_at, name), (preset_at, preset) = (_last_given(layers, "model", key) for key in ("name_or_path", "preset"))
    if made_for is None or name is None or name == made_for or {name, made_for} <= set(ADAPTERS):
        return presets
    if preset_at > named_at:
        problems.append(f"{path}: model={preset}: made for {made_for}, but the model is {name}. Add model.name_or_path={made_for}, "
                        f"or leave model={preset} out")  # fmt: skip
    elif preset_at == named_at and made_for in ADAPTERS:
        problems.append(f"{path}: model={preset}: its learning rate and LoRA targets are made for {made_for} and not for {name}; "
                        f"leave it out, or add model.preset=null: LoRA's layers are then chosen for {name}, and train.learning_rate is the default")  # fmt: skip
    elif preset_at == named_at:
        notes.append(
            f"model={preset} is made for {made_for}; its settings are used for {name}, as asked: "
            f"{', '.join(_settings(presets, layers))}. LoRA's layers are chosen for {name}"
        )
        return {**presets, "lora": {key: value for key, value in presets["lora"].items() if key != _LAYERS}}
    else:
        changed = _settings(presets, layers, with_defaults=True)
        notes.append(
            f"the preset model={preset} is made for {made_for}, not for {name}: its settings are left out. Now "
            f"{', '.join(changed) or 'all are the defaults'}"
        )
        return {section: content for section, content in presets.items() if section not in _OF_A_MODEL}
    return presets


_OF_A_MODEL, _LAYERS = ("model", "lora", "train"), "target_modules"


def _settings(presets: Layer, layers: Sequence[Layer], with_defaults: bool = False) -> list[str]:
    """A model preset's settings that no layer gives as well; `with_defaults`: as the defaults that differ, and the preset's behind."""
    defaults: Layer = {
        "model": {name: field.default for name, field in ModelSection.model_fields.items()},
        "lora": Lora().model_dump(),
        "train": PAPER_DEFAULTS,
    }
    said = []
    for section in _OF_A_MODEL:
        for key, value in presets.get(section, {}).items():
            default = value_at(defaults, section, key)
            if key == "name_or_path" or value == default or _last_given(layers, section, key)[0] >= 0:
                continue
            if not with_defaults:
                said += [] if key == _LAYERS else [f"{section}.{key}={value}"]
            elif key == _LAYERS:
                said.append("LoRA's layers are chosen for the model")
            elif default is None:
                said.append(f"{section}.{key} is not set ({value} there)")
            else:
                said.append(f"{section}.{key}={default} ({value} there)")
    return said


def _note_numbers_of_data(presets: Layer, layers: Sequence[Layer], notes: list[str]) -> None:
    """Note that a preset's sizes for its own pairs are kept although the pairs are others."""
    made_for = value_at(presets, "data", "pairs")
    (_, pairs), (_, preset) = (_last_given(layers, "data", key) for key in ("pairs", "preset"))
    section = value_at(merge_layers(*layers), "synthesize")
    given = isinstance(section, Mapping) and "counterfactuals" in section  # null is a value: every eligible pair
    if made_for is not None and pairs not in (None, made_for) and not given:
        notes.append(
            f"the preset data={preset} is made for {made_for}, not for {pairs}: its numbers of pairs are kept; "
            "synthesize.counterfactuals=null takes every eligible pair"
        )


def _last_given(layers: Sequence[Layer], *keys: str) -> tuple[int, Any]:
    """Number of the last layer that gives a setting, and its value; -1 and None if none does."""
    values = [(number, value_at(layer, *keys)) for number, layer in enumerate(layers)]
    return next(((number, value) for number, value in reversed(values) if value is not None), (-1, None))


def joint_alone(presets: Layer) -> Layer:
    """Presets for a recipe of several biases: numbers for `joint` in place of those for a bias by itself, so that a bias's own
    number is one that the recipe or the command line gave, and wins."""
    synthesize = presets.get("synthesize")
    if not isinstance(synthesize, Mapping):
        return presets
    counts = {
        setting: {"joint": count["joint"]} if isinstance(count, Mapping) and "joint" in count else count
        for setting, count in synthesize.items()
    }
    return {**presets, "synthesize": counts}
