"""Costs of calls: known prices, estimates, a budget that is never exceeded, counts, and the models that answered."""

from __future__ import annotations

import asyncio
import json
import re
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import replace
from itertools import count
from pathlib import Path
from types import MappingProxyType
from typing import Any

import pytest
from serving import Answer, status
from stub_client import QUESTION, Stub, answers, asked, budgeted, client

from cda.errors import LLMError, MovedError
from cda.llm.asking import answered
from cda.llm.cache import Cache, CachedLLM
from cda.llm.money import (
    Agreed,
    AnsweredBy,
    CountedLLM,
    Price,
    Tally,
    is_version_of,
    request_tokens,
    tokens_of,
)
from cda.llm.openai_client import OpenAIClient
from cda.llm.protocol import Completion, Request, complete
from cda.llm.purse import Purse

PRICE = Price(input=1.25, output=5.0)
DEAR = Price(input=10.0, output=100.0)
LONGEST = (20, 100)
"""Tokens of QUESTION with the longest answer allowed."""
MOST = PRICE.of(len("s\n\nu") + 16, 100)
"""What a call with QUESTION could cost at most: every byte a token, 16 tokens of frame, and the longest answer."""
SECRET = "sk-secret-of-many-characters"


def test_four_characters_are_about_a_token_and_a_schema_is_paid_for_too() -> None:
    assert tokens_of("") == 0 and tokens_of("abc") == 1 and tokens_of("word " * 400) == 500
    assert tokens_of("\udc80") == 1
    schema = MappingProxyType({"type": "object", "properties": MappingProxyType({"answer": {"type": "string"}})})
    sent = json.dumps({"type": "object", "properties": {"answer": {"type": "string"}}})
    bare, held = Request("s" * 40, "u" * 40), Request("s" * 40, "u" * 40, schema, "p" * 40)
    assert request_tokens(bare) == 21 + 16  # 80 letters and 2 line breaks, and the frame
    assert request_tokens(held) - request_tokens(bare) == pytest.approx((len(sent) + 40) / 4, abs=1)


@pytest.mark.parametrize("budget", [0.0005, 0.004, 0.01])
def test_the_budget_is_never_exceeded_and_nearly_used(budget: float) -> None:
    """Even if every answer is as long as it may be; calls under way are counted, and none is lost."""
    llm = budgeted(Stub(LONGEST, concurrency=16), PRICE, budget)
    found = []
    with pytest.raises(LLMError, match=re.escape(f"${budget:g} (llm.budget_usd)")):
        for position, completion in answered(llm, enumerate(QUESTION for _ in range(1000))):
            assert completion.text == "U"
            found.append(position)
    assert budget - 2 * PRICE.of(*LONGEST) < llm.spent_usd <= budget
    assert len(found) == llm.account.purse.n_calls and llm.spent_usd == pytest.approx(len(found) * PRICE.of(*LONGEST))


def test_a_budget_that_is_just_enough_is_enough() -> None:
    assert answers(budgeted(Stub(), PRICE, MOST), [QUESTION])[0].text == "U"
    with pytest.raises(LLMError, match=r"\$0\.0000 are spent on 0 calls"):
        answers(budgeted(Stub(), PRICE, MOST * 0.999), [QUESTION])
    # The first token's probabilities are asked for: one token of output is all that it can cost.
    answers(budgeted(Stub(), PRICE, MOST / 2), [replace(QUESTION, top_logprobs=5)])


def test_what_is_spent_from_one_purse_is_gone_for_all_and_each_keeps_its_own_budget() -> None:
    purse = Purse()
    cheap, dear = (budgeted(Stub(LONGEST), price, 2.5 * MOST, purse) for price in (PRICE, DEAR))
    answers(cheap, [QUESTION, QUESTION])
    with pytest.raises(LLMError, match=r"spent on 2 calls, and the next could cost"):
        answers(dear, [QUESTION])
    assert cheap.spent_usd == dear.spent_usd == pytest.approx(2 * PRICE.of(*LONGEST)) and purse.set_aside == 0
    answers(budgeted(dear, DEAR, 1.0, purse), [QUESTION])
    assert purse.spent == pytest.approx(2 * PRICE.of(*LONGEST) + DEAR.of(*LONGEST)) and purse.n_calls == 3


def test_a_call_that_does_not_fit_next_to_anothers_waits_for_it() -> None:
    """What is set aside for a call under way is more than it will cost, so that the next fits once it has ended."""
    may_end = threading.Event()

    class Slow(Stub):
        async def answer(self, request: Request) -> Completion:
            while not may_end.is_set():
                await asyncio.sleep(0.005)
            return await super().answer(request)

    purse = Purse()
    slow, other = (budgeted(stub, PRICE, 1.5 * MOST, purse) for stub in (Slow((1, 1)), Stub((1, 1))))
    thread = threading.Thread(target=answers, args=(slow, [QUESTION]))
    thread.start()
    deadline = time.monotonic() + 30
    while purse.set_aside == 0 and time.monotonic() < deadline:
        time.sleep(0.005)
    threading.Timer(0.2, may_end.set).start()
    assert answers(other, [QUESTION])[0].text == "U"
    assert may_end.is_set() and purse.n_calls == 2
    thread.join(timeout=60)
    assert purse.set_aside == 0


