"""Load reward models at one precision, with adapter and tokenizer.

The score head computes in float32 over a base in bf16 or 8-bit: around a reward of 16 neighbouring numbers of bf16 lie 0.125
apart, so that smaller margins would read as no preference.
"""

from __future__ import annotations

import datetime
import os
import re
import sys
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import cache
from pathlib import Path
from typing import Any

from cda.errors import DataError, ModelError
from cda.files.hub import commit_of
from cda.files.jsonl import read_json
from cda.models.agreement import adapter_tensors, check_adapter_tensors, check_tensors, misfit
from cda.models.declared import check_adapter_config, check_config_file, check_length
from cda.models.eight_bit import multiply_by_rounded_weights
from cda.models.families import Family, family_of, is_causal, logit_of, named_head
from cda.models.families.family import Points
from cda.models.families.linear import HEADS
from cda.models.own_files import ModelFiles
from cda.models.precision import Precision
from cda.models.reading import Reading, Reads, pools_by_position, read_by_mask, read_one_output
from cda.models.refusals import (
    WAYS_OUT,
    check_its_class,
    class_name,
    first_line,
    folder_problems,
    own_code_needed,
    refuse_passed_over,
    why_not_loadable,
)
from cda.models.template import (
    DAY,
    Layout,
    Template,
    add_segments,
    check_fixed,
    check_said,
    padding_token,
    wants_segments,
)
from cda.models.trial import try_template
from cda.models.weight_files import INDEX, WHOLE, check_weight_files
from cda.records import Message

_CLASSIFIER = "a sequence classifier"
_CLASSES = "AutoModelForSequenceClassification"
_HEADS = HEADS


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
    reads: Reads | None = None
    """Where the reward is read, against what the model's files say; None: as they say."""
    head: int | str | None = None
    """The one of several labels that is the reward, by index or name."""
    template_date: datetime.date = DAY
    """The day that a chat template is given which writes today's date."""
    precision_reason: str | None = field(default=None, compare=False)
    """Why this precision was taken, if the recipe left it to the machine."""

    def pinned(self) -> ModelSpec:
        """The same; of a hub model at its commit, if that is known, so that all of its files are of one."""
        if Path(self.name_or_path).is_dir():
            return self
        return replace(self, revision=commit_of("model", self.name_or_path, self.revision) or self.revision)


@dataclass(frozen=True, slots=True)
class RewardModel:
    """A loaded sequence classifier with one label; `head_names` are the modules that turn hidden states into the score."""

    model: Any
    template: Template
    spec: ModelSpec
    head_names: tuple[str, ...]
    reading: Reading | None = None
    """Where the reward is read; None if the model's class decides it."""

    @property
    def bears_no_padding(self) -> bool:
        """True of a class that would read a padded text elsewhere: it looks for a padding token that its config.json does not name, or
        takes a batch's last column (XLNet). Texts then go through it one by one."""
        config = self.model.config.get_text_config()
        return self.reading is None and (getattr(config, "pad_token_id", None) is None or config.model_type == "xlnet")


