"""Supplementary pairs in the proportions of the labels."""

from __future__ import annotations

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from cda.biases import load_bias
from cda.counterfactuals.pairs import draw_supplementary, label_frequencies, proportional_quota
from cda.records import LabelledPair, Pair, text_key, user_prompt

KEYS = [(a, b) for a in (True, False) for b in (True, False)]


def rows(counts: dict[tuple[bool | None, bool | None], int]) -> list[LabelledPair]:
    made = []
    for (chosen, rejected), count in counts.items():
        for number in range(count):
            pair = Pair(user_prompt(f"{chosen} {rejected} {number}"), "a", "b")
            made.append(LabelledPair(pair, "train", {"jargon": {"chosen": chosen, "rejected": rejected}}))
    return made


def test_frequencies_leave_unparsed_labels_out() -> None:
    counted = label_frequencies(rows({(True, True): 1, (False, False): 3, (None, True): 5}), load_bias("jargon"))
    assert counted == {(True, True): 1, (True, False): 0, (False, True): 0, (False, False): 3}


def test_a_known_quota() -> None:
    # 250 in the proportions 10:20:5:65 are 25, 50, 12.5, 162.5: the two halves share one, by combination.
    quota = proportional_quota(dict(zip(KEYS, (10, 20, 5, 65), strict=True)), 250)
    assert quota[(True, True)] == 25
    assert quota[(True, False)] == 50
    assert sorted((quota[(False, True)], quota[(False, False)])) in ([12, 163], [13, 162])


@settings(deadline=None, derandomize=True)
@given(st.lists(st.integers(0, 1000), min_size=4, max_size=4), st.integers(0, 3000))
def test_quotas_sum_to_the_total_and_stay_within_one_of_exact(counts: list[int], total: int) -> None:
    frequencies = dict(zip(KEYS, counts, strict=True))
    quota = proportional_quota(frequencies, total)
    if not sum(counts):
        assert set(quota.values()) == {0}
        return
    assert sum(quota.values()) == total
    for key, count in frequencies.items():
        assert abs(quota[key] - total * count / sum(counts)) < 1
        assert count or not quota[key]  # a combination that never occurred is never asked for


def test_drawn_pairs_are_unchanged_and_in_proportion() -> None:
    source = rows({(True, False): 20, (False, False): 60})
    bias = load_bias("jargon")
    drawn = draw_supplementary(source, bias, label_frequencies(source, bias), 8, set(), np.random.default_rng(0))
    labels = {row.pair.id: tuple(row.labels["jargon"].values()) for row in source}
    assert sorted(labels[row.source_id] for row in drawn) == [(False, False)] * 6 + [(True, False)] * 2
    pairs = {row.pair.id: row.pair for row in source}
    assert all(row.pair == pairs[row.source_id] and row.kind == "supplementary" for row in drawn)
    assert len({row.source_id for row in drawn}) == 8


def test_pairs_taken_as_counterfactuals_are_not_drawn_again() -> None:
    source = rows({(False, False): 5})
    bias = load_bias("jargon")
    # As another file may store them.
    taken = {text_key(row.pair.prompt, f"{row.pair.chosen}\r\n", row.pair.rejected) for row in source[:3]}
    drawn = draw_supplementary(source, bias, label_frequencies(source, bias), 5, taken, np.random.default_rng(0))
    assert {row.source_id for row in drawn} == {row.pair.id for row in source[3:]}
    assert draw_supplementary(source, bias, label_frequencies(source, bias), 0, set(), np.random.default_rng(0)) == []
