"""YAML as people write it, and what is refused in it; validation errors as lines that say where, what and what to do."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator

from cda.errors import RecipeError
from cda.files.yaml_file import MAX_BYTES, describe_errors, parse_yaml, read_yaml_mapping


@pytest.mark.parametrize(
    ("text", "expected"),
    [("2e-5", 2e-5), ("1e5", 1e5), ("-2.5E+3", -2500.0), (".5e1", 5.0), ("5", 5), ("2e-5x", "2e-5x"), ("e5", "e5"),
     ("'2e-5'", "2e-5"), ("8bit", "8bit"), ("null", None), ("no", "no"), ("on", "on"), ("yes", "yes"), ("True", True)],
)  # fmt: skip
def test_values(text: str, expected: object) -> None:
    value = parse_yaml(f"a: {text}", "where")["a"]
    assert value == expected and type(value) is type(expected)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a: 1\nb: 2\na: 3", r"x\.yaml:3:1: .*key 'a' is given twice"),
        ("a:\n  b: 1\n  b: 2", r"x\.yaml:3:3: .*key 'b' is given twice"),
        ("a: &big [1, *big]", r"x\.yaml:1:13: .*alias"),
        ("a: [1", r"x\.yaml:1:\d+: not valid YAML"),
        ("a: 1\n\tb: 2", r"x\.yaml:2:1: not valid YAML"),
        ("a: !!python/object:os.system {}", r"x\.yaml:1:4: not valid YAML"),
        ("a: 2026-13-45", r"x\.yaml: a value cannot be read"),
        ("a: \x00", r"x\.yaml: not valid YAML"),
        ("[" * 5000, r"x\.yaml"),
        ("? [a, b]\n: c", r"x\.yaml"),
    ],
)
def test_mistakes_are_refused_with_their_place(text: str, message: str) -> None:
    with pytest.raises(RecipeError, match=message):
        parse_yaml(text, "x.yaml")


def test_no_code_runs_from_yaml(tmp_path: Path) -> None:
    target = tmp_path / "made"
    with pytest.raises(RecipeError):
        parse_yaml(f"!!python/object/apply:os.mkdir ['{target}']", "x.yaml")
    assert not target.exists()


def test_read_mapping(tmp_path: Path) -> None:
    path = tmp_path / "x.yaml"
    path.write_bytes("a: ü\nb: {c: 1}\n".encode())
    assert read_yaml_mapping(path) == {"a": "ü", "b": {"c": 1}}
    path.write_bytes(b"# only a comment\n")
    assert read_yaml_mapping(path) == {}
    path.write_bytes(b"\xef\xbb\xbfa: 1\n")
    assert read_yaml_mapping(path) == {"a": 1}


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"a: \xff", r"not UTF-8 \(byte 3\)"),
        (b"- a\n- b\n", "found a list"),
        (b"just words", "found text"),
        (b"#" * (MAX_BYTES + 1), "at most 250,000"),
    ],
)
def test_unusable_files(tmp_path: Path, content: bytes, message: str) -> None:
    path = tmp_path / "x.yaml"
    path.write_bytes(content)
    with pytest.raises(RecipeError, match=message) as caught:
        read_yaml_mapping(path)
    assert str(path) in str(caught.value)


def test_missing_file_and_folder(tmp_path: Path) -> None:
    for path, problem in ((tmp_path / "none.yaml", "no such file"), (tmp_path, "cannot be read")):
        with pytest.raises(RecipeError, match=problem):
            read_yaml_mapping(path)


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
    return describe_errors(caught.value, Outer, "f.yaml")


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
