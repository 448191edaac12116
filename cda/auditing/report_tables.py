"""Tables of an audit, most of them declared over its numbers: shares with their changes, people, judges, effects, RATE, columns of
the user's data, training data, and everything that was left out."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from cda.auditing.report_cells import (
    applied,
    at_no_drift,
    compares,
    divided,
    effects_in,
    flipped_cell,
    margin_cell,
    margin_unit,
    margin_words,
    targets,
    voted_names,
)
from cda.auditing.verdict_sentences import cancels_by_rate, confounds_sentence, drift_sentence, opposed_effects
from cda.numbers.measures import BOUNDS, MEASURES, of_audits, of_place
from cda.numbers.views import numbers_in
from cda.records import OF_TRIPLES, PERCENT
from cda.report.names import without_files
from cda.report.numbers import NO_VOTES, NOT_ESTIMATED, cell, count, decimals, listed, points, share, signed, with_ends
from cda.report.numbers import p_value as p_words
from cda.report.scoring import FLAGS, MEANINGS, set_notes
from cda.report.tables import (
    COUNTS,
    TESTED,
    Column,
    Columns,
    Row,
    Table,
    TableOf,
    grouping_sentences,
    level_number,
    levels_table,
    p_differ,
    table,
)
from cda.results.audit import AuditResult
from cda.results.base import NOT_TRAINED, Estimate, Missing, Number, Test
from cda.results.effects import (
    BiasRate,
    Contingency,
    DirectEffects,
    Grouping,
    Identification,
    RateEffects,
    SameMargin,
    average_of,
    deciding,
)
from cda.results.facts import RewardModelFacts
from cda.results.skew import BiasPanel, JudgedBias, NoiseCeiling, PoweredShare, PoweredVotes
from cda.results.stages import LabelCounts, LabelTally
from cda.stats.drift import too_small
from cda.stats.verdict import MIN_PROMPTS

FORMS = {"linear": "linear", "log_ratio": "log ratio"}
_MOST_DIFFERENCES = 3
_SAME = "both sides are the same after cutting"
Step = tuple[str, int | None, Mapping[str, int]]
"""A step, how many it saw (None if not counted), and reason to the number left out."""


def columns_of(audit: AuditResult, tested: bool = True) -> tuple[Column, ...]:
    """Columns of a measure: before, after, change, n and Holm's p, and plain CDA if that is not the result; or of one model."""
    own = {"training": ""}
    p = (Column("p (Holm)", {**own, "moment": "change" if compares(audit) else "model"}, "p (Holm)"),) if tested else ()
    if not compares(audit):
        return (Column("share", own), Column("n", own, "n"), *p)
    after = "after" if applied(audit) == 1 else f"after, dose {applied(audit):g}"
    return (
        Column("before", {**own, "moment": "before"}),
        Column(after, {**own, "moment": "after"}),
        Column("change (points)", {**own, "moment": "change"}),
        Column("n", own, "n"),
        *p,
        *((Column("plain CDA (dose 1)", {"training": "plain"}),) if audit.plain else ()),
    )


def _numbers(audit: AuditResult, key: str, bias: str = "") -> list[Number]:
    """The numbers of a measure, plain CDA's last, at a row named by bias and measure."""
    measure = MEASURES[key]
    rate = list(audit.rate[bias].under().values()) if key == "rate" and bias in audit.rate else []
    unit = [f" ({effect.estimate.unit})" for scored in rate for effect in effects_in(scored)][:1]
    row = {"row": " ".join(filter(None, (bias, "".join([measure.title, *unit]))))}
    own = numbers_in(audit).where(key, **({"bias": bias} if bias else {}))
    plain = audit.plain.last(key, bias) if audit.plain else None
    found = [one.model_copy(update={"at": {**one.at, **row}}) for one in own]
    return found + ([Number.of(key, "after", {**row, "training": "plain"}, plain)] if plain else [])


