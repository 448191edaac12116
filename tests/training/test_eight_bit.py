"""Frozen 8-bit layers keep no inputs for a gradient that nobody asks for."""

from __future__ import annotations

import weakref
from typing import Any

import pytest
import torch
from bitsandbytes.autograd import _functions
from bitsandbytes.nn import Int8Params, Linear8bitLt
from torch.utils.checkpoint import checkpoint

from cda.training.lora import free_inputs

SIZE, ROWS = 16, 4


@pytest.fixture(params=["MatMul8bitFp", "MatMul8bitLt"])
def product(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """Each of the two products that bitsandbytes has, on a CPU: the second is the one of GPUs."""
    monkeypatch.setattr(_functions, "MatMul8bitFp", getattr(_functions, request.param))
    return str(request.param)


def layers(n: int = 3) -> torch.nn.Sequential:
    torch.manual_seed(0)
    made = []
    for _ in range(n):
        layer = Linear8bitLt(SIZE, SIZE, bias=False, has_fp16_weights=False)
        layer.weight = Int8Params(torch.randn(SIZE, SIZE), requires_grad=False).to("cpu")
        made.append(layer)
    return torch.nn.Sequential(*made).train()


def gradient(model: torch.nn.Module) -> torch.Tensor:
    given = torch.randn(ROWS, SIZE, generator=torch.Generator().manual_seed(1)).requires_grad_()
    model(given).square().sum().backward()
    assert given.grad is not None
    return given.grad


@pytest.mark.usefixtures("product")
def test_gradients_are_the_same() -> None:
    model = layers()
    before = gradient(model)
    free_inputs(model)
    assert before.abs().max() > 0
    assert torch.equal(gradient(model), before)


@pytest.mark.usefixtures("product")
@pytest.mark.parametrize("freed", [True, False])
def test_a_checkpoint_keeps_the_inputs_of_no_layer(freed: bool) -> None:
    model, seen = layers(), []

    def watch(_layer: Any, inputs: tuple[torch.Tensor, ...]) -> None:
        seen.append(weakref.ref(inputs[0]))

    if freed:
        free_inputs(model)
    for layer in list(model)[1:]:  # the first one's input is the checkpoint's own
        layer.register_forward_pre_hook(watch)
    given = torch.randn(ROWS, SIZE).requires_grad_()
    ended = checkpoint(model, given, use_reentrant=False)
    alive = [one() is not None for one in seen]
    # Without it they are kept. Once that is no longer so, bitsandbytes frees them itself, and `free_inputs` can go.
    assert alive == [not freed] * (len(model) - 1)
    ended.sum().backward()


def test_weights_that_learn_keep_theirs() -> None:
    model = torch.nn.Sequential(Linear8bitLt(SIZE, SIZE, has_fp16_weights=True), torch.nn.Linear(SIZE, SIZE))
    assert free_inputs(model) == []
