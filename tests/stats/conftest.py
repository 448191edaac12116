"""Fewer draws where intervals are made a hundred times over."""

from __future__ import annotations

import pytest

from cda.stats import estimators


@pytest.fixture
def few_draws(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(estimators, "N_DRAWS", 1000)
