"""Drift counted by hand, worlds with a planted effect and drift, and features that explain margins."""

from __future__ import annotations

import numpy as np
import pytest
from rows import ids, rng
from scipy import stats

from cda.arrays import FloatArray
from cda.errors import DataError
from cda.features import TEXT_FEATURES
from cda.results.base import Estimate, Missing
from cda.results.effects import Confound, Form, Identification, Limit, SameMargin
from cda.stats.drift import (
    adjusted_effect,
    confounds,
    feature_drift,
    identify,
    mean_margin,
    measured,
    overlap_effect,
    overlap_of,
    paired_features,
)


def test_known_drift() -> None:
    perturbed, base = {"words": [115, 150, 80, 100]}, {"words": [100, 100, 100, 100]}
    (found,) = feature_drift(perturbed, base, ids(4))
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
    words, characters = feature_drift(sides, sides, ids(2), treatment=["words"])
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


@pytest.mark.parametrize(
    ("perturbed", "base", "n", "message"),
    [({}, {}, 0, "no pairs"), ({"words": [1, np.inf]}, {"words": [1, 2]}, 2, "1 of 2 words are NaN or infinite")],
)
def test_what_cannot_be_compared_raises(perturbed: dict, base: dict, n: int, message: str) -> None:
    with pytest.raises(DataError, match=message):
        paired_features(perturbed, base, n)


LIMITS = {"words": Limit(ratio=1.15), "list_lines": Limit(difference=0)}
PERTURBED = {"words": [110, 200, 100, 300], "list_lines": [0, 0, 4, 5]}
BASE = {"words": [100, 100, 100, 100], "list_lines": [0, 0, 0, 0]}


def test_pairs_beyond_any_limit_are_outside_and_counted_by_feature() -> None:
    overlap, inside = overlap_of(PERTURBED, BASE, ids(4), limits=LIMITS)
    assert inside.tolist() == [True, False, False, False]
    assert overlap.beyond == {"words": 2, "list_lines": 2}


def test_the_treatment_is_exempt() -> None:
    found, inside = overlap_of(PERTURBED, BASE, ids(4), limits=LIMITS, treatment=["list_lines"])
    assert inside.tolist() == [True, False, True, False]
    assert (found.n, found.n_prompts, found.n_total, found.share.value) == (2, 2, 4, 0.5)
    assert found.beyond == {"words": 2}


def test_effect_among_the_pairs_within_limits() -> None:
    margins = np.tile([1.0, -1.0, 2.0, 9.0], 30)
    inside = np.tile([True, True, True, False], 30)
    found = overlap_effect(margins, inside, ids(120))
    assert isinstance(found, Estimate)
    assert (found.value, found.n, found.unit) == (pytest.approx(2 / 3), 90, "reward")
    assert mean_margin(margins, ids(120)).value == pytest.approx(11 / 4)


@pytest.mark.parametrize(
    ("n_inside", "n_total", "enough"),
    [(30, 100, True), (29, 100, False), (40, 200, True), (39, 200, False), (30, 150, True), (30, 151, False)],
)
def test_exactly_enough_overlap_is_enough(n_inside: int, n_total: int, enough: bool) -> None:
    """30 prompts and a fifth of the pairs, both of them included."""
    margins, inside = np.arange(n_total) % 7 - 2.0, np.arange(n_total) < n_inside
    found = overlap_effect(margins, inside, ids(n_total))
    assert isinstance(found, Estimate) == enough


def test_like_pairs_that_share_one_margin_keep_it() -> None:
    margins = np.where(np.arange(100) < 50, -1.0, 0.5)
    found = overlap_effect(margins, np.arange(100) < 50, ids(100))
    assert isinstance(found, SameMargin)
    assert (found.value, found.n, found.n_prompts, found.p_value) == (-1.0, 50, 50, pytest.approx(2 * 0.5**50))
    assert "(−1.0 in each)" in found.reason  # a minus, not a hyphen
    few = overlap_effect(margins, np.arange(100) < 5, ids(100))
    assert isinstance(few, Missing) and not isinstance(few, SameMargin)


FORMS: tuple[Form, ...] = ("linear", "log_ratio")
WORDS = {"words": Limit(ratio=1.15)}
TRUTH = 0.5


def linear_world(n: int, seed: int = 0, slope: float = 0.01) -> tuple[FloatArray, dict, dict]:
    """Margins 0.5 + slope · (difference in words) + noise; drift centred on 20 words more, with pairs at 0."""
    random = rng(seed)
    base = random.integers(80, 120, n).astype(float)
    difference = np.round(random.normal(20, 25, n))
    margins = TRUTH + slope * difference + random.normal(0, 0.5, n)
    return margins, {"words": base + difference}, {"words": base}


