"""Validation errors as lines that say where, what was found and what to do."""

from __future__ import annotations

from typing import Any

import pytest
from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator

from cda.files.yaml_file import describe


class Inner(BaseModel):
    model_config = ConfigDict(extra="forbid")
    rate: float = Field(1.0, gt=0)
    name: str = "n"

    @field_validator("name")
    @classmethod
    def _short(cls, name: str) -> str:
        if len(name) > 3:
            raise ValueError("Too long a name")
        return name


class Outer(BaseModel):
    model_config = ConfigDict(extra="forbid")
    inner: Inner | None = None
    count: int


def problems(content: dict[str, Any]) -> list[str]:
    with pytest.raises(ValidationError) as caught:
        Outer.model_validate(content)
    return describe(caught.value, Outer, "f.yaml")


@pytest.mark.parametrize(
    ("content", "line"),
    [
        ({}, "f.yaml: count: missing; it has no default"),
        ({"count": 1, "cuont": 2}, "f.yaml: cuont: unknown key. Did you mean 'count'? Known: count, inner"),
        (
            {"count": 1, "inner": {"rat": 2}},
            "f.yaml: inner.rat: unknown key. Did you mean 'rate'? Known: name, rate",
        ),
        ({"count": 1, "inner": {"name": "abcd"}}, "f.yaml: inner.name: too long a name, found 'abcd'"),
        ({"count": 1, "inner": {"rate": 0}}, "f.yaml: inner.rate: input should be greater than 0, found 0"),
    ],
)
def test_one_mistake_is_one_line(content: dict[str, Any], line: str) -> None:
    assert problems(content) == [line]


def test_every_mistake_has_its_line() -> None:
    found = problems({"inner": {"rate": -1, "x": 1}, "y": 2})
    assert [line.split(": ")[1] for line in found] == ["inner.rate", "inner.x", "count", "y"]


def test_long_values_are_cut() -> None:
    (line,) = problems({"count": "x" * 1000})
    assert len(line) < 200
    assert line.endswith("…")
