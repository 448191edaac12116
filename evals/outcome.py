"""How an eval ends: claim, thresholds and results are printed and written, and the exit status says whether it passed."""

from __future__ import annotations

import os
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from pathlib import Path
from typing import Any

from pydantic_core import to_jsonable_python

from cda.files.jsonl import write_json

ROOT = Path(__file__).parent.parent
DATA = Path(os.environ.get("CDA_DATA", ROOT.parent / "shared" / "data"))
_STARTED = time.monotonic()


@dataclass(frozen=True, slots=True)
class Check:
    """One threshold: what was asked, what was found, whether it holds."""

    threshold: str
    found: str
    passed: bool


def finish(name: str, claim: str, checks: Sequence[Check], numbers: Mapping[str, Any]) -> int:
    """Print every check, write evals/results/<name>.json, and return the exit status: 0 only where all passed."""
    passed = bool(checks) and all(check.passed for check in checks)
    print(f"{claim}\n")
    for check in checks:
        print(f"  {'passed' if check.passed else 'FAILED'}  {check.threshold}\n          found {check.found}")
    folder = ROOT / "evals" / "results"
    folder.mkdir(exist_ok=True)
    write_json(
        folder / f"{name}.json",
        {
            "claim": claim,
            "passed": passed,
            "date": date.today().isoformat(),
            "seconds": round(time.monotonic() - _STARTED),
            "hardware": f"{os.cpu_count()} CPU cores",
            "checks": [to_jsonable_python(check) for check in checks],
            "numbers": dict(numbers),
        },
    )
    print(f"\n{'passed' if passed else 'FAILED'}: evals/results/{name}.json")
    return 0 if passed else 1
