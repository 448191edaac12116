"""Rows in memory that cannot be used: said in Python's words, and no file is left behind."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import cda

ROWS = [{"prompt": f"Why {n}?", "a": "So.", "b": "So it is."} for n in range(20)]


def score(_: list[Any], responses: list[str]) -> list[float]:
    return [float(len(response)) for response in responses]


CALLS: list[tuple[Callable[[], object], str, str]] = [
    (lambda: cda.audit(score, contrasts=ROWS, biases="length"), "contrasts", 'audit={"columns": {"<name>": "<your column>"}}'),
    (lambda: cda.audit(score, triples=ROWS, biases="length"), "triples", 'audit={"triple_columns": {"original": "<your column>"}}'),
    (lambda: cda.audit(score, quality=ROWS, biases="length"), "quality pairs", 'audit={"quality_columns": {"chosen": "<your column>"}}'),
    (lambda: cda.train("jargon", pairs=ROWS), "pairs", 'data={"columns": {"chosen": "<your column>"}}'),
    (lambda: cda.best_of(score, ROWS), "responses", 'columns={"responses": "<your column>"}'),
    (lambda: cda.audit_data(ROWS), "pairs", 'columns={"chosen": "<your column>"}'),
]  # fmt: skip


@pytest.mark.parametrize(("call", "name", "mapped"), CALLS, ids=range(len(CALLS)))
def test_rows_without_their_columns(call: Callable[[], object], name: str, mapped: str, elsewhere: Path) -> None:
    with pytest.raises(cda.CdaError) as raised:
        call()
    said = str(raised.value)
    assert said.startswith(f"the given {name}: ") and mapped in said and ".jsonl" not in said and "=<" not in said
    assert not (elsewhere / "runs").exists()


def test_the_advice_works_and_files_of_an_earlier_call_stay(elsewhere: Path) -> None:
    how: Any = {"biases": "length", "quality": "none", "triples": "none", "progress": False}
    audit = cda.audit(score, contrasts=ROWS, audit={"columns": {"base": "a", "perturbed": "b"}}, **how)
    assert audit.skew["length"].before.value == 1.0
    (file,) = (elsewhere / "runs" / "inputs").iterdir()
    with pytest.raises(cda.CdaError, match="the given contrasts: needs the columns"):
        cda.audit(score, contrasts=ROWS, **how)
    assert file.is_file()


def test_a_file_keeps_its_name(elsewhere: Path) -> None:
    (elsewhere / "mine.csv").write_text("prompt,a,b\nWhy?,So.,So it is.\n", encoding="utf-8")
    with pytest.raises(cda.CdaError, match=r"^mine\.csv: needs the columns base and perturbed"):
        cda.audit(score, contrasts="mine.csv", biases="length")


def test_a_command_of_another_name_is_told() -> None:
    with pytest.raises(AttributeError, match=r"use audit_data\(pairs\)"):
        cda.__getattr__("data")
