"""Tables of what data favour, shared by the page of `cda data` and the report of a training."""

from __future__ import annotations

import math
from collections.abc import Mapping

from cda.preferences.measure import WORDS
from cda.report.numbers import NOT_ESTIMATED, cell, count, decimals, p_equals, p_value, percent, share
from cda.report.tables import Row, Table, table
from cda.results.base import Estimate, Missing, Test
from cda.results.data import ByColumn, DataResult, GroupBias
from cda.results.effects import Contingency
from cda.results.odds import ChoiceOdds, LogOdds

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
