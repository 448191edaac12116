"""Attacks on rows and texts are survived; the one that needs the model runs in the eval, and in tests/score on a small one."""

from __future__ import annotations

import importlib
from pathlib import Path

import pytest

EVALS = Path(__file__).parents[2] / "evals"


def test_every_attack_is_survived(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.syspath_prepend(str(EVALS))
    attempts = importlib.import_module("fault_rows").ATTEMPTS
    found = {}
    for number, one in enumerate(attempts):
        if one.attack.__name__ != "double_spaces":
            (folder := tmp_path / str(number)).mkdir()
            found[one.name] = one.attack(folder)
    assert len(found) == len(attempts) - 1 > 10
    assert {name: wrong for name, wrong in found.items() if wrong} == {}
