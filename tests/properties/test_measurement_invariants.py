"""What every measurement must obey, whatever the data: mirrored labels, order, copies, units, bounds, and bad inputs.

One kind of row carries all that is measured; each law is stated once and tried on every public measurement. Rewards
are eighths and shifts whole numbers, so that sums are exact and a tie stays a tie.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import fields, is_dataclass
from typing import Any, Literal, NamedTuple

import numpy as np
import pytest
from hypothesis import Phase, assume, given, settings
from hypothesis import strategies as st

from cda.errors import DataError
from cda.numbers.people import against_people
from cda.results.base import Estimate, Missing, Result
from cda.results.effects import Effect, Form, Limit
from cda.stats.drift import (
    adjusted_effect,
    feature_drift,
    identify,
    mean_margin,
    overlap_effect,
    overlap_of,
)
from cda.stats.estimators import mean_of, resampled, share_of, wilson
from cda.stats.means import inside_fences, over_seeds, smallest_detectable
from cda.stats.multiplicity import holm, partial_conjunction
from cda.stats.people import auc, panel_margins
from cda.stats.proportions import (
    chosen_correlation,
    contingency,
    exact_change_test,
    positive_share,
    positive_shares,
)
from cda.stats.rate import (
    Contrasts,
    conditional_effects,
    direct_contrast,
    effect_slope,
    from_preferences,
    from_rewards,
    quantile_groups,
    rate_effects,
    rewrite_effect,
)
from cda.stats.sample_size import prompts_for_effect, votes_for_majority
from cda.stats.votes import Majority, agreement, count_votes, majority, noise_ceiling

NAN, INF = float("nan"), float("inf")
FLIP = {"perturbed": "base", "base": "perturbed", "tie": "tie", "none": "none"}
LIMITS = {"words": Limit(ratio=1.5)}
FORMS: tuple[Form, ...] = ("linear", "log_ratio")
# A failing sample has twelve rows at most: not worth the minutes that shrinking takes over every measure.
EVERY = settings(deadline=None, derandomize=True, max_examples=10, phases=(Phase.explicit, Phase.generate))


class Row(NamedTuple):
    """A contrast with its scores before and after, its triple, its features, its labels and its vote."""

    prompt: str
    perturbed: float
    base: float
    perturbed_after: float
    base_after: float
    original: float
    rewrite: float
    back: float
    has_bias: bool
    words: float
    base_words: float
    label: bool | None
    base_label: bool | None
    vote: str


REWARDS = ("perturbed", "base", "perturbed_after", "base_after", "original", "rewrite", "back")
Rows = list[Row]

eighths = st.integers(-24, 24).map(lambda number: number / 8)
words = st.integers(1, 9).map(lambda number: 20.0 * number)
# At most six prompts: from eight on alike ones are drawn together, and mirrored data no longer meet mirrored draws.
row = st.builds(
    Row,
    st.integers(0, 5).map(lambda number: f"p{number}"),
    *[eighths] * 7,
    st.booleans(),
    words,
    words,
    st.booleans(),
    st.booleans(),
    st.sampled_from(["perturbed", "base", "tie"]),
)
samples = st.lists(row, min_size=6, max_size=12)


def column(rows: Rows, name: str) -> list[Any]:
    return [getattr(one, name) for one in rows]


def numbers(rows: Rows, name: str) -> np.ndarray:
    return np.array(column(rows, name), dtype=np.float64)


def prompts(rows: Rows) -> list[str]:
    return column(rows, "prompt")


def margins(rows: Rows, when: str = "") -> np.ndarray:
    return numbers(rows, f"perturbed{when}") - numbers(rows, f"base{when}")


def people(rows: Rows) -> Majority:
    return majority(count_votes([[] if vote == "none" else [vote] for vote in column(rows, "vote")]), "drop")


def triples(rows: Rows) -> Contrasts:
    return from_rewards(*(column(rows, name) for name in ("original", "rewrite", "back", "has_bias")), prompts(rows))


def judged(rows: Rows) -> Contrasts:
    """The same triples as a judge compares them; it need not be additive."""
    ids, has = prompts(rows), column(rows, "has_bias")
    pairs = [(a, b) for a in range(len(rows)) for b in range(len(rows)) if has[a] and not has[b] and ids[a] == ids[b]]
    views = (numbers(rows, name) / 3 for name in ("original", "rewrite", "back"))
    naive = [(rows[a].back - rows[b].back) / 6 for a, b in pairs]
    return from_preferences(*views, has, ids, naive, pairs)


def features(rows: Rows) -> tuple[dict[str, np.ndarray], dict[str, np.ndarray]]:
    return {"words": numbers(rows, "words")}, {"words": numbers(rows, "base_words")}


def both_words(rows: Rows) -> np.ndarray:
    """A covariate that is the same whichever side is called perturbed."""
    return numbers(rows, "words") + numbers(rows, "base_words")


def groups(rows: Rows) -> list[str]:
    return ["long" if total > 200 else "short" for total in both_words(rows)]


def against(ties: Literal["no-hit", "half", "drop"]) -> Callable[[Rows], Any]:
    return lambda rows: against_people(margins(rows), people(rows), prompts(rows), ties)


# Each takes rows and gives a result or raises; under each name whatever numbers it holds.
MEASURES: dict[str, Callable[[Rows], Any]] = {
    "rate": lambda r: rate_effects(triples(r)),
    "rate by a judge": lambda r: rate_effects(judged(r)),
    "direct contrast": lambda r: direct_contrast(margins(r), prompts(r)),
    "groups": lambda r: conditional_effects(triples(r), groups(r), "double"),
    "groups, naive": lambda r: conditional_effects(triples(r), groups(r), "naive"),
    "slope": lambda r: effect_slope(triples(r), both_words(r), "double"),
    "slope, naive": lambda r: effect_slope(triples(r), both_words(r), "naive"),
    "skew": lambda r: {"skew": positive_share(margins(r), prompts(r))},
    "change of skew": lambda r: {
        "moved": positive_shares([margins(r), margins(r, "_after")], prompts(r)).change,
        "test": exact_change_test(margins(r) > 0, margins(r, "_after") > 0, prompts(r)),
    },
    "people": against("no-hit"),
    "people, ties half": against("half"),
    "people, ties left out": against("drop"),
    "people, mean over models": lambda r: against_people([margins(r), margins(r, "_after")], people(r), prompts(r)),
    "auc": lambda r: {"auc": auc(margins(r), people(r).target, prompts(r))},
    "contingency": lambda r: contingency(column(r, "label"), column(r, "base_label"), prompts(r)),
    "correlation with chosen": lambda r: {"r_train": chosen_correlation(numbers(r, "words") - numbers(r, "base_words"), prompts(r))},
    "drift": lambda r: {one.feature: one for one in feature_drift(*features(r), prompts(r), limits=LIMITS)},
    "overlap": lambda r: overlap_of(*features(r), prompts(r), limits=LIMITS)[0],
    "effect among overlapping": lambda r: overlap_effect(margins(r), overlap_of(*features(r), prompts(r), limits=LIMITS)[1], prompts(r)),
    "identification": lambda r: identify(margins(r), *features(r), prompts(r), limits=LIMITS),
}  # fmt: skip
each_measure = pytest.mark.parametrize("name", MEASURES)

PAIRS = ("perturbed", "base"), ("perturbed_after", "base_after"), ("words", "base_words"), ("label", "base_label")


def swapped(rows: Rows) -> Rows:
    """The other side is called perturbed, the attribute is called its absence, and votes say so too."""
    return [
        one._replace(
            **{a: getattr(one, b) for pair in PAIRS for a, b in (pair, pair[::-1])},
            has_bias=not one.has_bias,
            vote=FLIP[one.vote],
        )
        for one in rows
    ]


def swapped_as_judged(rows: Rows) -> Rows:
    """As `swapped`, where the triple's numbers are a judge's margins for the attribute rather than rewards.

    The rewrite effect is the rewrite of the rewrite against the original, whatever the attribute is called.
    """
    return [one._replace(original=-one.original, rewrite=-one.rewrite) for one in swapped(rows)]


def rewarded(rows: Rows, change: Callable[[Row, float], float]) -> Rows:
    return [one._replace(**{name: change(one, getattr(one, name)) for name in REWARDS}) for one in rows]


Number = Estimate | float | None
Found = dict[str, Number]


def found(rows: Rows, names: Collection[str] = tuple(MEASURES)) -> Found:
    """All numbers of these measures by their place; None in place of a measure that says that it cannot be made."""
    everything: Found = {}
    for name in names:
        try:
            everything |= dict(_leaves(MEASURES[name](rows), name))
        except DataError as error:
            assert str(error)
            everything[name] = None
    return everything


def _leaves(value: Any, place: str) -> Iterator[tuple[str, Number]]:
    if isinstance(value, (Estimate, float)):
        yield place, value
    elif isinstance(value, Effect):
        for part in ("estimate", "standard_error", "p_value", "standardised"):
            yield from _leaves(getattr(value, part), f"{place}/{value.estimand}/{value.estimator}/{part}")
    elif isinstance(value, Missing):
        assert value.reason
    elif isinstance(value, Mapping):
        for key, one in value.items():
            yield from _leaves(one, f"{place}/{key}")
    elif isinstance(value, tuple):
        for one in value:
            yield from _leaves(one, place)
    elif isinstance(value, Result):
        for part_name in type(value).model_fields:
            yield from _leaves(getattr(value, part_name), f"{place}/{part_name}")
    elif is_dataclass(value) and not isinstance(value, Limit):
        for part in fields(value):
            yield from _leaves(getattr(value, part.name), f"{place}/{part.name}")


def parts(value: Number) -> list[float]:
    """Value, low and high of an estimate, or the one number."""
    if isinstance(value, Estimate):
        return [value.value, value.low, value.high]
    return [] if value is None else [value]


def last(place: str) -> str:
    return place.rsplit("/", 1)[-1]


def alike(one: Found, other: Found, times: Callable[[str, Number], float] = lambda _, __: 1.0) -> None:
    """The same is estimated, and each number of the other is so many times that of the one."""
    assert one.keys() == other.keys()
    for place, value in one.items():
        expected = [times(place, value) * number for number in parts(value)]
        assert parts(other[place]) == pytest.approx(expected, rel=1e-9, abs=1e-9), place


def left_out(all_found: Found, *words: str) -> Found:
    return {place: value for place, value in all_found.items() if not any(word in place for word in words)}


# --- mirrored labels -------------------------------------------------------------------------------------------------

# By the last word of a place; whatever is not named changes its sign.
MIRRORED = {"skew", "skew_on_voted", "human_skew", "selection_rate"}
UNCHANGED = {
    "miscalibration", "auc", "gap", "r", "share", "beyond", "standard_error", "p_value", "r_squared",
    "chosen_rate", "rejected_rate", "perturbed_mean", "base_mean",
}  # fmt: skip
RENAMED = {
    "ATT": "ATU", "ATU": "ATT", "w = 1": "w = 0", "w = 0": "w = 1",
    "chosen_rate": "rejected_rate", "rejected_rate": "chosen_rate",
    "perturbed_mean": "base_mean", "base_mean": "perturbed_mean",
}  # fmt: skip


def mirrored(place: str, value: Number) -> list[float]:
    there = parts(value)
    # Two rewrites change what they change, whatever the attribute is called.
    if last(place) in UNCHANGED or "rewrite effect" in place:
        return there
    is_share = last(place) in MIRRORED and not (isinstance(value, Estimate) and value.unit == "share difference")
    return [1 - number if is_share else -number for number in (*there[:1], *there[:0:-1])]


@EVERY
@given(samples)
def test_calling_the_other_side_perturbed_mirrors_every_measure(rows: Rows) -> None:
    """Without ties, which are no hit for either side."""
    assume((margins(rows) != 0).all() and (margins(rows, "_after") != 0).all())
    judge = {"rate by a judge"}
    there = found(rows, MEASURES.keys() - judge) | found(rows, judge)
    back = found(swapped(rows), MEASURES.keys() - judge) | found(swapped_as_judged(rows), judge)
    for one in (there, back):
        one.pop("drift/words/median_ratio", None)  # of an even number of pairs, a median has no inverse
    assert {"/".join(RENAMED.get(word, word) for word in place.split("/")) for place in there} == back.keys()
    for place, value in there.items():
        other = "/".join(RENAMED.get(word, word) for word in place.split("/"))
        # What exchanges places does not exchange its interval's draws: those come one after the other.
        drawn_in_turn = last(place) in ("chosen_rate", "rejected_rate")
        only = 1 if drawn_in_turn else None
        assert parts(back[other])[:only] == pytest.approx(mirrored(place, value)[:only], abs=1e-9), place


@pytest.fixture(autouse=True, scope="module")
def small_samples() -> Iterator[None]:
    """The laws hold for any number of draws, and of pairs that overlap."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("cda.stats.estimators.N_DRAWS", 500)
        patch.setattr("cda.stats.drift.MIN_PROMPTS", 2)
        patch.setattr("cda.stats.drift.MIN_SHARE", 0.1)
        yield