def main_table(audit: AuditResult) -> Table:
    """The first table of a report: every measure of each target, skew of the other biases, and quality."""
    if not compares(audit):
        return model_table(audit)
    numbers: list[Number] = []
    for name, skew in audit.skew.items():
        for key, measure in of_place("report").items():
            if (key == "skew" or skew.target) and measure.of_bias and measure.own_moments(audit, name):
                numbers += _numbers(audit, key, name)
    whole = [key for key, one in of_place("report").items() if not one.of_bias and one.own_moments(audit, "")]
    numbers += [number for key in whole for number in _numbers(audit, key)]
    caption = f"Before and after training, with {PERCENT} intervals"
    found = TableOf(caption=caption, heading="measure", rows=("row",), columns=columns_of(audit)).of(numbers)
    assert found is not None  # every audit measures a bias
    return found


def model_table(audit: AuditResult) -> Table:
    """A row for every bias of one model or judge; each number has its n."""
    known = {key: one for key, one in MEASURES.items() if "model" in one.shown_as}
    known |= {key: one for key, one in of_place("report").items() if one.of_bias}
    if all(skew.source == OF_TRIPLES for skew in audit.skew.values()):
        del known["triple_skew"]  # the contrasts are the triples
    keys = list(known)
    numbers = [number for key in keys for number in numbers_in(audit).where(key)]
    measured = {number.measure for number in numbers if isinstance(number.found, Estimate)}
    headings = {key: one.shown_as.get("model", one.title) for key, one in known.items() if key in measured}
    columns = [Column(heading, {"measure": key}, "estimate, n") for key, heading in headings.items()]
    missing = {"votes": NO_VOTES, "triples": "no triples"}
    caption = f"How often the model prefers the side with the bias, with {PERCENT} intervals and n"
    declared = TableOf(caption=caption, heading="bias", rows=("bias",), columns=tuple(columns), missing=missing)
    found = declared.of(numbers)
    assert found is not None  # every audit measures a bias
    return found


def votes_table(audit: AuditResult) -> Table | None:
    """The model next to people, for every bias that people voted on, with the tests of the audit's family."""
    numbers = _on_votes(audit)
    what = "nothing changed" if compares(audit) else "the model's skew is that of people"
    caption = f"The model next to people, with {PERCENT} intervals; p is for the test that {what}"
    return TableOf(caption=caption, heading="measure", rows=("row",), columns=columns_of(audit)).of(numbers)


def _on_votes(audit: AuditResult) -> list[Number]:
    on_votes = sorted(of_audits().items(), key=lambda item: list(BOUNDS).index(item[1].unit))
    keys = [key for key, measure in on_votes if measure.on == "votes"]
    return [number for name in voted_names(audit) for key in keys for number in _numbers(audit, key, name)]


def votes_missing(audit: AuditResult) -> Iterator[str]:
    """Why numbers next to people could not be estimated, each reason once."""
    rows: dict[str, dict[str, list[str]]] = {}
    for number in _on_votes(audit):
        if isinstance(number.found, Missing) and number.found != NOT_TRAINED:
            rows.setdefault(number.found.reason, {}).setdefault(number.at["row"], []).append(number.moment)
    for reason, names in rows.items():
        yield f"{listed([f'{name} ({listed(moments)})' for name, moments in names.items()])} not estimated: {reason}."


def people_table(audit: AuditResult) -> Table | None:
    """Agreement among people, which limits the reliability of their majorities."""
    rows: list[Row] = []
    for name in voted_names(audit):
        votes = audit.votes[name]
        match votes.agreement:
            case Missing(reason=reason):
                rows.append((name, reason, "", "", "", ""))
            case agreed if agreed is not None:
                ceiling = votes.noise_ceiling
                second = ceiling.miscalibration if isinstance(ceiling, NoiseCeiling) else ceiling
                alpha = cell(agreed.alpha, decimals, None)
                decided = cell(agreed.with_majority, share, None)
                rows.append(
                    (name, share(agreed.majority_share), decided, alpha, cell(second, share, None), str(agreed.n_votes))
                )
    header = (
        "bias",
        "mean majority share",
        "the same, if for one side",
        "Krippendorff's alpha",
        "miscalibration of a second majority",
        "votes",
    )
    return table(f"How far people agree with each other, with {PERCENT} intervals", header, rows)


