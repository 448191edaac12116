"""Differences between the audits of a panel that are not the models': texts, votes, scoring, quality pairs."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial

from cda.auditing.comparison_result import HOW, JUDGES, NO_VALUE, scored_setup
from cda.auditing.comparison_result import differences as setup_differences
from cda.panels.members import Member
from cda.report.numbers import clipped, listed

_LONGEST = 60
"""Characters of a setting in a sentence."""


def differences(members: Sequence[Member]) -> Iterator[str]:
    """Sentences on what differs, with the models; nothing for what is alike."""
    for kind in ("reward models", "judges"):
        models = [member for member in members if member.kind == kind and not member.is_training]
        yield from _texts(models)
        yield from _settings(models)
    trainings = [member for member in members if member.is_training]
    yield from _training_texts(trainings)
    yield from _settings(trainings)
    yield from _without_prompts(members)


def _texts(models: Sequence[Member]) -> Iterator[str]:
    """Biases that some models lack, or were asked about on other contrasts or with other votes."""
    biases = dict.fromkeys(name for member in models for name in member.contrasts)
    by_lacking: dict[tuple[str, ...], list[str]] = {}
    by_sets: dict[str, list[str]] = {}
    for bias in biases:
        if lacking := tuple(member.name for member in models if bias not in member.contrasts):
            by_lacking.setdefault(lacking, []).append(bias)
        if len(sets := _by(models, partial(_text_set, bias))) > 1:
            by_sets.setdefault("; ".join(map(listed, sets.values())), []).append(bias)
        without = [member.name for member in models if bias in member.contrasts and not member.contrasts[bias].people]
        with_people = [member.name for member in models if bias in member.contrasts and member.contrasts[bias].people]
        if without and with_people:
            yield f"{bias}: people's votes are in the audit of {listed(with_people)}, not in that of {listed(without)}."
    for names, lacked in by_lacking.items():
        yield f"{listed(lacked)}: not measured for {listed(names)}."
    for groups, differing in by_sets.items():
        yield (
            f"{listed(differing)}: measured on different contrasts, or with different votes ({groups}); each set has a mean and "
            "ranks of its own, and is never averaged with another."
        )


def _text_set(bias: str, member: Member) -> str | None:
    return member.contrasts[bias].text_set if bias in member.contrasts else None


def _settings(models: Sequence[Member]) -> Iterator[str]:
    """Settings of the scoring, and quality pairs; means are over all of them, next to this sentence."""
    for found in setup_differences({member.name: scored_setup(member.scored) for member in models}):
        values = {name: value for name, value in found.values.items() if value != NO_VALUE}
        groups = _by(models, lambda member, values=values: values.get(member.name))  # type: ignore[misc]
        if len(groups) > 1 and found.what not in (HOW, JUDGES):
            yield f"Not alike in {found.what} ({_each(groups)}); the means are over all of them."
    if len(groups := _by(models, lambda member: member.audit.sources.quality)) > 1:
        yield f"Quality was measured on different pairs ({_each(groups)}), so that its accuracies do not compare."


def _each(groups: dict[str, list[str]]) -> str:
    return "; ".join(f"{clipped(value, _LONGEST)}: {listed(names)}" for value, names in groups.items())


def _training_texts(trainings: Sequence[Member]) -> Iterator[str]:
    biases = dict.fromkeys(name for member in trainings for name in member.contrasts)
    differing = [bias for bias in biases if len(_by(trainings, partial(_text_set, bias))) > 1]
    if differing:
        yield f"{listed(differing)}: the trainings were measured on different contrasts, or with different votes."


def _without_prompts(members: Sequence[Member]) -> Iterator[str]:
    if names := [member.name for member in members if member.n_without_prompt]:
        yield (
            f"The audit of {listed(names)} was written by an earlier version of cda, which left out the prompts of its contrasts: "
            "each contrast counts as a prompt of its own. Audit again in a new folder for intervals by prompt."
        )


def _by(members: Sequence[Member], value: Callable[[Member], str | None]) -> dict[str, list[str]]:
    """Names of the members by a value; those without one are left out."""
    groups: dict[str, list[str]] = {}
    for member in members:
        if (found := value(member)) is not None:
            groups.setdefault(found, []).append(member.name)
    return groups
