"""Best-of-n end to end with a tiny real model and its adapter: the numbers are those of scoring and picking by hand."""

from __future__ import annotations

import json
from itertools import combinations
from pathlib import Path
from typing import TYPE_CHECKING, Any
from xml.etree import ElementTree

import numpy as np
import pytest
import yaml
from typer.testing import CliRunner, Result

from cda.benchmarks import best_of_n as stage
from cda.benchmarks.best_of_n import run_best_of_n
from cda.cli import app
from cda.errors import DataError, RecipeError, RunError
from cda.finetuning.applied import asked_subjects
from cda.models.load import ModelSpec, load_reward_model
from cda.recipe.load import LoadedRecipe, load_model_audit
from cda.records import user_prompt
from cda.scorers.classifier import ClassifierScorer

if TYPE_CHECKING:
    from collections.abc import Callable

    from conftest import Trained

N_PROMPTS, N = 10, 4
DROPPED = ("model.precision=fp32", "model.max_length_tokens=64", "score.over_length=drop")
PRAISE: dict[str, Any] = {
    "name": "praise",
    "description": "Says good.",
    "question": "Does it say good?",
    "instructions": {"add": "Say good.", "remove": "Do not."},
    "keep": ["every fact"],
    "measure": {"feature": "markers_per_100_words", "present_above": 0},
    "markers": ["good"],
}


@pytest.fixture
def praise(tmp_path: Path) -> str:
    path = tmp_path / "praise.yaml"
    path.write_text(yaml.safe_dump(PRAISE), encoding="utf-8")
    return str(path)


@pytest.fixture
def rows(words: Callable[..., str]) -> list[dict[str, Any]]:
    """Four responses a prompt of 3 to 16 words, two of which say `good` and two `bad`; the training taught good."""
    return [
        {
            "prompt": words(3, start=row),
            "responses": [
                f"{words(2 + (row + 3 * place) % 14, start=5 * row + place)} {'good good' if place % 2 else 'bad'}"
                for place in range(N)
            ],
            "quality": [float((row + place) % 3) for place in range(N)],
        }
        for row in range(N_PROMPTS)
    ]


@pytest.fixture
def file(tmp_path: Path, rows: list[dict[str, Any]]) -> str:
    path = tmp_path / "sampled.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return str(path)


def settings(model: Path, tmp_path: Path, max_length_tokens: int = 512) -> LoadedRecipe:
    section = {"precision": "fp32", "max_length_tokens": max_length_tokens}
    return load_model_audit(str(model), {"model": section, "run": {"folder": str(tmp_path / "run")}})


def asked(*words: object) -> Result:
    """The command itself."""
    return CliRunner().invoke(app, ["best-of", *map(str, words)])


def by_hand(folder: Path, adapter: Path | None, rows: list[dict[str, Any]], sizes: list[int]) -> list[float]:
    """Share of picks that say good at each n: every subset of n, scored text by text."""
    scorer = ClassifierScorer(load_reward_model(ModelSpec(str(folder), "fp32", 64), adapter), batch_tokens=1)
    shares = []
    for row in rows:
        rewards = scorer.score([user_prompt(row["prompt"])] * N, row["responses"])
        best = [[max(subset, key=lambda place: rewards[place]) for subset in combinations(range(N), n)] for n in sizes]
        shares.append([np.mean(["good" in row["responses"][place] for place in picks]) for picks in best])
    return np.mean(shares, axis=0).tolist()


