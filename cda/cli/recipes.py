"""The commands of a run (a stage each, with whatever is missing before it), of one model, and of benchmark files."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Annotated, get_args

from typer import Argument, Option

from cda.cli.app import (
    TARGET,
    Against,
    BiasOption,
    Column,
    Dose,
    DryRun,
    Figures,
    Only,
    Overrides,
    Recipe,
    SplitName,
    Yes,
    app,
    columns_of,
    confirmed,
    settings_apart,
)
from cda.launch import say
from cda.user_errors import user_errors

if TYPE_CHECKING:
    from cda.api.results import Run


def train_until(
    recipe: str,
    overrides: list[str] | None,
    until: str,
    dry_run: bool = False,
    only: bool = False,
    yes: bool = False,
    figures: str | None = None,
) -> Run:
    """Run a recipe's stages up to one, as the options of a command say."""
    with user_errors():
        from cda.api.runs import train

        return train(
            recipe, until=until, only=only, figures=figures, dry_run=dry_run,
            confirm=confirmed(yes), overrides=overrides or [],
        )  # fmt: skip


@app.command()
def label(recipe: Recipe, overrides: Overrides = None, dry_run: DryRun = False, yes: Yes = False) -> None:
    """Load and clean the pairs, and label each side for the bias."""
    train_until(recipe, overrides, "label", dry_run, yes=yes)


@app.command()
def synthesize(
    recipe: Recipe, overrides: Overrides = None, dry_run: DryRun = False, only: Only = False, yes: Yes = False
) -> None:
    """Rewrite rejected responses so that they carry the bias."""
    train_until(recipe, overrides, "synthesize", dry_run, only, yes)


@app.command()
def train(
    recipe: Recipe, overrides: Overrides = None, dry_run: DryRun = False, only: Only = False, yes: Yes = False
) -> None:
    """The whole job: label, synthesize, finetune, dose, audit and report; with --only, the finetuning alone."""
    train_until(recipe, overrides, "train" if only else "report", dry_run, only, yes)


