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
from cda.models.load import Precision, RewardModel
from cda.records import user_prompt
from cda.scorers.posthoc import head_inputs, head_scores, score_head

if TYPE_CHECKING:
    from conftest import ModelMaker, Texts, Trained

EXACT = 1e-5  # fp32, on scores between -4 and 4
SIZES: dict[str, Any] = {
    "hidden_size": 64,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "intermediate_size": 128,
    "max_position_embeddings": 128,
    "initializer_range": 0.2,
    "num_labels": 1,
}


def states_of(reward_model: RewardModel, texts: Texts, batch_tokens: int = 8192) -> FloatArray:
    return head_inputs(reward_model, texts.prompts, texts.responses, batch_tokens)


def linear_head(module: Any) -> tuple[FloatArray, float]:
    """Weights, shape (h,), and bias of a linear layer with one output."""
    bias = 0.0 if module.bias is None else module.bias.item()
    return module.weight.detach().cpu().double().numpy()[0], bias


def direction(width: int = 64, seed: int = 0) -> FloatArray:
    drawn = np.random.default_rng(seed).normal(size=width)
    return drawn / np.linalg.norm(drawn)


def n_hooks(reward_model: RewardModel) -> int:
    head = score_head(reward_model)
    return len(head._forward_hooks) + len(head._forward_pre_hooks)


@pytest.fixture(scope="module")
def encoder_maker(bert: Path, tmp_path_factory: pytest.TempPathFactory) -> Callable[..., Path]:
    """Makes a folder of a tiny random encoder reward model with the tiny BERT's tokenizer."""
    import torch
    import transformers

    tokenizer = transformers.AutoTokenizer.from_pretrained(str(bert))

    def make(kind: str, **options: Any) -> Path:
        folder = tmp_path_factory.mktemp(kind)
        config = getattr(transformers, f"{kind}Config")(
            vocab_size=len(tokenizer), pad_token_id=tokenizer.pad_token_id, **SIZES, **options
        )
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(0)
            getattr(transformers, f"{kind}ForSequenceClassification")(config).save_pretrained(str(folder))
        tokenizer.save_pretrained(str(folder))
        return folder

    return make


@pytest.fixture(scope="module")
def roberta(encoder_maker: Callable[..., Path]) -> Path:
    """Its head takes the first position itself, and has a hidden layer."""
    return encoder_maker("Roberta")


@pytest.fixture(scope="module")
def deberta(encoder_maker: Callable[..., Path]) -> Path:
    """It keeps pooler and classifier, both outside the base model."""
    return encoder_maker("DebertaV2", pooler_hidden_size=64)


@pytest.mark.parametrize("which", ["llama", "bert", "deberta"])
def test_a_linear_head_times_its_inputs_is_the_score(which: str, texts: Texts, request: pytest.FixtureRequest) -> None:
    reward_model = load(request.getfixturevalue(which))
    states, scores = states_of(reward_model, texts), scores_of(reward_model, texts, 8192)
    weights, bias = linear_head(score_head(reward_model))
    assert states.shape == (12, 64)
    assert np.ptp(scores) > 0.1
    np.testing.assert_allclose(states @ weights + bias, scores, atol=EXACT, rtol=0)
    np.testing.assert_allclose(head_scores(reward_model, states), scores, atol=EXACT, rtol=0)


def test_the_first_position_enters_a_roberta_head(roberta: Path, texts: Texts) -> None:
    import torch

    reward_model = load(roberta)
    states, scores = states_of(reward_model, texts), scores_of(reward_model, texts, 8192)
    head = reward_model.model.classifier
    assert np.ptp(scores) > 0.1
    hidden = np.tanh(
        states @ head.dense.weight.detach().cpu().double().numpy().T + head.dense.bias.detach().cpu().double().numpy()
    )
    weights, bias = linear_head(head.out_proj)
    np.testing.assert_allclose(hidden @ weights + bias, scores, atol=EXACT, rtol=0)
    np.testing.assert_allclose(head_scores(reward_model, states), scores, atol=EXACT, rtol=0)
    ids = reward_model.template.encode(texts.prompts[3], texts.responses[3]).ids
    with torch.no_grad():
        first = reward_model.model.roberta(
            input_ids=torch.tensor([ids], device=reward_model.model.device)
        ).last_hidden_state[0, 0]
    np.testing.assert_allclose(states[3], first.cpu().double().numpy(), atol=EXACT, rtol=0)


