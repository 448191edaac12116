"""Figures of a discovery's results: reward against judge, rewriter by rewriter, their agreement, strength of the run."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial
from typing import TYPE_CHECKING

from cda.report.numbers import decimals, percent, reward, share, signed
from cda.report.plots.marks import KINDS, across, key, percent_axis, rows
from cda.report.plots.plot import AFTER, BEFORE, FAINT, LINE, Plot
from cda.report.plots.rows import named
from cda.results.base import Estimate, Missing
from cda.results.discover import DiscoverResult, RunStrength, StrengthCurve, TestedAttribute
from cda.results.evidence import Strength
from cda.results.rewrite_quality import Agreement

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
