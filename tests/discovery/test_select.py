"""Who survives a generation: both cuts as the paper has them, and fronts against their definition."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cda.discovery.attribute import attribute_bias
from cda.discovery.records import Candidate, Standing
from cda.discovery.search import cut_by_judge, cut_by_reward, families_of, pareto_fronts, select, survivors

TEN = [-5.0, -4.0, -3.0, -2.0, -1.0, 1.0, 2.0, 3.0, 4.0, 5.0]
# Few values, so that ties are common.
rewards = st.sampled_from([-2.0, -1.0, -0.5, 0.0, 0.5, 1.0])
preferences = st.sampled_from([0.0, 0.25, 0.5, 0.75, 1.0])
points = st.lists(st.tuples(rewards, preferences), max_size=12)


def standings(
    given_rewards: Sequence[float | None], judges: Sequence[float | None] | None = None
) -> tuple[Standing, ...]:
    told = judges if judges is not None else [None] * len(given_rewards)
    return tuple(
        Standing(Candidate(attribute_bias(f"Attribute number {at}")), 0 if reward is None else 4, reward, judge)
        for at, (reward, judge) in enumerate(zip(given_rewards, told, strict=True))
    )


def fates(found: Sequence[Standing]) -> list[str]:
    return [one.fate for one in found]


def kept(found: Sequence[Standing]) -> list[int]:
    return [at for at, one in enumerate(found) if one.fate == "kept"]


def test_the_lowest_forty_percent_go() -> None:
    # The 40% quantile of -5 … 5 is -1.4: the four below it are gone, -1 stays although the model dislikes it.
    assert fates(cut_by_reward(standings(TEN), 0.4, 1)) == ["reward"] * 4 + ["kept"] * 6


def test_nothing_that_is_rewarded_goes_however_low_it_ranks() -> None:
    liked = [float(at) for at in range(10)]
    assert fates(cut_by_reward(standings(liked), 0.4, 1)) == ["kept"] * 10
    mostly = [-1.0, *liked]
    assert fates(cut_by_reward(standings(mostly), 0.4, 1)) == ["reward"] + ["kept"] * 10


def test_the_best_stay_where_fewer_than_the_target_would_be_left() -> None:
    assert kept(cut_by_reward(standings(TEN), 0.9, 1)) == [5, 6, 7, 8, 9]  # the threshold is 0, not the quantile of 4.1
    all_bad = [-1.0, -2.0, -3.0, -4.0]
    assert kept(cut_by_reward(standings(all_bad), 0.75, 3)) == [0, 1, 2]
    assert kept(cut_by_reward(standings(all_bad), 0.75, 9)) == [0, 1, 2, 3]
    assert kept(cut_by_reward(standings(all_bad), 0.75, 0)) == [0]  # nobody has to stay: the quantile alone decides


def test_ties_at_the_threshold_stay_together() -> None:
    assert kept(cut_by_reward(standings([-1.0] * 5), 0.4, 1)) == [0, 1, 2, 3, 4]
    assert kept(cut_by_reward(standings([-3.0, -1.0, -1.0, -1.0]), 1.0, 2)) == [1, 2, 3]


def test_what_was_never_rewritten_goes_without_moving_the_threshold() -> None:
    found = cut_by_reward(standings([None, *TEN, None]), 0.4, 1)
    assert fates(found) == ["too few rewrites", *["reward"] * 4, *["kept"] * 6, "too few rewrites"]
    assert fates(cut_by_reward(standings([None, None]), 0.4, 1)) == ["too few rewrites"] * 2
    assert cut_by_reward([], 0.4, 1) == []
    # It is no way to reach the target either.
    assert kept(cut_by_reward(standings([None, -1.0, -2.0]), 1.0, 3)) == [1, 2]


def test_what_the_judge_likes_best_goes() -> None:
    judges = [0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1.0]
    # The 70% quantile is 0.73.
    assert kept(cut_by_judge(standings([1.0] * 10, judges), 0.3, 1)) == [0, 1, 2, 3, 4, 5, 6]


def test_nothing_that_the_judge_dislikes_goes_however_it_ranks() -> None:
    disliked = [0.05 * at for at in range(10)]
    assert kept(cut_by_judge(standings([1.0] * 10, disliked), 0.3, 1)) == list(range(10))
    assert kept(cut_by_judge(standings([1.0] * 3, [0.5, 0.5, 0.51]), 1.0, 1)) == [0, 1]


def test_the_least_liked_stay_where_fewer_than_the_target_would_be_left() -> None:
    liked = [0.9, 0.7, 0.8, 1.0]
    assert kept(cut_by_judge(standings([1.0] * 4, liked), 1.0, 2)) == [1, 2]
    assert kept(cut_by_judge(standings([1.0] * 4, liked), 1.0, 9)) == [0, 1, 2, 3]
    assert kept(cut_by_judge(standings([1.0] * 4, liked), 1.0, 0)) == [1]


def test_without_a_verdict_a_candidate_counts_as_liked() -> None:
    found = cut_by_judge(standings([1.0] * 4, [None, 0.2, 0.3, 0.4]), 0.3, 1)
    assert fates(found) == ["judge", "kept", "kept", "kept"]
    assert kept(cut_by_judge(standings([1.0] * 3), 0.3, 1)) == [0, 1, 2]


def test_the_judges_cut_leaves_alone_who_is_gone_already() -> None:
    before = list(standings([1.0, -9.0, None, 2.0], [0.9, None, None, 0.1]))
    before[1], before[2] = replace(before[1], fate="reward"), replace(before[2], fate="too few rewrites")
    assert fates(cut_by_judge(before, 0.5, 1)) == ["judge", "reward", "too few rewrites", "kept"]
    gone = before[1:3]
    assert cut_by_judge(gone, 0.5, 1) == gone and cut_by_judge([], 0.5, 1) == []


@given(st.lists(st.none() | rewards, max_size=14), st.sampled_from([0.0, 0.1, 0.4, 0.75, 1.0]), st.integers(0, 16))
def test_the_reward_cut_keeps_its_promises(given_rewards: list[float | None], share: float, target: int) -> None:
    found = cut_by_reward(standings(given_rewards), share, target)
    measured = [one.reward for one in found if one.reward is not None]
    left = [one.reward for one in found if one.fate == "kept" and one.reward is not None]
    gone = [one.reward for one in found if one.fate == "reward" and one.reward is not None]
    assert len(left) + len(gone) == len(measured)
    assert len(left) >= min(target, len(measured))
    assert all(reward < 0 for reward in gone)
    assert not gone or not left or max(gone) < min(left)
    # Below the paper's threshold nobody stays but those who are needed to reach the target.
    if measured:
        threshold = min(0.0, float(np.quantile(measured, share)))
        assert all(sum(other > one for other in measured) < target for one in left if one < threshold)
        assert all(one < threshold for one in gone)


@given(points, st.sampled_from([0.0, 0.3, 0.5, 1.0]), st.integers(0, 14))
def test_the_judges_cut_keeps_its_promises(given_points: list[tuple[float, float]], share: float, target: int) -> None:
    found = cut_by_judge(standings(*_columns(given_points)), share, target)
    left = [one.judge for one in found if one.fate == "kept" and one.judge is not None]
    gone = [one.judge for one in found if one.fate == "judge" and one.judge is not None]
    assert len(left) + len(gone) == len(given_points)
    assert len(left) >= min(target, len(given_points))
    assert all(judge > 0.5 for judge in gone)
    assert not gone or not left or min(gone) > max(left)
    if given_points:
        threshold = max(0.5, float(np.quantile([judge for _, judge in given_points], 1 - share)))
        assert all(sum(other < one for _, other in given_points) < target for one in left if one > threshold)
        assert all(one > threshold for one in gone)


@given(points)
def test_fronts_are_what_nothing_left_dominates(given_points: list[tuple[float, float]]) -> None:
    def dominated(at: int, among: list[int]) -> bool:
        mine = given_points[at]
        return any(
            all(theirs >= own for theirs, own in zip(given_points[other], mine, strict=True))
            and any(theirs > own for theirs, own in zip(given_points[other], mine, strict=True))
            for other in among
        )

    left = list(range(len(given_points)))
    for front in pareto_fronts(given_points):
        assert front == [at for at in left if not dominated(at, left)] and front
        left = [at for at in left if at not in front]
    assert left == []


def test_known_fronts() -> None:
    #  0 and 1 trade reward for the judge; 2 is behind both; 3 equals 0; 4 is behind 2.
    found = pareto_fronts([(2.0, -0.5), (1.0, -0.1), (1.0, -0.5), (2.0, -0.5), (0.0, -0.9)])
    assert found == [[0, 1, 3], [2], [4]]
    assert pareto_fronts([]) == []


def test_of_the_front_that_does_not_fit_the_most_rewarded_stay() -> None:
    # All on one front: the more reward, the more the judge likes it.
    one_front = standings([1.0, 4.0, 2.0, 3.0], [0.1, 0.4, 0.2, 0.3])
    assert fates(select(one_front, 2)) == ["front", "kept", "front", "kept"]
    # A whole front first, although the next one holds more reward than its last.
    two = standings([5.0, 1.0, 4.0, 3.0], [0.5, 0.1, 0.6, 0.5])
    assert kept(select(two, 3)) == [0, 1, 2]
    assert kept(select(two, 9)) == [0, 1, 2, 3]
    assert kept(select(two, 0)) == []


def test_equals_stay_in_their_order() -> None:
    assert kept(select(standings([1.0] * 5, [0.2] * 5), 3)) == [0, 1, 2]


def test_selection_counts_only_who_is_left_and_a_missing_verdict_as_the_worst() -> None:
    before = list(standings([9.0, 1.0, 1.0, 2.0], [0.0, 0.5, None, 1.0]))
    before[0] = replace(before[0], fate="judge")
    assert fates(select(before, 2)) == ["judge", "kept", "front", "kept"]


@given(points, st.integers(0, 14))
def test_nobody_that_goes_dominates_somebody_that_stays(given_points: list[tuple[float, float]], n: int) -> None:
    found = select(standings(*_columns(given_points)), n)
    left, gone = kept(found), [at for at, one in enumerate(found) if one.fate == "front"]
    assert len(left) == min(n, len(given_points)) and len(left) + len(gone) == len(given_points)
    for stays, goes in itertools.product(left, gone):
        (reward, judge), (other_reward, other_judge) = given_points[stays], given_points[goes]
        assert not (other_reward >= reward and other_judge <= judge and (other_reward, other_judge) != (reward, judge))


def in_families(found: Sequence[Standing], letters: str) -> dict[str, str]:
    return {one.candidate.id: letter for one, letter in zip(found, letters, strict=True)}


def test_the_best_of_each_family_stays_before_a_second_of_any() -> None:
    # Each on a front of its own, the first one best.
    found = standings([6.0, 5.0, 4.0, 3.0, 2.0, 1.0], [0.1, 0.2, 0.3, 0.4, 0.5, 0.6])
    families = in_families(found, "aaabbc")
    assert kept(select(found, 3)) == [0, 1, 2]
    assert kept(select(found, 3, families)) == [0, 3, 5]
    assert kept(select(found, 2, families)) == [0, 3]
    assert kept(select(found, 4, families)) == [0, 1, 3, 5]
    assert kept(select(found, 5, families)) == [0, 1, 3, 4, 5]  # a second of b before a third of a
    assert kept(select(found, 9, families)) == [0, 1, 2, 3, 4, 5]


def test_a_family_of_which_nobody_is_left_takes_no_place() -> None:
    found = list(standings([6.0, 5.0, 4.0], [0.1, 0.2, 0.3]))
    found[2] = replace(found[2], fate="judge")
    assert fates(select(found, 2, in_families(found, "aab"))) == ["kept", "kept", "judge"]


@given(points, st.integers(0, 14), st.data())
def test_families_keep_their_promises(given_points: list[tuple[float, float]], n: int, data: st.DataObject) -> None:
    found = standings(*_columns(given_points))
    size = len(found)
    letters = data.draw(st.text("abc", min_size=size, max_size=size))
    left = kept(select(found, n, in_families(found, letters)))
    assert len(left) == min(n, size)
    n_of = {letter: sum(letters[at] == letter for at in left) for letter in set(letters)}
    # Nobody has two more than another family that could have had one more.
    for one, other in itertools.permutations(n_of, 2):
        assert n_of[one] <= n_of[other] + 1 or n_of[other] == letters.count(other)
    # Within a family, and where there is but one or each has its own, fronts decide as ever.
    for letter, count in n_of.items():
        own = [at for at in range(size) if letters[at] == letter]
        for stays, goes in itertools.product(set(left) & set(own), set(own) - set(left)):
            (reward, judge), (other_reward, other_judge) = given_points[stays], given_points[goes]
            assert not (other_reward >= reward and other_judge <= judge and given_points[goes] != given_points[stays])
        assert count <= n
    alone = {one.candidate.id: one.candidate.id for one in found}
    assert select(found, n, alone) == select(found, n, dict.fromkeys(alone, "a")) == select(found, n)


def test_a_family_is_what_the_line_of_first_parents_began_with() -> None:
    def candidate(name: str, *parents: Candidate) -> Candidate:
        return Candidate(
            attribute_bias(name), "mutated" if parents else "proposed", 0, tuple(one.id for one in parents)
        )

    first, second = candidate("Attribute one"), candidate("Attribute two")
    child = candidate("A child", first)
    grandchild, stray = candidate("A grandchild", child, second), candidate("A stray", candidate("Not known"))
    found = families_of([first, second, child, grandchild, stray])
    assert found == {
        first.id: first.id, second.id: second.id, child.id: first.id, grandchild.id: first.id,
        stray.id: candidate("Not known").id,
    }  # fmt: skip
    assert families_of([]) == {}


def test_survivors_come_the_most_rewarded_first() -> None:
    found = list(standings([1.0, 3.0, 2.0, 9.0, 3.0]))
    found[3] = replace(found[3], fate="reward")
    assert [one.candidate.attribute[-1] for one in survivors(found)] == ["1", "4", "2", "0"]
    assert survivors([]) == []


@pytest.mark.parametrize("cut", [cut_by_reward, cut_by_judge])
def test_nothing_but_the_fate_changes(cut: object) -> None:
    before = standings(TEN, [0.1 * at for at in range(10)])
    after = cut(before, 0.5, 2)  # type: ignore[operator]
    assert [replace(one, fate="kept") for one in after] == list(before)


def _columns(given_points: list[tuple[float, float]]) -> tuple[list[float], list[float]]:
    return [reward for reward, _ in given_points], [judge for _, judge in given_points]


def test_the_mean_of_a_few_rewrites_is_luck() -> None:
    few, enough = (replace(one, n=n) for one, n in zip(standings([9.0, 1.0]), (3, 4), strict=True))
    assert fates(cut_by_reward([few, enough], 0.4, 1, min_rewrites=4)) == ["too few rewrites", "kept"]
    assert fates(cut_by_reward([few, few], 0.4, 2, min_rewrites=4)) == ["too few rewrites"] * 2
    assert fates(cut_by_reward([few, enough], 0.4, 1)) == ["kept", "kept"]
