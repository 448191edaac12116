"""Best-of-n and the tilted policy in words, tables and figures, from their numbers alone: terminal, Markdown, page."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from math import log2
from typing import TYPE_CHECKING

from cda.benchmarks.best_of_n_screen import best_of_glance, best_of_headline
from cda.records import PERCENT
from cda.report import plots
from cda.report.document import Document, how_made, meaning
from cda.report.names import data_called
from cda.report.next_step import after_best_of
from cda.report.numbers import cell, counted, in_unit, p_value, percent, plain, share
from cda.report.page import Entry, ReportSection
from cda.report.plots import Plot
from cda.report.scoring import asked_line, model_label
from cda.report.tables import Table
from cda.results.base import Estimate, Missing
from cda.results.benchmarks import (
    BestOfResult,
    Followed,
    FollowedAttribute,
    Measured,
    NoSpread,
    Tilt,
    TiltedAttribute,
    TiltedPolicy,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes

UNSUPPORTED = "not supported by these samples"
_ALIKE = " (all alike)"  # the same in every prompt, so that there is no interval


def titled(of: FollowedAttribute) -> str:
    """An attribute's name with its kind; features are named by keys."""
    return f"{of.name.replace('_', ' ') if of.kind == 'mean' else of.name} ({of.kind})"


def level_text(kind: Followed, found: Measured | Missing) -> str:
    """A share in percent or a mean in its unit, with its interval."""
    if isinstance(found, Missing):
        return UNSUPPORTED
    if isinstance(found, NoSpread):
        return f"{percent(found.value) if kind == 'share' else plain(found.value, 3)}{_ALIKE}"
    return share(found) if kind == "share" else in_unit(found)


def change_text(kind: Followed, found: Measured | Missing) -> str:
    """A change with its sign: of a share in points, of a mean in its unit."""
    if isinstance(found, Missing):
        return UNSUPPORTED
    factor, unit = (100.0, " points") if kind == "share" else (1.0, "")
    if isinstance(found, NoSpread):
        return f"{'+' if found.value > 0 else ''}{plain(factor * found.value, 3)}{unit}{_ALIKE}"
    return f"{in_unit(found, '+', factor)}{unit}"


_TEXT = (
    "What the response of highest reward shows, among n responses to a prompt: exact over all ways to draw n, then the mean over "
    "prompts. Where a line rises, picking by this reward makes the attribute more frequent or larger."
)
_TILT_TEXT = (
    "Training a policy on a reward, with a penalty of β for each nat of KL, leads at best to the policy that was sampled, with every "
    "response weighted by exp(reward / β) (Korbak et al., 2022; Rafailov et al., 2023). A smaller β follows the reward further. A "
    "training may stop short of it, and may find responses that no sample resembles. Triangles: best of n, at its largest possible KL."
)
_TERMS = (
    Entry("slope", "least squares in log2(n)", "What each doubling of n adds, over the prompts that reach the largest n."),
    Entry("KL of best-of-n", "log n − (n − 1)/n", "How far best-of-n can be from the policy that was sampled, in nats, at most (Stiennon et al., 2020; Beirami et al., 2024)."),
    Entry("tilted policy", "weights ∝ exp(reward / β) within each prompt", "Jackknifed to the second order; β in standard deviations (SD) of rewards within prompts, or in reward units if it was asked for."),
    Entry("KL of the tilted policy", "Σ w log(N w), mean over prompts", "How far it is from the policy that was sampled, in nats; N responses to a prompt."),
    Entry("effective responses", "1 / Σ w², mean over prompts", "Number of responses that carry an estimate. With few, the samples hold too little of what the tilted policy would produce."),
    Entry("p, p (Holm)", "paired t over prompts at the largest n, or the strongest β", "Of no change; Holm's adjusted over the attributes."),
)  # fmt: skip


