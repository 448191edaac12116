"""The method behind each interval and each test: one row a measure, read off the audit's own words."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from cda.auditing.report_cells import effects_in
from cda.auditing.report_evidence import compares
from cda.report.tables import Table
from cda.results.audit import AuditResult, PaperPeople, PaperShare
from cda.results.base import BeforeAfter, Measure, Missing, PerScoring, Result, Test
from cda.results.effects import NORMAL_TEST, Effect, PairsEffect
from cda.results.skew import Agreement, OverSeeds, PoweredShare, PoweredVotes

_ROWS_BEHIND_PPI = re.compile(r" from \d+ labelled rows")


@dataclass(frozen=True, slots=True)
class _Measure:
    """A row: parts of the audit that hold its intervals, those of its change, and its tests."""

    name: str
    intervals: Sequence[object] = ()
    changes: Sequence[object] = ()
    tests: Sequence[str] = ()


def method_table(audit: AuditResult) -> Table:
    """Methods of the intervals and tests."""
    parts = (_shares, _over_seeds, _people, _paper, _effects, _rate, _data, _drift, _dose)
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
    skew, unseen = list(audit.skew.values()), _known(unseen.skew for unseen in audit.unseen_phrases.values())
    directions = [share for measure in skew for share in measure.by_direction.values()]
    quality = [audit.quality] if audit.quality else []
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
        shifts = [group.shift for group in groups if group.shift is not None]
        yield _Measure(
            "accuracy by section",
            [score.estimate for group in groups for score in group.scores.values()],
            [shift.estimate for shift in shifts],
            [shift.p_method for shift in shifts],
        )
    unpaired = [measure.unpaired for measure in (*skew, *directions, *quality, *unseen)]
    yield _Measure("change of skew, unpaired", changes=unpaired)


def _over_seeds(audit: AuditResult) -> Iterator[_Measure]:
    if (seeds := audit.seeds) is not None:
        measured = (seeds.skew, seeds.miscalibration, seeds.triple_skew, seeds.rate, {"": seeds.quality})
        each = [measure for own in measured for measure in own.values() if isinstance(measure, OverSeeds)]
        yield _Measure(
            "means over trainings", [measure.after for measure in each], [measure.change for measure in each]
        )


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
    yield _Measure("the paper's labels of its training sample", [bias.labels for bias in biases if bias.labels])


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
    yield _Measure("mean margin of all pairs once more, in audit.json only",
                   [*(effect.bca for effect in direct), *(effect.mean_margin for effect in everything)])  # fmt: skip
    yield _Measure("share of like pairs and skew among pairs, in audit.json only",
                   [*(found.overlap for found in known), *(effect.skew for effect in (*alike, *everything))])  # fmt: skip


def _rate(audit: AuditResult) -> Iterator[_Measure]:
    each = list(audit.rate.values())
    changes = [effect for rate in each for effect in effects_in(rate.changes)]
    effects = [effect for rate in each for scored in rate.under().values()
               for part in (scored.overall, scored.by_length, scored.slope) for effect in effects_in(part)]  # fmt: skip
    effects += changes
    tests = [NORMAL_TEST] if effects else []
    estimates = [effect.estimate for effect in effects]
    yield _Measure("RATE effects", estimates, [effect.estimate for effect in changes], tests)
    yield _Measure("RATE effects, BCa", [effect.bca for effect in effects])
    yield _Measure("RATE effects in SDs", [effect.standardised for effect in effects])


def _data(audit: AuditResult) -> Iterator[_Measure]:
    each = list(audit.analysis.values())
    labels = [analysis.labels for analysis in each if analysis.labels]
    r = [*(rates.r_train for rates in labels), *(analysis.correlation for analysis in each)]
    yield _Measure("rates of the bias in the training data", [rates.contingency for rates in labels])
    yield _Measure("correlations", r)
    yield _Measure("rewards with and without the attribute", [analysis.observational for analysis in each])


def _drift(audit: AuditResult) -> Iterator[_Measure]:
    each = list(audit.drift.values())
    features = [found for drift in each if not isinstance(drift.features, Missing) for found in drift.features]
    sides = [part for found in features for part in (found.difference, found.standardised)]
    yield _Measure("differences between the sides", sides)
    yield _Measure("pairs beyond the limit", [found.beyond for found in features])
    yield _Measure("labels that differ between the sides", [drift.labels for drift in each])
    yield _Measure("cosine of embeddings", [drift.similarity for drift in each])


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
    """A measure under each scoring, and with two its change and its test."""
    tests = [part.test.method for part in parts if tested and isinstance(part.test, Test)]
    return _Measure(name, _each(parts), [part.change for part in parts], tests)


def _each(parts: Iterable[PerScoring[Any]]) -> list[object]:
    """The value of each part under every scoring."""
    return [value for part in parts for _, value in part.items()]


def _known(parts: Iterable[Measure | Missing]) -> list[Measure]:
    return [part for part in parts if isinstance(part, Measure)]
