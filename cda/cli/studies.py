"""`cda study`: contrasts to people, and their votes back."""

from __future__ import annotations

from typing import Annotated

import typer
from typer import Argument, Option

from cda.cli.app import ALWAYS, MAKE, Call, app, job
from cda.jobs.options import ExportOptions

study = typer.Typer(no_args_is_help=True, help="Have people judge contrasts: write a study's folder, read the answers.")
app.add_typer(study, name="study", rich_help_panel=MAKE)


@job(None, "", ExportOptions, ALWAYS, "export", study)
def export_(
    call: Call,
    contrasts: Annotated[
        str, Argument(help="Contrasts (prompt, base, perturbed) or RATE triples, as for `cda audit`.")
    ],
    out: Annotated[str, Argument(help="New folder for the study.")],
    *,
    options: ExportOptions,
) -> None:
    """Write a folder with what people judge, in the form of their tool, and a key for the import."""
    from cda.files.paths import user_path
    from cda.results.commands import Written
    from cda.studies.export import export_study

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
