"""What LLMs, reward servers, adapters and older run folders say, made hostile: read, counted as unreadable, or refused."""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from made_audits import make_audit
from mutations import CONTROLS, MARKUP, as_json, broken, mutated
from test_fuzz_data_files import ours_or_nothing

from cda.discovery.material import parse_items, why_unusable
from cda.discovery.proposals import mended, parse_attributes, parse_groups, usable
from cda.errors import ModelError
from cda.llm.limiter import retry_after_s
from cda.llm.outcome import Endpoint, of_content, of_status
from cda.llm.protocol import json_of
from cda.models.adapters import check_adapter
from cda.records import user_prompt
from cda.report.page import word_changes
from cda.results.audit import AuditResult
from cda.results.base import load
from cda.rewriting.labels import parse_answers
from cda.rewriting.triples import parse_questions
from cda.run import RunFolder, Stage
from cda.scorers.dialects import endpoint_of
from cda.scorers.judge import parse_verdicts, verdict_code
from cda.scorers.served_client import reward_in, undone
from cda.training.dose import plain_config

WHOLE = make_audit().model_dump()
FUZZ = settings(deadline=None, derandomize=True, max_examples=30)
SCHEMA = {"type": "object", "properties": {"label": {"enum": ["yes", "no"]}}, "required": ["label"]}
ENDPOINT = Endpoint("server", "model", "NO_SUCH_KEY")
WAITS = (
    "1e999",
    "-1",
    "x",
    CONTROLS,
    "9" * 5000,
    "nan",
    "Wed, 21 Oct 2999 07:28:00 GMT",
    "Wed, 99 Oct 99999999 07:28:00 GMT",
)
ANSWERS: tuple[Any, ...] = (
    {"response_1": "yes", "response_2": "no"}, {"label": "yes"}, {"attributes": ["Uses lists"]}, {"groups": [[1, 3], [2]]},
     {"prompts": ["Why?"]}, {"questions": ["Why?"]},
    {"choices": [{"message": {"content": "x", "refusal": None}, "finish_reason": "stop", "logprobs": {"content": [
        {"top_logprobs": [{"token": "1", "logprob": -1.0}]}]}}], "usage": {"prompt_tokens": 1, "completion_tokens": 2}},
    {"error": {"message": "m", "code": "c", "type": "t", "param": "p"}}, {"detail": [{"loc": ["a"], "msg": "m"}]},
    "Response 1: yes\nResponse 2: no", "- Uses lists\n- b", "1, 3\n2", "edit: 8/10\nfluency: 9", "Difference: uses x",
    "1. Why?\n2. How?", "Verdict: 1", '```json\n{"label": "yes"}\n```', "<think>x</think>Verdict: tie",
)  # fmt: skip
SERVER = Endpoint("http://x", "m", "NO_SUCH_KEY")
READERS: Mapping[str, Callable[[str], object]] = {
    "labels": lambda text: parse_answers(text, ["response_1", "response_2"]),
    "schema": lambda text: json_of(text, SCHEMA),
    "attributes": lambda text: usable(parse_attributes(text) or [], 5),
    "groups": lambda text: mended(parse_groups(text) or [], 5),
    "prompts": lambda text: [why_unusable(one) for one in (parse_items(text, "prompts") or ([], []))[0]],
    "questions": parse_questions,
    "verdict": parse_verdicts,
    "code": lambda text: verdict_code(user_prompt(text[:1000]), text[:1000], "b"),
    "completion": lambda text: of_content(text.encode("utf-8", "replace"), SERVER),
    "probabilities": lambda text: of_content(text.encode("utf-8", "replace"), SERVER, one_token=True),
}


def hostile_answer(rng: random.Random) -> str:
    """What a model might write in place of an answer."""
    valid = rng.choice(ANSWERS)
    content = (
        broken(valid.encode(), rng) if isinstance(valid, str) else as_json(mutated(valid, rng, rng.randint(0, 3)), rng)
    )
    text = content.decode("utf-8", "replace")
    text = f"```json\n{text}\n```" if rng.random() < 0.2 else text
    return f"{rng.choice(['', '', '<think>a</think> ', '<think>'])}{text}{rng.choice(['', '', CONTROLS, MARKUP, '}', '`' * 99])}"


@FUZZ
@given(seed=st.integers(0, 2**32))
def test_hostile_answers_are_read_or_are_none(seed: int) -> None:
    text = hostile_answer(random.Random(seed))
    for name, read in READERS.items():
        try:
            read(text)
        except Exception as error:  # the reader's name beside the text
            raise AssertionError(f"{name}: {text[:200]!r}") from error


@FUZZ
@given(seed=st.integers(0, 2**32))
def test_hostile_failures_of_a_server(seed: int) -> None:
    rng = random.Random(seed)
    content = hostile_answer(rng).encode("utf-8", "replace")
    for status in (400, 401, 402, 404, 413, 422, 429, 500):
        ours_or_nothing(lambda code=status: of_status(code, {"retry-after": rng.choice(WAITS)}, content, ENDPOINT))  # type: ignore[misc]


