"""Tiny tokenizers with the special tokens, padding and chat templates of published reward models."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

_WORDS = (
    "the and that this user assistant model system answer question please reason step help good better response which"
)

LLAMA3_CHAT = (
    "{{ bos_token }}{% for m in messages %}<|start_header_id|>{{ m['role'] }}<|end_header_id|>\n\n"
    "{{ m['content'] | trim }}<|eot_id|>{% endfor %}"
    "{% if add_generation_prompt %}<|start_header_id|>assistant<|end_header_id|>\n\n{% endif %}"
)
LLAMA31_CHAT = LLAMA3_CHAT.replace(
    "{{ bos_token }}",
    "{{ bos_token }}<|start_header_id|>system<|end_header_id|>\n\nCutting Knowledge Date: December 2023\n"
    "Today Date: 26 Jul 2024\n\n<|eot_id|>",
)
NEMOTRON_CHAT = LLAMA31_CHAT.replace("{{ bos_token }}", "")
GEMMA_CHAT = (
    "{{ bos_token }}{% for m in messages %}<start_of_turn>{{ 'model' if m['role'] == 'assistant' else m['role'] }}\n"
    "{{ m['content'] | trim }}<end_of_turn>\n{% endfor %}{% if add_generation_prompt %}<start_of_turn>model\n{% endif %}"
)
MISTRAL_CHAT = (
    "{{ bos_token }}{% for m in messages %}{% if m['role'] == 'user' %}[INST] {{ m['content'] }} [/INST]"
    "{% else %}{{ m['content'] }}{{ eos_token }}{% endif %}{% endfor %}"
)
CHATML = (
    "{% for m in messages %}<|im_start|>{{ m['role'] }}\n{{ m['content'] }}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)
QWEN25_CHAT = (
    "{% if messages[0]['role'] != 'system' %}<|im_start|>system\nYou are a helpful assistant.<|im_end|>\n{% endif %}"
    + CHATML
)
QWEN25_MATH_CHAT = QWEN25_CHAT.replace(
    "You are a helpful assistant.", "Please reason step by step, and put your final answer within \\boxed{}."
)
QWEN3_CHAT = (
    "{% for m in messages %}<|im_start|>{{ m['role'] }}\n"
    "{% if m['role'] == 'assistant' and loop.last %}<think>\n\n</think>\n\n{% endif %}{{ m['content'] }}<|im_end|>\n"
    "{% endfor %}{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)
INTERNLM2_CHAT = "{{ bos_token }}" + CHATML
TULU_CHAT = (
    "{% for m in messages %}{{ '<|' + m['role'] + '|>\\n' + m['content'] }}"
    "{{ eos_token if m['role'] == 'assistant' else '' }}{{ '\\n' if not loop.last else '' }}{% endfor %}"
    "{% if add_generation_prompt %}{{ '\\n<|assistant|>\\n' }}{% endif %}"
)
WORLD_PM_CHAT = QWEN25_CHAT + "<|endoftext|>"
PAIR_CONTEXT = (
    "\n{% for message in messages %}{% if loop.index0 % 2 == 0 %}\n\n<turn> user\n {{ message['content'] }}"
    "{% else %}\n\n<turn> assistant\n {{ message['content'] }}{% endif %}{% endfor %}\n\n\n"
)
"""The template with which RLHFlow's pair model writes a conversation, beside that of its tokenizer."""


def tokenizer(
    first: Sequence[str] = (),
    last: Sequence[str] = (),
    before: str | None = None,
    after: str | None = None,
    **options: Any,
) -> Any:
    """A byte-level tokenizer: special tokens with the lowest ids (`first`), bytes and a few words, special tokens with the
    highest ids (`last`). The tokens `before` and `after` are added around every text; `options` are those of Transformers.
    """
    from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers, processors
    from transformers import PreTrainedTokenizerFast

    pieces = [*first, *sorted(pre_tokenizers.ByteLevel.alphabet())]
    merges = []
    for word in _WORDS.split():
        letters = "Ġ" + word
        for end in range(2, len(letters) + 1):
            pair = (letters[: end - 1], letters[end - 1])
            if pair not in merges:
                merges.append(pair)
                pieces.append(letters[:end])
    vocabulary = {piece: number for number, piece in enumerate(dict.fromkeys(pieces))}
    made = Tokenizer(models.BPE(vocab=vocabulary, merges=merges))
    made.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    made.decoder = decoders.ByteLevel()
    made.add_special_tokens([AddedToken(token, special=True, normalized=False) for token in (*first, *last)])
    around = [token for token in (before, after) if token]
    single = " ".join([*([before] if before else []), "$A", *([after] if after else [])])
    pair = single + (f" $B {after}" if after else " $B")
    if around:
        made.post_processor = processors.TemplateProcessing(
            single=single,
            pair=pair,
            special_tokens=[(token, made.token_to_id(token)) for token in dict.fromkeys(around)],
        )
    return PreTrainedTokenizerFast(tokenizer_object=made, model_max_length=2048, **options)


