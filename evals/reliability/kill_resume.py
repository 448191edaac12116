"""Claim: a run of LLM calls that is killed at any moment loses nothing. After 20 SIGKILLs at random moments of a run of
2,000 calls, the artifact is identical to that of an uninterrupted run, and no kill makes more calls be repeated than were
under way.

The server is tests/llm/fault_server.py in a process of its own and counts every call; the run goes through CachedLLM and
writes its artifact when all is answered.

    python -m evals.reliability.kill_resume      (about 2 minutes on 2 cores)
"""

from __future__ import annotations

import argparse
import random
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from cda.files.jsonl import write_jsonl
from cda.llm.cache import Cache, CachedLLM
from cda.llm.openai_client import OpenAIClient
from cda.llm.protocol import Request, complete
from evals.shared import ROOT, Check, finish

sys.path.insert(0, str(ROOT / "tests" / "llm"))
from fault_server import control, in_a_process

SEED = 20261121
N_CALLS, N_SLOTS, N_KILLS = 2000, 16, 20
LATENCY_S = 0.1
LATEST_S = 0.8
"""A kill comes at a random moment of so many seconds after the first call of the process reached the server. Counted from
the start of the process, most kills would hit its imports and prove nothing."""
STARTED = "asking"


def run(url: str, folder: Path) -> None:
    """The run that is killed: ask everything, then write the artifact."""
    client = OpenAIClient("local", base_url=url, concurrency=N_SLOTS)
    requests = [Request("You label texts.", f"text {number}. End with `Label:`") for number in range(N_CALLS)]
    print(STARTED, flush=True)
    found = complete(CachedLLM(client, Cache(folder / "llm.sqlite")), requests, "asking")
    write_jsonl(
        folder / "answers.jsonl",
        (
            {"row": row, "text": one.text, "reason": one.reason, "tokens": [one.input_tokens, one.output_tokens]}
            for row, one in enumerate(found)
        ),
    )


def start(url: str, folder: Path) -> subprocess.Popen[str]:
    """A process of `run` that is about to ask."""
    command = [sys.executable, "-m", "evals.reliability.kill_resume", "--run", url, str(folder)]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, cwd=ROOT)
    assert process.stdout is not None
    if process.stdout.readline().strip() != STARTED:
        raise SystemExit("the run did not start")
    return process


def interrupted(url: str, folder: Path) -> list[dict[str, Any]]:
    """Kill it 20 times and let it finish; what the server saw between one kill and the next."""
    rng = random.Random(SEED)
    seen: list[dict[str, Any]] = []
    before = control(url)
    for number in range(N_KILLS + 1):
        process = start(url, folder)
        after_s = rng.uniform(0, LATEST_S) if number < N_KILLS else None
        if after_s is not None:
            while control(url)["calls"] == before["calls"] and process.poll() is None:
                time.sleep(0.005)
            time.sleep(after_s)
            process.kill()
        status = process.wait()
        while (now := control(url))["in_flight"]:  # until the server has noticed
            time.sleep(0.01)
        seen.append(
            {
                "killed_after_s": after_s,
                "status": status,
                "calls": now["calls"] - before["calls"],
                "repeated": now["repeated"] - before["repeated"],
                "under_way_at_the_server": now["lost"] - before["lost"],
            }
        )
        print(f"  {seen[-1]}", flush=True)
        before = now
    return seen


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n\n")[0])
    parser.add_argument("--run", nargs=2, metavar=("URL", "FOLDER"), help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.run:
        run(options.run[0], Path(options.run[1]))
        return 0
    with tempfile.TemporaryDirectory() as name, in_a_process(latency_s=LATENCY_S) as url:
        whole, killed = Path(name, "whole"), Path(name, "killed")
        for folder in (whole, killed):
            folder.mkdir()
        start(url, whole).wait()
        calls_uninterrupted = control(url)["calls"]
        control(url, "reset")
        seen = interrupted(url, killed)
        server = control(url)
        identical = (whole / "answers.jsonl").read_bytes() == (killed / "answers.jsonl").read_bytes()
        size = (whole / "answers.jsonl").stat().st_size
    n_killed = sum(one["status"] == -9 and one["calls"] > 0 for one in seen)
    # What run k + 1 repeats is what kill k cut off.
    repeated = [one["repeated"] for one in seen[1:]]
    checks = [
        Check(
            f"{N_KILLS} kills in the middle of the work", f"{n_killed}", n_killed == N_KILLS and seen[-1]["status"] == 0
        ),
        Check("artifact identical to the uninterrupted one", f"{identical}, {size} bytes", identical),
        Check(
            f"calls repeated after each kill: at most {N_SLOTS}, as many as are under way",
            f"at most {max(repeated)}, {sum(repeated)} of {server['calls']} calls in all",
            # None repeated at all would mean that nothing was cut off, and nothing was tested.
            0 < max(repeated) <= N_SLOTS and seen[0]["repeated"] == 0 and server["max_in_flight"] <= N_SLOTS,
        ),
        Check(
            "every request asked, the uninterrupted run asked each once",
            f"{server['requests']} of {N_CALLS}, {calls_uninterrupted} calls",
            server["requests"] == N_CALLS == calls_uninterrupted,
        ),
    ]
    numbers = {
        "n_calls": N_CALLS,
        "n_slots": N_SLOTS,
        "latency_s": LATENCY_S,
        "seed": SEED,
        "runs": seen,
        "server": server,
    }
    return finish("kill_resume", (__doc__ or "").split("\n\n")[0].replace("\n", " "), checks, numbers)


if __name__ == "__main__":
    sys.exit(main())
