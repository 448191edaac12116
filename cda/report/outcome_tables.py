"""The outcome of "Flattery, Fluff, and Fog" in tables: this run's, and the paper's own models and judges beside it."""

from __future__ import annotations

from collections.abc import Iterator

from cda.data.release import SOURCE
from cda.report.numbers import NOT_ESTIMATED, Json, count, decimals, points, share
from cda.report.quality_tables import accuracy, tenth_points, tenths
from cda.report.tables import (
    Table,
    blank_of_plain,
    change_cells,
    compares,
    estimates,
    plain_miscalibration,
    plain_skew_on_voted,
    triple_skew_rows,
)
from cda.report.verdict import targets
from cda.results.audit import AuditResult
from cda.results.base import Missing
from cda.results.benchmarks import AccuracyGroup
from cda.results.data import Contingency, LabelRates

Row = tuple[str, ...]
_TIES = {
    "as-released": "Majorities are the stated ones; pairs on which people tied or split are left out, as in the paper's Table 6.",
    "drop": "Majorities are counted from the single votes (audit.ties=drop); the paper's Table 6 takes the stated ones "
    "(audit.ties=as-released).",
    "half": "Ties count half for each side (audit.ties=half), which the paper does not do; its Table 6 leaves them out "
    "(audit.ties=as-released).",
}


def paper_sentences(audit: AuditResult) -> list[str]:
    """What the release held, which rule for ties holds, and what is missing."""
    paper = audit["paper"]
    found = []
    for name, one in paper["biases"].items():
        voted = f", {one['with_majority']} with a majority for one side" if "with_majority" in one else ""
        found.append(
            f"{name}: {one['pairs']} pairs that people voted on{voted}; {one['triples']} triples, of which people voted on "
            f"{one['triples_voted']}."
        )
    rules = dict.fromkeys(one["rule"] for one in paper["biases"].values() if "rule" in one)
    found += [_TIES[rule] for rule in rules]
    if paper["biases"]:
        found.append(
            "The answers of the triples are counted as without the bias, since the rewriter was asked to add it; the release "
            "labels none of them."
        )
    for part, names in paper["missing"].items():
        found.append(f"Missing in the release: {part} of {', '.join(names)}.")
    if audit.quality_sections is None:
        found.append("RewardBench by section was not measured: audit.quality names no file with sections.")
    return found


def paper_tables(audit: AuditResult) -> list[Table]:
    """This run's outcome first; then the paper's models, its judges, RewardBench as released, labels."""
    if not audit.get("paper"):
        return []
    tables = [outcome_table(audit), _models(audit), _judges(audit), _rewardbench(audit), _labels(audit)]
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


def _models(audit: AuditResult) -> Table | None:
    rows = [row for name, one in audit["paper"]["biases"].items() for row in _of_models(name, one)]
    if not rows:
        return None
    header = ("the paper's model", "before", "after", "change (points)", "n", "pairs without a score")
    caption = (
        "The paper's own reward models on the same pairs, before and after its fine-tuning, from its released scores, with 95% "
        "intervals"
    )
    return Table(caption, header, tuple(rows))


def _of_models(name: str, one: Json) -> Iterator[Row]:
    mean = one.get("mean")
    named = {f"{size}": model for size, model in one.get("models", {}).items()}
    if mean:
        named[f"mean of {', '.join(mean['of'])}"] = mean
    for size, model in named.items():
        without = str(model["without_score"])
        if "missing" in model:
            yield (f"{name}, {size}", model["missing"], "", "", "", without)
            continue
        for what in ("skew", "miscalibration"):
            cells = [share(model[what][when]) if when in model[what] else "no scores" for when in ("before", "after")]
            moved = points(model[what]["change"], "") if "change" in model[what] else ""
            n = count(model[what].get("before", model[what].get("after")))
            yield (f"{name}, {size}: {what}", *cells, moved, n, without)


def _judges(audit: AuditResult) -> Table | None:
    rows: list[Row] = []
    for name, one in audit["paper"]["biases"].items():
        for judge, found in one.get("judges", {}).items():
            left_out = (str(found["ties"]), str(found["without_verdict"]))
            if "missing" in found:
                rows.append((f"{name}, {judge}", NOT_ESTIMATED, found["missing"], "0", *left_out))
                continue
            cells = [share(found[what]["model"]) for what in ("skew", "miscalibration")]
            rows.append((f"{name}, {judge}", *cells, count(found["skew"]["model"]), *left_out))
    header = ("LLM judge", "skew", "miscalibration", "n", "its ties", "pairs without a verdict")
    caption = "The paper's LLM judges on the same pairs, their ties left out as there, with 95% intervals"
    return Table(caption, header, tuple(rows)) if rows else None


def _rewardbench(audit: AuditResult) -> Table | None:
    rows: list[Row] = []
    for name, one in audit["paper"]["biases"].items():
        for size, found in one.get("rewardbench", {}).items():
            for section in dict.fromkeys(section for scores in found.values() for section in scores):
                values = [found.get(when, {}).get(section) for when in ("before", "after")]
                cells = ["" if value is None else f"{tenths(value)}%" for value in values]
                moved = tenths(values[1] - values[0]) if None not in values else ""
                rows.append((f"{name}, {size}: {section}", *cells, moved))
    header = ("section", "before", "after", "change (points)")
    caption = "RewardBench of the paper's models as released: sections' accuracies and no items, so that no interval can be given"
    return Table(caption, header, tuple(rows)) if rows else None


def _labels(audit: AuditResult) -> Table | None:
    rows: list[Row] = []
    for name, one in audit["paper"]["biases"].items():
        labels = LabelRates.model_validate(one["labels"]) if one.get("labels") else None
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
