"""Best-of-n and the tilted policy in words, tables and figures, from their numbers alone: terminal, Markdown, page."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from functools import partial
from math import log2
from typing import TYPE_CHECKING

from cda.report import plots
from cda.report.document import Bullets, Document
from cda.report.numbers import MINUS, cell, clipped, counted, p_value, percent, plain, share
from cda.report.page import Entry, Headline, ReportSection, plots_of
from cda.report.plots import Plot, named
from cda.report.tables import Table
from cda.results.base import Estimate, Missing
from cda.results.benchmarks import (
    AskedModel,
    AtSize,
    AtTilt,
    BestOfResult,
    Curve,
    Followed,
    Measured,
    NoSpread,
    Tilt,
    TiltedAttribute,
    TiltedPolicy,
)
from cda.results.facts import RewardModelFacts

if TYPE_CHECKING:
    from matplotlib.axes import Axes


_ALIKE = " (all alike)"  # the same in every prompt, so that there is no interval


def titled(of: Curve | TiltedAttribute, most: int | None = None) -> str:
    """An attribute's name, in at most so many columns, with its kind; features are named by keys."""
    name = of.name.replace("_", " ") if of.kind == "mean" else of.name
    return f"{name if most is None else named(name, most)} ({of.kind})"


def level_text(kind: Followed, measured: Measured) -> str:
    """A share in percent or a mean in its unit, with its interval."""
    if kind == "mean":
        return interval_text(measured)
    return f"{percent(measured.value)}{_ALIKE}" if isinstance(measured, NoSpread) else share(measured)


def change_text(kind: Followed, measured: Measured) -> str:
    """A change with its sign: of a share in points, of a mean in its unit."""
    return interval_text(measured, 100.0, "+", " points") if kind == "share" else interval_text(measured, sign="+")


def interval_text(measured: Measured, scale: float = 1.0, sign: str = "", unit: str = "") -> str:
    """A value with its interval, to the first digit of the interval's half-width."""
    if isinstance(measured, NoSpread):
        alike = scale * measured.value
        return f"{sign if alike > 0 else ''}{plain(alike, 3)}{unit}{_ALIKE}"
    half = scale * (measured.high - measured.low) / 2
    digits = min(max(-math.floor(math.log10(half)), 0), 4) if half > 0 else 4

    def rounded(end: float) -> str:
        """More decimals for a value that is not 0 if rounding would hide on which side of 0 it lies."""
        hidden = end and round(end, digits) == 0
        return f"{end:{sign if end else ''}.{-math.floor(math.log10(abs(end))) if hidden else digits}f}"

    value, low, high = (rounded(scale * end) for end in (measured.value, measured.low, measured.high))
    return f"{value} [{low}, {high}]{unit}".replace("-", MINUS)


UNSUPPORTED = "not supported by these samples"
_TILT_TEXT = (
    "Training a policy on a reward, with a penalty of β for each nat of KL, leads at best to the policy that was sampled, with every "
    "response weighted by exp(reward / β). A smaller β follows the reward further. The samples that are here, weighted "
    "like this within each prompt, show what such a policy would produce. A training may stop short of it, and may find responses "
    "that no sample resembles."
)
_FIGURE = (
    "Marks of the tilted policy have 95% intervals over prompts and end where the samples no longer support them. Best-of-n is shown "
    "at its largest possible KL, log n − (n − 1)/n."
)