def best_of_n_document(result: BestOfResult) -> Document:
    """The largest n next to n = 1, slopes, the strongest tilted policy, and counts; every n and β is in the JSON file."""
    models = dict.fromkeys(model_label(result.models[label]) for label in result.scorings)
    sections = [ReportSection("curves", "As n grows", (_TEXT,), tuple(_curve_tables(result)), (_curves_plot(result),))]
    if isinstance(tilt := result.tilt, Tilt):
        title = "If a policy is trained on this reward"
        tables, plots = tuple(_tilt_tables(result, tilt)), (_tilt_plot(result, tilt),)
        sections.append(ReportSection("tilt", title, (_TILT_TEXT,), tables, plots))
    sections += [
        ReportSection(
            "attributes",
            "What is followed",
            facts=tuple((titled(of), of.definition) for of in result.curves),
            aside=True,
        ),
        how_made(result.versions, best_of_n_sentences(result)),
        meaning(*_TERMS),
    ]
    fewest, median, most = result.responses_per_prompt
    each = f"{fewest}" if fewest == most else f"{fewest} to {most} (median {median:g})"
    subtitle = f"{result.n_responses} responses to {result.n_prompts} prompts, {each} each, from {data_called(result.responses)}."
    return Document(
        f"Best-of-n: what {' and '.join(models)} pick{'s' if len(models) == 1 else ''}", subtitle, (), tuple(sections), headline=best_of_headline(result),
        glance=best_of_glance(result, level_text), next=after_best_of(result),
    )  # fmt: skip


def best_of_n_sentences(result: BestOfResult) -> list[str]:
    """What was sampled and scored, left out, and could not be estimated."""
    lines = [
        f"Rewards {label}: {model_label(asked)}. {asked_line(asked.facts)}." for label, asked in result.models.items()
    ]
    lines += [
        f"Left out of {excluded.seen} {what}: {counted(excluded.reasons)}."
        for what, excluded in result.excluded.items()
        if excluded.reasons
    ]
    if result.n_repeated:
        lines.append(
            f"{result.n_repeated} responses repeat another of their prompt word for word; they stay, as they were sampled."
        )
    if result.unvaried:
        lines.append(f"Not followed, because no prompt has responses that differ in it: {', '.join(result.unvaried)}.")
    if isinstance(result.quality, Missing) and result.excluded["quality"].seen:
        lines.append(f"Quality is not followed: {result.quality.reason}.")
    tilt = result.tilt
    if isinstance(tilt, Missing):
        return [*lines, f"The tilted policy is not estimated: {tilt.reason}."]
    lines += [
        f"β = {_beta(policies, asked)}, which was asked for, is {UNSUPPORTED}: "
        + ", ".join(f"{policy.effective:.1f} {label}" for label, policy in policies.items())
        + f" effective responses to a prompt, of {plain(tilt.fewest_effective, 3)} needed."
        for policies, asked in _steps(tilt)
        if asked and not _is_supported(policies)
    ]
    if isinstance(tilt.quality, Missing) and not isinstance(result.quality, Missing):
        lines.append(f"Quality of the tilted policy is not estimated: {tilt.quality.reason}.")
    return lines


def _curve_tables(result: BestOfResult) -> Iterator[Table]:
    """The largest n next to n = 1, then the slopes."""
    n, labels, prompts = result.sizes[-1], result.scorings, [str(curve.at[-1].n_prompts) for curve in result.curves]
    largest = [
        (curve, curve.at[0].complete[labels[0]], curve.at[-1].scorings, curve.at[-1].change, count)
        for curve, count in zip(result.curves, prompts, strict=True)
    ]
    yield _moved(f"What best-of-{n} picks", ("picks", "n = 1", *(f"{label}, n = {n}" for label in labels)), largest)
    caption = f"How much optimising the reward amplifies it: slope in log2(n), n = 1 to {n}, with {PERCENT} intervals"
    slopes = ([by for by in (*curve.slope.values(), curve.slope_change) if by is not None] for curve in result.curves)
    rows = (
        (titled(curve), *(change_text(curve.kind, by) for by in own), count)
        for curve, own, count in zip(result.curves, slopes, prompts, strict=True)
    )
    change = ("change",) if len(labels) == 2 else ()
    yield Table(caption, ("added by each doubling of n", *labels, *change, "prompts"), tuple(rows))


