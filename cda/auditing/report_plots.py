"""Figures of an audit: shares, people, rewards, RATE effects, drift and doses."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from itertools import product
from typing import TYPE_CHECKING

from cda.auditing.report_cells import compares, divided, margin_unit, voted_names
from cda.numbers.measures import MEASURES, of_place
from cda.records import PERCENT
from cda.report import plots
from cda.report.numbers import reward, share, signed
from cda.report.plots import (
    AFTER,
    BEFORE,
    INK,
    PEOPLE,
    SCORINGS,
    THIRD,
    Mark,
    Plot,
    PlotRow,
    Scale,
    Shown,
    in_words,
    levels_plot,
    named,
    percent_scale,
    rows_plot,
)
from cda.report.scatter import Correlation, correlations_plot
from cda.results.audit import AuditResult, On
from cda.results.base import Estimate, Missing
from cda.results.dose import DoseResult
from cda.results.effects import BiasRate, FeatureDrift, RateEffects
from cda.results.skew import NoiseCeiling

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_TEXTS = {"original": "original", "rewrite": "rewrite", "rewrite_of_rewrite": "rewrite of it"}
_STARTS = {"with": "had it", "without": "had it not"}
_OF_DOSE = ((BEFORE, "o", True), (THIRD, "s", False), (PEOPLE, "^", True))
"""Marks of what each dose leaves, of the measures in their order that people have no number of their own of; those beyond are not drawn."""
# The naive estimator has one number for all three estimands.
_KINDS = (("ATE", "naive"), *((estimand, by) for estimand in ("ATE", "ATT", "ATU") for by in ("single", "double")))
_IMBALANCE = 0.1
_MOST_SDS = 3.0
_SECOND = "a second majority of people"


def section_plots(audit: AuditResult) -> dict[str, tuple[Plot, ...]]:
    """Figures of each section, by its id, each only if its data exist; skew itself stands on the first screen."""
    words = plots.slugs(audit.rate)
    drifts = {name: drift for name, drift in audit.drift.items() if name in audit.skew and audit.skew[name].target}
    by_section: dict[str, list[Plot | None]] = {
        "votes": [*_people_plots(audit)],
        "by": list(_by_plots(audit)),
        "dose": [*(dose_curves(audit.dose) if audit.dose else ())],
        "rate": [*(_rate_plot(name, rate, words[name]) for name, rate in audit.rate.items()), *_triple_rewards(audit)],
        "data": [*_correlations(audit)],
        "effects": [
            _drift_plot(name, drifts[name], audit.n_measured(name), word) for name, word in plots.slugs(drifts).items()
        ],
    }
    known = {section: tuple(plot for plot in found if plot is not None) for section, found in by_section.items()}
    return {section: found for section, found in known.items() if found}


def _by_plots(audit: AuditResult) -> Iterator[Plot | None]:
    """Mean margins of contrasts, and effects by RATE, by the levels of each column."""
    scale = Scale(f"effect on the {margin_unit(audit)}", reference=0)
    parts: Mapping[On, tuple[str, str]] = {
        "contrasts": ("margin", "mean margin"),
        "triples": ("rate", "effect by RATE"),
    }
    for on, (measure, what) in parts.items():
        shown = divided(audit, on)
        for of, word in plots.slugs(shown).items():
            levels = ((level.name, level) for level in shown[of].levels)
            title = f"{named(of)}: {what} by level, with {PERCENT} intervals"
            yield levels_plot(f"by-{word}-{measure}", title, levels, measure, audit.scorings, scale)


def skew_plot(audit: AuditResult) -> Plot:
    """Skew of every bias under every scoring; the page has it on its first screen, so this one is for paper."""
    shares = [
        (named(name) + (" (target)" if skew.target and compares(audit) else ""),
         {**dict(skew.items()), **({"plain": audit.plain.last("skew", name)} if audit.plain else {})})
        for name, skew in audit.skew.items()
    ]  # fmt: skip
    marks = {when: SCORINGS[when] for when in shares[0][1]}
    said = [
        in_words(label, {marks[when].name: each for when, each in own.items()}, share, True) for label, own in shares
    ]
    title = "Skew of each bias: how often the model prefers the biased side"
    return rows_plot("skew", title, " ".join(said), shares, marks, percent_scale("prefers the biased side (%)", 50))


def _people_plots(audit: AuditResult) -> list[Plot]:
    votes = {name: audit.votes[name] for name in voted_names(audit)}
    if not votes:
        return []
    scorings = {when: SCORINGS[when] for when in audit.scorings}
    skew = {name: {"people": voted.human_skew, **dict(voted.skew_on_voted.items())} for name, voted in votes.items()}
    ceilings = {name: voted.noise_ceiling for name, voted in votes.items()}
    second = {name: each.miscalibration for name, each in ceilings.items() if isinstance(each, NoiseCeiling)}
    missed = {name: {**dict(voted.miscalibration.items()), _SECOND: second.get(name)} for name, voted in votes.items()}
    drawn = {**scorings, **({_SECOND: Mark("second majority of people", PEOPLE, "D")} if second else {})}
    return [
        _beside_people(
            "human-skew", f"Skew of the model next to people's, on the contrasts with a majority; lines are {PERCENT} intervals",
            "Skew", skew, {"people": plots.PEOPLE_MARK, **scorings}, percent_scale("prefers the biased side (%)", 50)),
        _beside_people(
            "miscalibration", "Miscalibration: how often the model and people's majority disagree",
            "Miscalibration", missed, drawn, percent_scale("disagrees with people's majority (%)")),
    ]  # fmt: skip


def _correlations(audit: AuditResult) -> Iterator[Plot]:
    """How biases go along with being preferred: by the model, by people, and in the training data."""
    found = [
        Correlation(name, when, own.people, model, when == "before")
        for name, own in audit.analysis.items()
        for when, model in own.model.items()
        if isinstance(own.people, Estimate) and isinstance(model, Estimate)
    ]
    trained = {name: own.labels.r_train for name, own in audit.analysis.items() if own.labels}
    yield from correlations_plot(found, {name: r for name, r in trained.items() if isinstance(r, Estimate)})


def _beside_people(
    id: str, title: str, what: str, shown: Mapping[str, Shown], marks: Mapping[str, Mark], scale: Scale
) -> Plot:
    text = f"{what}, {' '.join(in_words(name, own, share, True) for name, own in shown.items())}"
    return rows_plot(id, title, text, [(named(name), own) for name, own in shown.items()], marks, scale)


def _triple_rewards(audit: AuditResult) -> list[Plot | None]:
    """Mean rewards of the texts of triples; none of a judge, which rewards no single text."""
    words, marks = plots.slugs(audit.rewards), {when: SCORINGS[when] for when in audit.scorings}
    drawn: list[Plot | None] = []
    for name, found in audit.rewards.items():
        rows: dict[str, dict[str, Estimate]] = {}
        for when, kinds in found.items():
            for (start, start_word), (text, text_word) in product(_STARTS.items(), _TEXTS.items()):
                if isinstance(own := kinds.get(f"{start}, {text}"), Estimate):
                    rows.setdefault(f"{text_word} ({start_word})", {})[when] = own
        title = f"{name}: mean rewards of originals with and without the attribute, of their rewrites, and of the rewrites of these"
        said = f"Mean rewards of texts of triples of {name}. {' '.join(in_words(*row, signed) for row in rows.items())}"
        if rows:
            drawn.append(rows_plot(f"rewards-{words[name]}", title, said, rows.items(), marks, Scale("mean reward")))
    return drawn


def dose_curves(dose: DoseResult) -> list[Plot]:
    """What each dose leaves of each bias whose contrasts chose the dose, and of quality."""
    drawn: list[Plot] = []
    for name, word in plots.slugs((*dose.biases, *dose.guards)).items():
        # If a tie is the aim, miscalibration has no meaning.
        by_votes = dose.aim != "tie" or name in dose.guards
        left = {key: each for key, each in of_place("dose").items() if not each.people and "share" in each.unit}
        forms = zip(left.items(), _OF_DOSE, strict=False)
        marks = {key: Mark(of.title, *form) for (key, of), form in forms if key != "miscalibration" or by_votes}
        marks["quality"] = Mark(MEASURES["accuracy"].title, AFTER, "D")
        rows = {
            f"dose {point.dose:g}{' (chosen)' if point.dose == dose.chosen else ''}": {
                key: point.quality if key == "quality" else point.people.get(key) for key in marks
            }
            for point in dose.own.response[name]
        }
        title = f"{name}: what each dose leaves of the bias, and of quality; dose 0 is no training, 1 plain CDA"
        said = f"{title}. {' '.join(in_words(*row, share) for row in rows.items())}"
        drawn.append(rows_plot(f"dose-{word}", title, said, rows.items(), marks, percent_scale("% (gap: points)")))
    return drawn


def _rate_plot(name: str, rate: BiasRate, word: str) -> Plot | None:
    effects = {
        when: {(effect.estimand, effect.estimator): effect.estimate for effect in scored.effects}
        for when, scored in rate.under().items()
        if isinstance(scored, RateEffects)
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
    title = f"{name}: effect of the attribute by each estimator, with {PERCENT} intervals (naive: one number for all three effects)"
    said = " ".join(in_words(label, own, signed) for label, own in shown)
    text = f"RATE effects of {name} on {rate.n} triples. {said}"
    return rows_plot(f"rate-{word}", title, text, shown, {when: SCORINGS[when] for when in effects}, scale)


def _drift_plot(name: str, drift: tuple[FeatureDrift, ...] | Missing, n: int, word: str) -> Plot | None:
    """The standardized difference of every feature that is not the bias itself."""
    rows: list[PlotRow] = []
    said = []
    for found in () if isinstance(drift, Missing) else drift:
        if found.is_treatment or found.standardised is None:
            continue
        label = found.feature.replace("_", " ")
        beyond = "" if found.beyond is None else f", {share(found.beyond)} of pairs beyond the limit"
        rows.append(PlotRow(named(label), (found.standardised,)))
        said.append(f"{label} {signed(found.standardised)}{beyond}.")
    if not rows:
        return None
    text = f"Differences between the sides of {n} contrasts of {name}, in standard deviations: {' '.join(said)}"
    title = (
        f"{name}: what else differs between the sides, in standard deviations. Within the grey band a difference is usually "
        "called balanced"
    )
    draw = partial(draw_differences, rows, [Mark("difference", INK, "o")], "biased side − other side (SDs)")
    known = tuple(each for row in rows for each in plots.estimates_of(row))
    return Plot(f"drift-{word}", title, text, draw, plots.rows_height(rows, 1), known)


def draw_differences(rows: Sequence[PlotRow], marks: Sequence[Mark], words: str, axes: Axes) -> None:
    """Differences of features in standard deviations, above a band within which they are usually called balanced."""
    changes = [(y, change) for y, row in enumerate(rows) for change in plots.estimates_of(row)]
    low, high = min(change.low for _, change in changes), max(change.high for _, change in changes)
    limits = (max(-_MOST_SDS, min(low, -0.2) - 0.1), min(_MOST_SDS, max(high, 0.2) + 0.1))
    axes.axvspan(-_IMBALANCE, _IMBALANCE, color=plots.LINE, alpha=0.6, linewidth=0, zorder=0)
    plots.draw_rows(axes, rows, marks, Scale(words, limits=limits, reference=0))
    for y, change in changes:
        # Features that are nearly constant have huge standardized differences: the number stands at the edge.
        if not limits[0] <= change.value <= limits[1]:
            right = change.value > 0
            text = f"{reward(change.value)} {'→' if right else '←'}"
            axes.text(limits[right], y, text, va="center", ha="right" if right else "left")
