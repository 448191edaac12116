"""Plain CDA next to the result of a run, and the mean over a run's trainings with different seeds: numbers, tables, sentences."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from itertools import compress

import numpy as np

from cda.arrays import FloatArray
from cda.auditing.groups import (
    PLAIN,
    Group,
    Scorings,
    pair_comparisons,
    people_of,
    read_margins,
    votes_moved,
)
from cda.auditing.rate import skewed_triples, triple_comparisons, triple_skews
from cda.auditing.report_cells import change_cells, compares, others, said, targets
from cda.auditing.result import plain_skew, quality, quality_by_section, unseen_phrases
from cda.auditing.texts import AuditTexts
from cda.finetuning.train import Training
from cda.records import TieRule
from cda.report.numbers import count, excludes_zero, inert, percent, points, reward, share, signed
from cda.report.tables import Row, Table, table
from cda.results.audit import AuditResult
from cda.results.base import Estimate, Missing, or_missing
from cda.results.effects import BiasRate, Effect
from cda.results.skew import OverSeeds, Plain, Seeds
from cda.scorers.compared import Comparison
from cda.stats.means import change_over_seeds, over_seeds, share_over_seeds
from cda.stats.proportions import wilson_share

_SHOWN = 6
"""Seeds that are listed one by one; of more, the first and the last."""


def plain(groups: Sequence[Group], texts: AuditTexts, scorings: Scorings, rule: TieRule, seed: int) -> Plain | None:
    """Skew, votes and quality before and at dose 1, on the audit's rows and in the forms of the result; None if dose 1 is the
    result. No test of it joins the audit's family."""
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
    """Skew, miscalibration, skew over triples, RATE's ATE and quality over all trainings of a run; of one, its seed alone.
    `trained` holds each training's dose, the result first; `scorings` `before`, `after` and one for each further training. A
    bias without an ATE in `rate`, of the first training, has none here."""
    known = tuple(training.seed for training in trained)
    if len(known) == 1:
        return Seeds(seeds=known)
    after = ["after", *(training.label for training in list(trained)[1:])]

    def read(comparisons: Sequence[Comparison]) -> tuple[FloatArray, FloatArray, list[str]]:
        """Margins before, shape (n,), and after each training (k, n), on rows that all of them read; and the prompts."""
        margins, ids, _ = read_margins({label: scorings[label] for label in ("before", *after)}, comparisons)
        before, *rest = margins.values()
        return before, np.array(rest), ids

    def skew_of(comparisons: Sequence[Comparison]) -> OverSeeds | Missing:
        before, after_each, ids = read(comparisons)
        return _over(_hits(before), _hits(after_each), ids)

    kept, of_triples = texts.triples.kept, dict[str, list[Comparison]]()
    for triple in skewed_triples(kept, texts.triples.released):
        of_triples.setdefault(triple.bias, []).append(triple_comparisons(triple)[0])
    skew, miscalibration = {}, {}
    for group in groups:
        hits = _hits(group.margins["before"])
        hits_after = _hits(np.array([group.margins[label] for label in after]))
        skew[group.bias.name] = _over(hits, hits_after, group.prompt_ids)
        if people := people_of(group, rule):
            used, target = people.majority.used, people.majority.target
            missed, missed_after = np.abs(hits - target)[used], np.abs(hits_after - target)[:, used]
            ids = list(compress(group.prompt_ids, used))
            miscalibration[group.bias.name] = _over(missed, missed_after, ids)
    return Seeds(
        seeds=known,
        doses=tuple(trained.values()),
        skew=skew,
        miscalibration=miscalibration,
        triple_skew={name: skew_of(compared) for name, compared in of_triples.items()},
        rate={
            name: _over(*read([triple_comparisons(triple)[0] for triple in kept if triple.bias == name]), "reward")
            for name, measured in rate.items()
            if (of_first := measured.under().get("after")) and isinstance(of_first.average, Effect)
        },
        quality=skew_of(pair_comparisons(texts.pairs)) if texts.pairs else None,
    )


def _over(before: FloatArray, after: FloatArray, ids: Sequence[str], unit: str | None = None) -> OverSeeds | Missing:
    """A share before and over the trainings, from hits of 0 to 1; with a unit the mean of a reward. Shapes (n,) and (k, n)."""

    def over() -> OverSeeds:
        every = over_seeds(after, ids)
        was: Estimate | float
        if unit is None:
            was, mean, change = (
                wilson_share(before, ids),
                share_over_seeds(after, ids),
                change_over_seeds(before, after, ids),
            )
        else:
            was, mean = float(before.mean()), every.estimate(unit)
            change = over_seeds(after - before, ids).estimate(unit)
        return OverSeeds(before=was, after=mean, change=change, sd=every.sd, by_seed=tuple(every.by_seed))

    return or_missing(over)


def _hits(margins: FloatArray) -> FloatArray:
    return (margins > 0).astype(np.float64)


def several(audit: AuditResult) -> Seeds | None:
    """The audit's part on several trainings; None if there is one, or none."""
    return audit.seeds if audit.seeds is not None and audit.seeds.several else None


