"""Load a reward model, ready to score: its weights, its tokenizer as a template, and how its rewards are read."""

from __future__ import annotations

import json
import math
import re
import subprocess
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from cda.errors import ModelError, type_in_words
from cda.models.adapters import check_adapter, with_adapter
from cda.models.config import ModelSpec, asked_reads, check_length, family_for, head_index, load_config, quiet_files
from cda.models.families import Family
from cda.models.families.family import Points
from cda.models.own_files import ModelFiles
from cda.models.reading import Reading, Reads, pools_by_position, read_by_mask, read_one_output
from cda.models.refusals import check_its_class, first_line, own_code_needed
from cda.models.template import (
    Layout,
    Template,
    add_segments,
    check_fixed,
    check_said,
    padding_token,
    wants_segments,
)
from cda.models.weights import compute_in_float32, float32_behind_base, head_names, load_base
from cda.records import Message

if TYPE_CHECKING:
    from transformers import PretrainedConfig, PreTrainedTokenizerBase


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
        """True if texts have to go through the model one by one."""
        return self.reading is None and misreads_padding(self.model.config)


def misreads_padding(config: PretrainedConfig) -> bool:
    """True of a class that would read a padded text elsewhere, unless it is read by a mask: it looks for a padding token that its
    config.json does not name, or takes a batch's last column (XLNet)."""
    config = config.get_text_config()
    return getattr(config, "pad_token_id", None) is None or config.model_type == "xlnet"


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
    model = load_base(spec, config, heads, sharded)
    template = load_template(spec, config)
    if template.segments:
        add_segments(model, template.tokenizer.sep_token_id)
    reading = reading_of(spec, model, template)
    if spec.reads is not None:
        model.config.reward_reads = spec.reads  # a merged model is read like this one
    if reading is not None:
        read_by_mask(model, reading)
    elif model.config.num_labels != 1 or (spec.trust_remote_code and _is_own(model)):
        read_one_output(model, "" if spec.head is None else head_index(spec, config), spec.name_or_path)
    if spec.precision != "fp32" and not sharded:  # sharding casts weights by itself, and in blocks
        compute_in_float32(model, heads)
        if _is_own(model):
            float32_behind_base(model)
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
    output = 0 if model.config.num_labels == 1 else head_index(spec, model.config)
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