def load_config(spec: ModelSpec, compares: bool = False) -> Any:
    """The configuration of the classifier that a reward model is loaded as; ModelError unless it is a reward model whose reward
    can be read: a class, head and weights that are known, and no unread code. `compares`: of one that compares two answers, too.
    """
    if problems := folder_problems(spec.name_or_path):
        raise ModelError("\n".join(problems))
    family = family_for(spec)
    if family is not None and not family.runs_code:
        if compares_two(spec) and not compares:
            raise ModelError(
                f"{spec.name_or_path}: compares two answers to a prompt (as {family.models}) and gives no reward of a single one, which is "
                f"needed here. `cda audit {spec.name_or_path}` measures it as it measures a judge"
            )
        if spec.head is not None and not family.key.startswith("logit:"):
            raise _no_choice(spec, f"the reward of {family.models} is one number")
        return _family_config(spec, family)
    config = read_config(spec, _CLASSIFIER)
    auto = _auto_class(config)
    if not refuse_passed_over(spec.name_or_path, config, auto, spec.trust_remote_code):
        _refuse_unknown_class(spec, config)
    files = ModelFiles(spec.name_or_path, spec.revision)
    if not {"num_labels", "id2label", "label2id"} & set(files.config) and config.num_labels != 1:
        rows = next((shape[0] for name in _HEADS if (shape := files.shape(f"{name}.weight"))), None)
        if rows is not None:
            config.num_labels = rows
    if auto == _CLASSES and config.num_labels != 1:
        _head_index(spec, config)
    elif (
        config.num_labels == 1
        and not _own_class(config)
        and spec.head
        not in (
            None,
            0,
            "0",
            *(getattr(config, "id2label", None) or {}).values(),
        )
    ):
        raise _no_choice(spec, "it gives one number")
    text_config = config.get_text_config()
    pad, vocab = getattr(text_config, "pad_token_id", None), getattr(text_config, "vocab_size", None)
    if pad is not None and vocab is not None and not 0 <= pad < vocab:
        # No text holds it, so the last token is read; but an embedding table with such a padding token cannot be made.
        for part in (config, text_config):
            part.pad_token_id = None
    return config


def family_for(spec: ModelSpec) -> Family | None:
    """The family that reads a model; None if its class is one of Transformers or comes with it."""
    own = (Path(spec.name_or_path) / name for name in ("config.json", WHOLE, INDEX))
    family = family_of(
        spec.name_or_path, spec.revision, tuple(file.stat().st_mtime_ns for file in own if file.is_file())
    )
    files, reads = ModelFiles(spec.name_or_path, spec.revision), asked_reads(spec)
    if family is None and spec.head is not None and is_causal(files):
        return logit_of(_token(spec))
    if family is None and reads is not None:
        import transformers

        known = [name for name in files.architectures if hasattr(transformers, name) and "SequenceClass" in name]
        known = [] if _renamed_head(files) else known
        family = None if known or files.auto_map else named_head(files, reads)
    if family is None or reads in (None, family.reads):
        return family
    return replace(family, reads=reads)


def compares_two(spec: ModelSpec) -> bool:
    """True of a model that compares two answers to a prompt, and gives no reward of a single one."""
    family = family_for(spec)
    return family is not None and family.encoding is not None and family.encoding.compares is not None


def asked_reads(spec: ModelSpec) -> Reads | None:
    """Where the reward is to be read, by the settings, or by those that a model was merged under (`reward_reads` in its config.json)."""
    return spec.reads or ModelFiles(spec.name_or_path, spec.revision).config.get("reward_reads")


def _renamed_head(files: ModelFiles) -> bool:
    """True of weights with one plain head, whose name is none that a classifier of Transformers gives it."""
    return named_head(files, None) is not None and not files.has("score.") and not files.has("classifier.")


def _family_config(spec: ModelSpec, family: Family) -> Any:
    """The configuration of a family's backbone as a classifier with one label."""
    from transformers import AutoConfig

    if family.refusal is not None:
        raise ModelError(f"{spec.name_or_path}: {family.refusal}. {family.ways or WAYS_OUT}")
    check_config_file(spec.name_or_path, spec.revision)
    raw = {**family.backbone(ModelFiles(spec.name_or_path, spec.revision).config)}
    for key in (
        "auto_map",
        "architectures",
        "num_labels",
        "id2label",
        "label2id",
        "quantization_config",
        "attn_implementation",
    ):
        raw.pop(key, None)
    try:
        config = AutoConfig.for_model(raw.pop("model_type"), **raw, num_labels=1)
    except Exception as error:  # transformers raises many kinds here
        raise ModelError(why_not_loadable(spec.name_or_path, _CLASSIFIER, error)) from None
    config.reward_family = family.key
    check_weight_files(spec.name_or_path, spec.revision, config)
    return config


def _own_class(config: Any) -> bool:
    """True if the model brings the code of its class."""
    return _auto_class(config) in (getattr(config, "auto_map", None) or {})


