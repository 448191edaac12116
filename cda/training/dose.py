"""The dose of an adapter: the share of its update that is applied, in a loaded model or written as a separate adapter.

At dose λ every LoRA update is λ times the trained one, and the head is (1 − λ) · base + λ · trained. λ = 0 is the base
model and λ = 1 the adapter as it was trained. The update is scaled in weight space: the score itself need not be linear
in λ. Several adapters are composed by adding their dosed updates.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from cda.errors import ModelError
from cda.models.adapters import PREFIX, SIDE_A, SIDE_B, adapter_config, check_adapter, replaced_tensors
from cda.models.config import ModelSpec, load_config
from cda.models.load import RewardModel, load_reward_model
from cda.models.own_files import ModelFiles
from cda.models.weights import head_names

if TYPE_CHECKING:
    from torch import Tensor

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


def plain_config(adapter: Path) -> dict[str, Any]:
    """The configuration of an adapter; ModelError if there is none, or it is not plain LoRA of a sequence classifier."""
    config = adapter_config(adapter)
    check_plain(config, str(adapter))
    if replaced := replaced_tensors(adapter):
        raise ModelError(
            f"{adapter}: replaces the base's {replaced[0]}, which cannot be scaled by a dose; only LoRA and a head can"
        )
    return config


def read_adapter(folder: Path, base_head: Mapping[str, Tensor]) -> Adapter:
    """Read an adapter whole; ModelError if it is not plain LoRA of a sequence classifier, incomplete, or of another head."""
    from safetensors.torch import load_file

    config = plain_config(folder)
    check_adapter(folder, tuple(dict.fromkeys(name.split(".")[0] for name in base_head)))
    tensors = {
        name.removeprefix(PREFIX): weights.float()
        for name, weights in load_file(folder / "adapter_model.safetensors").items()
    }
    sides = {name for name in tensors if name.endswith((SIDE_A, SIDE_B))}
    head = {name: tensors[name] for name in tensors.keys() - sides}
    if _shapes(head) != _shapes(base_head):
        raise ModelError(
            f"{folder}: besides LoRA it holds {_listed(head)}, and the base's head is {_listed(base_head)}. "
            "An adapter of another base or another head cannot be used"
        )
    names = sorted(name.removesuffix(SIDE_A) for name in sides if name.endswith(SIDE_A))
    layers = {name: _layer(folder, config, tensors, name) for name in names}
    if not layers or 2 * len(layers) != len(sides):
        raise ModelError(f"{folder}: its LoRA weights are not pairs of A and B; was it saved completely?")
    return Adapter(folder, config, layers, head)


def _layer(folder: Path, config: Mapping[str, Any], tensors: Mapping[str, Tensor], layer: str) -> Layer:
    from peft.utils.other import get_pattern_key

    a, b = tensors[layer + SIDE_A], tensors.get(layer + SIDE_B)
    ranks, alphas = config.get("rank_pattern") or {}, config.get("alpha_pattern") or {}
    if not (isinstance(ranks, dict) and isinstance(alphas, dict)):
        raise ModelError(f"{folder}: its configuration has a rank_pattern or alpha_pattern that is no mapping")
    rank = ranks.get(get_pattern_key(ranks, layer), config.get("r"))
    alpha = alphas.get(get_pattern_key(alphas, layer), config.get("lora_alpha"))
    fits = b is not None and a.ndim == b.ndim == 2 and len(a) == b.shape[1] == rank
    if b is None or not rank or not fits or not isinstance(alpha, int | float):
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


class DosedModel:
    """A loaded reward model with a plain LoRA adapter (else ModelError), which scores at the dose set last, 1 at first."""

    def __init__(self, reward_model: RewardModel) -> None:
        from peft import PeftModel
        from peft.tuners.lora import LoraLayer
        from peft.utils import ModulesToSaveWrapper

        model, where = reward_model.model, reward_model.spec.name_or_path
        if not isinstance(model, PeftModel):
            raise ModelError(f"{where}: was loaded without an adapter; there is nothing to give a dose of")
        self.reward_model, self.dose = reward_model, 1.0
        self._name = name = model.active_adapter
        check_plain(model.peft_config[name].to_dict(), f"{where}: its adapter")
        layers = [part for part in model.modules() if isinstance(part, LoraLayer) and name in part.scaling]
        self._scalings = [(layer.scaling, float(layer.scaling[name])) for layer in layers]
        # Each trained tensor of a head in use, the base's, and a copy of the trained one.
        self._heads = [
            (weights, part.original_module.get_parameter(key).detach(), weights.detach().clone())
            for part in model.modules()
            if isinstance(part, ModulesToSaveWrapper)
            for key, weights in part.modules_to_save[name].named_parameters()
        ]

    def set(self, dose: float) -> None:
        """Score at this dose from now on, a number from 0 up; 1 restores the trained weights exactly."""
        import torch

        check_dose(dose)
        for scaling, trained in self._scalings:
            scaling[self._name] = trained * dose
        with torch.no_grad():
            for parameter, base, trained_weights in self._heads:
                parameter.copy_(_mixed(base, [(trained_weights, dose)]))
        self.dose = dose


def head_of(reward_model: RewardModel) -> dict[str, Tensor]:
    """The base's head in float32 by tensor name, as `score.weight`; an adapter on the model is looked through."""
    from peft import PeftModel
    from peft.utils import ModulesToSaveWrapper

    loaded = reward_model.model
    model = loaded.get_base_model() if isinstance(loaded, PeftModel) else loaded
    tensors: dict[str, Tensor] = {}
    for head in reward_model.head_names:
        module = getattr(model, head)
        if isinstance(module, ModulesToSaveWrapper):
            module = module.original_module
        tensors |= {f"{head}.{name}": weights.detach().float().cpu() for name, weights in module.state_dict().items()}
    return tensors


