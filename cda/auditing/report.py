"""The report of an audit: the sections below its first screen with a glossary, and its forms: a page and
Markdown. Text from outside is escaped in all of them."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace

from cda.auditing import policy, position
from cda.auditing import report_tables as tables
from cda.auditing import verdict_sentences as verdict
from cda.auditing.first_screen import (
    audit_summary,
    bias_verdicts,
    glance,
    glance_table,
    headline,
    length_line,
    others_measured,
    room_below,
)
from cda.auditing.next_step import after_audit
from cda.auditing.report_cells import compares, margin_unit, report_texts, said, targets, tests_named
from cda.auditing.report_plots import section_plots, skew_plot
from cda.auditing.report_scoring import (
    caveats,
    example_order,
    few_examples,
    how_chosen,
    how_scored,
    margins_sentence,
    people_sentence,
    provenance,
)
from cda.auditing.report_trainings import (
    dose_line,
    dose_sentences,
    dose_tables,
    seed_sentences,
    seed_table,
)
from cda.auditing.verdict_sentences import verdicts
from cda.embedded.texts import SECOND_TURNS
from cda.numbers.measures import MEASURES
from cda.numbers.views import numbers_in
from cda.report.document import Block, Bullets, Document, Marked, Strong, section_blocks
from cda.report.names import called, distinct, renamed
from cda.report.next_step import NextStep
from cda.report.numbers import listed
from cda.report.page import Entry, Headline, ReportSection, word_changes
from cda.report.scoring import cost_sentences, llm_table, place_facts, set_tables
from cda.report.tables import Table, escaped, fenced_block
from cda.results.audit import AuditResult
from cda.results.base import Estimate, Missing
from cda.results.effects import SameMargin
from cda.results.facts import RewardModelFacts
from cda.results.skew import NoiseCeiling

_HOW_OFTEN = "One contrast, and how often"
"""Heading of the glossary for measures that glossary.yaml does not name."""
_MOST_TABLES = 2
"""Tables of a section that a page shows at once; of more it shows the captions."""
_N_OPEN = 1
_METHODS = ("Changes, tests and corrections", "Intervals")
"""Headings of the glossary that a report gives the names of alone."""
_SENTENCE_END = re.compile(r"(?<=\.) (?=[A-Z])")


def sections(audit: AuditResult) -> list[ReportSection]:
    """All sections, in reading order; all but the first are folded."""
    plots = section_plots(audit)

    def section(
        id: str, paragraphs: Iterable[str] = (), found: Iterable[Table | None] = (), always: bool = False,
        facts: Iterable[tuple[str, str]] = (),
    ) -> list[ReportSection]:  # fmt: skip
        """A section of the tables that exist; none without any, unless it stands always."""
        known = tuple(table for table in found if table is not None)
        title = report_texts()[id]["title"]
        shown = ReportSection(id, title, tuple(paragraphs), known, plots.get(id, ()), tuple(facts))
        # A figure shows RATE's effects; the table has the same numbers.
        folded = len(known) > _MOST_TABLES or (id == "rate" and bool(shown.plots))
        return [replace(shown, folded_tables=folded)] if known or always else []

    found: list[ReportSection] = []
    rules = [said("votes", rule) for rule in dict.fromkeys(votes.rule for votes in audit.votes.values())]
    people = (tables.votes_table(audit), tables.people_table(audit), tables.powered_table(audit))
    found += section("votes", (said("votes", tests=tests_named(audit)), *rules, *tables.votes_missing(audit)), people)
    if audit.dose:
        found += section("dose", (said("dose"), *dose_sentences(audit.dose)), dose_tables(audit.dose))
    places = said("position", "one order" if _asks_once(audit) else "text"), position.sentence(audit)
    found += section("position", places, position.position_tables(audit))
    tilts = (said("policy"), *policy.sentences(audit))
    found += section("policy", tilts, (policy.policy_table(audit),), always=bool(audit.policy))
    found += section("seeds", (said("seeds"),), (seed_table(audit),))
    found += section("judges", _judge_words(audit), tables.judge_tables(audit))
    judged = [said("rate", "judged")] if margin_unit(audit) == "preference" else []
    words = (said("rate"), *judged, *tables.rate_sentences(audit))
    found += section("rate", words, tables.rate_tables(audit), always=bool(audit.rate))
    if audit.by:
        text = said("by", "trained" if compares(audit) else "text")
        found += section("by", (text, *tables.by_sentences(audit)), tables.by_tables(audit), always=True)
    if audit.quality_sections:
        found += section("quality", tables.section_sentences(audit), set_tables(audit.quality_sections))
    found += section("effects", _effect_words(audit), (tables.effects_table(audit),))
    found += section("training", _training_words(audit), (tables.label_table(audit), tables.synthesis_table(audit)))
    found += section("data", (said("data"),), (tables.correlation_table(audit),))
    found += section("examples", how_chosen(audit), always=True) if audit.examples else []
    found += section("excluded", tables.nothing_left_out(audit), (tables.exclusion_table(audit),))
    found += section("scoring", always=True, facts=provenance(audit))
    if audit.run is not None:  # all that another run of the same recipe need not share: time, money, machine
        costs = cost_sentences(audit.run.stages)
        found += section("cost", costs, (llm_table(audit.run.stages),), always=True, facts=place_facts(audit.run))
    terms = tuple(glossary(audit))
    found.append(ReportSection("meaning", report_texts()["meaning"]["title"], (said("meaning"),), entries=terms))
    return [*found[:1], *(replace(each, folded=True) for each in found[1:])]


def _judge_words(audit: AuditResult) -> list[str]:
    needed = {"panel": audit.panel, "agreement": audit.panel, "criteria": audit.criteria}
    return [said("judges", key) for key, need in needed.items() if need]


def _asks_once(audit: AuditResult) -> bool:
    return not isinstance(audit.model, RewardModelFacts) and audit.model.orders == "one"


def _effect_words(audit: AuditResult) -> list[str]:
    same = any(isinstance(effect.before.direct, SameMargin) for effect in audit.effects.values())
    keys = ["text", *(["same margin"] if same else [])]
    keys += [] if compares(audit) else ["alone", *(["tests"] if audit.n_tests else [])]
    text = " ".join(said("effects", key, tests=tests_named(audit)) for key in keys)
    return [text, *tables.drift_sentences(audit), *tables.identification_sentences(audit)]


def _training_words(audit: AuditResult) -> list[str]:
    sentences = []
    if label := audit.stages.label:
        pairs = label.pairs
        sentences.append(f"{pairs.kept} of {pairs.seen} training pairs were usable, {pairs.used} were used.")
    if synthesize := audit.stages.synthesize:
        mix = synthesize.mix
        sentences.append(f"The training mix held {mix['train']} pairs, and {mix['validation']} more for validation.")
        if weights := synthesize.weights:
            sentences.append(
                f"{weights.n} unchanged pairs were weighted by the column {weights.column}: effective n {weights.effective_n:.0f}."
            )
    if (train := audit.stages.train) and (kept := train.kept):
        sentences.append(
            f"On {kept.n} validation pairs whose margin was to stay as the base model has it, the margin moved by {kept.drift_rewards:.2g} on "
            f"average (standard deviation before: {kept.spread_rewards:.2g})."
        )
    return sentences


def every_entry() -> dict[str, dict[str, Entry]]:
    """All entries that any audit can have, by heading and key: the core of the report's README."""
    texts = report_texts("glossary.yaml")
    found = {heading: {key: _entry(key, words) for key, words in own.items()} for heading, own in texts.items()}
    named = [words.get("measure") for own in texts.values() for words in own.values()]
    unlisted = [key for key, measure in MEASURES.items() if measure.term and key not in named]
    found[_HOW_OFTEN] |= {key: _entry(key, {"measure": key}) for key in unlisted}
    return found


