"""Load reward models at one precision, with adapter and tokenizer.

The score head computes in float32 over a base in bf16 or 8-bit: around a reward of 16 neighbouring numbers of bf16 lie 0.125
apart, so that smaller margins would read as no preference.
"""

from __future__ import annotations

import os
import re
import sys
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

from cda.errors import DataError, ModelError
from cda.files.jsonl import read_json
from cda.models.agreement import adapter_tensors, check_adapter_tensors, check_tensors, misfit
from cda.models.declared import check_adapter_config, check_config_file, check_length
from cda.models.eight_bit import multiply_by_rounded_weights
from cda.models.precision import Precision
from cda.models.refusals import (
    check_its_class,
    first_line,
    folder_problems,
    own_code_needed,
    refuse_passed_over,
    why_not_loadable,
)
from cda.models.template import Template, add_segments, wants_segments
from cda.models.trial import try_template
from cda.models.weight_files import check_weight_files

_CLASSIFIER = "a sequence classifier"


def compute_in_float32(model: Any, heads: Sequence[str]) -> None:
    """Have a model's head stay and compute in float32, in scoring and under a trainer's autocast alike. Its class is
    replaced by one that is otherwise the same: hooks, weights and names stay, also in an adapter's trained copy.
    """
    for name in heads:
        head = model.get_submodule(name).float()
        head.__class__ = type(head.__class__.__name__, (_InFloat32, head.__class__), {})


class _InFloat32:
    """Comes before a module's own class: inputs in float32, and no autocast."""

    def forward(self, *inputs: object, **named: object) -> object:
        import torch

        with torch.autocast(next(self.parameters()).device.type, enabled=False):  # type: ignore[attr-defined]
            return super().forward(*map(_exact, inputs), **{key: _exact(value) for key, value in named.items()})  # type: ignore[misc]


def _exact(value: Any) -> Any:
    return value.float() if getattr(value, "is_floating_point", bool)() else value


@dataclass(frozen=True, slots=True)
class ModelSpec:
    """The settings that decide every score of a model, apart from its adapter."""

    name_or_path: str
    precision: Precision = "8bit"
    max_length_tokens: int = 512
    revision: str | None = None
    trust_remote_code: bool = False
    dequantize_once: bool = True
    """8-bit weights on a CPU: see `multiply_by_rounded_weights`. It decides the time that a score takes, and no score."""
    attn_implementation: str | None = None
    compile: bool = False
    precision_reason: str | None = field(default=None, compare=False)
    """Why this precision was taken, if the recipe left it to the machine."""


@dataclass(frozen=True, slots=True)
class RewardModel:
    """A loaded sequence classifier with one label; `head_names` are the modules that turn hidden states into the score."""

    model: Any
    template: Template
    spec: ModelSpec
    head_names: tuple[str, ...]


def load_config(spec: ModelSpec) -> object:
    """The model's configuration; ModelError unless it is a reward model: one label, safetensors weights, no unread code."""
    if problems := folder_problems(spec.name_or_path):
        raise ModelError("\n".join(problems))
    config = read_config(spec, _CLASSIFIER)
    refuse_passed_over(spec.name_or_path, config, "AutoModelForSequenceClassification", spec.trust_remote_code)
    architectures = getattr(config, "architectures", None) or []
    if config.num_labels != 1:
        raise ModelError(
            f"{spec.name_or_path}: has {config.num_labels} labels ({', '.join(architectures) or 'no architecture named'}); "
            "a reward model is a sequence classifier with num_labels=1"
        )
    return config


def read_config(spec: ModelSpec, what: str) -> Any:
    """The configuration in a model's files; ModelError names `what` it was to be loaded as."""
    from transformers import AutoConfig

    try:
        check_config_file(spec.name_or_path, spec.revision)
        config = AutoConfig.from_pretrained(
            spec.name_or_path, revision=spec.revision, trust_remote_code=spec.trust_remote_code
        )
    except ModelError:
        raise
    except Exception as error:  # transformers raises many kinds here
        raise ModelError(why_not_loadable(spec.name_or_path, what, error)) from None
    check_weight_files(spec.name_or_path, spec.revision, config)
    return config


