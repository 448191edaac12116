"""Biases that nobody listed, from Python."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ExitStack
from functools import partial
from os import PathLike
from pathlib import Path

from cda.api.data import Data, Model, opened_model
from cda.api.results import Discovery
from cda.api.settings import MEMORY_TOKENS, Terms, loaded_for_model, named_apart, put, put_data
from cda.errors import RecipeError
from cda.stages.discover import DiscoverOptions, run_discover
from cda.stages.sources import run_path


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
        return Discovery(run_path(loaded), found.summary, found.result)
