"""What data favour in words, tables and figures: terminal, Markdown, CSV, page."""

from __future__ import annotations

import csv
import io
import math
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING

from cda.inert import guarded
from cda.preferences.measure import WORDS
from cda.report import plots
from cda.report.document import Document
from cda.report.numbers import (
    NOT_ESTIMATED,
    cell,
    clipped,
    count,
    counted,
    decimals,
    listed,
    p_equals,
    p_value,
    percent,
    plain,
    share,
)
from cda.report.page import Entry, Headline, ReportSection
from cda.report.plots import Mark, Plot, PlotRow, Scale, draw_rows, named, rows_height, slugs
from cda.report.tables import Row, Table, table
from cda.results.base import Estimate, Missing, Test
from cda.results.data import ByColumn, DataBias, DataResult, GroupBias, Regression
from cda.results.effects import ChoiceOdds, Contingency, LogOdds

if TYPE_CHECKING:
    from matplotlib.axes import Axes


_PER = {"having it": "having it", "doubling of the words": "each doubling of the words"}


def odds(found: LogOdds | Missing) -> str:
    """Odds to 1 with their interval, such as `2.3 [1.4, 3.8]`."""
    if isinstance(found, Missing):
        return NOT_ESTIMATED
    value, low, high = (_times(end) for end in (found.estimate.value, found.estimate.low, found.estimate.high))
    return f"{value} [{low}, {high}]"


def _times(log_odds: float) -> str:
    """Odds to two digits that count; more if these would hide on which side of 1 they lie."""
    value = math.exp(min(log_odds, 700.0))
    digits = max(0, 1 - math.floor(math.log10(value))) if value > 0 else 2
    while digits < 6 and log_odds and float(f"{value:.{digits}f}") == 1:
        digits += 1
    return f"{value:,.{min(digits, 6)}f}"


def _both(each: ChoiceOdds) -> tuple[str, str]:
    """Crude and adjusted; a reason is said once."""
    if isinstance(each.crude, Missing):
        return each.crude.reason, odds(each.adjusted)
    return odds(each.crude), each.adjusted.reason if isinstance(each.adjusted, Missing) else odds(each.adjusted)


def odds_table(found: Mapping[str, ChoiceOdds | Missing]) -> Table | None:
    """Odds crude and adjusted of every bias that has them."""
    rows: list[Row] = []
    for name, each in found.items():
        if isinstance(each, Missing):
            continue
        adjusted, n = each.adjusted, each.adjusted if isinstance(each.adjusted, LogOdds) else each.crude
        p = cell(adjusted if isinstance(adjusted, Missing) else adjusted.test.p_value, p_value, "")
        rows.append((name, _PER[each.per], *_both(each), p, _count(n)))
    header = ("bias", "for", "odds, crude", "odds, adjusted", "p (adjusted)", "pairs whose sides differ in it")
    return table(
        "Odds that the side with the bias is the chosen one, with 95% intervals; 1: the choice does not mind it",
        header,
        rows,
    )


def _count(found: LogOdds | Missing) -> str:
    return "" if isinstance(found, Missing) else count(found.estimate)


def data_tables(result: DataResult) -> list[Table]:
    """Counts, what is chosen, odds; then a table for each column and bias."""
    return [
        _counts_table(result),
        _choice_table(result),
        _odds_table(result),
        *(_by_table(by, result) for by in result.by),
    ]


def _counts_table(result: DataResult) -> Table:
    rows = []
    for bias in result.biases:
        match bias.contingency:
            case Contingency() as found:
                unknown = found.exclusions.dropped
                cells = (found.both, found.only_chosen, found.only_rejected, found.neither, unknown)
                rows.append((bias.name, bias.labelled_by, *map(str, cells)))
            case Missing():
                known = isinstance(bias.on_one_side, Estimate)
                rows.append((bias.name, bias.labelled_by, "none on one side" if known else "no labels", "", "", "", ""))
    header = ("bias", "labelled by", "both sides", "only chosen", "only rejected", "neither", "label unknown")
    return Table(f"Sides that have each bias, of {result.n_pairs} pairs", header, tuple(rows))