def tilt_sentences(result: BestOfResult) -> list[str]:
    """Notes on how the tilted policy is estimated, and how far the samples reach."""
    tilt = result.tilt
    if isinstance(tilt, Missing):
        return [f"The tilted policy is not estimated: {tilt.reason}."]
    deviations = " and ".join(f"{plain(sd, 2)}{_said(label, tilt)}" for label, sd in tilt.reward_sd.items())
    lines = [
        "Tilted policy: responses of a prompt weighted by exp(reward / β), which is where training on this reward with a KL "
        "penalty β leads at best (Korbak et al., 2022; Rafailov et al., 2023). Estimates are jackknifed within prompts, "
        "to the second order, against the bias of few samples.",
        f"β is in standard deviations of rewards within prompts ({deviations}); {tilt.n_responses} responses to {tilt.n_prompts} "
        f"prompts. Below {plain(tilt.fewest_effective, 3)} effective responses to a prompt, 1/Σw² on average, a β is {UNSUPPORTED}: "
        "it would take more samples of each prompt.",
    ]
    lines += [
        f"β = {_beta(policies, asked)}, which was asked for, is {UNSUPPORTED}: "
        + ", ".join(f"{policy.effective:.1f}{_said(label, tilt)}" for label, policy in policies.items())
        + " effective responses to a prompt."
        for policies, asked in _steps(tilt)
        if asked and not _is_supported(policies)
    ]
    if isinstance(tilt.quality, Missing) and not isinstance(result.quality, Missing):
        lines.append(f"Quality of the tilted policy is not estimated: {tilt.quality.reason}.")
    return lines


def main_tables(tilt: Tilt, labels: Sequence[str]) -> list[Table]:
    """Every attribute next to the samples: at the strongest usual β that they support, then at each β that was asked for and is
    supported under a scoring."""
    asked = [place for place, (policies, asked) in enumerate(_steps(tilt)) if asked and _is_supported(policies)]
    return [_table_at(tilt, labels, place) for place in (tilt.strongest, *asked)]


def _table_at(tilt: Tilt, labels: Sequence[str], place: int) -> Table:
    policies, change = tilt.policies[place], ("change",) if len(labels) == 2 else ()
    tested: tuple[str, ...] = ()
    noted = which = ""
    if place == tilt.strongest:
        which = ", the strongest that the samples support"
        tested = ("p", "p (Holm)") if change else ()
        noted = "; p is for the test that nothing changed, Holm over the attributes" if change else ""
    rows = []
    for each in tilt.followed:
        cells = [level_text(each.kind, each.sampled), *_cells(each, each.at[place], labels)]
        cells += [cell(p, p_value) for p in (each.p_value, each.p_holm)] if tested else []
        rows.append((titled(each), *cells, _prompts(each.sampled)))
    beta = _beta(policies, place >= len(tilt.policies) - tilt.n_asked)
    return Table(
        f"What the policy tilted to the reward shows at β = {beta}{which}, with 95% intervals{noted}",
        (
            "responses",
            "sampled",
            *(f"{label}, KL {_kl(policies[label])}" for label in labels),
            *change,
            *tested,
            "prompts",
        ),
        tuple(rows),
    )


def tilt_tables(tilt: Tilt, labels: Sequence[str]) -> list[Table]:
    """Each β with what it costs and gains, then every attribute at each supported β."""
    rows = [
        (
            _beta(policies, asked),
            *([label] if len(labels) == 2 else []),
            plain(policies[label].beta, 2),
            _or_unsupported(policies[label].kl_nats),
            _or_unsupported(policies[label].reward_gained, "+"),
            f"{policies[label].effective:.1f} of {plain(tilt.n_responses / tilt.n_prompts, 3)}",
        )
        for policies, asked in _shown(tilt)
        for label in labels
    ]
    scoring = ("scoring",) if len(labels) == 2 else ()
    first = Table(
        f"The tilted policy by β, with 95% intervals over {tilt.n_prompts} prompts",
        ("β", *scoring, "β (reward)", "KL (nats)", "reward gained (SD)", "effective responses"),
        tuple(rows),
    )
    return [first, *(_attribute_table(each, tilt, labels) for each in tilt.followed)]


def tilt_sections(result: BestOfResult) -> Iterator[ReportSection]:
    """The strongest tilt with the figures; none if nothing was estimated."""
    if isinstance(result.tilt, Missing):
        return
    tilt, labels = result.tilt, result.scorings
    figures = tuple(
        Plot(f"tilt-{place}", f"{named(titled(each), 60)} against KL", _tilted_numbers(each, tilt, labels),
             partial(_draw, each, curve, tilt, labels))
        for place, (each, curve) in enumerate(zip(tilt.followed, result.curves, strict=False), 1)
    )  # fmt: skip
    yield ReportSection(
        "tilt",
        "If a policy is trained on this reward",
        (_TILT_TEXT, _FIGURE),
        tuple(main_tables(tilt, labels)),
        figures,
    )


