"""The commands on finished runs: reports, comparisons, and a leaderboard of shared rows."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Annotated

from typer import Argument, Option

from cda.cli.app import ALWAYS, SHOW, Call, job
from cda.cli.recipes import run_until
from cda.errors import RecipeError


@job(SHOW, "only compare out limit seed columns figures")
def report(
    call: Call,
    recipe: Annotated[str, Argument(help="A recipe, or the folder of a finished run.")],
    overrides: Annotated[
        list[str] | None, Argument(help="section.key=value, as many as you like; with --compare, more run folders.")
    ] = None,
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
) -> None:
    """Draw the report, after running whatever is missing for it; that of a finished run's folder; or compare such runs."""
    of_recipes = {"--only": call.only, "--limit": call.limit, "--seed": call.seed, "--column": call.column}
    if compare:
        from cda.auditing.comparison_page import compare_runs

        _refuse({**of_recipes, "--figures": call.figures}, "not with --compare, which draws what finished runs hold")
        call.output.show(*compare_runs([recipe, *(overrides or [])], out))
    elif Path(recipe).expanduser().is_dir():
        _refuse(of_recipes, f"only with a recipe; {recipe} is the folder of a run, whose report is drawn as it is")
        _redrawn(call, recipe, overrides or [], out)
    elif out is not None and Path(out).suffix == ".html":
        raise RecipeError([f"--out {out}: of a recipe it is the folder of the run; only --compare writes a page"])
    else:
        run_until(replace(call, out=out), recipe, overrides, "report", call.only)


def _refuse(options: Mapping[str, object], why: str) -> None:
    if problems := [f"{name}: {why}" for name, value in options.items() if value not in (None, False)]:
        raise RecipeError(problems)


def _redrawn(call: Call, folder: str, words: list[str], out: str | None) -> None:
    """Draw the report of a finished run anew."""
    from cda.quiet import quiet_libraries

    quiet_libraries()
    from cda.api.results import Run
    from cda.files.paths import user_path
    from cda.pipeline.stages import redraw

    redraw(folder, words, call.figures, out)
    call.output.show(lambda: Run(user_path(folder)).audit, "")


@job(SHOW, end=ALWAYS)
def leaderboard(
    call: Call,
    folder: Annotated[str, Argument(help="Folder of rows that `cda audit --export` wrote, in any folders below it.")],
    out: Annotated[
        str | None, Option(help="The page. Default: leaderboard.html in the folder; CSV and JSON lie next to it.")
    ] = None,
) -> None:
    """Show shared audits next to each other: a page to sort, and a CSV; only rows on the same texts are ranked together."""
    from cda.api.reports import leaderboard_files

    call.output.show(*leaderboard_files(folder, out))
