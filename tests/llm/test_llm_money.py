"""What calls cost: known prices, estimates, and a budget that is never exceeded."""

from __future__ import annotations

import asyncio
import json
import re
import threading
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any

import pytest

from cda.errors import LLMError
from cda.llm.money import Budgeted, CallCost, Price, Purse, estimate, request_tokens, tokens_of
from cda.llm.protocol import Completion, Request, complete

PRICE = Price(input=1.25, output=5.0)
TOKENS_PER_WORD = 1.3
INSTRUCTION_TOKENS = 100


@dataclass
class Stub:
    """Answers after some milliseconds and reports so many tokens."""

    usage: tuple[int, int] = (100, 40)
    concurrency: int = 8
    takes_s: float = 0.005
    name: str = "stub"
    settings: Mapping[str, Any] = field(default_factory=lambda: {"max_tokens": 100})
    spent_usd: None = None
    under_way: int = 0
    most_under_way: int = 0

    @asynccontextmanager
    async def session(self) -> AsyncIterator[Callable[[Request], Awaitable[Completion]]]:
        yield self.ask

    async def ask(self, request: Request) -> Completion:
        self.under_way += 1
        self.most_under_way = max(self.most_under_way, self.under_way)
        await asyncio.sleep(self.takes_s)
        self.under_way -= 1
        return Completion(request.user, None, *self.usage)


def rewrites_of_imdb(words: float) -> CallCost:
    """RATE on 25,000 IMDB reviews: a rewrite and a rewrite of it each; output as long as the review."""
    review = TOKENS_PER_WORD * words
    return estimate(2 * 25_000, review + INSTRUCTION_TOKENS, review, PRICE, 64, None, 3.0)


def test_25000_imdb_reviews_rewritten_twice_cost_what_rate_paid() -> None:
    """RATE paid about $60 at $1.25/$5, which is $0.0012 a rewrite: reviews of 130 words, at 1.3 tokens a word and 100
    tokens of instruction. Reviews of IMDB's mean of 230 words would cost $100 with answers of the same length.
    """
    assert rewrites_of_imdb(130).dollars == pytest.approx(60, rel=0.03)
    assert rewrites_of_imdb(230).dollars == pytest.approx(100, rel=0.01)


def test_time_is_that_of_the_calls_or_of_the_limit_whichever_is_longer() -> None:
    assert estimate(1000, 1, 1, None, 10, None, 2.0) == CallCost(None, 200.0)
    assert estimate(1000, 1, 1, None, 10, 100, 2.0) == CallCost(None, 600.0)
    assert estimate(1000, 1, 1, Price(input=0, output=0), 10, 6000, 2.0) == CallCost(0.0, 200.0)
    assert estimate(3, 1, 1, None, 100, None, 2.0).seconds == 2.0
    assert estimate(0, 1, 1, PRICE, 100, None, 2.0) == CallCost(0.0, 0.0)


def test_four_characters_are_about_a_token() -> None:
    assert tokens_of("") == 0 and tokens_of("abc") == 1 and tokens_of("word " * 400) == 500
    assert tokens_of("\udc80") == 1
    bare = request_tokens(Request("s" * 40, "u" * 40))
    assert request_tokens(Request("s" * 40, "u" * 40, {"type": "object"}, "p" * 40)) > bare + 10


def test_what_was_spent_is_what_the_server_counted() -> None:
    llm = Budgeted(Stub(), PRICE)
    complete(llm, [Request("s", str(number)) for number in range(50)], "asking")
    assert llm.spent_usd == pytest.approx(50 * (100 * 1.25 + 40 * 5) / 1e6)
    assert llm.n_calls == 50


def test_a_server_that_counts_nothing_is_counted_by_estimate() -> None:
    llm = Budgeted(Stub(usage=(0, 0)), PRICE)
    complete(llm, [Request("s", "four" * 100)], "asking")
    assert llm.spent_usd == pytest.approx(PRICE.of(request_tokens(Request("s", "four" * 100)), 100))


