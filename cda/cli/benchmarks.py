"""The commands that measure without a training: preference data, benchmarks, samples, outputs, and unlisted biases."""

from __future__ import annotations

from typing import Annotated

from typer import Argument, Option

from cda.cli.app import (
    MEASURE,
    TARGET,
    Against,
    BiasOption,
    Column,
    Columns,
    Dose,
    DryRun,
    Figures,
    Fresh,
    Full,
    Json,
    Limit,
    Overrides,
    Seed,
    SplitName,
    Yes,
    app,
    columns_of,
    confirmed,
    settings_apart,
    with_options,
)
from cda.cli.output import running
from cda.errors import RecipeError


@app.command(rich_help_panel=MEASURE)
def data(
    pairs: Annotated[str, Argument(help="Preference pairs in TRL's format, or `embedded`.")],
    overrides: Overrides = None,
    bias: BiasOption = None,
    labels: Annotated[
        list[str] | None,
        Option(
            help="Take labels from this file (PAIRS itself, or another); several times for several. Default: measured, or by llm.model."
        ),
    ] = None,
    by: Annotated[
        list[str] | None,
        Option(help="Measure by the values of this column, too, such as source; several times for several."),
    ] = None,
    column: Column = None,
    split: SplitName = "train",
    out: Annotated[str | None, Option(help="Folder for the results. Default: runs/data-of-<pairs>.")] = None,
    figures: Figures = None,
    limit: Limit = None,
    seed: Seed = None,
    dry_run: DryRun = False,
    full: Full = False,
    as_json: Json = False,
    yes: Yes = False,
) -> None:
    """What a reward model would learn of each bias from preference pairs, before anything is trained."""
    with running(as_json, dry_run, full) as output:
        from cda.api.data import audit_data

        result = audit_data(
            pairs, biases=bias, labels=labels, by=by, columns=columns_of(column or []), split=split,
            figures=figures, out=out, confirm=confirmed(yes), overrides=with_options(overrides, seed), limit=limit,
        )  # fmt: skip
        output.show(result)


@app.command(rich_help_panel=MEASURE)
def quality(
    model: Annotated[str, Argument(help=TARGET)],
    files: Annotated[
        list[str],
        Argument(
            help="Preference files: RewardBench 1 or 2, RM-Bench, LLMBar, pairs in TRL's format, or `embedded`; and "
            "section.key=value, as many as you like."
        ),
    ],
    adapter: Annotated[
        str | None, Option(help="Measure again with an adapter: its folder, or that of a finished run.")
    ] = None,
    against: Against = None,
    dose: Dose = None,
    out: Annotated[
        str | None, Option(help="Folder for the results. Default: runs/quality-<model>-<what is asked>.")
    ] = None,
    figures: Figures = None,
    limit: Limit = None,
    seed: Seed = None,
    column: Columns = None,
    dry_run: DryRun = False,
    full: Full = False,
    as_json: Json = False,
    yes: Yes = False,
) -> None:
    """Accuracy on preference benchmarks by section, before and after an adapter, with a flag where a section falls."""
    with running(as_json, dry_run, full) as output:
        from cda.api.benchmarks import quality as measured

        words, names = settings_apart(files)
        names = list(dict.fromkeys(names))
        result = measured(
            model, names, adapter=adapter, against=against, dose=dose, figures=figures,
            out=out, confirm=confirmed(yes), overrides=with_options(words, seed, column, ("quality",)), limit=limit,
        )  # fmt: skip
        output.show(result)


@app.command(name="best-of", rich_help_panel=MEASURE)
def best_of(
    model: Annotated[str, Argument(help=TARGET)],
    responses: Annotated[str, Argument(help="Sampled responses: prompt and responses, or prompt and response.")],
    overrides: Overrides = None,
    adapter: Annotated[str | None, Option(help="Pick again with an adapter: its folder, or a finished run's.")] = None,
    against: Against = None,
    dose: Dose = None,
    bias: BiasOption = None,
    size: Annotated[
        list[int] | None, Option("--n", help="A value of n; several times for several. Default: 1, 2, 4, 8, …")
    ] = None,
    beta: Annotated[
        list[float] | None,
        Option(
            help="A KL penalty, in reward units, at which to look at the tilted policy besides the usual ones; several times for several."
        ),
    ] = None,
    column: Column = None,
    split: SplitName = "train",
    out: Annotated[
        str | None, Option(help="Folder for the results. Default: runs/best-of-<model>-<what is asked>.")
    ] = None,
    figures: Figures = None,
    limit: Limit = None,
    seed: Seed = None,
    dry_run: DryRun = False,
    full: Full = False,
    as_json: Json = False,
) -> None:
    """How prevalent each bias is among the best of n responses, and in a policy tilted to the reward, before and after an adapter."""
    with running(as_json, dry_run, full) as output:
        from cda.api.benchmarks import best_of as measured

        result = measured(
            model, responses, adapter=adapter, against=against, dose=dose, biases=bias, sizes=size, betas=beta,
            columns=columns_of(column or []), split=split, figures=figures, out=out, overrides=with_options(overrides, seed), limit=limit,
        )  # fmt: skip
        output.show(result)


