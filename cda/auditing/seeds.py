"""Plain CDA next to the result of a run, and the mean over a run's trainings with different seeds."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import compress

import numpy as np
from numpy.typing import NDArray

from cda.arrays import FloatArray
from cda.auditing.groups import PLAIN, Group, Scorings, estimated, pair_comparisons, people_of, read_margins
from cda.auditing.rate import skewed_triples, triple_comparisons, triple_skews
from cda.auditing.result import plain_skew, quality, quality_by_section, unseen_phrases
from cda.auditing.texts import AuditTexts
from cda.auditing.votes import votes_moved
from cda.finetuning.train import Training
from cda.records import TieRule
from cda.results.base import Missing
from cda.results.effects import Effect
from cda.results.rate import BiasRate
from cda.results.skew import OverSeeds, Plain, Seeds
from cda.scorers.compared import Comparison
from cda.stats.means import change_over_seeds, over_seeds, share_over_seeds
from cda.stats.proportions import wilson_share


def plain(groups: Sequence[Group], texts: AuditTexts, scorings: Scorings, rule: TieRule, seed: int) -> Plain | None:
    """Skew, votes and quality before and at dose 1, on the rows of the audit; None if dose 1 is the result.

    Each measure has the form that it has for the result. No test of it joins the audit's family.
    """
    if PLAIN not in scorings:
        return None
    labels = {"before": "before", "after": PLAIN}
    of_plain = [group.with_margins(labels) for group in groups]
    two = {label: scorings[name] for label, name in labels.items()}
    return Plain(
        skew={group.bias.name: plain_skew(group) for group in of_plain},
        votes=votes_moved(of_plain, rule, seed),
        unseen_phrases=unseen_phrases(of_plain),
        quality=quality(texts.pairs, two),
        quality_sections=quality_by_section(texts.quality, two, seed),
        triple_skew=triple_skews(texts.triples.kept, texts.triples.released, two),
    )


def seeds(
    trained: Mapping[Training, float],
    groups: Sequence[Group],
    texts: AuditTexts,
    scorings: Scorings,
    rate: Mapping[str, BiasRate],
    rule: TieRule,
) -> Seeds:
    """Skew, miscalibration, skew over triples, RATE's ATE and quality over all trainings of a run.

    Args:
        trained: The trainings of the run, the result first, with the dose of each.
        groups: Contrasts of every bias, with the margins of every scoring.
        texts: The audit's texts.
        scorings: `before`, `after` (the first training) and one for each further training.
        rate: RATE's effects of the first training: a bias without an ATE there has none here.
        rule: For people's ties.

    Returns:
        The seeds, and nothing else if there is one.
    """
    known = tuple(training.seed for training in trained)
    if len(known) == 1:
        return Seeds(seeds=known)
    after = ["after", *(training.label for training in list(trained)[1:])]

    def margins_of(group: Group) -> tuple[FloatArray, FloatArray]:
        return group.margins["before"], np.array([group.margins[label] for label in after])

    def read(comparisons: Sequence[Comparison]) -> tuple[FloatArray, FloatArray, list[str]]:
        """Margins before, shape (n,), and after each training (k, n), on rows that all of them read; and the prompts."""
        margins, ids, _ = read_margins({label: scorings[label] for label in ("before", *after)}, comparisons)
        before, *rest = margins.values()
        return before, np.array(rest), ids

    def skew_of(comparisons: Sequence[Comparison]) -> OverSeeds | Missing:
        before, after_each, ids = read(comparisons)
        return _shares(before > 0, after_each > 0, ids)

    kept, of_triples = texts.triples.kept, dict[str, list[Comparison]]()
    for triple in skewed_triples(kept, texts.triples.released):
        of_triples.setdefault(triple.bias, []).append(triple_comparisons(triple)[0])
    skew, miscalibration = {}, {}
    for group in groups:
        before, after_each = margins_of(group)
        skew[group.bias.name] = _shares(before > 0, after_each > 0, group.prompt_ids)
        if people := people_of(group, rule):
            used, target = people.majority.used, people.majority.target
            missed, missed_after = (np.abs((margins > 0) - target)[..., used] for margins in (before, after_each))
            ids = list(compress(group.prompt_ids, used))
            miscalibration[group.bias.name] = _shares(missed, missed_after, ids)
    return Seeds(
        seeds=known,
        doses=tuple(trained.values()),
        skew=skew,
        miscalibration=miscalibration,
        triple_skew={name: skew_of(compared) for name, compared in of_triples.items()},
        rate={
            name: _rewards(*read([triple_comparisons(triple)[0] for triple in kept if triple.bias == name]))
            for name, measured in rate.items()
            if (of_first := measured.under().get("after")) and isinstance(of_first.average, Effect)
        },
        quality=skew_of(pair_comparisons(texts.pairs)) if texts.pairs else None,
    )


def _shares(
    before: FloatArray | NDArray[np.bool_], after: FloatArray | NDArray[np.bool_], ids: Sequence[str]
) -> OverSeeds | Missing:
    """A share before and over the trainings. Shapes (n,) and (k, n), 0 to 1."""

    def shares() -> OverSeeds:
        every = over_seeds(after, ids)
        return OverSeeds(
            before=wilson_share(before, ids),
            after=share_over_seeds(after, ids),
            change=change_over_seeds(before, after, ids),
            sd=every.sd,
            by_seed=tuple(every.by_seed),
        )

    return estimated(shares)


def _rewards(before: FloatArray, after: FloatArray, ids: Sequence[str]) -> OverSeeds | Missing:
    """The mean double contrast (RATE's ATE) before and over the trainings, in reward units."""

    def rewards() -> OverSeeds:
        every, moved = over_seeds(after, ids), over_seeds(after - before, ids)
        return OverSeeds(
            before=float(before.mean()),
            after=every.estimate("reward"),
            change=moved.estimate("reward"),
            sd=every.sd,
            by_seed=tuple(every.by_seed),
        )

    return estimated(rewards)
