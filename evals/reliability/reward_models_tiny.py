"""Tiny copies of published reward models: their config.json, head tensors, tokenizer and template, with random weights."""

from __future__ import annotations

import json
import shutil
import zlib
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from evals.reliability import reward_models_tokenizers as tokens

HIDDEN = 32
_HERE, _WEIGHTS = Path(__file__).parent, "model.safetensors"
Config = dict[str, Any]
Tensors = dict[str, Any]
Build = Callable[[Path], None]

_SIZES: Config = {
    "hidden_size": HIDDEN,
    "intermediate_size": 48,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "initializer_range": 0.02,
    "torch_dtype": "float32",
    "use_cache": False,
}
_DECODER: Config = _SIZES | {
    "hidden_act": "silu",
    "max_position_embeddings": 2048,
    "num_key_value_heads": 2,
    "rms_norm_eps": 1e-5,
    "tie_word_embeddings": False,
}
_ONE_LABEL: Config = {"id2label": {"0": "LABEL_0"}, "label2id": {"LABEL_0": 0}}
LLAMA: Config = _DECODER | {
    "model_type": "llama",
    "rope_theta": 500000.0,
    "rope_scaling": None,
    "attention_bias": False,
}
MISTRAL: Config = _DECODER | {"model_type": "mistral", "rope_theta": 10000.0, "sliding_window": 4096}
QWEN2: Config = _DECODER | {
    "model_type": "qwen2",
    "rope_theta": 10000.0,
    "rms_norm_eps": 1e-6,
    "sliding_window": 131072,
    "use_sliding_window": False,
    "max_window_layers": 2,
}
QWEN3: Config = QWEN2 | {"model_type": "qwen3", "head_dim": 8, "attention_bias": False, "sliding_window": None}
GEMMA: Config = _DECODER | {
    "model_type": "gemma",
    "head_dim": 8,
    "hidden_act": "gelu_pytorch_tanh",
    "rms_norm_eps": 1e-6,
}
GEMMA2: Config = GEMMA | {
    "model_type": "gemma2",
    "hidden_activation": "gelu_pytorch_tanh",
    "attn_logit_softcapping": 50.0,
    "final_logit_softcapping": 30.0,
    "query_pre_attn_scalar": 8,
    "sliding_window": 4096,
}
NEOX: Config = _SIZES | {
    "model_type": "gpt_neox",
    "hidden_act": "gelu",
    "layer_norm_eps": 1e-5,
    "max_position_embeddings": 2048,
    "rotary_emb_base": 10000,
    "rotary_pct": 0.25,
    "use_parallel_residual": True,
    "tie_word_embeddings": False,
}
DEBERTA: Config = _SIZES | {
    "model_type": "deberta-v2",
    "hidden_act": "gelu",
    "attention_probs_dropout_prob": 0.1,
    "hidden_dropout_prob": 0.1,
    "layer_norm_eps": 1e-7,
    "max_position_embeddings": 512,
    "max_relative_positions": -1,
    "norm_rel_ebd": "layer_norm",
    "pad_token_id": 0,
    "pooler_dropout": 0,
    "pooler_hidden_act": "gelu",
    "pooler_hidden_size": HIDDEN,
    "pos_att_type": ["p2c", "c2p"],
    "position_biased_input": False,
    "position_buckets": 256,
    "relative_attention": True,
    "share_att_key": True,
    "type_vocab_size": 0,
}


def draw(tensors: Mapping[str, Any], seed: int, spread: float = 0.2) -> Tensors:
    """Random values of the same shapes: matrices have this `spread`, vectors 0.3 around what they were, integers none. Tensors
    that share their memory are drawn once, under their first name.
    """
    import torch

    generator, drawn = torch.Generator().manual_seed(seed), {}
    tensors = {tensor.data_ptr(): (name, tensor) for name, tensor in reversed(tensors.items())}  # type: ignore[assignment]
    tensors = dict(reversed(tensors.values()))  # type: ignore[call-overload]
    for name, tensor in tensors.items():
        noise = torch.randn(tensor.shape, generator=generator)
        if not tensor.is_floating_point():
            drawn[name] = tensor.clone()
        elif name.endswith(("var", "logit_scale")):
            drawn[name] = 1 + noise.abs()
        else:
            drawn[name] = spread * noise if tensor.ndim > 1 else tensor.float() + 0.3 * noise
    return drawn


def model_of(config: Config, auto: str = "AutoModel", kind: str | None = None) -> Any:
    """A Transformers model of a published config; `kind` instead of a model_type that Transformers does not know."""
    import transformers

    own = {"model_type", "architectures", "auto_map", "id2label", "label2id"}
    options = {key: value for key, value in config.items() if key not in own}
    labels = {"num_labels": len(config["id2label"])} if "id2label" in config else {}
    made = transformers.AutoConfig.for_model(kind or config["model_type"], **options, **labels)
    return getattr(transformers, auto).from_config(made)


