"""The tilted policy in words, tables and figures: attributes against the KL that a policy spends on the reward."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial
from typing import TYPE_CHECKING

from cda.benchmarks.numbers_shown import change_text, interval_text, level_text, titled
from cda.report import plots
from cda.report.numbers import cell, p_value, plain
from cda.report.page import ReportSection
from cda.report.plots import Plot, named
from cda.report.tables import Table
from cda.results.base import Estimate, Missing
from cda.results.benchmarks import AtTilt, BestOfResult, Curve, Measured, Tilt, TiltedAttribute, TiltedPolicy

if TYPE_CHECKING:
    from matplotlib.axes import Axes

UNSUPPORTED = "not supported by these samples"
_TEXT = (
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
        Plot(f"tilt-{place}", f"{named(titled(each), 60)} against KL", _numbers(each, tilt, labels),
             partial(_draw, each, curve, tilt, labels))
        for place, (each, curve) in enumerate(zip(tilt.followed, result.curves, strict=False), 1)
    )  # fmt: skip
    yield ReportSection(
        "tilt", "If a policy is trained on this reward", (_TEXT, _FIGURE), tuple(main_tables(tilt, labels)), figures
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


def _numbers(each: TiltedAttribute, tilt: Tilt, labels: Sequence[str]) -> str:
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
