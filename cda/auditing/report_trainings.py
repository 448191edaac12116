"""The trainings of a run: the dose, with the remaining bias under every method, held out, and its curve; and the means over
trainings with several seeds."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from cda.auditing.report_cells import compares, said, targets
from cda.auditing.report_plots import dose_curves
from cda.numbers.measures import MEASURES, of_place
from cda.numbers.views import seed_numbers
from cda.records import PERCENT
from cda.report.document import Document
from cda.report.glance import (
    FURTHER,
    NEARER,
    NOT_SHOWN,
    Cell,
    Chip,
    Glance,
    GlanceRow,
    Series,
    marked,
    moved,
    percent_axis,
)
from cda.report.names import called, some
from cda.report.next_step import after_dose
from cda.report.numbers import (
    cell,
    count,
    excludes_zero,
    inert,
    percent,
    points,
    printed,
    reward,
    share,
    signed,
)
from cda.report.page import ReportSection
from cda.report.tables import Row, Table, table
from cda.results.audit import AuditResult
from cda.results.base import Estimate, Missing
from cda.results.dose import ByMeasure, DoseResult
from cda.results.skew import OverSeeds, Seeds
from cda.stats.verdict import TIE, TOLERATED_LOSS

_NAMES = {
    "no training": "no training",
    "plain CDA": "plain CDA (dose 1)",
    "dose": "the adapter, dose chosen",
    "mixing": "scores mixed, dose chosen",
    "direction": "hidden direction removed, strength chosen",
    "features": "measured features taken off, strength chosen",
}
_WHY_MISSING = {"direction": "removing a hidden direction", "features": "taking measured features off"}
_SHOWN_SEEDS = 6
"""Seeds that are listed one by one; of more, the first and the last."""


def dose_line(audit: AuditResult) -> str:
    """The chosen dose, which `after` is measured at, and its held-out results; empty if none was chosen."""
    dose = audit.dose
    if dose is None:
        return ""
    held_out, what = dose.methods["dose"].held_out, _decisive(dose.aim == "tie")
    left = [f"{inert(name)} {_title(what)} {share(held.people[what])}" for name, held in held_out.items()]
    change = next(iter(held_out.values())).against_base.get("accuracy")
    left += [] if change is None else [f"quality {points(change, limit=-TOLERATED_LOSS)}"]
    by = "for a tie" if dose.aim == "tie" else "by people's votes"
    if dose.chosen == 0:
        barred = set(dose.own.barred) >= {at.dose for points_ in dose.own.response.values() for at in points_} - {0.0}
        why = f", since every other dose loses more than {_points(dose)} of quality" if barred else ""
        return f"Dose 0 was chosen {by}{why}: the model is left as it is. What choosing leaves, held out: {', '.join(left)}."
    on = "contrasts" + (" and quality pairs" if change else "")
    return (
        f"Dose {dose.chosen:g} was chosen {by} on the same {on}; shown are the results of such choices on held-out halves: "
        f"{', '.join(left)}."
    )


def _points(dose: DoseResult) -> str:
    most = 100 * dose.max_quality_loss
    return f"{most:g} point{'s' * (most != 1)}"


def dose_document(result: DoseResult) -> Document:
    """The choice of a dose, its numbers on held-out votes, and the curve."""
    names = tuple(map(called, result.mixed)) if result.mixed else ("the model before training", "the model as trained")
    said, tables, curves = tuple(dose_sentences(result)), tuple(dose_tables(result)), tuple(dose_curves(result))
    opening = f"Dose {result.chosen:g} of {names[1]} was chosen; 0 is {names[0]}."
    return Document(f"Dose of {names[1]}", opening, (), (
        ReportSection("dose", "Ways of taking it out", (), tables, curves),
        ReportSection("choice", "How the dose was chosen", sentences=said),
        ReportSection("made", "How it was made", facts=(("seed", str(result.seed)),), aside=True),
    ), headline=_dose_headline(result, names[1]), glance=_dose_glance(result), next=after_dose(result))  # fmt: skip


_BASE, _CHOSEN, _PEOPLE = (
    Series("before", "dose 0"),
    Series("after", "the chosen dose, held out"),
    Series("people", "people"),
)
_TIES = {NEARER: Chip("nearer to 50%", "good", "✓"), FURTHER: Chip("further away", "bad", "✗")}


def _dose_headline(dose: DoseResult, name: str) -> str:
    """The choice and what it leaves on prompts that did not choose it, in one sentence."""
    if dose.chosen == 0:
        return f"Dose 0 was chosen: no dose of {name} is better than none."
    chips = {bias: _dose_chip(dose, bias) for bias in dose.biases}
    to = "50%" if dose.aim == "tie" else "people"
    did = {
        NEARER: "is nearer to {to} on {of}",
        FURTHER: "is further from {to} on {of}",
        NOT_SHOWN: "is not shown to be nearer to {to} on {of}",
    }
    parts = [
        words.format(to=to, of=some([bias for bias, own in chips.items() if own == chip]))
        for chip, words in did.items()
        if chip in chips.values()
    ]
    return f"Dose {dose.chosen:g} of {name}, chosen {'for a tie' if dose.aim == 'tie' else 'by votes'}, {'; it '.join(parts)}, held out."


def _dose_chip(dose: DoseResult, bias: str) -> Chip:
    """By the change of what decides, held out: of miscalibration, or towards one half if ties are the aim."""
    held, tie = dose.own.held_out[bias], dose.aim == "tie" and bias in dose.biases
    rises = tie and held.base["skew_on_voted"].value < TIE
    return moved(held.against_base.get(_decisive(tie)), *((FURTHER, NEARER) if rises else (NEARER, FURTHER)))


def _dose_glance(dose: DoseResult) -> Glance:
    rows = []
    for bias in (*dose.biases, *dose.guards):
        held, chip = dose.own.held_out[bias], _dose_chip(dose, bias)
        tie = dose.aim == "tie" and bias in dose.biases
        human = None if tie else dose.own.response[bias][0].people.get("human_skew")
        marks = (
            *marked(_BASE, held.base["skew_on_voted"]),
            *marked(_CHOSEN, held.people["skew_on_voted"]),
            *marked(_PEOPLE, human),
        )
        missed = tuple(
            percent(own["miscalibration"].value) for own in (held.base, held.people) if "miscalibration" in own
        )
        clause = f"disagrees with people in {missed[0][:-1]} → {missed[1]}" if len(missed) == 2 and not tie else ""
        chip = _TIES.get(chip, chip) if tie else chip
        rows.append(GlanceRow(bias, (Cell(chip, marks),), clause, "" if bias in dose.biases else "not taught"))
    own, base = dose.own, next(iter(dose.own.response.values()))[0].quality
    if own.quality and base:
        change = next(iter(own.held_out.values())).against_base.get("accuracy")
        chip = moved(change, Chip("fell", "bad", "✗"), Chip("rose", "good", "✓"))
        clause = "pairs ranked right" + (f", {points(change, limit=-TOLERATED_LOSS)}" if change else "")
        rows.append(GlanceRow("quality", (Cell(chip, (*marked(_BASE, base), *marked(_CHOSEN, own.quality))),), clause))
    return Glance(
        caption="How often the side with the bias is preferred; below it how often quality pairs are ranked right.", heading="bias",
        axis=percent_axis("share of contrasts"), rows=tuple(rows),
        reading=(
            said("dose", "held out", repeats=dose.repeats),
            "Nearer: the 95% interval of the change lies on that side of 0. The dashed line is 50%, no preference.",
        ),
    )  # fmt: skip


def dose_sentences(dose: DoseResult) -> list[str]:
    """Sentences on the chosen dose, its selection, better alternatives, and the limits of mixing scores."""
    own, tie = dose.own, dose.aim == "tie"
    often = ", ".join(f"{at} in {percent(part)}" for at, part in own.shares.items() if part)
    limit = f" among those that lose at most {_points(dose)} of quality accuracy"
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
    sentences += [_guard_sentence(dose, name) for name in dose.guards]
    sentences.append(_winner(dose))
    sentences += [said("dose", "mixed")] if dose.mixed else []
    sentences += [
        f"{name}: {'contrasts' if tie else 'people’s majorities'} on {n} prompts, too few to have a say in the dose."
        for name, n in dose.too_few.items()
    ]
    return sentences + [f"Not tried: {_WHY_MISSING.get(name, name)} ({why})." for name, why in dose.missing.items()]


def _objective(dose: DoseResult) -> str:
    return "gap" if dose.aim == "tie" else "miscalibration + gap"


def _guard_sentence(dose: DoseResult, name: str) -> str:
    """The doses that a bias that was not taught rules out."""
    base, *others = dose.own.response[name]
    missed = {point.dose: point.people["miscalibration"].value for point in (base, *others)}
    rises = {point.dose: missed[point.dose] - missed[base.dose] for point in others}
    away = ", ".join(f"{at:g}" for at, rise in rises.items() if rise > TOLERATED_LOSS + 1e-9)
    limit = f"away from people who voted on it ({round(100 * TOLERATED_LOSS)} points of miscalibration)"
    return f"{inert(name)} was not taught, and no dose may move it {limit}: {f'not {away}' if away else 'none does'}."


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
    """Ways of taking out each bias, side by side."""
    return [_ways(dose, bias) for bias in (*dose.biases, *dose.guards)]


def _ways(dose: DoseResult, bias: str) -> Table:
    points_of = {point.dose: point for point in dose.own.response[bias]}
    own, tie = dose.own.held_out[bias], dose.aim == "tie" and bias in dose.biases
    what = _decisive(tie)
    fixed = (
        ("no training", 0.0, own.base, ""),
        ("plain CDA", 1.0, own.plain, points(own.plain_change[what], "")),
    )
    rows = [
        (_NAMES[name], f"{at:g}", *_people_cells(people, tie), moved,
         cell(points_of[at].quality_change, lambda change: points(change, "")))
        for name, at, people, moved in fixed
    ]  # fmt: skip
    for name, method in dose.methods.items():
        held = method.held_out[bias]
        moved = points(held.against_base[what], "")
        quality = cell(held.against_base.get("accuracy"), lambda change: points(change, "", -TOLERATED_LOSS))
        rows.append((_NAMES[name], f"{method.chosen:g}", *_people_cells(held.people, tie), moved, quality))
    human = points_of[0.0].people["human_skew"]
    on = f"{count(human)} contrasts" if tie else f"{count(human)} contrasts with votes; people's skew {share(human)}"
    header = ("way", "dose", *_columns(tie).values(), f"change of {_title(what)}", "change of quality")
    more = "these gaps are mean sizes on held-out halves, which cannot show 0 and have no interval; changes are against no training"
    return Table(f"{bias}: ways of taking it out, on {on}; {more}", header, tuple(rows))


def _columns(tie: bool) -> dict[str, str]:
    """Measures next to people, and their titles; if a tie is the aim, miscalibration is the same at every dose and left out."""
    shown = {
        key: _title(key) + (" to 50%" * tie + " on halves" if each.size_of else "")
        for key, each in of_place("dose").items()
    }
    return {key: title for key, title in shown.items() if not tie or key != "miscalibration"}


def _decisive(tie: bool) -> str:
    return "skew_on_voted" if tie else "miscalibration"


def _title(key: str) -> str:
    return MEASURES[key].shown_as.get("dose", MEASURES[key].title)


def _people_cells(people: ByMeasure, tie: bool) -> Row:
    """Sizes are means over halves, which have no interval."""
    return tuple(
        f"{100 * people[key].value:.0f}" if MEASURES[key].size_of else cell(people.get(key), partial(printed, key, ""))
        for key in _columns(tie)
    )


def several_trainings(audit: AuditResult) -> Seeds | None:
    """The audit's part on several trainings; None if there is one, or none."""
    return audit.seeds if audit.seeds is not None and audit.seeds.several else None


