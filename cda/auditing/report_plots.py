"""Figures of an audit: shares, people, rewards, effects and drift; those of doses are in `report_trainings`."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

from cda.auditing.report_cells import at_no_drift, compares, margin_unit, mean_margin, voted_names
from cda.auditing.report_covariates import by_plots
from cda.auditing.report_data import correlation_plot
from cda.auditing.report_tables import SIDES
from cda.auditing.report_trainings import dose_curves
from cda.report import plots
from cda.report.numbers import count, points, reward, share, signed
from cda.report.plots import FAINT, INK, PAGE, PEOPLE, SCORINGS, SHARE_LIMITS, THIRD, Mark, Plot, PlotRow, Scale, named
from cda.results.audit import AuditResult
from cda.results.base import Distribution, Estimate, Kinds, Missing, PerScoring
from cda.results.effects import BiasDrift, BiasRate, DirectEffects, RateEffects
from cda.results.skew import NoiseCeiling, VotedBias

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_TEXTS = {"original": "original", "rewrite": "rewrite", "rewrite_of_rewrite": "rewrite of it"}
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
# The naive estimator has one number for all three estimands.
_KINDS = (("ATE", "naive"), *((estimand, by) for estimand in ("ATE", "ATT", "ATU") for by in ("single", "double")))
_IMBALANCE = 0.1
_MOST_SDS = 3.0
_SECOND = "a second majority of people"

Shown = Mapping[str, Estimate | None]
"""Word for a kind of estimate to the estimate; None if there is none."""
Ridges = Sequence[tuple[str, Mapping[str, Distribution]]]
"""Label of a row and its distribution under each scoring."""


def section_plots(audit: AuditResult) -> dict[str, tuple[Plot, ...]]:
    """Figures of each section, by its id, each only if its data exist; skew itself stands on the first screen."""
    words = plots.slugs(audit.rate)
    drifts = {name: drift for name, drift in audit.drift.items() if name in audit.skew and audit.skew[name].target}
    by_section: dict[str, list[Plot | None]] = {
        "votes": [*_people_plots(audit)],
        "dose": [*(dose_curves(audit.dose) if audit.dose else ())],
        "biases": [_change_plot(audit), _contrast_rewards(audit)],
        "effects": [_effects_plot(audit, when) for when in audit.scorings],
        "rate": [*(_rate_plot(name, rate, words[name]) for name, rate in audit.rate.items()), *_triple_rewards(audit)],
        "by": [*by_plots(audit)],
        "quality": [_quality_plot(audit)],
        "data": [correlation_plot(audit)],
        "drift": [_drift_plot(name, drifts[name], word) for name, word in plots.slugs(drifts).items()],
    }
    known = {section: tuple(plot for plot in found if plot is not None) for section, found in by_section.items()}
    return {section: found for section, found in known.items() if found}


def skew_plot(audit: AuditResult) -> Plot:
    """Skew of every bias under every scoring; the page has it on its first screen, so this one is for paper."""
    plain = audit.plain.skew if audit.plain else {}
    shares = [
        (_label(name, audit), dict(skew.items()) | ({"plain": plain[name].last} if plain else {}))
        for name, skew in audit.skew.items()
    ]
    title = "Skew of each bias: how often the model prefers the biased side"
    return _shares_plot("skew", title, "prefers the biased side (%)", shares)


def _quality_plot(audit: AuditResult) -> Plot | None:
    if audit.quality is None:
        return None
    plain = audit.plain.quality if audit.plain else None
    shares = dict(audit.quality.items()) | ({"plain": plain.last} if plain else {})
    title = "Quality: how often the better response of a held-out pair is preferred"
    return _shares_plot("quality", title, "ranked right (%)", [("all held-out pairs", shares)])


def _shares_plot(id: str, title: str, axis: str, shares: Sequence[tuple[str, Mapping[str, Estimate]]]) -> Plot:
    marks = {when: SCORINGS[when] for when in shares[0][1]}
    said = [_said(label, {marks[when].name: each for when, each in own.items()}, share, True) for label, own in shares]
    return _rows_plot(id, title, " ".join(said), shares, marks, _percent(axis, 50))


def _rows_plot(
    id: str, title: str, text: str, shown: Iterable[tuple[str, Shown]], marks: Mapping[str, Mark], scale: Scale
) -> Plot:
    """A row for each label, with the marks of the words it has an estimate for."""
    rows = [PlotRow(label, tuple(own.get(word) for word in marks)) for label, own in shown]
    draw = partial(plots.draw_rows, rows=rows, marks=list(marks.values()), scale=scale)
    return Plot(id, title, text, draw, plots.rows_height(len(rows), len(marks)))


def _percent(axis: str, reference: float | None = None) -> Scale:
    return Scale(axis, is_share=True, limits=SHARE_LIMITS, reference=reference)


def _said(label: str, shown: Shown, form: Callable[[Estimate], str], once: bool = False, end: str = "") -> str:
    """A row in words, with n behind each number, or once behind all."""
    known = {word: estimate for word, estimate in shown.items() if estimate is not None}
    ns = [f" (n = {count(estimate)})" for estimate in known.values()]
    words = (f"{word} {form(known[word])}{'' if once else n}" for word, n in zip(known, ns, strict=True))
    return f"{label}: {', '.join(words)}{ns[0] if once else ''}{end}."


def _change_plot(audit: AuditResult) -> Plot | None:
    if not compares(audit):
        return None
    changes = [(_label(name, audit), skew.of_training().change) for name, skew in audit.skew.items()]
    words = " ".join(f"{label} {points(change)} (n = {count(change)})." for label, change in changes)
    title = "Change of skew by training, paired, with 95% intervals"
    scale = Scale("change of skew (points)", is_share=True, reference=0, bars=True)
    shown = [(label, {"": change}) for label, change in changes]
    return _rows_plot("skew-change", title, f"Change of skew: {words}", shown, {"": Mark("change", INK, "o")}, scale)


def _label(name: str, audit: AuditResult) -> str:
    return named(name) + (" (target)" if audit.skew[name].target and compares(audit) else "")


def _people_plots(audit: AuditResult) -> list[Plot]:
    votes = {name: audit.votes[name] for name in voted_names(audit)}
    if not votes:
        return []
    scorings = {when: SCORINGS[when] for when in audit.scorings}
    skew = {name: {"people": voted.human_skew, **dict(voted.skew_on_voted.items())} for name, voted in votes.items()}
    missed: dict[str, Shown] = {}
    for name, voted in votes.items():
        ceiling = voted.noise_ceiling
        second = ceiling.miscalibration if isinstance(ceiling, NoiseCeiling) else None
        missed[name] = {**dict(voted.miscalibration.items()), _SECOND: second}
    ceilings = any(shown[_SECOND] for shown in missed.values())
    drawn = {**scorings, **({_SECOND: Mark("second majority of people", PEOPLE, "D")} if ceilings else {})}
    return [
        _beside_people(
            "human-skew", "Skew of the model next to people's, on the contrasts with a majority; lines are 95% intervals",
            "Skew", skew, {"people": plots.PEOPLE_MARK, **scorings}, _percent("prefers the biased side (%)", 50)),
        _beside_people(
            "miscalibration", "Miscalibration: how often the model and people's majority disagree",
            "Miscalibration", missed, drawn, _percent("disagrees with people's majority (%)")),
        _by_majority(votes, audit.scorings),
    ]  # fmt: skip


def _beside_people(
    id: str, title: str, what: str, shown: Mapping[str, Shown], marks: Mapping[str, Mark], scale: Scale
) -> Plot:
    text = f"{what}, {' '.join(_said(name, own, share, True) for name, own in shown.items())}"
    return _rows_plot(id, title, text, [(named(name), own) for name, own in shown.items()], marks, scale)


def _by_majority(votes: Mapping[str, VotedBias], scorings: Sequence[str]) -> Plot:
    """Curve of a model that always agrees with people: 100% if they prefer the biased side, else 0%."""
    marks = {
        f"{when} {side}": Mark(f"{when}, people {word}", SCORINGS[when].color, shape, SCORINGS[when].filled)
        for when in scorings
        for side, word, shape in (("perturbed", "for it", "^"), ("base", "against it", "v"))
    }
    words = {side: f"people for the {word}" for side, word in SIDES.items()} | {"tie": "people tied"}
    shown: list[tuple[str, Shown]] = []
    said = []
    for name, voted in votes.items():
        given = {when: preferences.skew_given for when, preferences in voted.by_majority.items()}
        first = next(iter(given.values()))
        n_for, n_against = (first[side].n if side in first else 0 for side in ("perturbed", "base"))
        estimates = {f"{when} {side}": found for when, own in given.items() for side, found in own.items()}
        shown.append((f"{named(name)}\n{n_for} for, {n_against} against", estimates))
        for when, own in given.items():
            ordered = sorted(own, key=lambda side: side == "tie")
            said.append(_said(f"{name}, {when}", {words[side]: own[side] for side in ordered}, share))
    title = "How often the model prefers the biased side where people's majority is for it, and where it is against it"
    text = f"How often the model prefers the biased side, by people's majority. {' '.join(said)}"
    return _rows_plot("by-majority", title, text, shown, marks, _percent("model prefers the biased side (%)"))


def _contrast_rewards(audit: AuditResult) -> Plot | None:
    """Rewards of both sides of every bias's contrasts, on common bins; none of a judge, which rewards no single text."""
    if isinstance(audit.rewards, Missing):
        return None
    found = audit.rewards.contrasts
    rows = [
        (f"{named(name, 14)}:\n{SIDES[side]}", _distributions(of, side))
        for name, of in found.of.items()
        for side in ("base", "perturbed")
    ]
    title = "Rewards of the two sides of each bias's contrasts; the line through each is the median"
    return _ridges("rewards", title, "Rewards of the two sides of contrasts.", rows, found.edges, audit)


