"""A measure of models against people that exists nowhere but here: one entry of the table, in two units."""

from __future__ import annotations

from typing import get_args

import numpy as np
import pytest

from cda.numbers.measures import MEASURES, Place, VotedRows, of_votes


def lost_margin(rows: VotedRows) -> np.ndarray:
    """The margin on rows on which model and people disagree, else 0."""
    return np.abs(rows.margins * (rows.hits - rows.target))


def preferred_alone(rows: VotedRows) -> np.ndarray:
    """1 where the model prefers the biased side and people do not."""
    return rows.hits * (1 - rows.target)


@pytest.fixture(params=["reward", "share"])
def made_up(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """Its unit."""
    values = {"reward": lost_margin, "share": preferred_alone}[request.param]
    entry = of_votes(
        "lost", title="lost to people", unit=request.param, against=values, places=get_args(Place), term="lost to people",
        formula="a formula", meaning="A meaning.", caption="Lost: what people would not have given",
    )  # fmt: skip
    monkeypatch.setitem(MEASURES, "lost", entry)
    return str(request.param)
