"""Figures of a discovery's results: reward against judge, rewriter by rewriter, their agreement, strength of the run."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING

from cda.report.numbers import decimals, percent, reward, share, signed
from cda.report.plots import AFTER, BEFORE, FAINT, KINDS, LINE, Plot, across, key, named, percent_axis, rows, upright
from cda.results.base import Estimate, Missing
from cda.results.discover import (
    DiscoverResult,
    GenerationRecord,
    RunStrength,
    StandingRecord,
    StrengthCurve,
    TestedAttribute,
)
from cda.results.evidence import Agreement, Strength

if TYPE_CHECKING:
    from matplotlib.axes import Axes


MOST_ROWS, MOST_AGREEMENTS = 20, 8
_NAME = 24
_REWARD, _JUDGE = "reward when it is added", "judge prefers the side with it"


def tested_plot(result: DiscoverResult) -> Plot | None:
    """Every tested attribute by reward and judge, with both intervals; numbers are those of the table."""
    found = [(at, one, one.pooled) for at, one in enumerate(result.tested, 1) if one.pooled]
    if not found:
        return None
    words = " ".join(
        f"{at}: reward {signed(pooled.reward)}, judge {share(pooled.judge)}{', confirmed' if one.confirmed else ''}."
        for at, one, pooled in found
    )
    title = "Reward against judge; numbers as in the table. Top left is what the model likes and the judge does not."
    return Plot("tested", title, words, partial(_tested, found), 3.1)


def rewriter_plots(result: DiscoverResult) -> Iterator[Plot]:
    """Reward and judge of each attribute, rewriter by rewriter, with intervals."""
    found = [(at, one) for at, one in enumerate(result.tested, 1) if any(each.strength for each in one.rewriters)]
    if not found:
        return
    more = f" (the first {MOST_ROWS} of {len(found)})" if len(found) > MOST_ROWS else ""
    found = found[:MOST_ROWS]
    names = list(dict.fromkeys(each.rewriter for _, one in found for each in one.rewriters))
    height = 0.9 + 0.17 * -(-len(names) // 2) + len(found) * (0.16 + 0.11 * len(names))
    for what, title, shown in (
        ("reward", f"Reward by rewriter{more}", signed), ("judge", f"Judge by rewriter{more}", share),
    ):  # fmt: skip
        words = " ".join(
            f"{one.attribute}, {each.rewriter}: {shown(getattr(each.strength, what))}."
            for _, one in found
            for each in one.rewriters
            if each.strength
        )
        yield Plot(f"rewriters-{what}", title, words, partial(_by_rewriter, what, found, names), height)


def agreement_plots(result: DiscoverResult) -> Iterator[Plot]:
    """Quantiles of one rewriter's margins against another's, an attribute a figure."""
    looked_at = [(at, one.attribute, result.pairs.get(one.candidate)) for at, one in enumerate(result.tested, 1)]
    drawn = [(at, name, [one for one in found.agreement if one.quantiles]) for at, name, found in looked_at if found]
    for at, name, agreement in [one for one in drawn if one[2]][:MOST_AGREEMENTS]:
        words = " ".join(
            f"{one.first} and {one.second}: r {decimals(one.pearson)} over {one.n_prompts} prompts."
            if isinstance(one.pearson, Estimate)
            else f"{one.first} and {one.second}: no correlation, {one.pearson.reason}."
            for one in agreement
        )
        title = f"{at}. {named(name, 60)}: margins of two rewriters, quantile by quantile"
        yield Plot(f"agreement-{at}", title, words, partial(_agreement, agreement), 2.9)


def strength_plot(result: DiscoverResult) -> Plot | None:
    """Diversity-adjusted strength of the finalists by the judge's threshold."""
    if not isinstance(result.strength, StrengthCurve):
        return None
    curve = result.strength.curve
    words = " ".join(f"Judge below {percent(one.threshold)}: {one.value:.3f} from {one.n}." for one in curve)
    title = "Diversity-adjusted bias strength, by how little the judge has to like an attribute for it to count"
    return Plot("strength-curve", title, words, partial(_strength, curve))


