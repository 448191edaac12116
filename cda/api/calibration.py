"""Corrections that people's votes choose, from Python: a calibration of a scorer, or a dose between two."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Unpack

from cda.api.arguments import Terms, as_reference, declared, loaded_with_folder, put
from cda.api.results import Calibration, Dose
from cda.calibration.calibrate import run_calibrate
from cda.dosing.stage import run_mixed
from cda.jobs.options import CalibrateArguments, Data, DoseArguments, Model
from cda.recipe.load import LoadedRecipe


@declared(CalibrateArguments)
def calibrate(model: Model, /, votes: Data | None = None, **options: Unpack[CalibrateArguments]) -> Calibration:
    """Fit corrections of a scorer's margins on people's votes, as `cda calibrate` does; nothing is trained.

    Args:
        model: As for `cda.audit`: a judge, a reward model, a function, or `scores:FILE`.
        votes: People's votes on the contrasts: rows of id and vote; None if the contrasts have them.
        settings: As for `cda.audit`. `dose.repeats` and `dose.max_quality_loss` say how often prompts are split, and how much
            accuracy may be lost.

    Returns:
        The calibration: its numbers out of fold, and a callable that corrects margins.

    Raises:
        CdaError: As `cda.audit`; DataError for too few votes.

    Example:
        >>> import cda
        >>> found = cda.calibrate("judge:gpt-4o", "votes.csv", contrasts="contrasts.jsonl", budget_usd=5)  # doctest: +SKIP
        >>> cda.audit("judge:gpt-4o", **{"score.calibration": found.folder / "calibration.json"})  # doctest: +SKIP
    """
    terms = Terms.of("cda.calibrate", CalibrateArguments, options)
    with _loaded(model, votes, terms, options) as (loaded, _):
        return run_calibrate(loaded, options["figures"])


@declared(DoseArguments)
def dose(before: Model, after: Model, /, votes: Data | None = None, **options: Unpack[DoseArguments]) -> Dose:
    """Choose by people's votes how far to go from one scorer to another, as `cda dose BEFORE --against AFTER` does.

    Rewards are mixed, margin(λ) = (1 − λ)·before + λ·after, which is not the same as scaling an adapter's weights: a
    training chooses its dose on the latter curve (`cda.train` and `run.dose`).

    Args:
        before: The model before debiasing, as for `cda.audit`; `scores:FILE` for scores that you have.
        after: The same after debiasing.
        votes: People's votes on the contrasts: rows of id and vote; None if the contrasts have them.
        settings: As for `cda.audit`. `dose.doses`, `dose.repeats` and `dose.max_quality_loss` say what is tried and how.

    Returns:
        The chosen dose with its numbers on held-out votes, and the dose–response curve.

    Raises:
        CdaError: As `cda.audit`; DataError for too few votes to choose a dose.

    Example:
        >>> import cda
        >>> found = cda.dose("scores:before.jsonl", "scores:after.jsonl", "votes.csv", contrasts="contrasts.jsonl")  # doctest: +SKIP
        >>> found.chosen, found.own.held_out["jargon"].people.gap  # doctest: +SKIP
    """
    terms = Terms.of("cda.dose", DoseArguments, options)
    with _loaded(before, votes, terms, options, after) as (loaded, other):
        return run_mixed(loaded, str(other), options["figures"])


@contextmanager
def _loaded(
    model: Model, votes: Data | None, terms: Terms, options: Mapping[str, Any], second: Model | None = None
) -> Iterator[tuple[LoadedRecipe, str | None]]:
    """The settings of a correction with its data; and the name of the second model."""
    nested, file = terms.nested(), None if votes is None else as_reference(votes, "votes", terms.inputs)
    if file is not None:
        put(nested, "audit.votes", None if file == "none" else file)
    put(nested, "audit.triples", None)  # votes are on contrasts alone
    inputs = {"by": file, "on": terms.files.get("contrasts")}
    others = (*terms.words, str(options["biases"]), str(terms.files.get("quality")))
    with loaded_with_folder(model, terms, nested, inputs, others, second) as opened:
        yield opened
