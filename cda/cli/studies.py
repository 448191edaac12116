"""`cda study`: contrasts to people, and their votes back."""

from __future__ import annotations

from typing import Annotated

import typer
from typer import Argument, Option

from cda.cli.app import ALWAYS, MAKE, Call, app, job

study = typer.Typer(no_args_is_help=True, help="Have people judge contrasts: write a study's folder, read the answers.")
app.add_typer(study, name="study", rich_help_panel=MAKE)


@job(None, "column limit", end=ALWAYS, name="export", group=study)
def export_(
    call: Call,
    contrasts: Annotated[
        str, Argument(help="Contrasts (prompt, base, perturbed) or RATE triples, as for `cda audit`.")
    ],
    out: Annotated[str, Argument(help="New folder for the study.")],
    to: Annotated[
        str, Option(help="Where people judge: csv (a table for a spreadsheet or form), labelstudio or prolific.")
    ] = "csv",
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
) -> None:
    """Write a folder with what people judge, in the form of their tool, and a key for the import."""
    from cda.files.paths import user_path
    from cda.results.commands import Written
    from cda.studies.export import ExportOptions, export_study

    options = ExportOptions(
        to,  # type: ignore[arg-type]  # checked with the rest
        tuple(bias or ()),
        participants,  # type: ignore[arg-type]
        judgements,
        quota,
        people,
        attention,
        seed,
        call.columns,
        call.limit,
    )
    made = export_study(contrasts, user_path(out), options)
    call.output.show(Written(folder=user_path(out), rows={"contrasts": len(made.contrasts)}), "")


@job(None, end=ALWAYS, name="import", group=study)
def import_(
    call: Call,
    folder: Annotated[str, Argument(help="Folder of `cda study export`.")],
    results: Annotated[
        list[str], Argument(help="Filled tables and reports of Prolific (CSV), exports of Label Studio (JSON).")
    ],
    out: Annotated[str | None, Option(help="Where the votes go. Default: votes.jsonl in the folder.")] = None,
    min_seconds: Annotated[float, Option(help="Leave out answers given in less time. Default: none.")] = 0.0,
    attention_pass: Annotated[
        float, Option(help="Share of attention checks to be right, or the participant is left out.")
    ] = 0.75,
) -> None:
    """Check what people sent back, and write votes for `cda audit --votes` and a summary of who said what."""
    from cda.files.paths import user_path
    from cda.results.study import Rules
    from cda.studies.import_answers import import_study

    place = user_path(out) if out else None
    files = [user_path(path) for path in results]
    found = import_study(user_path(folder), files, place, Rules(pass_share=attention_pass, min_seconds=min_seconds))
    call.output.show(found, "")
