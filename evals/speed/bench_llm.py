"""Claim: the LLM client costs nothing but the server's time. With 64 calls at once, 5,000 requests at 1 s each take at
most 1.1 times the ideal 5000 · 1 s / 64; at 200 ms each they take no longer than one plain AsyncOpenAI gather with a
semaphore beside it (at most 1.05 times), although every answer is on disk before it is given. With 5% of the calls
failing, every request is answered, and none is answered or kept twice.

The server is tests/llm/fault_server.py in a process of its own; each run is a fresh process; medians of alternating runs.

    python -m evals.speed.bench_llm      (about 6 minutes on 2 cores that do nothing else)
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import sqlite3
import statistics
import subprocess
import sys
import tempfile
import time
from contextlib import closing
from pathlib import Path
from typing import Any

from cda.llm.cache import Cache, CachedLLM
from cda.llm.openai_client import OpenAIClient
from cda.llm.protocol import Request
from evals.shared import ROOT, Check, finish, peak_bytes, restart_peak

sys.path.insert(0, str(ROOT / "tests" / "llm"))
from fault_server import control, in_a_process

N_REQUESTS, N_SLOTS, REPEATS = 5000, 64, 3
IDEAL_RATIO, PLAIN_RATIO = 1.1, 1.05
CLIENTS = ("plain", "client", "client and cache")
TEXT = "The quick brown fox jumps over the lazy dog. " * 40
"""About 400 tokens, as in labelling a response."""
FAULTS = {"500": 0.01, "reset": 0.01, "drop": 0.005, "json": 0.005}
BURSTS: dict[str, object] = {"burst": (1000, 20), "retry_after_s": 0.5}
"""Of every 1,000 calls, 20 in a row get a 429: with the others, 5% of the calls."""


def one_run(client: str, url: str, cache: Path, n_requests: int) -> dict[str, float]:
    """Seconds, CPU and extra peak memory of all requests in this process, imports apart."""
    import openai  # noqa: F401

    before = restart_peak()
    clock, cpu = time.perf_counter(), time.process_time()
    answered = plain(url, n_requests) if client == "plain" else ours(url, cache, n_requests, client != "client")
    return {
        "seconds": time.perf_counter() - clock,
        "cpu_ms_per_request": 1000 * (time.process_time() - cpu) / n_requests,
        "megabytes": (peak_bytes() - before) / 2**20,
        "answered": answered,
    }


def question(number: int) -> str:
    return f"{TEXT}{number}"


def ours(url: str, cache: Path, n_requests: int, cached: bool) -> int:
    """How many are answered by our client."""
    client = OpenAIClient("local", base_url=url, concurrency=N_SLOTS, say=lambda _: None)
    llm = CachedLLM(client, Cache(cache)) if cached else client
    requests = (Request("You label texts.", question(number)) for number in range(n_requests))
    return sum(found.text is not None for _, found in llm.answers(requests, "asking", n_requests))


def plain(url: str, n_requests: int) -> int:
    """The same by what one would write by hand."""
    from openai import AsyncOpenAI

    async def run() -> int:
        room = asyncio.Semaphore(N_SLOTS)
        async with AsyncOpenAI(api_key="none", base_url=url) as http:

            async def ask(number: int) -> bool:
                async with room:
                    answer = await http.chat.completions.create(
                        model="local",
                        messages=[
                            {"role": "system", "content": "You label texts."},
                            {"role": "user", "content": question(number)},
                        ],
                        temperature=0.0,
                        max_completion_tokens=2048,
                    )
                return answer.choices[0].message.content is not None

            return sum(await asyncio.gather(*(ask(number) for number in range(n_requests))))

    return asyncio.run(run())


def measured(client: str, url: str, cache: Path, n_requests: int) -> dict[str, float]:
    """One run in a fresh process."""
    command = [
        sys.executable,
        "-m",
        "evals.speed.bench_llm",
        "--one",
        client,
        url,
        str(cache),
        "--requests",
        str(n_requests),
    ]
    done = subprocess.run(command, capture_output=True, text=True, cwd=ROOT)
    if done.returncode:
        raise SystemExit(f"{client} failed:\n{done.stderr[-3000:]}")
    found: dict[str, float] = json.loads(done.stdout)
    print(f"  {client:17}" + "".join(f"  {name} {value:9.3f}" for name, value in found.items()), flush=True)
    return found


def rows(cache: Path) -> tuple[int, int]:
    """Answers in a cache, and how many of them have a key of their own."""
    with closing(sqlite3.connect(cache)) as file:
        found: tuple[int, int] = file.execute("SELECT count(*), count(DISTINCT key) FROM answers").fetchone()
    return found


def against_ideal(folder: Path, n: int) -> tuple[Check, dict[str, Any]]:
    """At a latency of 1 s."""
    with in_a_process(latency_s=1) as url:
        found = measured("client and cache", url, folder / "ideal.sqlite", n)
        most_at_once = control(url)["max_in_flight"]
    ideal = n / N_SLOTS
    ratio = found["seconds"] / ideal
    check = Check(
        f"1 s a call: at most {IDEAL_RATIO} x the ideal {ideal:.1f} s",
        f"{found['seconds']:.1f} s, {ratio:.3f} x; {found['answered']:.0f} answered, {most_at_once} at once at most",
        ratio <= IDEAL_RATIO and found["answered"] == n and most_at_once <= N_SLOTS,
    )
    return check, found | {"ideal_seconds": ideal, "ratio": ratio}


def against_plain(folder: Path, n: int, repeats: int) -> tuple[Check, dict[str, Any]]:
    """At a latency of 200 ms, by turns."""
    runs: dict[str, list[dict[str, float]]] = {client: [] for client in CLIENTS}
    with in_a_process(latency_s=0.2) as url:
        for repeat in range(repeats):
            # Who goes first changes, so that a machine that slows down slows all.
            for client in CLIENTS if repeat % 2 == 0 else CLIENTS[::-1]:
                runs[client].append(measured(client, url, folder / f"plain-{repeat}.sqlite", n))
    table = {
        client: {name: statistics.median(one[name] for one in found) for name in found[0]}
        | {"all_seconds": [round(one["seconds"], 3) for one in found]}
        for client, found in runs.items()
    }
    ours, theirs = table["client and cache"], table["plain"]
    ratio = ours["seconds"] / theirs["seconds"]
    check = Check(
        f"200 ms a call: at most {PLAIN_RATIO} x a plain gather (medians of {repeats})",
        f"{ours['seconds']:.2f} s / {theirs['seconds']:.2f} s = {ratio:.3f}; CPU a request "
        f"{ours['cpu_ms_per_request']:.2f} ms against {theirs['cpu_ms_per_request']:.2f} ms, extra peak memory "
        f"{ours['megabytes']:.0f} MB against {theirs['megabytes']:.0f} MB",
        ratio <= PLAIN_RATIO and all(one["answered"] == n for found in runs.values() for one in found),
    )
    return check, {"clients": table, "ratio": ratio, "ideal_seconds": 0.2 * n / N_SLOTS}


def under_faults(folder: Path, n: int, without_faults_s: float) -> tuple[Check, dict[str, Any]]:
    """At a latency of 200 ms with 5% faults; then once more, which must cost no call."""
    cache = folder / "faults.sqlite"
    with in_a_process(latency_s=0.2, rates=FAULTS, **BURSTS) as url:
        found = measured("client and cache", url, cache, n)
        server = control(url)
        again = measured("client and cache", url, cache, n)
        calls_again = control(url)["calls"] - server["calls"]
    n_rows, n_keys = rows(cache)
    overhead = found["seconds"] / without_faults_s - 1
    n_faults = sum(server["faults"].values())
    check = Check(
        "5% faults: every request answered, none answered or kept twice, no call for a second run",
        f"{found['answered']:.0f} answered, {n_rows} rows of {n_keys} keys, {server['answered_twice']} answered twice, "
        f"{n_faults} faults ({n_faults / server['calls']:.1%}) {server['faults']}, {calls_again} calls again; "
        f"{found['seconds']:.1f} s, {overhead:+.0%} over the run without faults",
        found["answered"] == n == n_rows == n_keys
        and server["answered_twice"] == 0
        and calls_again == 0
        and again["answered"] == n
        and n_faults >= 0.03 * n,
    )
    return check, found | {"overhead": overhead, "server": server, "second_run_seconds": again["seconds"]}


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n\n")[0])
    parser.add_argument("--one", nargs=3, metavar=("CLIENT", "URL", "CACHE"), help=argparse.SUPPRESS)
    parser.add_argument("--requests", type=int, default=N_REQUESTS)
    parser.add_argument("--repeats", type=int, default=REPEATS)
    options = parser.parse_args()
    if options.one:
        client, url, cache = options.one
        print(json.dumps(one_run(client, url, Path(cache), options.requests)))
        return 0
    load = os.getloadavg()[0]
    with tempfile.TemporaryDirectory() as name:
        folder, n = Path(name), options.requests
        plain_check, beside = against_plain(folder, n, options.repeats)
        ideal_check, ideal = against_ideal(folder, n)
        fault_check, faults = under_faults(folder, n, beside["clients"]["client and cache"]["seconds"])
    numbers = {
        "n_requests": n,
        "n_slots": N_SLOTS,
        "load_before": load,
        "load_after": os.getloadavg()[0],
        "at_1_s": ideal,
        "at_200_ms": beside,
        "with_faults": faults,
    }
    claim = (__doc__ or "").split("\n\n")[0].replace("\n", " ")
    return finish("bench_llm", claim, [ideal_check, plain_check, fault_check], numbers)


if __name__ == "__main__":
    sys.exit(main())