@pytest.mark.parametrize("budget", [0.0005, 0.004, 0.01])
def test_the_budget_is_never_exceeded_and_nearly_used(budget: float) -> None:
    """Even where every answer is as long as it may be; calls under way are counted, and none is lost."""
    stub = Stub(usage=(20, 100), concurrency=16)
    llm = Budgeted(stub, PRICE, budget)
    found = []
    with pytest.raises(LLMError, match=re.escape(f"${budget:g} (llm.budget_usd)")):
        for position, completion in llm.answers((Request("s", "u") for _ in range(1000)), "asking", 1000):
            assert completion.text == "u"
            found.append(position)
    assert llm.spent_usd <= budget
    assert llm.spent_usd > budget - 2 * PRICE.of(20, 100)
    assert len(found) == llm.n_calls
    assert stub.most_under_way <= 16


def test_a_call_that_alone_could_exceed_the_budget_is_never_made() -> None:
    llm = Budgeted(Stub(), PRICE, 0.0001)
    with pytest.raises(LLMError, match=r"\$0\.0000 are spent on 0 calls"):
        complete(llm, [Request("s", "u")], "asking")


def test_the_bar_shows_the_running_dollars(capsys: pytest.CaptureFixture[str]) -> None:
    llm = Budgeted(Stub(usage=(400_000, 0)), PRICE)
    complete(llm, [Request("s", str(number)) for number in range(4)], "rewriting")
    shown = capsys.readouterr().err
    assert "rewriting" in shown and "$2.00" in shown and "4/4" in shown


def most_of(request: Request, price: Price) -> float:
    """What a call of the stub could cost at most: every byte a token, and its longest answer."""
    return price.of(len(request.system) + len(request.user) + 2 + 16, 100)


def test_askers_with_one_purse_share_what_is_spent() -> None:
    purse = Purse()
    cheap, dear = (
        Budgeted(Stub(name=str(price)), price, None, purse) for price in (PRICE, Price(input=2.5, output=10.0))
    )
    alone = Budgeted(Stub(), PRICE)
    complete(cheap, [Request("s", str(number)) for number in range(6)], "asking")
    complete(dear, [Request("s", str(number)) for number in range(3)], "asking")
    each = PRICE.of(100, 40)
    assert cheap.spent_usd == dear.spent_usd == purse.spent == pytest.approx(6 * each + 3 * 2 * each)
    assert cheap.n_calls == dear.n_calls == 9 and purse.set_aside == 0
    assert (alone.spent_usd, alone.n_calls) == (0, 0)


def test_what_one_spent_another_cannot() -> None:
    purse, question = Purse(), Request("s", "u")
    budget = 2.5 * most_of(question, PRICE)
    first, second = (Budgeted(Stub(usage=(20, 100)), PRICE, budget, purse) for _ in range(2))
    complete(first, [question, question], "asking")
    with pytest.raises(LLMError, match=r"spent on 2 calls, and the next could cost"):
        complete(second, [question], "asking")
    assert purse.spent == first.spent_usd == pytest.approx(2 * PRICE.of(20, 100)) and purse.set_aside == 0
    with pytest.raises(LLMError, match="used up"):
        complete(first, [question], "asking")


@pytest.mark.parametrize("n_askers", [2, 4])
def test_askers_at_work_at_the_same_time_never_exceed_the_budget_together(n_askers: int) -> None:
    """Each in its own thread and event loop; calls of one are under way while another wants to begin."""
    purse, question, budget = Purse(), Request("s", "u"), 0.01
    stubs = [Stub(usage=(20, 100), concurrency=4) for _ in range(n_askers)]
    askers = [Budgeted(stub, PRICE, budget, purse) for stub in stubs]
    failures: list[LLMError] = []
    answered: list[int] = []

    def work(asker: Budgeted) -> None:
        try:
            for position, _ in asker.answers((question for _ in range(1000)), "asking", 1000):
                answered.append(position)
        except LLMError as error:
            failures.append(error)

    threads = [threading.Thread(target=work, args=(asker,)) for asker in askers]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(timeout=120)
    assert len(failures) == n_askers
    assert budget - most_of(question, PRICE) - PRICE.of(20, 100) < purse.spent <= budget
    assert purse.n_calls == len(answered) and purse.set_aside == 0
    assert purse.spent == pytest.approx(purse.n_calls * PRICE.of(20, 100))


