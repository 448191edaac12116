"""The evals' own machinery: the simulated world has the effect it plants, levels keep their margins, failures count."""

from __future__ import annotations

import importlib
import json
from pathlib import Path

import numpy as np
import pytest

EVALS = Path(__file__).parent.parent.parent / "evals"


def test_a_world_has_its_planted_effect_and_misleads_the_others() -> None:
    from cda.stats.rate import effect
    from evals.method.simulated_world import World, draw

    sample = draw(World(), np.random.default_rng(0), 20_000, 3).contrasts()
    assert effect(sample).estimate.value == pytest.approx(0.5, abs=0.02)
    # ξ: half of the rows gain 0.8 − 0.4, the other half 0.4 − 0.
    assert effect(sample, "ATE", "single").estimate.value == pytest.approx(0.5 + 0.4, abs=0.02)
    assert effect(sample, "ATE", "naive").estimate.value > 1.5


def test_a_missed_threshold_ends_with_a_failing_status(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    from evals import shared as outcome

    monkeypatch.setattr(outcome, "ROOT", tmp_path)
    (tmp_path / "evals").mkdir()
    missed = [outcome.Check("a", "1", True), outcome.Check("b", "2", False)]
    assert outcome.finish("x", "Claim: y.", missed, {"n": 3}) == 1
    written = json.loads((tmp_path / "evals" / "results" / "x.json").read_text())
    assert written["passed"] is False and written["numbers"] == {"n": 3} and len(written["date"]) == 10
    assert "FAILED  b" in capsys.readouterr().out
    assert outcome.finish("x", "Claim: y.", missed[:1], {}) == 0
    assert outcome.finish("x", "Claim: y.", [], {}) == 1  # nothing checked is nothing shown


def test_every_triple_counts_by_its_readers() -> None:
    from evals.method.flip_rates import triple_cells

    cells = triple_cells()
    assert len(cells) == 10 and all(len(one.hits) == 40 for one in cells.values())
    assert sum(sum(one.hits) for one in cells.values()) == 399


def test_every_eval_finds_what_it_takes_from_the_package() -> None:
    names = [file.relative_to(EVALS.parent).with_suffix("").parts for file in EVALS.rglob("*.py")]
    assert len(names) > 50
    for name in names:
        importlib.import_module(".".join(name))
