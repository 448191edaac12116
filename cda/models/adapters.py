"""An adapter: its files, checked before any weights are loaded; whether it fits a base; and the model with it."""

from __future__ import annotations

import math
import re
import warnings
from pathlib import Path
from typing import Any

from cda.errors import DataError, ModelError, did_you_mean, type_in_words
from cda.files.jsonl import read_json
from cda.models.agreement import shown_names, size
from cda.models.config import ModelSpec, shown
from cda.models.refusals import first_line
from cda.models.weights import empty_model

PREFIX = "base_model.model."
SIDE_A, SIDE_B = ".lora_A.weight", ".lora_B.weight"
_SIDES = {SIDE_A: 1, SIDE_B: 0}
"""Tensors of LoRA, and the side of the layer's weights that each is as wide as."""
_RANKS = ("r", "lora_alpha", "alpha")
"""Settings of an adapter that its scores rest on, for which PEFT has defaults: a missing rank would be taken for 8."""
_EMBEDDINGS = re.compile(
    r"\.(embed_tokens|lm_head|wte|embed_in|embed_out|word_embeddings|shared)(\.base_layer)?\.(weight|bias)$"
)
_SHARED = re.compile(r"\.model\..*\.vblora_vector_bank")
"""Of tensors that all layers share, each layer shows a copy, which no file holds."""


def adapter_config(adapter: Path) -> dict[str, Any]:
    """The configuration of an adapter. ModelError: its files are not there or cannot be read, or it names no method that PEFT knows, or
    leaves out the rank or scale that it needs."""
    from peft.mapping import PEFT_TYPE_TO_CONFIG_MAPPING

    file = adapter / "adapter_config.json"
    if not file.is_file() or not (adapter / "adapter_model.safetensors").is_file():
        pickled = " (adapter_model.bin is a pickle, which can run code when read: convert it)"
        raise ModelError(
            f"{adapter}: not an adapter folder; it needs adapter_config.json and adapter_model.safetensors"
            + (pickled if (adapter / "adapter_model.bin").exists() else "")
        )
    try:
        content = read_json(file)
    except DataError as error:
        raise ModelError(f"{error}; was it saved completely?") from None
    if not isinstance(content, dict):
        raise ModelError(f"{file}: holds {type_in_words(content)}, not an object; save the adapter again")
    kind = content.get("peft_type")
    known = {str(each.value): config for each, config in PEFT_TYPE_TO_CONFIG_MAPPING.items()}
    if str(kind) not in known:
        raise ModelError(
            f"{file}: peft_type={shown(kind)} is none that the installed PEFT knows.{did_you_mean(str(kind), known)} "
            "Correct it, or update PEFT (pip install -U peft)"
        )
    fields = known[str(kind)].__dataclass_fields__
    for key in (key for key in _RANKS if key in fields):
        value = content.get(key)
        if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value < math.inf:
            found = "is not there" if key not in content else f"is {shown(value)}"
            raise ModelError(
                f"{file}: {key} {found}, and its scores rest on it; put the number there that the adapter was trained with"
            )
    return content


def check_adapter(adapter: Path, heads: tuple[str, ...]) -> None:
    """An adapter must be a classifier's and hold the head it was trained with: a random head is worse than an error.
    ModelError if files or head weights are missing, or the adapter was made for another task.
    """
    task = adapter_config(adapter).get("task_type")
    if task not in (None, "SEQ_CLS"):
        made_for = "a causal language model (text generation)" if task == "CAUSAL_LM" else "another kind of model"
        raise ModelError(
            f"{adapter}: its task_type is {task}: an adapter of {made_for}. Needed is one that was trained on a reward model "
            "(a sequence classifier with one label), saved with task_type SEQ_CLS and its score head"
        )
    keys = _shapes(adapter)
    missing = [head for head in heads if not any(f".{head}." in key for key in keys)]
    if missing:
        raise ModelError(
            f"{adapter}: holds no weights for the score head '{', '.join(missing)}'. "
            "It would score with a random head; export the adapter with modules_to_save set to it"
        )


def with_adapter(model: object, adapter: Path) -> Any:
    """The model as a PeftModel with its adapter active; ModelError if the adapter does not fit, or is not whole."""
    from peft import PeftModel

    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of missing tensors, which are refused below
            adapted = PeftModel.from_pretrained(model, str(adapter), is_trainable=False)
            check_adapter_tensors(adapted, adapter)
    except ModelError:
        raise
    except Exception as error:  # peft raises many kinds here
        raise ModelError(f"{adapter}: does not fit this model ({misfit(error)})") from None
    return adapted


