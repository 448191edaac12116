"""Quality of rewritten pairs: is the attribute there after and not before, and is it all that changed?"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Literal

import numpy as np

from cda.biases import Bias
from cda.discovery.agreement import agreements
from cda.discovery.asked_pair_quality import edit_grades, guessed_attribute
from cda.effects.drift import feature_drift, measured
from cda.errors import DataError
from cda.llm.protocol import LLM
from cda.results.base import Estimate, Missing
from cda.results.discover import Measured
from cda.results.drift import FeatureDrift
from cda.results.rewrite_quality import Fidelity, PairQuality
from cda.rewriting.protocol import Labeller
from cda.score.distinct import distinct_texts, text_id
from cda.stats.proportions import share


def pair_quality(
    rows: Sequence[Measured],
    bias: Bias,
    rng: np.random.Generator,
    *,
    label: Labeller | None = None,
    labelled_by: Literal["measure", "llm"] = "measure",
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
        labelled_by: Who that is.
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
    drift: tuple[FeatureDrift, ...] | Missing
    try:
        drift = pair_drift(rows, bias, rng)
    except DataError as error:
        drift = Missing(reason=str(error))
    return PairQuality(
        candidate=rows[0].candidate,
        n=len(rows),
        n_prompts=len({row.prompt_id for row in rows}),
        labelled_by=None if label is None else labelled_by,
        fidelity=labelled.get(None),
        fidelity_by_rewriter={name: one for name, one in labelled.items() if name is not None},
        agreement=agreements(rows, rng),
        grades=edit_grades(rows, bias, llm, rng, n_repeats) if llm is not None else None,
        guesses=guessed_attribute(rows, bias, llm, rng, n_guesses, n_pairs, n_repeats) if llm is not None else None,
        drift=drift,
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
    return Fidelity(
        n=n,
        present=_share(present),
        absent=_share(absent),
        both=_share(both),
        n_unparsed_with=n - len(present),
        n_unparsed_without=n - len(absent),
    )


def _share(hits: Collection[tuple[str, bool]]) -> Estimate | None:
    return share([hit for _, hit in hits], [prompt for prompt, _ in hits]) if hits else None


def _one_candidate(rows: Sequence[Measured]) -> None:
    if not rows:
        raise DataError("no pairs: their quality cannot be measured")
    if len({row.candidate for row in rows}) > 1:
        raise ValueError("rows of several candidates: quality is of one candidate's pairs")
