"""`cda calibrate`: corrections of a judge or reward model by people's votes, from the model or from score files."""

from __future__ import annotations

from typing import Annotated, Any

from typer import Argument, Option

from cda.cli.app import TARGET, TRAIN, Call, job
from cda.jobs.options import CalibrateArguments


@job(
    TRAIN,
    "model overrides votes biases contrasts scores quality preferences ties out limit seed columns figures",
    CalibrateArguments,
)
def calibrate(
    call: Call,
    model: Annotated[str | None, Argument(help=f"{TARGET} Leave it out with --scores.")] = None,
    overrides: Annotated[list[str] | None, Argument(help="section.key=value, as many as you like.")] = None,
    votes: Annotated[str | None, Option(help="People's votes: id and vote, any number an item.")] = None,
    scores: Annotated[
        str | None, Option(help="No model: a score file of id, and perturbed_score and base_score, or margin.")
    ] = None,
    preferences: Annotated[
        bool, Option("--preferences", help="With --scores: they are a judge's preferences from −1 to 1.")
    ] = False,
    ties: Annotated[str, Option(help="What people's ties count: drop, half or as-released.")] = "drop",
    **options: Any,
) -> None:
    """Correct a judge or reward model that cannot be trained: offsets and slopes that people's votes choose."""
    from cda.api.calibration import calibrate as of_model
    from cda.api.calibration import calibrate_scores
    from cda.errors import RecipeError

    of_models = {
        "--pairs": options["contrasts"], "--bias": options["biases"], "--yes": call.yes, "settings": overrides
    }  # fmt: skip
    if problems := _problems(model, scores, preferences, of_models):
        raise RecipeError(problems)
    if model is not None:
        words = [] if ties == "drop" else [f"audit.ties={ties}"]
        paid = call.paid(overrides, "contrasts", "quality")
        found = of_model(model, votes, **options, **paid | {"overrides": [*paid["overrides"], *words]})
    else:
        quality = None if options["quality"] == "none" else options["quality"]
        found = calibrate_scores(
            str(scores), votes, quality=quality, preferences=preferences, ties=ties,  # type: ignore[arg-type]  # refused there
            seed=42 if call.seed is None else call.seed, columns=call.columns,
            **{name: options[name] for name in ("limit", "figures", "out")},
        )  # fmt: skip
    call.output.show(found)


def _problems(model: str | None, scores: str | None, preferences: bool, of_models: dict[str, object]) -> list[str]:
    """Options that do not go together; `of_models`: what a score file has no use for."""
    if scores is not None:
        return [f"{name}: not with --scores" for name, value in {"a model": model, **of_models}.items() if value]
    if model is None:
        return ["give a model, or a score file with --scores"]
    return ["--preferences: only with --scores; a model's answers show what they are"] if preferences else []
