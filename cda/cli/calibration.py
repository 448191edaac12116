"""`cda calibrate`: corrections of a judge or reward model by people's votes, from the model or from score files."""

from __future__ import annotations

from typing import Annotated

from typer import Argument, Option

from cda.cli.app import TARGET, BiasOption, Figures, Yes, app, confirmed
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
    yes: Yes = False,
) -> None:
    """Correct a judge or reward model that cannot be trained: offsets and slopes that people's votes choose."""
    with user_errors():
        from cda.api.calibration import calibrate as of_model
        from cda.api.calibration import calibrate_scores
        from cda.errors import RecipeError

        if scores is None:
            if model is None:
                raise RecipeError(["give a model, or a score file with --scores"])
            if preferences:
                raise RecipeError(["--preferences: only with --scores; a model's answers show what they are"])
            words = [*(overrides or []), *([] if ties == "drop" else [f"audit.ties={ties}"])]
            found = of_model(
                model, votes, biases=bias, contrasts=pairs, quality=quality, figures=figures, out=out,
                confirm=confirmed(yes), overrides=words,
            )  # fmt: skip
        else:
            given = {"a model": model, "--pairs": pairs, "--bias": bias, "settings": overrides}
            if problems := [f"{name}: not with --scores" for name, value in given.items() if value]:
                raise RecipeError(problems)
            found = calibrate_scores(
                scores, votes, quality=None if quality == "none" else quality, preferences=preferences,
                ties=ties, figures=figures, out=out,  # type: ignore[arg-type]  # a wrong one is refused there
            )  # fmt: skip
        say(found.summary)
