"""Examples of an audit in words: how they were chosen, and whether the model and people agree on one."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from cda.auditing.report_scoring import example_order
from cda.auditing.report_tables import compares
from cda.results.audit import AuditResult
from cda.results.base import Missing
from cda.results.facts import Example

Standing = Literal["agrees", "disagrees", "undecided"]

_SIDES = {"perturbed": "with the bias", "base": "without the bias"}
_THAN_BEFORE = {
    "agrees": {"before": "agreed before", "after": "agrees after", "model": "agrees"},
    "disagrees": {"before": "disagreed before", "after": "disagrees after", "model": "disagrees"},
    "undecided": {
        "before": "had no preference before",
        "after": "has no preference after",
        "model": "has no preference",
    },
}
_MARKED = "What the model compared, with the words that only one side has marked."
_NO_SAMPLE = "They are no random sample: shares among them say nothing about all contrasts."


def standings(example: Example) -> dict[str, Standing]:
    """Under each scoring, whether the model is with people's majority; empty without one, or where people saw a tie.

    A margin of exactly 0 is no preference.
    """
    if example.preferred not in _SIDES:
        return {}
    sign = 1 if example.preferred == "perturbed" else -1
    return {label: _standing(sign * margin) for label, margin in example.margins.items()}


def people_sentence(example: Example) -> str:
    """What people preferred and whether the model agrees, in words."""
    preferred = example.preferred
    if preferred is None:
        return "nobody voted"
    if preferred not in _SIDES:
        return "people saw no difference (a tie)"
    said = ", ".join(_THAN_BEFORE[word][label] for label, word in standings(example).items())
    return f"people preferred the side {_SIDES[preferred]}; the model {said}"


def few_of(examples: Sequence[Example], most: int) -> list[Example]:
    """The first few in the page's order; the last of them gives way to one on which model and people disagree, if none does."""
    found = sorted(examples, key=example_order)
    few, disputed = found[:most], [one for one in found[most:] if _is_disputed(one)]
    return [*few[:-1], disputed[0]] if disputed and not any(map(_is_disputed, few)) else few


def people_keys(example: Example) -> list[str]:
    """What a page filters by: `disagrees-after` and the like, `tie`, or `no-votes`."""
    if example.preferred is None:
        return ["no-votes"]
    return [f"{word}-{label}" for label, word in standings(example).items()] or ["tie"]


def people_choices(audit: AuditResult) -> list[tuple[str, str]]:
    """Key and words of every choice of the filter that fits at least one example."""
    labels = list(audit.scorings)
    suffix = {"before": " before", "after": " after", "model": ""}
    choices = [
        (f"{word}-{label}", f"{words}{suffix[label]}")
        for word, words in (
            ("disagrees", "model and people disagree"),
            ("agrees", "model and people agree"),
            ("undecided", "model has no preference"),
        )
        for label in labels
    ]
    choices += [("tie", "people saw no difference"), ("no-votes", "nobody voted")]
    found = {key for one in audit.examples for key in people_keys(one)}
    return [(key, words) for key, words in choices if key in found]


def order_choices(audit: AuditResult) -> list[tuple[str, str]]:
    """Key and words of every order of the examples; the first is the one they stand in."""
    if compares(audit):
        return [
            ("fall", "largest fall of the margin"),
            ("before", "largest margin before"),
            ("after", "largest margin after"),
        ]
    return [("fall", "largest margin"), ("rise", "smallest margin")]


def order_keys(example: Example) -> dict[str, float]:
    """Value of an example under every order; the largest comes first."""
    before, after = example.margins.before, example.margins.after
    if isinstance(after, Missing):
        return {"fall": before, "rise": -before}
    return {"fall": before - after, "before": before, "after": after}


def how_chosen(audit: AuditResult) -> tuple[str, ...]:
    """What the examples are, how many of how many, and how they were chosen."""
    voted = any(one.preferred is not None for one in audit.examples)
    first = "the largest falls of the margin and the largest margins before and after" if compares(audit) else (
        "the largest margins for the biased side and the smallest"
    )  # fmt: skip
    also = ", and those with the largest margins on which the model and people disagree, and on which they agree"
    return (
        _MARKED,
        f"Kept are {_counts(audit)}, taken in turn: {first}{also if voted else ''}. {_NO_SAMPLE}",
    )


def _counts(audit: AuditResult) -> str:
    """How many of how many contrasts of each bias; once where that is the same for all."""
    names = list(dict.fromkeys(one.bias for one in audit.examples))
    kept = {name: sum(one.bias == name for one in audit.examples) for name in names}
    found = {name: f"{kept[name]} of {audit.skew[name].before.n} contrasts of" for name in names}
    if len(names) > 1 and len(set(found.values())) == 1:
        return f"{found[names[0]]} each bias"
    return ", ".join(f"{words} {name}" for name, words in found.items())


def _is_disputed(example: Example) -> bool:
    """Whether the model, as it is in the end, is against people's majority."""
    return list(standings(example).values())[-1:] == ["disagrees"]


def _standing(margin: float) -> Standing:
    return "agrees" if margin > 0 else "disagrees" if margin < 0 else "undecided"
