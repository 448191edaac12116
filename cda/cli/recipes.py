"""The commands of a recipe: a stage each, with whatever is missing before it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, get_args

from typer import Argument, Context, Option

from cda.cli import complete
from cda.cli.app import (
    TRAIN,
    Columns,
    DryRun,
    FailIf,
    Full,
    Json,
    Limit,
    Only,
    Overrides,
    Recipe,
    RunFolderOption,
    Seed,
    Yes,
    app,
    columns_of,
    confirmed,
    with_options,
)
from cda.cli.output import Output, running
from cda.launch import is_main

if TYPE_CHECKING:
    from cda.api.arguments import Terms

AUDITED_FILES = ("contrasts", "triples", "quality")
TRAINED_FILES = ("pairs", "supplement", "taught", *AUDITED_FILES)


def run_until(
    output: Output,
    recipe: str,
    terms: Terms,
    until: str,
    only: bool = False,
    figures: str | None = None,
    export: str | None = None,
) -> None:
    """Run a recipe's stages up to one, show its result, and hold the audit against the conditions of --fail-if."""
    from cda.api.reports import export_run
    from cda.api.runs import train_run
    from cda.auditing.conditions import failures

    run = train_run(recipe, terms, until=until, only=only, figures=figures)
    export_run(run, export)
    audited = until in ("audit", "report")
    output.show((lambda: run.audit) if until == "audit" else lambda: run.outcome(until), "")
    if audited and terms.conditions and is_main():
        output.fail(failures(run.audit, terms.conditions))


def terms_of(
    overrides: list[str] | None,
    yes: bool,
    out: str | None = None,
    limit: int | None = None,
    seed: int | None = None,
    column: list[str] | None = None,
    fail_if: list[str] | None = None,
) -> Terms:
    """What the options of a recipe's command say."""
    from cda.api.arguments import Terms
    from cda.auditing.conditions import conditions_of

    words = with_options(overrides, seed, column, TRAINED_FILES)
    return Terms("cda.train", {}, words, out, confirm=confirmed(yes), limit=limit, conditions=conditions_of(fail_if or ()))  # fmt: skip


@app.command(rich_help_panel=TRAIN)
def train(
    recipe: Recipe,
    overrides: Overrides = None,
    fail_if: FailIf = None,
    only: Only = False,
    limit: Limit = None,
    seed: Seed = None,
    column: Columns = None,
    out: RunFolderOption = None,
    dry_run: DryRun = False,
    full: Full = False,
    as_json: Json = False,
    yes: Yes = False,
) -> None:
    """The whole job: label, synthesize, finetune, dose, audit and report; with --only, the finetuning alone."""
    with running(as_json, dry_run, full) as output:
        if only and fail_if:
            from cda.errors import RecipeError

            raise RecipeError(["--fail-if: not with --only, which trains without an audit"])
        terms = terms_of(overrides, yes, out, limit, seed, column, fail_if)
        run_until(output, recipe, terms, "train" if only else "report", only)


@app.command(rich_help_panel=TRAIN)
def label(
    recipe: Recipe,
    overrides: Overrides = None,
    limit: Limit = None,
    seed: Seed = None,
    column: Columns = None,
    out: RunFolderOption = None,
    dry_run: DryRun = False,
    full: Full = False,
    as_json: Json = False,
    yes: Yes = False,
) -> None:
    """Load and clean the pairs, and label each side for the bias."""
    with running(as_json, dry_run, full) as output:
        run_until(output, recipe, terms_of(overrides, yes, out, limit, seed, column), "label")


@app.command(rich_help_panel=TRAIN)
def synthesize(
    recipe: Recipe,
    overrides: Overrides = None,
    only: Only = False,
    limit: Limit = None,
    seed: Seed = None,
    column: Columns = None,
    out: RunFolderOption = None,
    dry_run: DryRun = False,
    full: Full = False,
    as_json: Json = False,
    yes: Yes = False,
) -> None:
    """Rewrite rejected responses so that they carry the bias."""
    with running(as_json, dry_run, full) as output:
        run_until(output, recipe, terms_of(overrides, yes, out, limit, seed, column), "synthesize", only)


@app.command(rich_help_panel=TRAIN)
def dose(
    context: Context,
    recipe: Annotated[
        str | None,
        Argument(
            help="A recipe with people's votes; leave it out with --before and --after.",
            autocompletion=complete.recipes,
        ),
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
    out: Annotated[
        str | None,
        Option(
            help="Folder of the run, default runs/<recipe>; or file for the numbers of score files, default dose.json."
        ),
    ] = None,
    only: Only = False,
    limit: Limit = None,
    seed: Seed = None,
    column: Columns = None,
    dry_run: DryRun = False,
    full: Full = False,
    as_json: Json = False,
    yes: Yes = False,
) -> None:
    """Choose how much of an adapter to apply, by people's votes; of a recipe, or from score files alone."""
    files = {
        "before": before, "after": after, "votes": votes, "quality-before": quality_before, "quality-after": quality_after,
    }  # fmt: skip
    given = {name: value for name, value in files.items() if value}
    with running(as_json, dry_run, full, context) as output:
        from cda.errors import RecipeError

        if recipe is None:
            for_recipes = {"--only": only, "--yes": yes}
            if problems := [f"{name}: only with a recipe" for name, value in for_recipes.items() if value]:
                raise RecipeError(problems)
            _dose_of_files(output, given, ties, seed, out, columns_of(column or ()), limit)
            return
        if given:
            raise RecipeError([f"--{name}: not with a recipe, which scores for itself" for name in given])
        terms = terms_of([*(overrides or []), "dose.on=yes"], yes, out, limit, seed, column)
        run_until(output, recipe, terms, "dose" if only else "report", only)


def _dose_of_files(
    output: Output,
    given: dict[str, str],
    ties: str,
    seed: int | None,
    out: str | None,
    columns: dict[str, str],
    limit: int | None,
) -> None:
    """Choose a dose from score files, write the result and show it; DataError carries every mistake in the options."""
    from cda.api.benchmarks import dose as dose_of_scores
    from cda.errors import DataError
    from cda.files.paths import user_path
    from cda.records import TieRule

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
    place = user_path(out or "dose.json")
    result = dose_of_scores(
        given["before"], given["after"], given.get("votes"), quality_before=given.get("quality-before"),
        quality_after=given.get("quality-after"), ties=ties,  # type: ignore[arg-type]  # one of the rules
        seed=42 if seed is None else seed, columns=columns, limit=limit, out=place,
    )  # fmt: skip
    output.show(result, f"{result}\nWritten: {place}")
