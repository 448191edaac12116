"""The report of an audit: the sections below its first screen with methods and glossary, and its forms: a page, a <div> for
notebooks, and Markdown. Text from outside is escaped in all of them."""

from __future__ import annotations

import re
from base64 import b64encode
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory

from cda.auditing import report_data as data
from cda.auditing import report_scoring as scoring
from cda.auditing import report_tables as tables
from cda.auditing import report_trainings as trainings
from cda.auditing import verdict_sentences as verdict
from cda.auditing.first_screen import (
    KINDS,
    SHAPES,
    audit_summary,
    bias_verdicts,
    chip_rules,
    glance_table,
    headline,
    ns_said,
    share_words,
)
from cda.auditing.report_cells import compares, effects_in, report_texts, said, targets, tests_named
from cda.auditing.report_covariates import by_tables, by_words
from cda.auditing.report_plots import section_plots, skew_plot
from cda.auditing.report_scoring import (
    caveats,
    few_examples,
    how_chosen,
    how_scored,
    margins_sentence,
    people_sentence,
    provenance,
)
from cda.auditing.report_tables import main_table
from cda.auditing.report_trainings import (
    dose_line,
    dose_sentences,
    dose_tables,
    effects_over_seeds,
    seed_sentences,
    seed_table,
)
from cda.auditing.verdict_sentences import others_sentence, quality_sentence, verdicts
from cda.embedded.texts import SECOND_TURNS
from cda.numbers.measures import MEASURES
from cda.numbers.views import numbers_in
from cda.preferences.data_page import odds_table
from cda.report.document import Block, Bullets, Document, Heading, Marked, Strong
from cda.report.numbers import NOT_ESTIMATED, cell, count, decimals, points, share, signed
from cda.report.page import Entry, ReportSection, render, word_changes, word_differences
from cda.report.plots import save_plot
from cda.report.scoring import cost_sentences, llm_table, place_facts, set_tables, time_table
from cda.report.tables import Row, Table, escaped, fenced_block, table
from cda.results.audit import AuditResult
from cda.results.base import Estimate, Missing, Result, Test
from cda.results.effects import NORMAL_TEST, SIGN_TEST, T_TEST, Effect, SameMargin
from cda.results.facts import RewardModelFacts
from cda.results.skew import BiasPanel, JudgedBias, NoiseCeiling

_OVERALL = "overall"


def judge_words(audit: AuditResult) -> list[str]:
    """Paragraphs on the tables of judges and criteria that an audit has."""
    agreed = any(panel.majority is not None for panel in audit.panel.values())
    left_out = any(panel.without for panel in audit.panel.values())
    needed = {"panel": audit.panel, "agreement": agreed, "without": left_out, "criteria": audit.criteria}
    return [said("judges", key) for key, need in needed.items() if need]


def judge_tables(audit: AuditResult) -> list[Table | None]:
    """Every table of a panel's judges and a rubric's criteria; None for each that the audit has no numbers for."""
    return [panel_table(audit), agreement_table(audit), criteria_matrix(audit), criteria_table(audit)]


def panel_table(audit: AuditResult) -> Table | None:
    """Skew and miscalibration of every judge, of the panel, its majority, and in the mean of the judges; None without a panel."""
    voted = any(panel.panel.miscalibration is not None for panel in audit.panel.values())
    rows = [
        (f"{bias}, {name}", *_judged_cells(judged, voted))
        for bias, panel in audit.panel.items()
        for name, judged in _of_panel(panel).items()
    ]
    header = ("bias, judge", "skew", "n", "ties", "without a verdict", *_voted_header(voted))
    return table("Each judge by itself and the panel, with 95% intervals", header, rows)


def _of_panel(panel: BiasPanel) -> dict[str, JudgedBias]:
    together = {"the panel": panel.panel, "majority of the judges": panel.majority, "mean of the judges": panel.mean}
    return panel.judges | {name: judged for name, judged in together.items() if judged is not None}


