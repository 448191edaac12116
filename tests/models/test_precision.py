"""`auto`: the precision by what the machine multiplies in and holds, with its reason; fixed ones stay."""

from __future__ import annotations

import weakref
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import numpy as np
import psutil
import pytest
import torch
from bitsandbytes.autograd import _functions
from bitsandbytes.nn import Int8Params, Linear8bitLt
from devices import on_a_cpu
from peft import LoraConfig, get_peft_model
from tiny import load, scores_of
from torch.utils.checkpoint import checkpoint

from cda.embedded.model import embedded_model_folder
from cda.embedded.texts import audit_contrasts
from cda.models.config import ModelSpec, Precision, automatic, bf16_units
from cda.models.eight_bit import Dequantizing, compute_as, free_inputs, multiply_by_rounded_weights
from cda.models.load import load_reward_model
from cda.models.weights import n_weights
from cda.recipe.load import load_recipe
from cda.recipe.schema import ModelSection
from cda.resources.sources import model_spec
from cda.scorers.batching import forward
from cda.scorers.posthoc import head_inputs, score_head

if TYPE_CHECKING:
    from conftest import Texts


@pytest.mark.parametrize(
    ("capabilities", "precision", "reason"),
    [
        ({"avx512_bf16": True, "amx_bf16": True, "avx2": True}, "bf16", "this CPU multiplies in it (amx_bf16, avx512_bf16)"),
        ({"avx512_bf16": False, "avx2": True}, "fp32", "this CPU has no units that multiply in bf16"),
        (None, "fp32", "this CPU has no units that multiply in bf16"),
    ],
)  # fmt: skip
def test_on_a_cpu_its_units_decide(
    monkeypatch: pytest.MonkeyPatch, capabilities: dict[str, bool] | None, precision: str, reason: str
) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    if capabilities is None:  # a version of torch that does not tell
        monkeypatch.delattr(torch.cpu, "get_capabilities", raising=False)
    else:
        monkeypatch.setattr(torch.cpu, "get_capabilities", lambda: capabilities, raising=False)
    bf16_units.cache_clear()
    try:
        assert automatic(lambda: pytest.fail("not asked on a CPU")) == (precision, reason)
    finally:
        bf16_units.cache_clear()


@pytest.mark.parametrize(("weights", "precision"), [(8e9, "bf16"), (27e9, "bf16"), (28.1e9, "8bit"), (70e9, "8bit")])
def test_on_a_gpu_the_memory_decides(monkeypatch: pytest.MonkeyPatch, weights: float, precision: str) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "get_device_properties", lambda _: SimpleNamespace(total_memory=80e9))
    chosen, reason = automatic(lambda: int(weights))
    assert chosen == precision
    assert reason.startswith(f"in bf16 the weights take {2 * weights / 1e9:.1f} of the GPU's 80 GB")


@pytest.mark.parametrize("preset", ["gemma-2b", "llama-8b"])
def test_the_presets_of_large_models_are_8bit_on_a_gpu_and_bf16_is_a_word_away(
    monkeypatch: pytest.MonkeyPatch, preset: str
) -> None:
    monkeypatch.setattr("cda.resources.sources.n_weights", lambda _: int(8e9))
    for asked, gpu, expected in (({}, True, "8bit"), ({"model.precision": "bf16"}, True, "bf16"), ({}, False, None)):
        monkeypatch.setattr(torch.cuda, "is_available", lambda gpu=gpu: gpu)
        monkeypatch.setattr(torch.cuda, "get_device_properties", lambda _: SimpleNamespace(total_memory=80e9))
        words = [f"model={preset}", *(f"{key}={value}" for key, value in asked.items())]
        spec = model_spec(load_recipe("jargon", words).recipe.model)
        assert spec.precision == expected or (expected is None and spec.precision in ("bf16", "fp32"))
        if gpu and not asked:
            assert "take 8.0 of its 80 GB. With model.precision=bf16 16.0" in str(spec.notes)


def test_a_recipe_names_what_was_taken_and_why() -> None:
    spec = model_spec(ModelSection(name_or_path="embedded"))
    assert spec.precision in ("bf16", "fp32", "8bit")
    [note] = spec.notes
    assert note.startswith(f"precision {spec.precision}: ") and "model.precision=auto" in note
    fixed = model_spec(ModelSection(name_or_path="embedded", precision="8bit"))
    assert (fixed.precision, fixed.notes) == ("8bit", ())
    assert 22e6 < n_weights(spec) < 23e6


