"""`cda.audit`: objects in memory, results as they come back, and mistakes."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import datasets
import numpy as np
import pandas
import pytest
import torch
from transformers import AutoModelForSequenceClassification, AutoTokenizer
from typer.main import get_command

import cda
from cda.cli import app
from cda.files.jsonl import write_jsonl
from cda.pipeline.stages import _facts
from cda.results.base import NOT_TRAINED
from cda.run import RunFolder


def by_length(prompts: list[list[dict[str, str]]], responses: list[str]) -> list[int]:
    """Rewards the longer response."""
    assert all(prompt[-1]["role"] == "user" for prompt in prompts)
    return [len(response) for response in responses]


def test_an_audit_is_measured_saved_read_drawn_and_laid_out(small: dict[str, Any]) -> None:
    audit = cda.audit(by_length, **small)
    skew = audit.skew["jargon"]
    assert (skew.before.value, skew.before.n, skew.before.n_prompts) == (8 / 12, 12, 12)
    assert skew.before.low < 8 / 12 < skew.before.high and skew.change == NOT_TRAINED
    assert audit.folder == Path("runs/audit-memory-by_length")
    audit.save("audit.json")
    again, left_out = cda.load("audit.json"), set(cda.Audit.in_memory)
    assert isinstance(again, cda.Audit)
    assert again.model_dump(exclude=left_out) == audit.model_dump(exclude=left_out)
    for name in ("report.html", "report.md"):
        audit.report(name)
        assert Path(name).read_text() == (audit.folder / "report" / name).read_text()
    frame = audit.to_frame()
    row = frame[(frame.measure == "skew") & (frame.bias == "jargon") & (frame.moment == "model")].iloc[0]
    assert (row.value, row.n, row.unit) == (8 / 12, 12, "share")
    assert not (frame.reason == NOT_TRAINED.reason).any()
    html = audit._repr_html_()
    assert "jargon" in html and "data:image/svg+xml;base64," in html and "<script" not in html
    assert "jargon" in str(audit) and "Report:" not in str(audit)
    Path("changed.json").write_text(json.dumps({"schema_version": 4, "sets": []}))
    with pytest.raises(cda.DataError, match="another command"):
        cda.load("changed.json")
    with pytest.raises(cda.DataError, match="no such file"):
        cda.load("nowhere.json")
    Path("empty").mkdir()
    with pytest.raises(cda.RunError, match="holds no run"):
        cda.load("empty")


def test_data_has_many_forms_and_one_result(small: dict[str, Any], tmp_path: Path) -> None:
    rows = small.pop("contrasts")
    write_jsonl(tmp_path / "rows.jsonl", rows)
    for contrasts in (
        tmp_path / "rows.jsonl",
        pandas.DataFrame(rows),
        datasets.Dataset.from_list(rows),
        tuple({**row, "weight": np.float32(1), "note": np.nan} for row in rows),
    ):
        assert cda.audit(by_length, contrasts=contrasts, **small).skew["jargon"].before.value == 8 / 12
    with pytest.raises(cda.DataError, match="splits train; give one of them"):
        cda.audit(by_length, contrasts=datasets.DatasetDict({"train": datasets.Dataset.from_list(rows)}), **small)


def test_votes_in_memory_count(small: dict[str, Any]) -> None:
    votes = [{"id": f"c{number}", "vote": vote} for number in range(12) for vote in ["base", "base", "perturbed"]]
    voted = cda.audit(by_length, votes=pandas.DataFrame(votes), **small).votes["jargon"]
    assert voted.human_skew.value == 0 and voted.miscalibration.before.value == 8 / 12


def test_a_function_that_compares_is_a_judge(small: dict[str, Any]) -> None:
    def first_is_shorter(prompts: list[Any], first: list[str], second: list[str]) -> list[float]:
        assert len(prompts) == len(first)
        return [float(np.sign(len(other) - len(own))) for own, other in zip(first, second, strict=True)]

    assert cda.audit(first_is_shorter, **small).skew["jargon"].before.value == 4 / 12


def test_a_model_in_memory_scores_as_from_its_folder_and_stays_as_it_was(
    bert: Path, small: dict[str, Any], capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("cda.progress.on_terminal", lambda: True)
    model = AutoModelForSequenceClassification.from_pretrained(bert, dtype=torch.float32)
    tokenizer = AutoTokenizer.from_pretrained(bert)
    model.train()
    hooks = [len(module._forward_pre_hooks) for module in model.modules()]
    pad = model.config.pad_token_id
    own = cda.audit((model, tokenizer), **small)
    assert "scoring" not in capfd.readouterr().err
    loaded = cda.audit(bert, model={"precision": "fp32"}, **{**small, "progress": True})
    assert "scoring" in capfd.readouterr().err
    assert own.skew["jargon"].mean_margin.before == pytest.approx(loaded.skew["jargon"].mean_margin.before, rel=1e-5)
    assert model.training and model.config.pad_token_id == pad
    assert [len(module._forward_pre_hooks) for module in model.modules()] == hooks
    with pytest.raises(cda.ModelError, match="without its tokenizer"):
        cda.audit(model, **small)
    two = AutoModelForSequenceClassification.from_pretrained(bert, num_labels=2, ignore_mismatched_sizes=True)
    with pytest.raises(cda.ModelError, match="has 2 labels"):
        cda.audit((two, tokenizer), **small)


def test_a_quick_look_displaces_no_whole_audit(small: dict[str, Any]) -> None:
    whole = cda.audit(by_length, **small)
    look = cda.audit(by_length, **small, limit=6)
    assert look.folder == Path("runs/audit-memory-by_length-limit-6") and look.skew["jargon"].before.n == 6
    assert cda.load(whole.folder).audit.skew["jargon"].before.n == 12
    assert not (whole.folder / "superseded").exists()
    assert cda.audit(by_length, **small, limit=5, out="mine").folder == Path("mine")
    assert look.model.how == "Scored by the Python function ‘by_length’"


def test_an_audit_of_other_biases_displaces_none_and_figures_stay_with_their_audit(small: dict[str, Any]) -> None:
    first = cda.audit(by_length, **small, figures="svg")
    other = cda.audit(by_length, **{**small, "biases": ["structure"]})
    assert other.folder.name.startswith("audit-memory-by_length-of-structure-") and set(other.skew) == {"structure"}
    assert set(cda.load(first.folder).audit.skew) == {"jargon"} and not (first.folder / "superseded").exists()
    assert cda.audit(by_length, **{**small, "biases": ["structure"]}).folder == other.folder
    assert (first.folder / "report" / "figures").is_dir()
    named = cda.audit(by_length, **{**small, "biases": ["structure"]}, out=first.folder)
    assert named.folder == first.folder and not (first.folder / "report" / "figures").exists()


def test_a_misspelt_keyword_is_answered_with_options_too(small: dict[str, Any]) -> None:
    with pytest.raises(
        cda.RecipeError, match=r"cda.audit: limt: unknown key. Did you mean 'limit'\? Known: .*contrasts.* limit"
    ):
        cda.audit(by_length, limt=3)
    assert "Next: " in str(found := cda.audit(by_length, **small)) and "cda.audit( by_length, " in " ".join(
        str(found).split()
    )


def test_after_a_quick_look_at_a_training_the_same_command_without_the_limit_is_kept(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    seen: list[Any] = []
    monkeypatch.setattr("cda.api.runs.carry_out", lambda loaded, *_: seen.append(loaded))
    cda.train("joint", limit=20, seed=7, data={"max_pairs": 60}, out="mine")
    cda.train("joint", seed=7)
    words = ("train", "joint", "seed=7", "data.max_pairs=60", "run.folder=mine")
    assert [loaded.command for loaded in seen] == [words, ()]
    assert seen[0].recipe.data.max_pairs == seen[0].recipe.audit.max_contrasts == 20
    RunFolder(tmp_path).write_manifest({}, [], seen[0].command)
    assert _facts(RunFolder(tmp_path), []).command == words


def test_the_folder_of_a_finished_audit_stands_for_its_settings(small: dict[str, Any]) -> None:
    Path("rm.py").write_text("def longer(prompts, responses):\n    return [len(text) for text in responses]\n")
    first = cda.audit("rm.py:longer", **small, seed=7)
    again = cda.audit(first.folder, **{"audit.max_contrasts": 8}, out="other", progress=False)
    assert (first.seed, again.seed) == (7, 7) and again.model.name == "rm.py:longer"
    assert (first.skew["jargon"].before.n, again.skew["jargon"].before.n) == (12, 8) and set(again.skew) == {"jargon"}
    in_memory = cda.audit(by_length, **small)
    with pytest.raises(cda.RecipeError, match="the folder of a finished run"):
        cda.audit(in_memory.folder)


def test_a_folder_of_the_code_says_which_function_is_meant() -> None:
    import cda.data
    import cda.report

    for module, meant in ((cda.data, "cda.audit_data"), (cda.report, "cda.load")):
        with pytest.raises(TypeError, match=rf"no function; use {meant}"):
            module("pairs.jsonl")
    with pytest.raises(AttributeError, match="has no attribute 'audti'; did you mean 'audit'"):
        cda.audti  # noqa: B018
    commands = {command.replace("-", "_") for command in get_command(app).commands}
    folders = {path.name for path in Path(cda.__file__).parent.iterdir() if path.is_dir()}
    assert {"data", "report"} <= commands & folders <= {*cda._MEANT}


def test_an_object_in_memory_is_asked_anew_each_time(small: dict[str, Any]) -> None:
    sign = 1

    def score(prompts: list[Any], responses: list[str]) -> list[int]:
        assert prompts
        return [sign * len(response) for response in responses]

    assert cda.audit(score, **small).skew["jargon"].before.value == 8 / 12
    sign = -1
    assert cda.audit(score, **small).skew["jargon"].before.value == 4 / 12


def test_settings_have_the_recipe_s_names_and_seed_decides(small: dict[str, Any]) -> None:
    nested = cda.audit(by_length, out="a", seed=1, audit={"max_contrasts": 5}, **small)
    dotted = cda.audit(by_length, out="b", **{"seed": 1, "audit.max_contrasts": 5}, **small)
    assert nested.skew["jargon"].before == dotted.skew["jargon"].before
    assert nested.skew["jargon"].before.n == 5 and nested.folder == Path("a")


def answers(reward: Callable[[int], Any]) -> Callable[[list[Any], list[str]], Any]:
    """A scorer that answers by the number of texts alone."""

    def score(prompts: list[Any], responses: list[str]) -> Any:
        assert prompts
        return reward(len(responses))

    return score


@pytest.mark.parametrize(
    ("target", "changes", "kind", "said"),
    [
        (by_length, {"biases": "jargn"}, cda.RecipeError, "Did you mean 'jargon'"),
        (by_length, {"modle": {}}, cda.RecipeError, "modle: unknown key. Did you mean 'model'"),
        (by_length, {"model": {"precision": "fp32"}}, cda.RecipeError, "no effect on a model or function in memory"),
        (by_length, {"contrasts": 5}, cda.DataError, "contrasts: found a number"),
        (by_length, {"contrasts": []}, cda.DataError, "contrasts: has no rows"),
        (by_length, {"contrasts": [1]}, cda.DataError, "contrasts, row 1: found a number"),
        (by_length, {"contrasts": {"prompt": ["a"]}}, cda.DataError, "give a list with a dict for each row"),
        (by_length, {"contrasts": [{"prompt": object()}]}, cda.DataError, "row 1, prompt: an object"),
        (3, {}, cda.ModelError, "model: found a number"),
        ((1, 2, 3), {}, cda.ModelError, "a tuple of 3"),
        (lambda responses: [1 for _ in responses], {}, cda.ModelError, "it must need two"),
        (answers(lambda n: [n]), {}, cda.ModelError, "an array of shape|1 value;"),
        (answers(lambda n: [float("nan")] * n), {}, cda.ModelError, "NaN, infinite or beyond"),
        (answers(lambda n: ["a"] * n), {}, cda.ModelError, "no number"),
        ("jargon", {}, cda.RecipeError, "is a recipe; cda.train"),
        ("embeded", {}, cda.RecipeError, "Did you mean 'embedded'"),
    ],
)
def test_one_clear_error_and_nothing_made(
    target: Any, changes: dict[str, Any], kind: type[Exception], said: str, small: dict[str, Any], tmp_path: Path
) -> None:
    with pytest.raises(kind, match=said):
        cda.audit(target, **{**small, **changes})
    assert not list(tmp_path.rglob("audit.json"))


def test_import_is_light_and_every_name_is_there() -> None:
    heavy = {"torch", "transformers", "numpy", "pydantic"}
    code = f"import sys, cda; cda.CdaError; print(*({heavy} & set(sys.modules)))"
    found = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True).stdout
    assert found.strip() == ""
    for name in cda.__all__:
        assert getattr(cda, name).__doc__, name
        assert not (Path(cda.__file__).parent / name).is_dir(), name  # a folder of this name would hide it
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        cda.nothing  # noqa: B018
