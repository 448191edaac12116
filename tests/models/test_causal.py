"""Where a response begins, token by token; and what is no causal language model is refused with one message."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from tiny import edit_json, load_causal, message_of

from cda.models.causal import response_spans, span_notes
from cda.models.precision import Precision
from cda.models.template import Template
from cda.records import Prompt, user_prompt

if TYPE_CHECKING:
    from conftest import ModelMaker

TURNS = "{{ bos_token }}{% for message in messages %}<|{{ message.role }}|> {{ message.content }} <|end|>{% endfor %}"
THINKING = TURNS + "{% if add_generation_prompt %}<|assistant|> good{% endif %}"


@pytest.fixture(scope="module")
def folder(causal_maker: ModelMaker) -> Path:
    return causal_maker("plain")


def split(template: Template, prompt: Prompt, response: str) -> tuple[list[str], list[str]]:
    """Tokens of the prompt and of the response."""
    (span,) = response_spans(template, [(prompt, response)])
    assert span.encoded == template.encode(prompt, response)  # the tokens of the full rendering, nothing else
    tokens = template.tokenizer.convert_ids_to_tokens(span.encoded.ids)
    assert span.n_tokens == len(tokens) - span.start
    return tokens[: span.start], tokens[span.start :]


def test_chat_response_begins_after_the_generation_prompt_and_includes_the_closing_mark(folder: Path) -> None:
    template = load_causal(folder).template
    assert template.tokenizer("w1")["input_ids"][0] == template.tokenizer.bos_token_id  # the tokenizer adds a BOS too
    before, response = split(template, user_prompt("w1 w2"), "w3 w4")
    assert before == ["<s>", "<|user|>", "w1", "w2", "<|end|>", "<|assistant|>"]
    assert response == ["w3", "w4", "<|end|>"]
    assert span_notes(template) == []


def test_without_a_generation_prompt_the_header_counts_and_a_note_says_so(causal_maker: ModelMaker) -> None:
    template = load_causal(causal_maker("no-header", TURNS)).template
    assert split(template, user_prompt("w1"), "w3")[1] == ["<|assistant|>", "w3", "<|end|>"]
    assert span_notes(template) == [
        "The chat template has no generation prompt; what it writes before a response counts as the response's."
    ]


def test_a_prompt_that_is_rendered_otherwise_before_a_response_is_refused(causal_maker: ModelMaker) -> None:
    template = load_causal(causal_maker("thinking", THINKING)).template
    message = message_of(lambda: response_spans(template, [(user_prompt("w1"), "w3")]))
    assert "renders a prompt otherwise" in message
    assert "Alone it goes on with 'good', with a response with 'w3 <|end|>'" in message
    # A response that begins so can be told apart.
    assert split(template, user_prompt("w1"), "good w3")[1] == ["w3", "<|end|>"]


def test_without_a_chat_template_the_response_follows_the_blank_line_and_ends_in_eos(causal_maker: ModelMaker) -> None:
    template = load_causal(causal_maker("text", None)).template
    before, response = split(template, user_prompt("w1 w2"), "w3")
    assert (before, response) == (["<s>", "w1", "w2"], ["w3", "</s>"])


def test_a_token_that_joins_prompt_and_response_is_the_response_s() -> None:
    template = Template(joining_tokenizer(), 64)
    assert split(template, user_prompt("a"), "b") == (["a", "\n\n"], ["b", "</s>"])
    assert split(template, user_prompt("a"), "\nb") == (["a"], ["\n\n\n", "b", "</s>"])


def test_a_response_with_nothing_before_it_is_refused() -> None:
    template = Template(joining_tokenizer(), 64)
    message = message_of(lambda: response_spans(template, [(user_prompt(""), "\nb")]))
    assert message.startswith("no token precedes the response, so its first token has no probability. ")


def test_what_is_cut_is_said_and_a_prompt_that_fills_everything_leaves_nothing_to_score(
    folder: Path, words: Callable[..., str]
) -> None:
    template = load_causal(folder, limit=10).template
    prompt = user_prompt(words(2))  # six tokens before the response
    fits, cut, unread = response_spans(
        template, [(prompt, words(3)), (prompt, words(4)), (user_prompt(words(6)), "w1")]
    )
    assert fits is not None and cut is not None
    assert (fits.encoded.truncated, fits.n_tokens) == (False, 4)
    assert (cut.encoded.truncated, cut.n_tokens) == (True, 4)  # its closing mark is gone
    assert unread is None


@pytest.mark.parametrize("precision", ["fp32", "8bit", "bf16"])
def test_the_output_layer_stays_out_of_quantization(folder: Path, precision: Precision) -> None:
    import torch

    model = load_causal(folder, precision=precision).model
    halved = precision == "bf16" or (precision == "8bit" and model.device.type == "cuda")
    assert model.lm_head.weight.dtype == (torch.bfloat16 if halved else torch.float32)
    in_8bit = [name for name, part in model.named_modules() if type(part).__name__ == "Linear8bitLt"]
    assert bool(in_8bit) == (precision == "8bit")
    assert not model.training


def test_what_is_no_causal_language_model_is_refused(
    llama: Path, bert: Path, llama_maker: ModelMaker, causal_maker: ModelMaker, tmp_path: Path
) -> None:
    from transformers import AutoTokenizer

    headless = llama_maker("causal-headless", "LlamaModel")
    seq2seq, pickled, pair = map(causal_maker, ("seq2seq", "pickle", "pair"))
    edit_json(seq2seq / "config.json", model_type="t5", architectures=["T5ForConditionalGeneration"])
    (pickled / "model.safetensors").rename(pickled / "pytorch_model.bin")
    for file in (*pair.glob("tokenizer*"), *pair.glob("chat_template.jinja")):
        file.unlink()
    AutoTokenizer.from_pretrained(str(bert)).save_pretrained(str(pair))
    (tmp_path / "adapter_config.json").write_text("{}")
    for folder, expected in (
        (llama, "is a LlamaForSequenceClassification, which gives no probability of a next token"),
        (bert, "is a BertForSequenceClassification, which gives no probability of a next token"),
        (headless, "its weights lack 1 tensors of a causal language model (first: lm_head.weight)"),
        (seq2seq, "is a T5ForConditionalGeneration; a log-ratio needs a causal language model"),
        (pickled, "only pickle weights (pytorch_model.bin), which can run code when read"),
        (pair, "its tokenizer has no chat template and encodes text"),
        (tmp_path, "is an adapter. Name its base as the model and this folder as the adapter"),
    ):
        assert message_of(lambda folder=folder: load_causal(folder)).startswith(f"{folder}: {expected}")


def lora_folder(folder: Path, target: Path, **options: Any) -> Path:
    """A saved LoRA adapter of the model in `folder`."""
    from peft import LoraConfig, get_peft_model

    config = LoraConfig(**({"task_type": "CAUSAL_LM", "r": 4, "target_modules": ["q_proj", "v_proj"]} | options))
    get_peft_model(load_causal(folder).model, config).save_pretrained(str(target))
    return target


def test_an_adapter_is_loaded_and_named(folder: Path, tmp_path: Path) -> None:
    adapter = lora_folder(folder, tmp_path / "adapter")
    loaded = load_causal(folder, adapter=adapter)
    assert loaded.name == f"{folder} + {adapter}"
    assert list(loaded.model.peft_config) == ["default"]
    assert not any(weights.requires_grad for weights in loaded.model.parameters())


def test_adapters_that_cannot_be_one_of_this_model_are_refused(folder: Path, tmp_path: Path) -> None:
    adapter = lora_folder(folder, tmp_path / "adapter")
    file, weights = adapter / "adapter_config.json", adapter / "adapter_model.safetensors"
    config = file.read_text()
    for change, expected in (
        ({"task_type": "SEQ_CLS"}, "its task_type is SEQ_CLS; needed is one of a causal language model"),
        ({"peft_type": "PREFIX_TUNING"}, "is of kind PREFIX_TUNING, which puts tokens of its own before a text"),
    ):
        file.write_text(json.dumps(json.loads(config) | change))
        assert message_of(lambda: load_causal(folder, adapter=adapter)).startswith(f"{adapter}: {expected}")
    file.write_text(json.dumps(json.loads(config) | {"target_modules": ["k_proj"]}))
    message = message_of(lambda: load_causal(folder, adapter=adapter))
    assert message.startswith(f"{adapter}: its file lacks 4 of the 4 tensors that its adapter_config.json asks for")
    file.write_text(config[:-20])
    assert "adapter_config.json: not valid JSON" in message_of(lambda: load_causal(folder, adapter=adapter))
    weights.rename(adapter / "adapter_model.bin")
    assert "not an adapter folder" in message_of(lambda: load_causal(folder, adapter=adapter))


def joining_tokenizer() -> Any:
    """Three newlines in a row become one token, so a response that starts with one joins the blank line before it."""
    from tokenizers import Tokenizer, models
    from transformers import PreTrainedTokenizerFast

    names: Sequence[str] = ("a", "b", "\n", "\n\n", "\n\n\n", "</s>")
    merges = [("\n", "\n"), ("\n\n", "\n")]
    tokenizer = Tokenizer(models.BPE({name: number for number, name in enumerate(names)}, merges))
    return PreTrainedTokenizerFast(tokenizer_object=tokenizer, eos_token="</s>", pad_token="</s>")
