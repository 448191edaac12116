"""A comparison in tables and figures, from its numbers alone: terminal, Markdown, page and CSV."""

from __future__ import annotations

import csv
import io
from collections.abc import Sequence
from dataclasses import replace
from functools import cached_property, partial
from typing import get_args

from cda.comparing.compared_numbers import ComparedNumbers
from cda.comparing.figures import comparison_plots
from cda.comparing.findings import NONE, is_difference_shown, setup
from cda.comparing.row import QUALITY
from cda.comparing.screen import comparison_glance, comparison_headline, labels, said_of, unclear
from cda.inert import guarded
from cda.numbers.measures import MEASURES, AuditMeasure, of_place
from cda.numbers.views import Numbers, numbers_in
from cda.records import PERCENT
from cda.report.document import Document, how_made, meaning
from cda.report.names import brief, called, distinct, renamed, scored_by
from cda.report.next_step import after_comparison
from cda.report.numbers import (
    FORMS,
    NO_VOTES,
    NOT_ESTIMATED,
    NOT_MEASURED,
    cell,
    count,
    decimals,
    inert,
    listed,
    n_of,
    p_value,
    points,
    ranked_right,
    share,
    signed,
)
from cda.report.page import Entry, Headline, ReportSection
from cda.report.tables import Row, Table
from cda.results.base import Estimate, Missing
from cda.results.comparison import ComparisonResult, Kind, PairedMargins
from cda.stats.panel import FEW_MODELS
from cda.stats.verdict import SIGNIFICANT, TOLERATED_LOSS, cross_bias

_RAISED = str.maketrans("0123456789", "⁰¹²³⁴⁵⁶⁷⁸⁹")
_ABSENT = {"votes": NO_VOTES, "triples": NOT_ESTIMATED, "places": ""}
_OWN_TERMS = (
    Entry("place", "1 + audits whose interval lies below, to n − those whose interval lies above", "Among audits of the same texts throughout, by the mean over biases, each of the same weight, of the first measure that all of them have: miscalibration, the size of RATE's effect in standard deviations, or the distance of skew from 50%, which says how far a model leans and not whether people lean so too. Places are not corrected for the number of audits: of many, some are wrong by chance."),
    Entry("mean", "mean over audits of each share, on the contrasts that all of them gave a margin on", "Reward models, judges and trainings apart; never over different contrasts or votes, and not shown where audits lie on both sides of no effect. SD: the standard deviation between their skews."),
    Entry("interval of a mean", f"audits and prompts as crossed random factors, from {FEW_MODELS} audits on", "As for readers and cases (Obuchowski and Rockette 1995), of a share Wilson's on as many rows as its error is worth. Of fewer audits, or of a share so near 0 or 100% that less than one audit in all answers otherwise, it is over prompts alone: it holds for these and says nothing of others."),
    Entry("change *", f"interval excludes 0, and Holm's p over all changes of all trainings is below {SIGNIFICANT}", "After minus before, paired by contrast, in points; (target): the bias that was trained on."),
    Entry("‡", "dose chosen on one half of the prompts, measured on the other", "The dose of this training was chosen on the same contrasts: the number is held out. Means over audits, ranks and paired differences are of the contrasts that chose it, which flatters them."),
    Entry("difference", "other − first on the texts that both have a margin on", "Paired and clustered by prompt; Holm's p allows for all paired tests here. Same is how often both prefer the same side, alone how many sides with the bias are preferred by the first only and by the other only. r is Pearson's correlation of their margins."),
)  # fmt: skip


