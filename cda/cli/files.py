"""`cda inspect`, and the commands that make files or say how many are needed."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from typer import Argument, Option

from cda.cli.app import ALWAYS, LOOK_UP, MAKE, MEASURE, TRAIN, Call, Overrides, job
from cda.jobs.options import COMMON
from cda.records import PERCENT


@job(MEASURE, "limit html prompts dry_run full columns")
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
    n: Annotated[int, Option(help="How many to show, and to make, of each bias and direction.")] = 8,
    bias: Annotated[list[str] | None, Option(help="Look at this bias alone; may be given several times.")] = None,
    seed: Annotated[int, Option(help="Draws what is shown.")] = 42,
    worst: Annotated[
        str | None,
        Option(
            help="Show first where the reward moved most (reward), what else changed most (drift), or what failed (failed)."
        ),
    ] = None,
    model: Annotated[
        str | None,
        Option(help="Whose rewards to show; `none` for none. Default: those available, else the recipe's model."),
    ] = None,
    responses: Annotated[
        str | None, Option(help="Rewrite answers of this file: prompt, response and, where known, has_attribute.")
    ] = None,
    fresh: Annotated[
        bool, Option("--fresh", help="Make a few now, even where the recipe's run holds rewrites.")
    ] = False,
    limit: Annotated[
        int,
        Option(min=1, help="Take the numbers from at most so many of each bias and direction.", rich_help_panel=COMMON),
    ] = 200,
    html: Annotated[str | None, Option(help="Write a page to this file as well.")] = None,
    prompts: Annotated[
        bool,
        Option(
            "--prompts",
            help="Show every prompt that an LLM would get of one example, and ask none; TARGET may be judge:NAME or grade:NAME too.",
        ),
    ] = False,
) -> None:
    """Look at rewrites: original and rewrite side by side, label, reward, drift, gate, and phrases that recur."""
    from cda.launch import use_all_cores
    from cda.quiet import quiet_libraries

    use_all_cores()
    quiet_libraries()
    from cda.inspection.inspect import inspect_rewrites
    from cda.inspection.sources import InspectOptions

    words = call.words(overrides, "triples")
    options = InspectOptions(
        n, tuple(bias or ()), seed, worst, model, responses, fresh, limit, html, confirmed=call.yes
    )
    if prompts:
        from cda.inspection.fresh import prompts_text
        from cda.results.commands import Prompts

        text = prompts_text(target, words, options)
        call.output.show(Prompts(text=text), text)
    else:
        call.output.show(*inspect_rewrites(target, words, options))


@job(MAKE, "limit seed columns")
def pairs(
    call: Call,
    out: Annotated[str, Argument(help="Where the triples go: a .jsonl file.")],
    overrides: Overrides = None,
    bias: Annotated[list[str] | None, Option(help="Name or bias file; several times for several.")] = None,
    queries: Annotated[str | None, Option(help="Prompts or conversations; clean questions are kept.")] = None,
    topics: Annotated[str | None, Option(help="A topic a line; questions are written on them.")] = None,
    responses: Annotated[str | None, Option(help="Rows of prompt, response and, where known, has_attribute.")] = None,
    kind: Annotated[str, Option(help="Of questions on topics: opinion or technical.")] = "technical",
    per_topic: Annotated[int, Option(help="Questions on each topic.")] = 5,
) -> None:
    """Make RATE triples to audit on: each answer rewritten to flip the bias, and rewritten back."""
    from dataclasses import replace

    from cda.counterfactuals.triples import PairsSource, make_pairs
    from cda.errors import RecipeError
    from cda.files.paths import user_path
    from cda.recipe.load import load_model_audit
    from cda.results.commands import Written

    if kind not in ("opinion", "technical"):
        raise RecipeError([f"--kind: opinion or technical, found '{kind}'"])
    settings = {"name": "pairs", **({"biases": bias} if bias else {})}
    loaded = replace(load_model_audit("embedded", settings, call.words(overrides, "triples")), confirmed=call.yes)
    source = PairsSource(queries, topics, responses, kind, per_topic, call.limit)  # type: ignore[arg-type]
    counts = make_pairs(loaded, source, user_path(out))
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


@job(TRAIN, end=ALWAYS)
def merge(
    call: Call,
    sources: Annotated[
        list[str], Argument(help="Folders of finished runs, or of adapters; several are added together.")
    ],
    out: Annotated[str, Option(help="New folder for the result.")],
    dose: Annotated[
        list[float] | None,
        Option(
            help="How much of each adapter, one for each: 0 none, 1 as trained, more is possible; left out: a run's chosen dose, 1 of an adapter."
        ),
    ] = None,
    base: Annotated[str | None, Option(help="Base model, where the adapters do not say it or say another.")] = None,
    precision: Annotated[str, Option(help="Of the merged weights: fp32 or bf16.")] = "fp32",
    adapter_only: Annotated[
        bool, Option("--adapter-only", help="Write one adapter at the dose, and merge nothing.")
    ] = False,
    push: Annotated[
        str | None, Option(help="Upload the result to the hub as organisation/name; private where new.")
    ] = None,
) -> None:
    """Turn finished runs or adapters into one ordinary model, or one adapter, at the doses wanted."""
    from cda.files.paths import user_path
    from cda.quiet import quiet_libraries

    quiet_libraries()
    from cda.pipeline.merge import merge as merge_sources
    from cda.results.commands import Written

    folder = user_path(out)
    merge_sources(sources, folder, tuple(dose or ()), base, precision, adapter_only, push)
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
