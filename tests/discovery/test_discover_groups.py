"""Groups of attributes: by words, and by an LLM whose answers may be anything."""

from __future__ import annotations

import json
import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scripted_llm import ScriptedLLM

from cda.biases import Bias
from cda.discovery.attribute import attribute_bias
from cda.discovery.proposals import LLMGrouper, mended, parse_groups
from cda.llm.protocol import Request

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
