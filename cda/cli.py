"""The `cda` command: one subcommand a stage. Imports nothing heavy until a stage runs."""

from __future__ import annotations

import json
from typing import Annotated

import typer

from cda import __version__
from cda.invoke import asked_model, columns_of, run_audit, run_recipe
from cda.launch import say
from cda.user_errors import user_errors

app = typer.Typer(
    add_completion=False,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    help="Find the stylistic biases of reward models, measure them, and train them away.",
)

Recipe = Annotated[str, typer.Argument(help="Path of a recipe, or the name of a shipped one (jargon, length, …).")]
Overrides = Annotated[list[str] | None, typer.Argument(help="section.key=value, as many as you like.")]
DryRun = Annotated[
    bool,
    typer.Option("--dry-run", help="Check everything, print the resolved recipe and the plan, do nothing."),
]
Yes = Annotated[bool, typer.Option("--yes", help="Agree beforehand to what asking an LLM will cost.")]
Only = Annotated[bool, typer.Option("--only", help="Run this stage alone; earlier ones must have finished.")]
Column = Annotated[
    list[str] | None,
    typer.Option("--column", help="A column under another name, ours=theirs; may be given several times."),
]
SplitName = Annotated[str, typer.Option("--split", help="Of a folder or hub id with several.")]
_TARGET = (
    "A reward model (hub id, folder, or `embedded`), `judge:NAME` for an LLM judge, `served:URL` for a served model, "
    "`dpo:POLICY,REFERENCE` or `steered:MODEL` for causal models, or `module:function` for your own."
)


@app.command()
def label(recipe: Recipe, overrides: Overrides = None, dry_run: DryRun = False, yes: Yes = False) -> None:
    """Load and clean the pairs, and label each side for the bias."""
    run_recipe(recipe, overrides or [], "label", dry_run, yes=yes)


@app.command()
def synthesize(
    recipe: Recipe, overrides: Overrides = None, dry_run: DryRun = False, only: Only = False, yes: Yes = False
) -> None:
    """Rewrite rejected responses so that they carry the bias."""
    run_recipe(recipe, overrides or [], "synthesize", dry_run, only, yes)


@app.command()
def train(
    recipe: Recipe, overrides: Overrides = None, dry_run: DryRun = False, only: Only = False, yes: Yes = False
) -> None:
    """The whole job: label, synthesize, finetune, audit and report; with --only, the finetuning alone."""
    run_recipe(recipe, overrides or [], "train" if only else "report", dry_run, only, yes)


@app.command()
def audit(
    target: Annotated[
        str,
        typer.Argument(help=f"{_TARGET} Or a recipe: that is audited before and after its training."),
    ],
    overrides: Overrides = None,
    bias: Annotated[
        list[str] | None,
        typer.Option("--bias", help="Name or bias file; may be given several times. Default: all five."),
    ] = None,
    pairs: Annotated[
        str | None, typer.Option("--pairs", help="Contrasts of your own: prompt, base, perturbed.")
    ] = None,
    votes: Annotated[
        str | None, typer.Option("--votes", help="People's votes on them: id and vote, any number an item.")
    ] = None,
    verdicts: Annotated[
        str | None, typer.Option("--verdicts", help="LLM judges' verdicts on them, to stretch few votes (PPI++).")
    ] = None,
    quality: Annotated[
        str | None, typer.Option("--quality", help="Preference pairs for accuracy; `none` for no such check.")
    ] = None,
    triples: Annotated[str | None, typer.Option("--triples", help="RATE triples of your own.")] = None,
    out: Annotated[str | None, typer.Option("--out", help="Folder of the run. Default: runs/audit-<model>.")] = None,
    dry_run: DryRun = False,
    only: Only = False,
    yes: Yes = False,
) -> None:
    """Measure one reward model or judge as it is; with a recipe, the model before and after its training."""
    options = {
        "bias": bias, "pairs": pairs, "votes": votes, "verdicts": verdicts, "quality": quality, "triples": triples, "out": out,
    }  # fmt: skip
    given = {name: value for name, value in options.items() if value}
    run_audit(target, overrides or [], given, dry_run, only, yes)