def powered_table(audit: AuditResult) -> Table | None:
    """People's preferences on all contrasts, from few votes and the judges' verdicts."""
    rows: list[Row] = []
    for name in voted_names(audit):
        powered = audit.votes[name].prediction_powered
        if isinstance(powered, Missing):
            rows.append((f"{name} missing", powered.reason, "", "", "", ""))
        if isinstance(powered, PoweredVotes):
            rows.append((f"{name} human skew", *_powered_cells(powered.human_skew)))
            for when, missed in powered.miscalibration.items():
                what = f"{name} miscalibration {when}".removesuffix(" model")
                rows.append((what, *_powered_cells(missed)))
    header = ("measure", "with verdicts (PPI++)", "votes alone", "weight of verdicts", "voted + judged alone",
              "left out: no verdict")  # fmt: skip
    caption = f"All contrasts, judged from people's votes on some and judges' verdicts on the others; ties count half, with {PERCENT} intervals"
    return table(caption, header, rows)


def _powered_cells(powered: PoweredShare | Missing) -> Row:
    if isinstance(powered, Missing):
        return powered.reason, "", "", "", ""
    without = powered.exclusions
    return (
        share(powered.estimate), share(powered.classical), f"{powered.power_tuning:.2f}",
        f"{powered.classical.n} + {powered.n_unlabelled}", f"{without.dropped} of {without.seen}",
    )  # fmt: skip


def section_sentences(audit: AuditResult) -> list[str]:
    """Notes on the sections of a quality set, the flags and the exclusions."""
    sections = audit.quality_sections
    if sections is None:
        return []
    flags = [FLAGS.replace("of all files", "of this set")] if compares(audit) else []
    return [MEANINGS[sections.format], *flags, *set_notes(sections, margin_unit(audit))]


def judge_tables(audit: AuditResult) -> list[Table | None]:
    """Every judge, the panel and each criterion of a rubric; the judges' agreement, of all and without each. None for what was not
    asked."""
    return [_judged_table(audit), agreement_table(audit)]


def _judged_table(audit: AuditResult) -> Table | None:
    rows = [(f"{bias}, {name}", each) for bias, panel in audit.panel.items() for name, each in _of_panel(panel).items()]
    rows += [(f"{bias}, by {name}", each) for bias, own in audit.criteria.items() for name, each in own.items()]
    columns: Columns[JudgedBias] = {
        "skew": lambda judged: cell(judged.skew, share),
        "n": lambda judged: cell(judged.skew, count, ""),
        "ties": lambda judged: "" if judged.ties is None else str(judged.ties),
        "without a verdict": lambda judged: str(judged.unread),
        "miscalibration": lambda judged: cell(judged.miscalibration, share),
        "n voted": lambda judged: cell(judged.miscalibration, count, ""),
        "minus overall (points)": lambda judged: cell(judged.against_overall, lambda against: points(against, "")),
    }
    caption = f"Each judge and each criterion by itself, and the panel, with {PERCENT} intervals"
    return _without_empty(levels_table(caption, "bias, judge or criterion", rows, columns))


def _of_panel(panel: BiasPanel) -> dict[str, JudgedBias]:
    together = {"the panel": panel.panel, "majority of the judges": panel.majority, "mean of the judges": panel.mean}
    return panel.judges | together


def _without_empty(found: Table | None) -> Table | None:
    """The table without columns in which every cell is empty, such as those of votes that nobody gave."""
    if found is None:
        return None
    kept = [at for at in range(len(found.header)) if any(row[at] for row in found.rows)]
    header, *rows = (tuple(row[at] for at in kept) for row in (found.header, *found.rows))
    return Table(found.caption, header, tuple(rows))


def agreement_table(audit: AuditResult) -> Table | None:
    """Krippendorff's alpha of every panel, and of the panel without each of its judges; None without a panel."""
    header = (
        "bias, judges", "Krippendorff's alpha", "change of alpha", "skew of the panel", "change of skew (points)", "n",
    )  # fmt: skip
    caption = f"Agreement of the judges, of all and without each of them, with {PERCENT} intervals"
    return table(caption, header, (row for bias, panel in audit.panel.items() for row in _agreement_rows(bias, panel)))