def _triple_rewards(audit: AuditResult) -> list[Plot | None]:
    triples = {} if isinstance(audit.rewards, Missing) else audit.rewards.triples
    words = plots.slugs(triples)
    drawn = []
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
        drawn.append(_ridges(f"rewards-{words[name]}", title, opening, rows, found.edges, audit))
    return drawn


def _distributions(of: PerScoring[Kinds], kind: str) -> dict[str, Distribution]:
    return {when: found for when, kinds in of.items() if isinstance(found := kinds.get(kind), Distribution)}


def _ridges(id: str, title: str, opening: str, rows: Ridges, edges: Sequence[float], audit: AuditResult) -> Plot | None:
    kept = [(label, by_scoring) for label, by_scoring in rows if by_scoring]
    parts = []
    for label, by_scoring in kept:
        said = (
            f"{when} mean {signed(hill.mean)}, median {reward(hill.quantiles[_MEDIAN])}, "
            f"middle half {reward(hill.quantiles[1])} to {reward(hill.quantiles[3])} (n = {count(hill.mean)})"
            for when, hill in by_scoring.items()
        )
        parts.append(f"{' '.join(label.split())}: {'; '.join(said)}.")
    draw = partial(_draw_ridges, kept, edges, audit.scorings)
    return Plot(id, title, f"{opening} {' '.join(parts)}", draw, 0.75 + _ROW_INCHES * len(kept)) if kept else None


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
    plots.draw_frame(axes, "reward", "x")
    if len(scorings) > 1:
        for when in scorings:
            axes.add_line(Line2D([], [], color=SCORINGS[when].color, label=when))
        plots.legend(axes, len(scorings))


