"""How a scorer reads one text, in lines for a person who checks a reward against the author's."""

from __future__ import annotations

from typing import Any

from cda.models.load import without_adapter
from cda.scorers.classifier import ClassifierScorer
from cda.scorers.compared import Text, TextScorer

_SHOWN = 8
"""Tokens shown from each end of a text."""


def reading_of(scorer: TextScorer, text: Text) -> tuple[str, ...]:
    """Class, head and precision of the model, template and number of tokens, the tokens at both ends, and the token at which the
    reward is read if the class says; of a scorer whose reading cannot be seen its name alone. ModelError as of `Template.encode`.
    """
    if not isinstance(scorer, ClassifierScorer):
        return (f"scored by  {scorer.name}",)
    reward_model = scorer.reward_model
    template, model = reward_model.template, without_adapter(reward_model.model)
    encoded = template.encode(*text)
    tokens = [str(token) for token in template.tokenizer.convert_ids_to_tokens(encoded.ids)]
    heads = f", head {', '.join(reward_model.head_names)}" if reward_model.head_names else ""
    cut = f", cut at {template.max_length_tokens}" if encoded.truncated else ""
    few = len(tokens) <= 2 * _SHOWN
    shown = tokens if few else [*tokens[:_SHOWN], "…", *tokens[-_SHOWN:]]
    position = _position(model, encoded.ids)
    return (
        f"class      {type(model).__name__}{heads}, in {reward_model.spec.precision}",
        f"template   {template.form}, {len(tokens)} tokens{cut}",
        f"tokens     {' '.join(shown)}",
        *([] if position is None else [f"read at    token {position + 1} of {len(tokens)}: {tokens[position]}"]),
        *template.notes(),
    )


def _position(model: Any, ids: list[int]) -> int | None:
    """Row of the token at which a causal classifier of Transformers reads the reward of a text alone; None of other classes."""
    from transformers.modeling_layers import GenericForSequenceClassification

    if not isinstance(model, GenericForSequenceClassification):
        return None
    pad = model.config.get_text_config().pad_token_id
    return max((row for row, token in enumerate(ids) if token != pad), default=len(ids) - 1)