def load_reward_model(spec: ModelSpec, adapter: Path | None = None, sharded: bool = False) -> RewardModel:
    """Load a reward model, ready to score, with its adapter (a PEFT folder that holds its head) if one is given.
    `sharded`: it stays on its device for FSDP or DeepSpeed ZeRO-3. ModelError if it cannot be loaded as a reward model.
    """
    config = load_config(spec)
    heads = head_names(config, spec)
    model = _load_base(spec, config, heads, sharded)
    template = load_template(spec, config)
    if template.segments:
        add_segments(model, template.tokenizer.sep_token_id)
    if spec.precision != "fp32" and not sharded:  # sharding casts weights by itself, and in blocks
        compute_in_float32(model, heads)
    if adapter is not None:
        check_adapter(adapter, heads)
        model = with_adapter(model, adapter)
    for config in (model.config.get_text_config(), model.config):
        config.pad_token_id = template.pad_token_id  # sequence classifiers find the last real token by this id
    return RewardModel(for_scoring(model), template, spec, heads)


def for_scoring(model: Any) -> Any:
    """The model without dropout and without a cache of keys and values."""
    text_config = model.config.get_text_config()
    if hasattr(text_config, "use_cache"):
        text_config.use_cache = False
    return model.eval()


def without_adapter(model: Any) -> Any:
    """The Transformers model in a PeftModel, with its adapter's layers in place; any other model as it is."""
    return model.get_base_model() if hasattr(model, "get_base_model") else model


def compile_base(reward_model: RewardModel) -> None:
    """Have the base model compiled on its first batches, for batches of any shape."""
    model = without_adapter(reward_model.model)
    getattr(model, model.base_model_prefix).compile(dynamic=True)


def free_memory() -> None:
    """Free the memory of dropped models before the next is loaded: trainers keep themselves alive in cycles."""
    import gc

    import torch

    gc.collect()
    if "deepspeed" in sys.modules:
        # Accelerate keeps ZeRO-3's settings alive, and with them no model can be put on one device.
        from transformers.integrations.deepspeed import unset_hf_deepspeed_config

        unset_hf_deepspeed_config()
    if torch.cuda.is_available():
        torch.cuda.empty_cache()


def load_template(spec: ModelSpec, config: Any = None) -> Template:
    """The model's tokenizer as a template, from text to token ids; `config` tells the model's padding token. ModelError
    if there is no usable tokenizer, or one with custom code that would not be run.
    """
    from transformers import AutoTokenizer

    own_class, name = _own_tokenizer(spec, config), f"{spec.name_or_path}: its tokenizer"
    if own_class and not spec.trust_remote_code:
        raise ModelError(own_code_needed(name))
    try:
        tokenizer = AutoTokenizer.from_pretrained(
            spec.name_or_path, revision=spec.revision, trust_remote_code=spec.trust_remote_code
        )
    except Exception as error:  # transformers raises many kinds here
        own_code = "trust_remote_code" in str(error)
        why = own_code_needed(name) if own_code else f"{name} cannot be loaded ({first_line(error)})"
        raise ModelError(why) from None
    check_its_class(spec.name_or_path, "tokenizer", tokenizer, own_class)
    check_length(spec.name_or_path, tokenizer.model_max_length)
    try_template(spec.name_or_path, tokenizer)
    if len(tokenizer) <= len(tokenizer.all_special_ids):  # as of a folder without tokenizer files
        raise ModelError(
            f"{name} knows {len(tokenizer)} tokens, all of them special, so every word would be unknown. "
            "Are its files (tokenizer.json, tokenizer_config.json) missing? tokenizer.save_pretrained(FOLDER) writes them"
        )
    return template_of(tokenizer, config.get_text_config() if config is not None else None, spec.max_length_tokens)