def _tested(found: list[tuple[int, TestedAttribute, Strength]], axes: Axes) -> None:
    axes.axhline(0, color=FAINT, linewidth=0.8)
    axes.axvline(0.5, color=FAINT, linewidth=0.8, linestyle=(0, (4, 3)))
    kinds = set()
    for at, one, pooled in found:
        gain, judge, confirmed = pooled.reward, pooled.judge, one.confirmed
        kinds.add(confirmed)
        color = BEFORE if confirmed else FAINT
        axes.plot([judge.value] * 2, [gain.low, gain.high], color=color, linewidth=1.2)
        across(axes, gain.value, judge, color, "D" if confirmed else "o", confirmed)
        # To four sides in turn, since neighbours in the table are often neighbours here.
        sides = ((4, 4), (4, -10), (-10, 4), (-10, -10))
        where = (judge.value, gain.value)
        axes.annotate(str(at), where, sides[at % 4], textcoords="offset points", color=color, weight="bold")
    axes.set_xlim(-0.02, 1.02)
    axes.set_xlabel(_JUDGE)
    axes.set_ylabel(_REWARD)
    percent_axis(axes)
    entries = (("confirmed", BEFORE, "D", True), ("not confirmed", FAINT, "o", False))
    key(axes, [one for one in entries if (one[0] == "confirmed") in kinds])


def _by_rewriter(what: str, found: list[tuple[int, TestedAttribute]], names: list[str], axes: Axes) -> None:
    axes.axvline(0.5 if what == "judge" else 0, color=FAINT, linewidth=0.8, linestyle=(0, (4, 3)))
    for row, (_, one) in enumerate(found):
        for each in one.rewriters:
            if each.strength:
                place = names.index(each.rewriter)
                color, shape = KINDS[place % len(KINDS)]
                shift = 0.7 * ((place + 0.5) / len(names) - 0.5)
                across(axes, row + shift, getattr(each.strength, what), color, shape, not each.excluded)
    rows(axes, [f"{at}. {named(one.attribute, _NAME)}" for at, one in found])
    axes.set_xlabel(_JUDGE if what == "judge" else _REWARD)
    if what == "judge":
        percent_axis(axes)
    key(axes, [(named(name, 20), *KINDS[place % len(KINDS)], True) for place, name in enumerate(names)])


def _agreement(agreement: Sequence[Agreement], axes: Axes) -> None:
    points = [(point.first, point.second) for one in agreement for point in one.quantiles]
    low, high = min(map(min, points)), max(map(max, points))
    axes.plot([low, high], [low, high], color=FAINT, linewidth=0.8, linestyle=(0, (4, 3)))
    for place, one in enumerate(agreement):
        color, shape = KINDS[place % len(KINDS)]
        x, y = [point.first for point in one.quantiles], [point.second for point in one.quantiles]
        axes.plot(x, y, shape, color=color, markersize=4, markerfacecolor="none")
    axes.grid(color=LINE)
    axes.set_xlabel("margin with the first rewriter")
    axes.set_ylabel("with the second")
    entries = [
        (f"{named(one.first, 20)} / {named(one.second, 20)}{_r(one)}", *KINDS[place % len(KINDS)], False)
        for place, one in enumerate(agreement)
    ]
    key(axes, entries, 1)


def _r(one: Agreement) -> str:
    return "" if isinstance(one.pearson, Missing) else f": r {reward(one.pearson.value)}"


def _strength(curve: Sequence[RunStrength], axes: Axes) -> None:
    x, y = [one.threshold for one in curve], [one.value for one in curve]
    axes.axvline(0.5, color=FAINT, linewidth=0.8, linestyle=(0, (4, 3)))
    axes.plot(x, y, "o-", color=AFTER, markersize=3.5)
    axes.set_ylim(bottom=0)
    axes.grid(axis="y", color=LINE)
    axes.set_xlabel("counted: judge prefers it in less than")
    axes.set_ylabel("reward units")
    percent_axis(axes)


Point = tuple[float, float]
Rewarded = tuple[StandingRecord, float]
"""A candidate and its reward."""
Path = tuple[str, list[Point]]
"""A candidate and its rewards: number of the generation from 0, reward."""

