"""Design of a study: contrasts as people see them, items, their assignment, and the amount of work."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal, TypeVar

import numpy as np

from cda.errors import DataError, refuse
from cda.features import words
from cda.run import fingerprint

T = TypeVar("T")
Kind = Literal["experts", "crowd"]
KINDS: tuple[Kind, ...] = ("experts", "crowd")


@dataclass(frozen=True, slots=True)
class Pairing:
    """A contrast as people see it: plain text, hidden characters already spelled out; votes are matched by its id."""

    id: str
    bias: str
    prompt_id: str
    prompt: str
    base: str
    perturbed: str


@dataclass(frozen=True, slots=True)
class Item:
    """A question with two answers in random order; `id` is `i001`, …, in shuffled order, so that it reveals nothing.

    A contrast has its id, its bias and the index (0 or 1) of the text with the bias; an attention check that of the right text.
    """

    id: str
    prompt: str
    texts: tuple[str, str]
    prompt_id: str
    contrast: str | None = None
    bias: str | None = None
    perturbed: int | None = None
    right: int | None = None

    @property
    def is_check(self) -> bool:
        return self.right is not None


@dataclass(frozen=True, slots=True)
class Shown:
    """An item as one participant gets it: `a` says which of its texts stands as answer A."""

    item: str
    a: int


@dataclass(frozen=True, slots=True)
class Study:
    """Everything that was decided before the first judgement: items by id, and each participant's, in order, by their code."""

    kind: Kind
    judgements: int
    seed: int
    items: Mapping[str, Item]
    participants: Mapping[str, tuple[Shown, ...]]

    @property
    def contrasts(self) -> list[Item]:
        """Items other than attention checks."""
        return [item for item in self.items.values() if not item.is_check]

    @property
    def n_checks(self) -> int:
        return len(self.items) - len(self.contrasts)

    @property
    def fingerprint(self) -> str:
        """Fingerprint of texts and assignments, without which text carries the bias: that could be found out by trying."""
        texts = {item.id: [item.prompt, *item.texts] for item in self.items.values()}
        shown = {code: [[task.item, task.a] for task in given] for code, given in self.participants.items()}
        return fingerprint([self.kind, self.judgements, self.seed, texts, shown])


def low_to_high(numbers: Collection[int]) -> str:
    """The one number, or `fewest to most`."""
    return f"{min(numbers)}" if min(numbers) == max(numbers) else f"{min(numbers)} to {max(numbers)}"


@dataclass(frozen=True, slots=True)
class Plan:
    """The work and who does it: `people` participants, at most `quota` items and `checks` checks each."""

    judgements: int
    people: int
    quota: int
    checks: int


TITLE = "Which answer is better?"
CHOICES = {"A": "A is better", "B": "B is better", "tie": "No difference"}

_ALL = (
    "You will see a question and two answers to it, A and B. Read both to the end, then say which one is better.",
    "Better means: the one you would rather have given to the person who asked. Is it right? Does it answer what was asked? "
    "Can that person understand it and do something with it? How much each of these counts is for you to judge.",
    "Judge each item by itself. Who or what wrote an answer does not matter, and which of the two stands as A is drawn by lot. "
    "Everything is shown as plain text, just as it was written.",
    "Choose “no difference” where you would not mind which of the two is given, and not where it is hard to decide.",
)
_KIND: dict[Kind, str] = {
    "experts": "Check what you would check in your own work. Each item asks for a few words on what decided it.",
    "crowd": "No special knowledge is needed. A reason is welcome, but not needed.",
}
_CHECKS = "In a few items one answer is plainly wrong; they show that items are being read."


def instructions(study: Study) -> tuple[str, ...]:
    """Paragraphs for participants."""
    return (*_ALL, _KIND[study.kind] + (f" {_CHECKS}" if study.n_checks else ""))


CROWD_QUOTA = 40
"""Default number of items of a crowd participant: about half an hour."""
CROWD_CHECKS = 3
_CANDIDATES = 20  # other prompts among which the answer of an attention check is looked for


def planned(
    pairings: Sequence[Pairing], kind: Kind, judgements: int, quota: int | None, people: int | None, checks: int | None
) -> Plan:
    """Fill in missing numbers, and refuse impossible ones with a DataError that says each.

    Experts judge everything and crowd participants 40 items, if `quota` (most items of a participant, besides attention
    checks) and `people` are None; a crowd gets three attention checks each if `checks` is None, experts none.
    """
    least = {"judgements": (judgements, 1), "quota": (quota, 1), "people": (people, 1), "attention": (checks, 0)}
    given = [(f"--{name}", value, low) for name, (value, low) in least.items() if value is not None]
    refuse([f"{name}: at least {low}, found {value}" for name, value, low in given if value < low])
    problems = []
    n, wanted = len(pairings), len(pairings) * judgements
    if quota is None:
        quota = math.ceil(wanted / people) if people else (min(n, CROWD_QUOTA) if kind == "crowd" else n)
    enough = max(judgements, math.ceil(wanted / min(quota, n)))
    n_people = people or enough
    each = checks if checks is not None else (CROWD_CHECKS if kind == "crowd" else 0)
    if n_people < judgements:
        problems.append(f"--people {n_people}: {judgements} judgements by different people need {judgements} or more")
    elif n_people * min(quota, n) < wanted:
        problems.append(
            f"--quota {quota}: {n} items × {judgements} judgements are {wanted}, and {n_people} participants with at most "
            f"{quota} each give {n_people * quota}. Needed: --quota {math.ceil(wanted / n_people)}, or --people {enough}"
        )
    if n_people > wanted:
        problems.append(
            f"--people {n_people}: {wanted} judgements are wanted in all, so that some would have nothing to do"
        )
    n_prompts = len({pairing.prompt_id for pairing in pairings})
    if each and (n_prompts < 2 or each > n_prompts):
        problems.append(
            f"--attention {each}: an attention check puts the answer to another prompt next to a right one, once a prompt; "
            f"{n_prompts} prompts allow {n_prompts if n_prompts > 1 else 0}"
        )
    refuse(problems)
    return Plan(judgements, n_people, quota, each)


