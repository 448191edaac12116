"""SHA-256 of files, remembered by their state; and files of a finished folder that are cut, changed or gone."""

from __future__ import annotations

import hashlib
import os
import time
from pathlib import Path

import pytest

from cda.files import reads as hashing
from cda.files.reads import changed, contents, sha256_of

LARGE = 65 * 2**20


@pytest.fixture(autouse=True)
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("CDA_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache" / "hashes"


@pytest.fixture
def later(monkeypatch: pytest.MonkeyPatch) -> None:
    """A minute after the files were written: they are settled."""
    now = time.time()
    monkeypatch.setattr(hashing.time, "time", lambda: now + 60)


def large(path: Path, byte: bytes, at: int = LARGE // 2) -> Path:
    """A file of zeros with one other byte, dated as an archive with a fixed date would."""
    path.parent.mkdir(exist_ok=True)
    with path.open("wb") as file:
        file.truncate(LARGE)
        file.seek(at)
        file.write(byte)
    os.utime(path, (0, 0))
    return path


@pytest.fixture
def reads(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Names of the files that were read whole."""
    read: list[str] = []
    digest = hashlib.file_digest

    def counted(file: object, name: str) -> object:
        read.append(Path(file.name).name)  # type: ignore[attr-defined]
        return digest(file, name)  # type: ignore[arg-type]

    monkeypatch.setattr(hashing.hashlib, "file_digest", counted)
    return read


@pytest.mark.parametrize("at", [0, LARGE - 1])
def test_files_that_differ_in_one_byte_anywhere_are_told_apart(tmp_path: Path, at: int) -> None:
    first, second = large(tmp_path / "a", b"1", at), large(tmp_path / "b", b"2", at)
    assert first.stat().st_size == second.stat().st_size and first.stat().st_mtime_ns == second.stat().st_mtime_ns
    assert sha256_of(first) == hashlib.sha256(first.read_bytes()).hexdigest() != sha256_of(second)


@pytest.mark.usefixtures("later")
def test_a_large_file_is_read_once(tmp_path: Path, reads: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    file = large(tmp_path / "weights", b"1")
    monkeypatch.chdir(tmp_path)
    assert sha256_of(file) == sha256_of(file) == sha256_of(Path("weights"))
    assert reads == ["weights"]
    (tmp_path / "taken").write_text("a file")
    monkeypatch.setenv("CDA_CACHE", str(tmp_path / "taken"))  # without a cache folder it is read each time
    assert sha256_of(file) == sha256_of(file) and len(reads) == 3


def test_a_file_changed_just_now_is_read_again(tmp_path: Path, reads: list[str]) -> None:
    file = large(tmp_path / "weights", b"1")
    assert sha256_of(file) == sha256_of(file)
    assert reads == ["weights", "weights"]


@pytest.mark.usefixtures("later")
def test_a_large_file_of_other_content_is_never_taken_for_the_one_before(tmp_path: Path) -> None:
    file = large(tmp_path / "weights", b"1")
    before, stat = sha256_of(file), file.stat()
    with file.open("r+b") as opened:  # the same inode, size and date: only the system's own time of change moves
        opened.seek(LARGE // 2)
        opened.write(b"2")
    os.utime(file, ns=(stat.st_atime_ns, stat.st_mtime_ns))
    assert (file.stat().st_ino, file.stat().st_mtime_ns) == (stat.st_ino, stat.st_mtime_ns)
    assert sha256_of(file) != before
    large(tmp_path / "other", b"3").replace(file)
    assert len({before, sha256_of(file)}) == 2


@pytest.mark.usefixtures("later")
def test_notes_are_private_and_a_damaged_one_is_made_again(tmp_path: Path, own_cache: Path) -> None:
    file = large(tmp_path / "weights", b"1")
    found = sha256_of(file)
    (note,) = own_cache.iterdir()
    assert note.stat().st_mode & 0o777 == 0o600
    note.write_text("half", encoding="utf-8")
    assert sha256_of(file) == found == note.read_text("ascii")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "sub").mkdir()
    (tmp_path / "rows.jsonl").write_text("content", encoding="utf-8")
    (tmp_path / "sub" / "weights").write_bytes(bytes(100))
    (tmp_path / "stage.json").write_text("{}", encoding="utf-8")
    return tmp_path


def test_what_is_cut_changed_or_gone_is_named(folder: Path) -> None:
    assert list(contents(folder, leave_out=("stage.json",))) == ["rows.jsonl", "sub/weights"]
    known = contents(folder)
    (folder / "later").write_text("new", encoding="utf-8")
    assert changed(folder, known) == []
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
