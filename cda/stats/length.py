"""Length next to a bias: what a scorer of characters, and one of words, would prefer on the same contrasts, and whether the change in
length, in another amount or in the wording tells a scorer's margins better than the bias does."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial

import numpy as np
from numpy.typing import ArrayLike

from cda.arrays import FloatArray, finite
from cda.errors import DataError
from cda.features import AMOUNTS
from cda.results.base import Estimate, Missing
from cda.results.effects import LENGTH, LengthBaseline
from cda.stats.estimators import ROUNDING, Regression, share_of

LEFT = 0.25
"""Part of the mean margin that length must leave to the bias: less may be a bend of the margin in it."""
CLEARLY_LESS = 0.8
"""Part of another's squared error from which one explanation is the better one: real reward models of layout have 0.87 or more."""
SAME_SIDE = 0.975
"""Share of contrasts on which a scorer that only names a side prefers the longer one, or the shorter, from which it may go by length alone."""
WORDING = "wording"
_LENGTHS = ("characters", "words")
_OTHERS = ("sentences", "long_word_share", "flesch_reading_ease", "questions", "type_token_ratio")
"""Features that nearly every rewriting moves a little, without a limit of their own or within it."""
_SAYS_A_SIDE = 2
"""Sizes of margins, ties among them, of a scorer that says which side it prefers and not by how much."""
_FOLDS = 5
_PENALTIES = (1e-9, 1e-3, 1e-2, 0.1, 1.0, 10.0)
_NO_WORDING = np.zeros((0, 0))


def length_baseline(
    margins: ArrayLike,
    perturbed: Mapping[str, FloatArray],
    base: Mapping[str, FloatArray],
    own: Sequence[str],
    prompt_ids: Sequence[str],
    unit: str = "reward",
    wording: FloatArray = _NO_WORDING,
) -> LengthBaseline:
    """The preferences of two scorers of length, and whether something else than the bias explains the margins, perturbed − base.

    Explanations compete on prompts that they were not fitted on (`_error`). The bias's is a constant with the changes in its `own`
    features (`treatment`) and in the amounts that they are made of. A rival has no constant, as it has to explain the mean margin too:
    characters and words, as they are or as logarithms; the other amounts together, or the side that has more of one if the scorer only
    names a side; and the wording. One that leaves at most `CLEARLY_LESS` of the other's squared error is the better explanation. If
    neither length nor the bias is, adjustment decides, by least squares of the margin on the changes in length, as they are and as
    logarithms, and in the own features: length explains its coefficients times the mean changes, and must leave to the bias, the
    constant included, a part of the mean margin's sign that is above `LEFT` of it. Errors are clustered by prompt.

    Args:
        margins: Shape (n,), in `unit`.
        perturbed: Features and `AMOUNTS` of the biased sides, shape (n,) each, `characters` and `words` among them; NaN where one does
            not hold.
        base: Those of the other sides.
        own: Features that are the bias itself; without characters and words.
        prompt_ids: Cluster of each row.
        wording: Changes in the counts of words, letters and endings, shape (n, k).

    Raises:
        DataError: No contrasts, or a margin that is not finite.
    """
    values = finite(margins, "margins")
    if not len(values):
        raise DataError("no contrasts: the part of length cannot be measured")
    parts = [name for name, amount in AMOUNTS.items() if amount.part_of & set(own)]
    names = [name for name in dict.fromkeys((*_LENGTHS, *own, *AMOUNTS, *_OTHERS)) if name in perturbed]
    changes = {name: _change(perturbed[name], base[name]) for name in names}
    ratios = {name: _change(np.log1p(perturbed[name]), np.log1p(base[name])) for name in _LENGTHS}
    lengths = {name: changes[name] for name in _LENGTHS}
    mine = {name: changes[name] for name in names if name in own}
    # A length that changes by the same number everywhere is a constant, and its ratio nearly one.
    forms = [
        _parts(values, {name: used[name] for name in _LENGTHS if np.ptp(changes[name]) > 0}, mine, prompt_ids, unit)
        for used in (lengths, ratios)
    ]
    rival = _rival(
        values,
        _folds(prompt_ids),
        bias=[*mine.values(), *(changes[name] for name in parts if name in changes)],
        lengths=lengths,
        ratios=ratios,
        amounts={name: changes[name] for name in names if name not in (*_LENGTHS, *own, *parts)},
        wording=wording,
        is_left=all(_leaves(left, float(values.mean())) for _, left in forms),
    )
    explained, left = next((form for form in forms if not _leaves(form[1], float(values.mean()))), forms[0])
    preferred = {name: share_of(np.where(own == 0, 0.5, own > 0), prompt_ids) for name, own in lengths.items()}
    return LengthBaseline(
        characters=preferred["characters"], words=preferred["words"], explained=explained, left=left, rival=rival
    )


def _change(perturbed: ArrayLike, base: ArrayLike) -> FloatArray:
    return np.asarray(np.nan_to_num(np.asarray(perturbed) - np.asarray(base)), dtype=np.float64)


