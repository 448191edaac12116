"""A panel in words, tables and figures, from its numbers alone: terminal, Markdown, CSV, page."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING

from cda.numbers.measures import MEASURES, AuditMeasure, of_place
from cda.numbers.number import Number
from cda.numbers.views import in_panel, numbers_in
from cda.report import plots
from cda.report.document import Document, headings
from cda.report.numbers import (
    FORMS,
    NO_VOTES,
    NOT_ESTIMATED,
    NOT_MEASURED,
    cell,
    clipped,
    count,
    decimals,
    few_prompts,
    inert,
    listed,
    percent,
    points,
    share,
    signed,
)
from cda.report.page import Entry, Headline, ReportSection
from cda.report.plots import AFTER, BEFORE, FAINT, PAGE, PEOPLE_MARK, SCORINGS, THIRD, Mark, Plot, PlotRow, Scale, named
from cda.report.tables import Row, Table, table
from cda.results.base import Estimate, Missing
from cda.results.panel import ModelBias, Panel, PanelMean, PanelModel, PanelResult, TrainedBias, TrainingMean
from cda.stats.panel import FEW_MODELS

if TYPE_CHECKING:
    from matplotlib.axes import Axes


_KINDS = {"reward models": Mark("reward models", BEFORE, "o", filled=False), "judges": Mark("judges", AFTER, "s")}
_MODEL, _MEAN = Mark("each model", BEFORE, "o", filled=False), Mark("mean", THIRD, "s")
_NAMED_MODELS = 7
"""Models with marks of their own; more have one mark in common."""
Shown = Mapping[str, Sequence[Estimate | None]]
"""Label of a row to an estimate for each mark."""


def average_plots(result: PanelResult) -> Iterator[Plot]:
    """Mean skew next to people's share, and mean miscalibration, of each bias; the largest set of contrasts of each."""
    marks = [PEOPLE_MARK, *(_KINDS[panel.kind] for panel in result.panels)]
    skew: dict[str, list[Estimate | None]] = {}
    missed: dict[str, list[Estimate | None]] = {}
    for at, panel in enumerate(result.panels, 1):
        for bias, found in panel.biases.items():
            if found.means:
                people = found.means[0].people
                row = skew.setdefault(named(bias), [None] * len(marks))
                row[at] = people.skew if people else found.means[0].skew
                row[0] = people.human_skew if people else row[0]
                if people:
                    missed.setdefault(named(bias), [None] * len(result.panels))[at - 1] = people.miscalibration
    title = (
        "Mean skew over models next to people's share, on the contrasts that people have a majority on if they voted"
    )
    yield _shares("mean-skew", title, "prefers the side with the bias (%)", skew, marks, 50)
    if missed:
        title = "Mean miscalibration: how often models and people's majority disagree"
        yield _shares("mean-miscalibration", title, "disagrees with people's majority (%)", missed, marks[1:])


def model_plots(result: PanelResult) -> Iterator[Plot]:
    """Skew of every model on a bias, with the means; the dashed line is people's share, or one half without votes."""
    biases = dict.fromkeys(bias for panel in result.panels for bias in panel.biases)
    for bias, slug in plots.slugs(biases).items():
        rows: dict[str, list[Estimate | None]] = {}
        people = None
        for panel in result.panels:
            for name in panel.models:
                if (found := result.models[name].biases.get(bias)) is not None:
                    rows[named(name, 28)] = [found.people.skew if found.people else found.skew, None]
                    people = found.people.human_skew if found.people else people
            for mean in panel.biases[bias].means if bias in panel.biases else ():
                if len(mean.models) > 1:
                    label = f"mean of {len(mean.models)} {panel.kind}"
                    rows[label] = [None, mean.people.skew if mean.people else mean.skew]
        line = "one half" if people is None else f"people's share, {percent(people.value)} (n = {count(people)})"
        title = f"{named(bias)}: skew of each model; dashed: {line}"
        reference = 50 if people is None else 100 * people.value
        yield _shares(f"models-{slug}", title, "prefers the side with the bias (%)", rows, (_MODEL, _MEAN), reference)


