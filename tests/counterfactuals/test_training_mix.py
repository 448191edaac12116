"""The training examples that objectives make, and unchanged pairs in the proportions of the labels."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cda.biases import load_bias
from cda.counterfactuals.synthesize import (
    assign_splits,
    contrast_examples,
    counterfactual_examples,
    draw_supplementary,
    label_frequencies,
    proportional_quota,
    teachable,
    unchanged_examples,
)
from cda.recipe.schema import ObjectiveSection
from cda.records import (
    Contrast,
    LabelledPair,
    Pair,
    TrainingExample,
    TrainingPair,
    prompt_id,
    prompt_text,
    text_key,
    user_prompt,
)

PAIRS, NEUTRAL = ObjectiveSection(kind="pairs"), ObjectiveSection(kind="neutral")
PAIRED = ObjectiveSection(kind="paired", target={"jargon": 0.8}, margin=0.5, weight=2.0)
KEEP = ObjectiveSection(kind="keep", weight=3.0)
SOURCE = Pair(user_prompt("q"), "good", "plain")
ROW = LabelledPair(SOURCE, "train", {"jargon": {"chosen": False, "rejected": False}})
MADE = TrainingPair(
    TrainingExample(Pair(SOURCE.prompt, "good", "jargony")), "train", "counterfactual", "jargon", SOURCE.id
)


def contrast(bias: str, number: int = 0) -> Contrast:
    return Contrast(bias, user_prompt(f"c{number}"), perturbed=f"{bias} text", base="base text")


def test_pairs_is_chosen_over_the_rewrite_and_paired_and_neutral_are_about_one_response() -> None:
    made = list(counterfactual_examples([MADE], [ROW], [PAIRS, PAIRED, NEUTRAL, KEEP]))
    same = Pair(SOURCE.prompt, "plain", "jargony")
    assert [(one.kind, one.example) for one in made] == [
        ("counterfactual", TrainingExample(MADE.pair, 1.0)),
        ("paired", TrainingExample(same, 0.8, 0.5, 2.0)),
        ("neutral", TrainingExample(same, 0.5)),
    ]
    assert {(one.split, one.bias, one.source_id) for one in made} == {("train", "jargon", SOURCE.id)}
    assert PAIRED.example(SOURCE, "length").target == 1.0  # it has no target for this bias


def test_contrasts_of_debiased_biases_are_paired_and_those_of_others_kept() -> None:
    own, other = contrast("jargon"), contrast("structure", 1)
    splits = {prompt_id(own.prompt): "train", prompt_id(other.prompt): "validation"}
    unlike = Pair(other.prompt, "base text", "structure text")
    made = list(contrast_examples([own, other], splits, ["jargon"], [PAIRS, PAIRED, KEEP]))  # type: ignore[arg-type]
    assert [(one.kind, one.bias, one.split, one.example) for one in made] == [
        ("paired", "jargon", "train", TrainingExample(Pair(own.prompt, "base text", "jargon text"), 0.8, 0.5, 2.0)),
        ("contrast", "structure", "validation", TrainingExample(unlike, None, 0, 3.0)),
    ]
    assert not list(contrast_examples([other], splits, ["jargon"], [PAIRED, NEUTRAL]))  # type: ignore[arg-type]


@pytest.mark.parametrize(("objectives", "target"), [([PAIRS], 1.0), ([PAIRS, KEEP], None)])
def test_unchanged_pairs_are_taught_as_labelled_or_kept_as_the_base_has_them(
    objectives: list[ObjectiveSection], target: float | None
) -> None:
    row = TrainingPair(TrainingExample(SOURCE), "train", "supplementary", "jargon", SOURCE.id)
    (found,) = unchanged_examples([row], objectives)
    assert found.example == TrainingExample(SOURCE, target, 0.0, 3.0 if target is None else 1.0)


def test_nothing_that_the_audit_measures_is_taught() -> None:
    contrasts = [contrast("jargon", number) for number in range(4)]
    kept, exclusions = teachable(contrasts, {prompt_id(contrasts[1].prompt), prompt_id(user_prompt("else"))})
    assert kept == [contrasts[0], contrasts[2], contrasts[3]]
    assert (exclusions.seen, exclusions.reasons) == (4, {"prompt is in the audit": 1})
    pairs, exclusions = teachable([ROW], {prompt_id(SOURCE.prompt)})
    assert pairs == [] and exclusions.reasons == {"prompt is in the audit": 1}
    assert teachable([ROW], set())[0] == [ROW]
    stored = replace(contrasts[1], prompt=user_prompt(f" {prompt_text(contrasts[1].prompt)}\r\n"))
    assert teachable([stored, contrasts[0]], {prompt_id(contrasts[1].prompt)})[0] == [contrasts[0]]


def test_a_prompt_stays_on_the_side_it_has_and_a_share_of_the_others_is_held() -> None:
    contrasts = [contrast(bias, number) for number in range(11) for bias in ("jargon", "length")]
    known = {prompt_id(contrasts[0].prompt): "validation"}
    splits = assign_splits(contrasts, known, 0.2, np.random.default_rng(0))  # type: ignore[arg-type]
    assert len(splits) == 11
    assert splits[prompt_id(contrasts[0].prompt)] == "validation"
    assert sum(side == "validation" for side in splits.values()) == 1 + 2


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