def _attribute_table(each: TiltedAttribute, tilt: Tilt, labels: Sequence[str]) -> Table:
    """One attribute at each β that is supported under a scoring."""
    rows = [
        (_beta(policies, asked), *(_kl(policies[label]) for label in labels), *_cells(each, at, labels))
        for (policies, asked), at in zip(_steps(tilt), each.at, strict=True)
        if not all(isinstance(level, Missing) for level in at.scorings.values())
    ]
    change = ("change",) if len(labels) == 2 else ()
    kl = [f"KL {label}" for label in labels] if change else ["KL (nats)"]
    caption = f"{titled(each)} in the tilted policy, with 95% intervals over {_prompts(each.sampled)} prompts"
    return Table(caption, ("β", *kl, *labels, *change), tuple(rows))


def _steps(tilt: Tilt) -> list[tuple[dict[str, TiltedPolicy], bool]]:
    """The policies of each β, and True if it was asked for in reward units."""
    usual = len(tilt.policies) - tilt.n_asked
    return [(policies, place >= usual) for place, policies in enumerate(tilt.policies)]


def _shown(tilt: Tilt) -> Iterator[tuple[dict[str, TiltedPolicy], bool]]:
    """The usual β up to the first that is supported under no scoring, then those that were asked for."""
    beyond = False
    for policies, asked in _steps(tilt):
        if asked or not beyond:
            yield policies, asked
        beyond = not _is_supported(policies)


def _is_supported(policies: dict[str, TiltedPolicy]) -> bool:
    """True if the samples support this β under a scoring at least."""
    return any(not isinstance(policy.kl_nats, Missing) for policy in policies.values())


def _beta(policies: dict[str, TiltedPolicy], asked: bool) -> str:
    first = next(iter(policies.values()))
    return f"{plain(first.beta, 3)} reward" if asked else f"{plain(first.beta_sd, 2)} SD"


def _kl(policy: TiltedPolicy) -> str:
    return "–" if isinstance(policy.kl_nats, Missing) else f"{policy.kl_nats.value:.2f}"


def _said(label: str, tilt: Tilt) -> str:
    return f" {label}" if len(tilt.reward_sd) == 2 else ""


def _prompts(sampled: Measured) -> str:
    return str(sampled.n_prompts) if isinstance(sampled, Estimate) else "all"


def _or_unsupported(found: Measured | Missing, sign: str = "") -> str:
    return UNSUPPORTED if isinstance(found, Missing) else interval_text(found, sign=sign)


def _cells(each: TiltedAttribute, at: AtTilt, labels: Sequence[str]) -> list[str]:
    levels = [at.scorings[label] for label in labels]
    cells = [UNSUPPORTED if isinstance(level, Missing) else level_text(each.kind, level) for level in levels]
    if at.change is not None:
        cells.append(UNSUPPORTED if isinstance(at.change, Missing) else change_text(each.kind, at.change))
    return cells


def _tilted_numbers(each: TiltedAttribute, tilt: Tilt, labels: Sequence[str]) -> str:
    """The figure in words."""
    lines = [f"Sampled: {level_text(each.kind, each.sampled)}."]
    for (policies, asked), at in zip(_steps(tilt), each.at, strict=True):
        if not asked:
            cells = zip(labels, _cells(each, at, labels), strict=False)
            lines.append(f"β {_beta(policies, asked)}: {', '.join(f'{text} {label}' for label, text in cells)}.")
    return " ".join(lines)


