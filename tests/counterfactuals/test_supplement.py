"""Supplementary pairs that an LLM labels: planned, in their order, until every combination of labels is full."""

from __future__ import annotations

import builtins
import json
import sys
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from replies import reply

from cda.counterfactuals import label, synthesize
from cda.errors import RunError
from cda.files.jsonl import write_jsonl
from cda.pipeline import plan
from cda.recipe.load import LoadedRecipe, load_recipe
from cda.resources.artifacts import read_labelled, read_training
from cda.run import StageRecord

PRAISE = "What a brilliant question! "
NEITHER, REJECTED = ("", ""), ("", PRAISE)


class Clerk:
    """Labels by the praise, and praises on request; counts its calls by a word of the user's message."""

    def __init__(self) -> None:
        self.n_labels: Counter[str] = Counter()

    def __call__(self, body: dict[str, Any]) -> Any:
        user = body["messages"][1]["content"]
        shown = {
            part.split(">>>\n", 1)[0]: part.split(">>>\n", 1)[1].split("\n<<<END>>>")[0]
            for part in user.split("<<<")[1::2]
        }
        texts = {name: text for name, text in shown.items() if name.startswith("RESPONSE")}
        if "Questions:" not in user:
            return reply(PRAISE + texts["RESPONSE"])
        self.n_labels["more" if "More" in user else "own"] += 1
        found = {
            name.lower().replace(" ", "_"): "yes" if PRAISE.strip() in text else "no" for name, text in texts.items()
        }
        return reply(json.dumps({"reasoning": "praise", **found}))


def pairs(file: Path, word: str, kinds: list[tuple[str, str]]) -> Path:
    """Pairs whose sides have the praise or not."""
    rows = [
        {"prompt": f"{word} question {number}?", "chosen": f"{first}It is {number}.", "rejected": f"{second}It is no {number}."}
        for number, (first, second) in enumerate(kinds)
    ]  # fmt: skip
    write_jsonl(file, rows)
    return file


@pytest.fixture
def loaded(serve: Callable[[Any], str], tmp_path: Path, request: pytest.FixtureRequest) -> tuple[LoadedRecipe, Clerk]:
    clerk = Clerk()
    own = pairs(tmp_path / "own.jsonl", "Own", [NEITHER, REJECTED] * 10)
    more = pairs(tmp_path / "more.jsonl", "More", request.param)
    words = [f"data.pairs={own}", f"data.supplement={more}", "synthesize.supplementary=12", "synthesize.counterfactuals=2",
             "synthesize.gate.on=false", "model.name_or_path=embedded", "llm.model=clerk", f"llm.base_url={serve(clerk)}",
             "llm.concurrency=2", "llm.prices={clerk: {input: 1, output: 1}}", f"run.folder={tmp_path / 'run'}"]  # fmt: skip
    return load_recipe("recipes/sycophancy.yaml", words), clerk


@pytest.fixture
def questions(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """A user at a terminal, who agrees; what they were asked."""
    found: list[str] = []

    def agree(question: str) -> str:
        found.append(question)
        return "y"

    monkeypatch.setattr(sys.stdin, "isatty", lambda: True, raising=False)
    monkeypatch.setattr(builtins, "input", agree)
    return found


@pytest.mark.parametrize("loaded", [[NEITHER, REJECTED] * 50], indirect=True)
def test_no_more_are_labelled_than_it_takes(
    loaded: tuple[LoadedRecipe, Clerk], tmp_path: Path, questions: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    recipe, clerk = loaded
    said = plan.plan(recipe)
    assert "labelling sycophancy: about 20 calls" in said
    assert "labelling sycophancy for supplementary pairs: about 24 calls" in said
    counts = label.run(recipe, tmp_path)
    n = counts.supplement_labels["sycophancy"].n
    assert clerk.n_labels == {"own": 20, "more": n} and 12 <= n <= 24 and len(questions) == 2
    assert counts.supplement is not None and (counts.supplement.kept, counts.supplement.used) == (100, n)
    assert len(list(read_labelled(tmp_path / label.SUPPLEMENT))) == n
    folder: Any = SimpleNamespace(stage=lambda _: tmp_path, record=lambda _: StageRecord())
    made = synthesize.run(recipe, folder, tmp_path)
    assert made.biases["sycophancy"].supplementary == 12
    taught = Counter(
        (row.pair.chosen.startswith(PRAISE), row.pair.rejected.startswith(PRAISE))
        for row in read_training(tmp_path / synthesize.MIX)
        if row.kind == "supplementary"
    )
    assert taught == {(False, False): 6, (False, True): 6}
    assert "still missing" not in capsys.readouterr().out


@pytest.mark.parametrize("loaded", [[NEITHER] * 90 + [REJECTED] * 10], indirect=True)
def test_more_than_was_planned_is_asked_about_again(
    loaded: tuple[LoadedRecipe, Clerk], tmp_path: Path, questions: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    """Six of the rare combination are wanted, and there are ten among a hundred."""
    recipe, clerk = loaded
    counts = label.run(recipe, tmp_path)
    n = counts.supplement_labels["sycophancy"].n
    assert counts.supplement_labels["sycophancy"].rejected_only == 6 and 24 < n < 100 and clerk.n_labels["more"] == n
    assert len(questions) > 2 and "supplementary pairs are still missing after 24 labels" in capsys.readouterr().out


@pytest.mark.parametrize("loaded", [[NEITHER] * 90 + [REJECTED] * 10], indirect=True)
def test_what_was_not_agreed_to_is_not_asked(
    loaded: tuple[LoadedRecipe, Clerk], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    recipe, clerk = loaded
    answers = iter(["y", "y", "n"])
    monkeypatch.setattr(sys.stdin, "isatty", lambda: True, raising=False)
    monkeypatch.setattr(builtins, "input", lambda _: next(answers))
    with pytest.raises(RunError, match="nothing was spent on it"):
        label.run(recipe, tmp_path)
    assert clerk.n_labels == {"own": 20, "more": 24}


@pytest.mark.parametrize("loaded", [[NEITHER] * 30], indirect=True)
def test_data_without_a_combination_are_all_labelled_and_none_if_none_are_wanted(
    loaded: tuple[LoadedRecipe, Clerk], tmp_path: Path, questions: list[str]
) -> None:
    recipe, clerk = loaded
    assert label.run(recipe, tmp_path).supplement_labels["sycophancy"].n == 30 and clerk.n_labels["more"] == 30
    none = recipe.recipe.model_copy(
        update={"synthesize": recipe.recipe.synthesize.model_copy(update={"supplementary": 0})}
    )
    without = replace(recipe, recipe=none)
    assert "for supplementary pairs" not in plan.plan(without) and questions
    before = clerk.n_labels["more"]
    assert label.run(without, tmp_path).supplement_labels["sycophancy"].n == 0 and clerk.n_labels["more"] == before
    folder: Any = SimpleNamespace(stage=lambda _: tmp_path, record=lambda _: StageRecord())
    assert synthesize.run(without, folder, tmp_path).biases["sycophancy"].supplementary == 0
