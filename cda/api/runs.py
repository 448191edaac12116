"""Audits and trainings from Python."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import overload

from cda.api.arguments import (
    Biases,
    Confirm,
    Model,
    Terms,
    check_types,
    loaded_for_model,
    loaded_for_two,
    path_text,
    put,
    refuse_recipe,
    refuse_results,
)
from cda.api.panels import audit_panel
from cda.api.results import Audit, Discovery, Panel, Run, carry_out
from cda.api.rows import Data, as_reference
from cda.discovery.discover import DiscoverOptions, run_discover
from cda.errors import RecipeError, type_in_words
from cda.recipe.load import is_recipe, load_recipe
from cda.resources.artifacts import check_form

_BY_NAME = (
    "a training loads its model by name or folder (model.save_pretrained and tokenizer.save_pretrained write one)"
)
STAGES = ("label", "synthesize", "train", "dose", "audit", "report")


@overload
def audit(
    target: list[Model],
    /,
    *,
    biases: Biases | None = None,
    contrasts: Data | None = None,
    votes: Data | None = None,
    verdicts: Data | None = None,
    quality: Data | None = None,
    triples: Data | None = None,
    figures: str | None = None,
    out: str | Path | None = None,
    budget_usd: float | None = None,
    confirm: Confirm = False,
    progress: bool = True,
    limit: int | None = None,
    fresh: bool = False,
    overrides: Sequence[str] | None = None,
    **settings: object,
) -> Panel: ...


@overload
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
    figures: str | None = None,
    out: str | Path | None = None,
    budget_usd: float | None = None,
    confirm: Confirm = False,
    progress: bool = True,
    limit: int | None = None,
    fresh: bool = False,
    overrides: Sequence[str] | None = None,
    **settings: object,
) -> Audit: ...


def audit(
    target: Model | list[Model],
    /,
    *,
    biases: Biases | None = None,
    contrasts: Data | None = None,
    votes: Data | None = None,
    verdicts: Data | None = None,
    quality: Data | None = None,
    triples: Data | None = None,
    figures: str | None = None,
    out: str | Path | None = None,
    budget_usd: float | None = None,
    confirm: Confirm = False,
    progress: bool = True,
    limit: int | None = None,
    fresh: bool = False,
    overrides: Sequence[str] | None = None,
    **settings: object,
) -> Audit | Panel:
    """Measure one reward model or judge as it is, or several next to each other, as `cda audit` does.

    Args:
        target: Hub id, folder, `embedded`, `judge:NAME`, `grade:NAME`, `served:URL`, `dpo:POLICY,REFERENCE`, `steered:MODEL` or
            `module:function`; a function (prompts, responses) -> rewards of shape (n,), or (prompts, first, second) ->
            preferences from −1 to 1; or (model, tokenizer). A function gets each prompt as a list of messages. A list of
            these, and of folders of finished runs, is a panel.
        biases: Names or bias files; None for all five.
        contrasts: Rows of prompt, base and perturbed; None for the embedded ones.
        votes: People's votes on them: rows of id and vote.
        verdicts: LLM judges' verdicts on them, which narrow the intervals if votes are few.
        quality: Preference pairs for accuracy; `"none"` for no such check.
        triples: Your own RATE triples; `"none"` for no RATE.
        figures: Also write the report's figures as files of this format: svg or pdf.
        out: Folder of the run; None for `runs/audit-<model>`. Existing contents are reused, except for objects in memory. Of a
            panel: the folder that holds a run for each model, and `panel`.
        budget_usd: Dollars that may be spent on LLMs, for all models together; nothing is spent if the estimate exceeds it.
        confirm: Agree to the cost of asking an LLM, of all models at once; `"ask"`: ask on the terminal.
        progress: Show progress bars.
        limit: For a quick look: take at most so many pairs, contrasts, triples and quality pairs of each bias, drawn with the seed.
        fresh: Measure again, even if the folder holds this audit.
        overrides: Settings as words `section.key=value`; messages then name the command line.
        settings: By the recipe's names: `seed=1`, `model={"precision": "fp32"}`, or `**{"model.precision": "fp32"}`.

    Returns:
        The audit; its `folder` has the report, the scores behind it, and everything else. Of a list the panel, with models that
        could not be audited in `failed`.

    Raises:
        RecipeError: A wrong setting, or several; all at once.
        DataError: Data that cannot be used.
        ModelError: A model or function that cannot be used, or that returned anything but a number for each text.
        RunError: None of several models could be audited.
        SpendingError: The cost was not agreed to.
        CdaError: Base of all of these and of every other error that a user can act on.

    Example:
        >>> import cda
        >>> def longer(prompts, responses):
        ...     return [len(response) for response in responses]
        >>> audit = cda.audit(longer, biases="length", quality="none", progress=False)  # doctest: +SKIP
        >>> audit.skew["length"].before.value  # doctest: +SKIP
        1.0
    """
    terms = Terms("cda.audit", settings, overrides, out, budget_usd, confirm, progress, limit, fresh)
    if isinstance(target, list):
        data = {
            "contrasts": contrasts, "votes": votes, "verdicts": verdicts, "quality": quality, "triples": triples,
        }  # fmt: skip
        return audit_panel(target, terms, biases, data, figures)
    return audit_run(target, terms, biases, contrasts, votes, verdicts, quality, triples, figures).audit


def audit_run(
    target: Model,
    terms: Terms,
    biases: Biases | None = None,
    contrasts: Data | None = None,
    votes: Data | None = None,
    verdicts: Data | None = None,
    quality: Data | None = None,
    triples: Data | None = None,
    figures: str | None = None,
) -> Run:
    """The run of `audit`, whose result is not read yet."""
    check_types(terms.function, biases=biases)
    check_form(figures)
    if isinstance(target, str) and is_recipe(target):
        raise RecipeError(
            [f"cda.audit: {target} is a recipe; cda.train('{target}') trains and audits it. Give a model here"]
        )
    if problems := refuse_results(target):
        raise RecipeError(problems)
    data = {"contrasts": contrasts, "votes": votes, "verdicts": verdicts, "quality": quality, "triples": triples}
    nested = terms.nested({f"audit.{name}": (name, rows) for name, rows in data.items()}, biases)
    with loaded_for_model(target, nested, terms) as loaded:
        return carry_out(loaded, figures=figures)


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
    until: str = "report",
    only: bool = False,
    figures: str | None = None,
    dry_run: bool = False,
    out: str | Path | None = None,
    budget_usd: float | None = None,
    confirm: Confirm = False,
    progress: bool = True,
    limit: int | None = None,
    overrides: Sequence[str] | None = None,
    **settings: object,
) -> Run:
    """Run the whole pipeline, as `cda train` does: label, synthesize, finetune, choose the dose, audit twice, report.

    A second call with the same settings resumes after the last finished stage. Under `accelerate launch` every process calls it.

    Args:
        recipe: Path of a recipe or of a bias file, or the name of a shipped recipe (`jargon`, `length`, …).
        model: Hub id or folder of the reward model; or the recipe's section, such as `{"preset": "skywork-llama-8b"}`.
        pairs: Preference pairs to debias on: prompt, chosen, rejected.
        biases: Names or bias files, in place of the recipe's.
        contrasts: Contrasts to audit on: prompt, base, perturbed.
        votes: People's votes on them: rows of id and vote.
        quality: Preference pairs for accuracy; `"none"` for no such check.
        until: Last stage: label, synthesize, train, dose, audit or report.
        only: Run this stage alone; earlier ones must have finished.
        figures: Also write the report's figures as files of this format: svg or pdf.
        dry_run: Check everything, log the settings and the plan, do nothing.
        out: Folder of the run; None for `runs/<recipe>`.
        budget_usd: Dollars that may be spent on LLMs; nothing is spent if the estimate exceeds it.
        confirm: Agree to the cost of asking an LLM; `"ask"`: ask on the terminal.
        progress: Show progress bars.
        limit: For a quick look: take at most so many pairs, contrasts, triples and quality pairs of each bias, drawn with the seed.
        overrides: Settings as words `section.key=value`; keyword settings go before them.
        settings: By the recipe's names: `seed=1`, `lora={"r": 8}`, `train={"max_steps": 20}`, `**{"lora.r": 8}`.

    Returns:
        The run: its `adapter` (a PEFT folder), `audit` and `folder`.

    Raises:
        RecipeError: A wrong setting, or several; all at once.
        DataError: Data that cannot be used.
        ModelError: A model that cannot be used.
        SpendingError: The cost was not agreed to.
        CdaError: Base of all of these and of every other error that a user can act on.

    Example:
        >>> import cda
        >>> run = cda.train("jargon", model="my-org/my-reward-model", pairs="my-org/my-preferences")  # doctest: +SKIP
        >>> run.audit.skew["jargon"].change  # doctest: +SKIP
    """
    check_types("cda.train", recipe=recipe, biases=biases, only=only, dry_run=dry_run)
    if not isinstance(model, str | Path | dict | None):
        raise RecipeError([f"cda.train: model: found {type_in_words(model)}; {_BY_NAME}"])
    if until not in STAGES:
        raise RecipeError([f"cda.train: until: {', '.join(STAGES)}; found '{until}'"])
    terms = Terms("cda.train", settings, overrides, out, budget_usd, confirm, progress, limit)
    return train_run(recipe, terms, model, pairs, biases, contrasts, votes, quality, until, only, figures, dry_run)


def train_run(
    recipe: str | Path,
    terms: Terms,
    model: str | Path | dict[str, object] | None = None,
    pairs: Data | None = None,
    biases: Biases | None = None,
    contrasts: Data | None = None,
    votes: Data | None = None,
    quality: Data | None = None,
    until: str = "report",
    only: bool = False,
    figures: str | None = None,
    dry_run: bool = False,
) -> Run:
    """The run of `train`, whose arguments these are."""
    check_form(figures)
    data = {"contrasts": contrasts, "votes": votes, "quality": quality}
    files = {f"audit.{name}": (name, rows) for name, rows in data.items()}
    nested = terms.nested({"data.pairs": ("pairs", pairs), **files}, biases)
    if model is not None:
        put(nested, "model", model if isinstance(model, dict) else {"name_or_path": str(model)})
    with terms.quiet():
        loaded = terms.agreed(load_recipe(str(recipe), terms.overrides or (), nested, terms.where))
        return carry_out(loaded, until, only, figures, dry_run)


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
    by_topic: bool = False,
    topics: Sequence[str] = (),
    review: bool = False,
    figures: str | None = None,
    dry_run: bool = False,
    out: str | Path | None = None,
    budget_usd: float | None = None,
    confirm: Confirm = False,
    progress: bool = True,
    limit: int | None = None,
    fresh: bool = False,
    overrides: Sequence[str] | None = None,
    **settings: object,
) -> Discovery:
    """Find attributes that a model rewards and a judge does not, and confirm them on unseen prompts, as `cda discover` does.

    Args:
        model: As for `cda.audit`.
        judge: Scorer to compare with: `judge:NAME`, any other model, or an object; None: the LLM of `llm.model`, or the
            embedded judge if no LLM is set.
        adapter: Search the model with this adapter and compare it with the model without.
        dose: Dose of the adapter; None: the dose chosen in a run, 1 for an adapter folder.
        attributes: Measure these (in words or as bias files) instead of searching.
        formats: Measure the shipped format attributes instead of searching.
        responses: Rows of prompts with sampled responses; None: sampled by the LLM.
        prompts: Rows of prompts to answer; None: written on twenty topics.
        by_topic: Search, test and correct in each topic of the prompts by itself, then measure across topics. Rows name their
            topic in `topic`; embedded and written prompts have one.
        topics: With `by_topic`, these topics alone.
        review: Stop before the last test, for a person to drop candidates.
        figures: Also write the report's figures as files of this format: svg or pdf.
        dry_run: Check everything, and give the plan and its cost in `summary`; do nothing.
        out: Output folder; None for `runs/discover-<model>-<inputs>`.
        budget_usd, confirm, progress, limit, fresh, overrides, settings: As for `cda.audit`; `limit` is of prompts.

    Returns:
        The folder with a report, and a bias file for each confirmed attribute.

    Raises:
        CdaError: As `cda.audit`.

    Example:
        >>> import cda
        >>> discovery = cda.discover("my-org/my-reward-model", judge="judge:gpt-4o", budget_usd=20)  # doctest: +SKIP
        >>> run = cda.train(discovery.biases[0], model="my-org/my-reward-model")  # doctest: +SKIP
    """
    terms = Terms("cda.discover", settings, overrides, out, budget_usd, confirm, progress, limit, fresh)
    given = {
        "attributes": attributes, "formats": formats, "by_topic": by_topic, "topics": topics, "review": review, "dry_run": dry_run,
    }  # fmt: skip
    check_types(terms.function, adapter=adapter, dose=dose, **given)
    if problems := refuse_recipe(model):
        raise RecipeError(problems)
    data = {"responses": responses, "prompts": prompts}
    files = {name: as_reference(rows, name, terms.inputs) for name, rows in data.items() if rows is not None}
    nested = terms.nested({f"discover.{name}": (name, file) for name, file in files.items()})
    for setting, value in (("by_topic", by_topic), ("only_topics", list(topics))):
        if value:
            put(nested, f"discover.{setting}", value)
    texts = tuple(map(str, attributes))
    inputs = {
        "with": adapter,
        "at": dose,
        "of": "-".join(texts) or None,
        "formats": formats or None,
        "by": "topic" if by_topic else None,
        "topics": "-".join(topics) or None,
        "judge": None,
        **files,
    }
    with loaded_for_two(model, judge, "judge", nested, terms, "discover", inputs) as (loaded, _):
        options = DiscoverOptions(path_text(adapter), dose, texts, formats, review, dry_run, figures)
        found = run_discover(loaded, options)
        return Discovery(loaded.recipe.run_path, found.summary, found.result, found.topics)
