"""Audits, comparisons, trainings, searches, and steps 1 and 2 of a training on texts of your own, from Python."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Unpack

from cda.api.finished import as_audited, as_the_run, of_run
from cda.api.results import Audit, Comparison, Discovery, Run
from cda.comparing.compare import compare_targets
from cda.comparing.members import places_of
from cda.counterfactuals.own_rows import labels_of_rows, rewrites_of_rows
from cda.discovery.discover import run_discover
from cda.discovery.new_bias import Asked
from cda.discovery.new_bias import new_bias as write_new_bias
from cda.errors import DataError, RecipeError, type_in_words
from cda.finetuning.applied import asked_subjects, check_subject
from cda.jobs.options import (
    Arg,
    AuditArguments,
    Data,
    DiscoverArguments,
    Model,
    NewBiasArguments,
    Option,
    Place,
    RewardArguments,
    RewriteArguments,
    TextArguments,
    TrainArguments,
)
from cda.jobs.perform import Job, Made, perform
from cda.jobs.terms import (
    Terms,
    check_types,
    declared,
    loaded_for_model,
    loaded_with_folder,
    path_text,
    refuse_recipe,
    refuse_results,
    rows_from,
    set_at,
)
from cda.llm.purse import Purse
from cda.pipeline.stages import carry_out
from cda.recipe.load import LoadedRecipe, is_recipe, load_recipe
from cda.recipe.words import flat
from cda.records import Rewrite
from cda.resources.artifacts import shown_path, shown_target
from cda.resources.llm_access import share_purse
from cda.resources.named_scorer import scorer_settings
from cda.resources.reward_function import RewardFunction
from cda.resources.scorers import open_scorer
from cda.results.commands import NewBias
from cda.results.comparison import AuditRow, DiscoveriesResult
from cda.rewriting.labels import PairLabel, ResponseLabel
from cda.scorers.calibrated import Corrector


@declared(AuditArguments)
def audit(target: Model, /, **options: Unpack[AuditArguments]) -> Audit:
    """Measure a reward model or judge as it is, as `cda audit` does; `cda.compare` takes several.

    Args:
        target: Hub id, folder, folder of a finished audit (its model and settings), `embedded`, `judge:NAME`, `grade:NAME`, `served:URL`, `dpo:POLICY,REFERENCE`, `scores:FILE` or
            `module:function`; a function (prompts, responses) -> rewards of shape (n,), or (prompts, first, second) ->
            preferences from −1 to 1; or (model, tokenizer). A function gets each prompt as a list of messages.
        settings: By the recipe's names: `seed=1`, `model={"precision": "fp32"}`, or `**{"model.precision": "fp32"}`.

    Returns:
        The audit; its `folder` has the report, the scores behind it, and everything else.

    Raises:
        RecipeError: A wrong setting, or several; all at once.
        DataError: Data that cannot be used.
        ModelError: A model or function that cannot be used, or that returned anything but a number for each text.
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
    terms = Terms.of("cda.audit", AuditArguments, options)
    if isinstance(target, list):
        raise RecipeError(["cda.audit: takes one model; several are audited and compared by cda.compare(*models)"])
    return audit_run(target, terms).audit


def audit_run(target: Model, terms: Terms) -> Run:
    """The run of `audit`, whose result is not read yet."""
    if isinstance(target, str) and is_recipe(target):
        raise RecipeError(
            [f"cda.audit: {target} is a recipe; cda.train('{target}') trains and audits it. Give a model here"]
        )
    settings, target = as_audited(terms.nested(), target)
    if problems := refuse_results(target):
        raise RecipeError(problems)
    with loaded_for_model(target, settings, terms) as loaded:
        return carry_out(terms.apart(loaded), figures=terms["figures"])