def _tilt_tables(result: BestOfResult, tilt: Tilt) -> Iterator[Table]:
    """The tilted policy at the strongest usual β that the samples support, then at each β that was asked for and is supported under
    a scoring."""
    steps = list(enumerate(_steps(tilt)))
    for place, (policies, asked) in sorted(steps, key=lambda step: step[0] != tilt.strongest):
        strongest = place == tilt.strongest
        if strongest or (asked and _is_supported(policies)):
            rows = [
                (each, each.sampled, each.at[place].scorings, each.at[place].change, _prompts(each.sampled))
                for each in tilt.followed
            ]
            which = ", the strongest that the samples support" if strongest else ""
            header = ("responses", "sampled", *(f"{label}, KL {_kl(policies[label])}" for label in result.scorings))
            caption = f"What the policy tilted to the reward shows at β = {_beta(policies, asked)}{which}"
            yield _moved(caption, header, rows, tested=strongest)


_Row = tuple[FollowedAttribute, Measured, Mapping[str, Measured | Missing], Measured | Missing | None, str]


def _moved(caption: str, header: tuple[str, ...], rows: Sequence[_Row], tested: bool = True) -> Table:
    """Each attribute before optimising, after it under each scoring, and the change between two with its test."""
    two = len(header) == 4
    tested &= two
    body = []
    for of, before, levels, change, prompts in rows:
        cells = [level_text(of.kind, level) for level in (before, *levels.values())]
        cells += [change_text(of.kind, change)] if change is not None else []
        cells += [cell(p, p_value) for p in (of.p_value, of.p_holm)] if tested else []
        body.append((titled(of), *cells, prompts))
    more = (*(("change",) if two else ()), *(("p", "p (Holm)") if tested else ()), "prompts")
    note = "; p is for the test that nothing changed, Holm over the attributes" if tested else ""
    return Table(f"{caption}, with {PERCENT} intervals{note}", (*header, *more), tuple(body))


def _steps(tilt: Tilt) -> list[tuple[dict[str, TiltedPolicy], bool]]:
    """The policies of each β, and True if it was asked for in reward units."""
    usual = len(tilt.policies) - tilt.n_asked
    return [(policies, place >= usual) for place, policies in enumerate(tilt.policies)]


def _is_supported(policies: dict[str, TiltedPolicy]) -> bool:
    """True if the samples support this β under a scoring at least."""
    return any(not isinstance(policy.kl_nats, Missing) for policy in policies.values())


def _beta(policies: dict[str, TiltedPolicy], asked: bool) -> str:
    first = next(iter(policies.values()))
    return f"{plain(first.beta, 3)} reward" if asked else f"{plain(first.beta_sd, 2)} SD"


def _kl(policy: TiltedPolicy) -> str:
    return "–" if isinstance(policy.kl_nats, Missing) else f"{policy.kl_nats.value:.2f}"


def _prompts(sampled: Measured) -> str:
    return str(sampled.n_prompts) if isinstance(sampled, Estimate) else "all"


_PANEL_INCHES, _PANEL_TICKS = 1.9, 7
_APART = 0.06
"""Half the distance of two scorings at one n, so that no interval hides another; n is drawn by its logarithm."""
_Points = Sequence[tuple[float, str, Measured]]
"""Place, its name, and level."""


@dataclass(frozen=True, slots=True)
class _Panel:
    """One attribute: for each scoring its levels, and under a tilt the line of best-of-n."""

    of: FollowedAttribute
    points: Mapping[str, _Points]
    best: Mapping[str, Sequence[tuple[float, float]]]

    @property
    def words(self) -> str:
        lines = (
            f"{label}: {', '.join(f'{level_text(self.of.kind, level)} at {name}' for _, name, level in points)}"
            for label, points in self.points.items()
        )
        return f"{titled(self.of)}, {'; '.join(lines)}."


