"""Below the headline of an audit: what else differs between the sides, and whether the pairs identify the effect."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np

from cda.biases import Bias
from cda.effects.adjust import identify
from cda.effects.clustered import Resampling
from cda.effects.direct import direct_contrast
from cda.effects.drift import embedding_similarity, feature_drift, label_drift, measured
from cda.effects.same import SIGN_TEST, same_in_all
from cda.errors import DataError
from cda.features import PATTERN_FEATURES
from cda.label.measured import exhibits
from cda.results.base import Estimate, as_json
from cda.stages.audit_groups import FloatArray, Group, attempt
from cda.stages.audit_result import rng
from cda.stats.bootstrap import bootstrap_mean

Encode = Callable[[Sequence[str]], FloatArray]
_MARKERS = "markers_per_100_words"


def drifts(groups: Sequence[Group], biases: Mapping[str, Bias], encode: Encode | None, seed: int) -> dict[str, Any]:
    """What else differs between the two sides of each bias's contrasts: features, other biases' labels, meaning."""
    return {group.bias.name: _drift(group, biases, encode, seed) for group in groups}


def effects(groups: Sequence[Group], seed: int) -> dict[str, Any]:
    """The direct contrast under every scoring, and whether the pairs identify it; where there are two, its change."""
    return {group.bias.name: _effects(group, seed) for group in groups}


def _drift(group: Group, biases: Mapping[str, Bias], encode: Encode | None, seed: int) -> dict[str, Any]:
    perturbed, base = _texts(group)
    first, second = _features(perturbed, group.bias), _features(base, group.bias)
    ids = group.prompt_ids
    result: dict[str, Any] = {"n": len(group), "features": []}
    try:
        found = feature_drift(first, second, ids, rng(seed), treatment=group.bias.treatment)
        result["features"] = [one.model_dump() for one in found]
    except DataError as error:
        result["missing"] = str(error)
    others = [
        one for one in biases.values() if one.name != group.bias.name and one.measure and not one.measure.relative
    ]
    result["labels"] = {one.name: attempt(partial(_label_drift, group, one)) for one in others}
    if encode is not None:
        result["similarity"] = attempt(partial(embedding_similarity, perturbed, base, encode, ids, rng(seed)))
    return result


def _effects(group: Group, seed: int) -> dict[str, Any]:
    perturbed, base = (measured(side) for side in _texts(group))
    ids, unit = group.prompt_ids, group.unit
    result: dict[str, Any] = {"unit": unit}
    for label, margins in group.margins.items():
        direct = partial(direct_contrast, margins, np.zeros(len(group)), ids, Resampling(rng(seed)), unit)
        identified = partial(
            identify, margins, perturbed, base, ids, rng(seed), treatment=group.bias.treatment, unit=unit
        )
        result[label] = {"direct": attempt(direct), "identification": attempt(identified)}
        if same := same_in_all(margins, ids):
            result[label]["direct"]["same"] = as_json(same)
    if len(group.margins) == 2:
        result["change"] = attempt(partial(_mean_change, group, seed))
    else:
        (label,) = group.margins
        result |= _test(result[label]["direct"])
    return result


def _test(direct: Mapping[str, Any]) -> dict[str, Any]:
    """The test that joins the audit's family: of the mean margin, or of the sign that every prompt shares; none where all are 0."""
    if same := direct.get("same"):
        what, p_value = "the margin that all pairs share is not 0", same["p_value"]
        return {} if p_value is None else {"test": {"what": what, "p_value": p_value, "p_method": SIGN_TEST}}
    p_value = direct.get("p_value")
    return {} if p_value is None else {"test": {"what": "the mean margin is not 0", "p_value": p_value}}


def _mean_change(group: Group, seed: int) -> Estimate:
    before, after = group.margins.values()
    return bootstrap_mean(after - before, group.prompt_ids, rng(seed)).estimate(group.unit)


def _label_drift(group: Group, other: Bias) -> Estimate:
    perturbed, base = ([exhibits(text, other) for text in side] for side in _texts(group))
    return label_drift(perturbed, base, group.prompt_ids)[0]


def _features(texts: Sequence[str], bias: Bias) -> dict[str, FloatArray]:
    found = measured(texts)
    if bias.markers:
        found[_MARKERS] = np.array([bias.measured(text, _MARKERS) for text in texts])
    if bias.pattern is not None:
        found |= {name: np.array([bias.measured(text, name) for text in texts]) for name in PATTERN_FEATURES}
    return found


def _texts(group: Group) -> tuple[list[str], list[str]]:
    return [one.perturbed for one in group.contrasts], [one.base for one in group.contrasts]
