"""RATE's average effect as cells of the main tables, and in words how many rewrites flipped the bias."""

from __future__ import annotations

from collections.abc import Sequence

from cda.report.numbers import NOT_ESTIMATED, Json, signed
from cda.results.audit import AuditResult
from cda.results.skew import BiasSkew


def average(effects: Json) -> Json | None:
    """The double-rewrite ATE of one scoring, or its change; None if it is not estimated."""
    found = effects.get("effects", ())
    return next((one for one in found if (one["estimand"], one["estimator"]) == ("ATE", "double")), None)


def unit_of(one: Json) -> str:
    """Unit of one bias's effects, in brackets; empty if there is none to say."""
    effects = [effect for part in one.values() if isinstance(part, dict) for effect in part.get("effects", ())]
    return f" ({effects[0]['estimate']['unit']})" if effects else ""


def average_cells(one: Json, scorings: Sequence[str]) -> tuple[str, ...]:
    """The average effect of one bias under every scoring, its change where there are two, and the share flipped."""
    found = [average(one.get(part, {})) for part in (*scorings, *(("changes",) if len(scorings) > 1 else ()))]
    cells = [NOT_ESTIMATED if each is None else signed(each["estimate"]) for each in found]
    if found[0] is None:
        cells = [NOT_ESTIMATED, *[""] * (len(found) - 1)]
    return (*cells, flipped_cell(one))


def flipped_cell(one: Json) -> str:
    """How many originals could be flipped and back, of how many; the triples alone if nobody counted."""
    flips = one.get("flips")
    if flips is None:
        return str(one["n"])
    flipped, tried = _both(flips)
    return f"{flipped} of {tried} flipped" if flips["checked_by"] else f"{flipped} of {tried}, unchecked"


def contrasts_flipped(skew: BiasSkew) -> str:
    """How many rewrites that were to become contrasts flipped the bias; empty for contrasts that were not rewritten here."""
    if not skew.source.startswith("embedded answers rewritten"):
        return ""
    return f"{skew.available} of {skew.available + sum(skew.rewrites_failed.values())} flipped"


def rewritten_line(audit: AuditResult) -> str:
    """The same for every bias whose contrasts were rewritten here, as one sentence; empty without any."""
    found = [f"{name} {flipped}" for name, skew in audit.skew.items() if (flipped := contrasts_flipped(skew))]
    return f"Contrasts rewritten for this audit: {'; '.join(found)}." if found else ""


def flips_sentence(name: str, one: Json) -> str:
    """Who rewrote, in how many answers both rewrites flipped the bias, and who says so."""
    flips = one.get("flips")
    if flips is None:
        return ""
    parts = [
        f"{flips[f'flipped_{side}']} of {flips[f'tried_{side}']} answers {side} it"
        for side in ("with", "without")
        if flips[f"tried_{side}"]
    ]
    if flips["checked_by"] is None:
        return (
            f"{name}: rewritten by {flips['by']}; {' and '.join(parts)} are used. Nothing checks that the bias flipped."
        )
    return (
        f"{name}: rewritten by {flips['by']}. Both rewrites flipped the bias in {' and '.join(parts)} "
        f"(told by: {flips['checked_by']})."
    )


def gap_sentence(name: str, one: Json, scorings: Sequence[str]) -> str:
    """Why the average effect of a bias is not given; empty if it is."""
    last = one.get(scorings[-1], {})
    if average(last) is not None:
        return ""
    gaps = [
        gap["reason"]
        for gap in last.get("not_estimated", ())
        if (gap["estimand"], gap["estimator"]) == ("ATE", "double")
    ]
    reason = one.get("missing") or last.get("missing") or next(iter(gaps), "no triple")
    return f"{name}: RATE's ATE is not estimated: {reason}."


def _both(flips: Json) -> tuple[int, int]:
    return flips["flipped_with"] + flips["flipped_without"], flips["tried_with"] + flips["tried_without"]