def _agreement_rows(bias: str, panel: BiasPanel) -> Iterator[Row]:
    alpha = panel.agreement if isinstance(panel.agreement, Missing) else panel.agreement.alpha
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


def effects_table(audit: AuditResult) -> Table:
    """Mean margins of each bias, of a training of its targets: of pairs alike in all else, adjusted for drift, as they are; with the
    test and the verdict."""
    two, rows = compares(audit), list[Row]()
    for name, effects in audit.effects.items():
        for when, under in effects.items() if not two or name in targets(audit) else ():
            *alike, verdict = _identified_cells(under, bool(drift_sentence(name, audit)), audit.n_measured(name))
            if verdict != "identified" and cancels_by_rate(name, audit):
                verdict = "by RATE: few like pairs"
            rival = under.length.rival if under.length else None
            if verdict == "identified" and rival and not two:
                verdict = f"identified, but not told apart from {rival.replace('_', ' ')}"
            tests = () if two else (cell(effects.test, lambda test: cell(test.p_holm, p_words), ""),)
            label = f"{name}, {when}" if two else name
            rows.append((label, *alike, margin_cell(under.direct, None), *tests, verdict))
    header = ("bias", "among like pairs", "like pairs, of n", *(f"adjusted, {form}" for form in FORMS.values()), "all pairs",
              *(() if two else ("p (Holm)",)), "the effect is")  # fmt: skip
    caption = f"Mean margin ({margin_unit(audit)}) of direct contrasts, with {PERCENT} intervals"
    return Table(caption, header, tuple(rows))


def _identified_cells(under: DirectEffects, may_be_drift: bool, n: int) -> Row:
    found, direct = under.identification, under.direct
    if isinstance(direct, SameMargin):
        return "", f"of {n}", "", "", "identified" if direct.value else "none shown"
    if isinstance(found, Missing):
        return found.reason, f"of {n}", "", "", NOT_ESTIMATED
    margins = at_no_drift(found)
    alike, *forms = (margin_words(margins.get(kind)) for kind in ("alike", *FORMS))
    verdict = "not identified from these pairs" if may_be_drift else found.verdict
    return alike, f"{found.overlap.n} of {found.overlap.n_total}", *forms, verdict


def drift_sentences(audit: AuditResult) -> list[str]:
    """What else differs most between the sides of each bias's contrasts, of a training its targets' alone."""
    names = targets(audit) if compares(audit) else audit.drift
    found = {name: _differences(name, audit) for name in names}
    return [
        f"{name}: the sides also differ in {what} (in standard deviations, n = {audit.n_measured(name)})."
        for name, what in found.items()
        if what
    ]


def _differences(name: str, audit: AuditResult) -> str:
    """The features, beside the bias itself, that differ most between the sides beyond chance."""
    features = audit.drift[name]
    found = [] if isinstance(features, Missing) else [each for each in features if not each.is_treatment]
    known = [(each.feature.replace("_", " "), each.standardised) for each in found]
    shown = [(word, own) for word, own in known if isinstance(own, Estimate) and (own.low > 0 or own.high < 0)]
    shown.sort(key=lambda item: -abs(item[1].value))
    return ", ".join(f"{word} {signed(own)}" for word, own in shown[:_MOST_DIFFERENCES])