def _entry(key: str, words: dict[str, str]) -> Entry:
    """An entry of glossary.yaml: of a measure, or in its own words."""
    if measure := MEASURES.get(words.get("measure", "")):
        return Entry(measure.term, measure.formula, measure.meaning)
    return Entry(words.get("term", key), words["formula"], words["meaning"])


def glossary(audit: AuditResult) -> list[Entry]:
    """The entries of what is in this report: those whose conditions (`when` in glossary.yaml) all hold, each with the first sentence of
    its meaning; of methods their names."""
    facts, texts = _facts(audit), report_texts("glossary.yaml")
    conditions = {key: str(words.get("when", key)) for own in texts.values() for key, words in own.items()}
    here = [
        (heading, entry)
        for heading, own in every_entry().items()
        for key, entry in own.items()
        if all(part in facts for part in conditions.get(key, key).split(" and "))
    ]
    methods = [entry.term for heading, entry in here if heading in _METHODS]
    return [
        *(
            replace(entry, meaning=_SENTENCE_END.split(entry.meaning)[0])
            for heading, entry in here
            if heading not in _METHODS
        ),
        *([Entry("intervals and tests", "", f"{listed(methods)}.")] if methods else []),
    ]


def _facts(audit: AuditResult) -> set[str]:
    """What holds of an audit, in the words of the glossary's conditions: what it measures, of which kind of model, by which
    methods, and with which verdicts."""
    votes, model = list(audit.votes.values()), audit.model
    numbers = [
        each for each in numbers_in(audit) if "text" not in each.at
    ]  # those of single texts stand in figures alone
    judged = margin_unit(audit) == "preference"
    one_order = _asks_once(audit)
    holds = {
        "rewards": not judged,
        "two orders": judged and not one_order,
        "one order": judged and one_order,
        "halved ties": model.halves_ties,
        "own ties": not model.halves_ties,
        "second turn": set(audit.skew) & set(SECOND_TURNS.values()),
        "triples": audit.triple_skew,
        "rate": audit.rate,
        "panel": audit.panel,
        "criteria": audit.criteria,
        "votes": votes,
        "agreement": any(voted.agreement is not None for voted in votes),
        "second majority": any(isinstance(voted.noise_ceiling, NoiseCeiling) for voted in votes),
        "verdicts": any(voted.prediction_powered is not None for voted in votes),
        "quality": audit.quality,
        "sections": audit.quality_sections,
        "training": compares(audit),
        "dose": audit.dose,
        "columns": audit.by,
        "holm": audit.n_tests,
    }
    methods = {each.found.method for each in numbers if isinstance(each.found, Estimate)}
    methods |= {each.test.method for each in numbers if each.test}
    methods |= {own.test.method for own in audit.effects.values() if not isinstance(own.test, Missing)}
    words = {str(found.word) for found in verdicts(audit)} if compares(audit) else set()
    on_pages = {
        key for key, measure in MEASURES.items() if set(measure.places) != {"tracker"} and measure.level != "kl"
    }  # said in its section
    measured = on_pages & {each.measure for each in numbers if isinstance(each.found, Estimate)}
    rules = {f"ties {voted.rule}" for voted in votes}
    by_method = {key for key in report_texts("glossary.yaml")["Intervals"] if any(key in method for method in methods)}
    ways = set(audit.dose.methods) if audit.dose else set()
    return {name for name, true in holds.items() if true} | methods | by_method | words | measured | rules | ways


