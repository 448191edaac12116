"""What a study is made of: contrasts as people see them, items, who gets which, and how much work there is."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np

from cda.errors import DataError
from cda.features import words
from cda.run import fingerprint

Kind = Literal["experts", "crowd"]
KINDS: tuple[Kind, ...] = ("experts", "crowd")


@dataclass(frozen=True, slots=True)
class Pairing:
    """A contrast as people see it: plain text, hidden characters already spelled out.

    Attributes:
        id: By which votes are matched later.
        bias: Of the contrast.
        prompt_id: Its cluster.
        prompt: In words.
        base: The side without the bias.
        perturbed: The side with it.
    """

    id: str
    bias: str
    prompt_id: str
    prompt: str
    base: str
    perturbed: str


@dataclass(frozen=True, slots=True)
class Item:
    """A question with two answers in an order that says nothing.

    Attributes:
        id: Says nothing either: `i001`, in shuffled order.
        prompt: In words.
        texts: The two answers.
        prompt_id: Cluster of the prompt.
        contrast: Id of the contrast; None for an attention check.
        bias: Of the contrast.
        perturbed: Which of the texts carries the bias: 0 or 1; None for an attention check.
        right: Of an attention check, which of the texts is the right one.
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
    """Everything that was decided before anybody judged.

    Attributes:
        kind: Who the participants are.
        judgements: Wanted on each contrast.
        seed: Of every draw.
        items: By id.
        participants: Code to what they see, in their order.
    """

    kind: Kind
    judgements: int
    seed: int
    items: Mapping[str, Item]
    participants: Mapping[str, tuple[Shown, ...]]

    @property
    def fingerprint(self) -> str:
        """Of texts and assignments, without which text carries the bias: that could be found out by trying."""
        texts = {one.id: [one.prompt, *one.texts] for one in self.items.values()}
        shown = {code: [[one.item, one.a] for one in given] for code, given in self.participants.items()}
        return fingerprint([self.kind, self.judgements, self.seed, texts, shown])


@dataclass(frozen=True, slots=True)
class Plan:
    """How much work there is and who does it: `people` participants, at most `quota` items and `checks` checks each."""

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
    checks = f" {_CHECKS}" if any(one.is_check for one in study.items.values()) else ""
    return (*_ALL, _KIND[study.kind] + checks)


def readme(study: Study, contrasts_file: bool) -> str:
    """README.md of the folder, for whoever runs the study."""
    each = [len(given) for given in study.participants.values()]
    n_checks = sum(one.is_check for one in study.items.values())
    checks = f" and {n_checks} attention checks" if n_checks else ""
    load = f"{min(each)}" if min(each) == max(each) else f"{min(each)} to {max(each)}"
    contrasts = (
        "- `contrasts.jsonl`: the pairs that were made of your triples, for `cda audit --pairs`. **Keep it to yourself.**\n"
        if contrasts_file
        else ""
    )
    told = "\n".join(f"> {paragraph}\n>" for paragraph in instructions(study)).removesuffix("\n>")
    return f"""# A study of {len(study.items) - n_checks} pairs{checks}

{len(study.participants)} participants ({study.kind}), {load} items for each, {study.judgements} judgements wanted on each pair.
Study {study.fingerprint}, seed {study.seed}.

## Files

- `index.html`: the page on which people judge. It needs no network and keeps answers in the participant's own browser. Send
  it as a file or put it, alone, on any web server; `index.html?participant=p01` opens it for one participant. Everybody gets
  a code of their own (`p01`, `p02`, …), and sends back the file that the page offers at the end.
- `assignments.json`: who sees which items in which order, and which text stands as answer A.
- `key.json`: which answer is which. **Keep it to yourself**: it is not in the page, and a participant who knows it is no judge.
{contrasts}- `items.csv`: the same as a table, a row a judgement, for those who work on paper or in a spreadsheet: fill the column
  `choice` with A, B or tie. A cell that a spreadsheet could take for a formula starts with an apostrophe; the import undoes it.
- `label_studio.json`, `label_studio.xml`: tasks and labelling configuration for Label Studio. Each task is to be annotated
  {study.judgements} times, which the Community edition sets by its API alone: POST to `/api/projects` with
  `"maximum_annotations": {study.judgements}` as you create the project. Export as JSON.

## Then

    cda study import THIS_FOLDER results-*.json
    cda audit my-org/my-reward-model --pairs {"THIS_FOLDER/" if contrasts_file else "your_"}contrasts.jsonl --votes THIS_FOLDER/votes.jsonl

Answers may come from the page, from Label Studio and from tables at once. Do not export anew into this folder while people
are judging: their answers belong to this study alone.

## What participants are told

{told}
"""


