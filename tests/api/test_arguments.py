"""Arguments of the wrong type, and places that cannot be written, are one clear mistake each."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import cda
from cda.api.settings import nested

ROWS = [{"id": f"c{number}", "prompt": "Why?", "response": "So.", "margin": 1.0} for number in range(3)]


def by_length(prompts: list[Any], responses: list[str]) -> list[int]:
    assert len(prompts) == len(responses)
    return [len(response) for response in responses]


def deep() -> list[Any]:
    value: list[Any] = []
    for _ in range(5000):
        value = [value]
    return value


WRONG: dict[str, tuple[Callable[[], object], str]] = {
    "confirm": (
        lambda: cda.audit(by_length, confirm="maybe"),
        "cda.audit: confirm: give True, False or 'ask'; found 'm",
    ),  # type: ignore[arg-type]
    "out": (lambda: cda.audit(by_length, out=3), "cda.audit: out: give a path; found 3"),  # type: ignore[arg-type]
    "biases": (lambda: cda.audit(by_length, biases=3), "cda.audit: biases: give a name, a path, or a list"),  # type: ignore[arg-type]
    "words": (lambda: cda.train("jargon", overrides="seed=1"), "cda.train: overrides: give a list of words"),
    "recipe": (lambda: cda.train(3), "cda.train: recipe: give a path; found 3"),  # type: ignore[arg-type]
    "sizes": (lambda: cda.best_of(by_length, ROWS, sizes=2), "cda.best_of: sizes: give a list of whole numbers"),  # type: ignore[arg-type]
    "columns": (lambda: cda.win_rate(by_length, ROWS, ROWS, columns=["x"]), "cda.win_rate: columns: give a dict"),  # type: ignore[arg-type]
    "one text": (lambda: cda.discover(by_length, attributes="uses bold"), "cda.discover: attributes: give a list"),
    "seed": (lambda: cda.dose(ROWS, ROWS, seed="x"), "cda.dose: seed: give a whole number; found 'x'"),  # type: ignore[arg-type]
    "bias": (lambda: cda.label(ROWS, 3), "cda.label: bias: give a name or a path; found 3"),  # type: ignore[arg-type]
    "path": (lambda: cda.load(None), "found None; give a path"),  # type: ignore[arg-type]
    "deep": (
        lambda: cda.label([{"prompt": "Why?", "response": deep()}], "structure"),
        "data, row 1, response: nested too deeply",
    ),
    "digits": (lambda: cda.dose([{"id": 10**5000}], ROWS), "before, row 1, id: a number of thousands of digits"),
    "section": (lambda: cda.audit(by_length, contrasts=ROWS, audit=3), "audit: give a dict of settings; found 3"),
}


@pytest.mark.parametrize("name", WRONG)
def test_a_wrong_type_is_named(name: str, elsewhere: Path) -> None:
    call, message = WRONG[name]
    with pytest.raises(cda.CdaError) as caught:
        call()
    assert str(caught.value).startswith(message)
    assert not (elsewhere / "runs" / "audit-memory-by_length").exists()


def test_rows_have_no_place_inside_a_file(small: dict[str, Any], elsewhere: Path) -> None:
    (elsewhere / "file").write_text("mine")
    with pytest.raises(cda.RunError, match=r"cannot be written .*choose another place"):
        cda.audit(by_length, out="file/run", **small)
    assert (elsewhere / "file").read_text() == "mine"


def test_a_report_of_unknown_ending_makes_no_folder(small: dict[str, Any], elsewhere: Path) -> None:
    audit = cda.audit(by_length, **small)
    with pytest.raises(cda.DataError, match=r"page \(.html\) or Markdown"):
        audit.report("new/page.pdf")
    assert not (elsewhere / "new").exists()


def test_a_preset_stays_beside_settings_of_its_section() -> None:
    assert nested({"audit": "mine", "audit.votes": "v"}) == {"audit": {"preset": "mine", "votes": "v"}}
