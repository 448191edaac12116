"""What `cda quality` found: a terminal table and a Markdown page."""

from __future__ import annotations

import textwrap

from cda.report.markdown import escaped, markdown_table
from cda.report.numbers import clipped, inert
from cda.report.quality_tables import (
    FLAGS,
    FORMATS,
    MEANINGS,
    flag,
    holm_cell,
    how_scored,
    n_of,
    set_notes,
    set_tables,
    tenth_points,
    tenths,
)
from cda.report.tables import Table
from cda.report.terminal import few_prompts, plain_table
from cda.results.benchmarks import Accuracy, QualityResult, SetQuality

MAX_COLUMNS = 100
_MAX_NAME = 14


def quality_summary(result: QualityResult) -> str:
    """Sections and overall of every set, flags and what they mean: at most 100 columns."""
    parts = []
    for one in result.sets:
        table = _brief_table(one)
        said = [*set_notes(one, result.scorings[0].unit), few_prompts(_prompts_of(one))]
        notes = [line for note in said for line in textwrap.wrap(inert(note), MAX_COLUMNS)]
        parts.append("\n".join([*(clipped(line, MAX_COLUMNS) for line in plain_table(table).splitlines()), *notes]))
    end = [*how_scored(result), *([FLAGS] if len(result.labels) > 1 else [])]
    parts.append("\n".join(line for text in end for line in textwrap.wrap(inert(text), MAX_COLUMNS)))
    return "\n\n".join(parts)


def _prompts_of(one: SetQuality) -> dict[str, int]:
    """Prompts behind each section that is shown."""
    return {group.name: min(score.estimate.n_prompts for score in group.scores.values()) for group in one.shown}


def quality_markdown(result: QualityResult) -> str:
    """The whole result as a Markdown page: sections, subsets, RM-Bench's matrix, rows left out."""
    lines = ["# Quality", "", *(f"- {escaped(line)}" for line in how_scored(result)), ""]
    if len(result.labels) > 1:
        lines += [escaped(FLAGS), ""]
    for one in result.sets:
        lines += [f"## {escaped(one.name)}", "", escaped(MEANINGS[one.format]), ""]
        for table in set_tables(one):
            lines += markdown_table(table)
        lines += [f"- {escaped(note)}" for note in set_notes(one, result.scorings[0].unit)]
        lines.append("")
    return "\n".join(lines).strip() + "\n"


def _brief_table(one: SetQuality) -> Table:
    two = len(one.labels) > 1
    caption = f"{one.name} ({FORMATS[one.format]}): accuracy in %, ±1 SE [95% interval]"
    header = ("section", "n", *(label if two else "accuracy" for label in one.labels))
    if two:
        header = (*header, "change (points)", "flag", "p Holm")
    rows = []
    for group in one.shown:
        cells = [
            clipped(inert(group.name), _MAX_NAME),
            str(n_of(group)),
            *map(_brief, group.scores.values()),
        ]
        if (shift := group.shift) is not None:
            cells += [tenth_points(shift.estimate), flag(shift), holm_cell(shift)]
        rows.append(tuple(cells))
    return Table(clipped(inert(caption), MAX_COLUMNS), header, tuple(rows))


def _brief(score: Accuracy) -> str:
    low, high = (round(100 * end) for end in (score.estimate.low, score.estimate.high))
    return f"{tenths(score.estimate.value)}±{tenths(score.standard_error)} [{low}, {high}]"
