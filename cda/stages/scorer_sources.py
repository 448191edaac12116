"""What decides a scorer's answers, and what is missing to ask it; servers and own functions, made from a recipe."""

from __future__ import annotations

from typing import Any

from cda.config.load import LoadedRecipe
from cda.config.schema import ModelSection
from cda.config.scoring import Kind, bare_name, kind_of
from cda.data.load import looks_like_path
from cda.embedded.model import ADAPTERS, encoder_folder
from cda.models.load import load_config, load_template
from cda.run import fingerprint
from cda.score.own import OwnScorer, own_scorer
from cda.score.served import ServedScorer
from cda.stages.causal_scorers import check_configs, log_ratio_problems, log_ratio_sources
from cda.stages.sources import llm_client, model_source, model_spec


def served_scorer(section: ModelSection, loaded: LoadedRecipe) -> ServedScorer:
    """The reward model behind `served:URL` or an http address."""
    return ServedScorer(bare_name(section.name_or_path), loaded.recipe.score.served, label="  scoring")


def own(name: str, loaded: LoadedRecipe) -> OwnScorer:
    """The user's scorer: one that was handed over in memory, or the function of this name, whose file runs once in a run."""
    return loaded.opened.once(("scorer", name), lambda: own_scorer(name))


def scorer_source(section: ModelSection, loaded: LoadedRecipe) -> str:
    """Fingerprint of what answers: a model's content, a function's code, a server's address and the models it names."""
    kind = kind_of(section.name_or_path)
    if kind == "classifier":
        return fingerprint([model_source(section), model_spec(section).precision])
    if kind == "function":
        return fingerprint(own(section.name_or_path, loaded).settings)
    if kind == "served":
        scorer = served_scorer(section, loaded)
        scorer.check()  # asks which models there are
        return fingerprint(scorer.settings)
    return fingerprint(log_ratio_sources(section, loaded))


def scorer_settings(section: ModelSection, loaded: LoadedRecipe) -> dict[str, Any]:
    """What of `score.*` decides the answers of a model of this kind.

    Settings of other kinds, and those that say only how fast or where it is asked, leave a finished stage as it is.
    """
    kind, score = kind_of(section.name_or_path), loaded.recipe.score
    if kind == "classifier":
        return score.model_dump(mode="json", include={"batch_tokens", "over_length"})
    if kind == "judge":
        # The prompt's content holds the place of reasons and the orders, whoever has set them.
        options = score.judge.model_dump(mode="json", exclude={"prompt", "reasons", "orders"})
        return {"judge": options | {"told": loaded.prompts.judge.model_dump(mode="json")}}
    if kind == "served":
        return {"served": score.served.model_dump(mode="json", exclude={"concurrency", "api_key_env", "check_raw"})}
    if kind == "function":
        return {}
    return score.model_dump(mode="json", include={"batch_tokens", "log_ratio"})


def scorer_problems(section: ModelSection, loaded: LoadedRecipe) -> list[str]:
    """What can be found wrong before anything is asked; of models on a hub, nothing.

    Raises:
        CdaError: A local model or a function cannot be used.
    """
    kind, name = kind_of(section.name_or_path), section.name_or_path
    if kind == "classifier":
        if name in ADAPTERS:
            encoder_folder()
        elif looks_like_path(name):
            spec = model_spec(section)
            load_template(spec, load_config(spec))
        return []
    problems = _of_classifiers_alone(loaded, kind)
    if kind == "judge":
        return [*problems, *llm_client(loaded.recipe.llm).check()]
    if kind == "served":
        return [*problems, *served_scorer(section, loaded).check()]
    if kind == "function":
        own(name, loaded)
        return problems
    problems += log_ratio_problems(section, loaded)
    if not problems:
        check_configs(section, loaded)
    return problems


def _of_classifiers_alone(loaded: LoadedRecipe, kind: Kind) -> list[str]:
    """Settings that another kind of scorer would ignore."""
    score, problems = loaded.recipe.score, []
    if score.over_length != "cut":
        also = "; score.served.too_long says it of a server" if kind == "served" else ""
        problems.append(f"score.over_length={score.over_length}: of sequence classifiers alone{also}")
    if score.workers not in ("auto", 1):
        also = {
            "served": "; score.served.concurrency says how many texts a server is asked at once",
            "judge": "; llm.concurrency says how much a judge is asked at once",
        }.get(kind, "")
        problems.append(f"score.workers={score.workers}: of sequence classifiers alone{also}")
    return problems
