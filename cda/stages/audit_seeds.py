"""Several trainings in an audit: each measure's mean after them, how far they differ, and intervals that hold seeds and prompts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from cda.config.load import LoadedRecipe
from cda.errors import DataError
from cda.records import Triple, prompt_id
from cda.results.effects import Effect
from cda.results.rate import BiasRate
from cda.run import RunFolder
from cda.score.compared import Comparison
from cda.stages.applied import applied_dose
from cda.stages.audit_groups import FloatArray, Group, Scorings, people_of
from cda.stages.audit_rate import triple_comparisons
from cda.stages.audit_sources import AuditTexts
from cda.stages.audit_triple_skew import skewed_triples
from cda.stages.trainings import trainings
from cda.stats.over_seeds import change_over_seeds, mean_over_seeds, over_seeds, share_over_seeds
from cda.stats.proportions import share

Read = tuple[FloatArray, FloatArray, list[str]]
"""Margins before, shape (n,), and after each training, shape (k, n), on rows that all of them read; and the prompts."""


def seeds(
    loaded: LoadedRecipe,
    run_folder: RunFolder,
    groups: Sequence[Group],
    texts: AuditTexts,
    scorings: Scorings,
    rate: Mapping[str, BiasRate],
) -> dict[str, Any]:
    """Skew, miscalibration, skew over triples, RATE's ATE and quality over all trainings of a run.

    Args:
        loaded: The recipe.
        run_folder: The run.
        groups: Contrasts of every bias, with the margins of every scoring.
        texts: The audit's texts.
        scorings: `before`, `after` (the first training) and one for each further training.
        rate: RATE's effects of the first training: a bias without an ATE there has none here.

    Returns:
        `seeds`, alone where there is one. Else also `doses`, and by measure and bias `before`, the mean `after` and its
        `change`, the standard deviation `sd` between trainings, and the value of each, `by_seed`; or why it is `missing`.
    """
    recipe = loaded.recipe
    several = trainings(recipe.seeds)
    found: dict[str, Any] = {"seeds": [one.seed for one in several]}
    if len(several) == 1:
        return found
    after = ["after", *(one.label for one in several[1:])]

    def read(comparisons: Sequence[Comparison]) -> Read:
        margins = np.array([scorings[label].margins(comparisons) for label in ("before", *after)])
        there = ~np.isnan(margins).any(axis=0)
        ids = [prompt_id(prompt) for (prompt, _, _), keep in zip(comparisons, there, strict=True) if keep]
        return margins[0, there], margins[1:, there], ids

    triples: dict[str, list[Triple]] = {}
    for one in skewed_triples(texts.triples, texts.released_triples):
        triples.setdefault(one.bias, []).append(one)
    of_group = {
        group.bias.name: (group.margins["before"], np.array([group.margins[label] for label in after]), group)
        for group in groups
    }
    return found | {
        "doses": [applied_dose(run_folder, one) for one in several],
        "skew": {
            name: _shares(before > 0, margins > 0, group.prompt_ids)
            for name, (before, margins, group) in of_group.items()
        },
        "miscalibration": {
            name: _shares(*_missed(before, margins, group, people.majority.target, people.majority.used))
            for name, (before, margins, group) in of_group.items()
            if (people := people_of(group, recipe.audit.ties))
        },
        "triple_skew": {name: _of_margins(read([_double(one) for one in own])) for name, own in triples.items()},
        "rate": {
            name: _rewards(read([_double(one) for one in texts.triples if one.bias == name]))
            for name, one in rate.items()
            if isinstance(one.under()["after"].average, Effect)
        },
        "quality": _of_margins(read([(pair.prompt, pair.chosen, pair.rejected) for pair in texts.pairs]))
        if texts.pairs
        else None,
    }


def _double(triple: Triple) -> Comparison:
    return triple_comparisons(triple)[0]


def _missed(
    before: FloatArray, after: FloatArray, group: Group, target: FloatArray, used: Any
) -> tuple[FloatArray, FloatArray, list[str]]:
    """Disagreement with people's majorities, on the rows that have one."""
    ids = [name for name, keep in zip(group.prompt_ids, used, strict=True) if keep]
    return np.abs((before > 0) - target)[used], np.abs((after > 0) - target)[:, used], ids


def _of_margins(read: Read) -> dict[str, Any]:
    before, after, ids = read
    return _shares(before > 0, after > 0, ids)


def _shares(before: Any, after: Any, ids: Sequence[str]) -> dict[str, Any]:
    """A share before and over the trainings. Shapes (n,) and (k, n), 0 to 1."""
    try:
        every = over_seeds(after, ids)
        return {
            "before": share(before, ids).model_dump(),
            "after": share_over_seeds(after, ids).model_dump(),
            "change": change_over_seeds(before, after, ids).model_dump(),
            "sd": every.sd,
            "by_seed": list(every.by_seed),
        }
    except DataError as error:
        return {"missing": str(error)}


def _rewards(read: Read) -> dict[str, Any]:
    """The mean double contrast (RATE's ATE) before and over the trainings, in reward units."""
    before, after, ids = read
    try:
        every, moved = over_seeds(after, ids), over_seeds(after - before, ids)
    except DataError as error:
        return {"missing": str(error)}
    return {
        "before": {"value": float(before.mean())},
        "after": mean_over_seeds(every, "reward").model_dump(),
        "change": mean_over_seeds(moved, "reward").model_dump(),
        "sd": every.sd,
        "by_seed": list(every.by_seed),
    }
