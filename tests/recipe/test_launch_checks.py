"""8-bit weights and sharding are refused together, whoever asked for the sharding."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from cda.errors import RunError
from cda.recipe.checks import check_launch, sharded_by

VARIABLES = ("ACCELERATE_USE_FSDP", "ACCELERATE_USE_DEEPSPEED", "ACCELERATE_DEEPSPEED_ZERO_STAGE",
             "ACCELERATE_DEEPSPEED_CONFIG_FILE", "ACCELERATE_MIXED_PRECISION", "MASTER_ADDR")  # fmt: skip


@pytest.fixture(autouse=True)
def one_process(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in VARIABLES:
        monkeypatch.delenv(name, raising=False)


def zero(stage: int) -> dict[str, Any]:
    return {"zero_optimization": {"stage": stage}}


@pytest.mark.parametrize(
    ("train", "by"),
    [
        ({}, None),
        ({"fsdp": ""}, None),
        ({"fsdp": False}, None),
        ({"fsdp": True}, "FSDP (train.fsdp)"),
        ({"fsdp": "full_shard auto_wrap"}, "FSDP (train.fsdp)"),
        ({"deepspeed": zero(3)}, "DeepSpeed ZeRO-3 (train.deepspeed)"),
        ({"deepspeed": zero(2)}, None),
        ({"deepspeed": "no_such_file.json"}, None),
    ],
)
def test_sharding_of_a_recipe(train: dict[str, Any], by: str | None) -> None:
    assert sharded_by(train) == by


@pytest.mark.parametrize(
    ("variables", "by"),
    [
        ({"ACCELERATE_USE_FSDP": "true"}, "FSDP (accelerate launch)"),
        ({"ACCELERATE_USE_FSDP": "false"}, None),
        ({"ACCELERATE_USE_DEEPSPEED": "true", "ACCELERATE_DEEPSPEED_ZERO_STAGE": "3"}, "DeepSpeed ZeRO-3 (accelerate launch)"),
        ({"ACCELERATE_USE_DEEPSPEED": "true", "ACCELERATE_DEEPSPEED_ZERO_STAGE": "2"}, None),
        ({"ACCELERATE_USE_DEEPSPEED": "true"}, None),  # accelerate's stage is 2 then
        ({"ACCELERATE_DEEPSPEED_ZERO_STAGE": "3"}, None),
    ],
)  # fmt: skip
def test_sharding_of_a_launch(variables: dict[str, str], by: str | None, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    assert sharded_by({}) == by


def test_a_deepspeed_file_of_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "ds.json"
    monkeypatch.setenv("ACCELERATE_USE_DEEPSPEED", "true")
    monkeypatch.setenv("ACCELERATE_DEEPSPEED_CONFIG_FILE", str(file))
    file.write_text(json.dumps(zero(3)), encoding="utf-8")
    assert sharded_by({}) == "DeepSpeed ZeRO-3 (accelerate launch)"
    assert sharded_by({"deepspeed": str(file)}) == "DeepSpeed ZeRO-3 (train.deepspeed)"
    file.write_text(json.dumps(zero(2)), encoding="utf-8")
    monkeypatch.setenv("ACCELERATE_DEEPSPEED_ZERO_STAGE", "3")
    assert sharded_by({}) is None


@pytest.mark.parametrize(
    ("precision", "train"), [("bf16", {"fsdp": True}), ("fp32", {"deepspeed": zero(3)}), ("8bit", {})]
)
def test_other_combinations_pass(precision: str, train: dict[str, Any]) -> None:
    check_launch(precision, train)


def test_both_problems_are_named_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OMPI_COMM_WORLD_SIZE", "2")
    monkeypatch.delenv("WORLD_SIZE", raising=False)
    with pytest.raises(RunError) as error:
        check_launch("8bit", {"fsdp": True})
    first, second = str(error.value).splitlines()
    assert first.startswith("the launch asked for 2 processes")
    assert second.startswith(
        "model.precision: 8bit weights cannot be sharded, but FSDP (train.fsdp) was asked for. Set "
    )
