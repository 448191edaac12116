"""The outcome of "Flattery, Fluff, and Fog" in tables: this run's, and the paper's own models and judges beside it."""

from __future__ import annotations

from collections.abc import Iterator

from cda.auditing.report_tables import (
    blank_of_plain,
    change_cells,
    compares,
    estimates,
    plain_miscalibration,
    plain_skew_on_voted,
    triple_skew_rows,
)
from cda.auditing.report_verdict import targets
from cda.data.release import SOURCE
from cda.report.accuracy import accuracy, tenth_points, tenths
from cda.report.numbers import NOT_ESTIMATED, count, decimals, points, share
from cda.report.tables import Table
from cda.results.audit import AuditResult, PaperOutcome, PaperPeople
from cda.results.base import Estimate, Missing
from cda.results.benchmarks import AccuracyGroup
from cda.results.effects import Contingency

Row = tuple[str, ...]
_TIES = {
    "as-released": "Majorities are the stated ones; pairs on which people tied or split are left out, as in the paper's Table 6.",
    "drop": "Majorities are counted from the single votes (audit.ties=drop); the paper's Table 6 takes the stated ones "
    "(audit.ties=as-released).",
    "half": "Ties count half for each side (audit.ties=half), which the paper does not do; its Table 6 leaves them out "
    "(audit.ties=as-released).",
}


def paper_sentences(audit: AuditResult) -> list[str]:
    """What the release held, which rule for ties holds, and what is missing; nothing without a release."""
    paper, found = audit.paper, list[str]()
    if paper is None:
        return found
    for name, one in paper.biases.items():
        voted = (
            f", {one.people.with_majority} with a majority for one side" if isinstance(one.people, PaperPeople) else ""
        )
        found.append(
            f"{name}: {one.pairs} pairs that people voted on{voted}; {one.triples} triples, of which people voted on "
            f"{one.triples_voted}."
        )
    rules = dict.fromkeys(people.rule for people in _peoples(paper).values())
    found += [_TIES[rule] for rule in rules]
    if paper.biases:
        found.append(
            "The answers of the triples are counted as without the bias, since the rewriter was asked to add it; the release "
            "labels none of them."
        )
    for part, names in paper.missing.items():
        found.append(f"Missing in the release: {part} of {', '.join(names)}.")
    if audit.quality_sections is None:
        found.append("RewardBench by section was not measured: audit.quality names no file with sections.")
    return found


def paper_tables(audit: AuditResult) -> list[Table]:
    """This run's outcome first; then the paper's models, its judges, RewardBench as released, labels."""
    paper = audit.paper
    if paper is None:
        return []
    tables = [outcome_table(audit), _models(paper), _judges(paper), _rewardbench(paper), _labels(paper)]
    return [table for table in tables if table is not None]


def outcome_table(audit: AuditResult) -> Table | None:
    """Human skew, skew and miscalibration of each target, skew over its triples, RewardBench by section."""
    rows: list[Row] = []
    released = {name for name, one in audit.rate.items() if one.flips.by == SOURCE}
    triples = {name: cells for name, *cells in triple_skew_rows(audit) if name in released}
    same = ("the same", "") if compares(audit) else ()
    for name in targets(audit):
        votes = audit.votes.get(name)
        if votes:
            people = votes.human_skew
            plain = blank_of_plain(audit)
            rows.append((f"{name} human skew", share(people), *same, count(people), *plain))
            on_voted, missed = plain_skew_on_voted(audit, name), plain_miscalibration(audit, name)
            rows.append((f"{name} skew, where people have a majority", *change_cells(votes.skew_on_voted), *on_voted))
            rows.append((f"{name} miscalibration", *change_cells(votes.miscalibration), *missed))
        if name in triples:
            rows.append((f"{name} skew (triples)", *triples[name]))
    if (sections := audit.quality_sections) is not None:
        by_plain = audit.plain.quality_sections if audit.plain else None
        groups = by_plain.shown if by_plain else ()
        after = {group.name: accuracy(group.scores["after"].estimate) for group in groups}
        for group in sections.shown:
            other = (after[group.name],) if by_plain else blank_of_plain(audit)
            rows.append((*_of_section(group, sections.name), *other))
    header = ("measure", *estimates(audit))
    return Table("The paper's outcome, of this run, with 95% intervals", header, tuple(rows)) if rows else None


