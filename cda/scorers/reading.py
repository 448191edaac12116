"""How a model reads one text, in lines for a person: before anything is spent, and next to a reward that is checked."""

from __future__ import annotations

from typing import Any

from cda.models.config import ModelSpec, load_config
from cda.models.load import load_template, reading_of, without_adapter
from cda.models.reading import Reading
from cda.models.template import Template
from cda.models.weights import empty_model
from cda.scorers.classifier import ClassifierScorer
from cda.scorers.compared import Text, TextScorer

_SHOWN = 8
"""Tokens shown from each end of a text."""


def described(spec: ModelSpec) -> str:
    """One sentence on class, head, template, special tokens, reading position, truncation and precision of a model, by its files and
    without its weights. ModelError: it cannot be read as a reward model."""
    config = load_config(spec, compares=True)
    model, template = empty_model(spec, config), load_template(spec, config)
    return summary(model, spec.precision, template, reading_of(spec, model, template))


def summary(model: Any, precision: str, template: Template, reading: Reading | None) -> str:
    """The same of a loaded model."""
    heads = [
        name
        for name, part in model.named_children()
        if name != model.base_model_prefix and any(True for _ in part.parameters())
    ]
    rule = "where its class says" if reading is None else f"at {_rule(model, template, reading)}"
    encoding, side = template.layout.encoding, "beginning" if template.layout.cuts_left else "end"
    loses = f"their {side}" if encoding is None else encoding.loses
    pair = "" if encoding is None or encoding.compares is None else " of two answers, in both orders"
    return (
        f"{type(model).__name__} (head {', '.join(heads)}{_label(model, reading)}) in {precision}, {template.form}{pair}, {_special(template)}; "
        f"{'preference' if pair else 'reward'} read {rule}; texts of more than {template.max_length_tokens} tokens lose {loses}"
    )


def reading_lines(scorer: TextScorer, text: Text) -> tuple[str, ...]:
    """The same of a loaded scorer and a text; of a scorer whose reading cannot be seen its name alone. ModelError as of
    `Template.encode`."""
    if not isinstance(scorer, ClassifierScorer):
        return (f"scored by   {scorer.name}",)
    loaded = scorer.reward_model
    model = without_adapter(loaded.model)
    return _lines(model, loaded.spec.precision, loaded.template, loaded.reading, text)


def _lines(model: Any, precision: str, template: Template, reading: Reading | None, text: Text) -> tuple[str, ...]:
    encoded, tokenizer = template.encode(*text), template.tokenizer
    tokens = [str(token) for token in tokenizer.convert_ids_to_tokens(encoded.ids)]
    few = len(tokens) <= 2 * _SHOWN
    shown = tokens if few else [*tokens[:_SHOWN], "…", *tokens[-_SHOWN:]]
    cut = f", cut at {template.max_length_tokens}" if encoded.truncated else ""
    found = (
        []
        if reading is None or model.config.is_encoder_decoder
        else [reading.position(encoded.ids)]
        if reading.points is None
        else reading.points(encoded.ids)
    )
    read = [at % len(tokens) for at in found]
    places, names = (", ".join(map(str, part)) for part in ([at + 1 for at in read], [tokens[at] for at in read]))
    return (
        f"model       {summary(model, precision, template, reading)}",
        f"tokens      {len(tokens)}{cut}: {' '.join(shown)}",
        *([f"read at     token{'s' * (len(read) > 1)} {places} of {len(tokens)}: {names}"] if read else []),
        *template.notes(),
        *(reading.notes if reading is not None else ()),
    )


def _rule(model: Any, template: Template, reading: Reading) -> str:
    if model.config.is_encoder_decoder:
        return "the place of an answer's first token"
    if reading.points is not None:
        return "the tokens that its authors name"
    if reading.pad is None:
        return "the last token"
    return f"the last token other than {template.tokenizer.convert_ids_to_tokens(reading.pad)}"


def _label(model: Any, reading: Reading | None) -> str:
    """The one of several labels that is the reward, where it is known."""
    output = getattr(model, "read_output", "") if reading is None else reading.output
    if model.config.num_labels == 1 or not isinstance(output, int):
        return ""
    return f", label {model.config.id2label.get(output, output)}"


def _special(template: Template) -> str:
    tokenizer = template.tokenizer
    padding = tokenizer.convert_ids_to_tokens(template.pad_token_id)
    marks = {"BOS": tokenizer.bos_token, "EOS": tokenizer.eos_token}
    return ", ".join([*(f"{name} {token}" for name, token in marks.items() if token), f"padded with {padding}"])