def _reading_notes(
    reads: Reads, pad: int | None, declared: int | None, template: Template, text_config: PretrainedConfig
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

    if (torch := sys.modules.get("torch")) is None:  # no model was loaded
        return
    gc.collect()
    if "deepspeed" in sys.modules:
        # Accelerate keeps ZeRO-3's settings alive, and with them no model can be put on one device.
        from transformers.integrations.deepspeed import unset_hf_deepspeed_config

        unset_hf_deepspeed_config()
    if torch.cuda.is_available():
        torch.cuda.empty_cache()


def load_template(spec: ModelSpec, config: PretrainedConfig | None = None) -> Template:
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
    _try_template(spec.name_or_path, tokenizer)
    if len(tokenizer) <= len(tokenizer.all_special_ids):  # as of a folder without tokenizer files
        raise ModelError(
            f"{name} knows no token that is not special, so every word would be unknown. "
            "Are its files (tokenizer.json, tokenizer_config.json) missing? tokenizer.save_pretrained(FOLDER) writes them"
        )
    text_config = config.get_text_config() if config is not None else None
    template = template_of(tokenizer, text_config, spec.max_length_tokens, _layout(spec, tokenizer, config))
    check_said(spec.name_or_path, template)
    return template


def _layout(spec: ModelSpec, tokenizer: PreTrainedTokenizerBase, config: PretrainedConfig) -> Layout:
    """The encoding of a model's texts, where its family or the settings decide it."""
    family = family_for(spec) if config is not None else None
    if family is not None and not (family.runs_code or hasattr(config, "reward_family")):
        family = None  # as a causal model
    left = tokenizer.truncation_side == "left"
    if family is None:
        # Encoder-decoders read the reward at EOS, which a text that is cut would lose.
        ends = asked_reads(spec) == "last_attended" or getattr(config, "is_encoder_decoder", False)
        last = tokenizer.eos_token_id if ends else None
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


def template_of(
    tokenizer: PreTrainedTokenizerBase,
    text_config: PretrainedConfig,
    max_length_tokens: int,
    layout: Layout | None = None,
) -> Template:
    """A template that cuts texts at the given length, or at the model's or tokenizer's own if that is shorter."""
    encoding = None if layout is None else layout.encoding
    limits: dict[str, float] = {"as set": max_length_tokens}
    if encoding is None:
        limits |= {
            "the model's positions": _positions(text_config),
            "its tokenizer's limit": tokenizer.model_max_length,
        }
    else:
        limits |= {"its authors' limit": encoding.max_length_tokens}
    limited_by = min(limits, key=lambda name: limits[name])
    pad = padding_token(tokenizer, getattr(text_config, "pad_token_id", None), getattr(text_config, "vocab_size", None))
    segments, limit = wants_segments(tokenizer, text_config), int(limits[limited_by])
    return Template(tokenizer, limit, pad, segments, layout, "" if limited_by == "as set" else limited_by)


_AFTER_PADDING = frozenset({
    "camembert", "data2vec-text", "ibert", "layoutlmv3", "lilt", "longformer", "luke", "markuplm", "mpnet", "roberta",
    "roberta-prelayernorm", "xlm-roberta", "xlm-roberta-xl", "xmod",
})  # fmt: skip
"""Kinds of model that count positions from the one after the padding token's id on."""


def _positions(text_config: PretrainedConfig) -> float:
    """Tokens of the longest text that a model has positions for; infinite if it names no number, or XLNet's -1."""
    places = getattr(text_config, "max_position_embeddings", None) or getattr(text_config, "max_seq_len", None)  # MPT's
    if not places or places < 0:
        return math.inf
    pad = getattr(text_config, "pad_token_id", None)
    kind = getattr(text_config, "model_type", None)
    return float(places - (1 if kind == "mpnet" else pad or 0) - 1 if kind in _AFTER_PADDING else places)


def _own_tokenizer(spec: ModelSpec, config: PretrainedConfig) -> object:
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


# A chat template and a tokenizer's patterns are tried in a process of its own, under limits of time and memory: both come with a model
# and may never end, or eat all memory. Neither can be stopped in this process: a template may build a text of gigabytes in one step of C
# code, and patterns run in Rust. The child imports jinja2 and tokenizers alone and takes some 0.15 s. It finds what grows with any
# conversation; a template that waits for one text in a thousand is not found.
CPU_S = 3
"""Processor time of a trial; a usual one takes 0.2 s."""
MEMORY_BYTES = 1 << 30
"""Memory of a trial; a usual one takes 0.05 GB."""
_WALL_S = 120
_PATTERN = re.compile(r'"Regex"\s*:\s*("(?:[^"\\]|\\.)*")')


def _try_template(name_or_path: str, tokenizer: PreTrainedTokenizerBase) -> None:
    """Raise ModelError if a tokenizer's chat template is not one, or it or a pattern of the tokenizer does not end in a trial."""
    template = tokenizer.chat_template
    if isinstance(template, Mapping):
        if template and "default" not in template:
            raise ModelError(
                f"{name_or_path}: has the chat templates {', '.join(sorted(map(str, template)))} and none named default; name one so in "
                "tokenizer_config.json"
            )
        template = template.get("default")
    if template is not None and not isinstance(template, str):
        raise ModelError(
            f"{name_or_path}: its chat template is {type_in_words(template)}, not text; put it as text into chat_template.jinja"
        )
    special = {key: str(token) for key, token in tokenizer.special_tokens_map.items() if not isinstance(token, list)}
    found = _verdict(template or "", tuple(sorted(special.items())), _patterns(tokenizer))
    if found:
        raise ModelError(f"{name_or_path}: {found}")


def _patterns(tokenizer: PreTrainedTokenizerBase) -> tuple[str, ...]:
    """Regular expressions that a tokenizer splits or replaces by."""
    backend = getattr(tokenizer, "backend_tokenizer", None)
    parts = [getattr(backend, part, None) for part in ("normalizer", "pre_tokenizer")]
    states = [part.__getstate__().decode() for part in parts if part is not None]
    return tuple(json.loads(pattern) for state in states for pattern in _PATTERN.findall(state))


@lru_cache(maxsize=256)
def _verdict(template: str, special: tuple[tuple[str, str], ...], patterns: tuple[str, ...]) -> str | None:
    """Problem found by a trial, with its remedy; None if there is none, nothing to try, or no way to try it here."""
    if not (template or patterns) or not sys.executable:
        return None
    task = {
        "template": template,
        "special": dict(special),
        "patterns": patterns,
        "cpu_s": CPU_S,
        "memory_bytes": MEMORY_BYTES,
    }
    child = [sys.executable, "-P", str(Path(__file__).with_name("trial_process.py"))]
    try:
        done = subprocess.run(child, input=json.dumps(task).encode(), capture_output=True, timeout=_WALL_S, check=False)
    except subprocess.TimeoutExpired as late:
        said = late.stdout or b""
    except OSError:
        return None
    else:
        said = done.stdout
    *_, at = said.decode().splitlines() or [""]
    if at in ("", "ended"):  # an empty answer: the child could not start
        return None
    if at.startswith("wrong "):
        return f"its chat template cannot be used ({json.loads(at.removeprefix('wrong '))}); correct chat_template"
    if at.startswith("pattern "):
        return f"its tokenizer's {at}, comes to no end. Correct it in tokenizer.json"
    return (
        f"its chat template needs over {CPU_S} s or {MEMORY_BYTES >> 30} GiB of memory for a short conversation: it loops or grows "
        "without end. Correct chat_template"
    )
