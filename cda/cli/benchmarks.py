"""`cda quality`, `cda best-of`, `cda win-rate`: what a model does on files of pairs, samples and outputs."""

from __future__ import annotations

from typing import Annotated

import typer

from cda.cli.app import app
from cda.cli.invoke import asked_model, columns_of
from cda.cli.options import TARGET, Column, Figures, Overrides, SplitName, Yes
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
    against: Annotated[str | None, typer.Option("--against", help="Compare with a second model.")] = None,
    dose: Annotated[
        float | None,
        typer.Option(
            "--dose", help="How much of the adapter, 1 as trained; left out: the dose chosen in a run, 1 of an adapter."
        ),
    ] = None,
    out: Annotated[
        str | None, typer.Option("--out", help="Folder for the results. Default: runs/quality-<model>-<what is asked>.")
    ] = None,
    figures: Figures = None,
    yes: Yes = False,
) -> None:
    """Accuracy on preference benchmarks by section, before and after an adapter, with a flag where a section falls."""
    with user_errors():
        from cda.launch import use_all_cores
        from cda.quiet import quiet_libraries

        use_all_cores()
        quiet_libraries()
        from cda.benchmarks.quality import QualityOptions, quality_of_words

        _, text = quality_of_words(model, files, QualityOptions(adapter, against, dose, out, yes, figures))
        say(text)


@app.command(name="best-of")
def best_of(
    model: Annotated[str, typer.Argument(help=TARGET)],
    responses: Annotated[str, typer.Argument(help="Sampled responses: prompt and responses, or prompt and response.")],
    overrides: Overrides = None,
    adapter: Annotated[
        str | None, typer.Option("--adapter", help="Pick again with an adapter: its folder, or a finished run's.")
    ] = None,
    against: Annotated[str | None, typer.Option("--against", help="Compare with a second model.")] = None,
    dose: Annotated[
        float | None,
        typer.Option(
            "--dose", help="How much of the adapter, 1 as trained; left out: the dose chosen in a run, 1 of an adapter."
        ),
    ] = None,
    bias: Annotated[
        list[str] | None,
        typer.Option("--bias", help="Name or bias file; may be given several times. Default: all five."),
    ] = None,
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
        columns = columns_of(column or [])
        asked = {"on": responses, "with": adapter, "at": dose, "against": against}
        settings = [*(overrides or []), bias, size, column, split != "train" and split]
        loaded, folder = asked_model(model, overrides or [], "best-of", out, asked, settings)
        from cda.benchmarks.best_of_n import BIASES, run_best_of_n
        from cda.finetuning.applied import asked_subjects

        subjects = asked_subjects(loaded.recipe.model, adapter, against, dose)
        followed = bias or BIASES
        _, text = run_best_of_n(
            responses,
            subjects,
            loaded,
            out=folder,
            biases=followed,
            sizes=size,
            columns=columns,
            split=split,
            figures=figures,
        )
        say(text)


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
        from dataclasses import replace

        columns = columns_of(column or [])
        settings = [*(overrides or []), column, split != "train" and split]
        loaded, folder = asked_model(model, overrides or [], "win-rate", out, {"of": first, "over": second}, settings)
        from cda.benchmarks.win_rate import run_win_rate

        _, text = run_win_rate(first, second, replace(loaded, confirmed=yes), folder, columns, split)
        say(text)
