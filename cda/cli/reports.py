"""The commands on finished runs: reports, comparisons, and a leaderboard of shared rows."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from typer import Argument, Option

from cda.cli.app import DryRun, Figures, Only, Yes, app
from cda.cli.recipes import train_until
from cda.launch import say
from cda.user_errors import user_errors


@app.command()
def report(
    recipe: Annotated[str, Argument(help="A recipe, or the folder of a finished run.")],
    overrides: Annotated[
        list[str] | None, Argument(help="section.key=value, as many as you like; with --compare, more run folders.")
    ] = None,
    dry_run: DryRun = False,
    only: Only = False,
    yes: Yes = False,
    compare: Annotated[
        bool,
        Option(
            "--compare", help="Compare finished audits and trainings: what each found, and each paired with the first."
        ),
    ] = False,
    out: Annotated[
        str | None, Option(help="With --compare: the page. Default: comparison.html next to the first run.")
    ] = None,
    figures: Figures = None,
) -> None:
    """Draw the report, after running whatever is missing for it; that of a finished run's folder; or compare such runs."""
    if not compare and out is None and Path(recipe).expanduser().is_dir():
        with user_errors():
            from cda.quiet import quiet_libraries

            quiet_libraries()
            from cda.pipeline.stages import redraw

            redraw(recipe, overrides or [], figures, dry_run)
        return
    if not compare and out is None:
        train_until(recipe, overrides, "report", dry_run, only, yes, figures)
        return
    with user_errors():
        from cda.auditing.comparison_page import compare_runs
        from cda.errors import RecipeError

        if not compare:
            raise RecipeError(["--out: only with --compare; a report lies in its run's folder (run.folder=...)"])
        if figures is not None:
            raise RecipeError(["--figures: of one run's report, not with --compare"])
        print(compare_runs([recipe, *(overrides or [])], out))


@app.command()
def leaderboard(
    folder: Annotated[str, Argument(help="Folder of rows that `cda audit --export` wrote, in any folders below it.")],
    out: Annotated[
        str | None, Option(help="The page. Default: leaderboard.html in the folder; CSV and JSON lie next to it.")
    ] = None,
) -> None:
    """Show shared audits next to each other: a page to sort, and a CSV; only rows on the same texts are ranked together."""
    with user_errors():
        from cda.api.reports import leaderboard_files

        say(leaderboard_files(folder, out))
