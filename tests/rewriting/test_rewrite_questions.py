"""Questions on topics and baseline responses by an LLM: parsed, deduplicated, counted."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field

import pytest

from cda.llm.protocol import Completion, Request
from cda.records import user_prompt
from cda.rewriting.questions import Answered, baseline_responses, generate_questions, parse_questions, question_request


@dataclass
class ScriptedLLM:
    """Answers by a function of the request, last request first."""

    answer: Callable[[Request], str | None]
    name: str = "scripted"
    asked: list[Request] = field(default_factory=list)

    def answers(
        self,
        requests: Iterable[Request],
        label: str,  # noqa: ARG002
        total: int | None = None,
    ) -> Iterator[tuple[int, Completion]]:
        taken = list(requests)
        assert total == len(taken)
        self.asked += taken
        for position in reversed(range(len(taken))):
            text = self.answer(taken[position])
            yield position, Completion(text) if text is not None else Completion(None, "refused")


def topic_of(request: Request) -> str:
    return request.user.split("<<<TOPIC>>>\n")[1].split("\n<<<END>>>")[0]


def numbered(request: Request, count: int = 3) -> list[str]:
    return [f"Is {topic_of(request)} number {request.sample}{n} good?" for n in range(count)]


@pytest.mark.parametrize(
    "text",
    [
        '{"questions": ["Is it so?", "Why is it so?"]}',
        '["Is it so?", "Why is it so?"]',
        '```json\n{"questions": ["Is it so?", "Why is it so?"]}\n```',
        "Is it so?\nWhy is it so?",
        "1. Is it so?\n2) Why is it so?",
        '- "Is it so?"\n\n* **Why is it so?**',
        "<think>Let me see.</think>\nIs it so?\nWhy is it so?",
    ],
)
def test_questions_are_read_from_json_and_from_lines(text: str) -> None:
    assert parse_questions(text) == ["Is it so?", "Why is it so?"]


def test_nothing_is_read_from_nothing() -> None:
    assert parse_questions(None) == parse_questions("") == parse_questions('{"questions": 3}') == []


def test_each_kind_asks_for_its_own_sort_of_question() -> None:
    opinion, technical = (question_request("tea", kind, 5) for kind in ("opinion", "technical"))
    assert "their own view" in opinion.user and "definite answer" in technical.user
    assert opinion.schema is not None and "Write 5 questions" in opinion.user
    again = question_request("tea", "opinion", 5, sample=1)
    assert again.schema is None and opinion.plain in again.system and again.sample == 1


def test_so_many_questions_of_each_topic_in_the_order_of_the_topics() -> None:
    llm = ScriptedLLM(lambda request: json.dumps({"questions": numbered(request)}))
    made = generate_questions(["tea", "rain", " tea "], "opinion", llm, n_per_topic=2)
    assert made.topics == ("tea", "tea", "rain", "rain")
    assert made.queries[0] == "Is tea number 00 good?"
    assert (made.requested, made.exclusions.seen, made.exclusions.dropped) == (4, 4, 0)
    assert len(llm.asked) == 2


def test_duplicates_are_dropped_and_the_topic_is_asked_about_again() -> None:
    def answer(request: Request) -> str:
        if request.sample:
            return "\n".join(numbered(request))
        return "Is it good?\nis it   GOOD?\nIt is good."

    llm = ScriptedLLM(answer)
    made = generate_questions(["tea", "rain"], "technical", llm, n_per_topic=2)
    assert made.queries == (
        "Is it good?", "Is tea number 10 good?", "Is rain number 10 good?", "Is rain number 11 good?",
    )  # fmt: skip
    assert dict(made.exclusions.reasons) == {"duplicate": 3, "not a question": 2}
    assert [request.sample for request in llm.asked] == [0, 0, 1, 1]


def test_a_topic_that_stays_short_is_told() -> None:
    llm = ScriptedLLM(lambda request: None if topic_of(request) == "rain" else "Is tea good?")
    made = generate_questions(["tea", "rain"], "opinion", llm, n_per_topic=2, n_repeats=1)
    assert made.queries == ("Is tea good?",) and made.requested == 4
    assert dict(made.exclusions.reasons) == {"duplicate": 1, "refused": 2}
    with pytest.raises(ValueError, match="n_per_topic is 0"):
        generate_questions(["tea"], "opinion", llm, n_per_topic=0)
    assert generate_questions([], "opinion", llm).queries == ()


def test_baseline_responses_are_in_order_and_failures_counted() -> None:
    def answer(request: Request) -> str | None:
        return {"refuse?": None, "think?": "<think>so long"}.get(
            request.user, f"<think>hm</think>To {request.user} yes."
        )

    found, exclusions = baseline_responses(["a?", "refuse?", "b?", "think?"], ScriptedLLM(answer))
    assert found == [Answered(user_prompt("a?"), "To a? yes."), Answered(user_prompt("b?"), "To b? yes.")]
    assert exclusions.seen == 4
    assert dict(exclusions.reasons) == {"no baseline response: empty answer": 1, "no baseline response: refused": 1}
    assert baseline_responses([user_prompt("a?")], ScriptedLLM(answer))[0] == found[:1]
    marked = user_prompt("a <|im_end|>?")
    echoed, _ = baseline_responses([marked], ScriptedLLM(lambda request: request.user))
    assert echoed == [Answered(marked, "a < |im_end|>?")]
