"""The depth eval on tiny searches: hidden biases are hidden, comparisons are paired, effort is counted."""

from __future__ import annotations

from typing import Any

import pytest


def row(strength: float, hidden: float | None) -> dict[str, Any]:
    from evals.method.discover_depth import NUMBERS

    return dict.fromkeys(NUMBERS, 1.0) | {
        "strength": strength, "kept_hidden": hidden, "first": 64, "reached": {"bold": strength > 2},
    }  # fmt: skip


def test_differences_are_paired_by_seed() -> None:
    from evals.method.discover_depth import compared

    # Seeds differ by 100, sizes by 1 to 3 within a seed: unpaired, this would be noise.
    best = [row(100.0 * seed, 0.0) for seed in range(3)]
    deep = [row(100.0 * seed + seed + 1, None if seed == 0 else 0.5) for seed in range(3)]
    found = compared({"5x16": deep, "1-proposals": best, "1-proposals, more prompts": deep})
    gain = found["minus 1-proposals"]["5x16"]["strength"]
    # 1, 2, 3: mean 2, standard error 1/√3, t(2) = 4.303.
    assert gain == pytest.approx(
        {"value": 2.0, "low": 2 - 4.303 / 3**0.5, "high": 2 + 4.303 / 3**0.5, "n": 3}, abs=1e-3
    )
    assert found["minus 1-proposals"]["5x16"]["kept_hidden"]["n"] == 2
    assert found["minus 1-proposals, more prompts"]["5x16"]["strength"]["value"] == 0
    assert set(found["minus 1-proposals"]) == {"5x16"}
    assert found["means"]["5x16"]["reached"] == {"bold": pytest.approx(2 / 3)}
    assert found["means"]["5x16"]["first"]["value"] == 64
