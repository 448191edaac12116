"""`cda inspect`: rewrites side by side, with what they did to label, reward and everything else."""

from __future__ import annotations

from typing import Annotated

import typer

from cda.cli.app import app
from cda.cli.options import Overrides, Yes
from cda.launch import say
from cda.user_errors import user_errors


@app.command()
def inspect(
    target: Annotated[
        str,
        typer.Argument(
            help="A run folder, a file of RATE triples, a recipe (its run's rewrites, or a few made now), or a bias (name or "
            "file; a few made now)."
        ),
    ],
    overrides: Overrides = None,
    n: Annotated[int, typer.Option("--n", help="How many to show, and to make, of each bias and direction.")] = 8,
    bias: Annotated[
        list[str] | None,
        typer.Option("--bias", help="Look at this bias alone; may be given several times."),
    ] = None,
    seed: Annotated[int, typer.Option("--seed", help="Draws what is shown.")] = 42,
    worst: Annotated[
        str | None,
        typer.Option(
            "--worst",
            help="Show first where the reward moved most (reward), what else changed most (drift), or what failed (failed).",
        ),
    ] = None,
    model: Annotated[
        str | None,
        typer.Option(
            "--model", help="Whose rewards to show; `none` for none. Default: those at hand, else the recipe's model."
        ),
    ] = None,
    responses: Annotated[
        str | None,
        typer.Option(
            "--responses", help="Rewrite answers of this file: prompt, response and, where known, has_attribute."
        ),
    ] = None,
    fresh: Annotated[
        bool, typer.Option("--fresh", help="Make a few now, even where the recipe's run holds rewrites.")
    ] = False,
    most: Annotated[
        int, typer.Option("--most", help="Take the numbers from at most so many of each bias and direction.")
    ] = 200,
    html: Annotated[str | None, typer.Option("--html", help="Write a page to this file as well.")] = None,
    prompts: Annotated[
        bool,
        typer.Option(
            "--prompts",
            help="Show every prompt that an LLM would get of one example, and ask none; TARGET may be judge:NAME too.",
        ),
    ] = False,
    yes: Yes = False,
) -> None:
    """Look at rewrites: original and rewrite side by side, label, reward, drift, gate, and phrases that recur."""
    with user_errors():
        from cda.launch import use_all_cores
        from cda.quiet import quiet_libraries

        use_all_cores()
        quiet_libraries()
        from cda.inspection.inspect import inspect_rewrites
        from cda.inspection.targets import InspectOptions

        options = InspectOptions(n, tuple(bias or ()), seed, worst, model, responses, fresh, most, html, confirmed=yes)
        if prompts:
            from cda.inspection.fresh import prompts_text

            say(prompts_text(target, overrides or [], options))
        else:
            say(inspect_rewrites(target, overrides or [], options))
