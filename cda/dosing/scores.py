"""Rewards of the voted contrasts and quality pairs at every dose of an adapter, and after removals without training."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
from pydantic import JsonValue

from cda.arrays import FloatArray
from cda.errors import DataError, ModelError
from cda.launch import say
from cda.models.load import ModelSpec, RewardModel, free_memory, load_reward_model
from cda.records import prompt_id
from cda.resources.model_scorers import classifier_scores
from cda.resources.named_scorer import ScorerSettings, texts_of, told_cached
from cda.scorers.compared import Comparison, Rewards, Text, text_id
from cda.scorers.posthoc import bias_direction, feature_correction, head_inputs, head_scores
from cda.stats.drift import measured
from cda.training.dose import DosedModel


@dataclass(frozen=True, slots=True)
class Removal:
    """A removal without training: rewards of the texts at each strength (0: the base model), and the fitted values."""

    by_strength: Mapping[float, Rewards]
    fitted: dict[str, JsonValue]


def dosed_rewards(
    spec: ModelSpec, settings: ScorerSettings, adapter: Path, doses: Sequence[float], texts: Sequence[Text]
) -> dict[float, Rewards]:
    """Rewards at each dose by the same weights-space curve that is exported; earlier scores are taken from the cache.

    Dose 0 is scored without the adapter and dose 1 with it as trained, so that the audit finds their scores.

    Args:
        spec: Base model.
        settings: Scoring settings.
        adapter: As trained.
        doses: λ, without repeats.
    """

    def scored(reward_model: RewardModel, adapter: Path | None, dose: float, label: str) -> Rewards:
        scores = classifier_scores(reward_model, texts, settings, label, adapter=adapter, dose=dose)
        if scores.n_cached:
            say(f"{label}: {told_cached(scores.n_cached, len(scores.by_text))}")
        return scores

    rewards = {}
    if 0 in doses:
        base = load_reward_model(spec)
        rewards[0.0] = scored(base, None, 1.0, "  dose 0")
        del base
        free_memory()
    reward_model = load_reward_model(spec, adapter)
    dosed = DosedModel(reward_model)
    for dose in filter(None, doses):
        dosed.set(dose)
        rewards[dose] = scored(reward_model, adapter, dose, f"  dose {dose:g}")
    del reward_model, dosed
    free_memory()
    return rewards


def read_alike(rewards: Rewards, curve: Iterable[Rewards]) -> Rewards:
    """The same rewards, without those of texts that a curve of the same model has no reward of.

    A removal is computed from a model's states for every text; a comparison that the curve leaves out, because a text is too
    long or both sides are the same after the cut, must be left out here too, or two ways are measured on two sets.
    """
    of_curve = list(curve)
    unread = {name: math.nan for at_dose in of_curve for name, value in at_dose.by_text.items() if math.isnan(value)}
    read = {name: cut for at_dose in of_curve for name, cut in at_dose.read.items()}
    return replace(rewards, by_text={**rewards.by_text, **unread}, read=read)


def removals(
    spec: ModelSpec,
    lessons: Mapping[str, Sequence[Comparison]],
    texts: Sequence[Text],
    strengths: Sequence[float],
    batch_tokens: int | None,
) -> tuple[dict[str, Removal], dict[str, str]]:
    """Removals without training: measured features, and a direction of the hidden states, subtracted from the base model.

    Both are fitted on the training counterfactuals, and on nothing that is reported on. Each bias has its own direction,
    since differences of several would cancel in their mean; all directions are removed together.

    Args:
        spec: Base model.
        lessons: Prompt, biased side and unbiased side of each counterfactual, by bias.
        texts: Texts that are reported on.
        strengths: Strengths of the removal.
        batch_tokens: Padded tokens in a batch.

    Returns:
        Removals by name, and the reason for each that could not be made.
    """
    reward_model = load_reward_model(spec)
    pairs = [pair for own in lessons.values() for pair in own]
    prompts, responses = zip(*texts_of(pairs), *texts, strict=True)
    try:
        states = head_inputs(reward_model, prompts, responses, batch_tokens, "  base model")
    except (ModelError, DataError) as error:
        return {}, {"direction": str(error), "features": str(error)}
    n_taught = 2 * len(pairs)
    biased, plain, shown = states[:n_taught:2], states[1:n_taught:2], states[n_taught:]

    def rewarded(values: FloatArray) -> Rewards:
        return Rewards({text_id(*text): float(value) for text, value in zip(texts, values, strict=True)})

    def direction(model: RewardModel) -> Removal:
        basis = _directions(biased, plain, lessons)
        along = (shown @ basis) @ basis.T
        rewards = {strength: rewarded(head_scores(model, shown - strength * along)) for strength in strengths}
        return Removal(rewards, {"pairs": len(pairs), "directions": basis.shape[1], "hidden_size": len(basis)})

    def features(model: RewardModel) -> Removal:
        margins = head_scores(model, biased) - head_scores(model, plain)
        first, second = (measured(side) for side in (responses[:n_taught:2], responses[1:n_taught:2]))
        differences = {name: first[name] - second[name] for name in first}
        fit = feature_correction(margins, differences, [prompt_id(prompt) for prompt, _, _ in pairs])
        base, of_texts = head_scores(model, shown), measured([text for _, text in texts])
        rewards = {strength: rewarded(fit.corrected(base, of_texts, strength)) for strength in strengths}
        return Removal(rewards, fit.to_json())

    removed: dict[str, Removal] = {}
    missing: dict[str, str] = {}
    for removal in (direction, features):
        try:
            removed[removal.__name__] = removal(reward_model)
        except DataError as error:
            missing[removal.__name__] = str(error)
    del reward_model
    free_memory()
    return removed, missing


def _directions(biased: FloatArray, plain: FloatArray, lessons: Mapping[str, Sequence[Comparison]]) -> FloatArray:
    """An orthonormal basis of the biases' directions, shape (hidden size, biases)."""
    ends = np.cumsum([len(own) for own in lessons.values()])[:-1]
    sides = zip(np.split(biased, ends), np.split(plain, ends), lessons.values(), strict=True)
    directions = [
        bias_direction(first, second, [prompt_id(prompt) for prompt, _, _ in own]) for first, second, own in sides
    ]
    return np.asarray(np.linalg.qr(np.column_stack(directions))[0], dtype=np.float64)