_BEYOND = ("validation", "test")
_KEY = {
    "kept": ("kept", AFTER, "o", True), "front": ("let go: front", AFTER, "o", False),
    "judge": ("let go: judge", FAINT, "x", True), "reward": ("let go: reward", FAINT, "|", True),
    "too few rewrites": ("let go: few rewrites", FAINT, "+", True),
    "confirmed": ("confirmed later", BEFORE, "D", True), "ancestor": ("ancestor of those", BEFORE, "D", False),
}  # fmt: skip


def search_plots(result: DiscoverResult) -> Iterator[Plot]:
    """A figure a generation, all on the same axes: reward against judge, who was kept, and what came of it."""
    rewards = [y for one in result.generations for _, y in rewarded(one.standings)]
    if not rewards:
        return
    room = 0.06 * (max(rewards) - min(rewards)) or 0.1
    limits = min(0.0, *rewards) - 2 * room, max(0.0, *rewards) + room
    roles = _roles(result)
    for one in result.generations:
        if rewarded(one.standings):
            yield _generation_plot(one, roles, limits)


def _generation_plot(one: GenerationRecord, roles: Mapping[str, str], limits: tuple[float, float]) -> Plot:
    seen = rewarded(one.standings)
    kept = sorted(((row, y) for row, y in seen if row.fate == "kept"), key=lambda each: -each[1])
    said = [f"{reward(y)} and {'no verdict' if row.judge is None else percent(row.judge)}" for row, y in kept]
    words = f"{len(seen)} candidates, {len(kept)} kept: {', '.join(said)}."
    n_not = len(one.standings) - len(seen)
    missing = f"; {n_not} without any rewrite are not drawn" if n_not else ""
    title = f"Generation {one.index + 1}: {len(one.standings)} candidates on {one.n_prompts} prompts, {len(kept)} kept{missing}"
    return Plot(f"generation-{one.index + 1}", title, words, partial(_generation, seen, roles, limits), 3.0)


def family_plot(result: DiscoverResult) -> Plot | None:
    """Rewards from generation to generation along the lines of descent, and then on held-out prompts."""
    paths = list(_paths(result))
    if not paths:
        return None
    words = " ".join(
        f"{at}: " + ", ".join(f"generation {x + 1:.0f} {reward(y)}" for x, y in _own_line(one, result))
        + "".join(f", {name} {signed(pooled.reward)}" for name, pooled in _held_out(one, result)) + "."
        for at, one in enumerate(result.tested, 1)
    )  # fmt: skip
    title = "Lines of descent: reward by generation, and what was left of it on held-out prompts (with intervals)"
    return Plot("family", title, words or "Nothing was tested.", partial(_family, result, paths), 3.1)


def rewarded(standings: Sequence[StandingRecord]) -> list[Rewarded]:
    """Candidates of which something was measured, with their rewards."""
    return [(row, row.reward) for row in standings if row.reward is not None]


def _generation(seen: Sequence[Rewarded], roles: Mapping[str, str], limits: tuple[float, float], axes: Axes) -> None:
    axes.axhline(0, color=FAINT, linewidth=0.8)
    axes.axvline(0.5, color=FAINT, linewidth=0.8, linestyle=(0, (4, 3)))
    front = front_of(seen)
    axes.step([x for x, _ in front], [y for _, y in front], where="post", color=AFTER, linewidth=0.8)
    used = set()
    for row, y in seen:
        kind = roles.get(row.candidate) or row.fate
        used.add(kind)
        _, color, shape, filled = _KEY[kind]
        # Nobody asked the judge about it: its place is the edge.
        x = row.judge if row.judge is not None else 1.06
        axes.plot([x], [y], shape, color=color, markersize=5, markerfacecolor=color if filled else "none")
    axes.set_xlim(-0.03, 1.1)
    axes.set_ylim(*limits)
    axes.set_xlabel("judge prefers the side with it")
    axes.set_ylabel("reward")
    percent_axis(axes)
    axes.set_xticks([0, 0.25, 0.5, 0.75, 1])
    key(axes, [_KEY[kind] for kind in _KEY if kind in used])


