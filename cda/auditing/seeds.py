"""Plain CDA beside the result of a run: the headline's measures at dose 1, where another dose was chosen."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from cda.arrays import FloatArray
from cda.auditing.groups import PLAIN, Group, Scorings, people_of, with_plain
from cda.auditing.rate import skewed_triples, triple_comparisons, triple_skews
from cda.auditing.result import plain_skew, quality, unseen_phrases
from cda.auditing.result import quality_by_section as by_section
from cda.auditing.sources import AuditTexts
from cda.auditing.votes import votes_moved
from cda.errors import DataError
from cda.finetuning.applied import applied_dose
from cda.finetuning.train import Training, trainings
from cda.recipe.load import LoadedRecipe
from cda.records import TieRule, Triple, prompt_id
from cda.results.base import Missing
from cda.results.effects import Effect
from cda.results.rate import BiasRate
from cda.results.skew import OverSeeds, Plain, Seeds
from cda.run import RunFolder
from cda.scorers.compared import Comparison
from cda.stats.means import change_over_seeds, over_seeds, share_over_seeds
from cda.stats.proportions import share


def plain(groups: Sequence[Group], texts: AuditTexts, scorings: Scorings, rule: TieRule, seed: int) -> Plain | None:
    """Skew, votes and quality before and with all of the adapter, on the rows of the audit; None where that is the result.

    Each measure has the form that it has for the result, with `after` at dose 1. No test of it joins the audit's family.
    """
    if PLAIN not in scorings:
        return None
    found = [with_plain(group) for group in groups]
    two = {"before": scorings["before"], "after": scorings[PLAIN]}
    return Plain(
        skew={group.bias.name: plain_skew(group) for group in found},
        votes=votes_moved(found, rule, seed),
        unseen_phrases=unseen_phrases(found),
        quality=quality(texts.pairs, two),
        quality_sections=by_section(texts.quality, two, seed),
        triple_skew=triple_skews(texts.triples, texts.released_triples, two),
    )


Read = tuple[FloatArray, FloatArray, list[str]]
"""Margins before, shape (n,), and after each training, shape (k, n), on rows that all of them read; and the prompts."""


def seeds(
    loaded: LoadedRecipe,
    run_folder: RunFolder,
    groups: Sequence[Group],
    texts: AuditTexts,
    scorings: Scorings,
    rate: Mapping[str, BiasRate],
) -> Seeds:
    """Skew, miscalibration, skew over triples, RATE's ATE and quality over all trainings of a run.

    Args:
        loaded: The recipe.
        run_folder: The run.
        groups: Contrasts of every bias, with the margins of every scoring.
        texts: The audit's texts.
        scorings: `before`, `after` (the first training) and one for each further training.
        rate: RATE's effects of the first training: a bias without an ATE there has none here.

    Returns:
        The seeds, alone where there is one.
    """
    recipe = loaded.recipe
    several = trainings(recipe.seeds)
    known = tuple(one.seed for one in several)
    if len(several) == 1:
        return Seeds(seeds=known)
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
    return Seeds(
        seeds=known,
        doses=tuple(_dose(run_folder, one) for one in several),
        skew={
            name: _shares(before > 0, margins > 0, group.prompt_ids)
            for name, (before, margins, group) in of_group.items()
        },
        miscalibration={
            name: _shares(*_missed(before, margins, group, people.majority.target, people.majority.used))
            for name, (before, margins, group) in of_group.items()
            if (people := people_of(group, recipe.audit.ties))
        },
        triple_skew={name: _of_margins(read([_double(one) for one in own])) for name, own in triples.items()},
        rate={
            name: _rewards(read([_double(one) for one in texts.triples if one.bias == name]))
            for name, one in rate.items()
            if (trained := one.under().get("after")) and isinstance(trained.average, Effect)
        },
        quality=_of_margins(read([(pair.prompt, pair.chosen, pair.rejected) for pair in texts.pairs]))
        if texts.pairs
        else None,
    )


def _dose(run_folder: RunFolder, one: Training) -> float:
    dose = applied_dose(run_folder, one)
    if dose is None:
        raise ValueError(f"the audit's stage needs the adapter of seed {one.seed}")
    return dose


def _double(triple: Triple) -> Comparison:
    return triple_comparisons(triple)[0]


def _missed(
    before: FloatArray, after: FloatArray, group: Group, target: FloatArray, used: Any
) -> tuple[FloatArray, FloatArray, list[str]]:
    """Disagreement with people's majorities, on the rows that have one."""
    ids = [name for name, keep in zip(group.prompt_ids, used, strict=True) if keep]
    return np.abs((before > 0) - target)[used], np.abs((after > 0) - target)[:, used], ids


def _of_margins(read: Read) -> OverSeeds | Missing:
    before, after, ids = read
    return _shares(before > 0, after > 0, ids)


def _shares(before: Any, after: Any, ids: Sequence[str]) -> OverSeeds | Missing:
    """A share before and over the trainings. Shapes (n,) and (k, n), 0 to 1."""
    try:
        every = over_seeds(after, ids)
        return OverSeeds(
            before=share(before, ids),
            after=share_over_seeds(after, ids),
            change=change_over_seeds(before, after, ids),
            sd=every.sd,
            by_seed=tuple(every.by_seed),
        )
    except DataError as error:
        return Missing(reason=str(error))


def _rewards(read: Read) -> OverSeeds | Missing:
    """The mean double contrast (RATE's ATE) before and over the trainings, in reward units."""
    before, after, ids = read
    try:
        every, moved = over_seeds(after, ids), over_seeds(after - before, ids)
    except DataError as error:
        return Missing(reason=str(error))
    return OverSeeds(
        before=float(before.mean()),
        after=every.estimate("reward"),
        change=moved.estimate("reward"),
        sd=every.sd,
        by_seed=tuple(every.by_seed),
    )
