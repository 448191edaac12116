"""Figures of the model next to people: skew, miscalibration, preferences by majority, correlations with the attribute."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING

from cda.auditing.report_evidence import voted_names
from cda.auditing.report_tables import SIDES
from cda.report.numbers import count, decimals, share
from cda.report.plots import (
    FAINT,
    PAGE,
    PEOPLE,
    PEOPLE_MARK,
    SCORINGS,
    SHARE_LIMITS,
    THIRD,
    Mark,
    Plot,
    Row,
    Scale,
    draw_frame,
    errors,
    legend,
    named,
    rows_plot,
)
from cda.results.audit import AuditResult
from cda.results.base import Estimate
from cda.results.skew import NoiseCeiling, VotedBias

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_TRAINED = Mark("training data", THIRD, "^")
_SECOND = Mark("second majority of people", PEOPLE, "D")
_NAMED_POINTS = 4
_People = Mapping[str, Estimate]
"""Bias to its correlation with people's preference."""


def people_plots(audit: AuditResult) -> list[Plot]:
    """Skew next to human skew, miscalibration, and the model's skew by people's majority; none if nobody voted."""
    if not voted_names(audit):
        return []
    scorings = [SCORINGS[when] for when in audit.scorings]
    second = any(_second_majority(votes) for votes in audit.votes.values())
    skew = _beside_people(
        audit, "human-skew", "Skew of the model beside people's, on the contrasts with a majority; lines are 95% intervals",
        "Skew", Scale("prefers the biased side (%)", is_share=True, limits=SHARE_LIMITS, reference=50),
        [PEOPLE_MARK, *scorings], lambda votes: {"people": votes.human_skew, **dict(votes.skew_on_voted.items())},
    )  # fmt: skip
    missed = _beside_people(
        audit, "miscalibration", "Miscalibration: how often the model and people's majority disagree", "Miscalibration",
        Scale("disagrees with people's majority (%)", is_share=True, limits=SHARE_LIMITS),
        [*scorings, *([_SECOND] if second else [])],
        lambda votes: {**dict(votes.miscalibration.items()), "a second majority of people": _second_majority(votes)},
    )  # fmt: skip
    return [skew, missed, _by_majority(audit)]


def _beside_people(
    audit: AuditResult, id: str, title: str, what: str, scale: Scale, marks: Sequence[Mark],
    pick: Callable[[VotedBias], Mapping[str, Estimate | None]],
) -> Plot:  # fmt: skip
    rows, parts = [], []
    for name in voted_names(audit):
        estimates = pick(audit.votes[name])
        rows.append(Row(named(name), tuple(estimates.values())[: len(marks)]))
        said = ", ".join(f"{key} {share(estimate)}" for key, estimate in estimates.items() if estimate)
        n = next(count(estimate) for estimate in estimates.values() if estimate)
        parts.append(f"{name}: {said} (n = {n}).")
    return rows_plot(id, title, f"{what}, {' '.join(parts)}", rows, marks, scale)


def _second_majority(votes: VotedBias) -> Estimate | None:
    return votes.noise_ceiling.miscalibration if isinstance(votes.noise_ceiling, NoiseCeiling) else None


def _by_majority(audit: AuditResult) -> Plot:
    """Curve of a model that always agrees with people: 100% if they prefer the biased side, else 0%."""
    marks = [
        Mark(f"{when}, people {word}", SCORINGS[when].color, shape, SCORINGS[when].filled)
        for when in audit.scorings
        for word, shape in (("for it", "^"), ("against it", "v"))
    ]
    rows, parts = [], []
    for name in voted_names(audit):
        given = {when: preferences.skew_given for when, preferences in audit.votes[name].by_majority.items()}
        first = next(iter(given.values()))
        n_for, n_against = (first[side].n if side in first else 0 for side in ("perturbed", "base"))
        estimates = tuple(own.get(side) for own in given.values() for side in ("perturbed", "base"))
        rows.append(Row(f"{named(name)}\n{n_for} for, {n_against} against", estimates))
        parts += [f"{name}, {when}: {_given_words(own)}." for when, own in given.items()]
    scale = Scale("model prefers the biased side (%)", is_share=True, limits=SHARE_LIMITS)
    title = "How often the model prefers the biased side where people's majority is for it, and where it is against it"
    text = f"How often the model prefers the biased side, by people's majority. {' '.join(parts)}"
    return rows_plot("by-majority", title, text, rows, marks, scale)


