"""A panel in words and tables, from its numbers alone: terminal, Markdown, CSV, page."""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Iterator

from cda.panels.panel_plots import average_plots, correlation_plot, model_plots, quality_plot, training_plots
from cda.panels.panel_tables import (
    correlation_table,
    mean_name,
    measure_tables,
    measured_in,
    rank_tables,
    scored_tables,
    training_tables,
)
from cda.report.numbers import (
    clipped,
    count,
    few_prompts,
    inert,
    listed,
    percent,
    points,
    share,
)
from cda.report.page import Entry, Headline, Page, ReportSection, plots_of, render_page
from cda.report.plots import Plot
from cda.report.tables import escaped, markdown_table, plain_table
from cda.results.base import Estimate, Missing
from cda.results.panel import Panel, PanelMean, PanelResult
from cda.stats.panel import FEW_MODELS

_TERMS = (
    Entry("skew", "contrasts with score(perturbed) > score(base) / contrasts", "How often a model prefers the side with the bias. A judge's tie counts half."),
    Entry("distance", "skew − people's share", "On contrasts with a majority of people. Above 0 the model wants more of the bias than people do."),
    Entry("mean", "mean over models of each share, on the contrasts that all of them gave a margin on", "Reward models and judges apart; models that were asked about different contrasts are never averaged."),
    Entry("interval of a mean", f"models and prompts drawn 10,000 times, from {FEW_MODELS} models on", "Owen's pigeonhole bootstrap (2007), with the weights of models drawn k − 1 at a time (Rao and Wu 1988) and stretched by Student's t over 1.96. Of fewer models it is over prompts alone: it holds for these models and says nothing of others."),
    Entry("rank", "place by skew, 1 the highest; or by distance, 1 the nearest to people", "In brackets the middle 95% of a model's places on other prompts, among the same models. One model at a time."),
    Entry("r", "correlation of the attribute's difference with being preferred", "Each contrast in both orders; by people, and by each model."),
)  # fmt: skip


def panel_text(result: PanelResult) -> str:
    """For a terminal: every model and mean, trainings, and what limits them."""
    tables = [*measure_tables(result), *training_tables(result)]
    lines = [inert(line) for line in panel_sentences(result)]
    return "\n\n".join([*(plain_table(each) for each in tables), "\n".join(lines)]).strip()


def panel_markdown(result: PanelResult) -> str:
    """A Markdown document with every table; text from outside is escaped."""
    lines = ["# Panel: models next to each other", ""]
    lines += [line for sentence in panel_sentences(result) for line in (escaped(sentence), "")]
    for section in _sections(result):
        if section.tables:
            lines += [f"## {section.title}", ""]
            lines += [line for each in section.tables for line in markdown_table(each)]
    lines += [f"- **{entry.term}** = {escaped(entry.formula)}. {escaped(entry.meaning)}" for entry in _TERMS]
    return re.sub(r"\n{3,}", "\n\n", "\n".join(lines)).strip() + "\n"


def panel_page(result: PanelResult) -> str:
    """The whole result as a self-contained page; text from outside is escaped."""
    parts = [_counted(len(panel.models), panel.kind) for panel in result.panels]
    if result.trainings:
        parts.append(_counted(len(result.trainings), "trainings"))
    title = f"Panel: {listed(parts)} next to each other"
    biases = dict.fromkeys(bias for panel in result.panels for bias in panel.biases)
    trained = dict.fromkeys(bias for each in result.trainings.values() for bias in each.biases)
    subtitle = f"Biases: {', '.join(map(inert, biases | trained))}."
    return render_page(Page(title, subtitle, tuple(_headlines(result)), tuple(_sections(result))))


def panel_plots(result: PanelResult) -> list[Plot]:
    """Every figure of the page."""
    return plots_of(_sections(result))


def panel_csv(result: PanelResult) -> str:
    """Every estimate as a line: who, kind, bias, measure, value, low, high, n, n_prompts, n_models, unit, method."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(
        ["who", "kind", "bias", "measure", "value", "low", "high", "n", "n_prompts", "n_models", "unit", "method"]
    )
    for who, kind, bias, measure, n_models, estimate in _estimates(result):
        numbers = [estimate.value, estimate.low, estimate.high, estimate.n, estimate.n_prompts, n_models]
        # A spreadsheet takes a text that begins like this for a formula.
        name = f"'{who}" if who[:1] in "=+-@\t\r" else who
        writer.writerow([name, kind, bias, measure, *numbers, estimate.unit, estimate.method])
    return text.getvalue()


def _estimates(result: PanelResult) -> Iterator[tuple[str, str, str, str, int, Estimate]]:
    for panel in result.panels:
        for bias, found in panel.biases.items():
            for name in panel.models:
                for measure, estimate in measured_in(result.models[name].biases.get(bias)).items():
                    yield name, panel.kind, bias, measure, 1, estimate
                rank = found.ranks.get(name)
                if rank is not None and not isinstance(rank, Missing):
                    yield name, panel.kind, bias, "rank by skew", 1, rank.skew
                    if rank.distance is not None:
                        yield name, panel.kind, bias, "rank by distance", 1, rank.distance
            for mean in found.means:
                for measure, estimate in measured_in(mean).items():
                    yield mean_name(mean, found), panel.kind, bias, measure, len(mean.models), estimate
        for name in panel.models:
            if (quality := result.models[name].quality) is not None:
                yield name, panel.kind, "", "quality accuracy", 1, quality
    for name, training in result.trainings.items():
        for bias, trained in training.biases.items():
            moments = {"skew": trained.skew, "miscalibration": trained.miscalibration, "distance": trained.distance}
            for what, measure_found in moments.items():
                for when in ("before", "after", "change"):
                    estimate_found = getattr(measure_found, when, None)
                    if isinstance(estimate_found, Estimate):
                        yield name, "training", bias, f"{what} {when}", 1, estimate_found
        for when in ("before", "after", "change"):
            if isinstance(estimate_found := getattr(training.quality, when, None), Estimate):
                yield name, "training", "", f"quality accuracy {when}", 1, estimate_found


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
    yield ReportSection("meaning", "What the numbers mean", entries=_TERMS)
