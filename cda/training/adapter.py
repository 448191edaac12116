"""An adapter's files, read and checked: plain LoRA of a sequence classifier, which a dose is defined for."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from cda.errors import DataError, ModelError
from cda.files.jsonl import read_json
from cda.files.paths import is_there
from cda.models.load import check_adapter

if TYPE_CHECKING:
    from torch import Tensor

PREFIX = "base_model.model."
SIDE_A, SIDE_B = ".lora_A.weight", ".lora_B.weight"
# Starts that leave the base's weights alone; the others (pissa, olora, corda, loftq, …) change them while loading.
_PLAIN_STARTS = (True, False, "gaussian", "orthogonal", "eva")
# Forms of LoRA whose effect is not the plain product B·A; in each of them, unset means plain.
_OTHER_FORMS = (
    "use_dora", "lora_bias", "use_qalora", "use_bdlora", "layer_replication", "target_parameters", "arrow_config",
    "kasa_config", "monteclora_config", "velora_config", "alora_invocation_tokens", "trainable_token_indices",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Layer:
    """LoRA of one linear layer: its update is scaling · b @ a. Shapes (rank, in) and (out, rank), float32."""

    a: Tensor
    b: Tensor
    scaling: float


@dataclass(frozen=True, slots=True)
class Adapter:
    """An adapter as it was read: LoRA by layer name, head by tensor name, both without PEFT's prefix."""

    folder: Path
    config: dict[str, Any]
    layers: dict[str, Layer]
    head: dict[str, Tensor]

    @property
    def base(self) -> str | None:
        """Name or folder of the base that it was trained on, if its configuration has one."""
        return self.config.get("base_model_name_or_path")


def adapter_config(adapter: Path) -> dict[str, object]:
    """The configuration of an adapter; ModelError if there is none, or it is not plain LoRA of a sequence classifier."""
    file = adapter / "adapter_config.json"
    try:
        config = read_json(file)
    except DataError as error:
        if not is_there(file):
            raise ModelError(f"{adapter}: not an adapter folder; it holds no adapter_config.json") from None
        raise ModelError(f"{file}: cannot be read ({error})") from None
    if not isinstance(config, dict):
        raise ModelError(f"{file}: not an adapter's configuration; expected a JSON object")
    check_plain(config, str(adapter))
    return config


def read_adapter(folder: Path, base_head: Mapping[str, Tensor]) -> Adapter:
    """Read an adapter whole, and check that it fits a base's head.

    Raises:
        ModelError: Not plain LoRA of a sequence classifier, incomplete, or of another head.
    """
    from safetensors.torch import load_file

    config = adapter_config(folder)
    check_adapter(folder, tuple(dict.fromkeys(name.split(".")[0] for name in base_head)))
    tensors = {
        name.removeprefix(PREFIX): weights.float()
        for name, weights in load_file(folder / "adapter_model.safetensors").items()
    }
    sides = {name for name in tensors if name.endswith((SIDE_A, SIDE_B))}
    head = {name: tensors[name] for name in tensors.keys() - sides}
    if _shapes(head) != _shapes(base_head):
        raise ModelError(
            f"{folder}: beside LoRA it holds {_listed(head)}, and the base's head is {_listed(base_head)}. "
            "An adapter of another base or another head cannot be used"
        )
    layers = {
        name.removesuffix(SIDE_A): _layer(folder, config, tensors, name)
        for name in sorted(sides)
        if name.endswith(SIDE_A)
    }
    if not layers or 2 * len(layers) != len(sides):
        raise ModelError(f"{folder}: its LoRA weights are not pairs of A and B; was it saved completely?")
    return Adapter(folder, config, layers, head)


def _layer(folder: Path, config: Mapping[str, Any], tensors: Mapping[str, Tensor], name: str) -> Layer:
    from peft.utils.other import get_pattern_key

    layer = name.removesuffix(SIDE_A)
    a, b = tensors[name], tensors.get(layer + SIDE_B)
    ranks, alphas = config.get("rank_pattern") or {}, config.get("alpha_pattern") or {}
    if not (isinstance(ranks, dict) and isinstance(alphas, dict)):
        raise ModelError(f"{folder}: its configuration has a rank_pattern or alpha_pattern that is no mapping")
    rank = ranks.get(get_pattern_key(ranks, layer), config.get("r"))
    alpha = alphas.get(get_pattern_key(alphas, layer), config.get("lora_alpha"))
    if (
        b is None
        or a.ndim != 2
        or b.ndim != 2
        or not len(a) == b.shape[1] == rank
        or not isinstance(alpha, int | float)
    ):
        raise ModelError(
            f"{folder}: {layer} does not fit its configuration (A {tuple(a.shape)}, "
            f"B {None if b is None else tuple(b.shape)}, rank {rank}, alpha {alpha}); only linear layers of one rank can be read"
        )
    return Layer(a, b, alpha / (math.sqrt(rank) if config.get("use_rslora") else rank))


def check_plain(config: Mapping[str, object], where: str) -> None:
    """Raise ModelError, opened by `where`, if an adapter's effect is not plain LoRA and a head."""
    kind, task = config.get("peft_type"), config.get("task_type")
    if str(kind).rsplit(".", 1)[-1] != "LORA":
        raise ModelError(f"{where}: is a {kind} adapter; a dose is defined for LoRA alone")
    if task is not None and str(task).rsplit(".", 1)[-1] != "SEQ_CLS":
        raise ModelError(
            f"{where}: was made for another kind of model (task_type {task}); a reward model's adapter is a "
            "sequence classifier's (SEQ_CLS), with its head"
        )
    unknown = [name for name in _OTHER_FORMS if config.get(name)]
    if config.get("bias", "none") != "none":
        unknown.append(f"bias {config['bias']}")
    if config.get("init_lora_weights", True) not in _PLAIN_STARTS:
        unknown.append(f"init_lora_weights {config['init_lora_weights']}")
    if unknown:
        raise ModelError(
            f"{where}: uses {', '.join(unknown)}, which cannot be scaled by a dose; only plain LoRA can. Train without it"
        )


def _shapes(tensors: Mapping[str, Tensor]) -> dict[str, tuple[int, ...]]:
    return {name: tuple(weights.shape) for name, weights in tensors.items()}


def _listed(tensors: Mapping[str, Tensor]) -> str:
    named = [f"{name} {shape}" for name, shape in sorted(_shapes(tensors).items())]
    return ", ".join(named[:6]) + (f" and {len(named) - 6} more" if len(named) > 6 else "") if named else "nothing"