def front_of(seen: Sequence[Rewarded]) -> list[Point]:
    """Judge and reward of the judged candidates that no other one beats in both, the least liked by the judge first."""
    judged = [(row.judge, y) for row, y in seen if row.judge is not None and row.fate in ("kept", "front")]
    front: list[Point] = []
    for x, y in sorted(judged, key=lambda one: (one[0], -one[1])):
        if not front or y > front[-1][1]:
            front.append((x, y))
    return front


def _roles(result: DiscoverResult) -> dict[str, str]:
    confirmed = [one.candidate for one in result.tested if one.confirmed]
    ancestors = {name: "ancestor" for one in confirmed for name in result.lineage.get(one, ())}
    return ancestors | dict.fromkeys(confirmed, "confirmed")


def _family(result: DiscoverResult, paths: Sequence[Path], axes: Axes) -> None:
    roles, n = _roles(result), len(result.generations)
    axes.axhline(0, color=FAINT, linewidth=0.8)
    for name, points in paths:
        # An ancestor may have been measured on beside its descendants; that is not their line any more.
        n_own = sum(x < _until(name, result) for x, _ in points) if name in roles else 0
        _line(points[:n_own], True, axes)
        _line(points[max(n_own - 1, 0) :], False, axes)
    ends = [dict(_held_out(one, result)) for one in result.tested]
    for at, (one, found) in enumerate(zip(result.tested, ends, strict=True), 1):
        # Beside each other, so that no interval hides another.
        spread = 0.5 * (at / (len(ends) + 1) - 0.5)
        for place, name in enumerate(_BEYOND):
            if name in found:
                _end(
                    n + place + spread,
                    found[name].reward,
                    str(at) if name == "test" else "",
                    bool(one.confirmed),
                    axes,
                )
    beyond = [name for name in _BEYOND if any(name in found for found in ends)]
    axes.set_xticks(range(n + len(beyond)), [*(str(at + 1) for at in range(n)), *beyond])
    axes.set_xlabel("generation of the search")
    axes.set_ylabel("reward")
    axes.grid(axis="y", color=LINE)
    if roles:
        key(axes, [("confirmed, with its ancestors", BEFORE, "D", True), ("others", FAINT, "o", False)])


def _until(name: str, result: DiscoverResult) -> float:
    """Number of the generation in which the first descendant of a candidate that counts was made; of variations measured along
    with their proposal, the next."""
    made = [result.candidates[one].generation for one in _roles(result) if name in result.candidates[one].parents]
    return max(min(made, default=math.inf), 1)


def _line(points: Sequence[Point], bold: bool, axes: Axes) -> None:
    x, y = [x for x, _ in points], [y for _, y in points]
    if bold:
        axes.plot(x, y, "o-", color=BEFORE, markersize=4, linewidth=1.6, zorder=3)
    else:
        axes.plot(x, y, "o-", color=FAINT, markersize=2, linewidth=0.5, alpha=0.6, zorder=1)


def _end(x: float, estimate: Estimate, label: str, confirmed: bool, axes: Axes) -> None:
    color = BEFORE if confirmed else FAINT
    upright(axes, x, estimate, color, "D" if confirmed else "o", confirmed)
    where = (x, estimate.high)
    axes.annotate(label, where, (0, 3), textcoords="offset points", ha="center", color=color, weight="bold")


def _paths(result: DiscoverResult) -> Iterator[Path]:
    """Of each candidate its rewards by generation, from its parent on."""
    stood: dict[str, dict[int, float]] = {}
    for one in result.generations:
        for row in one.standings:
            if row.reward is not None:
                stood.setdefault(row.candidate, {})[one.index] = row.reward
    for name, rewards in stood.items():
        first = min(rewards)
        for parent in result.candidates[name].parents or (None,):
            before = stood.get(parent, {}).get(first - 1) if parent else None
            start = [] if before is None else [(float(first - 1), before)]
            yield name, [*start, *((float(at), rewards[at]) for at in sorted(rewards))]


def _own_line(one: TestedAttribute, result: DiscoverResult) -> list[Point]:
    return next((points for name, points in _paths(result) if name == one.candidate), [])


def _held_out(one: TestedAttribute, result: DiscoverResult) -> list[tuple[str, Strength]]:
    found = [("validation", row.pooled) for row in result.validated if row.candidate == one.candidate]
    return [(name, pooled) for name, pooled in (*found, ("test", one.pooled)) if pooled]