def identification_sentences(audit: AuditResult) -> list[str]:
    """Why an effect is not identified, one sentence a bias, and one for all with too few prompts of like pairs (of the last scoring: drift
    is the same for all)."""
    sentences, few = [], list[str]()
    for name, effects in audit.effects.items():
        last = effects.last
        if isinstance(last.direct, SameMargin) and last.direct.value:
            sentences.append(f"{name}: the margin is the same in every pair, whatever else differs between the sides.")
        elif cancels_by_rate(name, audit):
            continue
        elif isinstance(last.identification, Identification) and _has_few_alike(last.identification):
            few.append(f"{name} ({last.identification.overlap.n} of {last.identification.overlap.n_total})")
            sentences += [f"{name}: {text.strip()}"] if (text := confounds_sentence(last.identification)) else []
        elif isinstance(last.identification, Identification) and not last.identification.is_identified:
            sentences.append(
                f"{name}: {last.identification.verdict}: {last.identification.reason}{confounds_sentence(last.identification)}"
            )
        elif may_be_drift := drift_sentence(name, audit):
            sentences.append(f"{name}: not identified from these pairs. {may_be_drift}")
    if few:
        said = f"Not identified from these pairs, since too few have drift within limits: {listed(few)}"
        sentences.insert(0, f"{said}; {MIN_PROMPTS} such prompts are needed.")
    return sentences


def _has_few_alike(found: Identification) -> bool:
    """Too few prompts of like pairs are the whole reason."""
    overlap = found.overlap
    few = overlap.n > 0 and overlap.n_prompts < MIN_PROMPTS
    return few and found.reason == f"{too_small(overlap.n, overlap.n_prompts, overlap.n_total)}."


def rate_tables(audit: AuditResult) -> list[Table]:
    """For each bias with triples, every average effect by every estimator, with its change by a training."""
    return [found for name, rate in audit.rate.items() if (found := _rate_table(name, rate, audit)) is not None]


def _rate_table(name: str, rate: BiasRate, audit: AuditResult) -> Table | None:
    overall = rate.under()
    overall |= {"change": rate.changes} if compares(audit) and overall else {}
    after = "after: " if compares(audit) else ""
    of_moments = [Column("effect" if when == "model" else when, {"at": when, "measure": "rate"}) for when in overall]
    # Left of the change, of which it is none.
    n_scored = len(overall) - ("change" in overall)
    standardised = Column(f"{after}in SDs of the originals", {"at": audit.scorings[-1], "measure": "rate_standardised"})
    columns = (
        *of_moments[:n_scored],
        standardised,
        *of_moments[n_scored:],
        Column("n", {"at": audit.scorings[-1], "measure": "rate"}, "n"),
        Column(f"{after}p (Holm)", {"at": audit.scorings[-1], "measure": "rate"}, "p (Holm)"),
    )
    numbers = (number for when, part in overall.items() for number in _rated(when, part, rate))
    caption = f"{name}: RATE effects ({margin_unit(audit)}) on {rate.n} triples ({flipped_cell(rate)}), with {PERCENT} intervals"
    declared = TableOf(
        caption=caption, heading="effect, estimator", rows=("row",), columns=columns, missing={"triples": ""}
    )
    return declared.of(numbers)


def _rated(when: str, part: RateEffects | Missing, rate: BiasRate) -> Iterator[Number]:
    """Average effects by both kinds of rewrites, and the naive one, which is one number for all three effects."""
    tested = deciding(part, rate.flips)
    for effect in effects_in(part):
        if effect.estimator in ("double", "single") or (effect.estimator, effect.estimand) == ("naive", "ATE"):
            at = {"row": f"{effect.estimand}, {effect.estimator}".replace("ATE, naive", "naive"), "at": when}
            own = rate.test if effect is tested and isinstance(rate.test, Test) else None
            yield Number.of("rate", "model", at, effect.estimate, own)
            yield Number.of("rate_standardised", "model", at, effect.standardised)
    for gap in () if isinstance(part, Missing) else part.not_estimated:
        if gap.estimator in ("double", "single"):
            yield Number.of(
                "rate", "model", {"row": f"{gap.estimand}, {gap.estimator}", "at": when}, Missing(reason=gap.reason)
            )


def rate_sentences(audit: AuditResult) -> list[str]:
    """Number of answers in which rewrites flipped each bias, and reasons for missing average effects."""
    sentences = []
    for name, rate in audit.rate.items():
        flips = rate.flips
        sides = (
            ("with", flips.flipped_with, flips.tried_with),
            ("without", flips.flipped_without, flips.tried_without),
        )
        parts = " and ".join(f"{flipped} of {tried} answers {side} it" for side, flipped, tried in sides if tried)
        sentences += [
            f"{name}: rewritten by {without_files(flips.by)}; {parts} are used. Nothing checks that the bias flipped."
            if flips.checked_by is None
            else f"{name}: rewritten by {without_files(flips.by)}. Both rewrites flipped the bias in {parts} (told by: {flips.checked_by}).",
            missing_rate_sentence(name, rate),
            opposed_sentence(name, audit),
        ]
    return [sentence for sentence in sentences if sentence]