def _voted_header(voted: bool) -> Row:
    return ("miscalibration", "n voted") if voted else ()


def _judged_cells(judged: JudgedBias, voted: bool) -> Row:
    """Skew, its n, ties and contrasts without a verdict; miscalibration and its n if people voted on any bias."""
    people = (cell(judged.miscalibration, share), cell(judged.miscalibration, count, "")) if voted else ()
    ties = "" if judged.ties is None else str(judged.ties)
    return cell(judged.skew, share), cell(judged.skew, count, ""), ties, str(judged.unread), *people


def agreement_table(audit: AuditResult) -> Table | None:
    """Krippendorff's alpha of every panel, and of the panel without each of its judges; None without a panel."""
    header = (
        "bias, judges", "Krippendorff's alpha", "change of alpha", "skew of the panel", "change of skew (points)", "n",
    )  # fmt: skip
    caption = "Agreement of the judges, of all and without each of them, with 95% intervals"
    return table(caption, header, (row for bias, panel in audit.panel.items() for row in _agreement_rows(bias, panel)))


def _agreement_rows(bias: str, panel: BiasPanel) -> Iterator[Row]:
    if panel.majority is None:
        return
    alpha = alpha_of(panel)
    yield f"{bias}, all", cell(alpha, decimals), "", cell(panel.panel.skew, share), "", cell(alpha, count, "")
    for judge, without in panel.without.items():
        yield (
            f"{bias}, without {judge}",
            cell(without.alpha, decimals),
            cell(without.alpha_change, signed),
            cell(without.skew, share),
            cell(without.skew_change, lambda change: points(change, "")),
            cell(without.alpha, count, ""),
        )


def alpha_of(panel: BiasPanel) -> Estimate | Missing:
    """Krippendorff's alpha of all judges of a panel."""
    return panel.agreement if isinstance(panel.agreement, Missing) else panel.agreement.alpha


def criteria_matrix(audit: AuditResult) -> Table | None:
    """Skew by criterion (rows) and bias (columns), the skew overall last; None without criteria or for one bias."""
    biases = list(audit.criteria)
    if len(biases) < 2:
        return None
    names = list(next(iter(audit.criteria.values())))
    rows = [(name, *(_short(audit.criteria[bias][name].skew) for bias in biases)) for name in names]
    rows.append((_OVERALL, *(_short(audit.skew[bias].before) for bias in biases)))
    return table("Skew by criterion and bias, with 95% intervals and n", ("criterion", *biases), rows)


def _short(skew: Estimate | Missing) -> str:
    return NOT_ESTIMATED if isinstance(skew, Missing) else f"{share(skew)}, n {skew.n}"


def criteria_table(audit: AuditResult) -> Table | None:
    """Skew and miscalibration by each criterion, next to the skew overall; None without criteria."""
    voted = any(found.miscalibration is not None for own in audit.criteria.values() for found in own.values())
    rows: list[Row] = []
    for bias, own in audit.criteria.items():
        for name, judged in own.items():
            change = cell(judged.against_overall, lambda against: points(against, ""))
            rows.append((f"{bias}, {name}", *_judged_cells(judged, voted), change))
        overall = audit.skew[bias]
        missed = audit.votes[bias].miscalibration.before if bias in audit.votes else None
        people = (cell(missed, share), cell(missed, count)) if voted else ()
        ties = "" if isinstance(overall.ties, Missing) else str(overall.ties.before)
        shown = (share(overall.before), count(overall.before), ties, str(overall.unread))
        rows.append((f"{bias}, {_OVERALL}", *shown, *people, ""))
    header = (
        "bias, criterion",
        "skew",
        "n",
        "ties",
        "without a verdict",
        *_voted_header(voted),
        "minus overall (points)",
    )
    return table("Skew by criterion, with 95% intervals", header, rows)