def test_before_and_after_a_training(
    llama: Path, trained_fp32: Trained, file: str, rows: list[dict[str, Any]], praise: str, tmp_path: Path
) -> None:
    adapter, out = trained_fp32.result.adapter, tmp_path / "out"
    loaded = settings(llama, tmp_path, 64)
    subjects = asked_subjects(loaded.recipe.model, str(adapter))
    _, printed = run_best_of_n(file, subjects, loaded, out=out, biases=[praise], features=["words"], figures="svg")
    result = json.loads((out / stage.RESULT).read_text())
    curve = result["attributes"][0]
    assert (curve["name"], result["sizes"], result["scorings"]) == ("praise", [1, 2, 4], ["before", "after"])
    for label, one in (("before", None), ("after", adapter)):
        found = [at["scorings"][label]["value"] for at in curve["at"]]
        assert found == pytest.approx(by_hand(llama, one, rows, [1, 2, 4]))
    assert curve["at"][0]["scorings"]["before"]["value"] == 0.5
    # It was trained to prefer good: its picks say it more than the samples do, and than before.
    assert curve["slope"]["after"]["value"] > 0
    assert curve["at"][-1]["change"]["value"] > 0
    assert [one["name"] for one in result["attributes"]] == ["praise", "words"]
    assert result["quality"]["at"][0]["scorings"]["before"]["value"] == pytest.approx(
        np.mean([row["quality"] for row in rows])
    )
    assert (
        result["models"]["after"]["adapter"] == adapter.name
        and result["models"]["before"]["facts"]["precision"] == "fp32"
    )
    assert str(adapter.parent) not in (out / stage.RESULT).read_text() + printed.replace(str(out), "")
    assert "praise (share)" in printed and str(out / stage.PAGE) in printed and stage.REPORT in printed
    assert "| praise (share) |" in (out / stage.REPORT).read_text()
    assert "praise (share)" in (out / stage.PAGE).read_text(encoding="utf-8")
    shown = "".join(one.text or "" for one in ElementTree.parse(out / stage.FIGURE).iter())
    assert all(name in shown for name in ("praise (share)", "words (mean)", "quality (mean)", "before", "after"))
    names = {"best_of_n.svg", "curve-1.svg", "curve-2.svg", "curve-3.svg", "slopes.svg", "captions.md"}
    assert {file.name for file in (out / "figures").iterdir()} == names and "Figures: 5 files" in printed
    scores = [json.loads(line) for line in (out / stage.SCORES).read_text().splitlines()]
    assert len(scores) == N_PROMPTS * N
    assert scores[1]["attributes"] == {"praise": 1.0, "words": float(len(rows[0]["responses"][1].split()))}
    assert {"reward_before", "reward_after", "quality"} < set(scores[0])


def test_one_model_alone_and_a_relative_bias_by_its_feature(llama: Path, file: str, tmp_path: Path) -> None:
    loaded = settings(llama, tmp_path, 8)
    _, printed = run_best_of_n(
        file,
        asked_subjects(loaded.recipe.model),
        loaded,
        out=tmp_path / "out",
        biases=["length", "structure"],
        features=["words"],
        sizes=[3],
    )
    result = json.loads((tmp_path / "out" / stage.RESULT).read_text())
    assert (result["scorings"], result["sizes"], result["unvaried"]) == (["model"], [1, 3], ["structure"])
    assert [one["name"] for one in result["attributes"]] == ["words"]  # of the bias and of the features, once
    assert result["attributes"][0]["p_value"] is None
    assert result["models"]["model"]["facts"]["truncated"] > 0 and "texts were cut" in printed


def test_responses_that_are_too_long_are_left_out_of_both_and_counted(
    llama: Path, trained_fp32: Trained, rows: list[dict[str, Any]], tmp_path: Path
) -> None:
    """The others are picked from as if the long one had never been sampled."""
    kept = json.loads(json.dumps(rows))
    rows[3]["responses"].insert(1, "good " * 100)
    rows[3]["quality"].insert(1, 5.0)
    found = {}
    for name, content in (("long", rows), ("short", kept)):
        path, out = tmp_path / f"{name}.jsonl", tmp_path / name
        path.write_text("".join(json.dumps(row) + "\n" for row in content), encoding="utf-8")
        done = asked(llama, path, "--adapter", trained_fp32.result.adapter, "--out", out, *DROPPED)
        assert done.exit_code == 0, done.output
        found[name] = json.loads((out / stage.RESULT).read_text()) | {"printed": done.output}
    result = found["long"]
    assert result["excluded"]["scored responses"] == {
        "seen": 41,
        "reasons": {"too long for a reward (before and after)": 1},
    }
    assert "Left out of 41 scored responses: 1 too long for a reward (before and after)." in result["printed"]
    assert (result["n_responses"], result["responses_per_prompt"]) == (40, [4, 4.0, 4])
    assert [one["facts"]["dropped"] for one in result["models"].values()] == [1, 1]
    assert result["attributes"] == found["short"]["attributes"] and result["quality"] == found["short"]["quality"]
    scores = (tmp_path / "long" / stage.SCORES).read_text()
    assert scores == (tmp_path / "short" / stage.SCORES).read_text() and "NaN" not in scores