@app.command()
def dose(
    recipe: Annotated[
        str | None, typer.Argument(help="A recipe with people's votes; leave it out with --before and --after.")
    ] = None,
    overrides: Overrides = None,
    before: Annotated[
        str | None, typer.Option("--before", help="Score file: id, perturbed_score and base_score, or margin.")
    ] = None,
    after: Annotated[str | None, typer.Option("--after", help="The same after debiasing.")] = None,
    votes: Annotated[str | None, typer.Option("--votes", help="People's votes on these ids.")] = None,
    quality_before: Annotated[
        str | None,
        typer.Option("--quality-before", help="Score file of quality pairs: chosen_score and rejected_score."),
    ] = None,
    quality_after: Annotated[str | None, typer.Option("--quality-after", help="The same after debiasing.")] = None,
    ties: Annotated[str, typer.Option("--ties", help="What people's ties count: drop, half or as-released.")] = "drop",
    out: Annotated[str, typer.Option("--out", help="Where the numbers of score files go.")] = "dose.json",
    dry_run: DryRun = False,
    only: Only = False,
    yes: Yes = False,
) -> None:
    """Choose how much of an adapter to apply, by people's votes; of a recipe, or from score files alone."""
    files = {
        "before": before, "after": after, "votes": votes, "quality-before": quality_before, "quality-after": quality_after,
    }  # fmt: skip
    given = {name: value for name, value in files.items() if value}
    if recipe is not None and not given:
        run_recipe(recipe, [*(overrides or []), "dose.on=yes"], "dose" if only else "report", dry_run, only, yes)
        return
    with user_errors():
        from cda.errors import RecipeError
        from cda.stages.dose_files import dose_of_options

        if recipe is not None:
            raise RecipeError([f"--{name}: not with a recipe, which scores for itself" for name in given])
        print(dose_of_options(given, ties, out))


@app.command()
def report(
    recipe: Annotated[str, typer.Argument(help="A recipe; with --compare, the folder of a finished run.")],
    overrides: Annotated[
        list[str] | None,
        typer.Argument(help="section.key=value, as many as you like; with --compare, more run folders."),
    ] = None,
    dry_run: DryRun = False,
    only: Only = False,
    yes: Yes = False,
    compare: Annotated[
        bool, typer.Option("--compare", help="Compare finished runs: what each training did to every bias.")
    ] = False,
) -> None:
    """Draw the report, after running whatever is missing for it; or compare finished runs."""
    if not compare:
        run_recipe(recipe, overrides or [], "report", dry_run, only, yes)
        return
    with user_errors():
        from cda.stages.compare import compare_runs

        print(compare_runs([recipe, *(overrides or [])]))


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
        from pathlib import Path

        from cda.config.load import load_model_audit
        from cda.errors import RecipeError
        from cda.stages.pairs import PairsSource, make_pairs

        if kind not in ("opinion", "technical"):
            raise RecipeError([f"--kind: opinion or technical, found '{kind}'"])
        settings = {"name": "pairs", **({"biases": bias} if bias else {})}
        loaded = replace(load_model_audit("embedded", settings, overrides or []), confirmed=yes)
        source = PairsSource(queries, topics, responses, kind, per_topic, most)  # type: ignore[arg-type]
        make_pairs(loaded, source, Path(out).expanduser())


