"""The vector that enters the score head for each text, and the score of a vector."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from cda.arrays import FloatArray
from cda.errors import DataError, ModelError
from cda.models.load import RewardModel
from cda.records import Prompt
from cda.scorers.batching import TextBar, batch_budget, batches, forward
from cda.scorers.compared import text_id

# How far the head's own answer for the vector that was read may lie from the model's score, in 1 + |score|. Half
# precision rounds at 0.004; a vector of another position is off by the spread of the scores.
_TOLERANCE = {"torch.float32": 1e-3, "torch.float64": 1e-3}
_TOLERANCE_HALF = 3e-2


def head_inputs(
    reward_model: RewardModel,
    prompts: Sequence[Prompt],
    responses: Sequence[str],
    batch_tokens: int | None = None,
    label: str | None = None,
) -> FloatArray:
    """The hidden state that the score is computed from, text by text, shape (n, h); each distinct text is read once.

    Template, truncation and batches are those of `ClassifierScorer`. Its position depends on the head:
        (B, T, h) to (B, T, 1), models like Llama: the last token that is not padding.
        (B, h) to (B, 1), BERT, DeBERTa: the vector that the model pooled already.
        (B, T, h) to (B, 1), RoBERTa, ELECTRA: the first token, which such heads take themselves.
    It is checked each time: the head alone must turn it into the model's score.

    Raises:
        DataError: No texts.
        ModelError: The score does not come from one vector by the model's head alone.
    """
    import torch

    names = [text_id(prompt, response) for prompt, response in zip(prompts, responses, strict=True)]
    if not names:
        raise DataError("no texts: there is no head input to read")
    distinct = dict(zip(names, zip(prompts, responses, strict=True), strict=True))
    encoded = {name: reward_model.template.encode(*text) for name, text in distinct.items()}
    # Texts that are the same token ids are read once: below fp32 a state moves with its batch.
    by_tokens = {tuple(text.ids): text for text in encoded.values()}
    different = list(by_tokens.values())
    states: dict[tuple[int, ...], FloatArray] = {}
    with TextBar([len(ids) for ids in by_tokens], label=label) as bar, torch.inference_mode():
        for rows in batches(different, batch_budget(batch_tokens, reward_model.model.device.type)):
            batch = [different[row].ids for row in rows]
            states.update(zip(map(tuple, batch), _read(reward_model, batch), strict=True))
            bar.scored(rows)
    return np.stack([states[tuple(encoded[name].ids)] for name in names])


def head_scores(reward_model: RewardModel, states: FloatArray) -> FloatArray:
    """Rewards of head inputs, shape (n, h), changed or not, by the head alone. Shape (n,), in the model's own units."""
    import torch

    head = score_head(reward_model)
    # An adapter keeps the base's head before its own; only precision and place are read off it.
    like = list(head.parameters())[-1]
    with torch.inference_mode():
        rewards = _scores_alone(head, torch.as_tensor(states).to(like.device, like.dtype))
    return rewards.cpu().numpy().astype(np.float64)  # type: ignore[no-any-return]


def score_head(reward_model: RewardModel) -> Any:
    """The module that makes the score, an adapter's own copy of it included; the last one if there are several (DeBERTa)."""
    model = reward_model.model
    whole = model.get_base_model() if hasattr(model, "get_base_model") else model
    return whole.get_submodule(reward_model.head_names[-1])


def _read(reward_model: RewardModel, ids: list[list[int]]) -> FloatArray:
    """Head inputs of one batch, shape (B, h), checked against the batch's scores."""
    head, seen = score_head(reward_model), list[tuple[Any, Any]]()
    handle = head.register_forward_hook(lambda _, inputs, output: seen.append((inputs, output)))
    try:
        scores = forward(reward_model, ids)
    finally:
        handle.remove()
    if len(seen) != 1:
        raise _no_vector(reward_model, f"its head '{reward_model.head_names[-1]}' ran {len(seen)} times for one batch")
    hidden, output = _first_tensor(reward_model, seen[0][0]), seen[0][1]
    states = _pooled(reward_model, hidden, output, ids)
    off = np.abs(_scores_alone(head, states).cpu().numpy() - scores) / (1 + np.abs(scores))
    if (worst := float(off.max())) > _TOLERANCE.get(str(hidden.dtype), _TOLERANCE_HALF):
        raise _no_vector(
            reward_model, f"its head alone gives other scores than the model, off by {worst:.2g} of 1 + score"
        )
    return states.double().cpu().numpy()  # type: ignore[no-any-return]


def _pooled(reward_model: RewardModel, hidden: Any, output: Any, ids: list[list[int]]) -> Any:
    """The vector of each text that its score comes from. Shape (B, h)."""
    shapes = (hidden.ndim, getattr(output, "ndim", None))
    if shapes == (2, 2):
        return hidden
    if shapes == (3, 2):
        return hidden[:, 0]
    if shapes != (3, 3):
        turned = f"{tuple(hidden.shape)} to {tuple(getattr(output, 'shape', ()))}"
        raise _no_vector(reward_model, f"its head turns {turned}, which is none of the known forms")
    # As the model looks for it: a text may end in the token that is used for padding.
    pad = reward_model.template.pad_token_id
    last = [max((at for at, token in enumerate(row) if token != pad), default=0) for row in ids]
    return hidden[range(len(ids)), last]


def _scores_alone(head: Any, states: Any) -> Any:
    """Scores of vectors, shape (B,): a head takes texts of one position as it takes longer ones."""
    return head(states[:, None]).reshape(len(states)).float()


def _first_tensor(reward_model: RewardModel, inputs: tuple[Any, ...]) -> Any:
    if not inputs or getattr(inputs[0], "ndim", None) not in (2, 3):
        raise _no_vector(reward_model, "its head is not given hidden states as its first argument")
    return inputs[0]


def _no_vector(reward_model: RewardModel, why: str) -> ModelError:
    return ModelError(
        f"{reward_model.spec.name_or_path}: {why}. Projection at the score head cannot be used with this model"
    )
