"""Whatever a server bills and says, and however often the run is killed and started again: the budget holds."""

from __future__ import annotations

import asyncio
import json
import random
import shutil
from collections import Counter
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any

import httpx2
import openai
import pytest
from billing import KINDS, OVER, PRICE, Biller, some_ways
from stub_client import answers, asked, budgeted, client

from cda.errors import LLMError
from cda.llm.outcome import Again
from cda.llm.purse import Purse

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
            PRICE,
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