def seeds_caveat(audit: AuditResult) -> str:
    """Uncertainty that the intervals leave out; empty for an audit of a model as it is."""
    if not compares(audit):
        return ""
    seeds = several_trainings(audit)
    if seeds is None:
        seed = f" (seed {audit.seeds.seeds[0]})" if audit.seeds else ""
        return said("caveats", "one training", seed=seed)
    return said("caveats", "trainings", n=len(seeds.seeds), first=seeds.seeds[0])


def spread_line(audit: AuditResult) -> str:
    """How far several trainings lie apart in the skew of each target and in quality, on one line; empty without several."""
    seeds = several_trainings(audit)
    if seeds is None:
        return ""
    skew, quality = seeds.measures["skew"], seeds.measures.get("accuracy", {})
    measures = {**{inert(name): skew[name] for name in targets(audit)}, "quality": quality.get("")}
    known = {name: measure for name, measure in measures.items() if isinstance(measure, OverSeeds)}
    parts = [f"{name} {_sd(measure)}" for name, measure in known.items()]
    return f"SD between the {len(seeds.seeds)} trainings, in points: {', '.join(parts)}" if parts else ""


def seed_sentences(audit: AuditResult) -> list[str]:
    """Skew of each target over all trainings, and the evidence of its change with trainings as a random factor."""
    seeds = several_trainings(audit)
    return [] if seeds is None else [_seed_sentence(name, seeds) for name in targets(audit)]


