"""Base of a recipe's sections, and the types of their settings."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import AfterValidator, BaseModel, ConfigDict, Field

from cda.data import contrasts, sampled, triples

By = Literal["auto", "llm", "rules"]
Count = Annotated[int, Field(ge=0)]
Positive = Annotated[int, Field(ge=1)]
Share = Annotated[float, Field(ge=0, le=1)]


class Section(BaseModel):
    """A group of settings; an unknown one is a mistake."""

    model_config = ConfigDict(extra="forbid", frozen=True, use_attribute_docstrings=True)


def _columns_of(*known: str) -> AfterValidator:
    def check(columns: dict[str, str]) -> dict[str, str]:
        if unknown := [name for name in columns if name not in known]:
            raise ValueError(f"unknown column {', '.join(unknown)}; ours are {', '.join(known)}")
        return columns

    return AfterValidator(check)


# Our name of a column to the user's.
PairColumns = Annotated[dict[str, str], _columns_of("prompt", "chosen", "rejected")]
ContrastColumns = Annotated[dict[str, str], _columns_of(*contrasts.COLUMNS)]
TripleColumns = Annotated[dict[str, str], _columns_of(*triples.COLUMNS)]
ResponseColumns = Annotated[dict[str, str], _columns_of(*sampled.COLUMNS)]
