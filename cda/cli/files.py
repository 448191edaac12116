"""`cda study`, contrasts to people and their votes back; `cda inspect`; and commands that make files."""

from __future__ import annotations

from typing import Annotated

import typer
from typer import Argument, Option

from cda import __version__
from cda.cli.app import BiasOption, Column, Figures, Overrides, SplitName, Yes, app, columns_of, confirmed
from cda.launch import say
from cda.user_errors import user_errors

study = typer.Typer(no_args_is_help=True, help="Have people judge contrasts: write a study's folder, read the answers.")
app.add_typer(study, name="study")


@study.command("export")
def export_(
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
    folder: Annotated[str, Argument(help="Folder of `cda study export`.")],
    results: Annotated[
        list[str], Argument(help="Files of the page, exports of Label Studio (JSON), filled tables (CSV).")
    ],
    out: Annotated[str | None, Option(help="Where the votes go. Default: votes.jsonl in the folder.")] = None,
    min_seconds: Annotated[float, Option(help="Leave out answers given in less time. Default: none.")] = 0.0,
    attention_pass: Annotated[
        float, Option(help="Share of attention checks to be right, or the participant is left out.")
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
    most: Annotated[int, Option(help="Take the numbers from at most so many of each bias and direction.")] = 200,
    html: Annotated[str | None, Option(help="Write a page to this file as well.")] = None,
    prompts: Annotated[
        bool,
        Option(
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
        from cda.inspection.sources import InspectOptions

        options = InspectOptions(n, tuple(bias or ()), seed, worst, model, responses, fresh, most, html, confirmed=yes)
        if prompts:
            from cda.inspection.fresh import prompts_text

            say(prompts_text(target, overrides or [], options))
        else:
            say(inspect_rewrites(target, overrides or [], options))


@app.command()
def pairs(
    out: Annotated[str, Argument(help="Where the triples go: a .jsonl file.")],
    overrides: Overrides = None,
    bias: Annotated[list[str] | None, Option(help="Name or bias file; several times for several.")] = None,
    queries: Annotated[str | None, Option(help="Prompts or conversations; clean questions are kept.")] = None,
    topics: Annotated[str | None, Option(help="A topic a line; questions are written on them.")] = None,
    responses: Annotated[str | None, Option(help="Rows of prompt, response and, where known, has_attribute.")] = None,
    kind: Annotated[str, Option(help="Of questions on topics: opinion or technical.")] = "technical",
    per_topic: Annotated[int, Option(help="Questions on each topic.")] = 5,
    most: Annotated[int | None, Option(help="Take at most so many queries or responses.")] = None,
    yes: Yes = False,
) -> None:
    """Make RATE triples to audit on: each answer rewritten to flip the bias, and rewritten back."""
    with user_errors():
        from dataclasses import replace

        from cda.counterfactuals.triples import PairsSource, make_pairs
        from cda.errors import RecipeError
        from cda.files.paths import user_path
        from cda.recipe.load import load_model_audit

        if kind not in ("opinion", "technical"):
            raise RecipeError([f"--kind: opinion or technical, found '{kind}'"])
        settings = {"name": "pairs", **({"biases": bias} if bias else {})}
        loaded = replace(load_model_audit("embedded", settings, overrides or []), confirmed=yes)
        source = PairsSource(queries, topics, responses, kind, per_topic, most)  # type: ignore[arg-type]
        make_pairs(loaded, source, user_path(out))


@app.command()
def data(
    pairs: Annotated[str, Argument(help="Preference pairs in TRL's format, or `embedded`.")],
    overrides: Overrides = None,
    bias: BiasOption = None,
    labels: Annotated[
        list[str] | None,
        Option(
            help="Take labels from this file (PAIRS itself, or another); several times for several. Default: measured, or by llm.model."
        ),
    ] = None,
    by: Annotated[
        list[str] | None,
        Option(help="Measure by the values of this column, too, such as source; several times for several."),
    ] = None,
    column: Column = None,
    split: SplitName = "train",
    most: Annotated[int | None, Option(help="Take at most so many pairs, drawn at random.")] = None,
    out: Annotated[str | None, Option(help="Folder for the results. Default: runs/data-of-<pairs>.")] = None,
    figures: Figures = None,
    yes: Yes = False,
) -> None:
    """What a reward model would learn of each bias from preference pairs, before anything is trained."""
    with user_errors():
        from cda.api.data import audit_data

        result = audit_data(
            pairs, biases=bias, labels=labels, by=by, columns=columns_of(column or []), split=split, most=most,
            figures=figures, out=out, confirm=confirmed(yes), overrides=overrides or [],
        )  # fmt: skip
        say(result.summary)


@app.command()
def texts(
    out: Annotated[str, Argument(help="New folder for them.")],
    form: Annotated[
        str, Option("--format", help="jsonl, or datasets (folders for datasets.load_from_disk).")
    ] = "jsonl",
) -> None:
    """Write the embedded texts (contrasts, quality and training pairs) as files that need no cda."""
    with user_errors():
        from cda.embedded.texts import FORMATS, export
        from cda.errors import RecipeError
        from cda.files.paths import user_path
        from cda.launch import say

        if form not in FORMATS:
            raise RecipeError([f"--format {form}: there are {' and '.join(FORMATS)}"])
        folder = user_path(out)
        for name, n in export(folder, form).items():
            say(f"{n:5} {name}")
        say(f"{folder}: written; README.md there is their data card")


@app.command()
def merge(
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
    with user_errors():
        from cda.files.paths import user_path
        from cda.quiet import quiet_libraries

        quiet_libraries()
        from cda.pipeline.merge import MergeOptions
        from cda.pipeline.merge import merge as merge_sources

        folder = user_path(out)
        merge_sources(sources, MergeOptions(folder, tuple(dose or ()), base, precision, adapter_only, push))


@app.command()
def samples(
    half_width: Annotated[float, Argument(help="Half of the wanted 95% interval: 0.05 for ± 5 points.")],
    share: Annotated[float, Option(help="Expected skew or miscalibration.")] = 0.5,
    flipped: Annotated[float, Option(help="Expected share of contrasts whose preference training flips.")] = 0.3,
    per_prompt: Annotated[int, Option(help="Contrasts of one prompt.")] = 1,
    within_prompt: Annotated[float, Option(help="How alike contrasts of one prompt are (ICC, 0 to 1).")] = 0.3,
    vote_correlation: Annotated[float, Option(help="How alike two people's votes on one item are (0 to 1).")] = 0.4,
    majority_error: Annotated[float, Option(help="Tolerated share of majorities that more votes would turn.")] = 0.1,
    effect: Annotated[
        float, Option(help="Half of the wanted 95% interval of a mean margin or RATE effect, in the unit of --sd.")
    ] = 0.1,
    sd: Annotated[
        float, Option(help="How much margins vary between prompts; 1: --effect is in SDs. An audit's sd_margin.")
    ] = 1.0,
) -> None:
    """How many contrasts, votes and prompts an interval of the wanted width needs."""
    with user_errors():
        from cda.errors import DataError
        from cda.stats import sample_size as needed

        if per_prompt < 1 or not 0 <= within_prompt <= 1:
            raise DataError(f"{per_prompt} contrasts of one prompt, alike by {within_prompt}: at least 1, and 0 to 1")
        design = (
            1 + (per_prompt - 1) * within_prompt
        )  # the variance of contrasts that share prompts over that of others
        one = needed.triples_for_share(half_width, share, design)
        change = needed.triples_for_change(half_width, flipped, design)
        votes = needed.votes_for_majority(majority_error, vote_correlation)
        error = needed.majority_error(votes, vote_correlation)
        prompts = needed.prompts_for_effect(effect, sd)
        points = f"± {100 * half_width:g} points"
        print(f"{one} contrasts for skew or miscalibration near {share:.0%} {points}")
        print(f"{change} contrasts for its change by training {points}, where {flipped:.0%} of them flip")
        print(
            f"{votes} votes a contrast: with fewer, more than {majority_error:.0%} of majorities would turn with more votes "
            f"({error:.1%} with {votes})"
        )
        print(
            f"{prompts} prompts for a mean margin or a RATE effect ± {effect:g}, where it varies between prompts by an "
            f"SD of {sd:g} (at most sd_margin of audit.json)"
        )
        if per_prompt > 1:
            print(
                f"{per_prompt} contrasts of one prompt, alike by {within_prompt:g}, count as {per_prompt / design:.1f}"
            )


@app.command()
def version() -> None:
    """Print the version."""
    print(__version__)