CROWD_QUOTA = 40
"""Items of a crowd participant where nothing else is said: about half an hour."""
CROWD_CHECKS = 3
_CANDIDATES = 20
"""Other prompts among which the answer of an attention check is looked for."""


def planned(
    pairings: Sequence[Pairing], kind: Kind, judgements: int, quota: int | None, people: int | None, checks: int | None
) -> Plan:
    """Fill in what was not said, and refuse what cannot be done.

    Args:
        pairings: What is judged.
        kind: Experts judge everything and crowd participants 40 items, where `quota` and `people` are None; a crowd gets
            three attention checks each where `checks` is None, experts none.
        judgements: Wanted on each pairing, all by different participants.
        quota: Most items of a participant, besides attention checks.
        people: Number of participants.
        checks: Attention checks of each participant.

    Raises:
        DataError: Every number that cannot be, and a quota or number of participants that is too small, with the one needed.
    """
    least = {
        "--judgements": (judgements, 1),
        "--quota": (quota, 1),
        "--people": (people, 1),
        "--attention": (checks, 0),
    }
    problems = [
        f"{name}: at least {low}, found {value}"
        for name, (value, low) in least.items()
        if value is not None and value < low
    ]
    if problems:
        raise DataError("\n".join(problems))
    n, wanted = len(pairings), len(pairings) * judgements
    if quota is None:
        quota = math.ceil(wanted / people) if people else (min(n, CROWD_QUOTA) if kind == "crowd" else n)
    found = people or max(judgements, math.ceil(wanted / min(quota, n)))
    each = checks if checks is not None else (CROWD_CHECKS if kind == "crowd" else 0)
    problems = []
    if found < judgements:
        problems.append(f"--people {found}: {judgements} judgements by different people need {judgements} or more")
    elif found * min(quota, n) < wanted:
        problems.append(
            f"--quota {quota}: {n} items × {judgements} judgements are {wanted}, and {found} participants with at most "
            f"{quota} each give {found * quota}. Needed: --quota {math.ceil(wanted / found)}, or "
            f"--people {max(judgements, math.ceil(wanted / min(quota, n)))}"
        )
    if found > wanted:
        problems.append(
            f"--people {found}: {wanted} judgements are wanted in all, so that some would have nothing to do"
        )
    n_prompts = len({one.prompt_id for one in pairings})
    if each and (n_prompts < 2 or each > n_prompts):
        problems.append(
            f"--attention {each}: an attention check puts the answer to another prompt beside a right one, once a prompt; "
            f"{n_prompts} prompts allow {n_prompts if n_prompts > 1 else 0}"
        )
    if problems:
        raise DataError("\n".join(problems))
    return Plan(judgements, found, quota, each)


def designed(pairings: Sequence[Pairing], kind: Kind, plan: Plan, seed: int) -> Study:
    """Draw items, checks, assignments, orders and sides; the same of the same contrasts and seed.

    Raises:
        DataError: The seed is below 0.
    """
    if seed < 0:
        raise DataError(f"--seed: at least 0, found {seed}")
    # The texts, sides included, are part of the seed: a number that is easily guessed must not give the key away.
    texts = fingerprint([[one.id, one.base, one.perturbed] for one in pairings])
    rng = np.random.default_rng([seed, int(texts, 16)])
    drafts = [_drafted(one, rng) for one in pairings] + _checks(pairings, plan, rng)
    digits = max(3, len(str(len(drafts))))
    numbers = rng.permutation(len(drafts))
    items = [replace(one, id=f"i{at + 1:0{digits}d}") for one, at in zip(drafts, numbers.tolist(), strict=True)]
    codes = [f"p{at + 1:0{max(2, len(str(plan.people)))}d}" for at in range(plan.people)]
    given: dict[str, list[Shown]] = {code: [] for code in codes}
    prompts: dict[str, Counter[str]] = {code: Counter() for code in codes}
    contrasts = [one for one in items if not one.is_check]
    for at in rng.permutation(len(contrasts)).tolist():
        item = contrasts[at]
        for code, a in zip(_judges(item, given, prompts, plan.judgements, rng), _sides(plan, rng), strict=True):
            given[code].append(Shown(item.id, a))
            prompts[code][item.prompt_id] += 1
    _deal_checks([one for one in items if one.is_check], given, prompts, plan, rng)
    seen = {one.item for mine in given.values() for one in mine}
    ordered = {code: tuple(mine[at] for at in rng.permutation(len(mine)).tolist()) for code, mine in given.items()}
    kept = {one.id: one for one in sorted(items, key=lambda one: one.id) if one.id in seen}
    return Study(kind, plan.judgements, seed, kept, ordered)


