"""What a discovery decides of an attribute, and the words for its participants and attributes."""

from __future__ import annotations

from cda.report.names import called, data_called
from cda.results.discover import DiscoverResult, SearchedModel
from cda.stats.multiplicity import corrected, partial_conjunction

NO_OBJECTION = "rewarded, but the judge is not shown to object"


def model_name(one: SearchedModel) -> str:
    """A model, with its adapter or calibration if it has one."""
    with_adapter = f" with {one.adapter} at dose {one.dose:g}" if one.adapter else ""
    return (
        f"{called(one.name)}{with_adapter}{f' calibrated by {data_called(one.calibration)}' if one.calibration else ''}"
    )


def decision_on(at: int, result: DiscoverResult) -> str:
    """What the test says of an attribute: confirmed, rewarded while no objection of the judge is shown, or not shown."""
    entry = result.tested[at]
    if entry.confirmed or entry.untested or entry.p_value is None:
        return "confirmed" if entry.confirmed else "not tested"
    rewarded = _p_of_reward(at, result) < result.strictness.test_alpha
    return NO_OBJECTION if rewarded else "not shown"


def _p_of_reward(at: int, result: DiscoverResult) -> float:
    """The corrected p of an attribute if its test were on the reward alone, without the judge's."""
    one = result.tested[at]
    p_values = [each.strength.p_reward for each in one.rewriters if each.excluded is None and each.strength]
    family = [1.0 if each.p_value is None else each.p_value for each in result.tested]
    family[at] = partial_conjunction(p_values, one.r)
    return corrected(family, result.strictness.correct)[at]


def attribute_cell(name: str, result: DiscoverResult) -> str:
    """A candidate in words."""
    candidate = result.candidates.get(name)
    return candidate.bias.description if candidate else name
