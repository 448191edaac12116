"""`--only` refuses stages made from another recipe; a second corpus shares the split; checking spends nothing."""

from __future__ import annotations

import json
from pathlib import Path

from typer.testing import CliRunner

from cda.cli import app
from cda.counterfactuals import label
from cda.recipe.load import load_recipe
from cda.records import prompt_id
from cda.resources.artifacts import read_labelled


def write_pairs(path: Path, numbers: range) -> Path:
    rows = [{"prompt": f"Question {n}?", "chosen": f"Yes, {n} it is.", "rejected": "No idea."} for n in numbers]
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return path


def test_only_refuses_stages_of_another_recipe(tmp_path: Path) -> None:
    folder = f"run.folder={tmp_path / 'run'}"
    runner = CliRunner()
    assert runner.invoke(app, ["label", "jargon", folder]).exit_code == 0
    result = runner.invoke(app, ["synthesize", "jargon", folder, "data.max_pairs=5", "--only"])
    assert result.exit_code == 1
    assert "stage 'label' does not fit this recipe (data.max_pairs: not set → 5)" in result.stderr
    assert runner.invoke(app, ["synthesize", "jargon", folder, "--only"]).exit_code == 0


def test_a_prompt_of_both_corpora_is_on_one_side(tmp_path: Path) -> None:
    pairs, supplement = write_pairs(tmp_path / "a.jsonl", range(40)), write_pairs(tmp_path / "b.jsonl", range(10, 22))
    loaded = load_recipe(
        "jargon", [f"data.pairs={pairs}", f"data.supplement={supplement}", "data.validation_share=0.4"]
    )
    label.run(loaded, tmp_path)
    first = {prompt_id(row.pair.prompt): row.split for row in read_labelled(tmp_path / label.PAIRS)}
    second = {prompt_id(row.pair.prompt): row.split for row in read_labelled(tmp_path / label.SUPPLEMENT)}
    assert len(second) == 12 and set(first.values()) == {"train", "validation"}
    assert all(first[name] == split for name, split in second.items())
