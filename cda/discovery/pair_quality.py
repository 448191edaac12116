"""Quality of rewritten pairs: is the attribute there after and not before, and is it all that changed?"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, TypeVar

import numpy as np

from cda.biases import Bias
from cda.discovery.agreement import Agreement, agreements
from cda.discovery.asked_pair_quality import EditGrades, Guesses, edit_grades, guessed_attribute
from cda.discovery.records import Measured
from cda.effects.drift import FeatureDrift, feature_drift, measured
from cda.errors import DataError
from cda.llm.protocol import LLM
from cda.results.base import Estimate, as_json
from cda.rewriting.protocol import Labeller
from cda.score.distinct import distinct_texts, text_id
from cda.stats.proportions import share

_Found = TypeVar("_Found")


@dataclass(frozen=True, slots=True)
class Fidelity:
    """Whether the sides of the pairs are what they are taken for, by labels that know nothing of the rewriting.

    Attributes:
        n: Pairs.
        present: Share of the sides with the attribute that are labelled so; None where no label could be read.
        absent: Share of the sides without it that are labelled without; None likewise.
        both: Share of the pairs in which both are right, among those with two labels; None likewise.
        n_unparsed_with: Sides with the attribute whose label could not be read.
        n_unparsed_without: Sides without it whose label could not be read.
    """

    n: int
    present: Estimate | None
    absent: Estimate | None
    both: Estimate | None
    n_unparsed_with: int
    n_unparsed_without: int


@dataclass(frozen=True, slots=True)
class PairQuality:
    """All that is known of one candidate's pairs.

    Attributes:
        candidate: Its `id`.
        n: Pairs.
        n_prompts: Prompts behind them.
        fidelity: Of all pairs; None where no labeller was given.
        fidelity_by_rewriter: Of each rewriter's pairs.
        agreement: Of every two rewriters.
        grades: By an LLM; None where none was given.
        guesses: By an LLM; None where none was given.
        drift: What else differs between the sides, the attribute's own features marked; empty where it cannot be told.
        missing: Part to the reason why it is not there.
    """

    candidate: str
    n: int
    n_prompts: int
    fidelity: Fidelity | None
    fidelity_by_rewriter: Mapping[str, Fidelity]
    agreement: tuple[Agreement, ...]
    grades: EditGrades | None
    guesses: Guesses | None
    drift: tuple[FeatureDrift, ...]
    missing: Mapping[str, str] = field(default_factory=dict)

    def to_json(self) -> dict[str, Any]:
        return dict(as_json(self))


def pair_quality(
    rows: Sequence[Measured],
    bias: Bias,
    rng: np.random.Generator,
    *,
    label: Labeller | None = None,
    llm: LLM | None = None,
    n_guesses: int = 5,
    n_pairs: int = 4,
    n_repeats: int = 2,
) -> PairQuality:
    """Everything that can be told of one candidate's pairs with what is given.

    Args:
        rows: Measured rewrites of one candidate, by any number of rewriters.
        bias: The candidate's.
        rng: For intervals, and for which pairs are guessed from.
        label: Labels sides; best not what the rewriters were checked with.
        llm: Grades and guesses.
        n_guesses: As in `guessed_attribute`.
        n_pairs: As there.
        n_repeats: How often an unreadable answer is asked for again.

    Raises:
        DataError: No rows.
        LLMError: Nothing can be answered.
        ValueError: Rows of several candidates.
    """
    _one_candidate(rows)
    labelled = fidelity(rows, bias, label) if label is not None else {}
    missing: dict[str, str] = {}
    drift = _attempt(partial(pair_drift, rows, bias, rng), "drift", missing)
    return PairQuality(
        candidate=rows[0].candidate,
        n=len(rows),
        n_prompts=len({row.prompt_id for row in rows}),
        fidelity=labelled.get(None),
        fidelity_by_rewriter={name: one for name, one in labelled.items() if name is not None},
        agreement=agreements(rows, rng),
        grades=edit_grades(rows, bias, llm, rng, n_repeats) if llm is not None else None,
        guesses=guessed_attribute(rows, bias, llm, rng, n_guesses, n_pairs, n_repeats) if llm is not None else None,
        drift=drift or (),
        missing=missing,
    )


def fidelity(rows: Sequence[Measured], bias: Bias, label: Labeller) -> dict[str | None, Fidelity]:
    """Fidelity of all pairs under None, and of each rewriter's under its name; each distinct text is labelled once.

    Raises:
        DataError: No rows.
    """
    _one_candidate(rows)
    sides = [(row.with_attribute, row.without_attribute) for row in rows]
    texts = distinct_texts((row.prompt, text) for row, both in zip(rows, sides, strict=True) for text in both)
    labels = label([prompt for prompt, _ in texts.values()], [text for _, text in texts.values()], bias)
    found = dict(zip(texts, labels, strict=True))
    pairs = [
        (found[text_id(row.prompt, present)], found[text_id(row.prompt, absent)])
        for row, (present, absent) in zip(rows, sides, strict=True)
    ]
    names = dict.fromkeys(row.rewriter for row in rows)
    return {
        name: _fidelity(
            [(row.prompt_id, *one) for row, one in zip(rows, pairs, strict=True) if name in (None, row.rewriter)]
        )
        for name in (None, *names)
    }


def pair_drift(rows: Sequence[Measured], bias: Bias, rng: np.random.Generator) -> tuple[FeatureDrift, ...]:
    """What differs between the sides, with minus without; features that are the attribute itself are marked as treatment.

    Raises:
        DataError: No rows, or one prompt.
    """
    treatment = {*bias.treatment, *([bias.measure.feature] if bias.measure is not None else [])}
    present, absent = ([getattr(row, f"{side}_attribute") for row in rows] for side in ("with", "without"))
    ids = [row.prompt_id for row in rows]
    return tuple(feature_drift(measured(present), measured(absent), ids, rng, treatment=treatment))


def _fidelity(rows: Sequence[tuple[str, bool | None, bool | None]]) -> Fidelity:
    """From prompt, label of the side with and label of the side without."""
    present = [(prompt, one) for prompt, one, _ in rows if one is not None]
    absent = [(prompt, not one) for prompt, _, one in rows if one is not None]
    both = [(prompt, one and not other) for prompt, one, other in rows if one is not None and other is not None]
    n = len(rows)
    return Fidelity(n, _share(present), _share(absent), _share(both), n - len(present), n - len(absent))


def _share(hits: Collection[tuple[str, bool]]) -> Estimate | None:
    return share([hit for _, hit in hits], [prompt for prompt, _ in hits]) if hits else None


def _one_candidate(rows: Sequence[Measured]) -> None:
    if not rows:
        raise DataError("no pairs: their quality cannot be measured")
    if len({row.candidate for row in rows}) > 1:
        raise ValueError("rows of several candidates: quality is of one candidate's pairs")


def _attempt(part: Callable[[], _Found], name: str, missing: dict[str, str]) -> _Found | None:
    try:
        return part()
    except DataError as error:
        missing[name] = str(error)
        return None
