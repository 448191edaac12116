"""A served reward model over real HTTP: request and answer shapes of vLLM, the sigmoid, and everything that goes wrong."""

from __future__ import annotations

import json
import math
import time
from collections import Counter
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from serving import Body, Reply, Served

from cda.errors import LLMError, ModelError
from cda.records import Message, Prompt, user_prompt
from cda.scorers.dialects import ServedOptions, endpoint_of
from cda.scorers.served_client import ServedClient, ServedScorer, reward_in


def spoken(body: Body) -> str:
    """The response in a request of any form."""
    if "messages" in body:
        return str(body["messages"][-1]["content"])
    return str(body["text_2"] if "text_2" in body else body["input"]).rpartition("\n\n")[2]


def answered(reward: float | None, tokens: int = 7, model: str = "rm", field: str = "probs") -> Reply:
    item = {"index": 0, field: reward if field == "score" else [reward]}
    usage = {"prompt_tokens": tokens, "total_tokens": tokens}
    return 200, {"id": "classify-1", "object": "list", "model": model, "data": [item], "usage": usage}


def sigmoid(value: float) -> float:
    return 1 / (1 + math.exp(-value))


def length(body: Body) -> Reply:
    """A reward model by the number of characters, less 3.5; follows use_activation."""
    reward = len(spoken(body)) - 3.5
    return answered(sigmoid(reward) if body["use_activation"] else reward)


def scorer(server: Served | str, **options: Any) -> ServedScorer:
    url = server if isinstance(server, str) else server.url
    said = {name: value for name, value in options.items() if name in ServedOptions.model_fields}
    own = {name: value for name, value in options.items() if name not in said}
    return ServedScorer(ServedClient(url, ServedOptions(**said), **({"backoff_s": 0.01, "retries": 3} | own)))


def prompts(count: int) -> list[Prompt]:
    return [user_prompt(f"question {number}") for number in range(count)]


def test_each_response_goes_as_a_conversation_and_its_reward_comes_back_to_its_row(
    served: Callable[..., Served],
) -> None:
    def slowly(body: Body) -> Reply:
        time.sleep(0.05 * (len(spoken(body)) % 3))  # so that answers come in another order than the questions
        return length(body)

    server = served(slowly)
    responses = ["x" * (1 + number % 11) for number in range(40)]
    model = scorer(server, model="rm", concurrency=8)
    assert model.score(prompts(40), responses).tolist() == [len(one) - 3.5 for one in responses]
    assert set(server.paths) == {"/classify"}
    conversation = (Message("system", "s"), Message("user", "u"), Message("assistant", "a"), Message("user", "v"))
    model.score([conversation], ["r"])
    turns = [("system", "s"), ("user", "u"), ("assistant", "a"), ("user", "v"), ("assistant", "r")]
    stated = {"use_activation": False, "add_generation_prompt": False, "add_special_tokens": False}
    messages = [{"role": role, "content": content} for role, content in turns]
    assert server.bodies[-1] == {"model": "rm", "messages": messages} | stated
    assert len(server.bodies) == 41  # one a text: a value outside 0 to 1 spares the raw check its questions
    assert model.name == "rm"


def test_pooling_and_score_have_their_own_shapes(served: Callable[..., Served]) -> None:
    pooling = served(lambda body: answered(len(spoken(body)) + 2.0, field="data"))
    assert scorer(f"{pooling.url}/pooling").score(prompts(2), ["a", "bb"]).tolist() == [3.0, 4.0]
    assert pooling.paths == ["/pooling", "/pooling"]
    assert {(body["task"], body["encoding_format"]) for body in pooling.bodies} == {("classify", "float")}
    assert "model" not in pooling.bodies[0]
    pair = served(lambda body: answered(len(body["text_1"]) + 0.25, field="score"))
    assert scorer(f"{pair.url}/v1/score").score(prompts(1), ["a"]).tolist() == [10.25]
    assert pair.paths == ["/v1/score"]
    assert pair.bodies[0] == {"text_1": "question 0", "text_2": "a", "use_activation": False}


def test_a_reward_for_every_token_is_taken_at_the_last_where_that_is_asked_for(served: Callable[..., Served]) -> None:
    server = served(lambda _: (200, {"model": "rm", "data": [{"index": 0, "data": [[4.0], [-2.0], [7.5]]}]}))
    with pytest.raises(ModelError, match=r"text 1: one result a token came \(3 of them\).*last_token=true"):
        scorer(f"{server.url}/pooling").score(prompts(1), ["a"])
    assert scorer(f"{server.url}/pooling", last_token=True).score(prompts(1), ["a"]).tolist() == [7.5]
    assert server.bodies[-1]["task"] == "token_classify"
    with pytest.raises(ModelError, match="needs vLLM's /pooling, not /classify"):
        scorer(server, last_token=True)


