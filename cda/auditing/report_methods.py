"""Which method made each interval and each test: one row a measure, read off the audit's own words."""

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
    """A row: parts of the audit that hold its intervals, those of its change, and its test."""

    name: str
    intervals: Sequence[object]
    changes: Sequence[object]
    tests: list[str]


def method_table(audit: AuditResult) -> Table:
    """How each interval and each test was made."""
    rows = []
    for measure in _measures(audit):
        found = [_joined(methods_of(measure.intervals)), _joined(measure.tests)]
        if compares(audit):
            found.insert(1, _joined(methods_of(measure.changes)))
        if any(found):
            rows.append((measure.name, *found))
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
        for one in value.values():
            yield from methods_of(one)
    elif isinstance(value, list | tuple):
        for one in value:
            yield from methods_of(one)


def _measures(audit: AuditResult) -> list[_Measure]:
    return [
        *_shares(audit),
        *_over_seeds(audit),
        *_people(audit),
        *_paper(audit),
        *_effects(audit),
        *_rate(audit),
        *_data(audit),
        *_drift(audit),
        *_dose(audit),
    ]


def _shares(audit: AuditResult) -> list[_Measure]:
    skew, unseen = list(audit.skew.values()), _found(one.skew for one in audit.unseen_phrases.values())
    directions = [share for one in skew for share in one.by_direction.values()]
    quality = [audit.quality] if audit.quality else []
    panels = [one for panel in audit.panel.values() for one in (*panel.judges.values(), panel.panel, panel.mean)]
    judged = [share for one in panels for share in (one.skew, one.miscalibration)]
    papers = [one.unpaired for one in (*skew, *directions, *quality, *unseen)]
    return [
        _of_measures("skew", skew),
        _of_measures("skew by direction", directions, tested=False),
        _Measure("skew and miscalibration by judge", judged, [], []),
        _of_measures("skew without any phrase that training could show", unseen, tested=False),
        _of_measures("skew (triples)", _found(one.skew for one in audit.triple_skew.values()), tested=False),
        _of_measures("quality accuracy", quality),
        *_by_section(audit),
        _Measure("change of skew, unpaired", [], papers, []),
    ]


def _over_seeds(audit: AuditResult) -> list[_Measure]:
    found = audit.seeds
    if found is None:
        return []
    measured = (found.skew, found.miscalibration, found.triple_skew, found.rate)
    each = [one for own in (*measured, {"": found.quality}) for one in own.values() if isinstance(one, OverSeeds)]
    return [_Measure("means over trainings", [one.after for one in each], [one.change for one in each], [])]


def _by_section(audit: AuditResult) -> list[_Measure]:
    found = audit.quality_sections
    if found is None:
        return []
    groups = [found.overall, *found.sections, *found.subsets]
    shifts = [group.shift for group in groups if group.shift is not None]
    return [
        _Measure(
            "accuracy by section",
            [score.estimate for group in groups for score in group.scores.values()],
            [shift.estimate for shift in shifts],
            [shift.p_method for shift in shifts],
        )
    ]


def _people(audit: AuditResult) -> list[_Measure]:
    votes = list(audit.votes.values())
    aucs = [one.auc for one in votes if isinstance(one.auc, BeforeAfter)]
    agreed = [one.agreement for one in votes if isinstance(one.agreement, Agreement)]
    powered = [one.prediction_powered for one in votes if isinstance(one.prediction_powered, PoweredVotes)]
    shares = [
        one.share
        for each in powered
        for one in (each.human_skew, *(missed for _, missed in each.miscalibration.items()))
        if isinstance(one, PoweredShare)
    ]
    tests = [one.gap_test.method for one in votes if one.gap_test is not None]
    moved = [one.skew_on_voted.change for one in votes]
    return [
        _Measure("human skew", [one.human_skew for one in votes], [], []),
        _of_measures("skew on voted contrasts", [one.skew_on_voted for one in votes]),
        _of_measures("miscalibration", [one.miscalibration for one in votes]),
        _Measure("gap", _each(one.gap for one in votes), [one.gap.change for one in votes], []),
        _Measure("skew − human skew", _each(one.signed_gap for one in votes), moved, tests),
        _Measure("AUC of the margin", _each(aucs), [one.change for one in aucs], []),
        _Measure("people's mean majority share", [one.majority_share for one in agreed], [], []),
        _Measure("Krippendorff's alpha", [one.alpha for one in agreed], [], []),
        _Measure("miscalibration of a second majority", [one.noise_ceiling for one in votes], [], []),
        _Measure("shares with judges' verdicts", [one.estimate for one in shares], [], []),
        _Measure("the same from votes alone", [one.classical for one in shares], [], []),
    ]


def _each(parts: Iterable[PerScoring[Any]]) -> list[object]:
    """What each holds under every scoring."""
    return [one for part in parts for _, one in part.items()]


