"""Sequence classifiers of a recipe: a text is scored by one path in training, audit and dose, and kept for all of them."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import nullcontext
from functools import partial
from pathlib import Path

from cda.config.load import LoadedRecipe
from cda.files.paths import user_path
from cda.launch import on_one_machine
from cda.models.load import ModelSpec, RewardModel, load_reward_model
from cda.score.cache import ScoreCache, scope_of
from cda.score.distinct import Text
from cda.score.engine import Scores, score_texts
from cda.score.many import ManyTextsScorer
from cda.score.protocols import OverLength
from cda.stages.sources import run_path
from cda.training.dose import DosedModel


def classifier_scores(
    reward_model: RewardModel,
    texts: Iterable[Text],
    loaded: LoadedRecipe,
    label: str | None,
    *,
    adapter: Path | None = None,
    dose: float = 1.0,
    over_length: OverLength | None = None,
    launched: Path | None = None,
) -> Scores:
    """Reward of every distinct text, as `score.*` of the recipe says; what was scored before is taken from the cache.

    Args:
        reward_model: As loaded, its adapter at the dose.
        texts: Prompt and response; repeats are allowed.
        loaded: The recipe.
        label: Shown beside the progress bar; None for no bar.
        adapter: Folder it was loaded with.
        dose: At which the adapter is applied.
        over_length: What becomes of texts that are too long; None for what the recipe says.
        launched: Folder in which the processes of a launch hand each other their shares. All of them have to call this
            then, with the same texts.

    Raises:
        ModelError: A reward is NaN or infinite, or texts are too long where these are refused.
        RunError: The cache cannot be used, or another process of the launch failed.
    """
    settings = loaded.recipe.score
    # Several machines share no SQLite file; what a launch has scored is kept by its own files.
    path = cache_file(loaded) if on_one_machine() else None
    with ScoreCache(path) if path else nullcontext() as cache:
        return score_texts(
            ManyTextsScorer(
                reward_model,
                settings.batch_tokens,
                label,
                over_length=over_length or settings.over_length,
                workers=settings.workers,
                load=partial(load_dosed, reward_model.spec, adapter, dose),
            ),
            texts,
            cache=cache,
            scope=scope_of(reward_model, adapter, dose) if path or launched else None,
            launched=launched,
        )


def load_dosed(spec: ModelSpec, adapter: Path | None, dose: float) -> RewardModel:
    """A reward model with its adapter at a dose; picklable by name, for workers."""
    reward_model = load_reward_model(spec, adapter)
    if adapter is not None and dose != 1:
        DosedModel(reward_model).set(dose)
    return reward_model


def told_cached(n_cached: int, n_texts: int) -> str:
    """How many scores are from before, as part of a line for the terminal.

    >>> told_cached(3, 8)
    '3 of 8 texts were scored before'
    """
    if n_cached < n_texts:
        return f"{n_cached} of {n_texts} texts were scored before"
    return f"all {n_texts} texts were scored before, and no score is new; score.cache=none scores them again"


def cache_file(loaded: LoadedRecipe) -> Path | None:
    """File of scores: one for all runs that lie beside each other; None where the recipe wants none."""
    named = loaded.recipe.score.cache
    if named == "none":
        return None
    return user_path(named) if named else run_path(loaded).parent / "score-cache.sqlite"
