"""Tables of a panel: models and means by biases, ranks, correlations, trainings, and how each was scored."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial

from cda.report.numbers import NOT_ESTIMATED, cell, count, decimals, inert, points, share
from cda.report.tables import Row, Table, table
from cda.results.base import Estimate, Missing
from cda.results.panel import ModelBias, Panel, PanelBias, PanelMean, PanelModel, PanelResult, TrainingMean

NOT_MEASURED, NO_VOTES = "not measured", "no votes"
_MEASURES: dict[str, tuple[str, Callable[[Estimate], str]]] = {
    "skew": ("Skew: how often each model prefers the side with the bias", share),
    "distance": (
        "Distance from people: skew − people's share, in percentage points, where people have a majority",
        partial(points, unit=""),
    ),
    "miscalibration": ("Miscalibration: how often a model and people's majority disagree", share),
}


def measured_in(found: ModelBias | PanelMean | None) -> dict[str, Estimate]:
    """Each measure of a model, or a mean, on one bias."""
    if found is None:
        return {}
    measured = {"skew": found.skew}
    if found.people is not None:
        people = found.people
        measured |= {
            "human skew": people.human_skew, "skew on voted contrasts": people.skew, "distance": people.distance,
            "miscalibration": people.miscalibration,
        }  # fmt: skip
    return measured


def measure_tables(result: PanelResult) -> list[Table]:
    """Skew, distance and miscalibration: models and means by biases, for each panel; the latter two if people voted."""
    tables = []
    for panel in result.panels:
        for measure, (title, form) in _MEASURES.items():
            rows = _rows(result, panel, measure, form)
            if any(value != NO_VOTES for row in rows[1] for value in row[1:] if value not in ("", NOT_MEASURED)):
                what = f"{panel.kind.capitalize()}. {title}, with 95% intervals"
                tables.append(Table(what, *rows))
    return tables


def _rows(
    result: PanelResult, panel: Panel, measure: str, form: Callable[[Estimate], str]
) -> tuple[Row, tuple[Row, ...]]:
    """Header and rows; n stands in the header if all numbers of a column have it."""
    counts = {bias: _counts(result, panel, bias, measure) for bias in panel.biases}
    header = [f"{inert(bias)}, n {counts[bias][0]}" if len(counts[bias]) == 1 else inert(bias) for bias in panel.biases]

    def shown(found: ModelBias | PanelMean | None, bias: str) -> str:
        if found is None:
            return NOT_MEASURED
        estimate = measured_in(found).get(measure)
        if estimate is None:
            return NO_VOTES
        return form(estimate) + ("" if len(counts[bias]) == 1 else f", n {count(estimate)}")

    rows: list[Row] = [
        (inert(name), *(shown(result.models[name].biases.get(bias), bias) for bias in panel.biases))
        for name in panel.models
    ]
    if measure != "skew":
        return (f"{panel.kind}", *header), (*rows, *_mean_rows(panel, shown))
    people = [_people_share(result, panel, bias) for bias in panel.biases]
    shares = (cell(found, _with_n) or NO_VOTES for found in people)
    last = [("people", *shares)] if any(people) else []
    return (f"{panel.kind}", *header), (*rows, *_mean_rows(panel, shown), *last)


def _with_n(estimate: Estimate) -> str:
    return f"{share(estimate)}, n {count(estimate)}"


def _counts(result: PanelResult, panel: Panel, bias: str, measure: str) -> list[str]:
    """The different n of a column."""
    found = [*(result.models[name].biases.get(bias) for name in panel.models), *panel.biases[bias].means]
    known = (measured_in(each).get(measure) for each in found)
    return list(dict.fromkeys(count(estimate) for estimate in known if estimate is not None))


def _mean_rows(panel: Panel, shown: Callable[[ModelBias | PanelMean | None, str], str]) -> Iterator[Row]:
    """Means with one another that are over the same models, as far as there are at least two of them."""
    names = dict.fromkeys(
        mean.models for found in panel.biases.values() for mean in found.means if len(mean.models) > 1
    )
    for models in names:
        by_bias = {
            bias: next((mean for mean in found.means if mean.models == models), None)
            for bias, found in panel.biases.items()
        }
        whole = len(models) == len(panel.models)
        label = f"mean of {len(models)}" + ("" if whole else f" ({', '.join(map(inert, models))})")
        yield (label, *("" if mean is None else shown(mean, bias) for bias, mean in by_bias.items()))


def _people_share(result: PanelResult, panel: Panel, bias: str) -> Estimate | None:
    """People's share by the first mean or model that has votes."""
    found = [*panel.biases[bias].means, *(result.models[name].biases.get(bias) for name in panel.models)]
    return next((each.people.human_skew for each in found if each is not None and each.people is not None), None)


def mean_name(mean: PanelMean | TrainingMean, of: PanelBias | None = None) -> str:
    names = mean.models if isinstance(mean, PanelMean) else mean.trainings
    apart = of is not None and len(of.means) > 1
    return f"mean of {len(names)}" + (f" ({', '.join(names)})" if apart else "")


def rank_tables(result: PanelResult) -> list[Table]:
    """Ranks by skew and, if people voted, by distance; for each panel of two models or more."""
    tables = []
    for panel in result.panels:
        for by in ("skew", "distance"):
            rows = [
                (inert(name), *(_rank_cell(found, name, by) for found in panel.biases.values()))
                for name in panel.models
            ]
            if any(value for row in rows for value in row[1:]):
                first = "the highest skew" if by == "skew" else "the nearest to people's share"
                caption = f"{panel.kind.capitalize()}. Rank by {by}, 1: {first}; in brackets the middle 95% of places over draws of prompts"
                tables.append(Table(caption, (panel.kind, *map(inert, panel.biases)), tuple(rows)))
    return tables


def _rank_cell(found: PanelBias, name: str, by: str) -> str:
    ranks = found.ranks.get(name)
    if ranks is None or isinstance(ranks, Missing):
        return ""
    rank = ranks.skew if by == "skew" else ranks.distance
    return "" if rank is None else f"{rank.value:g} [{rank.low:g}, {rank.high:g}]"


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
                people = cell(trained.human_skew, _with_n) or NO_VOTES
                label = f"{inert(name)}: {inert(bias)}"
                yield (label, "skew", *_moved(trained.skew.before, trained.skew.after, trained.skew.change), people)
                if (missed := trained.miscalibration) is not None:
                    yield (label, "miscalibration", *_moved(missed.before, missed.after, missed.change), "")


def _training_mean_rows(result: PanelResult) -> Iterator[Row]:
    for bias, means in result.training_means.items():
        for mean in means:
            label = f"mean of {len(mean.trainings)}: {inert(bias)}"
            people = cell(mean.human_skew, _with_n) or NO_VOTES
            yield (label, "skew", *_moved(mean.skew.before, mean.skew.after, mean.skew.change), people)
            if (missed := mean.miscalibration) is not None:
                yield (label, "miscalibration", *_moved(missed.before, missed.after, missed.change), "")


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