def _choice_table(result: DataResult) -> Table:
    rows = []
    for bias in result.biases:
        chosen = bias.contingency if isinstance(bias.contingency, Missing) else bias.contingency.selection_rate
        rows.append(
            (
                bias.name, cell(bias.on_one_side, share), cell(chosen, share), cell(chosen, count, ""), *_p(bias.test),
                cell(bias.rule_accuracy, share), cell(bias.r_train, decimals),
            )
        )  # fmt: skip
    header = (
        "bias", "pairs with it on one side", "chosen there", "n", "p", "p (Holm)", "right if always taken", "r with being chosen",
    )  # fmt: skip
    return Table("What the choices say of each bias, with 95% intervals", header, tuple(rows))


def _p(test: Test | Missing) -> tuple[str, str]:
    return ("", "") if isinstance(test, Missing) else (p_value(test.p_value), p_value(test.holm))


def _odds_table(result: DataResult) -> Table:
    rows = []
    for name, each in odds_terms(result).items():
        tests = ("", "") if isinstance(each.adjusted, Missing) else _p(each.adjusted.test)
        rows.append((name, _PER[each.per], *_both(each), *tests, _count(each.adjusted)))
    header = ("bias", "for", "odds, crude", "odds, adjusted", "p", "p (Holm)", "n")
    return Table(
        "Odds that the side with the bias is the chosen one, crude and adjusted for the others and the length; p of the adjusted",
        header, tuple(rows),
    )  # fmt: skip


def odds_terms(result: DataResult) -> dict[str, ChoiceOdds]:
    """Odds of every bias, and of the length if no bias is it."""
    found = {bias.name: bias.odds for bias in result.biases if isinstance(bias.odds, ChoiceOdds)}
    if isinstance(result.words, ChoiceOdds) and all(each.per == "having it" for each in found.values()):
        found[WORDS] = result.words
    return found


def _by_table(by: ByColumn, result: DataResult) -> Table:
    """A row for each group; correlations and further counts are in the CSV and JSON files."""
    names = [bias.name for bias in result.biases]
    rows: list[Row] = [
        (
            group.value if group.n_values == 1 else f"{group.value}: {group.n_values}", str(group.n_pairs),
            *(_of_group(group.biases[name]) for name in names),
        )
        for group in by.groups
    ]  # fmt: skip
    rows.append(("p that all are alike (Holm)", "", *(_differ(by.differ[name]) for name in names)))
    return Table(
        f"Chosen where one side has the bias, by {by.column}, with 95% intervals; p (Holm over all cells) where it is below 0.05",
        (by.column, "pairs", *names), tuple(rows),
    )  # fmt: skip


def _of_group(found: GroupBias) -> str:
    if isinstance(found.contingency, Missing):
        return "none on one side"
    chosen = found.contingency.selection_rate
    shown = isinstance(found.test, Test) and found.test.holm < 0.05
    p = f", p {p_equals(found.test.holm)}" if shown and isinstance(found.test, Test) else ""
    return f"{share(chosen)} of {count(chosen)}{p}"


def _differ(test: Test | Missing) -> str:
    return "not tested" if isinstance(test, Missing) else p_value(test.holm)


def share_of(estimate: Estimate | Missing) -> str:
    """A share without its interval, for running text."""
    return cell(estimate, lambda found: percent(found.value))


