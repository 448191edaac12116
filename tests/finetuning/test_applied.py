"""A run's result: one ordinary adapter at the run's dose, and the same dose for whoever is given the run."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pytest
from made_dose import made_dose

from cda.arrays import FloatArray
from cda.errors import DataError, ModelError, RunError
from cda.finetuning import applied
from cda.finetuning.applied import asked_subjects
from cda.finetuning.train import Training, _clear
from cda.models.config import ModelSpec, Precision
from cda.models.load import load_reward_model
from cda.recipe.schema import ModelSection
from cda.results.base import save
from cda.run import RunFolder, Stage
from cda.scorers.classifier import ClassifierScorer
from cda.training.dose import DosedModel

if TYPE_CHECKING:
    from conftest import Texts, Trained


def made(path: Path, adapter: Path, base: Path, chosen: float | None, precision: Precision = "fp32") -> RunFolder:
    """A run with a training, a dose where one was chosen, and its adapter."""
    run = RunFolder(path)
    train = Stage("train", {}, {})
    shutil.copytree(adapter, run.begin(train) / "adapter")
    run.finish(train, {}, 0)
    if chosen is not None:
        dose = Stage("dose", {"chosen": chosen}, {"train": run.output_of("train")})
        save(made_dose({}, chosen), run.begin(dose) / "dose.json")
        run.finish(dose, {"chosen": chosen}, 0)
    section = ModelSection(name_or_path=str(base), precision=precision, max_length_tokens=64)
    stage = applied.stage(run, chosen, Training(42))
    run.finish(stage, applied.run(section, run, chosen, Training(42), run.begin(stage)), 0)
    return run


def scores(base: Path, adapter: Path | None, texts: Texts, precision: Precision, dose: float = 1.0) -> FloatArray:
    model = load_reward_model(ModelSpec(str(base), precision, 64), adapter)
    if adapter is not None:
        DosedModel(model).set(dose)
    return ClassifierScorer(model, 1).score(texts.prompts, texts.responses)


@pytest.mark.parametrize(
    ("chosen", "precision"),
    [(None, "fp32"), (0.0, "fp32"), (1.0, "fp32"), (1.75, "fp32"), (0.0, "8bit"), (0.5, "8bit")],
)
def test_the_run_s_adapter_scores_as_its_dose_does(
    llama: Path, trained_fp32: Trained, texts: Texts, tmp_path: Path, chosen: float | None, precision: Precision
) -> None:
    trained = trained_fp32.result.adapter
    run = made(tmp_path / "run", trained, llama, chosen, precision)
    dose = 1.0 if chosen is None else chosen
    assert applied.applied_dose(run) == dose
    assert applied.chosen_dose(run) == (None if chosen is None else made_dose({}, chosen))
    wanted = scores(llama, trained, texts, precision, dose)
    found = scores(llama, run.stage("adapter"), texts, precision)
    # In fp32 the rounding of a product of weights grows with the reward: rewards are up to 4 here.
    tolerance = 1e-5 if precision == "fp32" else 0.01 * np.ptp(wanted)
    np.testing.assert_allclose(found, wanted, rtol=1e-5, atol=tolerance)
    if dose == 0:
        np.testing.assert_allclose(found, scores(llama, None, texts, precision), atol=1e-5)
    elif dose != 1:
        plain = scores(llama, trained, texts, precision)
        assert np.abs(wanted - plain).max() > 0.05 * np.ptp(plain)  # another model than plain CDA


def test_whoever_names_a_run_gets_its_dose_and_is_told(
    llama: Path, trained_fp32: Trained, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    trained = trained_fp32.result.adapter
    run = made(tmp_path / "run", trained, llama, 0.5)
    name, model = str(run.path), ModelSection(name_or_path=str(llama))

    def asked(adapter: str, dose: float | None = None) -> tuple[Path | None, float, str]:
        subject = asked_subjects(model, adapter, dose=dose)[-1]
        return subject.adapter, subject.dose, capsys.readouterr().out.strip()

    own = run.stage("train") / "adapter"
    assert asked(name) == (own, 0.5, f"{name}: dose 0.5, as chosen in that run; --dose 1 for plain CDA")
    assert asked(name, 1.0) == (own, 1.0, "")
    # An adapter's folder is taken as it is: one as trained, and the run's result, which holds its dose.
    assert asked(str(own)) == (own, 1.0, "")
    assert asked(str(run.stage("adapter"))) == (run.stage("adapter"), 1.0, "")
    plain = made(tmp_path / "plain", trained, llama, None)
    assert asked(str(plain.path)) == (plain.stage("train") / "adapter", 1.0, "")
    left = made(tmp_path / "left", trained, llama, 0.0)
    assert asked(str(left.path))[1:] == (
        0.0,
        f"{left.path}: dose 0, as chosen in that run; --dose 1 for plain CDA (dose 0 is the base model as it was)",
    )
    with pytest.raises((DataError, ModelError), match="dose -1"):
        asked(name, -1.0)


def test_a_dose_of_an_earlier_training_is_not_taken_for_the_run_s(
    llama: Path, trained_fp32: Trained, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run = made(tmp_path / "run", trained_fp32.result.adapter, llama, 0.5)
    record = json.loads((run.path / "train" / "stage.json").read_text())
    (run.path / "train" / "stage.json").write_text(json.dumps(record | {"output": "another"}))
    assert applied.applied_dose(run) is None and applied.chosen_dose(run) is None
    assert applied.adapter_at(str(run.path), None) == (run.stage("train") / "adapter", 1.0)
    assert "settled no dose since the training, so dose 1 is taken" in capsys.readouterr().out
    shutil.rmtree(run.stage("adapter"))
    assert applied.adapter_at(str(run.path), None)[1] == 1.0


def test_a_folder_that_is_neither_is_refused(tmp_path: Path) -> None:
    with pytest.raises(RunError, match=r"neither the folder of an adapter .* nor of a run with a finished training"):
        applied.adapter_at(str(tmp_path), None)


def test_checkpoints_go_and_a_tracker_s_files_stay(tmp_path: Path) -> None:
    events = tmp_path / "checkpoints" / "runs" / "Nov22_host" / "events.out.tfevents.1"
    events.parent.mkdir(parents=True)
    events.write_bytes(b"losses")
    (tmp_path / "checkpoints" / "checkpoint-20").mkdir()
    _clear(tmp_path)
    assert (tmp_path / "logs" / "Nov22_host" / "events.out.tfevents.1").read_bytes() == b"losses"
    assert not (tmp_path / "checkpoints").exists()
    events.parent.mkdir(parents=True)  # killed here, and trained again
    (events.parent / "events.out.tfevents.2").write_bytes(b"more")
    _clear(tmp_path)
    assert len(list((tmp_path / "logs" / "Nov22_host").iterdir())) == 2
