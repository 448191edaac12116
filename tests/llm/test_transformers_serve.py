"""The LLM client against a server nobody here wrote: `transformers serve` over a tiny causal language model."""

from __future__ import annotations

import importlib.util
import itertools
import os
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from cda.llm.openai_client import OpenAIClient
from cda.llm.protocol import Request, complete

WORDS = [
    "<unk>",
    "<s>",
    "</s>",
    "<|system|>",
    "<|user|>",
    "<|assistant|>",
    "<|end|>",
    "Label:",
    "yes",
    "no",
    "Is",
    "it?",
]
SAYS = ["<|assistant|>", "Label:", "yes", "</s>"]
READY_S = 180.0

needs_serve = pytest.mark.skipif(
    any(importlib.util.find_spec(name) is None for name in ("fastapi", "uvicorn")),
    reason="transformers serve needs fastapi and uvicorn: pip install 'cda[test]'",
)


@needs_serve
def test_a_server_that_ignores_the_schema_is_asked_in_plain_words(tmp_path: Path) -> None:
    folder = tmp_path / "model"
    make_model(folder)
    schema = {
        "type": "object",
        "properties": {"label": {"type": "string", "enum": ["yes", "no"]}},
        "required": ["label"],
        "additionalProperties": False,
    }
    plain = "End with one line: Label: yes or Label: no."
    with served(folder) as url:
        client = OpenAIClient(str(folder), base_url=url, max_tokens=8)
        asked = [Request("Is it?", f"Is it? {number}", schema=schema, plain=plain) for number in range(4)]
        found = complete(client, asked, "asking")
    assert [one.text for one in found] == ["Label: yes"] * 4
    assert all(one.reason is None and one.output_tokens > 0 for one in found)


def make_model(folder: Path) -> None:
    """A Llama whose layers add nothing, so that each token follows from the one before: it always says SAYS."""
    import torch
    from tokenizers import Tokenizer, models, pre_tokenizers
    from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast

    vocabulary = {token: number for number, token in enumerate(WORDS)}
    words = Tokenizer(models.WordLevel(vocabulary, unk_token="<unk>"))
    words.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    tokenizer = PreTrainedTokenizerFast(
        tokenizer_object=words, unk_token="<unk>", bos_token="<s>", eos_token="</s>", pad_token="</s>"
    )
    tokenizer.chat_template = (
        "{% for message in messages %}<|{{ message.role }}|> {{ message.content }} <|end|> {% endfor %}"
        "{% if add_generation_prompt %}<|assistant|> {% endif %}"
    )
    tokenizer.save_pretrained(str(folder))
    size = 64
    model = LlamaForCausalLM(
        LlamaConfig(
            vocab_size=len(WORDS),
            hidden_size=size,
            intermediate_size=size,
            num_hidden_layers=1,
            num_attention_heads=4,
            num_key_value_heads=4,
            max_position_embeddings=512,
            bos_token_id=vocabulary["<s>"],
            eos_token_id=vocabulary["</s>"],
            pad_token_id=vocabulary["</s>"],
            tie_word_embeddings=False,
        )
    )
    with torch.no_grad():
        model.model.layers[0].self_attn.o_proj.weight.zero_()
        model.model.layers[0].mlp.down_proj.weight.zero_()
        model.model.embed_tokens.weight.copy_(torch.eye(len(WORDS), size))
        model.lm_head.weight.zero_()
        for before, after in itertools.pairwise(SAYS):
            model.lm_head.weight[vocabulary[after], vocabulary[before]] = 10.0
    model.save_pretrained(str(folder))


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
            process.terminate()
            try:
                process.wait(timeout=10)
            except subprocess.TimeoutExpired:
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