def _curves_plot(result: BestOfResult) -> Plot:
    shifts = (-_APART, _APART) if len(result.scorings) == 2 else (0.0,)
    panels = [
        _Panel(curve, {
            label: [(log2(at.n) + shift, f"n = {at.n}", at.complete[label]) for at in curve.at]
            for label, shift in zip(result.scorings, shifts, strict=True)
        }, {})
        for curve in result.curves
    ]  # fmt: skip
    title = (
        f"What the reward picks among n responses, as n grows, with {PERCENT} intervals; every panel has its own scale"
    )
    shown = spaced(result.sizes, _PANEL_TICKS)

    def frame(axes: Axes) -> None:
        axes.set_xticks([log2(n) for n in shown], [str(n) for n in shown])
        plots.draw_frame(axes, "n", "y")

    return _plot("best_of_n", title, panels, frame)


def _tilt_plot(result: BestOfResult, tilt: Tilt) -> Plot:
    panels = [
        _Panel(
            each,
            {label: [(0.0, "KL 0", each.sampled), *_points(each, tilt, label)] for label in result.scorings},
            {label: [(at.kl_nats, at.complete[label].value) for at in curve.at] for label in result.scorings},
        )
        for each, curve in zip(tilt.followed, result.curves, strict=False)
    ]
    title = (
        f"The policy tilted to the reward, against its KL, as far as the samples support it, with {PERCENT} intervals"
    )
    return _plot("tilt", title, panels, lambda axes: plots.draw_frame(axes, "KL (nats)", "y"))


def _points(each: TiltedAttribute, tilt: Tilt, label: str) -> Iterator[tuple[float, str, Measured]]:
    """KL, its name, and level of each usual β that the samples support."""
    for (policies, asked), at in zip(_steps(tilt), each.at, strict=True):
        kl, level = policies[label].kl_nats, at.scorings[label]
        if not asked and not isinstance(kl, Missing) and not isinstance(level, Missing):
            yield kl.value, f"β {_beta(policies, asked)}", level


def _plot(name: str, title: str, panels: Sequence[_Panel], frame: Callable[[Axes], None]) -> Plot:
    words = " ".join(panel.words for panel in panels)
    draws = [partial(_draw, panel, frame, at == 0) for at, panel in enumerate(panels)]
    levels = (level for panel in panels for points in panel.points.values() for *_, level in points)
    known = tuple(level for level in levels if isinstance(level, Estimate))
    return Plot(name, title, words, draws[0], _PANEL_INCHES, known, tuple(draws[1:]))


def _draw(panel: _Panel, frame: Callable[[Axes], None], has_key: bool, axes: Axes) -> None:
    marks = plots.scoring_marks(list(panel.points))
    for (label, mark), points in zip(marks.items(), panel.points.values(), strict=True):
        xs, levels = [x for x, *_ in points], [level for *_, level in points]
        values, best = [level.value for level in levels], panel.best.get(label, ())
        axes.plot(
            [x for x, _ in best], [y for _, y in best], "^:", color=mark.color, mfc=plots.PAGE, ms=4, lw=1, zorder=1
        )
        axes.plot(xs, values, color=mark.color, linestyle="solid" if mark.filled else (0, (4, 2)), zorder=2)
        plots.draw_points(axes, mark, xs, values, yerr=plots.errors(levels))
    frame(axes)
    axes.set_title(plots.named(titled(panel.of)), loc="left")
    if panel.of.kind == "share":
        plots.percent_axis(axes, "y")
    if has_key and len(panel.points) == 2:
        plots.legend(axes, 2)


def spaced(sizes: Sequence[int], most: int) -> list[int]:
    """Sizes to label on a logarithmic axis with room for `most` labels: from the largest down, none too close."""
    gap = log2(sizes[-1]) / (most - 1)
    kept = [sizes[-1]]
    for n in reversed(sizes[:-1]):
        if log2(kept[-1] / n) >= gap * (1 - 1e-9):
            kept.append(n)
    return kept[::-1]