def read_head(spec: ModelSpec) -> dict[str, Tensor]:
    """The base's head in float32 by tensor name, from its files (on the hub only shards with a head are fetched); the model is
    loaded only if they name it otherwise."""
    from safetensors import safe_open

    heads, files = head_names(load_config(spec), spec), ModelFiles(spec.name_or_path, spec.revision)
    named = {name: file for name, file in files.tensors.items() if name.split(".")[0] in heads}
    tensors: dict[str, Tensor] = {}
    for file in sorted(set(named.values())):
        if (path := files.path(file)) is not None:
            with safe_open(path, framework="pt") as opened:
                tensors |= {name: opened.get_tensor(name).float() for name in named if named[name] == file}
    if {name.split(".")[0] for name in tensors} == set(heads):
        return tensors
    return head_of(load_reward_model(spec))


def compose_adapters(
    adapters: Sequence[tuple[Path, float]], base_head: Mapping[str, Tensor], folder: Path, base: str | None = None
) -> None:
    """Write one PEFT adapter into `folder`, in float32: the sum of dosed updates of adapters of one base. LoRA's A and B are
    stacked along the rank, B times scaling and dose; the head is the base's (`read_head`, `head_of`) plus the dosed differences
    from it. `base` replaces the first adapter's. ModelError: no plain LoRA of a classifier, another head, or no fit to the
    others."""
    from safetensors.torch import save_file

    if not adapters:
        raise ModelError("no adapter was given to write a dose of")
    for _, dose in adapters:
        check_dose(dose)
    read = [(read_adapter(path, base_head), dose) for path, dose in adapters]
    tensors, config = _scaled(*read[0]) if len(read) == 1 else _sum(read)
    for name, weights in base_head.items():
        tensors[PREFIX + name] = _mixed(weights.float(), [(adapter.head[name], dose) for adapter, dose in read])
    config |= {
        "inference_mode": True,
        "task_type": "SEQ_CLS",
        "modules_to_save": sorted({name.split(".")[0] for name in base_head}),
        "base_model_name_or_path": base or read[0][0].base,
    }
    folder.mkdir(parents=True, exist_ok=True)
    save_file({name: weights.contiguous() for name, weights in tensors.items()}, folder / "adapter_model.safetensors")
    (folder / "adapter_config.json").write_text(json.dumps(config, indent=2, sort_keys=True) + "\n", encoding="utf-8")


def check_dose(dose: float) -> None:
    """Raise ModelError unless a dose is a number from 0 up."""
    if not math.isfinite(dose) or dose < 0:
        raise ModelError(f"dose {dose}: must be a number from 0 (the base model) up; 1 is the adapter as trained")


def _mixed(base: Tensor, trained: Sequence[tuple[Tensor, float]]) -> Tensor:
    """Base plus the dosed differences from it, in float32; written so that doses of 0 and 1 are exact."""
    mixed = (1.0 - sum(dose for _, dose in trained)) * base.float()
    for weights, dose in trained:
        mixed = mixed + dose * weights.float()
    return mixed


def _scaled(adapter: Adapter, dose: float) -> tuple[dict[str, Tensor], dict[str, object]]:
    tensors = {PREFIX + name + SIDE_A: layer.a for name, layer in adapter.layers.items()}
    tensors |= {PREFIX + name + SIDE_B: layer.b * dose for name, layer in adapter.layers.items()}
    return tensors, dict(adapter.config)


def _sum(adapters: Sequence[tuple[Adapter, float]]) -> tuple[dict[str, Tensor], dict[str, object]]:
    """Several adapters side by side along the rank; a layer that one of them lacks gets a block of zeros from it."""
    import torch

    folders = ", ".join(str(adapter.folder) for adapter, _ in adapters)
    ranks = [max(len(layer.a) for layer in adapter.layers.values()) for adapter, _ in adapters]
    rank, names = sum(ranks), sorted({name for adapter, _ in adapters for name in adapter.layers})
    tensors: dict[str, Tensor] = {}
    for name in names:
        layers = [(adapter.layers.get(name), dose) for adapter, dose in adapters]
        shapes = {(layer.a.shape[1], len(layer.b)) for layer, _ in layers if layer is not None}
        if len(shapes) > 1:
            raise ModelError(f"{folders}: differ in the shape of {name}; they are of different base models")
        (n_in, n_out), start = shapes.pop(), 0
        a, b = torch.zeros(rank, n_in), torch.zeros(n_out, rank)
        for (layer, dose), room in zip(layers, ranks, strict=True):
            if layer is not None:
                rows = slice(start, start + len(layer.a))
                a[rows], b[:, rows] = layer.a, layer.b * (layer.scaling * dose)
            start += room
        tensors |= {PREFIX + name + SIDE_A: a, PREFIX + name + SIDE_B: b}
    if len({bool(adapter.config.get("fan_in_fan_out")) for adapter, _ in adapters}) > 1:
        raise ModelError(f"{folders}: differ in fan_in_fan_out; they are of different base models")
    config = {
        "peft_type": "LORA",
        "r": rank,
        "lora_alpha": rank,  # so that PEFT's scaling is 1: each adapter's own is in B
        "bias": "none",
        "fan_in_fan_out": bool(adapters[0][0].config.get("fan_in_fan_out")),
        # Whole names, so that exactly these layers are found, whatever way each adapter named its own.
        "target_modules": names,
    }
    return tensors, config
