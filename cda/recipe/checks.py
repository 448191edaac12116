"""Mistakes of a recipe that no single setting shows: settings, bias files and prompts that do not go together."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from cda.biases import Bias, builtin_names
from cda.data.load import looks_like_path
from cda.embedded.model import ADAPTERS
from cda.errors import did_you_mean, near
from cda.files.paths import near_path
from cda.keys import address_problem, variable_problem
from cda.prompts import Prompts
from cda.prompts.load import places
from cda.recipe.presets import names_in, recipes_folder, value_at
from cda.recipe.schema import Recipe
from cda.recipe.scoring import bare_name, judges_of, kind_of


def cross_checks(recipe: Recipe, biases: Sequence[Bias]) -> Iterator[str]:
    """Mistakes of settings and bias files that were loaded, each in a line."""
    names = [bias.name for bias in biases]
    if len(set(names)) != len(names):
        yield f"biases: two bias files share a name ({', '.join(names)})"
    known = {*names, *builtin_names(), "joint"}
    for setting in ("counterfactuals", "supplementary"):
        counts = getattr(recipe.synthesize, setting)
        if not isinstance(counts, dict):
            continue
        for name in counts:
            if name not in known:
                yield (
                    f"synthesize.{setting}.{name}: no such bias here.{did_you_mean(name, known)} Known: {', '.join(sorted(known))}"
                )
        for name in () if len(names) > 1 and "joint" in counts else names:
            if name not in counts:
                yield (
                    f"synthesize.{setting}: has no number for '{name}'; add synthesize.{setting}.{name}=<number of pairs>, or "
                    f"give one number for all: synthesize.{setting}=<number of pairs>"
                )
    for number, objective in enumerate(recipe.objectives):
        for name in objective.target if isinstance(objective.target, dict) else ():
            if name not in names:
                yield (
                    f"objectives.{number}.target.{name}: not a bias of this recipe.{did_you_mean(name, names)} "
                    f"Its biases: {', '.join(names)}"
                )
    if recipe.synthesize.counterfactuals == 0 and recipe.data.contrasts is None:
        yield "synthesize.counterfactuals is 0 and data.contrasts is not set, so nothing debiases; give one of them"
    llm = recipe.llm
    if llm.budget_usd is not None and llm.model is not None and llm.model not in llm.prices:
        yield (
            f"llm.budget_usd: no price of '{llm.model}' is known, so that spending cannot be limited; give "
            f"llm.prices='{{{llm.model}: {{input: <$ per million tokens>, output: <…>}}}}'"
        )
    for section, by in (("label", recipe.label.by), ("synthesize", recipe.synthesize.by)):
        if by == "llm" and llm.model is None:
            yield f"{section}.by is llm, but llm.model is not set"


def prompt_problems(recipe: Recipe, prompts: Prompts, biases: Sequence[Bias]) -> Iterator[str]:
    """Prompts that do not go with the recipe's other settings."""
    judge = recipe.score.judge
    if judge.by_token and judge.reasons is not None:
        yield (
            f"score.judge.reasons={judge.reasons}: a verdict of one token (score.judge.by_token) has no reasons; leave one of "
            "them out"
        )
    about_messages = [bias.name for bias in biases if bias.query_question is not None]
    for name, text in (("pair.user", prompts.label.pair.user), ("single.user", prompts.label.single.user)):
        if about_messages and "user_message" not in places(text):
            yield (
                f"label.prompt: {recipe.label.prompt}: {name}: needs {{user_message}} for '{about_messages[0]}', which asks a "
                "question about it (query_question)"
            )
    with_lengths = [bias.name for bias in biases if bias.min_words_of_chosen is not None]
    if with_lengths and "length" not in places(prompts.rewrite.user):
        yield (
            f"rewrite.prompt: {recipe.rewrite.prompt}: user: needs {{length}} for '{with_lengths[0]}', whose rewrites must have "
            "a number of words"
        )


def model_problems(name: str, llm: str | None, only_audit: bool) -> Iterator[str]:
    """Mistakes in the model's name: nothing named, a judge that is not the LLM, a model that cannot be trained."""
    kind = kind_of(name)
    if not bare_name(name).strip():
        yield f"{name}: names no model after the colon"
    elif kind == "judge":
        yield from _judge_problems(name, llm)
    if kind != "classifier" and not only_audit:
        yield (
            f"model.name_or_path: {name} cannot be trained; give a sequence classifier (`cda audit {name}` measures it as it is)"
        )


def _judge_problems(name: str, llm: str | None) -> Iterator[str]:
    """Mistakes in the names of a judge or a panel, of which the first one stands for the LLM of everything else."""
    judges = judges_of(name)
    if "" in judges:
        yield f"{name}: names no judge beside one of its commas; a panel is judge:NAME,NAME"
    yield from (f"{name}: names {judge} twice" for judge in dict.fromkeys(judges) if judge and judges.count(judge) > 1)
    if llm not in judges:
        one = f"the judge is {judges[0]}; name another as judge:NAME"
        several = f"the judges are {', '.join(judges)}; name one of them, or others as judge:NAME,NAME"
        yield f"llm.model={llm}: {one if len(judges) == 1 else several}"


def misspelt_model(name: str) -> list[str]:
    """A model's name that is nowhere here and almost that of something that is: no half minute is spent to ask the hub for it."""
    if kind_of(name) != "classifier" or looks_like_path(name) or name in ADAPTERS:
        return []
    known = [] if "/" in name else [*ADAPTERS, *names_in(recipes_folder()), *names_in(recipes_folder() / "models")]
    close = near(name, known) or near_path(name)
    if close is None:
        return []
    return [f"{name}: no model of this name is here. Did you mean '{close}'? (A model on the hub is OWNER/NAME)"]


def written_keys(settings: Mapping[str, object]) -> Iterator[tuple[str, str]]:
    """Values that hold a key, and a message about each without it, before they reach a file or the terminal."""
    for section in (("llm",), ("score", "served")):
        name = value_at(settings, *section, "api_key_env")
        if isinstance(name, str) and (problem := variable_problem(name)):
            yield name, f"{'.'.join(section)}.api_key_env: {problem}"
    address, model = value_at(settings, "llm", "base_url"), value_at(settings, "model", "name_or_path")
    if isinstance(address, str) and (problem := address_problem(address)):
        yield address, f"llm.base_url: {problem} (llm.api_key_env)"
    if isinstance(model, str) and kind_of(model) == "served" and (problem := address_problem(bare_name(model))):
        yield bare_name(model), f"model.name_or_path: the address {problem} (score.served.api_key_env)"