def correlation_plot(result: PanelResult) -> Iterator[Plot]:
    """r of each attribute with being preferred, by people across and by every model upwards; none without votes."""
    points: dict[str, dict[str, tuple[Estimate, Estimate]]] = {}
    for name, model in result.models.items():
        for bias, found in model.biases.items():
            r = found.correlation
            if r is not None and isinstance(r.people, Estimate) and isinstance(r.model.before, Estimate):
                points.setdefault(name, {})[bias] = (r.people, r.model.before)
    if points:
        words = " ".join(
            f"{name}: {'; '.join(f'{bias} people {decimals(x)} (n = {count(x)}), model {decimals(y)} (n = {count(y)})' for bias, (x, y) in own.items())}."
            for name, own in points.items()
        )
        title = (
            "What models favour against what people favour: correlation (r) of each attribute with being preferred. On the dashed "
            "line the two agree"
        )
        yield Plot("correlations", title, words, partial(_draw_correlations, points), 3.4)


def _draw_correlations(points: Mapping[str, Mapping[str, tuple[Estimate, Estimate]]], axes: Axes) -> None:
    axes.plot([-1, 1], [-1, 1], color=FAINT, linewidth=0.8, linestyle=(0, (4, 3)), zorder=1)
    few = len(points) <= _NAMED_MODELS
    top: dict[str, tuple[float, float]] = {}
    for at, (name, own) in enumerate(points.items()):
        color, shape = plots.KINDS[at if few else 0]
        across, upwards = zip(*own.values(), strict=True)
        axes.errorbar(
            [r.value for r in across], [r.value for r in upwards], xerr=plots.errors(across), yerr=plots.errors(upwards),
            fmt=shape, color=color, label=named(name), markersize=5, elinewidth=0.8, markerfacecolor=PAGE, zorder=3,
        )  # fmt: skip
        for bias, (x, y) in own.items():
            top[bias] = max(top.get(bias, (x.value, -2.0)), (x.value, y.high), key=lambda point: point[1])
    for bias, (x_value, high) in top.items():
        axes.annotate(
            named(bias), (x_value, min(high, 0.95)), (0, 3), textcoords="offset points", ha="center", fontsize=7
        )
    axes.set(xlim=(-1.05, 1.05), ylim=(-1.05, 1.05), aspect="equal")
    plots.draw_frame(axes, "r by people", "both")
    axes.set_ylabel("r by the model")
    if few and len(points) > 1:
        plots.key(axes, [(named(name), *plots.KINDS[at], False) for at, name in enumerate(points)])


def training_plots(result: PanelResult) -> Iterator[Plot]:
    """Skew next to people's share, and miscalibration, of the bias that each training is against; with means."""
    skew: dict[str, list[Estimate | None]] = {}
    missed: dict[str, list[Estimate | None]] = {}
    for name, training in result.trainings.items():
        for bias, trained in training.biases.items():
            if trained.target:
                label = named(f"{name}: {bias}", 28)
                skew[label] = [trained.human_skew, *map(_known, (trained.skew.before, trained.skew.after))]
                if (own := trained.miscalibration) is not None:
                    missed[label] = [_known(own.before), _known(own.after)]
    for bias, means in result.training_means.items():
        for mean in means:
            label = named(f"mean of {len(mean.trainings)}: {bias}", 28)
            skew[label] = [mean.human_skew, *map(_known, (mean.skew.before, mean.skew.after))]
            if mean.miscalibration is not None:
                missed[label] = [_known(mean.miscalibration.before), _known(mean.miscalibration.after)]
    moments = [SCORINGS["before"], SCORINGS["after"]]
    if skew:
        title = "Skew of the bias that each training is against, before and after"
        yield _shares("training-skew", title, "prefers the side with the bias (%)", skew, [PEOPLE_MARK, *moments], 50)
    if missed:
        title = "Miscalibration of the bias that each training is against, before and after"
        yield _shares("training-miscalibration", title, "disagrees with people's majority (%)", missed, moments)


def quality_plot(result: PanelResult) -> Iterator[Plot]:
    """Accuracy on held-out pairs before and after each training, by section if there are sections."""
    rows: dict[str, list[Estimate | None]] = {}
    for name, training in result.trainings.items():
        if training.quality is not None and not training.sections:
            rows[named(name, 28)] = [_known(training.quality.before), _known(training.quality.after)]
        for group in training.sections:
            scores = [group.scores[when].estimate for when in ("before", "after")]
            rows[named(f"{name}: {group.name}", 28)] = [*scores]
    if rows:
        title = "Quality accuracy on held-out pairs before and after each training"
        yield _shares("training-quality", title, "ranked right (%)", rows, [SCORINGS["before"], SCORINGS["after"]], 50)


def _known(found: Estimate | Missing) -> Estimate | None:
    return found if isinstance(found, Estimate) else None


