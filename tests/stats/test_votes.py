"""Raw votes: majorities, agreement and the noise ceiling, on votes that can be counted and on simulated people."""

from __future__ import annotations

import krippendorff
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from rows import ids, rng

from cda.errors import DataError
from cda.results.base import Estimate, Missing
from cda.stats.estimators import wilson
from cda.stats.votes import (
    WORDS,
    agreement,
    assumed_ties,
    count_votes,
    leading_words,
    majority,
    majority_targets,
    noise_ceiling,
)

VOTES = [
    ["perturbed", "perturbed", "base"],
    ["base", "base"],
    ["tie", "tie", "base"],
    ["perturbed", "base"],
    [],
    ["perturbed", "tie", "base"],
    ["base"],
]
votes = st.lists(st.lists(st.sampled_from(WORDS), max_size=5), min_size=2, max_size=20)
FLIP = {"perturbed": "base", "base": "perturbed", "tie": "tie"}


def people(n: int, alphas: list[float], n_votes: int, random: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """Two sets of votes on the same items by different people."""
    shares = random.dirichlet(alphas, n)
    return random.multinomial(n_votes, shares), random.multinomial(n_votes, shares)


def test_majorities_by_hand() -> None:
    counts = count_votes(VOTES)
    assert counts.tolist() == [[2, 1, 0], [0, 2, 0], [0, 1, 2], [1, 1, 0], [0, 0, 0], [1, 1, 1], [0, 1, 0]]
    assert leading_words(counts) == ["perturbed", "base", "tie", "split", "no votes", "split", "base"]
    assert majority_targets(counts).tolist() == [1, 0, 0.5, 0.5, 0.5, 0.5, 0]
    dropped = majority(counts, "drop")
    assert dropped.target[dropped.used].tolist() == [1, 0, 0]
    assert dropped.exclusions.reasons == {"no votes": 1, "split": 2, "tie": 1}
    half = majority(counts, "half")
    assert half.target[half.used].tolist() == [1, 0, 0.5, 0.5, 0.5, 0]
    assert half.exclusions.reasons == {"no votes": 1}
    released = majority(counts, "as-released", ["base", "tie", None, "perturbed", "base", "tie", "base"])
    assert released.target[released.used].tolist() == [0, 1, 0, 0]
    assert released.exclusions.reasons == {"no label": 1, "tie": 2}


def test_assumed_ties_are_what_votes_for_ties_would_give() -> None:
    assumed, voted = assumed_ties(3), majority(count_votes([["tie"]] * 3 + [["base"]]), "half")
    assert assumed.target.tolist() == voted.target[:3].tolist() == [0.5] * 3
    assert assumed.used.tolist() == voted.used[:3].tolist() == [True] * 3
    assert assumed.rule == voted.rule and (assumed.exclusions.seen, assumed.exclusions.reasons) == (3, {})


@settings(deadline=None, derandomize=True)
@given(votes.filter(lambda table: any(set(words) - {"tie"} for words in table)), st.randoms(use_true_random=False))
def test_swapping_the_sides_and_the_order_of_votes(table: list[list[str]], random) -> None:
    counts = count_votes(table)
    flipped = count_votes([random.sample([FLIP[word] for word in words], len(words)) for words in table])
    assert majority_targets(flipped).tolist() == (1 - majority_targets(counts)).tolist()
    for rule in ("drop", "half"):
        try:
            one, other = majority(counts, rule), majority(flipped, rule)
        except DataError:
            continue
        assert one.used.tolist() == other.used.tolist()
        assert one.used.sum() + one.exclusions.dropped == len(table)
        assert other.target.tolist() == (1 - one.target).tolist()


def test_agreement_by_hand_and_by_the_library() -> None:
    counts = count_votes([["base"] * 3, ["base", "base", "perturbed"], ["tie", "tie"], ["perturbed"]] * 5)
    found = agreement(counts, ids(20))
    assert found.majority_share.value == pytest.approx((1 + 2 / 3 + 1) / 3)
    assert (found.majority_share.n, found.n_votes) == (15, 40)
    assert found.exclusions.reasons == {"fewer than two votes": 5}
    expected = krippendorff.alpha(value_counts=counts[counts.sum(axis=1) > 1], level_of_measurement="nominal")
    assert found.alpha.value == pytest.approx(expected)
    assert found.alpha.low < found.alpha.value < found.alpha.high


def test_alpha_is_that_of_the_library_on_uneven_votes() -> None:
    random = rng(4)
    counts = np.array([random.multinomial(random.integers(1, 6), random.dirichlet([1, 0.5, 1])) for _ in range(80)])
    library = counts[counts.sum(axis=1) > 1][:, [1, 2, 0]]  # base, tie, perturbed
    expected = krippendorff.alpha(value_counts=library, level_of_measurement="nominal")
    assert agreement(counts, ids(80)).alpha.value == pytest.approx(expected)


def test_items_of_one_prompt_are_drawn_together() -> None:
    counts, _ = people(60, [1, 1, 0.3], 3, rng(1))
    once = agreement(counts, ids(60))
    thrice = agreement(np.tile(counts, (3, 1)), ids(60) * 3)
    assert thrice.majority_share.value == pytest.approx(once.majority_share.value)
    width, tripled = (one.alpha.high - one.alpha.low for one in (once, thrice))
    assert tripled == pytest.approx(width, rel=0.15)


@pytest.mark.parametrize(
    ("alphas", "n_votes"), [([0.5, 0.8, 0.2], 3), ([3.0, 4.0, 1.0], 3), ([1.0, 1.0, 0.2], 5), ([0.1, 0.2, 0.02], 2)]
)
@pytest.mark.parametrize("rule", ["drop", "half"])
@pytest.mark.usefixtures("few_draws")
def test_the_ceiling_is_what_a_second_panel_really_shows(alphas: list[float], n_votes: int, rule) -> None:
    first, second = people(4_000, alphas, n_votes, rng(8))
    one, other = majority(first, rule), majority(second, rule)
    both = one.used & other.used
    actual = np.abs(one.target - other.target)[both].mean()
    found = noise_ceiling(first, one, ids(4_000))
    assert found.miscalibration.value == pytest.approx(actual, abs=0.02)
    assert found.miscalibration.low - 0.01 <= actual <= found.miscalibration.high + 0.01
    assert found.vote_correlation == pytest.approx(1 / (1 + sum(alphas)), abs=0.05)


def test_unanimous_votes_do_not_show_that_nobody_would_disagree() -> None:
    counts = count_votes([["base"] * 3] * 10 + [["perturbed"] * 3] * 10)
    found = agreement(counts, [str(row) for row in range(20)])
    assert found.majority_share.value == found.alpha.value == 1.0
    assert 0.8 < found.majority_share.low < 0.9  # Wilson's 20 of 20
    assert 0.6 < found.alpha.low < found.majority_share.low


def test_without_alpha_the_majority_share_stands() -> None:
    one_word = agreement(count_votes([["base", "base"]] * 3), ids(3))
    assert isinstance(one_word.alpha, Missing) and "every vote is the same word" in one_word.alpha.reason
    assert (one_word.majority_share.value, one_word.n_votes) == (1.0, 6)
    few = agreement(count_votes([["base", "base"], ["base", "base"], ["tie", "base"]]), ids(3))
    assert isinstance(few.alpha, Missing) and "3 prompts are too few" in few.alpha.reason
    assert few.majority_share.value == pytest.approx(2.5 / 3)


def test_items_that_are_all_split_alike_leave_alpha_a_width() -> None:
    """No draw differs from another, which does not show that no other prompt would."""
    wide, narrow = (agreement(count_votes([["perturbed", "perturbed", "base"]] * n), ids(n)).alpha for n in (10, 60))
    assert wide is not None and narrow is not None
    for alpha in (wide, narrow):
        assert -1 <= alpha.low < alpha.value < alpha.high <= 1
    place = tuple(2 * end - 1 for end in wilson(30 * (narrow.value + 1), 60))
    assert (narrow.low, narrow.high) == pytest.approx(place)
    assert wide.high - wide.low > 2 * (narrow.high - narrow.low)


@pytest.mark.parametrize("votes", [["perturbed", "perturbed", "base"], ["base"] * 3])
def test_items_with_the_same_votes_leave_the_second_majority_a_width(votes: list[str]) -> None:
    counts = count_votes([votes] * 20)
    found = noise_ceiling(counts, majority(counts, "drop"), ids(20)).miscalibration
    assert (found.low, found.high) == pytest.approx(wilson(20 * found.value, 20))
    assert found.high - found.low > 0.15
    with pytest.raises(DataError, match="votes on 19 prompts, and a noise ceiling needs at least 20"):
        noise_ceiling(counts[1:], majority(counts[1:], "drop"), ids(19))


def test_the_ceiling_s_interval_counts_the_error_of_the_pooled_shares(monkeypatch: pytest.MonkeyPatch) -> None:
    """As wide as that of ceilings of drawn prompts, each with pooled shares of its own; fixed ones would make it a tenth narrower."""
    rng = np.random.default_rng(4)
    first = rng.binomial(3, rng.beta(1.5, 0.5, 60))
    counts = np.column_stack([first, 3 - first, 0 * first])
    ids = [f"p{row}" for row in range(len(counts))]
    found = noise_ceiling(counts, majority(counts, "drop"), ids).miscalibration
    monkeypatch.setattr("cda.stats.estimators.N_DRAWS", 2)
    drawn = [counts[rng.integers(0, len(counts), len(counts))] for _ in range(400)]
    values = [noise_ceiling(votes, majority(votes, "drop"), ids).miscalibration.value for votes in drawn]
    assert (found.high - found.low) / (2 * 2.02) == pytest.approx(np.std(values), rel=0.06)


def test_agreement_with_a_stated_majority_counts_items_decided_for_one_side() -> None:
    """The mean share of votes for the majority: ties and splits are out, and it is not the share of the most frequent word."""
    votes = [
        ["perturbed", "perturbed", "base"],
        ["base", "base", "base"],
        ["tie", "tie", "base"],
        ["perturbed", "base", "tie"],
    ]
    counts = count_votes(votes)
    people = majority(counts, "as-released", ["perturbed", "base", "tie", "base"])
    found = agreement(counts, ["a", "b", "c", "d"], people).with_majority
    assert isinstance(found, Estimate) and (found.n, found.value) == (3, pytest.approx((2 / 3 + 1 + 1 / 3) / 3))
    assert agreement(counts, ["a", "b", "c", "d"]).with_majority is None
    stated = count_votes([[], ["perturbed", "base", "tie"]])
    without = majority(stated, "as-released", ["perturbed", "tie"])
    missing = Missing(reason="no item of 2 has votes and a majority for one side")
    assert agreement(stated, ["a", "b"], without).with_majority == missing
