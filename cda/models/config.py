"""A reward model as it is named, and what its files say: class, family, head."""

from __future__ import annotations

import datetime
import math
import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from cda.errors import DataError, ModelError, type_in_words
from cda.files.hub import commit_of
from cda.files.jsonl import parse_json, read_text
from cda.models.agreement import INDEX, WHOLE, check_weight_files
from cda.models.families import Family, family_of, is_causal, logit_of, named_head
from cda.models.families.linear import HEADS
from cda.models.own_files import ModelFiles
from cda.models.reading import Reads
from cda.models.refusals import WAYS_OUT, class_name, first_line, folder_problems, refuse_passed_over, why_not_loadable
from cda.models.template import DAY

if TYPE_CHECKING:
    from transformers import PretrainedConfig

Precision = Literal["8bit", "bf16", "fp32"]

_SHARE_OF_GPU = 0.7
"""What bf16 weights may take of a GPU's memory; the rest is for the adapter, its optimizer and activations. The 27B shape, 0.64 of an
H100, trains in it (evals/results/bench_training_gpu.json)."""


BF16_SPEED = "1.2 times as fast as in 8-bit (8B shape, H200)"
"""evals/results/bench_training_gpu.json, as the recipe trains: 9,430 and 8,021 tokens/s."""


def automatic(n_weights: Callable[[], int], prefers_8bit: bool = False) -> tuple[Precision, str]:
    """The precision for this machine, and the reason as a sentence. `prefers_8bit`: 8-bit on every GPU.

    On a GPU bf16 if its weights fit, else 8-bit; by its whole memory, so that every run on the machine chooses the same. On a
    CPU bf16 if it multiplies in bf16 (MiniLM then scores in 0.6 times the time of fp32, and its rewards are off by 1.5% of their
    spread), else fp32: without such units bf16 takes several times as long. `n_weights` counts the model's weights.
    """
    import torch

    if not torch.cuda.is_available():
        if units := bf16_units():
            return "bf16", f"this CPU multiplies in it ({', '.join(units)})"
        return "fp32", "this CPU has no units that multiply in bf16"
    needed, memory = 2 * n_weights(), torch.cuda.get_device_properties(0).total_memory
    if prefers_8bit:
        return "8bit", (
            f"the preset's on a GPU, as in the paper; the weights take {needed / 2e9:.1f} of its {memory / 1e9:.0f} GB. With "
            f"model.precision=bf16 {needed / 1e9:.1f}, and training was {BF16_SPEED}"
        )
    fits = needed <= _SHARE_OF_GPU * memory
    why = f"in bf16 the weights take {needed / 1e9:.1f} of the GPU's {memory / 1e9:.0f} GB"
    return ("bf16", why) if fits else ("8bit", f"{why}, of which at most {_SHARE_OF_GPU:.0%} is used")


@cache
def bf16_units() -> tuple[str, ...]:
    """Names of this CPU's units that multiply in bf16, as torch finds them at run time."""
    import torch

    ask = getattr(torch.cpu, "get_capabilities", None)  # earlier versions of torch do not tell
    capabilities: Mapping[str, object] = ask() if ask is not None else {}
    return tuple(sorted(name for name, has_it in capabilities.items() if "bf16" in name and has_it is True))


def why_not_compiled() -> str | None:
    """Why torch cannot compile a model on this machine, as the part of a sentence; None if it can."""
    import torch
    from torch import _dynamo
    from torch._inductor.cpp_builder import get_cpp_compiler
    from torch.utils._triton import has_triton

    if not _dynamo.is_dynamo_supported():
        return f"torch {torch.__version__} compiles nothing under this Python"
    if torch.cuda.is_available():
        return None if has_triton() else "Triton is not installed"
    try:
        get_cpp_compiler()
    except Exception:  # of several kinds, by the machine
        return "no C++ compiler was found; install g++, or name one in CXX"
    return None


CLASSIFIER = "a sequence classifier"
_CLASSES = "AutoModelForSequenceClassification"
_OF_ITS_CLASS = (
    "auto_map",
    "architectures",
    "num_labels",
    "id2label",
    "label2id",
    "quantization_config",
    "attn_implementation",
)
"""Keys of config.json that are of the class a family's model was saved as, and not of its backbone."""


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
    notes: tuple[str, ...] = field(default=(), compare=False)
    """What the machine decided of these settings, and why, as sentences."""

    def pinned(self) -> ModelSpec:
        """The same; of a hub model at its commit, if that is known, so that all of its files are of one."""
        if Path(self.name_or_path).is_dir():
            return self
        return replace(self, revision=commit_of("model", self.name_or_path, self.revision) or self.revision)