INTERVALS, _DOSE, _TRAINING, _HOW_OFTEN = "Intervals", "Dose", "Words on a training", "One contrast, and how often"
"""Headings of glossary.yaml whose entries go together."""
_MOST_TABLES = 2
"""Tables of a section that a page shows at once; of more it shows the captions."""
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
        shown = replace(shown, folded_tables=len(known) > _MOST_TABLES)
        return [shown] if known or always else []

    found: list[ReportSection] = []
    rules = [said("votes", rule) for rule in dict.fromkeys(votes.rule for votes in audit.votes.values())]
    people = (tables.votes_table(audit), tables.people_table(audit), tables.powered_table(audit))
    voted = (*people, *tables.preference_tables(audit))
    found += section("votes", (said("votes", tests=tests_named(audit)), *rules), voted)
    if audit.dose:
        found += section("dose", (said("dose"), *dose_sentences(audit.dose)), dose_tables(audit.dose))
    over_trainings = (seed_table(audit), effects_over_seeds(audit))
    found += section("seeds", (said("seeds"), *seed_sentences(audit)), over_trainings)
    skews = (tables.skew_table, tables.margin_table, tables.direction_table, tables.triple_skew_table)
    found += section("biases", _bias_words(audit), (table(audit) for table in skews))
    found += section("judges", judge_words(audit), judge_tables(audit))
    found += section("effects", _effect_words(audit), (data.effects_table(audit),))
    found += section("rate", _rate_words(audit), data.rate_tables(audit), always=bool(audit.rate))
    if audit.by:
        found += section("by", by_words(audit), by_tables(audit), always=True)
    if audit.quality:
        judged = (quality_sentence(audit), *tables.section_sentences(audit))
        by_section = set_tables(audit.quality_sections) if audit.quality_sections else []
        found += section("quality", judged, (tables.quality_table(audit), *by_section))
    shown = len(found)
    found += section("unseen", (said("unseen"),), (tables.unseen_table(audit),))
    training = (*data.label_tables(audit.stages.label), data.synthesis_table(audit))
    found += section("training", _training_words(audit), training)
    labelled = any(analysis.labels for analysis in audit.analysis.values())
    of = f"in {'the training data' if compares(audit) else 'the labelled pairs'}, " if labelled else ""
    rates = {name: analysis.labels for name, analysis in audit.analysis.items() if analysis.labels}
    chosen = {name: labels.odds for name, labels in rates.items() if not isinstance(labels.contingency, Missing)}
    described = (
        data.rates_table(audit),
        odds_table(chosen),
        data.correlation_table(audit),
        data.observational_table(audit),
    )
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
    found.append(ReportSection("meaning", title, (said("meaning"),), how, entries=tuple(glossary(audit))))
    return [*found[:shown], *(replace(each, folded=True) for each in found[shown:])]


def _bias_words(audit: AuditResult) -> list[str]:
    if compares(audit):
        return [others_sentence(audit), said("biases", "trained", tests=tests_named(audit))]
    return []


def _effect_words(audit: AuditResult) -> list[str]:
    keys = ["text"]
    if not compares(audit):
        same = any(isinstance(effect.before.direct, SameMargin) for effect in audit.effects.values())
        keys += ["alone", *(["same margin"] if same else []), *(["tests"] if audit.n_tests else [])]
    text = " ".join(said("effects", key, tests=tests_named(audit)) for key in keys)
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


_SCORED = "before|after"
_VOTED, _POWERED = "votes.*", "votes.*.prediction_powered"
_POWERED_SHARES = (f"{_POWERED}.human_skew.share", f"{_POWERED}.miscalibration.{_SCORED}.share")
_SECTIONS = ("quality_sections.overall", "quality_sections.sections|subsets.*")
_OVER_SEEDS = ("seeds.skew|miscalibration|triple_skew|rate.*", "seeds.quality")
_DIRECT, _IDENTIFIED = f"effects.*.{_SCORED}.direct", f"effects.*.{_SCORED}.identification"
_CHANGED = "rate.*.changes.effects.*"
_RATED = (f"rate.*.measured.{_SCORED}.overall|by_length|slope.effects.*", _CHANGED)
_HELD_OUT, _RESPONSE = "dose.methods.*.held_out.*", "dose.methods.*.response.*.*"


