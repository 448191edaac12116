"""`cda calibrate`: corrections of a judge or reward model by people's votes, from the model or from score files."""

from __future__ import annotations

from typing import Annotated

from typer import Argument, Option

from cda.cli.app import TARGET, BiasOption, DryRun, Figures, Yes, app, confirmed
from cda.launch import say
from cda.user_errors import user_errors


@app.command()
def calibrate(
    model: Annotated[str | None, Argument(help=f"{TARGET} Leave it out with --scores.")] = None,
    overrides: Annotated[list[str] | None, Argument(help="section.key=value, as many as you like.")] = None,
    votes: Annotated[str | None, Option(help="People's votes: id and vote, any number an item.")] = None,
    bias: BiasOption = None,
    pairs: Annotated[str | None, Option(help="Contrasts of your own: prompt, base, perturbed.")] = None,
    scores: Annotated[
        str | None, Option(help="No model: a score file of id, and perturbed_score and base_score, or margin.")
    ] = None,
    quality: Annotated[
        str | None, Option(help="Preference pairs, with --scores their score file; `none` for no such check.")
    ] = None,
    preferences: Annotated[
        bool, Option("--preferences", help="With --scores: they are a judge's preferences from −1 to 1.")
    ] = False,
    ties: Annotated[str, Option(help="What people's ties count: drop, half or as-released.")] = "drop",
    out: Annotated[str | None, Option(help="Folder for the results. Default: runs/calibrate-<model>-<files>.")] = None,
    figures: Figures = None,
    dry_run: DryRun = False,
    yes: Yes = False,
) -> None:
    """Correct a judge or reward model that cannot be trained: offsets and slopes that people's votes choose."""
    with user_errors():
        from cda.api.arguments import Terms
        from cda.api.calibration import calibrate as of_model
        from cda.api.calibration import calibrate_scores, calibrated_settings
        from cda.calibration.scorer import plan_calibrate
        from cda.errors import RecipeError

        words = [*(overrides or []), *([] if ties == "drop" else [f"audit.ties={ties}"])]
        if model is not None and scores is None and dry_run:
            terms = Terms("cda.calibrate", {}, words, out)
            with calibrated_settings(model, terms, votes, bias, pairs, quality, figures) as loaded:
                say(plan_calibrate(loaded))
            return
        if problems := _problems(
            model, scores, preferences, {"--pairs": pairs, "--bias": bias, "--dry-run": dry_run, "settings": overrides}
        ):
            raise RecipeError(problems)
        if model is not None:
            found = of_model(
                model, votes, biases=bias, contrasts=pairs, quality=quality, figures=figures, out=out,
                confirm=confirmed(yes), overrides=words,
            )  # fmt: skip
        else:
            found = calibrate_scores(
                str(scores), votes, quality=None if quality == "none" else quality, preferences=preferences,
                ties=ties, figures=figures, out=out,  # type: ignore[arg-type]  # a wrong one is refused there
            )  # fmt: skip
        say(found.summary)


def _problems(model: str | None, scores: str | None, preferences: bool, of_models: dict[str, object]) -> list[str]:
    """Options that do not go together; `of_models`: what a score file has no use for."""
    if scores is not None:
        return [f"{name}: not with --scores" for name, value in {"a model": model, **of_models}.items() if value]
    if model is None:
        return ["give a model, or a score file with --scores"]
    return ["--preferences: only with --scores; a model's answers show what they are"] if preferences else []