def _draw_hill(axes: Axes, hill: Distribution, edges: Sequence[float], bottom: int, highest: float, mark: Mark) -> None:
    color, total = mark.color, max(1, sum(hill.counts))
    heights = [bottom + _TALLEST * number / total / highest for number in hill.counts]
    alpha = 0.3 if mark.filled else 0.12
    axes.stairs(heights, edges, baseline=bottom, color=color, linewidth=1.0, zorder=3)
    axes.stairs(heights, edges, baseline=bottom, color=color, fill=True, alpha=alpha, linewidth=0, zorder=2)
    median, ends = [hill.quantiles[_MEDIAN]] * 2, [bottom, bottom + _TALLEST]
    axes.plot(median, ends, color=PAGE, linewidth=2.4, zorder=4)
    axes.plot(median, ends, color=color, linewidth=1.2, zorder=5)


def _effects_plot(audit: AuditResult, when: str) -> Plot | None:
    each = {name: _estimates(effects.of(when)) for name, effects in audit.effects.items()}
    estimates = {name: found for name, found in each.items() if found}
    if not estimates:
        return None
    marks = {key: mark for key, mark in _PAIRS.items() if any(key in found for found in estimates.values())}
    shown, said = [], []
    for name, found in estimates.items():
        identification = audit.effects[name].of(when).identification
        like = "" if isinstance(identification, Missing) else f", {identification.overlap.n} alike"
        shown.append((f"{named(name)}\n{next(iter(found.values())).n} pairs{like}", found))
        gap = "" if "alike" in found else ", like pairs not estimated"
        said.append(_said(name, {_PAIRS[key].name: estimate for key, estimate in found.items()}, signed, end=gap))
    stage = f", {when}" if compares(audit) else ""
    title = f"Mean margin of all pairs, of pairs alike in all else, and adjusted for drift{stage}"
    scale = Scale(f"mean margin ({margin_unit(audit)})", limits=_common_limits(audit), reference=0)
    plot = _rows_plot(f"effects-{when}", title, f"Mean margin{stage}, {' '.join(said)}", shown, marks, scale)
    return replace(plot, height=plots.rows_height(len(shown), max(len(marks), 2)))


