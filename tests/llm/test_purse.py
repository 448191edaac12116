"""Money that several processes and all starts of a run spend together."""

from __future__ import annotations

import asyncio
import json
import multiprocessing
import os
import random
import shutil
import signal
from collections import Counter
from collections.abc import Callable
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any

import httpx2
import openai
import pytest
import yaml
from billing import KINDS, OVER, Biller, some_ways
from billing import PRICE as BILLED
from fault_server import FaultServer
from replies import reply
from stub_client import Stub, answers, asked, budgeted, client

from cda.counterfactuals import label
from cda.errors import LLMError, RecipeError
from cda.llm.batch import BatchLLM
from cda.llm.cache import Cache
from cda.llm.money import FILE, Agreed, CountedLLM, Price, Tally, listed_on, listed_price
from cda.llm.openai_client import OpenAIClient
from cda.llm.outcome import Again
from cda.llm.protocol import complete
from cda.llm.purse import FOLDER, Purse
from cda.recipe.load import load_recipe
from cda.resources.llm_access import Planned, cost_sentence, price_of

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
        object.__setattr__(loaded, "consent", "given")
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


TABLE = yaml.safe_load(FILE.read_text(encoding="utf-8"))


def test_every_listed_price_is_one_and_the_list_is_dated() -> None:
    found = [listed_price(f"https://{host}/v1", model) for host, models in TABLE["hosts"].items() for model in models]
    assert len(found) > 80 and all(isinstance(price, Price) and price.output >= price.input > 0 for price in found)
    assert listed_on() == "2026-11-28"


@pytest.mark.parametrize(
    ("base_url", "model", "price"),
    [
        (None, "gpt-4o-mini", (0.15, 0.6)),
        ("https://api.openai.com/v1/", "gpt-4.1", (2, 8)),
        ("https://API.OpenAI.com:443/v1", "gpt-4.1", (2, 8)),
        ("https://api.anthropic.com/v1", "claude-haiku-4-5", (1, 5)),
        # The same name elsewhere is another model, or costs nothing.
        ("http://localhost:8000/v1", "gpt-4o", None),
        ("https://api.openai.com.example.org/v1", "gpt-4o", None),
        (None, "gpt-4o-of-my-own", None),
        (None, None, None),
        ("http://[", "gpt-4o", None),
    ],
)
def test_a_price_is_listed_for_a_model_at_its_host(
    base_url: str | None, model: str | None, price: tuple[float, float] | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("OPENAI_BASE_URL", raising=False)
    assert listed_price(base_url, model) == (price and Price(input=price[0], output=price[1]))


def test_the_address_of_the_environment_decides_without_another(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_BASE_URL", "http://localhost:8000/v1")
    assert listed_price(None, "gpt-4o") is None


def test_prices_given_come_first_and_may_lie_in_a_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("OPENAI_BASE_URL", raising=False)
    listed = load_recipe("jargon", ["llm.model=gpt-4o", "llm.budget_usd=1"]).recipe.llm
    assert price_of(listed) == Price(input=2.5, output=10)
    assert price_of(listed.model_copy(update={"mode": "batch"})) == Price(input=1.25, output=5)
    assert "at the list price of 2026-11-28" in cost_sentence(Planned("judging", 10, 1000, 100), listed)
    file = tmp_path / "prices.yaml"
    file.write_text("gpt-4o: {input: 1, output: 2}\nmine: {input: 3, output: 4}\n", encoding="utf-8")
    given = load_recipe("jargon", ["llm.model=gpt-4o", f"llm.prices={file}"]).recipe.llm
    assert price_of(given) == Price(input=1, output=2) and price_of(given.named("mine")) == Price(input=3, output=4)
    assert price_of(given.named("gpt-4o-mini")) == Price(input=0.15, output=0.6)
    assert "list price" not in cost_sentence(Planned("judging", 10, 1000, 100), given)
    assert given.model_dump()["prices"]["mine"] == {"input": 3, "output": 4}, "the manifest says the prices themselves"
    further = ["llm.model=mine@there", f"llm.endpoints.there={{base_url: 'http://x/v1', prices: {file}}}"]
    assert price_of(load_recipe("jargon", further).recipe.llm) == Price(input=3, output=4)


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        (None, "no such file"),
        ("gpt-4o: 2.5\n", "gpt-4o"),
        ("gpt-4o: {input: -1, output: .inf}\n", "gpt-4o.input"),
        ("gpt-4o: {inptu: 1, output: 2}\n", "inptu"),
        ("[1, 2]\n", "expected `key: value` lines"),
        ("gpt-4o: {input: 1\n", "prices.yaml"),
    ],
)
def test_a_wrong_file_of_prices_is_named_with_its_mistakes(tmp_path: Path, content: str | None, problem: str) -> None:
    file = tmp_path / "prices.yaml"
    if content is not None:
        file.write_text(content, encoding="utf-8")
    with pytest.raises(RecipeError) as error:
        load_recipe("jargon", ["llm.model=gpt-4o", f"llm.prices={file}"])
    assert "llm.prices" in str(error.value) and str(file) in str(error.value) and problem in str(error.value)


