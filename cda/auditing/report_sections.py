"""The sections below the first screen, each only when its data exist; Markdown and HTML both draw these."""

from __future__ import annotations

from dataclasses import replace

from cda.auditing.report_data import (
    contingency_tables,
    correlation_table,
    exclusion_table,
    label_tables,
    observational_table,
    rates_table,
    synthesis_table,
)
from cda.auditing.report_dose import dose_sentences, dose_tables
from cda.auditing.report_effects import (
    drift_tables,
    effects_table,
    identification_sentences,
    rate_sentences,
    rate_tables,
)
from cda.auditing.report_examples import how_chosen
from cda.auditing.report_glossary import glossary
from cda.auditing.report_methods import method_table
from cda.auditing.report_outcome import paper_sentences, paper_tables
from cda.auditing.report_people import panel_table, preference_tables, section_sentences, section_tables
from cda.auditing.report_plots import section_plots
from cda.auditing.report_rate_cells import last_effects
from cda.auditing.report_scoring import provenance
from cda.auditing.report_seeds import effects_over_seeds, seed_sentences, seed_table
from cda.auditing.report_tables import (
    compares,
    direction_table,
    margin_table,
    people_table,
    powered_table,
    quality_table,
    skew_table,
    triple_skew_table,
    unseen_table,
    votes_table,
)
from cda.auditing.report_verdict import others_sentence, quality_sentence
from cda.report.costs import cost_sentences, llm_table, place_facts, time_table
from cda.report.page import Section
from cda.results.audit import AuditResult
from cda.results.effects import SameMargin

_TIES = {
    "drop": "A tie is a contrast on which most people saw no difference or both sides got as many votes. Ties are left out "
    "here (the tie rule drop).",
    "half": "A tie is a contrast on which most people saw no difference or both sides got as many votes. Ties count as half "
    "a preference for each side here (the tie rule half).",
    "as-released": "People's majority on a contrast is the one that the votes' publisher states; where none is stated, it is "
    "counted from the single votes. Contrasts where it is a tie are left out (the tie rule as-released).",
}


_PANEL = (
    "Several judges were asked, each by itself. The panel's preference on a contrast is the mean of those judges who gave a "
    "verdict; the mean of the judges is that of their shares, on the contrasts that all of them have a verdict on. A tie counts "
    "half."
)


def sections(audit: AuditResult) -> list[Section]:
    """All sections, in reading order."""
    found = [
        _paper(audit), _votes(audit), _dose(audit), _seeds(audit), _others(audit), _effects(audit), _rate(audit), _quality(audit), _unseen(audit), _training(audit),
        _analysis(audit),
        Section("examples", "Examples", how_chosen(audit)) if audit.examples else None,
        _drift(audit),
        Section("excluded", "What was left out", ("Every row that did not reach a number, and why.",),
                (exclusion_table(audit),)),
        Section("scoring", "How it was scored", facts=tuple(provenance(audit))),
        _cost(audit),
        Section("meaning", "What the numbers mean", ("Every interval is a 95% interval.",), (method_table(audit),),
                entries=tuple(glossary(audit))),
    ]  # fmt: skip
    plots = section_plots(audit)
    return [replace(one, plots=(*one.plots, *plots.get(one.id, ()))) for one in found if one is not None]


def _cost(audit: AuditResult) -> Section | None:
    """Everything about this run that another run of the same recipe need not share: time, money, machine."""
    if audit.run is None:
        return None
    stages = audit.run.stages
    tables = tuple(table for table in (llm_table(stages), time_table(stages)) if table is not None)
    return Section("cost", "What the run took", cost_sentences(stages), tables, facts=place_facts(audit.run))


def _paper(audit: AuditResult) -> Section | None:
    if audit.paper is None:
        return None
    text = (
        'What "Flattery, Fluff, and Fog" (Bharadwaj et al. 2025) reports, of this run: on the pairs of its release that its people '
        "voted on, over its triples, and by section of RewardBench. Below stand the paper's own models and judges on the same pairs."
    )
    tables = tuple(paper_tables(audit))
    return Section("paper", "The paper's outcome", (text, *paper_sentences(audit)), tables)


def _votes(audit: AuditResult) -> Section | None:
    table = votes_table(audit)
    if table is None:
        return None
    text = (
        "People voted on these contrasts. Human skew is how often their majorities prefer the side with the bias; the gap is "
        "how far the model's skew is from that, and skew − human skew says in which direction: above 0 the model wants "
        "more of the bias than people do. Miscalibration is how often model and majority disagree."
    )
    text += f" Holm's p allows for all {audit.n_tests} tests of this audit."
    rules = dict.fromkeys(_TIES[votes.rule] for votes in audit.votes.values())
    more = [one for one in (people_table(audit), powered_table(audit)) if one is not None]
    more += preference_tables(audit)
    return Section("votes", "Beside people", (text, *rules), (table, *more))


def _dose(audit: AuditResult) -> Section | None:
    dose = audit.dose
    if dose is None:
        return None
    text = "The dose is how much of the adapter is applied: 0 is the model before training, 1 what training made of it."
    return Section("dose", "How much of it to apply", (text, *dose_sentences(dose)), tuple(dose_tables(dose)))


