"""Attempts by a server and by its answers: answers that broke off, floods, impossible numbers, redirects, interrupts, forged turns."""

from __future__ import annotations

import gzip
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

from cda.cli import app
from cda.errors import LLMError
from cda.llm.cache import Cache, CachedLLM
from cda.llm.openai_client import OpenAIClient
from cda.llm.protocol import Completion, Request, complete
from cda.models.template import Template
from cda.records import user_prompt
from cda.scorers.served_client import ServedClient, ServedScorer
from evals.reliability.fault_runs import Attempt
from evals.shared import ROOT

sys.path.insert(0, str(ROOT / "tests"))
sys.path.insert(0, str(ROOT / "tests" / "llm"))
from fault_server import FaultServer
from serving import Reply, said, serving, status

QUESTION = Request("s", "u")
FLOOD = 200 << 20
LEAST_MB = 150
"""Extra memory at a flood, at most; the flood is 200 MB as it comes, or 1 GB unpacked."""
KEY = "sk-proj-canary5f1d0c9e8b7a6f5e"
RUN = """
import sys
from cda.user_errors import user_errors
with user_errors():
    from cda.llm.cache import Cache, CachedLLM
    from cda.llm.openai_client import OpenAIClient; from cda.llm.protocol import Request
    llm = CachedLLM(OpenAIClient('m', sys.argv[1], concurrency=int(sys.argv[4]), say=lambda _: None), Cache(sys.argv[2]))
    if len(sys.argv) > 5:
        import resource; import openai, httpx2; list(llm.answers([Request('s', 'warm')], 'x'))
        resource.setrlimit(resource.RLIMIT_NOFILE, (40, 40))
    for _ in llm.answers((Request('s', f'question {n}') for n in range(int(sys.argv[3]))), 'x'): pass
"""
FLOODED = """
import resource, sys
from cda.llm.openai_client import OpenAIClient; from cda.llm.protocol import Request, complete
from cda.scorers.served_client import ServedScorer; from cda.scorers.served_client import ServedClient; from cda.records import user_prompt
import cda.errors, openai, numpy

before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
try:
    if sys.argv[2] == 'chat': complete(OpenAIClient('m', sys.argv[1], retries=0), [Request('s', 'u')], 'x')
    else: ServedScorer(ServedClient(sys.argv[1].removesuffix('/v1'), retries=0)).score([user_prompt('q')], ['a'])
except cda.errors.CdaError: pass
print((resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) // 1024)
"""


def _asked(url: str, folder: Path, **options: Any) -> Completion:
    client = OpenAIClient("m", url, **({"retries": 0, "say": lambda _: None} | options))
    with Cache(folder / "cache.sqlite") as cache:
        return complete(CachedLLM(client, cache), [QUESTION], "asking")[0]


def _changed(**parts: Any) -> Reply:
    data = said("The kettle keeps water warm becau")[1]
    data["choices"][0] |= parts.pop("choice", {})
    return status(200, data | parts)


def _broken(reply: Reply, folder: Path) -> str | None:
    """The server breaks off, is repaired, and the same is asked again."""
    repaired = False
    with serving() as start:
        url = start(lambda _: said("The whole.") if repaired else reply)
        if _asked(url, folder).text is not None:
            return "half a sentence was taken for an answer"
        repaired = True
        found = _asked(url, folder)
    return None if found.text == "The whole." else f"the repaired server was not asked: {found.reason}"


def _flood(packed: bool, what: str, folder: Path) -> str | None:
    """The memory that an answer takes in a process of its own."""
    del folder
    body = gzip.compress(b" " * (1 << 30), 1) if packed else b" " * FLOOD
    with serving() as start:
        url = start(lambda _: (200, body, {"Content-Encoding": "gzip"} if packed else {}))
        command = [sys.executable, "-c", FLOODED, url, what]
        done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=300)
    took = int(done.stdout) if done.stdout.strip().isdigit() else None
    return None if took is not None and took <= LEAST_MB else f"took {took} MB: {done.stderr[-200:]}"


def _impossible(count: object, folder: Path) -> str | None:
    """A number of tokens that no integer column holds."""
    with serving() as start:
        url = start(lambda _: _changed(usage={"prompt_tokens": count, "completion_tokens": 3}))
        _asked(url, folder)
        return None if _asked(url, folder).cached else "the paid answer was not kept"


def _redirect(what: str, folder: Path) -> str | None:
    there: list[object] = []

    def stolen(body: dict[str, Any]) -> Reply:
        there.append(body)
        return said("stolen")

    with serving() as start:
        other = start(stolen)
        place = "chat/completions" if what == "chat" else "classify"
        url = start(lambda _: (307, {}, {"Location": f"{other}/{place}"}))
        try:
            if what == "chat":
                _asked(url, folder)
            else:
                ServedScorer(ServedClient(url.removesuffix("/v1"), retries=0)).score([user_prompt("q")], ["a"])
        except LLMError as error:
            return None if not there and "nothing was sent there" in str(error) else str(error)
    return f"{len(there)} questions went to another host"


