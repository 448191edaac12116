"""The dose of an adapter: the share of its update that is applied, in a loaded model or written as an adapter of its own.

At dose λ every LoRA update is λ times the trained one, and the head is (1 − λ) · base + λ · trained. λ = 0 is the base
model and λ = 1 the adapter as it was trained. The update is scaled in weight space: the score itself need not be linear
in λ. Several adapters are composed by adding their dosed updates.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from cda.errors import ModelError
from cda.models.load import ModelSpec, RewardModel, head_names, load_config, load_reward_model
from cda.training.adapter import PREFIX, SIDE_A, SIDE_B, Adapter, check_plain, read_adapter

if TYPE_CHECKING:
    from torch import Tensor


class DosedModel:
    """A loaded reward model with an adapter, whose dose can be changed at will.

    Attributes:
        reward_model: The model; it scores at the dose that was set last.
        dose: That dose; 1 at first.
    """

    def __init__(self, reward_model: RewardModel) -> None:
        """Raises ModelError where the model has no plain LoRA adapter."""
        from peft import PeftModel
        from peft.tuners.lora import LoraLayer
        from peft.utils import ModulesToSaveWrapper

        model, where = reward_model.model, reward_model.spec.name_or_path
        if not isinstance(model, PeftModel):
            raise ModelError(f"{where}: was loaded without an adapter; there is nothing to give a dose of")
        name = model.active_adapter
        check_plain(model.peft_config[name].to_dict(), f"{where}: its adapter")
        self.reward_model = reward_model
        self.dose = 1.0
        self._name = name
        layers = [part for part in model.modules() if isinstance(part, LoraLayer) and name in part.scaling]
        self._scalings = [(layer.scaling, float(layer.scaling[name])) for layer in layers]
        self._heads = [
            pair
            for part in model.modules()
            if isinstance(part, ModulesToSaveWrapper)
            for pair in _head_pairs(part, name)
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
    found: dict[str, Tensor] = {}
    for head in reward_model.head_names:
        module = getattr(model, head)
        if isinstance(module, ModulesToSaveWrapper):
            module = module.original_module
        found |= {f"{head}.{name}": weights.detach().float().cpu() for name, weights in module.named_parameters()}
    return found


def read_head(spec: ModelSpec) -> dict[str, Tensor]:
    """The base's head in float32 by tensor name, read from the model's files; loads the model only if they name it otherwise."""
    from safetensors import safe_open

    heads = head_names(load_config(spec), spec)
    found: dict[str, Tensor] = {}
    for file, names in _head_files(spec, heads).items():
        with safe_open(file, framework="pt") as opened:
            found |= {name: opened.get_tensor(name).float() for name in names}
    if {name.split(".")[0] for name in found} == set(heads):
        return found
    return head_of(load_reward_model(spec))


def compose_adapters(
    adapters: Sequence[tuple[Path, float]], base_head: Mapping[str, Tensor], folder: Path, base: str | None = None
) -> None:
    """Write one ordinary PEFT adapter whose update is the sum of dosed updates.

    LoRA's A are stacked along the rank and so are B, times scaling and dose; the head is the base's plus the dosed
    differences from it. One adapter keeps its rank; of several the ranks add up. Weights are written in float32.

    Args:
        adapters: Folders of adapters of one base, each with its dose.
        base_head: The base's head by tensor name (`read_head`, `head_of`).
        folder: Gets adapter_config.json and adapter_model.safetensors.
        base: Name of the base for the adapter's configuration; None keeps the first adapter's.

    Raises:
        ModelError: An adapter is no plain LoRA of a sequence classifier, has another head, or does not fit the others.
    """
    from safetensors.torch import save_file

    if not adapters:
        raise ModelError("no adapter was given to write a dose of")
    for _, dose in adapters:
        check_dose(dose)
    read = [(read_adapter(path, base_head), dose) for path, dose in adapters]
    tensors, config = _scaled(*read[0]) if len(read) == 1 else _sum(read)
    for name, weights in base_head.items():
        trained = [(one.head[name], dose) for one, dose in read]
        tensors[PREFIX + name] = _mixed(weights.float(), trained)
    config |= {
        "inference_mode": True,
        "task_type": "SEQ_CLS",
        "modules_to_save": sorted({name.split(".")[0] for name in base_head}),
        "base_model_name_or_path": base or read[0][0].base,
    }
    folder.mkdir(parents=True, exist_ok=True)
    save_file({name: one.contiguous() for name, one in tensors.items()}, folder / "adapter_model.safetensors")
    (folder / "adapter_config.json").write_text(json.dumps(config, indent=2, sort_keys=True) + "\n", encoding="utf-8")


def check_dose(dose: float) -> None:
    """Raise ModelError unless a dose is a number from 0 up."""
    if not math.isfinite(dose) or dose < 0:
        raise ModelError(f"dose {dose}: must be a number from 0 (the base model) up; 1 is the adapter as trained")


def _head_pairs(wrapper: Any, name: str) -> list[tuple[Any, Tensor, Tensor]]:
    """Each trained tensor of a head in use, the base's, and a copy of the trained one."""
    base = dict(wrapper.original_module.named_parameters())
    return [
        (parameter, base[key].detach(), parameter.detach().clone())
        for key, parameter in wrapper.modules_to_save[name].named_parameters()
    ]


