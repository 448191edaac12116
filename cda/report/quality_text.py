"""What `cda quality` found: a terminal table and a Markdown page, from its JSON alone."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence

from cda.report.markdown import escaped, markdown_table
from cda.report.numbers import Json, clipped, inert
from cda.report.quality_tables import (
    FLAGS,
    FORMATS,
    MEANINGS,
    compares_two,
    flag,
    holm_cell,
    how_scored,
    labels_of,
    n_of,
    set_notes,
    set_tables,
    shown_groups,
    tenth_points,
    tenths,
)
from cda.report.tables import Table
from cda.report.terminal import few_prompts, plain_table

MAX_COLUMNS = 100
_MAX_NAME = 14


def quality_summary(result: Json) -> str:
    """Sections and overall of every set, flags and what they mean: at most 100 columns."""
    parts = []
    for one in result["sets"]:
        table = _brief_table(one, shown_groups(one), result)
        said = [*set_notes(one, result), few_prompts(_prompts_of(one))]
        notes = [line for note in said for line in textwrap.wrap(inert(note), MAX_COLUMNS)]
        parts.append("\n".join([*(clipped(line, MAX_COLUMNS) for line in plain_table(table).splitlines()), *notes]))
    end = [*how_scored(result), *([FLAGS] if compares_two(result) else [])]
    parts.append("\n".join(line for text in end for line in textwrap.wrap(inert(text), MAX_COLUMNS)))
    return "\n\n".join(parts)


def _prompts_of(one: Json) -> dict[str, int]:
    """Prompts behind each section that is shown."""
    return {
        group["name"]: min(score["estimate"]["n_prompts"] for score in group["scores"].values())
        for group in shown_groups(one)
    }


def quality_markdown(result: Json) -> str:
    """The whole result as a Markdown page: sections, subsets, RM-Bench's matrix, rows left out."""
    lines = ["# Quality", "", *(f"- {escaped(line)}" for line in how_scored(result)), ""]
    if compares_two(result):
        lines += [escaped(FLAGS), ""]
    for one in result["sets"]:
        lines += [f"## {escaped(one['name'])}", "", escaped(MEANINGS[one["format"]]), ""]
        for table in set_tables(one, result):
            lines += markdown_table(table)
        lines += [f"- {escaped(note)}" for note in set_notes(one, result)]
        lines.append("")
    return "\n".join(lines).strip() + "\n"


def _brief_table(one: Json, groups: Sequence[Json], result: Json) -> Table:
    caption = f"{one['name']} ({FORMATS[one['format']]}): accuracy in %, ±1 SE [95% interval]"
    header = ("section", "n", *(label if compares_two(result) else "accuracy" for label in labels_of(result)))
    if compares_two(result):
        header = (*header, "change (points)", "flag", "p Holm")
    rows = []
    for group in groups:
        cells = [
            clipped(inert(group["name"]), _MAX_NAME),
            str(n_of(group)),
            *(_brief(group, one) for one in labels_of(result)),
        ]
        if group["shift"] is not None:
            cells += [tenth_points(group["shift"]["estimate"]), flag(group["shift"]), holm_cell(group["shift"])]
        rows.append(tuple(cells))
    return Table(clipped(inert(caption), MAX_COLUMNS), header, tuple(rows))


def _brief(group: Json, label: str) -> str:
    score = group["scores"][label]
    low, high = (round(100 * score["estimate"][end]) for end in ("low", "high"))
    return f"{tenths(score['estimate']['value'])}±{tenths(score['standard_error'])} [{low}, {high}]"
