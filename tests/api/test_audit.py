"""`cda.audit`: objects in memory, what comes back, and what it refuses."""

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

import cda
from cda.files.jsonl import write_jsonl
from cda.results.base import NOT_TRAINED


def by_length(prompts: list[list[dict[str, str]]], responses: list[str]) -> list[int]:
    """Rewards the longer response."""
    assert all(prompt[-1]["role"] == "user" for prompt in prompts)
    return [len(response) for response in responses]


def test_a_function_s_skew_is_that_of_its_rewards(small: dict[str, Any]) -> None:
    audit = cda.audit(by_length, **small)
    skew = audit.skew["jargon"]
    assert isinstance(skew.before, cda.Estimate)
    assert (skew.before.value, skew.before.n, skew.before.n_prompts) == (8 / 12, 12, 12)
    assert skew.before.low < 8 / 12 < skew.before.high
    assert skew.change == NOT_TRAINED and isinstance(skew.change, cda.Missing)
    assert audit.folder == Path("runs/audit-memory-by_length")
    assert (audit.folder / "report" / "report.html").is_file()


@pytest.mark.parametrize("form", ["list", "path", "frame", "dataset", "tuples of numpy"])
def test_data_has_many_forms_and_one_result(form: str, small: dict[str, Any], tmp_path: Path) -> None:
    rows = small.pop("contrasts")
    write_jsonl(tmp_path / "rows.jsonl", rows)
    made: dict[str, Callable[[], Any]] = {
        "list": lambda: rows,
        "path": lambda: tmp_path / "rows.jsonl",
        "frame": lambda: pandas.DataFrame(rows),
        "dataset": lambda: datasets.Dataset.from_list(rows),
        "tuples of numpy": lambda: tuple({**row, "weight": np.float32(1), "note": np.nan} for row in rows),
    }
    audit = cda.audit(by_length, contrasts=made[form](), **small)
    assert audit.skew["jargon"].before.value == 8 / 12


def test_votes_in_memory_count(small: dict[str, Any]) -> None:
    votes = [{"id": f"c{number}", "vote": vote} for number in range(12) for vote in ["base", "base", "perturbed"]]
    audit = cda.audit(by_length, votes=pandas.DataFrame(votes), **small)
    assert audit.votes["jargon"].human_skew.value == 0
    assert audit.votes["jargon"].miscalibration.before.value == 8 / 12


def test_a_function_that_compares_is_a_judge(small: dict[str, Any]) -> None:
    def first_is_shorter(prompts: list[Any], first: list[str], second: list[str]) -> list[float]:
        assert len(prompts) == len(first)
        return [float(np.sign(len(other) - len(one))) for one, other in zip(first, second, strict=True)]

    assert cda.audit(first_is_shorter, **small).skew["jargon"].before.value == 4 / 12


def test_a_model_in_memory_scores_as_from_its_folder_and_stays_as_it_was(bert: Path, small: dict[str, Any]) -> None:
    model = AutoModelForSequenceClassification.from_pretrained(bert, dtype=torch.float32)
    tokenizer = AutoTokenizer.from_pretrained(bert)
    model.train()
    hooks = [len(module._forward_pre_hooks) for module in model.modules()]
    pad = model.config.pad_token_id
    own = cda.audit((model, tokenizer), **small)
    loaded = cda.audit(bert, model={"precision": "fp32"}, **small)
    assert own.skew["jargon"].mean_margin.before == pytest.approx(loaded.skew["jargon"].mean_margin.before, rel=1e-5)
    assert model.training and model.config.pad_token_id == pad
    assert [len(module._forward_pre_hooks) for module in model.modules()] == hooks


def test_an_object_in_memory_is_asked_anew_each_time(small: dict[str, Any]) -> None:
    sign = 1

    def score(prompts: list[Any], responses: list[str]) -> list[int]:
        assert prompts
        return [sign * len(response) for response in responses]

    assert cda.audit(score, **small).skew["jargon"].before.value == 8 / 12
    sign = -1
    assert cda.audit(score, **small).skew["jargon"].before.value == 4 / 12


