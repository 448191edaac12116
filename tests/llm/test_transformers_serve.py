"""The client, `cda discover` and a reward audit against a server nobody here wrote: `transformers serve` over a tiny causal language model."""

from __future__ import annotations

import importlib.util
import itertools
import json
import os
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from stub_client import SCHEMA
from typer.testing import CliRunner

from cda.cli import app
from cda.errors import LLMError
from cda.llm.openai_client import OpenAIClient
from cda.llm.protocol import Request, complete

SAYS = ["<|assistant|>", "w0", "w1", "</s>"]
CHAT_TEMPLATE = (
    "{% for message in messages %}<|{{ message.role }}|> {{ message.content }} <|end|> {% endfor %}"
    "{% if add_generation_prompt %}<|assistant|> {% endif %}"
)
READY_S = 180.0

REWARD = "def reward(prompts, responses):\n    return [len(text) for text in responses]\n"
pytestmark = pytest.mark.skipif(
    any(importlib.util.find_spec(name) is None for name in ("fastapi", "uvicorn")),
    reason="transformers serve needs fastapi and uvicorn: pip install 'cda-debias[test]'",
)


@pytest.fixture(scope="module")
def model(llama_maker: Callable[..., Path]) -> Path:
    """A Llama whose layers add nothing, so that each token follows from the one before: it always says SAYS."""
    import torch
    from transformers import AutoTokenizer, LlamaForCausalLM

    folder = llama_maker("served", "LlamaForCausalLM", {"tie_word_embeddings": False}, chat_template=CHAT_TEMPLATE)
    model = LlamaForCausalLM.from_pretrained(str(folder))
    said = AutoTokenizer.from_pretrained(str(folder)).convert_tokens_to_ids(SAYS)
    with torch.no_grad():
        for layer in model.model.layers:
            layer.self_attn.o_proj.weight.zero_()
            layer.mlp.down_proj.weight.zero_()
        model.model.embed_tokens.weight.copy_(torch.eye(*model.model.embed_tokens.weight.shape))
        model.lm_head.weight.zero_()
        for before, after in itertools.pairwise(said):
            model.lm_head.weight[after, before] = 10.0
    model.save_pretrained(str(folder))
    return folder


@pytest.fixture(scope="module")
def url(model: Path) -> Iterator[str]:
    with served(model) as address:
        yield address


def test_a_server_that_ignores_the_schema_is_asked_in_plain_words(model: Path, url: str) -> None:
    plain = "End with one line: Label: yes or Label: no."
    client = OpenAIClient(str(model), base_url=url, max_tokens=8)
    asked = [Request("Is it?", f"Is it? {number}", schema=SCHEMA, plain=plain) for number in range(4)]
    found = complete(client, asked, "asking")
    assert [one.text for one in found] == ["w0 w1"] * 4
    assert all(one.reason is None and one.output_tokens > 0 for one in found)


def test_a_server_that_ignores_token_probabilities_is_told(model: Path, url: str) -> None:
    with pytest.raises(LLMError, match=r"gives no token probabilities .*ignores 'logprobs'"):
        complete(OpenAIClient(str(model), base_url=url), [Request("s", "u", top_logprobs=20)], "asking")


def test_a_model_that_answers_nonsense_proposes_nothing_and_discover_ends_well(
    model: Path, url: str, tmp_path: Path
) -> None:
    (tmp_path / "reward.py").write_text(REWARD, encoding="utf-8")
    rows = [{"prompt": f"Is it {n}?", "responses": ["yes", f"no , it is {n + 1}"]} for n in range(8)]
    responses = tmp_path / "responses.jsonl"
    responses.write_text("\n".join(map(json.dumps, rows)), encoding="utf-8")
    words = [f"llm.base_url={url}", f"llm.model={model}", "llm.max_tokens=8", "llm.concurrency=2"]
    words += [f"discover.rewriters=[{model},other]", "discover.populations=[5,2]", "discover.batches=[4]"]
    words += ["--responses", str(responses), "--out", str(tmp_path / "run")]
    done = CliRunner().invoke(app, ["discover", f"{tmp_path / 'reward.py'}:reward", *words])
    assert done.exit_code == 0, done.output
    assert "no attribute was proposed" in done.output
    result = json.loads((tmp_path / "run" / "discover.json").read_text(encoding="utf-8"))
    assert result["generations"][0]["proposed"]["reasons"] == {"no answer in the asked form": 2}
    assert result["tested"] == [] and not (tmp_path / "run" / "biases").exists()


def test_rewards_are_refused_in_one_true_line(url: str, tmp_path: Path) -> None:
    for address in (url, f"{url}/classify"):
        words = ["audit", f"served:{address}", "--bias", "jargon", "--out", str(tmp_path / "out"), "--limit", "4"]
        done = CliRunner().invoke(app, words)
        said = " ".join(done.output.split())
        assert done.exit_code != 0 and "Traceback" not in said
        assert "is `transformers serve`, which has no endpoint for rewards (it has /v1/chat/completions" in said
        assert "cda audit FOLDER" in said and "vllm serve FOLDER --runner pooling" in said


@contextmanager
def served(folder: Path) -> Iterator[str]:
    """Base URL of `transformers serve`; it is stopped at the end, whatever happens."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    command = [sys.executable, "-c", "from transformers.cli.transformers import main; main()"]
    command += ["serve", "--host", "127.0.0.1", "--port", str(port), "--device", "cpu", "--log-level", "error"]
    log = folder.parent / "serve.log"
    environment = {**os.environ, "CUDA_VISIBLE_DEVICES": "", "HF_HUB_OFFLINE": "1", "OMP_NUM_THREADS": "1"}
    with log.open("wb") as output:
        process = subprocess.Popen(command, stdout=output, stderr=subprocess.STDOUT, env=environment)
        try:
            wait_until_ready(f"http://127.0.0.1:{port}/health", process, log)
            yield f"http://127.0.0.1:{port}/v1"
        finally:
            process.kill()
            process.wait()


def wait_until_ready(url: str, process: subprocess.Popen[bytes], log: Path) -> None:
    deadline = time.monotonic() + READY_S
    while time.monotonic() < deadline:
        if process.poll() is not None:
            break
        try:
            with urllib.request.urlopen(url, timeout=2) as answer:
                if answer.status == 200:
                    return
        except (urllib.error.URLError, TimeoutError, ConnectionError):
            time.sleep(0.2)
    pytest.fail(f"transformers serve did not start:\n{log.read_text(errors='replace')[-2000:]}")
