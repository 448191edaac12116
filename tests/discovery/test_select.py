"""Who survives a generation: both cuts as the paper has them, and fronts against their definition."""

from __future__ import annotations

import itertools
from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cda.discovery.attribute import attribute_bias
from cda.discovery.search import cut_by_judge, cut_by_reward, families_of, pareto_fronts, select
from cda.results.discover import CandidateRecord, Fate, StandingRecord

TEN = [-5.0, -4.0, -3.0, -2.0, -1.0, 1.0, 2.0, 3.0, 4.0, 5.0]
# Few values, so that ties are common.
rewards = st.sampled_from([-2.0, -1.0, -0.5, 0.0, 0.5, 1.0])
preferences = st.sampled_from([0.0, 0.25, 0.5, 0.75, 1.0])
points = st.lists(st.tuples(rewards, preferences), max_size=12)


def standings(
    found_rewards: Sequence[float | None], judges: Sequence[float | None] | None = None
) -> list[StandingRecord]:
    told = judges if judges is not None else [None] * len(found_rewards)
    return [
        StandingRecord(candidate=str(at), n=0 if reward is None else 4, reward=reward, judge=judge, n_judged=0, failed={},
                       fate="kept")
        for at, (reward, judge) in enumerate(zip(found_rewards, told, strict=True))
    ]  # fmt: skip


def gone(row: StandingRecord, fate: Fate) -> StandingRecord:
    return row.model_copy(update={"fate": fate})


def fates(found: Sequence[StandingRecord]) -> list[str]:
    return [row.fate for row in found]


def kept(found: Sequence[StandingRecord]) -> list[int]:
    return [at for at, row in enumerate(found) if row.fate == "kept"]


@pytest.mark.parametrize(
    ("given_rewards", "share", "at_least", "left"),
    [
        (TEN, 0.4, 1, [4, 5, 6, 7, 8, 9]),  # the 40% quantile is -1.4: -1 stays although the model dislikes it
        ([-1.0, *range(10)], 0.4, 1, [*range(1, 11)]),  # nothing that is rewarded goes, however low it ranks
        ([-1.0, -2.0, -3.0, -4.0], 0.75, 3, [0, 1, 2]),  # the best stay if fewer than the target would be left
        ([-1.0, -2.0, -3.0, -4.0], 0.75, 0, [0]),  # nobody has to stay: the quantile alone decides
        ([-1.0] * 5, 0.4, 1, [0, 1, 2, 3, 4]),  # ties at the threshold stay together
        ([-3.0, -1.0, -1.0, -1.0], 1.0, 2, [1, 2, 3]),
        ([None, -1.0, -2.0], 1.0, 3, [1, 2]),  # what was never rewritten is no way to reach the target
        ([], 0.4, 1, []),
    ],
)
def test_the_cut_by_reward(given_rewards: list[float | None], share: float, at_least: int, left: list[int]) -> None:
    assert kept(cut_by_reward(standings(given_rewards), share, at_least)) == left


def test_too_few_rewrites_go_without_moving_the_threshold() -> None:
    found = cut_by_reward(standings([None, *TEN, None]), 0.4, 1)
    assert fates(found) == ["too few rewrites", *["reward"] * 4, *["kept"] * 6, "too few rewrites"]
    assert fates(cut_by_reward(standings([None, None]), 0.4, 1)) == ["too few rewrites"] * 2
    # The mean of a few is luck.
    few, enough = (row.model_copy(update={"n": n}) for row, n in zip(standings([9.0, 1.0]), (3, 4), strict=True))
    assert fates(cut_by_reward([few, enough], 0.4, 1, min_rewrites=4)) == ["too few rewrites", "kept"]
    assert fates(cut_by_reward([few, few], 0.4, 2, min_rewrites=4)) == ["too few rewrites"] * 2


@pytest.mark.parametrize(
    ("judges", "share", "at_least", "left"),
    [
        ([0.1 * at for at in range(1, 11)], 0.3, 1, [0, 1, 2, 3, 4, 5, 6]),  # the 70% quantile is 0.73
        ([0.05 * at for at in range(10)], 0.3, 1, [*range(10)]),  # nothing goes that the judge dislikes
        ([0.5, 0.5, 0.51], 1.0, 1, [0, 1]),
        ([0.9, 0.7, 0.8, 1.0], 1.0, 2, [1, 2]),  # the least liked stay if fewer than the target would be left
        ([0.9, 0.7, 0.8, 1.0], 1.0, 0, [1]),
        ([None, 0.2, 0.3, 0.4], 0.3, 1, [1, 2, 3]),  # without a verdict a candidate counts as liked
    ],
)
def test_the_cut_by_the_judge(judges: list[float | None], share: float, at_least: int, left: list[int]) -> None:
    assert kept(cut_by_judge(standings([1.0] * len(judges), judges), share, at_least)) == left


