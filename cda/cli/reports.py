"""The commands on finished runs: reports, comparisons, and a leaderboard of shared rows."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from typer import Argument, Option

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
    with_options,
)
from cda.cli.output import Output, running
from cda.cli.recipes import TRAINED_FILES, run_until, terms_of


@app.command(rich_help_panel=SHOW)
def report(
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
        Option(help="With --compare: the page. Default: comparison.html next to the first run."),
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
    with running(as_json, dry_run, full) as output:
        from cda.errors import RecipeError

        if compare:
            if figures is not None:
                raise RecipeError(["--figures: of one run's report, not with --compare"])
            _compared(output, [recipe, *(overrides or [])], out)
        elif out is not None:
            raise RecipeError(["--out: only with --compare; a report lies in its run's folder (run.folder=...)"])
        elif Path(recipe).expanduser().is_dir():
            _redrawn(output, recipe, with_options(overrides, seed, column, TRAINED_FILES), figures)
        else:
            run_until(output, recipe, terms_of(overrides, yes, None, limit, seed, column), "report", only, figures)


def _compared(output: Output, folders: list[str], out: str | None) -> None:
    from cda.auditing.comparison_page import compare_runs

    output.show(*compare_runs(folders, out))


def _redrawn(output: Output, folder: str, words: list[str], figures: str | None) -> None:
    """Draw the report of a finished run anew."""
    from cda.quiet import quiet_libraries

    quiet_libraries()
    from cda.api.results import Run
    from cda.files.paths import user_path
    from cda.pipeline.stages import redraw
    from cda.results.commands import Plan

    if plan := redraw(folder, words, figures, output.dry_run):
        output.show(Plan(settings={}, lines=(plan,)), plan)
    else:
        output.show(lambda: Run(user_path(folder)).audit, "")


@app.command(rich_help_panel=SHOW)
def leaderboard(
    folder: Annotated[str, Argument(help="Folder of rows that `cda audit --export` wrote, in any folders below it.")],
    out: Annotated[
        str | None, Option(help="The page. Default: leaderboard.html in the folder; CSV and JSON lie next to it.")
    ] = None,
    as_json: Json = False,
) -> None:
    """Show shared audits next to each other: a page to sort, and a CSV; only rows on the same texts are ranked together."""
    with running(as_json) as output:
        from cda.api.reports import leaderboard_files

        output.show(*leaderboard_files(folder, out))
