"""`cda.train`: the whole job from Python."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import cda

SMALL: dict[str, Any] = {
    "data": {"max_pairs": 12},
    "audit": {"max_contrasts": 4, "max_quality": 4, "triples": None},
    "model": {"preset": "embedded", "max_length_tokens": 48, "precision": "fp32"},
    "train": {"num_train_epochs": 1, "per_device_train_batch_size": 4, "eval_steps": 2, "save_steps": 2},
}


def test_a_training_gives_an_adapter_an_audit_and_a_run_that_can_be_read_again(tmp_path: Path) -> None:
    run = cda.train("jargon", out=tmp_path / "run", progress=False, **SMALL)
    assert (run.adapter / "adapter_config.json").is_file() and run.folder == tmp_path / "run"
    change = run.audit.skew["jargon"].change
    assert isinstance(change, cda.Estimate) and change.n == 4
    again = cda.load(run.folder)
    assert isinstance(again, cda.Run)
    assert again.audit.model_dump() == run.audit.model_dump() and again.training.steps == run.training.steps > 0
    run.audit.report("page.html")
    assert Path("page.html").read_text() == (run.folder / "report" / "report.html").read_text()


def test_only_names_are_trained_and_mistakes_come_at_once() -> None:
    with pytest.raises(cda.RecipeError, match="a training loads its model by name or folder"):
        cda.train("jargon", model=object())  # type: ignore[arg-type]
    with pytest.raises(cda.RecipeError, match=r"(?s)lora\.rr: unknown key.*train\.learning_rat"):
        cda.train("jargon", lora={"rr": 1}, train={"learning_rat": 1})
    with pytest.raises(cda.DataError, match="pairs, row 2: found text"):
        cda.train("jargon", pairs=[{"prompt": "a", "chosen": "b", "rejected": "c"}, "d"])  # type: ignore[list-item]


def test_a_model_by_name_keeps_its_other_settings(monkeypatch: pytest.MonkeyPatch) -> None:
    from cda.api import runs

    seen: list[dict[str, Any]] = []

    def read(_: str, __: tuple[str, ...], settings: dict[str, Any], ___: str) -> None:
        seen.append(settings)
        raise cda.RecipeError(["read"])

    monkeypatch.setattr(runs, "load_recipe", read)
    with pytest.raises(cda.RecipeError, match="read"):
        cda.train("jargon", model="org/model", biases="length", **{"model.precision": "fp32"})
    assert seen[0] == {"model": {"name_or_path": "org/model", "precision": "fp32"}, "biases": ["length"]}
