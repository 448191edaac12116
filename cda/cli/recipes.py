"""The commands of a run: a stage each, and whatever is missing before it."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from cda.cli.app import app
from cda.cli.invoke import run_recipe
from cda.cli.options import DryRun, Figures, Only, Overrides, Recipe, Yes
from cda.user_errors import user_errors


@app.command()
def label(recipe: Recipe, overrides: Overrides = None, dry_run: DryRun = False, yes: Yes = False) -> None:
    """Load and clean the pairs, and label each side for the bias."""
    run_recipe(recipe, overrides or [], "label", dry_run, yes=yes)


@app.command()
def synthesize(
    recipe: Recipe, overrides: Overrides = None, dry_run: DryRun = False, only: Only = False, yes: Yes = False
) -> None:
    """Rewrite rejected responses so that they carry the bias."""
    run_recipe(recipe, overrides or [], "synthesize", dry_run, only, yes)


@app.command()
def train(
    recipe: Recipe, overrides: Overrides = None, dry_run: DryRun = False, only: Only = False, yes: Yes = False
) -> None:
    """The whole job: label, synthesize, finetune, dose, audit and report; with --only, the finetuning alone."""
    run_recipe(recipe, overrides or [], "train" if only else "report", dry_run, only, yes)


@app.command()
def dose(
    recipe: Annotated[
        str | None, typer.Argument(help="A recipe with people's votes; leave it out with --before and --after.")
    ] = None,
    overrides: Overrides = None,
    before: Annotated[
        str | None, typer.Option("--before", help="Score file: id, perturbed_score and base_score, or margin.")
    ] = None,
    after: Annotated[str | None, typer.Option("--after", help="The same after debiasing.")] = None,
    votes: Annotated[str | None, typer.Option("--votes", help="People's votes on these ids.")] = None,
    quality_before: Annotated[
        str | None,
        typer.Option("--quality-before", help="Score file of quality pairs: chosen_score and rejected_score."),
    ] = None,
    quality_after: Annotated[str | None, typer.Option("--quality-after", help="The same after debiasing.")] = None,
    ties: Annotated[str, typer.Option("--ties", help="What people's ties count: drop, half or as-released.")] = "drop",
    out: Annotated[str, typer.Option("--out", help="Where the numbers of score files go.")] = "dose.json",
    dry_run: DryRun = False,
    only: Only = False,
    yes: Yes = False,
) -> None:
    """Choose how much of an adapter to apply, by people's votes; of a recipe, or from score files alone."""
    files = {
        "before": before, "after": after, "votes": votes, "quality-before": quality_before, "quality-after": quality_after,
    }  # fmt: skip
    given = {name: value for name, value in files.items() if value}
    if recipe is not None and not given:
        run_recipe(recipe, [*(overrides or []), "dose.on=yes"], "dose" if only else "report", dry_run, only, yes)
        return
    with user_errors():
        from cda.dosing.files import dose_of_options
        from cda.errors import RecipeError

        if recipe is not None:
            raise RecipeError([f"--{name}: not with a recipe, which scores for itself" for name in given])
        print(dose_of_options(given, ties, out))


@app.command()
def report(
    recipe: Annotated[str, typer.Argument(help="A recipe, or the folder of a finished run.")],
    overrides: Annotated[
        list[str] | None,
        typer.Argument(help="section.key=value, as many as you like; with --compare, more run folders."),
    ] = None,
    dry_run: DryRun = False,
    only: Only = False,
    yes: Yes = False,
    compare: Annotated[
        bool, typer.Option("--compare", help="Compare finished runs: what each training did to every bias.")
    ] = False,
    out: Annotated[
        str | None,
        typer.Option("--out", help="With --compare: the page; comparison.html beside the first run if left out."),
    ] = None,
    figures: Figures = None,
) -> None:
    """Draw the report, after running whatever is missing for it; that of a finished run's folder; or compare such runs."""
    if not compare and out is None and Path(recipe).expanduser().is_dir():
        with user_errors():
            from cda.quiet import quiet_libraries

            quiet_libraries()
            from cda.pipeline.report import redraw

            redraw(recipe, overrides or [], figures, dry_run)
        return
    if not compare and out is None:
        run_recipe(recipe, overrides or [], "report", dry_run, only, yes, figures)
        return
    with user_errors():
        from cda.auditing.comparison import compare_runs
        from cda.errors import RecipeError

        if not compare:
            raise RecipeError(["--out: only with --compare; a report lies in its run's folder (run.folder=...)"])
        if figures is not None:
            raise RecipeError(["--figures: of one run's report, not with --compare"])
        print(compare_runs([recipe, *(overrides or [])], out))
