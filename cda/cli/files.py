"""Commands that make files: triples, embedded texts, merged models; and how many contrasts are needed."""

from __future__ import annotations

from typing import Annotated

import typer

from cda import __version__
from cda.cli.app import Overrides, Yes, app
from cda.user_errors import user_errors


@app.command()
def pairs(
    out: Annotated[str, typer.Argument(help="Where the triples go: a .jsonl file.")],
    overrides: Overrides = None,
    bias: Annotated[
        list[str] | None, typer.Option("--bias", help="Name or bias file; several times for several.")
    ] = None,
    queries: Annotated[
        str | None, typer.Option("--queries", help="Prompts or conversations; clean questions are kept.")
    ] = None,
    topics: Annotated[
        str | None, typer.Option("--topics", help="A topic a line; questions are written on them.")
    ] = None,
    responses: Annotated[
        str | None, typer.Option("--responses", help="Rows of prompt, response and, where known, has_attribute.")
    ] = None,
    kind: Annotated[str, typer.Option("--kind", help="Of questions on topics: opinion or technical.")] = "technical",
    per_topic: Annotated[int, typer.Option("--per-topic", help="Questions on each topic.")] = 5,
    most: Annotated[int | None, typer.Option("--most", help="Take at most so many queries or responses.")] = None,
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
def texts(
    out: Annotated[str, typer.Argument(help="New folder for them.")],
    form: Annotated[
        str, typer.Option("--format", help="jsonl, or datasets (folders for datasets.load_from_disk).")
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
        list[str], typer.Argument(help="Folders of finished runs, or of adapters; several are added together.")
    ],
    out: Annotated[str, typer.Option("--out", help="New folder for the result.")],
    dose: Annotated[
        list[float] | None,
        typer.Option(
            "--dose",
            help="How much of each adapter, one for each: 0 none, 1 as trained, more is possible; left out: a run's chosen dose, 1 of an adapter.",
        ),
    ] = None,
    base: Annotated[
        str | None, typer.Option("--base", help="Base model, where the adapters do not say it or say another.")
    ] = None,
    precision: Annotated[str, typer.Option("--precision", help="Of the merged weights: fp32 or bf16.")] = "fp32",
    adapter_only: Annotated[
        bool, typer.Option("--adapter-only", help="Write one adapter at the dose, and merge nothing.")
    ] = False,
    push: Annotated[
        str | None, typer.Option("--push", help="Upload the result to the hub as organisation/name; private where new.")
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
    half_width: Annotated[float, typer.Argument(help="Half of the wanted 95% interval: 0.05 for ± 5 points.")],
    share: Annotated[float, typer.Option(help="Expected skew or miscalibration.")] = 0.5,
    flipped: Annotated[float, typer.Option(help="Expected share of contrasts whose preference training flips.")] = 0.3,
    per_prompt: Annotated[int, typer.Option(help="Contrasts of one prompt.")] = 1,
    within_prompt: Annotated[float, typer.Option(help="How alike contrasts of one prompt are (ICC, 0 to 1).")] = 0.3,
    vote_correlation: Annotated[
        float, typer.Option(help="How alike two people's votes on one item are (0 to 1).")
    ] = 0.4,
    majority_error: Annotated[
        float, typer.Option(help="Tolerated share of majorities that more votes would turn.")
    ] = 0.1,
    effect: Annotated[
        float,
        typer.Option(help="Half of the wanted 95% interval of a mean margin or RATE effect, in the unit of --sd."),
    ] = 0.1,
    sd: Annotated[
        float, typer.Option(help="How much margins vary between prompts; 1: --effect is in SDs. An audit's sd_margin.")
    ] = 1.0,
) -> None:
    """How many contrasts, votes and prompts an interval of the wanted width needs."""
    with user_errors():
        from cda.pipeline.sample_plan import sample_plan

        words = half_width, share, flipped, per_prompt, within_prompt, vote_correlation, majority_error
        print(sample_plan(*words, effect, sd))


@app.command()
def version() -> None:
    """Print the version."""
    print(__version__)
