"""A file is known by its whole content, and a large one is read once, as long as nothing about it changes."""

from __future__ import annotations

import hashlib
import os
import time
from pathlib import Path

import pytest

from cda.files import hashes
from cda.files.hashes import sha256_of

LARGE = 65 * 2**20


@pytest.fixture(autouse=True)
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("CDA_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache" / "hashes"


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

    monkeypatch.setattr(hashes.hashlib, "file_digest", counted)
    return read


@pytest.mark.parametrize("at", [0, 1, LARGE // 3, LARGE - 1])
def test_files_that_differ_in_one_byte_anywhere_are_told_apart(tmp_path: Path, at: int) -> None:
    first, second = large(tmp_path / "a", b"1", at), large(tmp_path / "b", b"2", at)
    assert first.stat().st_size == second.stat().st_size and first.stat().st_mtime_ns == second.stat().st_mtime_ns
    assert sha256_of(first) == hashlib.sha256(first.read_bytes()).hexdigest() != sha256_of(second)


def test_a_large_file_is_read_once(tmp_path: Path, reads: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    file = large(tmp_path / "weights", b"1")
    now = time.time()
    monkeypatch.setattr(hashes.time, "time", lambda: now + 60)
    assert sha256_of(file) == sha256_of(file)
    assert reads == ["weights"]
    monkeypatch.chdir(tmp_path)
    assert sha256_of(Path("weights")) and reads == ["weights"]


def test_a_file_changed_just_now_is_read_again(tmp_path: Path, reads: list[str]) -> None:
    file = large(tmp_path / "weights", b"1")
    assert sha256_of(file) == sha256_of(file)
    assert reads == ["weights", "weights"]


def test_a_large_file_of_other_content_is_never_taken_for_the_one_before(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = large(tmp_path / "weights", b"1")
    now = time.time()
    monkeypatch.setattr(hashes.time, "time", lambda: now + 60)
    before = sha256_of(file)
    stat = file.stat()
    with file.open("r+b") as opened:  # the same inode, size and date: only the system's own time of change moves
        opened.seek(LARGE // 2)
        opened.write(b"2")
    os.utime(file, ns=(stat.st_atime_ns, stat.st_mtime_ns))
    assert (file.stat().st_ino, file.stat().st_mtime_ns) == (stat.st_ino, stat.st_mtime_ns)
    assert sha256_of(file) != before
    large(tmp_path / "other", b"3").replace(file)
    assert len({before, sha256_of(file)}) == 2


def test_notes_are_private_and_a_damaged_one_is_made_again(
    tmp_path: Path, own_cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = time.time()
    monkeypatch.setattr(hashes.time, "time", lambda: now + 60)
    file = large(tmp_path / "weights", b"1")
    found = sha256_of(file)
    (note,) = own_cache.iterdir()
    assert note.stat().st_mode & 0o777 == 0o600
    note.write_text("half", encoding="utf-8")
    assert sha256_of(file) == found == note.read_text("ascii")


def test_without_a_cache_folder_files_are_read_each_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, reads: list[str]
) -> None:
    (tmp_path / "taken").write_text("a file")
    monkeypatch.setenv("CDA_CACHE", str(tmp_path / "taken"))
    now = time.time()
    monkeypatch.setattr(hashes.time, "time", lambda: now + 60)
    file = large(tmp_path / "weights", b"1")
    assert sha256_of(file) == sha256_of(file) and len(reads) == 2
