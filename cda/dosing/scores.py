"""Rewards of the voted contrasts and quality pairs at every dose of an adapter, and what training-free removals make of them."""

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
from cda.recipe.load import LoadedRecipe
from cda.records import prompt_id
from cda.resources.model_scorers import classifier_scores
from cda.resources.named_scorer import scorer_settings, told_cached
from cda.resources.sources import model_spec
from cda.scorers.compared import Comparison, Rewards, Text, text_id
from cda.scorers.posthoc import FeatureCorrection, bias_direction, feature_correction, head_inputs, head_scores
from cda.stats.drift import measured
from cda.training.dose import DosedModel


@dataclass(frozen=True, slots=True)
class Removal:
    """A removal without training: rewards of the texts at each strength.

    Attributes:
        by_strength: Strength to rewards; strength 0 is the base model.
        fitted: What was fitted, for the report.
    """

    by_strength: Mapping[float, Rewards]
    fitted: dict[str, JsonValue]


def dosed_rewards(
    loaded: LoadedRecipe, adapter: Path, doses: Sequence[float], texts: Sequence[Text]
) -> dict[float, Rewards]:
    """Rewards at each dose by the same weights-space curve that is exported; what was scored before is not again.

    Dose 0 is scored without the adapter and dose 1 with it as trained, so that the audit finds their scores.

    Args:
        loaded: The recipe: its model, and how texts are scored.
        adapter: As trained.
        doses: λ, none twice.
        texts: What to score.
    """
    spec, found = model_spec(loaded.recipe.model), {}
    if 0 in doses:
        base = load_reward_model(spec)
        found[0.0] = _scored(base, texts, loaded, None, 1.0, "  dose 0")
        del base
        free_memory()
    reward_model = load_reward_model(spec, adapter)
    dosed = DosedModel(reward_model)
    for dose in doses:
        if dose:
            dosed.set(dose)
            found[dose] = _scored(reward_model, texts, loaded, adapter, dose, f"  dose {dose:g}")
    del reward_model, dosed
    free_memory()
    return found


def _scored(
    reward_model: RewardModel,
    texts: Sequence[Text],
    loaded: LoadedRecipe,
    adapter: Path | None,
    dose: float,
    label: str,
) -> Rewards:
    scores = classifier_scores(reward_model, texts, scorer_settings(loaded), label, adapter=adapter, dose=dose)
    if scores.n_cached:
        say(f"{label}: {told_cached(scores.n_cached, scores.n_texts)}")
    return scores.compared()


def read_alike(rewards: Rewards, curve: Iterable[Rewards]) -> Rewards:
    """The same rewards, with nothing said of texts that a curve of the same model and texts says nothing of.

    What is taken off a model's states is computed for every text; a comparison that the curve leaves out, because a text
    is too long or both sides are the same after the cut, must be left out here too, or two ways are measured on two sets.
    """
    others = list(curve)
    unread = {name: math.nan for one in others for name, value in one.by_text.items() if math.isnan(value)}
    read = {name: cut for one in others for name, cut in one.same_input.items()}
    return replace(rewards, by_text={**rewards.by_text, **unread}, same_input=read)


def removals(
    spec: ModelSpec,
    lessons: Mapping[str, Sequence[Comparison]],
    texts: Sequence[Text],
    strengths: Sequence[float],
    batch_tokens: int | None,
) -> tuple[dict[str, Removal], dict[str, str]]:
    """What can be had without training: measured features, and a direction of the hidden states, taken off the base model.

    Both are fitted on the training counterfactuals, and on nothing that is reported on. Each bias has a direction of its own,
    since differences of several would cancel in their mean; all of them are taken out together.

    Args:
        spec: Base model.
        lessons: For each bias prompt, biased side, unbiased side of each counterfactual.
        texts: What is reported on.
        strengths: How much is taken off.
        batch_tokens: Padded tokens in a batch.

    Returns:
        Removals by name, and why one could not be made.
    """
    reward_model = load_reward_model(spec)
    every = [one for own in lessons.values() for one in own]
    taught = [(prompt, text) for prompt, biased, plain in every for text in (biased, plain)]
    asked = [*taught, *texts]
    try:
        states = head_inputs(
            reward_model, [one[0] for one in asked], [one[1] for one in asked], batch_tokens, "  base model"
        )
    except (ModelError, DataError) as error:
        return {}, {"direction": str(error), "features": str(error)}
    biased, plain, shown = states[: len(taught) : 2], states[1 : len(taught) : 2], states[len(taught) :]
    found: dict[str, Removal] = {}
    missing: dict[str, str] = {}
    try:
        directions = _directions(biased, plain, lessons)
        found["direction"] = _projected(reward_model, shown, texts, directions, strengths, len(every))
    except DataError as error:
        missing["direction"] = str(error)
    try:
        margins = head_scores(reward_model, biased) - head_scores(reward_model, plain)
        fit = _features(margins, every)
        found["features"] = _corrected(fit, head_scores(reward_model, shown), texts, strengths)
    except DataError as error:
        missing["features"] = str(error)
    del reward_model
    free_memory()
    return found, missing


def _directions(biased: FloatArray, plain: FloatArray, lessons: Mapping[str, Sequence[Comparison]]) -> FloatArray:
    """An orthonormal basis of the biases' directions, shape (hidden size, biases)."""
    found, start = [], 0
    for own in lessons.values():
        rows = slice(start, start + len(own))
        prompts = [prompt_id(prompt) for prompt, _, _ in own]
        found.append(bias_direction(biased[rows], plain[rows], prompts))
        start += len(own)
    basis, _ = np.linalg.qr(np.column_stack(found))
    return np.asarray(basis, dtype=np.float64)


def _projected(
    reward_model: RewardModel,
    states: FloatArray,
    texts: Sequence[Text],
    directions: FloatArray,
    strengths: Sequence[float],
    n: int,
) -> Removal:
    along = (states @ directions) @ directions.T
    rewards = {
        strength: _rewards(texts, head_scores(reward_model, states - strength * along)) for strength in strengths
    }
    return Removal(rewards, {"pairs": n, "directions": directions.shape[1], "hidden_size": len(directions)})


def _features(margins: FloatArray, lessons: Sequence[Comparison]) -> FeatureCorrection:
    biased, plain = measured([one[1] for one in lessons]), measured([one[2] for one in lessons])
    differences = {name: biased[name] - plain[name] for name in biased}
    return feature_correction(margins, differences, [prompt_id(prompt) for prompt, _, _ in lessons])


def _corrected(
    fit: FeatureCorrection, rewards: FloatArray, texts: Sequence[Text], strengths: Sequence[float]
) -> Removal:
    features = measured([text for _, text in texts])
    by_strength = {one: _rewards(texts, fit.corrected(rewards, features, one)) for one in strengths}
    return Removal(by_strength, fit.to_json())


def _rewards(texts: Sequence[Text], values: FloatArray) -> Rewards:
    return Rewards({text_id(*text): float(value) for text, value in zip(texts, np.asarray(values), strict=True)})
