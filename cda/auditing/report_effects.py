"""Tables of effects: direct contrasts and their identification, drift between sides, RATE."""

from __future__ import annotations

from cda.auditing.report_cells import (
    contrasts_flipped,
    effects_in,
    flipped_cell,
    margin_cell,
    margin_unit,
    tested_cells,
)
from cda.auditing.report_evidence import compares
from cda.auditing.report_verdict import drift_sentence
from cda.report.numbers import MINUS, NOT_ESTIMATED, cell, count, in_each, p_equals, p_value, share, signed
from cda.report.tables import Row, Table
from cda.results.audit import AuditResult
from cda.results.base import Estimate, Missing, Test
from cda.results.effects import BiasDrift, Effect, Form, NotIdentified, SameMargin
from cda.results.rate import BiasRate, Flips, RateEffects

FORMS: dict[Form, str] = {"linear": "linear", "log_ratio": "log ratio"}


def effects_table(audit: AuditResult) -> Table:
    """Mean margins: of pairs alike in all else first, then adjusted for drift, then as they are; test and verdict."""
    rows: list[Row] = []
    for name, effects in audit.effects.items():
        for when, under in effects.items():
            found, direct = under.identification, under.direct
            label = f"{name}, {when}" if compares(audit) else name
            everything = (margin_cell(direct, None), *(() if compares(audit) else tested_cells(effects.test)))
            if isinstance(direct, SameMargin):
                rows.append((label, "", "", "", "", *everything, "identified" if direct.value else "none shown"))
                continue
            if isinstance(found, Missing):
                rows.append((label, found.reason, "", "", "", *everything, NOT_ESTIMATED))
                continue
            among = found.overlap_effect
            alike = in_each(among.value) if isinstance(among, SameMargin) else cell(
                among, lambda effect: signed(effect.mean_margin))  # fmt: skip
            of = f"{found.overlap.n} of {found.overlap.n_total}"
            adjusted = (found.adjusted.get(form, Missing(reason="not tried")) for form in FORMS)
            verdict = "not identified from these pairs" if drift_sentence(name, audit) else found.verdict
            forms = (cell(fit, lambda adjusted: signed(adjusted.effect)) for fit in adjusted)
            rows.append((label, alike, of, *forms, *everything, verdict))
    tests = () if compares(audit) else ("p, all pairs", "p (Holm)")
    header = ("bias", "among like pairs", "like pairs", *(f"adjusted, {form}" for form in FORMS.values()),
              "all pairs", *tests, "the effect is")  # fmt: skip
    return Table(f"Mean margin ({margin_unit(audit)}) of direct contrasts, with 95% intervals", header, tuple(rows))


def identification_sentences(audit: AuditResult) -> list[str]:
    """Why an effect is identified or not, one sentence a bias (of the last scoring: drift is the same for all)."""
    sentences = []
    for name, effects in audit.effects.items():
        last = effects.last
        if isinstance(last.direct, SameMargin) and last.direct.value:
            sentences.append(f"{name}: the margin is the same in every pair, whatever else differs between the sides.")
        elif isinstance(last.identification, NotIdentified):
            sentences.append(f"{name}: {last.identification.verdict}: {last.identification.reason}")
        elif may_be_drift := drift_sentence(name, audit):
            sentences.append(f"{name}: not identified from these pairs. {may_be_drift}")
    return sentences


def drift_tables(audit: AuditResult) -> list[Table]:
    """Other differences between the two sides, for each bias."""
    return [table for name, drift in audit.drift.items() if (table := _drift_table(name, drift)).rows]


def _drift_table(name: str, drift: BiasDrift) -> Table:
    rows = []
    for found in () if isinstance(drift.features, Missing) else drift.features:
        label = found.feature.replace("_", " ") + (" (the bias itself)" if found.is_treatment else "")
        ratio = "" if found.median_ratio is None else f"{found.median_ratio:.2f}"
        rows.append((label, f"{found.base_mean:.2f}", f"{found.perturbed_mean:.2f}", signed(found.difference),
                     cell(found.standardised, signed), ratio, cell(found.beyond, share)))  # fmt: skip
    rows += [
        (f"labelled {other}", "", "", cell(label, _points, None), "", "", "") for other, label in drift.labels.items()
    ]
    if isinstance(drift.similarity, Estimate):
        rows.append(("cosine of embeddings", "", "", signed(drift.similarity), "", "", ""))
    header = ("feature", "base", "perturbed", "perturbed − base", "in SDs", "median ratio", "pairs beyond the limit")
    return Table(f"{name}: what differs between the sides of {drift.n} contrasts", header, tuple(rows))


