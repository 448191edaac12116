"""What the words about a training rest on, read off its audit: changes, their tests, and quality."""

from __future__ import annotations

from typing import Literal

from cda.results.audit import AuditResult
from cda.results.base import Estimate, Measure, Missing
from cda.results.dose import HeldOutBias
from cda.stats.verdict import Evidence, Loss, Moved, PeopleEvidence, quality_loss


def applied(audit: AuditResult) -> float:
    """The dose that `after` is of."""
    dose = audit.dose_applied
    return 1.0 if dose is None else float(dose)


def held_out(name: str, audit: AuditResult) -> HeldOutBias | None:
    """What choosing the dose does to a bias on contrasts without a say in it; None where it had no say, or none was chosen."""
    return None if audit.dose is None else audit.dose.methods["dose"].held_out.get(name)


def quality_change(audit: AuditResult) -> tuple[Estimate, bool]:
    """The change of quality accuracy that decides, and whether it is held out: a dose is chosen by quality, too."""
    held = [] if audit.dose is None else list(audit.dose.methods["dose"].held_out.values())
    change = held[0].against_base.quality if held else None
    if change is not None:
        return change, True
    if audit.quality is None:
        raise ValueError("quality was not measured")
    return audit.quality.of_training().change, False


def loss_of_quality(audit: AuditResult) -> Loss | None:
    """Of the change that decides; None where quality was not measured, or not twice."""
    if audit.quality is None or isinstance(audit.quality.change, Missing):
        return None
    change, _ = quality_change(audit)
    return quality_loss(change.low, change.high)


def evidence_of(name: str, audit: AuditResult) -> Evidence:
    """Changes of a bias; held out where the same contrasts chose the dose."""
    skew, votes = audit.skew[name], audit.votes.get(name)
    mean = margin_beyond_noise(name, audit)
    held = held_out(name, audit)
    if held is not None and audit.dose is not None and audit.dose.aim == "tie":
        return Evidence(_held_out_moved("skew", held, skew.of_training().test.holm), None, True, mean)
    people = None
    if votes is not None and held is not None:
        people = PeopleEvidence(
            _held_out_moved("miscalibration", held, votes.miscalibration.of_training().test.holm),
            _held_out_moved("skew", held, votes.skew_on_voted.of_training().test.holm),
            held.people.human_skew.value,
            held.against_base.gap.low > 0,
        )
    elif votes is not None:
        people = PeopleEvidence(
            _moved(votes.miscalibration),
            _moved(votes.skew_on_voted),
            votes.human_skew.value,
            isinstance(votes.gap.change, Estimate) and votes.gap.change.low > 0,
        )
    return Evidence(_moved(skew), people, people is None and audit.aim == "tie" and skew.target, mean)


def margin_beyond_noise(name: str, audit: AuditResult) -> Estimate | None:
    """Change of a bias's mean margin that neither noise nor stretched rewards explain; None where it is not known."""
    found = audit.beyond_noise.get(name)
    return found if isinstance(found, Estimate) else None


def _held_out_moved(what: Literal["skew", "miscalibration"], held: HeldOutBias, p_holm: float) -> Moved:
    """The held-out change, with the test of the contrasts that chose the dose: no test of held-out rows is made."""
    before, after, change = (getattr(one, what) for one in (held.base, held.people, held.against_base))
    return Moved(
        before.value, after.value, change.low, change.high, p_holm, after.low, after.high,
    )  # fmt: skip


def _moved(measured: Measure) -> Moved:
    before, after, change, test = measured.of_training()
    return Moved(before.value, after.value, change.low, change.high, test.holm, after.low, after.high)
