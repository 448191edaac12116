"""YAML files: found by name or path, read safely, validated, with every mistake on its own line."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any, TypeVar, get_args

import yaml
from pydantic import BaseModel, ValidationError

from cda.errors import RecipeError, did_you_mean, near, type_in_words
from cda.files.paths import is_a_file, reading
from cda.files.shipped import names_in

Model = TypeVar("Model", bound=BaseModel)


def find_yaml(reference: str, folder: Path, base_folder: Path | None, kind: str, known: str) -> Path:
    """File of a bias or prompt, by the name of a shipped one in `folder` or by a path (relative to base_folder or the current one).

    In a RecipeError `kind` is `bias` or `prompt`, and `known` a sentence about the known names, which replace its `{names}`.
    """
    names = names_in(folder)
    if reference in names:
        return folder / f"{reference}.yaml"
    if not reference.endswith((".yaml", ".yml")) and "/" not in reference:
        hint = known.format(names=", ".join(names))
        raise RecipeError([f"{kind} '{reference}' is unknown.{did_you_mean(reference, names)} {hint}"])
    for path in (Path(reference), (base_folder or Path()) / reference):
        if is_a_file(path):
            return path
    raise RecipeError([f"{kind} file {reference}: no such file"])


def read_model(path: Path, model: type[Model]) -> Model:
    """A validated YAML file; RecipeError with every mistake in it."""
    return validated(read_yaml_mapping(path), model, path)


def validated(content: dict[Any, Any], model: type[Model], path: Path) -> Model:
    """The content of a YAML file as a model; RecipeError names the file, with every mistake in it."""
    try:
        return model.model_validate(content)
    except ValidationError as error:
        raise RecipeError(describe_errors(error, model, str(path))) from None


def describe_errors(error: ValidationError, model: type[BaseModel], where: str) -> list[str]:
    """One line for each mistake in a validated mapping."""
    lines: dict[tuple[str, ...], str] = {}
    for item in error.errors(include_url=False):
        # If several types are allowed, pydantic reports each that did not fit; one mistake is one line.
        location = _keys_only(item["loc"], model)
        lines.setdefault(location, _line(location, item["type"], item["msg"], item.get("input"), model, where))
    # A part that is wrong makes the whole wrong; the part alone says where.
    return [
        line
        for place, line in lines.items()
        if not place or not any(other[: len(place)] == place for other in lines if len(other) > len(place))
    ]


def _keys_only(location: tuple[int | str, ...], model: type[BaseModel]) -> tuple[str, ...]:
    """The location without the names that pydantic gives to the members of a union."""
    kept: list[str] = []
    for part in map(str, location):
        is_type = re.fullmatch(r"constrained-\w+|dict\[.*\]|list\[.*\]|str|int|float", part)
        if not is_type or part in _fields_at(model, kept):
            kept.append(part)
    return tuple(kept)


def _line(location: tuple[str, ...], kind: str, message: str, value: object, model: type[BaseModel], where: str) -> str:
    path = ".".join(location)
    if kind == "extra_forbidden":
        section = _section_at(model, location[:-1])
        if gone := getattr(section, "gone", {}).get(location[-1]):
            return f"{where}: {path}: {gone}"
        return f"{where}: {unknown_key(path, _fields_at(model, location[:-1]), model)}"
    if kind == "missing":
        return f"{where}: {path}: missing; it has no default"
    message = message.removeprefix("Value error, ").removeprefix("Assertion failed, ")
    message = message[0].lower() + message[1:] if message else "not allowed"
    return f"{where}: {path or '(top level)'}: {message}, found {_short(value)}"


def unknown_key(path: str, known: Sequence[str], model: type[BaseModel]) -> str:
    """A problem with a key, by its dotted path in a model, where others are known."""
    hint = did_you_mean(key := path.rpartition(".")[2], known) or _elsewhere(key, model)
    return f"{path}: unknown key.{hint} Known: {', '.join(known)}"


def _elsewhere(key: str, model: type[BaseModel]) -> str:
    inner = {name: _model_in(field.annotation) for name, field in model.model_fields.items()}
    leaves = [(leaf, f"'{name}.{leaf}'") for name, section in inner.items() if section for leaf in section.model_fields]
    names = {leaf for leaf, _ in leaves}
    close = key if key in names else near(key, names)
    return f" Did you mean {' or '.join(path for leaf, path in leaves if leaf == close)}?" if close else ""


def _section_at(model: type[BaseModel], location: Sequence[str]) -> type[BaseModel] | None:
    current: type[BaseModel] | None = model
    for part in location:
        if current is not None and part in current.model_fields:
            current = _model_in(current.model_fields[part].annotation)
    return current


def _fields_at(model: type[BaseModel], location: Sequence[str]) -> list[str]:
    section = _section_at(model, location)
    return sorted(section.model_fields) if section is not None else []


def _model_in(annotation: object) -> type[BaseModel] | None:
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return annotation
    return next((model for argument in get_args(annotation) if (model := _model_in(argument)) is not None), None)


def _short(value: object, limit: int = 60) -> str:
    try:
        text = repr(value)
    except (ValueError, RecursionError):  # a number of thousands of digits, or nested too deeply
        text = f"{type_in_words(value)} too large to be shown"
    return text if len(text) <= limit else text[: limit - 1] + "…"


MAX_BYTES = 250_000
"""A larger one takes seconds to read; the largest bias file of ours has 50,000."""
MAX_REPEATED = 10_000
"""Values that aliases may stand for in one file, each counted as often as it is meant."""
_LONGEST_NUMBER = 100
NO_TEXT = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f\ud800-\udfff]")


def _refusal(problem: str, mark: yaml.Mark) -> yaml.MarkedYAMLError:
    return yaml.composer.ComposerError(None, None, problem, mark)


class _Loader(yaml.SafeLoader):
    def __init__(self, text: str) -> None:
        super().__init__(text)
        self._sizes: dict[int, int] = {}
        self._repeated = 0

    def compose_node(self, parent: yaml.Node | None, index: int) -> yaml.Node | None:
        mark = self.peek_event().start_mark  # type: ignore[no-untyped-call]
        repeats = self.check_event(yaml.AliasEvent)
        node = super().compose_node(parent, index)
        if repeats:
            # Ten lines of aliases to aliases stand for gigabytes; one within its own value for something without an end.
            size = self._sizes.get(id(node))
            if size is None:
                raise _refusal("an alias (*name) refers to a value that contains it", mark)
            self._repeated += size
            if self._repeated > MAX_REPEATED:
                raise _refusal(f"aliases (*name) stand for more than {MAX_REPEATED:,} values; write them out", mark)
        elif node is not None:
            _check_node(node)
            self._sizes[id(node)] = 1 + sum(self._sizes[id(inner)] for inner in _inside(node))
        return node


def _inside(node: yaml.Node) -> list[yaml.Node]:
    if isinstance(node, yaml.MappingNode):
        return [inner for pair in node.value for inner in pair]
    return list(node.value) if isinstance(node, yaml.SequenceNode) else []


def _check_node(node: yaml.Node) -> None:
    if isinstance(node, yaml.MappingNode):
        seen: set[str] = set()
        for key, _ in node.value:
            if not isinstance(key, yaml.ScalarNode):
                raise _refusal("a key is one word", key.start_mark)
            if key.value in seen:
                raise _refusal(f"key '{key.value}' is given twice", key.start_mark)
            seen.add(key.value)
    elif isinstance(node, yaml.ScalarNode):
        if match := NO_TEXT.search(node.value):
            raise _refusal(f"the character U+{ord(match[0]):04X} is no text", node.start_mark)
        if node.tag == "tag:yaml.org,2002:int" and len(node.value) > _LONGEST_NUMBER:
            raise _refusal("a number of more digits than any use has", node.start_mark)


# YAML 1.1 reads yes, no, on and off as truth values; a column may well be called `no`.
_Loader.yaml_implicit_resolvers = {
    first: [(tag, pattern) for tag, pattern in resolvers if tag != "tag:yaml.org,2002:bool"]
    for first, resolvers in yaml.SafeLoader.yaml_implicit_resolvers.items()
}
_Loader.add_implicit_resolver(
    "tag:yaml.org,2002:bool", re.compile(r"^(?:true|True|TRUE|false|False|FALSE)$"), list("tTfF")
)

# YAML 1.1 reads 2e-5 as a string; everyone who writes a learning rate means the number.
_SCIENTIFIC = re.compile(r"^[-+]?(?:\d+\.?\d*|\.\d+)[eE][-+]?\d+$")
_Loader.add_implicit_resolver("tag:yaml.org,2002:float", _SCIENTIFIC, list("-+0123456789."))


def parse_yaml(text: str, where: str) -> object:
    """Parse YAML text; RecipeError, with line and column, for invalid YAML, a repeated key, or too many repeats by alias."""
    try:
        return yaml.load(text, Loader=_Loader)  # a SafeLoader: no tag makes an object or runs code
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        position = f"{where}:{mark.line + 1}:{mark.column + 1}" if mark else where
        raise RecipeError([f"{position}: not valid YAML: {error.problem or error.context}"]) from None
    except yaml.YAMLError as error:
        raise RecipeError([f"{where}: not valid YAML: {error}"]) from None
    except RecursionError:
        raise RecipeError([f"{where}: a value cannot be read: nested too deeply"]) from None
    except (ArithmeticError, AttributeError, LookupError, TypeError, ValueError) as error:
        # PyYAML's own constructors fail in all these ways if a tag (!!int, !!timestamp) and its value do not fit.
        raise RecipeError([f"{where}: a value cannot be read: {error}"]) from None


def read_yaml_mapping(path: Path) -> dict[str, Any]:
    """Read a file whose top level is a mapping; an empty file is an empty mapping, and anything else a RecipeError."""
    with reading(path, lambda problem: RecipeError([problem])), path.open("rb") as file:
        raw = file.read(MAX_BYTES + 1)
    if len(raw) > MAX_BYTES:
        raise RecipeError([f"{path}: too large; a recipe, bias or prompt file is at most {MAX_BYTES:,} bytes"])
    try:
        text = raw.decode("utf-8")
    except UnicodeDecodeError as error:
        raise RecipeError([f"{path}: not UTF-8 (byte {error.start}); save it as UTF-8"]) from None
    content = parse_yaml(text, str(path))
    if content is None:
        return {}
    if not isinstance(content, dict):
        raise RecipeError([f"{path}: expected `key: value` lines, found {type_in_words(content)}"])
    return content
