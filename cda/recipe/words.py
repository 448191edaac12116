"""Settings of a recipe as words of a command."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence

from cda.recipe.schema import Recipe

AUDIT_LENGTH = 2048
"""`model.max_length_tokens` of a model that is audited as it is, unless another was given."""
JUDGED = ("model", "llm", "score")
"""Sections that decide how a model is read, and how a judge is asked."""


def given_words(recipe: Recipe, sections: Sequence[str] = JUDGED) -> list[str]:
    """Settings of an audit of a model as it is that differ from the defaults, without the model's name and preset."""
    known = recipe.model_dump(mode="json", exclude_defaults=True, include=set(sections))
    named = [f"llm.model={name}" for name in recipe.model.kind.llms(recipe.model.name_or_path)]
    skipped = (*named, f"model.max_length_tokens={AUDIT_LENGTH}", "model.preset", "model.name_or_path")
    words = (word for section in sections if known.get(section) for word in flat(section, known[section]))
    return [word for word in words if word not in skipped and word.partition("=")[0] not in skipped]


def flat(path: str, value: object) -> Iterator[str]:
    """A setting, or those of a section, as words."""
    if isinstance(value, Mapping) and value:
        for key, inner in value.items():
            yield from flat(f"{path}.{key}", inner)
    else:
        yield f"{path}={written(value)}"


def written(value: object) -> str:
    """A value as a word gives it."""
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
