"""Scores that somebody has already: a file of rewards of texts, or of preferences between two texts, each looked up by its texts."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from cda.arrays import LARGEST
from cda.data.load import Row, RowError, load_rows, message_text, number_of, prompt_of, side_text
from cda.errors import DataError, refuse
from cda.records import text_key

SIDES = (("perturbed", "base"), ("chosen", "rejected"), ("response_1", "response_2"), ("response_a", "response_b"))
"""Columns of two texts; those of their rewards end in `_score`."""
_SINGLE = (("response", "score"), ("response", "reward"))
_WANTED = (
    "give prompt, response and score; or prompt, perturbed, base, perturbed_score and base_score (likewise chosen and rejected, or "
    "response_1 and response_2); or prompt, response_a, response_b and a judge's preference from −1 (the second) to 1 (the first)"
)
Key = tuple[str, ...]


@dataclass(frozen=True, slots=True)
class StoredScores:
    """The rewards of texts, or the preferences for the first of two, by `text_key`; one of them is empty."""

    rewards: Mapping[Key, float]
    preferences: Mapping[Key, float]


def load_scores(reference: str) -> StoredScores:
    """Scores of a file in any format of `load_rows`: a row a text, a row with two texts and their rewards, or a row with two texts
    and a preference. The columns of texts may end in `_response`, and the prompt's be called `query`.

    Raises:
        DataError: Cannot be loaded, holds no texts, a row cannot be read, or rows give the same texts different scores; all
            rows that are wrong, by number.
    """
    rows = load_rows(reference)
    present = {name for row in rows for name in row}
    prompt = next((name for name in ("prompt", "query") if name in present), None)
    texts = {
        name: own for name in sum((*SIDES, ("response",)), ()) for own in (name, f"{name}_response") if own in present
    }
    if "preference" in present:
        columns = [(*(texts[side] for side in sides), "preference") for sides in SIDES if texts.keys() >= set(sides)]
    else:
        scored = (*_SINGLE, *((side, f"{side}_score") for sides in SIDES for side in sides))
        columns = [(texts[name], score) for name, score in scored if name in texts and score in present]
    if prompt is None or not columns or ("preference" in present and len(columns) > 1):
        raise DataError(
            f"{reference}: scores are looked up by their texts, and it needs columns of both; {_WANTED}. Found: "
            f"{', '.join(sorted(present))}"
        )
    kept: dict[Key, tuple[float, int]] = {}
    problems: list[str] = []
    for number, row in enumerate(rows, 1):
        try:
            for key, score in _scores_in(row, prompt, columns):
                earlier, first = kept.setdefault(key, (score, number))
                if earlier != score:
                    raise RowError(f"{score:g} for the texts that row {first} gives {earlier:g}")
        except RowError as problem:
            problems.append(f"{reference}: row {number}: {problem}")
    refuse(problems, "more rows")
    found = {key: score for key, (score, _) in kept.items()}
    return StoredScores({}, found) if "preference" in present else StoredScores(found, {})


def _scores_in(row: Row, prompt: str, columns: list[tuple[str, ...]]) -> Iterator[tuple[Key, float]]:
    """Every score of a row with its texts. RowError: a text is missing, or a score is no number, too large, or no preference."""
    asked = prompt_of(row.get(prompt))
    # Rows of one file may be of different layouts, such as contrasts and quality pairs.
    given = [own for own in columns if any(row.get(name) not in (None, "") for name in own)]
    if not given:
        raise RowError("no text with a score")
    for *texts, column in given:
        cell = row.get(column)
        score = math.nan if isinstance(cell, bool) else number_of(cell)
        most = 1 if column == "preference" else LARGEST
        if not abs(score) <= most:
            raise RowError(f"{column} is '{str(cell)[:40]}'; give a number from {-most:g} to {most:g}")
        yield text_key(asked, *(side_text(message_text(row.get(name))) for name in texts)), score
