"""Planted directions and planted prices of features are found and taken off, and nothing else is."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from scipy import stats
from tiny import load, scores_of

from cda.arrays import FloatArray
from cda.errors import DataError, ModelError
from cda.models.config import Precision
from cda.models.load import RewardModel
from cda.scorers.posthoc import MAX_CONDITION, bias_direction, feature_correction, head_inputs, head_scores, score_head

if TYPE_CHECKING:
    from conftest import ModelMaker, Texts, Trained

BETA = {"words": 0.03, "list_lines": -0.2, "jargon": 0.5}


def ids(n: int) -> list[str]:
    return [f"p{row}" for row in range(n)]


def contrasts(n: int, seed: int) -> tuple[FloatArray, dict[str, FloatArray]]:
    """Margins that features of unlike units pay for at BETA, with noise of 0.1, and a part that no feature shows."""
    rng = np.random.default_rng(seed)
    words = rng.normal(20, 40, n)
    differences = {
        "words": words,
        "list_lines": rng.poisson(2, n) + 0.02 * words,
        "jargon": rng.normal(1, 0.5, n),
    }
    margins = sum(BETA[name] * column for name, column in differences.items()) + rng.normal(0, 0.1, n)
    return np.asarray(margins), differences


def test_a_planted_direction_is_found_whatever_the_subjects() -> None:
    rng = np.random.default_rng(0)
    planted = np.zeros(32)
    planted[5] = -1.0
    base = rng.normal(size=(400, 32))
    perturbed = base + np.outer(rng.uniform(1, 3, 400), planted) + rng.normal(0, 0.1, (400, 32))
    found = bias_direction(perturbed, base, ids(400))
    assert np.linalg.norm(found) == pytest.approx(1)
    assert found @ planted > 0.999
    np.testing.assert_allclose(bias_direction(base, perturbed, ids(400)), -found)


def test_with_prompt_ids_each_prompt_counts_once() -> None:
    differences = np.array([[1.0, 0.0]] * 9 + [[0.0, 1.0]])
    each_pair = bias_direction(differences, np.zeros((10, 2)), ids(10))
    np.testing.assert_allclose(each_pair, np.array([9, 1]) / np.sqrt(82))
    each_prompt = bias_direction(differences, np.zeros((10, 2)), ["a"] * 9 + ["b"])
    np.testing.assert_allclose(each_prompt, np.array([1, 1]) / np.sqrt(2))


@pytest.mark.parametrize(
    ("perturbed", "base", "message"),
    [
        (np.ones((9, 2)), np.zeros((9, 2)), "9 pairs: a bias direction needs at least 10"),
        (np.ones((10, 2)), np.ones((10, 2)), "are all zero"),
        (np.array([[1.0, 0], [-1, 0]] * 5), np.zeros((10, 2)), "their differences cancel"),
        (np.full((10, 2), np.nan), np.zeros((10, 2)), "10 of 10 states are not finite"),
        (np.ones((10, 2)), np.ones((10, 3)), r"states of shapes \(10, 2\) and \(10, 3\)"),
        (np.ones(10), np.ones(10), r"states of shapes \(10,\) and \(10,\)"),
    ],
)
def test_pairs_without_a_direction_are_refused(perturbed: FloatArray, base: FloatArray, message: str) -> None:
    with pytest.raises(DataError, match=message):
        bias_direction(perturbed, base, ids(10))


def test_planted_prices_are_found_and_taken_off_contrasts_not_fitted_on() -> None:
    margins, differences = contrasts(300, seed=0)
    correction = feature_correction(margins, differences, ids(300))
    assert tuple(correction.beta) == tuple(BETA)
    for name, true in BETA.items():
        found = correction.beta[name]
        assert found.low < true < found.high
        assert found.value == pytest.approx(true, rel=0.05)
        assert (found.n, found.n_prompts, found.unit) == (300, 300, f"reward per unit of {name}")
    assert correction.r_squared == pytest.approx(1 - 0.1**2 / (margins**2).mean(), abs=1e-3)
    assert (correction.ridge, correction.left_out) == (0.0, {})
    fresh, features = contrasts(300, seed=1)
    assert fresh.mean() > 0.5
    left = correction.corrected(fresh, features)
    assert abs(left.mean()) < 0.02
    assert left.std() == pytest.approx(0.1, rel=0.1)
    np.testing.assert_array_equal(correction.corrected(fresh, features, 0.0), fresh)
    np.testing.assert_allclose(correction.corrected(fresh, features, 0.5), (fresh + left) / 2)


def test_an_interval_is_that_of_errors_clustered_by_prompt() -> None:
    """One feature by hand: with the leverage h of a prompt, t · √(Σ over prompts (Σ x · residual)² / (1 − h)) / Σ x²."""
    rng = np.random.default_rng(0)
    x, noise, prompts = rng.normal(size=12), rng.normal(size=12), np.repeat(np.arange(4), 3)
    slope = (x @ (x + noise)) / (x @ x)
    sums = np.bincount(prompts, weights=x * (x + noise - slope * x))
    leverage = np.bincount(prompts, weights=x * x) / (x @ x)
    own, shared = leverage / (1 - leverage), leverage**2 / (1 - leverage)
    df = (own - shared).sum() ** 2 / ((own**2).sum() - 2 * own @ shared + shared.sum() ** 2)
    half = stats.t.ppf(0.975, df) * np.sqrt((sums**2 / (1 - leverage)).sum()) / (x @ x)
    found = feature_correction(x + noise, {"words": x}, [f"p{prompt}" for prompt in prompts]).beta["words"]
    np.testing.assert_allclose([found.low, found.value, found.high], [slope - half, slope, slope + half])


def test_nearly_collinear_features_are_ridged_just_enough_and_share_the_price() -> None:
    rng = np.random.default_rng(0)
    words = rng.normal(0, 30, 200)
    twins = {"words": words, "characters": 6 * words}
    margins = 0.02 * words + rng.normal(0, 0.05, 200)
    correction = feature_correction(margins, twins, ids(200))
    # Eigenvalues of the scaled twins are 2 and 0.
    assert (2 + correction.ridge) / correction.ridge == pytest.approx(MAX_CONDITION)
    assert correction.beta["words"].value == pytest.approx(0.01, rel=0.02)
    assert correction.beta["characters"].value == pytest.approx(0.01 / 6, rel=0.02)
    np.testing.assert_allclose(-correction.corrected(np.zeros(200), twins), 0.02 * words, rtol=0.02)


@pytest.mark.parametrize(
    ("margins", "differences", "message"),
    [
        ([1] * 3, {"words": [1] * 3, "bold": [1] * 3, "jargon": [1] * 3}, "3 prompts for 3 features"),
        ([1] * 4, {"bold": [0] * 4}, "no feature to correct for: bold never differs between the sides"),
        ([1] * 4, {}, "no feature to correct for: none was given"),
        ([0] * 4, {"bold": [1] * 4}, "all 4 margins are zero"),
        ([1, np.nan, 2, 3], {"bold": [1] * 4}, "margins: 1 of 4 values are NaN or infinite"),
        ([1] * 4, {"bold": [1, np.inf, 2, 3]}, "feature 'bold': 1 of 4 values are NaN"),
        ([1] * 4, {"bold": [1] * 5}, r"feature 'bold': shape \(5,\) where \(4,\) is needed"),
    ],
)
def test_contrasts_that_cannot_be_fitted_are_refused(
    margins: list[float], differences: dict[str, list[float]], message: str
) -> None:
    with pytest.raises(DataError, match=message):
        feature_correction(margins, differences, ids(len(margins)))


def test_a_correction_needs_the_features_that_it_was_fitted_on() -> None:
    margins, differences = contrasts(50, seed=6)
    correction = feature_correction(margins, differences, ids(50))
    with pytest.raises(DataError, match="fitted on jargon, not measured here"):
        correction.corrected(margins, {name: differences[name] for name in ("words", "list_lines")})
    with pytest.raises(DataError, match=r"shape \(50,\) where \(49,\) is needed"):
        correction.corrected(margins[1:], differences)
    others = {**differences, "headers": np.ones(50)}
    np.testing.assert_array_equal(correction.corrected(margins, others), correction.corrected(margins, differences))


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
