"""Names of scorers in quality results: the kind and the policy, never the reference, a path or a password."""

from __future__ import annotations

from pathlib import Path

import pytest

from cda.benchmarks.quality import public_name, public_names, quality_scoring
from cda.finetuning.applied import asked_subjects
from cda.recipe.load import load_model_audit
from cda.resources.named_scorer import Subject
from cda.results.benchmarks import AskedLLM
from cda.results.facts import RewardModelFacts


@pytest.mark.parametrize(
    ("target", "model", "name"),
    [
        ("org/model", None, "org/model"),
        ("/some/folder/model-v1", None, "local/model-v1"),
        ("dpo:org/policy,org/reference", None, "log-ratio/org-policy"),
        ("dpo:/m/policy,/m/base", None, "log-ratio/policy"),
        ("steered:org/model", None, "steered/org-model"),
        ("judge:org/gpt", None, "judge/org-gpt"),
        ("judge:llama3:8b", None, "judge/llama3-8b"),
        ("served:http://host:8000/classify", None, "served/host-8000-classify"),
        ("https://host/classify", "org/rm", "served/host-classify-org-rm"),
        ("package.module:reward", None, "function/package.module-reward"),
        ("/home/me/mine.py:reward", None, "function/mine.py-reward"),
    ],
)
def test_kind_and_policy(target: str, model: str | None, name: str) -> None:
    assert public_name(target, model) == name


def test_a_folder_is_named_by_its_last_part(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "org" / "model").mkdir(parents=True)
    monkeypatch.chdir(tmp_path)
    assert public_name("org/model", None) == "local/model"
    assert public_name("dpo:org/model,x/y", None) == "log-ratio/model"


@pytest.mark.parametrize(
    ("model", "against", "names"),
    [
        ("dpo:org/a,org/ref", "dpo:org/b,org/ref", ["log-ratio/org-a", "log-ratio/org-b"]),
        ("/one/final", "/two/final", ["local/final", "local/final-2"]),
    ],
)
def test_two_models_have_two_names(model: str, against: str, names: list[str]) -> None:
    subjects = asked_subjects(load_model_audit(model, {}).recipe.model, against=against)
    assert public_names(subjects, None) == dict(zip(("first", "second"), names, strict=True))


def test_the_result_says_what_was_asked() -> None:
    facts = RewardModelFacts(kind="reward model", name="/m/policy", texts=1, truncated=0)
    target = "dpo:org/policy,org/reference"
    loaded = load_model_audit(target, {}, ["score.log_ratio.beta=0.5", "model.revision=abc"])
    found = quality_scoring(Subject("model", loaded.recipe.model), "policy", "reward", facts, loaded.recipe.score, None)
    assert (found.target, found.target_kind, found.revision) == (target, "log-ratio", "abc")
    assert found.log_ratio is not None and found.log_ratio["beta"] == 0.5
    assert found.facts.name == "policy"  # no path of this machine
    judged = load_model_audit("judge:org/gpt", {})
    found = quality_scoring(
        Subject("model", judged.recipe.model),
        "judge/org-gpt",
        "preference",
        facts,
        judged.recipe.score,
        "http://host/v1",
    )
    assert found.llm == AskedLLM(model="org/gpt", base_url="http://host/v1")