def _auto_class(config: Any) -> str:
    """The auto class for which a model brings its reward model's code: some name it for AutoModel alone."""
    named, names = getattr(config, "auto_map", None) or {}, getattr(config, "architectures", None) or []
    is_it = _CLASSES not in named and class_name(named.get("AutoModel")) in names
    return "AutoModel" if is_it else _CLASSES


def _refuse_unknown_class(spec: ModelSpec, config: Any) -> None:
    """Raise ModelError if config.json names a class that is not known, so that another one would be loaded."""
    import transformers

    names = getattr(config, "architectures", None) or []
    unknown = [name for name in names if not hasattr(transformers, name)]
    files = ModelFiles(spec.name_or_path, spec.revision)
    plain = named_head(files, spec.reads)
    causal = [name for name in names if name.endswith(("ForCausalLM", "LMHeadModel", "Model"))]
    a_token = [name for name in names if name.endswith("ForTokenClassification")]
    if plain is None and causal and not unknown:
        raise ModelError(
            f"{spec.name_or_path}: is a {causal[0]} (config.json), a language model without a reward head among its weights. To score by "
            f"the logit of one token after the text: model.head=TOKEN; by its probabilities: dpo:{spec.name_or_path},REFERENCE; as a judge: judge:NAME behind a server. "
            'If it is a published one in a folder of another name, write its family into config.json, such as "reward_family": '
            f'"pair-preference-model". {WAYS_OUT}'
        )
    if not unknown and not (plain and (causal or a_token or _renamed_head(files))):
        return
    (head,) = [pattern.strip("^.\\") for pattern in plain.names] if plain is not None else [None]
    held = (
        f"its weights hold a head of one output ({head}.weight), but not where it is read. Say it (model.reads=last_attended: the last token, "
        "which has to be EOS; last_token; config: the last token that is not padding) and compare one reward with the author's "
        f"(cda audit {spec.name_or_path} model.reads=… --check-reward PROMPT RESPONSE REWARD)"
        if head
        else f"its weights hold no head that is known (looked for {', '.join(_HEADS)} with one output)"
    )
    raise ModelError(
        f"{spec.name_or_path}: config.json names the class {', '.join(names)}, {'which Transformers does not have' if unknown else 'whose own head is not in the weights' if not causal and not a_token else 'which gives no reward of a whole text'}; {held}. {WAYS_OUT}"
    )


def _no_choice(spec: ModelSpec, why: str) -> ModelError:
    return ModelError(f"{spec.name_or_path}: model.head={spec.head}: {why}, without a choice. Leave model.head out")


def _head_index(spec: ModelSpec, config: Any) -> int:
    """Which of several labels is the reward; ModelError if the settings name none of them."""
    labels = {int(at): str(name) for at, name in (getattr(config, "id2label", None) or {}).items()}
    named = {name: at for at, name in labels.items()}
    head = spec.head
    if config.num_labels == 1 and str(head).isdecimal():  # code of its own may give several numbers all the same
        return int(str(head))
    if isinstance(head, str):
        head = named.get(head, int(head) if head.isdecimal() else -1)
    if head is not None and 0 <= head < config.num_labels:
        return int(head)
    shown = ", ".join(f"{at}: {name}" for at, name in sorted(labels.items())[:8]) + (", …" if len(labels) > 8 else "")
    architectures = ", ".join(getattr(config, "architectures", None) or []) or "no architecture named"
    found = "" if spec.head is None else f" and none called {spec.head}"
    raise ModelError(
        f"{spec.name_or_path}: has {config.num_labels} labels ({architectures}; {shown}){found}; a reward model gives one number. Name the "
        f"label that is the reward (model.head=0, or its name). {WAYS_OUT}"
    )


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