def missing_rate_sentence(name: str, rate: BiasRate) -> str:
    """Why the average effect of a bias is not given; empty if it is."""
    missing = rate.measured if isinstance(rate.measured, Missing) else average_of(rate.measured.last)
    return f"{name}: RATE's ATE is not estimated: {missing.reason}." if isinstance(missing, Missing) else ""


def opposed_sentence(name: str, audit: AuditResult) -> str:
    """That the average effect of a bias holds for no answer; empty if it may."""
    if (both := opposed_effects(name, audit)) is None:
        return ""
    att, atu = (signed(each.estimate) for each in both)
    return (
        f"{name}: the effect is {att} on answers that have the bias and {atu} on those that lack it. The ATE averages opposite effects: "
        "read the two."
    )


def by_tables(audit: AuditResult) -> list[Table | None]:
    """Direct contrasts by column, RATE by column, then the tests that levels differ and the slopes."""
    two, unit, last = compares(audit), margin_unit(audit), audit.scorings[-1]
    direct, rated = divided(audit, "contrasts"), divided(audit, "triples")
    rates = [(f"{of}: {level.name}", level) for of, by in rated.items() for level in by.levels]
    moments = {"skew before": "before", "skew after": "after", "change (points)": "change"} if two else {"skew": last}
    skews = {heading: level_number("skew", moment) for heading, moment in moments.items()}
    means = {f"mean margin ({unit}){', after' if two else ''}": level_number("margin", last)}
    keys = [key for key, one in MEASURES.items() if one.on == "triples" and any(key in row[1].found for row in rates)]
    effects = {MEASURES[key].title: level_number(key, last) for key in keys}
    counts = {"triples": COUNTS["n"], "prompts": COUNTS["prompts"]}
    margins = [(f"{of}: {level.name}", level) for of, by in direct.items() for level in by.levels]
    differ = [row for of, by in direct.items() for row in _differ(of, "margin", by)]
    differ += [row for of, by in rated.items() for row in _differ(of, "RATE effect", by)]
    heading, caption = "bias, column: level", f"Skew and mean margin by level, with {PERCENT} intervals"
    of_rate = f"Effect on the {unit} by level (RATE, rewrites of rewrites){', after' if two else ''}, with {PERCENT} intervals"
    columns = ("bias, column", "p that levels are alike (Holm)", f"slope ({unit} per 1 of the column)")
    return [
        levels_table(caption, heading, margins, {**skews, **means, **COUNTS, **TESTED}),
        levels_table(
            of_rate, heading, [row for row in rates if row[1].of(keys[0], last)], {**effects, **counts, **TESTED}
        ),
        table(f"Do levels differ? With {PERCENT} intervals of slopes", columns, differ),
    ]


def _differ(of: str, what: str, by: Grouping) -> Iterator[Row]:
    """Tests that levels are alike under every scoring, and of its change, with the slope of a column of numbers."""
    for when, test in by.differ.items():
        words = {"model": what, "change": f"change of the {what}"}.get(when, f"{what}, {when}")
        slope = cell(by.slope.get(when), lambda slope: with_ends(slope.estimate), "")
        yield f"{of}: {words}", p_differ(test), slope


def by_sentences(audit: AuditResult) -> Iterator[str]:
    """What was pooled, what has no level, and what could not be divided."""
    for bias, found in audit.by.items():
        for what, parts in found.items():
            for column, by in parts.items():
                if isinstance(by, Missing):
                    yield f"{bias}, {column}: {what} are not divided: {by.reason}."
                else:
                    yield from grouping_sentences(f"{bias}, {column}", by, what)