def _mixed(base: Tensor, trained: Sequence[tuple[Tensor, float]]) -> Tensor:
    """Base plus the dosed differences from it, in float32; written so that doses of 0 and 1 are exact."""
    mixed = (1.0 - sum(dose for _, dose in trained)) * base.float()
    for weights, dose in trained:
        mixed = mixed + dose * weights.float()
    return mixed


def _head_files(spec: ModelSpec, heads: tuple[str, ...]) -> dict[str, list[str]]:
    """File to the head's tensors in it. Of a sharded model on the hub only the shards with a head are fetched."""
    from safetensors import safe_open
    from transformers.utils import cached_file

    def fetched(name: str) -> str | None:
        path = cached_file(spec.name_or_path, name, revision=spec.revision, _raise_exceptions_for_missing_entries=False)
        return None if path is None else str(path)

    index, single = fetched("model.safetensors.index.json"), fetched("model.safetensors")
    found: dict[str, list[str]] = {}
    if index is not None:
        for name, shard in json.loads(Path(index).read_text(encoding="utf-8"))["weight_map"].items():
            if name.split(".")[0] in heads and (file := fetched(shard)) is not None:
                found.setdefault(file, []).append(name)
    elif single is not None:
        with safe_open(single, framework="pt") as opened:
            found[single] = [name for name in opened.keys() if name.split(".")[0] in heads]  # noqa: SIM118
    return found


def _scaled(adapter: Adapter, dose: float) -> tuple[dict[str, Tensor], dict[str, object]]:
    """One adapter at a dose: the same configuration, B times the dose."""
    tensors = {PREFIX + name + SIDE_A: layer.a for name, layer in adapter.layers.items()}
    tensors |= {PREFIX + name + SIDE_B: layer.b * dose for name, layer in adapter.layers.items()}
    return tensors, dict(adapter.config)


def _sum(adapters: Sequence[tuple[Adapter, float]]) -> tuple[dict[str, Tensor], dict[str, object]]:
    """Several adapters side by side along the rank; a layer that one of them lacks gets a block of zeros from it."""
    import torch

    ranks = [max(len(layer.a) for layer in one.layers.values()) for one, _ in adapters]
    rank = sum(ranks)
    tensors: dict[str, Tensor] = {}
    for name in sorted({name for one, _ in adapters for name in one.layers}):
        shapes = {(one.layers[name].a.shape[1], len(one.layers[name].b)) for one, _ in adapters if name in one.layers}
        if len(shapes) > 1:
            raise ModelError(f"{_folders(adapters)}: differ in the shape of {name}; they are of different base models")
        (n_in, n_out), start = shapes.pop(), 0
        a, b = torch.zeros(rank, n_in), torch.zeros(n_out, rank)
        for (one, dose), room in zip(adapters, ranks, strict=True):
            if name in one.layers:
                layer = one.layers[name]
                rows = slice(start, start + len(layer.a))
                a[rows], b[:, rows] = layer.a, layer.b * (layer.scaling * dose)
            start += room
        tensors |= {PREFIX + name + SIDE_A: a, PREFIX + name + SIDE_B: b}
    if len({bool(one.config.get("fan_in_fan_out")) for one, _ in adapters}) > 1:
        raise ModelError(f"{_folders(adapters)}: differ in fan_in_fan_out; they are of different base models")
    config = {
        "peft_type": "LORA",
        "r": rank,
        "lora_alpha": rank,  # so that PEFT's scaling is 1: each adapter's own is in B
        "bias": "none",
        "fan_in_fan_out": bool(adapters[0][0].config.get("fan_in_fan_out")),
        # Whole names, so that exactly these layers are found, whatever way each adapter named its own.
        "target_modules": sorted({name for one, _ in adapters for name in one.layers}),
    }
    return tensors, config


def _folders(adapters: Sequence[tuple[Adapter, float]]) -> str:
    return ", ".join(str(one.folder) for one, _ in adapters)
