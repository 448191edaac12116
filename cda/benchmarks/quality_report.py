"""What `cda quality` found: a terminal table and a Markdown page."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, Literal

from cda.files.paths import as_part
from cda.report.accuracy import (
    FLAGS,
    FORMATS,
    MEANINGS,
    accuracy,
    flag,
    holm_cell,
    how_scored,
    n_of,
    set_notes,
    set_tables,
    tenth_points,
    tenths,
    with_adapter,
)
from cda.report.numbers import clipped, count, few_prompts, inert, share
from cda.report.page import Entry, Headline, Page, Section, plots_of, render_page
from cda.report.plots import AFTER, BEFORE, FAINT, INK, LINE, PAGE, Plot, across, key, named, percent_axis, rows
from cda.report.tables import Table, escaped, markdown_table, plain_table
from cda.results.base import Estimate
from cda.results.benchmarks import Accuracy, AccuracyGroup, AccuracyShift, QualityResult, QualityScoring, SetQuality
from cda.results.facts import RewardModelFacts

if TYPE_CHECKING:
    from matplotlib.axes import Axes


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


ScoreRow = Mapping[str, Any]
"""A row of scores.jsonl."""


def rewardbench_files(result: QualityResult, rows: Sequence[ScoreRow]) -> dict[str, object]:
    """RewardBench's result files: path below their folder to a JSON object, or to a list of JSON lines.

    Shapes as RewardBench's scripts write them: `eval-set/ORG/NAME.json` (model, model_type, chat_template and an accuracy
    for each subset: what the leaderboard reads), `eval-set-scores/ORG/NAME.json` (columns, with the scores of each pair), and
    of its command line `ORG/NAME.json` and `ORG/NAME_outputs.jsonl`. Texts stand as messages, before any chat template.

    Args:
        result: All numbers.
        rows: As in scores.jsonl.
    """
    files: dict[str, object] = {}
    for one in result.sets:
        own = [row for row in rows if row["set"] == one.name and row["used"]]
        folder = as_part(one.name)
        for scoring in result.scorings:
            label = scoring.label
            if one.format == "rm-bench" or not all("chosen" in row[label] for row in own):
                continue  # another benchmark's three by three, or a judge that scores no single text
            place, head = "/".join(map(as_part, scoring.model.split("/"))), _head(scoring)
            if one.format in ("rewardbench", "rewardbench-2"):
                accuracies = {group.name: _value(group, label) for group in one.subsets}
                columns = _best_of_columns if one.format == "rewardbench-2" else _pair_columns
                files[f"{folder}/eval-set/{place}.json"] = {**head, **accuracies}
                files[f"{folder}/eval-set-scores/{place}.json"] = {**head, **columns(own, label)}
            if one.format != "rewardbench-2":
                files[f"{folder}/{place}.json"] = _summary_file(one, own, scoring)
                files[f"{folder}/{place}_outputs.jsonl"] = _output_rows(own, label)
    return files


def _head(scoring: QualityScoring) -> dict[str, object]:
    form = scoring.facts.form if isinstance(scoring.facts, RewardModelFacts) else None
    template = "tokenizer" if form == "chat template" else form
    return {"model": scoring.model, "model_type": "Seq. Classifier" if form else "Custom", "chat_template": template}


def _pair_columns(rows: Sequence[ScoreRow], label: str) -> dict[str, list[object]]:
    lines = _output_rows(rows, label)
    names = ("text_chosen", "text_rejected", "results", "subset", "id", "scores_chosen", "scores_rejected")
    return {name: [line[name] for line in lines] for name in names}


def _output_rows(rows: Sequence[ScoreRow], label: str) -> list[dict[str, Any]]:
    found = []
    for row in rows:
        chosen, rejected = row[label]["chosen"][0], row[label]["rejected"][0]
        found.append({
            "prompt": row["prompt"], "results": int(chosen > rejected), "scores_chosen": chosen, "scores_rejected": rejected,
            "text_chosen": _conversation(row, row["chosen"][0]), "text_rejected": _conversation(row, row["rejected"][0]),
            "subset": row["subset"], "id": _own_id(row),
        })  # fmt: skip
    return found


def _best_of_columns(rows: Sequence[ScoreRow], label: str) -> dict[str, list[object]]:
    """RewardBench 2's columns: right answers first; Ties have no result of single prompts."""
    columns: dict[str, list[object]] = {
        "text": [],
        "scores": [],
        "results": [],
        "subset": [],
        "id": [],
        "num_correct": [],
    }
    for row in rows:
        chosen, rejected = row[label]["chosen"], row[label]["rejected"]
        most = max(*chosen, *rejected)
        shared = [*chosen, *rejected].count(most)
        values = {
            "text": [_conversation(row, text) for text in [*row["chosen"], *row["rejected"]]],
            "scores": [*chosen, *rejected],
            "results": None if row["subset"].lower() == "ties" else chosen.count(most) / shared,
            "subset": row["subset"], "id": _own_id(row), "num_correct": len(chosen),
        }  # fmt: skip
        for name, value in values.items():
            columns[name].append(value)
    return columns