def label_table(audit: AuditResult) -> Table | None:
    """Which sides of the labelled pairs exhibit each bias: of the training data, or of those given to an audit alone."""
    rows: list[Row] = []
    label = audit.stages.label
    for tallies, of in _labelled(label) if label else ():
        for name, tally in tallies.items():
            by = tally.by.replace("_", " ") if tally.by.startswith("measured ") else tally.by
            if (asked := tally.asked) and asked.query_asked:
                by += f"; {asked.query_calls_for_it} of {asked.query_answered} messages call for it"
            counts = tally.n, tally.both, tally.chosen_only, tally.rejected_only, tally.neither, tally.unparsed
            rows.append((f"{name}{of}", by, *map(str, counts)))
    for name, analysis in audit.analysis.items():
        found = analysis.labels and analysis.labels.contingency
        if isinstance(found, Contingency) and not compares(audit):
            seen, unread = found.exclusions.seen, found.exclusions.dropped
            counts = seen, found.both, found.only_chosen, found.only_rejected, found.neither, unread
            rows.append((name, "the column of your file", *map(str, counts)))
    header = ("bias", "labelled by", "pairs", "both have it", "chosen only", "rejected only", "neither", "unparsed")
    return table("Labels of the pairs", header, rows)


def _labelled(label: LabelCounts) -> Iterator[tuple[Mapping[str, LabelTally], str]]:
    yield label.labels, ""
    yield label.supplement_labels, ", supplementary"
    yield label.second_turn.labels if label.second_turn else {}, ", conversations (data.second_turn)"


def synthesis_table(audit: AuditResult) -> Table | None:
    """Number of counterfactual pairs for each bias."""
    if audit.stages.synthesize is None:
        return None
    header = ("bias", "asked for", "eligible", "tried", "flipped and kept", "supplementary", "rewritten by")
    rows = []
    for name, made in audit.stages.synthesize.biases.items():
        requested = "all eligible" if made.requested is None else str(made.requested)
        kept = f"{made.made} ({made.made / made.tried:.0%})" if made.tried else str(made.made)
        rows.append((name, requested, str(made.eligible), str(made.tried), kept, str(made.supplementary), made.by))
    return Table("Counterfactual pairs", header, tuple(rows))


def correlation_table(audit: AuditResult) -> Table | None:
    """How each bias goes along with being preferred: in labelled pairs, by people, by the model."""
    rows: list[Row] = []
    for name, analysis in audit.analysis.items():
        labels = analysis.labels
        rates = labels.contingency if labels else None
        chosen = rates.selection_rate if isinstance(rates, Contingency) else rates
        trained, *found = (
            labels.r_train if labels else None,
            analysis.people,
            *(model for _, model in analysis.model.items()),
        )
        shown = (cell(value, lambda r: f"{decimals(r)} (n {count(r)})") for value in (trained, *found))
        rows.append(
            (f"{name} ({analysis.of})", cell(chosen, lambda rate: f"{share(rate)} (n {count(rate)})", None), *shown)
        )
    pairs = "training data" if compares(audit) else "labelled pairs"
    models = ("model" if when == "model" else f"model {when}" for when in audit.scorings)
    header = ("bias", "chosen where one side has it", f"r, {pairs}", "r, people",
              *(f"r, {model}" for model in models))  # fmt: skip
    caption = f"Correlation (r) of each bias with being preferred, with {PERCENT} intervals"
    return _without_empty(table(caption, header, rows))


def exclusion_table(audit: AuditResult) -> Table | None:
    """Everything that was left out on the way, by step and reason."""
    found: dict[tuple[str, ...], list[str]] = {}
    for step, seen, reasons in (*_data_steps(audit), *_audit_steps(audit)):
        what, of, name = step.rpartition(" of ")
        for reason, number in sorted(reasons.items()):
            if number > 0:
                found.setdefault((what + of, reason, str(number), "" if seen is None else str(seen)), []).append(name)
    rows = [
        (what + listed(names), reason, f"{number} each" if len(names) > 1 else number, seen)
        for (what, reason, number, seen), names in found.items()
    ]
    return table("Left out, by step and reason", ("step", "reason", "left out", "of"), rows)