def _draw(each: TiltedAttribute, curve: Curve, tilt: Tilt, labels: Sequence[str], axes: Axes) -> None:
    """Tilted policies as lines with intervals, best-of-n as dotted ones, from the samples at KL 0."""
    two = len(labels) == 2
    entries = []
    for label, (color, shape, filled) in zip(labels, plots.SCORING_MARKS, strict=False):
        best = [(at.kl_nats, at.complete[label].value) for at in curve.at]
        axes.plot(*zip(*best, strict=True), color=color, linestyle=(0, (1, 1.5)), linewidth=1.0, zorder=1)
        axes.plot(*zip(*best[1:], strict=True), "^", color=color, markerfacecolor=plots.PAGE, markersize=4, zorder=2)
        points = list(_points(each, tilt, label))
        ends = [(0.0, each.sampled.value), *((x, level.value) for x, level in points)]
        axes.plot(
            *zip(*ends, strict=True), color=color, linestyle="solid" if filled or not two else (0, (4, 2)), zorder=2
        )
        for x, level in points:
            plots.upright(axes, x, level, color, shape, filled or not two)
        name = f", {named(label)}" if two else ""
        entries += [(f"tilted{name}", color, shape, filled or not two), (f"best of n{name}", color, "^", False)]
    plots.draw_frame(axes, "KL from the sampled policy (nats)", "y")
    axes.set_ylabel(f"{each.kind} of responses")
    axes.locator_params(axis="y", nbins=6)
    if each.kind == "share":
        plots.percent_axis(axes, "y")
    plots.key(axes, entries)


def _points(each: TiltedAttribute, tilt: Tilt, label: str) -> Iterator[tuple[float, Measured]]:
    """KL and level of each usual β that the samples support."""
    for (policies, asked), at in zip(_steps(tilt), each.at, strict=True):
        kl, level = policies[label].kl_nats, at.scorings[label]
        if not asked and not isinstance(kl, Missing) and not isinstance(level, Missing):
            yield kl.value, level


_APART = 0.06
"""Half the distance of two scorings at one n, so that no interval hides another; n is drawn by its logarithm."""
_TICKS, _PANEL_TICKS = 12, 7
"""Number of sizes that can be labelled below a figure, and below a panel."""
_PANELS, _PANEL_INCHES = 3, 1.75
"""Panels next to each other on a page, and the height of one."""
_TEXT = (
    "For each n: what the response of highest reward shows, among n responses to a prompt, with 95% intervals over prompts. "
    "Where a line rises, picking by this reward makes the attribute more frequent or larger."
)
_TWO = "Where one line is flatter than the other, its reward amplifies the attribute less; the slopes below say by how much."
_TERMS = (
    Entry("share or mean of picks", "mean over prompts of E[attribute of the best of n]", "Exact over all ways to draw n of a prompt's responses."),
    Entry("slope", "least squares in log2(n)", "What each doubling of n adds, over the prompts that reach the largest n."),
    Entry("KL of best-of-n", "log n − (n − 1)/n", "How far best-of-n can be from the policy that was sampled, in nats, at most."),
    Entry("tilted policy", "weights ∝ exp(reward / β) within each prompt, jackknifed", "Where training on the reward with a KL penalty β leads at best."),
    Entry("KL of the tilted policy", "Σ w log(N w), mean over prompts", "How far it is from the policy that was sampled, in nats; N responses to a prompt."),
    Entry("effective responses", "1 / Σ w², mean over prompts", "Number of responses that carry an estimate. With few, the samples hold too little of what the tilted policy would produce."),
    Entry("p, p (Holm)", "paired t over prompts at the largest n, or the strongest β", "Of no change; Holm's adjusted over the attributes."),
)  # fmt: skip


def best_of_n_document(result: BestOfResult) -> Document:
    """The largest n next to n = 1, slopes, the tilted policy, and counts; for paper also all curves in one figure."""
    models = dict.fromkeys(_model(result.models[label]) for label in result.scorings)
    sentences, tables, sections = tuple(best_of_n_sentences(result)), best_of_n_tables(result), tuple(_sections(result))
    tilted = [] if isinstance(result.tilt, Missing) else main_tables(result.tilt, result.scorings)
    more = [] if isinstance(result.tilt, Missing) else tilt_tables(result.tilt, result.scorings)
    defined = Bullets(tuple(f"{titled(curve)}: {curve.definition}" for curve in result.curves))
    return Document(
        f"Best-of-n: what {clipped(' and '.join(models), 120)} picks",
        f"{result.n_responses} responses to {result.n_prompts} prompts, from {result.responses}.",
        tuple(_headlines(result)), sections,
        (*tables[:2], *tilted, sentences), (sentences, *tables, *tilted, *more, defined),
        "Best-of-n: what the reward picks as n grows", (overview_plot(result), *plots_of(sections)),
    )  # fmt: skip


