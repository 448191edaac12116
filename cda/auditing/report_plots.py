"""Figures of an audit: shares and rewards, effects and drift; with those of people and doses by the section of each."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

from cda.auditing.report_cells import margin_unit
from cda.auditing.report_dose import dose_plots
from cda.auditing.report_evidence import compares
from cda.auditing.report_people_plots import correlation_plots, people_plots
from cda.report.numbers import count, points, reward, share, signed
from cda.report.plots import (
    FAINT,
    INK,
    LINE,
    PAGE,
    SCORINGS,
    SHARE_LIMITS,
    THIRD,
    Mark,
    Plot,
    Row,
    Scale,
    draw_frame,
    draw_rows,
    legend,
    named,
    rows_height,
    rows_plot,
    slugs,
)
from cda.results.audit import AuditResult
from cda.results.base import Estimate, Measure, Missing, PerScoring
from cda.results.effects import Adjusted, BiasDrift, DirectEffects, Distribution, Effect, Form, Kinds, PairsEffect
from cda.results.rate import BiasRate, RateEffects

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_TEXTS = {"original": "original", "rewrite": "rewrite", "rewrite_of_rewrite": "rewrite of it"}
_SIDES = {"base": "other side", "perturbed": "biased side"}
_STARTS = {"with": "had it", "without": "had it not"}
_ROW_INCHES = 0.36
_TALLEST = 0.85  # of a row
_MEDIAN = 2  # its place among the quantiles
_PAIRS = {
    "all": Mark("all pairs", FAINT, "o", filled=False),
    "alike": Mark("like pairs", INK, "D"),
    "linear": Mark("adjusted, linear", THIRD, "^"),
    "log_ratio": Mark("adjusted, log ratio", THIRD, "v", filled=False),
}
_FORMS: tuple[Form, ...] = ("linear", "log_ratio")
# The naive estimator has one number for all three estimands.
_KINDS = (("ATE", "naive"), *((estimand, by) for estimand in ("ATE", "ATT", "ATU") for by in ("single", "double")))
_IMBALANCE = 0.1
_MOST_SDS = 3.0

Ridges = Sequence[tuple[str, Mapping[str, Distribution]]]
"""Label of a row and its distribution under each scoring."""


def section_plots(audit: AuditResult) -> dict[str, tuple[Plot, ...]]:
    """Figures of each section, by its id, each only if its data exist; skew itself stands on the first screen."""
    by_section = {
        "votes": people_plots(audit),
        "dose": dose_plots(audit),
        "biases": [*_change_plots(audit), *_contrast_rewards(audit)],
        "effects": [plot for when in audit.scorings if (plot := _effects_plot(audit, when)) is not None],
        "rate": [*_rate_plots(audit), *_triple_rewards(audit)],
        "quality": _quality_plots(audit),
        "data": correlation_plots(audit),
        "drift": _drift_plots(audit),
    }
    return {section: tuple(plots) for section, plots in by_section.items() if plots}


def audit_plots(audit: AuditResult) -> list[Plot]:
    """Every figure, in the order of the report, with skew first; these are exported for print."""
    return [skew_plot(audit), *(plot for plots in section_plots(audit).values() for plot in plots)]


def skew_plot(audit: AuditResult) -> Plot:
    """Skew of every bias under every scoring; the page has it on its first screen, so this one is for paper."""
    title = "Skew of each bias: how often the model prefers the biased side"
    rows = {_label(name, audit): skew for name, skew in audit.skew.items()}
    plain = {_label(name, audit): audit.plain.skew[name].last for name in audit.skew} if audit.plain else {}
    return _shares_plot("skew", title, "prefers the biased side (%)", rows, audit, plain)


def _change_plots(audit: AuditResult) -> list[Plot]:
    """Paired change of skew of every bias; none without a training."""
    if not compares(audit):
        return []
    changes = [(_label(name, audit), skew.of_training().change) for name, skew in audit.skew.items()]
    rows = [Row(label, (change,)) for label, change in changes]
    words = " ".join(f"{label} {points(change)} (n = {count(change)})." for label, change in changes)
    title = "Change of skew by training, paired, with 95% intervals"
    scale = Scale("change of skew (points)", is_share=True, reference=0, bars=True)
    return [rows_plot("skew-change", title, f"Change of skew: {words}", rows, [Mark("change", INK, "o")], scale)]


def _quality_plots(audit: AuditResult) -> list[Plot]:
    """Accuracy on held-out pairs; none without such pairs."""
    if audit.quality is None:
        return []
    label = "all held-out pairs"
    plain = {label: audit.plain.quality.last} if audit.plain and audit.plain.quality else {}
    title = "Quality: how often the better response of a held-out pair is preferred"
    return [_shares_plot("quality", title, "ranked right (%)", {label: audit.quality}, audit, plain)]


def _shares_plot(
    name: str,
    title: str,
    axis: str,
    measures: Mapping[str, Measure],
    audit: AuditResult,
    plain: Mapping[str, Estimate],
) -> Plot:
    """Rows of shares under every scoring, and of plain CDA by label if that is another one."""
    marks = [SCORINGS[when] for when in (*audit.scorings, *(("plain",) if plain else ()))]
    rows, parts = [], []
    for label, measure in measures.items():
        estimates = (*(share for _, share in measure.items()), *((plain.get(label),) if plain else ()))
        rows.append(Row(label, estimates))
        said = [
            f"{mark.name} {share(estimate)}"
            for mark, estimate in zip(marks, estimates, strict=True)
            if estimate is not None
        ]
        parts.append(f"{label}: {', '.join(said)} (n = {count(measure.before)}).")
    scale = Scale(axis, is_share=True, limits=SHARE_LIMITS, reference=50)
    return rows_plot(name, title, " ".join(parts), rows, marks, scale)


def _label(name: str, audit: AuditResult) -> str:
    return named(name) + (" (target)" if audit.skew[name].target and compares(audit) else "")


def _contrast_rewards(audit: AuditResult) -> list[Plot]:
    """Rewards of both sides of every bias's contrasts, on common bins; none of a judge, which rewards no single text."""
    if isinstance(audit.rewards, Missing):
        return []
    found = audit.rewards.contrasts
    rows = [
        (f"{named(name, 14)}:\n{word}", _distributions(of, side))
        for name, of in found.of.items()
        for side, word in _SIDES.items()
    ]
    title = "Rewards of the two sides of each bias's contrasts; the line through each is the median"
    return _ridges("rewards", title, "Rewards of the two sides of contrasts.", rows, found.edges, audit)


