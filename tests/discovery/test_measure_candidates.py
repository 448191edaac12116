"""Candidates to measured rewrites: signs, what is missing and why, what the judge is shown, which rewriter is lazy."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field

import numpy as np
import pytest

from cda.arrays import FloatArray
from cda.biases import Bias
from cda.discovery.attribute import attribute_bias, shipped_attributes
from cda.discovery.held_out import failed_or_already, rewrite_all
from cda.discovery.search import ALREADY, UNCHANGED, CandidateRewrites, Text, judged, measure_candidates
from cda.records import Prompt, Rewrite, RewriteRequest, user_prompt
from cda.results.discover import CandidateRecord
from cda.rewriting.rewriter import Mixed, Rewriter

SPACES = CandidateRecord.of(attribute_bias("Triple spaces between words"))
SHOUTS = CandidateRecord.of(attribute_bias("Words in capitals"))
ORIGINALS = [(user_prompt(f"question {at}"), f"answer number {at}") for at in range(4)]


def edited(request: RewriteRequest, bias: Bias) -> Rewrite:
    if bias.name.startswith("triple"):
        wide, narrow = request.response.replace(" ", "   "), " ".join(request.response.split())
        return Rewrite(wide if request.direction == "add" else narrow)
    return Rewrite(request.response.upper() if request.direction == "add" else request.response.lower())


@dataclass
class ByHand:
    """A rewriter by a function, which remembers what it was asked."""

    edit: Callable[[RewriteRequest, Bias], Rewrite] = edited
    name: str = "by hand"
    asked: list[tuple[str, int]] = field(default_factory=list)

    def rewrite(self, requests: Sequence[RewriteRequest], bias: Bias) -> list[Rewrite]:
        self.asked.append((bias.name, len(requests)))
        return [self.edit(one, bias) for one in requests]


@dataclass
class AllAtOnce(ByHand):
    def rewrite_mixed(self, requests: Sequence[RewriteRequest], biases: Sequence[Bias]) -> list[Rewrite]:
        self.asked.append(("all", len(requests)))
        return [self.edit(one, bias) for one, bias in zip(requests, biases, strict=True)]


@dataclass
class SpacesAndCapitals:
    """A tenth for every wide space, 1 for capitals, and something for the prompt, which must cancel out."""

    nothing_for: tuple[str, ...] = ()
    infinite_for: tuple[str, ...] = ()
    calls: list[list[Text]] = field(default_factory=list)

    def __call__(self, texts: Sequence[Text]) -> FloatArray:
        self.calls.append(list(texts))
        return np.array([self.one(*text) for text in texts])

    def one(self, prompt: Prompt, response: str) -> float:
        if response in self.nothing_for:
            return np.nan
        if response in self.infinite_for:
            return np.inf
        return 7.0 * int(prompt[0].content[-1]) + 0.1 * response.count("   ") + 1.0 * response.isupper()


@pytest.mark.parametrize("rewriter", [ByHand(), AllAtOnce()])
def test_margins_are_known_numbers(rewriter: ByHand) -> None:
    reward = SpacesAndCapitals()
    found = measure_candidates([SPACES, SHOUTS], ORIGINALS, rewriter, reward)
    assert isinstance(rewriter, Mixed) is isinstance(rewriter, AllAtOnce) and len(reward.calls) == 1
    assert rewriter.asked == (
        [("all", 8)] if isinstance(rewriter, Mixed) else [(SPACES.bias.name, 4), (SHOUTS.bias.name, 4)]
    )
    for candidate, margin in ((SPACES, 0.2), (SHOUTS, 1.0)):
        rows = found[candidate.id].rows
        assert [row.margin for row in rows] == pytest.approx([margin] * 4)
        assert [(row.prompt, row.original) for row in rows] == ORIGINALS
        assert {(row.candidate, row.rewriter, row.direction) for row in rows} == {(candidate.id, "by hand", "add")}
        assert all(row.preference is None for row in rows) and found[candidate.id].failed == {}
    assert found[SPACES.id].rows[2].rewrite == "answer   number   2"


def test_removing_turns_the_sign_and_the_sides() -> None:
    having = [(prompt, text.replace(" ", "   ")) for prompt, text in ORIGINALS]
    found = measure_candidates([SPACES], having, ByHand(), SpacesAndCapitals(), ("remove",))
    for row, (_, plain) in zip(found[SPACES.id].rows, ORIGINALS, strict=True):
        # The rewrite scores less by 0.2, so that having the attribute is worth +0.2.
        assert row.margin == pytest.approx(0.2) and row.direction == "remove"
        assert row.rewrite == row.without_attribute == plain and row.with_attribute == row.original


def test_what_has_a_measured_attribute_already_is_not_rewritten() -> None:
    bold = CandidateRecord.of(next(bias for bias in shipped_attributes("formats") if bias.name == "bold"))
    texts = ("A **bold** word, **and** another.", "Plain.")
    originals = [(user_prompt(f"question {at}"), text) for at, text in enumerate(texts)]
    assert [bold.bias.shows(text) for _, text in originals] == [True, False]

    def starred(request: RewriteRequest, bias: Bias) -> Rewrite:  # noqa: ARG001
        stars = f"**{request.response}**" if request.direction == "add" else request.response.replace("**", "")
        return Rewrite(stars)

    found = measure_candidates([bold], originals, ByHand(starred), SpacesAndCapitals(), ("add", "remove"))
    assert [(row.direction, row.prompt) for row in found[bold.id].rows] == [
        ("add", originals[1][0]), ("remove", originals[0][0]),
    ]  # fmt: skip
    assert found[bold.id].failed == {ALREADY: 2}


@pytest.mark.parametrize(
    ("answer", "reason"),
    [(" \n", "empty answer"), ("answer number 1", "unchanged"), ("answer number 1\r\n", "unchanged")],
)
def test_what_is_no_rewrite_is_counted_and_moves_nobody_elses_margin(answer: str, reason: str) -> None:
    def careless(request: RewriteRequest, bias: Bias) -> Rewrite:
        return Rewrite(answer) if request.response.endswith("1") else edited(request, bias)

    found = measure_candidates([SPACES], ORIGINALS, ByHand(careless), SpacesAndCapitals())
    assert [row.margin for row in found[SPACES.id].rows] == pytest.approx([0.2] * 3)
    assert [row.prompt for row in found[SPACES.id].rows] == [ORIGINALS[at][0] for at in (0, 2, 3)]
    assert found[SPACES.id].failed == {reason: 1}


def test_which_responses_came_back_as_they_were_is_kept() -> None:
    def careless(request: RewriteRequest, bias: Bias) -> Rewrite:
        made = Rewrite(request.response), Rewrite(None, UNCHANGED), Rewrite(None, "refused"), edited(request, bias)
        return made[int(request.response[-1])]

    silent = SpacesAndCapitals(nothing_for=("answer number 3",))
    found = measure_candidates([SPACES, SHOUTS], [*ORIGINALS, ORIGINALS[0]], ByHand(careless), silent)
    asked = [RewriteRequest(prompt, text, "add") for prompt, text in ORIGINALS]
    for candidate in (SPACES, SHOUTS):
        assert found[candidate.id].unchanged == {asked[0]: 2, asked[1]: 1}
        assert found[candidate.id].changed == {asked[3]}  # that it has no reward is not the rewriter's doing
        assert found[candidate.id].failed == {UNCHANGED: 3, "refused": 1, "no reward": 1}


def test_texts_without_a_reward_give_no_row_on_either_side() -> None:
    reward = SpacesAndCapitals(("answer number 0", "answer   number   2"), ("answer number 3",))
    found = measure_candidates([SPACES], ORIGINALS, ByHand(), reward)
    assert [(row.original, round(row.margin, 6)) for row in found[SPACES.id].rows] == [("answer number 1", 0.2)]
    assert found[SPACES.id].failed == {"no reward": 3}
    both = SpacesAndCapitals(infinite_for=("answer number 3", "answer   number   3"))
    assert measure_candidates([SPACES], ORIGINALS, ByHand(), both)[SPACES.id].failed == {"no reward": 1}


def test_the_judge_compares_with_to_without_in_both_directions() -> None:
    wide = (ORIGINALS[1][0], "answer   number   1")
    rewriter: Rewriter = ByHand()
    added = measure_candidates([SPACES], [ORIGINALS[0]], rewriter, SpacesAndCapitals())[SPACES.id].rows
    removed = measure_candidates([SPACES], [wide], rewriter, SpacesAndCapitals(), ("remove",))[SPACES.id].rows
    shown: list[tuple[Prompt, str, str]] = []

    def judge(comparisons: Sequence[tuple[Prompt, str, str]]) -> FloatArray:
        shown.extend(comparisons)
        return np.array([0.0, np.nan])

    found = judged({"x": [*added, *removed]}, judge)["x"]
    assert [(first, second) for _, first, second in shown] == [
        ("answer   number   0", "answer number 0"), ("answer   number   1", "answer number 1"),
    ]  # fmt: skip
    assert [row.preference for row in found] == [0.0, None]
    assert type(found[0].preference) is float
    assert judged({}, judge) == {} and len(shown) == 2


LAZY = "unchanged, where the other rewriters changed more"


def response(at: int) -> RewriteRequest:
    return RewriteRequest(user_prompt(f"question {at}"), f"answer {at}", "add")


def rewritten(unchanged: Iterable[int] = (), changed: Iterable[int] = (), **reasons: int) -> CandidateRewrites:
    """Which responses came back as they were, which as another text, and what else is missing."""
    back = Counter(map(response, unchanged))
    missing = {UNCHANGED: back.total(), **reasons}
    reasons = [why for why, n in missing.items() for _ in range(n)]
    return CandidateRewrites([], reasons, back, set(map(response, changed)))


@pytest.mark.parametrize(
    ("others", "believed"),
    [
        ([rewritten([0]), rewritten((), [0])], True),
        ([rewritten([0]), rewritten((), [0]), rewritten((), [0])], False),
        ([rewritten([0]), rewritten(refused=1), rewritten(refused=1)], True),
        ([rewritten(refused=1), rewritten(refused=1)], False),
    ],
    ids=["half", "a third", "those that answered", "nobody answered"],
)
def test_half_of_the_others_that_answered_have_to_agree(others: list[CandidateRewrites], believed: bool) -> None:
    failed, already = failed_or_already({"me": rewritten([0])} | dict(zip("xyz", others, strict=False)))
    assert (failed["me"], already["me"]) == (({}, 1) if believed else ({LAZY: 1}, 0))


def test_a_rewriter_alone_is_believed_and_what_was_measured_to_be_so_is_nobodys_failure() -> None:
    found = {"rules": rewritten(range(3), **{ALREADY: 9})}
    assert failed_or_already(found) == ({"rules": {}}, {"rules": 12})


def half(name: str, edits: range) -> Rewriter:
    """Changes the responses of one half, and hands the others back."""

    def edit(request: RewriteRequest, _: Bias) -> Rewrite:
        return Rewrite(f"{request.response}!" if int(request.response.split()[-1]) in edits else request.response)

    return ByHand(edit, name)


def test_two_that_each_leave_alone_what_the_other_changes_excuse_nothing() -> None:
    """Equal counts, and not one response in common: they are counted response by response."""
    candidate = CandidateRecord.of(attribute_bias("Ends with an exclamation mark"))
    rewriters = [half("a", range(32, 64)), half("b", range(32))]
    originals = [(user_prompt(f"question {at}"), f"answer {at}") for at in range(64)]
    found = rewrite_all(
        [candidate], originals, rewriters, lambda texts: np.zeros(len(texts)), lambda asked: np.zeros(len(asked)), ("add",)
    )  # fmt: skip
    counts = found.counts
    assert counts.failed[candidate.id] == {"a": {LAZY: 32}, "b": {LAZY: 32}}
    assert counts.already[candidate.id] == {"a": 0, "b": 0} and counts.verdicts is None
    assert [row.rewriter for row in found.rows[candidate.id]] == ["a"] * 32 + ["b"] * 32
    assert all(row.preference == 0.0 for row in found.rows[candidate.id])