def best_of_n_sentences(result: BestOfResult) -> list[str]:
    """Notes on the method, the exclusions and the limits of the numbers."""
    fewest, median, most = result.responses_per_prompt
    per_prompt = f"{fewest}" if fewest == most else f"{fewest} to {most} (median {median:g})"
    lines = [
        f"{result.n_responses} responses to {result.n_prompts} prompts, {per_prompt} each, from {result.responses}.",
        "At each n: the response of highest reward among n of a prompt's, in expectation over all ways to draw them without "
        "replacement (exact; equal rewards share alike), then the mean over prompts. n = 1 is the policy that was sampled, "
        "whatever the reward.",
        "KL: log n − (n − 1)/n nats at most between best-of-n and that policy (Stiennon et al., 2020; an upper bound where "
        "rewards can be equal: Beirami et al., 2024).",
    ]
    lines += [_scored(label, result.models[label]) for label in result.scorings]
    lines += [
        f"Left out of {excluded.seen} {what}: {counted(excluded.reasons)}."
        for what, excluded in result.excluded.items()
        if excluded.reasons
    ]
    if result.n_repeated:
        lines.append(
            f"{result.n_repeated} responses repeat another of their prompt word for word; they stay, as they were sampled."
        )
    if fewest < result.sizes[-1]:
        lines.append(
            "The first two tables and the figure keep to the prompts that reach the largest n. In the tables by n, every n "
            "has the prompts that reach it, so that two n may differ by their prompts as well."
        )
    if result.unvaried:
        lines.append(f"Not followed, because no prompt has responses that differ in it: {', '.join(result.unvaried)}.")
    if isinstance(result.quality, Missing) and result.excluded["quality"].seen:
        lines.append(f"Quality is not followed: {result.quality.reason}.")
    return [*lines, *tilt_sentences(result)]


def _model(asked: AskedModel) -> str:
    return f"{asked.model} with {asked.adapter}" if asked.adapter else asked.model


def _scored(label: str, asked: AskedModel) -> str:
    facts, details, cut = asked.facts, [], ""
    if isinstance(facts, RewardModelFacts):
        known = {"precision": facts.precision, "form": facts.form, "max length tokens": facts.max_length_tokens}
        details = [f"{name} {value}" for name, value in known.items() if value is not None] or [str(facts.how)]
        cut = f"; {facts.truncated} of {facts.texts} texts were cut" if facts.truncated else ""
    return f"Rewards {label}: {_model(asked)} ({', '.join(details)}){cut}."


def best_of_n_tables(result: BestOfResult) -> list[Table]:
    """The largest n, the slopes, then the whole curve of every attribute and of the quality."""
    n, labels = result.sizes[-1], result.scorings
    change = ("change",) if len(labels) == 2 else ()
    tested = (*change, "p", "p (Holm)") if change else ()
    noted = "; p is for the test that nothing changed, Holm over the attributes" if change else ""
    largest, slopes = [], []
    for curve in result.curves:
        last = curve.at[-1]
        cells = [level_text(curve.kind, curve.at[0].complete[labels[0]]), *_at_size(curve, last, labels)]
        cells += [cell(p, p_value) for p in (curve.p_value, curve.p_holm)] if tested else []
        largest.append((titled(curve), *cells, str(last.n_prompts)))
        added = [*(curve.slope[label] for label in labels), curve.slope_change]
        slopes.append(
            (titled(curve), *(change_text(curve.kind, by) for by in added if by is not None), str(last.n_prompts))
        )
    return [
        Table(
            f"What best-of-{n} picks, with 95% intervals{noted}",
            ("picks", "n = 1", *(f"{label}, n = {n}" for label in labels), *tested, "prompts"),
            tuple(largest),
        ),
        Table(
            f"How much optimising the reward amplifies it: slope in log2(n), n = 1 to {n}, with 95% intervals",
            ("added by each doubling of n", *labels, *change, "prompts"),
            tuple(slopes),
        ),
        *(_curve_table(curve, labels) for curve in result.curves),
    ]


