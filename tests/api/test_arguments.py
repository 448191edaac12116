"""Arguments and rows that cannot be used, and places that cannot be written, are one clear mistake each."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import cda
from cda.jobs.terms import nested

ROWS = [{"id": f"c{number}", "prompt": "Why?", "response": "So.", "margin": 1.0} for number in range(3)]


def by_length(prompts: list[Any], responses: list[str]) -> list[int]:
    assert len(prompts) == len(responses)
    return [len(response) for response in responses]


def deep() -> list[Any]:
    value: list[Any] = []
    for _ in range(5000):
        value = [value]
    return value


WRONG: list[tuple[Callable[[], object], str]] = [
    (lambda: cda.label(ROWS, 3), "cda.label: bias: give a name or a path; found 3"),  # type: ignore[arg-type]
    (lambda: cda.load(None), "found None; give a path"),  # type: ignore[arg-type]
    (
        lambda: cda.label([{"prompt": "Why?", "response": deep()}], "structure"),
        "data, row 1, response: nested too deeply",
    ),
    (lambda: cda.calibrate(by_length, [{"id": 10**5000}]), "votes, row 1, id: a number of thousands of digits"),
    (lambda: cda.audit(by_length, contrasts=ROWS, audit=3), "audit: give a dict of settings; found 3"),
]


@pytest.mark.parametrize(("call", "message"), WRONG, ids=range(len(WRONG)))
def test_a_wrong_type_is_named(call: Callable[[], object], message: str, elsewhere: Path) -> None:
    with pytest.raises(cda.CdaError) as caught:
        call()
    assert str(caught.value).startswith(message)
    assert not (elsewhere / "runs" / "audit-memory-by_length").exists()


def test_rows_and_reports_have_no_place_that_cannot_hold_them(small: dict[str, Any], elsewhere: Path) -> None:
    (elsewhere / "file").write_text("mine")
    with pytest.raises(cda.RunError, match=r"cannot be written .*choose another place"):
        cda.audit(by_length, out="file/run", **small)
    assert (elsewhere / "file").read_text() == "mine"
    with pytest.raises(cda.DataError, match=r"page \(.html\) or Markdown"):
        cda.audit(by_length, **small).report("new/page.pdf")
    assert not (elsewhere / "new").exists()


def test_a_preset_stays_next_to_settings_of_its_section() -> None:
    assert nested({"audit": "mine", "audit.votes": "v"}) == {"audit": {"preset": "mine", "votes": "v"}}
