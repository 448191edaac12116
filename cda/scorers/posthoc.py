"""Removing a bias after the fact, without training: a direction of the head's inputs, or measured features."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike

from cda.arrays import FloatArray
from cda.errors import DataError, ModelError
from cda.models.load import RewardModel, without_adapter
from cda.records import Prompt
from cda.results.base import Estimate
from cda.scorers.batching import TextBar, batch_budget, batches, forward, token_ids
from cda.stats.estimators import Regression

if TYPE_CHECKING:
    from torch import Tensor, nn

FEWEST_PAIRS = 10
"""A choice: a direction has hundreds of numbers, and a mean over fewer pairs is largely those pairs' subjects."""
MAX_CONDITION = 1000.0
"""Limit of the condition number of the scaled features' products: 199 at a correlation of 0.99, infinite for a repeated feature."""
# Largest distance of the head's output for the captured vector from the model's score, in 1 + |score|. Half
# precision rounds at 0.004; a vector of another position is off by the spread of the scores.
_HEAD_TOLERANCE = {"torch.float32": 1e-3, "torch.float64": 1e-3}
_HEAD_TOLERANCE_HALF = 3e-2


def head_inputs(
    reward_model: RewardModel,
    prompts: Sequence[Prompt],
    responses: Sequence[str],
    batch_tokens: int | None = None,
    label: str | None = None,
) -> FloatArray:
    """The hidden state that the score is computed from, text by text, shape (n, h); texts of the same tokens are read once.

    Template, truncation and batches are those of `ClassifierScorer`. Its position depends on the head:
        (B, T, h) to (B, T, 1), models like Llama: the last token that is not padding.
        (B, h) to (B, 1), BERT, DeBERTa: the vector that the model pooled already.
        (B, T, h) to (B, 1), RoBERTa, ELECTRA: the first token, which such heads take themselves.
    It is checked each time: the head alone must turn it into the model's score; if not, or if there is no such vector,
    ModelError. DataError without texts.
    """
    import torch

    encoded = [reward_model.template.encode(*text) for text in zip(prompts, responses, strict=True)]
    if not encoded:
        raise DataError("no texts: there is no head input to read")
    # Texts that are the same token ids are read once: below fp32 a state moves with its batch.
    different = {tuple(text.ids): text for text in encoded}
    states: dict[tuple[int, ...], FloatArray] = {}
    budget = batch_budget(batch_tokens, reward_model.model.device.type)
    with TextBar([len(ids) for ids in different], label=label) as bar, torch.inference_mode():
        for batch in batches(dict(enumerate(different.values())), budget):
            ids = token_ids(batch)
            states.update(zip(map(tuple, ids), _read(reward_model, ids), strict=True))
            bar.scored(list(batch))
    return np.stack([states[tuple(text.ids)] for text in encoded])


def head_scores(reward_model: RewardModel, states: FloatArray) -> FloatArray:
    """Rewards of head inputs, shape (n, h), changed or not, by the head alone. Shape (n,), in the model's own units."""
    import torch

    head = score_head(reward_model)
    # An adapter keeps the base's head before its own; only precision and place are read off it.
    like = list(head.parameters())[-1]
    with torch.inference_mode():
        rewards = _scores_alone(head, torch.as_tensor(states).to(like.device, like.dtype))
    return rewards.cpu().numpy().astype(np.float64)


def score_head(reward_model: RewardModel) -> nn.Module:
    """The module that makes the score, an adapter's own copy of it included; the last one if there are several (DeBERTa)."""
    model = reward_model.model
    whole = without_adapter(model)
    head: nn.Module = whole.get_submodule(reward_model.head_names[-1])
    return head


def _read(reward_model: RewardModel, ids: list[list[int]]) -> FloatArray:
    """Head inputs of one batch, shape (B, h), checked against the batch's scores."""
    if reward_model.reading is not None and reward_model.reading.points is not None:
        raise _no_vector(reward_model, "its head reads more than one token")
    head, seen = score_head(reward_model), list[tuple[Any, Any]]()
    handle = head.register_forward_hook(lambda _, inputs, output: seen.append((inputs, output)))
    try:
        scores = forward(reward_model, ids)
    finally:
        handle.remove()
    if len(seen) != 1:
        raise _no_vector(reward_model, f"its head '{reward_model.head_names[-1]}' ran {len(seen)} times for one batch")
    states = _pooled(reward_model, *seen[0], ids)
    off = np.abs(_scores_alone(head, states).cpu().numpy() - scores) / (1 + np.abs(scores))
    if (worst := float(off.max())) > _HEAD_TOLERANCE.get(str(states.dtype), _HEAD_TOLERANCE_HALF):
        raise _no_vector(
            reward_model, f"its head alone gives other scores than the model, off by {worst:.2g} of 1 + score"
        )
    return states.double().cpu().numpy()  # type: ignore[no-any-return]


