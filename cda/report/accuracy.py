"""Accuracy by section as tables and sentences, of `cda quality` or of an audit."""

from __future__ import annotations

from collections.abc import Sequence

from cda.report.numbers import MINUS, count, p_value
from cda.report.scoring import ONE_ORDER, panel_line, place, told
from cda.report.tables import Table
from cda.results.base import Estimate
from cda.results.benchmarks import Accuracy, AccuracyGroup, AccuracyShift, Asked, QualityResult, SetQuality
from cda.results.facts import JudgeFacts, PanelFacts, RewardModelFacts, Scorer

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


def set_tables(one: SetQuality) -> list[Table]:
    """Sections and overall of a set, its subsets where they are others, and RM-Bench's matrix of each scoring."""
    found = [_full_table("Sections, with 95% intervals and ± 1 standard error", one.shown, one)]
    if [group.name for group in one.subsets] != [group.name for group in one.sections]:
        caption = "Subsets, with 95% intervals and ± 1 standard error"
        found.append(_full_table(caption, one.subsets, one))
    return found + [_matrix(one.cells, label) for label in one.labels if one.cells]


def _full_table(caption: str, groups: Sequence[AccuracyGroup], one: SetQuality) -> Table:
    header = ["group", *one.labels, "n", "ties"]
    if one.n_expected:
        header.append("in the benchmark")
    if len(one.labels) > 1:
        header += ["change (points)", "flag", "p", "p (Holm)"]
    rows = []
    for group in groups:
        scores = list(group.scores.values())
        cells = [group.name, *map(_full, scores), count(scores[0].estimate)]
        cells.append(" / ".join(str(score.n_ties) for score in scores))
        if one.n_expected:
            cells.append(str(one.n_expected.get(group.name, "")))
        if (shift := group.shift) is not None:
            change = f"{tenth_points(shift.estimate)} ± {tenths(shift.standard_error)}"
            cells += [change, flag(shift), p_value(shift.p_value), holm_cell(shift)]
        rows.append(tuple(cells))
    return Table(caption, tuple(header), tuple(rows))


def _matrix(cells: Sequence[AccuracyGroup], label: str) -> Table:
    """RM-Bench's style matrix of one scoring: chosen style down, rejected style across."""
    styles = ("concise", "detailed", "detailed, Markdown")
    by_name = {cell.name: cell.scores[label] for cell in cells}
    rows = [
        (f"chosen {style}", *(_full(by_name[f"{i} over {j}"]) for j in (1, 2, 3))) for i, style in enumerate(styles, 1)
    ]
    return Table(f"Style matrix, {label}", ("", *(f"rejected {style}" for style in styles)), tuple(rows))


def set_notes(one: SetQuality, unit: str) -> list[str]:
    """What was left out of a set, how ties count (by the margins' unit), and whether it is the whole benchmark."""
    notes = []
    if reasons := one.exclusions.reasons:
        parts = []
        for reason, n in reasons.items():
            rows = one.left_out_rows[reason]
            more = ", …" if n > len(rows) else ""
            parts.append(f"{n} {reason} (row {', '.join(map(str, rows))}{more})")
        notes.append(f"Left out {sum(reasons.values())} of {one.exclusions.seen} rows: {'; '.join(parts)}.")
    if one.unread:
        why = "; ".join(f"{n} {reason}" for reason, n in one.unread_reasons.items())
        notes.append(f"Not compared, {one.unread} of {one.n_items + one.unread} items: {why}.")
    ties = {label: score.n_ties for label, score in one.overall.scores.items()}
    if any(ties.values()):
        rule = "count half" if unit == "preference" else "count as wrong, as in RewardBench's script"
        rule = "share the point among the highest" if one.format == "rewardbench-2" else rule
        shown = ", ".join(f"{n} {label}" for label, n in ties.items())
        notes.append(f"Ties (margin exactly 0) {rule}: {shown}.")
    expected = sum(one.n_expected.values())
    if expected and expected != one.n_items:
        notes.append(f"The benchmark has {expected} pairs, here {one.n_items}: not the leaderboard's number.")
    return notes


def how_scored(result: QualityResult) -> list[str]:
    """A sentence on each scoring, and what was noticed about its model."""
    lines = []
    for one in result.scorings:
        lines.append(f"{one.label}: {with_adapter(one)}, {_asked(one.facts)}.")
        lines += [f"{one.label}: {note}" for note in one.facts.notes]
    return lines


def with_adapter(one: Asked) -> str:
    """A model's name, with its adapter and dose."""
    return f"{one.model} with {one.adapter} at dose {one.dose:g}" if one.adapter else one.model


def _asked(facts: Scorer) -> str:
    if isinstance(facts, PanelFacts):
        panel = panel_line(len(facts.judges), facts.comparisons, facts.unread, facts.partly_judged)
        return "; ".join([panel, *(f"{name}: {_judged(one)}" for name, one in facts.judges.items())])
    return _judged(facts) if isinstance(facts, JudgeFacts) else _rewarded(facts)


def _judged(facts: JudgeFacts) -> str:
    """How an LLM judge answered, and whether the place of a text swayed it."""
    why = ", ".join(f"{n} × {reason}" for reason, n in facts.reasons.items())
    unread = f"; answers that could not be read: {why}" if why else ""
    prompted = told(facts.prompt, facts.verdict_reasons, facts.answered_by)
    swayed = place(facts.position_bias, facts.position).replace("-", MINUS) + prompted + unread
    if facts.orders == "one":
        return f"{facts.comparisons} comparisons in {ONE_ORDER}: {facts.unread} without a verdict{swayed}"
    return (
        f"{facts.comparisons} comparisons, each in both orders: {facts.unread} without a verdict, "
        f"{facts.half_read} with one in one order only, {facts.flipped} followed the place{swayed}"
    )


def _rewarded(facts: RewardModelFacts) -> str:
    """How rewards came about: precision, cut and dropped texts."""
    how = f"{facts.precision}, {facts.form}" if facts.form is not None else facts.how
    where = f" at {facts.max_length_tokens} tokens" if facts.max_length_tokens is not None else ""
    dropped = f", {facts.dropped} too long and left out" if facts.dropped else ""
    return f"{how}, {facts.truncated} of {facts.texts} texts cut{where}{dropped}"


def n_of(group: AccuracyGroup) -> int:
    """Items of a group."""
    return next(iter(group.scores.values())).estimate.n


def _full(score: Accuracy) -> str:
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
    """What FLAGS explains: fell*, fell, kept or nothing."""
    if shift.fell:
        return "fell*" if shift.excludes_0 else "fell"
    return "kept" if shift.rules_out_fall else ""


def holm_cell(shift: AccuracyShift) -> str:
    """Holm's p of a section; empty where it is none."""
    return "" if shift.p_holm is None else p_value(shift.p_holm)
