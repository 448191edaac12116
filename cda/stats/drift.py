"""Drift: other changes between the two sides of a pair, feature by feature.

Features are given as `perturbed` and `base`: name to its values on the biased and on the unbiased sides, shape (n,) each; values that
are not finite raise DataError. `treatment`: features that are the bias itself.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from types import MappingProxyType

import numpy as np
from numpy.typing import ArrayLike

from cda.arrays import FloatArray, finite
from cda.errors import DataError, did_you_mean
from cda.features import TEXT_FEATURES
from cda.results.base import Estimate
from cda.results.effects import FeatureDrift, Limit
from cda.stats.bootstrap import bootstrap_mean
from cda.stats.proportions import paired_change, wilson_share

Features = Mapping[str, ArrayLike]

# Limits for the features that bias files tell a rewriter to keep. Features without a limit follow from these (characters
# and sentences from words, long words and type-token ratio from readability); they are reported, and do not exclude.
DEFAULT_LIMITS: Mapping[str, Limit] = MappingProxyType(
    {
        "words": Limit(ratio=1.15),  # "the word count, within 15%" in every bias file that keeps length
        "list_lines": Limit(difference=0),  # layout is kept or it is not
        "headers": Limit(difference=0),
        "bold": Limit(difference=0),
        "exclamations": Limit(difference=1),  # one may be punctuation, two are a tone
        "specifics": Limit(ratio=1.25, difference=2),  # a name said once more by its name is no new fact
        "hedges": Limit(difference=2),
        "flesch_reading_ease": Limit(difference=10),  # the width of one step of Flesch's scale (plain, fairly easy, …)
    }
)


def measured(texts: Sequence[str], features: Collection[str] = tuple(TEXT_FEATURES)) -> dict[str, FloatArray]:
    """Features of many texts, each of shape (n,).

    Raises:
        DataError: A feature is unknown.
    """
    for feature in features:
        if feature not in TEXT_FEATURES:
            known = ", ".join(TEXT_FEATURES)
            raise DataError(f"feature '{feature}' is unknown.{did_you_mean(feature, TEXT_FEATURES)} Known: {known}")
    return {name: np.array([TEXT_FEATURES[name](text) for text in texts], dtype=np.float64) for name in features}


def feature_drift(
    perturbed: Features,
    base: Features,
    prompt_ids: Sequence[str],
    rng: np.random.Generator,
    *,
    limits: Mapping[str, Limit] = DEFAULT_LIMITS,
    treatment: Collection[str] = (),
) -> list[FeatureDrift]:
    """Drift of every measured feature, in the order given; the treatment's too, marked as such. `limits`: what is small.

    Raises:
        DataError: No pairs, or one prompt.
    """
    drifts = []
    for name, (first, second) in paired_features(perturbed, base, len(prompt_ids)).items():
        drawn = bootstrap_mean(first - second, prompt_ids, rng).estimate(name)
        spread = float(np.sqrt((first.var() + second.var()) / 2))
        both = (first > 0) & (second > 0)
        limit = limits.get(name)
        drifts.append(
            FeatureDrift(
                feature=name,
                is_treatment=name in treatment,
                perturbed_mean=float(first.mean()),
                base_mean=float(second.mean()),
                difference=drawn,
                standardised=drawn.over(spread, "standard deviations", drawn.method) if spread > 0 else None,
                median_ratio=float(np.median(first[both] / second[both])) if both.any() else None,
                beyond=wilson_share(~limit.holds(first, second), prompt_ids) if limit else None,
                limit=limit,
            )
        )
    return drifts


def label_drift(perturbed: Sequence[bool | None], base: Sequence[bool | None], prompt_ids: Sequence[str]) -> Estimate:
    """Drift in another bias: mean of label(perturbed) − label(base), of the pairs whose labels could both be parsed (not None).

    Positive if the other bias was added as well.

    Raises:
        DataError: No pair has both labels.
    """
    rows = [
        (first, second, prompt)
        for first, second, prompt in zip(perturbed, base, prompt_ids, strict=True)
        if first is not None and second is not None
    ]
    if not rows:
        raise DataError(f"none of {len(prompt_ids)} pairs has a parsed label on both sides")
    having, lacking, kept = zip(*rows, strict=True)
    return paired_change(lacking, having, kept)


def embedding_similarity(
    perturbed: Sequence[str],
    base: Sequence[str],
    encode: Callable[[Sequence[str]], FloatArray],
    prompt_ids: Sequence[str],
    rng: np.random.Generator,
) -> Estimate:
    """Mean cosine similarity of the two sides (1: same direction); `encode` gives shape (texts, dimensions), of any length.

    Raises:
        DataError: The encoder gave a wrong shape, a value that is not finite, or a zero vector.
    """
    n = len(prompt_ids)
    vectors = np.asarray(encode([*perturbed, *base]), dtype=np.float64)
    if vectors.ndim != 2 or len(vectors) != 2 * n:
        raise DataError(f"the encoder gave shape {vectors.shape} for {2 * n} texts: (texts, dimensions) is needed")
    norms = np.linalg.norm(vectors, axis=1)
    if not np.isfinite(norms).all() or (norms == 0).any():
        raise DataError(f"{int((~(norms > 0)).sum())} of {2 * n} embeddings are zero or not finite: no cosine exists")
    unit = vectors / norms[:, None]
    return bootstrap_mean((unit[:n] * unit[n:]).sum(axis=1), prompt_ids, rng).estimate("cosine")


def paired_features(perturbed: Features, base: Features, n: int) -> dict[str, tuple[FloatArray, FloatArray]]:
    """Both sides of each feature of n pairs as arrays; DataError for no pairs, and values that are not finite."""
    if n == 0:
        raise DataError("no pairs: drift of nothing cannot be measured")
    return {name: (finite(values, name), finite(base[name], name)) for name, values in perturbed.items()}
