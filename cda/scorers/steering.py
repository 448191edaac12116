"""A steered model as a policy: a vector added to the residual stream after one layer.

hidden ← hidden + strength · vector at every position, prompt and response alike (activation addition: Turner et al.
2023; Rimsky et al. 2024 add it after the prompt only). Scored against the model itself, unsteered:

    LogRatioScorer(steered(causal, vector, layer=12, strength=4.0), Policy(causal))
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from cda.arrays import FloatArray
from cda.errors import DataError, ModelError
from cda.models.causal import CausalModel
from cda.scorers.log_ratio import Policy


def read_vector(path: Path, tensor: str | None = None) -> FloatArray:
    """A steering vector, shape (hidden size,), from a .npy or .safetensors file; pickle is never read. DataError if
    there is no such file, another format, several tensors and none named, or no vector of finite numbers.
    """
    if not path.is_file():
        raise DataError(f"{path}: no such file")
    if path.suffix == ".npy":
        try:
            array = np.load(path, allow_pickle=False)
        except (ValueError, OSError, EOFError) as error:
            raise DataError(f"{path}: cannot be read as an array without pickle ({error})") from None
    elif path.suffix == ".safetensors":
        array = _read_safetensors(path, tensor)
    else:
        raise DataError(
            f"{path}: a steering vector is read from .npy or .safetensors; other formats can run code when read"
        )
    vector = np.squeeze(array)  # (1, hidden size) is common
    if vector.ndim != 1 or not np.issubdtype(vector.dtype, np.floating) or not np.isfinite(vector).all():
        raise DataError(
            f"{path}: holds {vector.dtype} of shape {array.shape}; needed is one vector of finite decimal numbers"
        )
    return np.asarray(vector, dtype=np.float64)


def steered(causal: CausalModel, vector: FloatArray, layer: int, strength: float) -> Policy:
    """A policy with `strength` times a vector, shape (hidden size,), in the model's own units and not normalised, added
    to the output of a decoder layer, counted from 0; strength 0 is the model itself, negative steers away. ModelError
    if the vector does not fit, there is no such layer, or the strength is no number.
    """
    depth, size = len(decoder_layers(causal)), int(causal.model.config.get_text_config().hidden_size)
    finite = np.isfinite(vector).all()
    if vector.shape != (size,) or not finite:
        raise ModelError(
            f"{causal.name}: its hidden states have {size} numbers; the steering vector has shape {vector.shape}"
            f"{'' if finite else ' and holds NaN or infinite values'}"
        )
    if not 0 <= layer < depth:
        raise ModelError(
            f"{causal.name}: has {depth} decoder layers, 0 to {depth - 1}; the steering names layer {layer}"
        )
    if not np.isfinite(strength):
        raise ModelError(f"steering strength {strength}: must be a finite number")
    state = partial(steer, causal, layer, strength * vector)
    return Policy(causal, state, f"(steered at layer {layer}, strength {strength:g})")


@contextmanager
def steer(causal: CausalModel, layer: int, shift: FloatArray) -> Iterator[None]:
    """The model is steered inside this block, and as it was after it, whatever happens."""
    import torch

    added = torch.from_numpy(np.asarray(shift, dtype=np.float64)).float()

    def add(_module: Any, _inputs: Any, output: Any) -> Any:
        # Some layers return more than the hidden states.
        if isinstance(output, tuple):
            return (add(_module, _inputs, output[0]), *output[1:])
        return output + added.to(output.device, output.dtype)

    hook = decoder_layers(causal)[layer].register_forward_hook(add)
    try:
        yield
    finally:
        hook.remove()


def decoder_layers(causal: CausalModel) -> Any:
    """The model's list of decoder layers, first to last; ModelError if none can be found."""
    import torch

    model = causal.model.get_base_model() if causal.adapter is not None else causal.model
    depth = int(model.config.get_text_config().num_hidden_layers)
    for _name, module in model.get_decoder().named_modules():  # outer modules come first
        if isinstance(module, torch.nn.ModuleList) and len(module) == depth:
            return module
    raise ModelError(f"{causal.name}: no list of its {depth} decoder layers was found; this model cannot be steered")


def _read_safetensors(path: Path, tensor: str | None) -> object:
    from safetensors import SafetensorError, safe_open

    try:
        with safe_open(path, framework="pt") as opened:
            names = sorted(opened.keys())
            chosen = names[0] if tensor is None and len(names) == 1 else tensor
            if chosen not in names:
                raise DataError(
                    f"{path}: holds the tensors {', '.join(names) or '(none)'}; "
                    f"{'name one of them' if tensor is None else f'{tensor!r} is none of them'}"
                )
            return opened.get_tensor(chosen).double().numpy()
    except SafetensorError as error:
        raise DataError(f"{path}: cannot be read ({error}); was it saved completely?") from None