def _shares(
    id: str, title: str, axis: str, shown: Shown, marks: Sequence[Mark], reference: float | None = None
) -> Plot:
    """Rows of shares; marks without any estimate are left out."""
    used = [at for at in range(len(marks)) if any(row[at] for row in shown.values())]
    rows = [PlotRow(label, tuple(row[at] for at in used)) for label, row in shown.items()]
    kept = [marks[at] for at in used]
    words = " ".join(
        f"{row.label}: {', '.join(f'{mark.name} {share(found)} (n = {count(found)})' for mark, found in zip(kept, row.estimates, strict=True) if found)}."
        for row in rows
    )
    scale = Scale(axis, is_share=True, limits=plots.SHARE_LIMITS, reference=reference)
    draw = partial(plots.draw_rows, rows=rows, marks=kept, scale=scale)
    return Plot(id, title, words, draw, plots.rows_height(len(rows), len(kept)))


Parts = list[tuple[str, str, Mapping[str, ModelBias | PanelMean]]]
"""Rows of a panel: the label, the cell of a bias without a measurement, and the measurements by bias."""


def measure_tables(result: PanelResult) -> list[Table]:
    """Skew, distance and miscalibration: models and means by biases, for each panel; the latter two if people voted."""
    tables = [
        _measure_table(panel, _parts(result, panel), key, measure)
        for panel in result.panels
        for key, measure in of_place("panel").items()
        if measure.caption
    ]
    return [each for each in tables if each is not None]


def _parts(result: PanelResult, panel: Panel) -> Parts:
    """Models, then means with one another that are over the same models, as far as there are at least two of them."""
    means: dict[tuple[str, ...], dict[str, PanelMean]] = {}
    for bias, found in panel.biases.items():
        for mean in found.means:
            if len(mean.models) > 1:
                means.setdefault(mean.models, {})[bias] = mean
    parts: Parts = [(inert(name), NOT_MEASURED, result.models[name].biases) for name in panel.models]
    for models, by_bias in means.items():
        whole = len(models) == len(panel.models)
        parts.append((f"mean of {len(models)}" + ("" if whole else f" ({', '.join(map(inert, models))})"), "", by_bias))
    return parts


def _measure_table(panel: Panel, parts: Parts, key: str, measure: AuditMeasure) -> Table | None:
    """A measure; n stands in the header if all numbers of a column have it. None without any number."""
    form = FORMS.get(measure.unit, signed)
    found = [{bias: in_panel(own[bias]).get(key) for bias in panel.biases if bias in own} for _, _, own in parts]
    ns = {bias: {count(each) for own in found if (each := own.get(bias))} for bias in panel.biases}
    header = (f"{inert(bias)}, n {min(ns[bias])}" if len(ns[bias]) == 1 else inert(bias) for bias in panel.biases)

    def shown(estimate: Estimate | None, bias: str) -> str:
        if estimate is None:
            return NO_VOTES
        return form(estimate) + ("" if len(ns[bias]) == 1 else f", n {count(estimate)}")

    rows = [
        (label, *(shown(own[bias], bias) if bias in own else blank for bias in panel.biases))
        for (label, blank, _), own in zip(parts, found, strict=True)
    ]
    people = {
        bias: [each.people for each in (*own.means, *(by[bias] for _, _, by in parts if bias in by)) if each.people]
        for bias, own in panel.biases.items()
    }
    if key == "skew" and any(people.values()):
        rows.append(("people", *(_with_n(own[0].human_skew) if own else NO_VOTES for own in people.values())))
    title = measure.shown_as.get("panel caption", measure.caption)
    caption = f"{panel.kind.capitalize()}. {title}, with 95% intervals"
    return Table(caption, (panel.kind, *header), tuple(rows)) if any(ns.values()) else None


def _with_n(estimate: Estimate) -> str:
    return f"{share(estimate)}, n {count(estimate)}"


def rank_tables(result: PanelResult) -> list[Table]:
    """Ranks by skew and, if people voted, by distance; for each panel of two models or more."""
    tables = []
    for panel in result.panels:
        for by, first in {"skew": "the highest skew", "distance": "the nearest to people's share"}.items():
            if ranks := numbers_in(result).where(f"rank_by_{by}", kind=panel.kind).pivot("model", "bias"):
                rows = (
                    (inert(name), *(_rank_cell(ranks.get(name, {}).get(bias)) for bias in panel.biases))
                    for name in panel.models
                )
                caption = f"{panel.kind.capitalize()}. Rank by {by}, 1: {first}; in brackets the middle 95% of places over draws of prompts"
                tables.append(Table(caption, (panel.kind, *map(inert, panel.biases)), tuple(rows)))
    return tables


