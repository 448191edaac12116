"""What was asked of an LLM is counted: answers, tokens, dollars, and what came from the cache."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace

import pytest

from cda.llm.counted import CountedLLM, Tally
from cda.llm.money import Price
from cda.llm.protocol import Completion, Request, complete

ANSWERS = (
    Completion("yes", input_tokens=100, output_tokens=10),
    Completion("yes", input_tokens=100, output_tokens=10, cached=True),
    Completion(None, "refused", input_tokens=50, output_tokens=0),
    Completion("no usage said"),
)


@dataclass(frozen=True)
class _Fixed:
    name: str = "gpt-x"

    def answers(
        self,
        requests: Iterable[Request],
        label: str,  # noqa: ARG002
        total: int | None = None,  # noqa: ARG002
    ) -> Iterator[tuple[int, Completion]]:
        yield from ((row, ANSWERS[row]) for row, _ in enumerate(requests))


def _asked(tally: Tally, price: Price | None, n: int = 4) -> list[Completion]:
    return complete(CountedLLM(_Fixed(), tally, price), [Request("s", str(row)) for row in range(n)], "asking")


def test_counts_what_was_asked_and_what_was_there() -> None:
    tally = Tally()
    assert _asked(tally, Price(input=10.0, output=100.0)) == list(ANSWERS)
    assert (tally.asked, tally.cached, tally.unusable, tally.uncounted) == (3, 1, 1, 1)
    assert (tally.input_tokens, tally.output_tokens) == (150, 10)
    assert tally.dollars == pytest.approx((150 * 10 + 10 * 100) / 1e6)


def test_no_price_no_dollars() -> None:
    tally = Tally()
    _asked(tally, None)
    assert tally.dollars is None
    assert tally.since(Tally())["dollars"] is None


def test_a_stage_counts_its_own() -> None:
    tally = Tally()
    _asked(tally, Price(input=10.0, output=100.0), 1)
    earlier = replace(tally)
    assert tally.since(earlier) == {}
    _asked(tally, Price(input=10.0, output=100.0), 2)
    found = tally.since(earlier)
    assert (found["asked"], found["cached"], found["input_tokens"]) == (1, 1, 100)
    assert found["dollars"] == pytest.approx(0.002)


def test_what_is_closed_early_is_closed_within() -> None:
    closed = []

    class _Watched(_Fixed):
        def answers(
            self, requests: Iterable[Request], label: str, total: int | None = None
        ) -> Iterator[tuple[int, Completion]]:
            try:
                yield from super().answers(requests, label, total)
            finally:
                closed.append(True)

    answers = CountedLLM(_Watched(), Tally()).answers([Request("s", "a"), Request("s", "b")], "asking")
    next(answers)
    answers.close()
    assert closed == [True]
