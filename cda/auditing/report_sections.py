"""The sections below the first screen, each only if its data exist, and the meaning of their numbers: methods and glossary."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, NamedTuple

from cda.auditing import paper, seeds
from cda.auditing import report_data as data
from cda.auditing import report_tables as tables
from cda.auditing.report_cells import compares, effects_in, report_texts, said
from cda.auditing.report_dose import dose_sentences, dose_tables
from cda.auditing.report_plots import section_plots
from cda.auditing.report_scoring import how_chosen, provenance
from cda.auditing.report_verdict import others_sentence, quality_sentence
from cda.report.page import Entry, ReportSection
from cda.report.scoring import cost_sentences, llm_table, place_facts, time_table
from cda.report.tables import Table
from cda.results.audit import AuditResult, PaperPeople, PaperShare
from cda.results.base import BeforeAfter, Measure, Missing, PerScoring, Result, Test
from cda.results.effects import NORMAL_TEST, SIGN_TEST, Effect, PairsEffect, SameMargin
from cda.results.facts import RewardModelFacts
from cda.results.skew import Agreement, NoiseCeiling, OverSeeds, PoweredShare, PoweredVotes

INTERVALS, _DOSE, _TRAINING = "Intervals", "Dose", "Words on a training"
"""Headings of glossary.yaml whose entries go together."""
_ROWS_BEHIND_PPI = re.compile(r" from \d+ labelled rows")


def sections(audit: AuditResult) -> list[ReportSection]:
    """All sections, in reading order."""
    plots = section_plots(audit)

    def section(
        id: str, paragraphs: Iterable[str] = (), found: Iterable[Table | None] = (), always: bool = False,
        facts: Iterable[tuple[str, str]] = (),
    ) -> list[ReportSection]:  # fmt: skip
        """A section of the tables that exist; none without any, unless it stands always."""
        known = tuple(table for table in found if table is not None)
        title = report_texts()[id]["title"]
        shown = ReportSection(id, title, tuple(paragraphs), known, plots.get(id, ()), tuple(facts))
        return [shown] if known or always else []

    found: list[ReportSection] = []
    if audit.paper:
        paragraphs = (said("paper"), *paper.paper_sentences(audit, audit.paper))
        found += section("paper", paragraphs, paper.paper_tables(audit, audit.paper), always=True)
    rules = [said("votes", rule) for rule in dict.fromkeys(votes.rule for votes in audit.votes.values())]
    people = (tables.votes_table(audit), tables.people_table(audit), tables.powered_table(audit))
    voted = (*people, *tables.preference_tables(audit))
    found += section("votes", (said("votes", n_tests=audit.n_tests), *rules), voted)
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
        judged = (quality_sentence(audit), *tables.section_sentences(audit))
        found += section("quality", judged, (tables.quality_table(audit), *tables.section_tables(audit)))
    found += section("unseen", (said("unseen"),), (tables.unseen_table(audit),))
    training = (*data.label_tables(audit.stages.label), data.synthesis_table(audit))
    found += section("training", _training_words(audit), training)
    labelled = any(analysis.labels for analysis in audit.analysis.values())
    of = f"in {'the training data' if compares(audit) else 'the labelled pairs'}, " if labelled else ""
    described = (data.rates_table(audit), data.correlation_table(audit), data.observational_table(audit))
    found += section("data", (said("data", of=of),), (*data.contingency_tables(audit), *described))
    found += section("examples", how_chosen(audit), always=True) if audit.examples else []
    found += section("drift", (said("drift"),), data.drift_tables(audit))
    found += section("excluded", (said("excluded"),), (data.exclusion_table(audit),))
    found += section("scoring", always=True, facts=provenance(audit))
    if audit.run is not None:  # all that another run of the same recipe need not share: time, money, machine
        stages = audit.run.stages
        costs = (llm_table(stages), time_table(stages))
        found += section("cost", cost_sentences(stages), costs, always=True, facts=place_facts(audit.run))
    title, how = report_texts()["meaning"]["title"], (method_table(audit),)
    return [*found, ReportSection("meaning", title, (said("meaning"),), how, entries=tuple(glossary(audit)))]


def _bias_words(audit: AuditResult) -> list[str]:
    if compares(audit):
        return [others_sentence(audit), said("biases", "trained", n_tests=audit.n_tests)]
    return [said("biases", "panel")] if audit.panel else []


def _effect_words(audit: AuditResult) -> list[str]:
    keys = ["text"]
    if not compares(audit):
        same = any(isinstance(effect.before.direct, SameMargin) for effect in audit.effects.values())
        keys += ["alone", *(["same margin"] if same else []), *(["tests"] if audit.n_tests else [])]
    text = " ".join(said("effects", key, n_tests=audit.n_tests) for key in keys)
    return [text, *data.identification_sentences(audit)]


def _rate_words(audit: AuditResult) -> list[str]:
    last = [rate.measured.last for rate in audit.rate.values() if not isinstance(rate.measured, Missing)]
    effects = (effect for scored in last for effect in effects_in(scored.overall))
    judged = any(effect.estimate.unit == "preference" for effect in effects)
    text = said("rate") + (f" {said('rate', 'judged')}" if judged else "")
    return [text, *data.rate_sentences(audit)]


def _training_words(audit: AuditResult) -> list[str]:
    sentences = []
    if label := audit.stages.label:
        pairs = label.pairs
        sentences.append(f"{pairs.kept} of {pairs.seen} training pairs were usable, {pairs.used} were used.")
    if synthesize := audit.stages.synthesize:
        mix = synthesize.mix
        sentences.append(f"The training mix held {mix.train} pairs, and {mix.validation} more for validation.")
    return sentences


class _Measure(NamedTuple):
    """A row: parts of the audit that hold its intervals, those of its change, and its tests."""

    name: str
    intervals: Sequence[object] = ()
    changes: Sequence[object] = ()
    tests: Sequence[str] = ()


def method_table(audit: AuditResult) -> Table:
    """Methods of the intervals and tests."""
    parts = (_shares, _people, _paper, _effects, _rate, _data, _dose)
    rows = []
    for measure in (row for part in parts for row in part(audit)):
        cells = [methods_of(measure.intervals), methods_of(measure.changes), measure.tests]
        named = ["; ".join(dict.fromkeys(names)) for names in (cells if compares(audit) else cells[::2])]
        if any(named):
            rows.append((measure.name, *named))
    header = ("measure", "intervals", "interval of the change", "test") if compares(audit) else (
        "measure", "interval", "test")  # fmt: skip
    return Table("How each interval and each test was made", header, tuple(rows))


def methods_of(value: object) -> Iterator[str]:
    """Every interval method named anywhere in a part of the audit."""
    if isinstance(value, Result):
        value = {} if isinstance(value, Test) else dict(value)
    if isinstance(value, dict):
        if isinstance(value.get("method"), str):
            yield _ROWS_BEHIND_PPI.sub("", value["method"])
        value = list(value.values())
    if isinstance(value, list | tuple):
        for part in value:
            yield from methods_of(part)


def _shares(audit: AuditResult) -> Iterator[_Measure]:
    skew, quality = list(audit.skew.values()), [audit.quality] if audit.quality else []
    directions = [share for measure in skew for share in measure.by_direction.values()]
    unseen = _known(unseen.skew for unseen in audit.unseen_phrases.values())
    panels = [judged for panel in audit.panel.values() for judged in (*panel.judges.values(), panel.panel, panel.mean)]
    yield _of_measures("skew", skew)
    yield _of_measures("skew by direction", directions, tested=False)
    judged = [share for judged in panels for share in (judged.skew, judged.miscalibration)]
    yield _Measure("skew and miscalibration by judge", judged)
    yield _of_measures("skew without any phrase that training could show", unseen, tested=False)
    triples = _known(triples.skew for triples in audit.triple_skew.values())
    yield _of_measures("skew (triples)", triples, tested=False)
    yield _of_measures("quality accuracy", quality)
    if (sections := audit.quality_sections) is not None:
        groups = [sections.overall, *sections.sections, *sections.subsets]
        scores = [score.estimate for group in groups for score in group.scores.values()]
        shifts = [group.shift for group in groups if group.shift is not None]
        changes, tests = [shift.estimate for shift in shifts], [shift.p_method for shift in shifts]
        yield _Measure("accuracy by section", scores, changes, tests)
    unpaired = [measure.unpaired for measure in (*skew, *directions, *quality, *unseen)]
    yield _Measure("change of skew, unpaired", changes=unpaired)
    if (seeds := audit.seeds) is not None:
        measured = (seeds.skew, seeds.miscalibration, seeds.triple_skew, seeds.rate, {"": seeds.quality})
        over = [measure for own in measured for measure in own.values() if isinstance(measure, OverSeeds)]
        after, change = [measure.after for measure in over], [measure.change for measure in over]
        yield _Measure("means over trainings", after, change)


def _people(audit: AuditResult) -> Iterator[_Measure]:
    votes = list(audit.votes.values())
    aucs = [voted.auc for voted in votes if isinstance(voted.auc, BeforeAfter)]
    agreed = [voted.agreement for voted in votes if isinstance(voted.agreement, Agreement)]
    powered = [voted.prediction_powered for voted in votes if isinstance(voted.prediction_powered, PoweredVotes)]
    parts = [part for each in powered for part in (each.human_skew, *_each([each.miscalibration]))]
    shares = [part.share for part in parts if isinstance(part, PoweredShare)]
    tests = [voted.gap_test.method for voted in votes if voted.gap_test is not None]
    moved = [voted.skew_on_voted.change for voted in votes]
    yield _Measure("human skew", [voted.human_skew for voted in votes])
    yield _of_measures("skew on voted contrasts", [voted.skew_on_voted for voted in votes])
    yield _of_measures("miscalibration", [voted.miscalibration for voted in votes])
    yield _Measure("gap", _each(voted.gap for voted in votes), [voted.gap.change for voted in votes])
    yield _Measure("skew − human skew", _each(voted.signed_gap for voted in votes), moved, tests)
    yield _Measure("AUC of the margin", _each(aucs), [auc.change for auc in aucs])
    yield _Measure("people's mean majority share", [agreement.majority_share for agreement in agreed])
    yield _Measure("Krippendorff's alpha", [agreement.alpha for agreement in agreed])
    yield _Measure("miscalibration of a second majority", [voted.noise_ceiling for voted in votes])
    yield _Measure("shares with judges' verdicts", [share.estimate for share in shares])
    yield _Measure("the same from votes alone", [share.classical for share in shares])


def _paper(audit: AuditResult) -> Iterator[_Measure]:
    biases = [] if audit.paper is None else list(audit.paper.biases.values())
    people = [bias.people for bias in biases if isinstance(bias.people, PaperPeople)]
    models = [model for each in people for model in (*each.models.values(), *([each.mean] if each.mean else []))]
    moved = [share for model in models for share in (model.skew, model.miscalibration) if isinstance(share, PaperShare)]
    said = [share for each in people for judge in each.judges.values() for share in (judge.skew, judge.miscalibration)]
    ends = [end for share in moved for end in (share.before, share.after)]
    name = "skew and miscalibration of the paper's models and judges"
    yield _Measure(name, [*ends, *said], [share.change for share in moved])
    yield _Measure("the paper's labels of its training sample", [bias.labels for bias in biases])


def _effects(audit: AuditResult) -> Iterator[_Measure]:
    each = list(audit.effects.values())
    scored = [found for effects in each for _, found in effects.items()]
    direct = [found.direct for found in scored if isinstance(found.direct, Effect)]
    known = [found.identification for found in scored if not isinstance(found.identification, Missing)]
    alike = [found.overlap_effect for found in known if isinstance(found.overlap_effect, PairsEffect)]
    everything = [found.unadjusted for found in known]
    tests = [effects.test.method for effects in each if not isinstance(effects.test, Missing)]
    changes = [effects.change for effects in each]
    yield _Measure("mean margin of all pairs", [effect.estimate for effect in direct], changes, tests)
    yield _Measure("mean margin beyond noise", changes=list(audit.beyond_noise.values()))
    yield _Measure("mean margin among like pairs", [effect.mean_margin for effect in alike])
    yield _Measure("mean margin, adjusted", [found.adjusted for found in known])
    again = [*(effect.bca for effect in direct), *(effect.mean_margin for effect in everything)]
    yield _Measure("mean margin of all pairs once more, in audit.json only", again)
    shares = [*(found.overlap for found in known), *(effect.skew for effect in (*alike, *everything))]
    yield _Measure("share of like pairs and skew among pairs, in audit.json only", shares)


def _rate(audit: AuditResult) -> Iterator[_Measure]:
    each = list(audit.rate.values())
    scored = [part for rate in each for of in rate.under().values() for part in (of.overall, of.by_length, of.slope)]
    changes = [effect for rate in each for effect in effects_in(rate.changes)]
    effects = [*(effect for part in scored for effect in effects_in(part)), *changes]
    estimates, moved = [effect.estimate for effect in effects], [effect.estimate for effect in changes]
    yield _Measure("RATE effects", estimates, moved, [NORMAL_TEST] if effects else [])
    yield _Measure("RATE effects, BCa", [effect.bca for effect in effects])
    yield _Measure("RATE effects in SDs", [effect.standardised for effect in effects])


def _data(audit: AuditResult) -> Iterator[_Measure]:
    each = list(audit.analysis.values())
    labels = [analysis.labels for analysis in each if analysis.labels]
    yield _Measure("rates of the bias in the training data", [rates.contingency for rates in labels])
    yield _Measure("correlations", [*(rates.r_train for rates in labels), *(analysis.correlation for analysis in each)])
    yield _Measure("rewards with and without the attribute", [analysis.observational for analysis in each])
    drifts = list(audit.drift.values())
    features = [found for drift in drifts if not isinstance(drift.features, Missing) for found in drift.features]
    sides = [part for found in features for part in (found.difference, found.standardised)]
    yield _Measure("differences between the sides", sides)
    yield _Measure("pairs beyond the limit", [found.beyond for found in features])
    yield _Measure("labels that differ between the sides", [drift.labels for drift in drifts])
    yield _Measure("cosine of embeddings", [drift.similarity for drift in drifts])


def _dose(audit: AuditResult) -> Iterator[_Measure]:
    methods = [] if audit.dose is None else list(audit.dose.methods.values())
    held = [bias for method in methods for bias in method.held_out.values()]
    points = [point for method in methods for rows in method.response.values() for point in rows]
    against = [change for bias in held for change in (bias.against_base, bias.against_plain)]
    yield _Measure("a chosen dose, held out", [bias.people for bias in held], against)
    fixed = [people for bias in held for people in (bias.base, bias.plain)]
    yield _Measure("doses 0 and 1 on the same halves", fixed)
    yield _Measure("quality at a chosen dose, held out", [method.quality for method in methods])
    people = [part for point in points for part in (point.people, point.quality)]
    yield _Measure("dose–response", people, [point.quality_change for point in points])


def _of_measures(name: str, parts: Sequence[Measure], tested: bool = True) -> _Measure:
    tests = [part.test.method for part in parts if tested and isinstance(part.test, Test)]
    return _Measure(name, _each(parts), [part.change for part in parts], tests)


def _each(parts: Iterable[PerScoring[Any]]) -> list[object]:
    return [value for part in parts for _, value in part.items()]


def _known(parts: Iterable[Measure | Missing]) -> list[Measure]:
    return [part for part in parts if isinstance(part, Measure)]


def every_entry() -> dict[str, dict[str, Entry]]:
    """All entries that any audit can have, by heading and key: the core of the report's README."""
    return {
        heading: {key: Entry(**{"term": key, **entry}) for key, entry in entries.items()}
        for heading, entries in report_texts("glossary.yaml").items()
    }


