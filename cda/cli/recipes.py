"""The commands of a recipe, a stage each, with whatever is missing before it; and the corrections that votes choose without one."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, Any

from typer import Argument, Option

from cda.cli import complete
from cda.cli.app import TARGET, TRAIN, Call, Overrides, Recipe, job
from cda.errors import RecipeError
from cda.jobs.options import CalibrateArguments, DoseArguments, TrainArguments

if TYPE_CHECKING:
    from cda.api.arguments import Terms
    from cda.api.results import Run

AUDITED_FILES = ("contrasts", "triples", "quality")
TRAINED_FILES = ("pairs", "supplement", "taught", *AUDITED_FILES)
Votes = Annotated[str | None, Option(help="People's votes on the contrasts: id and vote, any number an item.")]


def run_until(
    call: Call,
    recipe: str,
    overrides: Sequence[str] | None,
    until: str,
    only: bool = False,
    export: str | None = None,
    **options: Any,
) -> None:
    """Run a recipe's stages up to one, with other options than the call's if they are given, and finish with its result."""
    from cda.api.runs import train_run

    given = {"until": until, "only": only, "out": call.out, "limit": call.limit, "figures": call.figures, **options}
    files = AUDITED_FILES if until == "audit" else TRAINED_FILES
    terms = call.terms("cda.train", TrainArguments, given, overrides or (), *files)
    finish(call, train_run(recipe, terms), terms, until, export)


def finish(call: Call, run: Run, terms: Terms, until: str = "audit", export: str | None = None) -> None:
    """Show the result of a run up to a stage, and hold its audit against the conditions of --fail-if."""
    from cda.api.comparing import export_rows
    from cda.auditing.conditions import failures
    from cda.launch import is_main

    if export is not None:
        export_rows(run.audit, export)
    call.output.show((lambda: run.audit) if until == "audit" else lambda: run.outcome(until), "")
    if until in ("audit", "report") and terms.conditions and is_main():
        call.output.fail(failures(run.audit, terms.conditions))


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
        of_models = ("votes", "bias", "contrasts", "quality")
        call.refuse("only with --against; a recipe has settings for it", *(set(call.given) - set(of_models)))
        own = {name: options[name] for name in ("out", "limit", "figures")}
        run_until(
            call, target, [*(overrides or []), "dose.on=yes"], "dose" if call.only else "report", call.only, **own
        )
        return
    from cda.api.calibration import dose as chosen

    if call.only:
        raise RecipeError(["--only: only with a recipe"])
    paid = call.paid(overrides, "contrasts", "quality")
    call.output.show(chosen(target, against, votes, **options, **paid))


@job(
    TRAIN, "votes biases contrasts quality out limit seed columns figures", CalibrateArguments,
    does="cda.api.calibration:calibrate", files=("contrasts", "quality"),
)  # fmt: skip
def calibrate(
    model: Annotated[str, Argument(help=TARGET)],
    overrides: Overrides = None,
    votes: Votes = None,
) -> None:
    """Correct a judge or reward model that cannot be trained: offsets and slopes that people's votes choose."""
