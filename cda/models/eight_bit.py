"""bitsandbytes' 8-bit layers: products with inputs that are not rounded; and freed of inputs that they keep."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from typing import TYPE_CHECKING, Any

from cda.launch import say

if TYPE_CHECKING:
    import torch
    from bitsandbytes.nn import Linear8bitLt
    from torch import Tensor, nn
    from torch.utils.hooks import RemovableHandle

_LEVELS = 127
"""int8 weights are their row's largest weight (`SCB`) in so many steps."""


def multiply_by_rounded_weights(model: nn.Module, once: bool) -> None:
    """Have 8-bit layers compute x · (CB · SCB / 127)ᵀ + bias, in scoring as in training.

    bitsandbytes 0.50 computes that on a CPU in training alone; in scoring, and always on a GPU, it rounds the inputs to 8 bits too,
    all but columns that depend on the whole batch. On a GPU each layer's weights are dequantized for its product and dropped, which
    takes less time than rounding the inputs (evals/results/bench_training_gpu.json). `once`, on a CPU: keep the float32 product
    CB · SCB / 127, 4 bytes a weight, if that takes at most half of the memory that is available; else one sentence says what it
    would take. The weights stay as they are, and so do saved files.
    """
    import psutil

    layers = []
    for layer in _layers(model):
        if layer.weight.device.type == "cpu":
            layers.append(layer)
        else:
            compute_as(Dequantizing, layer)
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
        compute_as(_Rounded, layer)


def compute_as(kind: type, layer: nn.Module) -> None:
    """Have a layer compute as a class says that comes before bitsandbytes' own; all else of it stays."""
    from bitsandbytes.nn import Linear8bitLt

    layer.__class__ = type(layer.__class__.__name__, (kind, Linear8bitLt), {})


class _Rounded:
    """Comes before bitsandbytes' own class, on a CPU."""

    def forward(self: Any, inputs: Tensor) -> Tensor:
        import bitsandbytes
        from torch.nn.functional import linear

        bias = None if self.bias is None else self.bias.to(inputs.dtype)
        if self.weight.CB is not None:  # other weights than before: an adapter was merged into them
            self.init_8bit_state()
        if self.dequantized is not None and self.dequantized_of is self.state.CB:
            return linear(inputs, self.dequantized.to(inputs.dtype), bias)
        self.state.is_training = True  # the product of rounded weights with inputs that are not
        product: Tensor = bitsandbytes.matmul(inputs, self.weight, bias=bias, state=self.state)
        return product


class Dequantizing:
    """Comes before bitsandbytes' own class, on a GPU."""

    def forward(self: Any, inputs: Tensor) -> Tensor:
        import torch

        if self.weight.CB is not None:  # the first pass, or other weights than before: an adapter was merged into them
            self.init_8bit_state()
        device = inputs.device.type
        if torch.is_autocast_enabled(device):
            inputs = inputs.to(torch.get_autocast_dtype(device))
        outputs: Tensor = _product().apply(inputs, self.state.CB, self.state.SCB)
        return outputs if self.bias is None else outputs + self.bias.to(outputs.dtype)


@cache
def _product() -> Any:
    """The product with weights that are dequantized in the pass forward and again in the one back, and in neither kept."""
    import torch

    class Product(torch.autograd.Function):
        @staticmethod
        def forward(ctx: Any, inputs: Tensor, levels: Tensor, largest: Tensor) -> Tensor:
            ctx.save_for_backward(levels, largest)
            return torch.nn.functional.linear(inputs, _dequantized(levels, largest, inputs.dtype))

        @staticmethod
        def backward(ctx: Any, gradient: Any) -> Any:
            levels, largest = ctx.saved_tensors
            return gradient @ _dequantized(levels, largest, gradient.dtype), None, None

    return Product


def _dequantized(levels: Tensor, largest: Tensor, dtype: torch.dtype) -> Tensor:
    """Weights in `dtype`, multiplied in float32 and rounded once: one pass over memory."""
    import torch

    return torch.mul(levels, largest.float().mul(1 / _LEVELS).unsqueeze(1), out=torch.empty_like(levels, dtype=dtype))


def free_inputs(model: nn.Module) -> list[RemovableHandle]:
    """Have frozen 8-bit layers free their inputs once they have computed; the handles returned undo it by `remove()`.

    bitsandbytes 0.50 keeps every layer's input on the node of its product, where only the gradient of the weights would look and
    gradient checkpointing without reentry cannot reach it: an 8-bit model of 8B parameters takes 100 GB with them, and 17 without
    (evals/results/bench_training_gpu.json).
    """
    return [layer.register_forward_hook(_free) for layer in _layers(model) if not layer.weight.requires_grad]


def _free(_layer: nn.Module, _inputs: object, output: Tensor) -> None:
    node = output.grad_fn
    # Two products: of int8 (`tensors`), and on CPUs of what was int8 (`A`). Other versions may keep other things, or none.
    if node is not None and hasattr(node, "tensors"):
        node.tensors = (None, None, None)
    elif node is not None and hasattr(node, "A"):
        node.A = None


def _layers(model: nn.Module) -> Iterator[Linear8bitLt]:
    from bitsandbytes.nn import Linear8bitLt

    return (layer for layer in model.modules() if isinstance(layer, Linear8bitLt))


_tell = cache(say)
"""Once in a process, however often a model is loaded."""