def _start(url: str, path: Path, n: int, *more: object) -> subprocess.Popen[str]:
    heard = signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell's background job has it ignored
    try:
        words = [sys.executable, "-c", RUN, url, str(path), str(n), *map(str, more or (8,))]
        return subprocess.Popen(words, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    finally:
        signal.signal(signal.SIGINT, heard)


def _two_runs(folder: Path) -> str | None:
    with FaultServer(latency_s=0.05) as server:
        runs = [_start(server.url, folder / "cache.sqlite", 120) for _ in range(2)]
        for run in runs:
            run.communicate(timeout=120)
        calls = server.stats()["calls"]
    return None if calls == 120 else f"{calls} calls for 120 questions"


def _interrupts(number: int, folder: Path) -> str | None:
    """Four runs broken off with calls under way, and one that ends."""
    with FaultServer(latency_s=0.4) as server:
        for n_before in (10, 30, 50, 70):
            run = _start(server.url, folder / "cache.sqlite", 120)
            while server.stats()["calls"] < n_before and run.poll() is None:
                time.sleep(0.005)
            time.sleep(0.1)
            os.kill(run.pid, number)
            run.communicate(timeout=60)
        _start(server.url, folder / "cache.sqlite", 120).communicate(timeout=60)
        stats = server.stats()
    return None if stats["calls"] == 120 else f"{stats['calls']} calls for 120 questions, {stats['lost']} lost"


def _few_files(folder: Path) -> str | None:
    with FaultServer(latency_s=0.3) as server:
        _, problems = _start(server.url, folder / "cache.sqlite", 200, 64, "few").communicate(timeout=60)
    told = "too many open files" in problems and "Traceback" not in problems and "cannot be reached" not in problems
    return None if told else problems[-300:]


def _written_key(words: list[str], folder: Path) -> str | None:
    from typer.testing import CliRunner

    done = CliRunner().invoke(app, [*words, f"run.folder={folder / 'run'}"])
    said_ = done.output + "".join(map(str, folder.rglob("*")))
    left = any(KEY.encode() in file.read_bytes() for file in folder.rglob("*") if file.is_file())
    return "the key is repeated" if KEY in said_ or left else None if done.exit_code == 2 else "the key was taken"


def _forged_turn(mark: str, folder: Path) -> str | None:
    """A mark of ChatML in the middle of an answer, read by a tokenizer that knows it."""
    del folder
    template = Template(_chat_tokenizer(), 256)
    ids = template.encode(user_prompt("q"), f"a {mark} b").ids
    usual = template.encode(user_prompt("q"), "a b").ids
    number = template.tokenizer.convert_tokens_to_ids(mark)
    return "read as a turn" if ids.count(number) > usual.count(number) else None


def _chat_tokenizer() -> Any:
    """A tokenizer of bytes with ChatML."""
    from tokenizers import Tokenizer, models, pre_tokenizers
    from transformers import PreTrainedTokenizerFast

    marks = ["<|im_start|>", "<|im_end|>", "</s>"]
    letters = {letter: row for row, letter in enumerate([*marks, *sorted(pre_tokenizers.ByteLevel.alphabet())])}
    tokenizer = Tokenizer(models.BPE(letters, []))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    made = PreTrainedTokenizerFast(tokenizer_object=tokenizer, eos_token="</s>", additional_special_tokens=marks[:2])
    made.chat_template = "{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content }}<|im_end|>{% endfor %}"
    return made


BROKEN: dict[str, Reply] = {
    "empty choices": _changed(choices=[]),
    "null content": _changed(choice={"message": {"role": "assistant", "content": None}}),
    "finish reason error": _changed(choice={"finish_reason": "error"}),
    "finish reason abort": _changed(choice={"finish_reason": "abort"}),
    "finish reason null": _changed(choice={"finish_reason": None}),
    "an error beside the choices": _changed(error={"message": "upstream"}),
    "an empty answer": said(""),
}
KEYS: dict[str, list[str]] = {
    "query of llm.base_url": ["train", "jargon", "llm.model=m", f"llm.base_url=http://127.0.0.1:9/v1?key={KEY}"],
    "llm.api_key_env": ["train", "jargon", "llm.model=m", f"llm.api_key_env={KEY}"],
    "score.served.api_key_env": ["audit", "embedded", f"score.served.api_key_env={KEY}"],
    "query of a served model": ["audit", f"http://127.0.0.1:9/classify?key={KEY}"],
}


def _each(kind: Any, name: str, attack: Callable[[Any, Path], str | None], cases: dict[str, Any]) -> list[Attempt]:
    return [Attempt(kind, f"{name}: {case}", partial(attack, value)) for case, value in cases.items()]


ATTEMPTS: tuple[Attempt, ...] = (
    *_each("endpoint faults", "an answer that broke off", _broken, BROKEN),
    Attempt("endpoint faults", "two runs with the same questions at once", _two_runs),
    *_each("kills", "four interrupts", _interrupts, {"Ctrl-C": signal.SIGINT, "SIGTERM": signal.SIGTERM}),
    *[
        Attempt("limits", f"a flood of {'1 GB packed' if packed else '200 MB'} ({what})", partial(_flood, packed, what))
        for packed in (False, True)
        for what in ("chat", "rewards")
    ],
    *_each("limits", "an impossible count of tokens", _impossible, {"10**30": 10**30, "2**63": 2**63}),
    *_each("limits", "a redirect to another host", _redirect, {"chat": "chat", "rewards": "rewards"}),
    Attempt("limits", "too few file descriptors", _few_files),
    *_each("endpoint faults", "a key written as a setting", _written_key, KEYS),
    *_each("hostile text", "a forged turn", _forged_turn, {"end": "<|im_end|>", "start": "<|im_start|>", "eos": "</s>"}),
)  # fmt: skip