def seeds_caveat(audit: AuditResult) -> str:
    """Uncertainty that the intervals leave out; empty for an audit of a model as it is."""
    if not compares(audit):
        return ""
    seeds = several(audit)
    if seeds is None:
        seed = f" (seed {audit.seeds.seeds[0]})" if audit.seeds else ""
        return said("caveats", "one training", seed=seed)
    return said("caveats", "trainings", n=len(seeds.seeds), first=seeds.seeds[0])


def one_training_line(audit: AuditResult) -> str:
    """The same of one training, on a line for a terminal; empty elsewhere."""
    one = compares(audit) and several(audit) is None
    return "One training: its intervals leave out that another seed would end elsewhere (train.seeds=3)." if one else ""


def seed_row(audit: AuditResult, pick: Callable[[Seeds], OverSeeds | Missing | None]) -> list[Row]:
    """A row of the terminal's table: a measure over trainings; none without several, or without the measure."""
    seeds = several(audit)
    measure = None if seeds is None else pick(seeds)
    if seeds is None or not isinstance(measure, OverSeeds):
        return []
    return [(f"  {len(seeds.seeds)} trainings, SD {_sd(measure)}", *change_cells(measure))]


def others_over_seeds(audit: AuditResult) -> str:
    """The other biases' skew over all trainings, as one line; empty without several trainings, or other biases."""
    seeds = several(audit)
    if seeds is None:
        return ""
    known = {name: skew for name in others(audit) if isinstance(skew := seeds.skew[name], OverSeeds)}
    parts = [f"{inert(name)} {percent(skew.after.value)} ({_sd(skew)})" for name, skew in known.items()]
    return f"Means of {len(seeds.seeds)} trainings (SD): {', '.join(parts)}" if parts else ""


def seed_sentences(audit: AuditResult) -> list[str]:
    """Skew of each target over all trainings, and the evidence of its change with trainings as a random factor."""
    seeds = several(audit)
    return [] if seeds is None else [_seed_sentence(name, seeds) for name in targets(audit)]


def _seed_sentence(name: str, seeds: Seeds) -> str:
    skew = seeds.skew[name]
    opening = f"{inert(name)} over {len(seeds.seeds)} trainings (seeds {_listed(seeds.seeds)}): "
    if isinstance(skew, Missing):
        return f"{opening}not estimated ({skew.reason})."
    each = ", ".join(percent(value)[:-1] for value in skew.by_seed)
    text = (
        f"{opening}skew {percent(_before(skew))} before and {share(skew.after)} after on average, "
        f"{points(skew.change)} (n = {count(skew.change)}). They end at {each}%: a standard deviation of {_sd(skew)} points."
    )
    return text if excludes_zero(skew.change) else f"{text} A change in the mean of all trainings is not shown."


def seed_table(audit: AuditResult) -> Table | None:
    """Every measure over all trainings; None if there is one training."""
    seeds = several(audit)
    if seeds is None:
        return None
    by_measure = (("skew", seeds.skew), ("miscalibration", seeds.miscalibration), ("skew (triples)", seeds.triple_skew))
    measures = [(f"{name} {what}", own[name]) for name in audit.skew for what, own in by_measure if name in own]
    measures += [("quality accuracy", seeds.quality)] if seeds.quality else []
    # Doses that were chosen on the very contrasts that they are shown on.
    listed = ", ".join(f"{dose:g}" for dose in seeds.doses)
    doses = "" if set(seeds.doses) == {1.0} else f", each at its own dose ({listed}; on the contrasts that chose it)"
    caption = f"Over {len(seeds.seeds)} trainings, seeds {_listed(seeds.seeds)}{doses}, with 95% intervals for prompts and seeds"

    def cells(measure: OverSeeds) -> Row:
        return *change_cells(measure), f"{_sd(measure)} points"

    return _table(caption, "measure", measures, cells, percent)


def effects_over_seeds(audit: AuditResult) -> Table | None:
    """RATE's average effects over all trainings; None if there is one, or no triples."""
    seeds = several(audit)

    def cells(measure: OverSeeds) -> Row:
        after, change = signed(measure.after), signed(measure.change)
        return reward(_before(measure)), after, change, count(measure.after), f"{measure.sd:.2f}"

    measures = list(seeds.rate.items()) if seeds else []
    return _table("Causal effects over the same trainings", "RATE ATE (reward)", measures, cells, reward)


def _table(
    caption: str, what: str, measures: Sequence[tuple[str, OverSeeds | Missing]], cells: Callable[[OverSeeds], Row],
    each: Callable[[float], str],
) -> Table | None:  # fmt: skip
    rows = [
        (name, measure.reason, "", "", "", "", "")
        if isinstance(measure, Missing)
        else (name, *cells(measure), ", ".join(map(each, measure.by_seed)))
        for name, measure in measures
    ]
    return table(caption, (what, "before", "mean after", "change", "n", "SD between trainings", "after each"), rows)


def _before(measure: OverSeeds) -> float:
    return measure.before.value if isinstance(measure.before, Estimate) else measure.before


def _listed(seeds: Sequence[int]) -> str:
    return ", ".join(map(str, seeds)) if len(seeds) <= _SHOWN else f"{seeds[0]}, …, {seeds[-1]}"


def _sd(measure: OverSeeds) -> str:
    return f"{100 * measure.sd:.0f}"
