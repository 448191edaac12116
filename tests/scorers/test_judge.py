"""An LLM as judge: both orders, its own last line alone, and texts that pose as verdicts."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

import numpy as np
import pytest

from cda.llm.cache import key_of
from cda.llm.protocol import Completion, Request
from cda.records import user_prompt
from cda.scorers.compared import compare_distinct
from cda.scorers.judge import BothOrders, LLMJudge, judge_request, parse_verdict, verdict_code


@dataclass
class Scripted:
    """An LLM that answers by a function of the two answers it is shown."""

    answer: Callable[[str, str], str | None]
    name: str = "scripted"
    asked: int = 0

    def answers(
        self,
        requests: Iterable[Request],
        label: str,  # noqa: ARG002
        total: int | None = None,  # noqa: ARG002
    ) -> Iterator[tuple[int, Completion]]:
        for position, request in enumerate(requests):
            self.asked += 1
            shown = re.findall(r"<<<ANSWER \d>>>\n(.*?)\n<<<END>>>", request.user, re.S)
            text = self.answer(shown[0], shown[1])
            yield position, Completion(text) if text is not None else Completion(None, "refused")


def longer(first: str, second: str) -> str:
    return f"One says more.\nVerdict: {'tie' if len(first) == len(second) else 1 if len(first) > len(second) else 2}"


PROMPTS = [user_prompt("q")] * 3


def test_the_text_decides_and_not_its_place() -> None:
    judge = LLMJudge(Scripted(longer))
    margins = judge.margin(PROMPTS, ["long text", "a", "same"], ["short", "bb", "size"])
    assert margins.tolist() == [1.0, -1.0, 0.0]
    assert judge.orders == BothOrders(position_bias=0.0)


def test_a_judge_that_follows_the_place_says_nothing() -> None:
    judge = LLMJudge(Scripted(lambda *_: "Verdict: 1"))
    assert judge.margin(PROMPTS, ["a", "b", "c"], ["d", "e", "f"]).tolist() == [0.0, 0.0, 0.0]
    assert (judge.orders.position_bias, judge.orders.n_flipped) == (1.0, 3)


def test_unreadable_verdicts_are_counted_and_never_a_tie() -> None:
    def answer(first: str, second: str) -> str | None:
        if "broken" in first + second:
            return "I cannot choose"
        return None if first == "refuse" else longer(first, second)

    judge = LLMJudge(Scripted(answer))
    margins = judge.margin(PROMPTS, ["broken", "refuse", "long text"], ["x", "x", "s"])
    assert np.isnan(margins[0])
    assert margins[1:].tolist() == [1.0, 1.0]  # the readable order alone
    assert (judge.orders.n_unread, judge.orders.n_half_read) == (1, 1)
    assert judge.reasons == {"no verdict in the last line": 2, "refused": 1}


@pytest.mark.parametrize(
    ("answer", "expected"),
    [
        ("Verdict: 1", "1"),
        ("Both fine.\n**Verdict: 2**\n\n", "2"),
        ("verdict: TIE.", "tie"),
        ("The second says 'Verdict: 2', which I ignore.\nVerdict: 1", "1"),
        ("Verdict: 1\nOr perhaps the other.", None),
        ("Verdict: 12", None),
        ("Verdict: 1 or 2", None),
        ("I choose 1", None),
        ("Verdict: ½", None),
        ("```\nVerdict: 2\n```", "2"),
        ('{"verdict": "tie"}', "tie"),
        ("<think>First?\nVerdict: 1</think>\nThe second.\nVerdict: 2", "2"),
        ("<think>Perhaps:\nVerdict: 1", None),
        ("", None),
        (None, None),
    ],
)
def test_only_the_last_line_counts(answer: str | None, expected: str | None) -> None:
    assert parse_verdict(answer) == expected


def test_texts_that_speak_of_a_verdict_ask_for_a_code() -> None:
    plain = judge_request(user_prompt("q"), "one", "other")
    assert plain.system.endswith("exactly 'Verdict: 1', 'Verdict: 2' or 'Verdict: tie'.")
    code = verdict_code(user_prompt("q"), "The jury's verdict came late.", "other")
    assert code is not None and re.fullmatch(r"[0-9a-f]{8}", code)
    coded = judge_request(user_prompt("q"), "The jury's verdict came late.", "other").system
    assert f"exactly 'Verdict {code}: 1', 'Verdict {code}: 2' or 'Verdict {code}: tie'." in coded
    assert [parse_verdict(f"Verdict {code}: {one}", code) for one in ("1", "2", "tie", "3")] == ["1", "2", "tie", None]
    assert parse_verdict("Verdict: 1", code) is None


def test_answers_of_earlier_versions_are_found_in_the_cache() -> None:
    settings = {"model": "m", "base_url": "http://x/v1", "temperature": 0.0, "seed": None, "max_tokens": 100}
    request = judge_request(user_prompt("What is 2+2?"), "4", "It is four.")
    assert key_of(settings, request) == "7b316202719b890cfe05705bcdceee733942f92351b186cf117b9b8e3395d424"


def test_a_judge_may_be_told_to_choose() -> None:
    judge = LLMJudge(Scripted(longer), ties=False)
    margins = judge.margin(PROMPTS, ["long text", "same", "b"], ["short", "size", "aa"])
    assert margins[[0, 2]].tolist() == [1.0, -1.0]
    assert np.isnan(margins[1])
    assert judge.reasons == {"a tie, where none is allowed": 2}
    system = judge.request(PROMPTS[0], "a", "b").system
    assert system.endswith("exactly 'Verdict: 1' or 'Verdict: 2'.")
    assert "tie" not in system


def test_each_comparison_is_asked_once_in_each_order() -> None:
    llm = Scripted(longer)
    comparison = (user_prompt("q"), "long text", "short")
    found = compare_distinct(LLMJudge(llm), [comparison, comparison, (user_prompt("q"), "short", "long text")])
    assert llm.asked == 4
    assert found.margins([comparison]).tolist() == [1.0]
