"""`cda study`: contrasts to people, and their votes back; `cda inspect`: rewrites next to their originals."""

from __future__ import annotations

from typing import Annotated

import typer

from cda.cli.app import Column, Overrides, Yes, app, columns_of
from cda.launch import say
from cda.user_errors import user_errors

study = typer.Typer(no_args_is_help=True, help="Have people judge contrasts: write a study's folder, read the answers.")
app.add_typer(study, name="study")


@study.command("export")
def export_(
    contrasts: Annotated[
        str, typer.Argument(help="Contrasts (prompt, base, perturbed) or RATE triples, as for `cda audit`.")
    ],
    out: Annotated[str, typer.Argument(help="New folder for the study.")],
    bias: Annotated[
        list[str] | None,
        typer.Option("--bias", help="Name or bias file; several times for several. Default: those in the file."),
    ] = None,
    judgements: Annotated[int, typer.Option("--judgements", help="Wanted on each contrast, by different people.")] = 3,
    quota: Annotated[
        int | None,
        typer.Option("--quota", help="Most contrasts of a participant. Default: all (experts), 40 (crowd)."),
    ] = None,
    people: Annotated[
        int | None, typer.Option("--people", help="Number of participants. Default: as many as are needed.")
    ] = None,
    participants: Annotated[
        str, typer.Option("--participants", help="experts (asked for reasons) or crowd.")
    ] = "experts",
    attention: Annotated[
        int | None,
        typer.Option("--attention", help="Attention checks of each participant. Default: 0 (experts), 3 (crowd)."),
    ] = None,
    seed: Annotated[int, typer.Option("--seed", help="Of assignments, orders and sides.")] = 0,
    column: Column = None,
) -> None:
    """Write a folder with a page on which people judge, assignments, a key, a table and Label Studio tasks."""
    with user_errors():
        from cda.errors import RecipeError
        from cda.files.paths import user_path
        from cda.studies.design import KINDS
        from cda.studies.export import ExportOptions, export_study

        if participants not in KINDS:
            raise RecipeError([f"--participants: {' or '.join(KINDS)}, found '{participants}'"])
        columns = columns_of(column or [])
        options = ExportOptions(
            tuple(bias or ()), participants, judgements, quota, people, attention, seed, columns
        )  # fmt: skip
        export_study(contrasts, user_path(out), options)


@study.command("import")
def import_(
    folder: Annotated[str, typer.Argument(help="Folder of `cda study export`.")],
    results: Annotated[
        list[str], typer.Argument(help="Files of the page, exports of Label Studio (JSON), filled tables (CSV).")
    ],
    out: Annotated[
        str | None, typer.Option("--out", help="Where the votes go. Default: votes.jsonl in the folder.")
    ] = None,
    min_seconds: Annotated[
        float, typer.Option("--min-seconds", help="Leave out answers given in less time. Default: none.")
    ] = 0.0,
    attention_pass: Annotated[
        float,
        typer.Option("--attention-pass", help="Share of attention checks to be right, or the participant is left out."),
    ] = 0.75,
) -> None:
    """Check what people sent back, and write votes for `cda audit --votes` and a summary of who said what."""
    with user_errors():
        from cda.files.paths import user_path
        from cda.results.study import Rules
        from cda.studies.import_answers import import_study

        place = user_path(out) if out else None
        files = [user_path(path) for path in results]
        import_study(user_path(folder), files, place, Rules(pass_share=attention_pass, min_seconds=min_seconds))


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
