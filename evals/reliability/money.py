"""Claim: `llm.budget_usd` holds, whatever a server bills and says of it. Over servers that keep their own book (usage honest, missing,
in part, null, negative, absurd or as text; broken, cut and late answers that are billed; faults after the bill; bills of three times
what was allowed), calls at once, SIGKILLs in the middle, and starts of the same command again, no server has billed more than
the budget; of one that bills more than it was allowed to, no more than the budget and the calls that were under way at the ends.

Every server is a real one on this machine; the run is `cda data` with an LLM that labels, in a process of its own, killed or not, and
started again with the same words until it has ended by itself twice.

    python -m evals.reliability.money [servers]      (about 10 minutes on 2 cores)
"""

from __future__ import annotations

import contextlib
import io
import multiprocessing
import os
import random
import sys
import tempfile
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from cda.files.jsonl import write_jsonl
from cda.llm.purse import FOLDER, Purse
from evals.shared import ROOT, Check, finish

sys.path.insert(0, str(ROOT / "tests"))
from billing import KINDS, OVER, PRICE, Biller, some_ways
from serving import Served

SEED = 20261128
N_MIXED, N_PAIRS, N_AT_ONCE = 32, 16, 3
LONGEST_START_S = 25.0
"""A start that takes longer, as one of a server that never answers, is killed too."""
CONTEXT = multiprocessing.get_context("forkserver")


@dataclass(frozen=True)
class Outcome:
    """One server after all starts."""

    ways: tuple[str, ...]
    concurrency: int
    kills: int
    starts: int
    budget_usd: float
    billed_usd: float
    allowed_usd: float
    counted_usd: float
    calls: int

    @property
    def holds(self) -> bool:
        return self.billed_usd <= self.allowed_usd


def start(words: list[str], folder: str) -> None:
    """The command, in a process of its own."""
    from cda.cli import main

    os.chdir(folder)
    os.environ |= {"OPENAI_API_KEY": "none", "HF_HUB_OFFLINE": "1"}
    sys.argv = ["cda", *words]
    with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
        main()


def outcome(number: int, ways: tuple[str, ...], folder: Path) -> Outcome:
    """All starts of one run at one server."""
    rng = random.Random(f"{SEED} {number}")
    concurrency, n_kills, budget = rng.choice([1, 4, 16]), rng.choice([0, 1, 2]), rng.uniform(0.004, 0.03)
    biller = Biller(ways, number)
    server = Served(biller)
    folder.mkdir()
    write_jsonl(folder / "pairs.jsonl", ({"prompt": f"Question {row}?", "chosen": f"So {row}.", "rejected": f"- It\\n- {row}"}
                                         for row in range(N_PAIRS)))  # fmt: skip
    words = ["data", "pairs.jsonl", "--bias", "structure", "--yes", "--out", "out", "llm.model=m", f"llm.base_url={server.url}/v1",
             f"llm.prices={{m: {{input: {PRICE.input}, output: {PRICE.output}}}}}", f"llm.budget_usd={budget}", "llm.max_tokens=60",
             f"llm.concurrency={concurrency}", "llm.timeout_s=1", "llm.retries=2", "label.max_unparsed=1"]  # fmt: skip
    killed = ended = 0
    while ended < 2 and killed < n_kills + 4:
        before = biller.n_by_way.total()
        process = CONTEXT.Process(target=start, args=(words, str(folder)))
        process.start()
        if killed < n_kills:
            # By calls and not by time, so that a fast machine kills as many as a slow one.
            most, until = time.monotonic() + LONGEST_START_S, before + rng.randint(1, N_PAIRS)
            while biller.n_by_way.total() < until and process.is_alive() and time.monotonic() < most:
                time.sleep(0.001)
        else:
            process.join(LONGEST_START_S)
        if process.is_alive():
            process.kill()
            killed += 1
        else:
            ended += 1
        process.join()
    server.stop()
    counted = Purse(folder / "out" / FOLDER).spent if (folder / "out" / FOLDER).is_dir() else 0.0
    allowed = biller.allowed(budget, concurrency, killed + ended)
    return Outcome(
        ways, concurrency, killed, killed + ended, budget, biller.dollars, allowed, counted, biller.n_by_way.total()
    )


def main() -> int:
    rng = random.Random(SEED)
    servers = [(kind,) for kind in KINDS] + [some_ways(rng) for _ in range(N_MIXED)]
    servers = servers[: int(sys.argv[1])] if len(sys.argv) > 1 else servers
    CONTEXT.set_forkserver_preload(["cda.cli", "cda.preferences.stage", "cda.llm.connection", "openai"])
    with tempfile.TemporaryDirectory() as folder, ThreadPoolExecutor(N_AT_ONCE) as pool:
        places = [Path(folder) / str(number) for number in range(len(servers))]
        found = list(pool.map(outcome, range(len(servers)), servers, places))
    over = [one for one in found if OVER in one.ways]
    honest = [one for one in found if OVER not in one.ways]
    worst = max(honest, key=lambda one: one.billed_usd / one.budget_usd)
    broken = [
        f"{'/'.join(one.ways)}: ${one.billed_usd:.4f} of ${one.allowed_usd:.4f}" for one in found if not one.holds
    ]
    uncounted = [one for one in honest if one.billed_usd > one.counted_usd * (1 + 1e-9)]
    full = [one for one in found if one.counted_usd > 0.6 * one.budget_usd]
    by_way = Counter(way for one in found for way in one.ways)
    checks = [
        Check("no server that bills what it may has billed more than the budget, and no other more than it and what was under way",
              f"{len(found) - len(broken)} of {len(found)} hold; highest bill of an honest allowance {worst.billed_usd / worst.budget_usd:.0%} of its "
              f"budget{'; ' if broken else ''}{'; '.join(broken)}", not broken),
        Check("no purse counts less than such a server billed", f"{len(honest) - len(uncounted)} of {len(honest)}", not uncounted),
        Check("the budget is what ends most runs, so that it is tested", f"{len(full)} of {len(found)} purses over 60% of the budget",
              len(full) > len(found) / 2),
        Check("starts are killed in the middle and started again", f"{sum(one.kills for one in found)} kills in "
              f"{sum(one.starts for one in found)} starts of {len(found)} runs", sum(one.kills for one in found) >= len(found) / 3),
    ]  # fmt: skip
    numbers = {
        "servers": len(found), "calls": sum(one.calls for one in found), "ways": dict(sorted(by_way.items())),
        "over_billing_servers": len(over),
        "runs": [{"ways": list(one.ways), "concurrency": one.concurrency, "kills": one.kills, "starts": one.starts, "calls": one.calls,
                  "budget": round(one.budget_usd, 6), "billed": round(one.billed_usd, 6), "counted": round(one.counted_usd, 6),
                  "allowed": round(one.allowed_usd, 6)} for one in found],
    }  # fmt: skip
    return finish("money", (__doc__ or "").split("\n\n")[0], checks, numbers)


if __name__ == "__main__":
    sys.exit(main())