def test_a_call_that_does_not_fit_beside_anothers_waits_for_it() -> None:
    """What is set aside for a call under way is more than it will cost, so that the next fits once it has ended."""
    may_end = threading.Event()

    class Slow(Stub):
        async def ask(self, request: Request) -> Completion:
            while not may_end.is_set():
                await asyncio.sleep(0.005)
            return await super().ask(request)

    purse, question = Purse(), Request("s", "u")
    budget = 1.5 * most_of(question, PRICE)
    slow, other = (Budgeted(stub, PRICE, budget, purse) for stub in (Slow(usage=(1, 1)), Stub(usage=(1, 1))))
    thread = threading.Thread(target=lambda: complete(slow, [question], "asking"))
    thread.start()
    while purse.set_aside == 0:
        time.sleep(0.005)
    threading.Timer(0.2, may_end.set).start()
    assert [one.text for one in complete(other, [question], "asking")] == ["u"]
    assert may_end.is_set() and purse.n_calls == 2
    thread.join(timeout=60)
    assert purse.set_aside == 0


def test_a_call_that_breaks_off_gives_back_what_was_set_aside() -> None:
    class Broken(Stub):
        async def ask(self, request: Request) -> Completion:  # noqa: ARG002
            raise LLMError("no such model")

    purse = Purse()
    with pytest.raises(LLMError, match="no such model"):
        complete(Budgeted(Broken(), PRICE, 1.0, purse), [Request("s", "u")], "asking")
    assert (purse.spent, purse.set_aside) == (0, 0)
    assert complete(Budgeted(Stub(), PRICE, 1.0, purse), [Request("s", "u")], "asking")[0].text == "u"


def test_each_keeps_its_own_budget_of_the_same_purse() -> None:
    purse = Purse(spent=0.5)
    complete(Budgeted(Stub(), PRICE, 1.0, purse), [Request("s", "u")], "asking")
    with pytest.raises(LLMError, match=re.escape("$0.4 (llm.budget_usd)")):
        complete(Budgeted(Stub(), PRICE, 0.4, purse), [Request("s", "u")], "asking")


def test_a_schema_is_paid_for_with_the_rest_of_the_question() -> None:
    schema = MappingProxyType({"type": "object", "properties": MappingProxyType({"answer": {"type": "string"}})})
    sent = json.dumps({"type": "object", "properties": {"answer": {"type": "string"}}})
    bare = Request("s" * 40, "u" * 40)
    with_it = Request("s" * 40, "u" * 40, schema=schema)
    assert request_tokens(with_it) - request_tokens(bare) == pytest.approx(len(sent) / 4, abs=1)
    longer = 1.25 * len(sent) / 1e6
    budgeted = Budgeted(Stub(), PRICE)
    assert budgeted._most(with_it) == pytest.approx(2 * (budgeted._most(bare) + longer))


def test_a_budget_that_is_just_enough_is_enough() -> None:
    request = Request("s", "u")
    # Every byte and 16 tokens of frame in, 100 tokens out; the stub then reports less.
    most = PRICE.of(len("s\n\nu") + 16, 100)
    assert [one.text for one in complete(Budgeted(Stub(), PRICE, budget_usd=most), [request], "asking")] == ["u"]
    with pytest.raises(LLMError, match="is used up"):
        complete(Budgeted(Stub(), PRICE, budget_usd=most * 0.999), [request], "asking")