SAID = {"choices": [{"message": {"content": "yes"}, "finish_reason": "stop"}]}


@pytest.mark.parametrize(
    ("replies", "paid", "uncounted"),
    [
        ([status(200, SAID | {"usage": {"prompt_tokens": 3, "completion_tokens": 2}})], PRICE.of(3, 2), 0.0),
        ([status(200, SAID | {"usage": {"prompt_tokens": 3}})], PRICE.of(3, 100), PRICE.of(3, 100)),
        ([status(200, SAID | {"usage": None})], MOST, MOST),
        ([status(200, SAID | {"usage": {"prompt_tokens": -3, "completion_tokens": "2"}})], MOST, MOST),
        ([status(200, "{"), status(200, SAID)], 2 * MOST, 2 * MOST),
        ([status(503, {}), status(500, {}), status(200, SAID)], 3 * MOST, 3 * MOST),
        ([status(408, {}), status(200, SAID)], 2 * MOST, 2 * MOST),
        ([status(429, retry_after_ms="1"), status(200, SAID)], MOST, MOST),
        ([status(404, {"error": {"message": "no such model"}})], 0.0, 0.0),
        ([status(401, {})], 0.0, 0.0),
        ([status(400, {"error": {"message": "context_length_exceeded", "code": "context_length_exceeded"}})], 0.0, 0.0),
        ([status(400, {"error": {"message": "stopped", "code": "content_filter"}})], MOST, MOST),
    ],
)
def test_every_attempt_is_paid_as_the_server_may_bill_it(
    speak: Callable[[Answer], str], replies: list[Any], paid: float, uncounted: float
) -> None:
    left = iter(replies)
    llm = budgeted(client(speak(lambda _: next(left)), retries=3, max_tokens=100), PRICE, 1.0)
    with suppress(LLMError):
        answers(llm, [QUESTION])
    purse = llm.account.purse
    assert (purse.spent, purse.uncounted, purse.set_aside) == (pytest.approx(paid), pytest.approx(uncounted), 0.0)
    assert next(left, None) is None


def test_a_server_that_nobody_hears_costs_nothing_and_one_that_answers_late_may() -> None:
    gone = budgeted(client("http://127.0.0.1:9/v1"), PRICE, 1.0)
    with pytest.raises(LLMError, match="cannot be reached"):
        answers(gone, [QUESTION])
    assert gone.account.purse.spent == 0 == gone.account.purse.set_aside


def test_answers_are_counted_by_stage_and_closed_early() -> None:
    closed = []
    asked_for: list[object] = []

    class Fixed:
        name = "gpt-x"

        def answers(self, *given: object) -> Iterator[tuple[int, Completion]]:
            asked_for.append(given)
            usage = {"input_tokens": 100, "output_tokens": 10}
            kinds = (Completion("yes", **usage), Completion("yes", cached=True, **usage))
            try:
                yield from enumerate((*kinds, Completion(None, "refused", 50), Completion("no usage said")))
            finally:
                closed.append(True)

    tally = Tally()
    complete(CountedLLM(Fixed(), tally, DEAR), [QUESTION] * 4, "asking")
    counts = {"asked": 3, "cached": 1, "unusable": 1, "uncounted": 1, "input_tokens": 150, "output_tokens": 10}
    assert tally.since(Tally()) == counts | {"dollars": pytest.approx((150 * 10 + 10 * 100) / 1e6)}
    earlier = replace(tally)
    assert tally.since(earlier) == {}
    found = CountedLLM(Fixed(), tally, DEAR).answers([QUESTION], "asking", 7)
    next(found)
    found.close()
    assert len(closed) == 2 and asked_for[-1] == ([QUESTION], "asking", 7)
    list(CountedLLM(Fixed(), Tally(), agreed=Agreed()).answers([QUESTION] * 3, "asking"))
    assert asked_for[-1][1:] == ("asking", 3), "the number of requests is kept where they are counted one by one"  # type: ignore[index]
    assert tally.since(earlier)["dollars"] == pytest.approx(0.002) and tally.since(earlier)["asked"] == 1
    tally = Tally()
    complete(CountedLLM(Fixed(), tally), [QUESTION], "asking")
    assert tally.since(Tally())["dollars"] is None


