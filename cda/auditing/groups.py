"""The contrasts of one bias with the margins of every scoring, what all measurements share, and what people's votes say."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from itertools import compress
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from cda.arrays import FloatArray
from cda.biases import Bias
from cda.errors import DataError
from cda.features import AMOUNTS, wording, words
from cda.numbers.people import measured_against
from cda.records import Contrast, Pair, Preference, TieRule, prompt_id
from cda.results.base import Missing, PerScoring, Test, or_missing
from cda.results.skew import PoweredVotes, VotedBias
from cda.scorers.compared import Compared, Comparison
from cda.stats.drift import measured
from cda.stats.people import human_skew, powered_human_skew, powered_miscalibration
from cda.stats.proportions import ModelTies, exact_change_test
from cda.stats.votes import Counts, Majority, agreement, count_votes, leading_words, majority, noise_ceiling

T = TypeVar("T")
Scorings = Mapping[str, Compared]
"""`before` and `after` for a training, `model` for an audit alone; in this order. `after` is the run's result: the adapter at
its dose. If that is not 1, `plain` is the adapter at dose 1. `seed-N` are further trainings (`train.seeds`), each at its own
dose."""
PLAIN = "plain"
VERDICTS: Mapping[Preference | None, float] = {"perturbed": 1.0, "tie": 0.0, "base": -1.0, None: float("nan")}
"""A judge's preference as a margin."""
MAIN = ("before", "after", "model")
_N_COUNTED, _OF_CONTRASTS, _OF_PHRASES = 250, 0.03, 0.1
"""Words, letters and endings that are counted; share of contrasts that differ in one; share of a bias's own phrases from which a word
is part of the bias: flattery says "you"."""


@dataclass(frozen=True, eq=False)
class Group:
    """Contrasts of one bias that every scoring has a margin for (n_unread: those that one has none for), their prompts as
    clusters, and scoring to margins, shape (n,), in `unit`. `is_target`: it is one of the recipe's biases."""

    bias: Bias
    is_target: bool
    contrasts: tuple[Contrast, ...]
    prompt_ids: tuple[str, ...]
    margins: Mapping[str, FloatArray]
    unit: str
    n_unread: int

    def __len__(self) -> int:
        return len(self.contrasts)

    @property
    def ties(self) -> ModelTies:
        return ties_of(self.unit)

    @property
    def sides(self) -> tuple[list[str], list[str]]:
        """The perturbed texts and the base texts."""
        return [contrast.perturbed for contrast in self.contrasts], [contrast.base for contrast in self.contrasts]

    @cached_property
    def features(self) -> tuple[Mapping[str, FloatArray], Mapping[str, FloatArray]]:
        """The text features of the perturbed texts and of the base texts."""
        perturbed, base = self.sides
        return measured(perturbed), measured(base)

    @cached_property
    def amounts(self) -> tuple[Mapping[str, FloatArray], Mapping[str, FloatArray]]:
        """Other measures of length of the perturbed texts and of the base texts (`cda.features.AMOUNTS`)."""
        perturbed, base = (
            {name: np.array([float(amount.of(text)) for text in side]) for name, amount in AMOUNTS.items()}
            for side in self.sides
        )
        return perturbed, base

    @cached_property
    def wording(self) -> FloatArray:
        """Changes in the counts of the words, letters and endings that most contrasts differ in, shape (n, k); without the words that
        the bias's own phrases are made of."""
        counts = [(wording(one), wording(other)) for one, other in zip(*self.sides, strict=True)]
        differ = Counter(
            name for one, other in counts for name in one.keys() | other.keys() if one[name] != other[name]
        )
        said = Counter(word for phrase in self.bias.markers for word in set(words(phrase.lower())))
        least, often = max(3, _OF_CONTRASTS * len(self)), _OF_PHRASES * len(self.bias.markers)
        names = sorted(
            (name for name, n in differ.items() if n >= least and not (name in said and said[name] >= often)),
            key=lambda name: (-differ[name], name),
        )[:_N_COUNTED]
        changes = [[one[name] - other[name] for name in names] for one, other in counts]
        return np.array(changes, dtype=np.float64).reshape(len(self), len(names))

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
    contrasts: Sequence[Contrast],
    biases: Mapping[str, Bias],
    targets: Sequence[str],
    scorings: Scorings,
    may_lack: Collection[str] = (),
) -> list[Group]:
    """One group for each bias, targets first; DataError if a target has no contrast, or a bias none with a margin. Those of
    `may_lack` have no group then."""
    groups = []
    for name in [*targets, *sorted({contrast.bias for contrast in contrasts} - set(targets))]:
        own = [contrast for contrast in contrasts if contrast.bias == name]
        if not own and name in may_lack:
            continue
        if not own:
            raise DataError(f"{name}: no contrast to audit it on; give some with audit.contrasts=<file>")
        margins, ids, read = read_margins(scorings, contrast_comparisons(own))
        if not ids and name in may_lack:
            continue
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
    """People's majorities on a group's contrasts; None if no contrast has a majority for one side."""
    return people_in(
        [contrast.votes for contrast in group.contrasts], [each.preferred for each in group.contrasts], rule
    )


