"""A chosen dose with numbers of one's own, for tests of what reports make of it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from rows import estimate

from cda.numbers.measures import of_people
from cda.results.base import BeforeAfter, Estimate
from cda.results.dose import (
    Aim,
    DoseMethod,
    DosePoint,
    DoseResult,
    HeldOutBias,
)


def held_out(before: float, after: float, half: float, quality: Estimate | None) -> HeldOutBias:
    """Miscalibration and gap go the way of skew; people's skew is 45%."""

    def people(value: float) -> dict[str, Estimate]:
        return {"human_skew": estimate(0.45)} | dict.fromkeys(of_people(), estimate(value))

    moved = dict.fromkeys(of_people(), estimate(after - before, half))
    change = moved if quality is None else moved | {"accuracy": quality}
    return HeldOutBias(
        people=people(after),
        base=people(before),
        plain=people(before),
        plain_change=moved,
        against_base=change,
        against_plain=change,
        sizes={
            "gap": BeforeAfter(before=estimate(before), after=estimate(after), change=estimate(after - before, half))
        },
    )


def point(dose: float, missed: float, n: int = 100) -> DosePoint:
    """Quality is 80% and the gap half of what is missed."""
    people = dict.fromkeys(of_people(), estimate(missed))
    people |= {"human_skew": estimate(0.45, n=n), "signed_gap": estimate(0.0), "gap": estimate(missed / 2)}
    change = None if dose == 0 else estimate(0.0, n=40)
    return DosePoint(dose=dose, people=people, quality=estimate(0.8, n=40), quality_change=change)


POINTS = (point(0.0, 0.5), point(0.5, 0.2), point(1.0, 0.4))


def made_dose(
    held: Mapping[str, HeldOutBias], chosen: float = 0.5, aim: Aim = "votes", points: Sequence[DosePoint] = POINTS
) -> DoseResult:
    """A dose that these biases chose."""
    method = DoseMethod(
        chosen=chosen,
        barred=(),
        shares={f"{chosen:g}": 1.0},
        quality=estimate(0.8),
        quality_kept=True,
        plain_keeps_quality=True,
        held_out=dict(held),
        response={name: tuple(points) for name in held},
    )
    return DoseResult(
        doses=tuple(one.dose for one in points), biases=tuple(held), aim=aim, repeats=4, max_quality_loss=0.05, chosen=chosen,
        methods={"dose": method},
        losses={"dose": 0.1}, quality_pairs=40, left_out={}, seed=0, too_few={}, missing={},
        fitted={}, available_quality=40,
    )  # fmt: skip
