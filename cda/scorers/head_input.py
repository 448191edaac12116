"""The vector that enters the score head for each text, and scores with one direction taken out of it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from cda.arrays import FloatArray
from cda.errors import DataError, ModelError
from cda.models.load import RewardModel
from cda.records import Prompt
from cda.scorers.classifier import ClassifierScorer, batch_budget, batches
from cda.scorers.compared import text_id
from cda.scorers.progress import TextBar

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
    """The hidden state that the score is computed from, text by text; each distinct text is read once.

    Template, truncation and batches are those of `ClassifierScorer`. Which position it is depends on the head:
        (B, T, h) to (B, T, 1), Llama and its kin: the last token that is not padding.
        (B, h) to (B, 1), BERT, DeBERTa: the vector that the model pooled already.
        (B, T, h) to (B, 1), RoBERTa, ELECTRA: the first token, which such heads take themselves.
    What was read is checked each time: the head alone must turn it into the model's score.

    Args:
        reward_model: Loaded model, with or without an adapter.
        prompts: Length n.
        responses: Length n.
        batch_tokens: Padded tokens in a batch at most; None for what suits the model's device.
        label: Shown beside the progress bar; None for no bar.

    Returns:
        Shape (n, h).

    Raises:
        DataError: No texts.
        ModelError: The score does not come from one vector by the model's head alone.
    """
    import torch

    names = [text_id(prompt, response) for prompt, response in zip(prompts, responses, strict=True)]
    if not names:
        raise DataError("no texts: there is no head input to read")
    distinct = dict(zip(names, zip(prompts, responses, strict=True), strict=True))
    read = [reward_model.template.encode(*text) for text in distinct.values()]
    # Texts that are the same token ids are read once: below fp32 a state moves with its batch.
    by_tokens = {tuple(one.ids): one for one in read}
    encoded = list(by_tokens.values())
    scorer = ClassifierScorer(reward_model, batch_tokens)
    states: dict[int, FloatArray] = {}
    with TextBar([len(one.ids) for one in encoded], label=label) as bar, torch.inference_mode():
        for rows in batches(encoded, batch_budget(batch_tokens, reward_model.model.device.type)):
            states.update(zip(rows, _read(scorer, [encoded[row].ids for row in rows]), strict=True))
            bar.scored(rows)
    place = {ids: row for row, ids in enumerate(by_tokens)}
    row_of = {name: place[tuple(one.ids)] for name, one in zip(distinct, read, strict=True)}
    return np.stack([states[row_of[name]] for name in names])


def head_scores(reward_model: RewardModel, states: FloatArray) -> FloatArray:
    """Rewards of head inputs, by the head alone: what the model would score had it computed these vectors.

    Args:
        reward_model: Loaded model.
        states: As `head_inputs` gives them, changed or not. Shape (n, h).

    Returns:
        Shape (n,), in the model's own units.
    """
    import torch

    head = score_head(reward_model)
    # An adapter keeps the base's head before its own; only precision and place are read off it.
    like = list(head.parameters())[-1]
    with torch.inference_mode():
        rewards = _scores_alone(head, torch.as_tensor(states).to(like.device, like.dtype))
    return rewards.cpu().numpy().astype(np.float64)  # type: ignore[no-any-return]


def score_head(reward_model: RewardModel) -> Any:
    """The module that makes the score, an adapter's own copy of it included; hooks on it see every score.

    Where several modules stand after the base model (DeBERTa: pooler, then classifier), the last one.
    """
    model = reward_model.model
    whole = model.get_base_model() if hasattr(model, "get_base_model") else model
    return whole.get_submodule(reward_model.head_names[-1])


@dataclass
class ProjectedScorer:
    """A scorer whose head reads h − strength · (h · v) v instead of h.

    At strength 1 nothing along v reaches the head, 0 gives exactly the model's own scores, and more than 1 turns the
    component round. For a head without a hidden layer (Llama, BERT) scores are linear in strength: they lose
    strength · (h · v)(w · v), with w the head's weights. A RoBERTa head is not linear.

    Removing a linear direction is what iterative nullspace projection (INLP; Ravfogel et al., 2020) does with
    classifiers' directions, and least-squares concept erasure (LEACE; Belrose et al., 2023) in closed form with the
    covariance of concept and representation. Here v is the mean difference of pairs that differ in the bias alone
    (`bias_direction`), and the projection is orthogonal: no covariance of the states is used. Whatever else lies along v
    is lost too.

    Args:
        reward_model: Loaded model.
        direction: v, of length 1. Shape (h,).
        strength: How much of the component is removed.
        batch_tokens: Padded tokens in a batch at most; None for what suits the model's device.
        label: Shown beside the progress bar; None for no bar.

    Raises:
        DataError: A direction that is not a vector of length 1.
    """

    reward_model: RewardModel
    direction: ArrayLike
    strength: float = 1.0
    batch_tokens: int | None = None
    label: str | None = None
    scorer: ClassifierScorer = field(init=False, repr=False)
    """Scores while the direction is out; holds `n_truncated` and `read` of the texts scored last."""

    def __post_init__(self) -> None:
        _unit(self.direction)
        self.scorer = ClassifierScorer(self.reward_model, self.batch_tokens, self.label)

    def score(self, prompts: Sequence[Prompt], responses: Sequence[str]) -> FloatArray:
        """Rewards without the direction, shape (n,).

        Raises:
            ModelError: The direction has not the head's width, or as in `ClassifierScorer.score`.
        """
        with direction_removed(self.reward_model, self.direction, self.strength):
            return self.scorer.score(prompts, responses)


@contextmanager
def direction_removed(reward_model: RewardModel, direction: ArrayLike, strength: float) -> Iterator[None]:
    """While it lasts, whatever scores with this model scores without the direction; see `ProjectedScorer`.

    Raises:
        DataError: A direction that is not a vector of length 1.
        ModelError: From the model's next score: the direction has not the head's width.
    """
    import torch

    unit = torch.as_tensor(_unit(direction))

    def project(_: object, inputs: tuple[object, ...]) -> tuple[object, ...]:
        hidden = _first_tensor(reward_model, inputs)
        if hidden.shape[-1] != len(unit):
            raise ModelError(
                f"{reward_model.spec.name_or_path}: its head reads {hidden.shape[-1]} numbers, the direction has "
                f"{len(unit)}. It was made from another model; make it from this one"
            )
        # In half precision h · v would be rounded before it is taken off.
        exact = hidden.to(torch.promote_types(hidden.dtype, torch.float32))
        v = unit.to(exact.device, exact.dtype)
        return ((exact - strength * (exact @ v)[..., None] * v).to(hidden.dtype), *inputs[1:])

    handle = score_head(reward_model).register_forward_pre_hook(project)
    try:
        yield
    finally:
        handle.remove()


def _read(scorer: ClassifierScorer, ids: list[list[int]]) -> FloatArray:
    """Head inputs of one batch, shape (B, h), checked against the batch's scores."""
    reward_model = scorer.reward_model
    head, seen = score_head(reward_model), list[tuple[Any, Any]]()
    handle = head.register_forward_hook(lambda _, inputs, output: seen.append((inputs, output)))
    try:
        scores = scorer._forward(ids)
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
    """Of each text, the vector that its score comes from. Shape (B, h)."""
    shapes = (hidden.ndim, getattr(output, "ndim", None))
    if shapes == (2, 2):
        return hidden
    if shapes == (3, 2):
        return hidden[:, 0]
    if shapes != (3, 3):
        found = f"{tuple(hidden.shape)} to {tuple(getattr(output, 'shape', ()))}"
        raise _no_vector(reward_model, f"its head turns {found}, which is none of the known forms")
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


def _unit(direction: ArrayLike) -> FloatArray:
    vector = np.asarray(direction, dtype=np.float64)
    length = float(np.linalg.norm(vector)) if vector.ndim == 1 else float("nan")
    if not abs(length - 1) < 1e-6:
        raise DataError(f"direction of shape {vector.shape} and length {length:g}: a vector of length 1 is needed")
    return vector


def _no_vector(reward_model: RewardModel, why: str) -> ModelError:
    return ModelError(
        f"{reward_model.spec.name_or_path}: {why}. Projection at the score head cannot be used with this model"
    )
