"""JSON and JSON lines: errors name file and line, and a kill leaves no half file."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cda.errors import DataError
from cda.files.jsonl import read_json, read_json_rows, read_jsonl, read_text, write_json, write_jsonl

_json_values = st.recursive(
    st.none() | st.booleans() | st.integers(-(10**12), 10**12) | st.text(st.characters(), max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner, max_size=3),
    max_leaves=6,
)


@settings(deadline=None, derandomize=True)
@given(rows=st.lists(st.dictionaries(st.text(max_size=4), _json_values, max_size=3), max_size=4))
def test_rows_survive_a_round_trip(tmp_path_factory: pytest.TempPathFactory, rows: list[dict[str, Any]]) -> None:
    path = tmp_path_factory.mktemp("rows") / "rows.jsonl"
    assert write_jsonl(path, rows) == len(rows)
    assert list(read_jsonl(path)) == rows


def test_line_separators_inside_strings_do_not_end_a_line(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    path.write_bytes('{"a": "one\u2028two\x85three"}\r\n\n{"a": 2}'.encode())
    assert list(read_jsonl(path)) == [{"a": "one\u2028two\x85three"}, {"a": 2}]


def test_a_byte_order_mark_is_dropped(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    path.write_bytes(b"\xef\xbb\xbf" + b'{"a": 1}')
    assert list(read_jsonl(path)) == [{"a": 1}]


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b'{"a": 1}\n\n{"a": \n', r"a\.jsonl:3: not valid JSON"),
        (b'{"a": 1}\n[1]\n', r"a\.jsonl:2: expected a JSON object, found list"),
        (b'{"a": 1}\n{"a": "\xff"}\n', r"a\.jsonl:2: not UTF-8 \(byte 7\)"),
        (b'{"a": ' + b"[" * 100_000, r"a\.jsonl:1: not valid JSON"),
    ],
)
def test_a_broken_line_is_named(tmp_path: Path, content: bytes, message: str) -> None:
    path = tmp_path / "a.jsonl"
    path.write_bytes(content)
    with pytest.raises(DataError, match=message):
        list(read_jsonl(path))


def test_missing_and_unreadable_files_are_named(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"none\.jsonl: no such file"):
        read_text(tmp_path / "none.jsonl")
    with pytest.raises(DataError, match="cannot be read"):
        read_text(tmp_path)


@pytest.mark.parametrize(
    "content",
    ['[{"a": 1}, {"a": 2}]', '{"rows": [{"a": 1}, {"a": 2}]}', '{"a": 1}\n{"a": 2}\n'],
    ids=["list", "one list inside", "json lines under the wrong name"],
)
def test_json_rows_in_each_layout(tmp_path: Path, content: str) -> None:
    path = tmp_path / "a.json"
    path.write_text(content, encoding="utf-8")
    assert read_json_rows(path) == [{"a": 1}, {"a": 2}]


def test_a_single_object_is_one_row(tmp_path: Path) -> None:
    path = tmp_path / "a.json"
    path.write_text('{"chosen": "a", "rejected": "b"}', encoding="utf-8")
    assert read_json_rows(path) == [{"chosen": "a", "rejected": "b"}]


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("[1, 2]", "expected a list of objects"),
        ('"text"', "expected a list of objects"),
        ('[\n{"a": 1},\n{"a": }]', r"a\.json:3: not valid JSON"),
        ('{"a": 1}\n{"a": }\n', r"a\.json:2: not valid JSON"),
        ("[" * 100_000, "nested too deeply"),
        ("", r"a\.json:1: not valid JSON"),
    ],
)
def test_broken_json_rows(tmp_path: Path, content: str, message: str) -> None:
    path = tmp_path / "a.json"
    path.write_text(content, encoding="utf-8")
    with pytest.raises(DataError, match=message):
        read_json_rows(path)


def test_an_interrupted_write_leaves_the_old_file(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    write_jsonl(path, [{"a": 1}])

    def rows() -> Iterator[dict[str, int]]:
        yield {"a": 2}
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        write_jsonl(path, rows())
    assert list(read_jsonl(path)) == [{"a": 1}]


def test_an_interrupted_first_write_leaves_nothing(tmp_path: Path) -> None:
    path = tmp_path / "a.json"
    with pytest.raises(ValueError, match="not JSON compliant"):
        write_json(path, {"a": float("nan")})  # a report must not hold what JSON cannot say
    assert not path.exists()


def test_json_round_trip_and_errors(tmp_path: Path) -> None:
    path = tmp_path / "a.json"
    write_json(path, {"a": ["ü", None, 1.5]})
    assert read_json(path) == json.loads(path.read_text(encoding="utf-8")) == {"a": ["ü", None, 1.5]}
    assert [item.name for item in tmp_path.iterdir()] == ["a.json"]
    path.write_text("{", encoding="utf-8")
    with pytest.raises(DataError, match=r"a\.json: not valid JSON"):
        read_json(path)
