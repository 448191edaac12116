"""Figures of effects: margins where the sides overlap, RATE's estimators, and the drift between the sides."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING

from cda.auditing.report_evidence import compares
from cda.report.numbers import count, reward, share, signed
from cda.report.plots import (
    FAINT,
    INK,
    LINE,
    SCORINGS,
    THIRD,
    Mark,
    Plot,
    Row,
    Scale,
    draw_rows,
    named,
    rows_height,
    slugs,
)
from cda.results.audit import AuditResult
from cda.results.base import Estimate, Missing
from cda.results.effects import Adjusted, BiasDrift, DirectEffects, Effect, Form, PairsEffect
from cda.results.rate import BiasRate, RateEffects

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_PAIRS = {
    "all": Mark("all pairs", FAINT, "o", filled=False),
    "alike": Mark("like pairs", INK, "D"),
    "linear": Mark("adjusted, linear", THIRD, "^"),
    "log_ratio": Mark("adjusted, log ratio", THIRD, "v", filled=False),
}
_FORMS: tuple[Form, ...] = ("linear", "log_ratio")
_ESTIMATORS = ("naive", "single", "double")
_ESTIMANDS = ("ATE", "ATT", "ATU")
_IMBALANCE = 0.1
_MOST_SDS = 3.0


def effect_plots(audit: AuditResult) -> list[Plot]:
    """For every scoring: mean margin of all pairs, of like pairs, and adjusted for drift; where one can be estimated."""
    return [plot for when in audit.scorings if (plot := _overlap(audit, when)) is not None]


def rate_plots(audit: AuditResult) -> list[Plot]:
    """For each bias with triples: every estimand by every estimator, under all scorings."""
    words = slugs(audit.rate)
    found = [_rate(name, one, words[name]) for name, one in audit.rate.items()]
    return [plot for plot in found if plot is not None]


def drift_plots(audit: AuditResult) -> list[Plot]:
    """For each target: the standardized difference of every feature that is not the bias itself."""
    names = [name for name in audit.drift if name in audit.skew and audit.skew[name].target]
    words = slugs(names)
    found = [_drift(name, audit.drift[name], words[name]) for name in names]
    return [plot for plot in found if plot is not None]


def _overlap(audit: AuditResult, when: str) -> Plot | None:
    rows: list[tuple[str, dict[str, Estimate]]] = []
    parts: list[str] = []
    seen: set[str] = set()
    for name, one in audit.effects.items():
        estimates, like = _estimates(one.of(when))
        if not estimates:
            continue
        seen |= estimates.keys()
        n = next(iter(estimates.values())).n
        rows.append((f"{named(name)}\n{n} pairs{like}", estimates))
        said = [f"{_PAIRS[key].name} {signed(found)} (n = {count(found)})" for key, found in estimates.items()]
        parts.append(f"{name}: {', '.join(said)}{'' if 'alike' in estimates else ', like pairs not estimated'}.")
    if not rows:
        return None
    marks = {key: mark for key, mark in _PAIRS.items() if key in seen}
    drawn = [Row(label, tuple(estimates.get(key) for key in marks)) for label, estimates in rows]
    unit = next(iter(audit.effects.values())).unit
    stage = f", {when}" if compares(audit) else ""
    scale = Scale(f"mean margin ({unit})", limits=_common_limits(audit), reference=0)
    height = rows_height(len(drawn), max(len(marks), 2))
    return Plot(f"effects-{when}", f"Mean margin of all pairs, of pairs alike in all else, and adjusted for drift{stage}",
                f"Mean margin{stage}, {' '.join(parts)}", lambda axes: draw_rows(axes, drawn, list(marks.values()), scale),
                height)  # fmt: skip


def _common_limits(audit: AuditResult) -> tuple[float, float]:
    """One axis for all scorings, so that their figures can be held side by side."""
    found = [
        one
        for per_bias in audit.effects.values()
        for _, scored in per_bias.items()
        for one in _estimates(scored)[0].values()
    ]
    low, high = min(0.0, *(one.low for one in found)), max(0.0, *(one.high for one in found))
    margin = 0.05 * (high - low) or 1.0
    return low - margin, high + margin


def _estimates(one: DirectEffects) -> tuple[dict[str, Estimate], str]:
    """Kind of estimate to the estimate, in the order drawn, without those that there is no number for; how many are alike."""
    found = one.identification
    estimates = {"all": one.direct.estimate} if isinstance(one.direct, Effect) else {}
    if isinstance(found, Missing):
        return estimates, ""
    if isinstance(found.overlap_effect, PairsEffect):
        estimates["alike"] = found.overlap_effect.mean_margin
    for form in _FORMS:
        adjusted = found.adjusted.get(form)
        if isinstance(adjusted, Adjusted):
            estimates[form] = adjusted.effect
    return estimates, f", {found.overlap.n} alike"


def _rate(name: str, one: BiasRate, word: str) -> Plot | None:
    effects = {
        when: _by_kind(found.overall) for when, found in one.under().items() if isinstance(found.overall, RateEffects)
    }
    scorings = list(effects)
    # The naive estimator has one number for all three estimands.
    kinds = [("ATE", "naive"), *((estimand, by) for estimand in _ESTIMANDS for by in _ESTIMATORS[1:])]
    kinds = [kind for kind in kinds if any(kind in found for found in effects.values())]
    if not kinds:
        return None
    rows = [
        Row("naive" if kind[1] == "naive" else " ".join(kind), tuple(effects[when].get(kind) for when in scorings))
        for kind in kinds
    ]
    parts = []
    for row in rows:
        said = [
            f"{when} {signed(found)} (n = {count(found)})"
            for when, found in zip(scorings, row.estimates, strict=True)
            if found
        ]
        parts.append(f"{row.label}: {', '.join(said)}.")
    unit = effects[scorings[0]][kinds[0]].unit if kinds[0] in effects[scorings[0]] else "reward"
    marks = [SCORINGS[when] for when in scorings]
    scale = Scale(f"effect on the {unit}", reference=0, bars=True)
    return Plot(f"rate-{word}", f"{name}: effect of the attribute by each estimator, with 95% intervals (naive: one number for "
                "all three effects)", f"RATE effects of {name} on {one.n} triples. {' '.join(parts)}",
                lambda axes: draw_rows(axes, rows, marks, scale), rows_height(len(rows), len(marks)))  # fmt: skip


def _by_kind(effects: RateEffects) -> dict[tuple[str, str], Estimate]:
    return {(one.estimand, one.estimator): one.estimate for one in effects.effects}


def _drift(name: str, one: BiasDrift, word: str) -> Plot | None:
    rows: list[tuple[str, Estimate]] = []
    parts = []
    for found in () if isinstance(one.features, Missing) else one.features:
        if found.is_treatment or found.standardised is None:
            continue
        label = found.feature.replace("_", " ")
        beyond = "" if found.beyond is None else f", {share(found.beyond)} of pairs beyond the limit"
        rows.append((named(label, 24), found.standardised))
        parts.append(f"{label} {signed(found.standardised)}{beyond}.")
    if not rows:
        return None
    text = f"Differences between the sides of {one.n} contrasts of {name}, in standard deviations: {' '.join(parts)}"
    return Plot(f"drift-{word}", f"{name}: what else differs between the sides, in standard deviations. Within the grey band "
                "a difference is usually called balanced", text, partial(_draw_drift, rows), rows_height(len(rows), 1))  # fmt: skip


def _draw_drift(rows: Sequence[tuple[str, Estimate]], axes: Axes) -> None:
    low, high = min(found.low for _, found in rows), max(found.high for _, found in rows)
    limits = (max(-_MOST_SDS, min(low, -0.2) - 0.1), min(_MOST_SDS, max(high, 0.2) + 0.1))
    axes.axvspan(-_IMBALANCE, _IMBALANCE, color=LINE, alpha=0.6, linewidth=0, zorder=0)
    scale = Scale("biased side − other side (SDs)", limits=limits, reference=0)
    draw_rows(axes, [Row(label, (found,)) for label, found in rows], [Mark("difference", INK, "o")], scale)
    for y, (_, found) in enumerate(rows):
        # Features that are nearly constant have huge standardized differences: the number stands at the edge.
        if not limits[0] <= found.value <= limits[1]:
            right = found.value > 0
            axes.text(limits[right], y, f"{reward(found.value)} {'→' if right else '←'}", fontsize=6.5, va="center",
                      ha="right" if right else "left")  # fmt: skip