def _common_limits(audit: AuditResult) -> tuple[float, float]:
    """One axis for all scorings, so that their figures can be held side by side."""
    scored = [found for effects in audit.effects.values() for _, found in effects.items()]
    shown = [estimate for found in scored for estimate in _estimates(found).values()]
    low, high = min(0.0, *(estimate.low for estimate in shown)), max(0.0, *(estimate.high for estimate in shown))
    margin = 0.05 * (high - low) or 1.0
    return low - margin, high + margin


def _estimates(effects: DirectEffects) -> dict[str, Estimate]:
    """Estimates by the keys of `_PAIRS`, without those that could not be made."""
    margins = {"all": mean_margin(effects.direct)} | at_no_drift(effects.identification)
    return {key: found for key in _PAIRS if isinstance(found := margins.get(key), Estimate)}


def _rate_plot(name: str, rate: BiasRate, word: str) -> Plot | None:
    effects = {
        when: {(effect.estimand, effect.estimator): effect.estimate for effect in scored.overall.effects}
        for when, scored in rate.under().items()
        if isinstance(scored.overall, RateEffects)
    }
    shown = [
        ("naive" if kind[1] == "naive" else " ".join(kind), {when: found.get(kind) for when, found in effects.items()})
        for kind in _KINDS
        if any(kind in found for found in effects.values())
    ]
    if not shown:
        return None
    first = next(iter(shown[0][1].values()))
    scale = Scale(f"effect on the {first.unit if first else 'reward'}", reference=0, bars=True)
    title = f"{name}: effect of the attribute by each estimator, with 95% intervals (naive: one number for all three effects)"
    said = " ".join(_said(label, own, signed) for label, own in shown)
    text = f"RATE effects of {name} on {rate.n} triples. {said}"
    return _rows_plot(f"rate-{word}", title, text, shown, {when: SCORINGS[when] for when in effects}, scale)


def _drift_plot(name: str, drift: BiasDrift, word: str) -> Plot | None:
    """The standardized difference of every feature that is not the bias itself."""
    rows: list[PlotRow] = []
    said = []
    for found in () if isinstance(drift.features, Missing) else drift.features:
        if found.is_treatment or found.standardised is None:
            continue
        label = found.feature.replace("_", " ")
        beyond = "" if found.beyond is None else f", {share(found.beyond)} of pairs beyond the limit"
        rows.append(PlotRow(named(label, 24), (found.standardised,)))
        said.append(f"{label} {signed(found.standardised)}{beyond}.")
    if not rows:
        return None
    text = f"Differences between the sides of {drift.n} contrasts of {name}, in standard deviations: {' '.join(said)}"
    title = (
        f"{name}: what else differs between the sides, in standard deviations. Within the grey band a difference is usually "
        "called balanced"
    )
    draw = partial(draw_differences, rows, [Mark("difference", INK, "o")], "biased side − other side (SDs)")
    return Plot(f"drift-{word}", title, text, draw, plots.rows_height(len(rows), 1))


def draw_differences(rows: Sequence[PlotRow], marks: Sequence[Mark], words: str, axes: Axes) -> None:
    """Differences of features in standard deviations, above a band within which they are usually called balanced."""
    changes = [(y, change) for y, row in enumerate(rows) for change in row.estimates if change is not None]
    low, high = min(change.low for _, change in changes), max(change.high for _, change in changes)
    limits = (max(-_MOST_SDS, min(low, -0.2) - 0.1), min(_MOST_SDS, max(high, 0.2) + 0.1))
    axes.axvspan(-_IMBALANCE, _IMBALANCE, color=plots.LINE, alpha=0.6, linewidth=0, zorder=0)
    plots.draw_rows(axes, rows, marks, Scale(words, limits=limits, reference=0))
    for y, change in changes:
        # Features that are nearly constant have huge standardized differences: the number stands at the edge.
        if not limits[0] <= change.value <= limits[1]:
            right = change.value > 0
            text = f"{reward(change.value)} {'→' if right else '←'}"
            axes.text(limits[right], y, text, fontsize=6.5, va="center", ha="right" if right else "left")
