"""Figures of the model beside people: skew, miscalibration, preferences by majority, correlations with the attribute."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
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
    draw_rows,
    frame,
    legend,
    named,
    rows_height,
)
from cda.results.audit import AuditResult
from cda.results.base import Estimate
from cda.results.effects import BiasAnalysis
from cda.results.skew import NoiseCeiling, VotedBias

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_TRAINED = Mark("training data", THIRD, "^")
_SECOND = Mark("second majority of people", PEOPLE, "D")
_NAMED_POINTS = 4


def people_plots(audit: AuditResult) -> list[Plot]:
    """Skew beside human skew, miscalibration, and the model's skew by people's majority; none where nobody voted."""
    names = voted_names(audit)
    if not names:
        return []
    return [_skew(audit, names), _miscalibration(audit, names), *_by_majority(audit, names)]


def correlation_plots(audit: AuditResult) -> list[Plot]:
    """r of the attribute with people's preference against r with the model's, where both are known."""
    found = {
        name: one
        for name, one in audit.analysis.items()
        if isinstance(one.correlation.people, Estimate) and _by_model(one)
    }
    if not found:
        return []
    parts = [_r_words(name, one) for name, one in found.items()]
    text = (
        "Correlation (r) of each attribute with being preferred, by people across and by the model upwards. "
        + " ".join(parts)
    )
    return [Plot("correlations", "What the model favours against what people favour: correlation of each attribute with being "
                 "preferred. On the diagonal the two agree", text, partial(_draw_correlations, audit, found), 3.1)]  # fmt: skip


def _skew(audit: AuditResult, names: Sequence[str]) -> Plot:
    marks = [PEOPLE_MARK, *(SCORINGS[when] for when in audit.scorings)]
    rows, parts = [], []
    for name in names:
        people, own = audit.votes[name].human_skew, dict(audit.votes[name].skew_on_voted.items())
        rows.append(Row(named(name), (people, *own.values())))
        said = ", ".join(f"{when} {share(one)}" for when, one in own.items())
        parts.append(f"{name}: people {share(people)}, {said} (n = {count(people)}).")
    scale = Scale("prefers the biased side (%)", is_share=True, limits=SHARE_LIMITS, reference=50)
    return Plot("human-skew", "Skew of the model beside people's, on the contrasts with a majority; lines are 95% intervals",
                f"Skew, {' '.join(parts)}", lambda axes: draw_rows(axes, rows, marks, scale), rows_height(len(rows), len(marks)))  # fmt: skip


def _miscalibration(audit: AuditResult, names: Sequence[str]) -> Plot:
    second = {name: _second_majority(audit.votes[name]) for name in names}
    marks = [*(SCORINGS[when] for when in audit.scorings), *([_SECOND] if any(second.values()) else [])]
    rows, parts = [], []
    for name in names:
        own = dict(audit.votes[name].miscalibration.items())
        rows.append(Row(named(name), tuple([*own.values(), second[name]][: len(marks)])))
        said = ", ".join(f"{when} {share(one)}" for when, one in own.items())
        noise = second[name]
        more = f", a second majority of people {share(noise)}" if noise else ""
        parts.append(f"{name}: {said}{more} (n = {count(audit.votes[name].miscalibration.before)}).")
    scale = Scale("disagrees with people's majority (%)", is_share=True, limits=SHARE_LIMITS)
    return Plot("miscalibration", "Miscalibration: how often the model and people's majority disagree",
                f"Miscalibration, {' '.join(parts)}", lambda axes: draw_rows(axes, rows, marks, scale),
                rows_height(len(rows), len(marks)))  # fmt: skip


def _second_majority(votes: VotedBias) -> Estimate | None:
    return votes.noise_ceiling.miscalibration if isinstance(votes.noise_ceiling, NoiseCeiling) else None


def _by_majority(audit: AuditResult, names: Sequence[str]) -> list[Plot]:
    """Were the model of one mind with people, the share would be 100% where they prefer the biased side and 0% where not."""
    marks = [
        Mark(f"{when}, people {word}", SCORINGS[when].color, shape, SCORINGS[when].filled)
        for when in audit.scorings
        for word, shape in (("for it", "^"), ("against it", "v"))
    ]
    rows, parts = [], []
    for name in names:
        given = {when: one.skew_given for when, one in audit.votes[name].by_majority.items()}
        estimates = tuple(own.get(side) for own in given.values() for side in ("perturbed", "base"))
        rows.append(Row(f"{named(name)}\n{_majorities(next(iter(given.values())))}", estimates))
        parts += [_given_words(name, when, one) for when, one in given.items()]
    scale = Scale("model prefers the biased side (%)", is_share=True, limits=SHARE_LIMITS)
    title = "How often the model prefers the biased side where people's majority is for it, and where it is against it"
    text = f"How often the model prefers the biased side, by people's majority. {' '.join(parts)}"
    draw = partial(draw_rows, rows=rows, marks=marks, scale=scale)
    return [Plot("by-majority", title, text, draw, rows_height(len(rows), len(marks)))]


def _majorities(given: Mapping[str, Estimate]) -> str:
    """How many majorities are for and against the biased side."""
    n_for, n_against = (given[side].n if side in given else 0 for side in ("perturbed", "base"))
    return f"{n_for} for, {n_against} against"


def _given_words(name: str, when: str, given: Mapping[str, Estimate]) -> str:
    said = [
        f"people for the {SIDES[side]} {share(one)} (n = {count(one)})" for side, one in given.items() if side != "tie"
    ]
    said += [f"people tied {share(given['tie'])} (n = {count(given['tie'])})"] if "tie" in given else []
    return f"{name}, {when}: {', '.join(said)}."


def _by_people(one: BiasAnalysis) -> Estimate:
    if not isinstance(one.correlation.people, Estimate):
        raise ValueError("nobody voted on this bias")
    return one.correlation.people


def _by_model(one: BiasAnalysis) -> dict[str, Estimate]:
    """r with the model's preference under each scoring that gave one."""
    return {when: r for when, r in one.correlation.model.items() if isinstance(r, Estimate)}