# --- order and copies ------------------------------------------------------------------------------------------------


@EVERY
@given(samples, st.randoms(use_true_random=False))
def test_the_order_of_rows_changes_nothing_with_the_same_seed(rows: Rows, random) -> None:
    shuffled = list(rows)
    random.shuffle(shuffled)
    alike(found(rows), found(shuffled))


@EVERY
@given(samples)
def test_copies_of_rows_within_their_prompts_add_nothing(rows: Rows) -> None:
    """Twice against four times: once against twice may also change Wilson's or Newcombe's interval for the bootstrap.

    Standardised effects move a little: their scale is the originals' SD over n − 2, a property of the sample's size.
    """
    twice, fourfold = found(rows * 2), found(rows * 4)
    for name in MEASURES:
        moves = () if name == "drift" else ("/standardised",)
        one, other = (
            left_out({place: value for place, value in copies.items() if place.split("/")[0] == name}, *moves)
            for copies in (twice, fourfold)
        )
        alike(one, other)
    for place, value in twice.items():
        other_value = fourfold[place]
        if isinstance(value, Estimate) and isinstance(other_value, Estimate):
            # A judge compares each original with each of the other kind: twice the rows are four times the pairs.
            times = 4 if place.startswith("rate by a judge") and "/naive/" in place else 2
            assert (other_value.n, other_value.n_prompts) == (times * value.n, value.n_prompts), place


