"""Head inputs, checked against the head's own arithmetic, and scores with a direction removed from them."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from tiny import load, scores_of

from cda.arrays import FloatArray
from cda.errors import DataError, ModelError
from cda.models.load import RewardModel
from cda.models.precision import Precision
from cda.scorers.posthoc import head_inputs, head_scores, score_head

if TYPE_CHECKING:
    from conftest import ModelMaker, Texts, Trained

EXACT = 1e-5  # fp32, on scores between -4 and 4


def states_of(reward_model: RewardModel, texts: Texts, batch_tokens: int = 8192) -> FloatArray:
    return head_inputs(reward_model, texts.prompts, texts.responses, batch_tokens)


def linear_head(module: Any) -> tuple[FloatArray, float]:
    """Weights, shape (h,), and bias of a linear layer with one output."""
    bias = 0.0 if module.bias is None else module.bias.item()
    return module.weight.detach().cpu().double().numpy()[0], bias


def n_hooks(reward_model: RewardModel) -> int:
    head = score_head(reward_model)
    return len(head._forward_hooks) + len(head._forward_pre_hooks)


@pytest.fixture(scope="module")
def deberta(encoder_maker: ModelMaker) -> Path:
    """It keeps pooler and classifier, both outside the base model."""
    return encoder_maker("DebertaV2", pooler_hidden_size=64)


@pytest.fixture(scope="module")
def ends_in_padding(llama_maker: ModelMaker) -> Path:
    """Each text ends in the token that pads: it is read where the model reads it."""
    return llama_maker("head-plain-pad-eos", chat_template=None, pad="</s>")


@pytest.mark.parametrize("which", ["llama", "bert", "deberta", "ends_in_padding"])
def test_a_linear_head_times_its_inputs_is_the_score_and_a_direction_can_be_removed(
    which: str, texts: Texts, request: pytest.FixtureRequest
) -> None:
    reward_model = load(request.getfixturevalue(which))
    states, scores = states_of(reward_model, texts), scores_of(reward_model, texts, 8192)
    weights, bias = linear_head(score_head(reward_model))
    assert states.shape == (12, 64)
    assert np.ptp(scores) > 0.1
    np.testing.assert_allclose(states @ weights + bias, scores, atol=EXACT, rtol=0)
    drawn = np.random.default_rng(0).normal(size=64)
    v = drawn / np.linalg.norm(drawn)
    removed = (states @ v) * (weights @ v)
    assert np.ptp(removed) > 0.05
    for strength in (0.0, 0.5, 1.0, 2.0):
        projected = head_scores(reward_model, states - strength * np.outer(states @ v, v))
        np.testing.assert_allclose(projected, scores - strength * removed, atol=EXACT, rtol=0)


def test_the_first_position_enters_a_roberta_head(roberta: Path, texts: Texts) -> None:
    import torch

    reward_model = load(roberta)
    states, scores = states_of(reward_model, texts), scores_of(reward_model, texts, 8192)
    head = reward_model.model.classifier
    assert np.ptp(scores) > 0.1
    dense = (part.detach().cpu().double().numpy() for part in (head.dense.weight.T, head.dense.bias))
    hidden = np.tanh(states @ next(dense) + next(dense))
    weights, bias = linear_head(head.out_proj)
    np.testing.assert_allclose(hidden @ weights + bias, scores, atol=EXACT, rtol=0)
    np.testing.assert_allclose(head_scores(reward_model, states), scores, atol=EXACT, rtol=0)
    ids = torch.tensor([reward_model.template.encode(texts.prompts[3], texts.responses[3]).ids])
    with torch.no_grad():
        first = reward_model.model.roberta(input_ids=ids.to(reward_model.model.device)).last_hidden_state[0, 0]
    np.testing.assert_allclose(states[3], first.cpu().double().numpy(), atol=EXACT, rtol=0)


def test_each_distinct_text_is_read_once_and_lands_in_every_row(llama: Path, texts: Texts) -> None:
    reward_model, rows, n_read = load(llama), [4, 0, 4, 11, 0, 4], list[int]()
    handle = reward_model.model.register_forward_pre_hook(
        lambda _, __, named: n_read.append(len(named["input_ids"])), with_kwargs=True
    )
    found = head_inputs(reward_model, [texts.prompts[row] for row in rows], [texts.responses[row] for row in rows])
    handle.remove()
    assert sum(n_read) == 3
    np.testing.assert_allclose(found, states_of(reward_model, texts)[rows], atol=1e-4, rtol=0)
    with pytest.raises(DataError, match="no texts"):
        head_inputs(reward_model, [], [])


@pytest.mark.parametrize("precision", ["fp32", "8bit", "bf16"])
def test_an_adapters_own_head_is_the_one_that_is_read(
    precision: Precision, llama: Path, trained_fp32: Trained, texts: Texts
) -> None:
    reward_model = load(llama, trained_fp32.result.adapter, precision)
    in_bf16 = precision == "bf16" or (precision == "8bit" and reward_model.model.device.type == "cuda")
    tolerance = 0.05 if in_bf16 else EXACT
    states, scores = states_of(reward_model, texts), scores_of(reward_model, texts, 8192)
    weights, _ = linear_head(score_head(reward_model).modules_to_save["default"])
    base_weights, _ = linear_head(score_head(reward_model).original_module)
    assert np.abs(states @ (weights - base_weights)).max() > 0.05
    np.testing.assert_allclose(states @ weights, scores, atol=tolerance, rtol=0)
    np.testing.assert_allclose(head_scores(reward_model, states), scores, atol=tolerance, rtol=0)


def adds_the_length(reward_model: RewardModel) -> None:
    def add(_: Any, __: Any, named: dict[str, Any], output: Any) -> Any:
        output.logits = output.logits + named["attention_mask"].sum(dim=1, keepdim=True)
        return output

    reward_model.model.register_forward_hook(add, with_kwargs=True)


def turns_its_output(reward_model: RewardModel) -> None:
    score_head(reward_model).register_forward_hook(lambda _, __, output: output[..., None])


def runs_its_head_again(reward_model: RewardModel) -> None:
    def run_again(_: Any, __: Any, output: Any) -> None:
        score_head(reward_model)(output[0])

    reward_model.model.model.register_forward_hook(run_again)


def fails_inside(reward_model: RewardModel) -> None:
    def fail(*_: Any) -> None:
        raise IndexError("inside")

    reward_model.model.get_input_embeddings().register_forward_pre_hook(fail)


@pytest.mark.parametrize(
    ("broken", "kind", "message"),
    [
        (adds_the_length, ModelError, "its head alone gives other scores than the model, off by"),
        (turns_its_output, ModelError, r"its head turns \(12, 64\) to \(12, 1, 1\), which is none of the known"),
        (runs_its_head_again, ModelError, "its head 'score' ran 2 times for one batch"),
        (fails_inside, IndexError, "inside"),
    ],
)  # fmt: skip
def test_a_head_that_is_not_all_of_the_score_is_refused_and_no_hook_stays(
    llama: Path, texts: Texts, broken: Callable[[RewardModel], None], kind: type[Exception], message: str
) -> None:
    reward_model = load(llama)
    states_of(reward_model, texts)
    assert n_hooks(reward_model) == 0
    broken(reward_model)
    before = n_hooks(reward_model)
    with pytest.raises(kind, match=message):
        states_of(reward_model, texts)
    assert n_hooks(reward_model) == before