def _each(parts: Iterable[str], field: str) -> str:
    return " ".join(f"{part}.{field}" for part in parts)


def _share(part: str) -> tuple[str, str]:
    return f"{part}.{_SCORED}", f"{part}.change"


METHODS: tuple[tuple[str, *tuple[str, ...]], ...] = (
    ("skew",),
    ("skew by direction", *_share("skew.*.by_direction.*")),
    ("skew and miscalibration by judge", "panel.*.judges panel.*.panel|majority|mean"),
    ("agreement of the judges", "panel.*.agreement panel.*.without.*.alpha|alpha_change|skew|skew_change"),
    ("skew by criterion", "criteria.*.*.skew|miscalibration|against_overall"),
    ("skew without any phrase that training could show", *_share("unseen_phrases.*.skew")),
    ("skew (triples)", *_share("triple_skew.*.skew")),
    ("accuracy",),
    ("accuracy by section", _each(_SECTIONS, "scores.*.estimate"), _each(_SECTIONS, "shift.estimate"),
     _each(_SECTIONS, "shift.p_method")),
    ("change of skew, unpaired", "", _each(("skew.*", "skew.*.by_direction.*", "quality", "unseen_phrases.*.skew"), "unpaired")),
    ("means over trainings", _each(_OVER_SEEDS, "after"), _each(_OVER_SEEDS, "change")),
    *((key,) for key in ("human_skew", "skew_on_voted", "miscalibration", "gap", "signed_gap", "auc")),
    ("people's mean majority share", f"{_VOTED}.agreement.majority_share"),
    ("Krippendorff's alpha", f"{_VOTED}.agreement.alpha"),
    ("miscalibration of a second majority", f"{_VOTED}.noise_ceiling"),
    ("shares with judges' verdicts", _each(_POWERED_SHARES, "estimate")),
    ("the same from votes alone", _each(_POWERED_SHARES, "classical")),
    ("mean margin of all pairs", f"{_DIRECT}.estimate", "effects.*.change", "effects.*.test"),
    ("mean margin beyond noise", "", "beyond_noise"),
    ("mean margin among like pairs", f"{_IDENTIFIED}.overlap_effect.mean_margin"),
    ("mean margin, adjusted", f"{_IDENTIFIED}.adjusted"),
    ("mean margin of all pairs once more, in audit.json only", f"{_DIRECT}.bca {_IDENTIFIED}.unadjusted.mean_margin"),
    ("share of like pairs and skew among pairs, in audit.json only",
     f"{_IDENTIFIED}.overlap {_IDENTIFIED}.overlap_effect|unadjusted.skew"),
    ("RATE effects", _each(_RATED, "estimate"), f"{_CHANGED}.estimate", " ".join(_RATED)),
    ("RATE effects, BCa", _each(_RATED, "bca")),
    ("RATE effects in SDs", _each(_RATED, "standardised")),
    ("skew by column", *_share("by.*.contrasts.*.levels.*.skew")),
    ("mean margin by column", f"by.*.contrasts.*.levels.*.margin.{_SCORED}.estimate by.*.contrasts.*.slope.{_SCORED}.estimate", "",
     f"by.*.contrasts.*.levels.*.test by.*.contrasts.*.differ.{_SCORED} by.*.contrasts.*.change_differs"),
    ("RATE effects by column", f"by.*.triples.*.effects|slope.{_SCORED}.effects.*.estimate|standardised", "",
     f"by.*.triples.*.tests.* by.*.triples.*.differ.{_SCORED}"),
    ("rates of the bias in the training data", "analysis.*.labels.contingency"),
    ("odds of being chosen", "analysis.*.labels.odds.crude|adjusted.estimate", "", "analysis.*.labels.odds.crude|adjusted.test"),
    ("correlations", "analysis.*.labels.r_train analysis.*.correlation"),
    ("rewards with and without the attribute", "analysis.*.observational"),
    ("differences between the sides", "drift.*.features.*.difference|standardised"),
    ("pairs beyond the limit", "drift.*.features.*.beyond"),
    ("labels that differ between the sides", "drift.*.labels"),
    ("cosine of embeddings", "drift.*.similarity"),
    ("a chosen dose, held out", f"{_HELD_OUT}.people", f"{_HELD_OUT}.against_base|against_plain"),
    ("doses 0 and 1 on the same halves", f"{_HELD_OUT}.base|plain"),
    ("quality at a chosen dose, held out", "dose.methods.*.quality"),
    ("dose–response", f"{_RESPONSE}.people|quality", f"{_RESPONSE}.quality_change"),
)  # fmt: skip
"""Keys of measures; and names of other numbers with the places where the audit holds their intervals, those of their changes, and their
tests: paths of `_parts`."""