# --- units -----------------------------------------------------------------------------------------------------------


@EVERY
@given(samples, st.sampled_from([0.125, 3.0, 1024.0]))
def test_only_effects_in_reward_units_follow_the_scale_of_the_reward(rows: Rows, times: float) -> None:
    names = MEASURES.keys() - {"rate by a judge"}  # preferences have no unit
    assume(
        {getattr(one, name) for one in rows for name in ("original", "rewrite", "back")} != {0.0, 1.0}
    )  # yes or no has none

    def factor(place: str, value: Number) -> float:
        in_reward = isinstance(value, Estimate) and value.unit.startswith("reward")
        return times if in_reward or last(place) == "standard_error" else 1.0

    alike(found(rows, names), found(rewarded(rows, lambda _, reward: times * reward), names), factor)


@EVERY
@given(samples, st.lists(st.integers(-50, 50), min_size=6, max_size=6))
def test_rewards_that_are_shifted_prompt_by_prompt_keep_every_paired_measure(rows: Rows, shifts: list[int]) -> None:
    """A reward model's level on a prompt is arbitrary. Only what compares unpaired originals is moved by it."""
    other = rewarded(rows, lambda one, reward: reward + shifts[int(one.prompt[1:])])
    names = MEASURES.keys() - {"rate by a judge"}
    alike(*(left_out(found(one, names), "naive", "/standardised") for one in (rows, other)))


