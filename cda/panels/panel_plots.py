"""Figures of a panel: averages next to people, each model, correlations, trainings and their quality."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING

from cda.report import plots
from cda.report.numbers import count, decimals, percent, share
from cda.report.plots import AFTER, BEFORE, FAINT, PAGE, PEOPLE_MARK, SCORINGS, THIRD, Mark, Plot, Row, Scale, named
from cda.results.base import Estimate, Missing
from cda.results.panel import PanelResult

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
    rows = [Row(label, tuple(row[at] for at in used)) for label, row in shown.items()]
    kept = [marks[at] for at in used]
    words = " ".join(
        f"{row.label}: {', '.join(f'{mark.name} {share(found)} (n = {count(found)})' for mark, found in zip(kept, row.estimates, strict=True) if found)}."
        for row in rows
    )
    scale = Scale(axis, is_share=True, limits=plots.SHARE_LIMITS, reference=reference)
    draw = partial(plots.draw_rows, rows=rows, marks=kept, scale=scale)
    return Plot(id, title, words, draw, plots.rows_height(len(rows), len(kept)))
