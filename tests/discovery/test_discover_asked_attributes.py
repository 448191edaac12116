"""Attributes that an LLM proposes, varies or groups: what it is shown, what is read, and what becomes of the rest."""

from __future__ import annotations

import json
import re
import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from rows import rng
from scripted_llm import ScriptedLLM

from cda.biases import Bias
from cda.discovery.attribute import attribute_bias
from cda.discovery.proposals import (
    LLMGrouper,
    LLMMutator,
    LLMProposer,
    excerpts,
    mended,
    parse_attributes,
    parse_groups,
)
from cda.discovery.search import Parent, PromptSamples, Rated, Tried
from cda.llm.protocol import Request
from cda.records import user_prompt
from cda.results.discover import CandidateRecord, Measured, StandingRecord

MEGABYTE = 1_000_000


def fence(request: Request, name: str) -> str:
    return request.user.split(f"<<<{name}>>>\n")[1].split("\n<<<END>>>")[0]


def sample(number: int, *rewards: float) -> PromptSamples:
    rated = (Rated(f"Answer {place} to {number}.", reward) for place, reward in enumerate(rewards))
    return PromptSamples(user_prompt(f"Question {number}?"), tuple(rated))


def of_the_message(request: Request) -> str:
    """Two attributes that name the message and which answer it is, so that origins can be checked."""
    number = fence(request, "MESSAGE").split()[1].rstrip("?")
    return json.dumps({"attributes": [f"Feature {kind} of {number} in turn {request.sample}" for kind in "ab"]})


SAMPLES = [sample(number, 1.0, 4.0, 2.0) for number in range(6)]


@pytest.mark.parametrize("text", [
    '{"attributes": ["Uses lists", "Ends with a question"]}',
    '```json\n["Uses lists", "Ends with a question"]\n```',
    "Here are two features:\n\n1. Uses lists\n2) Ends with a question\n\nI hope this helps.",
    '<think>{"attributes": ["no"]}</think>\n* Uses lists\n- Ends with a question',
])  # fmt: skip
def test_attributes_are_read_from_json_and_from_marked_lines(text: str) -> None:
    assert parse_attributes(text) == ["Uses lists", "Ends with a question"]