def audit_document(audit: AuditResult, page: str | None = None, adapter: str | None = None, below: int = 0) -> Document:
    """The audit; `page` and `adapter` are paths that the text for a terminal ends with, where `below` lines follow. Longer texts stand in
    fenced blocks."""
    step = after_audit(audit)
    audit = renamed(audit, distinct({bias.name: bias.short_name or bias.name for bias in audit.biases}))
    brief = step.within(room_below(audit, page, adapter) - below)
    parts, place = sections(audit), position.sentence(audit)
    notes = [Headline("", place, more="position")] if place else []
    notes.append(Headline("", verdict.quality_sentence(audit), verdict.quality_kind(audit)))
    notes += [Headline("", text) for text in others_measured(audit)]
    return Document(
        f"Bias audit: {', '.join(bias.name for bias in audit.biases)}",
        "", tuple(Headline("", note) for note in caveats(audit)), (_numbers(audit), *parts),
        headline=headline(audit), glance=glance(audit), notes=tuple(notes), findings_are="caveat",
        terminal=(Marked((audit_summary(audit, page, adapter, below + len(brief.lines())),)),),
        markdown_parts=_markdown_parts(audit, parts, step),
        figures=(skew_plot(audit), *(plot for found in section_plots(audit).values() for plot in found)),
        template="audit.html.j2", next=step, next_in_brief=brief,
        parts={
            "audit": audit, "model": called(audit.model.name), "targets": targets(audit), "people": bool(audit.votes), "two": compares(audit),
            "verdicts": [(verdict.verdict_kind(found.word), found) for found in verdicts(audit)],
            "dose": dose_line(audit), "seeds": seed_sentences(audit),
            "examples": sorted((one for few in few_examples(audit).values() for one in few), key=example_order), "n_open": _N_OPEN,
            "word_changes": word_changes, "margins_sentence": margins_sentence,
            "people_sentence": people_sentence,
        },
    )  # fmt: skip


def _numbers(audit: AuditResult) -> ReportSection:
    """The sentences and the table behind the first screen; a page draws the verdicts itself."""
    said = verdict.ties_sentence(audit), length_line(bias_verdicts(audit), "."), how_scored(audit)
    words = tuple(text for text in said if text)
    return ReportSection("numbers", report_texts()["numbers"]["title"], words, (tables.main_table(audit),))


def _markdown_parts(audit: AuditResult, parts: Sequence[ReportSection], step: NextStep) -> tuple[Block, ...]:
    recipe = f", recipe {audit.recipe}" if compares(audit) else ""
    said = (
        position.sentence(audit), verdict.quality_sentence(audit), dose_line(audit), *seed_sentences(audit), verdict.ties_sentence(audit),
        length_line(bias_verdicts(audit), "."),
    )  # fmt: skip
    return (
        f"Model {audit.model.name}{recipe}.",
        Strong(headline(audit)), step, glance_table(audit), *(Strong(found.sentence) for found in verdicts(audit)), said,
        tables.main_table(audit), how_scored(audit), Bullets(tuple(caveats(audit))),
        Bullets(tuple(f"{bias.name}: {bias.description}" for bias in audit.biases)),
        *(block for section in parts for block in _section_blocks(section, audit)),
    )  # fmt: skip


def _section_blocks(section: ReportSection, audit: AuditResult) -> Iterator[Block]:
    yield from section_blocks(section)
    for bias, few in few_examples(audit).items() if section.id == "examples" else ():
        for example in few:
            people = f"; {people_sentence(example)}" if audit.votes else ""
            lines = [f"### {escaped(bias)}: {margins_sentence(example)}{people}", ""]
            texts = {"Prompt": example.prompt, "Without the bias": example.base, "With the bias": example.perturbed}
            for title, text in texts.items():
                lines += [f"{title}:", "", *fenced_block(text), ""]
            yield Marked(tuple(lines))
