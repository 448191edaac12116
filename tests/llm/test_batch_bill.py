"""The bill of batches: whatever comes back, and whenever the run is killed, no less is counted than the server bills."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from odd_batches import Oddity, OddServer, oddities
from stub_client import asked, budgeted, client

from cda.errors import LLMError
from cda.llm.batch import BatchLLM
from cda.llm.cache import Cache
from cda.llm.money import Price
from cda.llm.openai_client import OpenAIClient
from cda.llm.protocol import Completion, Request, complete
from cda.llm.purse import Purse

PRICE = Price(input=1e3, output=1e3)
NONE = Oddity("output", "none")
ALL = {str(oddity): oddity for oddity in oddities()}
CHOSEN = [
    "output: the first line is left out", "output: only the first line", "output: cut in the middle", "output: 404 and a page",
    "output: response.status_code 500", 'output: response.body ["x"]', "output: response.body.usage null", "output: response true",
    "output: response.body.choices null", "output: every line twice", "output: empty", "poll: output_file_id null",
    "poll: 404 and a page", 'poll: status "expired"', 'poll: status "failed"', "create: the connection is lost in the answer",
]  # fmt: skip


class Billing(OddServer):
    """Keeps its book of what it bills."""

    dollars = 0.0

    def completion(self, body: dict[str, Any], fault: str | None) -> tuple[int, dict[str, Any]]:
        status, answer = super().completion(body, fault)
        if status == 200 and body["messages"]:
            self.dollars += PRICE.of(answer["usage"]["prompt_tokens"], answer["usage"]["completion_tokens"])
        return status, answer


class Dies(Exception):  # noqa: N818 (no error of the product)
    """The process is dead."""


class Dying(Cache):
    """Dies when so many answers are kept."""

    left = -1

    def keep(self, key: str, completion: Completion) -> Any:
        self.left -= 1
        if self.left == 0:
            raise Dies
        return super().keep(key, completion)


def batches(server: OddServer, cache: Cache, purse: Purse, budget: float = 100.0, resubmit: bool = False) -> BatchLLM:
    asker = OpenAIClient("local", base_url=server.url, max_tokens=50, say=lambda _: None)
    return BatchLLM(asker, cache, sleep=lambda _: None, price=PRICE, purse=purse, budget_usd=budget, resubmit=lambda _: resubmit)  # fmt: skip


@pytest.mark.parametrize("times", [1, None], ids=["once", "always"])
@pytest.mark.parametrize("oddity", [ALL[name] for name in CHOSEN], ids=CHOSEN)
def test_what_may_have_been_billed_is_counted(oddity: Oddity, times: int | None, tmp_path: Path) -> None:
    purse = Purse(tmp_path / "spent")
    with Billing(oddity, times) as server, Cache(tmp_path / "llm.sqlite") as cache:
        for resubmit in (False, True, True):
            with suppress(LLMError):
                complete(batches(server, cache, purse, resubmit=resubmit), server.asked, "asking")
        assert server.dollars > 0
        assert purse.spent + purse.set_aside >= server.dollars - 1e-9


@pytest.mark.parametrize("dies_at", [2, 4, 6])
def test_a_kill_while_results_are_kept_loses_no_part_of_the_bill(dies_at: int, tmp_path: Path) -> None:
    with Billing(NONE, 0) as server:
        server.asked = [Request("s", f"question {number}") for number in range(6)]
        with Dying(tmp_path / "llm.sqlite") as cache, pytest.raises(Dies):
            cache.left = dies_at
            complete(batches(server, cache, Purse(tmp_path / "spent")), server.asked, "asking")
        purse = Purse(tmp_path / "spent")
        with Cache(tmp_path / "llm.sqlite") as cache:
            complete(batches(server, cache, purse), server.asked, "asking")
        assert purse.spent == pytest.approx(server.dollars) and purse.set_aside == 0


def test_a_batch_that_nobody_waits_for_is_not_waited_for(tmp_path: Path, serve: Callable[[Any], str]) -> None:
    """Its money stays set aside: what does not fit next to it is refused, in batches and in calls, and its remedy works."""
    with Billing(Oddity("poll", "away", fault="500"), None) as server, Cache(tmp_path / "llm.sqlite") as cache:
        purse = Purse(tmp_path / "spent")
        with pytest.raises(LLMError, match="Its batch goes on"):
            complete(batches(server, cache, purse, 2.4), asked(*range(6)), "asking")
        aside = purse.set_aside
        assert 1.2 < aside < 2.4
        said = r"\$2\.\d+ are set aside for batches under way \(llm\.mode=batch collects them\)"
        with pytest.raises(LLMError, match=said):
            complete(batches(server, cache, purse, 2.4), asked(*range(100, 106)), "asking")
        calls = budgeted(client(serve(lambda _: None), max_tokens=900), PRICE, 2.4, purse)
        with pytest.raises(LLMError, match=said):
            list(calls.answers(asked("x"), "asking"))
        server.left = 0
        assert all(one.text for one in complete(batches(server, cache, purse, 2.4), asked(*range(6)), "asking"))
        assert purse.set_aside == 0 and purse.spent == pytest.approx(server.dollars)


def test_agreement_to_a_second_batch_counts_both(tmp_path: Path) -> None:
    """A batch whose making was not answered, on a server without a list, may run: with the other one it must fit the budget."""
    with (
        Billing(ALL["create: the connection is lost in the answer"], 1) as server,
        Cache(tmp_path / "llm.sqlite") as cache,
    ):
        server.listing = False
        purse = Purse(tmp_path / "spent")
        with pytest.raises(LLMError, match=r"the budget of \$2\.4 .* is used up"):
            complete(batches(server, cache, purse, 2.4, resubmit=True), asked(*range(6)), "asking")
        assert len(server.batches) == 1
        complete(batches(server, cache, purse, 6.0, resubmit=True), asked(*range(6)), "asking")
        assert len(server.batches) == 2 and purse.spent > purse.uncounted > 1.2
