"""Best-of-n end to end with a tiny real model and its adapter: the numbers are those of scoring and picking by hand."""

from __future__ import annotations

import copy
import json
from collections.abc import Callable
from itertools import combinations
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
import yaml

from cda.benchmarks.best_of_n import run_best_of_n
from cda.errors import DataError, ModelError, RecipeError
from cda.finetuning.applied import asked_subjects
from cda.models.config import ModelSpec
from cda.models.load import load_reward_model
from cda.recipe.load import load_model_audit
from cda.records import user_prompt
from cda.scorers.classifier import ClassifierScorer

if TYPE_CHECKING:
    from conftest import Trained

N_PROMPTS, N = 10, 4
SETTINGS = ("model.precision=fp32", "model.max_length_tokens=64")
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


def result_in(out: Path) -> Any:
    return json.loads((out / "best_of_n.json").read_text())


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
    llama: Path,
    trained_fp32: Trained,
    write: Callable[..., Path],
    rows: list[dict[str, Any]],
    praise: str,
    tmp_path: Path,
) -> None:
    adapter, out = trained_fp32.result.adapter, tmp_path / "out"
    loaded = load_model_audit(str(llama), {"run": {"folder": str(tmp_path / "run")}}, SETTINGS)
    subjects = asked_subjects(loaded.recipe.model, str(adapter))
    file = str(write("sampled", rows))
    done = run_best_of_n(file, subjects, loaded, out=out, biases=[praise], features=["words"], figures="svg")
    result = result_in(out)
    curve = result["attributes"][0]
    assert (curve["name"], result["sizes"], result["scorings"]) == ("praise", [1, 2, 4], ["before", "after"])
    for label, applied in (("before", None), ("after", adapter)):
        found = [at["scorings"][label]["value"] for at in curve["at"]]
        assert found == pytest.approx(by_hand(llama, applied, rows, [1, 2, 4]))
    # It was trained to prefer good: its picks say it more than the samples do, and than before.
    assert curve["slope"]["after"]["value"] > 0 and curve["at"][-1]["change"]["value"] > 0
    mean_quality = np.mean([row["quality"] for row in rows])
    assert result["quality"]["at"][0]["scorings"]["before"]["value"] == pytest.approx(mean_quality)
    assert result["models"]["after"]["adapter"] == adapter.name
    assert str(adapter.parent) not in json.dumps(result) + done.summary.replace(str(out), "")
    assert {file.name for file in (out / "figures").iterdir()} == {"captions.md", "best_of_n.svg", "tilt.svg"}
    tilt, praised = result["tilt"], result["tilt"]["attributes"][0]
    assert (praised["name"], praised["sampled"]["value"]) == ("praise", 0.5) and tilt["n_prompts"] == N_PROMPTS
    strongest = praised["at"][tilt["strongest"]]
    assert strongest["scorings"]["after"]["value"] > strongest["scorings"]["before"]["value"]
    scores = [json.loads(line) for line in (out / "scores.jsonl").read_text().splitlines()]
    assert len(scores) == N_PROMPTS * N and {"reward_before", "reward_after", "quality"} < set(scores[0])
    assert scores[1]["attributes"] == {"praise": 1.0, "words": float(len(rows[0]["responses"][1].split()))}


def test_responses_that_are_too_long_are_left_out_of_both_and_counted(
    llama: Path, trained_fp32: Trained, rows: list[dict[str, Any]], write: Callable[..., Path], cda: Callable[..., str],
    tmp_path: Path,
) -> None:  # fmt: skip
    """The others are picked from as if the long one had never been sampled."""
    long = copy.deepcopy(rows)
    long[3]["responses"].insert(1, "good " * 100)
    long[3]["quality"].insert(1, 5.0)
    adapter, found, said = trained_fp32.result.adapter, {}, {}
    columns = ("--column", "prompt=question", "--column", "responses=samples")
    for name, content in (("long", long), ("short", rows)):
        file = write(
            name,
            ({"question": row["prompt"], "samples": row["responses"], "quality": row["quality"]} for row in content),
        )
        words = ("--adapter", adapter, "--out", tmp_path / name, *columns, *SETTINGS, "score.over_length=drop")
        cda("best-of", llama, file, *words)
        said[name] = (tmp_path / name / "best_of_n.md").read_text(encoding="utf-8")
        found[name] = result_in(tmp_path / name)
    result, reason = found["long"], "too long for the model (before and after)"
    assert result["excluded"]["scored responses"] == {"seen": 41, "reasons": {reason: 1}}
    assert f"Left out of 41 scored responses: 1 {reason}." in said["long"]
    assert (result["n_responses"], result["responses_per_prompt"]) == (40, [4, 4.0, 4])
    assert [model["facts"]["dropped"] for model in result["models"].values()] == [1, 1]
    assert result["attributes"] == found["short"]["attributes"] and result["quality"] == found["short"]["quality"]
    scores = (tmp_path / "long" / "scores.jsonl").read_text()
    assert scores == (tmp_path / "short" / "scores.jsonl").read_text() and "NaN" not in scores


def test_every_mistake_is_said_before_anything_is_loaded(
    rows: list[dict[str, Any]], write: Callable[..., Path], praise: str, longer: str, tmp_path: Path
) -> None:
    loaded, out, file = load_model_audit(longer, {}), tmp_path / "out", str(write("sampled", rows))
    subjects = asked_subjects(loaded.recipe.model)
    names, features = ["jargn", "helpfulness", praise], ["word", "markers_per_100_words"]
    with pytest.raises(RecipeError) as caught:
        run_best_of_n(file, subjects, loaded, out=out, biases=names, features=features, betas=[0.5, 0, float("inf")])
    said = (
        "β 0: give a finite",
        "β inf: give",
        "Did you mean 'jargon'?",
        "'helpfulness' cannot be measured",
        "feature 'word'",
        "markers_per_100_words",
    )
    assert all(words in problem for words, problem in zip(said, caught.value.problems, strict=True))
    Path(praise).write_text(yaml.safe_dump(PRAISE | {"name": "words"}), encoding="utf-8")
    with pytest.raises(RecipeError, match="two things are called 'words'"):
        run_best_of_n(file, subjects, loaded, out=out, biases=[praise], features=["words"])
    with pytest.raises(RecipeError, match="nothing to follow"):
        run_best_of_n(file, subjects, loaded, out=out, biases=[], features=[])
    with pytest.raises(ModelError, match="judge:some: compares two answers and gives no reward"):
        run_best_of_n(file, asked_subjects(load_model_audit("judge:some", {}).recipe.model), loaded, out=out)
    alike = write("alike", ({"prompt": f"q{n}", "responses": ["a", "b"]} for n in range(2)))
    with pytest.raises(DataError, match="no such file"):
        run_best_of_n(str(tmp_path / "none.jsonl"), subjects, loaded, out=out)
    assert not out.exists()
    with pytest.raises(DataError, match="no prompt has responses that differ in jargon"):
        run_best_of_n(str(alike), subjects, loaded, out=out)