def _paper(audit: AuditResult) -> list[_Measure]:
    biases = [] if audit.paper is None else list(audit.paper.biases.values())
    people = [one.people for one in biases if isinstance(one.people, PaperPeople)]
    models = [one for each in people for one in (*each.models.values(), *([each.mean] if each.mean else []))]
    moved = [share for one in models for share in (one.skew, one.miscalibration) if isinstance(share, PaperShare)]
    said = [share for each in people for one in each.judges.values() for share in (one.skew, one.miscalibration)]
    name = "skew and miscalibration of the paper's models and judges"
    return [
        _Measure(
            name, [*(end for one in moved for end in (one.before, one.after)), *said], [one.change for one in moved], []
        ),
        _Measure("the paper's labels of its training sample", [one.labels for one in biases if one.labels], [], []),
    ]


def _effects(audit: AuditResult) -> list[_Measure]:
    each = list(audit.effects.values())
    scored = [found for one in each for _, found in one.items()]
    direct = [one.direct for one in scored if isinstance(one.direct, Effect)]
    known = [one.identification for one in scored if not isinstance(one.identification, Missing)]
    alike = [one.overlap_effect for one in known if isinstance(one.overlap_effect, PairsEffect)]
    everything = [one.unadjusted for one in known]
    tests = [one.test.method for one in each if not isinstance(one.test, Missing)]
    return [
        _Measure("mean margin of all pairs", [one.estimate for one in direct], [one.change for one in each], tests),
        _Measure("mean margin beyond noise", [], list(audit.beyond_noise.values()), []),
        _Measure("mean margin among like pairs", [one.mean_margin for one in alike], [], []),
        _Measure("mean margin, adjusted", [one.adjusted for one in known], [], []),
        _Measure("mean margin of all pairs once more, in audit.json only",
                 [*(one.bca for one in direct), *(one.mean_margin for one in everything)], [], []),
        _Measure("share of like pairs and skew among pairs, in audit.json only",
                 [*(one.overlap for one in known), *(one.skew for one in (*alike, *everything))], [], []),
    ]  # fmt: skip


def _rate(audit: AuditResult) -> list[_Measure]:
    each = list(audit.rate.values())
    changes = [effect for one in each for effect in effects_in(one.changes)]
    effects = [effect for one in each for found in one.under().values()
               for part in (found.overall, found.by_length, found.slope) for effect in effects_in(part)]  # fmt: skip
    effects += changes
    tests = [NORMAL_TEST] if effects else []
    return [
        _Measure("RATE effects", [one.estimate for one in effects], [one.estimate for one in changes], tests),
        _Measure("RATE effects, BCa", [one.bca for one in effects], [], []),
        _Measure("RATE effects in SDs", [one.standardised for one in effects], [], []),
    ]


def _data(audit: AuditResult) -> list[_Measure]:
    each = list(audit.analysis.values())
    labels = [one.labels for one in each if one.labels]
    correlations = [*(one.r_train for one in labels), *(one.correlation for one in each)]
    return [
        _Measure("rates of the bias in the training data", [one.contingency for one in labels], [], []),
        _Measure("correlations", correlations, [], []),
        _Measure("rewards with and without the attribute", [one.observational for one in each], [], []),
    ]


def _drift(audit: AuditResult) -> list[_Measure]:
    each = list(audit.drift.values())
    features = [found for one in each if not isinstance(one.features, Missing) for found in one.features]
    names: dict[str, list[object]] = {
        "differences between the sides": [
            part for found in features for part in (found.difference, found.standardised)
        ],
        "pairs beyond the limit": [found.beyond for found in features],
        "labels that differ between the sides": [one.labels for one in each],
        "cosine of embeddings": [one.similarity for one in each],
    }
    return [_Measure(name, parts, [], []) for name, parts in names.items()]


def _dose(audit: AuditResult) -> list[_Measure]:
    methods = [] if audit.dose is None else list(audit.dose.methods.values())
    held = [one for method in methods for one in method.held_out.values()]
    points = [point for method in methods for rows in method.response.values() for point in rows]
    return [
        _Measure(
            "a chosen dose, held out",
            [one.people for one in held],
            [change for one in held for change in (one.against_base, one.against_plain)],
            [],
        ),
        _Measure(
            "doses 0 and 1 on the same halves", [people for one in held for people in (one.base, one.plain)], [], []
        ),
        _Measure("quality at a chosen dose, held out", [method.quality for method in methods], [], []),
        _Measure(
            "dose–response",
            [part for point in points for part in (point.people, point.quality)],
            [point.quality_change for point in points],
            [],
        ),
    ]


def _of_measures(name: str, parts: Sequence[Measure], tested: bool = True) -> _Measure:
    """A measure under each scoring, and where there are two their change and its test."""
    tests = [one.test.method for one in parts if tested and isinstance(one.test, Test)]
    return _Measure(name, [share for one in parts for _, share in one.items()], [one.change for one in parts], tests)


def _found(parts: Iterable[Measure | Missing]) -> list[Measure]:
    return [one for one in parts if isinstance(one, Measure)]


def _joined(names: Iterable[str]) -> str:
    return "; ".join(dict.fromkeys(names))