def _triple_rewards(audit: AuditResult) -> list[Plot]:
    """For each bias with triples: rewards of originals, rewrites and rewrites of rewrites."""
    triples = {} if isinstance(audit.rewards, Missing) else audit.rewards.triples
    words = slugs(triples)
    plots: list[Plot] = []
    for name, found in triples.items():
        kinds = {kind for _, of in found.of.items() for kind in of}
        rows = [
            (f"{text_word}\n({start_word})", _distributions(found.of, f"{start}, {text}"))
            for start, start_word in _STARTS.items()
            for text, text_word in _TEXTS.items()
            if f"{start}, {text}" in kinds
        ]
        title = f"{name}: rewards of originals that had the attribute or had it not, of their rewrites, and of the rewrites of these"
        opening = f"Rewards of texts of triples of {name}."
        plots += _ridges(f"rewards-{words[name]}", title, opening, rows, found.edges, audit)
    return plots


def _distributions(of: PerScoring[Kinds], kind: str) -> dict[str, Distribution]:
    return {when: found for when, kinds in of.items() if isinstance(found := kinds.get(kind), Distribution)}


def _ridges(
    name: str, title: str, opening: str, rows: Ridges, edges: Sequence[float], audit: AuditResult
) -> list[Plot]:
    kept = [(label, by_scoring) for label, by_scoring in rows if by_scoring]
    if not kept:
        return []
    parts = []
    for label, by_scoring in kept:
        said = (
            f"{when} mean {signed(hill.mean)}, median {reward(hill.quantiles[_MEDIAN])}, "
            f"middle half {reward(hill.quantiles[1])} to {reward(hill.quantiles[3])} (n = {count(hill.mean)})"
            for when, hill in by_scoring.items()
        )
        parts.append(f"{' '.join(label.split())}: {'; '.join(said)}.")
    draw = partial(_draw_ridges, kept, edges, audit.scorings)
    return [Plot(name, title, f"{opening} {' '.join(parts)}", draw, 0.75 + _ROW_INCHES * len(kept))]


