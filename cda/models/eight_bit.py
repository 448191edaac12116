"""bitsandbytes' 8-bit layers on a CPU: dequantized once instead of in every pass; and freed of inputs that they keep."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from typing import Any

from cda.launch import say

_LEVELS = 127
"""int8 weights are their row's largest weight (`SCB`) in so many steps."""


def multiply_by_rounded_weights(model: Any, once: bool) -> None:
    """Have 8-bit layers on a CPU compute x · (CB · SCB / 127)ᵀ + bias, in scoring as in training.

    bitsandbytes 0.50 computes that in training alone, and dequantizes each weight in every pass; in scoring it rounds the
    inputs to 8 bits too. `once`: keep the float32 product CB · SCB / 127, 4 bytes a weight, if that takes at most half of the
    memory that is available; else one sentence says what it would take. The weights stay as they are, and so do saved files.
    """
    import bitsandbytes
    import psutil

    layers = [layer for layer in _layers(model) if layer.weight.device.type == "cpu"]
    needed = 4 * sum(layer.weight.numel() for layer in layers)
    if once and needed > (available := psutil.virtual_memory().available) / 2:
        _tell(
            f"  8-bit weights are dequantized in every pass: keeping them dequantized takes {needed / 1e9:.1f} GB, and "
            f"{available / 1e9:.1f} GB of memory are available, of which at most half is used (model.dequantize_once)"
        )
        once = False
    for layer in layers:
        if layer.weight.CB is not None:
            layer.init_8bit_state()
        state = layer.state
        kept = state.CB.float().mul_(state.SCB.unsqueeze(1).mul(1 / _LEVELS)) if once else None
        layer.register_buffer("dequantized", kept, persistent=False)
        layer.dequantized_of = state.CB
        layer.__class__ = type(layer.__class__.__name__, (_Rounded, bitsandbytes.nn.Linear8bitLt), {})


class _Rounded:
    """Comes before bitsandbytes' own class."""

    def forward(self: Any, inputs: Any) -> Any:
        import bitsandbytes
        from torch.nn.functional import linear

        bias = None if self.bias is None else self.bias.to(inputs.dtype)
        if self.weight.CB is not None:  # other weights than before: an adapter was merged into them
            self.init_8bit_state()
        if self.dequantized is not None and self.dequantized_of is self.state.CB:
            return linear(inputs, self.dequantized.to(inputs.dtype), bias)
        self.state.is_training = True  # the product of rounded weights with inputs that are not
        return bitsandbytes.matmul(inputs, self.weight, bias=bias, state=self.state)


def free_inputs(model: Any) -> list[Any]:
    """Have frozen 8-bit layers free their inputs once they have computed; the handles returned undo it by `remove()`.

    bitsandbytes 0.50 keeps every layer's input on the node of its product, where only the gradient of the weights would look and
    gradient checkpointing without reentry cannot reach it: an 8-bit model of 8B parameters ran out of an H100's 80 GB with them,
    and takes 17 GB without (evals/results/bench_training_gpu.json).
    """
    return [layer.register_forward_hook(_free) for layer in _layers(model) if not layer.weight.requires_grad]


def _free(_layer: Any, _inputs: Any, output: Any) -> None:
    node = output.grad_fn
    # Two products: of int8 (`tensors`), and on CPUs of what was int8 (`A`). Other versions may keep other things, or none.
    if hasattr(node, "tensors"):
        node.tensors = (None, None, None)
    elif hasattr(node, "A"):
        node.A = None


def _layers(model: Any) -> Iterator[Any]:
    from bitsandbytes.nn import Linear8bitLt

    return (layer for layer in model.modules() if isinstance(layer, Linear8bitLt))


_tell = cache(say)
"""Once in a process, however often a model is loaded."""