@FUZZ
@given(seed=st.integers(0, 2**32))
def test_hostile_rewards_of_a_server(seed: int) -> None:
    rng = random.Random(seed)
    item = mutated([{"probs": [0.5], "data": [[0.1], [0.2]], "score": 0.3}], rng, 2)
    found = item if isinstance(item, list) else [item]
    for field in ("probs", "data", "score"):
        for last_token in (True, False):
            ours_or_nothing(lambda k=field, at=last_token: undone(reward_in(found, k, at)))  # type: ignore[misc]


@pytest.mark.parametrize(
    "url", ["http://[", "http://[::1", "http://a:b:c", "https://\x00", "http:///x", "//x", f"http://{'x' * 5000}", ""]
)
def test_hostile_addresses(url: str) -> None:
    ours_or_nothing(lambda: endpoint_of(url))


@pytest.mark.parametrize("reward", [10**400, float("nan"), float("inf"), True, "1", None, [[]], {"a": 1}])
def test_a_reward_that_is_no_number_of_use(reward: Any) -> None:
    with pytest.raises(ModelError):
        reward_in([{"score": reward}], "score")


def test_blank_lines_without_end_in_a_fence() -> None:
    """Servers that are held to JSON send them; the pattern that took the fence off ran for hours."""
    assert json_of("```json\n" + "\n" * 50_000 + "x```", SCHEMA) is None
    assert json_of('```json\r\n{"label": "yes"}\n\n ```', SCHEMA) == '{"label": "yes"}'
    assert json_of('```\n{"label": "no"}\n```', SCHEMA) == '{"label": "no"}'


def test_a_wait_of_thousands_of_digits() -> None:
    """It held up all calls for minutes."""
    assert retry_after_s({"retry-after": "9" * 5000}, 0.0) is None
    assert retry_after_s({"retry-after": "1h2m3.5s"}, 0.0) == 3723.5


def test_a_long_unfinished_thought_is_no_answer() -> None:
    assert parse_answers("<think>" + "x" * 50_000 + "\nlabel: yes", ["label"]) is None
    assert parse_answers("<think>" + "x" * 50_000 + "</think>\nlabel: yes", ["label"]) == {"label": True}
    assert parse_answers('{"a":' * 100_000 + "}", ["label"]) is None


def test_one_word_over_and_over_is_compared_in_no_time() -> None:
    assert word_changes("verdict:1\n" * 1000, "1:verdict\n" * 1000) == []


@FUZZ
@given(seed=st.integers(0, 2**32))
def test_hostile_adapter_configurations(tmp_path_factory: pytest.TempPathFactory, seed: int) -> None:
    rng = random.Random(seed)
    folder = tmp_path_factory.getbasetemp()
    valid = {
        "peft_type": "LORA",
        "task_type": "SEQ_CLS",
        "r": 8,
        "lora_alpha": 16,
        "bias": "none",
        "rank_pattern": {},
        "init_lora_weights": True,
    }
    (folder / "adapter_config.json").write_bytes(as_json(mutated(valid, rng, 2), rng))
    (folder / "adapter_model.safetensors").write_bytes(b"not safetensors")
    ours_or_nothing(lambda: plain_config(folder))
    with pytest.raises(ModelError):
        check_adapter(folder, ("score",))


@FUZZ
@given(seed=st.integers(0, 2**32))
def test_run_folders_of_other_versions(tmp_path_factory: pytest.TempPathFactory, seed: int) -> None:
    rng = random.Random(seed)
    folder = RunFolder(tmp_path_factory.mktemp("run"))
    stage = Stage("audit", {"a": 1, "b": {"c": [1]}}, {"train": "x"})
    folder.begin(stage)
    folder.finish(stage, {"n": 1}, 1.0)
    record = folder.stage("audit") / "stage.json"
    record.write_bytes(as_json(mutated(json.loads(record.read_text("utf-8")), rng, 2), rng))
    for work in (
        lambda: folder.is_done(stage),
        lambda: folder.why_redo(stage),
        lambda: folder.output_of("audit"),
        lambda: folder.write_manifest({"a": 1}, ["audit"]),
        lambda: folder.begin(stage),
    ):
        ours_or_nothing(work)


@FUZZ
@given(seed=st.integers(0, 2**32))
def test_audits_of_other_versions(tmp_path_factory: pytest.TempPathFactory, seed: int) -> None:
    rng, file = random.Random(seed), tmp_path_factory.mktemp("audit") / "audit.json"
    file.write_bytes(as_json(mutated(WHOLE, rng, 3), rng))
    ours_or_nothing(lambda: load(AuditResult, file, "cda audit"))


def test_an_adapter_configuration_nested_too_deeply(tmp_path: Path) -> None:
    (tmp_path / "adapter_config.json").write_text("[" * 100_000, "utf-8")
    (tmp_path / "adapter_model.safetensors").write_bytes(b"")
    with pytest.raises(ModelError, match="nested too deeply"):
        plain_config(tmp_path)
