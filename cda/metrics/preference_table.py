"""Model preferences by people's majorities: a 3 × 3 table of counts, and the model's skew given what people prefer."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike

from cda.errors import DataError
from cda.metrics.preference import ModelTies, margins_finite, positive_share
from cda.metrics.votes import WORDS
from cda.records import Preference
from cda.results.people import PreferenceTable


def preference_table(
    margins: ArrayLike, people: Sequence[Preference | None], prompt_ids: Sequence[str], ties: ModelTies = "no-hit"
) -> PreferenceTable:
    """The model's preferences on contrasts with votes, by people's majority.

    Args:
        margins: score(perturbed) − score(base), or a judge's preference in [−1, 1]; exactly 0 is a tie. Shape (n,).
        people: People's word on each contrast, `tie` for a split too; None where nobody voted, which leaves it out.
        prompt_ids: Cluster of each contrast. Length n.
        ties: What a tie of the model counts in `skew_given`.

    Raises:
        DataError: Lengths that differ, a margin that is not finite, or no contrast with votes.
    """
    values = margins_finite(margins)
    if not len(values) == len(people) == len(prompt_ids):
        raise DataError(
            f"{len(values)} margins, {len(people)} majorities, {len(prompt_ids)} prompts: one each is needed"
        )
    rows = {word: np.array([one == word for one in people], dtype=bool) for word in WORDS}
    if not any(one.any() for one in rows.values()):
        raise DataError("no contrast has votes: there is nothing to set the model's preferences beside")
    ids = np.asarray(prompt_ids, dtype=str)
    return PreferenceTable(
        counts={word: _counts(values[one]) for word, one in rows.items()},
        skew_given={
            word: positive_share(values[one], ids[one].tolist(), ties) for word, one in rows.items() if one.any()
        },
    )


def _counts(values: np.ndarray) -> dict[str, int]:
    return {"perturbed": int((values > 0).sum()), "base": int((values < 0).sum()), "tie": int((values == 0).sum())}
