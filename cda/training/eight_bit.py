"""Memory of 8-bit layers in training."""

from __future__ import annotations

from typing import Any


def free_inputs(model: Any) -> list[Any]:
    """Have frozen 8-bit layers let go of their inputs once they have computed: no gradient of theirs needs them.

    bitsandbytes 0.50 keeps the input of every layer on the node of its product, in the place where only the gradient of the
    weights would look. Gradient checkpointing without reentry cannot reach it there: an 8-bit model of 8B parameters, with its
    inputs kept, ran out of an H100's 80 GB where it takes 17 GB without them (evals/results/bench_training_gpu.json).

    Returns:
        A handle for each layer; `remove()` on it undoes this.
    """
    from bitsandbytes.nn import Linear8bitLt

    layers = [one for one in model.modules() if isinstance(one, Linear8bitLt) and not one.weight.requires_grad]
    return [layer.register_forward_hook(_free) for layer in layers]


def _free(_layer: Any, _inputs: Any, output: Any) -> None:
    node = output.grad_fn
    # Two products: of int8 (`tensors`), and on CPUs of what was int8 (`A`). Other versions may keep other things, or none.
    if hasattr(node, "tensors"):
        node.tensors = (None, None, None)
    elif hasattr(node, "A"):
        node.A = None
