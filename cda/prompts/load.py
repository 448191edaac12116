"""The fields of prompt files, and loading one by name or by path."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache, partial
from pathlib import Path
from typing import Annotated, Literal, TypeVar

from pydantic import AfterValidator, BaseModel, ConfigDict, ValidationError

from cda.errors import RecipeError, did_you_mean
from cda.files.paths import is_a_file
from cda.files.problems import describe
from cda.files.yaml_file import read_yaml_mapping
from cda.prompts.fill import check_places

OURS = "ours"
"""Name of the default prompt of each kind."""
_FOLDER = Path(__file__).parent
_OF_A_BIAS = ("bias", "description")


def _with(needed: tuple[str, ...], *others: str) -> AfterValidator:
    check: Callable[[str], str] = partial(check_places, needed=needed, known=(*needed, *others))
    return AfterValidator(check)


class _Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


_LabelSystem = Annotated[str, _with((), "markers", *_OF_A_BIAS)]


class LabelPair(_Strict):
    """Two responses of a pair in one question."""

    system: _LabelSystem
    user: Annotated[str, _with(("response_1", "response_2", "questions"), "user_message", *_OF_A_BIAS)]


class LabelSingle(_Strict):
    """One response by itself, as the gate and triples ask."""

    system: _LabelSystem
    user: Annotated[str, _with(("response", "questions"), "user_message", *_OF_A_BIAS)]


class LabelPrompt(_Strict):
    """What an LLM is told when it labels."""

    pair: LabelPair
    single: LabelSingle
    reasons: Literal["before", "none"] = "before"
    """Whether it thinks in a few sentences before it answers."""


class RewritePrompt(_Strict):
    """What an LLM is told when it rewrites."""

    system: Annotated[str, _with((), "markers", "form", *_OF_A_BIAS)]
    user: Annotated[str, _with(("response", "instruction"), "user_message", "keep", "length", *_OF_A_BIAS)]


class JudgePrompt(_Strict):
    """What an LLM is told when it judges, and how it is asked where the recipe does not say."""

    system: Annotated[str, _with((), "markers", "form")]
    user: Annotated[str, _with(("user_message", "answer_1", "answer_2"))]
    reasons: Literal["before", "after", "none"] = "before"
    """Where the judge explains its verdict: before it, after it, or not at all."""
    orders: Literal["both", "one"] = "both"
    """Whether each comparison is asked with either answer first, or once, with the first one drawn."""


@dataclass(frozen=True, slots=True)
class Prompts:
    """The prompts of a recipe."""

    label: LabelPrompt
    rewrite: RewritePrompt
    judge: JudgePrompt


_Prompt = TypeVar("_Prompt", LabelPrompt, RewritePrompt, JudgePrompt)
_FOLDERS: dict[type[BaseModel], str] = {LabelPrompt: "label", RewritePrompt: "rewrite", JudgePrompt: "judge"}


def shipped_names(kind: type[_Prompt]) -> list[str]:
    """Names of the prompts of a kind that are shipped with the package."""
    return sorted(path.stem for path in (_FOLDER / _FOLDERS[kind]).glob("*.yaml"))


@cache
def ours() -> Prompts:
    """The default prompts."""
    return Prompts(load_prompt(OURS, LabelPrompt), load_prompt(OURS, RewritePrompt), load_prompt(OURS, JudgePrompt))


def load_prompt(reference: str, kind: type[_Prompt], base_folder: Path | None = None) -> _Prompt:
    """Load a prompt by the name of a shipped one, or by the path of a YAML file (relative to base_folder or the current one).

    Raises:
        RecipeError: Unknown name, missing file, or every mistake in the file.
    """
    path = _find(reference, kind, base_folder)
    try:
        return kind.model_validate(read_yaml_mapping(path))
    except ValidationError as error:
        raise RecipeError(describe(error, kind, str(path))) from None


def _find(reference: str, kind: type[_Prompt], base_folder: Path | None) -> Path:
    names = shipped_names(kind)
    if reference in names:
        return _FOLDER / _FOLDERS[kind] / f"{reference}.yaml"
    if not reference.endswith((".yaml", ".yml")) and "/" not in reference:
        raise RecipeError(
            [
                f"prompt '{reference}' is unknown.{did_you_mean(reference, names)} Shipped: {', '.join(names)}; or give the "
                "path of a prompt file (.yaml)"
            ]
        )
    candidates = [Path(reference)]
    if base_folder is not None and not Path(reference).is_absolute():
        candidates.append(base_folder / reference)
    for candidate in candidates:
        if is_a_file(candidate):
            return candidate
    raise RecipeError([f"prompt file {reference}: no such file"])