def test_a_sigmoid_is_undone_where_that_is_asked_for(served: Callable[..., Served]) -> None:
    server = served(lambda body: answered(sigmoid(len(spoken(body)) - 3.0)))
    found = scorer(server, sigmoid=True).score(prompts(3), ["a", "bb", "cccccccccc"])
    np.testing.assert_allclose(found, [-2.0, -1.0, 7.0], atol=1e-9)
    assert [body["use_activation"] for body in server.bodies] == [True] * 3
    for answer in (1.0, 0.0, 3.2, -1.0):
        with pytest.raises(ModelError, match=r"text 1: the answer .* is not the sigmoid of a reward"):
            scorer(served(lambda _, answer=answer: answered(answer)), sigmoid=True).score(prompts(1), ["a"])


@pytest.mark.parametrize(
    ("items", "field", "message"),
    [
        ([{"probs": [0.2, 0.8], "num_classes": 2}], "probs", "2 labels .*module:function"),
        ([{"data": [0.1] * 384}], "data", "384 labels .or is an embedding model"),
        ([{"data": [[0.1, 0.9], [0.2, 0.8]]}], "data", "one result a token"),
        ([], "probs", "0 results came for one text"),
        ([{"probs": [1.0]}, {"probs": [2.0]}], "probs", "2 results came for one text"),
        ([{"probs": []}], "probs", "'probs' holds no number.*score.served.dialect"),
        ([{"probs": [None]}], "probs", "holds no number"),
        ([{"probs": [True]}], "probs", "holds no number"),
        ([{"data": "AACAPw=="}], "data", "'data' holds no number"),
        ([{"label": "x"}], "score", "'score' holds no number"),
        ([3], "score", "holds no number"),
        ([{"probs": [float("nan")]}], "probs", "the reward is nan"),
        ([{"score": float("-inf")}], "score", "the reward is -inf"),
        ([{"score": 1e200}], "score", "the reward is 1e"),
    ],
)
def test_what_is_no_single_reward_is_refused(items: list[Any], field: str, message: str) -> None:
    with pytest.raises(ModelError, match=message):
        reward_in(items, field)


def test_too_many_requests_make_everybody_wait_as_long_as_the_server_says(served: Callable[..., Served]) -> None:
    turned_away: list[float] = []

    def busy(body: Body) -> Reply:
        if len(turned_away) < 3:
            turned_away.append(time.monotonic())
            return 429, {"error": {"message": "busy"}}, {"Retry-After": "0.4"}
        assert time.monotonic() - turned_away[0] >= 0.35
        return length(body)

    # Not one of the retries is spent on it.
    found = scorer(served(busy), concurrency=3, retries=0).score(prompts(6), ["a" * 9] * 6)
    assert found.tolist() == [5.5] * 6
    assert len(turned_away) == 3
    with pytest.raises(LLMError, match="asks to wait 3600 s"):
        scorer(served(lambda _: (429, {}, {"Retry-After": "3600"}))).score(prompts(1), ["a"])


@pytest.mark.parametrize(
    "broken",
    [
        (500, {"error": {"message": "no"}}),
        (503, {"error": "loading"}, {"Retry-After": "0.02"}),
        (200, b'{"data": [{"probs": [1.'),
        (200, [1, 2]),
        (200, {"data": None}),
        (200, b"<html>"),
        "drop",
    ],
)
def test_a_broken_answer_is_asked_for_again_and_not_for_ever(served: Callable[..., Served], broken: Reply) -> None:
    failures: Counter[str] = Counter()

    def sometimes(body: Body) -> Reply:
        failures[spoken(body)] += 1
        return broken if failures[spoken(body)] <= 2 else length(body)

    server = served(sometimes)
    assert scorer(server, retries=2).score(prompts(3), ["aaaaa", "bbbbbb", "ccccccc"]).tolist() == [1.5, 2.5, 3.5]
    assert len(server.bodies) == 9
    server.answer = lambda _: broken
    with pytest.raises(LLMError, match=r"text 1: no answer after 3 tries \(last: (status|connection)"):
        scorer(server, retries=2).score(prompts(1), ["a"])


def test_a_server_that_stays_away_loses_nothing_and_a_second_call_asks_for_the_rest(
    served: Callable[..., Served],
) -> None:
    server = served(length)
    texts = [(prompt, f"{row:03d}" + "x" * (row % 7 + 4)) for row, prompt in enumerate(prompts(100))]
    kept: dict[int, float | None] = {}
    with pytest.raises(LLMError, match=r"no answer after .*connection.* of 100 texts were scored before") as caught:
        for finished in scorer(server, concurrency=4).in_batches(texts):
            kept |= {row: score.reward for row, score in finished}
            if len(kept) >= 32:
                server.stop()
    assert 32 <= len(kept) < 100
    assert f"{len(kept)} of 100" in str(caught.value)
    with pytest.raises(
        LLMError, match=r"cannot be reached .*is the server running\?$"
    ):  # it never was, for this client
        scorer(server).score(prompts(2), ["a", "b"])
    (problem,) = scorer(server).client.check()
    assert "cannot be reached" in problem
    rest = {row: text for row, text in enumerate(texts) if row not in kept}
    server.bodies.clear()
    server.start()
    again = scorer(server).score(*zip(*rest.values(), strict=True))
    kept |= dict(zip(rest, again.tolist(), strict=True))
    assert [kept[row] for row in range(100)] == [len(response) - 3.5 for _, response in texts]
    assert sorted(map(spoken, server.bodies)) == [response for _, response in rest.values()]


