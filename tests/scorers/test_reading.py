"""The description of how one text is read says what the model really does."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from tiny import load

from cda.records import user_prompt
from cda.scorers.classifier import ClassifierScorer
from cda.scorers.own import scorer_in_memory
from cda.scorers.reading import reading_lines

if TYPE_CHECKING:
    from conftest import ModelMaker

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
