"""`cda inspect`, `cda study`, and the other commands that make files or say how many rows are needed."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from typer import Argument, Option

from cda.cli.app import ALWAYS, LOOK_UP, MAKE, MEASURE, TRAIN, Call, Overrides, app, job
from cda.jobs.options import ExportOptions, InspectOptions, MergeOptions, SampleArguments, TriplesOptions
from cda.records import PERCENT


@job(
    MEASURE, "limit html prompts dry_run full columns", InspectOptions,
    does="cda.inspection.inspect:inspect_rewrites", files=("triples",),
)  # fmt: skip
def inspect(
    target: Annotated[
        str,
        Argument(
            help="A run folder, a file of RATE triples, a recipe (its run's rewrites, or a few made now), or a bias (name or "
            "file; a few made now)."
        ),
    ],
    overrides: Overrides = None,
) -> None:
    """Look at rewrites: original and rewrite side by side, label, reward, drift, gate, and phrases that recur."""


@job(MAKE, "limit seed columns", TriplesOptions, does="cda.counterfactuals.triples:make_triples", files=("triples",))
def triples(
    out: Annotated[str, Argument(help="Where the triples go: a .jsonl file.")], overrides: Overrides = None
) -> None:
    """Make RATE triples to audit on: each answer rewritten to flip the bias, and rewritten back."""


@job(MAKE, end=ALWAYS)
def texts(
    call: Call,
    out: Annotated[str, Argument(help="New folder for them.")],
    form: Annotated[
        str, Option("--format", help="jsonl, or datasets (folders for datasets.load_from_disk).")
    ] = "jsonl",
) -> None:
    """Write the embedded texts (contrasts, quality and training pairs) as files that need no cda."""
    from cda.embedded.texts import FORMATS, check_empty, export, tables
    from cda.errors import RecipeError
    from cda.files.paths import user_path
    from cda.resources.dry_run import stop_if_dry
    from cda.results.commands import Written

    if form not in FORMATS:
        raise RecipeError([f"--format {form}: there are {' and '.join(FORMATS)}"])
    folder = user_path(out)
    check_empty(folder)
    stop_if_dry(None, lambda: _plan_of_texts({name: len(rows) for name, rows in tables().items()}, folder))
    rows = export(folder, form)
    counts = "\n".join(f"{n:5} {name}" for name, n in rows.items())
    call.output.show(
        Written(folder=folder, rows=rows), f"{counts}\n{folder}: written; README.md there is their data card"
    )


def _plan_of_texts(rows: dict[str, int], folder: Path) -> list[str]:
    counts = ", ".join(f"{name} {n}" for name, n in rows.items())
    return [
        f"texts       {sum(rows.values()):,} rows that ship with cda: {counts}",
        f"writes      {folder}: each as a table, and README.md, their data card",
    ]


@job(TRAIN, "", MergeOptions, ALWAYS, does="cda.pipeline.merge:merge")
def merge(
    sources: Annotated[
        list[str], Argument(help="Folders of finished runs, or of adapters; several are added together.")
    ],
) -> None:
    """Turn finished runs or adapters into one ordinary model, or one adapter, at the doses wanted."""


@job(LOOK_UP, "", SampleArguments, ALWAYS, does="cda.jobs.samples:samples")
def samples(
    half_width: Annotated[float, Argument(help=f"Half of the wanted {PERCENT} interval: 0.05 for ± 5 points.")],
) -> None:
    """How many contrasts, votes and prompts an interval of the wanted width needs."""


study = typer.Typer(no_args_is_help=True, help="Have people judge contrasts: write a study's folder, read the answers.")
app.add_typer(study, name="study", rich_help_panel=MAKE)


@job(None, "", ExportOptions, ALWAYS, "export", study, does="cda.studies.export:export_study")
def export_(
    contrasts: Annotated[
        str, Argument(help="Contrasts (prompt, base, perturbed) or RATE triples, as for `cda audit`.")
    ],
    out: Annotated[str, Argument(help="New folder for the study.")],
) -> None:
    """Write a folder with what people judge, in the form of their tool, and a key for the import."""


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
