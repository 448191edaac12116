"""Counterfactual pairs: who is eligible, and what happens to failed rewrites."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
import pytest

from cda.biases import Bias, load_bias
from cda.counterfactuals.pairs import eligible_pairs, make_counterfactuals
from cda.discovery.attribute import described, mark_biases
from cda.records import LabelledPair, Pair, Rewrite, RewriteRequest, user_prompt


def row(
    number: int, chosen: bool | None = False, rejected: bool | None = False, bias: str = "structure"
) -> LabelledPair:
    pair = Pair(user_prompt(f"q{number}"), f"chosen {number}", f"rejected {number}")
    return LabelledPair(pair, "validation" if number % 2 else "train", {bias: {"chosen": chosen, "rejected": rejected}})


@dataclass
class Scripted:
    """Fails where a response holds one of the numbers, writes a list otherwise."""

    failing: Sequence[int] = ()
    name: str = "scripted"
    requests: list[RewriteRequest] = field(default_factory=list)
    text: str = "- a\n- b of {}"

    def rewrite(self, requests: Sequence[RewriteRequest], bias: Bias) -> list[Rewrite]:
        assert bias.name
        self.requests += requests
        return [
            Rewrite(None, "refused")
            if int(request.response.split()[1]) in self.failing
            else Rewrite(self.text.format(request.response))
            for request in requests
        ]


def make(rows: Sequence[LabelledPair], rewriter: Scripted, requested: int | None, seed: int = 0, **kwargs: bool):
    return make_counterfactuals(
        rows,
        load_bias("structure"),
        rewriter,
        requested,
        np.random.default_rng(seed),
        **({"check_measure": True} | kwargs),
    )


def test_only_pairs_where_neither_side_exhibits_the_bias() -> None:
    rows = [
        row(0),
        row(1, True, False),
        row(2, False, True),
        row(3, True, True),
        row(4, None, False),
        row(5, False, None),
    ]
    assert eligible_pairs(rows, load_bias("structure")) == [rows[0]]


def test_length_takes_pairs_whose_chosen_side_is_longer_whatever_the_labels() -> None:
    def sides(chosen: str, rejected: str) -> LabelledPair:
        return LabelledPair(
            Pair(user_prompt("q"), chosen, rejected), "train", {"length": {"chosen": True, "rejected": None}}
        )

    rows = [sides("one two", "one"), sides("one", "two"), sides("one", "one two")]
    assert eligible_pairs(rows, load_bias("length")) == rows[:1]


def test_every_eligible_pair_is_used_when_no_number_is_asked() -> None:
    rows = [row(number) for number in range(6)]
    made = make(rows, Scripted(), None)
    assert (made.eligible, made.exclusions.seen, len(made.pairs)) == (6, 6, 6)
    by_source = {one.pair.id: one for one in rows}
    for one in made.pairs:
        source = by_source[one.source_id]
        assert one.pair.prompt == source.pair.prompt
        assert one.pair.chosen == source.pair.chosen  # the original chosen stays preferred
        assert one.pair.rejected == f"- a\n- b of {source.pair.rejected}"
        assert (one.kind, one.bias, one.split) == ("counterfactual", "structure", source.split)


def test_the_rewriter_is_asked_to_add_the_bias_to_the_rejected_side() -> None:
    rewriter = Scripted()
    make([row(0)], rewriter, None)
    assert rewriter.requests == [RewriteRequest(user_prompt("q0"), "rejected 0", "add", "chosen 0")]


@pytest.mark.parametrize("seed", range(5))
def test_failed_rewrites_are_replaced_by_further_pairs_and_counted(seed: int) -> None:
    rows = [row(number) for number in range(10)]
    made = make(rows, Scripted(failing=(1, 2, 3)), 7, seed)
    assert len(made.pairs) == 7
    assert made.exclusions.seen == 7 + made.exclusions.dropped
    assert set(made.exclusions.reasons) <= {"refused"}
    assert len({one.source_id for one in made.pairs}) == 7


def test_where_pairs_run_out_fewer_are_made() -> None:
    made = make([row(number) for number in range(5)], Scripted(failing=(0, 1)), 4)
    assert (len(made.pairs), made.exclusions.seen, dict(made.exclusions.reasons)) == (3, 5, {"refused": 2})


def test_no_more_is_rewritten_than_needed() -> None:
    rewriter = Scripted()
    made = make([row(number) for number in range(50)], rewriter, 3)
    assert len(made.pairs) == made.exclusions.seen == len(rewriter.requests) == 3
    assert made.eligible == 50


def test_the_draw_depends_on_the_seed_alone() -> None:
    rows = [row(number) for number in range(30)]
    draws = [[one.source_id for one in make(rows, Scripted(), 5, seed).pairs] for seed in (0, 0, 1)]
    assert draws[0] == draws[1] != draws[2]


@pytest.mark.parametrize("text", ["rejected 0 ", "\nchosen 0"])
def test_an_unchanged_text_is_a_failure(text: str) -> None:
    made = make([row(0)], Scripted(text=text), None, check_measure=False)
    assert (made.pairs, dict(made.exclusions.reasons)) == ((), {"unchanged": 1})


def test_a_rewrite_must_show_the_bias_where_it_is_measured() -> None:
    rewriter = Scripted(text="no list in {}")
    assert dict(make([row(0)], rewriter, None).exclusions.reasons) == {"bias not measurable in the rewrite": 1}
    assert len(make([row(0)], rewriter, None, check_measure=False).pairs) == 1


def test_a_longer_rewrite_must_reach_its_multiple_of_the_chosen_side() -> None:
    bias = load_bias("length")
    ratio = bias.min_words_of_chosen
    assert ratio is not None
    pair = Pair(user_prompt("q"), "w " * 20, "word 0")
    one = LabelledPair(pair, "train", {"length": {"chosen": False, "rejected": False}})
    enough = int(np.ceil(ratio * 20))
    for n_words, n_made in ((enough - 1, 0), (enough + 1, 1)):
        made = make_counterfactuals(
            [one], bias, Scripted(text="v " * n_words), None, np.random.default_rng(0), check_measure=False
        )
        assert len(made.pairs) == n_made
        assert made.exclusions.dropped == 1 - n_made
    assert made.exclusions.reasons == {}


def test_a_rewriter_that_mostly_fails_does_not_go_through_the_whole_corpus() -> None:
    rewriter = Scripted(failing=range(1000))
    made = make([row(number) for number in range(1000)], rewriter, 40)
    assert (len(made.pairs), made.exclusions.seen, made.eligible) == (0, 120, 1000)
    assert made.exclusions.seen == made.exclusions.dropped == len(rewriter.requests) == 120


def test_too_many_failures_stop_it_after_a_batch() -> None:
    rows = [row(number) for number in range(1300)]
    broken = Scripted(failing=range(1300))
    assert (
        make_counterfactuals(
            rows, load_bias("structure"), broken, None, np.random.default_rng(0), True, stop_above=0.5
        ).exclusions.seen
        == len(broken.requests)
        == 500
    )
    once = Scripted(failing=range(1300))
    assert (
        make_counterfactuals(
            rows, load_bias("structure"), once, None, np.random.default_rng(0), True, stop_above=0.5, batch_size=None
        ).exclusions.seen
        == len(once.requests)
        == 1300
    )
    fair = Scripted(failing=range(0, 1300, 3))
    made = make_counterfactuals(
        rows, load_bias("structure"), fair, None, np.random.default_rng(0), True, stop_above=0.5
    )
    assert (made.exclusions.seen, len(made.pairs)) == (1300, 866)


@dataclass
class BothWays:
    """Makes texts vague, and specific again; fails on the chosen side of some numbers."""

    failing: Sequence[int] = ()
    name: str = "both ways"
    asked: list[RewriteRequest] = field(default_factory=list)

    def rewrite(self, requests: Sequence[RewriteRequest], bias: Bias) -> list[Rewrite]:
        assert bias.name == "vagueness"
        self.asked += requests
        return [self._one(request) for request in requests]

    def _one(self, request: RewriteRequest) -> Rewrite:
        if request.direction == "add":
            return Rewrite(f"{request.response}, to some extent, it depends")
        number = int(request.response.split()[1])
        same = number in self.failing and number % 2
        return (
            Rewrite(None, "refused")
            if number in self.failing and not same
            else Rewrite(request.response if same else f"{request.response}, that is, 42")
        )


def test_the_chosen_side_can_be_made_more_specific() -> None:
    rows = [row(number, bias="vagueness") for number in range(6)]
    rewriter = BothWays(failing=(2, 3))
    made = make_counterfactuals(
        rows, load_bias("vagueness"), rewriter, None, np.random.default_rng(0), True, specific_chosen=True
    )
    assert dict(made.exclusions.reasons) == {"chosen side: refused": 1, "chosen side: unchanged": 1}
    assert len(made.pairs) == 4 and made.exclusions.seen == 6
    sources = {one.pair.id: one.pair for one in rows}
    for one in made.pairs:
        source = sources[one.source_id]
        assert one.pair.chosen == f"{source.chosen}, that is, 42"
        assert one.pair.rejected == f"{source.rejected}, to some extent, it depends"
    assert [request.direction for request in rewriter.asked] == ["add"] * 6 + ["remove"] * 6


def test_the_chosen_side_stays_unless_asked() -> None:
    rewriter = BothWays()
    rows = [row(number, bias="vagueness") for number in range(3)]
    made = make_counterfactuals(rows, load_bias("vagueness"), rewriter, None, np.random.default_rng(0), True)
    assert {one.pair.chosen for one in made.pairs} == {one.pair.chosen for one in rows}
    assert {request.direction for request in rewriter.asked} == {"add"}


def test_failed_chosen_sides_are_replaced_by_further_pairs() -> None:
    rows = [row(number, bias="vagueness") for number in range(20)]
    made = make_counterfactuals(
        rows,
        load_bias("vagueness"),
        BothWays(failing=range(0, 20, 2)),
        8,
        np.random.default_rng(0),
        True,
        specific_chosen=True,
    )
    assert len(made.pairs) == 8
    assert made.exclusions.seen == 8 + made.exclusions.dropped


@pytest.mark.parametrize("measured", [True, False])
def test_white_space_that_is_the_bias_makes_a_counterfactual(measured: bool) -> None:
    """Triple spaces between words change no word, and are all there is to teach."""
    (spaces,) = (one for one in mark_biases() if one.name == "triple-spaces")
    bias = spaces if measured else described("Triple spaces between words")
    rewriter = Scripted(text="rejected   0")
    found = make_counterfactuals(
        [row(0, bias=bias.name)], bias, rewriter, None, np.random.default_rng(0), check_measure=measured
    )
    assert [one.pair.rejected for one in found.pairs] == ["rejected   0"]
    same = Scripted(text="{}\n")
    nothing = make_counterfactuals(
        [row(0, bias=bias.name)], bias, same, None, np.random.default_rng(0), check_measure=measured
    )
    assert not nothing.pairs and dict(nothing.exclusions.reasons) == {"unchanged": 1}
