"""Attributes mined from rated responses without an LLM: how the presence of something goes with reward, within prompts."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from cda.arrays import FloatArray
from cda.biases import Bias
from cda.discovery.attribute import catalogue
from cda.discovery.grouping import jaccard, kind
from cda.discovery.mined_rules import Phrasing, bias_name, phrase_bias, phrasing_of
from cda.discovery.mined_wordings import Wording, framings, insertions, sentence_phrases, signs
from cda.discovery.records import PromptSamples, Proposals
from cda.errors import DataError
from cda.records import Exclusions

_PRIOR_DEGREES = 20.0
MIN_PROMPTS = 4
MAX_JACCARD = 0.9
_SPARE = 6  # proposals made of wordings, for each one wanted: many turn out to be found in the same responses
_COMMON_SHARE = 0.5
_MAX_FAMILY = 8


class Association(NamedTuple):
    """Reward of responses with something minus that of responses to the same prompt without it.

    Attributes:
        difference: Mean over prompts, reward units; a prompt weighs n1 · n0 / (n1 + n0), by how well it tells.
        t: Difference over its standard error, whose variance is shrunken towards that of all rewards within prompts, so
            that a few prompts that happen to agree do not stand out. For ranking only.
        n_prompts: Prompts that have responses of both kinds.
    """

    difference: float
    t: float
    n_prompts: int


class Mined(NamedTuple):
    """A bias with rules both ways, and how its measured presence goes with reward; for ranking, not a result.

    Attributes:
        bias: With a measure.
        association: Within prompts.
        present: In which responses it is measured. Shape (n,).
    """

    bias: Bias
    association: Association
    present: NDArray[np.bool_]


class Ratings:
    """Rewards of responses and the prompts they answer.

    Args:
        prompts: Number of the prompt of each response, from 0. Shape (n,).
        rewards: Finite. Shape (n,), reward units.
    """

    def __init__(self, prompts: Sequence[int], rewards: Sequence[float]) -> None:
        self.prompts = np.asarray(prompts, dtype=np.int64)
        self.rewards = np.asarray(rewards, dtype=np.float64)
        self.n_prompts = int(self.prompts.max()) + 1 if len(self.prompts) else 0
        self._counts = np.bincount(self.prompts, minlength=self.n_prompts)
        self._sums = np.bincount(self.prompts, weights=self.rewards, minlength=self.n_prompts)
        means = self._sums / np.maximum(self._counts, 1)
        degrees = len(self.rewards) - int((self._counts > 0).sum())
        within = float(((self.rewards - means[self.prompts]) ** 2).sum())
        self.variance = within / degrees if degrees > 0 else 0.0

    def association(self, present: NDArray[np.int64], min_prompts: int) -> Association | None:
        """Association of presence with reward; None below the least number of prompts, and if rewards never differ.

        Args:
            present: Places of the responses that have it.
            min_prompts: Prompts with and without it that are needed.
        """
        n1, n0 = self._with_and_without(present)
        both = (n1 > 0) & (n0 > 0)
        n = int(both.sum())
        if n < max(min_prompts, 1) or self.variance <= 0:
            return None
        sums = np.bincount(self.prompts[present], weights=self.rewards[present], minlength=self.n_prompts)[both]
        n1, n0 = n1[both], n0[both]
        differences = sums / n1 - (self._sums[both] - sums) / n0
        weights = n1 * n0 / (n1 + n0)
        difference = float((weights * differences).sum() / weights.sum())
        spread = float((weights * (differences - difference) ** 2).sum())
        variance = (spread + _PRIOR_DEGREES * self.variance) / (n - 1 + _PRIOR_DEGREES)
        return Association(difference, difference / float(np.sqrt(variance / weights.sum())), n)

    def telling_prompt(self, present: NDArray[np.int64]) -> int:
        """Number of the first prompt with responses of both kinds, 0 if there is none."""
        n1, n0 = self._with_and_without(present)
        both = np.flatnonzero((n1 > 0) & (n0 > 0))
        return int(both[0]) if len(both) else 0

    def _with_and_without(self, present: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Numbers of responses with and without it, by prompt."""
        n1 = np.bincount(self.prompts[present], minlength=self.n_prompts)
        return n1, self._counts - n1


@dataclass(frozen=True, slots=True)
class MinedProposer:
    """A Proposer by association. It draws nothing: the same responses give the same proposals.

    Attributes:
        known: Biases searched for by their measure, in addition to the wordings of the responses.
        min_prompts: Prompts that need responses with and without an attribute, 2 or more.
    """

    known: Sequence[Bias] = field(default_factory=catalogue)
    min_prompts: int = MIN_PROMPTS

    def propose(self, samples: Sequence[PromptSamples], n: int, rng: np.random.Generator) -> Proposals:  # noqa: ARG002
        """The n attributes that go with reward most surely, best first.

        Raises:
            DataError: Fewer than min_prompts prompts have two rated responses.
        """
        left_out: Counter[str] = Counter()
        mined, ratings = mine(samples, n, self.known, self.min_prompts, left_out)
        seen = len(mined) + left_out.total()
        kept = _apart(mined, n, self.known, left_out)
        sources = tuple(ratings.telling_prompt(np.flatnonzero(attribute.present)) for attribute in kept)
        return Proposals(
            tuple(attribute.bias for attribute in kept), sources, Exclusions(seen, dict(sorted(left_out.items())))
        )


