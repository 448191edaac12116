"""A server that keeps its own book of what it bills, and tells its clients of it as it likes."""

from __future__ import annotations

import json
import random
import threading
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from serving import Reply, said, status

from cda.llm.money import Price

PRICE = Price(input=1.0, output=4.0)
Usage = tuple[int, int]


def _with(usage: object) -> Reply:
    answer = dict(said("yes")[1])
    del answer["usage"]
    return status(200, answer | ({} if usage is ... else {"usage": usage}))


def _usage(n_in: object, n_out: object) -> Reply:
    return _with({"prompt_tokens": n_in, "completion_tokens": n_out})


_ERROR = {"error": {"message": "upstream failed", "code": 503}}
KINDS: Mapping[str, Callable[[Usage], Reply]] = {
    "honest": lambda used: said("yes", tokens=used),
    "no usage": lambda _: _with(...),
    "input alone": lambda used: _with({"prompt_tokens": used[0]}),
    "output alone": lambda used: _with({"completion_tokens": used[1]}),
    "output of zero": lambda used: _usage(used[0], 0),
    "null usage": lambda _: _with(None),
    "null counts": lambda _: _usage(None, None),
    "negative counts": lambda used: _usage(-used[0], -used[1]),
    "absurd counts": lambda _: _usage(10**30, 10**30),
    "counts as text": lambda used: _usage(str(used[0]), str(used[1])),
    "counts as fractions": lambda used: _usage(used[0] + 0.5, [used[1]]),
    "usage as a list": lambda used: _with(list(used)),
    "broken body": lambda used: status(200, json.dumps(said("yes", tokens=used)[1])[:-9].encode()),
    "empty body": lambda _: status(200, b""),
    "web page": lambda _: status(200, b"<html>busy</html>"),
    "cut stream": lambda _: status(200, b'data: {"choices": [{"delta": {"content": "ye'),
    "no choices": lambda used: status(200, {"usage": {"prompt_tokens": used[0], "completion_tokens": used[1]}}),
    "null content": lambda used: said(None, tokens=used),
    "error inside": lambda _: status(200, _ERROR),
    "error inside an answer": lambda used: status(200, dict(said("yes", tokens=used)[1]) | _ERROR),
    "cut off": lambda used: said("ye", finish="length", tokens=used),
    "fault": lambda _: status(500, _ERROR),
    "gateway": lambda _: status(504, b"timeout"),
    "request timeout": lambda _: status(408, {}),
    "timeout": lambda _: "hang",
    "cut connection": lambda _: "reset",
    "lost connection": lambda _: "drop",
    "over-billing": lambda used: said("yes", tokens=used),
}
OVER = "over-billing"
"""Bills three times what it was allowed to, and says so."""


@dataclass
class Biller:
    """Bills every request that arrives, and then answers in one of its ways."""

    ways: tuple[str, ...]
    seed: int
    dollars: float = 0.0
    largest: float = 0.0
    """The dearest request."""
    n_by_way: Counter[str] = field(default_factory=Counter)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def __call__(self, body: Mapping[str, Any]) -> Reply:
        with self._lock:
            rng = random.Random(f"{self.seed} {self.n_by_way.total()}")
            way = rng.choice(self.ways)
            sent = "".join(part["content"] for part in body["messages"]) + json.dumps(body.get("response_format", ""))
            longest = body.get("max_completion_tokens") or body["max_tokens"]
            used = max(1, len(sent.encode()) // rng.randint(1, 4)), rng.choice([longest, rng.randint(1, longest)])
            if way == OVER:
                used = used[0], 3 * longest
            cost = PRICE.of(*used)
            self.dollars += cost
            self.largest = max(self.largest, cost)
            self.n_by_way[way] += 1
        return KINDS[way](used)

    def allowed(self, budget_usd: float, concurrency: int, n_starts: int) -> float:
        """The most that it may have billed: the budget, and of a server that bills more than it was allowed to also the calls that
        were under way when the budget was used up or the process was killed.
        """
        return budget_usd * (1 + 1e-9) + (n_starts * concurrency * self.largest if OVER in self.ways else 0.0)


def some_ways(rng: random.Random) -> tuple[str, ...]:
    """One way in half of all servers, else several."""
    return tuple(rng.sample(sorted(KINDS), rng.choice([1, 1, 2, 3, 6])))