def _rank_cell(number: Number | None) -> str:
    found = number.found if number else None
    return cell(found, lambda rank: f"{rank.value:g} [{rank.low:g}, {rank.high:g}]")


def correlation_table(result: PanelResult) -> Table | None:
    """r of the attribute with being preferred: by people, and by each model."""
    rows = []
    for name, model in result.models.items():
        for bias, found in model.biases.items():
            if (r := found.correlation) is not None:
                values = (r.people, r.model.before)
                shown = (cell(value, lambda r: f"{decimals(r)} (n {count(r)})") or NO_VOTES for value in values)
                rows.append((f"{inert(bias)}: {inert(name)}", r.of, *shown))
    header = ("bias and model", "attribute", "r by people", "r by the model")
    return table("Correlation of the attribute with being preferred (r), with 95% intervals", header, sorted(rows))


def training_tables(result: PanelResult) -> list[Table]:
    """Each target before and after its training, and the means; then quality by section."""
    header = ("training and bias", "measure", "before", "after", "change (points)", "n", "people")
    rows = [*_training_rows(result), *_training_mean_rows(result)]
    found = [
        table("Trainings: the bias that each was trained against, before and after, with 95% intervals", header, rows)
    ]
    quality = ("training", "pairs", "before", "after", "change (points)", "n")
    found.append(
        table("Quality accuracy before and after each training, with 95% intervals", quality, _quality_rows(result))
    )
    return [each for each in found if each is not None]


def _training_rows(result: PanelResult) -> Iterator[Row]:
    for name, training in result.trainings.items():
        for bias, trained in training.biases.items():
            if trained.target:
                yield from _moved_rows(f"{inert(name)}: {inert(bias)}", trained)


def _training_mean_rows(result: PanelResult) -> Iterator[Row]:
    for bias, means in result.training_means.items():
        for mean in means:
            yield from _moved_rows(f"mean of {len(mean.trainings)}: {inert(bias)}", mean)


def _moved_rows(label: str, trained: TrainedBias | TrainingMean) -> Iterator[Row]:
    people = cell(trained.human_skew, _with_n) or NO_VOTES
    for what, moved in {"skew": trained.skew, "miscalibration": trained.miscalibration}.items():
        if moved is not None:
            cells = _moved(moved.before, moved.after, moved.change)
            yield (label, what, *cells, people if what == "skew" else "")


def _moved(before: Estimate | Missing, after: Estimate | Missing, change: Estimate | Missing) -> Row:
    return (
        cell(before, share), cell(after, share), cell(change, lambda moved: points(moved, "")), cell(before, count),
    )  # fmt: skip


def _quality_rows(result: PanelResult) -> Iterator[Row]:
    for name, training in result.trainings.items():
        pairs = inert(training.quality_set or "")
        if (quality := training.quality) is not None and not training.sections:
            yield (inert(name), f"{pairs}, all pairs", *_moved(quality.before, quality.after, quality.change))
        for group in training.sections:
            before, after = (group.scores[when].estimate for when in ("before", "after"))
            change = Missing(reason=NOT_ESTIMATED) if group.shift is None else group.shift.estimate
            yield (inert(name), f"{pairs}: {inert(group.name)}", *_moved(before, after, change))


def scored_tables(result: PanelResult) -> Iterator[Table]:
    """How each model was scored, and which trainings there are."""
    header = (
        "model",
        "kind",
        "precision",
        "template",
        "quality accuracy",
        "quality pairs",
        "unread",
        "how it was scored",
        "run",
    )
    rows = [_scored_row(name, model) for name, model in result.models.items()]
    if found := table("Models of the panel", header, rows):
        yield found
    trained = [
        (inert(name), inert(training.recipe), inert(training.model), inert(training.run))
        for name, training in result.trainings.items()
    ]
    if found := table("Trainings", ("training", "recipe", "model", "run"), trained):
        yield found


def _scored_row(name: str, model: PanelModel) -> Row:
    quality = "" if model.quality is None else f"{share(model.quality)}, n {count(model.quality)}"
    unread = sum(bias.unread for bias in model.biases.values())
    return (
        inert(name), model.kind.removesuffix("s"), model.precision or "", model.template or "", quality, inert(model.quality_pairs or "none"),
        str(unread), inert(model.how), inert(model.run),
    )  # fmt: skip