@declared(AuditArguments)
def compare(
    *targets: Model | Run | Audit | Comparison | AuditRow | Discovery | Mapping[str, object],
    **options: Unpack[AuditArguments],
) -> Comparison | DiscoveriesResult:
    """Which of these? Models, which are audited now on the same texts, finished audits and shared rows next to each other, as
    `cda compare` does.

    Args:
        targets: Models as for `cda.audit`; finished runs, audits, shared rows (also as a dict) and comparisons, whose audits are all
            taken; their folders and files, and folders of these. Two or more, or one that holds several. Or two or more discoveries.
        settings: As for `cda.audit`, for the models that are audited now.

    Returns:
        The comparison; models that could not be audited are in `failed`. Of discoveries theirs, without `failed`.

    Raises:
        RunError: No model at all could be audited, or a run or file that was named cannot be read.
        CdaError: As `cda.audit`.

    Example:
        >>> import cda
        >>> comparison = cda.compare("my-org/my-reward-model", "embedded", "judge:gpt-4o")  # doctest: +SKIP
        >>> comparison.numbers.where("skew", bias="length").pivot("audit", "moment")  # doctest: +SKIP
    """
    terms = Terms.of("cda.compare", AuditArguments, options)
    return compare_targets(places_of(targets, terms.inputs), terms)