@app.command()
def dose(
    recipe: Annotated[
        str | None, Argument(help="A recipe with people's votes; leave it out with --before and --after.")
    ] = None,
    overrides: Overrides = None,
    before: Annotated[str | None, Option(help="Score file: id, perturbed_score and base_score, or margin.")] = None,
    after: Annotated[str | None, Option(help="The same after debiasing.")] = None,
    votes: Annotated[str | None, Option(help="People's votes on these ids.")] = None,
    quality_before: Annotated[
        str | None, Option(help="Score file of quality pairs: chosen_score and rejected_score.")
    ] = None,
    quality_after: Annotated[str | None, Option(help="The same after debiasing.")] = None,
    ties: Annotated[str, Option(help="What people's ties count: drop, half or as-released.")] = "drop",
    out: Annotated[str, Option(help="Where the numbers of score files go.")] = "dose.json",
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
        train_until(recipe, [*(overrides or []), "dose.on=yes"], "dose" if only else "report", dry_run, only, yes)
        return
    with user_errors():
        from cda.api.benchmarks import dose as dose_of_scores
        from cda.errors import DataError, RecipeError
        from cda.files.paths import place_for, user_path
        from cda.records import TieRule

        if recipe is not None:
            raise RecipeError([f"--{name}: not with a recipe, which scores for itself" for name in given])
        rules = get_args(TieRule)
        problems = [
            f"--{name}: needs --{other} as well"
            for first, second in (("before", "after"), ("quality-before", "quality-after"))
            for name, other in ((first, second), (second, first))
            if name in given and other not in given
        ]
        if not {"before", "after"} & given.keys():
            problems.append("give a recipe, or score files with --before and --after")
        if ties not in rules:
            problems.append(f"--ties: {', '.join(rules)}; found '{ties}'")
        if problems:
            raise DataError("\n".join(problems))
        place = place_for(user_path(out))
        result = dose_of_scores(
            given["before"], given["after"], votes, quality_before=quality_before, quality_after=quality_after,
            ties=ties,  # type: ignore[arg-type]  # one of the rules
        )  # fmt: skip
        place.parent.mkdir(parents=True, exist_ok=True)
        result.save(place)
        print(f"{result}\nWritten: {place}")


@app.command()
def audit(
    targets: Annotated[
        list[str],
        Argument(
            help=f"{TARGET} Several, or folders of finished runs, make a panel. Or a recipe: that is audited before and after its "
            "training. And section.key=value, as many as you like."
        ),
    ],
    bias: BiasOption = None,
    pairs: Annotated[str | None, Option(help="Contrasts of your own: prompt, base, perturbed.")] = None,
    votes: Annotated[str | None, Option(help="People's votes on them: id and vote, any number an item.")] = None,
    verdicts: Annotated[str | None, Option(help="LLM judges' verdicts on them, to stretch few votes (PPI++).")] = None,
    quality: Annotated[str | None, Option(help="Preference pairs for accuracy; `none` for no such check.")] = None,
    triples: Annotated[str | None, Option(help="RATE triples of your own; `none` for no RATE.")] = None,
    by: Annotated[
        list[str] | None,
        Option(
            help="A column of your contrasts or triples to compare effects by, such as a topic; may be given several times."
        ),
    ] = None,
    out: Annotated[
        str | None, Option(help="Folder of the run, or of all runs of a panel. Default: runs/audit-<model>.")
    ] = None,
    export: Annotated[
        str | None,
        Option(help="Also write each audit as one row to share, for `cda leaderboard`: a .json file, or a folder/."),
    ] = None,
    figures: Figures = None,
    dry_run: DryRun = False,
    only: Only = False,
    yes: Yes = False,
) -> None:
    """Measure reward models and judges as they are, several next to each other; with a recipe, before and after its training."""
    overrides, models = settings_apart(targets)
    overrides += [f"audit.by={json.dumps(by)}"] if by else []
    target = models[0] if models else ""
    options = {
        "bias": (bias, "biases"), "pairs": (pairs, "audit.contrasts"), "votes": (votes, "audit.votes"),
        "verdicts": (verdicts, "audit.verdicts"), "quality": (quality, "audit.quality"), "triples": (triples, "audit.triples"),
        "by": (by, "audit.by"), "out": (out, "run.folder"),
    }  # fmt: skip
    with user_errors():
        from cda.api.arguments import Terms
        from cda.api.panels import audit_panel, plan_panel
        from cda.api.reports import check_export, export_run
        from cda.api.runs import audit_run
        from cda.errors import RecipeError, RunError
        from cda.recipe.load import is_recipe

        check_export(export, len(models))
        terms = Terms("cda.audit", {}, overrides, out, confirm=confirmed(yes))
        if len(models) != 1:
            data = {
                "contrasts": pairs, "votes": votes, "verdicts": verdicts, "quality": quality, "triples": triples,
            }  # fmt: skip
            if dry_run:
                plan_panel(models, terms, bias, data)
                return
            panel = audit_panel(models, terms, bias, data, figures)
            say(f"\n{panel.summary}")
            export_run(panel, export)
            if panel.failed:
                n = len(panel.models) + len(panel.trainings) + len(panel.failed)
                raise RunError(f"{len(panel.failed)} of {n} models could not be audited: {', '.join(panel.failed)}")
            return
        if not is_recipe(target):
            run = audit_run(target, terms, bias, pairs, votes, verdicts, quality, triples, figures, dry_run)
            export_run(run, export, dry_run)
            return
        problems = [
            f"--{name}: not with a recipe, which says it itself; use {setting}=..."
            for name, (value, setting) in options.items()
            if value
        ]
        if figures is not None and not problems:
            problems.append(
                f"--figures: not with a recipe, whose report has them: cda report {target} --figures {figures}"
            )
        if problems:
            raise RecipeError(problems)
    run = train_until(target, overrides, "audit", dry_run, only, yes)
    with user_errors():
        export_run(run, export, dry_run)


@app.command()
def quality(
    model: Annotated[str, Argument(help=TARGET)],
    files: Annotated[
        list[str],
        Argument(
            help="Preference files: RewardBench 1 or 2, RM-Bench, LLMBar, pairs in TRL's format, or `embedded`; and "
            "section.key=value, as many as you like."
        ),
    ],
    adapter: Annotated[
        str | None, Option(help="Measure again with an adapter: its folder, or that of a finished run.")
    ] = None,
    against: Against = None,
    dose: Dose = None,
    out: Annotated[
        str | None, Option(help="Folder for the results. Default: runs/quality-<model>-<what is asked>.")
    ] = None,
    figures: Figures = None,
    yes: Yes = False,
) -> None:
    """Accuracy on preference benchmarks by section, before and after an adapter, with a flag where a section falls."""
    with user_errors():
        from cda.api.benchmarks import quality as measured

        words, names = settings_apart(files)
        names = list(dict.fromkeys(names))
        result = measured(
            model, names, adapter=adapter, against=against, dose=dose, figures=figures,
            out=out, confirm=confirmed(yes), overrides=words,
        )  # fmt: skip
        say(result.summary)


@app.command(name="best-of")
def best_of(
    model: Annotated[str, Argument(help=TARGET)],
    responses: Annotated[str, Argument(help="Sampled responses: prompt and responses, or prompt and response.")],
    overrides: Overrides = None,
    adapter: Annotated[str | None, Option(help="Pick again with an adapter: its folder, or a finished run's.")] = None,
    against: Against = None,
    dose: Dose = None,
    bias: BiasOption = None,
    size: Annotated[
        list[int] | None, Option("--n", help="A value of n; may be given several times. Default: 1, 2, 4, 8, …")
    ] = None,
    beta: Annotated[
        list[float] | None,
        Option(
            help="A KL penalty, in reward units, at which to look at the tilted policy besides the usual ones; may be given several times."
        ),
    ] = None,
    column: Column = None,
    split: SplitName = "train",
    out: Annotated[
        str | None, Option(help="Folder for the results. Default: runs/best-of-<model>-<what is asked>.")
    ] = None,
    figures: Figures = None,
) -> None:
    """How prevalent each bias is among the best of n responses, and in a policy tilted to the reward, before and after an adapter."""
    with user_errors():
        from cda.api.benchmarks import best_of as measured

        result = measured(
            model, responses, adapter=adapter, against=against, dose=dose, biases=bias, sizes=size, betas=beta,
            columns=columns_of(column or []), split=split, figures=figures, out=out, overrides=overrides or [],
        )  # fmt: skip
        say(result.summary)


@app.command(name="win-rate")
def win_rate(
    model: Annotated[str, Argument(help=TARGET)],
    first: Annotated[str, Argument(help="Outputs: rows of prompt and response.")],
    second: Annotated[str, Argument(help="Outputs to the same prompts; the i-th to one against its i-th.")],
    overrides: Overrides = None,
    column: Column = None,
    split: SplitName = "train",
    out: Annotated[str | None, Option(help="Folder for the results. Default: runs/win-rate-<model>-<files>.")] = None,
    yes: Yes = False,
) -> None:
    """How often a judge, or a reward model, prefers the first file's outputs to the second's.

    A pair in which an output is empty or missing is left out and counted: it is neither a win nor a loss.
    """
    with user_errors():
        from cda.api.benchmarks import win_rate as measured

        result = measured(
            model, first, second, columns=columns_of(column or []), split=split,
            out=out, confirm=confirmed(yes), overrides=overrides or [],
        )  # fmt: skip
        say(result.summary)


@app.command()
def discover(
    model: Annotated[str, Argument(help=TARGET)],
    overrides: Overrides = None,
    judge: Annotated[
        str | None,
        Option(help="What the model is held against: judge:NAME, or any other model. Default: judge:<llm.model>."),
    ] = None,
    adapter: Annotated[
        str | None, Option(help="Search the model with an adapter; held against the model without it.")
    ] = None,
    dose: Dose = None,
    attribute: Annotated[
        list[str] | None, Option(help="No search: measure this, in words or a bias file; may be given several times.")
    ] = None,
    formats: Annotated[
        bool,
        Option("--formats", help="No search: measure bold, lists, headers, emoji, exclamations, links, yes-words."),
    ] = False,
    responses: Annotated[
        str | None, Option(help="File of prompts with sampled responses. Default: sampled by the LLM.")
    ] = None,
    prompts: Annotated[str | None, Option(help="File of prompts to answer. Default: written on twenty topics.")] = None,
    by_topic: Annotated[
        bool, Option("--by-topic", help="Search and test in each topic by itself, then measure across topics.")
    ] = False,
    topic: Annotated[
        list[str] | None, Option(help="With --by-topic: this topic alone; may be given several times.")
    ] = None,
    review: Annotated[
        bool, Option("--review", help="Stop before the last test, for a person to drop candidates.")
    ] = False,
    out: Annotated[
        str | None, Option(help="Folder for the results. Default: runs/discover-<model>-<what is asked>.")
    ] = None,
    figures: Figures = None,
    dry_run: DryRun = False,
    yes: Yes = False,
) -> None:
    """Find attributes that the model rewards and a judge does not, confirm them on unseen prompts, write bias files."""
    with user_errors():
        from cda.api.runs import discover as search

        result = search(
            model, judge=judge, adapter=adapter, dose=dose, attributes=attribute or (), formats=formats,
            responses=responses, prompts=prompts, by_topic=by_topic, topics=topic or (), review=review, figures=figures, dry_run=dry_run,
            out=out, confirm=confirmed(yes), overrides=overrides or [],
        )  # fmt: skip
        say(result.summary)
