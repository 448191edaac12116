"""Tables of two wider comparisons: with the models and judges of "Flattery, Fluff, and Fog", and over several trainings."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from cda.auditing.report_cells import (
    blank_of_plain,
    change_cells,
    estimates,
    human_skew_cells,
    missed_cells,
    on_voted_cells,
    triple_cells,
)
from cda.auditing.report_evidence import compares, others, targets
from cda.data.release import SOURCE
from cda.report.accuracy import accuracy, tenth_points, tenths
from cda.report.numbers import (
    NOT_ESTIMATED,
    cell,
    count,
    decimals,
    excludes_zero,
    inert,
    percent,
    points,
    reward,
    share,
    signed,
)
from cda.report.tables import Row, Table, table
from cda.results.audit import AuditResult, PaperModel, PaperOutcome, PaperPeople
from cda.results.base import Estimate, Missing
from cda.results.benchmarks import AccuracyGroup
from cda.results.effects import Contingency
from cda.results.skew import OverSeeds, Seeds

_TIES = {
    "as-released": "Majorities are the stated ones; pairs on which people tied or split are left out, as in the paper's Table 6.",
    "drop": "Majorities are counted from the single votes (audit.ties=drop); the paper's Table 6 takes the stated ones "
    "(audit.ties=as-released).",
    "half": "Ties count half for each side (audit.ties=half), which the paper does not do; its Table 6 leaves them out "
    "(audit.ties=as-released).",
}
_SHOWN = 6
"""Seeds that are listed one by one; of more, the first and the last."""


def paper_sentences(audit: AuditResult) -> list[str]:
    """The release's contents, its rule for ties, and its gaps; nothing without a release."""
    paper = audit.paper
    if paper is None:
        return []
    peoples = _peoples(paper)
    sentences = []
    for name, bias in paper.biases.items():
        voted = f", {peoples[name].with_majority} with a majority for one side" if name in peoples else ""
        sentences.append(
            f"{name}: {bias.pairs} pairs that people voted on{voted}; {bias.triples} triples, of which people voted on "
            f"{bias.triples_voted}."
        )
    sentences += [_TIES[rule] for rule in dict.fromkeys(people.rule for people in peoples.values())]
    if paper.biases:
        sentences.append(
            "The answers of the triples are counted as without the bias, since the rewriter was asked to add it; the release "
            "labels none of them."
        )
    sentences += [f"Missing in the release: {part} of {', '.join(names)}." for part, names in paper.missing.items()]
    if audit.quality_sections is None:
        sentences.append("RewardBench by section was not measured: audit.quality names no file with sections.")
    return sentences


def paper_tables(audit: AuditResult) -> list[Table]:
    """This run's outcome first; then the paper's models, its judges, RewardBench as released, labels."""
    paper = audit.paper
    if paper is None:
        return []
    model_header = ("the paper's model", "before", "after", "change (points)", "n", "pairs without a score")
    judge_header = ("LLM judge", "skew", "miscalibration", "n", "its ties", "pairs without a verdict")
    bench_header = ("section", "before", "after", "change (points)")
    label_header = ("bias", "chosen where one side has it", "of all chosen", "of all rejected", "r with being chosen",
                    "pairs")  # fmt: skip
    tables = [
        outcome_table(audit),
        table(
            "The paper's own reward models on the same pairs, before and after its fine-tuning, from its released scores, with 95% "
            "intervals", model_header, _model_rows(paper)),
        table("The paper's LLM judges on the same pairs, their ties left out as there, with 95% intervals", judge_header,
              _judge_rows(paper)),
        table("RewardBench of the paper's models as released: sections' accuracies and no items, so that no interval can be given",
              bench_header, _rewardbench_rows(paper)),
        table("The paper's labels of its training sample, with 95% intervals", label_header, _label_rows(paper)),
    ]  # fmt: skip
    return [found for found in tables if found is not None]


def outcome_table(audit: AuditResult) -> Table | None:
    """Human skew, skew and miscalibration of each target, skew over its triples, RewardBench by section."""
    rows: list[Row] = []
    for name in targets(audit):
        if name in audit.votes:
            rows += [
                (f"{name} human skew", *human_skew_cells(audit, name)),
                (f"{name} skew, where people have a majority", *on_voted_cells(audit, name)),
                (f"{name} miscalibration", *missed_cells(audit, name)),
            ]
        if name in audit.triple_skew and name in audit.rate and audit.rate[name].flips.by == SOURCE:
            rows.append((f"{name} skew (triples)", *triple_cells(name, audit)))
    if (sections := audit.quality_sections) is not None:
        by_plain = audit.plain.quality_sections if audit.plain else None
        groups = by_plain.shown if by_plain else ()
        after = {group.name: accuracy(group.scores["after"].estimate) for group in groups}
        for group in sections.shown:
            other = (after[group.name],) if by_plain else blank_of_plain(audit)
            rows.append((*_section_row(group, sections.name), *other))
    return table("The paper's outcome, of this run, with 95% intervals", ("measure", *estimates(audit)), rows)


def _section_row(group: AccuracyGroup, name: str) -> Row:
    scores = [score.estimate for score in group.scores.values()]
    moved = (tenth_points(group.shift.estimate),) if group.shift is not None else ()
    return (f"{name}: {group.name}", *map(accuracy, scores), *moved, count(scores[0]))