def _judges(
    item: Item,
    given: Mapping[str, Sequence[Shown]],
    prompts: Mapping[str, Counter[str]],
    n: int,
    rng: np.random.Generator,
) -> list[str]:
    """Those with the least to do; among them those who know the prompt least; then by lot. Loads differ by 1 at most."""
    lots = dict(zip(given, rng.random(len(given)).tolist(), strict=True))
    return sorted(given, key=lambda code: (len(given[code]), prompts[code][item.prompt_id], lots[code]))[:n]


def _sides(plan: Plan, rng: np.random.Generator) -> list[int]:
    """Which text is A for each judge of one item: as often the one as the other, or once more, by lot."""
    start = int(rng.integers(2))
    sides = [(start + at) % 2 for at in range(plan.judgements)]
    return [sides[at] for at in rng.permutation(plan.judgements).tolist()]


def _drafted(one: Pairing, rng: np.random.Generator) -> Item:
    perturbed = int(rng.integers(2))
    texts = (one.perturbed, one.base) if perturbed == 0 else (one.base, one.perturbed)
    return Item("", one.prompt, texts, one.prompt_id, one.id, one.bias, perturbed)


def _checks(pairings: Sequence[Pairing], plan: Plan, rng: np.random.Generator) -> list[Item]:
    """One attention check for each of as many prompts as are needed: its own answer beside another prompt's."""
    if not plan.checks:
        return []
    by_prompt: dict[str, list[Pairing]] = {}
    for one in pairings:
        by_prompt.setdefault(one.prompt_id, []).append(one)
    names = list(by_prompt)
    picked = [names[at] for at in rng.permutation(len(names))[: 4 * plan.checks].tolist()]
    return [_check(by_prompt[name], [one for one in pairings if one.prompt_id != name], rng) for name in picked]


def _check(own: Sequence[Pairing], others: Sequence[Pairing], rng: np.random.Generator) -> Item:
    mine = own[int(rng.integers(len(own)))]
    right = mine.base if rng.integers(2) else mine.perturbed
    known = set(words(f"{mine.prompt} {right}".lower()))
    picked = [others[at] for at in rng.permutation(len(others))[:_CANDIDATES].tolist()]
    # Prompts may be alike; the answer that shares the fewest words is the one that surely misses the question.
    wrong = min(picked, key=lambda one: _shared(known, one.base)).base
    at = int(rng.integers(2))
    return Item("", mine.prompt, (right, wrong) if at == 0 else (wrong, right), mine.prompt_id, right=at)


def _shared(known: set[str], text: str) -> float:
    found = set(words(text.lower()))
    return len(known & found) / max(1, len(known | found))


def _deal_checks(
    checks: Sequence[Item],
    given: Mapping[str, list[Shown]],
    prompts: Mapping[str, Counter[str]],
    plan: Plan,
    rng: np.random.Generator,
) -> None:
    """`plan.checks` different ones for each participant: of prompts they do not see otherwise, and evenly used."""
    used: Counter[str] = Counter()
    for code, mine in given.items():
        lots = rng.random(len(checks)).tolist()
        order = sorted(
            range(len(checks)), key=lambda at: (prompts[code][checks[at].prompt_id], used[checks[at].id], lots[at])
        )
        for at in order[: plan.checks]:
            mine.append(Shown(checks[at].id, int(rng.integers(2))))
            used[checks[at].id] += 1