@EVERY
@given(samples, st.sampled_from([0.5, 3.0]))
def test_the_unit_of_a_feature_is_its_own(rows: Rows, times: float) -> None:
    scaled = [one._replace(words=times * one.words, base_words=times * one.base_words) for one in rows]
    names = [name for name in MEASURES if name.startswith(("drift", "overlap", "effect", "identif", "correl"))]

    def factor(place: str, _: Number) -> float:
        if place == "identification/confounds/slope":  # reward for each one more
            return 1.0 / times
        return times if place.startswith("drift/words/") and last(place) in IN_WORDS else 1.0

    alike(found(rows, names), found(scaled, names), factor)


IN_WORDS = {"difference", "perturbed_mean", "base_mean"}


# --- bounds ----------------------------------------------------------------------------------------------------------

RANGE = {"share": (0, 1), "share difference": (-1, 1), "AUC": (0, 1), "correlation": (-1, 1)}
# Where no draw of prompts differs, these have no interval to fall back on as shares have Wilson's and Newcombe's.
MAY_BE_CLOSED = ("drift/",)


@EVERY
@given(samples)
def test_intervals_hold_their_estimates_and_stay_within_what_is_possible(rows: Rows) -> None:
    for place, value in found(rows).items():
        assert all(math.isfinite(number) for number in parts(value)), place
        if isinstance(value, Estimate):
            least, most = RANGE.get(value.unit, (-INF, INF))
            # Rounding may leave a correlation of 1.0000000000000002.
            assert least - 1e-9 <= value.low and value.high <= most + 1e-9, place
            assert value.low - 1e-9 <= value.value <= value.high + 1e-9, place
            assert value.low < value.high or place.startswith(MAY_BE_CLOSED), place
            assert 1 <= value.n_prompts <= value.n, place
        elif value is not None and last(place) == "p_value":
            assert 0 <= value <= 1, place
        elif value is not None and last(place) == "standard_error":
            assert value > 0, place


