"""A proposer without an LLM: what responses have in common that goes with reward, and that rules can put into others."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from cda.biases import Bias
from cda.discover.formats import catalogue
from cda.discover.mined_association import Association, Ratings
from cda.discover.mined_groups import jaccard
from cda.discover.mined_rules import Phrasing, bias_name, phrase_bias, phrasing_of
from cda.discover.mined_wordings import Found, closings, insertions, openings, sentence_phrases, signs
from cda.discover.protocols import Proposals
from cda.discover.records import PromptSamples
from cda.errors import DataError
from cda.records import Exclusions

MIN_PROMPTS = 4
MAX_JACCARD = 0.9
_SPARE = 6  # proposals made of wordings, for each one wanted: many turn out to be found in the same responses
_COMMON_SHARE = 0.5
_MAX_FAMILY = 8
Finder = Callable[[Sequence[str], Sequence[int], int], Iterator[Found]]
_FINDERS: tuple[Finder, ...] = (openings, closings, sentence_phrases, signs, insertions)


@dataclass(frozen=True, slots=True)
class Mined:
    """An attribute and how its presence goes with reward in the responses it was mined from: for ranking, not a result.

    Attributes:
        bias: With a measure and rules both ways.
        association: Of its measured presence with reward, within prompts.
        present: In which responses it is measured. Shape (n,).
    """

    bias: Bias
    association: Association
    present: NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class MinedProposer:
    """A Proposer by association. It draws nothing: the same responses give the same proposals.

    Attributes:
        known: Biases looked for by their measure, beside what the wordings of the responses suggest.
        min_prompts: Prompts that need responses with and without an attribute, 2 or more.
    """

    known: Sequence[Bias] = field(default_factory=catalogue)
    min_prompts: int = MIN_PROMPTS

    def propose(self, samples: Sequence[PromptSamples], n: int, rng: np.random.Generator) -> Proposals:  # noqa: ARG002
        """The n attributes that go with reward most surely, best first; see `Proposer`.

        Raises:
            DataError: Fewer than min_prompts prompts have two rated responses.
        """
        left_out: Counter[str] = Counter()
        mined, ratings = mine(samples, n, self.known, self.min_prompts, left_out)
        seen = len(mined) + left_out.total()
        kept = _apart(mined, n, left_out)
        sources = tuple(ratings.telling_prompt(np.flatnonzero(one.present)) for one in kept)
        return Proposals(tuple(one.bias for one in kept), sources, Exclusions(seen, dict(sorted(left_out.items()))))


def mine(
    samples: Sequence[PromptSamples], n: int, known: Sequence[Bias], min_prompts: int, left_out: Counter[str]
) -> tuple[list[Mined], Ratings]:
    """Attributes that go with reward, the surest first, and the ratings they were looked for in.

    Args:
        samples: Rated responses.
        n: Proposals wanted; somewhat more attributes made of wordings are looked into.
        known: Biases to look for.
        min_prompts: Prompts needed with and without an attribute.
        left_out: Counts, by reason, what is not among the result.

    Raises:
        DataError: Fewer than min_prompts prompts have two rated responses.
    """
    texts, ratings = _rated(samples, min_prompts)
    found = [
        one
        for bias in itertools.chain.from_iterable(_variants(bias, texts) for bias in known)
        if (one := _mined(bias, texts, ratings, min_prompts, left_out)) is not None
    ]
    made = _made_of_wordings(texts, ratings, _SPARE * n, min_prompts, left_out)
    found += [one for bias in made if (one := _mined(bias, texts, ratings, min_prompts, left_out)) is not None]
    if (family := _family(found)) is not None:
        found += [one for one in [_mined(family, texts, ratings, min_prompts, left_out)] if one is not None]
    return sorted(found, key=lambda one: (-one.association.t, one.bias.name)), ratings


def _rated(samples: Sequence[PromptSamples], min_prompts: int) -> tuple[list[str], Ratings]:
    rows = [
        (one.text, place, one.reward)
        for place, sample in enumerate(samples)
        for one in sample.responses
        if np.isfinite(one.reward)
    ]
    counts = Counter(place for _, place, _ in rows)
    n_usable = sum(count >= 2 for count in counts.values())
    if n_usable < min_prompts:
        raise DataError(
            f"{n_usable} of {len(samples)} prompts have two rated responses or more: mining needs {min_prompts} at the least"
        )
    return [text for text, _, _ in rows], Ratings([place for _, place, _ in rows], [reward for _, _, reward in rows])


def _made_of_wordings(
    texts: Sequence[str], ratings: Ratings, n: int, min_prompts: int, left_out: Counter[str]
) -> list[Bias]:
    """Biases of the wordings that go with reward most surely, one for each set of rules."""
    prompts = ratings.prompts.tolist()
    rated: list[tuple[float, int, Found]] = []
    for found in itertools.chain.from_iterable(finder(texts, prompts, min_prompts) for finder in _FINDERS):
        association = ratings.association(np.array(found.places), min_prompts)
        if association is None:
            left_out["too few prompts have responses with and without it"] += 1
        elif association.t <= 0:
            left_out["does not go with reward"] += 1
        else:
            rated.append((-association.t, len(rated), found))
    made: dict[str, Bias] = {}
    for _, _, found in sorted(rated, key=lambda one: one[:2]):
        if len(made) >= n:
            left_out["goes with reward less surely than others"] += 1
        elif (bias := found.make()) is None:
            left_out["no rule puts it into other responses"] += 1
        elif bias.name in made:
            left_out["found in the same responses as another"] += 1
        else:
            made[bias.name] = bias
    return list(made.values())


def _mined(
    bias: Bias, texts: Sequence[str], ratings: Ratings, min_prompts: int, left_out: Counter[str]
) -> Mined | None:
    present = _presence(bias, texts, ratings)
    association = ratings.association(np.flatnonzero(present), min_prompts)
    if association is None:
        left_out["too few prompts have responses with and without it"] += 1
    elif association.t <= 0:
        left_out["does not go with reward"] += 1
    else:
        return Mined(bias, association, present)
    return None


def _presence(bias: Bias, texts: Sequence[str], ratings: Ratings) -> NDArray[np.bool_]:
    """In which responses it is measured; one relative to another response is compared to the prompt's median."""
    rule = bias.measure
    if rule is None:
        return np.zeros(len(texts), dtype=bool)
    if not rule.relative:
        return np.array([bool(bias.shows(text)) for text in texts], dtype=bool)
    values = np.array([bias.measured(text, rule.feature) for text in texts])
    medians = np.array([np.median(values[ratings.prompts == place]) for place in range(ratings.n_prompts)])
    above, below = rule.present_above, rule.present_below
    reference = medians[ratings.prompts]
    return values > above * reference if above is not None else values < (below or 0.0) * reference