def _summary_file(one: SetQuality, rows: Sequence[ScoreRow], scoring: QualityScoring) -> dict[str, object]:
    hits = [line["results"] for line in _output_rows(rows, scoring.label)]
    subsets = {group.name: _value(group, scoring.label) for group in one.subsets}
    return {
        "accuracy": sum(hits) / len(hits), "num_prompts": len(hits), "model": scoring.model, "ref_model": None,
        "tokenizer": scoring.model, "chat_template": _head(scoring)["chat_template"], "extra_results": subsets,
    }  # fmt: skip


def _conversation(row: ScoreRow, response: str) -> list[dict[str, str]]:
    return [*row["prompt"], {"role": "assistant", "content": response}]


def _own_id(row: ScoreRow) -> int | str:
    name = str(row["id"])
    return int(name) if name.isdecimal() else name


def _value(group: AccuracyGroup, label: str) -> float:
    return group.scores[label].estimate.value


MOST_ROWS = 24
_NAME = 18
_COLORS = (BEFORE, AFTER)
_FALL = -1.0
_STYLES = ("concise", "detailed", "Markdown")


def quality_plots(one: SetQuality, place: int) -> Iterator[Plot]:
    """Figures of one set; `place` is its number on the page, for the anchors."""
    groups, labels = one.shown[:MOST_ROWS], one.labels
    height = 0.8 + len(groups) * (0.2 + 0.14 * len(labels))
    words = " ".join(
        f"{group.name}: " + ", ".join(f"{share(score.estimate)} {label}" for label, score in group.scores.items()) + "."
        for group in groups
    )
    cut = f" (the first {len(groups)} of {len(one.shown)})" if len(groups) < len(one.shown) else ""
    title = f"{named(one.name, 40)}: accuracy by section{cut}; thin 95% intervals, thick ± 1 standard error"
    yield Plot(f"accuracy-{place}", title, words, partial(_accuracy, groups, labels), height)
    moved = [(group.name, group.shift) for group in groups if group.shift is not None]
    if len(moved) == len(groups):
        words = " ".join(f"{name}: {tenth_points(shift.estimate)} {flag(shift)}." for name, shift in moved)
        title = f"{named(one.name, 40)}: paired change; flagged where it falls by more than 1 point (dashed)"
        yield Plot(f"change-{place}", title, words, partial(_change, moved), height)
    if one.cells:
        for at, label in enumerate(labels):
            shown = {group.name: group.scores[label].estimate for group in one.cells}
            words = " ".join(f"style {name}: {share(estimate)}." for name, estimate in shown.items())
            title = f"{named(one.name, 40)}: styles, {named(label, 30)} (intervals in the table)"
            yield Plot(f"styles-{place}-{at + 1}", title, words, partial(_matrix, shown), 2.6)