def nothing_left_out(audit: AuditResult) -> tuple[str, ...]:
    """Sentence on the steps of the data that lost nothing."""
    steps = [
        step if seen is None else f"{step} ({seen})"
        for step, seen, reasons in _data_steps(audit)
        if not any(number > 0 for number in reasons.values())
    ]
    return (f"Nothing was left out in {listed(steps)}.",) if steps else ()


def _data_steps(audit: AuditResult) -> Iterator[Step]:
    stages = audit.stages
    if label := stages.label:
        yield "loading training pairs", label.pairs.seen, label.pairs.dropped
        if label.supplement:
            yield "loading supplementary pairs", label.supplement.seen, label.supplement.dropped
            if (used := label.supplement.used) is not None and used < label.supplement.kept:
                yield (
                    "labelling supplementary pairs",
                    label.supplement.kept,
                    {"not needed": label.supplement.kept - used},
                )
        kept, used = label.pairs.kept, label.pairs.used
        if used is not None and used < kept:
            yield "drawing training pairs", kept, {"not drawn (data.max_pairs)": kept - used}
        for name, tally in label.labels.items():
            yield f"labelling {name}", tally.n, {"unparsed": tally.unparsed}
    if synthesize := stages.synthesize:
        for name, dropped in synthesize.in_audit.items():
            yield f"choosing {name} to teach", dropped.seen, dropped.reasons
        for name, made in synthesize.biases.items():
            yield f"rewriting for {name}", made.tried, made.rejected
        if weights := synthesize.weights:
            yield "drawing unchanged pairs", None, {"weight 0 (data.weights)": weights.zero}
        if taught := synthesize.contrasts:
            yield "loading taught contrasts", taught.file.seen, taught.file.reasons
            yield "choosing taught contrasts", None, taught.left_out
    if train := stages.train:
        n = sum(synthesize.mix.values()) if synthesize else train.train + train.validation
        same = {"both sides the same after cutting": train.identical_after_truncation}
        yield "training", n, same
    for name, excluded in audit.excluded.items():
        if excluded.seen:
            yield name if name.startswith("triples of") else f"loading {name}", excluded.seen, excluded.reasons


def _audit_steps(audit: AuditResult) -> Iterator[Step]:
    unread = "no readable verdict of the judge"
    if isinstance(audit.model, RewardModelFacts) and audit.model.unit == "grade":
        unread = "a text without a readable grade"
    elif isinstance(audit.model, RewardModelFacts):  # to which two texts may be one after cutting
        unread = f"a text is too long, or {_SAME}" if audit.model.dropped else _SAME
    yield "matching votes", None, {"items that are none of the contrasts": audit.votes_unmatched}
    for name, skew in audit.skew.items():
        reasons = {f"no rewrite: {reason}": number for reason, number in skew.rewrites_failed.items()}
        reasons["not drawn (audit.max_contrasts)"] = skew.available - audit.n_measured(name) - skew.unread
        reasons[unread] = skew.unread
        left_out = audit.votes[name].left_out if name in audit.votes else {}
        reasons |= {
            f"people: {reason} (left out of the comparison with people)": number for reason, number in left_out.items()
        }
        yield f"contrasts of {name}", skew.available + sum(skew.rewrites_failed.values()), reasons
    if audit.quality is not None:
        not_drawn = audit.available_quality - audit.n_measured() - audit.quality_unread
        reasons = {"not drawn (audit.max_quality)": not_drawn, unread: audit.quality_unread}
        yield "comparing quality pairs", audit.available_quality, reasons
    for name, rate in audit.rate.items():
        lost, naive_lost = f"{unread} on a comparison", rate.naive_unread or 0
        reason = "two of its texts are the same after cutting" if unread == _SAME else lost
        yield f"comparing triples of {name}", rate.n + rate.unread, {reason: rate.unread}
        effects = () if isinstance(rate.measured, Missing) else effects_in(rate.measured.last)
        n = next((effect.estimate.n for effect in effects if effect.estimator == "naive"), 0)
        yield f"comparing originals of {name}, naive", n + naive_lost, {lost: naive_lost}
