"""Contrasts with a planted human preference, and what people would send back who answer in a given way."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Callable, Iterable, Mapping
from itertools import cycle
from pathlib import Path
from typing import Any

from typer.testing import CliRunner, Result

from cda.cli import app

N_ITEMS = 20
TOPICS = ("kettles", "violins", "glaciers", "passports", "tulips", "engines", "comets", "wallets", "bridges", "lentils")
Choose = Callable[[str, Mapping[str, Any], int], str]
"""Participant, item of the key, and the text that stands as A: to A, B or tie."""


def contrast_rows(n: int = N_ITEMS) -> list[dict[str, Any]]:
    """Contrasts on ten subjects that share no words."""
    return [
        {"id": f"c{at}", "bias": "jargon", "prompt": f"What should anybody know about {topic}, part {at}?",
         "base": f"Plain words on {topic}, number {at}.", "perturbed": f"Leveraged {topic} synergy, number {at}."}
        for at, topic in zip(range(n), cycle(TOPICS), strict=False)
    ]  # fmt: skip


def write_rows(path: Path, rows: list[dict[str, Any]]) -> Path:
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return path


def cda(*words: object) -> Result:
    return CliRunner().invoke(app, [str(word) for word in words])


def key_of(folder: Path) -> dict[str, dict[str, Any]]:
    """Items of the key by their id."""
    return {one["id"]: one for one in json.loads((folder / "key.json").read_text(encoding="utf-8"))["items"]}


def filled(folder: Path, participants: Iterable[str], choose: Choose) -> list[dict[str, str]]:
    """Rows of items.csv as these participants give them back, were each item answered as `choose` says."""
    text = (folder / "items.csv").read_text(encoding="utf-8-sig")
    rows = list(csv.DictReader(io.StringIO(text, newline="")))
    shown = json.loads((folder / "key.json").read_text(encoding="utf-8"))["participants"]
    a_of = {(code, task["item"]): task["a"] for code, given in shown.items() for task in given}
    key, wanted = key_of(folder), set(participants)
    return [
        row | {"choice": choose(code, key[row["item"]], a_of[code, row["item"]]), "seconds": "12"}
        for row in rows
        if (code := row["participant"]) in wanted
    ]


def write_table(path: Path, rows: list[dict[str, str]], delimiter: str = ",") -> Path:
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.DictWriter(file, rows[0].keys(), delimiter=delimiter)
        writer.writeheader()
        writer.writerows(rows)
    return path


def for_side(item: Mapping[str, Any], a: int, side: str) -> str:
    """The choice that prefers a side of a contrast; the right answer of an attention check."""
    if item["right"] is not None:
        return "A" if item["right"] == a else "B"
    wanted = item["perturbed"] if side == "perturbed" else 1 - item["perturbed"]
    return "A" if wanted == a else "B"


def planted(_participant: str, item: Mapping[str, Any], a: int) -> str:
    """People prefer the perturbed side of the first five contrasts, and the base of the others."""
    number = int(item["contrast"][1:]) if item["contrast"] else 0
    return for_side(item, a, "perturbed" if number < 5 else "base")
