"""The trainings of a run: the dose, with the remaining bias under every method, held out, and its curve; and the means over
trainings with several seeds."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING

from cda.auditing.report_cells import change_cells, compares, said, targets
from cda.numbers.measures import MEASURES
from cda.numbers.views import seed_numbers
from cda.report.numbers import (
    NOT_ESTIMATED,
    cell,
    count,
    decimals,
    distance,
    excludes_zero,
    inert,
    percent,
    points,
    reward,
    share,
    signed,
)
from cda.report.plots import AFTER, BEFORE, INK, PAGE, THIRD, Mark, Plot, draw_frame, errors, legend, slugs
from cda.report.tables import Row, Table, table
from cda.results.audit import AuditResult
from cda.results.base import Estimate, Missing
from cda.results.dose import DosePoint, DoseResult, HeldOutPeople
from cda.results.skew import AgainstPeople, OverSeeds, Seeds
from cda.stats.verdict import TOLERATED_LOSS

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_NAMES = {
    "no training": "no training",
    "plain CDA": "plain CDA (dose 1)",
    "dose": "the adapter, dose chosen",
    "mixing": "scores mixed, dose chosen",
    "direction": "hidden direction removed, strength chosen",
    "features": "measured features taken off, strength chosen",
}
_WHY_MISSING = {"direction": "removing a hidden direction", "features": "taking measured features off"}
_CURVES = {
    "miscalibration": (Mark("miscalibration", BEFORE, "o"), "-"),
    "gap": (Mark("gap", THIRD, "s", filled=False), "--"),
    "quality": (Mark("quality accuracy", AFTER, "D"), ":"),
}
_TICKS = {0.0: "0\nno training", 1.0: "1\nplain CDA"}
_SHOWN_SEEDS = 6
"""Seeds that are listed one by one; of more, the first and the last."""


def dose_line(audit: AuditResult) -> str:
    """The chosen dose, which `after` is measured at, and its held-out results; empty if none was chosen."""
    dose = audit.dose
    if dose is None:
        return ""
    held_out, what = dose.methods["dose"].held_out, "skew" if dose.aim == "tie" else "miscalibration"
    left = [f"{inert(name)} {what} {share(getattr(held.people, what))}" for name, held in held_out.items()]
    change = next(iter(held_out.values())).against_base.quality
    left += [] if change is None else [f"quality {points(change, limit=-TOLERATED_LOSS)}"]
    by = "for a tie" if dose.aim == "tie" else "by people's votes"
    if dose.chosen == 0:
        return f"Dose 0 was chosen {by}: the model is left as it is. What choosing leaves, held out: {', '.join(left)}."
    on = "contrasts" + (" and quality pairs" if change else "")
    return (
        f"Dose {dose.chosen:g} was chosen {by} on the {on} that it is shown on, which flatters it; held out: "
        f"{', '.join(left)}."
    )


def dose_sentences(dose: DoseResult) -> list[str]:
    """Sentences on the chosen dose, its selection, better alternatives, and the limits of mixing scores."""
    own, tie = dose.own, dose.aim == "tie"
    often = ", ".join(f"{at} in {percent(part)}" for at, part in own.shares.items() if part)
    limit = f" among those that lose at most {100 * dose.max_quality_loss:g} points of quality accuracy"
    sentences = [said("dose", "tie")] if tie else []
    sentences += [
        f"Dose {dose.chosen:g} is the one of least {_objective(dose)}{limit if own.quality else ''}. Halves of the "
        f"{'contrasts' if tie else 'votes'} chose {often}.",
        said("dose", "held out", repeats=dose.repeats),
    ]
    sentences += [said("dose", "no quality")] if own.quality is None else []
    sentences += [
        f"Left out: {sum(reasons.values())} {what} ({', '.join(f'{n}: {reason}' for reason, n in reasons.items())})."
        for what, reasons in dose.left_out.items()
        if reasons
    ]
    if own.barred:
        sentences.append(f"Doses that lose too much quality: {', '.join(f'{at:g}' for at in own.barred)}.")
    sentences.append(_winner(dose))
    sentences += [said("dose", "mixed")] if dose.mixed else []
    sentences += [
        f"{name}: {'contrasts' if tie else 'people’s majorities'} on {n} prompts, too few to have a say in the dose."
        for name, n in dose.too_few.items()
    ]
    return sentences + [f"Not tried: {_WHY_MISSING.get(name, name)} ({why})." for name, why in dose.missing.items()]


def _objective(dose: DoseResult) -> str:
    return "gap" if dose.aim == "tie" else "miscalibration + gap"


def _winner(dose: DoseResult) -> str:
    best, losses = dose.best, dose.losses
    if dose.methods.get(best) == dose.own:
        return f"No other way tried leaves less {_objective(dose)}, held out, at that quality."
    name = "mixing" if dose.mixed else "dose"
    own = f", against {100 * losses[name]:.1f} of the chosen dose" if name in losses else ""
    return (
        f"Here another way does better: {_NAMES[best]} leaves {100 * losses[best]:.1f} points of {_objective(dose)} (mean "
        f"over biases){own}. Differences of a few points are within the intervals below."
    )


def dose_tables(dose: DoseResult) -> list[Table]:
    """Ways side by side for each bias, then the curve of each bias."""
    return [*(_ways(dose, bias) for bias in dose.biases), *(_response(dose, bias) for bias in dose.biases)]


def _ways(dose: DoseResult, bias: str) -> Table:
    points_of = {point.dose: point for point in dose.own.response[bias]}
    own, tie = dose.own.held_out[bias], dose.aim == "tie"
    what = "skew" if tie else "miscalibration"
    fixed = (
        ("no training", 0.0, own.base, ""),
        ("plain CDA", 1.0, own.plain, points(getattr(own.plain_change, what), "")),
    )
    rows = [
        (_NAMES[name], f"{at:g}", *_people_cells(people, tie), moved,
         cell(points_of[at].quality_change, lambda change: points(change, "")))
        for name, at, people, moved in fixed
    ]  # fmt: skip
    for name, method in dose.methods.items():
        held = method.held_out[bias]
        moved = points(getattr(held.against_base, what), "")
        quality = cell(held.against_base.quality, lambda change: points(change, "", -TOLERATED_LOSS))
        rows.append((_NAMES[name], f"{method.chosen:g}", *_people_cells(held.people, tie), moved, quality))
    human = points_of[0.0].people.human_skew
    on = f"{count(human)} contrasts" if tie else f"{count(human)} contrasts with votes; people's skew {share(human)}"
    header = ("way", "dose", *_columns(tie), f"change of {what}", "change of quality")
    more = "gaps are those of held-out halves, averaged; changes are against no training"
    return Table(f"{bias}: ways of taking it out, on {on}; {more}", header, tuple(rows))


def _columns(tie: bool) -> Row:
    """Columns about people; if a tie is the aim, miscalibration is the same at every dose and left out."""
    return ("skew", "gap to 50%") if tie else ("skew", "miscalibration", "gap")


def _people_cells(people: HeldOutPeople | AgainstPeople, tie: bool) -> Row:
    return share(people.skew), *(() if tie else (share(people.miscalibration),)), distance(people.gap)


def _response(dose: DoseResult, bias: str) -> Table:
    tie, n = dose.aim == "tie", dose.own.quality
    rows = []
    for point in dose.own.response[bias]:
        auc = () if tie else (cell(point.people.auc, decimals) or NOT_ESTIMATED,)
        rows.append((f"{point.dose:g}", *_people_cells(point.people, tie), *auc, cell(point.quality, share)))
    pairs = "" if n is None else f"; quality on {count(n)} pairs"
    on = "contrasts" if tie else "votes"
    caption = f"{bias}: dose–response with 95% intervals{pairs}. Descriptive: on all {on}, and the dose was chosen among these"
    return Table(caption, ("dose", *_columns(tie), *(() if tie else ("AUC",)), "quality accuracy"), tuple(rows))


def dose_curves(dose: DoseResult) -> list[Plot]:
    """The curve of each bias whose contrasts chose the dose."""
    words = slugs(dose.biases)
    return [_curve(dose, name, words[name]) for name in dose.biases]


def _curve(dose: DoseResult, name: str, word: str) -> Plot:
    tie, response = dose.aim == "tie", dose.own.response[name]
    parts = []
    for point in response:
        people = point.people
        missed = "" if tie else f"miscalibration {share(people.miscalibration)}, "
        quality = "" if point.quality is None else f", quality {share(point.quality)}"
        parts.append(f"Dose {point.dose:g}: {missed}gap {distance(people.gap)}{quality}.")
    votes = ", where a tie is aimed at" if tie else " with votes"
    first = response[0]
    pairs = "" if first.quality is None else f", quality on {count(first.quality)} pairs"
    text = (
        f"{name}: dose chosen {dose.chosen:g}; dose 0 is no training, dose 1 plain CDA; on {count(first.people.human_skew)} "
        f"contrasts{votes}{pairs}. {' '.join(parts)}"
    )
    title = f"{name}: what each dose leaves of the bias, and of quality; bars are 95% intervals"
    # If a tie is the aim, miscalibration has no meaning.
    curves = [key for key in _CURVES if key != "miscalibration" or not tie]
    label = "dose (λ)" if dose.mixed else "dose of the adapter (λ)"
    return Plot(f"dose-{word}", title, text, partial(_draw, response, dose.chosen, curves, label), 2.6)


def _draw(response: Sequence[DosePoint], chosen: float, curves: Sequence[str], label: str, axes: Axes) -> None:
    drawn = 0
    doses = [point.dose for point in response]
    width = (max(doses) - min(doses)) or 1.0
    for at, key in enumerate(curves):
        # Moved aside a little, so that intervals at one dose do not hide each other.
        measured = {
            point.dose + (at - 1) * 0.008 * width: point.quality if key == "quality" else getattr(point.people, key)
            for point in response
        }
        known = {dose: estimate for dose, estimate in measured.items() if estimate is not None}
        if known:
            _line(axes, list(known), list(known.values()), *_CURVES[key])
            drawn += 1
    axes.axvline(chosen, color=INK, linewidth=0.8, zorder=1)
    right = chosen - min(doses) > 0.6 * width
    axes.annotate(f"chosen: {chosen:g}", (chosen, 0.97), (-3 if right else 3, 0), xycoords=("data", "axes fraction"),
                  textcoords="offset points", ha="right" if right else "left", va="top", fontsize=7)  # fmt: skip
    ticks = sorted({*(dose for dose in _TICKS if min(doses) <= dose <= max(doses)), max(doses)})
    axes.set_xticks(ticks, [_TICKS.get(dose, f"{dose:g}") for dose in ticks])
    axes.set_xticks(doses, minor=True)
    axes.set_ylim(-2, 104)
    draw_frame(axes, label, "y")
    axes.set_ylabel("% (gap: points)")
    legend(axes, drawn)


def _line(axes: Axes, doses: Sequence[float], estimates: Sequence[Estimate], mark: Mark, line: str) -> None:
    axes.errorbar(
        doses, [100 * estimate.value for estimate in estimates], yerr=errors(estimates, 100), fmt=mark.shape, linestyle=line,
        color=mark.color, label=mark.name, markersize=3.5, elinewidth=0.8,
        markerfacecolor=mark.color if mark.filled else PAGE, zorder=3,
    )  # fmt: skip


def several(audit: AuditResult) -> Seeds | None:
    """The audit's part on several trainings; None if there is one, or none."""
    return audit.seeds if audit.seeds is not None and audit.seeds.several else None


