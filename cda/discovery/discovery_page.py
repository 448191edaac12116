"""The report of a discovery as one HTML file with its figures, drawn from discover.json alone."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING

from cda.discovery.discovery_tables import (
    SHORT,
    agreement_table,
    correction,
    drift_table,
    effort_table,
    excluded_table,
    generation_table,
    held_out,
    how_made,
    lineage_tables,
    markdown_parts,
    model_name,
    numbered,
    outcome,
    pairs_table,
    renumbered,
    rewriter_table,
    rewriters_named,
    rewriters_needed,
    rewriters_shown,
    strength_steps,
    terminal_parts,
    tested_table,
    topic_tables,
    unknown_table,
    until,
    validation_table,
    warnings,
)
from cda.report.document import Document
from cda.report.numbers import cell, clipped, count, decimals, p_equals, percent, reward, share, signed
from cda.report.page import Entry, Headline, Piece, ReportSection, word_differences
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
from cda.report.scoring import cost_sentences, llm_table
from cda.report.tables import Table
from cda.results.base import Estimate, Missing
from cda.results.discover import DiscoverResult, Measured, RunStrength, StandingRecord, StrengthCurve, TestedAttribute
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


_LONG = 160
_CHOICE = 60
_FEW = 3
_VERDICTS = {
    1.0: "judge prefers the side with it",
    0.0: "judge prefers the side without it",
    0.5: "judge prefers neither",
}
_ORDERS = (("place", "top of the table"), ("margin", "largest margin"), ("judge", "what the judge likes least"))
_EXAMPLES = (
    "Rewrites of the attributes that are confirmed or were asked for, with the words that only one side has marked: those on "
    "which model and judge disagree most, and the one on which they do least. They are chosen so, and no random sample."
)
_SEARCH = (
    "Each generation by reward and by the judge: the search looks for the top left. The line is the front of those that no "
    "other one beats in both; on the right edge stand those that were let go before the judge was asked. These numbers were "
    "selected on and tend to be too high; results are those of the validation and test prompts."
)
_REWRITERS = (
    "Each rewriter by itself, with 95% intervals clustered by prompt; open marks were left out, for the reason in the table. "
    "What depends on who rewrote is no property of the attribute: at least {r} have to show it. Where two rewriters "
    "agree, the quantiles of their margins lie on the dashed line and r is high."
)
_ONE_ENGINE = (
    "Without an LLM these are one rule engine at several strengths, which acts at all places, most or half of them: one rewriter, and "
    "no evidence that another one would find the same."
)
_STRENGTH = (
    "How much reward the finalists are worth together, near repeats of a stronger one counted less, by their numbers on the "
    "validation prompts. It has no interval; it compares runs on the same data."
)
_LINEAGE = (
    "Ancestors with the numbers by which they were selected, then validation and test, on which nothing was selected in the "
    "search. Selection also picks what was lucky, so that numbers tend to fall from the last generation to the test."
)
_CORRECTED = {
    "Bonferroni": "p × the number of attributes that were tested, at most 1",
    "Holm": "p adjusted step by step for all attributes that were tested, at most 1",
    "Benjamini and Hochberg": "p adjusted so that of the confirmed attributes at most this share is expected to be false",
}


@dataclass(frozen=True, slots=True)
class ExampleRewrite:
    """A rewrite as the page shows it: the attribute's number in the table, and the sides in pieces.

    `orders` holds its value in every order that the page offers; the largest comes first.
    """

    attribute: str
    title: str
    said: str
    row: Measured
    without: list[Piece]
    with_it: list[Piece]
    orders: dict[str, float]


def discover_document(result: DiscoverResult) -> Document:
    """The tested attributes, how they were found, and their pairs one by one."""
    title = "Attributes measured" if result.given else "Biases discovered"
    origin = "attributes were given, not searched for" if result.given else f"proposed by {result.by}"
    model, examples = model_name(result.model), _examples(result)
    where, whole = (
        "" if result.topic is None else f", on the topic: {clipped(result.topic, most)}" for most in (_LONG, SHORT)
    )
    return Document(
        f"{title} in {model}{where}",
        f"Held against {model_name(result.judge)}; {origin}; rewritten by {rewriters_named(result)}.",
        tuple(_headlines(result)), tuple(_sections(result)), terminal_parts(result), markdown_parts(result), f"{title} in {model}{whole}",
        template="discover.html.j2",
        parts={
            "examples": examples,
            "attribute_choices": list({example.attribute: clipped(example.title, _CHOICE) for example in examples}.items()),
            "order_choices": _ORDERS,
        },
    )  # fmt: skip


def _headlines(result: DiscoverResult) -> Iterator[Headline]:
    """The outcome, then every confirmed attribute with its numbers, then the others if they are few."""
    yield Headline("", " ".join(outcome(result)))
    tested = numbered(result, _LONG)
    yield from (Headline(f"{name}:", _numbers(entry, result), "bad") for name, entry in tested if entry.confirmed)
    others = [
        Headline(f"{name}:", f"not confirmed: {_brief(entry, result)}.")
        for name, entry in tested
        if not entry.confirmed
    ]
    more = f"{len(others)} more, with their numbers in the table below."
    yield from others if len(others) <= _FEW else [Headline("Not confirmed:", more)]


def _numbers(one: TestedAttribute, result: DiscoverResult) -> str:
    pooled = one.pooled
    if pooled is None:
        return _brief(one, result)
    file = f" Bias file: {one.file}." if one.file else ""
    return (
        f"Reward {signed(pooled.reward)} when it is added (n = {count(pooled.reward)}); {model_name(result.judge)} "
        f"prefers the side with it in {share(pooled.judge)} (n = {count(pooled.judge)}). p {_ps(one, result)}: at least "
        f"{rewriters_shown(one, result)} show both.{file}"
    )


def _brief(one: TestedAttribute, result: DiscoverResult) -> str:
    if (pooled := one.pooled) is None or one.p_value is None:
        return f"not tested, {one.untested}"
    numbers = f"reward {signed(pooled.reward)}, judge {share(pooled.judge)}, n = {count(pooled.reward)}"
    return f"{numbers}, p {_ps(one, result)}"


def _ps(one: TestedAttribute, result: DiscoverResult) -> str:
    more = f" (corrected {cell(one.p_corrected, p_equals)})" if correction(result) else ""
    return cell(one.p_value, p_equals) + more


def _sections(result: DiscoverResult) -> Iterator[ReportSection]:
    if result.tested:
        table = tested_table(result, None)
        rows = tuple((f"{at}. {row[0]}", *row[1:]) for at, row in enumerate(table.rows, 1))
        text = "Reward is what the model adds when the attribute is added; the judge says how often the side with it is better."
        tables: tuple[Table, ...] = (replace(table, rows=rows),)
        yield ReportSection("tested", "What was tested", (text,), tables, tuple(tested_plots(result)))
    if limits := tuple(warnings(result)):
        yield ReportSection("limits", "What limits these numbers", limits)
    pairs = (renumbered(table(result), result) for table in (rewriter_table, pairs_table, drift_table, unknown_table))
    by_rewriter, *others = pairs
    if tables := _filled(by_rewriter, agreement_table(result), *others):
        text = _REWRITERS.format(r=rewriters_needed(result))
        plots = (*rewriter_plots(result), *agreement_plots(result))
        texts = (text, _ONE_ENGINE) if result.by_rules else (text,)
        yield ReportSection("rewriters", "Rewriter by rewriter", texts, tables, plots)
    if any(entry.examples and (entry.confirmed or result.given) for entry in result.tested):
        yield ReportSection("examples", "Examples", (_EXAMPLES,))
    lineage, plot = tuple(lineage_tables(result)), family_plot(result)
    if lineage and plot is not None:
        yield ReportSection("lineage", "Where they came from", (_LINEAGE,), lineage, (plot,))
    if tables := _filled(generation_table(result)):
        yield ReportSection("search", "The search", (_SEARCH,), tables, tuple(search_plots(result)))
    if tables := _filled(renumbered(validation_table(result), result)):
        text = "Finalists on prompts of their own, pooled over rewriters; who passes goes on to the test."
        yield ReportSection("validation", "Validation", (text,), tables)
    if tables := _filled(strength_steps(result)):
        yield ReportSection("strength", "Strength of the run", (_STRENGTH,), tables, tuple(strength_plots(result)))
    if topics := tuple(topic_tables(result)):
        text = "The same numbers by the topic of the prompt, where prompts have one; nothing here was tested by itself."
        yield ReportSection("topics", "By topic", (text,), topics)
    text = "Everything that did not reach a number, by step and reason."
    yield ReportSection("excluded", "What was left out", (text,), (excluded_table(result),))
    effort = tuple(filter(None, [effort_table(result), llm_table(result.stages)]))
    yield ReportSection("effort", "What it took", cost_sentences(result.stages), effort)
    yield ReportSection("scoring", "How it was made", tuple(how_made(result)), facts=tuple(facts(result)))
    text = "Every interval is a 95% interval, clustered by prompt."
    yield ReportSection("meaning", "What the numbers mean", (text,), entries=terms(result))


def _examples(result: DiscoverResult) -> list[ExampleRewrite]:
    """In the order of the table, those of one attribute as the discovery ranked them."""
    shown = [
        (str(at), name, row)
        for at, (name, entry) in enumerate(numbered(result, _LONG), 1)
        for row in (entry.examples if entry.confirmed or result.given else ())
    ]
    return [_example(at, name, row, place) for place, (at, name, row) in enumerate(shown)]


def _example(attribute: str, title: str, row: Measured, place: int) -> ExampleRewrite:
    preference, judge = row.preference, "no verdict of the judge"
    if preference is not None:
        judge = _VERDICTS.get(float(preference), f"judge {preference:g} for the side with it")
    said = f"margin {reward(row.margin)}; {judge}; rewritten by {row.rewriter}"
    # No verdict is for neither side.
    orders = {"place": -place, "margin": row.margin, "judge": -(0.5 if preference is None else preference)}
    sides = word_differences(row.without_attribute, row.with_attribute)
    return ExampleRewrite(attribute, title, said, row, *sides, orders)


def facts(result: DiscoverResult) -> Iterator[tuple[str, str]]:
    settings, material, search = result.strictness, result.material, result.search
    yield "model", model_name(result.model)
    yield "held against", model_name(result.judge)
    yield "proposals", "given by the user" if result.given else result.by
    yield "rewriters", rewriters_named(result)
    yield "responses", f"{material.responses} ({', '.join(material.sampled)})"
    yield "prompts", ", ".join(f"{n} {part}" for part, n in material.prompts.items())
    if not result.given:
        yield (
            "search",
            f"candidates {', '.join(map(str, search.populations))}; on {', '.join(map(str, search.prompts))} prompts",
        )
        yield "directions", ", ".join(search.directions)
    yield "validation level", f"{settings.validation_alpha:g}"
    yield "test level", f"{settings.test_alpha:g}"
    yield "correction of the test", settings.correct
    yield "rewriters that have to show it", str(settings.r)
    yield "share of rewrites a rewriter may fail", f"{settings.max_failed:g}"
    yield "margins outside the fences left out", "yes" if settings.trim else "no"
    yield "seed", str(result.seed)
    yield "versions", ", ".join(f"{name} {version}" for name, version in result.versions.items())


def terms(result: DiscoverResult) -> tuple[Entry, ...]:
    r, alpha, method = result.strictness.r, f"{result.strictness.test_alpha:g}", correction(result)
    decides = Entry("confirmed", f"p < {alpha}", "p is not corrected for other attributes.")
    if method:
        decides = Entry(
            f"corrected p ({method})", _CORRECTED[method], f"It decides: below {alpha} an attribute is confirmed."
        )
    entries = [
        Entry("margin", "reward(side with the attribute) − reward(side without)", "For one response and its rewrite, in reward units of the model."),
        Entry("reward", "mean margin", "Interval and test by Student's t with prompts as clusters."),
        Entry("judge prefers it", "mean of 1: the side with it is better, ½: neither, 0: worse",
              "Wilson's interval on the effective number of verdicts. Below 50% the judge dislikes the attribute."),
        Entry("p by rewriter", "max(p of reward ≤ 0, p of judge ≥ 50%)", "Both have to hold, so the larger one counts (intersection–union)."),
        Entry("p", f"partial conjunction: fewer than {r} of the k rewriters show it",
              f"(k − {r - 1}) × the p of rank {r} among the rewriters, the smallest first."),
        decides,
        Entry("trimmed", "mean of the margins inside Tukey's fences", "Shown next to the mean; a change of its sign is reported."),
        Entry("r, rank r", "Pearson and Spearman over prompts", "Of the margins of two rewriters on the same responses; intervals from prompts drawn with replacement."),
    ]  # fmt: skip
    if isinstance(result.strength, StrengthCurve):
        entries.append(Entry(
            "strength", "Σ R(Aᵢ) · max(0, 1 − w · max over stronger Aⱼ of cos(Aⱼ, Aᵢ))",
            f"Diversity-adjusted bias strength: over finalists with R above 0 and a judge below the threshold, w = {result.strength.penalty:g}.",
        ))  # fmt: skip
    return tuple(entries)


def _filled(*tables: Table) -> tuple[Table, ...]:
    return tuple(table for table in tables if table.rows)
