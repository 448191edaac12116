"""The sections below the first screen, each only if its data exist; Markdown and HTML both draw these."""

from __future__ import annotations

from collections.abc import Iterable
from functools import cache
from importlib import resources

import yaml

from cda.auditing import paper, seeds
from cda.auditing import report_data as data
from cda.auditing import report_tables as tables
from cda.auditing.report_cells import effects_in
from cda.auditing.report_dose import dose_sentences, dose_tables
from cda.auditing.report_meaning import glossary, method_table
from cda.auditing.report_plots import section_plots
from cda.auditing.report_scoring import how_chosen, provenance
from cda.auditing.report_verdict import compares, others_sentence, quality_sentence
from cda.report.costs import cost_sentences, llm_table, place_facts, time_table
from cda.report.page import ReportSection
from cda.report.tables import Table
from cda.results.audit import AuditResult
from cda.results.base import Missing
from cda.results.effects import SameMargin


@cache
def _texts() -> dict[str, dict[str, str]]:
    """Titles and words of the sections, by their ids."""
    text = (resources.files("cda.auditing") / "sections.yaml").read_text(encoding="utf-8")
    found: dict[str, dict[str, str]] = yaml.safe_load(text)
    return found


def _said(id: str, audit: AuditResult, *keys: str, of: str = "") -> str:
    return " ".join(_texts()[id][key].format(n_tests=audit.n_tests, of=of) for key in ("text", *keys))


def sections(audit: AuditResult) -> list[ReportSection]:
    """All sections, in reading order."""
    plots = section_plots(audit)

    def section(
        id: str, paragraphs: Iterable[str] = (), found: Iterable[Table | None] = (), always: bool = False,
        facts: Iterable[tuple[str, str]] = (),
    ) -> list[ReportSection]:  # fmt: skip
        """A section of the tables that exist; none without any, unless it stands always."""
        known = tuple(table for table in found if table is not None)
        title = _texts()[id]["title"]
        shown = ReportSection(id, title, tuple(paragraphs), known, plots.get(id, ()), tuple(facts))
        return [shown] if known or always else []

    def said(id: str) -> str:
        return _said(id, audit)

    found: list[ReportSection] = []
    if audit.paper:
        paragraphs = (said("paper"), *paper.paper_sentences(audit, audit.paper))
        found += section("paper", paragraphs, paper.paper_tables(audit, audit.paper), always=True)
    rules = [_texts()["votes"][rule] for rule in dict.fromkeys(votes.rule for votes in audit.votes.values())]
    people = (tables.votes_table(audit), tables.people_table(audit), tables.powered_table(audit))
    found += section("votes", (said("votes"), *rules), (*people, *tables.preference_tables(audit)))
    if audit.dose:
        found += section("dose", (said("dose"), *dose_sentences(audit.dose)), dose_tables(audit.dose))
    over_trainings = (seeds.seed_table(audit), seeds.effects_over_seeds(audit))
    found += section("seeds", (said("seeds"), *seeds.seed_sentences(audit)), over_trainings)
    skews = (tables.skew_table, tables.margin_table, tables.direction_table, tables.triple_skew_table)
    judges = None if compares(audit) else tables.panel_table(audit)
    found += section("biases", _bias_words(audit), (*(table(audit) for table in skews), judges))
    found += section("effects", _effect_words(audit), (data.effects_table(audit),))
    found += section("rate", _rate_words(audit), data.rate_tables(audit), always=bool(audit.rate))
    if audit.quality:
        words = (quality_sentence(audit), *tables.section_sentences(audit))
        found += section("quality", words, (tables.quality_table(audit), *tables.section_tables(audit)))
    found += section("unseen", (said("unseen"),), (tables.unseen_table(audit),))
    training = (*data.label_tables(audit.stages.label), data.synthesis_table(audit))
    found += section("training", _training_words(audit), training)
    labelled = any(analysis.labels for analysis in audit.analysis.values())
    of = f"in {'the training data' if compares(audit) else 'the labelled pairs'}, " if labelled else ""
    described = (data.rates_table(audit), data.correlation_table(audit), data.observational_table(audit))
    found += section("data", (_said("data", audit, of=of),), (*data.contingency_tables(audit), *described))
    found += section("examples", how_chosen(audit), always=True) if audit.examples else []
    found += section("drift", (said("drift"),), data.drift_tables(audit))
    found += section("excluded", (said("excluded"),), (data.exclusion_table(audit),))
    found += section("scoring", always=True, facts=provenance(audit))
    if audit.run is not None:  # all that another run of the same recipe need not share: time, money, machine
        stages = audit.run.stages
        costs = (llm_table(stages), time_table(stages))
        found += section("cost", cost_sentences(stages), costs, always=True, facts=place_facts(audit.run))
    title, how = _texts()["meaning"]["title"], (method_table(audit),)
    return [*found, ReportSection("meaning", title, (said("meaning"),), how, entries=tuple(glossary(audit)))]


def _bias_words(audit: AuditResult) -> list[str]:
    words = _texts()["biases"]
    if compares(audit):
        return [others_sentence(audit), words["trained"].format(n_tests=audit.n_tests)]
    return [words["panel"]] if audit.panel else []


def _effect_words(audit: AuditResult) -> list[str]:
    keys = [] if compares(audit) else ["alone"]
    if keys and any(isinstance(effect.before.direct, SameMargin) for effect in audit.effects.values()):
        keys.append("same margin")
    keys += ["tests"] if keys and audit.n_tests else []
    return [_said("effects", audit, *keys), *data.identification_sentences(audit)]


def _rate_words(audit: AuditResult) -> list[str]:
    last = [rate.measured.last for rate in audit.rate.values() if not isinstance(rate.measured, Missing)]
    effects = (effect for scored in last for effect in effects_in(scored.overall))
    judged = ["judged"] if any(effect.estimate.unit == "preference" for effect in effects) else []
    return [_said("rate", audit, *judged), *data.rate_sentences(audit)]


def _training_words(audit: AuditResult) -> list[str]:
    words = []
    if label := audit.stages.label:
        pairs = label.pairs
        words.append(f"{pairs.kept} of {pairs.seen} training pairs were usable, {pairs.used} were used.")
    if synthesize := audit.stages.synthesize:
        mix = synthesize.mix
        words.append(f"The training mix held {mix.train} pairs, and {mix.validation} more for validation.")
    return words
