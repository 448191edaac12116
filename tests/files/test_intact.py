"""What a finished folder contained: a file that is cut, changed or gone is named, one that came later is not."""

from __future__ import annotations

from pathlib import Path

import pytest

from cda.files.hashes import changed, contents


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "sub").mkdir()
    (tmp_path / "rows.jsonl").write_text("content", encoding="utf-8")
    (tmp_path / "sub" / "weights").write_bytes(bytes(100))
    (tmp_path / "stage.json").write_text("{}", encoding="utf-8")
    return tmp_path


def test_a_folder_that_nobody_touched_is_unchanged(folder: Path) -> None:
    known = contents(folder, leave_out=("stage.json",))
    assert list(known) == ["rows.jsonl", "sub/weights"]
    (folder / "later").write_text("new", encoding="utf-8")
    assert changed(folder, known) == []


def test_what_is_cut_changed_or_gone_is_named(folder: Path) -> None:
    known = contents(folder)
    (folder / "rows.jsonl").write_text("conteNt", encoding="utf-8")
    (folder / "sub" / "weights").write_bytes(bytes(50))
    (folder / "stage.json").unlink()
    assert changed(folder, known) == ["rows.jsonl", "stage.json", "sub/weights"]


def test_of_a_large_file_only_the_size_counts_where_that_is_asked(folder: Path) -> None:
    known = contents(folder, sizes_above_bytes=50)
    assert known["sub/weights"] == "100"
    (folder / "sub" / "weights").write_bytes(b"\1" * 100)
    assert changed(folder, known) == []
    (folder / "sub" / "weights").write_bytes(b"\1" * 99)
    assert changed(folder, known) == ["sub/weights"]


def test_a_large_file_that_is_changed_within_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CDA_CACHE", str(tmp_path / "cache"))
    weights = tmp_path / "run" / "weights"
    weights.parent.mkdir()
    with weights.open("wb") as file:
        file.truncate(65 * 2**20)
    known = contents(weights.parent)
    with weights.open("r+b") as file:
        file.seek(40 * 2**20)
        file.write(b"1")
    assert changed(weights.parent, known) == ["weights"]