def test_a_model_without_a_price_says_how_to_give_one_and_the_way_works(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    words = ["llm.model=mine", "llm.base_url=http://localhost:1/v1", "llm.budget_usd=1"]
    with pytest.raises(RecipeError, match=r"no price of 'mine' is known.*llm\.prices='\{mine: .*llm\.prices=FILE"):
        load_recipe("jargon", words)
    Path("p.yaml").write_text("mine: {input: 0.1, output: 0.2}\n", encoding="utf-8")
    load_recipe("jargon", [*words, "llm.prices=p.yaml"])
    load_recipe("jargon", [*words, "llm.prices={mine: {input: 0.1, output: 0.2}}"])


N_SERVERS = 200


class Transport:
    """Takes the place of the connection: the server is asked in this process. At a kill the purse's folder is copied as it lies on
    the disk at that moment, and nothing more reaches the server.
    """

    def __init__(self, server: Biller, seed: int) -> None:
        self.server, self.rng = server, random.Random(seed)
        self.kill_after, self.n_sent = -1, 0
        self.folder, self.copy = Path(), Path()
        self.is_dead = False

    async def posted(self, _http: object, _path: str, body: dict[str, Any], *_: object) -> Any:
        if self.is_dead:
            raise LLMError("killed")
        self.n_sent += 1
        reply = self.server(body)
        if self.n_sent == self.kill_after:
            shutil.copytree(self.folder, self.copy)
            self.is_dead = True
        await asyncio.sleep(self.rng.choice([0, 0.001]))
        if isinstance(reply, str):
            return Again("timed out" if reply == "hang" else "connection lost")
        code, content = reply[:2]
        content = content if isinstance(content, bytes) else json.dumps(content).encode()
        if code == 200:
            return content
        response = httpx2.Response(code, content=content, request=httpx2.Request("POST", "http://x"))
        return openai.APIStatusError("no", response=response, body=None)


def spend(number: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[Biller, float, float]:
    """A server, and all starts of a run with a budget; gives the most it may have billed, and the dollars in the purse."""
    rng = random.Random(number)
    server = Biller(some_ways(rng), number)
    transport = Transport(server, number)
    monkeypatch.setattr("cda.llm.connection.posted", transport.posted)
    concurrency, n_kills, budget = rng.choice([1, 2, 5, 16]), rng.choice([0, 0, 1, 2]), rng.uniform(0.0005, 0.01)
    folder = tmp_path / f"{number}-0"
    for start in range(n_kills + 2):  # after the last kill it ends by itself, and is started once more
        folder.mkdir(exist_ok=True)
        transport.folder, transport.copy = folder, tmp_path / f"{number}-{start + 1}"
        transport.is_dead, transport.n_sent = False, 0
        transport.kill_after = rng.randint(1, 12) if start < n_kills else -1
        purse = Purse(folder)
        llm = budgeted(
            client("http://x/v1", concurrency=concurrency, retries=2, backoff_s=0.0, max_tokens=60),
            BILLED,
            budget,
            purse,
        )
        with suppress(LLMError):
            answers(llm, asked(*(f"{start} {row}" for row in range(40))))
        folder = transport.copy if transport.is_dead else folder
    return server, server.allowed(budget, concurrency, n_kills + 2), purse.spent


def test_the_budget_holds_whatever_servers_bill_and_say(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    @asynccontextmanager
    async def opened(*_: object) -> Any:
        yield None

    monkeypatch.setattr("cda.llm.connection.opened_async", opened)
    for module in ("money", "asking"):
        monkeypatch.setattr(f"cda.llm.{module}._LOOK_AGAIN_S", 0.001)
    ways: Counter[str] = Counter()
    used_up = 0
    for number in range(N_SERVERS):
        server, allowed, spent = spend(number, tmp_path, monkeypatch)
        assert server.dollars <= allowed, (number, server.ways, server.dollars, allowed)
        if OVER not in server.ways:
            # What is not known to be cheaper is counted at the most it could be: never less than was billed.
            assert server.dollars <= spent * (1 + 1e-9), (number, server.ways, server.dollars, spent)
        ways += server.n_by_way
        used_up += spent > 0.5 * allowed
    assert set(ways) == set(KINDS) and min(ways.values()) >= 10
    assert used_up > N_SERVERS / 2, "most budgets are large enough to be used, and small enough to be used up"
