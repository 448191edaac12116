"""Explanations of the settings of a recipe, from its schema: for `cda config`, completion and docs/reference/settings.md."""

from __future__ import annotations

import dataclasses
import textwrap
import types
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Annotated, Any, Literal, Union, get_args, get_origin

import yaml
from pydantic import BaseModel
from pydantic.fields import FieldInfo
from pydantic_core import PydanticUndefined

from cda.errors import RecipeError, did_you_mean
from cda.files.shipped import recipes_folder
from cda.files.yaml_file import read_yaml_mapping
from cda.recipe.checks import USUAL_TRAIN_KEYS
from cda.recipe.presets import checked_layer, value_at
from cda.recipe.schema import SEEDS, Recipe
from cda.results.commands import SectionInfo, SettingInfo
from cda.terminal import quiet_libraries
from cda.training.arguments import PAPER_DEFAULTS

_TRAIN = "train"
_SHIPPED = ("*.yaml", "models/*.yaml", "data/*.yaml", "audit/*.yaml")
Section = type[BaseModel]


def explained(key: str) -> SettingInfo | SectionInfo:
    """A setting, or a section with its settings; the whole recipe for an empty key. RecipeError for an unknown key."""
    found = _schema().get(key)
    if isinstance(found, FieldInfo):
        return _setting_info(key, found)
    if found is not None:
        return _section_info(key, found)
    section, _, name = key.partition(".")
    return _of_trainer(name) if section == _TRAIN and name else _unknown(key)


def _unknown(key: str) -> SettingInfo:
    known = every_setting()
    ending = [name for name in known if name.endswith(f".{key}")]
    hint = f" Did you mean {' or '.join(repr(name) for name in ending)}?" if ending else did_you_mean(key, known)
    raise RecipeError([f"{key}: no such setting.{hint} `cda config` lists the sections"])


def explained_text(info: SettingInfo | SectionInfo) -> str:
    if isinstance(info, SettingInfo):
        rows = {"type": "" if info.allowed else info.type, "allowed": ", ".join(info.allowed), "default": info.default}
        lines = [
            info.key,
            *(f"  {name:8} {value}" for name, value in rows.items() if value),
            "",
            *_wrapped(info.meaning),
        ]
        set_by = [f"  {where:24} {value}" for where, value in info.set_by.items()]
        return "\n".join([*lines, *(["", "  set by"] if set_by else []), *set_by])
    head = [
        info.section
        or "Sections and settings of a recipe; `cda config SECTION` lists one, `cda config KEY` explains one."
    ]
    names = {**{setting.key: setting.meaning for setting in info.settings}, **info.sections}
    width = max(map(len, names))
    meaning = ["", *_wrapped(info.meaning)] if info.section and info.meaning else []
    return "\n".join([*head, *meaning, "", *(f"  {name:{width}}  {_first(text)}" for name, text in names.items())])


def _wrapped(text: str) -> list[str]:
    return textwrap.wrap(text, 98, initial_indent="  ", subsequent_indent="  ", break_long_words=False)


def _first(text: str) -> str:
    """First sentence."""
    first, stop, _ = text.partition(". ")
    return f"{first}." if stop else first


@cache
def every_setting() -> tuple[str, ...]:
    """Every key of a recipe, with the usual ones of `train`."""
    train = sorted({*USUAL_TRAIN_KEYS, SEEDS})
    return (*(info for info in _settings() if info != _TRAIN), *(f"{_TRAIN}.{name}" for name in train))


def all_settings() -> Iterator[SettingInfo]:
    """Every key of the schema, explained."""
    return (_setting_info(key, field) for key, field in _settings().items())


def _settings() -> dict[str, FieldInfo]:
    return {key: found for key, found in _schema().items() if isinstance(found, FieldInfo)}


@cache
def _schema() -> dict[str, Section | FieldInfo]:
    """Key to section or setting, the recipe itself first, with an empty key."""

    def below(prefix: str, section: Section) -> Iterator[tuple[str, Section | FieldInfo]]:
        yield prefix, section
        fields = {f"{prefix}.{name}".lstrip("."): field for name, field in section.model_fields.items()}
        inner = {key: own for key, field in fields.items() if (own := _section(field.annotation)) is not None}
        yield from ((key, field) for key, field in fields.items() if key not in inner)
        for key, own in inner.items():
            yield from below(key, own)

    return dict(below("", Recipe))


def _section(annotation: object) -> Section | None:
    """The section that a field holds, by itself or in a list."""
    options = get_args(annotation) if get_origin(annotation) in (types.UnionType, list) else (annotation,)
    return next((kind for kind in options if isinstance(kind, type) and issubclass(kind, BaseModel)), None)


