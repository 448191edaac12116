"""Results as tidy rows, and as pandas frames: what a number is of stands in plain columns, each of one kind of thing."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from pydantic import BaseModel

from cda.errors import DataError
from cda.numbers.views import LEVELS, flat, numbers_in
from cda.results.base import NOT_TRAINED, Estimate, Missing, Number, PerScoring, Test
from cda.results.benchmarks import FollowedAttribute
from cda.results.discover import DiscoverResult
from cda.results.effects import Grouping, Level

if TYPE_CHECKING:
    from pandas import DataFrame

FIRST = ("measure", "bias", "moment", "value", "low", "high", "n")
LAST = ("n_prompts", "unit", "method", "p_value", "p_holm", "reason")
NUMERIC = ("dose", "kl", "responses", "strength")
"""Levels that are numbers in a frame, NaN in rows of none."""
KEYS: Mapping[str, tuple[str, ...]] = {
    **dict.fromkeys(
        ("skew", "votes", "panel", "effects", "drift", "rate", "analysis", "held_out", "corrections", "biases",
         "by_place_of", "response"),
        ("bias",),
    ),
    **dict.fromkeys(("measured", "people", "base", "calibrated", "change", "plain", "against_base", "against_plain", "plain_change",
                     "sizes"),
                    ("measure",)),
    **dict.fromkeys(("slope", "scorings", "complete", "win_rates", "models", "policies"), ("moment",)),
    "DataWeights.r": ("bias",), "AuditResult.by": ("bias", "on", "column"), "DataResult.by": ("column", "bias"), "criteria": ("bias", "criterion"),
    "judges": ("judge",), "without": ("judge",), "found": ("measure", "moment"), "adjusted": ("form",), "measures": ("measure", "bias"),
    "methods": ("way",), "strengths": ("strength",), "pairs": ("candidate",), "fidelity_by_rewriter": ("rewriter",), "audits": ("audit",),
    "paired": ("audit", "bias"), "discoveries": ("discovery",), "effect": ("discovery",),
}  # fmt: skip
"""Field that holds numbers by name to what the names are of, from the outside in; `column` is a column of the data, which becomes one of
the frame."""
ITEMS: Mapping[str, Mapping[str, str]] = {
    "Effect": {"estimand": "estimand", "estimator": "estimator"}, "FeatureDrift": {"feature": "feature"},
    "Confound": {"feature": "feature"}, "PassDrift": {"feature": "feature", "has_attribute": "has_attribute"},
    "DosePoint": {"dose": "dose"}, "AtSize": {"n": "responses"}, "DataBias": {"name": "bias"}, "SetQuality": {"name": "set"},
    "FollowedAttribute": {"name": "attribute"}, "QualityScoring": {"label": "moment"}, "Validation": {"candidate": "candidate"},
    "TestedAttribute": {"candidate": "candidate", "name": "bias", "attribute": "attribute"},
    "TopicAttribute": {"candidate": "candidate", "name": "bias", "attribute": "attribute"}, "ByRewriter": {"rewriter": "rewriter"},
    "RewriterAgreement": {"first": "rewriter", "second": "other_rewriter"}, "ComparedAttribute": {"attribute": "attribute"},
}  # fmt: skip
"""Part of a list to its fields that say what it is of."""
PLACES = {"sections": "section", "subsets": "subset", "cells": "cell", "policies": "policy", "at": "policy"}
"""List to what its parts are, if they do not say so themselves."""
_MOMENTS = {
    **{name: name for name in ("before", "after", "change", "unpaired")}, "changes": "change", "CalibratedBias.base": "before",
    "CalibratedBias.calibrated": "after", "HeldOutBias.base": "before", "HeldOutBias.people": "after", "HeldOutBias.against_base": "change",
}  # fmt: skip
_UNSAID = frozenset({
    "estimate", "together", "overall", "facts", "model", "pooled", "strength", "quality_sections", "labels", "contingency", "measured",
    "identification",
})  # fmt: skip
"""Parts that add nothing to the name of a measure."""
_SAID = frozenset({
    "slope", "complete", "without", "adjusted", "sizes", "plain", "against_plain", "drift", "paired", "rate", "RateEffects.effects",
    "fidelity_by_rewriter", "DataWeights.r",
})  # fmt: skip
"""Fields of numbers by name, or lists, that are part of the name of the measure."""
_TESTS = frozenset({"test", "differ"})


@dataclass(frozen=True, slots=True)
class _Place:
    """The way to a number."""

    words: tuple[str, ...] = ()
    at: Mapping[str, str] = field(default_factory=dict)
    first: str = ""
    """Field of the result that holds it; names the measure if nothing else does."""
    column: str = "topic"
    """The level of the parts of a grouping."""
    trained: bool = True

    def below(self, *words: str, **more: Any) -> _Place:
        return replace(self, words=(*self.words, *words), **more)

    def where(self, level: str, name: object) -> _Place:
        """With one of a level; of a column of the data with its name, apart from the frame's own."""
        if level == "column":
            return replace(self, column=f"by_{name}" if name in (*FIRST, *LAST, *NUMERIC, level, "on") else str(name))
        if level == "measure":
            return self.below(str(name).replace(" ", "_"))
        return replace(self, at={**self.at, level: str(name)})


def _levels() -> list[str]:
    """Every level that is declared, in the order of frames."""
    known = [*LEVELS, *PLACES.values(), *(level for names in ITEMS.values() for level in names.values())]
    known += [level for names in KEYS.values() for level in names]
    return [level for level in dict.fromkeys(known) if level not in ("bias", "moment", "measure", "column")]