def _accuracy(groups: Sequence[AccuracyGroup], labels: Sequence[str], axes: Axes) -> None:
    for row, group in enumerate(groups):
        for place, label in enumerate(labels):
            y = row if len(labels) == 1 else row + (-0.18, 0.18)[place]
            score, color = group.scores[label], _COLORS[place]
            _error(axes, y, score.estimate.value, score.standard_error, color)
            across(axes, y, score.estimate, color, "os"[place], bool(place) or len(labels) == 1)
    rows(axes, [_marked(group.name, group.shift) for group in groups])
    axes.grid(axis="x", color=LINE)
    axes.set_xlabel("accuracy")
    percent_axis(axes)
    if len(labels) > 1:
        key(axes, [(named(label, 20), _COLORS[place], "os"[place], bool(place)) for place, label in enumerate(labels)])


def _change(moved: Sequence[tuple[str, AccuracyShift]], axes: Axes) -> None:
    axes.axvline(0, color=FAINT, linewidth=0.8)
    axes.axvline(_FALL, color=FAINT, linewidth=0.8, linestyle=(0, (4, 3)))
    for row, (_, shift) in enumerate(moved):
        color = BEFORE if shift.fell else AFTER
        _error(axes, row, 100 * shift.estimate.value, 100 * shift.standard_error, color)
        filled = shift.excludes_0 or not shift.fell
        across(axes, row, shift.estimate, color, "v" if shift.fell else "s", filled, factor=100)
    rows(axes, [_marked(name, shift) for name, shift in moved])
    axes.grid(axis="x", color=LINE)
    axes.set_xlabel("change in points")
    fell = [shift for _, shift in moved if shift.fell]
    key(axes, [
        *([("no fall of a point", AFTER, "s", True)] if len(fell) < len(moved) else []),
        *([("fell*", BEFORE, "v", True)] if any(one.excludes_0 for one in fell) else []),
        *([("fell", BEFORE, "v", False)] if not all(one.excludes_0 for one in fell) else []),
    ], 3)  # fmt: skip


def _error(axes: Axes, y: float, value: float, error: float, color: str) -> None:
    axes.plot(
        [value - error, value + error], [y, y], color=color, linewidth=4, alpha=0.35, zorder=1, solid_capstyle="butt"
    )


def _marked(name: str, shift: AccuracyShift | None) -> str:
    return f"{named(name, _NAME)}{f' ({flag(shift)})' if shift is not None and shift.fell else ''}"


def _matrix(shown: Mapping[str, Estimate], axes: Axes) -> None:
    """Chosen style down, rejected style across; the fuller a cell, the more often the chosen one wins."""
    from matplotlib.patches import Rectangle

    for i in (1, 2, 3):
        for j in (1, 2, 3):
            value = shown[f"{i} over {j}"].value
            axes.add_patch(Rectangle((j - 0.5, i - 0.5), 1, 1, facecolor=AFTER, alpha=0.45 * value, edgecolor="none"))
            axes.text(j, i, f"{100 * value:.1f}%", ha="center", va="center", color=INK)
    for edge in (1.5, 2.5):
        axes.axhline(edge, color=PAGE)
        axes.axvline(edge, color=PAGE)
    axes.set_xlim(0.5, 3.5)
    axes.set_ylim(3.5, 0.5)
    axes.set_xticks([1, 2, 3], _STYLES)
    axes.set_yticks([1, 2, 3], _STYLES)
    axes.set_xlabel("rejected response")
    axes.set_ylabel("chosen response")
    axes.tick_params(length=0)
    for side in axes.spines.values():
        side.set_visible(False)


