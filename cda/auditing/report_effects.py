"""Tables of effects: direct contrasts and whether pairs identify them, drift between sides, RATE."""

from __future__ import annotations

from cda.auditing.report_rate_cells import effects_in, flipped_cell, flips_sentence, gap_sentence
from cda.auditing.report_tables import compares, tested_cells
from cda.auditing.report_verdict import drift_sentence
from cda.report.numbers import NOT_ESTIMATED, count, in_each, p_value, share, signed
from cda.report.tables import Table
from cda.results.audit import AuditResult
from cda.results.base import Estimate, Missing, Test
from cda.results.effects import Adjusted, BiasDrift, Effect, Form, NotIdentified, PairsEffect, SameMargin
from cda.results.rate import BiasRate, RateEffects

_FORMS: dict[Form, str] = {"linear": "linear", "log_ratio": "log ratio"}


def effects_table(audit: AuditResult) -> Table:
    """Mean margins: of pairs alike in all else first, then adjusted for drift, then as they are; test and verdict."""
    rows = []
    for name, one in audit.effects.items():
        for when, under in one.items():
            found, direct = under.identification, under.direct
            label = f"{name}, {when}" if compares(audit) else name
            everything = [_of_all(direct)]
            if not compares(audit):
                everything += tested_cells(one.test)
            if isinstance(direct, SameMargin):
                rows.append((label, "", "", "", "", *everything, "identified" if direct.value else "none shown"))
                continue
            if isinstance(found, Missing):
                rows.append((label, found.reason, "", "", "", *everything, NOT_ESTIMATED))
                continue
            adjusted = [_adjusted(found.adjusted.get(form)) for form in _FORMS]
            rows.append(
                (label, _alike(found.overlap_effect), f"{found.overlap.n} of {found.overlap.n_total}", *adjusted, *everything,
                 "not identified from these pairs" if drift_sentence(name, audit) else found.verdict)
            )  # fmt: skip
    unit = next(iter(audit.effects.values())).unit
    tests = () if compares(audit) else ("p, all pairs", "p (Holm)")
    header = ("bias", "among like pairs", "like pairs", *(f"adjusted, {form}" for form in _FORMS.values()),
              "all pairs", *tests, "the effect is")  # fmt: skip
    return Table(f"Mean margin ({unit}) of direct contrasts, with 95% intervals", header, tuple(rows))


def identification_sentences(audit: AuditResult) -> list[str]:
    """Why an effect is identified or not, one sentence a bias (of the last scoring: drift is the same for all)."""
    found = []
    for name, one in audit.effects.items():
        last = one.before if isinstance(one.after, Missing) else one.after
        if isinstance(last.direct, SameMargin) and last.direct.value:
            found.append(f"{name}: the margin is the same in every pair, whatever else differs between the sides.")
        elif isinstance(last.identification, NotIdentified):
            found.append(f"{name}: {last.identification.verdict}: {last.identification.reason}")
        elif may_be_drift := drift_sentence(name, audit):
            found.append(f"{name}: not identified from these pairs. {may_be_drift}")
    return found


def drift_tables(audit: AuditResult) -> list[Table]:
    """For each bias, what else differs between the two sides."""
    return [table for name, one in audit.drift.items() for table in _drift(name, one)]


def _drift(name: str, one: BiasDrift) -> list[Table]:
    rows = []
    for found in () if isinstance(one.features, Missing) else one.features:
        label = found.feature.replace("_", " ") + (" (the bias itself)" if found.is_treatment else "")
        rows.append((label, f"{found.base_mean:.2f}", f"{found.perturbed_mean:.2f}", signed(found.difference),
                     "" if found.standardised is None else signed(found.standardised),
                     "" if found.median_ratio is None else f"{found.median_ratio:.2f}",
                     "" if found.beyond is None else share(found.beyond)))  # fmt: skip
    for other, label_drift in one.labels.items():
        cell = label_drift.reason if isinstance(label_drift, Missing) else _points(label_drift)
        rows.append((f"labelled {other}", "", "", cell, "", "", ""))
    if isinstance(one.similarity, Estimate):
        rows.append(("cosine of embeddings", "", "", signed(one.similarity), "", "", ""))
    header = ("feature", "base", "perturbed", "perturbed − base", "in SDs", "median ratio", "pairs beyond the limit")
    return [Table(f"{name}: what differs between the sides of {one.n} contrasts", header, tuple(rows))] if rows else []