def _curve_table(curve: Curve, labels: Sequence[str]) -> Table:
    rows = (
        (str(at.n), f"{at.kl_nats:.2f}", *_at_size(curve, at, labels), str(at.n_prompts), str(at.n_too_few))
        for at in curve.at
    )
    change = ("change",) if len(labels) == 2 else ()
    unknown = f"; unknown in {curve.n_unknown} prompts, left out" if curve.n_unknown else ""
    header = ("n", "KL ≤ (nats)", *labels, *change, "prompts", "with fewer responses")
    return Table(f"{titled(curve)}, by n, with 95% intervals{unknown}", header, tuple(rows))


def _at_size(curve: Curve, at: AtSize, labels: Sequence[str]) -> list[str]:
    """The level under each scoring; and the change, if there are two."""
    levels = [level_text(curve.kind, at.scorings[label]) for label in labels]
    if len(labels) == 1:
        return levels
    return [*levels, "none by construction" if at.change is None else change_text(curve.kind, at.change)]


def _headlines(result: BestOfResult) -> Iterator[Headline]:
    """Each attribute at the largest n next to n = 1, and its change."""
    n, labels = result.sizes[-1], result.scorings
    for curve in result.curves:
        last = curve.at[-1]
        named_by = {label: f" {label}" if len(labels) == 2 else "" for label in labels}
        picked = ", ".join(f"{level_text(curve.kind, last.scorings[label])}{said}" for label, said in named_by.items())
        text = f"{level_text(curve.kind, curve.at[0].complete[labels[0]])} at n = 1; at n = {n}: {picked}"
        if last.change is not None and curve.p_value is not None:
            adjusted = "" if curve.p_holm is None else f", Holm {p_value(curve.p_holm)}"
            text += f"; change {change_text(curve.kind, last.change)} (p {p_value(curve.p_value)}{adjusted})"
        yield Headline(f"{titled(curve)}:", f"{text}; {last.n_prompts} prompts.")


def _sections(result: BestOfResult) -> Iterator[ReportSection]:
    largest, slopes, *curves = best_of_n_tables(result)
    texts = (_TEXT, _TWO) if len(result.scorings) == 2 else (_TEXT,)
    lines = tuple(
        Plot(f"curve-{place}", named(titled(curve), 60), _numbers(curve, result.scorings),
             partial(_draw_curve, curve, result.scorings))
        for place, curve in enumerate(result.curves, 1)
    )  # fmt: skip
    yield ReportSection("curves", "As n grows", texts, (largest,), lines)
    yield ReportSection("slopes", "What each doubling adds", (), (slopes,), tuple(_slope_plot(result)))
    by_n = ("All prompts that reach an n, so that two n may differ by their prompts.",)
    yield from tilt_sections(result)
    yield ReportSection("by-n", "Every n", by_n, tuple(curves))
    if not isinstance(result.tilt, Missing):
        yield ReportSection("by-beta", "Every β", (), tuple(tilt_tables(result.tilt, result.scorings)))
    packages = ", ".join(f"{name} {version}" for name, version in result.versions.items())
    facts = (*((titled(curve), curve.definition) for curve in result.curves), ("versions", packages))
    yield ReportSection("scoring", "How it was made", tuple(best_of_n_sentences(result)), facts=facts)
    yield ReportSection("meaning", "What the numbers mean", entries=_TERMS)


