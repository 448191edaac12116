"""Attacks on rows and texts are survived."""

from __future__ import annotations

import importlib
from pathlib import Path


def test_every_attack_is_survived(tmp_path: Path) -> None:
    """The attack that needs the model runs in the eval."""
    attempts = importlib.import_module("evals.reliability.fault_rows").ATTEMPTS
    found = {}
    for number, one in enumerate(attempts):
        if one.attack.__name__ != "double_spaces":
            (folder := tmp_path / str(number)).mkdir()
            found[one.name] = one.attack(folder)
    assert len(found) == len(attempts) - 1 > 10
    assert {name: wrong for name, wrong in found.items() if wrong} == {}
