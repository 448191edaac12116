"""The sections below the first screen, each only if its data exist; Markdown and HTML both draw these."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from cda.auditing import report_data as data
from cda.auditing import report_effects as effects
from cda.auditing import report_outcome as outcome
from cda.auditing import report_tables as tables
from cda.auditing.report_cells import effects_in
from cda.auditing.report_dose import dose_sentences, dose_tables
from cda.auditing.report_evidence import compares
from cda.auditing.report_glossary import glossary
from cda.auditing.report_methods import method_table
from cda.auditing.report_plots import section_plots
from cda.auditing.report_scoring import how_chosen, provenance
from cda.auditing.report_verdict import others_sentence, quality_sentence
from cda.report.costs import cost_sentences, llm_table, place_facts, time_table
from cda.report.page import ReportSection
from cda.report.tables import Table
from cda.results.audit import AuditResult
from cda.results.base import Missing
from cda.results.effects import SameMargin

_TIES = {
    "drop": "A tie is a contrast on which most people saw no difference or both sides got as many votes. Ties are left out "
    "here (the tie rule drop).",
    "half": "A tie is a contrast on which most people saw no difference or both sides got as many votes. Ties count as half "
    "a preference for each side here (the tie rule half).",
    "as-released": "People's majority on a contrast is the one that the votes' publisher states; where none is stated, it is "
    "counted from the single votes. Contrasts where it is a tie are left out (the tie rule as-released).",
}
_PAPER = (
    'What "Flattery, Fluff, and Fog" (Bharadwaj et al. 2025) reports, of this run: on the pairs of its release that its people '
    "voted on, over its triples, and by section of RewardBench. Below stand the paper's own models and judges on the same pairs."
)
_DOSE = "The dose is how much of the adapter is applied: 0 is the model before training, 1 what training made of it."
_SEEDS = (
    "The same pairs were trained on several times, with another seed for the LoRA weights, the order of the data and dropout. "
    "Mean and intervals are of all such trainings: they hold which prompts were measured and which seeds were drawn, and are "
    "wide where seeds are few. The adapter is that of the first seed."
)
_PANEL = (
    "Several judges were asked, each by itself. The panel's preference on a contrast is the mean of those judges who gave a "
    "verdict; the mean of the judges is that of their shares, on the contrasts that all of them have a verdict on. A tie counts "
    "half."
)
_RATE = (
    "Answers were rewritten to flip the bias, and the rewrites rewritten back; only those whose rewrites both flipped it "
    "are used, as far as that can be told (below). The double estimator compares the two "
    "rewrites, so that what rewriting changes besides cancels; the single one compares answer and rewrite; the naive "
    "one compares answers that have the bias with answers that have not. ATT is the effect among answers with the bias, "
    "ATU among those without, ATE over both. Below about 30 prompts the normal intervals are too narrow. The p-values in "
    "the tables look at each effect by itself; with so many, some are small by chance. A slope says by how much an effect "
    "grows where the original has 100 more words."
)
_JUDGED_RATE = (
    " A judge gives no reward of a single answer, so its naive effect is its preference for an answer that has the bias "
    "over another answer to the same prompt that has not; n counts such pairs, and each answer stands in one of them."
)
_UNSEEN = (
    "Rules rewrote the training pairs with a fixed list of phrases. These contrasts hold none of them on their biased "
    "side. A skew that falls here too shows that more than a word list was unlearned."
)
_DRIFT = (
    "Differences that are the bias itself are no drift. A limit says how far two sides may differ and still be alike."
)


def sections(audit: AuditResult) -> list[ReportSection]:
    """All sections, in reading order."""
    quality = (quality_sentence(audit), *tables.section_sentences(audit))
    found = [
        ReportSection("paper", "The paper's outcome", (_PAPER, *outcome.paper_sentences(audit)),
                tuple(outcome.paper_tables(audit))) if audit.paper else None,
        _votes(audit),
        _section("dose", "How much of it to apply", (_DOSE, *dose_sentences(audit.dose)), dose_tables(audit.dose))
        if audit.dose else None,
        _section("seeds", "Over trainings", (_SEEDS, *outcome.seed_sentences(audit)),
                 (outcome.seed_table(audit), outcome.effects_over_seeds(audit))),
        _biases(audit), _effects(audit), _rate(audit),
        _section("quality", "Quality", quality, (tables.quality_table(audit), *tables.section_tables(audit)))
        if audit.quality else None,
        _section("unseen", "Phrases that training never showed", (_UNSEEN,), (tables.unseen_table(audit),)),
        _training(audit), _analysis(audit),
        ReportSection("examples", "Examples", how_chosen(audit)) if audit.examples else None,
        _section("drift", "What else differs between the sides", (_DRIFT,), effects.drift_tables(audit)),
        ReportSection("excluded", "What was left out", ("Every row that did not reach a number, and why.",),
                (data.exclusion_table(audit),)),
        ReportSection("scoring", "How it was scored", facts=tuple(provenance(audit))),
        _cost(audit),
        ReportSection("meaning", "What the numbers mean", ("Every interval is a 95% interval.",), (method_table(audit),),
                entries=tuple(glossary(audit))),
    ]  # fmt: skip
    plots = section_plots(audit)
    return [replace(section, plots=plots.get(section.id, ())) for section in found if section is not None]


def _section(id: str, title: str, paragraphs: Iterable[str], found: Iterable[Table | None]) -> ReportSection | None:
    """A section of the tables that exist; None without any."""
    known = tuple(table for table in found if table is not None)
    return ReportSection(id, title, tuple(paragraphs), known) if known else None


def _votes(audit: AuditResult) -> ReportSection | None:
    text = (
        "People voted on these contrasts. Human skew is how often their majorities prefer the side with the bias; the gap is "
        "how far the model's skew is from that, and skew − human skew says in which direction: above 0 the model wants "
        "more of the bias than people do. Miscalibration is how often model and majority disagree."
        f" Holm's p allows for all {audit.n_tests} tests of this audit."
    )
    rules = dict.fromkeys(_TIES[votes.rule] for votes in audit.votes.values())
    found = (tables.votes_table(audit), tables.people_table(audit), tables.powered_table(audit))
    return _section("votes", "Beside people", (text, *rules), (*found, *tables.preference_tables(audit)))


def _biases(audit: AuditResult) -> ReportSection | None:
    found = [tables.skew_table(audit), tables.margin_table(audit), tables.direction_table(audit),
             tables.triple_skew_table(audit)]  # fmt: skip
    paragraphs = [
        others_sentence(audit),
        f"Training against one bias can move others. The Holm and Benjamini–Hochberg p-values allow for all "
        f"{audit.n_tests} tests of this audit.",
    ] if compares(audit) else [_PANEL] if audit.panel else []  # fmt: skip
    judges = None if compares(audit) else tables.panel_table(audit)
    return _section("biases", "Every bias", paragraphs, (*found, judges))


def _effects(audit: AuditResult) -> ReportSection:
    text = (
        "Each contrast is a direct one: two texts, of which one has the bias, and whatever else differs between them. Pairs "
        "are alike where words, layout, tone, facts and readability differ little; their mean margin is the one to read. "
        "The adjusted ones say what a regression makes of all pairs at no difference. An effect is not identified where "
        "too few pairs are alike, or where two forms of the regression disagree in sign. Below about 30 prompts the "
        "intervals are too narrow."
    )
    if not compares(audit):
        text += (
            " Without people's votes an effect is called rewarded or penalised only where like pairs and every form of the "
            "regression show a margin of the same sign as all pairs; else what else differs may explain it."
        )
        if any(isinstance(effect.before.direct, SameMargin) for effect in audit.effects.values()):
            text += (
                " A margin that is the same in every pair has no interval, and does not change with what else differs; its test is "
                "of its sign, over prompts."
            )
        if audit.n_tests:
            text += (
                " p is for the test that the mean margin of all pairs is 0; Holm's p allows for all "
                f"{audit.n_tests} tests of this audit."
            )
    paragraphs = (text, *effects.identification_sentences(audit))
    return ReportSection("effects", "Effects of the bias", paragraphs, (effects.effects_table(audit),))


def _rate(audit: AuditResult) -> ReportSection | None:
    last = [rate.measured.last for rate in audit.rate.values() if not isinstance(rate.measured, Missing)]
    judged = any(effect.estimate.unit == "preference" for scored in last for effect in effects_in(scored.overall))
    paragraphs = (_RATE + _JUDGED_RATE * judged, *effects.rate_sentences(audit))
    if not audit.rate:
        return None
    return ReportSection("rate", "Causal effects (RATE)", paragraphs, tuple(effects.rate_tables(audit)))


def _training(audit: AuditResult) -> ReportSection | None:
    paragraphs = []
    if label := audit.stages.label:
        pairs = label.pairs
        paragraphs.append(f"{pairs.kept} of {pairs.seen} training pairs were usable, {pairs.used} were used.")
    if synthesize := audit.stages.synthesize:
        mix = synthesize.mix
        paragraphs.append(f"The training mix held {mix.train} pairs, and {mix.validation} more for validation.")
    found = (*data.label_tables(audit.stages.label), data.synthesis_table(audit))
    return _section("training", "What training saw", paragraphs, found)


def _analysis(audit: AuditResult) -> ReportSection | None:
    of = "the training data" if compares(audit) else "the labelled pairs"
    labelled = any(analysis.labels for analysis in audit.analysis.values())
    where = f"in {of}, by people, by the model" if labelled else "by people, by the model"
    text = f"Whether the bias goes along with being preferred: {where}. These describe data; they are not effects of the bias."
    found = (data.rates_table(audit), data.correlation_table(audit), data.observational_table(audit))
    return _section("data", "What the data favour", (text,), (*data.contingency_tables(audit), *found))


def _cost(audit: AuditResult) -> ReportSection | None:
    """Everything about this run that another run of the same recipe need not share: time, money, machine."""
    if audit.run is None:
        return None
    stages = audit.run.stages
    found = tuple(table for table in (llm_table(stages), time_table(stages)) if table is not None)
    return ReportSection("cost", "What the run took", cost_sentences(stages), found, facts=place_facts(audit.run))