def method_table(audit: AuditResult) -> Table:
    """Methods of the intervals and tests."""
    rows = []
    for name, *paths in METHODS:
        intervals, changes, tests = (list(_parts(audit, path)) for path in (*paths, "", "", "")[:3])
        if name in MEASURES:
            own = numbers_in(audit).where(name)
            intervals = [each.found for each in own if each.moment != "change"]
            changes, tests = [each.found for each in own.where(moment="change")], [each.test for each in own]
            name = MEASURES[name].title
        cells = [methods_of(intervals), methods_of(changes), map(_test_method, tests)]
        named = [
            "; ".join(dict.fromkeys(filter(None, names))).replace("log_ratio", "log ratio")
            for names in (cells if compares(audit) else cells[::2])
        ]
        if any(named):
            rows.append((name, *named))
    columns = ("intervals", "interval of the change", "test") if compares(audit) else ("interval", "test")
    return Table("How each interval and each test was made", ("measure", *columns), tuple(rows))


def _parts(value: object, paths: str) -> Iterator[object]:
    """The parts of a result at some paths: names of fields, `a|b` for both of two, `*` for every item; those that exist."""
    for path in paths.split():
        step, _, rest = path.partition(".")
        if step != "*":
            found = [getattr(value, name, None) for name in step.split("|")]
        elif isinstance(value, dict):
            found = list(value.values())
        else:
            found = list(value) if isinstance(value, tuple) else []
        for part in found:
            yield from _parts(part, rest) if rest else [part]


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


def _test_method(found: object) -> str:
    match found:
        case Test(method=method) | str(method):
            return method
        case Effect():
            return NORMAL_TEST
    return ""


def every_entry() -> dict[str, dict[str, Entry]]:
    """All entries that any audit can have, by heading and key: the core of the report's README."""
    texts = report_texts("glossary.yaml")
    found = {heading: {key: _entry(key, entry) for key, entry in entries.items()} for heading, entries in texts.items()}
    found[_HOW_OFTEN] |= {key: _entry(key, key) for key in _unlisted()}
    return found


def _entry(key: str, entry: str | dict[str, str]) -> Entry:
    """An entry of glossary.yaml: a measure's key, or its own words."""
    if isinstance(entry, dict):
        return Entry(**{"term": key, **entry})
    measure = MEASURES[entry]
    return Entry(measure.term, measure.formula, measure.meaning)


def _unlisted() -> list[str]:
    """Measures with words for the glossary, of which glossary.yaml has no entry."""
    listed = [entry for entries in report_texts("glossary.yaml").values() for entry in entries.values()]
    return [key for key, measure in MEASURES.items() if measure.term and key not in listed]


