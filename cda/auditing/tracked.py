"""The numbers of an audit by stable names: for experiment trackers, and for the metadata of a model card."""

from __future__ import annotations

from collections.abc import Iterator

from cda.numbers.measures import MEASURES, of_place
from cda.numbers.views import numbers_in, seed_numbers
from cda.results.audit import AuditResult
from cda.results.base import Estimate, Number
from cda.results.skew import OverSeeds, Plain

PREFIX = "cda"


def tracker_name(key: str, bias: str, *after: str) -> str:
    """Name of a number in trackers, such as `cda/skew/jargon/after`."""
    return "/".join(part for part in (PREFIX, MEASURES[key].shown_as.get("tracker", key), bias, *after) if part)


def tracked_numbers(result: AuditResult | Plain) -> list[tuple[Number, Estimate]]:
    """The numbers of an audit, or of plain CDA's part of it, that trackers and model cards have; missing ones are left out."""
    numbers = [number for number in numbers_in(result) if number.measure in of_place("tracker")]
    return [(number, number.found) for number in numbers if isinstance(number.found, Estimate)]


def as_metrics(audit: AuditResult) -> dict[str, float]:
    """The numbers of an audit's result for a tracker: each with the ends of its 95% interval and its n, and the dose; with
    several trainings the means over them and their spread too."""
    metrics: dict[str, float] = {} if audit.dose_applied is None else {f"{PREFIX}/dose": audit.dose_applied}
    for number, found in tracked_numbers(audit):
        metrics |= _with_interval(tracker_name(number.measure, number.at.get("bias", ""), number.moment), found)
    for key, bias, over in _over_seeds(audit):
        name = tracker_name(key, bias).replace("/", "/seeds/", 1)
        metrics |= _with_interval(f"{name}/after", over.after) | _with_interval(f"{name}/change", over.change)
        metrics[f"{name}/sd"] = over.sd
    return metrics


def seed_metrics(audit: AuditResult, at: int) -> dict[str, float]:
    """The numbers after one of several trainings, by its place among the seeds; they have no interval by themselves."""
    metrics = {f"{PREFIX}/dose": audit.seeds.doses[at]} if audit.seeds and audit.seeds.doses else {}
    return metrics | {tracker_name(key, bias, "after"): over.by_seed[at] for key, bias, over in _over_seeds(audit)}


def _with_interval(name: str, found: Estimate) -> dict[str, float]:
    return {name: found.value, f"{name}_low": found.low, f"{name}_high": found.high, f"{name}_n": float(found.n)}


def _over_seeds(audit: AuditResult) -> Iterator[tuple[str, str, OverSeeds]]:
    for key, bias, over in seed_numbers(audit):
        if key in of_place("tracker") and isinstance(over, OverSeeds):
            yield key, bias, over