def _pooled(reward_model: RewardModel, inputs: tuple[Any, ...], output: Any, ids: list[list[int]]) -> Any:
    """The vector of each text that its score comes from. Shape (B, h)."""
    hidden: Any = inputs[0] if inputs else None
    match getattr(hidden, "ndim", None), getattr(output, "ndim", None):
        case 2, 2:
            return hidden
        case 3, 2:
            return hidden[:, 0]
        case 3, 3:
            # Of classes that look for their padding token themselves.
            pad = reward_model.template.pad_token_id
            last = [max((at for at, token in enumerate(row) if token != pad), default=0) for row in ids]
            return hidden[range(len(ids)), last]
        case 2 | 3, _:
            turned = f"{tuple(hidden.shape)} to {tuple(getattr(output, 'shape', ()))}"
            raise _no_vector(reward_model, f"its head turns {turned}, which is none of the known forms")
    raise _no_vector(reward_model, "its head is not given hidden states as its first argument")


def _scores_alone(head: nn.Module, states: Tensor) -> Tensor:
    """Scores of vectors, shape (B,): a head takes texts of one position as it takes longer ones."""
    scores: Tensor = head(states[:, None])
    return scores.reshape(len(states)).float()


def _no_vector(reward_model: RewardModel, why: str) -> ModelError:
    return ModelError(
        f"{reward_model.spec.name_or_path}: {why}. Projection at the score head cannot be used with this model"
    )


def bias_direction(perturbed_states: ArrayLike, base_states: ArrayLike, prompt_ids: Sequence[str]) -> FloatArray:
    """The direction in which a bias moves the head's input: the mean difference of contrast pairs, normalised. Shape
    (h,).

    v = d / |d| with d = mean over pairs of (h_perturbed − h_base), shape (n, h) each, each prompt counting once; v · h
    grows with the bias. Mean differences are the simplest of the concept directions that iterative nullspace projection
    (INLP; Ravfogel et al., 2020) and least-squares concept erasure (LEACE; Belrose et al., 2023) remove; nothing here
    sees a reward, so v may well be a direction that the head ignores. A head that reads h − strength · (h · v) v loses
    all that lies along v at strength 1, whatever else it is. If it is linear, the pairs that v was made from then have
    a mean margin of exactly 0, whatever the bias is: only pairs of other prompts show the removed attribute. DataError:
    shapes that differ, not finite, too few pairs, or differences that are zero or cancel.
    """
    perturbed, base = (np.asarray(side, dtype=np.float64) for side in (perturbed_states, base_states))
    if perturbed.ndim != 2 or perturbed.shape != base.shape:
        raise DataError(f"states of shapes {perturbed.shape} and {base.shape}: both sides need (pairs, hidden size)")
    differences = perturbed - base
    if not np.isfinite(differences).all():
        raise DataError(f"{int((~np.isfinite(differences)).any(axis=1).sum())} of {len(base)} states are not finite")
    if len(differences) < FEWEST_PAIRS:
        raise DataError(f"{len(differences)} pairs: a bias direction needs at least {FEWEST_PAIRS}")
    if len(prompt_ids) != len(differences):
        raise DataError(f"{len(prompt_ids)} prompt ids for {len(differences)} pairs: one each is needed")
    _, clusters, counts = np.unique(np.asarray(prompt_ids, dtype=str), return_inverse=True, return_counts=True)
    weights = 1 / (counts[clusters] * len(counts))
    mean = weights @ differences
    length, typical = float(np.linalg.norm(mean)), float(weights @ np.linalg.norm(differences, axis=1))
    if length <= 1e-9 * typical or length == 0:
        raise DataError(
            f"the {len(differences)} pairs have no direction in common: their differences "
            f"{'cancel' if typical else 'are all zero'}. Were the sides mixed up, or cut before they differ?"
        )
    return mean / length