_MARKS = (Mark("crude", plots.BEFORE, "o", filled=False), Mark("adjusted", plots.AFTER, "o"))
_MOST_TICKS = 7
_ONE = (Mark("chosen", plots.AFTER, "o"),)
_TEXT = (
    "A reward model learns what the choices go along with. Where one side of a pair has a bias and the other has not, how often is "
    "it the chosen one? 50% teaches nothing of it; far from 50% teaches it, whether people meant it or not. These numbers describe the "
    "data; they are not effects of the bias."
)
_ODDS = (
    "Biases go along with each other and with length. The adjusted odds compare pairs that are alike in all of these: odds of 2 say "
    "that, of three such pairs, the side with the bias is chosen in two. Odds that shrink towards 1 when adjusted were another's."
)
_TERMS = (
    Entry("chosen there", "only chosen / (only chosen + only rejected)", "Share of the pairs with the bias on one side in which that side is the chosen one; 95% by Wilson, by prompt."),
    Entry("r with being chosen", "Σ d / √(n · Σ d²), d = chosen − rejected", "Correlation (point-biserial) of the bias with being chosen, each pair in both orders; of a measured bias, of its feature (Bharadwaj et al. 2025, section 4)."),
    Entry("right if always taken", "(only chosen + ½ · (both + neither)) / n", "How often a model that prefers the side with the bias and else tosses a coin agrees with the data."),
    Entry("odds", "P(side with it chosen) / P(other side chosen) = exp(β)", "From one logistic regression of choices on differences between the sides, without an intercept, as which side stands first means nothing. Errors are clustered by prompt (Liang and Zeger 1986), intervals by Student's t."),
    Entry("p", "exact sign-flip test over prompts", "Of as many pairs with it on either side (McNemar's where every prompt occurs once); of odds, clustered t. Holm's is adjusted over the biases, or over biases and groups."),
)  # fmt: skip


def data_document(result: DataResult) -> Document:
    """A sentence for each bias, the tables, and how it was made."""
    findings, tables, sentences = tuple(_headlines(result)), data_tables(result), tuple(data_sentences(result))
    return Document(
        f"What the data favour: {clipped(result.pairs, 120)}",
        f"{result.n_pairs} preference pairs of {result.n_prompts} prompts; no reward model is asked.",
        findings, tuple(_sections(result)), (findings, *tables, sentences), (*findings, *tables, sentences),
        f"What the data favour: {result.pairs}",
    )  # fmt: skip


def data_sentences(result: DataResult) -> list[str]:
    """Notes on what was read, left out and adjusted for."""
    lines = [f"{result.n_pairs} pairs of {result.n_prompts} prompts, from {result.pairs}."]
    if result.excluded.dropped:
        lines.append(f"Left out of {result.excluded.seen} rows: {counted(result.excluded.reasons)}.")
    if result.not_drawn:
        lines.append(f"{result.not_drawn} further pairs were not drawn (--limit).")
    lines.append(f"Labels: {'; '.join(f'{bias.name} by {bias.labelled_by}' for bias in result.biases)}.")
    if result.llm is None and any(bias.labelled_by.startswith("measured") for bias in result.biases):
        lines.append(
            "A measured feature stands for each bias that it labels: it sees words and counts, not meaning. An LLM labels by the "
            "bias's question: llm.model=NAME."
        )
    lines.append(_regression_sentence(result.regression))
    if isinstance(result.words, Missing):
        lines.append(f"Nothing is adjusted for length: {result.words.reason}.")
    return lines


def _regression_sentence(found: Regression | Missing) -> str:
    if isinstance(found, Missing):
        return f"No odds are adjusted: {found.reason}."
    if len(found.terms) < 2:
        return f"No odds are adjusted: of all terms, {listed(found.terms) if found.terms else 'none'} can be estimated."
    unknown = f" {found.unlabelled} pairs with an unknown label are not in it." if found.unlabelled else ""
    return f"The adjusted odds are of one regression on {found.n} pairs with the terms {listed(found.terms)}.{unknown}"


def _headlines(result: DataResult) -> Iterator[Headline]:
    """Each bias: how often the side with it is chosen, and its odds."""
    for bias in result.biases:
        if isinstance(bias.contingency, Missing):
            yield Headline(f"{bias.name}:", f"{bias.contingency.reason}.")
            continue
        chosen = bias.contingency.selection_rate
        text = f"the side with it is chosen in {share(chosen)} of the {count(chosen)} pairs that have it on one side"
        text += f" ({share_of(bias.on_one_side)} of all pairs)"
        yield Headline(f"{bias.name}:", f"{text}{_odds_clause(bias)}. {_verdict(bias)}")


def _odds_clause(bias: DataBias) -> str:
    if isinstance(bias.odds, Missing) or isinstance(bias.odds.adjusted, Missing):
        return ""
    per = "" if bias.odds.per == "having it" else " for each doubling of the words"
    return f"; odds {odds(bias.odds.crude)}{per}, adjusted {odds(bias.odds.adjusted)}"


