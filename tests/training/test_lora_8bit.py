"""LoRA and head over a small 8-bit base, saved and loaded again with the stock libraries."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
import torch
from devices import on_a_cpu

from cda.models.config import ModelSpec
from cda.models.load import load_reward_model
from cda.records import Pair, TrainingExample
from cda.scorers.classifier import ClassifierScorer
from cda.training.arguments import Lora
from cda.training.lora import TrainingResult, train_adapter

if TYPE_CHECKING:
    from conftest import Texts


@dataclass(frozen=True)
class Run:
    """A training on the 8-bit base, watched."""

    result: TrainingResult
    steps: list[Any]
    model: Any
    spec: ModelSpec


@pytest.fixture(scope="module")
def run(
    tmp_path_factory: pytest.TempPathFactory,
    llama: Path,
    preference_pairs: list[Pair],
    lora: Lora,
    train_arguments: Mapping[str, Any],
    watched_training: Callable[..., Any],
) -> Run:
    spec = ModelSpec(str(llama), "8bit", 64)
    model = load_reward_model(spec)
    folder = tmp_path_factory.mktemp("trained-8bit")
    with watched_training(inspect=True) as steps:
        train, validation = (
            list(map(TrainingExample, pairs)) for pairs in (preference_pairs[:12], preference_pairs[12:])
        )
        result = train_adapter(model, train, validation, lora, train_arguments, folder, seed=0)
    return Run(result, steps, model, spec)


def test_nine_steps_with_finite_losses_that_end_lower(run: Run) -> None:
    losses = [entry["loss"] for entry in run.result.history if "loss" in entry]
    assert len(losses) == len(run.steps) == run.result.counts.steps == 9
    assert all(math.isfinite(loss) for loss in losses)
    assert np.mean(losses[-3:]) < np.mean(losses[:3]) / 4  # one epoch each; measured: a fourteenth
    assert (run.result.counts.train, run.result.counts.validation) == (12, 4)
    assert (run.result.counts.truncated, run.result.counts.identical_after_truncation) == (0, 0)


def test_the_base_is_8bit_and_only_adapter_and_head_learn(run: Run) -> None:
    kinds = {type(part).__name__ for name, part in run.model.model.named_modules() if name.endswith("gate_proj")}
    assert kinds == {"Linear8bitLt"}
    names = run.steps[0].trainable_names
    assert len(names) == 2 * 2 * 2 + 1  # A and B, on two projections of two layers, and the head
    assert all("lora_" in name or "score.modules_to_save" in name for name in names)
    # Although TRL casts them to bf16.
    assert {dtype for step in run.steps for dtype in step.trainable_dtypes} == {"torch.float32"}


def test_lora_dropout_is_on_although_trl_zeroes_it_by_default(run: Run) -> None:
    assert {rate for step in run.steps for rate in step.lora_dropouts} == {0.05}
    assert all(step.training and step.lora_dropouts_active for step in run.steps)
    # LoRA's B starts at zero: at first dropout changes nothing, and nothing else is random.
    assert run.steps[0].twice_the_same
    assert not any(step.twice_the_same for step in run.steps[1:])


def test_reload_gives_the_scores_of_the_model_trained_in_place(run: Run, texts: Texts) -> None:
    run.model.model.eval()
    in_place = ClassifierScorer(run.model).score(texts.prompts, texts.responses)
    loaded = load_reward_model(run.spec, run.result.adapter)
    np.testing.assert_array_equal(ClassifierScorer(loaded).score(texts.prompts, texts.responses), in_place)
    untrained = ClassifierScorer(load_reward_model(run.spec)).score(texts.prompts, texts.responses)
    assert np.abs(untrained - in_place).max() > 0.1 * np.ptp(in_place)


@on_a_cpu
def test_stock_libraries_give_the_same_scores(run: Run, texts: Texts) -> None:
    """With layers that multiply as in training; on a CPU stock ones round their inputs to 8 bits when they only score."""
    from bitsandbytes.nn import Linear8bitLt
    from peft import PeftModel
    from transformers import AutoModelForSequenceClassification, AutoTokenizer, BitsAndBytesConfig

    base = AutoModelForSequenceClassification.from_pretrained(
        run.spec.name_or_path,
        num_labels=1,
        dtype=torch.float32,
        quantization_config=BitsAndBytesConfig(load_in_8bit=True),
    )
    stock = PeftModel.from_pretrained(base, str(run.result.adapter)).eval()
    for part in stock.modules():
        if isinstance(part, Linear8bitLt):
            part.train()
    tokenizer = AutoTokenizer.from_pretrained(str(run.result.adapter))
    expected = []
    for prompt, response in zip(texts.prompts, texts.responses, strict=True):
        turns = [{"role": "user", "content": prompt[0].content}, {"role": "assistant", "content": response}]
        ids = tokenizer.apply_chat_template(turns, return_tensors="pt", return_dict=True)
        with torch.no_grad():
            expected.append(stock(**ids).logits[0, 0].item())
    loaded = load_reward_model(run.spec, run.result.adapter)
    one_at_a_time = ClassifierScorer(loaded, batch_tokens=1).score(texts.prompts, texts.responses)
    np.testing.assert_allclose(one_at_a_time, expected, atol=1e-5)