def template_of(tokenizer: Any, text_config: Any, max_length_tokens: int) -> Template:
    """A template that cuts texts at the given length, or at the model's or tokenizer's own if that is shorter."""
    # Learned positions end where the table ends (RoBERTa's is two longer than its texts may be: the tokenizer knows).
    positions = getattr(text_config, "max_position_embeddings", None) or max_length_tokens
    limit = int(min(max_length_tokens, positions, tokenizer.model_max_length))
    pad = getattr(text_config, "pad_token_id", None)
    return Template(tokenizer, limit, pad, wants_segments(tokenizer, text_config))


def _own_tokenizer(spec: ModelSpec, config: Any) -> object:
    """The tokenizer class that a model's files name; None if there is none. Transformers passes over it if it knows the
    kind of model and code is not allowed, and always if config.json names it.
    """
    from transformers.models.auto.tokenization_auto import get_tokenizer_config

    try:
        named = get_tokenizer_config(spec.name_or_path, revision=spec.revision).get("auto_map")
    except Exception:  # loading the tokenizer fails for the same reason, and says so
        return None
    of_tokenizer = named.get("AutoTokenizer") if isinstance(named, dict) else named
    return of_tokenizer or (getattr(config, "auto_map", None) or {}).get("AutoTokenizer")


def head_names(config: object, spec: ModelSpec) -> tuple[str, ...]:
    """Names of the modules that turn hidden states into the score: everything with weights outside the base model. They
    stay out of 8-bit (a fresh head would become an uninitialised 8-bit layer) and are trained whole.
    """
    model = skeleton(spec, config)
    names = tuple(
        name
        for name, module in model.named_children()
        if name != model.base_model_prefix and any(True for _ in module.parameters())
    )
    if not names:
        raise ModelError(f"{spec.name_or_path}: no score head found outside '{model.base_model_prefix}'")
    return names


def skeleton(spec: ModelSpec, config: object) -> Any:
    """The reward model of a configuration without weights."""
    import torch
    from transformers import AutoModelForSequenceClassification

    try:
        with torch.device("meta"):
            return AutoModelForSequenceClassification.from_config(config, trust_remote_code=spec.trust_remote_code)
    except Exception as error:  # a model's own code raises whatever its author wrote
        raise ModelError(why_not_loadable(spec.name_or_path, _CLASSIFIER, error)) from None


@cache
def n_weights(spec: ModelSpec) -> int:
    """Number of a reward model's weights, by its configuration; of anything that is no classifier 0."""
    try:
        return sum(weights.numel() for weights in skeleton(spec, load_config(spec)).parameters())
    except ModelError:  # a causal model that a log-ratio is of; loading says what is wrong with others
        return 0


def read_weights(
    auto: Any, spec: ModelSpec, config: Any, what: str, skip: Sequence[str] | None, sharded: bool = False
) -> tuple[Any, dict[str, Any]]:
    """A model of a Transformers auto class at the precision of its spec, and the library's report of its tensors, for
    `check_tensors`. `what` it is stands in the ModelError. Modules to `skip` stay out of 8-bit; None for the library's own choice (the
    output layer). `sharded` as in `load_reward_model`.
    """
    import torch
    from transformers import BitsAndBytesConfig

    options: dict[str, object] = {"dtype": torch.float32 if spec.precision == "fp32" else torch.bfloat16}
    if spec.attn_implementation is not None:
        options["attn_implementation"] = spec.attn_implementation
    if spec.precision == "8bit":
        left_out = None if skip is None else list(skip)
        options["quantization_config"] = BitsAndBytesConfig(load_in_8bit=True, llm_int8_skip_modules=left_out)
        if not torch.cuda.is_available():
            options["dtype"] = torch.float32  # CPUs without bf16 units are three times slower in it
    if torch.cuda.is_available() and not sharded:
        # One full copy a process: the only layout in which 8-bit weights train under several processes.
        options["device_map"] = {"": int(os.environ.get("LOCAL_RANK", "0"))}
    try:
        with quiet_files():
            model, report = auto.from_pretrained(
                spec.name_or_path,
                config=config,
                revision=spec.revision,
                trust_remote_code=spec.trust_remote_code,
                use_safetensors=True,
                output_loading_info=True,
                ignore_mismatched_sizes=True,  # they are refused by name, which the library's error leaves out
                **options,
            )
    except Exception as error:  # transformers raises many kinds here
        if spec.attn_implementation is not None and re.search("attention|kernel", str(error), re.IGNORECASE):
            raise ModelError(
                f"model.attn_implementation={spec.attn_implementation}: cannot be used here ({first_line(error)}). Leave it out, or "
                "take sdpa or eager, which need nothing else"
            ) from None
        raise ModelError(why_not_loadable(spec.name_or_path, what, error)) from None
    if spec.precision == "8bit":
        multiply_by_rounded_weights(model, spec.dequantize_once)
    return model, report