def _verdict(bias: DataBias) -> str:
    """A sentence on what a model can learn of it, by Holm's p of the adjusted odds; of the exact test if there are none."""
    adjusted = bias.odds if isinstance(bias.odds, Missing) else bias.odds.adjusted
    if isinstance(adjusted, LogOdds) and not isinstance(bias.odds, Missing):
        test, for_it, opening = (
            adjusted.test,
            adjusted.estimate.value > 0,
            f"{_equal(bias.odds.adjusted_for)} being equal, ",
        )
    elif isinstance(bias.test, Test) and isinstance(bias.contingency, Contingency):
        test, for_it, opening = bias.test, bias.contingency.selection_rate.value > 0.5, ""
    else:
        return "Whether the choices mind it is not known."
    taught = "no preference is shown"
    if test.holm < 0.05:
        taught = f"the data teach {'a preference for' if for_it else 'an aversion to'} it"
    sentence = f"{opening}{taught} (Holm p {p_equals(test.holm)})."
    return sentence[0].upper() + sentence[1:]


def _equal(adjusted_for: Sequence[str]) -> str:
    """What is held equal, in words."""
    if tuple(adjusted_for) == (WORDS,):
        return "length"
    return "others and length" if WORDS in adjusted_for else "others"


def _sections(result: DataResult) -> Iterator[ReportSection]:
    counts, choice, odds_rows, *by_tables = data_tables(result)
    yield ReportSection("choices", "What is chosen", (_TEXT,), (choice, counts), tuple(_choice_plot(result)))
    yield ReportSection("odds", "Each bias next to the others", (_ODDS,), (odds_rows,), tuple(_odds_plot(result)))
    names = slugs(by.column for by in result.by)
    for by, found in zip(result.by, by_tables, strict=True):
        title, own = f"By {clipped(by.column, 60)}", tuple(_by_plots(by, result, names[by.column]))
        yield ReportSection(f"by-{names[by.column]}", title, (_differ_text(by),), (found,), own)
    packages = ", ".join(f"{name} {version}" for name, version in result.versions.items())
    asked = () if result.llm is None else (("LLM", f"{result.llm.model}, prompt {result.prompt}"),)
    facts = (*asked, ("seed", str(result.seed)), ("split", result.split), ("versions", packages))
    yield ReportSection("made", "How it was made", tuple(data_sentences(result)), facts=facts)
    yield ReportSection("meaning", "What the numbers mean", entries=_TERMS)


def _differ_text(by: ByColumn) -> str:
    shown = [name for name, test in by.differ.items() if isinstance(test, Test) and test.holm < 0.05]
    small = next((group.n_values for group in by.groups if group.n_values > 1), 0)
    pooled = f" {small} values with few prompts, or beyond the largest, are put together." if small else ""
    if not shown:
        return f"That the choices mind a bias differently by {by.column} is not shown for any (permutation of whole prompts, Holm).{pooled}"
    return f"The choices mind {listed(shown)} differently by {by.column} (permutation of whole prompts, Holm p < 0.05).{pooled}"


def _choice_plot(result: DataResult) -> Iterator[Plot]:
    rows = [PlotRow(named(bias.name), (_selected(bias),)) for bias in result.biases]
    if any(row.estimates[0] for row in rows):
        words = " ".join(f"{row.label}: {cell(row.estimates[0], share, '')}." for row in rows if row.estimates[0])
        yield Plot("choices", "How often the side with the bias is the chosen one, where the other side has it not",
                   words, partial(draw_rows, rows=rows, marks=_ONE, scale=_CHOSEN), rows_height(len(rows), 1))  # fmt: skip


_CHOSEN = Scale("chosen, % of pairs with it on one side", is_share=True, limits=plots.SHARE_LIMITS, reference=50)


def _selected(bias: DataBias | GroupBias) -> Estimate | None:
    return None if isinstance(bias.contingency, Missing) else bias.contingency.selection_rate


