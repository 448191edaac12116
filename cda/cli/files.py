"""`cda inspect`, `cda study`, and the other commands that make files or say how many rows are needed."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Annotated

import typer
from typer import Argument, Option

from cda.cli.app import ALWAYS, LOOK_UP, MAKE, MEASURE, TRAIN, Call, Overrides, app, job
from cda.jobs.options import ExportOptions, InspectOptions, MergeOptions, TriplesOptions
from cda.records import PERCENT


@job(MEASURE, "limit html prompts dry_run full columns", InspectOptions)
def inspect(
    call: Call,
    target: Annotated[
        str,
        Argument(
            help="A run folder, a file of RATE triples, a recipe (its run's rewrites, or a few made now), or a bias (name or "
            "file; a few made now)."
        ),
    ],
    overrides: Overrides = None,
    prompts: Annotated[
        bool,
        Option(
            "--prompts",
            help="Show every prompt that an LLM would get of one example, and ask none; TARGET may be judge:NAME or grade:NAME too.",
        ),
    ] = False,
    *,
    options: InspectOptions,
) -> None:
    """Look at rewrites: original and rewrite side by side, label, reward, drift, gate, and phrases that recur."""
    from cda.launch import use_all_cores
    from cda.quiet import quiet_libraries

    use_all_cores()
    quiet_libraries()
    from cda.inspection.inspect import inspect_rewrites

    words, options = call.words(overrides, "triples"), replace(options, confirmed=call.yes)
    if prompts:
        from cda.inspection.fresh import prompts_text
        from cda.results.commands import Prompts

        text = prompts_text(target, words, options)
        call.output.show(Prompts(text=text), text)
    else:
        call.output.show(*inspect_rewrites(target, words, options))


@job(MAKE, "limit seed columns", TriplesOptions)
def triples(
    call: Call,
    out: Annotated[str, Argument(help="Where the triples go: a .jsonl file.")],
    overrides: Overrides = None,
    bias: Annotated[list[str] | None, Option(help="Name or bias file; several times for several.")] = None,
    *,
    options: TriplesOptions,
) -> None:
    """Make RATE triples to audit on: each answer rewritten to flip the bias, and rewritten back."""
    from cda.counterfactuals.triples import make_triples
    from cda.files.paths import user_path
    from cda.recipe.load import load_model_audit
    from cda.results.commands import Written

    settings = {"name": "triples", **({"biases": bias} if bias else {})}
    loaded = replace(load_model_audit("embedded", settings, call.words(overrides, "triples")), confirmed=call.yes)
    counts = make_triples(loaded, options, user_path(out))
    call.output.show(Written(folder=user_path(out), rows=counts), "")


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


@job(TRAIN, "", MergeOptions, ALWAYS)
def merge(
    call: Call,
    sources: Annotated[
        list[str], Argument(help="Folders of finished runs, or of adapters; several are added together.")
    ],
    *,
    options: MergeOptions,
) -> None:
    """Turn finished runs or adapters into one ordinary model, or one adapter, at the doses wanted."""
    from cda.files.paths import user_path
    from cda.quiet import quiet_libraries

    quiet_libraries()
    from cda.pipeline.merge import merge as merge_sources
    from cda.results.commands import Written

    folder = user_path(options.out)
    merge_sources(sources, folder, options.doses, options.base, options.precision, options.adapter_only, options.push)
    call.output.show(Written(folder=folder), "")


@job(LOOK_UP, end=ALWAYS)
def samples(
    call: Call,
    half_width: Annotated[float, Argument(help=f"Half of the wanted {PERCENT} interval: 0.05 for ± 5 points.")],
    share: Annotated[float, Option(help="Expected skew or miscalibration.")] = 0.5,
    flipped: Annotated[float, Option(help="Expected share of contrasts whose preference training flips.")] = 0.3,
    per_prompt: Annotated[int, Option(help="Contrasts of one prompt.")] = 1,
    within_prompt: Annotated[float, Option(help="How alike contrasts of one prompt are (ICC, 0 to 1).")] = 0.3,
    vote_correlation: Annotated[float, Option(help="How alike two people's votes on one item are (0 to 1).")] = 0.4,
    majority_error: Annotated[float, Option(help="Tolerated share of majorities that more votes would turn.")] = 0.1,
    effect: Annotated[
        float,
        Option(help=f"Half of the wanted {PERCENT} interval of a mean margin or RATE effect, in the unit of --sd."),
    ] = 0.1,
    sd: Annotated[
        float, Option(help="How much margins vary between prompts; 1: --effect is in SDs. An audit's sd_margin.")
    ] = 1.0,
) -> None:
    """How many contrasts, votes and prompts an interval of the wanted width needs."""
    from cda.errors import DataError
    from cda.resources.dry_run import stop_if_dry
    from cda.results.commands import SampleSizes
    from cda.stats import sample_size as needed

    if per_prompt < 1 or not 0 <= within_prompt <= 1:
        raise DataError(f"{per_prompt} contrasts of one prompt, alike by {within_prompt}: at least 1, and 0 to 1")
    design = 1 + (per_prompt - 1) * within_prompt  # variance of contrasts that share prompts over that of others
    found = SampleSizes(
        contrasts=needed.triples_for_share(half_width, share, design),
        contrasts_for_change=needed.triples_for_change(half_width, flipped, design),
        votes=(votes := needed.votes_for_majority(majority_error, vote_correlation)),
        majority_error=needed.majority_error(votes, vote_correlation),
        prompts=needed.prompts_for_effect(effect, sd),
    )
    points = f"± {100 * half_width:g} points"
    stop_if_dry(
        None, lambda: [f"prints      the contrasts, votes and prompts that {points} need; reads and writes no file"]
    )
    lines = [
        f"{found.contrasts} contrasts for skew or miscalibration near {share:.0%} {points}",
        f"{found.contrasts_for_change} contrasts for its change by training {points}, where {flipped:.0%} of them flip",
        f"{votes} votes a contrast: with fewer, more than {majority_error:.0%} of majorities would turn with more votes "
        f"({found.majority_error:.1%} with {votes})",
        f"{found.prompts} prompts for a mean margin or a RATE effect ± {effect:g}, where it varies between prompts by an "
        f"SD of {sd:g} (at most sd_margin of audit.json)",
    ]
    if per_prompt > 1:
        lines.append(
            f"{per_prompt} contrasts of one prompt, alike by {within_prompt:g}, count as {per_prompt / design:.1f}"
        )
    call.output.show(found, "\n".join(lines))


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