def rows_of(result: BaseModel) -> list[dict[str, object]]:
    """Every estimate of a result, in its order, as a flat row with the same columns; without values that need a training, if there
    was none. Numbers in the table of measures have their names there, others those of their fields."""
    known = {id(each.found): each for each in reversed(numbers_in(result)) if isinstance(each.found, Estimate)}
    numbers = [
        each if each.at.get("interval") else known.pop(id(each.found), each)
        for each in _walked(result, _Place(), None)
        if each.found != NOT_TRAINED
    ]
    numbers += known.values()  # measures that are no field of the result
    return rows(_named(each, result) for each in numbers) if isinstance(result, DiscoverResult) else rows(numbers)


def _named(number: Number, result: DiscoverResult) -> Number:
    """With the words for its candidate."""
    known = result.candidates.get(number.at.get("candidate", ""))
    words = {} if known is None else {"bias": known.bias.name, "attribute": known.attribute}
    return number.model_copy(update={"at": {**words, **number.at}})


def rows(numbers: Iterable[Number]) -> list[dict[str, object]]:
    """Numbers as rows of the same columns: first, levels that any of them has, and last ones. A level is empty in rows of none."""
    given = list(numbers)
    used = dict.fromkeys(level for each in given for level in each.at if level not in ("bias", "interval"))
    levels = sorted(used, key=[*_levels(), *used].index)
    laid = []
    for each in given:
        cells = flat(each.found, each.test)
        moment = each.at.get("interval", each.moment)
        cells |= {"measure": each.measure, "bias": each.at.get("bias", ""), "moment": moment}
        cells |= {level: each.at.get(level, "") for level in levels}
        laid.append({name: cells[name] for name in (*FIRST, *levels, *LAST)})
    return laid


def frame(laid: Iterable[Mapping[str, object]]) -> DataFrame:
    """Rows as a pandas frame, numbers as numbers. DataError: pandas is not installed."""
    try:
        import pandas
    except ImportError:
        raise DataError("to_frame needs pandas: pip install 'cda-debias[pandas]'") from None
    made = pandas.DataFrame(list(laid))
    for name in made.columns.intersection(NUMERIC):
        made[name] = pandas.to_numeric(made[name].where(made[name] != ""))
    return made


def _walked(value: object, place: _Place, test: Test | None) -> Iterator[Number]:
    """Every estimate of a part of a result as a number; `test` is of a change."""
    if isinstance(value, Number):
        moment = value.at.get("interval", value.moment)
        at = {**place.at, **value.at}
        yield value.model_copy(update={"measure": "_".join((*place.words, value.measure)), "at": at, "moment": moment})
    elif isinstance(value, Estimate | Missing):
        at = dict(place.at)
        moment = at.pop("moment", "")
        moment = "model" if moment == "before" and not place.trained else "" if moment == "data" else moment
        name = "_".join(place.words) or place.first
        tested = test if moment == "change" else None
        yield Number.model_construct(measure=name, moment=moment, at=at, found=value, test=tested)
    elif isinstance(value, BaseModel):
        yield from _in_model(value, place)
    elif isinstance(value, tuple | list):
        for index, part in enumerate(value):
            yield from _walked(part, place if isinstance(part, Number) else _of_part(part, index, place), test)


def _of_part(part: object, index: int, place: _Place) -> _Place:
    """The way to a part of a list whose level is the last word of the way."""
    own = next((ITEMS[kind.__name__] for kind in type(part).__mro__ if kind.__name__ in ITEMS), {})
    if isinstance(part, Level) and not own:
        return place.where(place.column, part.name)
    for name, level in own.items():
        place = place.where(level, getattr(part, name))
    return place if own else place.where(place.column, index + 1)


def _in_model(value: BaseModel, place: _Place) -> Iterator[Number]:
    test = getattr(value, "test", None)
    tested = test if isinstance(test, Test) else None
    if isinstance(value, PerScoring):
        place = replace(place, trained=value.is_trained)
    if isinstance(value, FollowedAttribute):
        place = place.below(value.kind).where("attribute", value.name)
    for name, part in value:
        if name in _TESTS or name in getattr(value, "in_memory", ()):
            continue
        inner, full = replace(place, first=place.first or name), f"{type(value).__name__}.{name}"
        if moment := _MOMENTS.get(full, _MOMENTS.get(name)):
            inner = inner.where("moment", moment)
        elif name.endswith("_change"):
            inner = inner.below(name.removesuffix("_change")).where("moment", "change")
        elif name in _SAID or full in _SAID or (isinstance(part, BaseModel) and name not in _UNSAID):
            inner = inner.below(name)
        if isinstance(value, Grouping) and name == "slope":
            inner = inner.where(inner.column, "each unit")
        if isinstance(part, Mapping):
            yield from _by_name(part, KEYS.get(full, KEYS.get(name, ())), inner, tested)
        else:
            inner = replace(inner, column=PLACES.get(name, inner.column))
            yield from _walked(part, inner, tested if moment == "change" else None)


def _by_name(
    value: Mapping[str, object], levels: tuple[str, ...], place: _Place, test: Test | None
) -> Iterator[Number]:
    for key, part in value.items():
        own = place.where(levels[0] if levels else "name", key)
        if isinstance(part, Mapping):
            yield from _by_name(part, levels[1:], own, test)
        else:
            yield from _walked(part, own, test)
