"""Counts of answers, tokens and dollars, and the names of the models that answered."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from cda.llm.cache import Cache
from cda.llm.cached import CachedLLM
from cda.llm.money import AnsweredBy, CountedLLM, Tally, is_version_of
from cda.llm.money import Price
from cda.llm.openai_client import OpenAIClient
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


if TYPE_CHECKING:
    from conftest import Answer

KEY = "sk-secret-of-many-characters"


def said(model: object) -> dict[str, Any]:
    return {"model": model, "choices": [{"message": {"content": "yes"}, "finish_reason": "stop"}]}


def test_a_model_is_kept_with_its_answer_and_counted(serve: Callable[[Answer], str], tmp_path: Path) -> None:
    client = OpenAIClient("judge", serve(lambda _: (200, said("judge-2024-05-13"))))
    requests = [Request("s", "one"), Request("s", "two")]
    with Cache(tmp_path / "cache.sqlite") as cache:
        tally = Tally()
        found = complete(CountedLLM(CachedLLM(client, cache), tally), requests, "asking")
        assert {one.model for one in found} == {"judge-2024-05-13"}
        earlier = tally.since(Tally())
        assert earlier["models"] == {"judge-2024-05-13": 2}
        again = complete(CachedLLM(client, cache), requests, "asking")
        assert [(one.model, one.cached) for one in again] == [("judge-2024-05-13", True)] * 2


@pytest.mark.parametrize(("given", "read"), [(None, None), (7, None), ("", None), ("x" * 999, "x" * 200)])
def test_a_server_that_names_no_model(serve: Callable[[Answer], str], given: object, read: str | None) -> None:
    client = OpenAIClient("judge", serve(lambda _: (200, said(given))))
    assert complete(client, [Request("s", "u")], "asking")[0].model == read


def test_a_key_that_a_server_repeats_as_its_model_is_not_kept(
    serve: Callable[[Answer], str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    client = OpenAIClient("judge", serve(lambda _: (200, said(f"model of {KEY}"))))
    assert complete(client, [Request("s", "u")], "asking")[0].model == "model of ***"


def test_models_are_noted_for_later_runs_by_name_and_address(tmp_path: Path) -> None:
    here, there = ({"model": "judge", "base_url": url} for url in ("http://a/v1", "http://b/v1?key=hidden"))
    with Cache(tmp_path / "cache.sqlite") as cache:
        assert cache.answering_models(here) == []
        cache.note_models(here, ["b", "a"])
        cache.note_models(here, ["a"])
        cache.note_models(there, ["c"])
    with Cache(tmp_path / "cache.sqlite") as cache:
        assert cache.answering_models(here) == ["a", "b"]
        assert cache.answering_models(there) == ["c"]
    assert b"hidden" not in b"".join(path.read_bytes() for path in tmp_path.iterdir())


@pytest.mark.parametrize(
    ("name", "asked", "same"),
    [
        ("gpt-4o", "gpt-4o", True),
        ("gpt-4o-2024-08-06", "gpt-4o", True),
        ("gpt-4-0613", "gpt-4", True),
        ("gemini-1.5-pro-002", "gemini-1.5-pro", True),
        ("claude-3-5-sonnet-20241022", "claude-3-5-sonnet-latest", True),
        ("gpt-4o", "openai/gpt-4o", True),
        ("/models/Llama-3/", "llama-3", True),
        ("gpt-4o-mini", "gpt-4o", False),
        ("gpt-4o", "gpt-4", False),
        ("llama-3-70b", "llama-3", False),
        ("llama-3-8b", "gpt-4o", False),
        ("gpt-4o", "gpt-4o-2024-08-06", False),
    ],
)
def test_versions_of_a_model(name: str, asked: str, same: bool) -> None:
    assert is_version_of(name, asked) is same


def answers(now: dict[str, int], kept: dict[str, int]) -> AnsweredBy:
    found = AnsweredBy()
    for counts, cached in ((now, False), (kept, True)):
        for name, n in counts.items():
            for _ in range(n):
                found.add(Completion("yes", cached=cached, model=name))
    found.add(Completion("yes"))
    return found


def test_what_is_said_of_the_models() -> None:
    assert answers({"j-2024-05-13": 2}, {"j-2024-05-13": 1}).notes("j", ["j-2024-05-13"]) == []
    assert answers({}, {}).notes("j", ["j-2024-05-13"]) == []
    (other,) = answers({"small": 2}, {}).notes("j", [])
    assert other == "j was asked for, but the server says that small answered."
    (changed,) = answers({"j-2": 2}, {"j-1": 3}).notes("j", ["j-1"])
    assert changed.startswith("The server has changed the model behind j since some were kept: 3 by j-1, 2 by j-2.")
    (within,) = answers({"j-2": 2, "j-1": 1}, {}).notes("j", [])
    assert within.startswith("The server has changed the model behind j: 2 by j-2, 1 by j-1.")
    (between,) = answers({"j-2": 2}, {}).notes("j", ["j-1", "j-2"])
    assert "answered earlier runs by j-1 and this one by j-2" in between


def test_an_older_cache_is_read_on(tmp_path: Path) -> None:
    with Cache(tmp_path / "cache.sqlite") as cache:
        cache.put("key", Completion("yes", model="j-1"))
        cache._reader.execute("DROP TABLE answering_models")
        cache._reader.execute("DROP TABLE names")
    with Cache(tmp_path / "cache.sqlite") as cache:
        found = cache.get("key")
        assert found is not None and (found.text, found.model) == ("yes", None)
        cache.put("other", Completion("no", model="j-2"))
        other = cache.get("other")
        assert other is not None and other.model == "j-2"