def run(margins: FloatArray, perturbed: dict, base: dict, **arguments: object) -> Identification:
    return identify(margins, perturbed, base, ids(len(margins)), limits=WORDS, **arguments)  # type: ignore[arg-type]


def fitted(one: Estimate | Missing) -> Estimate:
    assert isinstance(one, Estimate), one
    return one


def test_linear_world_recovers_the_planted_effect() -> None:
    found = run(*linear_world(2000))
    assert found.verdict == "identified"
    linear = fitted(found.adjusted["linear"])
    assert linear.low <= TRUTH <= linear.high
    assert linear.high - linear.low < 0.1
    assert isinstance(found.overlap_effect, Estimate)
    assert found.overlap_effect.low <= TRUTH + 0.04 <= found.overlap_effect.high
    assert "pairs have drift within limits: mean margin +0.5" in found.reason


def test_a_world_without_overlap_is_not_identified() -> None:
    random = rng(1)
    base = random.integers(80, 120, 400).astype(float)
    perturbed = base * random.uniform(2, 4, 400)
    margins = np.sqrt(perturbed - base) + random.normal(0, 0.5, 400)  # no effect at zero drift; the forms cannot know
    found = run(margins, {"words": perturbed}, {"words": base})
    assert found.verdict == "not identified from these pairs"
    assert found.overlap_effect == Missing(reason="no overlap: none of 400 pairs has drift within limits")
    assert found.reason.startswith("no overlap")
    assert found.overlap.n == 0


def test_forms_that_differ_in_sign_are_not_identified_even_with_overlap() -> None:
    # Margins that rise with the logarithm of words: a straight line through long pairs misses zero from above.
    random = rng(2)
    base = np.full(600, 100.0)
    ratio = np.concatenate([np.exp(random.uniform(-0.13, 0.13, 130)), np.exp(random.uniform(0.5, 2.5, 470))])
    margins = -0.3 + np.log(ratio) + random.normal(0, 0.1, 600)
    found = run(margins, {"words": base * ratio}, {"words": base})
    assert fitted(found.adjusted["linear"]).low > 0 > fitted(found.adjusted["log_ratio"]).high
    assert found.verdict == "not identified from these pairs"
    assert found.reason.startswith("adjusted effects differ in sign: linear +")
    assert isinstance(found.overlap_effect, Estimate)  # said, though the verdict is that it cannot be relied on
    assert found.overlap_effect.value == pytest.approx(-0.3, abs=0.05)


def test_without_drift_the_adjusted_effect_is_the_mean_with_its_t_interval() -> None:
    margins = rng(4).normal(0.3, 1, 50)
    found = fitted(adjusted_effect(margins, {"words": np.ones(50)}, {"words": np.ones(50)}, ids(50)))
    expected = stats.ttest_1samp(margins, 0)
    interval = expected.confidence_interval()
    assert (found.value, found.low, found.high) == pytest.approx((margins.mean(), interval.low, interval.high))


def test_a_difference_that_all_pairs_share_is_told_from_the_effect_by_no_form() -> None:
    margins = rng(6).normal(1, 1, 100)
    for form in FORMS:
        found = adjusted_effect(margins, {"words": np.full(100, 150.0)}, {"words": np.full(100, 100.0)}, ids(100), form)
        assert isinstance(found, Missing)
        assert "words is the same in all pairs" in found.reason


def test_a_feature_of_0_has_1_added_to_both_sides() -> None:
    random = rng(4)
    base = random.integers(0, 4, 60).astype(float)
    perturbed = base + random.integers(-1, 5, 60).clip(-base, None)
    ratio = np.log1p(perturbed) - np.log1p(base)
    margins = TRUTH + 2 * ratio + random.normal(0, 0.01, 60)
    found = fitted(adjusted_effect(margins, {"words": perturbed}, {"words": base}, ids(60), "log_ratio"))
    assert found.value == pytest.approx(TRUTH, abs=0.01)


def explained(left: float) -> FloatArray:
    """A model that returns the number of words, plus a fixed reward of the bias."""
    _, perturbed, base = linear_world(200)
    return perturbed["words"] - base["words"] + left


@pytest.mark.parametrize(
    ("margins", "reason"),
    [
        (
            explained(0),
            "the difference in words explains the margins in full, and nothing is left for the bias to explain",
        ),
        (explained(-5), "the difference in words explains in full how the margins vary; −5.0 is left"),
        (np.ones(200), "nothing is left to vary between its 200 prompts"),
    ],
)
def test_margins_without_an_error_say_why(margins: FloatArray, reason: str) -> None:
    _, perturbed, base = linear_world(200)
    found = adjusted_effect(margins, perturbed, base, ids(200))
    assert isinstance(found, Missing) and reason in found.reason
    few = adjusted_effect(margins[:2], {"words": [1, 5]}, {"words": [2, 2]}, ["p", "q"])
    assert isinstance(few, Missing) and "2 prompts for 2 coefficients" in few.reason