def _given_words(given: Mapping[str, Estimate]) -> str:
    words = {side: f"people for the {word}" for side, word in SIDES.items()} | {"tie": "people tied"}
    ordered = sorted(given.items(), key=lambda item: item[0] == "tie")
    return ", ".join(f"{words[side]} {share(estimate)} (n = {count(estimate)})" for side, estimate in ordered)


def correlation_plots(audit: AuditResult) -> list[Plot]:
    """r of the attribute with people's preference against r with the model's, if both are known."""
    people = {
        name: analysis.correlation.people
        for name, analysis in audit.analysis.items()
        if isinstance(analysis.correlation.people, Estimate)
    }
    model = {name: _known_r(dict(audit.analysis[name].correlation.model.items())) for name in people}
    people = {name: r for name, r in people.items() if model[name]}
    if not people:
        return []
    labels = {name: analysis.labels.r_train for name, analysis in audit.analysis.items() if analysis.labels}
    trained = _known_r(labels)
    parts = []
    for name, r in people.items():
        each = {"people": r, **model[name], **({"training data": trained[name]} if name in trained else {})}
        parts.append(f"{name}: {', '.join(f'{key} {decimals(r)} (n = {count(r)})' for key, r in each.items())}.")
    text = (
        "Correlation (r) of each attribute with being preferred, by people across and by the model upwards. "
        + " ".join(parts)
    )
    title = (
        "What the model favours against what people favour: correlation of each attribute with being preferred. On the diagonal "
        "the two agree"
    )
    by_mark = [
        (SCORINGS[when], {name: model[name][when] for name in people if when in model[name]}) for when in audit.scorings
    ]
    by_mark.append((_TRAINED, {name: r for name, r in trained.items() if name in people}))
    last = {name: list(model[name].values())[-1].value for name in people}
    return [Plot("correlations", title, text, partial(_draw_correlations, people, by_mark, last), 3.1)]


def _known_r(found: Mapping[str, object]) -> dict[str, Estimate]:
    return {key: r for key, r in found.items() if isinstance(r, Estimate)}


def _draw_correlations(
    people: _People, by_mark: Sequence[tuple[Mark, Mapping[str, Estimate]]], last: Mapping[str, float], axes: Axes
) -> None:
    """Names stand at the points of the last scoring that has one; numbers, with a key below, if they are many."""
    axes.plot([-1, 1], [-1, 1], color=FAINT, linewidth=0.8, linestyle=(0, (4, 3)), zorder=1)
    drawn = [(mark, points) for mark, points in by_mark if points]
    for mark, points in drawn:
        across, upwards = [people[name] for name in points], list(points.values())
        axes.errorbar(
            [r.value for r in across], [r.value for r in upwards], xerr=errors(across), yerr=errors(upwards),
            fmt=mark.shape, color=mark.color, label=mark.name, markersize=5, elinewidth=0.8,
            markerfacecolor=mark.color if mark.filled else PAGE, zorder=3,
        )  # fmt: skip
    few = len(people) <= _NAMED_POINTS
    for at, (name, r) in enumerate(people.items()):
        right = r.value > 0
        axes.annotate(
            named(name) if few else str(at + 1), (r.value, last[name]), (-5 if right else 5, 4),
            textcoords="offset points", ha="right" if right else "left", fontsize=7,
        )  # fmt: skip
    axes.set_xlim(-1.05, 1.05)
    axes.set_ylim(-1.05, 1.05)
    axes.set_aspect("equal")
    axes.set_xticks([-1, -0.5, 0, 0.5, 1])
    axes.set_yticks([-1, -0.5, 0, 0.5, 1])
    key = [f"{at} {named(name, 14)}" for at, name in enumerate(people, 1)]
    lines = [] if few else ["   ".join(key[start : start + 3]) for start in range(0, len(key), 3)]
    draw_frame(axes, "\n".join(["r by people", *lines]), "both")
    axes.set_ylabel("r by the model" + (", in training data" if drawn[-1][0] is _TRAINED and len(drawn) > 1 else ""))
    if len(drawn) > 1:
        legend(axes, len(drawn))