@pytest.mark.parametrize(
    ("given", "read"),
    [("j-2024", "j-2024"), (None, None), (7, None), ("", None), ("x" * 999, "x" * 200), (f"of {SECRET}", "of ***")],
)
def test_a_model_is_kept_with_its_answer_and_counted(
    speak: Callable[[Answer], str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, given: object, read: str | None
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", SECRET)
    body = {"model": given, "choices": [{"message": {"content": "yes"}, "finish_reason": "stop"}]}
    client = OpenAIClient("judge", speak(lambda _: status(200, body)))
    with Cache(tmp_path / "cache.sqlite") as cache:
        tally = Tally()
        for cached in (False, True):
            found = complete(CountedLLM(CachedLLM(client, cache), tally), asked(1, 2), "asking")
            assert [(one.model, one.cached) for one in found] == [(read, cached)] * 2
        assert tally.since(Tally()).get("models", {}) == ({read: 4} if read else {})
        assert tally.since(Tally(models={"j-2024": 1})).get("models", {}).get("j-2024") == (
            3 if read == "j-2024" else None
        )


def test_answers_of_a_model_that_no_longer_answers_to_its_name_are_asked_again(
    speak: Callable[[Answer], str], tmp_path: Path
) -> None:
    answering = {"model": "j-2024-05"}

    def answer(_: object) -> bytes:
        return status(
            200, answering | {"choices": [{"message": {"content": answering["model"]}, "finish_reason": "stop"}]}
        )

    url, path, said = speak(answer), tmp_path / "cache.sqlite", list[str]()

    def answers(*numbers: int, at: str = url) -> list[tuple[str | None, bool]]:
        client = OpenAIClient("j", at, concurrency=1)
        with Cache(path, said.append, asked=client.settings) as cache:
            return [(one.text, one.cached) for one in complete(CachedLLM(client, cache), asked(*numbers), "asking")]

    old, new = "j-2024-05", "j-2024-08"
    assert answers(1, 2) == [(old, False)] * 2
    answering["model"] = new
    assert answers(1, 2) == [(old, True)] * 2  # nothing was asked, so that nothing is known of a change
    with pytest.raises(
        MovedError, match=f"j was answered by {old} until now, and is by {new}: answers of both were taken"
    ):
        answers(1, 3)
    assert [line for line in said if "is answered by" in line] == [
        f"j is answered by {new} now, and was by {old}: the earlier model's answers are not used any more"
    ]
    assert answers(1, 2, 3) == [(new, False), (new, False), (new, True)]
    assert answers(1, 2, 3) == [(new, True)] * 3
    with Cache(path, asked=OpenAIClient("j", "http://another/v1").settings) as cache:
        assert cache.answering() == set()


def test_a_server_that_answers_by_several_models_is_asked_once(speak: Callable[[Answer], str], tmp_path: Path) -> None:
    turn = count()

    def answer(_: object) -> bytes:
        choice = {"message": {"content": "yes"}, "finish_reason": "stop"}
        return status(200, {"model": f"j-{next(turn) % 2}", "choices": [choice]})

    client = OpenAIClient("j", speak(answer), concurrency=1)
    for cached in (False, True, True):
        with Cache(tmp_path / "cache.sqlite", asked=client.settings) as cache:
            found = complete(CachedLLM(client, cache), asked(1, 2, 3), "asking")
            assert [one.cached for one in found] == [cached] * 3 and cache.answering() == {"j-0", "j-1"}


@pytest.mark.parametrize(
    ("name", "wanted", "same"),
    [
        ("gpt-4o-2024-08-06", "gpt-4o", True),
        ("gpt-4-0613", "gpt-4", True),
        ("gemini-1.5-pro-002", "gemini-1.5-pro", True),
        ("claude-3-5-sonnet-20241022", "claude-3-5-sonnet-latest", True),
        ("gpt-4o", "openai/gpt-4o", True),
        ("/models/Llama-3/", "llama-3", True),
        ("gpt-4o-mini", "gpt-4o", False),
        ("gpt-4o", "gpt-4", False),
        ("llama-3-70b", "llama-3", False),
        ("gpt-4o", "gpt-4o-2024-08-06", False),
    ],
)
def test_versions_of_a_model(name: str, wanted: str, same: bool) -> None:
    assert is_version_of(name, wanted) is same


@pytest.mark.parametrize(
    ("now", "kept", "said_of_it"),
    [
        ({"j-2024-05-13": 2}, {"j-2024-05-13": 1}, None),
        ({}, {}, None),
        ({"small": 2}, {}, "j was asked for, but the server says that small answered."),
        ({"j-2": 2}, {"j-1": 3}, "Several models answered for j: 3 by j-1, 2 by j-2."),
    ],
)
def test_notes_on_the_models(now: dict[str, int], kept: dict[str, int], said_of_it: str | None) -> None:
    counts = AnsweredBy()
    for cached, models in ((False, now), (True, kept)):
        for completion in [
            Completion("yes", cached=cached, model=name) for name, n in models.items() for _ in range(n)
        ]:
            counts.add(completion)
    counts.add(Completion("yes"))
    notes = counts.notes("j")
    assert len(notes) == (said_of_it is not None) and (said_of_it or "") in "".join(notes)
