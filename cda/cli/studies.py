"""`cda study`: contrasts to people, and their votes back."""

from __future__ import annotations

from typing import Annotated

import typer
from typer import Argument, Context, Option

from cda.cli.app import MAKE, Column, DryRun, Full, Json, Limit, app, columns_of
from cda.cli.output import running

study = typer.Typer(no_args_is_help=True, help="Have people judge contrasts: write a study's folder, read the answers.")
app.add_typer(study, name="study", rich_help_panel=MAKE)


@study.command("export")
def export_(
    context: Context,
    contrasts: Annotated[
        str, Argument(help="Contrasts (prompt, base, perturbed) or RATE triples, as for `cda audit`.")
    ],
    out: Annotated[str, Argument(help="New folder for the study.")],
    bias: Annotated[
        list[str] | None, Option(help="Name or bias file; several times for several. Default: those in the file.")
    ] = None,
    judgements: Annotated[int, Option(help="Wanted on each contrast, by different people.")] = 3,
    quota: Annotated[
        int | None, Option(help="Most contrasts of a participant. Default: all (experts), 40 (crowd).")
    ] = None,
    people: Annotated[int | None, Option(help="Number of participants. Default: as many as are needed.")] = None,
    participants: Annotated[str, Option(help="experts (asked for reasons) or crowd.")] = "experts",
    attention: Annotated[
        int | None, Option(help="Attention checks of each participant. Default: 0 (experts), 3 (crowd).")
    ] = None,
    seed: Annotated[int, Option(help="Of assignments, orders and sides.")] = 0,
    column: Column = None,
    limit: Limit = None,
    dry_run: DryRun = False,
    full: Full = False,
    as_json: Json = False,
) -> None:
    """Write a folder with a page on which people judge, assignments, a key, a table and Label Studio tasks."""
    with running(as_json, dry_run, full, context) as output:
        from cda.errors import RecipeError
        from cda.files.paths import user_path
        from cda.results.commands import Written
        from cda.studies.design import KINDS
        from cda.studies.export import ExportOptions, export_study

        if participants not in KINDS:
            raise RecipeError([f"--participants: {' or '.join(KINDS)}, found '{participants}'"])
        columns = columns_of(column or [])
        options = ExportOptions(
            tuple(bias or ()), participants, judgements, quota, people, attention, seed, columns, limit
        )  # fmt: skip
        made = export_study(contrasts, user_path(out), options)
        output.show(Written(folder=user_path(out), rows={"contrasts": len(made.contrasts)}), "")


@study.command("import")
def import_(
    context: Context,
    folder: Annotated[str, Argument(help="Folder of `cda study export`.")],
    results: Annotated[
        list[str], Argument(help="Files of the page, exports of Label Studio (JSON), filled tables (CSV).")
    ],
    out: Annotated[str | None, Option(help="Where the votes go. Default: votes.jsonl in the folder.")] = None,
    min_seconds: Annotated[float, Option(help="Leave out answers given in less time. Default: none.")] = 0.0,
    attention_pass: Annotated[
        float, Option(help="Share of attention checks to be right, or the participant is left out.")
    ] = 0.75,
    dry_run: DryRun = False,
    full: Full = False,
    as_json: Json = False,
) -> None:
    """Check what people sent back, and write votes for `cda audit --votes` and a summary of who said what."""
    with running(as_json, dry_run, full, context) as output:
        from cda.files.paths import user_path
        from cda.results.study import Rules
        from cda.studies.import_answers import import_study

        place = user_path(out) if out else None
        files = [user_path(path) for path in results]
        found = import_study(user_path(folder), files, place, Rules(pass_share=attention_pass, min_seconds=min_seconds))
        output.show(found, "")
