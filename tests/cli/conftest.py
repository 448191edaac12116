"""What every test of the command line goes without."""

from __future__ import annotations

import pytest

from cda.pipeline import plan


@pytest.fixture(autouse=True)
def untried(monkeypatch: pytest.MonkeyPatch) -> None:
    """The trial of a trainer's settings imports TRL, for 10 seconds, and changes nothing here."""
    monkeypatch.setattr(plan, "check_arguments", lambda *_: None)