def _draw_ridges(rows: Ridges, edges: Sequence[float], scorings: Sequence[str], axes: Axes) -> None:
    """Histograms as hills, one row each; a scoring's are as high as its largest share of texts in a bin."""
    from matplotlib.lines import Line2D

    for when in scorings:
        drawn = {len(rows) - 1 - y: found[when] for y, (_, found) in enumerate(rows) if when in found}
        highest = max((max(hill.counts) / max(1, sum(hill.counts)) for hill in drawn.values()), default=1.0)
        for bottom, hill in drawn.items():
            _draw_hill(axes, hill, edges, bottom, highest, SCORINGS[when])
    axes.set_yticks([len(rows) - 0.6 - y for y in range(len(rows))], [label for label, _ in rows])
    axes.set_ylim(-0.1, len(rows))
    axes.tick_params(axis="y", length=0, labelcolor=FAINT)
    axes.spines["left"].set_visible(False)
    draw_frame(axes, "reward", "x")
    if len(scorings) > 1:
        for when in scorings:
            axes.add_line(Line2D([], [], color=SCORINGS[when].color, label=when))
        legend(axes, len(scorings))


def _draw_hill(axes: Axes, one: Distribution, edges: Sequence[float], bottom: int, highest: float, mark: Mark) -> None:
    color, total = mark.color, max(1, sum(one.counts))
    heights = [bottom + _TALLEST * number / total / highest for number in one.counts]
    alpha = 0.3 if mark.filled else 0.12
    axes.stairs(heights, edges, baseline=bottom, color=color, linewidth=1.0, zorder=3)
    axes.stairs(heights, edges, baseline=bottom, color=color, fill=True, alpha=alpha, linewidth=0, zorder=2)
    median, ends = [one.quantiles[_MEDIAN]] * 2, [bottom, bottom + _TALLEST]
    axes.plot(median, ends, color=PAGE, linewidth=2.4, zorder=4)
    axes.plot(median, ends, color=color, linewidth=1.2, zorder=5)


def _effects_plot(audit: AuditResult, when: str) -> Plot | None:
    """Mean margin of all pairs, of like pairs, and adjusted for drift; None if none can be estimated."""
    estimates = {name: found for name, effects in audit.effects.items() if (found := _estimates(effects.of(when)))}
    if not estimates:
        return None
    marks = {key: mark for key, mark in _PAIRS.items() if any(key in found for found in estimates.values())}
    rows, parts = [], []
    for name, found in estimates.items():
        identification = audit.effects[name].of(when).identification
        like = "" if isinstance(identification, Missing) else f", {identification.overlap.n} alike"
        label = f"{named(name)}\n{next(iter(found.values())).n} pairs{like}"
        rows.append(Row(label, tuple(found.get(key) for key in marks)))
        said = ", ".join(
            f"{_PAIRS[key].name} {signed(estimate)} (n = {count(estimate)})" for key, estimate in found.items()
        )
        parts.append(f"{name}: {said}{'' if 'alike' in found else ', like pairs not estimated'}.")
    stage = f", {when}" if compares(audit) else ""
    title = f"Mean margin of all pairs, of pairs alike in all else, and adjusted for drift{stage}"
    scale = Scale(f"mean margin ({margin_unit(audit)})", limits=_common_limits(audit), reference=0)
    text = f"Mean margin{stage}, {' '.join(parts)}"
    plot = rows_plot(f"effects-{when}", title, text, rows, list(marks.values()), scale)
    return replace(plot, height=rows_height(len(rows), max(len(marks), 2)))


def _common_limits(audit: AuditResult) -> tuple[float, float]:
    """One axis for all scorings, so that their figures can be held side by side."""
    shown = [
        estimate
        for effects in audit.effects.values()
        for _, scored in effects.items()
        for estimate in _estimates(scored).values()
    ]
    low, high = min(0.0, *(estimate.low for estimate in shown)), max(0.0, *(estimate.high for estimate in shown))
    margin = 0.05 * (high - low) or 1.0
    return low - margin, high + margin


