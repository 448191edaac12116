"""Sequence classifiers and causal models of a recipe: what they need, and their scores."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import nullcontext
from dataclasses import replace
from functools import partial
from pathlib import Path

from cda.data.load import looks_like_path
from cda.errors import CdaError, ModelError
from cda.files.paths import user_path
from cda.launch import on_one_machine
from cda.models.load import ModelSpec, RewardModel, load_reward_model
from cda.recipe.load import LoadedRecipe
from cda.recipe.schema import ModelSection
from cda.recipe.scoring import policy_and_reference
from cda.resources.sources import model_source, model_spec
from cda.run import file_fingerprint, fingerprint
from cda.scorers.cache import ScoreCache, scope_of
from cda.scorers.classifier import ClassifierScorer
from cda.scorers.compared import Text
from cda.scorers.engine import Scores, score_texts
from cda.scorers.log_ratio import LogRatioScorer, Policy, adapter_off
from cda.scorers.protocols import OverLength
from cda.scorers.steering import Steering, read_vector, steered
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
            ClassifierScorer(
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
    return user_path(named) if named else loaded.recipe.run_path.parent / "score-cache.sqlite"


def specs(section: ModelSection, loaded: LoadedRecipe) -> tuple[ModelSpec, ModelSpec | None]:
    """The policy, and the reference where one is named; the model's revision is the policy's alone."""
    policy, reference = policy_and_reference(section.name_or_path)
    own = model_spec(section.model_copy(update={"name_or_path": policy}))
    if reference is None:
        return own, None
    revision = loaded.recipe.score.log_ratio.reference_revision
    return own, replace(model_spec(section.model_copy(update={"name_or_path": reference})), revision=revision)


def log_ratio_scorer(section: ModelSection, loaded: LoadedRecipe) -> LogRatioScorer:
    """Load what `dpo:` or `steered:` stands for.

    Raises:
        ModelError: Settings are missing, or a model or adapter cannot be used.
        DataError: The vector cannot be used.
    """
    from cda.models.causal import load_causal_model

    if problems := log_ratio_problems(section, loaded):
        raise ModelError("\n".join(problems))
    settings = loaded.recipe.score.log_ratio
    own, other = specs(section, loaded)
    adapter = _path(settings.adapter)
    causal = load_causal_model(own, adapter)
    policy, reference = Policy(causal), None
    if section.kind == "steered":
        vector = read_vector(user_path(str(settings.vector)), settings.tensor)
        policy, reference = steered(causal, Steering(vector, int(settings.layer or 0), settings.strength)), policy
    elif other is not None:
        reference = Policy(load_causal_model(other))
    elif adapter is not None and not settings.no_reference:
        reference = adapter_off(causal)
    batch_tokens = loaded.recipe.score.batch_tokens
    return LogRatioScorer(policy, reference, settings.beta, settings.per_token, batch_tokens, "  scoring")


def log_ratio_scope(scorer: LogRatioScorer, section: ModelSection, loaded: LoadedRecipe) -> str:
    """Name in the score cache of everything but the text and β that decides a log-ratio.

    β is a factor of the reward, so that what is kept is without it and serves every β. Files count by their content.
    """
    settings = loaded.recipe.score.log_ratio
    models = [one.causal for one in (scorer.policy, scorer.reference) if one is not None]
    return fingerprint(
        {
            "kind": section.kind,
            "models": [scope_of(one, one.adapter) for one in models],
            "settings": settings.model_dump(mode="json", include={"per_token", "tensor", "layer", "strength"}),
            "vector": _content(settings.vector),
        }
    )


def log_ratio_sources(section: ModelSection, loaded: LoadedRecipe) -> dict[str, object]:
    """What decides an audit of a log-ratio, as far as it is known before anything is loaded."""
    settings = loaded.recipe.score.log_ratio
    named = [one for one in specs(section, loaded) if one is not None]
    return {
        "kind": section.kind,
        "models": [
            [model_source(section.model_copy(update={"name_or_path": one.name_or_path})), one.revision, one.precision]
            for one in named
        ],
        "settings": settings.model_dump(mode="json"),
        "files": [_content(settings.adapter), _content(settings.vector)],
    }


def log_ratio_problems(section: ModelSection, loaded: LoadedRecipe) -> list[str]:
    """Settings that are missing or contradict each other, and files that are not there."""
    settings, name = loaded.recipe.score.log_ratio, section.name_or_path
    policy, reference = policy_and_reference(name)
    if not policy:
        return [f"{name}: names no model"]
    problems = []
    if section.kind == "steered":
        missing = [one for one in ("vector", "layer") if getattr(settings, one) is None]
        problems += [f"{name}: needs score.log_ratio.{one}=…" for one in missing]
        if reference is not None:
            problems.append(f"{name}: takes one model, which is compared with itself unsteered")
    elif reference is None and settings.adapter is None and not settings.no_reference:
        problems.append(
            f"{name}: against what? Name a reference ({name},REFERENCE), give the policy as an adapter "
            "(score.log_ratio.adapter=FOLDER), or ask for plain log-probability (score.log_ratio.no_reference=true)"
        )
    if reference is not None and settings.no_reference:
        problems.append(f"{name}: names a reference, and score.log_ratio.no_reference=true wants none; leave one out")
    adapter, vector = _path(settings.adapter), _path(settings.vector)
    if adapter is not None and not (adapter / "adapter_config.json").is_file():
        problems.append(f"score.log_ratio.adapter: {settings.adapter}: no adapter here (adapter_config.json)")
    if vector is not None:
        try:
            read_vector(vector, settings.tensor)
        except CdaError as error:
            problems.append(f"score.log_ratio.vector: {error}")
    return problems


def check_configs(section: ModelSection, loaded: LoadedRecipe) -> None:
    """Local models must be causal language models.

    Raises:
        ModelError: One is not.
    """
    from cda.models.causal import load_causal_config

    for spec in specs(section, loaded):
        if spec is not None and looks_like_path(spec.name_or_path):
            load_causal_config(spec)


def _path(given: str | None) -> Path | None:
    return None if given is None else user_path(given)


def _content(given: str | None) -> str | None:
    path = _path(given)
    return file_fingerprint(path) if path is not None and path.exists() else given