def load_reward_model(
    spec: ModelSpec, adapter: Path | None = None, sharded: bool = False, compares: bool = False
) -> RewardModel:
    """Load a reward model, ready to score, with its adapter (a PEFT folder that holds its head) if one is given.
    `sharded`: it stays on its device for FSDP or DeepSpeed ZeRO-3. ModelError if it cannot be loaded as a reward model, or, unless
    `compares`, gives no reward of a single answer.
    """
    spec = spec.pinned()
    config = load_config(spec, compares)
    heads = head_names(config, spec)
    model = _load_base(spec, config, heads, sharded)
    template = load_template(spec, config)
    if template.segments:
        add_segments(model, template.tokenizer.sep_token_id)
    reading = reading_of(spec, model, template)
    if spec.reads is not None:
        model.config.reward_reads = spec.reads  # a merged model is read like this one
    if reading is not None:
        read_by_mask(model, reading)
    elif model.config.num_labels != 1 or (spec.trust_remote_code and _is_own(model)):
        read_one_output(model, "" if spec.head is None else _head_index(spec, config), spec.name_or_path)
    if spec.precision != "fp32" and not sharded:  # sharding casts weights by itself, and in blocks
        compute_in_float32(model, heads)
        if _is_own(model):
            _float32_behind_base(model)
    if adapter is not None:
        check_adapter(adapter, heads)
        model = with_adapter(model, adapter)
    return RewardModel(for_scoring(model), template, spec, heads, reading)


def reading_of(spec: ModelSpec, model: Any, template: Template, in_memory: bool = False) -> Reading | None:
    """The position at which a loaded classifier's reward is read, by its files (or, of one `in_memory`, its configuration) and settings;
    None if its class decides it itself, as encoders' do."""
    if not pools_by_position(model):
        return None
    family, text_config = family_for(spec) if hasattr(model, "reward_family") else None, model.config.get_text_config()
    asked = spec.reads if in_memory else asked_reads(spec)
    reads = asked or (family.reads if family else "config")
    pad = text_config.pad_token_id if reads == "config" else None
    files = ModelFiles(spec.name_or_path, spec.revision)
    points = _points(spec, family, template, files) if family and family.points else None
    output = 0 if model.config.num_labels == 1 else _head_index(spec, model.config)
    declared = pad if in_memory else files.config.get("pad_token_id")
    notes = [family.note or f"Read as {family.models} are: {family.official}"] if family else []
    if points is None:
        notes += _reading_notes(reads, pad, declared, template, text_config)
    return Reading(None if points else pad, points, output, tuple(notes))


def _points(spec: ModelSpec, family: Family, template: Template, files: ModelFiles) -> Points:
    """The positions that a family's head reads; ModelError if the settings ask for another one."""
    points = family.points(template.tokenizer, files)  # type: ignore[misc]
    if (asked := asked_reads(spec)) is None:
        return points
    if family.step_end is None or asked != "last_token":
        known = "the last step alone (last_token)" if family.step_end else "none"
        raise ModelError(
            f"{spec.name_or_path}: model.reads={asked}: the head of {family.models} reads tokens of its own choice; other choices: "
            f"{known}. Leave model.reads out"
        )
    return lambda ids: points(ids)[-1:]


def _token(spec: ModelSpec) -> int:
    """The id of the output token that `model.head` names, as a number or as the tokenizer writes it."""
    if isinstance(spec.head, int) or str(spec.head).isdecimal():
        return int(spec.head)  # type: ignore[arg-type]
    tokenizer = load_template(spec).tokenizer
    if spec.head not in (vocabulary := tokenizer.get_vocab()):
        raise ModelError(
            f"{spec.name_or_path}: model.head={spec.head}: its tokenizer has no such token; name one, or its id"
        )
    return int(vocabulary[spec.head])


