"""Audits of every kind, as fixtures."""

from __future__ import annotations

from typing import Any

import made_audits
import pytest

audit, voted, one_model, judge, hostile = map(made_audits.fixture_of, made_audits.KINDS)


@pytest.fixture
def make_audit() -> Any:
    """Builds an audit."""
    return made_audits.make_audit