def llama3(chat: str | None = LLAMA31_CHAT, pad: str | None = "[PAD]", eos: str = "<|eot_id|>", **options: Any) -> Any:
    """Llama 3's tokens: BOS is added to every text; a padding token of its own comes last, as after a resize."""
    names = ["<|begin_of_text|>", "<|end_of_text|>", "<|reserved_special_token_1|>", "<|start_header_id|>"]
    names += ["<|end_header_id|>", "<|eot_id|>", *([pad] if pad and not pad.startswith("<|") else [])]
    return tokenizer(
        last=names, before=names[0], bos_token=names[0], eos_token=eos, pad_token=pad, chat_template=chat, **options
    )


def llama2(
    chat: str | None = None,
    pad: str | None = None,
    before: str | None = "<s>",
    after: str | None = None,
    **options: Any,
) -> Any:
    """The tokens of Llama 1 and 2 and Mistral; a padding token that is none of theirs comes last."""
    names = ["<unk>", "<s>", "</s>"]
    last = [pad] if pad and pad not in names else []
    return tokenizer(
        names, last, before, after, bos_token="<s>", eos_token="</s>", unk_token="<unk>", pad_token=pad,
        chat_template=chat, **options,
    )  # fmt: skip


def gemma(chat: str | None = GEMMA_CHAT, **options: Any) -> Any:
    return tokenizer(
        ["<pad>", "<eos>", "<bos>", "<unk>"], ["<start_of_turn>", "<end_of_turn>"], "<bos>",
        bos_token="<bos>", eos_token="<eos>", pad_token="<pad>", unk_token="<unk>", chat_template=chat, **options,
    )  # fmt: skip


def qwen(chat: str | None = QWEN25_CHAT, **options: Any) -> Any:
    """Qwen's tokens: none is added to a text."""
    names = ["<|endoftext|>", "<|im_start|>", "<|im_end|>", "<extra_0>"]
    return tokenizer(last=names, eos_token="<|im_end|>", pad_token="<|endoftext|>", chat_template=chat, **options)


def internlm2(chat: str | None = INTERNLM2_CHAT, **options: Any) -> Any:
    """InternLM2's tokens: the padding token is EOS; the reward token is the last but one."""
    last = ["<|im_start|>", "<|im_end|>", "[UNUSED_TOKEN_130]", "<|reward|>"]
    return tokenizer(
        ["<unk>", "<s>", "</s>"], last, "<s>", bos_token="<s>", eos_token="</s>", pad_token="</s>", unk_token="<unk>",
        chat_template=chat, **options,
    )  # fmt: skip


def deberta(**options: Any) -> Any:
    """DeBERTa v3's tokens and those of PairRM: [CLS] text [SEP], or [CLS] text [SEP] text [SEP]."""
    last = ["[MASK]", "<|source|>", "<|candidate1|>", "<|candidate2|>", "<|candidate|>"]
    return tokenizer(
        ["[PAD]", "[CLS]", "[SEP]", "[UNK]"], last, "[CLS]", "[SEP]", bos_token="[CLS]", eos_token="[SEP]",
        cls_token="[CLS]", sep_token="[SEP]", pad_token="[PAD]", unk_token="[UNK]", mask_token="[MASK]", **options,
    )  # fmt: skip


def modern_bert(**options: Any) -> Any:
    return tokenizer(
        (), ["[UNK]", "[CLS]", "[SEP]", "[PAD]", "[MASK]"], "[CLS]", "[SEP]", cls_token="[CLS]", sep_token="[SEP]",
        pad_token="[PAD]", unk_token="[UNK]", mask_token="[MASK]", **options,
    )  # fmt: skip


def neox(**options: Any) -> Any:
    return tokenizer(
        ["<|endoftext|>", "<|padding|>"], ["<|system|>", "<|prompter|>", "<|assistant|>"], bos_token="<|endoftext|>",
        eos_token="<|endoftext|>", pad_token="<|padding|>", **options,
    )  # fmt: skip


def gpt2(**options: Any) -> Any:
    end = "<|endoftext|>"
    return tokenizer(last=[end], bos_token=end, eos_token=end, pad_token=end, unk_token=end, **options)


def t5(**options: Any) -> Any:
    return tokenizer(
        ["<pad>", "</s>", "<unk>"], after="</s>", eos_token="</s>", pad_token="<pad>", unk_token="<unk>", **options
    )


def tulu(**options: Any) -> Any:
    """Tulu 3's tokens: Llama 3's with <pad>, and a template that writes roles as plain text."""
    return llama3(TULU_CHAT, pad="<pad>", eos="<|end_of_text|>", **options)