TOO_LONG = "This model's maximum context length is 512 tokens. However, your request has 600 input tokens."
LONGER = "The decoder prompt (length 600) is longer than the maximum model length of 512."


@pytest.mark.parametrize("said", [TOO_LONG, LONGER])
def test_texts_that_are_too_long_are_refused_or_counted(served: Callable[..., Served], said: str) -> None:
    def limited(body: Body) -> Reply:
        return (400, {"error": {"message": said, "code": 400}}) if len(spoken(body)) > 512 else length(body)

    server = served(limited)
    responses = ["a" * 9, "b" * 600, "c" * 10]
    with pytest.raises(ModelError, match=r"text 2 is longer than the model reads.*truncate_tokens.*too_long=count"):
        scorer(server).score(prompts(3), responses)
    model = scorer(server, too_long="count")
    found = model.score(prompts(3), responses)
    assert np.isnan(found[1])
    assert found[[0, 2]].tolist() == [5.5, 6.5]


def test_texts_are_cut_by_the_server_and_counted(served: Callable[..., Served]) -> None:
    def cut(body: Body) -> Reply:
        tokens = min(len(spoken(body)), body["truncate_prompt_tokens"])
        reward = tokens / 10  # within 0 and 1, so that the raw check asks again, which must not count
        return answered(sigmoid(reward) if body["use_activation"] else reward, tokens=tokens)

    server = served(cut)
    model = scorer(server, truncate_tokens=8)
    assert model.score(prompts(3), ["a" * 3, "b" * 20, "c" * 9]).tolist() == [0.3, 0.8, 0.8]
    assert model.n_truncated == 2
    assert {body["truncation_side"] for body in server.bodies} == {"right"}


def test_the_key_comes_from_the_environment_and_goes_nowhere_else(
    served: Callable[..., Served], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RM_KEY", "sk-secret")
    server = served(length)
    model = scorer(server, api_key_env="RM_KEY")
    model.score(prompts(1), ["a" * 9])
    assert server.keys == ["Bearer sk-secret"]
    assert "secret" not in json.dumps(model.client.settings) + repr(model)
    for status in (401, 400, 404):
        server.answer = lambda _, status=status: (status, {"error": {"message": "bad key sk-secret"}})
        with pytest.raises(LLMError) as caught:
            model.score(prompts(1), ["a"])
        assert "secret" not in str(caught.value)
    server.answer = lambda _: (401, {})
    with pytest.raises(LLMError, match=r"the key in RM_KEY is refused \(401\)"):
        model.score(prompts(1), ["a"])
    monkeypatch.setenv("RM_KEY", "sk-\u2026")
    with pytest.raises(LLMError, match="RM_KEY holds characters that no key has"):
        model.score(prompts(1), ["a"])


def test_a_server_is_checked_before_anything_is_scored(served: Callable[..., Served]) -> None:
    server = served(length)
    server.models = ["org/reward-8b", "org/other"]
    assert scorer(server, model="org/other").client.check() == []
    assert scorer(server).client.check() == []
    assert scorer(f"{server.url}/v1/score", model="org/other").client.check() == []
    (problem,) = scorer(server, model="org/reward-7b").client.check()
    assert "serves org/reward-8b, org/other, not 'org/reward-7b'. Did you mean 'org/reward-8b'?" in problem
    (problem,) = scorer(f"http://me:pass@127.0.0.1:{server.port}").client.check()
    assert "holds a user name or password" in problem
    assert "pass@" not in problem
    assert server.bodies == []


def test_a_server_that_changes_its_model_is_not_believed(served: Callable[..., Served]) -> None:
    calls: list[int] = []

    def changing(_: Body) -> Reply:
        calls.append(1)
        return answered(4.0, model="first" if len(calls) <= 10 else "second")

    with pytest.raises(ModelError, match="served 'first' first and 'second' now"):
        scorer(served(changing), concurrency=1).score(prompts(30), ["a"] * 30)


def test_addresses_of_servers_and_of_endpoints() -> None:
    assert endpoint_of("http://h:1") == endpoint_of("http://h:1/v1/") == ("http://h:1", None)
    assert endpoint_of("http://h:1/v1/classify") == ("http://h:1/v1", "classify")
    for url in ("localhost:8000/classify", "ftp://host/pooling", "", "http://", "org/model"):
        with pytest.raises(ModelError, match="is no address of a server"):
            scorer(url)
    assert endpoint_of("https://h/models/7/pooling/") == ("https://h/models/7", "pooling")