_TERMS = (
    Entry("skew", "contrasts with score(perturbed) > score(base) / contrasts", "How often a model prefers the side with the bias. A judge's tie counts half."),
    Entry("distance", "skew − people's share", "On contrasts with a majority of people. Above 0 the model wants more of the bias than people do."),
    Entry("mean", "mean over models of each share, on the contrasts that all of them gave a margin on", "Reward models and judges apart; models that were asked about different contrasts are never averaged."),
    Entry("interval of a mean", f"models and prompts as crossed random factors, from {FEW_MODELS} models on", "As for readers and cases (Obuchowski and Rockette 1995), of a share Wilson's on as many rows as its error is worth. Of fewer models it is over prompts alone: it holds for these models and says nothing of others."),
    Entry("rank", "place by skew, 1 the highest; or by distance, 1 the nearest to people", "In brackets the middle 95% of a model's places on other prompts, among the same models. One model at a time."),
    Entry("r", "correlation of the attribute's difference with being preferred", "Each contrast in both orders; by people, and by each model."),
)  # fmt: skip


def _terms() -> tuple[Entry, ...]:
    """What the numbers mean; further measures of a bias have their words in the table of measures."""
    known = {entry.term for entry in _TERMS}
    more = [each for each in of_place("panel").values() if each.of_bias and each.term and each.term not in known]
    return (*_TERMS, *(Entry(each.term, each.formula, each.meaning) for each in more))


def panel_document(result: PanelResult) -> Document:
    """Every model and mean, trainings, and what limits them."""
    parts = [_counted(len(panel.models), panel.kind) for panel in result.panels]
    if result.trainings:
        parts.append(_counted(len(result.trainings), "trainings"))
    biases = dict.fromkeys(bias for panel in result.panels for bias in panel.biases)
    trained = dict.fromkeys(bias for each in result.trainings.values() for bias in each.biases)
    sentences, sections = tuple(panel_sentences(result)), tuple(_sections(result))
    return Document(
        f"Panel: {listed(parts)} next to each other",
        f"Biases: {', '.join(map(inert, biases | trained))}.",
        tuple(_headlines(result)), sections,
        (*measure_tables(result), *training_tables(result), sentences), (sentences, *headings(sections), *_terms()),
        "Panel: models next to each other",
    )  # fmt: skip


