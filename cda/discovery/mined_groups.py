"""Attributes grouped by what they do and where they are found: what stands in where no LLM groups them by meaning."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from cda.biases import Bias
from cda.discovery.mined_rules import phrasing_of

MIN_JACCARD = 0.9
MIN_TEXTS = 3
MAX_TEXTS = 250


@dataclass(frozen=True, slots=True)
class PresenceGrouper:
    """A Grouper: the same rules, the same pattern, or measured present in the same responses.

    Attributes asked for at more or fewer places are apart on purpose, however alike their presence: how often is what a
    mutation varies. So are attributes of another kind: where every opening `Sure!` brings the only exclamation mark, which
    of the two is rewarded is for rewrites to tell.

    Attributes:
        texts: Responses in which presence is looked for, at most MAX_TEXTS of them at even steps; none: rules and patterns
            alone decide.
        min_jaccard: Above this share of texts in common, of all texts with either, two are the same.
    """

    texts: Sequence[str] = ()
    min_jaccard: float = MIN_JACCARD

    def groups(self, biases: Sequence[Bias]) -> list[list[int]]:
        """A partition of range(len(biases)); see `Grouper`."""
        texts = self.texts[:: -(-len(self.texts) // MAX_TEXTS)] if self.texts else ()
        present = [presence(bias, texts) for bias in biases]
        keys = [(_rules(bias), _found(bias), _dose(bias)) for bias in biases]

        def same(one: int, other: int) -> bool:
            (rules, found, dose), (other_rules, other_found, other_dose) = keys[one], keys[other]
            if rules is not None and rules == other_rules:
                return True
            if dose != other_dose:
                return False
            if found is not None and found == other_found:
                return True
            return kind(biases[one]) == kind(biases[other]) and jaccard(present[one], present[other]) > self.min_jaccard

        return _joined(len(biases), same)


def presence(bias: Bias, texts: Sequence[str]) -> NDArray[np.bool_]:
    """In which texts a bias is measured; in none where it has no measure, or one relative to another text. Shape (n,)."""
    if bias.measure is None or bias.measure.relative:
        return np.zeros(len(texts), dtype=bool)
    return np.array([bool(bias.shows(text)) for text in texts], dtype=bool)


def kind(bias: Bias) -> str:
    """What the rules put where: sentences or phrases at a place, words within sentences, or signs."""
    made = phrasing_of(bias)
    if made is not None:
        return "start" if made.position in ("opening", "before") else made.position
    rules = bias.offline
    if rules is None:
        return "none"
    puts = [put for swap in rules.swaps_add for put in swap.options()]
    return "words" if rules.words or any(map(str.isalpha, "".join(puts))) else "signs"


def jaccard(one: NDArray[np.bool_], other: NDArray[np.bool_]) -> float:
    """Share in common of two sets of texts; 0.0 where they are too few to say so."""
    either = int((one | other).sum())
    return float((one & other).sum() / either) if either >= MIN_TEXTS else 0.0


def _joined(n: int, same: Callable[[int, int], bool]) -> list[list[int]]:
    """Each joins the first group whose first member it equals, so that chains do not grow."""
    groups: list[list[int]] = []
    for place in range(n):
        for group in groups:
            if same(group[0], place):
                group.append(place)
                break
        else:
            groups.append([place])
    return groups


def _rules(bias: Bias) -> str | None:
    if bias.offline is None:
        return None
    measure = bias.measure.model_dump(mode="json") if bias.measure else None
    return json.dumps([bias.offline.model_dump(mode="json"), measure], sort_keys=True)


def _found(bias: Bias) -> str | None:
    """What finds it: its measure, and the pattern or phrases that this is made of."""
    if bias.measure is None:
        return None
    return json.dumps([bias.measure.model_dump(mode="json"), bias.pattern, sorted(bias.markers)], sort_keys=True)


def _dose(bias: Bias) -> tuple[object, ...]:
    """How much of it the rules put in."""
    rules = bias.offline
    if rules is None:
        return ()
    threshold = None if bias.measure is None else (bias.measure.present_above, bias.measure.present_below)
    longest = max((len(swap) for one in rules.swaps_add for swap in one.options()), default=0)
    return (rules.share, rules.weave_every, rules.lead_every, rules.frame, threshold, longest)
