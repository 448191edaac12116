"""A steered model: the vector enters one layer's output and leaves no trace; at strength 0 nothing changes at all."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from tiny import load_causal, message_of

from cda.arrays import FloatArray
from cda.errors import ModelError
from cda.models.causal import CausalModel
from cda.scorers.log_ratio import LogRatioScorer, Policy, decoder_layers, read_vector, steer, steered

if TYPE_CHECKING:
    from conftest import ModelMaker, Texts

HIDDEN = 64
VECTOR = np.random.default_rng(0).normal(size=HIDDEN)


@pytest.fixture(scope="module")
def causal(causal_maker: ModelMaker) -> CausalModel:
    return load_causal(causal_maker("steering"))


def rewards(causal: CausalModel, texts: Texts, strength: float, layer: int = 1) -> FloatArray:
    policy = steered(causal, VECTOR, layer, strength)
    assert policy.name == f"{causal.name} (steered at layer {layer}, strength {strength:g})"
    return LogRatioScorer(policy, Policy(causal), beta=1.0).score(texts.prompts, texts.responses)


def test_the_last_layer_s_output_is_shifted_at_every_position(causal: CausalModel, texts: Texts) -> None:
    """After the last layer come only the norm and the output layer, so the shifted logits are computed by hand."""
    import torch

    ids = torch.tensor([causal.template.encode(texts.prompts[3], texts.responses[3]).ids], device=causal.model.device)
    caught: list[torch.Tensor] = []
    hook = decoder_layers(causal)[1].register_forward_hook(lambda _module, _inputs, output: caught.append(output))
    with torch.no_grad():
        causal.model(input_ids=ids)
        hook.remove()
        shifted = caught[0] + 2.5 * torch.from_numpy(VECTOR).to(caught[0])
        expected = causal.model.lm_head(causal.model.model.norm(shifted))
        with steer(causal, 1, 2.5 * VECTOR):
            found = causal.model(input_ids=ids).logits
    torch.testing.assert_close(found, expected, atol=1e-5, rtol=1e-5)
    assert (found - causal.model(input_ids=ids).logits).abs().amax(dim=(0, 2)).min() > 0.1


def test_a_vector_towards_a_word_makes_responses_with_that_word_likelier(causal: CausalModel, texts: Texts) -> None:
    """The last layer is pushed along the word's own output weights: the logit of that word rises most."""
    word = causal.template.tokenizer.convert_tokens_to_ids("good")
    direction = causal.model.lm_head.weight[word].detach().cpu().double().numpy()

    def margin(strength: float) -> float:
        scorer = LogRatioScorer(steered(causal, direction, 1, strength), Policy(causal))
        good, other = scorer.score([texts.prompts[0]] * 2, ["good good good", "w1 w2 w3"])
        return float(good - other)

    assert margin(20.0) > 0.1
    assert margin(-20.0) < -0.1


def test_strength_zero_is_exactly_zero_and_the_hook_is_gone_also_after_an_error(
    causal: CausalModel, texts: Texts
) -> None:
    before = LogRatioScorer(Policy(causal), None).score(texts.prompts, texts.responses)
    for layer in (0, 1):
        assert rewards(causal, texts, 0.0, layer).tolist() == [0.0] * len(texts.prompts)
    assert np.abs(rewards(causal, texts, 3.0)).max() > 1
    with pytest.raises(KeyError), steer(causal, 0, VECTOR):
        raise KeyError
    assert not any(layer._forward_hooks for layer in decoder_layers(causal))
    assert LogRatioScorer(Policy(causal), None).score(texts.prompts, texts.responses).tolist() == before.tolist()


