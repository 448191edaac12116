"""The report of a discovery as one HTML file, drawn from discover.json alone."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from cda.discovery.plots import agreement_plots, family_plot, rewriter_plots, search_plots, strength_plots, tested_plots
from cda.discovery.sentences import (
    correction,
    how_made,
    model_name,
    outcome,
    rewriters_named,
    rewriters_needed,
    rewriters_shown,
    warnings,
)
from cda.discovery.tables import (
    agreement_table,
    drift_table,
    effort_table,
    excluded_table,
    generation_table,
    lineage_tables,
    numbered,
    pairs_table,
    renumbered,
    rewriter_table,
    strength_steps,
    tested_table,
    topic_tables,
    unknown_table,
    validation_table,
)
from cda.report.numbers import cell, clipped, count, p_equals, reward, share, signed
from cda.report.page import Entry, Headline, Page, Piece, ReportSection, plots_of, rendered, word_differences
from cda.report.plots import Plot
from cda.report.scoring import cost_sentences, llm_table
from cda.report.tables import Table
from cda.results.discover import DiscoverResult, Measured, StrengthCurve, TestedAttribute

_LONG = 160
_CHOICE = 60
_FEW = 3
_VERDICTS = {
    1.0: "judge prefers the side with it",
    0.0: "judge prefers the side without it",
    0.5: "judge prefers neither",
}
_ORDERS = (("place", "top of the table"), ("margin", "largest margin"), ("judge", "what the judge likes least"))
_EXAMPLES = (
    "Rewrites of the attributes that are confirmed or were asked for, with the words that only one side has marked: those on "
    "which model and judge disagree most, and the one on which they do least. They are chosen so, and no random sample."
)
_SEARCH = (
    "Each generation by reward and by the judge: the search looks for the top left. The line is the front of those that no "
    "other one beats in both; on the right edge stand those that were let go before the judge was asked. These numbers were "
    "selected on and tend to be too high; results are those of the validation and test prompts."
)
_REWRITERS = (
    "Each rewriter by itself, with 95% intervals clustered by prompt; open marks were left out, for the reason in the table. "
    "What depends on who rewrote is no property of the attribute: at least {r} have to show it. Where two rewriters "
    "agree, the quantiles of their margins lie on the dashed line and r is high."
)
_ONE_ENGINE = (
    "Without an LLM these are one rule engine at several strengths, which acts at all places, most or half of them: one rewriter, and "
    "no evidence that another one would find the same."
)
_STRENGTH = (
    "How much reward the finalists are worth together, near repeats of a stronger one counted less, by their numbers on the "
    "validation prompts. It has no interval; it compares runs on the same data."
)
_LINEAGE = (
    "Ancestors with the numbers by which they were selected, then validation and test, on which nothing was selected in the "
    "search. Selection also picks what was lucky, so that numbers tend to fall from the last generation to the test."
)
_CORRECTED = {
    "Bonferroni": "p × the number of attributes that were tested, at most 1",
    "Holm": "p adjusted step by step for all attributes that were tested, at most 1",
    "Benjamini and Hochberg": "p adjusted so that of the confirmed attributes at most this share is expected to be false",
}


@dataclass(frozen=True, slots=True)
class ExampleRewrite:
    """A rewrite as the page shows it: the attribute's number in the table, and the sides in pieces.

    `orders` holds its value in every order that the page offers; the largest comes first.
    """

    attribute: str
    title: str
    said: str
    row: Measured
    without: list[Piece]
    with_it: list[Piece]
    orders: dict[str, float]


def discover_page(result: DiscoverResult) -> str:
    """The whole result as a self-contained page; text from outside is escaped."""
    title = "Attributes measured" if result.given else "Biases discovered"
    where = "" if result.topic is None else f", on the topic: {clipped(result.topic, _LONG)}"
    origin = "attributes were given, not searched for" if result.given else f"proposed by {result.by}"
    page = Page(
        f"{title} in {model_name(result.model)}{where}",
        f"Held against {model_name(result.judge)}; {origin}; rewritten by {rewriters_named(result)}.",
        tuple(_headlines(result)),
        tuple(_sections(result)),
    )
    examples = _examples(result)
    return rendered(
        "discover.html.j2",
        page=page,
        sections=page.sections,
        examples=examples,
        attribute_choices=list({example.attribute: clipped(example.title, _CHOICE) for example in examples}.items()),
        order_choices=_ORDERS,
    )


def discover_plots(result: DiscoverResult) -> list[Plot]:
    return plots_of(_sections(result))


def _headlines(result: DiscoverResult) -> Iterator[Headline]:
    """The outcome, then every confirmed attribute with its numbers, then the others if they are few."""
    yield Headline("", " ".join(outcome(result)))
    tested = numbered(result, _LONG)
    yield from (Headline(f"{name}:", _numbers(entry, result), "bad") for name, entry in tested if entry.confirmed)
    others = [
        Headline(f"{name}:", f"not confirmed: {_brief(entry, result)}.")
        for name, entry in tested
        if not entry.confirmed
    ]
    more = f"{len(others)} more, with their numbers in the table below."
    yield from others if len(others) <= _FEW else [Headline("Not confirmed:", more)]


def _numbers(one: TestedAttribute, result: DiscoverResult) -> str:
    pooled = one.pooled
    if pooled is None:
        return _brief(one, result)
    file = f" Bias file: {one.file}." if one.file else ""
    return (
        f"Reward {signed(pooled.reward)} when it is added (n = {count(pooled.reward)}); {model_name(result.judge)} "
        f"prefers the side with it in {share(pooled.judge)} (n = {count(pooled.judge)}). p {_ps(one, result)}: at least "
        f"{rewriters_shown(one, result)} show both.{file}"
    )


def _brief(one: TestedAttribute, result: DiscoverResult) -> str:
    if (pooled := one.pooled) is None or one.p_value is None:
        return f"not tested, {one.untested}"
    numbers = f"reward {signed(pooled.reward)}, judge {share(pooled.judge)}, n = {count(pooled.reward)}"
    return f"{numbers}, p {_ps(one, result)}"


def _ps(one: TestedAttribute, result: DiscoverResult) -> str:
    more = f" (corrected {cell(one.p_corrected, p_equals)})" if correction(result) else ""
    return cell(one.p_value, p_equals) + more


def _sections(result: DiscoverResult) -> Iterator[ReportSection]:
    if result.tested:
        table = tested_table(result, None)
        rows = tuple((f"{at}. {row[0]}", *row[1:]) for at, row in enumerate(table.rows, 1))
        text = "Reward is what the model adds when the attribute is added; the judge says how often the side with it is better."
        tables: tuple[Table, ...] = (replace(table, rows=rows),)
        yield ReportSection("tested", "What was tested", (text,), tables, tuple(tested_plots(result)))
    if limits := tuple(warnings(result)):
        yield ReportSection("limits", "What limits these numbers", limits)
    pairs = (renumbered(table(result), result) for table in (rewriter_table, pairs_table, drift_table, unknown_table))
    by_rewriter, *others = pairs
    if tables := _filled(by_rewriter, agreement_table(result), *others):
        text = _REWRITERS.format(r=rewriters_needed(result))
        plots = (*rewriter_plots(result), *agreement_plots(result))
        texts = (text, _ONE_ENGINE) if result.by_rules else (text,)
        yield ReportSection("rewriters", "Rewriter by rewriter", texts, tables, plots)
    if any(entry.examples and (entry.confirmed or result.given) for entry in result.tested):
        yield ReportSection("examples", "Examples", (_EXAMPLES,))
    lineage, plot = tuple(lineage_tables(result)), family_plot(result)
    if lineage and plot is not None:
        yield ReportSection("lineage", "Where they came from", (_LINEAGE,), lineage, (plot,))
    if tables := _filled(generation_table(result)):
        yield ReportSection("search", "The search", (_SEARCH,), tables, tuple(search_plots(result)))
    if tables := _filled(renumbered(validation_table(result), result)):
        text = "Finalists on prompts of their own, pooled over rewriters; who passes goes on to the test."
        yield ReportSection("validation", "Validation", (text,), tables)
    if tables := _filled(strength_steps(result)):
        yield ReportSection("strength", "Strength of the run", (_STRENGTH,), tables, tuple(strength_plots(result)))
    if topics := tuple(topic_tables(result)):
        text = "The same numbers by the topic of the prompt, where prompts have one; nothing here was tested by itself."
        yield ReportSection("topics", "By topic", (text,), topics)
    text = "Everything that did not reach a number, by step and reason."
    yield ReportSection("excluded", "What was left out", (text,), (excluded_table(result),))
    effort = tuple(filter(None, [effort_table(result), llm_table(result.stages)]))
    yield ReportSection("effort", "What it took", cost_sentences(result.stages), effort)
    yield ReportSection("scoring", "How it was made", tuple(how_made(result)), facts=tuple(facts(result)))
    text = "Every interval is a 95% interval, clustered by prompt."
    yield ReportSection("meaning", "What the numbers mean", (text,), entries=terms(result))


def _examples(result: DiscoverResult) -> list[ExampleRewrite]:
    """In the order of the table, those of one attribute as the discovery ranked them."""
    shown = [
        (str(at), name, row)
        for at, (name, entry) in enumerate(numbered(result, _LONG), 1)
        for row in (entry.examples if entry.confirmed or result.given else ())
    ]
    return [_example(at, name, row, place) for place, (at, name, row) in enumerate(shown)]


def _example(attribute: str, title: str, row: Measured, place: int) -> ExampleRewrite:
    preference, judge = row.preference, "no verdict of the judge"
    if preference is not None:
        judge = _VERDICTS.get(float(preference), f"judge {preference:g} for the side with it")
    said = f"margin {reward(row.margin)}; {judge}; rewritten by {row.rewriter}"
    # No verdict is for neither side.
    orders = {"place": -place, "margin": row.margin, "judge": -(0.5 if preference is None else preference)}
    sides = word_differences(row.without_attribute, row.with_attribute)
    return ExampleRewrite(attribute, title, said, row, *sides, orders)


def facts(result: DiscoverResult) -> Iterator[tuple[str, str]]:
    settings, material, search = result.strictness, result.material, result.search
    yield "model", model_name(result.model)
    yield "held against", model_name(result.judge)
    yield "proposals", "given by the user" if result.given else result.by
    yield "rewriters", rewriters_named(result)
    yield "responses", f"{material.responses} ({', '.join(material.sampled)})"
    yield "prompts", ", ".join(f"{n} {part}" for part, n in material.prompts.items())
    if not result.given:
        yield (
            "search",
            f"candidates {', '.join(map(str, search.populations))}; on {', '.join(map(str, search.prompts))} prompts",
        )
        yield "directions", ", ".join(search.directions)
    yield "validation level", f"{settings.validation_alpha:g}"
    yield "test level", f"{settings.test_alpha:g}"
    yield "correction of the test", settings.correct
    yield "rewriters that have to show it", str(settings.r)
    yield "share of rewrites a rewriter may fail", f"{settings.max_failed:g}"
    yield "margins outside the fences left out", "yes" if settings.trim else "no"
    yield "seed", str(result.seed)
    yield "versions", ", ".join(f"{name} {version}" for name, version in result.versions.items())


def terms(result: DiscoverResult) -> tuple[Entry, ...]:
    r, alpha, method = result.strictness.r, f"{result.strictness.test_alpha:g}", correction(result)
    decides = Entry("confirmed", f"p < {alpha}", "p is not corrected for other attributes.")
    if method:
        decides = Entry(
            f"corrected p ({method})", _CORRECTED[method], f"It decides: below {alpha} an attribute is confirmed."
        )
    entries = [
        Entry("margin", "reward(side with the attribute) − reward(side without)", "For one response and its rewrite, in reward units of the model."),
        Entry("reward", "mean margin", "Interval and test by Student's t with prompts as clusters."),
        Entry("judge prefers it", "mean of 1: the side with it is better, ½: neither, 0: worse",
              "Wilson's interval on the effective number of verdicts. Below 50% the judge dislikes the attribute."),
        Entry("p by rewriter", "max(p of reward ≤ 0, p of judge ≥ 50%)", "Both have to hold, so the larger one counts (intersection–union)."),
        Entry("p", f"partial conjunction: fewer than {r} of the k rewriters show it",
              f"(k − {r - 1}) × the p of rank {r} among the rewriters, the smallest first."),
        decides,
        Entry("trimmed", "mean of the margins inside Tukey's fences", "Shown next to the mean; a change of its sign is reported."),
        Entry("r, rank r", "Pearson and Spearman over prompts", "Of the margins of two rewriters on the same responses; intervals from prompts drawn with replacement."),
    ]  # fmt: skip
    if isinstance(result.strength, StrengthCurve):
        entries.append(Entry(
            "strength", "Σ R(Aᵢ) · max(0, 1 − w · max over stronger Aⱼ of cos(Aⱼ, Aᵢ))",
            f"Diversity-adjusted bias strength: over finalists with R above 0 and a judge below the threshold, w = {result.strength.penalty:g}.",
        ))  # fmt: skip
    return tuple(entries)


def _filled(*tables: Table) -> tuple[Table, ...]:
    return tuple(table for table in tables if table.rows)