def mine(
    samples: Sequence[PromptSamples], n: int, known: Sequence[Bias], min_prompts: int, left_out: Counter[str]
) -> tuple[list[Mined], Ratings]:
    """Attributes that go with reward, the surest first, and the ratings they were looked for in.

    Args:
        samples: Rated responses.
        n: Proposals wanted; somewhat more attributes made of wordings are looked into.
        known: Biases to look for.
        min_prompts: Prompts needed with and without an attribute.
        left_out: Receives counts of exclusions by reason.

    Raises:
        DataError: Fewer than min_prompts prompts have two rated responses.
    """
    rows = [
        (response.text, place, response.reward)
        for place, sample in enumerate(samples)
        for response in sample.responses
        if np.isfinite(response.reward)
    ]
    n_usable = sum(count >= 2 for count in Counter(place for _, place, _ in rows).values())
    if n_usable < min_prompts:
        raise DataError(
            f"{n_usable} of {len(samples)} prompts have two rated responses or more: mining needs {min_prompts} at the least"
        )
    texts, ratings = [text for text, _, _ in rows], Ratings([place for _, place, _ in rows], [row[2] for row in rows])
    mined: list[Mined] = []

    def look_for(biases: Iterable[Bias]) -> None:
        for bias in biases:
            feature = bias.measure.feature if bias.measure else None
            values = np.array([bias.measured(text, feature) if feature else np.nan for text in texts])
            for variant in _variants(bias, values):
                present = _presence(variant, values, ratings)
                association = _rewarded(np.flatnonzero(present), ratings, min_prompts, left_out)
                if association is not None:
                    mined.append(Mined(variant, association, present))

    look_for(known)
    look_for(_made_of_wordings(texts, ratings, _SPARE * n, min_prompts, left_out))
    look_for(_family(mined))
    return sorted(mined, key=_surest_first), ratings


def _surest_first(one: Mined) -> tuple[float, str]:
    return -one.association.t, one.bias.name


def _rewarded(
    places: NDArray[np.int64], ratings: Ratings, min_prompts: int, left_out: Counter[str]
) -> Association | None:
    """The association if it goes with reward; otherwise None, counted."""
    association = ratings.association(places, min_prompts)
    if association is None:
        left_out["too few prompts have responses with and without it"] += 1
    elif association.t <= 0:
        left_out["does not go with reward"] += 1
    else:
        return association
    return None


def _made_of_wordings(
    texts: Sequence[str], ratings: Ratings, n: int, min_prompts: int, left_out: Counter[str]
) -> list[Bias]:
    """Biases of the wordings that go with reward most surely, one for each set of rules."""
    prompts = ratings.prompts.tolist()
    rewarded: list[tuple[float, Wording]] = []
    for find in (framings, sentence_phrases, signs, insertions):
        for wording in find(texts, prompts, min_prompts):
            association = _rewarded(np.array(wording.places), ratings, min_prompts, left_out)
            if association is not None:
                rewarded.append((-association.t, wording))
    biases: dict[str, Bias] = {}
    for _, wording in sorted(rewarded, key=lambda pair: pair[0]):
        if len(biases) >= n:
            left_out["goes with reward less surely than others"] += 1
        elif (bias := wording.make()) is None:
            left_out["no rule puts it into other responses"] += 1
        elif bias.name in biases:
            left_out["found in the same responses as another"] += 1
        else:
            biases[bias.name] = bias
    return list(biases.values())


def _presence(bias: Bias, values: FloatArray, ratings: Ratings) -> NDArray[np.bool_]:
    """In which responses it is measured; one relative to another response is compared to the prompt's median."""
    rule = bias.measure
    if rule is None:
        return np.zeros(len(values), dtype=bool)
    reference = np.ones(len(values))
    if rule.relative:
        medians = np.array([np.median(values[ratings.prompts == place]) for place in range(ratings.n_prompts)])
        reference = medians[ratings.prompts]
    above, below = rule.present_above, rule.present_below
    return values > above * reference if above is not None else values < (below or 0.0) * reference


def _variants(bias: Bias, values: FloatArray) -> list[Bias]:
    """The bias, and if more than half of the responses have it anyway, much of it: more than half of these have."""
    rule = bias.measure
    if rule is None or rule.relative or rule.present_above is None:
        return [bias]
    having = values[values > rule.present_above]
    if len(having) <= _COMMON_SHARE * len(values) or (threshold := float(np.median(having))) <= rule.present_above:
        return [bias]
    return [bias, more_than(bias, threshold)]


def more_than(bias: Bias, threshold: float) -> Bias:
    """The same bias with a higher threshold of its measure."""
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


def _family(mined: Sequence[Mined]) -> list[Bias]:
    """Openings that go with reward, together, if there are several: real biases are families of wordings."""
    phrasings = [
        phrasing_of(attribute.bias) for attribute in sorted(mined, key=_surest_first) if attribute.association.t > 1
    ]
    wordings = dict.fromkeys(
        wording
        for phrasing in phrasings
        if phrasing is not None and phrasing.position == "opening"
        for wording in phrasing.wordings
        if wording[-1] in ".!:"
    )
    return [phrase_bias(Phrasing("opening", tuple(wordings)[:_MAX_FAMILY]))] if len(wordings) > 1 else []


def _apart(mined: Sequence[Mined], n: int, known: Sequence[Bias], left_out: Counter[str]) -> list[Mined]:
    """The best n that are not of one kind and found in the same responses; of those that are, a known one stands for them."""

    def same(one: Mined, other: Mined) -> bool:
        return kind(one.bias) == kind(other.bias) and jaccard(one.present, other.present) > MAX_JACCARD

    names = {bias.name for bias in known}
    kept: list[Mined] = []
    for attribute in mined:
        twin = next((i for i, other in enumerate(kept) if same(attribute, other)), None)
        if twin is not None:
            left_out["found in the same responses as another"] += 1
            if attribute.bias.name in names and kept[twin].bias.name not in names:
                kept[twin] = attribute
        elif len(kept) >= n:
            left_out["goes with reward less surely than others"] += 1
        else:
            kept.append(attribute)
    return kept
