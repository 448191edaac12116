"""Accuracy by section as tables and sentences, of `cda quality` or of an audit."""

from __future__ import annotations

from collections.abc import Sequence

from cda.report.numbers import MINUS, cell, count, p_value
from cda.report.scoring import asked_line
from cda.report.tables import Table
from cda.results.base import Estimate
from cda.results.benchmarks import Accuracy, AccuracyGroup, AccuracyShift, AskedModel, QualityResult, SetQuality

FORMATS = {
    "rewardbench": "RewardBench",
    "rewardbench-2": "RewardBench 2",
    "rm-bench": "RM-Bench",
    "llmbar": "LLMBar",
    "pairs": "preference pairs",
}
MEANINGS = {
    "rewardbench": "Section: mean of its subsets by their pairs in the benchmark (math-prm weighs as much as all code). Overall: "
    "mean of the sections; the leaderboard's prior sets are left out.",
    "rewardbench-2": "Right where the chosen response has the highest reward of all; Ties by its own rule. Overall: mean of the "
    "subsets.",
    "rm-bench": "Easy, normal, hard: the chosen response is in richer, the same or plainer style than the rejected one. Domains "
    "weigh alike.",
    "llmbar": "Right where the better output has the higher reward.",
    "pairs": "Right where the chosen response has the higher reward. Overall: all pairs.",
}
FLAGS = (
    "fell: down by more than 1 point; fell*: and the 95% interval lies below 0. kept: the interval lies above −1 point. "
    "Holm over the sections of all files."
)


def set_tables(result: SetQuality) -> list[Table]:
    """Sections and overall of a set, its subsets if they differ from these, and RM-Bench's matrix of each scoring."""
    tables = [_group_table("Sections", result.shown, result)]
    if [group.name for group in result.subsets] != [group.name for group in result.sections]:
        tables.append(_group_table("Subsets", result.subsets, result))
    return tables + [_style_matrix(result.cells, label) for label in result.labels if result.cells]


def _group_table(what: str, groups: Sequence[AccuracyGroup], result: SetQuality) -> Table:
    header = ["group", *result.labels, "n", "ties"]
    header += ["in the benchmark"] if result.n_expected else []
    header += ["change (points)", "flag", "p", "p (Holm)"] if len(result.labels) > 1 else []
    rows = []
    for group in groups:
        scores = group.scores.values()
        cells = [group.name, *map(_with_error, scores), count(next(iter(scores)).estimate)]
        cells.append(" / ".join(str(score.n_ties) for score in scores))
        cells += [str(result.n_expected.get(group.name, ""))] if result.n_expected else []
        if (shift := group.shift) is not None:
            change = f"{tenth_points(shift.estimate)} ± {tenths(shift.standard_error)}"
            cells += [change, flag(shift), p_value(shift.p_value), cell(shift.p_holm, p_value)]
        rows.append(tuple(cells))
    return Table(f"{what}, with 95% intervals and ± 1 standard error", tuple(header), tuple(rows))


def _style_matrix(cells: Sequence[AccuracyGroup], label: str) -> Table:
    """RM-Bench's matrix of one scoring: chosen style down, rejected style across."""
    styles = ("concise", "detailed", "detailed, Markdown")
    known = {cell.name: _with_error(cell.scores[label]) for cell in cells}
    rows = tuple((f"chosen {style}", *(known[f"{i} over {j}"] for j in (1, 2, 3))) for i, style in enumerate(styles, 1))
    return Table(f"Style matrix, {label}", ("", *(f"rejected {style}" for style in styles)), rows)


def set_notes(result: SetQuality, unit: str) -> list[str]:
    """Sentences on a set's exclusions, its rule for ties (by the margins' unit), and its share of the benchmark."""
    notes = []
    if reasons := result.exclusions.reasons:
        parts = []
        for reason, n in reasons.items():
            rows = result.left_out_rows[reason]
            parts.append(f"{n} {reason} (row {', '.join(map(str, rows))}{', …' if n > len(rows) else ''})")
        notes.append(f"Left out {sum(reasons.values())} of {result.exclusions.seen} rows: {'; '.join(parts)}.")
    if result.unread:
        why = "; ".join(f"{n} {reason}" for reason, n in result.unread_reasons.items())
        notes.append(f"Not compared, {result.unread} of {result.n_items + result.unread} items: {why}.")
    ties = {label: score.n_ties for label, score in result.overall.scores.items()}
    if any(ties.values()):
        rule = "count half" if unit == "preference" else "count as wrong, as in RewardBench's script"
        rule = "share the point among the highest" if result.format == "rewardbench-2" else rule
        notes.append(f"Ties (margin exactly 0) {rule}: {', '.join(f'{n} {label}' for label, n in ties.items())}.")
    expected = sum(result.n_expected.values())
    if expected and expected != result.n_items:
        notes.append(f"The benchmark has {expected} pairs, here {result.n_items}: not the leaderboard's number.")
    return notes


def scoring_sentences(result: QualityResult) -> list[str]:
    """A sentence on each scoring, and observations about its model."""
    lines = []
    for scoring in result.scorings:
        lines.append(f"{scoring.label}: {model_label(scoring)}, {asked_line(scoring.facts)}.")
        lines += [f"{scoring.label}: {note}" for note in scoring.facts.notes]
    return lines


def model_label(scoring: AskedModel) -> str:
    """A model's name, with its adapter and dose."""
    adapter = f" with {scoring.adapter} at dose {scoring.dose:g}" if scoring.adapter else ""
    return f"{scoring.model}{adapter}"


def _with_error(score: Accuracy) -> str:
    return f"{accuracy(score.estimate)} ± {tenths(score.standard_error)}"


def accuracy(estimate: Estimate) -> str:
    """An accuracy with one decimal, with its interval."""
    return f"{tenths(estimate.value)}% [{tenths(estimate.low)}, {tenths(estimate.high)}]"


def tenth_points(estimate: Estimate) -> str:
    """A change in points with one decimal, with its interval."""
    sign = "+" if estimate.value > 0 else ""
    return f"{sign}{tenths(estimate.value)} [{tenths(estimate.low)}, {tenths(estimate.high)}]"


def tenths(value: float) -> str:
    """Hundredths with one decimal, as 84.1: a fall of 1 point has to be seen."""
    text = f"{100 * value:.1f}".replace("-", MINUS)
    return "0.0" if text == f"{MINUS}0.0" else text


def flag(shift: AccuracyShift) -> str:
    """`fell*`, `fell`, `kept` or nothing, as FLAGS explains."""
    if shift.fell:
        return "fell*" if shift.excludes_0 else "fell"
    return "kept" if shift.rules_out_fall else ""
