"""The comparison of finished audits in words, tables and figures: terminal, Markdown and page; and the files of `cda report --compare`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path

from cda.auditing.comparison import comparison_notes, comparison_tables, matrix, matrix_plot
from cda.auditing.comparison_result import compare_audits, read_audits
from cda.auditing.report_cells import compares, targets
from cda.auditing.report_scoring import caveats, how_scored
from cda.auditing.verdict_sentences import quality_sentence, ties_sentence, verdict_kind, verdicts
from cda.files.paths import user_path
from cda.jobs.perform import Made, perform_page
from cda.numbers.views import numbers_in
from cda.report.document import Document
from cda.report.numbers import (
    NO_VOTES,
    NOT_MEASURED,
    cell,
    clipped,
    count,
    decimals,
    excludes_zero,
    listed,
    p_value,
    percent,
    points,
    share,
)
from cda.report.page import Headline, ReportSection
from cda.report.plots import (
    COLUMN_INCHES,
    KINDS,
    PAGE_INCHES,
    SHARE_LIMITS,
    Mark,
    Plot,
    PlotRow,
    Scale,
    draw_rows,
    named,
    rows_height,
)
from cda.report.tables import Table, tables_by_bias
from cda.resources.artifacts import of_this_version
from cda.results.audit import AuditResult
from cda.results.base import Estimate, Missing
from cda.results.panel import ComparisonResult, PairedAudits, PairedMargins
from cda.stats.verdict import SIGNIFICANT

PAGE = "comparison.html"
_MEANING = (
    "Skew is how often the model prefers the answer with a bias to the one without; its change is after minus before, paired by "
    "contrast. A training should lower the skew of its target (framed) and leave the others where they are; a lower skew is "
    "better only as far as people do not share the preference. A star allows for all cells of this matrix; the words above and in "
    "each run's own report allow for the tests of that run, by the same rule."
)
_FOUND = (
    "Each audit on its own contrasts. Skew is how often the model prefers the answer with the bias, 50% being no preference; "
    "skew − people is measured where people voted; RATE's ATE is in standard deviations of the model's rewards, so that models "
    "with other units can be compared. Of a training, the model after it."
)
_PAIRED = (
    "Only texts that both audits have a margin on, by their content; those that one lacks are counted as not in both. The difference is "
    "paired and clustered by prompt; Holm's p allows for all {n_tests} paired tests of this comparison. Same is how often both prefer "
    "the same side, alone how many sides with the bias are preferred by the first audit only and by the other only: two models can "
    "have one skew and prefer it in other contrasts. r is Pearson's correlation of their margins."
)
_BEWARE = "Beware."
_MOST_MARKS, _LEGEND_IN_A_COLUMN, _LEGEND = len(KINDS), 36, 84
"""Marks of a figure, and characters of their names together in its two widths."""
_SHORT, _LONGEST_CELL = 14, 60


def comparison_document(result: ComparisonResult) -> Document:
    """What each training changed, what each audit found, and the audits two by two."""
    trained, n = _trained(result), len(result.audits)
    all_trained = len(trained) == n
    sections: list[ReportSection] = []
    headlines = [
        Headline(f"{name}, {verdict.bias}: {verdict.word}.", verdict.reason, verdict_kind(verdict.word))
        for name, audit in trained.items()
        for verdict in verdicts(audit)
    ]
    if trained:
        skew, quality = comparison_tables(trained)
        kept = {name: quality_sentence(audit).removeprefix("Quality: ") for name, audit in trained.items()}
        words = tuple(f"{name}: {sentence}" for name, sentence in kept.items())
        figures = (matrix_plot(matrix(trained)),)
        sections += [
            ReportSection("matrix", "What each training did to every bias", (_MEANING,), (skew,), figures),
            ReportSection("quality", "Quality of the trainings", words, (quality,)),
        ]
    plots = (skew_plot(result),) if n <= _MOST_MARKS else ()
    sections += [
        ReportSection("found", "What each audit found", (_FOUND,), tuple(found_tables(result)), plots),
        ReportSection("paired", "Two by two", (_PAIRED.format(n_tests=result.n_tests),), tuple(paired_tables(result))),
    ]
    if made := difference_table(result):
        text = "Where these differ, a difference between two audits need not come from the model."
        sections.append(ReportSection("made", "How they were made", (text,), (made,)))
    if result.whole:
        sections.append(ReportSection("runs", "The runs", (), (_runs_table(result.whole),)))
        sections.append(ReportSection("limits", "What limits these numbers", facts=tuple(_limits(result.whole))))
    if not all_trained or n == 2:
        headlines += [_headline(pair) for pair in result.pairs]
    headlines += _beware(result)
    title = "Trainings compared" if all_trained else "Audits compared"
    subtitle = f"{n} trainings against biases, before and after." if all_trained else f"{n} audits, bias by bias."
    notes, tables = _notes(result), _tables(result)
    return Document(
        title,
        subtitle,
        tuple(headlines),
        tuple(sections),
        (*tables, *notes),
        (tuple(notes), *tables),
        "Audits compared",
    )


def _trained(result: ComparisonResult) -> dict[str, AuditResult]:
    return {name: audit for name, audit in result.whole.items() if compares(audit)}


def _tables(result: ComparisonResult) -> list[Table]:
    trained, made = _trained(result), difference_table(result)
    found = found_tables(result) if len(trained) < len(result.audits) else []
    matrix_tables = comparison_tables(trained) if trained else []
    return [*matrix_tables, *found, *paired_tables(result), *([made] if made else [])]


def _notes(result: ComparisonResult) -> list[str]:
    headlines = [*map(_headline, result.pairs), *_beware(result)]
    return [headline.text if headline.name == _BEWARE else f"{headline.name} {headline.text}" for headline in headlines]


def _beware(result: ComparisonResult) -> list[Headline]:
    """Notes on what makes the audits hard to compare."""
    trained = _trained(result)
    notes = [Headline(_BEWARE, note) for note in (comparison_notes(trained) if trained else [])]
    whats = [difference.what for difference in result.differences if difference.what != "model"]
    if whats and len(trained) < len(result.audits):
        notes.append(Headline("Not made alike:", f"the audits differ in {listed(whats)}."))
    tied = {name: ties_sentence(audit) for name, audit in result.whole.items()}
    return [*notes, *(Headline(f"{name}:", sentence) for name, sentence in tied.items() if sentence)]


def found_tables(result: ComparisonResult) -> list[Table]:
    """Skew of every bias in each audit, then the other measures that any of them has; and quality."""
    names = {name: name for name in result.audits}
    missing = {"contrasts": NOT_MEASURED, "votes": NO_VOTES}
    tables = tables_by_bias(numbers_in(result), "comparison", ("audit", names), missing)
    quality = tuple(
        (name, cell(row.quality, share, NOT_MEASURED), _n(row.quality)) for name, row in result.audits.items()
    )
    return [*tables, Table("Quality accuracy, with 95% intervals", ("audit", "accuracy", "n"), quality)]


def _n(value: Estimate | Missing) -> str:
    return "" if isinstance(value, Missing) else count(value)


def paired_tables(result: ComparisonResult) -> list[Table]:
    """A table for each audit that is held against the first."""
    return [_paired_table(pair) for pair in result.pairs]


def _paired_table(pair: PairedAudits) -> Table:
    header = ("on", pair.first, pair.other, "difference (points)", "p (Holm)", "same", "r", "alone", "n")
    parts: dict[str, PairedMargins | Missing] = {**pair.contrasts, "quality pairs": pair.quality}
    caption = f"{pair.other} − {pair.first}: share of positive margins on the same texts, with 95% intervals"
    return Table(
        caption, header, tuple((name, *_paired_cells(found, len(header) - 1)) for name, found in parts.items())
    )


def _paired_cells(found: PairedMargins | Missing, n_cells: int) -> tuple[str, ...]:
    if isinstance(found, Missing):
        return (*["not paired"] * 2, *[""] * (n_cells - 3), found.reason)
    return (
        share(found.first),
        share(found.other),
        points(found.difference, "") + "*" * _is_shown(found),
        p_value(found.test.holm),
        share(found.agreement),
        cell(found.correlation, decimals),
        f"{found.only_first} / {found.only_other}",
        count(found.difference) + _unpaired(found),
    )


def _unpaired(found: PairedMargins) -> str:
    left = (found.unpaired_first, found.unpaired_other)
    return f", not in both {left[0]} / {left[1]}" if any(left) else ""


def _is_shown(found: PairedMargins) -> bool:
    return excludes_zero(found.difference) and found.test.holm < SIGNIFICANT


def _headline(pair: PairedAudits) -> Headline:
    """The biases on which a pair differs beyond chance, and those on which it does not."""
    name = f"{pair.other} against {pair.first}:"
    measured = {bias: found for bias, found in pair.contrasts.items() if isinstance(found, PairedMargins)}
    if not measured:
        reason = next(
            (found.reason for found in pair.contrasts.values() if isinstance(found, Missing)), "no bias in common"
        )
        return Headline(name, f"not paired: {reason}.")
    parts = []
    for word, sign in (("lower", -1), ("higher", 1)):
        shown = [
            f"{bias} ({points(found.difference)}, n = {count(found.difference)})"
            for bias, found in measured.items()
            if _is_shown(found) and sign * found.difference.value > 0
        ]
        parts += [f"skew is {word} for {listed(shown)}"] if shown else []
    alike = [
        f"{bias} (the same side in {percent(found.agreement.value)})"
        for bias, found in measured.items()
        if not _is_shown(found)
    ]
    parts += [f"no difference of skew is shown for {listed(alike)}"] if alike else []
    return Headline(name, f"{'; '.join(parts)}.")


def difference_table(result: ComparisonResult) -> Table | None:
    """Everything in which the audits were not made alike; None if all that is known is alike."""
    rows = tuple(
        (difference.what, *(clipped(value, _LONGEST_CELL) for value in difference.values.values()))
        for difference in result.differences
    )
    return Table("Where the audits were not made alike", ("", *result.audits), rows) if rows else None


def skew_plot(result: ComparisonResult) -> Plot:
    """Skew of every bias in each audit."""
    biases = list(dict.fromkeys(bias for row in result.audits.values() for bias in row.biases))
    longest = _LEGEND // len(result.audits)
    marks = [Mark(named(name, longest), *kind) for name, kind in zip(result.audits, KINDS, strict=False)]
    rows = [
        PlotRow(
            named(bias, _SHORT),
            tuple(row.biases[bias].skew if bias in row.biases else None for row in result.audits.values()),
        )
        for bias in biases
    ]
    said = "; ".join(
        f"{name}: " + ", ".join(f"{bias} {share(row.biases[bias].skew)}" for bias in row.biases)
        for name, row in result.audits.items()
    )
    scale = Scale("skew, % of contrasts", True, SHARE_LIMITS, 50.0)
    width = COLUMN_INCHES if sum(len(mark.name) for mark in marks) <= _LEGEND_IN_A_COLUMN else PAGE_INCHES
    title = "Skew of every bias in each audit, with 95% intervals; 50% is no preference"
    draw = partial(draw_rows, rows=rows, marks=marks, scale=scale)
    return Plot("compared-skew", title, f"{said}.", draw, rows_height(len(rows), len(marks)), width)


def _runs_table(audits: Mapping[str, AuditResult]) -> Table:
    rows = tuple(
        (name, audit.recipe if compares(audit) else "none", audit.model.name, ", ".join(targets(audit)),
         str(audit.sources.pairs) if compares(audit) else "none", str(audit.seed), how_scored(audit))
        for name, audit in audits.items()
    )  # fmt: skip
    header = ("run", "recipe", "model", "target biases", "training pairs", "seed", "how it was scored")
    return Table("What was trained and scored", header, rows)


def _limits(audits: Mapping[str, AuditResult]) -> list[tuple[str, str]]:
    """Every limit once, with the runs that it holds for."""
    runs: dict[str, list[str]] = {}
    for name, audit in audits.items():
        for note in caveats(audit):
            runs.setdefault(note, []).append(name)
    return [("all runs" if len(names) == len(audits) else ", ".join(names), note) for note, names in runs.items()]


def compare_runs(folders: Sequence[str], out: str | None = None) -> tuple[ComparisonResult, str]:
    """Compare finished runs, each once; return the result, and tables and notes, and in the last lines the page, `out` or comparison.html next to
    the first run's folder, and the numbers next to it as JSON. RunError lists all: fewer than two runs, a folder without a
    finished audit or with one of another version; or the page cannot be written."""
    found = read_audits(folders)
    first, *others = found

    def plan() -> list[str]:
        return [
            *(f"reads       {name}: {_read(each.audit)}" for name, each in found.items()),
            f"compares    {first} with {'' if len(others) == 1 else 'each of '}{', '.join(others)}, by contrast",
        ]

    def work() -> Made[ComparisonResult]:
        with of_this_version(Path(", ".join(map(str, folders)))):
            result = compare_audits(found)
            document = comparison_document(result)
            page = document.page()
            return Made(result, None, {".json": result, ".html": lambda: page}, document.text())

    unused = ("only", "figures", "limit", "seed", "column")
    return perform_page(_page_path(folders[0], out), plan, work, [".json"], unused)


def _page_path(first: str, out: str | None) -> Path:
    if out is not None:
        return user_path(out)
    folder = user_path(first)
    # `.` and `..` name a folder without saying where it lies.
    return (folder if folder.name not in ("", "..") else folder.resolve()).parent / PAGE


def _read(audit: AuditResult) -> str:
    """One audit of a dry run's plan: the model, when it was scored, and biases."""
    when = ", before and after a training" if compares(audit) else ""
    return f"{audit.model.name}{when}; biases: {', '.join(bias.name for bias in audit.biases)}"