@declared(TrainArguments)
def train(recipe: str | Path, /, **options: Unpack[TrainArguments]) -> Run:
    """Run the whole pipeline, as `cda train` does: label, synthesize, finetune, choose the dose, audit twice, report.

    A second call with the same settings resumes after the last finished stage. Under `accelerate launch` every process calls it.

    Args:
        recipe: Path of a recipe or of a bias file, or the name of a shipped recipe (`jargon`, `length`, …).
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
    check_types("cda.train", {"recipe": Option(Place, Arg(""))}, {"recipe": recipe})
    terms, model = Terms.of("cda.train", TrainArguments, options), options["model"]
    if not isinstance(model, str | Path | dict | None):
        raise RecipeError([
            f"cda.train: model: found {type_in_words(model)}; a training loads its model by name or folder "
            "(model.save_pretrained and tokenizer.save_pretrained write one)"
        ])  # fmt: skip
    return train_run(recipe, terms)


def train_run(recipe: str | Path, terms: Terms) -> Run:
    """The run of a recipe, up to a stage."""
    settings = terms.nested()
    with terms.quiet():
        loaded = terms.agreed(load_recipe(str(recipe), terms["overrides"] or (), settings, terms.where))
        if terms["limit"] is not None:
            whole = (word for name, value in terms.but(limit=None).nested().items() for word in flat(name, value))
            loaded = replace(loaded, command=("train", str(recipe), *whole, *(terms["overrides"] or ())))
        return carry_out(terms.apart(loaded), terms["until"], terms["only"], terms["figures"], terms["dry_run"])


@declared(DiscoverArguments)
def discover(model: Model, /, **options: Unpack[DiscoverArguments]) -> Discovery:
    """Find attributes that a model rewards and a judge does not, and confirm them on unseen prompts, as `cda discover` does.

    Args:
        model: As for `cda.audit`.
        settings: As for `cda.audit`; `limit` is of prompts.

    Returns:
        The folder with a report, and a bias file for each confirmed attribute.

    Raises:
        CdaError: As `cda.audit`.

    Example:
        >>> import cda
        >>> discovery = cda.discover("my-org/my-reward-model", judge="judge:gpt-4o", budget_usd=20)  # doctest: +SKIP
        >>> run = cda.train(discovery.biases[0], model="my-org/my-reward-model")  # doctest: +SKIP
    """
    terms = Terms.of("cda.discover", DiscoverArguments, options)
    settings, model, adapter = as_the_run(terms.nested(), model, options["adapter"])
    options["adapter"] = adapter
    inputs = {
        "with": path_text(adapter),
        "at": options["dose"],
        "of": "-".join(map(str, options["attributes"])) or None,
        "formats": options["formats"] or None,
        "by": "topic" if options["by_topic"] else None,
        "topics": "-".join(options["topics"]) or None,
        "judge": None,
        **terms.files,
    }
    with loaded_with_folder(model, terms, settings, inputs, (), options["judge"], "judge") as (loaded, _):
        return Discovery(loaded.recipe.run_path, run_discover(loaded, options))


@declared(TextArguments)
def label(data: Data, bias: str | Path, /, **options: Unpack[TextArguments]) -> list[ResponseLabel] | list[PairLabel]:
    """Label responses, or both sides of pairs, with a bias, by its measured feature or by asking an LLM.

    Args:
        data: Rows of prompt and response, or of prompt, chosen and rejected; a list of dicts, a Dataset, a frame or a file.
        bias: Name or bias file.
        settings: By the recipe's names, such as `label={"prompt": "paper"}`; `llm` is the model to ask, or its section, such as
            `{"model": "gpt-4o", "base_url": …}`, and without it the bias's measure labels.

    Returns:
        A label for each row, in order: `present` for a response (None, with the `reason`, if no answer could be read),
        `labels` by side for a pair.

    Raises:
        RecipeError: A wrong setting, an unknown bias, or a bias without a measure if no LLM is named.
        DataError: Missing columns or unusable rows; all of them are named.
        LLMError: The LLM cannot be asked.
        SpendingError: The cost was not agreed to.

    Example:
        >>> import cda
        >>> rows = [{"prompt": "Tips for sleep?", "response": "- Go to bed early\\n- No coffee"}]
        >>> cda.label(rows, "structure")[0].present
        True
    """
    with _loaded("cda.label", TextArguments, options, data, bias) as (rows, loaded):
        return labels_of_rows(rows, loaded)


@declared(RewriteArguments)
def rewrite(data: Data, bias: str | Path, /, **options: Unpack[RewriteArguments]) -> list[Rewrite]:
    """Add a bias to responses or remove it, and change nothing else; every rewrite passes the gate.

    Args:
        data: Rows of prompt and response, and `reference` (the other response) if the bias is relative to one, as length is.
        bias: Name or bias file.
        settings: By the recipe's names, such as `synthesize={"gate": {"ask_again": 0}}`; `llm` as for `cda.label`, and without it
            the bias file's offline rules rewrite.

    Returns:
        An outcome for each row, in order: its `text`, or None and the `reason`. Never the unmodified text.

    Raises:
        RecipeError: A wrong setting or direction, an unknown bias, or a bias without rules if no LLM is named.
        DataError: Missing columns or unusable rows; all of them are named.
        LLMError: The LLM cannot be asked.
        SpendingError: The cost was not agreed to.

    Example:
        >>> import cda
        >>> rows = [{"prompt": "What is a cell?", "response": "A cell is the smallest unit of life. It has a wall. It divides."}]
        >>> cda.rewrite(rows, "structure")[0].text.count("\\n- ") > 0
        True
    """
    direction = options["direction"]
    if direction not in ("add", "remove"):
        raise DataError(f"direction: 'add' or 'remove'; found {direction!r}")
    with _loaded("cda.rewrite", RewriteArguments, options, data, bias) as (rows, loaded):
        return rewrites_of_rows(rows, direction, loaded)


@declared(NewBiasArguments)
def new_bias(words: str, /, **options: Unpack[NewBiasArguments]) -> NewBias:
    """Draft a bias file from a description in words, try it on pairs and write it, as `cda bias new` does.

    Args:
        words: One sentence on what an answer with the bias does, such as `uses hedging`, in any language.
        settings: By the recipe's names; `llm` is the model that drafts, labels and rewrites, or its section, as for `cda.label`.
            Without it, words, quoted wordings and measured features that are known give what they can.

    Returns:
        The file, for `cda.train` and `biases` of `cda.audit`; labels of 20 pairs, three rewrites, and what is `missing`.

    Raises:
        RunError: The file is there already; or the words name a bias that ships with cda, and no `name` was given.
        CdaError: As `cda.label`.

    Example:
        >>> import cda
        >>> found = cda.new_bias("uses hedging")  # doctest: +SKIP
        >>> run = cda.train(found.file)  # doctest: +SKIP
    """
    check_types("cda.new_bias", {"words": Option(str, Arg("", form="a description in words"))}, {"words": words})
    if isinstance(llm := options.get("llm"), str):
        options["llm"] = {"model": llm}
    terms = Terms.of("cda.new_bias", NewBiasArguments, options)
    with loaded_for_model("embedded", {"name": "bias-new"} | terms.nested(), terms) as loaded:
        share_purse(loaded, Purse())  # there is no folder: a budget is for one call
        own = {name: path_text(options[name]) for name in ("name", "out", "prompt")}
        return write_new_bias(loaded, Asked(words, **own, settings=terms["overrides"] or ()))


@contextmanager
def _loaded(
    function: str, kind: type, options: TextArguments, data: Data, bias: str | Path
) -> Iterator[tuple[list[dict[str, object]], LoadedRecipe]]:
    """The rows, and the settings with the bias."""
    check_types(function, {"bias": Option(Place, Arg("", form="a name or a path"))}, {"bias": bias})
    rows = rows_from(data, "data")
    if isinstance(llm := options.get("llm"), str):
        options["llm"] = {"model": llm}
    terms = Terms.of(function, kind, options)
    with loaded_for_model("embedded", terms.nested() | {"biases": [str(bias)]}, terms) as loaded:
        share_purse(loaded, Purse())  # there is no folder: a budget is for one call
        yield rows, loaded


@declared(RewardArguments)
def reward_function(model: Model | Run | Audit, /, **options: Unpack[RewardArguments]) -> RewardFunction:
    """The reward that an audit measures, as a function (prompts, completions) -> rewards for TRL's GRPO and RLOO and for others.

    It reads texts as the audit does: the same template, truncation, precision, adapter, dose and calibration. In fp32 it gives the
    same rewards; below, they differ by rounding, since a reward depends on its batch there. The model is loaded at once, before
    the policy is; under `accelerate launch` each process loads its own, on its own GPU. With DeepSpeed ZeRO-3 make it before the
    trainer's arguments, which have every model that is loaded later cut into parts.

    Args:
        model: As for `cda.audit`, if it rewards single texts; or a finished run, its folder or result: of a training the base with
            the adapter at the chosen dose, of an audit the audited model, both with the settings of the run.
        settings: By the recipe's names, such as `model={"precision": "bf16"}` or `score={"batch_tokens": 8192}`.

    Returns:
        A callable; its `__name__`, under which trainers log, is the model's or run's.

    Raises:
        RecipeError: A wrong setting, or several; all at once.
        ModelError: A model or adapter that cannot be used, or one that compares two answers.
        CdaError: Base of all of these and of every other error that a user can act on.

    Example:
        >>> import cda
        >>> def longer(prompts, responses):
        ...     return [float(len(response)) for response in responses]
        >>> reward = cda.reward_function(longer)
        >>> reward(["Why?", [{"role": "user", "content": "How?"}]], ["So.", [{"role": "assistant", "content": "Like this."}]])
        [3.0, 10.0]
    """
    terms, again = Terms.of("cda.reward_function", RewardArguments, options), partial(reward_function, model, **options)
    asked, model, adapter = of_run(model, options["adapter"])
    if problems := [*refuse_results(model), *refuse_recipe(model)]:
        raise RecipeError(problems)
    for section, value in terms.nested().items():
        set_at(asked, section, value)
    with ExitStack() as stack:
        loaded = stack.enter_context(loaded_for_model(model, asked, terms))
        subject = asked_subjects(loaded.recipe.model, path_text(adapter), None, options["dose"])[-1]
        scoring = scorer_settings(loaded)
        check_subject(subject, scoring, shares=True, singly=True)
        named = open_scorer(subject, scoring)
        steps = [f"scores      one text with {subject.name}; writes no file", *named.read_lines()]

        def work(_: Path) -> Made[RewardFunction]:
            scorer, calibration = named.as_pointwise().text_scorer(), named.calibration()
            name = shown_target(subject.name) if adapter is None else shown_path(str(adapter).rstrip("/"))
            corrector = None if calibration is None else Corrector(calibration)
            return Made(RewardFunction(name, scorer, corrector, stack.pop_all(), again))

        return perform(Job(lambda: steps, work), loaded)
