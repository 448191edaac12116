"""Every number of `cda best-of` as one CSV: a row for each attribute, policy and scoring."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator, Mapping

from cda.inert import visible
from cda.results.base import Estimate, Missing
from cda.results.benchmarks import BestOfResult, Curve, Measured, Tilt, TiltedAttribute, TiltedPolicy

COLUMNS = (
    "policy", "attribute", "kind", "unit", "scoring", "n", "beta", "beta_sd", "kl_nats", "effective_responses",
    "value", "low", "high", "n_responses", "n_prompts", "note",
)  # fmt: skip


def best_of_n_csv(result: BestOfResult) -> str:
    """Levels of best-of-n over the prompts that reach the largest n, then of the tilted policies, with 95% intervals. The
    scoring of a change is `change`; a note says why there is no value or no interval."""
    file = io.StringIO()
    writer = csv.DictWriter(file, COLUMNS, lineterminator="\n")
    writer.writeheader()
    for curve in result.curves:
        writer.writerows(_best_of_rows(curve))
    if not isinstance(result.tilt, Missing):
        for attribute in result.tilt.followed:
            writer.writerows(_tilted_rows(attribute, result.tilt))
    return file.getvalue()


def _best_of_rows(curve: Curve) -> Iterator[dict[str, object]]:
    for at in curve.at:
        for scoring, level in at.complete.items():
            own = {"policy": "best of n", "scoring": scoring, "n": at.n, "kl_nats": at.kl_nats}
            yield own | _named(curve) | _number(level)


def _tilted_rows(attribute: TiltedAttribute, tilt: Tilt) -> Iterator[dict[str, object]]:
    for policies, at in zip(tilt.policies, attribute.at, strict=True):
        for scoring, level in at.scorings.items():
            policy = policies[scoring]
            own = {
                "policy": "tilted", "scoring": scoring, "beta": policy.beta, "beta_sd": policy.beta_sd,
                "effective_responses": policy.effective,
                "kl_nats": "" if isinstance(policy.kl_nats, Missing) else policy.kl_nats.value,
            }  # fmt: skip
            yield own | _named(attribute) | _number(level)
        if at.change is not None:
            yield {"policy": "tilted", "scoring": "change", **_same(policies)} | _named(attribute) | _number(at.change)


def _same(policies: Mapping[str, TiltedPolicy]) -> dict[str, object]:
    """β of a change, in the unit in which it is the same for both scorings."""
    first, second = policies.values()
    return {
        name: getattr(first, name)
        for name in ("beta", "beta_sd")
        if abs(getattr(first, name) - getattr(second, name)) <= 1e-9 * getattr(first, name)
    }


def _named(of: Curve | TiltedAttribute) -> dict[str, object]:
    return {"attribute": visible(of.name), "kind": of.kind, "unit": visible(of.unit)}


def _number(found: Measured | Missing) -> dict[str, object]:
    if isinstance(found, Missing):
        return {"note": found.reason}
    if not isinstance(found, Estimate):
        return {"value": found.value, "note": found.reason}
    return {
        "value": found.value, "low": found.low, "high": found.high, "n_responses": found.n, "n_prompts": found.n_prompts
    }  # fmt: skip
