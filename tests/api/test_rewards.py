"""`cda.reward_function`: the rewards of an audit in TRL's signature, of every kind of scorer; and one reward held against a known one."""

from __future__ import annotations

import json
import pickle
import re
import shutil
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from tiny import load
from typer.testing import CliRunner

import cda
from cda.api.finished import as_the_run
from cda.arrays import FloatArray
from cda.cli import app
from cda.models.config import ModelSpec
from cda.pipeline.merge import merge_adapter
from cda.recipe.load import load_model_audit
from cda.records import Message, user_prompt
from cda.resources.named_scorer import Subject, scorer_settings
from cda.resources.reward_function import RewardFunction
from cda.resources.scorers import open_scorer
from cda.scorers.classifier import ClassifierScorer
from cda.scorers.compared import Text, text_id

if TYPE_CHECKING:
    from conftest import ModelMaker, Texts, Trained
    from serving import Answer

LENGTH = 64
HOW = {"precision": "fp32", "max_length_tokens": LENGTH}
DOCUMENT = Path(__file__).parents[2] / "docs" / "how-to" / "rl.md"
RM = "def reward(prompts, responses):\n    return [len(p[-1]['content']) + 100.0 * len(r) for p, r in zip(prompts, responses)]\n"


def audited(model: Path, texts: Texts, adapter: Path | None = None, dose: float = 1.0) -> FloatArray:
    """The rewards that an audit measures."""
    loaded = load_model_audit(str(model), {"model": HOW, "score": {"cache": "none"}})
    subject = Subject("after", loaded.recipe.model, adapter, dose)
    pairs: list[Text] = list(zip(texts.prompts, texts.responses, strict=True))
    rewards, _ = open_scorer(subject, scorer_settings(loaded)).score(pairs)
    return np.array([rewards.by_text[text_id(*pair)] for pair in pairs])


def alone(model: Path) -> ClassifierScorer:
    """The scorer itself, a text at a time."""
    return ClassifierScorer(load(model), batch_tokens=1)


def asked(reward: RewardFunction, texts: Texts) -> list[float | None]:
    """The rewards of the same texts, the prompts as plain text and the responses as messages."""
    prompts = [prompt[0].content for prompt in texts.prompts]
    return reward(prompts, [[{"role": "assistant", "content": text}] for text in texts.responses])


