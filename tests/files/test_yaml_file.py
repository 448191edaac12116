"""YAML that people write: positions in errors, no duplicate keys, few repeats, `2e-5` is a number."""

from __future__ import annotations

from pathlib import Path

import pytest

from cda.errors import RecipeError
from cda.files.yaml_file import MAX_BYTES, parse_yaml, read_yaml_mapping


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("2e-5", 2e-5),
        ("1e5", 1e5),
        ("-2.5E+3", -2500.0),
        (".5e1", 5.0),
        ("5", 5),
        ("0.5", 0.5),
        ("2e-5x", "2e-5x"),
        ("e5", "e5"),
        ("'2e-5'", "2e-5"),
        ("8bit", "8bit"),
        ("null", None),
        ("[a, 1]", ["a", 1]),
    ],
)
def test_values(text: str, expected: object) -> None:
    value = parse_yaml(f"a: {text}", "where")["a"]
    assert value == expected
    assert type(value) is type(expected)


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
    ],
)
def test_mistakes_are_refused_with_their_place(text: str, message: str) -> None:
    with pytest.raises(RecipeError, match=message):
        parse_yaml(text, "x.yaml")


def test_a_key_that_is_no_word_is_refused() -> None:
    with pytest.raises(RecipeError):
        parse_yaml("? [a, b]\n: c", "x.yaml")


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
        (b"just words", "found a str"),
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
    with pytest.raises(RecipeError, match="no such file"):
        read_yaml_mapping(tmp_path / "none.yaml")
    with pytest.raises(RecipeError, match="cannot be read"):
        read_yaml_mapping(tmp_path)


def test_only_true_and_false_are_truth_values() -> None:
    parsed = parse_yaml("{a: no, b: on, c: yes, d: true, e: False, f: 2e-5, g: null}", "here")
    assert parsed == {"a": "no", "b": "on", "c": "yes", "d": True, "e": False, "f": 2e-5, "g": None}
