"""Drift between the sides of pairs, on values that can be counted by hand."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest
from rows import ids, rng

from cda.arrays import FloatArray
from cda.errors import DataError
from cda.features import TEXT_FEATURES
from cda.results.effects import Limit
from cda.stats.drift import embedding_similarity, feature_drift, label_drift, measured, paired_features


def test_known_drift() -> None:
    perturbed, base = {"words": [115, 150, 80, 100]}, {"words": [100, 100, 100, 100]}
    (found,) = feature_drift(perturbed, base, ids(4), rng())
    assert (found.perturbed_mean, found.base_mean, found.difference.value) == (111.25, 100.0, 11.25)
    assert found.difference.low < 11.25 < found.difference.high
    assert (found.difference.n, found.difference.unit) == (4, "words")
    assert found.median_ratio == pytest.approx(1.075)
    assert found.standardised is not None
    spread = np.sqrt(np.var([115, 150, 80, 100]) / 2)
    assert found.standardised.value == pytest.approx(11.25 / spread)
    assert found.standardised.low == pytest.approx(found.difference.low / spread)
    assert found.beyond is not None
    assert found.beyond.value == 0.5  # 150 and 80; 115 is within 15%
    assert found.model_dump()["limit"] == {"ratio": 1.15, "difference": None}


def test_treatment_is_reported_and_marked_and_features_without_limit_have_no_share() -> None:
    sides = {"words": [1.0, 2.0], "characters": [5.0, 5.0]}
    words, characters = feature_drift(sides, sides, ids(2), rng(), treatment=["words"])
    assert (words.is_treatment, characters.is_treatment) == (True, False)
    assert (words.difference.value, characters.beyond, characters.standardised) == (0.0, None, None)


@pytest.mark.parametrize(
    ("limit", "perturbed", "base", "inside"),
    [
        (Limit(ratio=1.15), 115, 100, True),
        (Limit(ratio=1.15), 100, 115, True),
        (Limit(ratio=1.15), 116, 100, False),
        (Limit(ratio=1.15), 1, 0, False),
        (Limit(ratio=1.15), 1, 0.9, True),  # a feature below 1 is no 0
        (Limit(ratio=1.15), 0, 0, True),
        (Limit(ratio=1.25, difference=2), 2, 0, True),
        (Limit(ratio=1.25, difference=2), 3, 0, False),
        (Limit(ratio=1.25, difference=2), 25, 20, True),
        (Limit(difference=0), 3, 3, True),
        (Limit(difference=0), 3, 4, False),
        (Limit(difference=10), -5, 5, True),
        (Limit(ratio=1.5), -4, -5, False),  # no ratio of negative values
    ],
)
def test_limits(limit: Limit, perturbed: float, base: float, inside: bool) -> None:
    assert limit.holds(np.array([perturbed], float), np.array([base], float)).tolist() == [inside]


@pytest.mark.parametrize("wrong", [{}, {"ratio": 0.9}, {"difference": -1}, {"ratio": float("nan")}])
def test_a_limit_without_meaning_is_refused(wrong: dict[str, float]) -> None:
    with pytest.raises(ValueError, match="limit"):
        Limit(**wrong)


def test_measured_texts() -> None:
    found = measured(["One two. Three!", ""], ["words", "exclamations"])
    assert {name: values.tolist() for name, values in found.items()} == {"words": [3, 0], "exclamations": [1, 0]}
    assert set(measured(["a"])) == set(TEXT_FEATURES)
    with pytest.raises(DataError, match=r"feature 'wrds' is unknown\. Did you mean 'words'\?"):
        measured(["a"], ["wrds"])


def test_labels_of_another_bias_as_drift() -> None:
    found = label_drift([True, True, False, None, True], [False, False, False, True, None], ids(5))
    assert (found.value, found.n) == (pytest.approx(2 / 3), 3)
    assert found.low <= found.value <= found.high
    back = label_drift([False, False, False], [True, True, False], ids(3))
    assert back.value == pytest.approx(-2 / 3)
    with pytest.raises(DataError, match="none of 1 pairs"):
        label_drift([None], [True], ["p"])


def test_embedding_similarity_of_known_vectors() -> None:
    vectors = {"east": (2.0, 0.0), "north": (0.0, 1.0), "both": (3.0, 3.0)}

    def encode(texts: Sequence[str]) -> FloatArray:
        return np.array([vectors[text] for text in texts])

    found = embedding_similarity(["east", "east"], ["north", "both"], encode, ids(2), rng())
    assert found.value == pytest.approx(np.sqrt(0.5) / 2)
    assert (found.unit, found.n) == ("cosine", 2)


@pytest.mark.parametrize("vectors", [np.zeros((4, 2)), np.full((4, 2), np.nan), np.ones((3, 2)), np.ones(4)])
def test_embeddings_without_a_cosine_raise(vectors: FloatArray) -> None:
    with pytest.raises(DataError, match=r"embeddings|encoder"):
        embedding_similarity(["a", "b"], ["c", "d"], lambda _: vectors, ids(2), rng())


@pytest.mark.parametrize(
    ("perturbed", "base", "n", "message"),
    [({}, {}, 0, "no pairs"), ({"words": [1, np.nan]}, {"words": [1, 2]}, 2, "1 of 2 words are NaN or infinite")],
)
def test_what_cannot_be_compared_raises(perturbed: dict, base: dict, n: int, message: str) -> None:
    with pytest.raises(DataError, match=message):
        paired_features(perturbed, base, n)