def load_config(spec: ModelSpec, compares: bool = False) -> PretrainedConfig:
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
    config = read_config(spec, CLASSIFIER)
    auto = auto_class(config)
    if not refuse_passed_over(spec.name_or_path, config, auto, spec.trust_remote_code):
        _refuse_unknown_class(spec, config)
    files = ModelFiles(spec.name_or_path, spec.revision)
    if not {"num_labels", "id2label", "label2id"} & set(files.config) and config.num_labels != 1:
        rows = next((shape[0] for name in HEADS if (shape := files.shape(f"{name}.weight"))), None)
        if rows is not None:
            config.num_labels = rows
    if auto == _CLASSES and config.num_labels != 1:
        head_index(spec, config)
    elif (
        config.num_labels == 1
        and not _own_class(config)
        and spec.head not in (None, 0, "0", *(getattr(config, "id2label", None) or {}).values())
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


def _family_config(spec: ModelSpec, family: Family) -> PretrainedConfig:
    """The configuration of a family's backbone as a classifier with one label."""
    from transformers import AutoConfig

    if family.refusal is not None:
        raise ModelError(f"{spec.name_or_path}: {family.refusal}. {family.ways or WAYS_OUT}")
    check_config_file(spec.name_or_path, spec.revision)
    raw = family.backbone(ModelFiles(spec.name_or_path, spec.revision).config)
    raw = {key: value for key, value in raw.items() if key not in _OF_ITS_CLASS}
    try:
        config = AutoConfig.for_model(raw.pop("model_type"), **raw, num_labels=1)
    except Exception as error:  # transformers raises many kinds here
        raise ModelError(why_not_loadable(spec.name_or_path, CLASSIFIER, error)) from None
    token, tokens = family.key.removeprefix("logit:"), config.get_text_config().vocab_size
    if token.isdecimal() and int(token) >= tokens:
        raise ModelError(
            f"{spec.name_or_path}: model.head={token}: the model has {tokens:,} output tokens; name one of them, or an id below that number"
        )
    config.reward_family = family.key
    check_weight_files(spec.name_or_path, spec.revision, config)
    return config


def _own_class(config: PretrainedConfig) -> bool:
    """True if the model brings the code of its class."""
    return auto_class(config) in (getattr(config, "auto_map", None) or {})


def auto_class(config: PretrainedConfig) -> str:
    """The auto class for which a model brings its reward model's code: some name it for AutoModel alone."""
    named, names = getattr(config, "auto_map", None) or {}, getattr(config, "architectures", None) or []
    is_it = _CLASSES not in named and class_name(named.get("AutoModel")) in names
    return "AutoModel" if is_it else _CLASSES


def _refuse_unknown_class(spec: ModelSpec, config: PretrainedConfig) -> None:
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
            f"{spec.name_or_path}: is a {causal[0]} (config.json), a language model without a reward head among its weights. Give a reward "
            "model that was trained from it (TRL's RewardTrainer makes one). To score by it as it is, by the logit of one token after the text: "
            f"model.head=TOKEN; by its probabilities: dpo:{spec.name_or_path},REFERENCE; as a judge: judge:NAME behind a server. "
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
        else f"its weights hold no head that is known (looked for {', '.join(HEADS)} with one output)"
    )
    raise ModelError(
        f"{spec.name_or_path}: config.json names the class {', '.join(names)}, {'which Transformers does not have' if unknown else 'whose own head is not in the weights' if not causal and not a_token else 'which gives no reward of a whole text'}; {held}. {WAYS_OUT}"
    )


def _no_choice(spec: ModelSpec, why: str) -> ModelError:
    return ModelError(f"{spec.name_or_path}: model.head={spec.head}: {why}, without a choice. Leave model.head out")


def head_index(spec: ModelSpec, config: PretrainedConfig) -> int:
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


def read_config(spec: ModelSpec, what: str) -> PretrainedConfig:
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


def _token(spec: ModelSpec) -> int:
    """The id of the output token that `model.head` names, as a number or as the tokenizer writes it."""
    if isinstance(spec.head, int) or str(spec.head).isdecimal():
        return int(spec.head)  # type: ignore[arg-type]
    from cda.models.load import load_template  # a template may depend on the family, and this on the tokenizer

    tokenizer = load_template(spec).tokenizer
    if spec.head not in (vocabulary := tokenizer.get_vocab()):
        raise ModelError(
            f"{spec.name_or_path}: model.head={spec.head}: its tokenizer has no such token; name one, or its id"
        )
    return int(vocabulary[spec.head])


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