def seeds_caveat(audit: AuditResult) -> str:
    """Uncertainty that the intervals leave out; empty for an audit of a model as it is."""
    if not compares(audit):
        return ""
    seeds = several(audit)
    if seeds is None:
        seed = f" (seed {audit.seeds.seeds[0]})" if audit.seeds else ""
        return said("caveats", "one training", seed=seed)
    return said("caveats", "trainings", n=len(seeds.seeds), first=seeds.seeds[0])


def mean_line(audit: AuditResult) -> str:
    """Skew of each target and quality after the training, on average over all trainings, on one line; empty without several."""
    seeds = several(audit)
    if seeds is None:
        return ""
    measures = {**{inert(name): seeds.skew[name] for name in targets(audit)}, "quality": seeds.quality}
    known = {name: measure for name, measure in measures.items() if isinstance(measure, OverSeeds)}
    parts = [f"{name} {share(measure.after)} (SD {_sd(measure)})" for name, measure in known.items()]
    return f"Mean after {len(seeds.seeds)} trainings: {', '.join(parts)}" if parts else ""


def seed_sentences(audit: AuditResult) -> list[str]:
    """Skew of each target over all trainings, and the evidence of its change with trainings as a random factor."""
    seeds = several(audit)
    return [] if seeds is None else [_seed_sentence(name, seeds) for name in targets(audit)]