class _Tables(ComparedNumbers):
    """The tables of a comparison."""

    @cached_property
    def stars(self) -> set[tuple[str, str]]:
        """Trainings and biases whose change is shown, all cells of the cross-bias matrix tested together."""
        changes: dict[str, dict[str, tuple[Estimate, float]]] = {}
        for (key, name, moment, bias), each in self.found.items():
            if (key, moment) == ("skew", "change") and each.test and isinstance(each.found, Estimate):
                changes.setdefault(name, {})[bias] = each.found, each.test.p_value
        cells = cross_bias(changes, {}) if changes else []
        return {(each.training, each.bias) for each in cells if each.is_shown}

    def mark(self, measure: AuditMeasure, audit: str, column: str) -> str:
        """A raised number for a measurement on other texts than the first audit's; empty for those alike."""
        rows, bias = self.result.audits, column.partition("KL ")[0].removesuffix(", ") if measure.of_bias else ""
        sets = {
            name: row.text_set(measure.on, bias) or name
            for name, row in rows.items()
            if (bias in row.biases if bias else measure.on == "quality" and QUALITY in row.texts)
        }
        at = list(dict.fromkeys(sets.values())).index(sets[audit]) if audit in sets else 0
        return f" {at + 1}".translate(_RAISED) if at else ""

    def cell(self, key: str, audit: str, moment: str, column: str) -> str:
        """A number without its n; a word where an audit has none, nothing where a mean has none."""
        measure, found = MEASURES[key], self.estimate(key, audit, moment, column)
        is_change = moment == "change"
        limit = -TOLERATED_LOSS if measure.on == "quality" else None  # a change gets the digits that tell it from this
        moved = partial(points, unit="", limit=limit)
        form = moved if is_change and "share" in measure.unit else FORMS.get(measure.unit, signed)
        if (of := self.result.audits.get(audit)) and key == "accuracy" and not column and not is_change:
            form = partial(ranked_right, ties=of.quality_ties.get(moment, 0))
        mean = self.means.get((audit, column))
        if why := self.instead(key, audit, moment, column):
            return why
        if found is None:
            return "" if audit not in self.result.audits or is_change else _ABSENT.get(measure.on, NOT_MEASURED)
        if mean:
            return form(found) + (f", SD {100 * mean.sd:.0f}" if key == "skew" and moment in ("model", "after") else "")
        training = self.result.audits[audit].training
        own = column or QUALITY
        chosen = "‡" * bool(training and moment != "before" and measure.held_out and own in training.chosen_on)
        star = chosen + "*" * ((audit, column) in self.stars) if is_change and key == "skew" else chosen
        target = " (target)" if training and is_change and key == "skew" and column in training.against else ""
        return form(found) + star + target + self.mark(measure, audit, column)

    def table(self, key: str) -> Table | None:
        """A measure: audits and means by biases, or by sections of quality pairs; None without any number. n stands in the header if
        all numbers of a column have it. The first table has places and the measures of whole audits too."""
        measure, first = MEASURES[key], key == next(iter(of_place("comparison")))
        known = self.biases if measure.of_bias else self.sections
        if measure.level:
            known = self.common(key)
        columns = [(key, column) for column in dict.fromkeys(known)]
        whole = [(of, "") for of, each in MEASURES.items() if not each.of_bias and each.caption]
        columns = [
            (of, column)
            for of, column in [*columns, *(whole if first else [])]
            if any(self.estimate(of, *line, column) for line in self.lines)
        ]
        lines = [
            line
            for line in self.lines
            if any(self.estimate(of, *line, column) or self.instead(of, *line, column) for of, column in columns)
        ]
        if not lines:
            return None
        rows = [[self.line_name(audit, moment)] for audit, moment in lines]
        header = [""]
        if first and any(group.audits for group in self.result.ranked):
            header.append("place")
            rows = [[*row, self._place(*line)] for row, line in zip(rows, lines, strict=True)]
        people = ["people", *[""] * (len(header) - 1)]
        voted = any(self.people(*column) for column in columns)
        for of, column in columns:
            cells = [self.cell(of, *line, column) for line in lines]
            ns = [f", n {count(found)}" if (found := self.estimate(of, *line, column)) else "" for line in lines]
            same, is_rank = {n for n in ns if n}, measure.unit == "rank"
            name = inert(column or MEASURES[of].title)
            header.append(name + (min(same) if len(same) == 1 and not is_rank else ""))
            shown = [""] * len(ns) if len(same) == 1 or is_rank else ns
            rows = [[*row, text + n] for row, text, n in zip(rows, cells, shown, strict=True)]
            own = self.people(of, column)
            people.append(
                f"{FORMS[measure.unit](own)}, n {count(own)}" if own else NO_VOTES if MEASURES[of].people else ""
            )
        rows += [people] if voted else []
        caption = measure.caption + ("" if measure.unit == "rank" else f", with {PERCENT} intervals")
        return Table(caption, tuple(header), tuple(map(tuple, rows)))

    def _place(self, audit: str, moment: str) -> str:
        """The places that the intervals allow; of a training after it."""
        found = self.estimate("place", audit, "model", "") if moment in ("model", "after") else None
        return "" if found is None else "–".join(f"{end:g}" for end in dict.fromkeys((found.low, found.high)))