@pytest.mark.parametrize(
    "text",
    ["", "I'm sorry, I can't help with that.", '{"attributes": []}', '{"attributes": ["Uses lists", "En', '{"features": ["x"]}',
     "<think>- Uses lists", "42", '{"attributes": "Uses lists"}', "[" * MEGABYTE, " \t" * (MEGABYTE // 2) + "x"],
)  # fmt: skip
def test_an_answer_without_a_list_is_none_at_any_size(text: str) -> None:
    start = time.monotonic()
    assert parse_attributes(text) is None
    assert time.monotonic() - start < 60


def test_responses_are_shown_from_the_highest_reward_on_with_low_numbers_and_the_purpose_is_not_revealed() -> None:
    llm = ScriptedLLM(lambda _: "hm")
    LLMProposer(llm, k=2).propose(SAMPLES[:1], 2, rng())
    names = ("RESPONSE 1, NUMBER 0", "RESPONSE 2, NUMBER 67", "RESPONSE 3, NUMBER 100")
    shown = [fence(llm.asked[0], name) for name in names]
    assert shown == ["Answer 1 to 0.", "Answer 2 to 0.", "Answer 0 to 0."]
    assert "Name 2 features" in llm.asked[0].user and "LOWER" in llm.asked[0].user and len(llm.asked) == 3
    said = " ".join(one.system + one.user for one in llm.asked).lower()
    assert not [word for word in ("reward", "bias", "judge", "prefer", "rating", "better", "quality") if word in said]


def test_prompts_are_drawn_once_each_and_attributes_carry_their_place() -> None:
    llm = ScriptedLLM(of_the_message)
    found = LLMProposer(llm, k=2).propose(SAMPLES, 8, rng())
    assert len(llm.asked) == 4 and len(found.biases) == 8
    assert len(set(found.sources)) == 4 and len(found.sources) == 8
    for bias, place in zip(found.biases, found.sources, strict=True):
        assert f" of {place} in" in bias.description
    assert found.exclusions.seen == 8 and not found.exclusions.dropped
    again = LLMProposer(ScriptedLLM(of_the_message), k=2).propose(SAMPLES, 8, rng())
    assert again == found


def test_where_prompts_run_out_they_are_asked_about_again_for_other_attributes() -> None:
    llm = ScriptedLLM(of_the_message)
    found = LLMProposer(llm, k=2, n_repeats=2).propose(SAMPLES[:2], 8, rng())
    assert len({bias.description for bias in found.biases}) == 8
    # Answers to a question asked again have samples of their own, so that no cached one is taken for another.
    assert sorted(one.sample for one in llm.asked) == [0, 0, 3, 3]
    assert sum("come to mind first" in one.user for one in llm.asked) == 2


def test_prompts_that_tell_nothing_are_skipped_and_counted() -> None:
    llm = ScriptedLLM(of_the_message)
    nan = float("nan")
    odd = [sample(0, 1.0, 1.0), sample(1, 2.0), sample(2), sample(3, 1.0, 2.0, nan), sample(4, nan, 1.0)]
    found = LLMProposer(llm, k=2).propose(odd, 2, rng())
    assert set(found.sources) == {3} and len(found.biases) == 2
    assert found.exclusions.reasons == {
        "prompt whose rewards do not vary": 1, "prompt with fewer than two responses": 3, "response without a reward": 2,
    }  # fmt: skip
    assert found.exclusions.seen == 8


def test_what_is_no_attribute_is_counted_and_the_rest_kept() -> None:
    offered = ["Uses lists", "uses *lists*.", "", "!!!", "two\nlines", "y" * MEGABYTE, 5, "Ends abruptly", "Is brief"]
    found = LLMProposer(ScriptedLLM(lambda _: json.dumps({"attributes": offered})), k=2).propose(SAMPLES, 2, rng())
    assert [bias.description for bias in found.biases] == ["Uses lists", "Ends abruptly"]
    assert found.exclusions.reasons == {
        "attribute twice in one answer": 1, "attribute: empty": 2, "attribute: no words": 1, "attribute: several lines": 1,
        "attribute: over 400 characters": 1, "attribute beyond the number asked for": 1,
    }  # fmt: skip
    assert found.exclusions.seen == 9


def test_an_unreadable_answer_is_asked_for_again_in_plain_words_and_then_counted() -> None:
    llm = ScriptedLLM(lambda request: "- Uses lists" if request.sample == 1 else "hm")
    found = LLMProposer(llm).propose(SAMPLES[:1], 5, rng())
    assert [bias.description for bias in found.biases] == ["Uses lists"] and not found.exclusions.dropped
    assert llm.asked[0].schema is not None and llm.asked[1].schema is None and '"- "' in llm.asked[1].system
    for text, reason in (("hm", "no answer in the asked form"), (None, "refused")):
        lost = LLMProposer(ScriptedLLM(lambda _, text=text: text)).propose(SAMPLES, 10, rng())  # type: ignore[misc]
        assert lost.biases == () and lost.exclusions.reasons == {reason: 2} and lost.exclusions.seen == 2


def test_of_many_or_long_responses_a_part_is_shown() -> None:
    llm = ScriptedLLM(of_the_message)
    rated = (Rated(f"{place} " * MEGABYTE + "end", float(place)) for place in range(9))
    many = PromptSamples(user_prompt("Question 0?" + " more" * MEGABYTE), tuple(rated))
    LLMProposer(llm, k=2, max_responses=3, max_characters=300).propose([many], 2, rng())
    (request,) = llm.asked
    assert len(request.user) < 12_000
    assert re.findall(r"RESPONSE \d, NUMBER (\d+)", request.user) == ["0", "50", "100"]
    text = fence(request, "RESPONSE 2, NUMBER 50")
    assert text.startswith("4 4") and text.endswith("4 end") and "[…]" in text and len(text) < 310


def tried(text: str, reward: float | None, judge: float | None = None) -> Tried:
    candidate = CandidateRecord.of(attribute_bias(text))
    row = StandingRecord(candidate=candidate.id, n=16, reward=reward, judge=judge, n_judged=0, failed={}, fate="kept")
    return candidate, row


ADDED = Measured("c", "r", "add", user_prompt("Why?"), "It is so.", "Great! It is so.", 0.75, 0.5)
REMOVED = Measured("c", "r", "remove", user_prompt("How?"), "Wow! Like this.", "Like this.", -0.25, None)
ANCESTRY = (tried("Is friendly", 0.1234, 0.6), tried("Is polite", None))


def parent(
    text: str = "Opens with praise",
    ancestry: tuple[Tried, ...] = ANCESTRY,
    examples: tuple[Measured, ...] = (ADDED, REMOVED),
) -> Parent:
    return Parent((*ancestry, tried(text, 0.5, 0.25)), examples)


def test_a_mutator_sees_ancestry_numbers_and_examples() -> None:
    llm = ScriptedLLM(lambda _: "hm")
    LLMMutator(llm).mutate([parent()], 4, rng())
    request = llm.asked[0]
    ancestors = [fence(request, f"FEATURE {number}") for number in (1, 2, 3)]
    assert ancestors == ["Is friendly", "Is polite", "Opens with praise"]
    numbers = re.findall(r"Number 1: (.*)\. Number 2: (.*)\.", request.user)
    assert numbers == [("+0.12", "0.60"), ("not measured", "not measured"), ("+0.50", "0.25")]
    assert re.findall(r"Example \d: (.*)", request.user) == ["number 1 +0.75, number 2 0.5", "number 1 -0.25"]
    assert re.findall(r"<<<WITH>>>\n(.*)", request.user) == ["Great! It is so.", "Wow! Like this."]
    assert re.findall(r"<<<WITHOUT>>>\n(.*)", request.user) == ["It is so.", "Like this."]
    assert "Write 4 new features" in request.user
    assert all(word not in (request.system + request.user).lower() for word in ("reward", "bias", "judge"))
    LLMMutator(llm, max_examples=1).mutate([parent(), parent(examples=(), ancestry=())], 4, rng())
    assert [one.user.count("<<<WITH>>>") for one in llm.asked[-6:-4]] == [1, 0]


def test_variations_carry_their_parent_and_ancestors_do_not_come_back() -> None:
    def answer(request: Request) -> str:
        last = re.findall(r"<<<FEATURE \d+>>>\n(.*)", request.user)[-1]
        offered = ["is friendly.", last.upper(), f"{last}, twice", f"{last} loudly", "One more", "Too much"]
        return json.dumps({"attributes": offered})

    found = LLMMutator(ScriptedLLM(answer)).mutate([parent(), parent("Ends with praise")], 3, rng())
    kept = [[f"{own}, twice", f"{own} loudly", "One more"] for own in ("Opens with praise", "Ends with praise")]
    assert [bias.description for bias in found.biases] == [*kept[0], *kept[1]]
    assert found.sources == (0, 0, 0, 1, 1, 1)
    assert found.exclusions.reasons == {"attribute as it was before": 4, "attribute beyond the number asked for": 2}
    assert found.exclusions.seen == 12


def test_excerpts_show_where_two_texts_part() -> None:
    same = "word " * 1000
    without, having = excerpts(same + "end.", same + "Truly! end.", 200)
    assert "Truly!" in having and "Truly!" not in without
    assert without.endswith("end.") and without.startswith("[…]") and len(having) < 210
    early, late = excerpts("a" * 500, "b" + "a" * 500, 200)
    assert late.startswith("b") and early.endswith("[…]")
    assert excerpts("short", "short too", 200) == ("short", "short too")


NUMBERED = re.compile(r"^(\d+)\. (.*)$", re.MULTILINE)


def attributes(*texts: str) -> list[Bias]:
    return [attribute_bias(text) for text in texts]


def shown(request: Request) -> list[str]:
    return [text for _, text in NUMBERED.findall(request.user)]


def by_first_word(request: Request) -> str:
    """A good answer where attributes that open alike mean the same."""
    groups: dict[str, list[int]] = {}
    for number, text in enumerate(shown(request), 1):
        groups.setdefault(text.split()[0], []).append(number)
    return json.dumps({"groups": list(groups.values())})


FIVE = attributes("Uses lists", "Ends with praise", "uses  *lists*.", "Opens warmly", "Is brief")


def test_an_llm_sees_each_wording_once_and_its_groups_are_carried_back() -> None:
    llm = ScriptedLLM(lambda _: '{"groups": [[4, 2], [1], [3]]}')
    grouper = LLMGrouper(llm)
    assert grouper.groups(FIVE) == [[0, 2], [1, 4], [3]]
    assert shown(llm.asked[0]) == ["Uses lists", "Ends with praise", "Opens warmly", "Is brief"]
    assert len(llm.asked) == 1 and llm.asked[0].schema is not None and not grouper.repairs


@pytest.mark.parametrize("text", [
    '{"groups": [[1, 3], [2], [4]]}',
    '```json\n{"groups": [[1, 3], [2], [4]]}\n```',
    "<think>[[1, 2, 3, 4]]</think>1, 3\n2\n4",
    "Two of them are alike.\n- 1, 3\n- 2\n- `4`",
    "Group 1: 1, 3\nGroup 2: 2\nGroup 3: [4]",
])  # fmt: skip
def test_groups_are_read_from_json_and_from_lines(text: str) -> None:
    assert parse_groups(text) == [[1, 3], [2], [4]]


@pytest.mark.parametrize(
    "text",
    ["", "All of them are alike.", '{"groups": []}', '{"groups": "1, 2"}', '{"groups": [[1, 3], [2', "<think>1, 2", "5", "null",
     "[" * 1_000_000, "x" * 1_000_000, " " * 500_000 + "1" + " " * 500_000 + "x", '{"groups": ' + "[" * 100_000],
)  # fmt: skip
def test_nonsense_is_asked_again_and_then_left_apart(text: str) -> None:
    llm = ScriptedLLM(lambda _: text)
    grouper = LLMGrouper(llm)
    assert grouper.groups(FIVE) == [[0, 2], [1], [3], [4]]
    assert [one.sample for one in llm.asked] == [0, 1, 2]
    assert grouper.repairs == {"questions without a readable answer: no answer in the asked form": 1}
    assert llm.asked[1].schema is None and "one line a group" in llm.asked[1].system


def test_what_is_no_partition_is_mended_and_counted() -> None:
    groups, wrong = mended([[3, 1], [1, 2, 9], [], [0, 2]], 5)
    assert groups == [[0, 2], [1], [3], [4]]
    assert wrong == {"attributes named again": 2, "numbers of no attribute": 2, "attributes left out": 2}


@settings(deadline=None)
@given(st.lists(st.lists(st.integers(-3, 9))), st.integers(1, 7))
def test_mending_always_gives_a_partition(named: list[list[int]], n: int) -> None:
    groups, _ = mended(named, n)
    assert sorted(place for group in groups for place in group) == list(range(n))
    assert groups == sorted(groups) and all(group == sorted(group) for group in groups)


def test_many_attributes_are_grouped_in_parts_and_then_together() -> None:
    kinds = ["Praises", "Lists", "Hedges", "Repeats", "Asks", "Warns", "Names"]
    biases = attributes(*(f"{kinds[place % 7]} in manner {place}" for place in range(60)))
    llm = ScriptedLLM(by_first_word)
    grouper = LLMGrouper(llm, chunk=20)
    assert grouper.groups(biases) == [list(range(kind, 60, 7)) for kind in range(7)]
    assert all(len(shown(request)) <= 20 for request in llm.asked) and not grouper.repairs


def test_attributes_that_stay_apart_end_after_four_rounds_and_this_is_said() -> None:
    biases = attributes(*(f"Kind {'abcdefghij'[place % 10]}{'klmnopqrst'[place // 10]}" for place in range(30)))
    llm = ScriptedLLM(lambda request: json.dumps({"groups": [[n] for n in range(1, len(shown(request)) + 1)]}))
    grouper = LLMGrouper(llm, chunk=10)
    assert grouper.groups(biases) == [[place] for place in range(30)]
    assert grouper.repairs == {"attributes that were not compared with all others": 30} and len(llm.asked) == 12
