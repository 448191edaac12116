"""Several trainings of one recipe: the mean after them, how far they differ; of one training, what its intervals leave out."""

from __future__ import annotations

from collections.abc import Sequence

from cda.auditing.report_tables import change_cells, compares
from cda.auditing.report_verdict import others, targets
from cda.report.numbers import count, excludes_zero, inert, percent, points, reward, share, signed
from cda.report.tables import Table
from cda.results.audit import AuditResult
from cda.results.base import Estimate, Missing
from cda.results.skew import OverSeeds, Seeds

_SHOWN = 6
"""So many seeds are listed one by one; of more, the first and the last."""


def several(audit: AuditResult) -> Seeds | None:
    """The audit's part on several trainings; None where there is one, or none."""
    return audit.seeds if audit.seeds is not None and audit.seeds.several else None


def seeds_caveat(audit: AuditResult) -> str:
    """What the intervals say nothing of; empty for an audit of a model as it is."""
    if not compares(audit):
        return ""
    found = several(audit)
    if found is None:
        seed = f" (seed {audit.seeds.seeds[0]})" if audit.seeds else ""
        return (
            f"`after` is one training{seed}. Its intervals hold which contrasts were measured and leave out which seed was "
            "drawn: another training may end further away than they say. train.seeds=3 trains several, and says how far they differ."
        )
    first = found.seeds[0]
    return (
        f"Of {len(found.seeds)} trainings the adapter is that of the first seed, {first}, whatever the audit says of the others. "
        "Verdicts, effects and examples are of it alone, with intervals that hold which contrasts were measured; the rows over "
        "trainings hold which seeds were drawn, too."
    )


def one_training_line(audit: AuditResult) -> str:
    """The same of one training, on a line for a terminal; empty elsewhere."""
    said = seeds_caveat(audit) and several(audit) is None
    return (
        "One training: its intervals leave out that another seed would end elsewhere (train.seeds=3)." if said else ""
    )


def seed_row(found: Seeds | None, measure: OverSeeds | Missing | None) -> list[tuple[str, ...]]:
    """A row of the terminal's table: a measure over trainings; none without several, or without the measure."""
    if found is None or not isinstance(measure, OverSeeds):
        return []
    return [(f"  {len(found.seeds)} trainings, SD {_sd(measure)}", *change_cells(measure))]


def others_over_seeds(audit: AuditResult) -> str:
    """The other biases' skew over all trainings, as one line; empty without several trainings, or other biases."""
    found = several(audit)
    if found is None:
        return ""
    known = {name: one for name in others(audit) if isinstance(one := found.skew[name], OverSeeds)}
    parts = [f"{inert(name)} {percent(one.after.value)} ({_sd(one)})" for name, one in known.items()]
    return f"Means of {len(found.seeds)} trainings (SD): {', '.join(parts)}" if parts else ""


def seed_sentences(audit: AuditResult) -> list[str]:
    """Skew of each target over all trainings, and whether it is shown to change when trainings are drawn as well."""
    found = several(audit)
    return [] if found is None else [_sentence(name, found) for name in targets(audit)]


def _sentence(name: str, found: Seeds) -> str:
    skew = found.skew[name]
    many = f"{inert(name)} over {len(found.seeds)} trainings (seeds {listed(found.seeds)}): "
    if isinstance(skew, Missing):
        return f"{many}not estimated ({skew.reason})."
    before = skew.before.value if isinstance(skew.before, Estimate) else skew.before
    text = (
        f"{many}skew {percent(before)} before and {share(skew.after)} after on average, "
        f"{points(skew.change)} (n = {count(skew.change)}). {_each(skew)}"
    )
    return text if excludes_zero(skew.change) else f"{text} A change in the mean of all trainings is not shown."


def _each(measure: OverSeeds) -> str:
    values = ", ".join(percent(one)[:-1] for one in measure.by_seed)
    return f"They end at {values}%: a standard deviation of {_sd(measure)} points."


def seed_table(audit: AuditResult) -> Table | None:
    """Every measure over all trainings; None where there is one."""
    found = several(audit)
    if found is None:
        return None
    names = [*targets(audit), *others(audit)]
    by_measure = (("skew", found.skew), ("miscalibration", found.miscalibration), ("skew (triples)", found.triple_skew))
    measures = [(f"{name} {what}", own[name]) for name in names for what, own in by_measure if name in own]
    measures += [("quality accuracy", found.quality)] if found.quality else []
    rows = tuple((what, *_cells(one)) for what, one in measures)
    header = ("measure", "before", "mean after", "change", "n", "SD between trainings", "after each")
    caption = f"Over {len(found.seeds)} trainings, seeds {listed(found.seeds)}{_doses(found)}, with 95% intervals for prompts and seeds"
    return Table(caption, header, rows)


def _cells(one: OverSeeds | Missing) -> tuple[str, ...]:
    if isinstance(one, Missing):
        return one.reason, "", "", "", "", ""
    return *change_cells(one), f"{_sd(one)} points", ", ".join(percent(value) for value in one.by_seed)


def effects_over_seeds(audit: AuditResult) -> Table | None:
    """RATE's average effects over all trainings; None where there is one, or no triples."""
    found = several(audit)
    if found is None or not found.rate:
        return None
    rows = tuple((name, *_effect_cells(one)) for name, one in found.rate.items())
    header = ("RATE ATE (reward)", "before", "mean after", "change", "n", "SD between trainings", "after each")
    return Table("Causal effects over the same trainings", header, rows)


def _effect_cells(one: OverSeeds | Missing) -> tuple[str, ...]:
    if isinstance(one, Missing):
        return one.reason, "", "", "", "", ""
    before = one.before.value if isinstance(one.before, Estimate) else one.before
    each = ", ".join(map(reward, one.by_seed))
    return reward(before), signed(one.after), signed(one.change), count(one.after), f"{one.sd:.2f}", each


def listed(seeds: Sequence[int]) -> str:
    """`42, 43, 44`; of many the first and the last."""
    return ", ".join(map(str, seeds)) if len(seeds) <= _SHOWN else f"{seeds[0]}, …, {seeds[-1]}"


def _doses(found: Seeds) -> str:
    """The doses, where they are not all of an adapter; chosen on the very contrasts that they are shown on."""
    if set(found.doses) == {1.0}:
        return ""
    return f", each at its own dose ({', '.join(f'{dose:g}' for dose in found.doses)}; on the contrasts that chose it)"


def _sd(measure: OverSeeds) -> str:
    return f"{100 * measure.sd:.0f}"