def paired_table(result: ComparisonResult) -> Table | None:
    """Every audit that is held against the first, by bias and on quality pairs."""
    rows: list[Row] = []
    names = labels(result)
    for pair, on in result.paired.items():
        for name, found in on.items():
            label = f"{names[pair]}: {inert(name)}" if len(result.paired) > 1 else inert(name)
            if isinstance(found, Missing):
                rows.append((label, "not paired", *[""] * 6, said_of(inert(found.reason), names)))
            else:
                rows.append((label, *_paired_cells(found)))
    if not rows:
        return None
    first, other = names[str(result.against)], "other" if len(result.paired) > 1 else names[next(iter(result.paired))]
    header = ("on", first, other, "difference (points)", "p (Holm)", "same", "r", "alone", "n")
    return Table(
        f"Against {first}: share of positive margins on the same texts, with {PERCENT} intervals", header, tuple(rows)
    )


def _paired_cells(found: PairedMargins) -> Row:
    left = (found.unpaired_first, found.unpaired_other)
    return (
        share(found.first),
        share(found.other),
        points(found.difference, "") + "*" * is_difference_shown(found),
        p_value(found.test.holm),
        share(found.agreement),
        cell(found.correlation, decimals),
        f"{found.only_first} / {found.only_other}",
        count(found.difference) + (f", not in both {left[0]} / {left[1]}" if any(left) else ""),
    )


def folders_table(result: ComparisonResult) -> Table | None:
    """Change of the mean of each further folder from that of the first, paired and unpaired; None with one folder."""
    found = [each for each in numbers_in(result) if each.moment == "change" and " against " in each.at["audit"]]
    cells: dict[tuple[str, str], dict[str, str]] = {}
    for each in found:
        if isinstance(each.found, Estimate):
            row = cells.setdefault((each.at["audit"], each.at["bias"]), {"n": count(each.found)})
            row[f"{MEASURES[each.measure].title}{', unpaired' * ('interval' in each.at)}"] = points(each.found, "")
    header = list(dict.fromkeys(name for row in cells.values() for name in row))
    rows = [
        (inert(f"{audit}: {bias}"), *(row.get(name, "") for name in header)) for (audit, bias), row in cells.items()
    ]
    caption = f"Change from the first folder, in percentage points, where people have a majority, with {PERCENT} intervals; unpaired: as if of different contrasts (√(p₁q₁/n + p₂q₂/n))"
    return Table(caption, ("", *header), tuple(rows)) if rows else None


def made_table(result: ComparisonResult) -> tuple[Table | None, dict[str, str]]:
    """All in which the audits were not made alike, the fewer of audits and facts across; and what is alike in all."""
    setups = {
        name: {what: scored_by(own) for what, own in setup(row).items()} | {"model": called(row.model)}
        for name, row in result.audits.items()
    }
    whats = dict.fromkeys(what for own in setups.values() for what in own)
    values = {what: [own.get(what, NONE) for own in setups.values()] for what in whats}
    alike = {what: own[0] for what, own in values.items() if len(set(own)) == 1}
    rows = [(what, *own) for what, own in values.items() if what not in alike]
    header: Row = ("", *labels(result).values())
    if len(header) > len(rows) + 1:
        header, *turned = zip(*[header, *rows], strict=True)
        rows = list(turned)
    return (Table("Where the audits were not made alike", header, tuple(rows)) if rows else None), alike


