"""Whether the launch can train what the recipe asks for: all processes there, and no sharding of 8-bit weights."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from pathlib import Path

from cda.errors import RunError
from cda.launch import check_processes

_ZERO_3 = 3


def check_launch(precision: str, train: Mapping[str, object]) -> None:
    """Look at the launcher's environment and the recipe's `train:` section together.

    Args:
        precision: Of the base: 8bit, bf16, fp32 or auto.
        train: The recipe's `train:` section.

    Raises:
        RunError: Processes are missing, or 8-bit weights would have to be sharded; all problems at once, a line each.
    """
    problems = []
    try:
        check_processes()
    except RunError as error:
        problems.append(str(error))
    sharding = sharded_by(train)
    if precision == "8bit" and sharding is not None:
        problems.append(
            f"model.precision: 8bit weights cannot be sharded, but {sharding} was asked for. "
            "Set model.precision=bf16, or keep 8bit with one whole copy on each GPU: recipes/accelerate/ddp.yaml"
        )
    if problems:
        raise RunError("\n".join(problems))


def sharded_by(train: Mapping[str, object]) -> str | None:
    """What would shard the base over the processes, and where it was asked for; None where every process has all of it.

    Asked for by `accelerate launch` (ACCELERATE_USE_FSDP; ACCELERATE_USE_DEEPSPEED with its stage, or its own config file)
    or by the fields `fsdp` and `deepspeed` of the recipe's `train:` section.
    """
    if train.get("fsdp"):
        return "FSDP (train.fsdp)"
    if _is_zero_3(train.get("deepspeed")):
        return "DeepSpeed ZeRO-3 (train.deepspeed)"
    if _is_set("ACCELERATE_USE_FSDP"):
        return "FSDP (accelerate launch)"
    if _is_set("ACCELERATE_USE_DEEPSPEED"):
        stage = os.environ.get("ACCELERATE_DEEPSPEED_ZERO_STAGE")
        file = os.environ.get("ACCELERATE_DEEPSPEED_CONFIG_FILE", "none")
        # A DeepSpeed file of its own wins over the stage that the launcher names.
        if stage == str(_ZERO_3) if file == "none" else _is_zero_3(file):
            return "DeepSpeed ZeRO-3 (accelerate launch)"
    return None


def _is_set(variable: str) -> bool:
    return os.environ.get(variable, "").lower() in ("1", "true", "yes", "on")


def _is_zero_3(config: object) -> bool:
    """Whether a DeepSpeed configuration, given whole or as the path of its JSON file, has stage 3."""
    if isinstance(config, str):
        try:
            config = json.loads(Path(config).read_text(encoding="utf-8"))
        except (OSError, ValueError):
            return False  # DeepSpeed says what is wrong with its file
    zero = config.get("zero_optimization") if isinstance(config, dict) else None
    return isinstance(zero, dict) and str(zero.get("stage")) == str(_ZERO_3)
