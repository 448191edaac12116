"""Text to token ids: which form a tokenizer gets, exactly one BOS, what is cut, and what the user is told."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from tiny import message_of

from cda.models.config import ModelSpec
from cda.models.load import load_template, template_of
from cda.models.template import Template, padding_token
from cda.records import Message, user_prompt

if TYPE_CHECKING:
    from conftest import ModelMaker

TURNS = "{% for message in messages %} {{ message.content }}{% endfor %}"
AS_TEXT = "The tokenizer has no chat template; the prompt, a blank line and the response are encoded as text."
AS_PAIR = "The tokenizer has no chat template; prompt and response are encoded as a text pair."
NO_EOS = "The tokenizer has no end-of-sequence token; responses end without one."


@pytest.fixture(scope="module")
def chat_folder(llama_maker: ModelMaker) -> Path:
    return llama_maker("template-chat")


def template(folder: Path, max_length_tokens: int = 64) -> Template:
    return load_template(ModelSpec(str(folder), "fp32", max_length_tokens))


def tokens(made: Template, prompt: str, response: str) -> str:
    return " ".join(made.tokenizer.convert_ids_to_tokens(made.encode(user_prompt(prompt), response).ids))


@pytest.mark.parametrize(
    ("name", "options", "expected", "notes"),
    [
        ("chat", {}, "<s> <|user|> w1 w2 <|end|> <|assistant|> w3 <|end|>", []),
        ("twice", {"chat_template": "{{ bos_token }}{{ bos_token }}" + TURNS}, "<s> w1 w2 w3", []),
        ("no-bos", {"chat_template": TURNS}, "w1 w2 w3", []),  # as Transformers itself does
        ("plain", {"chat_template": None}, "<s> w1 w2 w3 </s>", [AS_TEXT]),
        ("no-eos", {"chat_template": None, "eos": False}, "<s> w1 w2 w3", [AS_TEXT, NO_EOS]),
        ("no-pad", {"pad": None, "chat_template": TURNS}, "w1 w2 w3", []),
        ("no-pad-no-eos", {"pad": None, "eos": False, "chat_template": TURNS}, "w1 w2 w3", []),
    ],
)
def test_each_tokenizer_gets_its_form_with_one_bos_and_notes_of_what_it_lacks(
    llama_maker: ModelMaker, name: str, options: dict[str, Any], expected: str, notes: list[str]
) -> None:
    made = template(llama_maker(f"template-form-{name}", **options))
    assert made.tokenizer("w1")["input_ids"][0] == made.tokenizer.bos_token_id  # the tokenizer does add one
    assert tokens(made, "w1 w2", "w3") == expected
    assert made.notes() == notes
    if "pad" in options:  # the model's own comes first, if its table holds it
        assert Template(made.tokenizer, 512).pad_token_id == made.tokenizer.unk_token_id == 0
        assert [padding_token(made.tokenizer, pad, 70) for pad in (5, 70, -1, None)] == [5, 0, 0, 0]


def test_chat_form_keeps_every_turn(chat_folder: Path) -> None:
    made = template(chat_folder)
    prompt = (Message("system", "w9"), Message("user", "w1"), Message("assistant", "w2"), Message("user", "w3"))
    assert " ".join(made.tokenizer.convert_ids_to_tokens(made.encode(prompt, "w4").ids)) == (
        "<s> <|system|> w9 <|end|> <|user|> w1 <|end|> <|assistant|> w2 <|end|> <|user|> w3 <|end|>"
        " <|assistant|> w4 <|end|>"
    )


def test_bert_gets_the_pair_form(bert: Path) -> None:
    made = template(bert)
    assert made.form == "pair"
    assert tokens(made, "w1 w2", "w3") == "[CLS] w1 w2 [SEP] w3 [SEP]"
    assert made.encode(user_prompt("w1 w2"), "w3").ids == made.tokenizer("w1 w2", "w3")["input_ids"]
    assert made.notes() == [AS_PAIR]


@pytest.mark.parametrize(("limit", "truncated"), [(11, False), (10, True), (4, True)])
def test_chat_form_is_cut_at_the_end_and_says_so(
    chat_folder: Path, words: Callable[..., str], limit: int, truncated: bool
) -> None:
    # BOS and four marks, two words of prompt and four of response: eleven tokens.
    encoded = template(chat_folder, limit).encode(user_prompt(words(2)), words(4))
    whole = template(chat_folder).encode(user_prompt(words(2)), words(4))
    assert (encoded.truncated, len(encoded.ids)) == (truncated, limit)
    assert encoded.ids == whole.ids[:limit]


def test_pair_form_cuts_the_response_first_and_a_prompt_that_fills_everything_to_half(
    bert: Path, words: Callable[..., str]
) -> None:
    assert not template(bert, 13).encode(user_prompt(words(4)), words(6, start=10)).truncated
    decode = template(bert).tokenizer.decode
    cut = template(bert, 12).encode(user_prompt(words(4)), words(6, start=10))
    assert cut.truncated
    assert decode(cut.ids) == f"[CLS] {words(4)} [SEP] {words(5, start=10)} [SEP]"
    filled = template(bert, 13).encode(user_prompt(words(40)), words(40, start=10))
    assert filled.truncated
    # Ten places beside the three marks: five for each.
    assert decode(filled.ids) == f"[CLS] {words(5)} [SEP] {words(5, start=10)} [SEP]"


def test_a_configuration_without_a_limit_of_positions_cuts_no_text(bert: Path) -> None:
    from transformers import XLNetConfig

    assert template_of(template(bert).tokenizer, XLNetConfig(), 48).max_length_tokens == 48


@pytest.mark.parametrize(
    "chat",
    [
        "{% for m in messages %}{% if m.role == 'user' %}{{ m.content }}{% endif %}{% endfor %}",
        "{% for m in messages %}{% for part in m.content %}{{ part.text }}{% endfor %}{% endfor %}",
    ],
)
def test_a_chat_template_that_leaves_the_answer_out_is_refused(llama_maker: ModelMaker, chat: str) -> None:
    folder = llama_maker(f"leaves-out-{len(chat)}", chat_template=chat)
    assert "its chat template leaves the answer out" in message_of(lambda: template(folder))
    (folder / "chat_template.jinja").write_text("{% for m in messages %}{{ m.content }}{% endfor %}", encoding="utf-8")
    template(folder)  # the remedy


def test_a_refusing_chat_template_and_a_folder_without_tokenizer_are_one_clear_error(llama_maker: ModelMaker) -> None:
    refused = "{% if messages[0].role == 'system' %}{{ raise_exception('no system turn here') }}{% endif %}"
    refusing = refused + "{% for m in messages %}{{ m.content }}{% endfor %}"
    made = template(llama_maker("template-refuses", chat_template=refusing))
    assert message_of(lambda: made.encode((Message("system", "w1"), Message("user", "w2")), "w3")) == (
        "the model's chat template refuses a conversation with the turns system, user, assistant: no system turn here. "
        "Change chat_template (chat_template.jinja or tokenizer_config.json) so that it takes them"
    )
    folder = llama_maker("template-no-tokenizer")
    for file in folder.glob("tokenizer*"):
        file.unlink()
    message = message_of(lambda: template(folder))
    assert message.startswith(f"{folder}: its tokenizer cannot be loaded (") and "\n" not in message