def glossary(audit: AuditResult) -> list[Entry]:
    """The entries that this audit needs, true under its tie rule and for its kind of model."""
    by_heading = every_entry()
    known = {key: entry for entries in by_heading.values() for key, entry in entries.items()}
    judged = any(effects.unit == "preference" for effects in audit.effects.values())
    halves = audit.model.halves_ties
    one_order = not isinstance(audit.model, RewardModelFacts) and audit.model.orders == "one"
    methods = set(methods_of(audit))
    tests = [effects.test.method for effects in audit.effects.values() if not isinstance(effects.test, Missing)]
    exact = compares(audit) or any(votes.gap_test is not None for votes in audit.votes.values())
    votes = list(audit.votes.values())
    rules, agreed = dict.fromkeys(voted.rule for voted in votes), any(voted.agreement is not None for voted in votes)
    ruled = {key: entry for rule in rules for key, entry in _of_rule(rule, halves, known).items()}
    needs: dict[str, object] = {
        ("one-order margin" if one_order else "judged margin") if judged else "margin": True,
        "judged skew" if halves else "skew": True,
        "the panel": audit.panel,
        "mean of the judges": audit.panel,
        "majority of the judges": audit.panel,
        "agreement of the judges": audit.panel,
        "criterion": audit.criteria,
        "authored skew": any(skew.source == "embedded" for skew in audit.skew.values()),
        "second turn": set(audit.skew) & set(SECOND_TURNS.values()),
        "triple skew": audit.triple_skew,
        **ruled,
        "gap": votes,
        "AUC of the margin": votes,
        "mean majority share": agreed,
        "Krippendorff's alpha": agreed,
        "second majority": any(isinstance(voted.noise_ceiling, NoiseCeiling) for voted in votes),
        "powered": any(voted.prediction_powered is not None for voted in votes),
        "judged quality" if halves else "quality": audit.quality,
        "section": audit.quality_sections,
        **{key: any(isinstance(each.found, Estimate) for each in numbers_in(audit).where(key)) for key in _unlisted()},
        "change": compares(audit),
        "unpaired": compares(audit),
        **dict.fromkeys(by_heading[_TRAINING], compares(audit)),
        **dict.fromkeys(by_heading[_DOSE], audit.dose),
        **{word: any(word in method for method in methods) for word in by_heading[INTERVALS]},
        "exact": exact,
        "normal": audit.rate or NORMAL_TEST in tests,
        "t test": T_TEST in tests,
        "sign": SIGN_TEST in tests,
        "holm": True,
    }
    return [(known | ruled)[key] for key, need in needs.items() if need]


def _of_rule(rule: str, halves: bool, known: dict[str, Entry]) -> dict[str, Entry]:
    """Entries on votes under people's tie rule, which goes without saying in the entries of one audit."""
    names = f"human skew (ties: {rule})", f"miscalibration (ties: {rule})"
    skew, missed = (known[name] for name in names)
    opening = "Lower is better."
    meaning = f"{opening} It can be high even where skew equals human skew.{missed.meaning.removeprefix(opening)}"
    meaning += f" {known['miscalibration of a judge'].meaning}" if halves else ""
    entries = Entry("human skew", skew.formula, skew.meaning), Entry("miscalibration", missed.formula, meaning)
    return dict(zip(names, entries, strict=True))


_N_OPEN = 2


