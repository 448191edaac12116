"""Batches over a server with odd answers, once and always: nothing is paid for twice, and no less is counted than is billed. The whole
table is an eval's; whenever the run is killed, the bill is whole too."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from odd_batches import ENDPOINTS, PRICE, Oddity, OddServer, batches, oddities, tried
from stub_client import asked, budgeted, client

from cda.errors import LLMError
from cda.llm.cache import Cache
from cda.llm.protocol import Completion, Request, complete
from cda.llm.purse import Purse

NONE = Oddity("output", "none")
ALL = {str(oddity): oddity for oddity in oddities()}
POLLED = ("create", "poll", "output")
CHOSEN = [
    *(f"{endpoint}: {body}" for endpoint in POLLED for body in ("a web page", "empty", "null", "an error object")),
    *(f"{endpoint}: 404 and a page" for endpoint in ENDPOINTS),
    *(f"{endpoint}: the connection is lost in the answer" for endpoint in ("upload", "create", "list", "poll")),
    *(
        f"poll: {field}"
        for field in ('errors "bad"', 'status "odd"', 'status "failed"', 'status "expired"', "status absent")
    ),
    *(f"poll: {field}" for field in ('id "batch_of_others"', "output_file_id null", "request_counts 5")),
    *(f"output: {file}" for file in ("cut in the middle", "every line twice", "the first line is broken")),
    *(
        f"output: {line}"
        for line in ('custom_id "of others"', "response null", 'response.status_code "200"', "only the first line")
    ),
    *(f"output: response.{line}" for line in ("status_code 500", 'body ["x"]', "body.usage null", "body.choices null")),
    "create: 500 before any work",
    "list: data.0 null",
    "error: error null",
]


@pytest.mark.parametrize("times", [1, None], ids=["once", "always"])
@pytest.mark.parametrize("oddity", [ALL[name] for name in CHOSEN], ids=CHOSEN)
def test_an_odd_answer_is_paid_for_once(oddity: Oddity, times: int | None, tmp_path: Path) -> None:
    assert tried(oddity, times, tmp_path) is None


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


@pytest.mark.parametrize("dies_at", [2, 4, 6])
def test_a_kill_while_results_are_kept_loses_no_part_of_the_bill(dies_at: int, tmp_path: Path) -> None:
    with OddServer(NONE, 0) as server:
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
    with OddServer(Oddity("poll", "away", fault="500"), None) as server, Cache(tmp_path / "llm.sqlite") as cache:
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
        OddServer(ALL["create: the connection is lost in the answer"], 1) as server,
        Cache(tmp_path / "llm.sqlite") as cache,
    ):
        server.listing = False
        purse = Purse(tmp_path / "spent")
        with pytest.raises(LLMError, match=r"the budget of \$2\.4 .* is used up"):
            complete(batches(server, cache, purse, 2.4, resubmit=True), asked(*range(6)), "asking")
        assert len(server.batches) == 1
        complete(batches(server, cache, purse, 6.0, resubmit=True), asked(*range(6)), "asking")
        assert len(server.batches) == 2 and purse.spent > purse.uncounted > 1.2
