"""Prompt files: an LLM's instructions for labels, rewrites or verdicts, one YAML file each, with placeholders in braces."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, partial
from pathlib import Path
from typing import Annotated, Literal, TypeVar

from pydantic import AfterValidator, BaseModel, ConfigDict

from cda.errors import did_you_mean
from cda.files.yaml_file import find_yaml, read_model, shipped_names

_PLACE = re.compile(r"\{\{(\w+)\}\}|\{(\w+)\}")


def check_places(text: str, needed: Collection[str], known: Collection[str]) -> str:
    """The text without white space around it; ValueError if it is empty, lacks a needed placeholder or has an unknown one.

    Placeholders stand in braces; `{{word}}` stands for `{word}` itself.
    """
    names = places(text)
    problems = [] if text.strip() else ["holds no text"]
    if missing := [name for name in needed if name not in names]:
        problems.append(f"needs {_braced(missing)}")
    problems += [
        f"unknown placeholder {{{name}}}.{did_you_mean(name, known)} Known here: {_braced(known) or 'none'} "
        f"(write {{{{{name}}}}} for the braces themselves)"
        for name in dict.fromkeys(names)
        if name not in known
    ]
    if problems:
        raise ValueError("; ".join(problems))
    return text.strip()


def places(text: str) -> list[str]:
    """Names of the placeholders, in their order."""
    return [match[2] for match in _PLACE.finditer(text) if match[2]]


def filled(text: str, values: Mapping[str, str]) -> str:
    """The text with its placeholders filled in; a paragraph whose placeholders are all empty is left out.

    Values are put in as they are: braces in them stay braces.

    >>> filled("{message}\\n\\nEdit: {edit} as {{json}}", {"message": "", "edit": "Say {message}."})
    'Edit: Say {message}. as {json}'
    """
    kept = [part for part in text.split("\n\n") if not places(part) or any(values[name] for name in places(part))]
    return _PLACE.sub(lambda match: values[match[2]] if match[2] else f"{{{match[1]}}}", "\n\n".join(kept))


def with_sentences(text: str, values: Mapping[str, str], sentences: Sequence[str]) -> str:
    """The filled text; of `sentences`, those for which it has no placeholder are put at its end."""
    own = places(text)
    return " ".join([filled(text, values), *(values[name] for name in sentences if name not in own)])


def _braced(names: Collection[str]) -> str:
    return ", ".join(f"{{{name}}}" for name in names)


OURS = "ours"
"""Name of the default prompt of each kind."""
_FOLDER = Path(__file__).parent
_OF_A_BIAS = ("bias", "description")


def _with(needed: tuple[str, ...], *others: str) -> AfterValidator:
    check: Callable[[str], str] = partial(check_places, needed=needed, known=(*needed, *others))
    return AfterValidator(check)


class _PromptPart(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


_LabelSystem = Annotated[str, _with((), "markers", *_OF_A_BIAS)]


class LabelPair(_PromptPart):
    """Two responses of a pair in one question."""

    system: _LabelSystem
    user: Annotated[str, _with(("response_1", "response_2", "questions"), "user_message", *_OF_A_BIAS)]


class LabelSingle(_PromptPart):
    """One response by itself, as the gate and triples ask."""

    system: _LabelSystem
    user: Annotated[str, _with(("response", "questions"), "user_message", *_OF_A_BIAS)]


class LabelPrompt(_PromptPart):
    """The prompt of a labelling LLM."""

    pair: LabelPair
    single: LabelSingle
    reasons: Literal["before", "none"] = "before"
    """`before`: a few sentences of reasons before the answers."""


class RewritePrompt(_PromptPart):
    """The prompt of a rewriting LLM."""

    system: Annotated[str, _with((), "markers", "form", *_OF_A_BIAS)]
    user: Annotated[str, _with(("response", "instruction"), "user_message", "keep", "length", *_OF_A_BIAS)]


class JudgePrompt(_PromptPart):
    """The prompt of a judge, and how it is asked if the recipe does not say."""

    system: Annotated[str, _with((), "markers", "form")]
    user: Annotated[str, _with(("user_message", "answer_1", "answer_2"))]
    reasons: Literal["before", "after", "none"] = "before"
    """Place of the judge's reasons: before the verdict, after it, or none at all."""
    orders: Literal["both", "one"] = "both"
    """`both`: each comparison is asked with either answer first; `one`: once, with the first answer drawn."""


@dataclass(frozen=True, slots=True)
class Prompts:
    """The prompts of a recipe."""

    label: LabelPrompt
    rewrite: RewritePrompt
    judge: JudgePrompt


_Prompt = TypeVar("_Prompt", LabelPrompt, RewritePrompt, JudgePrompt)
_FOLDERS: dict[type[BaseModel], str] = {LabelPrompt: "label", RewritePrompt: "rewrite", JudgePrompt: "judge"}


def shipped_prompts(kind: type[_Prompt]) -> list[str]:
    """Names of the prompts of a kind that are shipped with the package."""
    return shipped_names(_FOLDER / _FOLDERS[kind])


@cache
def ours() -> Prompts:
    """The default prompts."""
    return Prompts(load_prompt(OURS, LabelPrompt), load_prompt(OURS, RewritePrompt), load_prompt(OURS, JudgePrompt))


def load_prompt(reference: str, kind: type[_Prompt], base_folder: Path | None = None) -> _Prompt:
    """Load a prompt by the name of a shipped one, or by the path of a YAML file (relative to base_folder or the current one).

    RecipeError: unknown name, missing file, or every mistake in the file.
    """
    known = "Shipped: {names}; or give the path of a prompt file (.yaml)"
    return read_model(find_yaml(reference, _FOLDER / _FOLDERS[kind], base_folder, "prompt", known), kind)
