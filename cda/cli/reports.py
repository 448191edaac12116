"""`cda report`: the report of a recipe or of a finished run."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Annotated

from typer import Argument, Option

from cda.cli.app import SHOW, Call, job
from cda.cli.recipes import run_until
from cda.errors import RecipeError


@job(SHOW, "only out limit seed columns figures")
def report(
    call: Call,
    recipe: Annotated[str, Argument(help="A recipe, or the folder of a finished run.")],
    overrides: Annotated[list[str] | None, Argument(help="section.key=value, as many as you like.")] = None,
    out: Annotated[
        str | None,
        Option(help="Of a recipe: folder of the run. Of a run's folder: another folder for its report."),
    ] = None,
) -> None:
    """Draw the report, after running whatever is missing for it; or that of a finished run's folder."""
    of_recipes = {"--only": call.only, "--limit": call.limit, "--seed": call.seed, "--column": call.columns}
    if Path(recipe).expanduser().is_dir():
        why = f"only with a recipe; {recipe} is the folder of a run, whose report is drawn as it is"
        if problems := [f"{name}: {why}" for name, value in of_recipes.items() if value not in (None, False)]:
            raise RecipeError(problems)
        _redrawn(call, recipe, overrides or [], out)
    elif out is not None and Path(out).suffix == ".html":
        raise RecipeError([f"--out {out}: of a recipe it is the folder of the run"])
    else:
        run_until(replace(call, out=out), recipe, overrides, "report", call.only)


def _redrawn(call: Call, folder: str, words: list[str], out: str | None) -> None:
    """Draw the report of a finished run anew."""
    from cda.quiet import quiet_libraries

    quiet_libraries()
    from cda.api.results import Run
    from cda.files.paths import user_path
    from cda.pipeline.stages import redraw

    redraw(folder, words, call.figures, out)
    call.output.show(lambda: Run(user_path(folder)).audit, "")
