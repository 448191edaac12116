"""The dose: what every way of taking the bias out leaves of it, held out, and the dose–response curve."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING

from cda.report.numbers import NOT_ESTIMATED, count, decimals, distance, inert, percent, points, share
from cda.report.plots import AFTER, BEFORE, INK, PAGE, THIRD, Mark, Plot, frame, legend, slugs
from cda.report.tables import Table
from cda.results.audit import AuditResult
from cda.results.base import Estimate
from cda.results.dose import DosePoint, DoseResult, HeldOutPeople
from cda.results.skew import AgainstPeople
from cda.stats.verdict import TOLERATED_LOSS

if TYPE_CHECKING:
    from matplotlib.axes import Axes


NAMES = {
    "no training": "no training",
    "plain CDA": "plain CDA (dose 1)",
    "dose": "the adapter, dose chosen",
    "mixing": "scores mixed, dose chosen",
    "direction": "hidden direction removed, strength chosen",
    "features": "measured features taken off, strength chosen",
}
_WHY_MISSING = {"direction": "removing a hidden direction", "features": "taking measured features off"}


def dose_line(audit: AuditResult) -> str:
    """The dose that was chosen, which `after` is of, and what choosing leaves where it had no say; empty where none was."""
    dose = audit.dose
    if dose is None:
        return ""
    own, tie = dose.methods["dose"], dose.aim == "tie"
    left = [
        f"{inert(name)} skew {share(one.people.skew)}"
        if tie
        else f"{inert(name)} miscalibration {share(one.people.miscalibration)}"
        for name, one in own.held_out.items()
    ]
    change = next(iter(own.held_out.values())).against_base.quality
    left += [] if change is None else [f"quality {points(change, limit=-TOLERATED_LOSS)}"]
    by = "for a tie" if tie else "by people's votes"
    if dose.chosen == 0:
        return f"Dose 0 was chosen {by}: the model is left as it is. What choosing leaves, held out: {', '.join(left)}."
    on = "contrasts" + (" and quality pairs" if change else "")
    return (
        f"Dose {dose.chosen:g} was chosen {by} on the {on} that it is shown on, which flatters it; held out: "
        f"{', '.join(left)}."
    )


def dose_sentences(dose: DoseResult) -> list[str]:
    """Which dose was chosen, how, what else would have done better, and what mixing scores misses."""
    own, tie = dose.methods["dose"], dose.aim == "tie"
    often = ", ".join(f"{at} in {percent(part)}" for at, part in own.shares.items() if part)
    limit = f" among those that lose at most {100 * dose.max_quality_loss:g} points of quality accuracy"
    found = [
        "No votes chose this dose. It aims at a tie, each side preferred as often as the other: what the recipe "
        "says the bias is worth, and no one's opinion. The gap is the distance of skew from 50%."
    ] if tie else []  # fmt: skip
    found += [
        f"Dose {dose.chosen:g} is the one of least {_objective(dose)}{limit if own.quality else ''}. Halves of the "
        f"{'contrasts' if tie else 'votes'} chose {often}.",
        f"What is said of a chosen dose is held out: chosen on one half of the prompts, measured on the other, "
        f"{dose.repeats} times over. Its gap is that of one half at a time, averaged. Gaps of no training and of plain CDA "
        "beside it are taken on the same halves, since chance makes a gap larger on fewer contrasts.",
    ]
    if own.quality is None:
        found.append("There are no quality pairs, so that no dose was refused for the quality that it loses.")
    found += _left_out(dose.left_out)
    if own.barred:
        found.append(f"Doses that lose too much quality: {', '.join(f'{at:g}' for at in own.barred)}.")
    found.append(_winner(dose))
    far = max(dose.mixing_differs.items(), key=lambda one: one[1].preferences)
    found.append(
        f"Mixing the scores before and after is not the same as scaling the adapter: at dose {far[0]} the two prefer "
        f"another side on {percent(far[1].preferences)} of {far[1].n} contrasts."
    )
    found += [
        f"{name}: {'contrasts' if tie else 'people’s majorities'} on {n} prompts, too few to have a say in the dose."
        for name, n in dose.too_few.items()
    ]
    found += [f"Not tried: {_WHY_MISSING.get(name, name)} ({why})." for name, why in dose.missing.items()]
    return found


def _objective(dose: DoseResult) -> str:
    return "gap" if dose.aim == "tie" else "miscalibration + gap"


def _left_out(left_out: Mapping[str, Mapping[str, int]]) -> list[str]:
    """Contrasts and quality pairs that had no say, by reason."""
    return [
        f"Left out: {sum(reasons.values())} {what} ({', '.join(f'{n}: {reason}' for reason, n in reasons.items())})."
        for what, reasons in left_out.items()
        if reasons
    ]


def dose_tables(dose: DoseResult) -> list[Table]:
    """Ways side by side for each bias, then the curve of each bias."""
    return [*(_ways(dose, bias) for bias in dose.biases), *(_response(dose, bias) for bias in dose.biases)]


def _winner(dose: DoseResult) -> str:
    best, losses = dose.best.name, dose.best.losses
    if best == "dose":
        return f"No other way tried leaves less {_objective(dose)}, held out, at that quality."
    own = f", against {100 * losses['dose']:.1f} of the chosen dose" if "dose" in losses else ""
    return (
        f"Here another way does better: {NAMES[best]} leaves {100 * losses[best]:.1f} points of {_objective(dose)} (mean "
        f"over biases){own}. Differences of a few points are within the intervals below."
    )


def _ways(dose: DoseResult, bias: str) -> Table:
    points_of = {one.dose: one for one in dose.methods["dose"].response[bias]}
    own = dose.methods["dose"].held_out[bias]
    tie = dose.aim == "tie"
    moved = points(own.plain_change.skew if tie else own.plain_change.miscalibration, "")
    rows = [
        _fixed(NAMES["no training"], own.base, points_of[0.0], tie, ""),
        _fixed(NAMES["plain CDA"], own.plain, points_of[1.0], tie, moved),
    ]
    for name, method in dose.methods.items():
        held = method.held_out[bias]
        against = held.against_base
        change = against.quality
        moved = points(against.skew if tie else against.miscalibration, "")
        rows.append(
            (NAMES[name], f"{method.chosen:g}", *_people(held.people, tie), moved,
             "" if change is None else points(change, "", -TOLERATED_LOSS))
        )  # fmt: skip
    human = points_of[0.0].people.human_skew
    on = f"{count(human)} contrasts" if tie else f"{count(human)} contrasts with votes; people's skew {share(human)}"
    header = ("way", "dose", *_columns(tie), f"change of {'skew' if tie else 'miscalibration'}", "change of quality")
    more = "gaps are those of held-out halves, averaged; changes are against no training"
    return Table(f"{bias}: ways of taking it out, on {on}; {more}", header, tuple(rows))


def _fixed(name: str, people: HeldOutPeople, point: DosePoint, tie: bool, moved: str) -> tuple[str, ...]:
    change = point.quality_change
    return (name, f"{point.dose:g}", *_people(people, tie), moved, "" if change is None else points(change, ""))


def _columns(tie: bool) -> tuple[str, ...]:
    """Miscalibration needs someone to miss: where a tie is aimed at, it is the same at every dose."""
    return ("skew", "gap to 50%") if tie else ("skew", "miscalibration", "gap")


def _people(people: HeldOutPeople | AgainstPeople, tie: bool) -> tuple[str, ...]:
    return share(people.skew), *(() if tie else (share(people.miscalibration),)), distance(people.gap)


def _response(dose: DoseResult, bias: str) -> Table:
    tie = dose.aim == "tie"
    rows = []
    for one in dose.methods["dose"].response[bias]:
        auc = one.people.auc
        apart = () if tie else (decimals(auc) if auc else NOT_ESTIMATED,)
        quality = "" if one.quality is None else share(one.quality)
        rows.append((f"{one.dose:g}", *_people(one.people, tie), *apart, quality))
    n = dose.methods["dose"].quality
    pairs = "" if n is None else f"; quality on {count(n)} pairs"
    on = "contrasts" if tie else "votes"
    caption = f"{bias}: dose–response with 95% intervals{pairs}. Descriptive: on all {on}, and the dose was chosen among these"
    return Table(caption, ("dose", *_columns(tie), *(() if tie else ("AUC",)), "quality accuracy"), tuple(rows))


_CURVES = {
    "miscalibration": (Mark("miscalibration", BEFORE, "o"), "-"),
    "gap": (Mark("gap", THIRD, "s", filled=False), "--"),
    "quality": (Mark("quality accuracy", AFTER, "D"), ":"),
}
_NAMED = {0.0: "0\nno training", 1.0: "1\nplain CDA"}


def dose_plots(audit: AuditResult) -> list[Plot]:
    """The curve of each bias whose contrasts chose the dose; none without a dose."""
    dose = audit.dose
    if dose is None:
        return []
    words = slugs(dose.biases)
    response = dose.methods["dose"].response
    # Where a tie is aimed at there is no vote to miss.
    curves = [key for key in _CURVES if key != "miscalibration" or dose.aim == "votes"]
    return [_curve(name, response[name], dose.chosen, curves, words[name]) for name in dose.biases]


def _curve(name: str, response: Sequence[DosePoint], chosen: float, curves: Sequence[str], word: str) -> Plot:
    parts = [_said(one, curves) for one in response]
    votes = " with votes" if "miscalibration" in curves else ", where a tie is aimed at"
    first = response[0]
    pairs = "" if first.quality is None else f", quality on {count(first.quality)} pairs"
    text = (
        f"{name}: dose chosen {chosen:g}; dose 0 is no training, dose 1 plain CDA; on {count(first.people.human_skew)} "
        f"contrasts{votes}{pairs}. {' '.join(parts)}"
    )
    title = f"{name}: what each dose leaves of the bias, and of quality; bars are 95% intervals"
    return Plot(f"dose-{word}", title, text, partial(_draw, response, chosen, curves), 2.6)


def _said(one: DosePoint, curves: Sequence[str]) -> str:
    quality = "" if one.quality is None else f", quality {share(one.quality)}"
    people = one.people
    missed = f"miscalibration {share(people.miscalibration)}, " if "miscalibration" in curves else ""
    return f"Dose {one.dose:g}: {missed}gap {distance(people.gap)}{quality}."


def _draw(response: Sequence[DosePoint], chosen: float, curves: Sequence[str], axes: Axes) -> None:
    drawn = 0
    doses = [one.dose for one in response]
    width = (max(doses) - min(doses)) or 1.0
    for at, key in enumerate(curves):
        mark, line = _CURVES[key]
        points = [(one.dose, one.quality if key == "quality" else getattr(one.people, key)) for one in response]
        there = [(dose, one) for dose, one in points if one is not None]
        if there:
            # Moved aside a little, so that intervals at one dose do not hide each other.
            _line(axes, [(dose + (at - 1) * 0.008 * width, one) for dose, one in there], mark, line)
            drawn += 1
    axes.axvline(chosen, color=INK, linewidth=0.8, zorder=1)
    right = chosen - min(doses) > 0.6 * width
    axes.annotate(f"chosen: {chosen:g}", (chosen, 0.97), (-3 if right else 3, 0), xycoords=("data", "axes fraction"),
                  textcoords="offset points", ha="right" if right else "left", va="top", fontsize=7)  # fmt: skip
    ticks = sorted({*(dose for dose in _NAMED if min(doses) <= dose <= max(doses)), max(doses)})
    axes.set_xticks(ticks, [_NAMED.get(dose, f"{dose:g}") for dose in ticks])
    axes.set_xticks(doses, minor=True)
    axes.set_ylim(-2, 104)
    frame(axes, "dose of the adapter (λ)", "y")
    axes.set_ylabel("% (gap: points)")
    legend(axes, drawn)


def _line(axes: Axes, points: Sequence[tuple[float, Estimate]], mark: Mark, line: str) -> None:
    values = [100 * one.value for _, one in points]
    below = [max(0.0, 100 * (one.value - one.low)) for _, one in points]
    above = [max(0.0, 100 * (one.high - one.value)) for _, one in points]
    axes.errorbar(
        [dose for dose, _ in points], values, yerr=[below, above], fmt=mark.shape, linestyle=line, color=mark.color,
        label=mark.name, markersize=3.5, elinewidth=0.8, markerfacecolor=mark.color if mark.filled else PAGE, zorder=3,
    )  # fmt: skip
