"""The commands of a recipe, a stage each, with whatever is missing before it; and the corrections that votes choose without one."""

from __future__ import annotations

from dataclasses import replace
from typing import Annotated, Any

from typer import Argument, Option

from cda.cli import complete
from cda.cli.app import TARGET, TRAIN, Call, Overrides, Recipe, job
from cda.errors import RecipeError
from cda.jobs.options import CalibrateArguments, DoseArguments

AUDITED_FILES = ("contrasts", "triples", "quality")
TRAINED_FILES = ("pairs", "supplement", "taught", *AUDITED_FILES)
Votes = Annotated[str | None, Option(help="People's votes on the contrasts: id and vote, any number an item.")]


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


@job(TRAIN, "against votes biases contrasts quality only out limit seed columns figures", DoseArguments)
def dose(
    call: Call,
    target: Annotated[
        str,
        Argument(
            help="A recipe with people's votes; or with --against the model before debiasing, such as scores:before.jsonl.",
            autocompletion=complete.recipes,
        ),
    ],
    overrides: Overrides = None,
    against: Annotated[
        str | None, Option(help="No recipe: mix TARGET's rewards with those of this model, after debiasing.")
    ] = None,
    votes: Votes = None,
    **options: Any,
) -> None:
    """Choose by people's votes how much of an adapter to apply; or how far to go from one model's rewards to another's."""
    if against is None:
        given = {
            "votes": votes,
            "bias": options["biases"],
            "contrasts": options["contrasts"],
            "quality": options["quality"],
        }
        if problems := [
            f"--{name}: only with --against; a recipe has settings for it" for name, value in given.items() if value
        ]:
            raise RecipeError(problems)
        call = replace(call, **{name: options[name] for name in ("out", "limit", "figures")})
        run_until(call, target, [*(overrides or []), "dose.on=yes"], "dose" if call.only else "report", call.only)
        return
    from cda.api.calibration import dose as chosen

    if call.only:
        raise RecipeError(["--only: only with a recipe"])
    paid = call.paid(overrides, "contrasts", "quality")
    call.output.show(chosen(target, against, votes, **options, **paid))


@job(TRAIN, "votes biases contrasts quality out limit seed columns figures", CalibrateArguments)
def calibrate(
    call: Call,
    model: Annotated[str, Argument(help=TARGET)],
    overrides: Overrides = None,
    votes: Votes = None,
    **options: Any,
) -> None:
    """Correct a judge or reward model that cannot be trained: offsets and slopes that people's votes choose."""
    from cda.api.calibration import calibrate as calibrated

    paid = call.paid(overrides, "contrasts", "quality")
    call.output.show(calibrated(model, votes, **options, **paid))
