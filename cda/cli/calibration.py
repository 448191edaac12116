"""`cda calibrate`: corrections of a judge or reward model by people's votes, from the model or from score files."""

from __future__ import annotations

from typing import Annotated

from typer import Argument, Context, Option

from cda.cli.app import (
    TARGET,
    TRAIN,
    BiasOption,
    Columns,
    DryRun,
    Figures,
    Full,
    Json,
    Limit,
    Seed,
    Yes,
    app,
    columns_of,
    confirmed,
    with_options,
)
from cda.cli.output import running


@app.command(rich_help_panel=TRAIN)
def calibrate(
    context: Context,
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
    limit: Limit = None,
    seed: Seed = None,
    column: Columns = None,
    figures: Figures = None,
    dry_run: DryRun = False,
    full: Full = False,
    as_json: Json = False,
    yes: Yes = False,
) -> None:
    """Correct a judge or reward model that cannot be trained: offsets and slopes that people's votes choose."""
    with running(as_json, dry_run, full, context) as output:
        from cda.api.calibration import calibrate as of_model
        from cda.api.calibration import calibrate_scores
        from cda.errors import RecipeError

        of_models: dict[str, object] = {"--pairs": pairs, "--bias": bias, "--yes": yes, "settings": overrides}
        if problems := _problems(model, scores, preferences, of_models):
            raise RecipeError(problems)
        if model is not None:
            words = with_options(overrides, seed, column, ("contrasts", "quality"))
            words += [] if ties == "drop" else [f"audit.ties={ties}"]
            found = of_model(
                model, votes, biases=bias, contrasts=pairs, quality=quality, figures=figures, out=out,
                confirm=confirmed(yes), overrides=words, limit=limit,
            )  # fmt: skip
        else:
            found = calibrate_scores(
                str(scores), votes, quality=None if quality == "none" else quality, preferences=preferences,
                ties=ties, seed=42 if seed is None else seed, figures=figures, out=out,  # type: ignore[arg-type]  # a wrong one is refused there
                columns=columns_of(column or ()), limit=limit,
            )  # fmt: skip
        output.show(found)


def _problems(model: str | None, scores: str | None, preferences: bool, of_models: dict[str, object]) -> list[str]:
    """Options that do not go together; `of_models`: what a score file has no use for."""
    if scores is not None:
        return [f"{name}: not with --scores" for name, value in {"a model": model, **of_models}.items() if value]
    if model is None:
        return ["give a model, or a score file with --scores"]
    return ["--preferences: only with --scores; a model's answers show what they are"] if preferences else []