def _estimates(effects: DirectEffects) -> dict[str, Estimate]:
    """Kind of estimate to the estimate, in the order drawn, without those that could not be estimated."""
    found = effects.identification
    estimates = {"all": effects.direct.estimate} if isinstance(effects.direct, Effect) else {}
    if isinstance(found, Missing):
        return estimates
    if isinstance(found.overlap_effect, PairsEffect):
        estimates["alike"] = found.overlap_effect.mean_margin
    return estimates | {
        form: adjusted.effect for form in _FORMS if isinstance(adjusted := found.adjusted.get(form), Adjusted)
    }


def _rate_plots(audit: AuditResult) -> list[Plot]:
    """For each bias with triples: every estimand by every estimator, under all scorings."""
    words = slugs(audit.rate)
    plots = [_rate_plot(name, rate, words[name]) for name, rate in audit.rate.items()]
    return [plot for plot in plots if plot is not None]


def _rate_plot(name: str, rate: BiasRate, word: str) -> Plot | None:
    effects = {
        when: {(effect.estimand, effect.estimator): effect.estimate for effect in scored.overall.effects}
        for when, scored in rate.under().items()
        if isinstance(scored.overall, RateEffects)
    }
    rows, parts = [], []
    for kind in _KINDS:
        estimates = [found.get(kind) for found in effects.values()]
        if any(estimates):
            label = "naive" if kind[1] == "naive" else " ".join(kind)
            rows.append(Row(label, tuple(estimates)))
            said = [
                f"{when} {signed(estimate)} (n = {count(estimate)})"
                for when, estimate in zip(effects, estimates, strict=True)
                if estimate
            ]
            parts.append(f"{label}: {', '.join(said)}.")
    if not rows:
        return None
    first = rows[0].estimates[0]
    scale = Scale(f"effect on the {first.unit if first else 'reward'}", reference=0, bars=True)
    title = f"{name}: effect of the attribute by each estimator, with 95% intervals (naive: one number for all three effects)"
    text = f"RATE effects of {name} on {rate.n} triples. {' '.join(parts)}"
    return rows_plot(f"rate-{word}", title, text, rows, [SCORINGS[when] for when in effects], scale)


def _drift_plots(audit: AuditResult) -> list[Plot]:
    """For each target: the standardized difference of every feature that is not the bias itself."""
    names = [name for name in audit.drift if name in audit.skew and audit.skew[name].target]
    words = slugs(names)
    plots = [_drift_plot(name, audit.drift[name], words[name]) for name in names]
    return [plot for plot in plots if plot is not None]


def _drift_plot(name: str, drift: BiasDrift, word: str) -> Plot | None:
    rows: list[tuple[str, Estimate]] = []
    parts = []
    for found in () if isinstance(drift.features, Missing) else drift.features:
        if found.is_treatment or found.standardised is None:
            continue
        label = found.feature.replace("_", " ")
        beyond = "" if found.beyond is None else f", {share(found.beyond)} of pairs beyond the limit"
        rows.append((named(label, 24), found.standardised))
        parts.append(f"{label} {signed(found.standardised)}{beyond}.")
    if not rows:
        return None
    text = f"Differences between the sides of {drift.n} contrasts of {name}, in standard deviations: {' '.join(parts)}"
    title = (
        f"{name}: what else differs between the sides, in standard deviations. Within the grey band a difference is usually "
        "called balanced"
    )
    return Plot(f"drift-{word}", title, text, partial(_draw_drift, rows), rows_height(len(rows), 1))


def _draw_drift(rows: Sequence[tuple[str, Estimate]], axes: Axes) -> None:
    low, high = min(estimate.low for _, estimate in rows), max(estimate.high for _, estimate in rows)
    limits = (max(-_MOST_SDS, min(low, -0.2) - 0.1), min(_MOST_SDS, max(high, 0.2) + 0.1))
    axes.axvspan(-_IMBALANCE, _IMBALANCE, color=LINE, alpha=0.6, linewidth=0, zorder=0)
    scale = Scale("biased side − other side (SDs)", limits=limits, reference=0)
    draw_rows(axes, [Row(label, (estimate,)) for label, estimate in rows], [Mark("difference", INK, "o")], scale)
    for y, (_, estimate) in enumerate(rows):
        # Features that are nearly constant have huge standardized differences: the number stands at the edge.
        if not limits[0] <= estimate.value <= limits[1]:
            right = estimate.value > 0
            axes.text(limits[right], y, f"{reward(estimate.value)} {'→' if right else '←'}", fontsize=6.5, va="center",
                      ha="right" if right else "left")  # fmt: skip