def _seed_sentence(name: str, seeds: Seeds) -> str:
    skew = seeds.skew[name]
    opening = f"{inert(name)} over {len(seeds.seeds)} trainings (seeds {_listed(seeds.seeds)}): "
    if isinstance(skew, Missing):
        return f"{opening}not estimated ({skew.reason})."
    each = ", ".join(percent(value)[:-1] for value in skew.by_seed)
    text = (
        f"{opening}skew {percent(_before(skew))} before and {share(skew.after)} after on average, "
        f"{points(skew.change)} (n = {count(skew.change)}). They end at {each}%: a standard deviation of {_sd(skew)} points."
    )
    return text if excludes_zero(skew.change) else f"{text} A change in the mean of all trainings is not shown."


def place_sentences(audit: AuditResult, at: int) -> list[str]:
    """What one of several trainings is among them, for its own card, then `seed_sentences`."""
    seeds = several(audit)
    if seeds is None:
        return []
    place = (
        f"One of {len(seeds.seeds)} trainings on the same labels and rewrites: that of seed {seeds.seeds[at]}. The verdicts, effects and "
        f"examples of the run's report are those of seed {seeds.seeds[0]}. Below are the means of all trainings, and in the last column "
        "what this one ended at."
    )
    return [place, *seed_sentences(audit)]


