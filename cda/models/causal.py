"""Load a causal language model at one precision, and find which tokens of a text are the response's.

The response begins where the prompt's own rendering (chat template with its generation prompt) ends, and runs to the
end of the full rendering: the marks that close the turn are the response's, as they are in DPO training.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import takewhile
from pathlib import Path
from typing import TYPE_CHECKING, Any

from cda.errors import ModelError
from cda.models.adapters import adapter_config, with_adapter
from cda.models.agreement import check_tensors
from cda.models.config import ModelSpec, read_config
from cda.models.load import for_scoring, load_template
from cda.models.refusals import folder_problems, refuse_passed_over
from cda.models.template import Encoded, Template
from cda.models.weights import read_weights
from cda.records import Prompt

if TYPE_CHECKING:
    from transformers import PretrainedConfig

# Parts of architecture names whose models give no probability of a next token.
_NOT_CAUSAL = ("Classification", "MaskedLM", "QuestionAnswering", "MultipleChoice", "RewardModel")
_SHOWN = 40  # characters of a rendering in an error
_CAUSAL = "a causal language model"


@dataclass(frozen=True, slots=True)
class CausalModel:
    """A loaded causal language model. With an adapter, `model` is a PeftModel whose adapter is active."""

    model: Any
    template: Template
    spec: ModelSpec
    adapter: Path | None = None

    @property
    def name(self) -> str:
        return self.spec.name_or_path if self.adapter is None else f"{self.spec.name_or_path} + {self.adapter}"


@dataclass(frozen=True, slots=True)
class ResponseSpan:
    """Token ids of a prompt with its response, truncated at max_length_tokens; `start` is the index of the response's
    first token, at least 1; the response goes on to the end.
    """

    encoded: Encoded
    start: int

    @property
    def n_tokens(self) -> int:
        """Tokens of the response that are left; at least 1."""
        return len(self.encoded.ids) - self.start


def load_causal_config(spec: ModelSpec) -> object:
    """The model's configuration; ModelError unless it is a causal language model with safetensors weights and no unread code."""
    problems = folder_problems(spec.name_or_path)
    if (Path(spec.name_or_path) / "adapter_config.json").is_file() and problems:
        problems = [f"{spec.name_or_path}: is an adapter. Name its base as the model and this folder as the adapter"]
    if problems:
        raise ModelError("\n".join(problems))
    config = read_config(spec, _CAUSAL)
    _check_architecture(spec, config)
    return config


def load_causal_model(spec: ModelSpec, adapter: Path | None = None) -> CausalModel:
    """Load a causal language model, ready to give log-probabilities, with a PEFT adapter that was trained on it (by
    DPO, say). ModelError if it cannot be loaded as a causal language model, or the adapter does not fit it.
    """
    spec = spec.pinned()
    config = load_causal_config(spec)
    template = load_template(spec, config)
    if template.form == "pair":
        raise ModelError(
            f"{spec.name_or_path}: its tokenizer has no chat template and encodes text pairs ([CLS] … [SEP]), as encoders "
            "do; a causal language model is needed, or a chat_template in its tokenizer_config.json"
        )
    model = _load_base(spec, config)
    if adapter is not None:
        _check_adapter(adapter)
        model = with_adapter(model, adapter)
    return CausalModel(for_scoring(model), template, spec, adapter)


def response_spans(template: Template, texts: Iterable[tuple[Prompt, str]]) -> list[ResponseSpan | None]:
    """Token ids of each prompt with its response, as `Template.encode` gives them, and the start of the response;
    length n. A token that joins both counts as the response's. None if the prompt alone fills max_length_tokens.
    ModelError if the chat template renders the prompt otherwise once a response follows, or nothing precedes it.
    """
    alone: dict[Prompt, list[int]] = {}
    spans: list[ResponseSpan | None] = []
    for prompt, response in texts:
        if prompt not in alone:
            alone[prompt] = template.ids(template.text(prompt, None))
        encoded = template.encode(prompt, response)
        start = _start(template, alone[prompt], encoded.ids, prompt, response)
        spans.append(ResponseSpan(encoded, start) if start < len(encoded.ids) else None)
    return spans