def audit_document(audit: AuditResult, page: str | None = None, adapter: str | None = None) -> Document:
    """The audit; `page` and `adapter` are paths that the text for a terminal ends with. Longer texts stand in fenced blocks."""
    printed = {id(example) for few in few_examples(audit).values() for example in few}
    rows, parts = bias_verdicts(audit), sections(audit)
    return Document(
        f"Bias audit: {', '.join(bias.name for bias in audit.biases)}",
        "", (), (_numbers(audit), *parts),
        (Marked((audit_summary(audit, page, adapter),)),), _markdown_parts(audit, parts),
        figures=(skew_plot(audit), *(plot for found in section_plots(audit).values() for plot in found)),
        template="audit.html.j2",
        parts={
            "audit": audit, "targets": targets(audit), "headline": headline(audit), "rows": rows, "kinds": KINDS, "shapes": SHAPES,
            "people": any(row.people for row in rows), "ns": ns_said(rows), "share_words": share_words, "rules": chip_rules(audit),
            "verdicts": [(verdict.verdict_kind(found.word), found) for found in verdicts(audit)],
            "quality": verdict.quality_sentence(audit), "quality_kind": verdict.quality_kind(audit), "dose": dose_line(audit),
            "seeds": trainings.seed_sentences(audit), "two": compares(audit), "caveats": caveats(audit),
            "examples": sorted(audit.examples, key=scoring.example_order), "printed": printed, "few": scoring.FEW,
            "is_printed": lambda example: id(example) in printed, "n_open": _N_OPEN, "word_changes": word_changes,
            "word_differences": word_differences, "margins_sentence": margins_sentence, "people_sentence": people_sentence,
            "people_keys": scoring.people_keys, "order_keys": scoring.order_keys,
            "bias_choices": [(name, name) for name in dict.fromkeys(example.bias for example in audit.examples)],
            "people_choices": scoring.people_choices(audit), "order_choices": scoring.order_choices(audit),
        },
    )  # fmt: skip


def _numbers(audit: AuditResult) -> ReportSection:
    """The sentences and the table behind the first screen; a page draws the verdicts itself."""
    last = verdict.others_sentence(audit) if compares(audit) else verdict.ties_sentence(audit)
    words = tuple(text for text in (last, how_scored(audit)) if text)
    return ReportSection("numbers", report_texts()["numbers"]["title"], words, (main_table(audit),))


def notebook_html(audit: AuditResult) -> str:
    """One <div> without script or style; the figure stands in it as an image."""
    plot = skew_plot(audit)
    with TemporaryDirectory() as folder:
        figure = b64encode(save_plot(plot, Path(folder), "svg").read_bytes()).decode()
    return render(
        "notebook.html.j2",
        headline=headline(audit),
        verdicts=verdicts(audit),
        quality=verdict.quality_sentence(audit),
        main=main_table(audit),
        scored=how_scored(audit),
        description=plot.description,
        figure=figure,
    )


def _markdown_parts(audit: AuditResult, parts: Sequence[ReportSection]) -> tuple[Block, ...]:
    recipe = f", recipe {audit.recipe}" if compares(audit) else ""
    last = verdict.others_sentence(audit) if compares(audit) else verdict.ties_sentence(audit)
    said = (verdict.quality_sentence(audit), dose_line(audit), *trainings.seed_sentences(audit), last)
    return (
        f"Model {audit.model.name}{recipe}.",
        Strong(headline(audit)), glance_table(audit), *(Strong(found.sentence) for found in verdicts(audit)), said,
        main_table(audit), how_scored(audit), Bullets(tuple(caveats(audit))),
        Bullets(tuple(f"{bias.name}: {bias.description}" for bias in audit.biases)),
        *(block for section in parts for block in _section_blocks(section, audit)),
    )  # fmt: skip


def _section_blocks(section: ReportSection, audit: AuditResult) -> Iterator[Block]:
    yield Heading(section.title)
    yield section.paragraphs
    yield from section.tables
    yield Bullets(tuple(f"{name}: {value}" for name, value in section.facts))
    yield from section.entries
    for bias, few in few_examples(audit).items() if section.id == "examples" else ():
        for example in few:
            lines = [f"### {escaped(bias)}: {margins_sentence(example)}; {people_sentence(example)}", ""]
            texts = {"Prompt": example.prompt, "Without the bias": example.base, "With the bias": example.perturbed}
            for title, text in texts.items():
                lines += [f"{title}:", "", *fenced_block(text), ""]
            yield Marked(tuple(lines))
