"""Models that were trained elsewhere on the tokenizer's own output are scored on it: segment ids and marks of pairs."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
import torch
from tiny import edit_json, load, scores_of
from transformers import AutoModelForSequenceClassification, AutoTokenizer

from cda.records import prompt_text

if TYPE_CHECKING:
    from conftest import Texts

TOLERANCE = 1e-5


def stock(folder: Path, texts: Texts, **left_out: Any) -> list[float]:
    """Scores as a program of plain Transformers makes them, one at a time."""
    tokenizer = AutoTokenizer.from_pretrained(str(folder))
    model = AutoModelForSequenceClassification.from_pretrained(str(folder)).eval()
    found = []
    with torch.inference_mode():
        for prompt, response in zip(texts.prompts, texts.responses, strict=True):
            encoded = tokenizer(prompt_text(prompt), response, return_tensors="pt") | left_out
            found.append(model(**encoded).logits.item())
    return found


def copy_with(folder: Path, target: Path, **tokenizer: Any) -> Path:
    """The model with other words in tokenizer_config.json."""
    shutil.copytree(folder, target)
    edit_json(target / "tokenizer_config.json", **tokenizer)
    return target


@pytest.fixture
def with_segments(bert: Path, tmp_path: Path) -> Path:
    names = ["input_ids", "token_type_ids", "attention_mask"]
    return copy_with(bert, tmp_path / "with", model_input_names=names)


def test_a_pair_is_scored_with_the_segments_that_its_tokenizer_gives(with_segments: Path, texts: Texts) -> None:
    reward_model = load(with_segments, limit=128)
    expected = stock(with_segments, texts)
    np.testing.assert_allclose(scores_of(reward_model, texts, 256), expected, atol=TOLERANCE)
    without = stock(with_segments, texts, token_type_ids=None)
    assert np.abs(np.subtract(expected, without)).max() > 100 * TOLERANCE  # else the test shows nothing
    assert "with segment ids" in reward_model.template.notes()[0]


def test_a_tokenizer_that_gives_none_leaves_them_out(bert: Path, tmp_path: Path, texts: Texts) -> None:
    folder = copy_with(bert, tmp_path / "without", model_input_names=["input_ids", "attention_mask"])
    reward_model = load(folder, limit=128)
    np.testing.assert_allclose(scores_of(reward_model, texts, 256), stock(folder, texts), atol=TOLERANCE)
    assert not reward_model.template.segments


def test_training_reads_the_same_segments_as_scoring(with_segments: Path, texts: Texts) -> None:
    """The trainer passes token ids alone, to a model inside PEFT's wrappers."""
    from peft import LoraConfig, get_peft_model

    reward_model = load(with_segments, limit=128)
    model = get_peft_model(reward_model.model, LoraConfig(task_type="SEQ_CLS", target_modules=["query"])).eval()
    expected = stock(with_segments, texts)
    for prompt, response, reward in zip(texts.prompts, texts.responses, expected, strict=True):
        ids = torch.tensor([reward_model.template.encode(prompt, response).ids])
        with torch.inference_mode():
            found = model(input_ids=ids, attention_mask=torch.ones_like(ids)).logits.item()
        assert found == pytest.approx(reward, abs=TOLERANCE)


def test_the_marks_of_a_pair_are_the_tokenizers_own(bert: Path, tmp_path: Path, texts: Texts) -> None:
    """RoBERTa puts two marks between the texts."""
    from tokenizers import Tokenizer
    from tokenizers.processors import TemplateProcessing

    folder = copy_with(bert, tmp_path / "roberta")
    file = str(folder / "tokenizer.json")
    tokenizer = Tokenizer.from_file(file)
    marks = [(mark, tokenizer.token_to_id(mark)) for mark in ("[CLS]", "[SEP]")]
    tokenizer.post_processor = TemplateProcessing("[CLS] $A [SEP]", "[CLS] $A [SEP] [SEP] $B [SEP]", marks)
    tokenizer.save(file)
    template = load(folder, limit=128).template
    for prompt, response in zip(texts.prompts, texts.responses, strict=True):
        assert template.encode(prompt, response).ids == template.tokenizer(prompt_text(prompt), response)["input_ids"]
    short = load(folder, limit=20).template.encode(texts.prompts[-1], texts.responses[-1])
    assert short.truncated
    assert len(short.ids) == 20
    assert short.ids.count(template.tokenizer.sep_token_id) == 3
