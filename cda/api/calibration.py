"""Calibrations from Python: of a scorer, or of score files."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Literal, Unpack, get_args

from cda.api.arguments import RUNS, Terms, check_types, declared, loaded_with_folder, put
from cda.api.results import Calibration, shown
from cda.api.rows import as_reference
from cda.calibration.files import calibrate_files
from cda.calibration.scorer import run_calibrate
from cda.errors import RecipeError
from cda.files.paths import user_path
from cda.jobs.options import CalibrateArguments, Data, Model
from cda.jobs.perform import perform
from cda.records import TieRule
from cda.resources.artifacts import check_form, folder_suffix


@declared(CalibrateArguments)
def calibrate(model: Model, /, votes: Data | None = None, **options: Unpack[CalibrateArguments]) -> Calibration:
    """Fit corrections of a scorer's margins on people's votes, as `cda calibrate` does; nothing is trained.

    Args:
        model: As for `cda.audit`: a judge, a reward model, or a function.
        votes: People's votes on the contrasts: rows of id and vote; None if the contrasts have them.
        settings: As for `cda.audit`. `dose.repeats` and `dose.max_quality_loss` say how often prompts are split, and how much
            accuracy may be lost.

    Returns:
        The calibration: its numbers out of fold, and a callable that corrects margins.

    Raises:
        CdaError: As `cda.audit`; DataError for too few votes.

    Example:
        >>> import cda
        >>> found = cda.calibrate("judge:gpt-4o", "votes.csv", contrasts="pairs.jsonl", budget_usd=5)  # doctest: +SKIP
        >>> cda.audit("judge:gpt-4o", **{"score.calibration": found.folder / "calibration.json"})  # doctest: +SKIP
    """
    terms = Terms.of("cda.calibrate", CalibrateArguments, options)
    data = {"contrasts": options["contrasts"], "votes": votes, "quality": options["quality"]}
    files = {
        name: rows if isinstance(rows, str) and rows == "none" else as_reference(rows, name, terms.inputs)
        for name, rows in data.items()
        if rows is not None
    }
    nested = terms.nested({f"audit.{name}": (name, file) for name, file in files.items()}, options["biases"])
    put(nested, "audit.triples", None)  # no number of a calibration comes from triples
    inputs = {"by": files.get("votes"), "on": files.get("contrasts")}
    others = (*terms.words, str(options["biases"]), str(files.get("quality")))
    with loaded_with_folder(model, terms, nested, inputs, others) as (loaded, _):
        return shown(Calibration, run_calibrate(loaded, options["figures"]))


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
    job = calibrate_files(
        files["scores"], files.get("votes"), files.get("quality"), preferences=preferences, ties=ties, seed=seed,
        columns=columns or {}, limit=limit,
    )  # fmt: skip
    return shown(Calibration, perform(job, None, named, figures))
