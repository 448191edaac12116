"""What the words about a training rest on, read off its audit: changes, their tests, and quality."""

from __future__ import annotations

from cda.metrics.verdict import AgainstPeople, Evidence, Loss, Moved, quality_loss
from cda.report.numbers import Json
from cda.results.audit import AuditResult
from cda.results.base import Estimate


def applied(audit: AuditResult) -> float:
    """The dose that `after` is of."""
    dose = audit.dose_applied
    return 1.0 if dose is None else float(dose)


def held_out(name: str, audit: AuditResult) -> Json | None:
    """What choosing the dose does to a bias on contrasts without a say in it; None where it had no say, or none was chosen."""
    found: Json | None = dose_method(audit).get("held_out", {}).get(name)
    return found


def dose_method(audit: AuditResult) -> Json:
    """How the adapter at a chosen dose does; empty where no dose was chosen."""
    found: Json = (audit.get("dose") or {}).get("methods", {}).get("dose", {})
    return found


def quality_change(audit: AuditResult) -> tuple[Json, bool]:
    """The change of quality accuracy that decides, and whether it is held out: a dose is chosen by quality, too."""
    held = next(iter(dose_method(audit).get("held_out", {}).values()), None)
    change = held and held["against_base"]["quality"]
    return (change, True) if change else (audit["quality"]["change"], False)


def loss_of_quality(audit: AuditResult) -> Loss | None:
    """Of the change that decides; None where quality was not measured, or not twice."""
    if "change" not in (audit["quality"] or {}):
        return None
    change, _ = quality_change(audit)
    return quality_loss(change["low"], change["high"])


def evidence_of(name: str, audit: AuditResult) -> Evidence:
    """Changes of a bias; held out where the same contrasts chose the dose."""
    skew, votes = audit["skew"][name], audit["votes"].get(name)
    mean = _margin_beyond_noise(name, audit)
    held = held_out(name, audit)
    if held is not None and audit["dose"]["aim"] == "tie":
        return Evidence(_held_out_moved("skew", held, skew), None, True, mean)
    people = None
    if votes is not None and held is not None:
        people = AgainstPeople(
            _held_out_moved("miscalibration", held, votes["miscalibration"]),
            _held_out_moved("skew", held, votes["skew_on_voted"]),
            held["people"]["human_skew"]["value"],
            held["against_base"]["gap"]["low"] > 0,
        )
    elif votes is not None:
        people = AgainstPeople(
            _moved(votes["miscalibration"]),
            _moved(votes["skew_on_voted"]),
            votes["human_skew"]["value"],
            votes["gap"]["change"]["low"] > 0,
        )
    return Evidence(_moved(skew), people, people is None and audit.aim == "tie" and skew["target"], mean)


def _margin_beyond_noise(name: str, audit: AuditResult) -> Estimate | None:
    found = audit.get("beyond_noise", {}).get(name, {"missing": ""})
    return None if "missing" in found else Estimate(**found)


def _held_out_moved(what: str, held: Json, tested: Json) -> Moved:
    """The held-out change, with the test of the contrasts that chose the dose: no test of held-out rows is made."""
    change, after = held["against_base"][what], held["people"][what]
    return Moved(
        held["base"][what]["value"], after["value"], change["low"], change["high"], tested["p_holm"], after["low"],
        after["high"],
    )  # fmt: skip


def _moved(change: Json) -> Moved:
    interval, after = change["change"], change["after"]
    return Moved(
        change["before"]["value"], after["value"], interval["low"], interval["high"], change["p_holm"], after["low"],
        after["high"],
    )  # fmt: skip
