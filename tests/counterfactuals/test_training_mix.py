"""The training examples that objectives make: counterfactual pairs, and unchanged ones in the proportions of the labels."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scripted_rewriter import ScriptedRewriter

from cda.biases import Bias, load_bias
from cda.counterfactuals.pairs import (
    Counterfactuals,
    assign_splits,
    contrast_examples,
    counterfactual_examples,
    draw_supplementary,
    eligible_pairs,
    label_frequencies,
    make_anchors,
    make_counterfactuals,
    proportional_quota,
    teachable,
    unchanged_examples,
    weighted_examples,
)
from cda.discovery.attribute import attribute_bias, shipped_attributes
from cda.recipe.schema import ObjectiveSection
from cda.records import (
    Contrast,
    Exclusions,
    LabelledPair,
    Pair,
    RewriteRequest,
    TrainingExample,
    TrainingPair,
    prompt_id,
    prompt_text,
    text_key,
    user_prompt,
)
from cda.rewriting.rewriter import Rewriter

PAIRS, NEUTRAL = ObjectiveSection(kind="pairs"), ObjectiveSection(kind="neutral")
BALANCED = ObjectiveSection(kind="balanced", target=0.9, weight=0.5)
PAIRED = ObjectiveSection(kind="paired", target={"jargon": 0.8}, margin=0.5, weight=2.0)
KEEP = ObjectiveSection(kind="keep", weight=3.0)
SHIFT = ObjectiveSection(kind="shift")
SOURCE = Pair(user_prompt("q"), "good", "plain")
ROW = LabelledPair(SOURCE, "train", {"jargon": {"chosen": False, "rejected": False}})
MADE = TrainingPair(
    TrainingExample(Pair(SOURCE.prompt, "good", "jargony")), "train", "counterfactual", "jargon", SOURCE.id
)


def counterfactuals(**biased_chosen: str) -> Counterfactuals:
    return Counterfactuals((MADE,), 1, Exclusions(1, {}), biased_chosen)


def contrast(bias: str, number: int = 0) -> Contrast:
    return Contrast(bias, user_prompt(f"c{number}"), perturbed=f"{bias} text", base="base text")


def test_pairs_is_chosen_over_the_rewrite_and_paired_and_neutral_are_about_one_response() -> None:
    made = list(counterfactual_examples(counterfactuals(), [ROW], [PAIRS, PAIRED, NEUTRAL, SHIFT, KEEP]))
    same = Pair(SOURCE.prompt, "plain", "jargony")
    assert [(one.kind, one.example) for one in made] == [
        ("counterfactual", TrainingExample(MADE.pair, 1.0)),
        ("paired", TrainingExample(same, 0.8, 0.5, 2.0)),
        ("neutral", TrainingExample(same, 0.5)),
        ("shift", TrainingExample(same, 0.5)),
    ]
    assert {(one.split, one.bias, one.source_id) for one in made} == {("train", "jargon", SOURCE.id)}
    assert PAIRED.example(SOURCE, "length").target == 1.0  # it has no target for this bias


def test_balanced_prefers_the_chosen_response_with_the_bias_to_the_rejected_one_without() -> None:
    made = list(counterfactual_examples(counterfactuals(**{SOURCE.id: "jargony good"}), [ROW], [PAIRS, BALANCED]))
    better = Pair(SOURCE.prompt, "jargony good", "plain")
    assert [(one.kind, one.example) for one in made] == [
        ("counterfactual", TrainingExample(MADE.pair, 1.0)),
        ("balanced", TrainingExample(better, 0.9, 0.0, 0.5)),
    ]


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


STRUCTURE, VAGUENESS = load_bias("structure"), load_bias("vagueness")


def row(
    number: int, chosen: bool | None = False, rejected: bool | None = False, bias: str = "structure"
) -> LabelledPair:
    pair = Pair(user_prompt(f"q{number}"), f"chosen {number}", f"rejected {number}")
    return LabelledPair(pair, "validation" if number % 2 else "train", {bias: {"chosen": chosen, "rejected": rejected}})


def neither_rows(n: int, bias: str = "structure") -> list[LabelledPair]:
    return [row(number, bias=bias) for number in range(n)]


def scripted(failing: Sequence[int] = (), text: str = "- a\n- b of {}") -> ScriptedRewriter:
    """Fails on a response with one of the numbers, writes a list otherwise."""
    return ScriptedRewriter(lambda one: None if number_of(one) in failing else text.format(one.response))


def number_of(request: RewriteRequest) -> int:
    return int(request.response.split()[1])


def make(
    pairs: Sequence[LabelledPair],
    rewriter: Rewriter,
    requested: int | None = None,
    seed: int = 0,
    bias: Bias = STRUCTURE,
    check_measure: bool = True,
    **options: Any,
) -> Counterfactuals:
    return make_counterfactuals(pairs, bias, rewriter, requested, np.random.default_rng(seed), check_measure, **options)


def reasons(made: Counterfactuals) -> dict[str, int]:
    return dict(made.exclusions.reasons)


def test_pairs_where_neither_side_exhibits_the_bias_and_for_length_those_with_a_longer_chosen_side() -> None:
    labels = [(False, False), (True, False), (False, True), (True, True), (None, False), (False, None)]
    labelled = [row(number, *sides) for number, sides in enumerate(labels)]
    assert eligible_pairs(labelled, STRUCTURE) == labelled[:1]
    lengths = [("one two", "one"), ("one", "two"), ("one", "one two")]
    label: dict[Any, bool | None] = {"chosen": True, "rejected": None}
    labelled = [LabelledPair(Pair(user_prompt("q"), *sides), "train", {"length": label}) for sides in lengths]
    assert eligible_pairs(labelled, load_bias("length")) == labelled[:1]


def test_every_eligible_pair_is_used_when_no_number_is_asked() -> None:
    rewriter = scripted()
    made = make(neither_rows(6), rewriter)
    assert (made.eligible, made.exclusions.seen, len(made.pairs)) == (6, 6, 6)
    by_source = {labelled.pair.id: labelled for labelled in neither_rows(6)}
    for pair, request in zip(made.pairs, rewriter.requests, strict=True):
        source = by_source[pair.source_id]
        # The original chosen stays preferred, over the rejected side with the bias added.
        assert pair.pair == Pair(source.pair.prompt, source.pair.chosen, f"- a\n- b of {source.pair.rejected}")
        assert (pair.kind, pair.bias, pair.split) == ("counterfactual", "structure", source.split)
        assert request == RewriteRequest(source.pair.prompt, source.pair.rejected, "add", source.pair.chosen)


def test_failed_rewrites_are_replaced_by_further_pairs_and_counted_and_the_draw_follows_the_seed() -> None:
    draws = []
    for seed in (0, 0, 1, 2):
        made = make(neither_rows(10), scripted(failing=(1, 2, 3)), 7, seed)
        assert len({pair.source_id for pair in made.pairs}) == 7
        assert made.exclusions.seen == 7 + made.exclusions.dropped and set(reasons(made)) <= {"refused"}
        draws.append([pair.source_id for pair in made.pairs])
    assert draws[0] == draws[1] != draws[2]


@pytest.mark.parametrize(
    ("n", "failing", "requested", "n_made", "tried"),
    [
        (5, range(2), 4, 3, 5),  # pairs run out
        (50, (), 3, 3, 3),  # no more than needed
        (1000, range(1000), 40, 0, 120),  # a rewriter that mostly fails does not go through the whole corpus
    ],
)
def test_how_many_are_tried(n: int, failing: Sequence[int], requested: int, n_made: int, tried: int) -> None:
    rewriter = scripted(failing)
    made = make(neither_rows(n), rewriter, requested)
    assert (len(made.pairs), made.exclusions.seen, len(rewriter.requests)) == (n_made, tried, tried)
    assert made.eligible == n and made.exclusions.dropped == tried - n_made


@pytest.mark.parametrize(
    ("failing", "batch", "tried", "n_made"),
    [
        (range(1300), {}, 500, 0),
        (range(1300), {"batch_size": None}, 1300, 0),
        (range(0, 1300, 3), {}, 1300, 866),
    ],
)
def test_too_many_failures_stop_it_after_a_batch(
    failing: Sequence[int], batch: dict[str, None], tried: int, n_made: int
) -> None:
    rewriter = scripted(failing)
    made = make(neither_rows(1300), rewriter, stop_above=0.5, **batch)
    assert made.exclusions.seen == len(rewriter.requests) == tried and len(made.pairs) == n_made


@pytest.mark.parametrize(
    ("text", "check_measure", "expected"),
    [
        ("rejected 0 ", False, {"unchanged": 1}),
        ("\nchosen 0", False, {"unchanged": 1}),
        ("no list in {}", True, {"bias not measurable in the rewrite": 1}),
        ("no list in {}", False, {}),
    ],
)
def test_what_a_rewrite_must_be(text: str, check_measure: bool, expected: dict[str, int]) -> None:
    made = make([row(0)], scripted(text=text), check_measure=check_measure)
    assert reasons(made) == expected and len(made.pairs) == 1 - len(expected)


def test_a_longer_rewrite_must_reach_its_multiple_of_the_chosen_side() -> None:
    bias = load_bias("length")
    assert bias.min_words_of_chosen is not None
    labelled = LabelledPair(
        Pair(user_prompt("q"), "w " * 20, "word 0"), "train", {"length": {"chosen": False, "rejected": False}}
    )
    enough = int(np.ceil(bias.min_words_of_chosen * 20))
    for n_words, n_made in ((enough - 1, 0), (enough + 1, 1)):
        made = make([labelled], scripted(text="v " * n_words), bias=bias, check_measure=False)
        assert len(made.pairs) == n_made and made.exclusions.dropped == 1 - n_made


def both_ways(failing: Sequence[int] = ()) -> ScriptedRewriter:
    """Makes texts vague, and specific again; on the chosen side of some numbers it refuses (even) or changes nothing (odd)."""

    def write(request: RewriteRequest) -> str | None:
        if request.direction == "add":
            return f"{request.response}, to some extent, it depends"
        if number_of(request) not in failing:
            return f"{request.response}, that is, 42"
        return request.response if number_of(request) % 2 else None

    return ScriptedRewriter(write)


def test_the_chosen_side_can_be_made_more_specific() -> None:
    rewriter = both_ways(failing=(2, 3))
    made = make(neither_rows(6, "vagueness"), rewriter, bias=VAGUENESS, specific_chosen=True)
    assert reasons(made) == {"chosen side: refused": 1, "chosen side: unchanged": 1}
    assert len(made.pairs) == 4 and made.exclusions.seen == 6
    sources = {labelled.pair.id: labelled.pair for labelled in neither_rows(6, "vagueness")}
    for pair in made.pairs:
        source = sources[pair.source_id]
        assert pair.pair.chosen == f"{source.chosen}, that is, 42"
        assert pair.pair.rejected == f"{source.rejected}, to some extent, it depends"
    assert [request.direction for request in rewriter.requests] == ["add"] * 6 + ["remove"] * 6
    # Failed chosen sides are replaced by further pairs.
    more = make(neither_rows(20, "vagueness"), both_ways(range(0, 20, 2)), 8, bias=VAGUENESS, specific_chosen=True)
    assert len(more.pairs) == 8 and more.exclusions.seen == 8 + more.exclusions.dropped
    # Without being asked for it, the chosen side stays.
    plain = both_ways()
    kept = make(neither_rows(3, "vagueness"), plain, bias=VAGUENESS)
    assert {pair.pair.chosen for pair in kept.pairs} == {labelled.pair.chosen for labelled in neither_rows(3)}
    assert {request.direction for request in plain.requests} == {"add"}


def test_both_sides_carry_the_bias_or_neither_is_kept() -> None:
    """Balanced: the chosen side of pair 1 is refused; its rejected side, which was rewritten, goes with it."""

    def write(request: RewriteRequest) -> str | None:
        refused = request.response.startswith("chosen") and number_of(request) == 1
        return None if refused else f"{request.response}, to some extent, it depends"

    labelled = neither_rows(4, "vagueness")
    made = make(labelled, ScriptedRewriter(write), bias=VAGUENESS, balanced=True)
    assert reasons(made) == {"chosen side: refused": 1} and len(made.pairs) == 3
    sources = {one.pair.id: one.pair for one in labelled}
    assert made.biased_chosen == {
        one.source_id: f"{sources[one.source_id].chosen}, to some extent, it depends" for one in made.pairs
    }
    assert not make(labelled, ScriptedRewriter(write), bias=VAGUENESS).biased_chosen


def test_anchors_are_rejected_responses_beside_their_version_with_the_bias() -> None:
    """One that is vague already is none, nor is one whose rewrite is not."""
    labelled = [*neither_rows(4, "jargon"), vague := row(9, bias="jargon")]
    labelled[-1] = replace(
        vague, pair=replace(vague.pair, rejected="It depends, in some ways, perhaps, to some extent.")
    )

    def write(request: RewriteRequest) -> str:
        return request.response + ("" if number_of(request) == 2 else ", to some extent, it depends")

    made = make_anchors(labelled, VAGUENESS, ScriptedRewriter(write), 10, np.random.default_rng(0))
    assert sorted((one.pair.chosen, one.pair.rejected) for one in made.pairs) == sorted(
        (one.pair.rejected, f"{one.pair.rejected}, to some extent, it depends")
        for number, one in enumerate(labelled[:4])
        if number != 2
    )
    assert made.exclusions.seen == 4 and made.exclusions.dropped == 1


@pytest.mark.parametrize("measured", [True, False])
def test_white_space_that_is_the_bias_makes_a_counterfactual(measured: bool) -> None:
    """Triple spaces between words change no word, and are all there is to teach."""
    (spaces,) = (bias for bias in shipped_attributes("marks") if bias.name == "triple-spaces")
    bias = spaces if measured else attribute_bias("Triple spaces between words")
    labelled = [row(0, bias=bias.name)]
    made = make(labelled, scripted(text="rejected   0"), bias=bias, check_measure=measured)
    assert [pair.pair.rejected for pair in made.pairs] == ["rejected   0"]
    same = make(labelled, scripted(text="{}\n"), bias=bias, check_measure=measured)
    assert not same.pairs and reasons(same) == {"unchanged": 1}


def test_weights_are_of_unchanged_pairs_alone_and_have_a_mean_of_1_in_the_training_part() -> None:
    unchanged = [
        TrainingPair(TrainingExample(SOURCE, weight=2.0), split, "supplementary", "jargon", name)
        for name, split in (("a", "train"), ("b", "train"), ("c", "validation"))
    ]
    found = weighted_examples([MADE, *unchanged], {"a": 3.0, "b": 1.0, "c": 8.0, "unused": 5.0})
    assert found[0] == MADE  # a counterfactual keeps 1
    assert [row.example.weight for row in found[1:]] == [2 * 1.5, 2 * 0.5, 2 * 4.0]
    assert [replace(row, example=SOURCE) for row in found] == [
        replace(row, example=SOURCE) for row in (MADE, *unchanged)
    ]
    held = [replace(row, split="validation") for row in unchanged[:2]]
    assert [row.example.weight for row in weighted_examples(held, {"a": 3.0, "b": 1.0})] == [3.0, 1.0]
    assert weighted_examples([MADE], {"a": 1.0}) == [MADE]
