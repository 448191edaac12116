"""The commands on finished runs: reports, comparisons, and a leaderboard of shared rows."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated

from typer import Argument, Context, Option

from cda.cli.app import (
    SHOW,
    Columns,
    DryRun,
    Figures,
    Full,
    Json,
    Limit,
    Only,
    Seed,
    Yes,
    app,
)
from cda.cli.output import Output, running
from cda.cli.recipes import run_until, terms_of


@app.command(rich_help_panel=SHOW)
def report(
    context: Context,
    recipe: Annotated[str, Argument(help="A recipe, or the folder of a finished run.")],
    overrides: Annotated[
        list[str] | None, Argument(help="section.key=value, as many as you like; with --compare, more run folders.")
    ] = None,
    only: Only = False,
    compare: Annotated[
        bool,
        Option(
            "--compare", help="Compare finished audits and trainings: what each found, and each paired with the first."
        ),
    ] = False,
    out: Annotated[
        str | None,
        Option(
            help="Of a recipe: folder of the run. Of a run's folder: another folder for its report. With --compare: the page; "
            "default: comparison.html next to the first run."
        ),
    ] = None,
    limit: Limit = None,
    seed: Seed = None,
    column: Columns = None,
    figures: Figures = None,
    dry_run: DryRun = False,
    full: Full = False,
    as_json: Json = False,
    yes: Yes = False,
) -> None:
    """Draw the report, after running whatever is missing for it; that of a finished run's folder; or compare such runs."""
    of_recipes = {"--only": only, "--limit": limit, "--seed": seed, "--column": column}
    with running(as_json, dry_run, full, context) as output:
        from cda.errors import RecipeError

        if compare:
            _refuse({**of_recipes, "--figures": figures}, "not with --compare, which draws what finished runs hold")
            _compared(output, [recipe, *(overrides or [])], out)
        elif Path(recipe).expanduser().is_dir():
            _refuse(of_recipes, f"only with a recipe; {recipe} is the folder of a run, whose report is drawn as it is")
            _redrawn(output, recipe, overrides or [], figures, out)
        elif out is not None and Path(out).suffix == ".html":
            raise RecipeError([f"--out {out}: of a recipe it is the folder of the run; only --compare writes a page"])
        else:
            run_until(output, recipe, terms_of(overrides, yes, out, limit, seed, column), "report", only, figures)


def _refuse(options: Mapping[str, object], why: str) -> None:
    from cda.errors import RecipeError

    if problems := [f"{name}: {why}" for name, value in options.items() if value not in (None, False)]:
        raise RecipeError(problems)


def _compared(output: Output, folders: list[str], out: str | None) -> None:
    from cda.auditing.comparison_page import compare_runs

    output.show(*compare_runs(folders, out))


def _redrawn(output: Output, folder: str, words: list[str], figures: str | None, out: str | None) -> None:
    """Draw the report of a finished run anew."""
    from cda.quiet import quiet_libraries

    quiet_libraries()
    from cda.api.results import Run
    from cda.files.paths import user_path
    from cda.pipeline.stages import redraw

    redraw(folder, words, figures, out)
    output.show(lambda: Run(user_path(folder)).audit, "")


@app.command(rich_help_panel=SHOW)
def leaderboard(
    context: Context,
    folder: Annotated[str, Argument(help="Folder of rows that `cda audit --export` wrote, in any folders below it.")],
    out: Annotated[
        str | None, Option(help="The page. Default: leaderboard.html in the folder; CSV and JSON lie next to it.")
    ] = None,
    dry_run: DryRun = False,
    full: Full = False,
    as_json: Json = False,
) -> None:
    """Show shared audits next to each other: a page to sort, and a CSV; only rows on the same texts are ranked together."""
    with running(as_json, dry_run, full, context) as output:
        from cda.api.reports import leaderboard_files

        output.show(*leaderboard_files(folder, out))
