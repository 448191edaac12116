"""Who judges what: items in neutral order, attention checks, and each participant's share with sides drawn by lot."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np

from cda.errors import DataError
from cda.features import words
from cda.run import fingerprint
from cda.study.records import Item, Kind, Pairing, Plan, Shown, Study

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