def check_base(adapter: Path, spec: ModelSpec, config: object) -> str | None:
    """Compare an adapter with a base by their configurations and the shapes of their tensors, before any weights are loaded.
    Return a sentence if it names another base or revision, which may be the same weights elsewhere. ModelError: it cannot fit.
    """
    named = read_json(adapter / "adapter_config.json")
    base, revision = named.get("base_model_name_or_path"), named.get("revision")
    trained_on = f", which was trained on {base}," if base else ""
    shapes = {name.removeprefix(PREFIX): _of_base(name, shape) for name, shape in _shapes(adapter).items()}
    wanted = _base_shapes(empty_model(spec, config))
    odd = [name for name in shapes if name.endswith(tuple(_SIDES)) and name not in wanted]
    wrong = [name for name, shape in shapes.items() if (wanted.get(name) or shape) != shape]
    if odd or wrong:
        why = (
            f"{len(odd)} of its tensors are without a counterpart there (first: {odd[0]})"
            if odd
            else f"{wrong[0]} is {size(shapes[wrong[0]])} in the adapter and {size(wanted[wrong[0]])} in this model"
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
    """Shapes of the tensors in an adapter's file; ModelError if it cannot be read."""
    from safetensors import SafetensorError, safe_open

    file = adapter / "adapter_model.safetensors"
    try:
        with safe_open(file, framework="pt") as opened:
            return {name: tuple(opened.get_slice(name).get_shape()) for name in sorted(opened.keys())}
    except (SafetensorError, OSError) as error:
        raise ModelError(f"{file}: cannot be read ({first_line(error)}); was it saved completely?") from None


def _of_base(name: str, shape: tuple[int, ...]) -> tuple[int, ...]:
    """The sizes that the base decides: of LoRA's two sides one, of the head all."""
    side = next((end for end in _SIDES if name.endswith(end)), None)
    return shape if side is None else shape[_SIDES[side] : _SIDES[side] + 1]


def _base_shapes(model: Any) -> dict[str, tuple[int, ...]]:
    """The same of a model without weights; layers that are no plain linear ones fit any LoRA here, and PEFT decides."""
    shapes = {name: tuple(weights.shape) for name, weights in model.named_parameters()}
    for name, layer in model.named_modules():
        inside, out = getattr(layer, "in_features", None), getattr(layer, "out_features", None)
        plain = inside is not None and out is not None
        shapes |= {
            f"{name}{SIDE_A}": (inside,) if plain else (),
            f"{name}{SIDE_B}": (out,) if plain else (),
        }
    return shapes


def _differ(first: str, second: str) -> bool:
    """True if two names cannot be of one model; of a folder the last part counts, since folders move."""
    if Path(first).is_absolute() or Path(second).is_absolute() or "/" not in first or "/" not in second:
        return Path(first).name.lower() != Path(second).name.lower()
    return first.lower() != second.lower()


def check_adapter_tensors(model: Any, adapter: Path) -> None:
    """Compare the tensors in an adapter's file with those that PEFT made for its configuration and this base.

    `model` is the PeftModel with the adapter loaded. ModelError: tensors are missing, which stayed random, or the file holds
    others, of layers that are not there or of the base itself. Embeddings may be in it: PEFT saves them if they were trained or
    resized.
    """
    # Loaded once more: from_pretrained keeps PEFT's own comparison, made after its renaming of keys, to itself.
    loaded = model.load_adapter(str(adapter), model.active_adapter, is_trainable=False)
    saved, own = set(_shapes(adapter)), _own_tensors(model)
    tuned = _tuned(model, own)
    lost = [key for key in loaded.missing_keys if not _SHARED.search(key)]
    missing = sorted({*(own - tuned - saved), *(_in_file(key, model.active_adapter) for key in lost)})
    if missing:
        raise ModelError(
            f"{adapter}: its file lacks {len(missing)} of the {len(own)} tensors that its adapter_config.json asks for on this base "
            f"({shown_names(missing)}), which would be random. Save the adapter again, whole, or train it again"
        )
    base = set(model.get_base_model().state_dict())
    in_base = {key for key in saved - own if key.removeprefix(PREFIX) in base and not _EMBEDDINGS.search(key)}
    odd = sorted({*in_base, *(_in_file(key, model.active_adapter) for key in loaded.unexpected_keys)})
    if odd:
        raise ModelError(
            f"{adapter}: its file holds {len(odd)} tensors that its adapter_config.json has no place for on this base ({shown_names(odd)}). "
            "Give the base and the adapter_config.json that it was trained with"
        )


def replaced_tensors(adapter: Path) -> list[str]:
    """Embeddings of the base that an adapter's file replaces; they stay replaced if it is switched off or scaled by a dose."""
    kept = read_json(adapter / "adapter_config.json").get("modules_to_save") or []
    found = [
        key for key in _shapes(adapter) if (match := _EMBEDDINGS.search(key)) and match[1] not in kept and not match[2]
    ]
    return sorted(key.removeprefix(PREFIX) for key in found)


def misfit(error: Exception) -> str:
    """PEFT's error over an adapter that does not fit, in one line that names the tensor if there is one."""
    if isinstance(error, KeyError) and str(error.args[0]).startswith("base_model"):
        return f"its file lacks {error.args[0]}"
    if sizes := re.search(r"size mismatch for (\S+): .*shape (\S+\[.*?\]).*shape.*? is (\S+\[.*?\])", str(error)):
        key, found, wanted = sizes.groups()
        shape = [size.partition("[")[2].rstrip("])").replace(", ", " × ") for size in (found, wanted)]
        return f"{_in_file(key, 'default')} is {shape[0]} in its file and {shape[1]} on this base"
    return first_line(error)


def _own_tensors(model: Any) -> set[str]:
    """Names of all tensors of the active adapter, as PEFT writes them into a file."""
    from peft import get_peft_model_state_dict

    return set(get_peft_model_state_dict(model, adapter_name=model.active_adapter, save_embedding_layers=False))


def _tuned(model: Any, own: set[str]) -> set[str]:
    """Those of them that its method adds, such as `lora_A`; the others are trained copies of the base's, such as a head."""
    from peft.mapping import PEFT_TYPE_TO_PREFIX_MAPPING

    prefix = PEFT_TYPE_TO_PREFIX_MAPPING.get(model.active_peft_config.peft_type, "")
    return {key for key in own if prefix in key}


def _in_file(key: str, adapter_name: str) -> str:
    """The name that a tensor has in a file: in memory the name of the adapter stands in it too."""
    return key.replace(".modules_to_save.", ".").replace(f".{adapter_name}", "")
