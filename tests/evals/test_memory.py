"""Peak memory of a process is its own, also where a large one started it."""

from __future__ import annotations

import subprocess
import sys

MB = 2**20
LARGE = """
import subprocess, sys
kept = b"x" * (400 * 2**20)
sys.exit(subprocess.run([sys.executable, "-c", sys.argv[1]], check=True).returncode)
"""


def from_a_large_process(code: str) -> list[int]:
    """Numbers that `code` prints in a small process which one with 400 MB started."""
    found = subprocess.run([sys.executable, "-c", LARGE, code], capture_output=True, text=True, check=True)
    return [int(word) for word in found.stdout.split()]


def test_the_peak_is_counted_from_where_it_was_restarted() -> None:
    code = """
from evals.shared import peak_bytes, restart_peak
big = b"x" * (150 * 2**20); del big
before = restart_peak(); nothing = peak_bytes() - before
kept = b"x" * (100 * 2**20)
print(nothing, peak_bytes() - before)
"""
    nothing, added = from_a_large_process(code)
    assert nothing < 20 * MB and 90 * MB < added < 130 * MB