def rate_tables(audit: AuditResult) -> list[Table]:
    """For each bias with triples, every effect by every estimator."""
    tables = []
    for name, one in audit.rate.items():
        tables += [_rate(name, one, when, audit) for when in one.under()]
        tables += [_rate(name, one, "changes", audit)] if one.under() and compares(audit) else []
    return tables


def rate_sentences(audit: AuditResult) -> list[str]:
    """For each bias, in how many answers the rewrites flipped it, and why its average effect is not given."""
    found = []
    for name, one in audit.rate.items():
        found += [flips_sentence(name, one.flips), gap_sentence(name, one)]
    return [sentence for sentence in found if sentence]


def _rate(name: str, one: BiasRate, when: str, audit: AuditResult) -> Table:
    under = one.under().get(when)
    overall: RateEffects | Missing = one.changes if under is None else under.overall
    found = (overall, *((under.by_length, under.slope) if under is not None else ()))
    rows = []
    for effect in (one for part in found for one in effects_in(part)):
        bca = "" if isinstance(effect.bca, Missing) else signed(effect.bca)
        scaled = "" if isinstance(effect.standardised, Missing) else signed(effect.standardised)
        what = f"{effect.estimand.replace('CATE: ', 'words of the original ')}, {effect.estimator}"
        rows.append((what, signed(effect.estimate), bca, scaled, p_value(effect.p_value), count(effect.estimate)))
    gaps = () if isinstance(overall, Missing) else overall.not_estimated
    rows += [(f"{gap.estimand}, {gap.estimator}", NOT_ESTIMATED, gap.reason, "", "", "")
             for gap in (*gaps, *(() if under is None else under.slope.not_estimated))]  # fmt: skip
    if isinstance(overall, Missing):
        rows.append(("all", NOT_ESTIMATED, overall.reason, "", "", ""))
    stage = f", {when}" if compares(audit) else ""
    what = "changes of the RATE effects (after − before)" if when == "changes" else "RATE effects"
    caption = f"{name}{'' if when == 'changes' else stage}: {what} on {one.n} triples (rewrites: {one.flips.by}; {flipped_cell(one)})"
    # The family of tests holds one effect a bias, of the last scoring.
    if when == audit.scorings[-1] and isinstance(one.test, Test) and one.test.p_holm is not None:
        adjusted = p_value(one.test.p_holm)
        caption += (
            f"; Holm-adjusted p of 'ATE, double' {adjusted if adjusted.startswith('<') else f'= {adjusted}'}, "
            f"for all {audit.n_tests} tests of this audit"
        )
    header = ("effect, estimator", "normal 95%", "BCa 95%", "in SDs of the originals", "p (unadjusted)", "n")
    return Table(caption, header, tuple(rows))


def _of_all(direct: Effect | SameMargin | Missing) -> str:
    if isinstance(direct, SameMargin):
        return in_each(direct.value)
    return direct.reason if isinstance(direct, Missing) else signed(direct.estimate)


def _alike(among: PairsEffect | SameMargin | Missing) -> str:
    if isinstance(among, SameMargin):
        return in_each(among.value)
    return NOT_ESTIMATED if isinstance(among, Missing) else signed(among.mean_margin)


def _adjusted(one: Adjusted | Missing | None) -> str:
    return signed(one.effect) if isinstance(one, Adjusted) else NOT_ESTIMATED


def _points(label: Estimate) -> str:
    return f"{100 * label.value:+.0f} [{100 * label.low:+.0f}, {100 * label.high:+.0f}] points".replace("-", "−")