def _peoples(paper: PaperOutcome) -> dict[str, PaperPeople]:
    return {name: bias.people for name, bias in paper.biases.items() if isinstance(bias.people, PaperPeople)}


def _model_rows(paper: PaperOutcome) -> Iterator[Row]:
    for name, people in _peoples(paper).items():
        for size, model in people.models.items():
            yield from _rows_of_model(f"{name}, {size}", model)
        if people.mean is not None:
            yield from _rows_of_model(f"{name}, mean of {', '.join(people.mean.of)}", people.mean)


def _rows_of_model(label: str, model: PaperModel) -> Iterator[Row]:
    without = str(model.without_score)
    for what, measure in (("skew", model.skew), ("miscalibration", model.miscalibration)):
        if isinstance(measure, Missing):
            yield (label, measure.reason, "", "", "", without)
            break
        both = (measure.before, measure.after)
        n = next((count(found) for found in both if isinstance(found, Estimate)), "")
        moved = cell(measure.change, lambda change: points(change, ""), "")
        yield (f"{label}: {what}", *(cell(found, share, None) for found in both), moved, n, without)


def _judge_rows(paper: PaperOutcome) -> Iterator[Row]:
    for name, people in _peoples(paper).items():
        for judge, found in people.judges.items():
            left_out = (str(found.ties), str(found.without_verdict))
            if isinstance(found.skew, Missing) or isinstance(found.miscalibration, Missing):
                reason = found.skew.reason if isinstance(found.skew, Missing) else ""
                yield (f"{name}, {judge}", NOT_ESTIMATED, reason, "0", *left_out)
            else:
                cells = (share(found.skew), share(found.miscalibration), count(found.skew))
                yield (f"{name}, {judge}", *cells, *left_out)


def _rewardbench_rows(paper: PaperOutcome) -> Iterator[Row]:
    for name, bias in paper.biases.items():
        for size, found in bias.rewardbench.items():
            for section in dict.fromkeys(section for scores in found.values() for section in scores):
                before, after = (found.get(when, {}).get(section) for when in ("before", "after"))
                cells = ["" if value is None else f"{tenths(value)}%" for value in (before, after)]
                moved = "" if before is None or after is None else tenths(after - before)
                yield (f"{name}, {size}: {section}", *cells, moved)


def _label_rows(paper: PaperOutcome) -> Iterator[Row]:
    for name, bias in paper.biases.items():
        if bias.labels and isinstance(bias.labels.contingency, Contingency):
            rates = bias.labels.contingency
            cells = [share(rate) for rate in (rates.selection_rate, rates.chosen_rate, rates.rejected_rate)]
            yield (name, *cells, cell(bias.labels.r_train, decimals), count(rates.chosen_rate))


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
        return (
            f"`after` is one training{seed}. Its intervals hold which contrasts were measured and leave out which seed was "
            "drawn: another training may end further away than they say. train.seeds=3 trains several, and says how far they differ."
        )
    return (
        f"Of {len(seeds.seeds)} trainings the adapter is that of the first seed, {seeds.seeds[0]}, whatever the audit says of the "
        "others. Verdicts, effects and examples are of it alone, with intervals that hold which contrasts were measured; the rows "
        "over trainings hold which seeds were drawn, too."
    )


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
    header = ("measure", "before", "mean after", "change", "n", "SD between trainings", "after each")
    # Doses that were chosen on the very contrasts that they are shown on.
    listed = ", ".join(f"{dose:g}" for dose in seeds.doses)
    own = f", each at its own dose ({listed}; on the contrasts that chose it)"
    doses = "" if set(seeds.doses) == {1.0} else own
    caption = f"Over {len(seeds.seeds)} trainings, seeds {_listed(seeds.seeds)}{doses}, with 95% intervals for prompts and seeds"
    rows = (
        (what, *_cells(measure, lambda one: (*change_cells(one), f"{_sd(one)} points"), percent))
        for what, measure in measures
    )
    return Table(caption, header, tuple(rows))


def effects_over_seeds(audit: AuditResult) -> Table | None:
    """RATE's average effects over all trainings; None if there is one, or no triples."""
    seeds = several(audit)

    def cells(measure: OverSeeds) -> Row:
        after, change = signed(measure.after), signed(measure.change)
        return reward(_before(measure)), after, change, count(measure.after), f"{measure.sd:.2f}"

    header = ("RATE ATE (reward)", "before", "mean after", "change", "n", "SD between trainings", "after each")
    rows = ((name, *_cells(measure, cells, reward)) for name, measure in seeds.rate.items()) if seeds else ()
    return table("Causal effects over the same trainings", header, rows)


def _cells(measure: OverSeeds | Missing, cells: Callable[[OverSeeds], Row], each: Callable[[float], str]) -> Row:
    if isinstance(measure, Missing):
        return measure.reason, "", "", "", "", ""
    return *cells(measure), ", ".join(map(each, measure.by_seed))


def _before(measure: OverSeeds) -> float:
    return measure.before.value if isinstance(measure.before, Estimate) else measure.before


def _listed(seeds: Sequence[int]) -> str:
    return ", ".join(map(str, seeds)) if len(seeds) <= _SHOWN else f"{seeds[0]}, …, {seeds[-1]}"


def _sd(measure: OverSeeds) -> str:
    return f"{100 * measure.sd:.0f}"