@pytest.fixture(scope="module")
def run(llama: Path, trained_fp32: Trained, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A finished training at the chosen dose of one half, as far as scoring reads it."""
    folder = tmp_path_factory.mktemp("runs") / "my-run"
    shutil.copytree(trained_fp32.result.adapter, folder / "train" / "adapter")
    train = {"stage": "train", "settings": {"model": {"name_or_path": str(llama), **HOW}}, "output": "t1"}
    adapter = {"stage": "adapter", "settings": {"dose": 0.5}, "inputs": {"train": "t1", "dose": "d1"}, "output": "x1"}
    for stage in (train, adapter):
        (folder / str(stage["stage"])).mkdir(exist_ok=True)
        (folder / str(stage["stage"]) / "stage.json").write_text(json.dumps(stage))
    return folder


def test_base_with_adapter_merged_model_and_run_give_the_rewards_of_the_audit(
    llama: Path, trained_fp32: Trained, run: Path, texts: Texts, tmp_path: Path
) -> None:
    adapter = trained_fp32.result.adapter
    merge_adapter(ModelSpec(str(llama), "fp32", LENGTH), adapter, tmp_path / "merged", "fp32")
    wanted = audited(llama, texts, adapter)
    assert np.ptp(wanted) > 0.1 and np.abs(wanted - audited(llama, texts)).max() > 0.1
    for model, with_ in ((llama, adapter), (tmp_path / "merged", None)):
        with cda.reward_function(model, model=HOW, adapter=with_) as reward:
            np.testing.assert_allclose(asked(reward, texts), wanted, atol=1e-5)
    with cda.reward_function(run) as reward:  # with the settings of the run, at its dose
        np.testing.assert_allclose(asked(reward, texts), audited(llama, texts, adapter, 0.5), atol=1e-6)
        assert reward.__name__.endswith("my-run")
    with cda.reward_function(cda.load(run), dose=0) as reward:
        np.testing.assert_allclose(asked(reward, texts), audited(llama, texts), atol=1e-6)


def test_a_run_and_an_adapter_of_one_are_measured_as_the_run_was(llama: Path, run: Path) -> None:
    assert as_the_run({}, run, None) == (
        {"model": {"name_or_path": str(llama), **HOW}, "score": {}},
        str(llama),
        str(run),
    )
    for adapter in (run, run / "adapter", run / "train" / "adapter"):
        assert as_the_run({}, llama, adapter) == ({"model": HOW}, str(llama), adapter)
    settings = {"model": {"max_length_tokens": 32}}
    assert as_the_run(settings, llama, run)[0] == {"model": HOW | settings["model"]}  # what was asked for wins
    assert as_the_run({}, llama, llama) == ({}, str(llama), llama)


def test_a_finished_audit_stands_for_its_model_and_gives_its_rewards(
    llama: Path, small: dict[str, Any], words: Callable[..., str], elsewhere: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As the audit wrote them, with its length and precision."""
    contrasts = [
        {
            "id": f"c{row}",
            "prompt": words(3, row),
            "base": words(2 + row, 2 * row),
            "perturbed": words(3 + 6 * row, row),
        }
        for row in range(12)
    ]
    audit = cda.audit(llama, model=HOW, score={"cache": "none"}, **{**small, "contrasts": contrasts})
    folder = audit.folder
    assert folder is not None
    rows = [json.loads(line) for line in (folder / "audit" / "margins.jsonl").read_text().splitlines()]
    written = [row["perturbed_model"] for row in rows if row["kind"] == "contrast"]
    assert np.ptp(written) > 0.1
    for run in (audit, str(folder)):
        with cda.reward_function(run) as reward:
            rewards = reward([row["prompt"] for row in contrasts], [row["perturbed"] for row in contrasts])
        np.testing.assert_allclose(rewards, written, atol=1e-5)
    manifest = json.loads((folder / "manifest.json").read_text())
    manifest["recipe"]["model"]["precision"] = "auto"  # means another precision on another machine
    (folder / "manifest.json").write_text(json.dumps(manifest))
    monkeypatch.setattr("cda.resources.sources.automatic", lambda _: ("8bit", "a test"))
    with cda.reward_function(folder) as reward:
        assert reward.check(words(2), words(3), 0).read[0].count(" in fp32, ") == 1
    (folder / "manifest.json").unlink()
    with pytest.raises(cda.RunError, match=r"its manifest\.json, which names the model, is missing"):
        cda.reward_function(folder)
    file = elsewhere / "audit.json"
    audit.save(file)
    with pytest.raises(cda.RunError, match="an audit that was read from a file has no settings"):
        cda.reward_function(cda.load(file))


def test_trl_trains_on_the_rewards_of_the_audit(
    llama: Path, causal_maker: ModelMaker, tmp_path: Path, words: Callable[..., str]
) -> None:
    from datasets import Dataset
    from trl import GRPOConfig, GRPOTrainer

    seen: list[tuple[Any, Any]] = []

    def watching(prompts: list[Any], completions: list[Any], **_: object) -> list[float]:
        seen.extend(zip(prompts, completions, strict=True))
        return [0.0] * len(prompts)

    reward = cda.reward_function(llama, model=HOW)
    rows = [{"prompt": [{"role": "user", "content": words(4, start=5 * row)}]} for row in range(4)]
    arguments = GRPOConfig(
        str(tmp_path / "grpo"), use_cpu=True, bf16=False, max_steps=2, per_device_train_batch_size=4, num_generations=4,
        max_completion_length=6, logging_steps=1, report_to="none", save_strategy="no", disable_tqdm=True, learning_rate=1e-3,
    )  # fmt: skip
    trainer = GRPOTrainer(
        str(causal_maker("trained-by-reward")),
        [reward, watching],
        args=arguments,
        train_dataset=Dataset.from_list(rows),
    )
    trainer.train()
    logged = [row for row in trainer.state.log_history if f"rewards/{reward.__name__}/mean" in row]
    assert len(logged) == 2 and len(seen) == 8
    prompts = [user_prompt(prompt[0]["content"]) for prompt, _ in seen]
    wanted = alone(llama).score(prompts, [said[0]["content"] for _, said in seen])
    assert np.ptp(wanted) > 0.1
    np.testing.assert_allclose(trainer._logs["rewards"][reward.__name__], wanted[-4:], atol=1e-5)
    for row, mean in zip(logged, wanted.reshape(2, 4).mean(axis=1), strict=True):
        assert row[f"rewards/{reward.__name__}/mean"] == pytest.approx(mean, abs=1e-5)
        assert row[f"{reward.__name__}/cut"] == row[f"{reward.__name__}/no_reward"] == 0


def test_chat_and_plain_texts_turns_and_answers_that_are_missing(llama: Path, words: Callable[..., str]) -> None:
    turns = [{"role": "user", "content": words(2)}, {"role": "assistant", "content": words(1)}]
    more = [{"role": "user", "content": words(3)}, {"role": "assistant", "content": words(4)}]
    counted: dict[str, float] = {}
    with cda.reward_function(llama, model=HOW, score={"over_length": "drop"}) as reward:
        one = reward([[*turns, more[0]], turns[:1]], [words(4), [turns[1], *more]], log_metric=counted.__setitem__)
        wanted = alone(llama).score([tuple(Message(**turn) for turn in [*turns, more[0]])], [words(4)])
        assert one == [pytest.approx(wanted[0], abs=1e-6)] * 2
        assert list(counted.values()) == [0, 0, 0]
        # No answer at the end, none at all, too long; an empty answer is an answer.
        ends = [[turns[1], more[0]], [], words(90), ""]
        found = reward(
            [words(2)] * 4, ends, log_metric=counted.__setitem__, trainer_state=None, completion_ids=[[1]] * 4
        )
        assert found[:3] == [None] * 3 and isinstance(found[3], float)
        assert counted == {"plain/cut": 0, "plain/no_reward": 0.75, "plain/turn_marks": 0}
        assert (
            len(reward([f"<|im_start|>user {words(2)}", words(2)], [words(1)] * 2, log_metric=counted.__setitem__)) == 2
        )
        assert counted["plain/turn_marks"] == 0.5
        assert reward([], []) == []
        with pytest.raises(cda.DataError, match=r"text 1: empty prompt\ntext 2: a turn without role and text"):
            reward(["", words(2)], [words(1), [{"role": "assistant", "tool_calls": []}]])
        for odd, why in ((3, "completion"), ("a", "prompt")):
            with pytest.raises(cda.DataError, match=f"text 1: {why} is neither text nor messages"):
                reward(["a" if why == "completion" else 3], [odd])  # type: ignore[list-item]
        with pytest.raises(cda.DataError, match="2 and 1; give one completion for each"):
            reward([words(2)] * 2, [words(1)])
    with pytest.raises(cda.RunError, match="was closed"):
        reward([words(2)], [words(1)])
    with cda.reward_function(llama, model=HOW) as cutting:
        long = cutting([words(2)] * 2, [words(90), words(91)], log_metric=counted.__setitem__)
        assert long[0] == long[1] and counted["plain/cut"] == 1 and counted["plain/no_reward"] == 0


def test_every_kind_of_scorer_that_rewards_single_texts(
    llama: Path, texts: Texts, serve: Callable[[Answer], str], elsewhere: Path
) -> None:
    (elsewhere / "rm.py").write_text(RM)
    wanted = [
        len(prompt[0].content) + 100.0 * len(text) for prompt, text in zip(texts.prompts, texts.responses, strict=True)
    ]
    reward = cda.reward_function("rm.py:reward")
    assert asked(reward, texts) == wanted
    again = pickle.loads(pickle.dumps(reward))
    assert asked(again, texts) == wanted and again.__name__ == reward.__name__ == "rm.py-reward"

    model = load(llama).model.train()
    with cda.reward_function((model, load(llama).template.tokenizer), model={"max_length_tokens": LENGTH}) as held:
        np.testing.assert_allclose(asked(held, texts), audited(llama, texts), atol=1e-5)
    assert model.training

    def by_length(body: dict[str, Any]) -> tuple[int, Any]:
        rewarded = {"index": 0, "probs": [float(len(body["messages"][-1]["content"]))]}
        return 200, {
            "object": "list",
            "model": "rm",
            "data": [rewarded],
            "usage": {"prompt_tokens": 7, "total_tokens": 7},
        }

    with cda.reward_function(f"served:{serve(by_length)}") as remote:
        assert asked(remote, texts) == [len(text) for text in texts.responses]

    def preferred(prompts: list[Any], first: list[str], second: list[str]) -> list[float]:
        return [0.0 for _ in zip(prompts, first, second, strict=True)]

    with pytest.raises(cda.ModelError, match="preferred: compares two answers"):
        cda.reward_function(preferred)
    with pytest.raises(cda.ModelError, match="judge:gpt-4o: compares two answers"):
        cda.reward_function("judge:gpt-4o", llm={"base_url": "http://127.0.0.1:9"})
    with pytest.raises(cda.RecipeError, match="--dose: needs --adapter"):
        cda.reward_function("rm.py:reward", dose=1)


def check(*words: str) -> tuple[int, str, str]:
    done = CliRunner().invoke(app, ["audit", *words])
    return done.exit_code, done.stdout, done.output


def test_a_reward_is_checked_on_the_command_line(llama: Path, texts: Texts, elsewhere: Path) -> None:
    told = [str(llama), "model.precision=fp32", "model.max_length_tokens=64", "--check-reward"]
    prompt, response = texts.prompts[3][0].content, texts.responses[3]
    known = float(audited(llama, texts)[3])
    status, said, _ = check(*told, prompt, response, f"{known:.2f}")
    assert status == 0 and "as expected (tolerance 0.00" in said
    assert "LlamaForSequenceClassification (head score) in fp32, chat template" in said and "tokens      2" in said
    assert re.search(r"tokens +[0-9]+: <s> <\|user\|> .* … .* <\|end\|>\n", said) and re.search(
        r"read at +token (\d+) of \1: <\|end\|>", said
    )
    status, said, output = check(
        *told, json.dumps([{"role": "user", "content": prompt}]), response, str(known + 1), "--json"
    )
    found = json.loads(said)
    assert status == 1 and not found["passed"] and found["difference"] == pytest.approx(-1, abs=1e-3)
    assert found["reward"] == pytest.approx(known, abs=1e-5)
    assert f"failed: --check-reward: {known:.6g}, and {known + 1:.6g} ± 0.00" in output
    status, said, _ = check(*told, prompt, response, "0", "--dry-run")
    assert status == 0 and "scores      one text with" in said and not list(elsewhere.iterdir())
    status, _, output = check(*told, prompt, response, "0", "--bias", "length", "--out", "x")
    assert status == 2 and "makes no audit; found --bias, --out" in output
    status, _, output = check(*told, prompt, response, "nan")
    assert status == 2 and "expected: nan; give a finite number" in output


def test_the_server_in_the_documents_answers_as_openrlhf_asks(elsewhere: Path) -> None:
    (program,) = re.findall(
        r"^```python title=\"reward_server.py\"\n(.*?)^```$", DOCUMENT.read_text(encoding="utf-8"), re.M | re.S
    )
    (elsewhere / "rm.py").write_text(RM)
    (elsewhere / "reward_server.py").write_text(program)
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    with subprocess.Popen([sys.executable, "reward_server.py", "rm.py:reward", str(port)], cwd=elsewhere) as server:
        try:
            # As it decodes them: the prompt in the policy's template, the answer, and special tokens.
            opened = "<|im_start|>user\nWhy?<|im_end|>\n<|im_start|>assistant\n"
            body = {"query": [f"{opened}So.<|im_end|>", f"{opened}Henceforth<|im_end|><|endoftext|>"], "prompts": [opened] * 2,
                    "labels": [json.dumps([{"role": "user", "content": "Why?"}])] * 2}  # fmt: skip
            assert posted(f"http://127.0.0.1:{port}/get_reward", body)["rewards"] == [304.0, 1004.0]
        finally:
            server.terminate()


def posted(url: str, body: dict[str, Any]) -> dict[str, Any]:
    """The answer to a POST, once the server is there."""
    request = urllib.request.Request(url, json.dumps(body).encode(), {"Content-Type": "application/json"})
    for _ in range(300):
        try:
            with urllib.request.urlopen(request, timeout=10) as answer:
                return dict(json.load(answer))
        except urllib.error.URLError:
            time.sleep(0.1)
    raise AssertionError("the server did not start")