_MOST: Mapping[str, int] = {
    **dict.fromkeys(
        ("num_hidden_layers", "n_layer", "n_layers", "num_layers", "encoder_layers", "decoder_layers"), 1_000
    ),
    **dict.fromkeys(("hidden_size", "n_embd", "d_model", "embedding_size"), 1_000_000),
    **dict.fromkeys(("intermediate_size", "d_ff", "n_inner", "head_dim"), 10_000_000),
    **dict.fromkeys(("num_attention_heads", "num_key_value_heads", "n_head", "num_heads"), 10_000),
    **dict.fromkeys(("num_experts", "num_local_experts", "n_routed_experts", "num_labels"), 10_000),
    **dict.fromkeys(("max_position_embeddings", "n_positions"), 1_000_000_000),
    "vocab_size": 100_000_000,
}
"""The largest value of each count, some ten times that of the largest published model; the least is 1."""


def check_config_file(name_or_path: str, revision: str | None) -> None:
    """Raise ModelError if a folder's files cannot be read, or its config.json, or that of a hub id, declares what cannot be."""
    from transformers import PretrainedConfig

    folder = Path(name_or_path)
    if not folder.is_dir():
        check_config(name_or_path, PretrainedConfig.get_config_dict(name_or_path, revision=revision)[0])
        return
    for file in sorted(folder.iterdir()):
        if file.suffix in (".json", ".jinja") and (file.is_dir() or not os.access(file, os.R_OK)):
            why = "is a folder, and a file is needed" if file.is_dir() else "may not be read by you"
            raise ModelError(f"{file}: {why}. Put the model's own there, or take it out")
    try:
        content = parse_json(read_text(folder / "config.json"))
    except DataError as error:
        raise ModelError(str(error)) from None
    except ValueError as error:
        raise ModelError(
            f"{folder / 'config.json'}: not valid JSON ({first_line(error)}); was the download or save interrupted?"
        ) from None
    check_config(name_or_path, content)


def check_config(name_or_path: str, content: object) -> None:
    """Raise ModelError, naming the key, if the content of a config.json is no object, or a value in it cannot be a model's."""
    where = f"{name_or_path}: config.json"
    if not isinstance(content, dict):
        raise ModelError(
            f"{where} holds {type_in_words(content)}, not an object; put the one there that was saved with the weights"
        )
    for key, value in _nested(content):
        most = _MOST.get(key)
        if most is not None and value is not None and not _counts(value, most):
            raise ModelError(
                f"{where} has {key}={shown(value)}; it must be a whole number from 1 to {most}. Put the config.json there that was saved "
                "with the weights"
            )
    for key, kind, wanted in (
        ("auto_map", dict, "an object, from auto class to file.Class"),
        ("architectures", list, "a list of names"),
    ):
        value = content.get(key)
        entries = list(value.values() if isinstance(value, dict) else value) if isinstance(value, kind) else []
        if value is not None and not (
            isinstance(value, kind) and all(isinstance(entry, str | list) for entry in entries)
        ):
            raise ModelError(f"{where} has {key}={shown(value)}; it must be {wanted}. Mend it, or take it out")


def check_length(name_or_path: str, length: object) -> None:
    """Raise ModelError if a tokenizer's model_max_length is no length; one beyond any text, such as 1e30, means no limit."""
    if isinstance(length, bool) or not isinstance(length, int | float) or math.isnan(length) or length < 1:
        raise ModelError(
            f"{name_or_path}: tokenizer_config.json has model_max_length={shown(length)}; it must be the number of tokens that the model "
            "reads, 1 or more. Put that there, or take the key out"
        )


def _nested(content: Mapping[str, Any], depth: int = 0) -> Iterator[tuple[str, Any]]:
    """All keys with their values, also those of parts such as text_config."""
    for key, value in content.items():
        yield key, value
        if isinstance(value, dict) and key.endswith("_config") and depth < 8:
            yield from _nested(value, depth + 1)


def _counts(value: object, most: int) -> bool:
    if isinstance(value, list):  # one number a layer
        return bool(value) and all(_counts(each, most) for each in value)
    return isinstance(value, int) and not isinstance(value, bool) and 1 <= value <= most


def shown(value: object) -> str:
    return repr(value)[:60]