@app.command(name="win-rate", rich_help_panel=MEASURE)
def win_rate(
    model: Annotated[str, Argument(help=TARGET)],
    first: Annotated[str, Argument(help="Outputs: rows of prompt and response.")],
    second: Annotated[str, Argument(help="Outputs to the same prompts; the i-th to one against its i-th.")],
    overrides: Overrides = None,
    column: Column = None,
    split: SplitName = "train",
    out: Annotated[str | None, Option(help="Folder for the results. Default: runs/win-rate-<model>-<files>.")] = None,
    limit: Limit = None,
    seed: Seed = None,
    dry_run: DryRun = False,
    full: Full = False,
    as_json: Json = False,
    yes: Yes = False,
) -> None:
    """How often a judge, or a reward model, prefers the first file's outputs to the second's.

    A pair in which an output is empty or missing is left out and counted: it is neither a win nor a loss.
    """
    with running(as_json, dry_run, full) as output:
        from cda.api.benchmarks import win_rate as measured

        result = measured(
            model, first, second, columns=columns_of(column or []), split=split,
            out=out, confirm=confirmed(yes), overrides=with_options(overrides, seed), limit=limit,
        )  # fmt: skip
        output.show(result)


@app.command(rich_help_panel=MEASURE)
def discover(
    model: Annotated[str, Argument(help=TARGET)],
    overrides: Overrides = None,
    judge: Annotated[
        str | None,
        Option(help="What the model is held against: judge:NAME, or any other model. Default: judge:<llm.model>."),
    ] = None,
    adapter: Annotated[
        str | None, Option(help="Search the model with an adapter; held against the model without it.")
    ] = None,
    dose: Dose = None,
    attribute: Annotated[
        list[str] | None, Option(help="No search: measure this, in words or a bias file; several times for several.")
    ] = None,
    formats: Annotated[
        bool,
        Option("--formats", help="No search: measure bold, lists, headers, emoji, exclamations, links, yes-words."),
    ] = False,
    responses: Annotated[
        str | None, Option(help="File of prompts with sampled responses. Default: sampled by the LLM.")
    ] = None,
    prompts: Annotated[str | None, Option(help="File of prompts to answer. Default: written on twenty topics.")] = None,
    by_topic: Annotated[
        bool, Option("--by-topic", help="Search and test in each topic by itself, then measure across topics.")
    ] = False,
    topic: Annotated[
        list[str] | None, Option(help="With --by-topic: this topic alone; several times for several.")
    ] = None,
    review: Annotated[
        bool, Option("--review", help="Stop before the last test, for a person to drop candidates.")
    ] = False,
    out: Annotated[
        str | None, Option(help="Folder for the results. Default: runs/discover-<model>-<what is asked>.")
    ] = None,
    figures: Figures = None,
    fresh: Fresh = False,
    limit: Limit = None,
    seed: Seed = None,
    column: Columns = None,
    dry_run: DryRun = False,
    full: Full = False,
    as_json: Json = False,
    yes: Yes = False,
) -> None:
    """Find attributes that the model rewards and a judge does not, confirm them on unseen prompts, write bias files."""
    with running(as_json, dry_run, full) as output:
        from cda.api.runs import discover as search
        from cda.results.commands import Plan

        if as_json and review:
            raise RecipeError(["--json: not with --review, which has no result before the test"])
        result = search(
            model, judge=judge, adapter=adapter, dose=dose, attributes=attribute or (), formats=formats,
            responses=responses, prompts=prompts, by_topic=by_topic, topics=topic or (), review=review, figures=figures,
            out=out, confirm=confirmed(yes), overrides=with_options(overrides, seed, column, ("responses",)), limit=limit,
            fresh=fresh,
        )  # fmt: skip
        # Only a search that waits for its review has no result.
        output.show(result.topics or result.result or Plan(settings={}, lines=()), result.summary)