# --- two ways to one number ------------------------------------------------------------------------------------------


@EVERY
@given(samples)
def test_a_gap_is_a_difference_of_skews_and_no_more_than_the_disagreement(rows: Rows) -> None:
    for name in ("people", "people, ties half", "people, ties left out", "people, mean over models"):
        here = found(rows, [name])
        if here.get(name, 0) is None:
            continue
        skew, human, wrong, signed, gap = (
            parts(here[f"{name}/{part}"])[0]
            for part in ("skew_on_voted", "human_skew", "miscalibration", "signed_gap", "gap")
        )
        assert signed == pytest.approx(skew - human, abs=1e-12)
        assert gap == pytest.approx(abs(signed)) and gap <= wrong + 1e-12


# --- bad input: an error or a reason, never a number -----------------------------------------------------------------

SAMPLE = [
    Row(
        f"p{n // 2}", *np.random.default_rng(n).integers(-24, 24, 7) / 8, n % 3 == 0, 20.0 * (1 + n % 7), 20.0 * (2 + n % 5),
        n % 2 == 0, n % 5 == 0, ("perturbed", "base", "tie")[n * n % 7 % 3],
    )
    for n in range(24)
]  # fmt: skip
READS_REWARDS = [name for name in MEASURES if not name.startswith(("contingency", "correlation", "drift", "overlap"))]
READS_VOTES = ["people", "people, ties half", "people, ties left out", "people, mean over models", "auc"]


def broken(field: str, value: Any) -> Rows:
    return [SAMPLE[0]._replace(**{field: value}), *SAMPLE[1:]]


@each_measure
def test_every_measure_gives_numbers_on_a_plain_sample(name: str) -> None:
    """Else the laws above would hold of nothing."""
    assert None not in found(SAMPLE, [name]).values()


@each_measure
def test_no_rows_are_no_result(name: str) -> None:
    with pytest.raises(DataError, match=r"no |none of|one each"):
        MEASURES[name]([])


@pytest.mark.parametrize("name", READS_REWARDS)
@pytest.mark.parametrize("value", [NAN, INF, -INF])
def test_one_reward_that_is_no_number_is_refused(name: str, value: float) -> None:
    read: tuple[str, ...] = ("original", "rewrite", "back")
    if not name.startswith(("rate", "groups", "slope")):
        read = ("perturbed", "base")
    if name in ("change of skew", "people, mean over models"):
        read += ("perturbed_after", "base_after")
    for side in read:
        with pytest.raises(DataError, match=r"NaN|finite"):
            MEASURES[name](broken(side, value))


@pytest.mark.parametrize("name", ["drift", "overlap", "identification"])
def test_a_feature_that_does_not_hold_for_one_text_leaves_numbers(name: str) -> None:
    """NaN is a feature that means nothing for a text, such as the syllables of Chinese."""
    assert None not in found(broken("words", NAN), [name]).values()


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("drift", INF),
        ("overlap", INF),
        ("identification", INF),
        ("correlation with chosen", INF),
        ("correlation with chosen", NAN),
    ],
)
def test_one_feature_that_is_no_number_is_refused(name: str, value: float) -> None:
    with np.errstate(invalid="ignore"), pytest.raises(DataError, match="NaN or infinite"):
        MEASURES[name](broken("words", value))


