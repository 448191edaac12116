"""An audit as its report reads it: the trained biases and the others, and the evidence behind the verdicts."""

from __future__ import annotations

from typing import Literal

from cda.results.audit import AuditResult
from cda.results.base import Estimate, Measure, Missing
from cda.results.dose import HeldOutBias
from cda.stats.verdict import Evidence, Loss, Moved, PeopleEvidence, quality_loss


def compares(audit: AuditResult) -> bool:
    """True if the audit compares before and after a training; else it measures one model or judge as it is."""
    return len(audit.scorings) > 1


def targets(audit: AuditResult) -> list[str]:
    """The biases that were trained on."""
    return [name for name, skew in audit.skew.items() if skew.target]


def others(audit: AuditResult) -> list[str]:
    """The other biases that were measured."""
    return [name for name, skew in audit.skew.items() if not skew.target]


def voted_names(audit: AuditResult) -> list[str]:
    """Biases with votes, targets first."""
    return [name for name in audit.skew if name in audit.votes]


def applied(audit: AuditResult) -> float:
    """The dose that `after` is of."""
    return 1.0 if audit.dose_applied is None else float(audit.dose_applied)


def held_out(name: str, audit: AuditResult) -> HeldOutBias | None:
    """Held-out results of a bias; None if its contrasts did not choose the dose, or no dose was chosen."""
    return None if audit.dose is None else audit.dose.methods["dose"].held_out.get(name)


def quality_change(audit: AuditResult) -> tuple[Estimate, bool]:
    """The deciding change of quality accuracy, and True if it is held out, since quality helps choose the dose."""
    held = [] if audit.dose is None else list(audit.dose.methods["dose"].held_out.values())
    if held and (change := held[0].against_base.quality) is not None:
        return change, True
    if audit.quality is None:
        raise ValueError("quality was not measured")
    return audit.quality.of_training().change, False


def loss_of_quality(audit: AuditResult) -> Loss | None:
    """True if a loss is excluded; None if quality was not measured twice."""
    if audit.quality is None or isinstance(audit.quality.change, Missing):
        return None
    change, _ = quality_change(audit)
    return quality_loss(change.low, change.high)


def evidence_of(name: str, audit: AuditResult) -> Evidence:
    """Changes of a bias; held out if the same contrasts chose the dose."""
    skew, votes, held = audit.skew[name], audit.votes.get(name), held_out(name, audit)
    beyond = audit.beyond_noise.get(name)
    mean = beyond if isinstance(beyond, Estimate) else None
    if held is not None and audit.dose is not None and audit.dose.aim == "tie":
        return Evidence(_moved("skew", skew, held), None, True, mean)
    people = None
    if votes is not None:
        gap = votes.gap.change if held is None else held.against_base.gap
        people = PeopleEvidence(
            _moved("miscalibration", votes.miscalibration, held),
            _moved("skew", votes.skew_on_voted, held),
            (votes if held is None else held.people).human_skew.value,
            isinstance(gap, Estimate) and gap.low > 0,
        )
    return Evidence(_moved("skew", skew), people, people is None and audit.aim == "tie" and skew.target, mean)


def _moved(what: Literal["skew", "miscalibration"], measure: Measure, held: HeldOutBias | None = None) -> Moved:
    """A change with its test; of a held-out one, the test of the contrasts that chose the dose, as no other is made."""
    before, after, change, test = measure.of_training()
    if held is not None:
        before, after, change = (getattr(part, what) for part in (held.base, held.people, held.against_base))
    return Moved(before.value, after.value, change.low, change.high, test.holm, after.low, after.high)