def _parts(
    values: FloatArray,
    lengths: Mapping[str, FloatArray],
    own: Mapping[str, FloatArray],
    prompt_ids: Sequence[str],
    unit: str,
) -> tuple[Estimate | Missing, Estimate | Missing]:
    """Of the mean margin, what the lengths explain together, and what is left to the bias."""
    varying = [change for change in own.values() if np.ptp(change) > 0]
    columns = np.column_stack([np.ones(len(values)), *varying, *lengths.values()])
    fit = Regression(values, columns, prompt_ids)
    if fit.n_prompts <= fit.rank:
        why = f"{fit.n_prompts} prompts for {fit.rank} coefficients; more prompts than coefficients are needed"
        return Missing(reason=why), Missing(reason=why)
    of_length, means = np.arange(columns.shape[1]) > len(varying), columns.mean(axis=0)
    explained, left = (fit.of(np.where(part, means, 0.0), unit).estimate for part in (of_length, ~of_length))
    return explained, left


def _rival(
    values: FloatArray,
    folds: FloatArray,
    *,
    bias: Sequence[FloatArray],
    lengths: Mapping[str, FloatArray],
    ratios: Mapping[str, FloatArray],
    amounts: Mapping[str, FloatArray],
    wording: FloatArray,
    is_left: bool,
) -> str | None:
    """What may be preferred in place of the bias, None if nothing may. `is_left`: adjustment for length leaves the bias its part."""
    mean, size = float(values.mean()), float(np.abs(values).max())
    if abs(mean) <= ROUNDING * size:
        return None
    says_a_side = len(np.unique(np.abs(values))) <= _SAYS_A_SIDE
    if says_a_side:
        named = values != 0  # a judge that goes by place where both are long ties there
        sides = np.sign(values[named])
        if any((sides == way * np.sign(own[named])).mean() >= SAME_SIDE for own in lengths.values() for way in (1, -1)):
            return LENGTH
    unsure = None if is_left else LENGTH
    if np.ptp(values) <= ROUNDING * size:
        # The same margin for the same change, as a scorer of length has it.
        return LENGTH if any(np.ptp(own) == 0 != own[0] for own in lengths.values()) else unsure
    if folds.max() == 0:
        return unsure
    error = partial(_error, values, folds)
    constant = error([np.ones(len(values))])
    of_bias = min(constant, error([np.ones(len(values)), *bias]))
    of_length = min(error([*lengths.values()]), error([*ratios.values()]))
    if of_length <= CLEARLY_LESS * of_bias:
        return LENGTH
    rivals = {WORDING: error(list(wording.T))}
    if amounts:
        closest = min(amounts, key=lambda name: error([amounts[name]]))
        rivals[closest] = error([*lengths.values(), *amounts.values()])
    for name, change in amounts.items() if says_a_side else ():
        rivals[name] = min(rivals.get(name, np.inf), error([np.sign(change)]))
    best = min(rivals, key=lambda name: rivals[name])
    if rivals[best] <= CLEARLY_LESS * of_bias:
        return best
    return None if of_bias <= CLEARLY_LESS * min(of_length, constant) else unsure


def _folds(prompt_ids: Sequence[str]) -> FloatArray:
    """Fold of each row, shape (n,), those of a prompt in the same one; 0 for all of one prompt."""
    of_prompt = {prompt: at for at, prompt in enumerate(dict.fromkeys(prompt_ids))}
    return np.array([of_prompt[prompt] % _FOLDS for prompt in prompt_ids])


def _error(values: FloatArray, folds: FloatArray, columns: Sequence[FloatArray]) -> float:
    """Sum of squares that a ridge on these columns, without an intercept, leaves of rows that it was not fitted on, with the penalty that
    leaves least of them; a trace of rounding is 0."""
    matrix = np.column_stack([np.zeros(len(values)), *columns])
    scale = np.sqrt((matrix**2).mean(axis=0))
    matrix = matrix[:, scale > 0] / scale[scale > 0]
    left = np.zeros(len(_PENALTIES))
    for fold in np.unique(folds):
        held_out = folds == fold
        basis, singular, axes = np.linalg.svd(matrix[~held_out], full_matrices=False)
        kept = singular > singular.max(initial=0.0) * 1e-9
        basis, singular, axes = basis[:, kept], singular[kept], axes[kept]
        for at, penalty in enumerate(_PENALTIES):
            shrunk = singular / (singular**2 + penalty * len(basis))
            fitted = matrix[held_out] @ (axes.T @ (shrunk * (basis.T @ values[~held_out])))
            left[at] += ((values[held_out] - fitted) ** 2).sum()
    least = float(left.min())
    return least if least > ROUNDING * float((values**2).sum()) else 0.0


def _leaves(left: Estimate | Missing, mean: float) -> bool:
    """True if the bias has a part in a mean margin that length does not explain."""
    if isinstance(left, Missing):
        return False
    low = left.low if mean > 0 else -left.high
    return low > 0 and abs(left.value) > LEFT * abs(mean)