@pytest.mark.parametrize("name", READS_VOTES)
@pytest.mark.parametrize(("vote", "message"), [("none", "no votes on any of 24"), ("tie", "no item has a majority")])
def test_without_a_vote_for_a_side_nothing_is_said_about_people(name: str, vote: str, message: str) -> None:
    with pytest.raises(DataError, match=message):
        MEASURES[name]([one._replace(vote=vote) for one in SAMPLE])


def test_one_vote_has_no_agreement_no_ceiling_and_nothing_to_rank() -> None:
    rows = [one._replace(vote="base" if number == 0 else "none") for number, one in enumerate(SAMPLE)]
    counts = count_votes([[] if one.vote == "none" else [one.vote] for one in rows])
    with pytest.raises(DataError, match="agreement between people cannot be estimated"):
        agreement(counts, prompts(rows))
    with pytest.raises(DataError, match="there is no noise ceiling"):
        noise_ceiling(counts, people(rows), prompts(rows))
    with pytest.raises(DataError, match="0 majorities for the perturbed side and 1 for the base"):
        MEASURES["auc"](rows)
    one = against_people(margins(rows), people(rows), prompts(rows))
    assert "auc" not in one
    # One row is a share with nearly every share in its interval.
    assert (one["human_skew"].n, one["human_skew"].value) == (1, 0.0) and one["human_skew"].high > 0.75


# Shares keep Wilson's interval over the one prompt, nearly as wide as can be; all else needs a second prompt.
SHARES = ["skew", "change of skew", "people", "people, ties half", "people, ties left out", "people, mean over models",
          "auc", "contingency", "drift of labels", "overlap"]  # fmt: skip


@each_measure
def test_one_prompt_shows_no_spread_between_prompts(name: str) -> None:
    rows = [one._replace(prompt="p0") for one in SAMPLE]
    if name in SHARES:
        for place, value in found(rows, [name]).items():
            assert value.high - value.low > 0.5 if isinstance(value, Estimate) else value == 1.0, place
    elif name == "effect among overlapping":
        assert "from 1 prompts" in MEASURES[name](rows).reason
    elif name.startswith("groups"):
        assert all(isinstance(one, Missing) for one in MEASURES[name](rows).values())
    else:
        with pytest.raises(DataError, match=r"1 prompt|one prompt|three prompts|: 1, two at least"):
            MEASURES[name](rows)


@pytest.mark.parametrize("w", [True, False])
def test_a_constant_attribute_leaves_reasons_where_the_other_group_is_needed(w: bool) -> None:
    rows = [one._replace(has_bias=w) for one in SAMPLE]
    for contrasts in (triples(rows), judged(rows)):
        result = rate_effects(contrasts)
        assert {one.estimand for one in result.effects} == {"ATT" if w else "ATU", f"w = {int(w)}"}
        assert all(
            "W is constant" in one.reason or "a judge compares answers to one prompt" in one.reason
            for one in result.not_estimated
        )
        assert {one.estimand for one in result.not_estimated} >= {"ATE", "ATU" if w else "ATT", f"w = {int(not w)}"}
        assert all(isinstance(one.standardised, Missing) and one.standardised.reason for one in result.effects)
        with pytest.raises(DataError, match="W is constant"):
            rewrite_effect(contrasts, int(not w))
    with pytest.raises(DataError, match="cannot be estimated"):
        MEASURES["slope, naive"](rows)


@pytest.mark.parametrize("level", [0.0, 0.1])
def test_margins_that_are_all_the_same_have_no_error_to_go_with_a_mean(level: float) -> None:
    """All ties among them: a mean margin of exactly 0 with no width would claim certainty."""
    rows = [
        one._replace(perturbed=level, **{"back" if one.has_bias else "rewrite": level})
        for one in rewarded(SAMPLE, lambda _, __: 0.0)
    ]
    for name in ("direct contrast", "identification", "slope"):
        with pytest.raises(DataError, match=r"varies|vary"):
            MEASURES[name](rows)
    among = MEASURES["effect among overlapping"](rows)
    assert isinstance(among, Missing) and "its error is unknown" in among.reason
    for form in FORMS:
        adjusted = adjusted_effect(margins(rows), *features(rows), prompts(rows), form)
        assert isinstance(adjusted, Missing) and "error is unknown" in adjusted.reason
    with pytest.raises(DataError, match="does not vary between its 12 prompts"):
        mean_margin(margins(rows), prompts(rows))
    skew = positive_share(margins(rows), prompts(rows))
    assert skew.low < skew.high  # a share keeps its width


