"""Rewards of rewrites and their originals by a model that the user names or a recipe has."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from cda.config.load import LoadedRecipe, load_model_audit
from cda.config.scoring import kind_of
from cda.score.compared import Comparison, Rewards
from cda.stages.inspect_numbers import Looked
from cda.stages.scorer_kinds import Subject
from cda.stages.scorers import compare
from cda.stages.shown import shown_target
from cda.stages.sources import run_path
from cda.stages.subjects import check_subject


@dataclass(frozen=True, slots=True)
class Asked:
    """A model to be asked.

    Attributes:
        loaded: How.
        subject: It.
    """

    loaded: LoadedRecipe
    subject: Subject

    @property
    def name(self) -> str:
        return shown_target(self.subject.name)


def asked_of_recipe(loaded: LoadedRecipe) -> Asked:
    """A recipe's model, before its training."""
    return Asked(loaded, Subject("model", loaded.recipe.model))


def asked_target(target: str, folder: str, overrides: Sequence[str], confirmed: bool) -> Asked:
    """A model by name, with what of the overrides is about models.

    Args:
        target: As for `cda audit`.
        folder: Run folder beside which scores are kept.
        overrides: `section.key=value` words; those of other sections are somebody else's.
        confirmed: Spending was agreed to beforehand.

    Raises:
        RecipeError: A setting is wrong.
    """
    judges = kind_of(target) == "judge"
    own = [
        word
        for word in overrides
        if word.startswith(("score.", "llm.")) and not (judges and word.startswith("llm.model="))
    ]
    # What a recipe's model is called is not what this one is called.
    own += [word for word in overrides if word.startswith("model.") and not word.startswith("model.name_or_path=")]
    loaded = replace(load_model_audit(target, {"run": {"folder": folder}}, own), confirmed=confirmed)
    return Asked(loaded, Subject("model", loaded.recipe.model))


def check_asked(asked: Asked) -> None:
    """Find what can be found wrong before anything is rewritten or scored.

    Raises:
        CdaError: The model cannot be used.
    """
    check_subject(asked.subject, asked.loaded)


def with_rewards(rows: Sequence[Looked], asked: Asked) -> tuple[list[Looked], str]:
    """Rows with rewards of both texts, and the unit of the differences; a judge gives differences alone.

    Raises:
        CdaError: The model cannot be opened or asked.
    """
    written = [one for one in rows if one.seen.rewrite is not None]
    comparisons: list[Comparison] = [(one.seen.prompt, str(one.seen.rewrite), one.seen.original) for one in written]
    if not comparisons:
        return list(rows), "reward"
    run_path(asked.loaded).parent.mkdir(parents=True, exist_ok=True)
    compared, _ = compare(asked.subject, comparisons, asked.loaded)
    scored = {}
    for one, (prompt, rewrite, original), margin in zip(
        written, comparisons, compared.margins(comparisons), strict=True
    ):
        both = (compared.of(prompt, original), compared.of(prompt, rewrite)) if isinstance(compared, Rewards) else None
        told = None if both is None or np.isnan(both).any() else both
        scored[id(one)] = replace(one, rewards=told, difference=None if np.isnan(margin) else float(margin))
    return [scored.get(id(one), replace(one, rewards=None, difference=None)) for one in rows], compared.unit