def overview_plot(result: BestOfResult) -> Plot:
    """Every curve in its own panel, with one legend, in a separate file next to the tables."""
    curves, labels = result.curves, result.scorings
    words = " ".join(f"{titled(curve)}: {_numbers(curve, labels)}" for curve in curves)
    title = "What the reward picks among n responses, as n grows, with 95% intervals; every panel has its own scale"
    height = 0.4 + _PANEL_INCHES * -(-len(curves) // _PANELS)
    width = plots.COLUMN_INCHES if len(curves) == 1 else plots.PAGE_INCHES
    return Plot("best_of_n", title, words, partial(_draw_overview, curves, labels), height, width)


def _slope_plot(result: BestOfResult) -> Iterator[Plot]:
    """The share of every bias that each doubling of n adds; none if no share is followed."""
    shares, labels = [curve for curve in result.attributes if curve.kind == "share"], result.scorings
    if shares:
        words = (
            f"{curve.name}: {', '.join(f'{change_text(curve.kind, curve.slope[label])} {label}' for label in labels)}."
            for curve in shares
        )
        title = "How much each doubling of n adds to the share of a bias"
        height = 0.9 + len(shares) * (0.2 + 0.12 * len(labels))
        yield Plot("slopes", title, " ".join(words), partial(_draw_slopes, shares, labels), height)


def _numbers(curve: Curve, labels: Sequence[str]) -> str:
    return " ".join(
        f"n = {at.n}: {', '.join(f'{level_text(curve.kind, at.complete[label])} {label}' for label in labels)}."
        for at in curve.at
    )


def _draw_overview(curves: Sequence[Curve], labels: Sequence[str], axes: Axes) -> None:
    """Panels in place of the axes, as many next to each other as the page holds."""
    figure, place = axes.get_figure(), axes.get_subplotspec()
    if figure is None or place is None:
        raise ValueError("panels take the place of axes that stand in a figure's grid")
    columns = min(len(curves), _PANELS)
    grid = place.subgridspec(-(-len(curves) // columns), columns)
    axes.remove()
    for at, curve in enumerate(curves):
        panel = figure.add_subplot(grid[at // columns, at % columns])
        _draw_lines(curve, labels, panel, _PANEL_TICKS)
        panel.set_title(titled(curve, 20), loc="left")
        panel.set_ylabel("")
    plots.scorings_key(panel, labels)


def _draw_curve(curve: Curve, labels: Sequence[str], axes: Axes) -> None:
    _draw_lines(curve, labels, axes, _TICKS)
    plots.scorings_key(axes, labels)


def _draw_lines(curve: Curve, labels: Sequence[str], axes: Axes, most_ticks: int) -> None:
    apart = _APART if len(labels) == 2 else 0.0
    for label, (color, shape, second), shift in zip(labels, plots.SCORING_MARKS, (-apart, apart), strict=False):
        measured = {log2(at.n) + shift: at.complete[label] for at in curve.at}
        filled = second or len(labels) == 1
        dashes = "solid" if filled else (0, (4, 2))
        axes.plot(list(measured), [level.value for level in measured.values()], color=color, linestyle=dashes, zorder=2)
        for x, level in measured.items():
            plots.upright(axes, x, level, color, shape, filled)
    shown = spaced([at.n for at in curve.at], most_ticks)
    axes.set_xticks([log2(n) for n in shown], [str(n) for n in shown])
    axes.set_xlabel("n")
    axes.grid(axis="y", color=plots.LINE)
    axes.set_ylabel(f"{curve.kind} of picks")
    if curve.kind == "share":
        plots.percent_axis(axes, "y")


def spaced(sizes: Sequence[int], most: int) -> list[int]:
    """Sizes to label on a logarithmic axis with room for `most` labels: from the largest down, none too close."""
    gap = log2(sizes[-1]) / (most - 1)
    kept = [sizes[-1]]
    for n in reversed(sizes[:-1]):
        if log2(kept[-1] / n) >= gap * (1 - 1e-9):
            kept.append(n)
    return kept[::-1]


def _draw_slopes(shares: Sequence[Curve], labels: Sequence[str], axes: Axes) -> None:
    axes.axvline(0, color=plots.FAINT, linewidth=0.8, linestyle=(0, (4, 3)))
    slopes = [[curve.slope[label] for label in labels] for curve in shares]
    plots.lanes(axes, [named(curve.name, 18) for curve in shares], labels, slopes, factor=100)
    axes.set_xlabel("points added by each doubling")
