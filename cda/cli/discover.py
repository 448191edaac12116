"""`cda discover`: biases that nobody listed."""

from __future__ import annotations

import json
from typing import Annotated

import typer

from cda.cli.app import app
from cda.cli.invoke import asked_model
from cda.cli.options import TARGET, DryRun, Figures, Overrides, Yes
from cda.launch import say
from cda.user_errors import user_errors


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
    dose: Annotated[
        float | None,
        typer.Option(
            "--dose", help="How much of the adapter, 1 as trained; left out: the dose chosen in a run, 1 of an adapter."
        ),
    ] = None,
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
        from dataclasses import replace

        words = list(overrides or [])
        given = {"judge": judge, "responses": responses, "prompts": prompts}
        words += [f"discover.{name}={json.dumps(value)}" for name, value in given.items() if value is not None]
        asked = {
            "with": adapter,
            "at": dose,
            "of": "-".join(attribute or []) or None,
            "formats": formats or None,
        } | given
        loaded, _ = asked_model(model, words, "discover", out, asked)
        from cda.discovery.discover import DiscoverOptions, run_discover

        options = DiscoverOptions(adapter, dose, tuple(attribute or ()), formats, review, dry_run, figures)
        say(run_discover(replace(loaded, confirmed=yes), options).summary)
