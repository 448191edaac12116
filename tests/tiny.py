"""Loading and scoring with the tiny models of conftest.py."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from cda.arrays import FloatArray
from cda.errors import CdaError
from cda.models.causal import CausalModel, load_causal_model
from cda.models.config import ModelSpec, Precision
from cda.models.load import RewardModel, load_reward_model
from cda.scorers.classifier import ClassifierScorer

if TYPE_CHECKING:
    from conftest import Texts


def load(folder: Path, adapter: Path | None = None, precision: Precision = "fp32", limit: int = 64) -> RewardModel:
    return load_reward_model(ModelSpec(str(folder), precision, limit), adapter)


def load_causal(
    folder: Path, adapter: Path | None = None, precision: Precision = "fp32", limit: int = 64
) -> CausalModel:
    return load_causal_model(ModelSpec(str(folder), precision, limit), adapter)


def scores_of(reward_model: RewardModel, texts: Texts, batch_tokens: int = 1) -> FloatArray:
    return ClassifierScorer(reward_model, batch_tokens).score(texts.prompts, texts.responses)


def message_of(call: Callable[[], object], kind: type[CdaError] = CdaError) -> str:
    """The message of the error that a call raises."""
    with pytest.raises(kind) as error:
        call()
    return str(error.value)


def edit_json(file: Path, **changes: object) -> None:
    """Set keys of a JSON object in a file."""
    file.write_text(json.dumps(json.loads(file.read_text(encoding="utf-8")) | changes), encoding="utf-8")
