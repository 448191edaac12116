"""`cda audit`: one model as it is, or a recipe before and after its training."""

from __future__ import annotations

from typing import Annotated

import typer

from cda.cli.app import app
from cda.cli.invoke import run_audit
from cda.cli.options import TARGET, DryRun, Figures, Only, Overrides, Yes


@app.command()
def audit(
    target: Annotated[
        str,
        typer.Argument(help=f"{TARGET} Or a recipe: that is audited before and after its training."),
    ],
    overrides: Overrides = None,
    bias: Annotated[
        list[str] | None,
        typer.Option("--bias", help="Name or bias file; may be given several times. Default: all five."),
    ] = None,
    pairs: Annotated[
        str | None, typer.Option("--pairs", help="Contrasts of your own: prompt, base, perturbed.")
    ] = None,
    votes: Annotated[
        str | None, typer.Option("--votes", help="People's votes on them: id and vote, any number an item.")
    ] = None,
    verdicts: Annotated[
        str | None, typer.Option("--verdicts", help="LLM judges' verdicts on them, to stretch few votes (PPI++).")
    ] = None,
    quality: Annotated[
        str | None, typer.Option("--quality", help="Preference pairs for accuracy; `none` for no such check.")
    ] = None,
    triples: Annotated[
        str | None, typer.Option("--triples", help="RATE triples of your own; `none` for no RATE.")
    ] = None,
    out: Annotated[str | None, typer.Option("--out", help="Folder of the run. Default: runs/audit-<model>.")] = None,
    figures: Figures = None,
    dry_run: DryRun = False,
    only: Only = False,
    yes: Yes = False,
) -> None:
    """Measure one reward model or judge as it is; with a recipe, the model before and after its training."""
    options = {
        "bias": bias, "pairs": pairs, "votes": votes, "verdicts": verdicts, "quality": quality, "triples": triples, "out": out,
    }  # fmt: skip
    given = {name: value for name, value in options.items() if value}
    run_audit(target, overrides or [], given, dry_run, only, yes, figures)