def _variants(bias: Bias, texts: Sequence[str]) -> list[Bias]:
    """The bias, and where more than half of the responses have it anyway, much of it: more than half of these have."""
    rule = bias.measure
    if rule is None or rule.relative or rule.present_above is None:
        return [bias]
    values = np.array([bias.measured(text, rule.feature) for text in texts])
    having = values[values > rule.present_above]
    if len(having) <= _COMMON_SHARE * len(values):
        return [bias]
    return [bias, more_than(bias, float(np.median(having)))]


def more_than(bias: Bias, threshold: float) -> Bias:
    """The same bias, said to be there only above a higher value of its measure."""
    if bias.measure is None:
        raise ValueError(f"bias '{bias.name}' has no measure")
    feature = bias.measure.feature.replace("_", " ")
    return Bias.model_validate(
        bias.model_dump()
        | {
            "name": bias_name(f"much {bias.name}", threshold),
            "description": f"{bias.description.rstrip('.')}, and much of it ({feature} above {threshold:g}).",
            "measure": bias.measure.model_dump() | {"present_above": threshold},
            "instructions": bias.instructions.model_dump()
            | {"add": f"{bias.instructions.add} Do so at as many places as you can."},
        }
    )


def _family(found: Sequence[Mined]) -> Bias | None:
    """Openings that go with reward, together: real biases are families of wordings."""
    rated = sorted(found, key=lambda one: (-one.association.t, one.bias.name))
    made = [phrasing for one in rated if one.association.t > 1 and (phrasing := phrasing_of(one.bias)) is not None]
    wordings = dict.fromkeys(
        wording for one in made if one.position == "opening" for wording in one.wordings if wording[-1] in ".!:"
    )
    if len(wordings) < 2:
        return None
    return phrase_bias(Phrasing("opening", tuple(wordings)[:_MAX_FAMILY]))


def _apart(mined: Sequence[Mined], n: int, left_out: Counter[str]) -> list[Mined]:
    """The best n that are not found in the same responses."""
    kept: list[Mined] = []
    for one in mined:
        if any(jaccard(one.present, other.present) > MAX_JACCARD for other in kept):
            left_out["found in the same responses as another"] += 1
        elif len(kept) >= n:
            left_out["goes with reward less surely than others"] += 1
        else:
            kept.append(one)
    return kept
