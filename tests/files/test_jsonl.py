"""JSON files with file and line in every error; files that appear whole or not at all, and never through a link."""

from __future__ import annotations

import gzip
import json
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cda.errors import DataError
from cda.files import jsonl
from cda.files.jsonl import (
    make_private,
    read_json,
    read_json_rows,
    read_jsonl,
    write_json,
    write_jsonl,
    write_page,
    write_text,
    written_whole,
)

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


def test_line_separators_inside_strings_do_not_end_a_line_and_a_byte_order_mark_is_dropped(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    path.write_bytes(b"\xef\xbb\xbf" + '{"a": "one\u2028two\x85three"}\r\n\n{"a": 2}'.encode())
    assert list(read_jsonl(path)) == [{"a": "one\u2028two\x85three"}, {"a": 2}]


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b'{"a": 1}\n\n{"a": \n', r"a\.jsonl:3: not valid JSON"),
        (b'{"a": 1}\n[1]\n', r"a\.jsonl:2: expected a JSON object, found a list"),
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
        jsonl.read_text(tmp_path / "none.jsonl")
    with pytest.raises(DataError, match="cannot be read"):
        jsonl.read_text(tmp_path)


@pytest.mark.parametrize(
    ("content", "n"),
    [('[{"a": 1}, {"a": 2}]', 2), ('{"rows": [{"a": 1}, {"a": 2}]}', 2), ('{"a": 1}\n{"a": 2}\n', 2), ('{"a": 1}', 1)],
)
def test_json_rows_in_each_layout(tmp_path: Path, content: str, n: int) -> None:
    path = tmp_path / "a.json"
    path.write_text(content, encoding="utf-8")
    assert read_json_rows(path) == [{"a": 1}, {"a": 2}][:n]


def test_json_by_column_is_told_from_one_row_of_lists(tmp_path: Path) -> None:
    path = tmp_path / "a.json"
    columns = {"text_chosen": ["a", "b"], "text_rejected": ["c", "d"], "results": [0, 1], "model": "x"}
    write_json(path, columns)
    assert [(row["text_chosen"], row["results"], row["model"]) for row in read_json_rows(path)] == [
        ("a", 0, "x"),
        ("b", 1, "x"),
    ]
    for row in ({"prompt": "q", "chosen": ["a", "b"], "rejected": ["c", "d"]}, {"a": [1, 2], "b": [1]}, {"a": [], "b": []},
                {"prompt": [{"role": "user"}], "chosen": [{"role": "assistant"}], "rejected": [{"role": "assistant"}]}):  # fmt: skip
        write_json(path, row)
        assert read_json_rows(path) == [row]


def test_a_packed_file_is_read_and_lines_are_named(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl.gz"
    path.write_bytes(gzip.compress(b'{"a": 1}\n\n{"a": \n'))
    with pytest.raises(DataError, match=r"a\.jsonl\.gz:3: not valid JSON"):
        list(read_jsonl(path))


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("[1, 2]", "expected a list of objects"),
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
    path = tmp_path / "a"
    with pytest.raises(ValueError, match="not JSON compliant"):
        write_json(path, {"a": float("nan")})  # a report must not hold what JSON cannot say
    assert not path.exists()
    write_jsonl(path, [{"a": 1}])

    def rows() -> Iterator[dict[str, int]]:
        yield {"a": 2}
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        write_jsonl(path, rows())
    with pytest.raises(KeyboardInterrupt), written_whole(path) as file:
        file.write(b"half")
        raise KeyboardInterrupt
    assert list(read_jsonl(path)) == [{"a": 1}]


def test_json_round_trip(tmp_path: Path) -> None:
    path = tmp_path / "a.json"
    path.with_suffix(".json.partial").write_text("half of a much longer file", encoding="utf-8")  # a kill left it
    write_json(path, {"a": ["ü", None, 1.5]})
    assert read_json(path) == json.loads(path.read_text(encoding="utf-8")) == {"a": ["ü", None, 1.5]}
    assert [item.name for item in tmp_path.iterdir()] == ["a.json"]


WRITERS: dict[str, Callable[[Path], object]] = {
    "text": lambda path: write_text(path, "new"),
    "page": lambda path: write_page(path, "new"),
    "json": lambda path: write_json(path, "new"),
    "jsonl": lambda path: write_jsonl(path, ["new"]),
}


@pytest.mark.parametrize("write", WRITERS.values(), ids=WRITERS.keys())
@pytest.mark.parametrize("link", ["symbolic", "hard"])
@pytest.mark.parametrize("planted", ["result.partial", "result"])
def test_a_planted_link_is_replaced_and_its_target_stays(
    tmp_path: Path, write: Callable[[Path], object], link: str, planted: str
) -> None:
    victim = tmp_path / "victim"
    victim.write_text("theirs", encoding="utf-8")
    (os.symlink if link == "symbolic" else os.link)(victim, tmp_path / planted)
    write(tmp_path / "result")
    assert victim.read_text(encoding="utf-8") == "theirs"
    assert "new" in (tmp_path / "result").read_text(encoding="utf-8")
    assert not (tmp_path / "result").is_symlink() and not (tmp_path / "result.partial").exists()


def test_what_is_put_there_between_looking_and_writing_fails(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    victim = tmp_path / "victim"
    victim.write_text("theirs", encoding="utf-8")
    monkeypatch.setattr(Path, "unlink", lambda self, missing_ok: self.symlink_to(victim))  # noqa: ARG005
    with pytest.raises(FileExistsError):
        jsonl.open_new(tmp_path / "a")
    assert victim.read_text(encoding="utf-8") == "theirs"


def test_private_files_are_this_users_alone(tmp_path: Path) -> None:
    write_json(tmp_path / "private.json", {}, private=True)
    write_json(tmp_path / "shared.json", {})
    make_private(tmp_path / "made")
    modes = {path.name: path.stat().st_mode & 0o777 for path in tmp_path.iterdir()}
    assert modes["private.json"] == modes["made"] == 0o600
    assert modes["shared.json"] & 0o444 != 0o400


def test_what_is_there_stays_as_it_is_and_a_link_to_nothing_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "there").write_text("content", encoding="utf-8")
    (tmp_path / "there").chmod(0o640)
    make_private(tmp_path / "there")
    assert (tmp_path / "there").read_text(encoding="utf-8") == "content"
    assert (tmp_path / "there").stat().st_mode & 0o777 == 0o640
    (tmp_path / "link").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(FileExistsError):
        make_private(tmp_path / "link")
    assert not (tmp_path / "elsewhere").exists()


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="no named pipes here")
def test_a_page_goes_into_a_pipe_as_it_stands(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    reader = os.open(tmp_path / "pipe", os.O_RDONLY | os.O_NONBLOCK)
    write_page(tmp_path / "pipe", "new")
    assert os.read(reader, 10) == b"new"
    os.close(reader)
    assert [path.name for path in tmp_path.iterdir()] == ["pipe"]
