"""The dose from Python: how much of an adapter to apply, from scores alone."""

from __future__ import annotations

from pathlib import Path
from typing import Literal, get_args

from cda.api.data import Data, as_reference
from cda.api.results import Dose
from cda.api.settings import RUNS
from cda.errors import DataError
from cda.files.paths import user_path
from cda.metrics.votes import TieRule
from cda.stages.dose_files import dose_from_files


def dose(
    before: Data,
    after: Data,
    /,
    votes: Data | None = None,
    *,
    quality_before: Data | None = None,
    quality_after: Data | None = None,
    ties: Literal["drop", "half", "as-released"] = "drop",
    seed: int = 0,
) -> Dose:
    """How much of a debiasing to apply, by people's votes, from scores before and after it, as `cda dose` does from files.

    Scores are mixed here, margin(λ) = (1 − λ)·before + λ·after, which is not the same as scaling an adapter's weights: a
    training chooses its own dose on that curve (`cda.train`, and `run.dose`).

    Args:
        before: Rows of id (or prompt), and perturbed_score and base_score, or margin: scores of the base model.
        after: The same after debiasing.
        votes: People's votes: rows of id and vote; None: a column `votes` or `preferred` of the scores.
        quality_before: Rows of chosen_score and rejected_score on quality pairs.
        quality_after: The same after debiasing.
        ties: What people's ties and splits count.
        seed: Of splits and intervals.

    Returns:
        The chosen dose with its numbers on votes that had no say in it, and the dose–response curve.

    Raises:
        DataError: A column or id is missing, or there are too few votes to choose a dose by.

    Example:
        >>> import cda
        >>> rows = [{"id": f"c{n}", "margin": 1.0, "preferred": "base" if n % 4 else "perturbed"} for n in range(40)]
        >>> turned = [row | {"margin": -1.0 if n % 4 else 1.0} for n, row in enumerate(rows)]
        >>> cda.dose(rows, turned).held_out.dose  # doctest: +SKIP
    """
    if ties not in get_args(TieRule):
        raise DataError(f"ties: {', '.join(get_args(TieRule))}; found '{ties}'")
    if (quality_before is None) != (quality_after is None):
        missing = "quality_before" if quality_before is None else "quality_after"
        raise DataError(f"{missing}: needed beside the other one")
    given = {
        "before": before,
        "after": after,
        "votes": votes,
        "quality-before": quality_before,
        "quality-after": quality_after,
    }
    paths = {
        name: user_path(as_reference(data, name, RUNS / "inputs")) for name, data in given.items() if data is not None
    }
    quality: tuple[Path, Path] | None = None
    if quality_before is not None:
        quality = paths["quality-before"], paths["quality-after"]
    found = dose_from_files(paths["before"], paths["after"], paths.get("votes"), quality, ties=ties, seed=seed)
    return Dose(**dict(found))
