"""How a scorer reads one text, in lines for a person who checks a reward against the author's."""

from __future__ import annotations

from cda.models.load import RewardModel, without_adapter
from cda.models.reading import Reading
from cda.scorers.classifier import ClassifierScorer
from cda.scorers.compared import Text, TextScorer

_SHOWN = 8
"""Tokens shown from each end of a text."""


def reading_of(scorer: TextScorer, text: Text) -> tuple[str, ...]:
    """Class, head and precision of the model, template and number of tokens, the tokens at both ends, and the tokens at which the
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
    read = _positions(reward_model, encoded.ids)
    places, names = (", ".join(map(str, part)) for part in ([at + 1 for at in read], [tokens[at] for at in read]))
    return (
        f"class      {type(model).__name__}{heads}, in {reward_model.spec.precision}",
        f"template   {template.form}, {len(tokens)} tokens{cut}",
        f"tokens     {' '.join(shown)}",
        *([f"read at    token{'s' if len(read) > 1 else ''} {places} of {len(tokens)}: {names}"] if read else []),
        *template.notes(),
    )


def _positions(reward_model: RewardModel, ids: list[int]) -> list[int]:
    """Rows of the tokens at which the reward of a text alone is read; none of classes that do not say."""
    from transformers.modeling_layers import GenericForSequenceClassification

    model, reading = without_adapter(reward_model.model), reward_model.reading
    if reading is None and isinstance(model, GenericForSequenceClassification):
        reading = Reading(model.config.get_text_config().pad_token_id)
    if reading is None:
        return []
    read = [reading.position(ids)] if reading.points is None else reading.points(ids)
    return [at % len(ids) for at in read]