def _reading_notes(
    reads: Reads, pad: int | None, declared: int | None, template: Template, text_config: Any
) -> Iterator[str]:
    """Sentences on a padding token that moves the reward, or that the files disagree on."""
    if reads != "config":
        return
    of_tokenizer, vocab = template.tokenizer.pad_token_id, getattr(text_config, "vocab_size", None)
    if pad is None and declared is not None:
        yield (
            f"config.json's padding token {declared} lies beyond the {vocab} tokens of the embedding table, so that no text holds it: the reward "
            "is read at each text's last token."
        )
    elif (pad != of_tokenizer and (pad is None) != (of_tokenizer is None)) or (pad is not None and pad != of_tokenizer):
        said = "none" if pad is None else f"{pad}"
        own = "none" if of_tokenizer is None else f"{of_tokenizer}"
        rule = "each text's last token" if pad is None else f"the last token other than {pad}"
        yield (
            f"config.json's padding token is {said} and the tokenizer's {own}; the reward is read as config.json says, at {rule}, as "
            "Transformers reads one text without padding (model.reads)."
        )
    if pad is not None:
        ids = template.encode((Message("user", "Hi"),), "Hello.").ids
        if ids[-1] == pad:
            yield (
                f"Texts end in config.json's padding token {pad}, so the reward is read at a token before it, as Transformers reads one "
                "text without padding (model.reads)."
            )


def _is_own(model: Any) -> bool:
    """True of a class from the model's own code."""
    return type(model).__module__.startswith("transformers_modules.") or any(
        kind.__module__.startswith("transformers_modules.") for kind in type(model).__mro__
    )


def _float32_behind_base(model: Any) -> None:
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
    options: dict[str, Any] = {"trust_remote_code": spec.trust_remote_code}
    if hasattr(config, "reward_family"):  # code of its tokenizer alone may run, not that of its configuration
        options = {"trust_remote_code": True, "config": config} if own_class else {"trust_remote_code": False}
    try:
        with quiet_files():
            tokenizer = AutoTokenizer.from_pretrained(spec.name_or_path, revision=spec.revision, **options)
    except Exception as error:  # transformers raises many kinds here
        own_code = "trust_remote_code" in str(error)
        files = " (tokenizer.json, tokenizer_config.json; tokenizer.save_pretrained(FOLDER) writes them)"
        broken = f"{name} cannot be loaded ({first_line(error)}). Are its files there and whole?{files}"
        why = own_code_needed(name) if own_code else broken
        raise ModelError(why) from None
    check_its_class(spec.name_or_path, "tokenizer", tokenizer, own_class)
    check_length(spec.name_or_path, tokenizer.model_max_length)
    check_fixed(spec.name_or_path, tokenizer)
    try_template(spec.name_or_path, tokenizer)
    if len(tokenizer) <= len(tokenizer.all_special_ids):  # as of a folder without tokenizer files
        raise ModelError(
            f"{name} knows {len(tokenizer)} tokens, all of them special, so every word would be unknown. "
            "Are its files (tokenizer.json, tokenizer_config.json) missing? tokenizer.save_pretrained(FOLDER) writes them"
        )
    text_config = config.get_text_config() if config is not None else None
    template = template_of(tokenizer, text_config, spec.max_length_tokens, _layout(spec, tokenizer, config))
    check_said(spec.name_or_path, template)
    return template


def _layout(spec: ModelSpec, tokenizer: Any, config: Any) -> Layout:
    """The encoding of a model's texts, where its family or the settings decide it."""
    family = family_for(spec) if config is not None else None
    if family is not None and not (family.runs_code or hasattr(config, "reward_family")):
        family = None  # as a causal model
    left = tokenizer.truncation_side == "left"
    if family is None:
        last = tokenizer.eos_token_id if asked_reads(spec) == "last_attended" else None
        return Layout(last_id=last, cuts_left=left, day=spec.template_date)
    last = family.last(tokenizer, ModelFiles(spec.name_or_path, spec.revision)) if family.last else None
    return Layout(
        family.turns,
        last,
        family.doubles_bos,
        left or family.cuts_left,
        step_end=family.step_end,
        day=spec.template_date,
        adds_bos=family.adds_bos,
        system=family.system,
        encoding=family.encoding,
    )


