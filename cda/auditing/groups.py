"""The contrasts of one bias with the margins of every scoring: what all measurements of an audit start from."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TypeVar

import numpy as np

from cda.arrays import FloatArray
from cda.biases import Bias
from cda.errors import DataError
from cda.records import Contrast, Preference, TieRule, prompt_id
from cda.results.base import Missing
from cda.scorers.compared import Compared
from cda.stats.votes import Counts, Majority, count_votes, leading_words, majority

T = TypeVar("T")
Scorings = Mapping[str, Compared]
"""`before` and `after` for a training, `model` for an audit alone; in this order. `after` is the run's result: the adapter at
its dose. Where that is not 1, `plain` is the adapter at dose 1. `seed-N` are further trainings (`train.seeds`), each at its
own dose."""
PLAIN = "plain"
MAIN = ("before", "after", "model")


@dataclass(frozen=True, slots=True, eq=False)
class Group:
    """Contrasts of one bias.

    Attributes:
        bias: The bias.
        is_target: Whether it is one of the recipe's.
        contrasts: Those that every scoring has a margin for.
        prompt_ids: Cluster of each.
        margins: Scoring to margins, shape (n,).
        unit: Of the margins.
        n_unread: Contrasts left out because a judge gave no readable verdict.
    """

    bias: Bias
    is_target: bool
    contrasts: tuple[Contrast, ...]
    prompt_ids: tuple[str, ...]
    margins: Mapping[str, FloatArray]
    unit: str
    n_unread: int

    def __len__(self) -> int:
        return len(self.contrasts)


@dataclass(frozen=True, slots=True, eq=False)
class People:
    """What people preferred among a group's contrasts.

    Attributes:
        majority: By the tie rule.
        words: perturbed, base, tie, split or no votes, of each contrast.
        counts: Single votes, shape (n, 3), on rows that have any; None where a file states majorities only.
    """

    majority: Majority
    words: tuple[str, ...]
    counts: Counts | None


def make_groups(
    contrasts: Sequence[Contrast], biases: Mapping[str, Bias], targets: Sequence[str], scorings: Scorings
) -> list[Group]:
    """One group a bias, targets first.

    Raises:
        DataError: A target has no contrast, or no contrast with a readable verdict.
    """
    names = [*targets, *sorted({contrast.bias for contrast in contrasts} - set(targets))]
    return [_group(name, contrasts, biases, name in targets, scorings) for name in names]


def main_of(scorings: Mapping[str, T]) -> dict[str, T]:
    """Those of the model, or of before and after: without plain CDA and further trainings."""
    return {label: one for label, one in scorings.items() if label in MAIN}


def main_group(group: Group) -> Group:
    """The same contrasts with the margins of the model, or of before and after."""
    return replace(group, margins=main_of(group.margins))


def with_plain(group: Group) -> Group:
    """The same contrasts with plain CDA in the place of `after`."""
    return replace(group, margins={"before": group.margins["before"], "after": group.margins[PLAIN]})


def people_of(group: Group, rule: TieRule) -> People | None:
    """People's majorities on a group; None where nobody voted on any contrast for one side.

    A stated preference without single votes counts as one vote.
    """
    if not any(one.votes or one.preferred for one in group.contrasts):
        return None
    counts = count_votes([one.votes or ((one.preferred,) if one.preferred else ()) for one in group.contrasts])
    words = leading_words(counts)
    released = [one.preferred or _sided(word) for one, word in zip(group.contrasts, words, strict=True)]
    try:
        found = majority(counts, rule, released)  # type: ignore[arg-type]
    except DataError:
        return None
    has_votes = any(one.votes for one in group.contrasts)
    return People(found, tuple(words), counts if has_votes else None)


def sides_of(group: Group, people: People) -> list[Preference | None]:
    """The side that people's majority is for on each contrast, `tie` for ties and splits; None where nobody voted.

    Unlike in `people.majority`, ties are there under every tie rule.
    """
    found: list[Preference | None] = []
    rows = zip(group.contrasts, people.words, people.majority.target, people.majority.used, strict=True)
    for contrast, word, target, used in rows:
        if used and target != 0.5:
            found.append("perturbed" if target == 1 else "base")
        else:
            found.append("tie" if word in ("tie", "split") or contrast.preferred == "tie" else None)
    return found


def estimated(estimate: Callable[[], T]) -> T | Missing:
    """An estimate, or why the data cannot give it. Never a number that stands for none."""
    try:
        return estimate()
    except DataError as error:
        return Missing(reason=str(error))


def before_and_after(values: Mapping[str, T]) -> dict[str, T]:
    """Values by scoring as the fields of a `PerScoring`: `before`, and `after` if there are two."""
    return dict(zip(("before", "after"), values.values(), strict=False))


def _group(
    name: str, contrasts: Sequence[Contrast], biases: Mapping[str, Bias], is_target: bool, scorings: Scorings
) -> Group:
    own = [contrast for contrast in contrasts if contrast.bias == name]
    if not own:
        raise DataError(f"{name}: no contrast to audit it on; give some with audit.contrasts=<file>")
    compared = [(one.prompt, one.perturbed, one.base) for one in own]
    margins = {label: scoring.margins(compared) for label, scoring in scorings.items()}
    read = ~np.isnan(np.array(list(margins.values()))).any(axis=0)
    if not read.any():
        raise DataError(
            f"{name}: no margin on any of {len(own)} contrasts: no readable verdict, texts too long, or both sides the same after cutting"
        )
    kept = tuple(one for one, keep in zip(own, read, strict=True) if keep)
    return Group(
        bias=biases[name],
        is_target=is_target,
        contrasts=kept,
        prompt_ids=tuple(prompt_id(one.prompt) for one in kept),
        margins={label: values[read] for label, values in margins.items()},
        unit=next(iter(scorings.values())).unit,
        n_unread=int((~read).sum()),
    )


def _sided(word: str) -> str | None:
    return word if word in ("perturbed", "base", "tie") else None