_TERMS = (
    Entry("accuracy", "items with the right answer on top / items", "By each benchmark's own rule, which stands with its numbers."),
    Entry("± 1 SE", "standard error by whole prompts", "What papers draw as bars; a 95% interval reaches about twice as far."),
)  # fmt: skip
_CHANGE_TERMS = (
    Entry("paired change", "second scoring − first, on the same items", "Its interval allows for items that both get right or wrong."),
    Entry("p, p (Holm)", "signs of whole prompts flipped; Holm over the sections of all files", "For the test that nothing changed."),
)  # fmt: skip


def quality_page(result: QualityResult) -> str:
    """The whole result as a self-contained page; text from outside is escaped."""
    models = " and ".join(dict.fromkeys(map(with_adapter, result.scorings)))
    names = ", ".join(one.name for one in result.sets)
    return render_page(
        Page(
            f"Quality of {clipped(models, 120)}",
            f"Accuracy on {names}.",
            tuple(findings(result)),
            tuple(_sections(result)),
        )
    )


def quality_page_plots(result: QualityResult) -> list[Plot]:
    """Every figure of the page."""
    return plots_of(_sections(result))


def findings(result: QualityResult) -> Iterator[Headline]:
    """Each set in a sentence: accuracy, change, and the sections that fell."""
    two = len(result.labels) > 1
    for one in result.sets:
        overall = one.overall
        n = count(overall.scores[result.labels[0]].estimate)
        shown = ", ".join(
            f"{accuracy(score.estimate)}{f' {label}' if two else ''}" for label, score in overall.scores.items()
        )
        if overall.shift is None:
            yield Headline(f"{one.name}:", f"accuracy {shown} (n = {n}).")
            continue
        change = tenth_points(overall.shift.estimate)
        yield Headline(
            f"{one.name}:", f"accuracy {shown}; change {change} points (n = {n}). {_fallen(one)}", _kind(one)
        )


def _fallen(one: SetQuality) -> str:
    """Which sections fell; the overall where it is the one section."""
    fell = [(group.name, group.shift) for group in one.sections if group.shift is not None and group.shift.fell]
    if not fell:
        return f"None of {len(one.sections)} sections fell by more than 1 point."
    told = ", ".join(f"{name} {tenth_points(shift.estimate)}{'*' if shift.excludes_0 else ''}" for name, shift in fell)
    star = " (*: and the 95% interval lies below 0)" if any(shift.excludes_0 for _, shift in fell) else ""
    return f"Fell by more than 1 point: {told}{star}."


def _kind(one: SetQuality) -> Literal["good", "bad", "none"]:
    """Bad where a fall is shown, good where one is ruled out for every section, else neither."""
    shifts = [group.shift for group in one.shown if group.shift is not None]
    if any(shift.fell and shift.excludes_0 for shift in shifts):
        return "bad"
    return "good" if all(shift.rules_out_fall for shift in shifts) else "none"


def _sections(result: QualityResult) -> Iterator[Section]:
    for place, one in enumerate(result.sets, 1):
        rule = f"Read as {FORMATS[one.format]}. {MEANINGS[one.format]}"
        notes = tuple(set_notes(one, result.scorings[0].unit))
        yield Section(
            f"set-{place}",
            one.name,
            (rule, *notes),
            tuple(set_tables(one)),
            tuple(quality_plots(one, place)),
        )
    yield Section("scoring", "How it was scored", tuple(how_scored(result)), facts=tuple(_facts(result)))
    two = len(result.labels) > 1
    terms = (*_TERMS, *_CHANGE_TERMS) if two else _TERMS
    yield Section("meaning", "What the numbers mean", (FLAGS,) if two else (), entries=terms)


def _facts(result: QualityResult) -> Iterator[tuple[str, str]]:
    yield "files", "; ".join(f"{one.name}: {one.source}" for one in result.sets)
    if len(result.labels) > 1:
        yield "tests", f"{result.n_tests} sections; Holm's p allows for all of them"
    yield "seed", str(result.seed)
    yield "versions", ", ".join(f"{name} {version}" for name, version in result.versions.items())
