"""`cda.train` from Python; the notebook runs a whole job, and tests/pipeline/test_pipeline.py reads one again."""

from __future__ import annotations

from typing import Any

import pytest

import cda


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