def test_a_model_with_an_adapter_and_one_of_another_family_can_be_steered(
    causal: CausalModel, texts: Texts, tmp_path: Path
) -> None:
    """A fresh adapter changes nothing, so the steered scores are those of the base."""
    import torch
    from peft import LoraConfig, get_peft_model
    from transformers import GPT2Config, GPT2LMHeadModel

    base = load_causal(Path(causal.spec.name_or_path))
    adapted = get_peft_model(base.model, LoraConfig(task_type="CAUSAL_LM", r=2, target_modules=["q_proj"])).eval()
    with_adapter = replace(base, model=adapted, adapter=tmp_path)
    assert rewards(with_adapter, texts, 2.0).tolist() == pytest.approx(rewards(causal, texts, 2.0).tolist(), abs=1e-4)
    sizes = {"n_embd": HIDDEN, "n_layer": 3, "n_head": 4, "n_positions": 128}
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        model = GPT2LMHeadModel(GPT2Config(vocab_size=causal.model.config.vocab_size, **sizes)).eval()
    gpt2 = CausalModel(model, causal.template, causal.spec)
    assert [type(layer).__name__ for layer in decoder_layers(gpt2)] == ["GPT2Block"] * 3
    assert rewards(gpt2, texts, 0.0).tolist() == [0.0] * len(texts.prompts)
    assert np.abs(rewards(gpt2, texts, 5.0)).max() > 0.1


@pytest.mark.parametrize(
    ("vector", "layer", "strength", "expected"),
    [
        (VECTOR, 2, 1.0, "has 2 decoder layers, 0 to 1; the steering names layer 2"),
        (VECTOR, -1, 1.0, "has 2 decoder layers, 0 to 1; the steering names layer -1"),
        (VECTOR[:5], 1, 1.0, r"64 numbers; the steering vector has shape \(5,\)$"),
        (np.full(HIDDEN, np.nan), 1, 1.0, r"shape \(64,\) and holds NaN or infinite values"),
        (VECTOR, 1, np.inf, "steering strength inf: must be a finite number"),
    ],
)
def test_steering_that_does_not_fit_is_refused_at_once(
    causal: CausalModel, vector: FloatArray, layer: int, strength: float, expected: str
) -> None:
    with pytest.raises(ModelError, match=expected):
        steered(causal, vector, layer, strength)


def test_vectors_are_read_from_npy_and_safetensors_and_nothing_else_is_taken(tmp_path: Path) -> None:
    import torch
    from safetensors.torch import save_file

    np.save(tmp_path / "one.npy", VECTOR[None].astype(np.float32))
    np.testing.assert_allclose(read_vector(tmp_path / "one.npy"), VECTOR, rtol=1e-6)
    tensor = torch.from_numpy(VECTOR).bfloat16()
    save_file({"layer.1": tensor}, tmp_path / "one.safetensors")
    np.testing.assert_allclose(read_vector(tmp_path / "one.safetensors"), VECTOR, rtol=1e-2)
    save_file({"b": tensor, "a": -tensor}, tmp_path / "two.safetensors")
    np.testing.assert_allclose(read_vector(tmp_path / "two.safetensors", "a"), -VECTOR, rtol=1e-2)
    np.save(tmp_path / "matrix.npy", np.zeros((2, 3)))
    np.save(tmp_path / "whole.npy", np.arange(3))
    np.save(tmp_path / "nan.npy", np.array([0.0, np.nan]))
    (tmp_path / "broken.safetensors").write_bytes(b"no such format")
    for name, named, expected in (
        ("none.npy", None, "no such file"),
        ("two.safetensors", None, "holds the tensors a, b; name one of them"),
        ("two.safetensors", "c", "holds the tensors a, b; 'c' is none of them"),
        ("matrix.npy", None, "holds float64 of shape (2, 3); needed is one vector of finite decimal numbers"),
        ("whole.npy", None, "holds int64 of shape (3,)"),
        ("nan.npy", None, "holds float64 of shape (2,)"),
        ("broken.safetensors", None, "cannot be read ("),
    ):
        message = message_of(lambda name=name, named=named: read_vector(tmp_path / name, named))
        assert message.startswith(f"{tmp_path / name}: {expected}")


class Trap:
    """Leaves a file behind when it is unpickled."""

    def __init__(self, file: Path) -> None:
        self.file = file

    def __reduce__(self) -> tuple[Any, ...]:
        return (Path.touch, (self.file,))


def test_pickle_is_never_read(tmp_path: Path) -> None:
    import torch

    sprung = tmp_path / "sprung"
    np.save(tmp_path / "trap.npy", np.array([Trap(sprung)], dtype=object), allow_pickle=True)
    torch.save(Trap(sprung), tmp_path / "trap.pt")
    assert "cannot be read as an array without pickle" in message_of(lambda: read_vector(tmp_path / "trap.npy"))
    assert "other formats can run code when read" in message_of(lambda: read_vector(tmp_path / "trap.pt"))
    assert not sprung.exists()
