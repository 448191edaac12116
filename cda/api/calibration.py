"""Calibrations from Python: of a scorer, or of score files."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Literal, get_args

from cda.api.arguments import (
    RUNS,
    Biases,
    Confirm,
    Model,
    Terms,
    check_types,
    loaded_for_two,
    put,
    refuse_recipe,
)
from cda.api.results import Calibration
from cda.api.rows import Data, as_reference
from cda.calibration.corrections import RESULT
from cda.calibration.files import calibrate_files
from cda.calibration.report import published
from cda.calibration.scorer import run_calibrate
from cda.errors import RecipeError
from cda.files.paths import user_path
from cda.recipe.load import LoadedRecipe
from cda.records import TieRule
from cda.resources.artifacts import check_form, folder_suffix, free_folder, out_folder


def calibrate(
    model: Model,
    /,
    votes: Data | None = None,
    *,
    biases: Biases | None = None,
    contrasts: Data | None = None,
    quality: Data | None = None,
    figures: str | None = None,
    out: str | Path | None = None,
    budget_usd: float | None = None,
    confirm: Confirm = False,
    progress: bool = True,
    limit: int | None = None,
    overrides: Sequence[str] | None = None,
    **settings: object,
) -> Calibration:
    """Fit corrections of a scorer's margins on people's votes, as `cda calibrate` does; nothing is trained.

    Args:
        model: As for `cda.audit`: a judge, a reward model, or a function.
        votes: People's votes on the contrasts: rows of id and vote; None if the contrasts have them.
        biases: Names or bias files; None for all five.
        contrasts: Rows of prompt, base and perturbed; None for the embedded ones.
        quality: Preference pairs whose accuracy must not fall; `"none"` for no such check.
        figures: Also write the report's figures as files of this format: svg or pdf.
        out: Output folder; None for `runs/calibrate-<model>-<inputs>`.
        limit: Take at most so many contrasts of each bias, and quality pairs, drawn with the seed.
        budget_usd, confirm, progress, overrides, settings: As for `cda.audit`. `dose.repeats` and `dose.max_quality_loss` say
            how often prompts are split, and how much accuracy may be lost.

    Returns:
        The calibration: its numbers out of fold, and a callable that corrects margins.

    Raises:
        CdaError: As `cda.audit`; DataError for too few votes.

    Example:
        >>> import cda
        >>> found = cda.calibrate("judge:gpt-4o", "votes.csv", contrasts="pairs.jsonl", budget_usd=5)  # doctest: +SKIP
        >>> cda.audit("judge:gpt-4o", **{"score.calibration": found.folder / "calibration.json"})  # doctest: +SKIP
    """
    terms = Terms("cda.calibrate", settings, overrides, out, budget_usd, confirm, progress, limit)
    with calibrated_settings(model, terms, votes, biases, contrasts, quality, figures) as loaded:
        result, summary = run_calibrate(loaded, figures)
        return _shown(result, loaded.recipe.run_path, summary)


@contextmanager
def calibrated_settings(
    model: Model,
    terms: Terms,
    votes: Data | None = None,
    biases: Biases | None = None,
    contrasts: Data | None = None,
    quality: Data | None = None,
    figures: str | None = None,
) -> Iterator[LoadedRecipe]:
    """Settings of `calibrate`, whose arguments these are, with their own folder."""
    check_types(terms.function, biases=biases)
    check_form(figures)
    if problems := refuse_recipe(model):
        raise RecipeError(problems)
    data = {"contrasts": contrasts, "votes": votes, "quality": quality}
    files = {
        name: rows if isinstance(rows, str) and rows == "none" else as_reference(rows, name, terms.inputs)
        for name, rows in data.items()
        if rows is not None
    }
    nested = terms.nested({f"audit.{name}": (name, file) for name, file in files.items()}, biases)
    put(nested, "audit.triples", None)  # no number of a calibration comes from triples
    inputs = {"by": files.get("votes"), "on": files.get("contrasts")}
    others = (*terms.words, str(biases), str(files.get("quality")))
    with loaded_for_two(model, None, "against", nested, terms, "calibrate", inputs, others) as (loaded, _):
        yield loaded


def calibrate_scores(
    scores: Data,
    votes: Data | None = None,
    *,
    quality: Data | None = None,
    preferences: bool = False,
    ties: Literal["drop", "half", "as-released"] = "drop",
    seed: int = 42,
    columns: Mapping[str, str] | None = None,
    limit: int | None = None,
    figures: str | None = None,
    out: str | Path | None = None,
) -> Calibration:
    """The same from scores that are there already, as `cda calibrate --scores` does.

    Args:
        scores: Rows of id (or prompt), and perturbed_score and base_score, or margin; perhaps bias, difference, first.
        votes: People's votes: rows of id and vote; None: a column `votes` or `preferred` of the scores.
        quality: Rows of chosen_score and rejected_score, or margin, whose accuracy must not fall.
        preferences: Margins are a judge's preferences from −1 to 1.
        ties: Value of people's ties and splits.
        seed: Seed of splits and intervals.
        columns: Our column names to those of the score files, such as `{"margin": "gap"}`.
        limit: Take at most so many voted rows of each bias, and quality pairs, drawn with the seed.
        figures: Also write the report's figures as files of this format: svg or pdf.
        out: Output folder; None for `runs/calibrate-<scores>`.

    Returns:
        The calibration; `corrected` applies it to margins of the same kind.

    Raises:
        DataError: A column or id is missing, a cell cannot be read, or there are too few votes.

    Example:
        >>> import cda
        >>> found = cda.calibrate_scores("scores.jsonl", "votes.csv")  # doctest: +SKIP
        >>> found.corrected([0.4, 1.2], "length")  # doctest: +SKIP
    """
    check_types("cda.calibrate_scores", seed=seed, out=out, columns=columns, limit=limit)
    check_form(figures)
    if ties not in get_args(TieRule):
        raise RecipeError([f"ties: {', '.join(get_args(TieRule))}; found '{ties}'"])
    inputs = (user_path(out).parent if out is not None else RUNS) / "inputs"
    given = {"scores": scores, "votes": votes, "quality": quality}
    files = {name: user_path(as_reference(rows, name, inputs)) for name, rows in given.items() if rows is not None}
    others = [str(value) for value in (columns, limit) if value]
    apart = folder_suffix(
        "calibrate", {"by": files.get("votes")}, [str(files.get("quality")), ties, str(preferences), *others]
    )
    named = user_path(out) if out is not None else RUNS / f"calibrate-{files['scores'].stem}{apart}"
    folder = free_folder(named, RESULT, "cda calibrate")
    result, rows = calibrate_files(
        files["scores"], files.get("votes"), files.get("quality"), preferences=preferences, ties=ties, seed=seed,
        columns=columns or {}, limit=limit, out=folder,
    )  # fmt: skip
    folder = out_folder(folder, RESULT, "cda calibrate")
    return _shown(result, folder, published(result, rows, folder, figures))


def _shown(result: Any, folder: Path, summary: str) -> Calibration:
    found = Calibration(**dict(result))
    found._folder, found._summary = folder, summary
    return found