def write(
    folder: Path, config: Config, backbone: Tensors, heads: Tensors, tokenizer: Any, code: Sequence[str] = ()
) -> Tensors:
    """Write a model folder as on the hub, with random weights, which are returned. `code`: names of .py files that stand for
    the author's: they raise if they are imported.
    """
    from safetensors.torch import save_file

    folder.mkdir(parents=True, exist_ok=True)
    text = json.dumps(config, indent=2) + "\n"
    (folder / "config.json").write_text(text, encoding="utf-8")
    seed = zlib.crc32(text.encode())
    weights = draw(backbone, seed) | draw(heads, seed + 1, 0.3)
    save_file(
        {name: value.contiguous() for name, value in weights.items()}, folder / _WEIGHTS, metadata={"format": "pt"}
    )
    tokenizer.save_pretrained(folder, save_jinja_files=False)
    for name in code:
        refusal = f'raise ImportError("{name} stands for the author\'s code, which must not be needed")\n'
        (folder / name).write_text(refusal, encoding="utf-8")
    return weights


def _prefixed(model: Any, prefix: str) -> Tensors:
    return {prefix + name: tensor for name, tensor in model.state_dict().items()}


def _zeros(**shapes: Sequence[int]) -> Tensors:
    """Tensors of these shapes; `__` in a name stands for a dot."""
    import torch

    return {name.replace("__", "."): torch.zeros(tuple(shape)) for name, shape in shapes.items()}


def _sized(config: Config, tokenizer: Any, **changes: Any) -> Config:
    """The config for a tokenizer. A `pad_token_id` of "own" is the tokenizer's, None leaves the key out."""
    ids = {"bos_token_id": tokenizer.bos_token_id, "eos_token_id": tokenizer.eos_token_id, "vocab_size": len(tokenizer)}
    sized = config | {key: value for key, value in ids.items() if value is not None} | changes
    if sized.get("pad_token_id", "") == "own":
        sized["pad_token_id"] = tokenizer.pad_token_id
    return {key: value for key, value in sized.items() if not (key == "pad_token_id" and value is None)}


def classifier(base: Config, architecture: str, make_tokenizer: Callable[[], Any], **changes: Any) -> Build:
    """A model of a class that Transformers has, with one label."""

    def build(folder: Path) -> None:
        made = make_tokenizer()
        config = (
            _sized(base, made, **({"pad_token_id": "own"} | changes)) | _ONE_LABEL | {"architectures": [architecture]}
        )
        model = model_of(config, "AutoModelForSequenceClassification")
        write(folder, config, model.state_dict(), {}, made)

    return build


def headed(
    base: Config,
    architecture: str,
    make_tokenizer: Callable[[], Any],
    prefix: str = "model.",
    kind: str | None = None,
    auto_map: Mapping[str, str] | None = None,
    extra: Mapping[str, Sequence[int]] | None = None,
    causal: bool = False,
    **changes: Any,
) -> Build:
    """A backbone with head tensors of the given shapes (`extra`, named as in `_zeros`), of a class that Transformers lacks.

    `causal`: the backbone is a language model with its own output layer. `auto_map` names files that raise if imported.
    """

    def build(folder: Path) -> None:
        made = make_tokenizer()
        config = _sized(base, made, **changes) | {"architectures": [architecture]}
        config |= {"auto_map": dict(auto_map)} if auto_map else {}
        model = model_of(config, "AutoModelForCausalLM" if causal else "AutoModel", kind)
        files = sorted({f"{reference.split('.')[0]}.py" for reference in (auto_map or {}).values()})
        write(folder, config, _prefixed(model, "" if causal else prefix), _zeros(**(extra or {})), made, files)

    return build


def gate_layers(sizes: Sequence[int], step: int, norms: Sequence[int], bias: bool) -> dict[str, Sequence[int]]:
    """Shapes of a gating network's tensors: linear layers every `step` modules and batch norms at `norms`."""
    found: dict[str, Sequence[int]] = {"gating__logit_scale": (1,)}
    places = [number * step for number in range(len(sizes) - 1)]
    if norms:
        places[-1] = norms[-1] + 1
    for number, place in enumerate(places):
        found[f"gating__layers__{place}__weight"] = (sizes[number + 1], sizes[number])
        if bias or place == places[-1]:
            found[f"gating__layers__{place}__bias"] = (sizes[number + 1],)
    for place in norms:
        for part in ("weight", "bias", "running_mean", "running_var"):
            found[f"gating__layers__{place}__{part}"] = (sizes[1],)
    return found