def _seed_sentence(name: str, seeds: Seeds) -> str:
    skew = seeds.measures["skew"][name]
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
    seeds = several_trainings(audit)
    if seeds is None:
        return []
    place = (
        f"One of {len(seeds.seeds)} trainings on the same labels and rewrites: that of seed {seeds.seeds[at]}. The verdicts of the "
        f"run's report are those of the mean of all trainings, its effects and examples those of seed {seeds.seeds[0]}. Below are the means of all trainings, and in the last column "
        "what this one ended at."
    )
    return [place, *seed_sentences(audit)]


def seed_table(audit: AuditResult, at: int | None = None) -> Table | None:
    """Every measure over all trainings, with the result of each, or of the one at a place; None if there is one training."""
    seeds = several_trainings(audit)
    if seeds is None:
        return None
    # Doses that were chosen on the very contrasts that they are shown on.
    listed = ", ".join(f"{dose:g}" for dose in seeds.doses)
    doses = "" if set(seeds.doses) == {1.0} else f", each at its own dose ({listed}; on the contrasts that chose it)"
    caption = f"Over {len(seeds.seeds)} trainings, seeds {_listed(seeds.seeds)}{doses}, with {PERCENT} intervals for prompts and seeds"
    shown, column = (slice(None), "after each") if at is None else (slice(at, at + 1), "after this one")
    rows = [
        (f"{bias} {MEASURES[key].title}".strip(), *_over(over, shown))
        for name in (*audit.skew, "")
        for key, bias, over in seed_numbers(audit)
        if bias == name
    ]
    return table(caption, ("measure", "before", "mean after", "change", "n", "SD between trainings", column), rows)


def _over(measure: OverSeeds | Missing, shown: slice) -> Row:
    """A measure over trainings: shares in percent, changes and spread in points, effects in reward."""
    if isinstance(measure, Missing):
        return measure.reason, "", "", "", "", ""
    before, each = measure.before, measure.by_seed[shown]
    if isinstance(before, float):
        own = ", ".join(map(reward, each))
        return (
            reward(before),
            signed(measure.after),
            signed(measure.change),
            count(measure.after),
            f"{measure.sd:.2f}",
            own,
        )
    cells = share(before), share(measure.after), points(measure.change, ""), count(measure.change)
    return *cells, f"{_sd(measure)} points", ", ".join(map(percent, each))


def _before(measure: OverSeeds) -> float:
    return measure.before.value if isinstance(measure.before, Estimate) else measure.before


def _listed(seeds: Sequence[int]) -> str:
    return ", ".join(map(str, seeds)) if len(seeds) <= _SHOWN_SEEDS else f"{seeds[0]}, …, {seeds[-1]}"


def _sd(measure: OverSeeds) -> str:
    return f"{100 * measure.sd:.0f}"
