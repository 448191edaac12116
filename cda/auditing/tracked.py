"""The numbers of an audit by stable names: for experiment trackers, and for the metadata of a model card."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from cda.results.audit import AuditResult
from cda.results.base import Estimate, Measure, Missing
from cda.results.effects import Effect, average_of
from cda.results.skew import OverSeeds, Plain

PREFIX = "cda"


@dataclass(frozen=True, slots=True)
class Number:
    """One number of an audit: the measure (`skew`, `human_skew`, `miscalibration`, `ate`, `quality_accuracy`), its bias if it
    is of one, and `before`, `after` or `change`."""

    measure: str
    bias: str | None
    when: str
    estimate: Estimate

    @property
    def name(self) -> str:
        """Such as `cda/skew/jargon/after`."""
        return "/".join(part for part in (PREFIX, self.measure, self.bias, self.when) if part)

    @property
    def words(self) -> str:
        """Such as `skew of jargon`."""
        what = "RATE ATE" if self.measure == "ate" else self.measure.replace("_", " ")
        return what if self.bias is None else f"{what} of {self.bias}"


def audit_numbers(audit: AuditResult) -> list[Number]:
    """Every bias's skew, ATE and, with votes, human skew and miscalibration, then quality: before and after a training, and the
    paired change. Estimates that are missing are left out."""
    numbers = share_numbers(audit)
    for name, votes in audit.votes.items():
        numbers.append(Number("human_skew", name, "before", votes.human_skew))
    for name, rate in audit.rate.items():
        found = {when: scored.average for when, scored in rate.under().items()} | {"change": average_of(rate.changes)}
        numbers += [
            Number("ate", name, when, effect.estimate) for when, effect in found.items() if isinstance(effect, Effect)
        ]
    return numbers


def share_numbers(result: AuditResult | Plain) -> list[Number]:
    """Skew, miscalibration and quality accuracy of an audit, or of plain CDA's part of it."""
    measures: list[tuple[str, str | None, Measure]] = [("skew", name, skew) for name, skew in result.skew.items()]
    measures += [("miscalibration", name, votes.miscalibration) for name, votes in result.votes.items()]
    measures += [] if result.quality is None else [("quality_accuracy", None, result.quality)]
    return [Number(what, bias, when, found) for what, bias, measure in measures for when, found in _known(measure)]


def _known(measure: Measure) -> Iterator[tuple[str, Estimate]]:
    for when, found in (*measure.items(), ("change", measure.change)):
        if isinstance(found, Estimate):
            yield when, found


def as_metrics(audit: AuditResult) -> dict[str, float]:
    """The numbers of an audit's result for a tracker: each with the ends of its 95% interval and its n, and the dose; with
    several trainings the means over them and their spread too."""
    metrics: dict[str, float] = {} if audit.dose_applied is None else {f"{PREFIX}/dose": audit.dose_applied}
    for number in audit_numbers(audit):
        metrics |= _with_interval(number.name, number.estimate)
    for measure, by_bias in _over_seeds(audit).items():
        for bias, over in by_bias.items():
            name = "/".join(part for part in (PREFIX, "seeds", measure, bias) if part)
            metrics |= _with_interval(f"{name}/after", over.after) | _with_interval(f"{name}/change", over.change)
            metrics[f"{name}/sd"] = over.sd
    return metrics


def seed_metrics(audit: AuditResult, at: int) -> dict[str, float]:
    """The numbers after one of several trainings, by its place among the seeds; they have no interval by themselves."""
    metrics = {f"{PREFIX}/dose": audit.seeds.doses[at]} if audit.seeds and audit.seeds.doses else {}
    for measure, by_bias in _over_seeds(audit).items():
        for bias, over in by_bias.items():
            metrics["/".join(part for part in (PREFIX, measure, bias, "after") if part)] = over.by_seed[at]
    return metrics


def _with_interval(name: str, found: Estimate) -> dict[str, float]:
    return {name: found.value, f"{name}_low": found.low, f"{name}_high": found.high, f"{name}_n": float(found.n)}


def _over_seeds(audit: AuditResult) -> Mapping[str, Mapping[str, OverSeeds]]:
    if audit.seeds is None or not audit.seeds.several:
        return {}
    seeds = audit.seeds
    quality: Mapping[str, OverSeeds | Missing | None] = {"": seeds.quality}
    found: dict[str, Mapping[str, OverSeeds | Missing | None]] = {
        "skew": dict(seeds.skew), "miscalibration": dict(seeds.miscalibration), "ate": dict(seeds.rate),
        "quality_accuracy": quality,
    }  # fmt: skip
    return {
        measure: {bias: over for bias, over in by_bias.items() if isinstance(over, OverSeeds)}
        for measure, by_bias in found.items()
    }