@app.command()
def quality(
    model: Annotated[str, typer.Argument(help=_TARGET)],
    files: Annotated[
        list[str],
        typer.Argument(
            help="Preference files: RewardBench 1 or 2, RM-Bench, LLMBar, pairs in TRL's format, or `embedded`; and "
            "section.key=value, as many as you like."
        ),
    ],
    adapter: Annotated[
        str | None,
        typer.Option("--adapter", help="Measure again with an adapter: its folder, or that of a finished run."),
    ] = None,
    against: Annotated[str | None, typer.Option("--against", help="Compare with a second model.")] = None,
    dose: Annotated[float | None, typer.Option("--dose", help="How much of the adapter; 1 is as trained.")] = None,
    out: Annotated[
        str | None, typer.Option("--out", help="Folder for the results. Default: runs/quality-<model>-<what is asked>.")
    ] = None,
    yes: Yes = False,
) -> None:
    """Accuracy on preference benchmarks by section, before and after an adapter, with a flag where a section falls."""
    with user_errors():
        from cda.launch import use_all_cores
        from cda.quiet import quiet_libraries

        use_all_cores()
        quiet_libraries()
        from cda.stages.quality import QualityOptions, quality_of_words

        say(quality_of_words(model, files, QualityOptions(adapter, against, dose, out, confirmed=yes)))


@app.command(name="best-of")
def best_of(
    model: Annotated[str, typer.Argument(help=_TARGET)],
    responses: Annotated[str, typer.Argument(help="Sampled responses: prompt and responses, or prompt and response.")],
    overrides: Overrides = None,
    adapter: Annotated[
        str | None, typer.Option("--adapter", help="Pick again with an adapter: its folder, or a finished run's.")
    ] = None,
    against: Annotated[str | None, typer.Option("--against", help="Compare with a second model.")] = None,
    dose: Annotated[float | None, typer.Option("--dose", help="How much of the adapter; 1 is as trained.")] = None,
    bias: Annotated[
        list[str] | None,
        typer.Option("--bias", help="Name or bias file; may be given several times. Default: all five."),
    ] = None,
    size: Annotated[
        list[int] | None, typer.Option("--n", help="A value of n; may be given several times. Default: 1, 2, 4, 8, …")
    ] = None,
    column: Column = None,
    split: SplitName = "train",
    out: Annotated[
        str | None, typer.Option("--out", help="Folder for the results. Default: runs/best-of-<model>-<what is asked>.")
    ] = None,
) -> None:
    """How prevalent each bias is among the best of n responses as n grows, before and after an adapter."""
    with user_errors():
        columns = columns_of(column or [])
        asked = {"on": responses, "with": adapter, "at": dose, "against": against}
        loaded, folder = asked_model(model, overrides or [], "best-of", out, asked)
        from cda.stages.best_of_n import BIASES, run_best_of_n
        from cda.stages.subjects import asked_subjects

        subjects = asked_subjects(loaded.recipe.model, adapter, against, dose)
        followed = bias or BIASES
        say(
            run_best_of_n(
                responses, subjects, loaded, out=folder, biases=followed, sizes=size, columns=columns, split=split
            )
        )


@app.command(name="win-rate")
def win_rate(
    model: Annotated[str, typer.Argument(help=_TARGET)],
    first: Annotated[str, typer.Argument(help="Outputs: rows of prompt and response.")],
    second: Annotated[str, typer.Argument(help="Outputs to the same prompts; the i-th to one against its i-th.")],
    overrides: Overrides = None,
    column: Column = None,
    split: SplitName = "train",
    out: Annotated[
        str | None, typer.Option("--out", help="Folder for the results. Default: runs/win-rate-<model>-<files>.")
    ] = None,
    yes: Yes = False,
) -> None:
    """How often a judge, or a reward model, prefers the first file's outputs to the second's.

    A pair in which an output is empty or missing is left out and counted: it is neither a win nor a loss.
    """
    with user_errors():
        from dataclasses import replace

        columns = columns_of(column or [])
        loaded, folder = asked_model(model, overrides or [], "win-rate", out, {"of": first, "over": second})
        from cda.stages.win_rate import run_win_rate

        say(run_win_rate(first, second, replace(loaded, confirmed=yes), folder, columns, split))