@pytest.mark.parametrize(("units", "notes"), [
    (("avx512_bf16",), ()),
    ((), ("precision bf16: this CPU has no units that multiply in it; model.precision=fp32 takes less time and rounds less",)),
])  # fmt: skip
def test_bf16_on_a_cpu_without_units_is_taken_and_said(
    monkeypatch: pytest.MonkeyPatch, units: tuple[str, ...], notes: tuple[str, ...]
) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    monkeypatch.setattr("cda.models.config.bf16_units", lambda: units)
    spec = model_spec(ModelSection(name_or_path="embedded", precision="bf16"))
    assert (spec.precision, spec.notes) == ("bf16", notes)


def test_a_machine_that_compiles_nothing_goes_on_without(monkeypatch: pytest.MonkeyPatch) -> None:
    from torch import _dynamo, _inductor

    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    asked = ModelSection(name_or_path="embedded", precision="fp32", compile=True)
    with _inductor.config.patch({"cpp.cxx": ("no-compiler-of-this-name",)}):
        without = model_spec(asked)
    assert (without.compile, without.notes) == (
        False,
        ("model.compile: left out, which takes longer: no C++ compiler was found; install g++, or name one in CXX",),
    )
    monkeypatch.setattr(_dynamo, "is_dynamo_supported", lambda: False)
    [note] = model_spec(asked).notes
    assert "compiles nothing under this Python" in note


@on_a_cpu
@pytest.mark.parametrize(("precision", "most"), [("bf16", 0.03), ("8bit", 0.05)])
def test_rewards_are_near_to_those_in_fp32(precision: Precision, most: float) -> None:
    """By a share of the spread of the embedded model's rewards, root mean square (measured: 1.8% and 3.1%). In 8-bit no reward moves
    with its batch-mates."""
    texts = [
        (contrast.prompt, text)
        for contrast in audit_contrasts("jargon")[:8]
        for text in (contrast.perturbed, contrast.base)
    ]
    exact, model = (load_reward_model(ModelSpec(str(embedded_model_folder()), one, 128)) for one in ("fp32", precision))
    ids = [model.template.encode(*text).ids for text in texts]
    expected, rewards = forward(exact, ids), forward(model, ids)
    assert 0 < np.sqrt(((rewards - expected) ** 2).mean()) < most * expected.std()
    if precision == "8bit":
        assert np.abs(rewards - [forward(model, [row])[0] for row in ids]).max() < 1e-4


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


@pytest.fixture(scope="module")
def adapter(llama: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """LoRA as it starts, and a head of float32 weights that bf16 does not know."""
    loaded = load(llama)
    model = get_peft_model(loaded.model, LoraConfig(task_type="SEQ_CLS", r=2, modules_to_save=["score"]))
    with torch.no_grad():
        score_head(loaded).modules_to_save["default"].weight += 0.1234567
    folder = tmp_path_factory.mktemp("adapter")
    model.save_pretrained(str(folder))
    return folder


@pytest.mark.parametrize("with_adapter", [False, True])
def test_rewards_of_a_bf16_base_are_those_of_a_float32_head(
    llama: Path, adapter: Path, texts: Texts, with_adapter: bool
) -> None:
    loaded = load(llama, adapter if with_adapter else None, "bf16")
    head = score_head(loaded)
    weights = (head.modules_to_save["default"] if with_adapter else head).weight.detach().cpu()
    assert weights.dtype == torch.float32
    rewards = scores_of(loaded, texts)
    states = torch.as_tensor(head_inputs(loaded, texts.prompts, texts.responses, 1), dtype=torch.float32)
    assert torch.equal(states, states.bfloat16().float())  # the base's own are in bf16
    np.testing.assert_allclose(rewards, (states @ weights.T)[:, 0], rtol=1e-5)
    in_bf16 = torch.as_tensor(rewards).bfloat16().double().numpy()
    assert (rewards != in_bf16).mean() > 0.5


@pytest.mark.parametrize("precision", ["bf16", "8bit"])
def test_autocast_ends_before_the_head(llama: Path, precision: Precision) -> None:
    """Under which a trainer computes, on a GPU with an 8-bit base too."""
    loaded = load(llama, precision=precision)
    head = score_head(loaded)
    device = head.weight.device
    states = torch.randn(3, head.in_features, dtype=torch.bfloat16, device=device)
    with torch.inference_mode(), torch.autocast(device.type, dtype=torch.bfloat16):
        rewards = head(states)
    assert rewards.dtype == torch.float32 and isinstance(head, torch.nn.Linear)
    torch.testing.assert_close(rewards, states.float() @ head.weight.T)


@on_a_cpu
def test_the_default_on_a_cpu_scores_as_the_library_does(llama: Path, texts: Texts) -> None:
    """8-bit with float32 activations: nothing is to be cast there."""
    loaded = load(llama, precision="8bit")
    ours = scores_of(loaded, texts)
    head = score_head(loaded)
    head.__class__ = torch.nn.Linear
    np.testing.assert_array_equal(scores_of(loaded, texts), ours)
