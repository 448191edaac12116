"""The commands of a recipe: a stage each, with whatever is missing before it."""

from __future__ import annotations

from dataclasses import replace
from typing import Annotated, get_args

from typer import Argument, Option

from cda.cli import complete
from cda.cli.app import TRAIN, Call, Overrides, Recipe, job
from cda.errors import DataError, RecipeError

AUDITED_FILES = ("contrasts", "triples", "quality")
TRAINED_FILES = ("pairs", "supplement", "taught", *AUDITED_FILES)


def run_until(
    call: Call, recipe: str, overrides: list[str] | None, until: str, only: bool = False, export: str | None = None
) -> None:
    """Run a recipe's stages up to one, show its result, and hold the audit against the conditions of --fail-if."""
    from cda.api.arguments import Terms
    from cda.api.comparing import export_rows
    from cda.api.runs import train_run
    from cda.auditing.conditions import conditions_of, failures
    from cda.launch import is_main

    words = call.words(overrides, *(AUDITED_FILES if until == "audit" else TRAINED_FILES))
    conditions = conditions_of(call.fail_if or ())
    terms = Terms(
        "cda.train",
        {},
        words,
        call.out,
        confirm=call.confirm,
        limit=call.limit,
        fresh=call.fresh,
        conditions=conditions,
    )
    run = train_run(recipe, terms, until=until, only=only, figures=call.figures)
    if export is not None:
        export_rows(run.audit, export)
    call.output.show((lambda: run.audit) if until == "audit" else lambda: run.outcome(until), "")
    if until in ("audit", "report") and conditions and is_main():
        call.output.fail(failures(run.audit, conditions))


@job(TRAIN, "fail_if only limit seed columns out")
def train(call: Call, recipe: Recipe, overrides: Overrides = None) -> None:
    """The whole job: label, synthesize, finetune, dose, audit and report; with --only, the finetuning alone."""
    if call.only and call.fail_if:
        raise RecipeError(["--fail-if: not with --only, which trains without an audit"])
    run_until(call, recipe, overrides, "train" if call.only else "report", call.only)


@job(TRAIN, "limit seed columns out")
def label(call: Call, recipe: Recipe, overrides: Overrides = None) -> None:
    """Load and clean the pairs, and label each side for the bias."""
    run_until(call, recipe, overrides, "label")


@job(TRAIN, "only limit seed columns out")
def synthesize(call: Call, recipe: Recipe, overrides: Overrides = None) -> None:
    """Rewrite rejected responses so that they carry the bias."""
    run_until(call, recipe, overrides, "synthesize", call.only)


@job(TRAIN, "only limit seed columns")
def dose(
    call: Call,
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
) -> None:
    """Choose how much of an adapter to apply, by people's votes; of a recipe, or from score files alone."""
    files = {
        "before": before, "after": after, "votes": votes, "quality-before": quality_before, "quality-after": quality_after,
    }  # fmt: skip
    given = {name: value for name, value in files.items() if value}
    if recipe is None:
        for_recipes = {"--only": call.only, "--yes": call.yes}
        if problems := [f"{name}: only with a recipe" for name, value in for_recipes.items() if value]:
            raise RecipeError(problems)
        _dose_of_files(call, given, ties, out)
        return
    if given:
        raise RecipeError([f"--{name}: not with a recipe, which scores for itself" for name in given])
    call = replace(call, out=out)
    run_until(call, recipe, [*(overrides or []), "dose.on=yes"], "dose" if call.only else "report", call.only)


def _dose_of_files(call: Call, given: dict[str, str], ties: str, out: str | None) -> None:
    """Choose a dose from score files, write the result and show it; DataError carries every mistake in the options."""
    from cda.api.benchmarks import dose as dose_of_scores
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
        seed=42 if call.seed is None else call.seed, columns=call.columns, limit=call.limit, out=place,
    )  # fmt: skip
    call.output.show(result, f"{result}\nWritten: {place}")
