"""Several trainings of one recipe: the mean after them, how far they differ; of one training, what its intervals leave out."""

from __future__ import annotations

from cda.report.numbers import Json, count, excludes_zero, inert, percent, points, reward, share, signed
from cda.report.tables import Table, change_cells, compares
from cda.report.verdict import others, targets
from cda.results.audit import AuditResult

_SHOWN = 6
"""So many seeds are listed one by one; of more, the first and the last."""


def several(audit: AuditResult) -> Json | None:
    """The audit's part on several trainings; None where there is one, or none."""
    found: Json = audit.get("seeds") or {}
    return found if len(found.get("seeds", ())) > 1 else None


def seeds_caveat(audit: AuditResult) -> str:
    """What the intervals say nothing of; empty for an audit of a model as it is."""
    if not compares(audit):
        return ""
    found = several(audit)
    if found is None:
        known = (audit.get("seeds") or {}).get("seeds")  # earlier audits do not say
        return (
            f"`after` is one training{f' (seed {known[0]})' if known else ''}. Its intervals hold which contrasts were measured and leave out which seed was "
            "drawn: another training may end further away than they say. train.seeds=3 trains several, and says how far they differ."
        )
    first = found["seeds"][0]
    return (
        f"Of {len(found['seeds'])} trainings the adapter is that of the first seed, {first}, whatever the audit says of the others. "
        "Verdicts, effects and examples are of it alone, with intervals that hold which contrasts were measured; the rows over "
        "trainings hold which seeds were drawn, too."
    )


def one_training_line(audit: AuditResult) -> str:
    """The same of one training, on a line for a terminal; empty elsewhere."""
    said = seeds_caveat(audit) and several(audit) is None
    return (
        "One training: its intervals leave out that another seed would end elsewhere (train.seeds=3)." if said else ""
    )


def seed_row(found: Json | None, measure: Json | None) -> list[tuple[str, ...]]:
    """A row of the terminal's table: a measure over trainings; none without several, or without the measure."""
    if found is None or not measure or "missing" in measure:
        return []
    return [(f"  {len(found['seeds'])} trainings, SD {_sd(measure)}", *change_cells(measure))]


def others_over_seeds(audit: AuditResult) -> str:
    """The other biases' skew over all trainings, as one line; empty without several trainings, or other biases."""
    found = several(audit)
    if found is None:
        return ""
    known = {name: one for name in others(audit) if "missing" not in (one := found["skew"][name])}
    parts = [f"{inert(name)} {percent(one['after']['value'])} ({_sd(one)})" for name, one in known.items()]
    return f"Means of {len(found['seeds'])} trainings (SD): {', '.join(parts)}" if parts else ""


def seed_sentences(audit: AuditResult) -> list[str]:
    """Skew of each target over all trainings, and whether it is shown to change when trainings are drawn as well."""
    found = several(audit)
    return [] if found is None else [_sentence(name, found) for name in targets(audit)]


def _sentence(name: str, found: Json) -> str:
    skew, many = (
        found["skew"][name],
        f"{inert(name)} over {len(found['seeds'])} trainings (seeds {listed(found['seeds'])}): ",
    )
    if "missing" in skew:
        return f"{many}not estimated ({skew['missing']})."
    text = (
        f"{many}skew {percent(skew['before']['value'])} before and {share(skew['after'])} after on average, "
        f"{points(skew['change'])} (n = {count(skew['change'])}). {_each(skew)}"
    )
    return text if excludes_zero(skew["change"]) else f"{text} A change in the mean of all trainings is not shown."


def _each(measure: Json) -> str:
    values = ", ".join(percent(one)[:-1] for one in measure["by_seed"])
    return f"They end at {values}%: a standard deviation of {_sd(measure)} points."


def seed_table(audit: AuditResult) -> Table | None:
    """Every measure over all trainings; None where there is one."""
    found = several(audit)
    if found is None:
        return None
    names = [*targets(audit), *others(audit)]
    measures = [(f"{name} {what}", found[key][name]) for name in names for what, key in _MEASURES if name in found[key]]
    measures += [("quality accuracy", found["quality"])] if found["quality"] else []
    rows = tuple((what, *_cells(one)) for what, one in measures)
    header = ("measure", "before", "mean after", "change", "n", "SD between trainings", "after each")
    caption = f"Over {len(found['seeds'])} trainings, seeds {listed(found['seeds'])}{_doses(found)}, with 95% intervals for prompts and seeds"
    return Table(caption, header, rows)


_MEASURES = (("skew", "skew"), ("miscalibration", "miscalibration"), ("skew (triples)", "triple_skew"))


def _cells(one: Json) -> tuple[str, ...]:
    if "missing" in one:
        return one["missing"], "", "", "", "", ""
    return *change_cells(one), f"{_sd(one)} points", ", ".join(percent(value) for value in one["by_seed"])


def effects_over_seeds(audit: AuditResult) -> Table | None:
    """RATE's average effects over all trainings; None where there is one, or no triples."""
    found = several(audit)
    if found is None or not found["rate"]:
        return None
    rows = tuple(
        (name, one["missing"], "", "", "", "", "")
        if "missing" in one
        else (
            name, reward(one["before"]["value"]), signed(one["after"]), signed(one["change"]), count(one["after"]),
            f"{one['sd']:.2f}", ", ".join(map(reward, one["by_seed"])),
        )
        for name, one in found["rate"].items()
    )  # fmt: skip
    header = ("RATE ATE (reward)", "before", "mean after", "change", "n", "SD between trainings", "after each")
    return Table("Causal effects over the same trainings", header, rows)


def listed(seeds: list[int]) -> str:
    """`42, 43, 44`; of many the first and the last."""
    return ", ".join(map(str, seeds)) if len(seeds) <= _SHOWN else f"{seeds[0]}, …, {seeds[-1]}"


def _doses(found: Json) -> str:
    """The doses, where they are not all of an adapter; chosen on the very contrasts that they are shown on."""
    if set(found["doses"]) == {1.0}:
        return ""
    return (
        f", each at its own dose ({', '.join(f'{dose:g}' for dose in found['doses'])}; on the contrasts that chose it)"
    )


def _sd(measure: Json) -> str:
    return f"{100 * measure['sd']:.0f}"