NOTHING: dict[str, tuple[Callable[[], Any], str]] = {
    # A side is missing.
    "triple without a rewrite": (lambda: from_rewards([1, 2], [None, 1], [1, 2], [0, 1], ["a", "b"]), "all its sides"),
    "judge without a verdict": (lambda: from_preferences([None], [0], [0], [1], ["a"]), "double contrast: 1 of 1"),
    "pair without a margin": (lambda: direct_contrast([1, NAN], ["a", "b"]), "1 of 2 margins are NaN"),
    "choices without labels": (lambda: contingency([None], [True], ["a"]), "rates cannot be estimated"),
    "votes without items": (lambda: count_votes([]), "nothing about people can be estimated"),
    # Lengths and shapes that differ.
    "rows without a cluster": (lambda: resampled([[1], [2]], ["p"], np.ravel, "reward"), "one cluster for each row"),
    "hits without a prompt": (lambda: share_of([1, 0], ["p"]), "one each is needed"),
    "means without a prompt": (lambda: mean_of([1.0], ["a", "b"]), "one each"),
    "seeds in one row": (lambda: over_seeds([1.0, 0.0], ["a", "b"]), "a row for each seed"),
    "labels of released votes": (lambda: majority(count_votes([["base"], []]), "as-released"), "one released label for each"),
    # Too little.
    "one training": (lambda: over_seeds([[1.0, 0.0]], ["a", "b"]), "1 seeds and 2 prompts"),
    "test of one prompt": (lambda: mean_of([1.0, 2.0], ["a", "a"]), "one prompt"),
    "fences around nothing": (lambda: inside_fences([]), "finite"),
    "limit on nothing measured": (lambda: overlap_of({"bold": [1]}, {"bold": [1]}, ["a"], limits=LIMITS), "limit is set on words"),
    "more effects than tests": (lambda: partial_conjunction([0.1, 0.2], 3), "between 1 and their number"),
    # Nothing differs.
    "no pair with one biased side": (lambda: contingency([True], [True], ["a"]), "no choice for or against"),
    "feature that never differs": (lambda: chosen_correlation([0, 0], ["a", "b"]), "a correlation is undefined"),
    # Nothing is left.
    "interval of nothing": (lambda: wilson(0, 0), "0 hits of 0"),
    "more hits than rows": (lambda: wilson(4, 3), "4 hits of 3"),
    "mean of nothing": (lambda: mean_of([], []), "no rows"),
    # Not a number, or another one.
    "vote for a third side": (lambda: count_votes([["base"], ["left"]]), "item 1: vote 'left' is none of"),
    "attribute between": (lambda: from_rewards([1], [1], [1], [0.5], ["a"]), "0 or 1"),
    "preference beyond its range": (lambda: from_preferences([-3], [0], [0], [1], ["a"]), "between −1 and 1, found -3"),
    "test of NaN": (lambda: exact_change_test([NAN], [1], ["p"]), "between 0 and 1"),
    "p-value of NaN": (lambda: holm([0.1, NAN]), "1 of 2 p-values"),
    "test of thirds": (lambda: exact_change_test([1 / 3], [1], ["a"]), "rows of 0, 0.5 or 1"),
    "plan without an error": (lambda: smallest_detectable([0.0], [9], 0.05), "no spread to plan with"),
    "panel without a verdict": (lambda: panel_margins([[NAN, NAN]]), "no verdicts"),
    "ranges of nothing": (lambda: quantile_groups([], 3), "do not split"),
    "verdict beyond its range": (lambda: panel_margins([[INF]]), r"preference in \[-1, 1\]"),
    "plan for an error beyond all": (lambda: votes_for_majority(1.5, 0.1), "lies between 0 and 1"),
    "plan without a spread": (lambda: prompts_for_effect(0.1, 0.0), "a positive number is needed"),
    "plan of more tests than there are": (lambda: smallest_detectable([1.0], [9], 0.05, r=2), "r lies between 1 and k"),
}  # fmt: skip


@pytest.mark.parametrize("case", NOTHING)
def test_what_cannot_be_estimated_is_named(case: str) -> None:
    call, message = NOTHING[case]
    with pytest.raises(DataError, match=message):
        call()
