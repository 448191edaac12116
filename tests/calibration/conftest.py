"""Fewer draws than a calibration takes: intervals are tested for their side, not their third digit."""

from __future__ import annotations

import pytest

from cda.calibration import calibrate


@pytest.fixture(autouse=True)
def few_draws(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(calibrate, "N_DRAWS", 100)
