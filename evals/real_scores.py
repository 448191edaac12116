"""Scores of texts by the real reward model at a dose of an adapter, kept on disk so that nothing is scored twice."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from cda.files.jsonl import read_json, write_json
from cda.models.load import ModelSpec, free_memory, load_reward_model
from cda.records import Contrast, Pair
from cda.scorers.classifier import ClassifierScorer
from cda.scorers.compared import text_id
from cda.scorers.engine import score_texts
from cda.training.dose import DosedModel

Scores = Mapping[str, float]


class Scored:
    """One file of scores for each adapter and dose.

    Args:
        folder: Where the files are.
        spec: The base model.
    """

    def __init__(self, folder: Path, spec: ModelSpec) -> None:
        self.folder, self.spec = folder, spec

    def margins(
        self, adapter: Path | None, dose: float, pairs: Sequence[Pair]
    ) -> np.ndarray[Any, np.dtype[np.float64]]:
        """score(chosen) − score(rejected) of each pair by the base (dose 0) or by an adapter at a dose."""
        scores = self._at(
            adapter, dose, [(pair.prompt, text) for pair in pairs for text in (pair.chosen, pair.rejected)]
        )
        return np.array(
            [scores[text_id(pair.prompt, pair.chosen)] - scores[text_id(pair.prompt, pair.rejected)] for pair in pairs]
        )

    def _at(self, adapter: Path | None, dose: float, texts: Sequence[tuple[Any, str]]) -> Scores:
        base = adapter is None or dose == 0
        path = self.folder / f"{'base' if base or adapter is None else adapter.parent.name}-{dose:g}.json"
        found: dict[str, float] = read_json(path) if path.is_file() else {}
        missing = [one for one in texts if text_id(*one) not in found]
        if missing:
            reward_model = load_reward_model(self.spec, None if base else adapter)
            if not base:
                DosedModel(reward_model).set(dose)
            found |= dict(score_texts(ClassifierScorer(reward_model, None, f"  {path.stem}"), missing).by_text)
            path.parent.mkdir(parents=True, exist_ok=True)
            write_json(path, found)
            del reward_model
            free_memory()
        return found


def as_pairs(contrasts: Sequence[Contrast]) -> list[Pair]:
    """Contrasts as pairs whose margin is score(perturbed) − score(base)."""
    return [Pair(one.prompt, one.perturbed, one.base) for one in contrasts]