def _r_words(name: str, one: BiasAnalysis) -> str:
    people = _by_people(one)
    said = [f"people {decimals(people)} (n = {count(people)})"]
    said += [f"{when} {decimals(r)} (n = {count(r)})" for when, r in _by_model(one).items()]
    if one.labels and isinstance(one.labels.r_train, Estimate):
        said.append(f"training data {decimals(one.labels.r_train)} (n = {count(one.labels.r_train)})")
    return f"{name}: {', '.join(said)}."


def _draw_correlations(audit: AuditResult, found: Mapping[str, BiasAnalysis], axes: Axes) -> None:
    axes.plot([-1, 1], [-1, 1], color=FAINT, linewidth=0.8, linestyle=(0, (4, 3)), zorder=1)
    points: list[tuple[Mark, list[tuple[Estimate, Estimate]]]] = [
        (SCORINGS[when], [(_by_people(one), r) for one in found.values() if (r := _by_model(one).get(when))])
        for when in audit.scorings
    ]
    labelled = [(_by_people(one), one.labels.r_train) for one in found.values() if one.labels]
    points.append((_TRAINED, [(people, r) for people, r in labelled if isinstance(r, Estimate)]))
    drawn = 0
    for mark, there in points:
        if there:
            _draw_points(axes, mark, there)
            drawn += 1
    _name_points(axes, found)
    axes.set_xlim(-1.05, 1.05)
    axes.set_ylim(-1.05, 1.05)
    axes.set_aspect("equal")
    axes.set_xticks([-1, -0.5, 0, 0.5, 1])
    axes.set_yticks([-1, -0.5, 0, 0.5, 1])
    frame(axes, _key("r by people", list(found)), "both")
    axes.set_ylabel("r by the model" + (", in training data" if drawn > len(audit.scorings) else ""))
    if drawn > 1:
        legend(axes, drawn)


def _draw_points(axes: Axes, mark: Mark, points: Sequence[tuple[Estimate, Estimate]]) -> None:
    sides = [[one[at] for one in points] for at in (0, 1)]
    errors = [
        [[max(0.0, one.value - one.low) for one in side], [max(0.0, one.high - one.value) for one in side]]
        for side in sides
    ]
    x, y = ([one.value for one in side] for side in sides)
    axes.errorbar(
        x, y, xerr=errors[0], yerr=errors[1], fmt=mark.shape, color=mark.color, label=mark.name, markersize=5, elinewidth=0.8,
        markerfacecolor=mark.color if mark.filled else PAGE, zorder=3,
    )  # fmt: skip


def _name_points(axes: Axes, found: Mapping[str, BiasAnalysis]) -> None:
    """Names beside the points of the last scoring that has one; numbers, with a key below, where they are many."""
    for at, (name, one) in enumerate(found.items()):
        people, last = _by_people(one).value, list(_by_model(one).values())[-1].value
        right = people > 0
        axes.annotate(
            named(name) if len(found) <= _NAMED_POINTS else str(at + 1), (people, last),
            (-5 if right else 5, 4), textcoords="offset points", ha="right" if right else "left", fontsize=7,
        )  # fmt: skip


def _key(name: str, names: Sequence[str]) -> str:
    if len(names) <= _NAMED_POINTS:
        return name
    parts = [f"{at} {named(one, 14)}" for at, one in enumerate(names, 1)]
    lines = ["   ".join(parts[start : start + 3]) for start in range(0, len(parts), 3)]
    return "\n".join([name, *lines])
