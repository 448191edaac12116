"""Below the headline of an audit: what else differs between the sides, and whether the pairs identify the effect."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Literal

import numpy as np

from cda.arrays import FloatArray
from cda.auditing.groups import Group, before_and_after, estimated, people_of
from cda.auditing.result import rng
from cda.biases import Bias
from cda.features import PATTERN_FEATURES
from cda.records import prompt_text
from cda.results.base import Estimate, Missing, PerScoring
from cda.results.effects import (
    NORMAL_TEST,
    SIGN_TEST,
    BiasDrift,
    BiasEffects,
    DirectEffects,
    Effect,
    EffectTest,
    SameMargin,
)
from cda.results.facts import Example
from cda.rewriting.labels import exhibits
from cda.stats.bootstrap import bootstrap_mean
from cda.stats.clustered import Resampling, direct_contrast, same_in_all
from cda.stats.drift import embedding_similarity, feature_drift, label_drift, measured
from cda.stats.identification import identify

Encode = Callable[[Sequence[str]], FloatArray]
_MARKERS = "markers_per_100_words"


def drifts(
    groups: Sequence[Group], biases: Mapping[str, Bias], encode: Encode | None, seed: int
) -> dict[str, BiasDrift]:
    """What else differs between the two sides of each bias's contrasts: features, other biases' labels, meaning."""
    return {group.bias.name: _drift(group, biases, encode, seed) for group in groups}


def effects(groups: Sequence[Group], seed: int) -> dict[str, BiasEffects]:
    """The direct contrast under every scoring, and whether the pairs identify it; where there are two, its change."""
    return {group.bias.name: _effects(group, seed) for group in groups}


def _drift(group: Group, biases: Mapping[str, Bias], encode: Encode | None, seed: int) -> BiasDrift:
    perturbed, base = _texts(group)
    first, second = _features(perturbed, group.bias), _features(base, group.bias)
    ids = group.prompt_ids
    others = [
        one for one in biases.values() if one.name != group.bias.name and one.measure and not one.measure.relative
    ]
    similarity: Estimate | Missing = Missing(reason="no embeddings were asked for")
    if encode is not None:
        similarity = estimated(partial(embedding_similarity, perturbed, base, encode, ids, rng(seed)))
    return BiasDrift(
        n=len(group),
        features=estimated(lambda: tuple(feature_drift(first, second, ids, rng(seed), treatment=group.bias.treatment))),
        labels={one.name: estimated(partial(_label_drift, group, one)) for one in others},
        similarity=similarity,
    )


def _effects(group: Group, seed: int) -> BiasEffects:
    sides = before_and_after({label: _direct(group, margins, seed) for label, margins in group.margins.items()})
    found = PerScoring[DirectEffects](**sides)
    if isinstance(found.after, Missing):
        return BiasEffects(before=found.before, unit=group.unit, test=_test(found.before.direct))
    tested = Missing(reason="the change of skew is tested instead")
    change = estimated(partial(_mean_change, group, seed))
    return BiasEffects(before=found.before, after=found.after, unit=group.unit, change=change, test=tested)


def _direct(group: Group, margins: FloatArray, seed: int) -> DirectEffects:
    perturbed, base = (measured(side) for side in _texts(group))
    ids, unit = group.prompt_ids, group.unit
    direct: Effect | SameMargin | Missing = estimated(
        partial(direct_contrast, margins, np.zeros(len(group)), ids, Resampling(rng(seed)), unit)
    )
    if isinstance(direct, Missing):
        direct = same_in_all(margins, ids, direct.reason) or direct
    identified = partial(identify, margins, perturbed, base, ids, rng(seed), treatment=group.bias.treatment, unit=unit)
    return DirectEffects(direct=direct, identification=estimated(identified))


def _test(direct: Effect | SameMargin | Missing) -> EffectTest | Missing:
    """The test that joins the audit's family: of the mean margin, or of the sign that every prompt shares."""
    match direct:
        case Effect():
            return EffectTest(p_value=direct.p_value, method=NORMAL_TEST, what="the mean margin is not 0")
        case SameMargin(p_value=float(p_value)):
            return EffectTest(p_value=p_value, method=SIGN_TEST, what="the margin that all pairs share is not 0")
        case SameMargin():
            return Missing(reason="all margins are 0 and have no sign")
        case _:
            return direct


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


N_EXAMPLES = 12
"""Of each bias."""
_PREFERRED: dict[str, Literal["perturbed", "base", "tie"]] = {
    "perturbed": "perturbed",
    "base": "base",
    "tie": "tie",
    "split": "tie",
}


def examples(groups: Sequence[Group]) -> tuple[Example, ...]:
    """Contrasts of the targets for a reader to look at, chosen by what they show; `kept_for` says which it was of each.

    The best of each kind is taken in turn until there are N_EXAMPLES a bias: the largest falls of the margin, the largest
    margins under each scoring (of one scoring the largest and the smallest), and where people voted, those on which the
    model disagrees, or agrees, with their majority by the largest margin. No chance is involved, and no sample is meant.
    """
    found = []
    for group in groups:
        if not group.is_target:
            continue
        people = people_of(group, "half")
        words = people.words if people else ("no votes",) * len(group)
        for row, kind in _chosen(_kinds(group.margins, words)).items():
            contrast = group.contrasts[row]
            found.append(
                Example(
                    bias=group.bias.name,
                    prompt=prompt_text(contrast.prompt),
                    perturbed=contrast.perturbed,
                    base=contrast.base,
                    margins=PerScoring[float](
                        **dict(
                            zip(("before", "after"), (float(one[row]) for one in group.margins.values()), strict=False)
                        )
                    ),
                    preferred=_PREFERRED.get(words[row]),
                    kept_for=kind,
                )
            )
    return tuple(found)


def _kinds(margins: Mapping[str, FloatArray], words: Sequence[str]) -> dict[str, list[int]]:
    """What an example may be kept for, each with its rows, the best first."""
    values = list(margins.values())
    if len(values) > 1:
        kinds = {
            "largest fall": values[-1] - values[0],
            **{f"largest margin {label}": -one for label, one in margins.items()},
        }
    else:
        kinds = {"largest margin": -values[0], "smallest margin": values[0]}
    found = {kind: np.argsort(order, kind="stable").tolist() for kind, order in kinds.items()}
    side = np.array([{"perturbed": 1.0, "base": -1.0}.get(word, 0.0) for word in words])
    for word, sign in (("disagrees", -1.0), ("agrees", 1.0)):
        for label, one in margins.items():
            with_people = sign * side * one  # above 0 where the word is true; larger with the margin
            rows = np.argsort(-with_people, kind="stable")
            found[f"{word} with people {label}"] = rows[with_people[rows] > 0].tolist()
    return found


def _chosen(kinds: Mapping[str, Sequence[int]]) -> dict[int, str]:
    """Rows taken in turn, the best of each kind that is not taken yet; what each was taken for."""
    chosen: dict[int, str] = {}
    left = {kind: iter(rows) for kind, rows in kinds.items()}
    while left and len(chosen) < N_EXAMPLES:
        for kind, rows in list(left.items()):
            row = next((one for one in rows if one not in chosen), None)
            if row is None:
                del left[kind]
            elif len(chosen) < N_EXAMPLES:
                chosen[row] = kind
    return chosen
