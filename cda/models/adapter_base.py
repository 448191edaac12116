"""An adapter next to the base model that it is to be applied to: whether it fits, and whether it was trained on it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from cda.errors import ModelError
from cda.files.jsonl import read_json
from cda.models.config import ModelSpec
from cda.models.refusals import first_line
from cda.models.weights import skeleton

_PREFIX = "base_model.model."
_SIDES = {".lora_A.weight": 1, ".lora_B.weight": 0}
"""Tensors of LoRA, and the side of the layer's weights that each is as wide as."""


def check_base(adapter: Path, spec: ModelSpec, config: object) -> str | None:
    """Compare an adapter with a base by their configurations and the shapes of their tensors, before any weights are loaded.
    Return a sentence if it names another base or revision, which may be the same weights elsewhere. ModelError: it cannot fit.
    """
    named = read_json(adapter / "adapter_config.json")
    base, revision = named.get("base_model_name_or_path"), named.get("revision")
    trained_on = f", which was trained on {base}," if base else ""
    shapes, wanted = _shapes(adapter), _base_shapes(skeleton(spec, config))
    odd = [name for name in shapes if name.endswith(tuple(_SIDES)) and name not in wanted]
    wrong = [name for name, shape in shapes.items() if (wanted.get(name) or shape) != shape]
    if odd or wrong:
        why = (
            f"{len(odd)} of its tensors are without a counterpart there (first: {odd[0]})"
            if odd
            else f"{wrong[0]} is {_size(shapes[wrong[0]])} in the adapter and {_size(wanted[wrong[0]])} in this model"
        )
        raise ModelError(
            f"{adapter}{trained_on} does not fit {spec.name_or_path}: {why}. Give the model that it was trained on, or train again"
        )
    if isinstance(base, str) and _differ(base, spec.name_or_path):
        return f"{adapter}: was trained on {base}; on {spec.name_or_path} its scores mean something only if the weights are the same"
    if revision and spec.revision and revision != spec.revision:
        return (
            f"{adapter}: was trained on revision {revision} of {base}; at revision {spec.revision} its scores mean something only "
            "if the weights are the same"
        )
    return None


def _shapes(adapter: Path) -> dict[str, tuple[int, ...]]:
    """Tensor to the sizes that the base decides: of LoRA's two sides one, of the head all."""
    from safetensors import SafetensorError, safe_open

    file = adapter / "adapter_model.safetensors"
    try:
        with safe_open(file, framework="pt") as opened:
            found = {name: tuple(opened.get_slice(name).get_shape()) for name in sorted(opened.keys())}
    except (SafetensorError, OSError) as error:
        raise ModelError(f"{file}: cannot be read ({first_line(error)}); was it saved completely?") from None
    shapes = {}
    for name, shape in found.items():
        side = next((end for end in _SIDES if name.endswith(end)), None)
        shapes[name.removeprefix(_PREFIX)] = shape if side is None else shape[_SIDES[side] : _SIDES[side] + 1]
    return shapes


def _base_shapes(model: Any) -> dict[str, tuple[int, ...]]:
    """The same of a model without weights; layers that are no plain linear ones fit any LoRA here, and PEFT decides."""
    shapes = {name: tuple(weights.shape) for name, weights in model.named_parameters()}
    for name, layer in model.named_modules():
        inside, out = getattr(layer, "in_features", None), getattr(layer, "out_features", None)
        plain = inside is not None and out is not None
        shapes |= {
            f"{name}.lora_A.weight": (inside,) if plain else (),
            f"{name}.lora_B.weight": (out,) if plain else (),
        }
    return shapes


def _size(shape: tuple[int, ...]) -> str:
    return " × ".join(map(str, shape))


def _differ(first: str, second: str) -> bool:
    """True if two names cannot be of one model; of a folder the last part counts, since folders move."""
    if Path(first).is_absolute() or Path(second).is_absolute() or "/" not in first or "/" not in second:
        return Path(first).name.lower() != Path(second).name.lower()
    return first.lower() != second.lower()
