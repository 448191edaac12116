"""The exported texts come back through the ordinary loaders as what an audit measures on by itself."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from cda.cli import app
from cda.data.contrasts import clean_contrasts
from cda.data.load import load_rows
from cda.data.pairs import clean_pairs
from cda.data.triples import clean_triples
from cda.embedded.texts import (
    EMBEDDED_BIASES,
    audit_contrasts,
    authored_contrasts,
    authored_pairs,
    authored_triples,
    export,
    tables,
)
from cda.errors import RunError


@pytest.mark.parametrize(("form", "ending"), [("jsonl", ".jsonl"), ("datasets", "")])
def test_a_round_trip_loses_nothing(form: str, ending: str, tmp_path: Path) -> None:
    out = tmp_path / "texts"
    done = CliRunner().invoke(app, ["texts", str(out), "--format", form])
    assert done.exit_code == 0, done.output
    assert "700 contrasts" in done.output
    for name, expected in (("contrasts", audit_contrasts()), ("lessons", authored_contrasts("lessons"))):
        found = clean_contrasts(load_rows(str(out / f"{name}{ending}")), EMBEDDED_BIASES, {}, name)
        assert found.exclusions.dropped == 0
        assert [one.id for one in found.contrasts] == [one.id for one in expected]
        assert [one.tags["direction"] for one in found.contrasts] == [one.tags["direction"] for one in expected]
    triples = clean_triples(load_rows(str(out / f"triples{ending}")), EMBEDDED_BIASES, {}, "triples")
    assert triples.exclusions.dropped == 0
    assert list(triples.triples) == [one.triple for one in authored_triples()]
    for part in ("quality", "train"):
        pairs = clean_pairs(load_rows(str(out / f"{part}{ending}")))
        assert [one.id for one in pairs.pairs] == [one.pair.id for one in authored_pairs(part)]  # type: ignore[arg-type]
    assert "CC BY 4.0" in (out / "README.md").read_text(encoding="utf-8")
    items = {row["item"] for name in tables() if name != "readings" for row in load_rows(str(out / f"{name}{ending}"))}
    assert {
        "audit-007-vagueness",
        "shown-length-001",
        "quality-012",
        "train-001",
        "narrow-001",
        "audit-001-length-back",
    } <= items
    readings = load_rows(str(out / f"readings{ending}"))
    assert len(readings) == 2757
    assert {row["id"] for row in readings} <= items
    refused = CliRunner().invoke(app, ["audit", "embedded", "--contrasts", str(out), "--out", str(tmp_path / "run")])
    assert f"{out / 'contrasts'}{ending}" in refused.output.replace("\n", "")


def test_an_edited_row_of_the_export_says_so(tmp_path: Path) -> None:
    """Swapped sides with the old id: votes on the old text are unmatched, and the notice counts the row."""
    export(tmp_path / "texts", "jsonl")
    rows = [dict(row) for row in load_rows(str(tmp_path / "texts" / "contrasts.jsonl")) if row["bias"] == "jargon"][:6]
    rows[0] |= {"base": rows[0]["perturbed"], "perturbed": rows[0]["base"]}
    (tmp_path / "edited.jsonl").write_text("\n".join(map(json.dumps, rows)), encoding="utf-8")
    votes = "".join(f"{row['id']},base\n" for row in rows)
    (tmp_path / "votes.csv").write_text(f"id,vote\n{votes}", encoding="utf-8")
    (tmp_path / "mine.py").write_text("def score(prompts, responses):\n    return [len(one) for one in responses]\n")
    words = [
        "audit",
        f"{tmp_path / 'mine.py'}:score",
        "--bias",
        "jargon",
        "--contrasts",
        str(tmp_path / "edited.jsonl"),
    ]
    words += ["--votes", str(tmp_path / "votes.csv"), "--quality", "none", "--out", str(tmp_path / "out")]
    done = CliRunner().invoke(app, words)
    assert done.exit_code == 0, done.output
    assert "1 of 6 rows carry an id that was made from other text" in " ".join(done.output.split())
    found = json.loads((tmp_path / "out" / "audit" / "audit.json").read_text(encoding="utf-8"))
    assert found["votes_unmatched"] == 1
    assert found["excluded"]["ids of contrasts"]["reasons"] == {"made from other text": 1}


def test_datasets_finds_the_tables_by_name(tmp_path: Path) -> None:
    from datasets import load_dataset

    export(tmp_path / "texts", "jsonl")
    found = load_dataset(str(tmp_path / "texts"), "quality", split="train", cache_dir=str(tmp_path / "cache"))
    assert len(found) == len(authored_pairs("quality"))
    assert {"prompt", "chosen", "rejected", "flaw", "item"} <= set(found.column_names)
    read = load_dataset(str(tmp_path / "texts"), "readings", split="train", cache_dir=str(tmp_path / "cache"))
    assert len(read) == 2757


def test_nothing_is_overwritten(tmp_path: Path) -> None:
    (tmp_path / "mine.txt").write_text("mine", encoding="utf-8")
    with pytest.raises(RunError, match="not empty"):
        export(tmp_path, "jsonl")
    asked = CliRunner().invoke(app, ["texts", str(tmp_path / "new"), "--format", "xml"])
    assert asked.exit_code != 0
    assert not (tmp_path / "new").exists()