def _section_info(key: str, section: Section) -> SectionInfo:
    own = {name: found for name, found in _schema().items() if name and name.rpartition(".")[0] == key}
    return SectionInfo(
        section=key,
        meaning=_words(section.__doc__),
        settings=tuple(_setting_info(name, found) for name, found in own.items() if isinstance(found, FieldInfo)),
        sections={name: _words(found.__doc__) for name, found in own.items() if not isinstance(found, FieldInfo)},
    )


def _setting_info(key: str, field: FieldInfo) -> SettingInfo:
    undefined = "required" if field.is_required() else "empty"
    return SettingInfo(
        key=key,
        type=type_words(field.annotation),
        default=undefined if field.default is PydanticUndefined else _yaml(field.default),
        allowed=_literals(field.annotation),
        meaning=_words(field.description) or key.rpartition(".")[2],
        set_by=_set_by(key),
    )


def _of_trainer(name: str) -> SettingInfo:
    """A field of trl.RewardConfig, with our default if there is one."""
    if name == SEEDS:
        meaning = _words(Recipe.model_fields[_TRAIN].description)
        return SettingInfo(key=f"{_TRAIN}.{SEEDS}", type="int | list[int]", default="1", meaning=meaning)
    quiet_libraries()
    from trl import RewardConfig  # late: takes seconds

    fields = {field.name: field for field in dataclasses.fields(RewardConfig) if field.init}
    if name not in fields:
        raise RecipeError([f"{_TRAIN}.{name}: not a field of trl.RewardConfig.{did_you_mean(name, sorted(fields))}"])
    field = fields[name]
    own = PAPER_DEFAULTS.get(name, field.default if field.default is not dataclasses.MISSING else "set by TRL")
    return SettingInfo(
        key=f"{_TRAIN}.{name}",
        type=str(getattr(field.type, "__name__", field.type)).replace("typing.", ""),
        default=_yaml(own),
        meaning=_words(str(field.metadata.get("help", ""))) or "A field of trl.RewardConfig.",
        set_by=_set_by(f"{_TRAIN}.{name}"),
    )


def _set_by(key: str) -> dict[str, str]:
    """Shipped recipes and presets that set a key, with the value."""
    values = {name: value_at(layer, *key.split(".")) for name, layer in _layers().items()}
    return {name: _yaml(value) for name, value in values.items() if value is not None}


@cache
def _layers() -> dict[str, dict[str, Any]]:
    folder = recipes_folder()
    files = [path for pattern in _SHIPPED for path in sorted(folder.glob(pattern))]
    return {_preset_name(path, folder): checked_layer(read_yaml_mapping(path), str(path), []) for path in files}


def _preset_name(path: Path, folder: Path) -> str:
    """`model=llama-8b` for a preset, the file for a recipe."""
    if path.parent == folder:
        return f"recipes/{path.name}"
    return f"{path.parent.name.removesuffix('s') if path.parent.name == 'models' else path.parent.name}={path.stem}"


def _yaml(value: object) -> str:
    """A value as it is written in a recipe, in one line."""
    if isinstance(value, float):
        return repr(value)
    if isinstance(value, BaseModel):
        value = value.model_dump(mode="json")
    if isinstance(value, list | tuple):
        value = [
            item.model_dump(mode="json", exclude_defaults=True) if isinstance(item, BaseModel) else item
            for item in value
        ]
    return (
        yaml.safe_dump(value, default_flow_style=True, width=10_000, allow_unicode=True).removesuffix("...\n").strip()
    )


def _words(text: str | None) -> str:
    return " ".join((text or "").split())


def _literals(annotation: object) -> tuple[str, ...]:
    """Allowed words of a type that allows only words, and null."""
    if get_origin(annotation) is Annotated:
        return _literals(get_args(annotation)[0])
    if get_origin(annotation) is Literal:
        return tuple(map(str, get_args(annotation)))
    if get_origin(annotation) in (types.UnionType, Union):
        parts = [("null",) if part is type(None) else _literals(part) for part in get_args(annotation)]
        return tuple(word for part in parts for word in part) if all(parts) else ()
    return ()


def type_words(annotation: object) -> str:
    """A type as it is written in code, without modules and checks of the value."""
    if get_origin(annotation) is Annotated:
        return type_words(get_args(annotation)[0])
    if get_origin(annotation) in (types.UnionType, Union):
        return " | ".join(map(type_words, get_args(annotation)))
    if get_origin(annotation) is Literal:
        return " | ".join(map(repr, get_args(annotation)))
    name = getattr(annotation, "__name__", str(annotation)).replace("NoneType", "None")
    inner = ", ".join(map(type_words, get_args(annotation)))
    return f"{name}[{inner}]" if inner else name