def comparison_document(result: ComparisonResult) -> Document:
    """One first screen: what can be said, and audits by biases; then ranks, pairs, quality by section, and how each was made."""
    step = after_comparison(result)
    biases = dict.fromkeys(bias for row in result.audits.values() for bias in row.biases)
    own = {bias: short for row in result.audits.values() for bias, short in row.short_names.items()}
    short = distinct({bias: own.get(bias, bias) for bias in biases})
    result = renamed(result, short)
    shown = _Tables(result)
    tables = {key: table for key, measure in MEASURES.items() if measure.caption and (table := shown.table(key))}
    first = [tables.pop(key) for key in of_place("comparison") if key in tables]
    paired, (made, alike) = paired_table(result), made_table(result)
    facts = {f"alike in all: {what}": value for what, value in alike.items()}
    names = shown.names
    limits = tuple(
        ("all" if len(of) == len(result.audits) else listed([names[name] for name in of]), note)
        for note, of in result.limits.items()
    )
    sections = [
        ReportSection("numbers-of-each", "Next to each other", (), tuple(first[:1])),
        ReportSection("against-people", "Further measures", (), (*first[1:], *filter(None, [folders_table(result)]))),
        ReportSection("figures", "Figures", plots=tuple(comparison_plots(shown)), aside=True),
        ReportSection("more", "Ranks, correlations, sections of quality", (), tuple(tables.values()), aside=True),
        ReportSection("paired", "Text by text", (), (paired,) if paired else (), aside=len(result.paired) > 1),
        replace(
            how_made(result.versions, (), {**facts, "seed": result.seed}), tables=(made,) if made else (), aside=True
        ),
        ReportSection("limits", "What limits these numbers", facts=limits, aside=True),
        meaning(*_terms([*of_place("comparison"), *tables])),
    ]
    shown_sections = tuple(each for each in sections if each.tables or each.facts or each.entries or each.plots)
    kinds = [
        n_of(n, kind.removesuffix("s"))
        for kind in get_args(Kind)
        if (n := sum(row.kinds == kind for row in result.audits.values()))
    ]
    title = f"Which of these? {listed(kinds)} compared"
    names = {**names, **{name: brief(called(name)) for name in result.failed}, **short}
    said = [Headline(said_of(each.name, names), said_of(each.text, names), each.kind) for each in result.findings]
    notes, findings = (tuple(each for each in said if (each.kind == "bad") == bad) for bad in (True, False))
    why = unclear(result)
    return Document(
        title, "", findings, shown_sections, headline=comparison_headline(result), n_asked=bool(why), glance=comparison_glance(result), glance_by_news=comparison_glance(result, by_news=True), notes=(*([Headline("", why)] if why else []), *notes),
        script="sortable.js", styles=("report.css", "sortable.css"), next=step,
    )  # fmt: skip


def _terms(keys: Sequence[str]) -> tuple[Entry, ...]:
    """What the numbers mean; measures by the words of their table."""
    known = [MEASURES[key] for key in keys if MEASURES[key].term]
    return (*(Entry(each.term, each.formula, each.meaning) for each in known), *_OWN_TERMS)


def comparison_csv(result: ComparisonResult) -> str:
    """Every number as a line: measure, moment, levels, value, interval and n; cells that a spreadsheet would compute are guarded."""
    lines = list(Numbers(each for each in numbers_in(result) if isinstance(each.found, Estimate)).rows())
    text = io.StringIO(newline="")
    writer = csv.DictWriter(text, list(lines[0]), lineterminator="\n")
    writer.writeheader()
    writer.writerows(
        {name: guarded(inert(each)) if isinstance(each, str) else each for name, each in line.items()} for line in lines
    )
    return text.getvalue()