def seed_table(audit: AuditResult, at: int | None = None) -> Table | None:
    """Every measure over all trainings, with the result of each, or of the one at a place; None if there is one training."""
    seeds = several(audit)
    if seeds is None:
        return None
    measures = [
        (f"{bias} {MEASURES[key].title}".strip(), over)
        for name in (*audit.skew, "")
        for key, bias, over in seed_numbers(audit)
        if bias == name and MEASURES[key].unit == "share"
    ]
    # Doses that were chosen on the very contrasts that they are shown on.
    listed = ", ".join(f"{dose:g}" for dose in seeds.doses)
    doses = "" if set(seeds.doses) == {1.0} else f", each at its own dose ({listed}; on the contrasts that chose it)"
    caption = f"Over {len(seeds.seeds)} trainings, seeds {_listed(seeds.seeds)}{doses}, with 95% intervals for prompts and seeds"

    def cells(measure: OverSeeds) -> Row:
        return *change_cells(measure), f"{_sd(measure)} points"

    return _table(caption, "measure", measures, cells, percent, at)


def effects_over_seeds(audit: AuditResult, at: int | None = None) -> Table | None:
    """RATE's average effects over all trainings, as in `seed_table`; None if there is one, or no triples."""
    seeds = several(audit)

    def cells(measure: OverSeeds) -> Row:
        after, change = signed(measure.after), signed(measure.change)
        return reward(_before(measure)), after, change, count(measure.after), f"{measure.sd:.2f}"

    measures = list(seeds.rate.items()) if seeds else []
    return _table("Causal effects over the same trainings", "RATE ATE (reward)", measures, cells, reward, at)


def _table(
    caption: str, what: str, measures: Sequence[tuple[str, OverSeeds | Missing]], cells: Callable[[OverSeeds], Row],
    each: Callable[[float], str], at: int | None,
) -> Table | None:  # fmt: skip
    shown, column = (slice(None), "after each") if at is None else (slice(at, at + 1), "after this one")
    rows = [
        (name, measure.reason, "", "", "", "", "")
        if isinstance(measure, Missing)
        else (name, *cells(measure), ", ".join(map(each, measure.by_seed[shown])))
        for name, measure in measures
    ]
    return table(caption, (what, "before", "mean after", "change", "n", "SD between trainings", column), rows)


def _before(measure: OverSeeds) -> float:
    return measure.before.value if isinstance(measure.before, Estimate) else measure.before


def _listed(seeds: Sequence[int]) -> str:
    return ", ".join(map(str, seeds)) if len(seeds) <= _SHOWN_SEEDS else f"{seeds[0]}, …, {seeds[-1]}"


def _sd(measure: OverSeeds) -> str:
    return f"{100 * measure.sd:.0f}"