@pytest.mark.parametrize("which", ["llama", "bert", "roberta"])
def test_padding_and_neighbours_do_not_matter(which: str, texts: Texts, request: pytest.FixtureRequest) -> None:
    reward_model = load(request.getfixturevalue(which))
    alone = states_of(reward_model, texts, batch_tokens=1)
    assert np.ptp(alone, axis=0).min() > 0.01
    for batch_tokens in (100, 8192):
        np.testing.assert_allclose(states_of(reward_model, texts, batch_tokens), alone, atol=1e-4, rtol=0)


def test_a_text_that_ends_in_the_padding_token_is_read_where_the_model_reads_it(
    llama_maker: ModelMaker, texts: Texts
) -> None:
    reward_model = load(llama_maker("head-plain-pad-eos", chat_template=None, pad="</s>"))
    ids = reward_model.template.encode(texts.prompts[0], texts.responses[0]).ids
    assert ids[-1] == reward_model.template.pad_token_id
    weights, _ = linear_head(score_head(reward_model))
    for batch_tokens in (1, 8192):
        states = states_of(reward_model, texts, batch_tokens)
        np.testing.assert_allclose(states @ weights, scores_of(reward_model, texts, 8192), atol=EXACT, rtol=0)


def test_each_distinct_text_is_read_once_and_lands_in_every_row(llama: Path, texts: Texts) -> None:
    reward_model = load(llama)
    rows = [4, 0, 4, 11, 0, 4]
    n_read = []
    handle = reward_model.model.register_forward_pre_hook(
        lambda _, __, named: n_read.append(len(named["input_ids"])), with_kwargs=True
    )
    found = head_inputs(reward_model, [texts.prompts[row] for row in rows], [texts.responses[row] for row in rows])
    handle.remove()
    assert sum(n_read) == 3
    np.testing.assert_allclose(found, states_of(reward_model, texts)[rows], atol=1e-4, rtol=0)


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


@pytest.mark.parametrize("which", ["llama", "bert"])
def test_projected_scores_are_the_analytic_ones_and_linear_in_strength(
    which: str, texts: Texts, request: pytest.FixtureRequest
) -> None:
    reward_model = load(request.getfixturevalue(which))
    states, scores, v = states_of(reward_model, texts), scores_of(reward_model, texts, 8192), direction()
    weights, _ = linear_head(score_head(reward_model))
    removed = (states @ v) * (weights @ v)
    assert np.ptp(removed) > 0.05
    for strength in (0.0, 0.5, 1.0, 2.0):
        projected = head_scores(reward_model, states - strength * np.outer(states @ v, v))
        np.testing.assert_allclose(projected, scores - strength * removed, atol=EXACT, rtol=0)


def test_no_hook_stays_behind_after_an_error(llama: Path, texts: Texts) -> None:
    reward_model = load(llama)
    states_of(reward_model, texts)
    assert n_hooks(reward_model) == 0
    reward_model.model.get_input_embeddings().register_forward_pre_hook(_fail)
    with pytest.raises(IndexError, match="inside"):
        states_of(reward_model, texts)
    assert n_hooks(reward_model) == 0


def _fail(*_: Any) -> None:
    raise IndexError("inside")


def test_nothing_to_read_is_an_error(llama: Path) -> None:
    with pytest.raises(DataError, match="no texts"):
        head_inputs(load(llama), [], [])


def test_a_score_that_is_more_than_its_head_says_is_refused(llama: Path, texts: Texts) -> None:
    reward_model = load(llama)

    def add_length(_: Any, __: Any, named: dict[str, Any], output: Any) -> Any:
        output.logits = output.logits + named["attention_mask"].sum(dim=1, keepdim=True)
        return output

    reward_model.model.register_forward_hook(add_length, with_kwargs=True)
    with pytest.raises(ModelError, match="its head alone gives other scores than the model, off by"):
        states_of(reward_model, texts)
    assert n_hooks(reward_model) == 0


def test_a_head_of_an_unknown_form_is_refused(llama: Path) -> None:
    reward_model = load(llama)
    score_head(reward_model).register_forward_hook(lambda _, __, output: output[..., None])
    with pytest.raises(ModelError) as error:
        head_inputs(reward_model, [user_prompt("w1")], ["w2"])
    assert str(error.value) == (
        f"{llama}: its head turns (1, 7, 64) to (1, 7, 1, 1), which is none of the known forms. "
        "Projection at the score head cannot be used with this model"
    )


def test_a_head_that_runs_more_than_once_is_refused(llama: Path, texts: Texts) -> None:
    reward_model = load(llama)
    head = score_head(reward_model)

    def run_again(_: Any, __: Any, output: Any) -> None:
        head(output[0])

    reward_model.model.model.register_forward_hook(run_again)
    with pytest.raises(ModelError, match="its head 'score' ran 2 times for one batch"):
        states_of(reward_model, texts)