Sides = tuple[dict[str, FloatArray], dict[str, FloatArray]]


def sides(n: int, seed: int = 0) -> Sides:
    """Pairs with 1.5 exclamations more on the biased side on average, and with as many words and hedges as on the other."""
    random = rng(seed)
    base = {
        "exclamations": np.zeros(n),
        "words": random.integers(80, 120, n) * 1.0,
        "hedges": random.integers(0, 5, n) * 1.0,
    }
    more = {
        "exclamations": random.integers(0, 4, n),
        "words": random.integers(-9, 10, n),
        "hedges": random.integers(-2, 3, n),
    }
    return {name: base[name] + more[name] for name in base}, base


def found_in(margins: FloatArray, texts: Sides, clusters: list[str] | None = None) -> dict[str, Confound]:
    return {found.feature: found for found in confounds(margins, *texts, clusters or ids(len(margins)))}


def test_a_scorer_of_exclamations_is_found_out() -> None:
    texts = sides(140)
    margins = texts[0]["exclamations"] - texts[1]["exclamations"]
    (found,) = confounds(margins, *texts, ids(140))
    assert found.feature == "exclamations" and isinstance(found.slope, float) and found.p_holm is None
    assert (found.slope, found.r_squared) == (pytest.approx(1), pytest.approx(1))
    # It is the mean margin, whose interval is known.
    interval = stats.ttest_1samp(margins, 0).confidence_interval()
    assert found.accounts_for.value == pytest.approx(margins.mean())
    assert (found.accounts_for.low, found.accounts_for.high) == pytest.approx((interval.low, interval.high), rel=0.02)
    for form in ("linear", "log_ratio"):
        left = adjusted_effect(margins, *texts, ids(140), form)  # type: ignore[arg-type]
        assert (
            not isinstance(left, Missing)
            or "the difference in exclamations explains the margins in full" in left.reason
        )


def test_slopes_are_those_of_a_regression_with_clustered_errors_by_hand() -> None:
    texts, random = sides(120, 1), rng(2)
    names = ["exclamations", "words", "hedges"]
    differences = np.column_stack([texts[0][name] - texts[1][name] for name in names])
    clusters = np.repeat(np.arange(60), 2)
    margins = 0.3 + 0.5 * differences[:, 0] - 0.1 * differences[:, 1] + random.normal(0, 0.5, 120)
    found = found_in(margins, texts, [str(prompt) for prompt in clusters])
    assert list(found) == sorted(found, key=lambda name: -found[name].r_squared) and set(found) == {
        "exclamations",
        "words",
    }
    design = np.column_stack([np.ones(120), differences])
    inverse = np.linalg.inv(design.T @ design)
    coefficients = inverse @ design.T @ margins
    scores = design * (margins - design @ coefficients)[:, None]
    summed = np.array([scores[clusters == prompt].sum(axis=0) for prompt in range(60)])
    errors = np.sqrt(np.diag(inverse @ (summed.T @ summed) @ inverse) * 60 / 56)
    p_values = 2 * stats.t.sf(np.abs(coefficients / errors)[1:], 56)
    for at, name in enumerate(names[:2], 1):
        slope = found[name].slope
        assert isinstance(slope, Estimate) and slope.unit == f"reward per {name}" and slope.n_prompts == 60
        assert slope.value == pytest.approx(coefficients[at])
        assert slope.high - slope.value == pytest.approx(stats.t.ppf(0.975, 56) * errors[at], rel=0.05)
        assert found[name].p_holm == pytest.approx(
            min(1, (3 - np.argsort(np.argsort(p_values))[at - 1]) * p_values[at - 1])
        )
        assert found[name].r_squared == pytest.approx(np.corrcoef(differences[:, at - 1], margins)[0, 1] ** 2)
    assert found["exclamations"].accounts_for.value == pytest.approx(coefficients[1] * differences[:, 0].mean())


def test_features_that_are_one_are_not_told_apart() -> None:
    texts = sides(60)
    twin = tuple({**side, "bold": side["exclamations"]} for side in texts)
    margins = texts[0]["exclamations"] + rng(3).normal(0, 0.1, 60)
    assert not found_in(margins, (twin[0], twin[1])) and list(found_in(margins, texts)) == ["exclamations"]
    same = (
        {"words": np.full(60, 9.0), "hedges": texts[0]["hedges"]},
        {"words": np.full(60, 8.0), "hedges": texts[1]["hedges"]},
    )
    left = adjusted_effect(margins, *same, ids(60))
    assert isinstance(left, Missing) and "a difference in words is the same in all pairs" in left.reason
    assert not found_in(np.ones(60), texts) and not found_in(
        margins[:4], tuple({name: side[name][:4] for name in side} for side in texts)
    )  # type: ignore[arg-type]
