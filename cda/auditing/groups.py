"""The contrasts of one bias with the margins of every scoring, and the small functions that all measurements share."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import compress
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from cda.arrays import FloatArray
from cda.biases import Bias
from cda.errors import DataError
from cda.records import Contrast, Pair, Preference, TieRule, prompt_id
from cda.results.base import Missing, PerScoring
from cda.scorers.compared import Compared, Comparison
from cda.stats.preference import ModelTies
from cda.stats.streams import Stream, generator
from cda.stats.votes import Counts, Majority, count_votes, leading_words, majority

T = TypeVar("T")
Scorings = Mapping[str, Compared]
"""`before` and `after` for a training, `model` for an audit alone; in this order. `after` is the run's result: the adapter at
its dose. If that is not 1, `plain` is the adapter at dose 1. `seed-N` are further trainings (`train.seeds`), each at its own
dose."""
PLAIN = "plain"
VERDICTS: Mapping[Preference | None, float] = {"perturbed": 1.0, "tie": 0.0, "base": -1.0, None: float("nan")}
"""A judge's preference as a margin."""
MAIN = ("before", "after", "model")


@dataclass(frozen=True, slots=True, eq=False)
class Group:
    """Contrasts of one bias."""

    bias: Bias
    is_target: bool
    """It is one of the recipe's biases."""
    contrasts: tuple[Contrast, ...]
    """Those that every scoring has a margin for."""
    prompt_ids: tuple[str, ...]
    """Cluster of each."""
    margins: Mapping[str, FloatArray]
    """Scoring to margins, shape (n,)."""
    unit: str
    """Unit of the margins."""
    n_unread: int
    """Contrasts left out because a scoring has no margin for them."""

    def __len__(self) -> int:
        return len(self.contrasts)

    @property
    def ties(self) -> ModelTies:
        return ties_of(self.unit)

    @property
    def sides(self) -> tuple[list[str], list[str]]:
        """The perturbed texts and the base texts."""
        return [contrast.perturbed for contrast in self.contrasts], [contrast.base for contrast in self.contrasts]

    def with_margins(self, labels: Mapping[str, str]) -> Group:
        """The same contrasts with the margins of some scorings, each under a new label."""
        return replace(self, margins={label: self.margins[scoring] for label, scoring in labels.items()})


@dataclass(frozen=True, slots=True, eq=False)
class People:
    """People's preferences among a group's contrasts."""

    majority: Majority
    words: tuple[str, ...]
    """perturbed, base, tie, split or no votes, of each contrast."""
    counts: Counts | None
    """Single votes, shape (n, 3), on rows that have any; None if a file states majorities only."""


def make_groups(
    contrasts: Sequence[Contrast], biases: Mapping[str, Bias], targets: Sequence[str], scorings: Scorings
) -> list[Group]:
    """One group for each bias, targets first.

    Raises:
        DataError: A target has no contrast, or no contrast with a readable verdict.
    """
    groups = []
    for name in [*targets, *sorted({contrast.bias for contrast in contrasts} - set(targets))]:
        own = [contrast for contrast in contrasts if contrast.bias == name]
        if not own:
            raise DataError(f"{name}: no contrast to audit it on; give some with audit.contrasts=<file>")
        margins, ids, read = read_margins(scorings, contrast_comparisons(own))
        if not ids:
            raise DataError(
                f"{name}: no margin on any of {len(own)} contrasts: no readable verdict, texts too long, or both sides the same "
                "after cutting"
            )
        kept, unit = tuple(compress(own, read)), unit_of(scorings)
        group = Group(biases[name], name in targets, kept, tuple(ids), margins, unit, len(own) - len(kept))
        groups.append(group)
    return groups


def contrast_comparisons(contrasts: Sequence[Contrast]) -> list[Comparison]:
    """The perturbed side of every contrast against its base."""
    return [(contrast.prompt, contrast.perturbed, contrast.base) for contrast in contrasts]


def pair_comparisons(pairs: Sequence[Pair]) -> list[Comparison]:
    """The chosen side of every pair against the rejected one."""
    return [(pair.prompt, pair.chosen, pair.rejected) for pair in pairs]


def read_margins(
    scorings: Scorings, comparisons: Sequence[Comparison]
) -> tuple[dict[str, FloatArray], list[str], NDArray[np.bool_]]:
    """Margins of the comparisons that every scoring has one for, their `prompt_id`s, and which comparisons these are."""
    margins = {label: scoring.margins(comparisons) for label, scoring in scorings.items()}
    read = ~np.isnan(np.array(list(margins.values()))).any(axis=0)
    ids = [prompt_id(prompt) for prompt, _, _ in compress(comparisons, read)]
    return {label: values[read] for label, values in margins.items()}, ids, read


def main_of(scorings: Mapping[str, T]) -> dict[str, T]:
    """Those of the model, or of before and after: without plain CDA and further trainings."""
    return {label: value for label, value in scorings.items() if label in MAIN}


def main_group(group: Group) -> Group:
    """The same contrasts with the margins of the model, or of before and after."""
    return replace(group, margins=main_of(group.margins))


def people_of(group: Group, rule: TieRule) -> People | None:
    """People's majorities on a group; None if no contrast has a majority for one side.

    A stated preference without single votes counts as one vote.
    """
    given = [contrast.votes or ((contrast.preferred,) if contrast.preferred else ()) for contrast in group.contrasts]
    if not any(given):
        return None
    counts = count_votes(given)
    words = leading_words(counts)
    released = [
        contrast.preferred or (word if word in ("perturbed", "base", "tie") else None)
        for contrast, word in zip(group.contrasts, words, strict=True)
    ]
    try:
        by_rule = majority(counts, rule, released)
    except DataError:
        return None
    has_votes = any(contrast.votes for contrast in group.contrasts)
    return People(by_rule, tuple(words), counts if has_votes else None)


def sides_of(group: Group, people: People) -> list[Preference | None]:
    """The side of people's majority on each contrast, `tie` for ties and splits; None without votes.

    Unlike in `people.majority`, ties are there under every tie rule.
    """
    sides: list[Preference | None] = []
    rows = zip(group.contrasts, people.words, people.majority.target, people.majority.used, strict=True)
    for contrast, word, target, used in rows:
        if used and target != 0.5:
            sides.append("perturbed" if target == 1 else "base")
        else:
            sides.append("tie" if word in ("tie", "split") or contrast.preferred == "tie" else None)
    return sides


def estimated(estimate: Callable[[], T]) -> T | Missing:
    """An estimate, or the reason why the data cannot give it. Never a number that stands for none."""
    try:
        return estimate()
    except DataError as error:
        return Missing(reason=str(error))


def per_scoring(values: Mapping[str, T]) -> PerScoring[T]:
    """A value of the one model; or of the model before and after."""
    return PerScoring(**dict(zip(("before", "after"), values.values(), strict=False)))


def rng(seed: int) -> np.random.Generator:
    """The audit's generator: every number is drawn from a fresh one, so that none depends on which others were made."""
    return generator(seed, Stream.AUDIT_INTERVALS)


def ties_of(unit: str) -> ModelTies:
    """Rule for a margin of exactly 0: a judge's tie is deliberate, a reward model's accidental."""
    return "half" if unit == "preference" else "no-hit"


def unit_of(scorings: Scorings) -> str:
    return next(iter(scorings.values())).unit
