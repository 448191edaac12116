"""Figures of a discovery: reward against judge, by rewriter, agreement, strength, generations, lines of descent."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING

from cda.discovery.sentences import held_out, until
from cda.report.numbers import decimals, percent, reward, share, signed
from cda.report.plots import (
    AFTER,
    BEFORE,
    FAINT,
    KINDS,
    LINE,
    Plot,
    across,
    key,
    name_rows,
    named,
    percent_axis,
    upright,
)
from cda.results.base import Estimate, Missing
from cda.results.discover import DiscoverResult, RunStrength, StandingRecord, StrengthCurve, TestedAttribute
from cda.results.evidence import RewriterAgreement, Strength

if TYPE_CHECKING:
    from matplotlib.axes import Axes


MOST_ROWS, MOST_AGREEMENTS = 20, 8
_NAME = 24
_REWARD, _JUDGE = "reward when it is added", "judge prefers the side with it"


def tested_plots(result: DiscoverResult) -> Iterator[Plot]:
    """Every tested attribute by reward and judge, with both intervals; numbers are those of the table."""
    drawn = [(at, entry, entry.pooled) for at, entry in enumerate(result.tested, 1) if entry.pooled]
    if not drawn:
        return
    words = " ".join(
        f"{at}: reward {signed(pooled.reward)}, judge {share(pooled.judge)}{', confirmed' if entry.confirmed else ''}."
        for at, entry, pooled in drawn
    )
    title = "Reward against judge; numbers as in the table. Top left is what the model likes and the judge does not."
    yield Plot("tested", title, words, partial(_tested, drawn), 3.1)


def rewriter_plots(result: DiscoverResult) -> Iterator[Plot]:
    drawn = [(at, entry) for at, entry in enumerate(result.tested, 1) if any(each.strength for each in entry.rewriters)]
    if not drawn:
        return
    more = f" (the first {MOST_ROWS} of {len(drawn)})" if len(drawn) > MOST_ROWS else ""
    drawn = drawn[:MOST_ROWS]
    names = list(dict.fromkeys(each.rewriter for _, entry in drawn for each in entry.rewriters))
    height = 0.9 + 0.17 * -(-len(names) // 2) + len(drawn) * (0.16 + 0.11 * len(names))
    for what, shown in (("reward", signed), ("judge", share)):
        words = " ".join(
            f"{entry.attribute}, {each.rewriter}: {shown(getattr(each.strength, what))}."
            for _, entry in drawn
            for each in entry.rewriters
            if each.strength
        )
        title = f"{what.capitalize()} by rewriter{more}"
        yield Plot(f"rewriters-{what}", title, words, partial(_by_rewriter, what, drawn, names), height)


def agreement_plots(result: DiscoverResult) -> Iterator[Plot]:
    """Quantiles of one rewriter's margins against another's, an attribute a figure."""
    drawn = [
        (at, entry.attribute, pairs)
        for at, entry in enumerate(result.tested, 1)
        if (quality := result.pairs.get(entry.candidate))
        and (pairs := [pair for pair in quality.agreement if pair.quantiles])
    ]
    for at, attribute, pairs in drawn[:MOST_AGREEMENTS]:
        words = " ".join(
            f"{pair.first} and {pair.second}: r {decimals(pair.pearson)} over {pair.n_prompts} prompts."
            if isinstance(pair.pearson, Estimate)
            else f"{pair.first} and {pair.second}: no correlation, {pair.pearson.reason}."
            for pair in pairs
        )
        title = f"{at}. {named(attribute, 60)}: margins of two rewriters, quantile by quantile"
        yield Plot(f"agreement-{at}", title, words, partial(_agreement, pairs), 2.9)


def strength_plots(result: DiscoverResult) -> Iterator[Plot]:
    if isinstance(result.strength, StrengthCurve):
        curve = result.strength.curve
        words = " ".join(f"Judge below {percent(at.threshold)}: {at.value:.2f} from {at.n}." for at in curve)
        title = "Diversity-adjusted bias strength, by how little the judge has to like an attribute for it to count"
        yield Plot("strength-curve", title, words, partial(_strength, curve))


def _tested(drawn: Sequence[tuple[int, TestedAttribute, Strength]], axes: Axes) -> None:
    _even(axes, horizontal=0, vertical=0.5)
    for at, entry, pooled in drawn:
        gain, judge, confirmed = pooled.reward, pooled.judge, entry.confirmed
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
    kinds = {entry.confirmed for _, entry, _ in drawn}
    entries = {True: ("confirmed", BEFORE, "D", True), False: ("not confirmed", FAINT, "o", False)}
    key(axes, [handle for confirmed, handle in entries.items() if confirmed in kinds])


def _even(axes: Axes, horizontal: float | None = None, vertical: float | None = None) -> None:
    """Lines at no reward and at a judge that prefers neither side."""
    if horizontal is not None:
        axes.axhline(horizontal, color=FAINT, linewidth=0.8)
    if vertical is not None:
        axes.axvline(vertical, color=FAINT, linewidth=0.8, linestyle=(0, (4, 3)))


def _by_rewriter(what: str, drawn: Sequence[tuple[int, TestedAttribute]], names: Sequence[str], axes: Axes) -> None:
    _even(axes, vertical=0.5 if what == "judge" else 0)
    for row, (_, entry) in enumerate(drawn):
        for each in entry.rewriters:
            if each.strength:
                place = names.index(each.rewriter)
                color, shape = KINDS[place % len(KINDS)]
                shift = 0.7 * ((place + 0.5) / len(names) - 0.5)
                across(axes, row + shift, getattr(each.strength, what), color, shape, not each.excluded)
    name_rows(axes, [f"{at}. {named(entry.attribute, _NAME)}" for at, entry in drawn])
    axes.set_xlabel(_JUDGE if what == "judge" else _REWARD)
    if what == "judge":
        percent_axis(axes)
    key(axes, [(named(name, 20), *KINDS[place % len(KINDS)], True) for place, name in enumerate(names)])


def _agreement(pairs: Sequence[RewriterAgreement], axes: Axes) -> None:
    points = [value for pair in pairs for point in pair.quantiles for value in (point.first, point.second)]
    low, high = min(points), max(points)
    axes.plot([low, high], [low, high], color=FAINT, linewidth=0.8, linestyle=(0, (4, 3)))
    entries = []
    for place, pair in enumerate(pairs):
        color, shape = KINDS[place % len(KINDS)]
        x, y = [point.first for point in pair.quantiles], [point.second for point in pair.quantiles]
        axes.plot(x, y, shape, color=color, markersize=4, markerfacecolor="none")
        r = "" if isinstance(pair.pearson, Missing) else f": r {reward(pair.pearson.value)}"
        entries.append((f"{named(pair.first, 20)} / {named(pair.second, 20)}{r}", color, shape, False))
    axes.grid(color=LINE)
    axes.set_xlabel("margin with the first rewriter")
    axes.set_ylabel("with the second")
    key(axes, entries, 1)


def _strength(curve: Sequence[RunStrength], axes: Axes) -> None:
    _even(axes, vertical=0.5)
    axes.plot([at.threshold for at in curve], [at.value for at in curve], "o-", color=AFTER, markersize=3.5)
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
    """A figure a generation, all on the same axes: reward against judge, the survivors, and their fate."""
    rewards = [y for generation in result.generations for _, y in rewarded(generation.standings)]
    if not rewards:
        return
    room = 0.06 * (max(rewards) - min(rewards)) or 0.1
    limits = min(0.0, *rewards) - 2 * room, max(0.0, *rewards) + room
    roles = _roles(result)
    for number, generation in enumerate(result.generations, 1):
        if not (seen := rewarded(generation.standings)):
            continue
        kept = sorted(((row, y) for row, y in seen if row.fate == "kept"), key=lambda point: -point[1])
        each = [f"{reward(y)} and {'no verdict' if row.judge is None else percent(row.judge)}" for row, y in kept]
        n, n_not = len(generation.standings), len(generation.standings) - len(seen)
        missing = f"; {n_not} without any rewrite are not drawn" if n_not else ""
        yield Plot(
            f"generation-{number}",
            f"Generation {number}: {n} candidates on {generation.n_prompts} prompts, {len(kept)} kept{missing}",
            f"{len(seen)} candidates, {len(kept)} kept: {', '.join(each)}.",
            partial(_generation, seen, roles, limits),
            3.0,
        )


def family_plot(result: DiscoverResult) -> Plot | None:
    """Rewards from generation to generation along the lines of descent, and then on held-out prompts."""
    paths = list(_paths(result))
    if not paths:
        return None
    lines = dict(reversed(paths))
    words = " ".join(
        f"{at}: " + ", ".join(f"generation {x + 1:.0f} {reward(y)}" for x, y in lines.get(entry.candidate, ()))
        + "".join(f", {name} {signed(pooled.reward)}" for name, pooled in held_out(entry, result).items()) + "."
        for at, entry in enumerate(result.tested, 1)
    )  # fmt: skip
    title = "Lines of descent: reward by generation, and what was left of it on held-out prompts (with intervals)"
    return Plot("family", title, words or "Nothing was tested.", partial(_family, result, paths), 3.1)


def rewarded(standings: Sequence[StandingRecord]) -> list[Rewarded]:
    return [(row, row.reward) for row in standings if row.reward is not None]


def _generation(seen: Sequence[Rewarded], roles: Mapping[str, str], limits: tuple[float, float], axes: Axes) -> None:
    _even(axes, horizontal=0, vertical=0.5)
    front = front_of(seen)
    axes.step(*_x_and_y(front), where="post", color=AFTER, linewidth=0.8)
    used = set()
    for row, y in seen:
        kind = roles.get(row.candidate) or row.fate
        used.add(kind)
        _, color, shape, filled = _KEY[kind]
        # It has no verdict of the judge: its place is the edge.
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
    confirmed = [entry.candidate for entry in result.tested if entry.confirmed]
    ancestors = {name: "ancestor" for entry in confirmed for name in result.lineage.get(entry, ())}
    return ancestors | dict.fromkeys(confirmed, "confirmed")


def _family(result: DiscoverResult, paths: Sequence[Path], axes: Axes) -> None:
    roles, n = _roles(result), len(result.generations)
    axes.axhline(0, color=FAINT, linewidth=0.8)
    for name, points in paths:
        # An ancestor may have been measured on next to its descendants; that is not their line any more.
        n_own = sum(x < until(name, roles, result) for x, _ in points) if name in roles else 0
        own, others = points[:n_own], points[max(n_own - 1, 0) :]
        axes.plot(*_x_and_y(own), "o-", color=BEFORE, markersize=4, linewidth=1.6, zorder=3)
        axes.plot(*_x_and_y(others), "o-", color=FAINT, markersize=2, linewidth=0.5, alpha=0.6, zorder=1)
    ends = [held_out(entry, result) for entry in result.tested]
    beyond = [name for name in _BEYOND if any(name in own for own in ends)]
    for at, (entry, numbers) in enumerate(zip(result.tested, ends, strict=True), 1):
        # Next to each other, so that no interval hides another.
        spread = 0.5 * (at / (len(ends) + 1) - 0.5)
        color = BEFORE if entry.confirmed else FAINT
        for name, pooled in numbers.items():
            x = n + _BEYOND.index(name) + spread
            upright(axes, x, pooled.reward, color, "D" if entry.confirmed else "o", entry.confirmed)
            label, where = str(at) if name == "test" else "", (x, pooled.reward.high)
            axes.annotate(label, where, (0, 3), textcoords="offset points", ha="center", color=color, weight="bold")
    axes.set_xticks(range(n + len(beyond)), [*(str(at + 1) for at in range(n)), *beyond])
    axes.set_xlabel("generation of the search")
    axes.set_ylabel("reward")
    axes.grid(axis="y", color=LINE)
    if roles:
        key(axes, [("confirmed, with its ancestors", BEFORE, "D", True), ("others", FAINT, "o", False)])


def _x_and_y(points: Sequence[Point]) -> tuple[list[float], list[float]]:
    return [x for x, _ in points], [y for _, y in points]


def _paths(result: DiscoverResult) -> Iterator[Path]:
    """Rewards of each candidate by generation, from its parent on."""
    stood: dict[str, dict[int, float]] = {}
    for generation in result.generations:
        for row in generation.standings:
            if row.reward is not None:
                stood.setdefault(row.candidate, {})[generation.index] = row.reward
    for name, rewards in stood.items():
        first = min(rewards)
        for parent in result.candidates[name].parents or (None,):
            before = stood.get(parent, {}).get(first - 1) if parent else None
            start = [] if before is None else [(float(first - 1), before)]
            yield name, [*start, *((float(at), rewards[at]) for at in sorted(rewards))]
