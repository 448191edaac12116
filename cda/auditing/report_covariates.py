"""Tables, sentences and figures on effects by a column of the user's data: levels, tests that they differ, slopes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import partial

from cda.auditing.report_cells import compares, margin_cell, margin_unit, said
from cda.report import plots
from cda.report.numbers import NOT_ESTIMATED, cell, count, inert, p_value, points, share, signed, with_ends
from cda.report.plots import Plot
from cda.report.tables import Row, Table, table
from cda.results.audit import AuditResult
from cda.results.base import Estimate, Measure, Missing, PerScoring, Scoring, Test
from cda.results.effects import (
    ColumnLevels,
    ConditionalEffects,
    Effect,
    Level,
    MarginsByColumn,
    RateByColumn,
    SameMargin,
)

_DOUBLE = "double"


def by_words(audit: AuditResult) -> list[str]:
    """Paragraphs on the tables of columns: how rows were divided, what was pooled or left out, and what was not estimated."""
    return [said("by", "trained" if compares(audit) else "text"), *_divided(audit), *_not_estimated(audit)]


def by_tables(audit: AuditResult) -> list[Table | None]:
    """Direct contrasts by column, RATE by column, then the tests that levels differ and the slopes."""
    return [direct_table(audit), rate_table(audit), differ_table(audit)]


def direct_table(audit: AuditResult) -> Table | None:
    """Skew and mean margin in every level of every column; None without a column that divides contrasts."""
    rows = [
        _direct_row(f"{bias}, {column}: {level.name}", level, audit)
        for bias, column, by in _direct(audit)
        for level in by.levels
    ]
    change = ("skew before", "skew after", "change (points)") if compares(audit) else ("skew",)
    margin = f"mean margin ({margin_unit(audit)}){', after' if compares(audit) else ''}"
    header = ("bias, column: level", *change, margin, "n", "prompts", "p", "p (Holm)")
    return table("Skew and mean margin by level, with 95% intervals", header, rows)


def _direct_row(name: str, level: Level, audit: AuditResult) -> Row:
    skew = level.skew
    shares: Row = (NOT_ESTIMATED,) * (3 if compares(audit) else 1)
    if isinstance(skew, Measure):
        shares = (share(skew.before),)
        if compares(audit):
            shares += cell(skew.after, share), cell(skew.change, lambda change: points(change, ""))
    return (
        name,
        *shares,
        margin_cell(level.margin.last),
        str(level.n),
        str(level.n_prompts),
        *_tested(level.test),
    )


def _tested(test: Test | Missing) -> Row:
    if isinstance(test, Missing):
        return "", ""
    return p_value(test.p_value), cell(test.p_holm, p_value)


def rate_table(audit: AuditResult) -> Table | None:
    """The double-rewrite effect in every level of every column, under the last scoring; None without one."""
    rows: list[Row] = []
    for bias, column, by in _rated(audit):
        effects = by.effects.last
        for effect in () if isinstance(effects, Missing) else effects.effects:
            level = effect.estimand.removeprefix("CATE: ")
            found = effect.estimate
            rows.append((
                f"{bias}, {column}: {level}", signed(found), cell(effect.standardised, signed), str(found.n),
                str(found.n_prompts), *_tested(by.tests[level]),
            ))  # fmt: skip
    header = ("bias, column: level", f"effect ({margin_unit(audit)})", "in SD", "triples", "prompts", "p", "p (Holm)")
    when = ", after" if compares(audit) else ""
    return table(f"Effect by level (RATE, rewrites of rewrites){when}, with 95% intervals", header, rows)


def differ_table(audit: AuditResult) -> Table | None:
    """The test that levels differ, and the slope of a column of numbers, for every column and scoring."""
    rows: list[Row] = []
    for bias, column, by in _direct(audit):
        for (when, test), (_, slope) in zip(by.differ.items(), by.slope.items(), strict=True):
            rows.append((*_named(bias, column, "margin", when), cell(test, _p), _slope(slope)))
        if isinstance(by.change_differs, Test):
            rows.append((f"{bias}, {column}: change of the margin", _p(by.change_differs), ""))
    for bias, column, rated in _rated(audit):
        for (when, test), (_, slopes) in zip(rated.differ.items(), rated.slope.items(), strict=True):
            double = None if isinstance(slopes, Missing) else _double(slopes)
            rows.append((*_named(bias, column, "RATE effect", when), cell(test, _p), _slope(double)))
    header = ("bias, column", "p that levels are alike", f"slope ({margin_unit(audit)} per 1 of the column)")
    return table("Do levels differ? With 95% intervals of slopes", header, rows)


def by_plots(audit: AuditResult) -> list[Plot]:
    """The mean margin, and the effect by RATE, in each level of each column that divides the rows, under every scoring."""
    shown = {}
    for bias, column, by in _direct(audit):
        rows = {level.name: _estimates(level.margin) for level in by.levels}
        shown[f"by-{bias}-{column}"] = f"{bias}: mean margin by {column}, direct contrasts", rows
    for bias, column, rated in _rated(audit):
        by_level: dict[str, dict[str, Estimate]] = {}
        for when, found in rated.effects.items():
            for effect in () if isinstance(found, Missing) else found.effects:
                by_level.setdefault(effect.estimand.removeprefix("CATE: "), {})[when] = effect.estimate
        shown[f"by-rate-{bias}-{column}"] = f"{bias}: effect by {column} (RATE, rewrites of rewrites)", by_level
    words = plots.slugs(shown)
    drawn = (_level_plot(words[id], title, rows, audit) for id, (title, rows) in shown.items())
    return [plot for plot in drawn if plot is not None]


def _estimates(margin: PerScoring[Effect | SameMargin | Missing]) -> dict[str, Estimate]:
    return {when: found.estimate for when, found in margin.items() if isinstance(found, Effect)}


def _level_plot(id: str, title: str, levels: Mapping[str, Mapping[str, Estimate]], audit: AuditResult) -> Plot | None:
    """A row with dot and interval for each level that has one; None without any."""
    known = {name: own for name, own in levels.items() if own}
    if not known:
        return None
    marks = [plots.SCORINGS[when] for when in audit.scorings]
    rows, words_of = [], []
    for name, own in known.items():
        rows.append(
            plots.PlotRow(f"{plots.named(name)}\n{_prompts(own)}", tuple(own.get(when) for when in audit.scorings))
        )
        each = (
            f"{f'{when} ' if compares(audit) else ''}{signed(found)} (n = {count(found)})"
            for when, found in own.items()
        )
        words_of.append(f"{name}: {', '.join(each)}.")
    unit = next(iter(next(iter(known.values())).values())).unit
    draw = partial(plots.draw_rows, rows=rows, marks=marks, scale=plots.Scale(unit, reference=0))
    return Plot(
        id,
        f"{title}, with 95% intervals",
        f"{title}. {' '.join(words_of)}",
        draw,
        plots.rows_height(len(rows), len(marks)),
    )


def _prompts(own: Mapping[str, Estimate]) -> str:
    """Number of prompts behind the estimates of a level."""
    return f"{max(found.n_prompts for found in own.values())} prompts"


def _named(bias: str, column: str, what: str, when: Scoring) -> Row:
    return (f"{bias}, {column}: {what}{'' if when == 'model' else f', {when}'}",)


def _p(test: Test) -> str:
    return p_value(test.p_value)


def _double(slopes: ConditionalEffects) -> Effect | None:
    return next((effect for effect in slopes.effects if effect.estimator == _DOUBLE), None)


def _slope(found: Effect | Missing | None) -> str:
    if not isinstance(found, Effect):
        return ""
    return with_ends(found.estimate)


def _divided(audit: AuditResult) -> Iterator[str]:
    """What was pooled and what has no level, once for each column."""
    divided: dict[tuple[str, str, str], ColumnLevels] = {}
    divided |= {(bias, column, "contrasts"): by for bias, column, by in _direct(audit)}
    divided |= {(bias, column, "triples"): by for bias, column, by in _rated(audit)}
    for (bias, column, what), by in divided.items():
        pooled = by.pooled if isinstance(by, RateByColumn) else _pooled(by)
        if pooled:
            named = ", ".join(f"{inert(name)} ({n})" for name, n in pooled.items())
            yield f"{bias}, {column}: levels with fewer than 10 prompts are pooled: {named}."
        if by.n_missing:
            yield f"{bias}, {column}: {what} without a value, in no level: {by.n_missing}."


def _pooled(by: object) -> dict[str, int]:
    return dict(by.levels[-1].pooled) if isinstance(by, MarginsByColumn) else {}


def _not_estimated(audit: AuditResult) -> Iterator[str]:
    for bias, found in audit.by.items():
        for column, missing in found.contrasts.items():
            if isinstance(missing, Missing):
                yield f"{bias}, {column}: contrasts are not divided: {missing.reason}."
        for column, none in found.triples.items():
            if isinstance(none, Missing):
                yield f"{bias}, {column}: triples are not divided: {none.reason}."


def _direct(audit: AuditResult) -> Iterator[tuple[str, str, MarginsByColumn]]:
    for bias, found in audit.by.items():
        for column, by in found.contrasts.items():
            if isinstance(by, MarginsByColumn):
                yield bias, column, by


def _rated(audit: AuditResult) -> Iterator[tuple[str, str, RateByColumn]]:
    for bias, found in audit.by.items():
        for column, by in found.triples.items():
            if isinstance(by, RateByColumn):
                yield bias, column, by
