"""8-bit layers: on a CPU they multiply by their rounded weights; they keep no inputs for a gradient that nobody asks for."""

from __future__ import annotations

import weakref
from types import SimpleNamespace
from typing import Any

import psutil
import pytest
import torch
from bitsandbytes.autograd import _functions
from bitsandbytes.nn import Int8Params, Linear8bitLt
from torch.utils.checkpoint import checkpoint

from cda.models.eight_bit import Dequantizing, compute_as, free_inputs, multiply_by_rounded_weights

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


@pytest.mark.parametrize("once", [True, False])
def test_on_a_cpu_scoring_multiplies_as_training_does(once: bool) -> None:
    model, given = layers(), torch.randn(ROWS, SIZE)
    expected, expected_gradient = model(given), gradient(model)
    rounded_too = model.eval()(given)
    multiply_by_rounded_weights(model, once)
    assert [layer.dequantized is not None for layer in model] == [once] * len(model)
    for mode in (True, False):
        assert torch.equal(model.train(mode)(given), expected)
        assert torch.equal(gradient(model), expected_gradient)
    assert not torch.equal(rounded_too, expected)  # bitsandbytes rounds the inputs too; once it does not, ours can go
    assert all(isinstance(layer, Linear8bitLt) and layer.weight.dtype == torch.int8 for layer in model)
    assert not any("dequantized" in name for name in model.state_dict())


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("checkpointed", [True, False])
def test_as_on_a_gpu_inputs_are_not_rounded(dtype: torch.dtype, checkpointed: bool) -> None:
    """Outputs and gradients are those of the product with the rounded weights; every layer lets go of its inputs."""
    model, given = layers(), torch.randn(ROWS, SIZE, dtype=dtype).requires_grad_()
    exact = torch.nn.Sequential(*(torch.nn.Linear(SIZE, SIZE, bias=False) for _ in model))
    for layer, plain in zip(model, exact, strict=True):
        layer.init_8bit_state()
        plain.weight.data = layer.state.CB.float() * layer.state.SCB.unsqueeze(1) / 127
        compute_as(Dequantizing, layer)
    expected_given = given.detach().float().requires_grad_()
    expected = exact(expected_given)
    expected.square().sum().backward()
    output = checkpoint(model, given, use_reentrant=False) if checkpointed else model(given)
    assert output.dtype == dtype
    output.float().square().sum().backward()
    off = 1e-5 if dtype == torch.float32 else 0.03
    assert given.grad is not None and expected_given.grad is not None
    assert (output - expected).norm() <= off * expected.norm()
    assert (given.grad - expected_given.grad).norm() <= off * expected_given.grad.norm()


def test_as_on_a_gpu_autocast_decides_the_type_and_a_bias_is_added() -> None:
    layer = Linear8bitLt(SIZE, SIZE, has_fp16_weights=False)
    layer.weight = Int8Params(torch.randn(SIZE, SIZE), requires_grad=False).to("cpu")
    compute_as(Dequantizing, layer)
    given = torch.randn(ROWS, SIZE)
    plain = layer(given)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        cast = layer(given)
    assert (plain.dtype, cast.dtype) == (torch.float32, torch.bfloat16)
    assert (cast - plain).norm() < 0.02 * plain.norm()
    without = plain - layer.bias
    layer.bias.data.zero_()
    assert torch.allclose(layer(given), without, atol=1e-6)


def test_with_too_little_memory_weights_are_dequantized_in_every_pass(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(psutil, "virtual_memory", lambda: SimpleNamespace(available=2 * 4 * 3 * SIZE**2 - 1))
    model, given = layers(), torch.randn(ROWS, SIZE)
    expected = model(given)
    with caplog.at_level("INFO", "cda"):
        multiply_by_rounded_weights(model, once=True)
        multiply_by_rounded_weights(model, once=True)
    assert sum("model.dequantize_once" in record.message for record in caplog.records) == 1
    assert all(layer.dequantized is None for layer in model)
    assert torch.equal(model.eval()(given), expected)
