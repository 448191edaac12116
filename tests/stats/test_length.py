"""Length next to a bias: planted parts of length, of the bias and of both, on contrasts whose biased side is longer too."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from cda.errors import DataError
from cda.results.base import Estimate
from cda.results.effects import LengthBaseline
from cda.stats.length import length_baseline

N = 120
IDS = [f"q{row // 2}" for row in range(N)]
LENGTH = np.linspace(30, 300, N)


@pytest.fixture
def rng() -> np.random.Generator:
    return np.random.default_rng(0)


@pytest.fixture
def changes(rng: np.random.Generator) -> dict[str, np.ndarray]:
    """Changes of the features: a bias by which three contrasts of four grow by 10 to 40 characters, words at random."""
    dose = rng.uniform(0.05, 0.2, N)
    characters = np.where(np.arange(N) % 4 == 0, -5.0, 150 * dose + rng.normal(0, 5, N))
    return {"characters": characters, "words": rng.integers(-3, 4, N).astype(float), "long_word_share": dose}


def baseline(changes: dict[str, np.ndarray], margins: Any) -> LengthBaseline:
    base = {name: np.zeros(N) for name in changes} | {"characters": LENGTH, "words": LENGTH / 5}
    perturbed = {name: base[name] + change for name, change in changes.items()}
    return length_baseline(margins, perturbed, base, ["long_word_share"], IDS)


def value(found: Any) -> float:
    assert isinstance(found, Estimate), found
    return found.value


def test_scorers_of_length_prefer_the_longer_side(changes: dict[str, np.ndarray]) -> None:
    found = baseline(changes, np.arange(N))
    assert found.characters.value == pytest.approx((changes["characters"] > 0).mean())
    words = changes["words"]
    assert found.words.value == pytest.approx((words > 0).mean() + (words == 0).mean() / 2)
    assert found.characters.n_prompts == N / 2


@pytest.mark.parametrize("noise", [0.0, 5.0])
def test_a_scorer_of_characters_or_words_is_not_told_apart(
    changes: dict[str, np.ndarray], rng: np.random.Generator, noise: float
) -> None:
    margins = changes["characters"] + 2 * changes["words"] + rng.normal(0, noise, N) if noise else changes["characters"]
    found = baseline(changes, margins)
    assert found.rival == "length"
    assert value(found.explained) + value(found.left) == pytest.approx(margins.mean())
    if not noise:
        assert value(found.left) == pytest.approx(0, abs=1e-9)


def test_what_the_bias_itself_adds_is_left_to_it(changes: dict[str, np.ndarray], rng: np.random.Generator) -> None:
    both = 0.1 * changes["characters"] + 50 * changes["long_word_share"] + rng.normal(0, 1, N)
    found = baseline(changes, both)
    assert found.rival is None
    assert isinstance(found.left, Estimate)
    assert found.left.low < 50 * changes["long_word_share"].mean() < found.left.high
    assert baseline(changes, 1 + rng.normal(0, 1, N)).rival is None, "the attribute alone, whatever its dose"


def test_a_bias_that_leaves_a_bend_of_length_alone_is_not_told_apart(changes: dict[str, np.ndarray]) -> None:
    bent = changes["characters"] + 0.001 * changes["characters"] ** 2
    assert baseline(changes, bent).rival == "length"


def test_a_scorer_of_the_logarithm_of_length_is_not_told_apart(changes: dict[str, np.ndarray]) -> None:
    grows = changes | {"characters": np.abs(changes["characters"]) * 3}
    assert baseline(grows, np.log1p(LENGTH + grows["characters"]) - np.log1p(LENGTH)).rival == "length"


def test_a_phrase_of_one_length_that_has_one_margin_is_not_told_apart(
    changes: dict[str, np.ndarray], rng: np.random.Generator
) -> None:
    phrase = changes | {"characters": np.full(N, 16.0), "words": np.full(N, 2.0)}
    assert baseline(phrase, np.full(N, 16.0)).rival == "length"
    assert baseline(phrase, 16 + rng.normal(0, 2, N)).rival is None, "no scorer of length"
    assert baseline(changes, np.full(N, 16.0)).rival is None, "whatever the change in length"


def test_a_judge_of_length_that_ties_long_texts_is_not_told_apart(changes: dict[str, np.ndarray]) -> None:
    long = LENGTH > 250
    assert baseline(changes, np.where(long, 0.0, np.sign(changes["characters"]))).rival == "length"


def test_one_that_only_names_a_side_is_told_by_the_contrasts_whose_biased_side_is_shorter(
    changes: dict[str, np.ndarray],
) -> None:
    assert baseline(changes, np.sign(changes["characters"])).rival == "length"
    assert baseline(changes, -np.sign(changes["characters"])).rival == "length", "the shorter side"
    assert baseline(changes, np.ones(N)).rival is None, "also where the biased side is shorter"
    longer = changes | {"characters": np.abs(changes["characters"])}
    assert baseline(longer, np.ones(N)).rival == "length", "the longer side is the biased one everywhere"


def test_without_a_preference_length_explains_nothing(changes: dict[str, np.ndarray]) -> None:
    assert baseline(changes, np.zeros(N)).rival is None
    with pytest.raises(DataError, match="no contrasts"):
        length_baseline([], {}, {}, [], [])


def beside(
    changes: dict[str, np.ndarray],
    margins: np.ndarray,
    own: str = "long_word_share",
    wording: np.ndarray | None = None,
    **amounts: np.ndarray,
) -> str | None:
    base = {name: np.zeros(N) for name in (*changes, *amounts)} | {"characters": LENGTH, "words": LENGTH / 5}
    perturbed = {name: base[name] + change for name, change in (changes | amounts).items()}
    counted = np.zeros((N, 0)) if wording is None else wording
    return length_baseline(margins, perturbed, base, [own], IDS, wording=counted).rival


def test_another_amount_is_a_rival_where_it_explains_the_margins_better(
    changes: dict[str, np.ndarray], rng: np.random.Generator
) -> None:
    vowels = 4 + rng.normal(0, 2, N)
    assert baseline(changes, vowels).rival is None, "characters and words alone do not explain it"
    assert beside(changes, vowels, vowels=vowels) == "vowels"
    assert beside(changes, vowels + rng.normal(0, 1, N), vowels=vowels) == "vowels"
    assert beside(changes, vowels, vowels=rng.normal(4, 2, N)) is None, "another number of vowels explains nothing"
    assert beside(changes, 8 + rng.normal(0, 2, N), vowels=vowels) is None, "margins that go with nothing measured"


def test_an_amount_that_varies_with_the_margins_and_leaves_their_mean_is_no_rival(
    changes: dict[str, np.ndarray], rng: np.random.Generator
) -> None:
    vowels = rng.normal(0, 2, N)
    assert beside(changes, 8 + vowels, vowels=vowels) is None, "the bias has the mean"


def test_a_judge_of_another_amount_goes_by_its_side(changes: dict[str, np.ndarray], rng: np.random.Generator) -> None:
    words = np.round(3 + rng.normal(0, 4, N))
    assert beside(changes, np.sign(words), different_words=words) == "different_words"
    likes = np.where(rng.random(N) < 0.85, 1.0, -1.0)
    assert beside(changes, likes, different_words=words) is None, "one that likes the bias in 85%"


def test_a_count_of_a_few_words_is_a_rival_by_the_wording(
    changes: dict[str, np.ndarray], rng: np.random.Generator
) -> None:
    counts = rng.poisson(1.0, (N, 60)) - rng.poisson(0.4, (N, 60))
    to_be = counts[:, :6].sum(axis=1).astype(float)
    assert beside(changes, to_be) is None, "nothing that is measured explains it"
    assert beside(changes, to_be, wording=counts) == "wording"
    assert beside(changes, 2 + rng.normal(0, 1, N), wording=counts) is None, "no count explains noise"


def test_a_real_mixture_of_length_wording_and_bias_is_told_apart(
    changes: dict[str, np.ndarray], rng: np.random.Generator
) -> None:
    counts = rng.poisson(1.0, (N, 60)) - rng.poisson(0.4, (N, 60))
    mixed = 2 + 0.02 * changes["characters"] + 0.2 * counts[:, 0] + rng.normal(0, 1, N)
    assert beside(changes, mixed, wording=counts.astype(float), vowels=rng.normal(4, 2, N)) is None


def test_a_part_of_the_bias_explains_for_it_and_is_no_rival(
    changes: dict[str, np.ndarray], rng: np.random.Generator
) -> None:
    vowels = 4 + rng.normal(0, 2, N)
    reading = {"flesch_reading_ease": rng.normal(-5, 1, N)}
    assert beside(changes | reading, vowels, own="flesch_reading_ease", vowels=vowels) is None
    lines = rng.integers(3, 6, N).astype(float)
    dashes = np.where(rng.random(N) < 0.7, lines, 0.0)
    listed = changes | {"list_lines": lines, "characters": 20 + 3 * dashes + rng.normal(0, 5, N)}
    assert beside(listed, dashes, own="list_lines") == "length", "a list of either kind has the same lines"
    assert beside(listed, dashes, own="list_lines", bullet_lines=dashes) is None


def test_the_rival_explains_prompts_that_it_was_not_fitted_on(
    changes: dict[str, np.ndarray], rng: np.random.Generator
) -> None:
    margins = np.repeat(rng.normal(1, 1, N // 2), 2)
    by_prompt = np.repeat(np.eye(N // 2), 2, axis=0)
    assert beside(changes, margins, wording=by_prompt) is None, "a count of its own in each prompt explains no other"
