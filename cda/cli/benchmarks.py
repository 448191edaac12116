"""`cda quality`, `cda best-of`, `cda win-rate` on files of pairs, samples and outputs; and `cda discover`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from cda.cli.app import (
    TARGET,
    Against,
    BiasOption,
    Column,
    Dose,
    DryRun,
    Figures,
    Overrides,
    SplitName,
    Yes,
    app,
    columns_of,
    confirmed,
)
from cda.launch import say
from cda.user_errors import user_errors


@app.command()
def quality(
    model: Annotated[str, typer.Argument(help=TARGET)],
    files: Annotated[
        list[str],
        typer.Argument(
            help="Preference files: RewardBench 1 or 2, RM-Bench, LLMBar, pairs in TRL's format, or `embedded`; and "
            "section.key=value, as many as you like."
        ),
    ],
    adapter: Annotated[
        str | None,
        typer.Option("--adapter", help="Measure again with an adapter: its folder, or that of a finished run."),
    ] = None,
    against: Against = None,
    dose: Dose = None,
    out: Annotated[
        str | None, typer.Option("--out", help="Folder for the results. Default: runs/quality-<model>-<what is asked>.")
    ] = None,
    figures: Figures = None,
    yes: Yes = False,
) -> None:
    """Accuracy on preference benchmarks by section, before and after an adapter, with a flag where a section falls."""
    with user_errors():
        from cda.api.benchmarks import quality as measured

        words = [word for word in files if "=" in word and not Path(word).exists()]
        names = list(dict.fromkeys(word for word in files if word not in words))
        result = measured(
            model, names, adapter=adapter, against=against, dose=dose, figures=figures,
            out=out, confirm=confirmed(yes), overrides=words,
        )  # fmt: skip
        say(result.summary)


@app.command(name="best-of")
def best_of(
    model: Annotated[str, typer.Argument(help=TARGET)],
    responses: Annotated[str, typer.Argument(help="Sampled responses: prompt and responses, or prompt and response.")],
    overrides: Overrides = None,
    adapter: Annotated[
        str | None, typer.Option("--adapter", help="Pick again with an adapter: its folder, or a finished run's.")
    ] = None,
    against: Against = None,
    dose: Dose = None,
    bias: BiasOption = None,
    size: Annotated[
        list[int] | None, typer.Option("--n", help="A value of n; may be given several times. Default: 1, 2, 4, 8, …")
    ] = None,
    column: Column = None,
    split: SplitName = "train",
    out: Annotated[
        str | None, typer.Option("--out", help="Folder for the results. Default: runs/best-of-<model>-<what is asked>.")
    ] = None,
    figures: Figures = None,
) -> None:
    """How prevalent each bias is among the best of n responses as n grows, before and after an adapter."""
    with user_errors():
        from cda.api.benchmarks import best_of as measured

        result = measured(
            model, responses, adapter=adapter, against=against, dose=dose, biases=bias, sizes=size,
            columns=columns_of(column or []), split=split, figures=figures, out=out, overrides=overrides or [],
        )  # fmt: skip
        say(result.summary)


@app.command(name="win-rate")
def win_rate(
    model: Annotated[str, typer.Argument(help=TARGET)],
    first: Annotated[str, typer.Argument(help="Outputs: rows of prompt and response.")],
    second: Annotated[str, typer.Argument(help="Outputs to the same prompts; the i-th to one against its i-th.")],
    overrides: Overrides = None,
    column: Column = None,
    split: SplitName = "train",
    out: Annotated[
        str | None, typer.Option("--out", help="Folder for the results. Default: runs/win-rate-<model>-<files>.")
    ] = None,
    yes: Yes = False,
) -> None:
    """How often a judge, or a reward model, prefers the first file's outputs to the second's.

    A pair in which an output is empty or missing is left out and counted: it is neither a win nor a loss.
    """
    with user_errors():
        from cda.api.benchmarks import win_rate as measured

        result = measured(
            model, first, second, columns=columns_of(column or []), split=split,
            out=out, confirm=confirmed(yes), overrides=overrides or [],
        )  # fmt: skip
        say(result.summary)


@app.command()
def discover(
    model: Annotated[str, typer.Argument(help=TARGET)],
    overrides: Overrides = None,
    judge: Annotated[
        str | None,
        typer.Option(
            "--judge",
            help="What the model is held against: judge:NAME, or any other model. Default: judge:<llm.model>.",
        ),
    ] = None,
    adapter: Annotated[
        str | None,
        typer.Option("--adapter", help="Search the model with an adapter; held against the model without it."),
    ] = None,
    dose: Dose = None,
    attribute: Annotated[
        list[str] | None,
        typer.Option(
            "--attribute", help="No search: measure this, in words or a bias file; may be given several times."
        ),
    ] = None,
    formats: Annotated[
        bool,
        typer.Option(
            "--formats", help="No search: measure bold, lists, headers, emoji, exclamations, links, yes-words."
        ),
    ] = False,
    responses: Annotated[
        str | None,
        typer.Option("--responses", help="File of prompts with sampled responses. Default: sampled by the LLM."),
    ] = None,
    prompts: Annotated[
        str | None, typer.Option("--prompts", help="File of prompts to answer. Default: written on twenty topics.")
    ] = None,
    review: Annotated[
        bool, typer.Option("--review", help="Stop before the last test, for a person to drop candidates.")
    ] = False,
    out: Annotated[
        str | None,
        typer.Option("--out", help="Folder for the results. Default: runs/discover-<model>-<what is asked>."),
    ] = None,
    figures: Figures = None,
    dry_run: DryRun = False,
    yes: Yes = False,
) -> None:
    """Find attributes that the model rewards and a judge does not, confirm them on unseen prompts, write bias files."""
    with user_errors():
        from cda.api.runs import discover as search

        result = search(
            model, judge=judge, adapter=adapter, dose=dose, attributes=attribute or (), formats=formats,
            responses=responses, prompts=prompts, review=review, figures=figures, dry_run=dry_run,
            out=out, confirm=confirmed(yes), overrides=overrides or [],
        )  # fmt: skip
        say(result.summary)