@app.command()
def discover(
    model: Annotated[str, typer.Argument(help=_TARGET)],
    overrides: Overrides = None,
    judge: Annotated[
        str | None,
        typer.Option(
            "--judge",
            help="What the model is held against: judge:NAME, or any other model. Default: judge:<llm.model>.",
        ),
    ] = None,
    adapter: Annotated[
        str | None,
        typer.Option("--adapter", help="Search the model with an adapter; held against the model without it."),
    ] = None,
    dose: Annotated[float | None, typer.Option("--dose", help="How much of the adapter; 1 is as trained.")] = None,
    attribute: Annotated[
        list[str] | None,
        typer.Option(
            "--attribute", help="No search: measure this, in words or a bias file; may be given several times."
        ),
    ] = None,
    formats: Annotated[
        bool,
        typer.Option(
            "--formats", help="No search: measure bold, lists, headers, emoji, exclamations, links, yes-words."
        ),
    ] = False,
    responses: Annotated[
        str | None,
        typer.Option("--responses", help="File of prompts with sampled responses. Default: sampled by the LLM."),
    ] = None,
    prompts: Annotated[
        str | None, typer.Option("--prompts", help="File of prompts to answer. Default: written on twenty topics.")
    ] = None,
    review: Annotated[
        bool, typer.Option("--review", help="Stop before the last test, for a person to drop candidates.")
    ] = False,
    out: Annotated[
        str | None,
        typer.Option("--out", help="Folder for the results. Default: runs/discover-<model>-<what is asked>."),
    ] = None,
    dry_run: DryRun = False,
    yes: Yes = False,
) -> None:
    """Find attributes that the model rewards and a judge does not, confirm them on unseen prompts, write bias files."""
    with user_errors():
        from dataclasses import replace

        words = list(overrides or [])
        given = {"judge": judge, "responses": responses, "prompts": prompts}
        words += [f"discover.{name}={json.dumps(value)}" for name, value in given.items() if value is not None]
        asked = {
            "with": adapter,
            "at": dose,
            "of": "-".join(attribute or []) or None,
            "formats": formats or None,
        } | given
        loaded, _ = asked_model(model, words, "discover", out, asked)
        from cda.stages.discover import DiscoverOptions, run_discover

        options = DiscoverOptions(adapter, dose, tuple(attribute or ()), formats, review, dry_run)
        say(run_discover(replace(loaded, confirmed=yes), options))


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
) -> None:
    """How many contrasts, and how many votes on each, an interval of the wanted width needs."""
    with user_errors():
        from cda.stages.sample_plan import sample_plan

        print(sample_plan(half_width, share, flipped, per_prompt, within_prompt, vote_correlation, majority_error))


@app.command()
def texts(
    out: Annotated[str, typer.Argument(help="New folder for them.")],
    form: Annotated[
        str, typer.Option("--format", help="jsonl, or datasets (folders for datasets.load_from_disk).")
    ] = "jsonl",
) -> None:
    """Write the embedded texts (contrasts, quality and training pairs) as files that need no cda."""
    with user_errors():
        from pathlib import Path

        from cda.embedded.export import FORMATS, export
        from cda.errors import RecipeError

        if form not in FORMATS:
            raise RecipeError([f"--format {form}: there are {' and '.join(FORMATS)}"])
        folder = Path(out).expanduser()
        for name, n in export(folder, form).items():
            print(f"{n:5} {name}")
        print(f"{folder}: written; README.md there is their data card")


@app.command()
def merge(
    sources: Annotated[
        list[str], typer.Argument(help="Folders of finished runs, or of adapters; several are added together.")
    ],
    out: Annotated[str, typer.Option("--out", help="New folder for the result.")],
    dose: Annotated[
        list[float] | None,
        typer.Option("--dose", help="How much of each adapter, one for each: 0 none, 1 as trained, more is possible."),
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
        from pathlib import Path

        from cda.quiet import quiet_libraries

        quiet_libraries()
        from cda.stages.merge import MergeOptions
        from cda.stages.merge import merge as merge_sources

        folder = Path(out).expanduser()
        merge_sources(sources, MergeOptions(folder, tuple(dose or ()), base, precision, adapter_only, push))


@app.command()
def version() -> None:
    """Print the version."""
    print(__version__)


def main() -> None:
    """Entry point of the `cda` command."""
    app()