def people_in(
    votes: Sequence[Sequence[Preference]], preferred: Sequence[Preference | None], rule: TieRule
) -> People | None:
    """People's majorities, from the single votes on each contrast and the preference that its file states (length n each); a
    preference without single votes is one vote. None if no contrast has a majority for one side."""
    given = [own or ((stated,) if stated else ()) for own, stated in zip(votes, preferred, strict=True)]
    if not any(given):
        return None
    counts = count_votes(given)
    words = leading_words(counts)
    released = [
        stated or (word if word in ("perturbed", "base", "tie") else None)
        for stated, word in zip(preferred, words, strict=True)
    ]
    try:
        by_rule = majority(counts, rule, released)
    except DataError:
        return None
    return People(by_rule, tuple(words), counts if any(votes) else None)


def per_scoring(values: Mapping[str, T]) -> PerScoring[T]:
    """A value of the one model; or of the model before and after."""
    return PerScoring(**dict(zip(("before", "after"), values.values(), strict=False)))


def ties_of(unit: str) -> ModelTies:
    """Rule for a margin of exactly 0: a tie of verdicts or grades is deliberate, a reward model's accidental."""
    return "no-hit" if unit == "reward" else "half"


def unit_of(scorings: Scorings) -> str:
    return next(iter(scorings.values())).unit


def votes(groups: Sequence[Group], rule: TieRule) -> dict[str, VotedBias]:
    """Every bias that people voted on: human skew, miscalibration, gap, AUC; agreement and noise ceiling from raw votes."""
    return {group.bias.name: _voted(group, people) for group, people in with_people(groups, rule)}


def votes_undecided(groups: Sequence[Group], rule: TieRule) -> dict[str, int]:
    """Number of contrasts with votes, for biases that have votes but no majority for a side on any contrast."""
    voted = {
        group.bias.name: sum(bool(contrast.votes or contrast.preferred) for contrast in group.contrasts)
        for group in groups
        if not people_of(group, rule)
    }
    return {name: n for name, n in voted.items() if n}


def with_people(groups: Sequence[Group], rule: TieRule) -> list[tuple[Group, People]]:
    by_name = sorted(groups, key=lambda group: group.bias.name)
    return [(group, people) for group in by_name if (people := people_of(group, rule))]


def _voted(group: Group, people: People) -> VotedBias:
    ids, majority, counts = list(group.prompt_ids), people.majority, people.counts
    return VotedBias(
        measured=measured_against([*group.margins.values()], majority, ids, group.ties),
        human_skew=human_skew(majority, ids),
        gap_test=_gap_test(group, majority) if len(group.margins) == 1 else None,
        rule=majority.rule,
        left_out=dict(majority.exclusions.reasons),
        agreement=None if counts is None else or_missing(lambda: agreement(counts, ids, majority)),
        noise_ceiling=None if counts is None else or_missing(lambda: noise_ceiling(counts, majority, ids)),
        prediction_powered=_powered(group) if any(contrast.verdicts for contrast in group.contrasts) else None,
    )


def _gap_test(group: Group, people: Majority) -> Test:
    """Exact paired test that the model's preferences and people's majorities are for the perturbed side equally often."""
    (margins,) = group.margins.values()
    rows = people.used
    hits = np.where((margins == 0) & (group.ties == "half"), 0.5, margins > 0)
    return exact_change_test(people.target[rows], hits[rows], list(compress(group.prompt_ids, rows)))


def _powered(group: Group) -> PoweredVotes | Missing:
    """Human skew and miscalibration of all contrasts, from few votes and the judges' verdicts; ties count half."""
    people = people_of(group, "half")
    if people is None:
        return Missing(reason="no contrast has a majority")
    given = [[VERDICTS[word] for word in contrast.verdicts] for contrast in group.contrasts]
    judge = np.array([np.mean(verdicts) if verdicts else np.nan for verdicts in given])
    ids, majority = group.prompt_ids, people.majority
    missed = {
        label: or_missing(partial(powered_miscalibration, margins, majority, judge, ids, group.ties))
        for label, margins in group.margins.items()
    }
    return PoweredVotes(
        human_skew=or_missing(partial(powered_human_skew, majority, judge, ids)), miscalibration=per_scoring(missed)
    )