def _odds_plot(result: DataResult) -> Iterator[Plot]:
    found = odds_terms(result)
    rows = [
        PlotRow(
            named(name) + ("" if each.per == "having it" else ", per doubling"),
            tuple(side.estimate if isinstance(side, LogOdds) else None for side in (each.crude, each.adjusted)),
        )
        for name, each in found.items()
    ]
    if any(any(row.estimates) for row in rows):
        words = " ".join(
            f"{name}: crude {odds(each.crude)}, adjusted {odds(each.adjusted)}." for name, each in found.items()
        )
        yield Plot("odds", "Odds that the side with the bias is chosen: alone, and next to the others and the length", words,
                   partial(_draw_odds, rows), rows_height(len(rows), 2))  # fmt: skip


def _draw_odds(rows: Sequence[PlotRow], axes: Axes) -> None:
    """Log odds, named by the odds that they are."""
    draw_rows(axes, rows, _MARKS, Scale("odds that the side with it is chosen", reference=0.0))
    low, high = axes.get_xlim()
    step = math.log(2) * max(1, math.ceil((high - low) / (_MOST_TICKS * math.log(2))))
    ticks = [at * step for at in range(math.ceil(low / step), math.floor(high / step) + 1)]
    axes.set_xticks(ticks, [plain(math.exp(tick), 2) for tick in ticks])


def _by_plots(by: ByColumn, result: DataResult, slug: str) -> Iterator[Plot]:
    for bias, own in slugs(bias.name for bias in result.biases).items():
        rows = [PlotRow(named(group.value), (_selected(group.biases[bias]),)) for group in by.groups]
        if any(row.estimates[0] for row in rows):
            words = " ".join(f"{row.label}: {cell(row.estimates[0], share, '')}." for row in rows if row.estimates[0])
            yield Plot(f"by-{slug}-{own}", f"{named(bias, 40)}: chosen where one side has it, by {named(by.column, 40)}",
                       words, partial(draw_rows, rows=rows, marks=_ONE, scale=_CHOSEN), rows_height(len(rows), 1))  # fmt: skip


_ENDS = ("value", "low", "high")
_CSV = (
    "column", "group", "bias", "labelled_by", "n_pairs", "n_prompts", "both", "only_chosen", "only_rejected", "neither", "label_unknown",
    *(f"{name}_{end}" for name in ("selection_rate", "r_train", "log_odds", "log_odds_adjusted") for end in _ENDS),
    "p", "p_holm", "p_adjusted", "p_adjusted_holm",
)  # fmt: skip


def data_csv(result: DataResult) -> str:
    """A row for each bias, and for each bias in each group of a column; empty cells have no value. No spreadsheet runs a cell."""
    out = io.StringIO(newline="")
    table = csv.writer(out, lineterminator="\n")
    table.writerow(_CSV)
    for bias in result.biases:
        size = result.n_pairs, result.n_prompts
        each = (None, None) if isinstance(bias.odds, Missing) else (bias.odds.crude, bias.odds.adjusted)
        adjusted = each[1].test if isinstance(each[1], LogOdds) else None
        table.writerow(_csv_row(("", "", bias.name, bias.labelled_by), size, bias, each, adjusted))
    for by in result.by:
        for group in by.groups:
            for bias in result.biases:
                names = by.column, group.value, bias.name, bias.labelled_by
                own = group.biases[bias.name]
                table.writerow(_csv_row(names, (group.n_pairs, group.n_prompts), own, (None, None), None))
    return out.getvalue()


def _csv_row(
    names: tuple[str, ...],
    size: tuple[int, int],
    found: DataBias | GroupBias,
    log_odds: tuple[LogOdds | Missing | None, LogOdds | Missing | None],
    adjusted: Test | None,
) -> list[object]:
    table = None if isinstance(found.contingency, Missing) else found.contingency
    counts: tuple[int | None, ...] = (None,) * 5
    if table is not None:
        counts = table.both, table.only_chosen, table.only_rejected, table.neither, table.exclusions.dropped
    estimates = [table and table.selection_rate, found.r_train]
    estimates += [each.estimate if isinstance(each, LogOdds) else None for each in log_odds]
    ends = [getattr(each, end) if isinstance(each, Estimate) else None for each in estimates for end in _ENDS]
    tests = [found.test, adjusted]
    p = [value for test in tests for value in ((test.p_value, test.p_holm) if isinstance(test, Test) else (None, None))]
    return [*map(guarded, names), *size, *counts, *ends, *p]
