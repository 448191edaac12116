"""Claim: batches are paid for once, whatever the server answers. An oddity that a server shows once changes nothing: every request is
answered, by one batch, and runs once. One that it always shows either does no harm, or ends in one line that names the batch and
what to do; no batch is submitted again unasked, only requests whose own result line is odd run a second time, the repaired
server answers the rest, and `llm.resubmit=yes`, where the line names it, goes on with at most one more batch. There is no traceback.

A server of the Batch API (`tests/llm/odd_batches.py`, over real HTTP) works, and changes its answers: to an upload, a new batch, the
list of batches, a poll, and in the output and the error file. Odd are every field of each (missing, null, of each wrong
type, an unknown value), pages, empty and cut bodies, error objects, statuses with and without the work done, lost
connections, and lines that are lost, broken, doubled or another's. Where the list is odd, the answer to the new batch was
lost; a well-formed list that does not show the batch, 3 times in 22 seconds, is believed, since nothing else can be known.
Six requests a batch; pauses are skipped, and everything else is as in a run.

Thresholds: all of at least 54 oddities that stay and of at least 54 that pass survive.

    python -m evals.reliability.batch_oddities      (5 minutes on 2 cores)
"""

from __future__ import annotations

import multiprocessing
import os
import sys
import tempfile
from collections import Counter
from pathlib import Path

from evals.shared import ROOT, Check, finish

sys.path.insert(0, str(ROOT / "tests" / "llm"))
from odd_batches import ENDPOINTS, Oddity, oddities, tried

LEAST = 54


def attempt(number: int) -> list[str | None]:
    """What goes wrong with an oddity that is shown once, and with the same one always."""
    found: list[str | None] = []
    for times in (1, None):
        with tempfile.TemporaryDirectory() as folder:
            try:
                found.append(tried(ALL[number], times, Path(folder)))
            except Exception as error:  # what a user would see as a traceback
                found.append(f"{type(error).__name__}: {error}")
    return found


ALL: list[Oddity] = list(oddities())


def main() -> int:
    with multiprocessing.Pool(os.cpu_count()) as pool:
        outcomes = pool.map(attempt, range(len(ALL)), chunksize=4)
    checks, lost = [], {}
    for at, name in enumerate(("passes", "stays")):
        wrong = {str(oddity): found[at] for oddity, found in zip(ALL, outcomes, strict=True) if found[at] is not None}
        lost[name] = wrong
        n = len(ALL) - len(wrong)
        checks.append(
            Check(
                f"all of {LEAST} or more oddities survive where the oddity {name}",
                f"{n} of {len(ALL)}" + "".join(f"; {oddity}: {why}" for oddity, why in list(wrong.items())[:5]),
                n == len(ALL) >= LEAST,
            )
        )
    by_endpoint = Counter(oddity.endpoint for oddity in ALL)
    return finish(
        "batch_oddities",
        "batches are paid for once, and no run ends in a traceback, whatever a server of the Batch API answers, once or always.",
        checks,
        {"n": len(ALL), "by_answer": {name: by_endpoint[name] for name in ENDPOINTS}, "lost": lost},
    )


if __name__ == "__main__":
    sys.exit(main())