def _load_base(spec: ModelSpec, config: Any, heads: tuple[str, ...], sharded: bool) -> Any:
    from transformers import AutoModelForSequenceClassification

    model, report = read_weights(AutoModelForSequenceClassification, spec, config, _CLASSIFIER, heads, sharded)
    check_tensors(spec.name_or_path, "classifier", model, report, heads)
    return model


def with_adapter(model: object, adapter: Path) -> Any:
    """The model as a PeftModel with its adapter active; ModelError if the adapter does not fit, or is not whole."""
    from peft import PeftModel

    check_adapter_config(adapter)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of missing tensors, which are refused below
            adapted = PeftModel.from_pretrained(model, str(adapter), is_trainable=False)
            check_adapter_tensors(adapted, adapter)
    except ModelError:
        raise
    except Exception as error:  # peft raises many kinds here
        raise ModelError(f"{adapter}: does not fit this model ({misfit(error)})") from None
    return adapted


def check_adapter(adapter: Path, heads: tuple[str, ...]) -> None:
    """An adapter must be a classifier's and hold the head it was trained with: a random head is worse than an error.
    ModelError if files or head weights are missing, or the adapter was made for another task.
    """
    task, _ = adapter_task(adapter)
    if task not in (None, "SEQ_CLS"):
        made_for = "a causal language model (text generation)" if task == "CAUSAL_LM" else "another kind of model"
        raise ModelError(
            f"{adapter}: its task_type is {task}: an adapter of {made_for}. Needed is one that was trained on a reward model "
            "(a sequence classifier with one label), saved with task_type SEQ_CLS and its score head"
        )
    keys = adapter_tensors(adapter)
    missing = [head for head in heads if not any(f".{head}." in key for key in keys)]
    if missing:
        raise ModelError(
            f"{adapter}: holds no weights for the score head '{', '.join(missing)}'. "
            "It would score with a random head; export the adapter with modules_to_save set to it"
        )


def adapter_task(adapter: Path) -> tuple[str | None, str]:
    """Task and kind of an adapter as PEFT names them; ModelError if its files are not there or cannot be read."""
    file = adapter / "adapter_config.json"
    if not file.is_file() or not (adapter / "adapter_model.safetensors").is_file():
        pickled = " (adapter_model.bin is a pickle, which can run code when read: convert it)"
        raise ModelError(
            f"{adapter}: not an adapter folder; it needs adapter_config.json and adapter_model.safetensors"
            + (pickled if (adapter / "adapter_model.bin").exists() else "")
        )
    try:
        config = read_json(file)
        return config.get("task_type"), str(config.get("peft_type"))
    except (DataError, AttributeError) as error:
        raise ModelError(f"{file}: cannot be read ({first_line(error)}); was it saved completely?") from None


@contextmanager
def quiet_files() -> Iterator[None]:
    """Hide the library's warnings and progress bars in loading and saving: what matters of them is checked and raised."""
    from transformers.utils import logging

    before, shown = logging.get_verbosity(), logging.is_progress_bar_enabled()
    logging.set_verbosity_error()
    logging.disable_progress_bar()
    try:
        yield
    finally:
        logging.set_verbosity(before)
        if shown:
            logging.enable_progress_bar()
