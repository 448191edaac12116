"""Places that cannot be written are named before any work, for root too, who may write everywhere."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from cda.errors import RunError
from cda.files.paths import nearest_existing, unwritable
from cda.jobs.perform import NewFolder
from cda.pipeline.plan import _disk_problems


@pytest.fixture
def locked(tmp_path: Path) -> Iterator[Path]:
    """A folder that its user may not write in; root becomes nobody for the time being."""
    folder = tmp_path / "locked"
    folder.mkdir(mode=0o555)
    was_root = os.geteuid() == 0
    if was_root:
        os.setreuid(65534, 0)
    yield folder
    if was_root:
        os.setreuid(0, 0)
    folder.chmod(0o755)


def test_a_folder_without_the_right_to_write(locked: Path) -> None:
    runs = locked / "runs" / "jargon"
    assert nearest_existing(runs) == locked and unwritable(runs) == f"{locked}: cannot be written"
    assert _disk_problems(runs, 0) == [f"{locked}: cannot be written; choose another place with --out (run.folder=...)"]
    with pytest.raises(RunError, match=r"locked: cannot be written\. Give a folder elsewhere"):
        NewFolder(locked / "merged").planned()


def test_a_file_in_the_way(tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.touch()
    why = f"{file}: is a file, so that no folder can be made there"
    assert _disk_problems(file / "runs" / "jargon", 0) == [f"{why}; choose another place with --out (run.folder=...)"]
    assert _disk_problems(file, 0) == [f"{why}; choose another place with --out (run.folder=...)"]


def test_places_that_can_be_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert unwritable(tmp_path / "a" / "b") is None and unwritable(Path("a/b")) is None
    assert _disk_problems(Path("runs/jargon"), 0) == []
    assert "MB free; a run needs at least" in _disk_problems(tmp_path / "a", 2**60)[0]