def template_of(tokenizer: Any, text_config: Any, max_length_tokens: int, layout: Layout | None = None) -> Template:
    """A template that cuts texts at the given length, or at the model's or tokenizer's own if that is shorter."""
    # Learned positions end where the table ends (RoBERTa's is two longer than its texts may be: the tokenizer knows).
    positions = getattr(text_config, "max_position_embeddings", None) or max_length_tokens
    positions = max_length_tokens if positions < 0 else positions  # XLNet's -1: no limit
    encoding = None if layout is None else layout.encoding
    most = min(positions, tokenizer.model_max_length) if encoding is None else encoding.max_length_tokens
    limit = int(min(max_length_tokens, most))
    pad = padding_token(tokenizer, getattr(text_config, "pad_token_id", None), getattr(text_config, "vocab_size", None))
    return Template(tokenizer, limit, pad, wants_segments(tokenizer, text_config), layout)


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


def skeleton(spec: ModelSpec, config: Any) -> Any:
    """The reward model of a configuration without weights."""
    import torch

    try:
        with torch.device("meta"):
            kind = _class_of(spec, config)
            if isinstance(kind, type) and hasattr(kind, "_from_config"):
                return kind._from_config(config)
            return kind.from_config(config, trust_remote_code=spec.trust_remote_code)
    except Exception as error:  # a model's own code raises whatever its author wrote
        raise ModelError(why_not_loadable(spec.name_or_path, _CLASSIFIER, error)) from None


def _class_of(spec: ModelSpec, config: Any) -> Any:
    """The class that a configuration is loaded as: an auto class, or Transformers' own with the head of a family."""
    import transformers

    family = family_for(spec) if hasattr(config, "reward_family") else None
    if family is None:
        return getattr(transformers, _auto_class(config))
    own: Any = transformers.MODEL_FOR_SEQUENCE_CLASSIFICATION_MAPPING[type(config)]
    files = ModelFiles(spec.name_or_path, spec.revision)

    def made(self: Any, config: Any) -> None:
        own.__init__(self, config)
        for name, part in [*self.named_children()]:  # the class's own pooler and head
            if name != self.base_model_prefix and any(True for _ in part.parameters()):
                delattr(self, name)
        self.score = (family.head or _one_output)(config, files)
        self.reward_family = family.key
        self.post_init()

    return type(own.__name__, (own,), {"__init__": made, "__module__": own.__module__})


def _one_output(config: Any, _: ModelFiles) -> Any:
    import torch

    return torch.nn.Linear(config.get_text_config().hidden_size, 1, bias=False)


@cache
def n_weights(spec: ModelSpec) -> int:
    """Number of a reward model's weights, by its configuration; of anything that is no classifier 0."""
    try:
        return sum(weights.numel() for weights in skeleton(spec, load_config(spec, compares=True)).parameters())
    except ModelError:  # a causal model that a log-ratio is of; loading says what is wrong with others
        return 0


def read_weights(
    auto: Any,
    spec: ModelSpec,
    config: Any,
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
            options["dtype"] = torch.float32  # CPUs without bf16 units are three times slower in it
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


def _load_base(spec: ModelSpec, config: Any, heads: tuple[str, ...], sharded: bool) -> Any:
    family = family_for(spec) if hasattr(config, "reward_family") else None
    kind = _class_of(spec, config)
    model, report = read_weights(kind, spec, config, _CLASSIFIER, heads, sharded, family)
    allowed = () if family is None else family.unused
    left = [key for key in report["unexpected_keys"] if not any(re.search(pattern, key) for pattern in allowed)]
    check_tensors(spec.name_or_path, "classifier", model, {**report, "unexpected_keys": left}, heads)
    return model


def _all_tensors(files: ModelFiles) -> dict[str, Any]:
    """Every tensor of a model's files, in main memory."""
    from safetensors.torch import load_file

    paths = {path for file in set(files.tensors.values()) if (path := files.path(file)) is not None}
    return {name: tensor for path in sorted(paths) for name, tensor in load_file(path).items()}


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
