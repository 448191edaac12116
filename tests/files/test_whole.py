"""Files appear whole or not at all, private where that is asked, and no link that somebody put there is written through."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from cda.files.jsonl import make_private, open_new, write_json, write_jsonl, write_page, write_text, written_whole

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


def test_a_half_file_of_a_kill_is_written_over(tmp_path: Path) -> None:
    (tmp_path / "a.partial").write_text("half of a much longer file", encoding="utf-8")
    write_text(tmp_path / "a", "new")
    assert (tmp_path / "a").read_text(encoding="utf-8") == "new"


def test_what_fails_in_the_middle_leaves_the_file_of_before(tmp_path: Path) -> None:
    write_text(tmp_path / "a", "old")
    with pytest.raises(KeyboardInterrupt), written_whole(tmp_path / "a") as file:
        file.write(b"half")
        raise KeyboardInterrupt
    assert (tmp_path / "a").read_text(encoding="utf-8") == "old"


def test_what_is_put_there_between_looking_and_writing_is_an_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    victim = tmp_path / "victim"
    victim.write_text("theirs", encoding="utf-8")
    monkeypatch.setattr(Path, "unlink", lambda self, missing_ok: self.symlink_to(victim))  # noqa: ARG005
    with pytest.raises(FileExistsError):
        open_new(tmp_path / "a")
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