def test_the_command_and_the_function_do_the_same(small: dict[str, Any], tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text("def score(prompts, responses):\n    return [len(one) for one in responses]\n")
    write_jsonl(tmp_path / "rows.jsonl", small["contrasts"])
    words = [
        "audit",
        "mine.py:score",
        "--bias",
        "jargon",
        "--pairs",
        "rows.jsonl",
        "--quality",
        "none",
        "--triples",
        "none",
    ]
    subprocess.run([sys.executable, "-m", "cda", *words], check=True, capture_output=True, cwd=tmp_path)
    command = cda.load("runs/audit-mine.py-score")
    assert isinstance(command, cda.Run)
    own = cda.audit(by_length, **small).model_dump(exclude={"model", "recipe", "sources", "run"})
    assert own == command.audit.model_dump(exclude={"model", "recipe", "sources", "run"})


def test_an_audit_is_saved_read_drawn_and_laid_out(small: dict[str, Any], tmp_path: Path) -> None:
    audit = cda.audit(by_length, **small)
    audit.save(tmp_path / "audit.json")
    again = cda.load(tmp_path / "audit.json")
    assert isinstance(again, cda.Audit)
    left_out = set(cda.Audit.in_memory)
    assert again.model_dump(exclude=left_out) == audit.model_dump(exclude=left_out)
    audit.report("page.html")
    audit.report("page.md")
    run = tmp_path / "runs" / "audit-memory-by_length" / "report"
    assert (tmp_path / "page.html").read_text() == (run / "report.html").read_text()
    assert (tmp_path / "page.md").read_text() == (run / "report.md").read_text()
    frame = audit.to_frame()
    row = frame[(frame.measure == "skew") & (frame.of == "jargon") & (frame.scoring == "before")].iloc[0]
    assert (row.value, row.n, row.unit) == (8 / 12, 12, "share")
    assert not (frame.reason == NOT_TRAINED.reason).any()
    html = audit._repr_html_()
    assert "jargon" in html and "data:image/svg+xml;base64," in html and "<script" not in html
    assert "jargon" in str(audit) and "Report:" not in str(audit)


def test_settings_have_the_recipe_s_names_and_seed_decides(small: dict[str, Any]) -> None:
    one = cda.audit(by_length, out="a", seed=1, audit={"max_contrasts": 5}, **small)
    other = cda.audit(by_length, out="b", **{"seed": 1, "audit.max_contrasts": 5}, **small)
    assert one.skew["jargon"].before == other.skew["jargon"].before
    assert one.skew["jargon"].before.n == 5 and one.folder == Path("a")


def one_parameter(responses: list[str]) -> list[int]:
    return [1 for _ in responses]


def too_few(prompts: list[Any], responses: list[str]) -> list[int]:
    return [len(prompts) + len(responses)]


def nan(prompts: list[Any], responses: list[str]) -> list[float]:
    return [float("nan") for _ in zip(prompts, responses, strict=True)]


def words(prompts: list[Any], responses: list[str]) -> list[str]:
    return ["a" for _ in zip(prompts, responses, strict=True)]


@pytest.mark.parametrize(
    ("target", "changes", "kind", "said"),
    [
        (by_length, {"biases": "jargn"}, cda.RecipeError, "Did you mean 'jargon'"),
        (by_length, {"modle": {}}, cda.RecipeError, "modle: unknown key. Did you mean 'model'"),
        (by_length, {"model": {"precison": 1}}, cda.RecipeError, "Did you mean 'precision'"),
        (by_length, {"model": {"precision": "fp32"}}, cda.RecipeError, "says nothing of a model or function in memory"),
        (by_length, {"contrasts": 5}, cda.DataError, "contrasts: found a int"),
        (by_length, {"contrasts": []}, cda.DataError, "contrasts: has no rows"),
        (by_length, {"contrasts": [1]}, cda.DataError, "contrasts, row 1: found a int"),
        (by_length, {"contrasts": {"prompt": ["a"]}}, cda.DataError, "give a list with a dict for each row"),
        (by_length, {"contrasts": [{"prompt": "a", "bas": "b", "perturbed": "c"}]}, cda.CdaError, "base and perturbed"),
        (by_length, {"contrasts": [{"prompt": object()}]}, cda.DataError, "row 1, prompt: a object"),
        (3, {}, cda.ModelError, "model: found a int"),
        ((1, 2, 3), {}, cda.ModelError, "a tuple of 3"),
        (one_parameter, {}, cda.ModelError, "it must need two"),
        (too_few, {}, cda.ModelError, "an array of shape|1 values"),
        (nan, {}, cda.ModelError, "NaN or infinite"),
        (words, {}, cda.ModelError, "no number"),
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


def test_a_model_needs_its_tokenizer_and_one_label(bert: Path, small: dict[str, Any]) -> None:
    model = AutoModelForSequenceClassification.from_pretrained(bert)
    with pytest.raises(cda.ModelError, match="without its tokenizer"):
        cda.audit(model, **small)
    two = AutoModelForSequenceClassification.from_pretrained(bert, num_labels=2, ignore_mismatched_sizes=True)
    with pytest.raises(cda.ModelError, match="has 2 labels"):
        cda.audit((two, AutoTokenizer.from_pretrained(bert)), **small)


def test_splits_have_to_be_chosen(small: dict[str, Any]) -> None:
    splits = datasets.DatasetDict({"train": datasets.Dataset.from_list(small["contrasts"])})
    with pytest.raises(cda.DataError, match="splits train; give one of them"):
        cda.audit(by_length, **{**small, "contrasts": splits})


JUDGE = {"model": "judge-1", "api_key_env": "SOME_KEY", "prices": {"judge-1": {"input": 1000, "output": 1000}}}


def test_money_is_agreed_to_beforehand_and_nobody_is_asked(
    small: dict[str, Any], serve: Callable[..., str], monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = []

    def answer(body: dict[str, Any]) -> tuple[int, dict[str, Any]]:
        asked.append(body)
        message = {"role": "assistant", "content": "Verdict: 1"}
        choice = {"index": 0, "message": message, "finish_reason": "stop"}
        usage = {"prompt_tokens": 10, "completion_tokens": 5, "total_tokens": 15}
        return 200, {
            "id": "1",
            "object": "chat.completion",
            "created": 1,
            "model": "judge-1",
            "choices": [choice],
            "usage": usage,
        }

    monkeypatch.setenv("SOME_KEY", "x")
    monkeypatch.setattr("builtins.input", lambda *_: pytest.fail("nobody is asked"))
    llm = {**JUDGE, "base_url": serve(answer)}
    with pytest.raises(cda.SpendingError, match="nothing was sent") as raised:
        cda.audit("judge:judge-1", llm=llm, **small)
    dollars = raised.value.dollars
    assert dollars is not None and dollars > 0 and not asked
    with pytest.raises(cda.SpendingError):
        cda.audit("judge:judge-1", llm=llm, budget_usd=dollars / 2, **small)
    assert not asked
    audit = cda.audit("judge:judge-1", llm=llm, budget_usd=2 * dollars, **small)
    assert len(asked) == 24  # both orders of 12
    assert audit.skew["jargon"].before.n == 12
    no_price = {**llm, "prices": {}, "base_url": None}
    with pytest.raises(cda.SpendingError, match="no price") as raised:
        cda.audit("judge:judge-2", llm=no_price | {"model": "judge-2"}, **small)
    assert raised.value.dollars is None


def test_progress_can_be_switched_off(bert: Path, small: dict[str, Any], capfd: pytest.CaptureFixture[str]) -> None:
    cda.audit(bert, out="quiet", **small)
    assert "scoring" not in capfd.readouterr().err
    cda.audit(bert, out="loud", score={"cache": "none"}, **{**small, "progress": True})
    assert "scoring" in capfd.readouterr().err


def test_files_that_are_no_results(tmp_path: Path, small: dict[str, Any]) -> None:
    audit = cda.audit(by_length, **small)
    audit.save("audit.json")
    content = json.loads((tmp_path / "audit.json").read_text())
    for name, text, said in (
        ("cut.json", (tmp_path / "audit.json").read_text()[:500], "not valid JSON"),
        ("new.json", json.dumps(content | {"schema_version": 99}), "a newer version of cda"),
        ("old.json", json.dumps(content | {"schema_version": 1}), "an earlier version of cda"),
        ("other.json", json.dumps({"schema_version": 2, "sets": []}), "of another command|another command"),
        ("list.json", "[1]", "audit"),
    ):
        (tmp_path / name).write_text(text)
        with pytest.raises(cda.DataError, match=said):
            cda.load(tmp_path / name)
    with pytest.raises(cda.DataError, match="no such file"):
        cda.load("nowhere.json")
    (tmp_path / "empty").mkdir()
    with pytest.raises(cda.RunError, match="holds no run"):
        cda.load("empty")


def test_import_is_light() -> None:
    code = "import sys, cda; cda.CdaError; print(sorted(one for one in ('torch', 'transformers', 'numpy', 'pydantic') if one in sys.modules))"
    found = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True).stdout
    assert found.strip() == "[]"


def test_every_name_is_there_and_no_folder_hides_one() -> None:
    for name in cda.__all__:
        found = getattr(cda, name)
        assert found.__doc__, name
        assert not (Path(cda.__file__).parent / name).is_dir(), name
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        cda.nothing  # noqa: B018
