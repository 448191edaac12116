"""Weights of preference pairs: the less, the better surface features of the two sides tell the choice, out of fold.

With x = differences chosen − rejected and p(x) the probability of the choice that was made, by a logistic regression on x that was
fitted on other prompts, the weight of a pair is

    w = 1 − p(x)

It is the weight of Clark, Yatskar and Zettlemoyer (2019, "Don't Take the Easy Way Out", EMNLP, their "reweight") against annotation
artifacts, as in Schuster et al. (2019, "Towards Debiasing Fact Verification Models", EMNLP), and at the same time the overlap weight
of Li, Morgan and Zaslavsky (2018, Journal of the American Statistical Association 113, 390–400) for which of the two sides is chosen:
where a share p of alike pairs goes to one side, both choices get the same total weight p·(1 − p), so that x says nothing of the choice any
more. The inverse 1 / p (stabilised: 0.5 / p) has this property too, but no bound, and pairs that contradict the rule would carry the
loss; overlap weights lie between 0 and 1, and are those of least variance. Fitting the residual or a product of experts (He, Zha and
Wang 2019; Clark et al. 2019) needs the bias model inside the loss of every training, which a column of a file cannot be.

A weight says nothing of quality: where quality goes along with a surface feature, it is weighted down with it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from cda.arrays import FloatArray, Ids, finite
from cda.errors import DataError
from cda.stats.choice import FEWEST_PROMPTS, chance, maximum

FOLDS = 5
MOST = 5.0
"""Largest weight, in means of all weights: where nearly every choice is told, the few others would be all that is taught (Cole and
Hernán 2008, American Journal of Epidemiology 168, 656–664, on truncation)."""
_RIDGE = 1.0
"""Of coefficients of terms in units of their root mean square; draws weights together, towards 1, where pairs are few."""


@dataclass(frozen=True, slots=True, eq=False)
class ChoiceWeights:
    """`weights` of pairs, of mean 1; `told`: out-of-fold probability of the choice that was made. Each of shape (n,)."""

    weights: FloatArray
    told: FloatArray
    n_folds: int
    n_capped: int
    """Pairs whose weight was cut at `MOST`."""


def choice_weights(differences: Mapping[str, FloatArray], prompt_ids: Ids, rng: np.random.Generator) -> ChoiceWeights:
    """Weights of pairs by how well differences between their sides tell the choice; see the top of this file.

    Args:
        differences: Term to chosen − rejected of each pair, shape (n,); 0 where a pair does not differ, or is not known to.
        prompt_ids: Cluster of each pair. Length n. Pairs of one prompt are in one fold.
        rng: Deals prompts to folds.

    Raises:
        DataError: Fewer than 10 prompts, no pair that differs in any term, or a regression without a solution that could be found.
    """
    x = np.column_stack([finite(values, f"differences in {term}") for term, values in differences.items()])
    prompts, of_row = np.unique(np.asarray(prompt_ids), return_inverse=True)
    if len(prompts) < FEWEST_PROMPTS:
        raise DataError(f"pairs of {len(prompts)} prompts; weights need {FEWEST_PROMPTS}")
    if not x.any():
        raise DataError("no pair differs in any bias or in length, so that there is nothing to weight by")
    folds = (rng.permutation(len(prompts)) % FOLDS)[of_row]
    told = np.empty(len(x))
    for fold in range(FOLDS):
        own = folds == fold
        beta = maximum(x[~own], _RIDGE)
        if beta is None:
            raise DataError("the regression of choices on the biases and length has no solution that could be found")
        told[own] = chance(x[own] @ beta)
    weights = 1 - told
    capped = weights > MOST * weights.mean()
    weights = np.minimum(weights, MOST * weights.mean())
    return ChoiceWeights(weights / weights.mean(), told, FOLDS, int(capped.sum()))


def effective_n(weights: FloatArray) -> float:
    """Number of equally weighted rows that a weighted mean is worth, (Σ w)² / Σ w² (Kish 1965); 0 if all weights are 0."""
    largest = float(weights.max(initial=0.0))
    own = weights / largest if largest else weights
    return float(own.sum() ** 2 / (own**2).sum()) if largest else 0.0
