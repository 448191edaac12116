"""Tiny copies of published reward models, scored here and by their authors' method."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from cda.arrays import FloatArray
from cda.models.config import ModelSpec
from cda.models.load import RewardModel, load_reward_model
from cda.records import user_prompt
from cda.scorers.classifier import ClassifierScorer
from evals.reliability.reward_models_families import FAMILIES, TEXTS, Family

LENGTHY = 1024


def family(title: str) -> Family:
    (found,) = [one for one in FAMILIES if one.title == title]
    return found


def built(title: str, folder: Path, name: str | None = None) -> Path:
    """The tiny copy of a model, under its published name if no other is given."""
    own = family(title)
    place = folder / (name or (own.hub_ids[0].rpartition("/")[2] if own.hub_ids else "tiny"))
    own.build(place)
    return place


def spec_of(folder: Path, precision: str = "fp32", **options: object) -> ModelSpec:
    return ModelSpec(str(folder), precision, LENGTHY, **options)  # type: ignore[arg-type]


def scored(loaded: RewardModel, batch_tokens: int = 1) -> FloatArray:
    """Rewards of the evals' texts; 1: each alone."""
    prompts, responses = zip(*TEXTS, strict=True)
    return ClassifierScorer(loaded, batch_tokens).score([user_prompt(prompt) for prompt in prompts], list(responses))


def by_author(title: str, folder: Path) -> FloatArray:
    return np.array([family(title).reference(folder, *text) for text in TEXTS])


def assert_as_the_author(title: str, folder: Path, **options: object) -> None:
    """Alone and padded in one batch; the texts are well apart."""
    loaded, wanted = load_reward_model(spec_of(folder, **options)), by_author(title, folder)
    assert np.ptp(wanted) > 0.05
    np.testing.assert_allclose(scored(loaded), wanted, atol=1e-4)
    np.testing.assert_allclose(scored(loaded, 4096), wanted, atol=1e-4)


def assert_near_in_8bit(title: str, folder: Path, **options: object) -> None:
    loaded, wanted = load_reward_model(spec_of(folder, "8bit", **options)), by_author(title, folder)
    found = scored(loaded, 4096)
    assert np.isfinite(found).all()
    assert np.abs(found - wanted).max() < 0.15 * np.ptp(wanted)
