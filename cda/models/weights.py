"""Weights of a reward model: read, checked against its class, in 8-bit; its head in float32.

The score head computes in float32 over a base in bf16 or 8-bit: around a reward of 16 neighbouring numbers of bf16 lie 0.125
apart, so that smaller margins would read as no preference."""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from functools import cache
from typing import TYPE_CHECKING, Any

from cda.errors import ModelError
from cda.models.agreement import check_tensors
from cda.models.config import CLASSIFIER, ModelSpec, auto_class, family_for, load_config, quiet_files
from cda.models.eight_bit import multiply_by_rounded_weights
from cda.models.families import Family
from cda.models.own_files import ModelFiles
from cda.models.refusals import first_line, why_not_loadable

if TYPE_CHECKING:
    from torch import Tensor, nn
    from transformers import PretrainedConfig


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


def float32_behind_base(model: Any) -> None:
    """Have everything behind the base of a model with code of its own compute in float32: buffers that were never converted would not
    fit its states otherwise."""
    import torch

    base = getattr(model, model.base_model_prefix, None)
    if base is None:
        return
    inside = {id(part) for part in (*base.parameters(), *base.buffers())}
    for part in (*model.parameters(), *model.buffers()):
        if id(part) not in inside and part.is_floating_point():
            part.data = part.data.float()

    def exact(_: Any, __: Any, output: Any) -> Any:
        if isinstance(output, torch.Tensor):
            return output.float()
        if isinstance(output, tuple):
            return tuple(map(_exact, output))
        for name, value in output.items():
            output[name] = _exact(value)
        return output

    base.register_forward_hook(exact)


def head_names(config: object, spec: ModelSpec) -> tuple[str, ...]:
    """Names of the modules that turn hidden states into the score: everything with weights outside the base model. They
    stay out of 8-bit (a fresh head would become an uninitialised 8-bit layer) and are trained whole.
    """
    model = empty_model(spec, config)
    names = heads_of(model)
    if not names:
        raise ModelError(f"{spec.name_or_path}: no score head found outside '{model.base_model_prefix}'")
    return names


def heads_of(model: Any) -> tuple[str, ...]:
    """As `head_names`, of a loaded or empty classifier; none if it has no weights outside the base model."""
    return tuple(
        name
        for name, module in model.named_children()
        if name != model.base_model_prefix and any(True for _ in module.parameters())
    )


def keep_label(model: Any, label: int) -> None:
    """Make a classifier of several labels one of this label alone, if its head ends in a linear layer with a row for each."""
    import torch

    parts = [part for name in heads_of(model) for part in model.get_submodule(name).modules()]
    n_labels, name = model.config.num_labels, model.config.id2label.get(label, str(label))
    outputs = [part for part in parts if isinstance(part, torch.nn.Linear) and part.out_features == n_labels]
    if not outputs:
        return
    for weights in outputs[-1].parameters():
        weights.data = weights.data[label : label + 1].clone()
    outputs[-1].out_features = 1
    model.config.id2label, model.config.label2id = {0: name}, {name: 0}


def empty_model(spec: ModelSpec, config: PretrainedConfig) -> Any:
    """The reward model of a configuration without weights."""
    import torch

    try:
        with torch.device("meta"):
            kind = _class_of(spec, config)
            if isinstance(kind, type) and hasattr(kind, "_from_config"):
                return kind._from_config(config)
            return kind.from_config(config, trust_remote_code=spec.trust_remote_code)
    except Exception as error:  # a model's own code raises whatever its author wrote
        raise ModelError(why_not_loadable(spec.name_or_path, CLASSIFIER, error)) from None


def _class_of(spec: ModelSpec, config: PretrainedConfig) -> Any:
    """The class that a configuration is loaded as: an auto class, or Transformers' own with the head of a family."""
    import transformers

    family = family_for(spec) if hasattr(config, "reward_family") else None
    if family is None:
        return getattr(transformers, auto_class(config))
    own: Any = transformers.MODEL_FOR_SEQUENCE_CLASSIFICATION_MAPPING[type(config)]
    files = ModelFiles(spec.name_or_path, spec.revision)

    def made(self: Any, config: PretrainedConfig) -> None:
        own.__init__(self, config)
        for name, part in [*self.named_children()]:  # the class's own pooler and head
            if name != self.base_model_prefix and any(True for _ in part.parameters()):
                delattr(self, name)
        self.score = (family.head or _one_output)(config, files)
        self.reward_family = family.key
        self.post_init()

    return type(own.__name__, (own,), {"__init__": made, "__module__": own.__module__})


def _one_output(config: PretrainedConfig, _: ModelFiles) -> nn.Module:
    import torch

    return torch.nn.Linear(config.get_text_config().hidden_size, 1, bias=False)


@cache
def n_weights(spec: ModelSpec) -> int:
    """Number of a reward model's weights, by its configuration; of anything that is no classifier 0."""
    try:
        return sum(weights.numel() for weights in empty_model(spec, load_config(spec, compares=True)).parameters())
    except ModelError:  # a causal model that a log-ratio is of; loading says what is wrong with others
        return 0


def read_weights(
    auto: Any,
    spec: ModelSpec,
    config: PretrainedConfig,
    what: str,
    skip: Sequence[str] | None,
    sharded: bool = False,
    family: Family | None = None,
) -> tuple[Any, dict[str, Any]]:
    """A model of a Transformers auto class at the precision of its spec, and the library's report of its tensors, for
    `check_tensors`. `what` it is stands in the ModelError. Modules to `skip` stay out of 8-bit; None for the library's own choice (the
    output layer). `sharded` as in `load_reward_model`; a `family` names its tensors otherwise.
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
            options["dtype"] = torch.float32  # CPUs without bf16 units take several times as long in it
    if torch.cuda.is_available() and not sharded:
        # One full copy a process: the only layout in which 8-bit weights train under several processes.
        options["device_map"] = {"": int(os.environ.get("LOCAL_RANK", "0"))}
    if family is not None and family.names:
        options["key_mapping"] = dict(family.names)
    name: str | None = spec.name_or_path
    if family is not None and family.convert is not None:
        files = ModelFiles(spec.name_or_path, spec.revision)
        name, options["state_dict"] = None, family.convert(_all_tensors(files), config, files)
    elif not isinstance(auto, type) or not hasattr(auto, "_from_config"):
        options["trust_remote_code"] = spec.trust_remote_code
    try:
        with quiet_files():
            model, report = auto.from_pretrained(
                name,
                config=config,
                revision=spec.revision,
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
    model.name_or_path = model.config.name_or_path = spec.name_or_path  # an adapter's file names its base by it
    if spec.precision == "8bit":
        multiply_by_rounded_weights(model, spec.dequantize_once)
    return model, report


def load_base(spec: ModelSpec, config: PretrainedConfig, heads: tuple[str, ...], sharded: bool) -> Any:
    family = family_for(spec) if hasattr(config, "reward_family") else None
    kind = _class_of(spec, config)
    model, report = read_weights(kind, spec, config, CLASSIFIER, heads, sharded, family)
    allowed = () if family is None else family.unused
    left = [key for key in report["unexpected_keys"] if not any(re.search(pattern, key) for pattern in allowed)]
    check_tensors(spec.name_or_path, "classifier", model, {**report, "unexpected_keys": left}, heads)
    return model


def _all_tensors(files: ModelFiles) -> dict[str, Tensor]:
    """Every tensor of a model's files, in main memory."""
    from safetensors.torch import load_file

    paths = {path for file in set(files.tensors.values()) if (path := files.path(file)) is not None}
    return {name: tensor for path in sorted(paths) for name, tensor in load_file(path).items()}
