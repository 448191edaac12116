"""The numbers of results: of an audit, of a row that is shared, of a comparison, a leaderboard and a panel."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import singledispatch
from typing import Any

from cda.numbers.measures import MEASURES, by_moment, of_audits, of_place, test_of_change
from cda.numbers.number import Number, Numbers
from cda.results.audit import AuditResult
from cda.results.base import Estimate, Missing, PerScoring, Result
from cda.results.panel import (
    ComparisonResult,
    LeaderboardResult,
    LeaderboardRow,
    ModelBias,
    ModelRanks,
    PanelBias,
    PanelMean,
    PanelResult,
    RankedGroup,
)
from cda.results.skew import OverSeeds, Plain


@singledispatch
def numbers_in(_result: object) -> Numbers:
    """The numbers of a result, of those kinds that are made of audits; none of others."""
    return Numbers()


@numbers_in.register(AuditResult)
@numbers_in.register(Plain)
def _of_audit(audit: AuditResult | Plain) -> Numbers:
    return Numbers(
        Number(key, moment, {"bias": bias} if bias else {}, found, measure.tested(audit, bias, moment))
        for key, measure in of_audits().items()
        for bias in (audit.skew if measure.of_bias else [""])
        for moment, found in measure.moments(audit, bias).items()
    )


def seed_numbers(audit: AuditResult) -> Iterator[tuple[str, str, OverSeeds | Missing]]:
    """AuditMeasure, bias and result over several trainings."""
    for key, measure in MEASURES.items() if audit.seeds and audit.seeds.several else ():
        found = getattr(audit.seeds, measure.shown_as.get("row", key) if not measure.of_bias else key, None)
        by_bias = found if isinstance(found, Mapping) else {"": found} if found is not None else {}
        yield from ((key, bias, each) for bias, each in by_bias.items())


@numbers_in.register
def _of_row(row: LeaderboardRow) -> Numbers:
    return Numbers(_in_row(row, {}))


def _in_row(row: LeaderboardRow, at: Mapping[str, str]) -> Iterator[Number]:
    for key, measure in of_place("row").items():
        parts: Mapping[str, Result] = row.biases if measure.of_bias else {"": row}
        for bias, part in parts.items():
            if (found := getattr(part, measure.shown_as.get("row", key), None)) is not None:
                yield Number(
                    key, "after" if row.training else "model", {**at, **({"bias": bias} if bias else {})}, found
                )


@numbers_in.register
def _of_comparison(result: ComparisonResult) -> Numbers:
    return Numbers(number for name, row in result.audits.items() for number in _in_row(row, {"audit": name}))


@numbers_in.register
def _of_group(group: RankedGroup) -> Numbers:
    return Numbers(number for entry in group.entries for number in _in_row(entry.row, {"audit": entry.file}))


@numbers_in.register
def _of_leaderboard(result: LeaderboardResult) -> Numbers:
    return Numbers(number for group in result.groups for number in _of_group(group))


IN_PANEL = {
    "human_skew": "human_skew", "skew_on_voted": "skew", "signed_gap": "distance", "miscalibration": "miscalibration",
}  # fmt: skip
"""Measures that need votes to their fields in a panel's result."""


def in_panel(part: ModelBias | PanelMean | None) -> dict[str, Estimate]:
    """The measures of a model, or of the mean over models, on one bias."""
    if part is None:
        return {}
    people = {key: getattr(part.people, name) for key, name in IN_PANEL.items()} if part.people else {}
    more = {key: each for key, each in (part.model_extra or {}).items() if isinstance(each, Estimate)}
    return {"skew": part.skew, **people, **more}


def _mean_name(mean: PanelMean, of: PanelBias) -> str:
    return f"mean of {len(mean.models)}" + (f" ({', '.join(mean.models)})" if len(of.means) > 1 else "")


@numbers_in.register
def _of_panel(result: PanelResult) -> Numbers:
    return Numbers([*_of_models(result), *_of_trainings(result)])


def _of_models(result: PanelResult) -> Iterator[Number]:
    for panel in result.panels:
        for bias, found in panel.biases.items():
            at = {"kind": panel.kind, "bias": bias}
            for name in panel.models:
                own, ranks = in_panel(result.models[name].biases.get(bias)), found.ranks.get(name)
                if isinstance(ranks, ModelRanks):
                    by = {"rank_by_skew": ranks.skew, "rank_by_distance": ranks.distance}
                    own |= {key: rank for key, rank in by.items() if rank is not None}
                yield from (Number(key, "model", {**at, "model": name}, each) for key, each in own.items())
            for mean in found.means:
                of = {**at, "model": _mean_name(mean, found), "models": str(len(mean.models))}
                yield from (Number(key, "model", of, each) for key, each in in_panel(mean).items())
        for name in panel.models:
            if (quality := result.models[name].quality) is not None:
                yield Number("accuracy", "model", {"kind": panel.kind, "model": name}, quality)


def _of_trainings(result: PanelResult) -> Iterator[Number]:
    for name, training in result.trainings.items():
        parts: list[tuple[dict[str, str], dict[str, PerScoring[Any] | None]]] = [
            ({"bias": bias}, {"skew": part.skew, "miscalibration": part.miscalibration, "signed_gap": part.distance}
             | (part.model_extra or {}))
            for bias, part in training.biases.items()
        ]  # fmt: skip
        parts.append(({}, {"accuracy": training.quality}))
        for at, measured in parts:
            for key, found in measured.items():
                of = {**at, "kind": "training", "training": name}
                for moment, each in by_moment(found).items() if found else ():
                    yield Number(key, moment, of, each, test_of_change(found) if moment == "change" else None)