def _seeds(audit: AuditResult) -> Section | None:
    table = seed_table(audit)
    if table is None:
        return None
    text = (
        "The same pairs were trained on several times, with another seed for the LoRA weights, the order of the data and dropout. "
        "Mean and intervals are of all such trainings: they hold which prompts were measured and which seeds were drawn, and are "
        "wide where seeds are few. The adapter is that of the first seed."
    )
    more = effects_over_seeds(audit)
    return Section("seeds", "Over trainings", (text, *seed_sentences(audit)), (table, *([more] if more else [])))


def _others(audit: AuditResult) -> Section:
    more = [table for table in (direction_table(audit), triple_skew_table(audit)) if table is not None]
    tables = (skew_table(audit), margin_table(audit), *more)
    if not compares(audit):
        judges = panel_table(audit)
        return Section("biases", "Every bias", (_PANEL,) if judges else (), (*tables, *((judges,) if judges else ())))
    text = (
        f"Training against one bias can move others. The Holm and Benjamini–Hochberg p-values allow for all "
        f"{audit.n_tests} tests of this audit."
    )
    return Section("biases", "Every bias", (others_sentence(audit), text), tables)


def _effects(audit: AuditResult) -> Section:
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
    if not compares(audit) and any(isinstance(one.before.direct, SameMargin) for one in audit.effects.values()):
        text += (
            " A margin that is the same in every pair has no interval, and does not change with what else differs; its test is "
            "of its sign, over prompts."
        )
    if not compares(audit) and audit.n_tests:
        text += (
            " p is for the test that the mean margin of all pairs is 0; Holm's p allows for all "
            f"{audit.n_tests} tests of this audit."
        )
    return Section("effects", "Effects of the bias", (text, *identification_sentences(audit)), (effects_table(audit),))


def _rate(audit: AuditResult) -> Section | None:
    if not audit.rate:
        return None
    text = (
        "Answers were rewritten to flip the bias, and the rewrites rewritten back; only those whose rewrites both flipped it "
        "are used, as far as that can be told (below). The double estimator compares the two "
        "rewrites, so that what rewriting changes besides cancels; the single one compares answer and rewrite; the naive "
        "one compares answers that have the bias with answers that have not. ATT is the effect among answers with the bias, "
        "ATU among those without, ATE over both. Below about 30 prompts the normal intervals are too narrow. The p-values in "
        "the tables look at each effect by itself; with so many, some are small by chance. A slope says by how much an effect "
        "grows where the original has 100 more words."
    )
    if any(effect.estimate.unit == "preference" for one in audit.rate.values() for effect in last_effects(one)):
        text += (
            " A judge gives no reward of a single answer, so its naive effect is its preference for an answer that has the bias "
            "over another answer to the same prompt that has not; n counts such pairs, and each answer stands in one of them."
        )
    return Section("rate", "Causal effects (RATE)", (text, *rate_sentences(audit)), tuple(rate_tables(audit)))


def _drift(audit: AuditResult) -> Section | None:
    tables = drift_tables(audit)
    text = "Differences that are the bias itself are no drift. A limit says how far two sides may differ and still be alike."
    return Section("drift", "What else differs between the sides", (text,), tuple(tables)) if tables else None


def _analysis(audit: AuditResult) -> Section | None:
    tables = [rates_table(audit), correlation_table(audit), observational_table(audit)]
    found = (*contingency_tables(audit), *(table for table in tables if table is not None))
    of = "the training data" if compares(audit) else "the labelled pairs"
    labelled = any(one.labels for one in audit.analysis.values())
    where = f"in {of}, by people, by the model" if labelled else "by people, by the model"
    text = f"Whether the bias goes along with being preferred: {where}. These describe data; they are not effects of the bias."
    return Section("data", "What the data favour", (text,), found) if found else None


def _quality(audit: AuditResult) -> Section | None:
    table = quality_table(audit)
    if table is None:
        return None
    return Section(
        "quality", "Quality", (quality_sentence(audit), *section_sentences(audit)), (table, *section_tables(audit))
    )


def _unseen(audit: AuditResult) -> Section | None:
    table = unseen_table(audit)
    if table is None:
        return None
    text = (
        "Rules rewrote the training pairs with a fixed list of phrases. These contrasts hold none of them on their biased "
        "side. A skew that falls here too shows that more than a word list was unlearned."
    )
    return Section("unseen", "Phrases that training never showed", (text,), (table,))


def _training(audit: AuditResult) -> Section | None:
    labels, made = label_tables(audit.stages.label), synthesis_table(audit)
    if not labels and made is None:
        return None
    paragraphs = []
    if label := audit.stages.label:
        pairs = label.pairs
        paragraphs.append(f"{pairs.kept} of {pairs.seen} training pairs were usable, {pairs.used} were used.")
    if synthesize := audit.stages.synthesize:
        mix = synthesize.mix
        paragraphs.append(f"The training mix held {mix.train} pairs, and {mix.validation} more for validation.")
    return Section("training", "What training saw", tuple(paragraphs), (*labels, *([made] if made else ())))