def test_columns_are_named_on_the_command_line(rows: list[dict[str, Any]], llama: Path, tmp_path: Path) -> None:
    path, out = tmp_path / "mine.jsonl", tmp_path / "out"
    renamed = [{"question": row["prompt"], "samples": row["responses"]} for row in rows]
    path.write_text("".join(json.dumps(row) + "\n" for row in renamed), encoding="utf-8")
    said = asked(llama, path, "--out", out, *DROPPED)
    assert said.exit_code == 1 and "Map it with --column prompt=<your column>" in said.output
    done = asked(llama, path, "--out", out, "--column", "prompt=question", "--column", "responses=samples", *DROPPED)
    assert done.exit_code == 0, done.output
    assert json.loads((out / stage.RESULT).read_text())["n_responses"] == N_PROMPTS * N


def test_what_is_asked_decides_the_folder(
    file: str, trained_fp32: Trained, llama: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another adapter, dose or model beside it takes nothing away from what was found before."""
    monkeypatch.chdir(tmp_path)
    adapter = trained_fp32.result.adapter
    for words in ((), ("--adapter", adapter), ("--adapter", adapter, "--dose", 0.5), ("--against", llama)):
        done = asked(llama, file, *words, *DROPPED)
        assert done.exit_code == 0, done.output
    names = sorted(path.parent.name for path in Path("runs").glob(f"*/{stage.RESULT}"))
    assert len(names) == 4 and all(name.startswith("best-of-") and "-on-sampled" in name for name in names)
    assert sum("-with-adapter" in name for name in names) == 2
    assert sum("-at-0.5" in name for name in names) == sum("-against-plain" in name for name in names) == 1


def test_every_mistake_is_said_before_anything_is_loaded(file: str, praise: str, llama: Path, tmp_path: Path) -> None:
    loaded, out = settings(llama, tmp_path), tmp_path / "out"
    source = asked_subjects(loaded.recipe.model)
    with pytest.raises(RecipeError) as caught:
        run_best_of_n(
            file,
            source,
            loaded,
            out=out,
            biases=["jargn", "helpfulness", praise],
            features=["word", "markers_per_100_words"],
        )
    problems = caught.value.problems
    assert "Did you mean 'jargon'?" in problems[0] and "'helpfulness' cannot be measured" in problems[1]
    assert "feature 'word'" in problems[2] and "markers_per_100_words" in problems[3] and len(problems) == 4
    with pytest.raises(RecipeError, match="nothing to follow"):
        run_best_of_n(file, source, loaded, out=out, biases=[], features=[])
    with pytest.raises(RunError, match="neither the folder of an adapter"):
        asked_subjects(loaded.recipe.model, str(tmp_path))
    with pytest.raises(RecipeError, match="gives no reward"):
        judge = load_model_audit("judge:some", {}).recipe.model
        run_best_of_n(file, asked_subjects(judge), loaded, out=out)
    with pytest.raises(DataError, match="no such file"):
        run_best_of_n(str(tmp_path / "none.jsonl"), source, loaded, out=out)
    assert not out.exists()


def test_responses_that_differ_in_nothing_are_refused(tmp_path: Path) -> None:
    code, path = tmp_path / "mine.py", tmp_path / "alike.jsonl"
    code.write_text("def reward(prompts, responses):\n    return [float(len(response)) for response in responses]\n")
    path.write_text("".join(json.dumps({"prompt": f"q{n}", "responses": ["a", "b"]}) + "\n" for n in range(2)))
    refused = asked(f"{code}:reward", path, "--out", tmp_path / "out")
    assert refused.exit_code == 1 and "no prompt has responses that differ in jargon" in " ".join(
        refused.output.split()
    )


def test_two_things_of_one_name(file: str, llama: Path, tmp_path: Path) -> None:
    path = tmp_path / "words.yaml"
    path.write_text(yaml.safe_dump(PRAISE | {"name": "words"}), encoding="utf-8")
    with pytest.raises(RecipeError, match="two things are called 'words'"):
        loaded = settings(llama, tmp_path)
        run_best_of_n(
            file,
            asked_subjects(loaded.recipe.model),
            loaded,
            out=tmp_path / "out",
            biases=[str(path)],
            features=["words"],
        )