def _points(label: Estimate) -> str:
    ends = f"{100 * label.value:+.0f} [{100 * label.low:+.0f}, {100 * label.high:+.0f}] points"
    return ends.replace("-", MINUS)


def rate_tables(audit: AuditResult) -> list[Table]:
    """For each bias with triples, every effect by every estimator."""
    tables = []
    for name, rate in audit.rate.items():
        tables += [_rate_table(name, rate, when, audit) for when in rate.under()]
        tables += [_rate_table(name, rate, "changes", audit)] if rate.under() and compares(audit) else []
    return tables


def _rate_table(name: str, rate: BiasRate, when: str, audit: AuditResult) -> Table:
    under = rate.under().get(when)
    overall: RateEffects | Missing = rate.changes if under is None else under.overall
    parts = (overall,) if under is None else (overall, under.by_length, under.slope)
    rows = [_effect_row(effect) for part in parts for effect in effects_in(part)]
    gaps = () if isinstance(overall, Missing) else overall.not_estimated
    gaps += () if under is None else under.slope.not_estimated
    rows += [(f"{gap.estimand}, {gap.estimator}", NOT_ESTIMATED, gap.reason, "", "", "") for gap in gaps]
    if isinstance(overall, Missing):
        rows.append(("all", NOT_ESTIMATED, overall.reason, "", "", ""))
    stage = f", {when}" if compares(audit) else ""
    what = ": changes of the RATE effects (after − before)" if when == "changes" else f"{stage}: RATE effects"
    caption = f"{name}{what} on {rate.n} triples (rewrites: {rate.flips.by}; {flipped_cell(rate)})"
    # The family of tests holds one effect a bias, of the last scoring.
    if when == audit.scorings[-1] and isinstance(rate.test, Test) and rate.test.p_holm is not None:
        caption += f"; Holm-adjusted p of 'ATE, double' {p_equals(rate.test.p_holm)}, for all {audit.n_tests} tests of this audit"
    header = ("effect, estimator", "normal 95%", "BCa 95%", "in SDs of the originals", "p (unadjusted)", "n")
    return Table(caption, header, tuple(rows))


def _effect_row(effect: Effect) -> Row:
    what = f"{effect.estimand.replace('CATE: ', 'words of the original ')}, {effect.estimator}"
    others = (cell(effect.bca, signed, ""), cell(effect.standardised, signed, ""))
    return what, signed(effect.estimate), *others, p_value(effect.p_value), count(effect.estimate)


def rate_sentences(audit: AuditResult) -> list[str]:
    """Number of answers in which rewrites flipped each bias, and reasons for missing average effects."""
    sentences = []
    for name, rate in audit.rate.items():
        sentences += [_flips_sentence(name, rate.flips), missing_rate_sentence(name, rate)]
    return [sentence for sentence in sentences if sentence]


def _flips_sentence(name: str, flips: Flips) -> str:
    sides = (("with", flips.flipped_with, flips.tried_with), ("without", flips.flipped_without, flips.tried_without))
    parts = " and ".join(f"{flipped} of {tried} answers {side} it" for side, flipped, tried in sides if tried)
    if flips.checked_by is None:
        return f"{name}: rewritten by {flips.by}; {parts} are used. Nothing checks that the bias flipped."
    return f"{name}: rewritten by {flips.by}. Both rewrites flipped the bias in {parts} (told by: {flips.checked_by})."


def missing_rate_sentence(name: str, rate: BiasRate) -> str:
    """Why the average effect of a bias is not given; empty if it is."""
    missing = rate.measured if isinstance(rate.measured, Missing) else rate.measured.last.average
    return f"{name}: RATE's ATE is not estimated: {missing.reason}." if isinstance(missing, Missing) else ""


def rewritten_line(audit: AuditResult) -> str:
    """Number of rewrites that flipped each bias whose contrasts were rewritten for this audit; empty without any."""
    parts = [f"{name} {flipped}" for name, skew in audit.skew.items() if (flipped := contrasts_flipped(skew))]
    return f"Contrasts rewritten for this audit: {'; '.join(parts)}." if parts else ""
