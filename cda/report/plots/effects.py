"""Figures of effects: margins where the sides overlap, RATE's estimators, and the drift between the sides."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import TYPE_CHECKING

from cda.report.numbers import Json, count, reward, share, signed
from cda.report.plots.plot import FAINT, INK, LINE, THIRD, Plot
from cda.report.plots.rows import SCORINGS, Mark, Row, Scale, draw_rows, named, rows_height, slugs
from cda.report.tables import compares
from cda.results.audit import AuditResult

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_PAIRS = {
    "all": Mark("all pairs", FAINT, "o", filled=False),
    "alike": Mark("like pairs", INK, "D"),
    "linear": Mark("adjusted, linear", THIRD, "^"),
    "log_ratio": Mark("adjusted, log ratio", THIRD, "v", filled=False),
}
_ESTIMATORS = ("naive", "single", "double")
_ESTIMANDS = ("ATE", "ATT", "ATU")
_IMBALANCE = 0.1
_MOST_SDS = 3.0


def effect_plots(audit: AuditResult) -> list[Plot]:
    """For every scoring: mean margin of all pairs, of like pairs, and adjusted for drift; where one can be estimated."""
    return [plot for when in audit.scorings if (plot := _overlap(audit, when)) is not None]


def rate_plots(audit: AuditResult) -> list[Plot]:
    """For each bias with triples: every estimand by every estimator, under all scorings."""
    words = slugs(audit["rate"])
    found = [_rate(name, one, words[name], audit) for name, one in audit["rate"].items()]
    return [plot for plot in found if plot is not None]


def drift_plots(audit: AuditResult) -> list[Plot]:
    """For each target: the standardized difference of every feature that is not the bias itself."""
    names = [name for name, one in audit["drift"].items() if name in audit.skew and audit.skew[name].target]
    words = slugs(names)
    found = [_drift(name, audit["drift"][name], words[name]) for name in names]
    return [plot for plot in found if plot is not None]


def _overlap(audit: AuditResult, when: str) -> Plot | None:
    rows: list[tuple[str, dict[str, Json]]] = []
    parts: list[str] = []
    seen: set[str] = set()
    for name, one in audit["effects"].items():
        estimates, like = _estimates(one[when])
        if not estimates:
            continue
        seen |= estimates.keys()
        n = next(iter(estimates.values()))["n"]
        rows.append((f"{named(name)}\n{n} pairs{like}", estimates))
        said = [f"{_PAIRS[key].name} {signed(found)} (n = {count(found)})" for key, found in estimates.items()]
        parts.append(f"{name}: {', '.join(said)}{'' if 'alike' in estimates else ', like pairs not estimated'}.")
    if not rows:
        return None
    marks = {key: mark for key, mark in _PAIRS.items() if key in seen}
    drawn = [Row(label, tuple(estimates.get(key) for key in marks)) for label, estimates in rows]
    unit = next(iter(audit["effects"].values()))["unit"]
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
        for per_bias in audit["effects"].values()
        for when in audit.scorings
        for one in _estimates(per_bias[when])[0].values()
    ]
    low, high = min(0.0, *(one["low"] for one in found)), max(0.0, *(one["high"] for one in found))
    margin = 0.05 * (high - low) or 1.0
    return low - margin, high + margin


def _estimates(one: Json) -> tuple[dict[str, Json], str]:
    """Kind of estimate to the estimate, in the order drawn, without those that there is no number for; how many are alike."""
    direct, found = one["direct"], one["identification"]
    estimates: dict[str, Json] = {} if "missing" in direct else {"all": direct["estimate"]}
    if "missing" in found:
        return estimates, ""
    among = found["overlap_effect"]
    if "reason" not in among:
        estimates["alike"] = among["mean_margin"]
    for form in ("linear", "log_ratio"):
        adjusted = found["adjusted"].get(form)
        if adjusted is not None and "reason" not in adjusted:
            estimates[form] = adjusted["effect"]
    return estimates, f", {found['overlap']['n']} alike"


def _rate(name: str, one: Json, word: str, audit: AuditResult) -> Plot | None:
    scorings = [when for when in audit.scorings if "effects" in one.get(when, {})]
    effects = {when: _by_kind(one[when]) for when in scorings}
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
    unit = effects[scorings[0]][kinds[0]]["unit"] if kinds[0] in effects[scorings[0]] else "reward"
    marks = [SCORINGS[when] for when in scorings]
    scale = Scale(f"effect on the {unit}", reference=0, bars=True)
    return Plot(f"rate-{word}", f"{name}: effect of the attribute by each estimator, with 95% intervals (naive: one number for "
                "all three effects)", f"RATE effects of {name} on {one['n']} triples. {' '.join(parts)}",
                lambda axes: draw_rows(axes, rows, marks, scale), rows_height(len(rows), len(marks)))  # fmt: skip


def _by_kind(effects: Json) -> Mapping[tuple[str, str], Json]:
    return {(one["estimand"], one["estimator"]): one["estimate"] for one in effects["effects"]}


def _drift(name: str, one: Json, word: str) -> Plot | None:
    features = [found for found in one["features"] if not found["is_treatment"] and found["standardised"] is not None]
    if not features:
        return None
    rows, parts = [], []
    for found in features:
        label = str(found["feature"]).replace("_", " ")
        beyond = "" if found["beyond"] is None else f", {share(found['beyond'])} of pairs beyond the limit"
        rows.append(Row(named(label, 24), (found["standardised"],)))
        parts.append(f"{label} {signed(found['standardised'])}{beyond}.")
    text = f"Differences between the sides of {one['n']} contrasts of {name}, in standard deviations: {' '.join(parts)}"
    return Plot(f"drift-{word}", f"{name}: what else differs between the sides, in standard deviations. Within the grey band "
                "a difference is usually called balanced", text, partial(_draw_drift, rows), rows_height(len(rows), 1))  # fmt: skip


def _draw_drift(rows: list[Row], axes: Axes) -> None:
    estimates = [found for row in rows for found in row.estimates if found is not None]
    low, high = min(one["low"] for one in estimates), max(one["high"] for one in estimates)
    limits = (max(-_MOST_SDS, min(low, -0.2) - 0.1), min(_MOST_SDS, max(high, 0.2) + 0.1))
    axes.axvspan(-_IMBALANCE, _IMBALANCE, color=LINE, alpha=0.6, linewidth=0, zorder=0)
    scale = Scale("biased side − other side (SDs)", limits=limits, reference=0)
    draw_rows(axes, rows, [Mark("difference", INK, "o")], scale)
    for y, found in enumerate(estimates):
        # Features that are nearly constant have huge standardized differences: the number stands at the edge.
        if not limits[0] <= found["value"] <= limits[1]:
            right = found["value"] > 0
            axes.text(limits[right], y, f"{reward(found['value'])} {'→' if right else '←'}", fontsize=6.5, va="center",
                      ha="right" if right else "left")  # fmt: skip
