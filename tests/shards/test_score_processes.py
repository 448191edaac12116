"""Real processes that score one folder: killed in the middle, and two of a launch at once."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

from score_files import scored, singles, written

ROOT = Path(__file__).parents[2]
SLOW = """
import os
import time


def reward(prompts, responses):
    if os.environ.get("SLOWLY") and len(responses[0]) > 10:
        time.sleep(60)
    return [float(len(response)) for response in responses]
"""


def started(desk: Path, *words: str, **environment: str) -> subprocess.Popen[str]:
    command = [
        sys.executable,
        "-m",
        "cda",
        "score",
        "slow.py:reward",
        "a.jsonl",
        "--out",
        "o",
        "--shard-rows",
        "5",
        *words,
    ]
    own = {**os.environ, "PYTHONPATH": str(ROOT), **environment}
    return subprocess.Popen(command, cwd=desk, env=own, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)


def test_a_killed_call_goes_on_with_the_missing_shards(desk: Path, cda: Callable[..., str]) -> None:
    (desk / "slow.py").write_text(SLOW, encoding="utf-8")
    written(desk / "a.jsonl", singles(20))
    process, rows = started(desk, SLOWLY="yes"), desk / "o" / "rows"
    while not (rows / "00000-000001.parquet").exists():
        assert process.poll() is None, process.communicate()[0]
        time.sleep(0.05)
    process.send_signal(signal.SIGKILL)
    process.communicate()
    names = sorted(each.name for each in rows.iterdir())
    assert names == ["00000-000000.parquet", "00000-000001.parquet"]
    before = [(rows / name).stat().st_mtime_ns for name in names]
    said = cda("slow.py:reward", "a.jsonl", "--out", "o", "--shard-rows", 5)
    assert said.startswith("20 of 20 rows scored by slow.py:reward: 4 of 4 shards")
    assert [(rows / name).stat().st_mtime_ns for name in names] == before
    assert [row["reward"] for row in scored("o")] == [float(i + 1) for i in range(20)]


def test_two_processes_of_a_launch_share_the_shards_and_one_speaks(desk: Path) -> None:
    (desk / "slow.py").write_text(SLOW, encoding="utf-8")
    written(desk / "a.jsonl", singles(20))
    both = [started(desk, RANK=str(rank), WORLD_SIZE="2", LOCAL_WORLD_SIZE="2") for rank in range(2)]
    said = [process.communicate(timeout=120)[0] for process in both]
    assert [process.returncode for process in both] == [0, 0], said
    assert said[0].startswith("20 of 20 rows scored by slow.py:reward: 4 of 4 shards\n") and said[1] == ""
    assert [row["reward"] for row in scored("o")] == [float(i + 1) for i in range(20)]
    assert {each.name for each in (desk / "o").iterdir()} == {"rows", "score.json", ".lock-1-of-2", ".lock-2-of-2"}