@dataclass(frozen=True, slots=True)
class FeatureCorrection:
    """The part of a reward that measured features account for, fitted on contrasts, ready to be taken off others.

    A reward less β · features(text) has exactly the margin less β · Δfeatures, so that a fit on differences alone
    corrects single texts too: `corrected` serves both, and best-of-n and pairs agree. `beta`: reward per unit of the
    feature, with a prompt-clustered t interval. `r_squared`: 1 − Σ residual² / Σ margin², on the fitted contrasts: no
    claim about others. `ridge`: penalty, on features scaled to a root mean square of 1; 0 is plain least squares.
    """

    beta: Mapping[str, Estimate]
    left_out: Mapping[str, str]
    r_squared: float
    ridge: float
    n: int
    n_prompts: int
    unit: str = "reward"

    def corrected(self, values: ArrayLike, features: Mapping[str, ArrayLike], strength: float = 1.0) -> FloatArray:
        """Margins less strength · β · differences, or rewards less strength · β · the texts' features. Shape (n,).

        `features` are differences perturbed − base for margins, the texts' own values for rewards; shape (n,) each. Others than the
        fitted ones are ignored. Corrected rewards have another zero; only their differences within a prompt mean anything.
        DataError if a fitted feature is missing, shapes differ, or values are not finite.
        """
        if missing := [name for name in self.beta if name not in features]:
            raise DataError(f"the correction was fitted on {', '.join(missing)}, not measured here: measure them too")
        n = np.size(values)
        columns = [_shaped(f"feature '{name}'", features[name], n) for name in self.beta]
        removed: FloatArray = np.column_stack(columns) @ np.array([price.value for price in self.beta.values()])
        return _shaped("values", values, n) - strength * removed


def feature_correction(
    margins: ArrayLike, differences: Mapping[str, ArrayLike], prompt_ids: Sequence[str]
) -> FeatureCorrection:
    """Regress margins on the differences of measured features: margin ≈ Σ βⱼ · Δfeatureⱼ, through the origin; shape
    (n,) each.

    Fit on other contrasts than those that are reported on, split by prompt. There is no intercept, because swapping the
    sides of a pair turns every sign, and a reward has no term for "is the perturbed side". So a pair whose features do
    not differ keeps its margin, and all that goes with a feature in these contrasts goes into its β: a bias that is not
    measured, or quality (longer answers that say more). β is a price to take off, not a causal effect. For several
    biases, give the contrasts of all of them together; the features of each are then held fixed for the others. The
    length-controlled win rate of AlpacaEval (Dubois et al., 2024) is the same idea for one feature, on a logistic scale
    and with terms for the model and the instruction.

    Each difference is divided by its root mean square r (no centring: there is no intercept), and b minimises mean
    (margin − Zb)² + ridge · |b|²; β = b / r. The ridge is as little as brings the condition number of the features down
    to MAX_CONDITION: 0 unless they are nearly collinear. Intervals are those of `Regression`; they do not count what a ridge
    shrinks. DataError: shapes that differ,
    values not finite, margins all zero, no feature that differs, or not more prompts than features.
    """
    n = len(prompt_ids)
    values = _shaped("margins", margins, n)
    columns = {name: _shaped(f"feature '{name}'", column, n) for name, column in differences.items()}
    left_out = {name: "its sides do not differ in any contrast" for name in columns if not columns[name].any()}
    used = {name: column for name, column in columns.items() if name not in left_out}
    _check_enough(values, tuple(used), left_out, n_prompts := len(set(prompt_ids)))
    design = np.column_stack(list(used.values()))
    scaled = design / np.sqrt((design**2).mean(axis=0))
    # The least penalty p with (largest + p) ≤ MAX_CONDITION · (smallest + p), of the eigenvalues.
    eigenvalues = np.linalg.eigvalsh(scaled.T @ scaled / n)
    penalty = max(0.0, float(eigenvalues[-1] - MAX_CONDITION * max(eigenvalues[0], 0.0)) / (MAX_CONDITION - 1))
    fit = Regression(values, design, prompt_ids, penalty)
    beta = {
        name: fit.of(own, f"reward per unit of {name}").estimate
        for name, own in zip(used, np.eye(len(used)), strict=True)
    }
    r_squared = 1 - float((fit.residuals**2).sum() / (values**2).sum())
    return FeatureCorrection(beta, left_out, r_squared, penalty, n, n_prompts)


def _check_enough(values: FloatArray, used: Sequence[str], left_out: Mapping[str, str], n_prompts: int) -> None:
    if not used:
        raise DataError(
            f"no feature to correct for: {', '.join(left_out) or 'none was given'}"
            f"{' never differs between the sides' if left_out else ''}"
        )
    if n_prompts <= len(used):
        raise DataError(
            f"{n_prompts} prompts for {len(used)} features ({', '.join(used)}): a correction needs more prompts than "
            "features; name fewer features"
        )
    if not values.any():
        raise DataError(f"all {len(values)} margins are zero: there is nothing to correct")


def _shaped(what: str, values: ArrayLike, n: int) -> FloatArray:
    array = np.asarray(values, dtype=np.float64)
    if array.shape != (n,):
        raise DataError(f"{what}: shape {array.shape} where ({n},) is needed, one value a row")
    if not np.isfinite(array).all():
        raise DataError(f"{what}: {int((~np.isfinite(array)).sum())} of {n} values are NaN or infinite; leave them out")
    return array