def test_the_judges_cut_leaves_alone_who_is_gone_already() -> None:
    before = standings([1.0, -9.0, None, 2.0], [0.9, None, None, 0.1])
    before[1], before[2] = gone(before[1], "reward"), gone(before[2], "too few rewrites")
    assert fates(cut_by_judge(before, 0.5, 1)) == ["judge", "reward", "too few rewrites", "kept"]
    assert cut_by_judge(before[1:3], 0.5, 1) == before[1:3] and cut_by_judge([], 0.5, 1) == []


@given(points)
def test_fronts_are_what_nothing_left_dominates(given_points: list[tuple[float, float]]) -> None:
    def dominated(at: int, among: list[int]) -> bool:
        x, y = given_points[at]
        others = (given_points[other] for other in among)
        return any(a >= x and b >= y and (a, b) != (x, y) for a, b in others)

    left = list(range(len(given_points)))
    for front in pareto_fronts(given_points):
        assert front == [at for at in left if not dominated(at, left)] and front
        left = [at for at in left if at not in front]
    assert left == []


def test_of_the_front_that_does_not_fit_the_most_rewarded_stay() -> None:
    # All on one front: the more reward, the more the judge likes it.
    one_front = standings([1.0, 4.0, 2.0, 3.0], [0.1, 0.4, 0.2, 0.3])
    assert fates(select(one_front, 2)) == ["front", "kept", "front", "kept"]
    # A whole front first, although the next one holds more reward than its last.
    two = standings([5.0, 1.0, 4.0, 3.0], [0.5, 0.1, 0.6, 0.5])
    assert [kept(select(two, n)) for n in (3, 9, 0)] == [[0, 1, 2], [0, 1, 2, 3], []]
    assert kept(select(standings([1.0] * 5, [0.2] * 5), 3)) == [0, 1, 2]  # equals stay in their order
    # Only who is left counts, and a missing verdict as the worst.
    before = standings([9.0, 1.0, 1.0, 2.0], [0.0, 0.5, None, 1.0])
    before[0] = gone(before[0], "judge")
    assert fates(select(before, 2)) == ["judge", "kept", "front", "kept"]


def in_families(found: Sequence[StandingRecord], letters: str) -> dict[str, str]:
    return {row.candidate: letter for row, letter in zip(found, letters, strict=True)}


@given(points, st.integers(0, 14), st.data())
def test_families_keep_their_promises(given_points: list[tuple[float, float]], n: int, data: st.DataObject) -> None:
    found = standings(*_columns(given_points))
    size = len(found)
    letters = data.draw(st.text("abc", min_size=size, max_size=size))
    left = kept(select(found, n, in_families(found, letters)))
    assert len(left) == min(n, size)
    n_of = {letter: sum(letters[at] == letter for at in left) for letter in set(letters)}
    # Nobody has two more than another family that could have had one more.
    for family, other in itertools.permutations(n_of, 2):
        assert n_of[family] <= n_of[other] + 1 or n_of[other] == letters.count(other)
    # Within a family, and where there is but one or each has its own, fronts decide as ever.
    for letter, count in n_of.items():
        own = [at for at in range(size) if letters[at] == letter]
        for stays, goes in itertools.product(set(left) & set(own), set(own) - set(left)):
            (reward, judge), (other_reward, other_judge) = given_points[stays], given_points[goes]
            assert not (other_reward >= reward and other_judge <= judge and given_points[goes] != given_points[stays])
        assert count <= n
    alone = {row.candidate: row.candidate for row in found}
    assert select(found, n, alone) == select(found, n, dict.fromkeys(alone, "a")) == select(found, n)


def test_a_family_is_what_the_line_of_first_parents_began_with() -> None:
    def candidate(name: str, *parents: CandidateRecord) -> CandidateRecord:
        return CandidateRecord.of(attribute_bias(name), parents=tuple(parent.id for parent in parents))

    first, second, unknown = candidate("Attribute one"), candidate("Attribute two"), candidate("Not known")
    child = candidate("A child", first)
    grandchild, stray = candidate("A grandchild", child, second), candidate("A stray", unknown)
    given_ones, families = [first, second, child, grandchild, stray], [first, second, first, first, unknown]
    found = families_of(given_ones)
    assert found == {own.id: family.id for own, family in zip(given_ones, families, strict=True)}


def _columns(given_points: list[tuple[float, float]]) -> tuple[list[float], list[float]]:
    return [reward for reward, _ in given_points], [judge for _, judge in given_points]
