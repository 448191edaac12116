"""Audits and trainings from Python."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ExitStack
from functools import partial
from os import PathLike
from pathlib import Path

from cda.api.data import Data, Model, opened_model
from cda.api.results import Audit, Discovery, Run
from cda.api.settings import MEMORY_TOKENS, Biases, Terms, bias_names, loaded_for_model, named_apart, put, put_data
from cda.discovery.discover import DiscoverOptions, run_discover
from cda.errors import RecipeError
from cda.pipeline.stages import run_stages
from cda.recipe.load import is_recipe, load_recipe


def audit(
    target: Model,
    /,
    *,
    biases: Biases | None = None,
    contrasts: Data | None = None,
    votes: Data | None = None,
    verdicts: Data | None = None,
    quality: Data | None = None,
    triples: Data | None = None,
    out: str | Path | None = None,
    budget_usd: float | None = None,
    confirm: bool = False,
    progress: bool = True,
    **settings: object,
) -> Audit:
    """Measure one reward model or judge as it is, as `cda audit` does.

    Args:
        target: Hub id, folder, `embedded`, `judge:NAME`, `served:URL`, `dpo:POLICY,REFERENCE`, `steered:MODEL` or
            `module:function`; a function (prompts, responses) -> rewards of shape (n,), or (prompts, first, second) ->
            preferences from −1 to 1; or (model, tokenizer). A function gets each prompt as a list of messages.
        biases: Names or bias files; None for all five.
        contrasts: Rows of prompt, base and perturbed; None for the embedded ones.
        votes: People's votes on them: rows of id and vote.
        verdicts: LLM judges' verdicts on them, to stretch few votes.
        quality: Preference pairs for accuracy; `"none"` for no such check.
        triples: RATE triples of your own; `"none"` for no RATE.
        out: Folder of the run; None for runs/audit-<model>. What it holds already is reused, but for objects in memory.
        budget_usd: Dollars that may be spent on LLMs; where the estimate is above, nothing is spent.
        confirm: Agree to what asking an LLM will cost.
        progress: Whether progress bars are shown.
        settings: By the recipe's names: `seed=1`, `model={"precision": "fp32"}`, or `**{"model.precision": "fp32"}`.

    Returns:
        The audit; its `folder` has the report, the scores behind it, and everything else.

    Raises:
        RecipeError: A wrong setting, or several; all at once.
        DataError: Data that cannot be used.
        ModelError: A model or function that cannot be used, or returned something else than a number for each text.
        SpendingError: It would cost money that was not agreed to.
        CdaError: Base of all of these, and of what else a user can act on.

    Example:
        >>> import cda
        >>> def longer(prompts, responses):
        ...     return [len(response) for response in responses]
        >>> found = cda.audit(longer, biases="length", quality="none", progress=False)  # doctest: +SKIP
        >>> found.skew["length"].before.value  # doctest: +SKIP
        1.0
    """
    if isinstance(target, str) and is_recipe(target):
        raise RecipeError(
            [f"cda.audit: {target} is a recipe; cda.train('{target}') trains and audits it. Give a model here"]
        )
    terms = Terms(out, budget_usd, confirm, progress)
    found = terms.settings(settings)
    if (named := bias_names(biases)) is not None:
        found["biases"] = named
    put_data(
        found,
        terms,
        {
            "audit.contrasts": ("contrasts", contrasts),
            "audit.votes": ("votes", votes),
            "audit.verdicts": ("verdicts", verdicts),
            "audit.quality": ("quality", quality),
            "audit.triples": ("triples", triples),
        },
    )
    with loaded_for_model(target, found, terms, "cda.audit") as loaded:
        return Run(run_stages(loaded).path).audit


def train(
    recipe: str | Path,
    /,
    *,
    model: str | Path | dict[str, object] | None = None,
    pairs: Data | None = None,
    biases: Biases | None = None,
    contrasts: Data | None = None,
    votes: Data | None = None,
    quality: Data | None = None,
    out: str | Path | None = None,
    budget_usd: float | None = None,
    confirm: bool = False,
    progress: bool = True,
    **settings: object,
) -> Run:
    """The whole job, as `cda train` does: label, synthesize, finetune, choose the dose, audit before and after, report.

    Started again with the same settings it goes on from what is finished. Under `accelerate launch` all processes call it.

    Args:
        recipe: Path of a recipe or of a bias file, or the name of a shipped recipe (`jargon`, `length`, …).
        model: Hub id or folder of the reward model; or the recipe's section, such as `{"preset": "skywork-llama-8b"}`.
        pairs: Preference pairs to debias on: prompt, chosen, rejected.
        biases: Names or bias files, in place of the recipe's.
        contrasts: Contrasts to audit on: prompt, base, perturbed.
        votes: People's votes on them: rows of id and vote.
        quality: Preference pairs for accuracy; `"none"` for no such check.
        out: Folder of the run; None for runs/<recipe>.
        budget_usd: Dollars that may be spent on LLMs; where the estimate is above, nothing is spent.
        confirm: Agree to what asking an LLM will cost.
        progress: Whether progress bars are shown.
        settings: By the recipe's names: `seed=1`, `lora={"r": 8}`, `train={"max_steps": 20}`, `**{"lora.r": 8}`.

    Returns:
        The run: its `adapter` (a PEFT folder), `audit` and `folder`.

    Raises:
        RecipeError: A wrong setting, or several; all at once.
        DataError: Data that cannot be used.
        ModelError: A model that cannot be used.
        SpendingError: It would cost money that was not agreed to.
        CdaError: Base of all of these, and of what else a user can act on.

    Example:
        >>> import cda
        >>> run = cda.train("jargon", model="my-org/my-reward-model", pairs="my-org/my-preferences")  # doctest: +SKIP
        >>> run.audit.skew["jargon"].change  # doctest: +SKIP
    """
    terms = Terms(out, budget_usd, confirm, progress)
    found = terms.settings(settings)
    if not isinstance(model, str | Path | dict | None):
        raise RecipeError(
            [
                f"cda.train: model: found a {type(model).__name__}; a training loads its model by name or folder "
                "(model.save_pretrained and tokenizer.save_pretrained write one)"
            ]
        )
    if model is not None:
        put(found, ("model",), model if isinstance(model, dict) else {"name_or_path": str(model)})
    if (named := bias_names(biases)) is not None:
        found["biases"] = named
    put_data(
        found,
        terms,
        {
            "data.pairs": ("pairs", pairs),
            "audit.contrasts": ("contrasts", contrasts),
            "audit.votes": ("votes", votes),
            "audit.quality": ("quality", quality),
        },
    )
    with terms.kept():
        return Run(run_stages(terms.agreed(load_recipe(str(recipe), settings=found))).path)


def discover(
    model: Model,
    /,
    *,
    judge: Model | None = None,
    adapter: str | Path | None = None,
    dose: float | None = None,
    attributes: Sequence[str | Path] = (),
    formats: bool = False,
    responses: Data | None = None,
    prompts: Data | None = None,
    review: bool = False,
    out: str | Path | None = None,
    budget_usd: float | None = None,
    confirm: bool = False,
    progress: bool = True,
    **settings: object,
) -> Discovery:
    """Find attributes that a model rewards and a judge does not, and confirm them on unseen prompts, as `cda discover` does.

    Args:
        model: As for `cda.audit`.
        judge: What it is held against: `judge:NAME`, any other model, or an object; None: the LLM of `llm.model`, and without
            one the embedded judge.
        adapter: Search the model with it; held against the model without it.
        dose: How much of the adapter; None: the dose chosen in a run, 1 of an adapter.
        attributes: No search: measure these, in words or as bias files.
        formats: No search: measure the shipped format attributes.
        responses: Rows of prompts with sampled responses; None: sampled by the LLM.
        prompts: Rows of prompts to answer; None: written on twenty topics.
        review: Stop before the last test, for a person to drop candidates.
        out: Folder for what is made; None for runs/discover-<model>-<what is asked>.
        budget_usd: Dollars that may be spent on LLMs.
        confirm: Agree to what asking an LLM will cost.
        progress: Whether progress bars are shown.
        settings: By the recipe's names, such as `discover={"generations": 3}`.

    Returns:
        The folder with a report, and a bias file for each confirmed attribute.

    Raises:
        CdaError: As `cda.audit`.

    Example:
        >>> import cda
        >>> found = cda.discover("my-org/my-reward-model", judge="judge:gpt-4o", budget_usd=20)  # doctest: +SKIP
        >>> run = cda.train(found.biases[0], model="my-org/my-reward-model")  # doctest: +SKIP
    """
    terms = Terms(out, budget_usd, confirm, progress)
    given = terms.settings(settings)
    put_data(given, terms, {"discover.responses": ("responses", responses), "discover.prompts": ("prompts", prompts)})
    with ExitStack() as stack:
        scorer = None
        if judge is not None:
            name, scorer = stack.enter_context(opened_model(judge, MEMORY_TOKENS))
            put(given, ("discover", "judge"), name)
        words = [*map(str, attributes), *(f"{name}={value}" for name, value in sorted(given.items()))]
        target = str(model) if isinstance(model, str | PathLike) else "memory"
        named = partial(
            named_apart, "discover", target, {"with": adapter, "at": dose, "formats": formats or None}, words
        )
        loaded = stack.enter_context(loaded_for_model(model, given, terms, "cda.discover", named))
        if scorer is not None:
            if name == loaded.recipe.model.name_or_path:
                raise RecipeError([f"model and judge: two objects of the name {name}; rename one of the functions"])
            loaded.opened.once(("scorer", name), lambda: scorer)
        options = DiscoverOptions(
            None if adapter is None else str(adapter), dose, tuple(map(str, attributes)), formats, review
        )
        found = run_discover(loaded, options)
        return Discovery(loaded.recipe.run_path, found.summary, found.result)