def glossary(audit: AuditResult) -> list[Entry]:
    """The entries that this audit needs, true under its tie rule and for its kind of model."""
    by_heading = every_entry()
    known = {key: entry for entries in by_heading.values() for key, entry in entries.items()}
    judged = any(effects.unit == "preference" for effects in audit.effects.values())
    one_order = not isinstance(audit.model, RewardModelFacts) and audit.model.orders == "one"
    methods = set(methods_of(audit))
    tests = [effects.test.method for effects in audit.effects.values() if not isinstance(effects.test, Missing)]
    exact = compares(audit) or any(votes.gap_test is not None for votes in audit.votes.values())
    before: dict[str, object] = {
        ("one-order margin" if one_order else "judged margin") if judged else "margin": True,
        "judged skew" if judged else "skew": True,
        "the panel": audit.panel,
        "mean of the judges": audit.panel,
        "authored skew": any(skew.source == "embedded" for skew in audit.skew.values()),
        "triple skew": audit.triple_skew,
    }
    after: dict[str, object] = {
        "judged quality" if judged else "quality": audit.quality,
        "section": audit.quality_sections,
        "change": compares(audit),
        "unpaired": compares(audit),
        **dict.fromkeys(by_heading[_TRAINING], compares(audit)),
        **dict.fromkeys(by_heading[_DOSE], audit.dose),
        **{word: any(word in method for method in methods) for word in by_heading[INTERVALS]},
        "exact": exact,
        "normal": audit.rate or NORMAL_TEST in tests,
        "sign": SIGN_TEST in tests,
        "holm": True,
    }
    needed = [[known[key] for key, needs in part.items() if needs] for part in (before, after)]
    return [*needed[0], *_people_entries(audit, judged, known), *needed[1]]


def _people_entries(audit: AuditResult, judged: bool, known: dict[str, Entry]) -> list[Entry]:
    """Entries on votes; people's tie rule goes without saying in the entries of one audit."""
    votes = list(audit.votes.values())
    entries: list[Entry] = []
    for rule in dict.fromkeys(voted.rule for voted in votes):
        skew, missed = known[f"human skew (ties: {rule})"], known[f"miscalibration (ties: {rule})"]
        opening = "Lower is better."
        meaning = f"{opening} It can be high even where skew equals human skew.{missed.meaning.removeprefix(opening)}"
        meaning += f" {known['miscalibration of a judge'].meaning}" if judged else ""
        entries += [Entry("human skew", skew.formula, skew.meaning), Entry("miscalibration", missed.formula, meaning)]
    agreed = any(voted.agreement is not None for voted in votes)
    more: dict[str, object] = {
        "gap": votes,
        "AUC of the margin": votes,
        "mean majority share": agreed,
        "Krippendorff's alpha": agreed,
        "second majority": any(isinstance(voted.noise_ceiling, NoiseCeiling) for voted in votes),
        "powered": any(voted.prediction_powered is not None for voted in votes),
    }
    return entries + [known[key] for key, needs in more.items() if needs]
