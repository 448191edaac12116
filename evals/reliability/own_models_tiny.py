"""Tiny reward models of many architectures of Transformers, as someone's own folder holds one: config.json, weights, tokenizer."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from evals.reliability import reward_models_tokenizers as tokens
from evals.reliability.reward_models_tiny import HIDDEN

Config = Mapping[str, Any]

_SIZES: Config = {
    "hidden_size": HIDDEN, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 48, "initializer_range": 0.2,
}  # fmt: skip
_ENCODER: Config = _SIZES | {"max_position_embeddings": 160}
_AFTER_PADDING: Config = _SIZES | {"max_position_embeddings": 160}
"""Positions are counted from the padding token on, so that the table holds that many texts fewer."""
_DECODER: Config = _SIZES | {"num_key_value_heads": 2, "max_position_embeddings": 160, "head_dim": 8}
_NAMED_OTHERWISE: Config = {"max_position_embeddings": 160, "initializer_range": 0.2}
_EXPERTS: Config = {"num_local_experts": 2, "num_experts": 2, "num_experts_per_tok": 1, "moe_intermediate_size": 16}
_SEQ2SEQ: Config = {
    "d_model": HIDDEN, "encoder_layers": 2, "decoder_layers": 2, "encoder_attention_heads": 4, "decoder_attention_heads": 4,
    "encoder_ffn_dim": 48, "decoder_ffn_dim": 48, "max_position_embeddings": 160, "init_std": 0.2,
}  # fmt: skip
_T5: Config = {"d_model": HIDDEN, "d_kv": 8, "d_ff": 48, "num_layers": 2, "num_decoder_layers": 2, "num_heads": 4}


def _roberta() -> Any:
    return tokens.tokenizer(
        ["<s>", "<pad>", "</s>", "<unk>"], ["<mask>"], "<s>", "</s>", bos_token="<s>", eos_token="</s>", cls_token="<s>",
        sep_token="</s>", pad_token="<pad>", unk_token="<unk>", mask_token="<mask>",
    )  # fmt: skip


MODELS: Mapping[str, tuple[Callable[[], Any], Config]] = {
    "bert": (tokens.deberta, _ENCODER),
    "distilbert": (tokens.deberta, _NAMED_OTHERWISE | {"dim": HIDDEN, "n_layers": 2, "n_heads": 4, "hidden_dim": 48}),
    "albert": (tokens.deberta, _ENCODER | {"embedding_size": 16}),
    "electra": (tokens.deberta, _ENCODER | {"embedding_size": 16}),
    "convbert": (tokens.deberta, _ENCODER | {"embedding_size": 16}),
    "mobilebert": (tokens.deberta, _ENCODER | {"embedding_size": 16, "intra_bottleneck_size": 16, "true_hidden_size": 16}),
    "rembert": (tokens.deberta, _ENCODER | {"input_embedding_size": 16, "output_embedding_size": 16}),
    "big_bird": (tokens.deberta, _ENCODER | {"attention_type": "original_full"}),
    "fnet": (tokens.deberta, _ENCODER),
    "deberta": (tokens.deberta, _ENCODER | {"pooler_hidden_size": HIDDEN}),
    "deberta-v2": (tokens.deberta, _ENCODER | {"pooler_hidden_size": HIDDEN}),
    "modernbert": (
        tokens.modern_bert,
        _ENCODER | {"pad_token_id": 3, "cls_token_id": 1, "sep_token_id": 2, "bos_token_id": 1, "eos_token_id": 2},
    ),
    "roberta": (_roberta, _AFTER_PADDING),
    "camembert": (_roberta, _AFTER_PADDING),
    "xlm-roberta": (_roberta, _AFTER_PADDING),
    "mpnet": (_roberta, _AFTER_PADDING),
    "longformer": (_roberta, _AFTER_PADDING | {"attention_window": 16}),
    "xlnet": (tokens.deberta, {"d_model": HIDDEN, "n_layer": 2, "n_head": 4, "d_inner": 48}),
    "gpt2": (tokens.gpt2, {"n_embd": HIDDEN, "n_layer": 2, "n_head": 4, "n_positions": 160, "initializer_range": 0.2}),
    "gpt_neo": (
        tokens.gpt2,
        _NAMED_OTHERWISE | {"hidden_size": HIDDEN, "num_layers": 2, "num_heads": 4, "attention_types": [[["global", "local"], 1]]},
    ),
    "gptj": (tokens.gpt2, {"n_embd": HIDDEN, "n_layer": 2, "n_head": 4, "n_positions": 160, "rotary_dim": 4}),
    "gpt_neox": (tokens.neox, _ENCODER),
    "openai-gpt": (tokens.gpt2, {"n_embd": HIDDEN, "n_layer": 2, "n_head": 4, "n_positions": 160}),
    "opt": (
        tokens.llama2,
        _NAMED_OTHERWISE | {"hidden_size": HIDDEN, "num_hidden_layers": 2, "num_attention_heads": 4, "ffn_dim": 48,
                            "word_embed_proj_dim": HIDDEN, "init_std": 0.2, "pad_token_id": 1},
    ),
    "bloom": (tokens.llama2, {"hidden_size": HIDDEN, "n_layer": 2, "n_head": 4, "initializer_range": 0.2}),
    "falcon": (tokens.gpt2, _SIZES | {"max_position_embeddings": 160}),
    "mpt": (tokens.neox, {"d_model": HIDDEN, "n_layers": 2, "n_heads": 4, "max_seq_len": 160}),
    "phi": (tokens.gpt2, _ENCODER),
    "phi3": (lambda: tokens.llama2(tokens.TULU_CHAT, pad="<pad>"), _ENCODER | {"num_key_value_heads": 2}),
    "llama": (tokens.llama3, _DECODER),
    "mistral": (lambda: tokens.llama2(tokens.MISTRAL_CHAT, pad="<pad>"), _DECODER),
    "mixtral": (lambda: tokens.llama2(tokens.MISTRAL_CHAT, pad="<pad>"), _DECODER | _EXPERTS),
    "gemma": (tokens.gemma, _DECODER),
    "gemma2": (tokens.gemma, _DECODER),
    "gemma3_text": (tokens.gemma, _DECODER),
    "qwen2": (tokens.qwen, _DECODER),
    "qwen3": (tokens.qwen, _DECODER),
    "qwen3_moe": (tokens.qwen, _DECODER | _EXPERTS),
    "deepseek_v3": (
        tokens.llama3,
        _SIZES | _EXPERTS | {"max_position_embeddings": 160, "num_key_value_heads": 4, "q_lora_rank": 8, "kv_lora_rank": 8,
                             "qk_rope_head_dim": 4, "qk_nope_head_dim": 4, "v_head_dim": 8, "n_routed_experts": 2, "n_group": 1,
                             "topk_group": 1, "first_k_dense_replace": 1},
    ),
    "olmo2": (tokens.neox, _DECODER),
    "stablelm": (tokens.neox, _DECODER),
    "starcoder2": (tokens.gpt2, _DECODER),
    "glm4": (tokens.qwen, _DECODER),
    "t5": (tokens.t5, _T5 | {"decoder_start_token_id": 0}),
    "umt5": (tokens.t5, _T5 | {"decoder_start_token_id": 0}),
    "bart": (_roberta, _SEQ2SEQ),
    "mbart": (_roberta, _SEQ2SEQ),
}  # fmt: skip
"""Tokenizer and sizes by Transformers' model_type."""


def build(kind: str, folder: Path, **changes: Any) -> None:
    """Write a classifier with one label and random weights, whose texts may be 160 tokens long if its positions are learned."""
    import torch
    import transformers

    make_tokenizer, sizes = MODELS[kind]
    tokenizer = make_tokenizer()
    ids = {f"{name}_token_id": getattr(tokenizer, f"{name}_token_id") for name in ("pad", "bos", "eos")}
    given = {name: value for name, value in ids.items() if value is not None}
    options = {"vocab_size": len(tokenizer), "num_labels": 1, **given, **sizes, **changes}
    config = transformers.AutoConfig.for_model(kind, **options)
    torch.manual_seed(0)
    model = transformers.AutoModelForSequenceClassification.from_config(config)
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