def with_old_buffers(build: Build, names: Sequence[str]) -> Build:
    """The folder plus buffers that older versions of Transformers saved with the weights; no model needs them."""

    def built(folder: Path) -> None:
        import torch
        from safetensors.torch import load_file, save_file

        build(folder)
        weights = load_file(folder / _WEIGHTS)
        for name in names:
            for layer in range(2):
                weights[name.format(layer)] = torch.zeros(4)
        save_file(weights, folder / _WEIGHTS, metadata={"format": "pt"})

    return built


def internlm2(rope_scaling: Any, **changes: Any) -> Build:
    """InternLM2 names and fuses its tensors otherwise; computed is the same as in a Llama of that size."""

    def build(folder: Path) -> None:
        made = tokens.internlm2()
        config = _sized(LLAMA, made, pad_token_id=2) | {
            "architectures": ["InternLM2ForRewardModel"],
            "attn_implementation": "eager",
            "auto_map": {
                "AutoConfig": "configuration_internlm2.InternLM2Config",
                "AutoModel": "modeling_internlm2.InternLM2ForRewardModel",
            },
            "bias": False,
            "model_type": "internlm2",
            "reward_token_id": made.convert_tokens_to_ids("[UNUSED_TOKEN_130]"),
            "rope_scaling": rope_scaling,
            "rope_theta": 1000000,
            **changes,
        }
        del config["attention_bias"]
        heads, pairs = config["num_attention_heads"], config["num_key_value_heads"]
        head = HIDDEN // heads
        shapes: dict[str, Sequence[int]] = {
            "model__tok_embeddings__weight": (len(made), HIDDEN),
            "model__norm__weight": (HIDDEN,),
        }
        for number in range(config["num_hidden_layers"]):
            layer, inner = f"model__layers__{number}__", config["intermediate_size"]
            shapes |= {
                f"{layer}attention__wqkv__weight": ((heads + 2 * pairs) * head, HIDDEN),
                f"{layer}attention__wo__weight": (HIDDEN, HIDDEN),
                f"{layer}feed_forward__w1__weight": (inner, HIDDEN),
                f"{layer}feed_forward__w3__weight": (inner, HIDDEN),
                f"{layer}feed_forward__w2__weight": (HIDDEN, inner),
                f"{layer}attention_norm__weight": (HIDDEN,),
                f"{layer}ffn_norm__weight": (HIDDEN,),
            }
        weights = {name: tensor + ("norm" in name) for name, tensor in _zeros(**shapes).items()}
        code = ("configuration_internlm2.py", "modeling_internlm2.py")
        write(folder, config, weights, _zeros(v_head__weight=(1, HIDDEN)), made, code)

    return build


def steam_shp(folder: Path) -> None:
    """An encoder-decoder that is asked which of two responses is better."""
    from safetensors.torch import save_file

    made = tokens.t5()
    config: Config = {
        "architectures": ["T5ForConditionalGeneration"],
        "model_type": "t5",
        "d_ff": 48,
        "d_kv": 8,
        "d_model": HIDDEN,
        "decoder_start_token_id": 0,
        "dense_act_fn": "gelu_new",
        "eos_token_id": 1,
        "feed_forward_proj": "gated-gelu",
        "is_encoder_decoder": True,
        "is_gated_act": True,
        "layer_norm_epsilon": 1e-6,
        "num_decoder_layers": 2,
        "num_heads": 4,
        "num_layers": 2,
        "pad_token_id": 0,
        "relative_attention_max_distance": 128,
        "relative_attention_num_buckets": 32,
        "tie_word_embeddings": False,
        "torch_dtype": "float32",
        "vocab_size": len(made),
    }
    weights = write(folder, config, model_of(config).state_dict(), _zeros(lm_head__weight=(len(made), HIDDEN)), made)
    weights["lm_head.weight"][made.convert_tokens_to_ids("A")] *= 4  # else the answer A has no chance among 344 tokens
    save_file(weights, folder / _WEIGHTS, metadata={"format": "pt"})


def own_code(name: str, auto: str, extra: Mapping[str, Sequence[int]]) -> Build:
    """A folder that brings a class of `reward_models_code` for the auto class `auto`; only running it gives the reward."""

    def build(folder: Path) -> None:
        made = tokens.llama3()
        config = _sized(LLAMA, made, pad_token_id="own") | _ONE_LABEL
        config |= {"architectures": [name], "auto_map": {auto: f"modeling_custom.{name}"}}
        write(folder, config, _prefixed(model_of(config), "model."), _zeros(**extra), made)
        shutil.copy(_HERE / "reward_models_code.py", folder / "modeling_custom.py")

    return build
