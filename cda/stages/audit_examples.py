"""Examples of an audit: contrasts for a reader to look at, chosen by what they show and not by chance."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Literal

import numpy as np

from cda.records import prompt_text
from cda.results.base import PerScoring
from cda.results.facts import Example
from cda.stages.audit_groups import FloatArray, Group, people_of

N_EXAMPLES = 12
"""Of each bias."""
_PREFERRED: dict[str, Literal["perturbed", "base", "tie"]] = {
    "perturbed": "perturbed",
    "base": "base",
    "tie": "tie",
    "split": "tie",
}


def examples(groups: Sequence[Group]) -> tuple[Example, ...]:
    """Contrasts of the targets for a reader to look at, chosen by what they show; `kept_for` says which it was of each.

    The best of each kind is taken in turn until there are N_EXAMPLES a bias: the largest falls of the margin, the largest
    margins under each scoring (of one scoring the largest and the smallest), and where people voted, those on which the
    model disagrees, or agrees, with their majority by the largest margin. No chance is involved, and no sample is meant.
    """
    found = []
    for group in groups:
        if not group.is_target:
            continue
        people = people_of(group, "half")
        words = people.words if people else ("no votes",) * len(group)
        for row, kind in _chosen(_kinds(group.margins, words)).items():
            contrast = group.contrasts[row]
            found.append(
                Example(
                    bias=group.bias.name,
                    prompt=prompt_text(contrast.prompt),
                    perturbed=contrast.perturbed,
                    base=contrast.base,
                    margins=PerScoring[float](
                        **dict(
                            zip(("before", "after"), (float(one[row]) for one in group.margins.values()), strict=False)
                        )
                    ),
                    preferred=_PREFERRED.get(words[row]),
                    kept_for=kind,
                )
            )
    return tuple(found)


def _kinds(margins: Mapping[str, FloatArray], words: Sequence[str]) -> dict[str, list[int]]:
    """What an example may be kept for, each with its rows, the best first."""
    values = list(margins.values())
    if len(values) > 1:
        kinds = {
            "largest fall": values[-1] - values[0],
            **{f"largest margin {label}": -one for label, one in margins.items()},
        }
    else:
        kinds = {"largest margin": -values[0], "smallest margin": values[0]}
    found = {kind: np.argsort(order, kind="stable").tolist() for kind, order in kinds.items()}
    side = np.array([{"perturbed": 1.0, "base": -1.0}.get(word, 0.0) for word in words])
    for word, sign in (("disagrees", -1.0), ("agrees", 1.0)):
        for label, one in margins.items():
            with_people = sign * side * one  # above 0 where the word is true; larger with the margin
            rows = np.argsort(-with_people, kind="stable")
            found[f"{word} with people {label}"] = rows[with_people[rows] > 0].tolist()
    return found


def _chosen(kinds: Mapping[str, Sequence[int]]) -> dict[int, str]:
    """Rows taken in turn, the best of each kind that is not taken yet; what each was taken for."""
    chosen: dict[int, str] = {}
    left = {kind: iter(rows) for kind, rows in kinds.items()}
    while left and len(chosen) < N_EXAMPLES:
        for kind, rows in list(left.items()):
            row = next((one for one in rows if one not in chosen), None)
            if row is None:
                del left[kind]
            elif len(chosen) < N_EXAMPLES:
                chosen[row] = kind
    return chosen