def _of_section(group: AccuracyGroup, name: str) -> Row:
    scores = [one.estimate for one in group.scores.values()]
    moved = (tenth_points(group.shift.estimate),) if group.shift is not None else ()
    return (f"{name}: {group.name}", *map(accuracy, scores), *moved, count(scores[0]))


def _peoples(paper: PaperOutcome) -> dict[str, PaperPeople]:
    return {name: one.people for name, one in paper.biases.items() if isinstance(one.people, PaperPeople)}


def _models(paper: PaperOutcome) -> Table | None:
    rows = [row for name, people in _peoples(paper).items() for row in _of_models(name, people)]
    if not rows:
        return None
    header = ("the paper's model", "before", "after", "change (points)", "n", "pairs without a score")
    caption = (
        "The paper's own reward models on the same pairs, before and after its fine-tuning, from its released scores, with 95% "
        "intervals"
    )
    return Table(caption, header, tuple(rows))


def _of_models(name: str, people: PaperPeople) -> Iterator[Row]:
    named = dict(people.models)
    if people.mean is not None:
        named[f"mean of {', '.join(people.mean.of)}"] = people.mean
    for size, model in named.items():
        without = str(model.without_score)
        for what, one in (("skew", model.skew), ("miscalibration", model.miscalibration)):
            if isinstance(one, Missing):
                yield (f"{name}, {size}", one.reason, "", "", "", without)
                break
            cells = [share(found) if isinstance(found, Estimate) else found.reason for found in (one.before, one.after)]
            moved = points(one.change, "") if isinstance(one.change, Estimate) else ""
            n = next((count(found) for found in (one.before, one.after) if isinstance(found, Estimate)), "")
            yield (f"{name}, {size}: {what}", *cells, moved, n, without)


def _judges(paper: PaperOutcome) -> Table | None:
    rows: list[Row] = []
    for name, people in _peoples(paper).items():
        for judge, found in people.judges.items():
            left_out = (str(found.ties), str(found.without_verdict))
            if isinstance(found.skew, Missing) or isinstance(found.miscalibration, Missing):
                reason = found.skew.reason if isinstance(found.skew, Missing) else ""
                rows.append((f"{name}, {judge}", NOT_ESTIMATED, reason, "0", *left_out))
                continue
            rows.append(
                (f"{name}, {judge}", share(found.skew), share(found.miscalibration), count(found.skew), *left_out)
            )
    header = ("LLM judge", "skew", "miscalibration", "n", "its ties", "pairs without a verdict")
    caption = "The paper's LLM judges on the same pairs, their ties left out as there, with 95% intervals"
    return Table(caption, header, tuple(rows)) if rows else None


def _rewardbench(paper: PaperOutcome) -> Table | None:
    rows: list[Row] = []
    for name, one in paper.biases.items():
        for size, found in one.rewardbench.items():
            for section in dict.fromkeys(section for scores in found.values() for section in scores):
                before, after = (found.get(when, {}).get(section) for when in ("before", "after"))
                cells = ["" if value is None else f"{tenths(value)}%" for value in (before, after)]
                moved = "" if before is None or after is None else tenths(after - before)
                rows.append((f"{name}, {size}: {section}", *cells, moved))
    header = ("section", "before", "after", "change (points)")
    caption = "RewardBench of the paper's models as released: sections' accuracies and no items, so that no interval can be given"
    return Table(caption, header, tuple(rows)) if rows else None


def _labels(paper: PaperOutcome) -> Table | None:
    rows: list[Row] = []
    for name, one in paper.biases.items():
        labels = one.labels
        if labels and isinstance(labels.contingency, Contingency):
            rates, r = labels.contingency, labels.r_train
            cells = [share(rate) for rate in (rates.selection_rate, rates.chosen_rate, rates.rejected_rate)]
            correlation = NOT_ESTIMATED if isinstance(r, Missing) else decimals(r)
            rows.append((name, *cells, correlation, count(rates.chosen_rate)))
    header = (
        "bias",
        "chosen where one side has it",
        "of all chosen",
        "of all rejected",
        "r with being chosen",
        "pairs",
    )
    return Table("The paper's labels of its training sample, with 95% intervals", header, tuple(rows)) if rows else None