def designed(pairings: Sequence[Pairing], kind: Kind, plan: Plan, seed: int) -> Study:
    """Draw items, checks, assignments, orders and sides; the same for the same contrasts and seed (0 or more)."""
    if seed < 0:
        raise DataError(f"--seed: at least 0, found {seed}")
    # The texts, sides included, are part of the seed: a number that is easily guessed must not give the key away.
    texts = fingerprint([[pairing.id, pairing.base, pairing.perturbed] for pairing in pairings])
    rng = np.random.default_rng([seed, int(texts, 16)])
    drafts = []
    for pairing in pairings:
        perturbed = int(rng.integers(2))
        sides = (pairing.perturbed, pairing.base) if perturbed == 0 else (pairing.base, pairing.perturbed)
        drafts.append(Item("", pairing.prompt, sides, pairing.prompt_id, pairing.id, pairing.bias, perturbed))
    drafts += _checks(pairings, plan.checks, rng)
    digits = max(3, len(str(len(drafts))))
    numbers = rng.permutation(len(drafts)).tolist()
    items = [replace(draft, id=f"i{at + 1:0{digits}d}") for draft, at in zip(drafts, numbers, strict=True)]
    codes = [f"p{at + 1:0{max(2, len(str(plan.people)))}d}" for at in range(plan.people)]
    given: dict[str, list[Shown]] = {code: [] for code in codes}
    prompts: dict[str, Counter[str]] = {code: Counter() for code in codes}
    for item in _shuffled([item for item in items if not item.is_check], rng):
        # Those with the least to do; among them those who know the prompt least; then by lot. Loads differ by 1 at most.
        lots = dict(zip(codes, rng.random(len(codes)).tolist(), strict=True))
        busy = {code: (len(given[code]), prompts[code][item.prompt_id], lots[code]) for code in codes}
        # Either text is A as often as the other, or once more, by lot.
        start = int(rng.integers(2))
        sides_as_a = _shuffled([(start + at) % 2 for at in range(plan.judgements)], rng)
        for code, a in zip(sorted(codes, key=busy.__getitem__), sides_as_a, strict=False):
            given[code].append(Shown(item.id, a))
            prompts[code][item.prompt_id] += 1
    _deal_checks([item for item in items if item.is_check], given, prompts, plan.checks, rng)
    seen = {shown.item for mine in given.values() for shown in mine}
    ordered = {code: tuple(_shuffled(mine, rng)) for code, mine in given.items()}
    kept = {item.id: item for item in sorted(items, key=lambda item: item.id) if item.id in seen}
    return Study(kind, plan.judgements, seed, kept, ordered)


def _shuffled(values: Sequence[T], rng: np.random.Generator) -> list[T]:
    return [values[at] for at in rng.permutation(len(values)).tolist()]


def _checks(pairings: Sequence[Pairing], n_each: int, rng: np.random.Generator) -> list[Item]:
    """Attention checks, one for each prompt used: the prompt's own answer against another prompt's."""
    if not n_each:
        return []
    by_prompt: dict[str, list[Pairing]] = {}
    for pairing in pairings:
        by_prompt.setdefault(pairing.prompt_id, []).append(pairing)
    checks = []
    for name in _shuffled(list(by_prompt), rng)[: 4 * n_each]:
        mine = by_prompt[name][int(rng.integers(len(by_prompt[name])))]
        right = mine.base if rng.integers(2) else mine.perturbed
        known = _words(f"{mine.prompt} {right}")
        others = [pairing for pairing in pairings if pairing.prompt_id != name]
        # Prompts may be alike; the answer that shares the fewest words is the one that surely misses the question.
        found = [(_words(other.base), other.base) for other in _shuffled(others, rng)[:_CANDIDATES]]
        _, wrong = min(found, key=lambda answer: len(known & answer[0]) / max(1, len(known | answer[0])))
        at = int(rng.integers(2))
        texts = (right, wrong) if at == 0 else (wrong, right)
        checks.append(Item("", mine.prompt, texts, mine.prompt_id, right=at))
    return checks


def _words(text: str) -> set[str]:
    return set(words(text.lower()))


def _deal_checks(
    checks: Sequence[Item],
    given: Mapping[str, list[Shown]],
    prompts: Mapping[str, Counter[str]],
    n_each: int,
    rng: np.random.Generator,
) -> None:
    """Different checks for each participant: of prompts they do not see otherwise, and evenly used."""
    used: Counter[str] = Counter()
    for code, mine in given.items():
        lots = dict(zip([check.id for check in checks], rng.random(len(checks)).tolist(), strict=True))
        order = sorted(checks, key=lambda check: (prompts[code][check.prompt_id], used[check.id], lots[check.id]))
        for check in order[:n_each]:
            mine.append(Shown(check.id, int(rng.integers(2))))
            used[check.id] += 1
