"""Prompt files: an LLM's instructions for labels, rewrites, verdicts, grades or a new bias, one YAML file each, with placeholders in braces."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, partial
from pathlib import Path
from typing import Annotated, Any, Literal, TypeVar

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    SerializerFunctionWrapHandler,
    model_serializer,
    model_validator,
)

from cda.errors import did_you_mean
from cda.files.shipped import names_in
from cda.files.yaml_file import find_yaml, read_model
from cda.inert import skeleton
from cda.prompts.forms import GradeForm, VerdictForm
from cda.results.facts import JudgeReasons

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


OVERALL = "overall"
"""Name of a judge's verdict on all of an answer, next to its criteria."""
_MOST_CRITERIA = 12
_NAME = re.compile(r"[^\W_][\w -]{0,39}")


def _checked_name(name: str) -> str:
    if not _NAME.fullmatch(name) or not skeleton(name):
        raise ValueError("a name is made of letters, digits, spaces and hyphens, 40 at most")
    return name


def _checked_question(question: str) -> str:
    if not question.strip() or "\n" in question.strip():
        raise ValueError("a question is one line of text; leave it out for our own")
    return question.strip()


class Criterion(_PromptPart):
    """A criterion of a rubric: the judge gives a verdict on it by itself, next to its verdict overall."""

    name: Annotated[str, AfterValidator(_checked_name)]
    question: Annotated[str, AfterValidator(_checked_question)] | None = None
    """One line, such as `Which answer makes fewer false statements?`. null: which answer is better in `name`."""

    @property
    def asked(self) -> str:
        """The question that the judge gets."""
        return self.question or f"Which answer is better in {self.name}?"


def _as_criteria(value: object) -> object:
    listed = value if isinstance(value, list | tuple) else [value]
    if wrong := [item for item in listed if not isinstance(item, str | Mapping | Criterion)]:
        raise ValueError(f"a criterion is a name, or a mapping of name and question; {wrong[0]!r} is neither")
    return [{"name": item} if isinstance(item, str) else item for item in listed]


def _distinct(criteria: tuple[Criterion, ...]) -> tuple[Criterion, ...]:
    names = [skeleton(criterion.name) for criterion in criteria]
    if len(criteria) > _MOST_CRITERIA:
        raise ValueError(f"{len(criteria)} criteria; {_MOST_CRITERIA} at most, since a judge answers all in one reply")
    if twice := next(
        (criterion.name for criterion, name in zip(criteria, names, strict=True) if names.count(name) > 1), None
    ):
        raise ValueError(f"two criteria are called '{twice}'; give each a name of its own")
    if OVERALL in names:
        raise ValueError(f"'{OVERALL}' is the verdict that is asked for in any case; leave it out")
    return criteria


Criteria = Annotated[tuple[Criterion, ...], BeforeValidator(_as_criteria), AfterValidator(_distinct)]
"""A list of names, or of names with questions."""


_AnswerTokens = Annotated[int, Field(ge=1)] | None


class JudgePrompt(_PromptPart):
    """The prompt of a judge, and how it is asked if the recipe does not say."""

    system: Annotated[str, _with((), "markers", "form")]
    user: Annotated[str, _with(("user_message", "answer_1", "answer_2"))]
    reasons: JudgeReasons = "before"
    """Place of the judge's reasons: before the verdict, after it, or none at all."""
    orders: Literal["both", "one"] = "both"
    """`both`: each comparison is asked with either answer first; `one`: once, with the first answer drawn."""
    criteria: Criteria = ()
    """Criteria of a rubric, each with a verdict of its own; none: the verdict overall alone."""
    verdict: VerdictForm | None = None
    """The form of the verdict that the texts above ask for; None: our own, which is asked for in `{form}`."""
    answer_tokens: _AnswerTokens = None
    """Estimated length of an answer, for the plan of costs; None: that of an answer in our own form."""

    @model_validator(mode="after")
    def _one_form(self) -> JudgePrompt:
        if self.verdict is None:
            return self
        if "form" in places(self.system):
            raise ValueError(
                "{form} asks for our own form; with a verdict, write into the text what the judge is to answer"
            )
        if self.criteria:
            raise ValueError("criteria are asked for in our own form; leave out either them or the verdict")
        return self

    @model_serializer(mode="wrap")
    def _without_empty(self, handler: SerializerFunctionWrapHandler) -> dict[str, Any]:
        # A prompt without criteria is the same content as before there were any: finished stages and marks of files stand.
        may_lack = ("criteria", "verdict", "answer_tokens")
        return {name: value for name, value in handler(self).items() if name not in may_lack or value}


class GradePrompt(_PromptPart):
    """The prompt of a judge that grades one answer by itself."""

    system: Annotated[str, _with((), "markers")]
    user: Annotated[str, _with(("user_message", "answer"))]
    grade: GradeForm
    """The form of the grade that the texts above ask for."""
    reasons: JudgeReasons = "before"
    """Place of the judge's reasons: before the grade, after it, or none at all."""
    answer_tokens: _AnswerTokens = None
    """Estimated length of an answer, for the plan of costs; None: that of a sentence or two and the grade."""


class BiasPrompt(_PromptPart):
    """The prompt of an LLM that drafts a bias file from words (`cda bias new`)."""

    system: Annotated[str, _with((), "markers")]
    user: Annotated[str, _with(("words",), "features")]


@dataclass(frozen=True, slots=True)
class Prompts:
    """The prompts of a recipe."""

    label: LabelPrompt
    rewrite: RewritePrompt
    judge: JudgePrompt
    grade: GradePrompt


_Prompt = TypeVar("_Prompt", LabelPrompt, RewritePrompt, JudgePrompt, GradePrompt, BiasPrompt)
_FOLDERS: dict[type[BaseModel], str] = {
    LabelPrompt: "label",
    RewritePrompt: "rewrite",
    JudgePrompt: "judge",
    GradePrompt: "grade",
    BiasPrompt: "bias",
}


def shipped_prompts(kind: type[_Prompt]) -> list[str]:
    """Names of the prompts of a kind that are shipped with the package."""
    return names_in(_FOLDER / _FOLDERS[kind])


@cache
def ours() -> Prompts:
    """The default prompts."""
    return Prompts(
        load_prompt(OURS, LabelPrompt),
        load_prompt(OURS, RewritePrompt),
        load_prompt(OURS, JudgePrompt),
        load_prompt(OURS, GradePrompt),
    )


def load_prompt(reference: str, kind: type[_Prompt], base_folder: Path | None = None) -> _Prompt:
    """Load a prompt by the name of a shipped one, or by the path of a YAML file (relative to base_folder or the current one).

    RecipeError: unknown name, missing file, or every mistake in the file.
    """
    known = "Shipped: {names}; or give the path of a prompt file (.yaml)"
    return read_model(find_yaml(reference, _FOLDER / _FOLDERS[kind], base_folder, "prompt", known), kind)
