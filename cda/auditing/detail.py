"""Below the headline of an audit: other differences between the sides, identification of the effect, and examples."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Literal, cast

import numpy as np

from cda.arrays import FloatArray
from cda.auditing.groups import Group, estimated, people_of, per_scoring, rng
from cda.biases import Bias
from cda.features import PATTERN_FEATURES
from cda.records import prompt_text
from cda.results.base import Estimate, Missing
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
N_EXAMPLES = 12
"""Examples of each bias."""


def drifts(
    groups: Sequence[Group], biases: Mapping[str, Bias], encode: Encode | None, seed: int
) -> dict[str, BiasDrift]:
    """Other differences between the two sides of each bias's contrasts: features, other biases' labels, meaning."""
    return {group.bias.name: _drift(group, biases, encode, seed) for group in groups}


def _drift(group: Group, biases: Mapping[str, Bias], encode: Encode | None, seed: int) -> BiasDrift:
    perturbed, base = group.sides
    first, second = _features(perturbed, group.bias), _features(base, group.bias)
    ids = group.prompt_ids
    similarity: Estimate | Missing = Missing(reason="no embeddings were asked for")
    if encode is not None:
        similarity = estimated(partial(embedding_similarity, perturbed, base, encode, ids, rng(seed)))

    def labels(other: Bias) -> Estimate:
        with_label, without = ([exhibits(text, other) for text in side] for side in group.sides)
        return label_drift(with_label, without, ids)[0]

    return BiasDrift(
        n=len(group),
        features=estimated(lambda: tuple(feature_drift(first, second, ids, rng(seed), treatment=group.bias.treatment))),
        labels={
            other.name: estimated(partial(labels, other))
            for other in biases.values()
            if other.name != group.bias.name and other.measure and not other.measure.relative
        },
        similarity=similarity,
    )


def _features(texts: Sequence[str], bias: Bias) -> dict[str, FloatArray]:
    own = ([_MARKERS] if bias.markers else []) + (list(PATTERN_FEATURES) if bias.pattern is not None else [])
    return measured(texts) | {name: np.array([bias.measured(text, name) for text in texts]) for name in own}


def effects(groups: Sequence[Group], seed: int) -> dict[str, BiasEffects]:
    """The direct contrast under every scoring, its identification, and its change if there are two scorings."""
    return {group.bias.name: _effects(group, seed) for group in groups}


def _effects(group: Group, seed: int) -> BiasEffects:
    sides = [_direct(group, margins, seed) for margins in group.margins.values()]
    if len(sides) == 1:
        return BiasEffects(before=sides[0], unit=group.unit, test=_test(sides[0].direct))

    def change() -> Estimate:
        before, after = group.margins.values()
        return bootstrap_mean(after - before, group.prompt_ids, rng(seed)).estimate(group.unit)

    tested = Missing(reason="the change of skew is tested instead")
    return BiasEffects(before=sides[0], after=sides[1], unit=group.unit, change=estimated(change), test=tested)


def _direct(group: Group, margins: FloatArray, seed: int) -> DirectEffects:
    perturbed, base = map(measured, group.sides)
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


def examples(groups: Sequence[Group]) -> tuple[Example, ...]:
    """Example contrasts of the targets; `kept_for` gives the reason for which each was selected.

    The best of each kind is taken in turn until there are N_EXAMPLES a bias: the largest falls of the margin, the largest
    margins under each scoring (of one scoring the largest and the smallest), and if people voted, those on which the
    model disagrees, or agrees, with their majority by the largest margin. No chance is involved, and no sample is meant.
    """
    chosen = []
    for group in groups:
        people = people_of(group, "half") if group.is_target else None
        words = people.words if people else ("no votes",) * len(group)
        for row, kind in _chosen(_kinds(group.margins, words)).items() if group.is_target else ():
            contrast, word = group.contrasts[row], "tie" if words[row] == "split" else words[row]
            chosen.append(
                Example(
                    bias=group.bias.name,
                    prompt=prompt_text(contrast.prompt),
                    perturbed=contrast.perturbed,
                    base=contrast.base,
                    margins=per_scoring({label: float(values[row]) for label, values in group.margins.items()}),
                    preferred=None if word == "no votes" else cast(Literal["perturbed", "base", "tie"], word),
                    kept_for=kind,
                )
            )
    return tuple(chosen)


def _kinds(margins: Mapping[str, FloatArray], words: Sequence[str]) -> dict[str, list[int]]:
    """The reasons to keep an example, each with its rows, the best first."""
    first, *others = margins.values()
    if others:
        kinds = {
            "largest fall": others[-1] - first,
            **{f"largest margin {label}": -values for label, values in margins.items()},
        }
    else:
        kinds = {"largest margin": -first, "smallest margin": first}
    rows = {kind: np.argsort(order, kind="stable").tolist() for kind, order in kinds.items()}
    side = np.array([{"perturbed": 1.0, "base": -1.0}.get(word, 0.0) for word in words])
    for word, sign in (("disagrees", -1.0), ("agrees", 1.0)):
        for label, values in margins.items():
            with_people = sign * side * values  # above 0 if the word is true; larger with the margin
            order = np.argsort(-with_people, kind="stable")
            rows[f"{word} with people {label}"] = order[with_people[order] > 0].tolist()
    return rows


def _chosen(kinds: Mapping[str, Sequence[int]]) -> dict[int, str]:
    """Rows taken in turn, the best of each kind that is not taken yet, with the kind."""
    chosen: dict[int, str] = {}
    left = {kind: iter(rows) for kind, rows in kinds.items()}
    while left and len(chosen) < N_EXAMPLES:
        for kind, rows in list(left.items()):
            row = next((candidate for candidate in rows if candidate not in chosen), None)
            if row is None:
                del left[kind]
            elif len(chosen) < N_EXAMPLES:
                chosen[row] = kind
    return chosen