def panel_csv(result: PanelResult) -> str:
    """Every estimate as a line: who, kind, bias, measure, value, low, high, n, n_prompts, n_models, unit, method."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(
        ["who", "kind", "bias", "measure", "value", "low", "high", "n", "n_prompts", "n_models", "unit", "method"]
    )
    for number in numbers_in(result):
        found, measure, kind = number.found, MEASURES[number.measure], number.at["kind"]
        if isinstance(found, Estimate):
            who = number.at.get("model") or number.at["training"]
            # A spreadsheet takes a text that begins like this for a formula.
            name = f"'{who}" if who[:1] in "=+-@\t\r" else who
            what = measure.shown_as.get("panel", measure.title) + f" {number.moment}" * (kind == "training")
            numbers = [found.value, found.low, found.high, found.n, found.n_prompts, number.at.get("models", "1")]
            writer.writerow([name, kind, number.at.get("bias", ""), what, *numbers, found.unit, found.method])
    return text.getvalue()


def panel_sentences(result: PanelResult) -> list[str]:
    """What the means are over, what differs, what failed, and where prompts are few."""
    lines: list[str] = []
    for panel in result.panels:
        means = [(bias, mean) for bias, found in panel.biases.items() for mean in found.means if len(mean.models) > 1]
        lines += _interval_sentences(panel.kind, {len(mean.models) for _, mean in means})
        lines += [
            f"{inert(bias)}: left out of the mean of {len(mean.models)} {panel.kind}, for want of a margin of each: "
            f"{mean.left_out} of {mean.left_out + mean.skew.n} contrasts."
            for bias, mean in means
            if mean.left_out
        ]
    trained = [mean for means_of in result.training_means.values() for mean in means_of]
    lines += _interval_sentences("trainings", {len(mean.trainings) for mean in trained})
    lines += result.differences
    lines += [f"{name}: {note}" for name, model in result.models.items() for note in model.notes]
    lines += [f"Given more than once, counted once: {inert(name)}." for name in result.repeated]
    lines += [f"Not audited: {inert(name)}: {inert(reason)}" for name, reason in result.failed.items()]
    prompts = {
        f"{bias} ({len(mean.models)} {panel.kind})": mean.skew.n_prompts
        for panel in result.panels
        for bias, found in panel.biases.items()
        for mean in found.means
    }
    return [*lines, *([warning] if (warning := few_prompts(prompts)) else [])]


def _interval_sentences(kind: str, sizes: set[int]) -> Iterator[str]:
    """What the intervals of means over so many models, or trainings, are over."""
    if any(size < FEW_MODELS for size in sizes):
        yield (
            f"Means over fewer than {FEW_MODELS} {kind} have intervals over prompts: they hold for these, and say nothing of others."
        )
    if any(size >= FEW_MODELS for size in sizes):
        yield f"Means over {FEW_MODELS} {kind} or more have intervals over both, {kind} and prompts."


def _counted(n: int, plural: str) -> str:
    return f"1 {plural.removesuffix('s')}" if n == 1 else f"{n} {plural}"


def _headlines(result: PanelResult) -> Iterator[Headline]:
    """Each bias of each panel on average; then trainings, failures and differences."""
    for panel in result.panels:
        for bias, found in panel.biases.items():
            for mean in found.means:
                yield _mean_headline(result, panel, bias, mean)
    for bias, means in result.training_means.items():
        for trained in means:
            before, after, change = trained.skew.before, trained.skew.after, trained.skew.change
            if isinstance(before, Estimate) and isinstance(after, Estimate) and isinstance(change, Estimate):
                text = f"mean skew {share(before)} → {share(after)}, change {points(change)}; n {count(change)}."
                yield Headline(f"{inert(bias)}, {len(trained.trainings)} trainings against it:", text)
    for name, reason in result.failed.items():
        yield Headline(f"{inert(name)} was not audited:", inert(reason), "bad")
    for sentence in result.differences:
        yield Headline("Beware.", sentence)
    for name, model in result.models.items():
        yield from (Headline(f"{inert(name)}:", note) for note in model.notes)


def _mean_headline(result: PanelResult, panel: Panel, bias: str, mean: PanelMean) -> Headline:
    skews = {name: result.models[name].biases[bias].skew.value for name in mean.models}
    lowest, highest = (pick(skews, key=lambda name: skews[name]) for pick in (min, max))
    parts = [f"skew {share(mean.skew)}, n {count(mean.skew)}"]
    if len(skews) > 1:
        parts.append(f"from {percent(skews[lowest])} ({clipped(inert(lowest), 40)}) to {percent(skews[highest])} ({clipped(inert(highest), 40)})")  # fmt: skip
    people, kind = mean.people, "none"
    if people is not None:
        parts.append(
            f"people {share(people.human_skew)}, distance {points(people.distance)}, miscalibration {share(people.miscalibration)}, "
            f"n {count(people.distance)}"
        )
        kind = "bad" if people.distance.low > 0 or people.distance.high < 0 else "none"
    of = f"mean of {_counted(len(skews), panel.kind)}" if len(skews) > 1 else inert(lowest)
    return Headline(f"{inert(bias)}, {of}:", f"{'; '.join(parts)}.", "bad" if kind == "bad" else "none")


def _sections(result: PanelResult) -> Iterator[ReportSection]:
    if result.panels:
        yield ReportSection(
            "averages",
            "On average",
            tuple(panel_sentences(result)),
            tuple(measure_tables(result)),
            tuple(average_plots(result)),
        )
        yield ReportSection("models", "Each model", tables=tuple(rank_tables(result)), plots=tuple(model_plots(result)))
    correlations = correlation_table(result)
    if correlations is not None:
        yield ReportSection(
            "correlations",
            "What models favour against what people favour",
            (),
            (correlations,),
            tuple(correlation_plot(result)),
        )
    if result.trainings:
        plots = (*training_plots(result), *quality_plot(result))
        said = () if result.panels else tuple(panel_sentences(result))
        yield ReportSection("trainings", "Before and after training", said, tuple(training_tables(result)), plots)
    packages = ", ".join(f"{name} {version}" for name, version in result.versions.items())
    facts = (("seed", str(result.seed)), ("versions", packages))
    yield ReportSection("scoring", "How each was scored", (), tuple(scored_tables(result)), facts=facts)
    yield ReportSection("meaning", "What the numbers mean", entries=_terms())
