"""What training leaves in its folder when it is through."""

from __future__ import annotations

from pathlib import Path

from cda.finetuning.train import _clear


def test_checkpoints_go_and_a_tracker_s_files_stay(tmp_path: Path) -> None:
    events = tmp_path / "checkpoints" / "runs" / "Nov22_host" / "events.out.tfevents.1"
    events.parent.mkdir(parents=True)
    events.write_bytes(b"losses")
    (tmp_path / "checkpoints" / "checkpoint-20").mkdir()
    _clear(tmp_path)
    assert (tmp_path / "logs" / "Nov22_host" / "events.out.tfevents.1").read_bytes() == b"losses"
    assert not (tmp_path / "checkpoints").exists()
    events.parent.mkdir(parents=True)  # killed here, and trained again
    (events.parent / "events.out.tfevents.2").write_bytes(b"more")
    _clear(tmp_path)
    assert len(list((tmp_path / "logs" / "Nov22_host").iterdir())) == 2


def test_without_a_tracker_nothing_stays(tmp_path: Path) -> None:
    (tmp_path / "checkpoints" / "checkpoint-20").mkdir(parents=True)
    _clear(tmp_path)
    assert not list(tmp_path.iterdir())
