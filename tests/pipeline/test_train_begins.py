"""Another process of a launch takes part in a training only where the main one really begins it."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from cda.pipeline.stages import _run_train
from cda.run import RunFolder, Stage

STAGE = Stage("train", {"seed": 1}, {})


@pytest.fixture(autouse=True)
def second_of_two(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in {"WORLD_SIZE": "2", "RANK": "1"}.items():
        monkeypatch.setenv(name, value)


def trained(folder: RunFolder, main: Callable[[], Any]) -> list[Path]:
    """Where this process trained, while the main one does what it does a little later."""
    found: list[Path] = []
    threading.Timer(0.3, main).start()
    _run_train(STAGE, lambda partial: found.append(partial) or {}, folder)  # type: ignore[func-returns-value]
    return found


def test_it_trains_where_the_main_process_begins(tmp_path: Path) -> None:
    folder = RunFolder(tmp_path)
    assert trained(folder, lambda: folder.begin(STAGE)) == [folder.partial("train")]


def test_a_training_that_lacked_its_last_step_alone_is_not_repeated(tmp_path: Path) -> None:
    """Killed between its record and its name: the main process only declares it finished."""
    folder = RunFolder(tmp_path)
    (folder.begin(STAGE) / "adapter").write_text("weights", encoding="utf-8")
    folder.finish(STAGE, {}, 0).replace(folder.partial("train"))
    (folder.partial("train") / ".begun.json").write_text(json.dumps({"fingerprint": STAGE.fingerprint}), "utf-8")
    assert trained(folder, lambda: folder.complete(STAGE)) == []
    assert folder.is_done(STAGE)
