"""The trainer: the checkpoint it goes on from (the newest whole one, whose best one is whole as well), and what it notes."""

from __future__ import annotations

import json
from collections import defaultdict
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from cda.training.trainer import FindBest, ObjectiveTrainer, newest_whole, seal


@pytest.fixture
def checkpoints(tmp_path: Path) -> Path:
    """Whole checkpoints of steps 2, 4 and 10; from step 4 on, 4 is the best."""
    for step, best in ((2, 2), (4, 4), (10, 4)):
        folder = tmp_path / f"checkpoint-{step}"
        folder.mkdir()
        (folder / "optimizer.pt").write_bytes(bytes(100))
        seal(folder)
        state = {"best_model_checkpoint": f"/elsewhere/checkpoint-{best}"}
        (folder / "trainer_state.json").write_text(json.dumps(state), encoding="utf-8")
    return tmp_path


def found(folder: Path) -> tuple[str | None, list[str]]:
    """Name of the checkpoint, and what was said."""
    said: list[str] = []
    checkpoint = newest_whole(folder, said.append)
    return None if checkpoint is None else checkpoint.name, said


def test_the_newest_by_its_number(checkpoints: Path) -> None:
    assert found(checkpoints) == ("checkpoint-10", [])


def test_nothing_to_go_on_from(tmp_path: Path) -> None:
    assert found(tmp_path / "none") == (None, [])


@pytest.mark.parametrize("file", ["optimizer.pt", "trainer_state.json", "contents.json"])
def test_one_with_a_cut_file_is_passed_over_and_named(checkpoints: Path, file: str) -> None:
    path = checkpoints / "checkpoint-10" / file
    path.write_bytes(path.read_bytes()[:-2])
    assert found(checkpoints) == ("checkpoint-4", ["  checkpoint-10 is not whole; passed over"])


def test_one_whose_best_is_not_whole_is_passed_over(checkpoints: Path) -> None:
    (checkpoints / "checkpoint-4" / "optimizer.pt").unlink()
    name, said = found(checkpoints)
    assert name == "checkpoint-2" and len(said) == 2


def test_a_state_that_is_written_after_the_seal_is_no_change(checkpoints: Path) -> None:
    state = checkpoints / "checkpoint-10" / "trainer_state.json"
    state.write_text('{"best_model_checkpoint": null, "step": 10}', encoding="utf-8")
    assert found(checkpoints) == ("checkpoint-10", [])


def test_in_a_moved_folder_a_training_goes_on_with_the_best_where_it_lies_now(checkpoints: Path) -> None:
    """The library looks for it by the whole path, and forgets it with a warning where there is nothing."""
    from transformers import TrainerState

    state = TrainerState(best_model_checkpoint=None)
    FindBest(checkpoints / "checkpoint-10").on_train_begin(None, state, None)
    assert state.best_model_checkpoint == str(checkpoints / "checkpoint-4")
    fresh = TrainerState(best_model_checkpoint=None)
    FindBest(None).on_train_begin(None, fresh, None)
    assert fresh.best_model_checkpoint is None


class Filled:
    """Gathers the last batch of an evaluation: of its four pairs the first three are there, the fourth is one of them again."""

    def gather(self, values: Any) -> Any:
        return values

    def gather_for_metrics(self, values: Any) -> Any:
        return values[:3]


def noted(training: bool) -> dict[str, list[float]]:
    metrics: dict[str, dict[str, list[float]]] = {name: defaultdict(list) for name in ("train", "eval")}
    trainer = SimpleNamespace(
        model=SimpleNamespace(training=training), accelerator=Filled(), state=SimpleNamespace(global_step=1), _metrics=metrics,
        _keeps_tokens=False, _total_train_tokens=0,
    )  # fmt: skip
    first, second = torch.tensor([2.0, 1.0, 1.0, 9.0]), torch.tensor([1.0, 2.0, 0.0, 1.0])
    inputs = {"attention_mask": torch.ones(8, 5), "target": torch.tensor([1.0, 1.0, 0.5, 1.0])}
    ObjectiveTrainer._note(trainer, torch.tensor(0.3), torch.cat([first, second]), first - second, inputs)
    return metrics["train" if training else "eval"]


def test_pairs_that_fill_up_an_evaluation_s_last_batch_count_once() -> None:
    found = noted(training=False)
    assert found["accuracy"] == [1.0, 0.0]
    assert found["margin"] == [pytest.approx(1 / 3)]
    assert (found["min_reward"], found["max_reward"]) == ([0.0], [2.0])


def test_in_training_every_pair_that_was_trained_on_counts() -> None:
    found = noted(training=True)
    assert found["accuracy"] == [1.0, 1.0, 0.0]
    assert (found["max_reward"], found["num_tokens"]) == ([9.0], [40])
