"""Money that several processes and all starts of a run spend together."""

from __future__ import annotations

import multiprocessing
import os
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from fault_server import FaultServer
from replies import reply
from stub_client import Stub, asked, client

from cda.counterfactuals import label
from cda.errors import LLMError
from cda.llm.batch import BatchLLM
from cda.llm.cache import Cache
from cda.llm.money import Agreed, CountedLLM, Price, Tally
from cda.llm.openai_client import OpenAIClient
from cda.llm.protocol import complete
from cda.llm.purse import FOLDER, Purse
from cda.recipe.load import load_recipe

FORK = multiprocessing.get_context("forkserver")
PRICE = Price(input=1.0, output=1.0)


def _killed_in_the_middle(folder: str) -> None:
    purse = Purse(Path(folder))
    for _ in range(3):
        assert purse.begin(0.25, None)
    purse.end(0.25, 0.125)
    os.kill(os.getpid(), signal.SIGKILL)


def test_what_a_killed_process_had_under_way_counts_as_made(tmp_path: Path) -> None:
    process = FORK.Process(target=_killed_in_the_middle, args=(str(tmp_path),))
    process.start()
    process.join()
    again = Purse(tmp_path)
    assert (again.spent, again.uncounted, again.set_aside, again.n_calls) == (0.625, 0.5, 0, 3)
    assert Purse(tmp_path).spent == 0.625, "once"


def test_two_at_once_share_and_a_live_one_keeps_what_it_set_aside(tmp_path: Path) -> None:
    one, two = Purse(tmp_path), Purse(tmp_path)
    assert one.begin(0.6, 1.0) is True and two.set_aside == 0.6
    assert two.begin(0.6, 1.0) is False, "it fits once the other has ended"
    assert two.begin(1.1, 1.0) is None, "it never fits"
    one.end(0.6, 0.5)
    assert two.begin(0.6, 1.0) is None and two.begin(0.5, 1.0) is True
    two.end(0.5, 0.1)
    assert one.spent == pytest.approx(0.6) and one.set_aside == 0 and one.n_calls == 2


def test_a_budget_is_for_all_starts_and_a_larger_one_goes_on(serve: Callable[[Any], str], tmp_path: Path) -> None:
    calls: list[object] = []

    def answer(body: object) -> Any:
        calls.append(body)
        return reply('{"reasoning": "r", "query": "no", "response_1": "no", "response_2": "no"}', tokens=(1000, 100))

    url = serve(answer)

    def start(budget: float, cache: str) -> None:
        words = ["data.pairs=embedded", "data.max_pairs=10", "llm.model=clerk", f"llm.base_url={url}", f"llm.cache={tmp_path / cache}",
                 "llm.prices={clerk: {input: 10, output: 10}}", f"llm.budget_usd={budget}", f"run.folder={tmp_path / 'run'}",
                 "llm.max_tokens=100"]  # fmt: skip
        loaded = load_recipe("jargon", words)
        object.__setattr__(loaded, "confirmed", True)
        (tmp_path / "out").mkdir(exist_ok=True)
        label.run(loaded, tmp_path / "out")

    start(0.2, "first")
    assert len(calls) == 10
    # The same run with a new file of answers: all is asked once more, and what the first start spent counts.
    with pytest.raises(LLMError, match=r"are spent on \d+ calls in all starts of this run.*raise the budget"):
        start(0.2, "second")
    assert 10 < len(calls) < 20 and Purse(tmp_path / "run" / FOLDER).spent == pytest.approx(0.011 * len(calls))
    start(0.5, "second")
    assert len(calls) == 20


def test_a_batch_that_could_exceed_the_budget_is_not_made(tmp_path: Path) -> None:
    with FaultServer() as server, Cache(tmp_path / "cache.sqlite") as cache:

        def batches(budget: float, max_tokens: int) -> BatchLLM:
            client = OpenAIClient("local", base_url=server.url, max_tokens=max_tokens)
            return BatchLLM(client, cache, sleep=lambda _: None, first_pause_s=0.0, price=Price(input=0, output=1e3),
                            purse=Purse(tmp_path / FOLDER), budget_usd=budget)  # fmt: skip

        with pytest.raises(
            LLMError, match=r"a batch of 10 requests.*could cost \$20\.48.*llm.max_tokens=2048 tokens \(lower that"
        ):
            complete(batches(5.0, 2048), asked(*range(10)), "asking")
        assert server.seen.endpoints["upload"] == server.seen.endpoints["create"] == 0
        # Its remedy; the file with the longer answers is still there, and made no more.
        llm = batches(5.0, 100)
        found = complete(llm, asked(*range(10, 20)), "asking")
        assert all(one.text for one in found)
        spent = sum(one.output_tokens for one in found) / 1e3
        assert 0 < (llm.spent_usd or 0) == pytest.approx(spent) and llm.purse.set_aside == 0


def test_calls_beyond_a_plan_ask_and_those_from_the_cache_do_not_count(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from cda.errors import RunError
    from cda.llm.cache import CachedLLM

    monkeypatch.setattr("sys.stdin.isatty", lambda: False, raising=False)
    stub, agreed = Stub(), Agreed()
    with Cache(tmp_path / "cache.sqlite") as cache:
        llm = CountedLLM(CachedLLM(stub, cache), Tally(), PRICE, agreed)
        complete(llm, asked(*range(30)), "nothing was asked about")
        agreed.made = 0
        agreed.plan(8)
        for _ in range(4):
            complete(llm, asked(*range(20)), "answered before")
        assert agreed.made == 0
        with pytest.raises(RunError, match=r"22 LLM calls were made, and about 8 were planned\. .* --yes"):
            complete(llm, asked(*range(100, 200)), "asking")
        monkeypatch.setattr("sys.stdin.isatty", lambda: True, raising=False)
        answered = iter(["y", "n"])
        monkeypatch.setattr("builtins.input", lambda _: next(answered))
        with pytest.raises(RunError, match="nothing more was sent"):
            complete(llm, asked(*range(200, 400)), "asking")
    assert stub.calls.total() < 30 + 22 + 64


def test_calls_that_are_made_again_count_against_the_plan(
    serve: Callable[[Any], str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A server that breaks every other answer: twice as many calls as were planned are not made without asking."""
    from cda.errors import RunError
    from cda.llm.cache import CachedLLM

    monkeypatch.setattr("sys.stdin.isatty", lambda: False, raising=False)
    calls: list[object] = []

    def answer(body: object) -> Any:
        calls.append(body)
        return (200, b"{") if len(calls) % 2 else reply("yes")

    agreed = Agreed(planned=200)
    with Cache(tmp_path / "cache.sqlite") as cache:
        asker = client(serve(answer), retries=3, concurrency=2, agreed=agreed)
        llm = CountedLLM(CachedLLM(asker, cache), Tally(), PRICE, agreed)
        with pytest.raises(RunError, match="LLM calls were made, and about 200 were planned"):
            complete(llm, asked(*range(200)), "asking")
    # 110 calls made again, each after one that broke, while first calls are admitted ahead of their answers.
    assert 220 <= len(calls) < 390


def test_a_purse_that_is_done_with_leaves_no_file_open(tmp_path: Path) -> None:
    for _ in range(3):
        purse = Purse(tmp_path)
        purse.begin(0.1, None)
        purse.end(0.1, 0.1)
    assert len(list((tmp_path / "owners").iterdir())) == 1 and purse.spent == pytest.approx(0.3)
