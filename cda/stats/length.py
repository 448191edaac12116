"""Length next to a bias: what a scorer of characters, and one of words, would prefer on the same contrasts, and whether the change in
length, or in the wording that goes with it, explains a scorer's margins."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from cda.arrays import FloatArray, finite
from cda.errors import DataError
from cda.results.base import Estimate, Missing
from cda.results.effects import LENGTH, LengthBaseline
from cda.stats.estimators import ROUNDING, Mean, Regression, share_of
from cda.stats.multiplicity import holm
from cda.stats.verdict import SIGNIFICANT

LEFT = 0.25
"""Part of the mean margin that a rival must leave to the bias: less may be a bend of the margin in it."""
LEFT_BY_AMOUNT = 0.5
"""That which another measure of amount must leave: two ways of counting the same leave each other more."""
SAME_SIDE = 0.975
"""Share of contrasts on which a scorer that only names a side prefers the longer one, or the shorter, from which it may go by length alone."""
_LENGTHS = ("characters", "words")
_RIVALS = (*_LENGTHS, "sentences", "long_word_share", "flesch_reading_ease", "questions")
"""Features that nearly every rewriting moves a little, without a limit of their own or within it."""
_AMOUNTS: Mapping[str, frozenset[str]] = {
    "vowels": frozenset({"flesch_reading_ease"}),
    "different_words": frozenset({"type_token_ratio"}),
    "type_token_ratio": frozenset(),
    "words_a_sentence": frozenset({"sentences", "list_lines"}),
    "first_sentence": frozenset({"sentences", "list_lines"}),
    "last_sentence": frozenset({"sentences", "list_lines"}),
}
"""Measures that go with length, each a rival of its own, and the own features of a bias that they are made of: there they are the bias."""
_SAYS_A_SIDE = 2
"""Sizes of margins, ties among them, of a scorer that says which side it prefers and not by how much."""


def length_baseline(
    margins: ArrayLike,
    perturbed: Mapping[str, FloatArray],
    base: Mapping[str, FloatArray],
    own: Sequence[str],
    prompt_ids: Sequence[str],
    unit: str = "reward",
) -> LengthBaseline:
    """The preferences of two scorers of length, and how much of the mean margin the change in length explains.

    Least squares of the margin, perturbed − base, on the changes in characters and in words, and on those of the bias's `own` features
    (`treatment`), with an intercept; errors clustered by prompt. Length explains its two coefficients times the mean changes; what
    the intercept and the own features give is left to the bias. A second regression has sentences, reading ease, long words and
    questions beside them, as far as they are not its own. The bias is told apart if both leave it a part of the mean margin's sign,
    above `LEFT` of it; else the rival is what the second gives the largest part. Nor is it told apart if another measure that goes
    with length (`_AMOUNTS`), beside these two, is shown to have a part of its own (Holm over these measures) and leaves the bias less
    than `LEFT_BY_AMOUNT`. The parts returned are those of the second if the first leaves the bias its part.

    Args:
        margins: Shape (n,), in `unit`.
        perturbed: Features of the biased sides, shape (n,) each, `characters` and `words` among them; NaN where one does not hold.
        base: Those of the other sides.
        own: Features that are the bias itself; without characters and words.
        prompt_ids: Cluster of each row.

    Raises:
        DataError: No contrasts, or a margin that is not finite.
    """
    values = finite(margins, "margins")
    if not len(values):
        raise DataError("no contrasts: the part of length cannot be measured")
    names = [name for name in dict.fromkeys((*_RIVALS, *own)) if name in perturbed]
    changes = {name: _change(perturbed[name], base[name]) for name in names}
    preferred = {name: share_of(np.where(changes[name] == 0, 0.5, changes[name] > 0), prompt_ids) for name in _LENGTHS}
    amounts = {
        name: _change(perturbed[name], base[name])
        for name, parts in _AMOUNTS.items()
        if name in perturbed and name not in own and not parts & set(own)
    }
    of_length = {name: changes[name] for name in changes if name in _LENGTHS or name in own}
    # What changes by the same number everywhere is an intercept already, and its ratio nearly one.
    varies = [name for name in _LENGTHS if np.ptp(changes[name]) > 0]
    ratios = {name: _change(np.log1p(perturbed[name]), np.log1p(base[name])) for name in varies}
    forms = [_parts(values, used, own, prompt_ids, unit) for used in (of_length, of_length | ratios)]
    of_all = _parts(values, changes, own, prompt_ids, unit)
    rival = _rival(values, changes | amounts, forms, of_all)
    if rival is None and values.mean():
        beside = {name: _parts(values, of_length | {name: amounts[name]}, own, prompt_ids, unit) for name in amounts}
        rival = _amount(beside, float(values.mean()))
    decides = next((form for form in forms if not _leaves(form.left, float(values.mean()))), of_all)
    return LengthBaseline(
        characters=preferred["characters"],
        words=preferred["words"],
        explained=decides.explained,
        left=decides.left,
        rival=rival,
    )


def _change(perturbed: ArrayLike, base: ArrayLike) -> FloatArray:
    return np.asarray(np.nan_to_num(np.asarray(perturbed) - np.asarray(base)), dtype=np.float64)


@dataclass(frozen=True, slots=True)
class _Parts:
    """Of a mean margin: what other features explain together, what is left to the bias, and the part of each of the others."""

    explained: Estimate | Missing
    left: Estimate | Missing
    by_feature: Mapping[str, Mean]


def _parts(
    values: FloatArray, changes: Mapping[str, FloatArray], own: Sequence[str], prompt_ids: Sequence[str], unit: str
) -> _Parts:
    used = [name for name in changes if np.ptp(changes[name]) > 0]
    columns = np.column_stack([np.ones(len(values)), *(changes[name] for name in used)])
    fit = Regression(values, columns, prompt_ids)
    if fit.n_prompts <= fit.rank:
        why = f"{fit.n_prompts} prompts for {fit.rank} coefficients; more prompts than coefficients are needed"
        return _Parts(Missing(reason=why), Missing(reason=why), {})
    others = np.array([False, *(name not in own for name in used)])
    means = columns.mean(axis=0)
    explained, left = (fit.of(np.where(part, means, 0.0), unit).estimate for part in (others, ~others))
    alone = {
        name: fit.of(np.where(np.array([None, *used]) == name, means, 0.0), unit) for name in used if name not in own
    }
    return _Parts(explained, left, alone)


def _amount(beside: Mapping[str, _Parts], mean: float) -> str | None:
    """The measure that has the largest part of its own, of those that leave the bias too little."""
    parts = {name: found.by_feature[name] for name, found in beside.items() if name in found.by_feature}
    shares = {name: part.estimate.value / mean for name, part in parts.items()}
    shown = dict(zip(parts, holm([part.p_value() for part in parts.values()]), strict=True)) if parts else {}
    few = [name for name in parts if shares[name] > 0 and shown[name] < SIGNIFICANT
           and not _leaves(beside[name].left, mean, LEFT_BY_AMOUNT)]  # fmt: skip
    return max(few, key=lambda name: shares[name], default=None)


def _rival(
    values: FloatArray, changes: Mapping[str, FloatArray], forms: Sequence[_Parts], of_all: _Parts
) -> str | None:
    """What may be preferred in place of the bias, None if nothing may."""
    mean, size = float(values.mean()), float(np.abs(values).max())
    if abs(mean) <= ROUNDING * size:
        return None
    if len(np.unique(np.abs(values))) <= _SAYS_A_SIDE:
        named = values != 0  # a judge that goes by place where both are long ties there
        sides = np.sign(values[named])
        for name in (*_LENGTHS, *(name for name in _AMOUNTS if name in changes)):
            if any((sides == way * np.sign(changes[name][named])).mean() >= SAME_SIDE for way in (1, -1)):
                return LENGTH if name in _LENGTHS else name
    if np.ptp(values) <= ROUNDING * size and any(np.ptp(changes[name]) == 0 != changes[name][0] for name in _LENGTHS):
        return LENGTH  # the same margin for the same change, as a scorer of length has it
    linear, relative = (_leaves(form.left, mean) for form in forms)
    if linear and not relative:
        return LENGTH
    if linear and _leaves(of_all.left, mean):
        return None
    parts = {name: part.estimate.value / mean for name, part in of_all.by_feature.items()}
    rivals = {LENGTH: sum(parts.pop(name, 0.0) for name in _LENGTHS)} | parts
    best = max(rivals, key=lambda name: rivals[name])
    # Where no feature takes a part of the mean margin's sign, what failed is the adjustment for length alone.
    return LENGTH if not linear and rivals[best] <= 0 else best


def _leaves(left: Estimate | Missing, mean: float, least: float = LEFT) -> bool:
    """True if the bias has a part in a mean margin that the others do not explain."""
    if isinstance(left, Missing):
        return False
    low = left.low if mean > 0 else -left.high
    return low > 0 and abs(left.value) > least * abs(mean)