def span_notes(template: Template) -> list[str]:
    """Sentences for the user on the start of responses: the template's fallbacks, and headers that count."""
    notes = template.notes()
    if template.form == "chat template":
        messages = [{"role": "user", "content": "a"}]
        if template.render(messages, True) == template.render(messages):
            notes.append(
                "The chat template has no generation prompt; what it writes before a response counts as the response's."
            )
    return notes


def _start(template: Template, alone: list[int], ids: list[int], prompt: Prompt, response: str) -> int:
    start = _n_same(alone, ids)
    if start < min(len(alone), len(ids)):  # tokens joined over the boundary, or another rendering
        _check_prefix(template.text(prompt, None), template.text(prompt, response))
    if start == 0:
        raise ModelError(
            "no token precedes the response, so its first token has no probability. Give a prompt, or a tokenizer "
            "whose chat template writes a beginning-of-sequence token"
        )
    return start


def _check_prefix(prompt: str, full: str) -> None:
    if full.startswith(prompt):
        return
    same = _n_same(prompt, full)
    raise ModelError(
        "the model's chat template renders a prompt otherwise once a response follows, so the response's tokens cannot be "
        f"told from the prompt's. Alone it goes on with {prompt[same : same + _SHOWN]!r}, with a response with "
        f"{full[same : same + _SHOWN]!r}. Give the tokenizer a chat_template whose generation prompt is how a response begins"
    )


def _n_same(first: Sequence[object], second: Sequence[object]) -> int:
    """Number of items that two sequences share from the start."""
    return sum(1 for _ in takewhile(lambda both: both[0] == both[1], zip(first, second, strict=False)))


def _check_architecture(spec: ModelSpec, config: PretrainedConfig) -> None:
    from transformers import MODEL_FOR_CAUSAL_LM_MAPPING

    names = getattr(config, "architectures", None) or []
    other = [name for name in names if any(part in name for part in _NOT_CAUSAL)]
    if other:
        raise ModelError(
            f"{spec.name_or_path}: is a {other[0]}, which gives no probability of a next token. A log-ratio needs a causal "
            "language model (…ForCausalLM); a sequence classifier with one label is scored as a reward model instead"
        )
    own_code = refuse_passed_over(spec.name_or_path, config, "AutoModelForCausalLM", spec.trust_remote_code)
    if not (own_code or type(config) in MODEL_FOR_CAUSAL_LM_MAPPING) or getattr(config, "is_encoder_decoder", False):
        raise ModelError(
            f"{spec.name_or_path}: is a {names[0] if names else config.model_type}; a log-ratio needs a causal language "
            "model, which reads prompt and response in one sequence"
        )


def _load_base(spec: ModelSpec, config: PretrainedConfig) -> Any:
    from transformers import AutoModelForCausalLM

    # The output layer stays out of 8-bit by default: a log-probability needs its logits.
    model, report = read_weights(AutoModelForCausalLM, spec, config, _CAUSAL, None)
    check_tensors(spec.name_or_path, "causal", model, report)
    return model


def _check_adapter(adapter: Path) -> None:
    """Refuse pickle, adapters of classifiers, and those that put their own tokens before the text."""
    config = adapter_config(adapter)
    task, kind = config.get("task_type"), str(config["peft_type"])
    if task not in (None, "CAUSAL_LM"):
        raise ModelError(f"{adapter}: its task_type is {task}; needed is one of a causal language model (CAUSAL_LM)")
    if "PROMPT" in kind or kind in ("P_TUNING", "PREFIX_TUNING"):
        raise ModelError(
            f"{adapter}: is of kind {kind}, which puts tokens of its own before a text; give a LoRA adapter"
        )
