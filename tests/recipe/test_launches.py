"""Launches: accelerate reads our configs, which say what their headers promise; 8-bit weights and sharding are refused together,
whoever asked for the sharding."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from cda.errors import RunError
from cda.files.shipped import recipes_folder
from cda.recipe.checks import check_launch, sharded_by

FOLDER = recipes_folder() / "accelerate"
VARIABLES = ("ACCELERATE_USE_FSDP", "ACCELERATE_USE_DEEPSPEED", "ACCELERATE_DEEPSPEED_ZERO_STAGE",
             "ACCELERATE_DEEPSPEED_CONFIG_FILE", "ACCELERATE_MIXED_PRECISION", "MASTER_ADDR")  # fmt: skip


@pytest.fixture(autouse=True)
def one_process(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in VARIABLES:
        monkeypatch.delenv(name, raising=False)


def read(name: str) -> Any:
    from accelerate.commands.config.config_args import load_config_from_file

    return load_config_from_file(str(FOLDER / f"{name}.yaml"))


def launch_environment(name: str, *options: str) -> dict[str, str]:
    """What `accelerate launch` would put into the environment of the processes, without starting any."""
    from accelerate.commands.launch import _validate_launch_command, launch_command_parser
    from accelerate.utils.launch import prepare_deepspeed_cmd_env, prepare_multi_gpu_env

    words = ["--config_file", str(FOLDER / f"{name}.yaml"), "--main_process_port", "0", *options, "train.py"]
    args, _, _ = _validate_launch_command(launch_command_parser().parse_args(words))
    if args.use_deepspeed:
        args.deepspeed_fields_from_accelerate_config = ""
        environment: dict[str, str] = prepare_deepspeed_cmd_env(args)[1]
    else:
        environment = prepare_multi_gpu_env(args)
    return environment


@pytest.mark.parametrize(
    ("name", "kind"), [("one_gpu", "NO"), ("ddp", "MULTI_GPU"), ("fsdp", "FSDP"), ("deepspeed_zero3", "DEEPSPEED")]
)
def test_accelerate_reads_each(name: str, kind: str) -> None:
    config = read(name)
    assert config.distributed_type == kind
    assert (config.mixed_precision, config.use_cpu, config.num_machines) == ("bf16", False, 1)
    # -1: accelerate refuses to start before the command line says how many.
    assert config.num_processes == (1 if name == "one_gpu" else -1)


@pytest.mark.parametrize("name", ["ddp", "fsdp", "deepspeed_zero3"])
def test_the_number_of_processes_comes_from_the_command_line(name: str) -> None:
    from accelerate.commands.launch import _validate_launch_command, launch_command_parser

    words = ["--config_file", str(FOLDER / f"{name}.yaml")]
    with pytest.raises(ValueError, match="num_processes"):
        _validate_launch_command(launch_command_parser().parse_args([*words, "train.py"]))
    args, _, _ = _validate_launch_command(launch_command_parser().parse_args([*words, "--num_processes=4", "train.py"]))
    assert args.num_processes == 4
    used = (args.multi_gpu, args.use_fsdp, args.use_deepspeed)
    assert used == (name == "ddp", name == "fsdp", name == "deepspeed_zero3")


def test_fsdp_settings_are_taken_by_the_plugin(monkeypatch: pytest.MonkeyPatch) -> None:
    from accelerate.utils import FullyShardedDataParallelPlugin
    from torch.distributed.fsdp.wrap import transformer_auto_wrap_policy

    for key, value in launch_environment("fsdp", "--num_processes", "8").items():
        monkeypatch.setenv(key, value)
    assert "fsdp_transformer_layer_cls_to_wrap" not in read("fsdp").fsdp_config  # the model's own blocks
    plugin = FullyShardedDataParallelPlugin()
    assert (plugin.fsdp_version, plugin.reshard_after_forward) == (2, True)
    assert plugin.auto_wrap_policy is transformer_auto_wrap_policy and plugin.transformer_cls_names_to_wrap is None
    assert "FULL_STATE_DICT" in str(plugin.state_dict_type)
    assert plugin.cpu_ram_efficient_loading is False


def test_zero3_shards_and_gathers_the_adapter() -> None:
    settings = read("deepspeed_zero3").deepspeed_config
    assert settings["zero_stage"] == 3 and settings["zero3_save_16bit_model"] is True
    assert settings["zero3_init_flag"] is False


@pytest.mark.parametrize(("name", "said"), [("fsdp", "FSDP"), ("deepspeed_zero3", "DeepSpeed ZeRO-3"), ("ddp", None)])
def test_what_the_launcher_sets_is_what_the_8_bit_check_reads(
    name: str, said: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    for key, value in launch_environment(name, "--num_processes", "8").items():
        monkeypatch.setenv(key, value)
    monkeypatch.setenv("WORLD_SIZE", "8")
    check_launch("bf16", {})
    if said is None:
        check_launch("8bit", {})
        return
    with pytest.raises(RunError, match=rf"8bit weights cannot be sharded, but {said} \(accelerate launch\)"):
        check_launch("8bit", {})


def zero(stage: int) -> dict[str, Any]:
    return {"zero_optimization": {"stage": stage}}


FSDP, ZERO_3 = "FSDP (accelerate launch)", "DeepSpeed ZeRO-3 (accelerate launch)"


@pytest.mark.parametrize(
    ("train", "variables", "by"),
    [
        ({"fsdp": ""}, {}, None),
        ({"fsdp": False}, {}, None),
        ({"fsdp": True}, {}, "FSDP (train.fsdp)"),
        ({"fsdp": "full_shard auto_wrap"}, {}, "FSDP (train.fsdp)"),
        ({"deepspeed": zero(3)}, {}, "DeepSpeed ZeRO-3 (train.deepspeed)"),
        ({"deepspeed": zero(2)}, {}, None),
        ({"deepspeed": "no_such_file.json"}, {}, None),
        ({}, {"USE_FSDP": "true"}, FSDP),
        ({}, {"USE_FSDP": "false"}, None),
        ({}, {"USE_DEEPSPEED": "true", "DEEPSPEED_ZERO_STAGE": "3"}, ZERO_3),
        ({}, {"USE_DEEPSPEED": "true", "DEEPSPEED_ZERO_STAGE": "2"}, None),
        ({}, {"USE_DEEPSPEED": "true"}, None),  # accelerate's stage is 2 then
        ({}, {"DEEPSPEED_ZERO_STAGE": "3"}, None),
    ],
)
def test_sharding_of_a_recipe_and_of_a_launch(
    train: dict[str, Any], variables: dict[str, str], by: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in variables.items():
        monkeypatch.setenv(f"ACCELERATE_{name}", value)
    assert sharded_by(train) == by


def test_a_deepspeed_file_of_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "ds.json"
    monkeypatch.setenv("ACCELERATE_USE_DEEPSPEED", "true")
    monkeypatch.setenv("ACCELERATE_DEEPSPEED_CONFIG_FILE", str(file))
    file.write_text(json.dumps(zero(3)), encoding="utf-8")
    assert sharded_by({}) == ZERO_3
    assert sharded_by({"deepspeed": str(file)}) == "DeepSpeed ZeRO-3 (train.deepspeed)"
    file.write_text(json.dumps(zero(2)), encoding="utf-8")
    monkeypatch.setenv("ACCELERATE_DEEPSPEED_ZERO_STAGE", "3")
    assert sharded_by({}) is None


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
