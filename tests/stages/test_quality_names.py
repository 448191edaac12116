"""Names of scorers in quality results: the kind and the policy, never the reference, a path or a password."""

from __future__ import annotations

from pathlib import Path

import pytest

from cda.benchmarks.quality import public_name, public_names, quality_scoring
from cda.finetuning.applied import asked_subjects
from cda.recipe.load import load_model_audit
from cda.resources.scorer_kinds import Subject
from cda.results.benchmarks import AskedLLM
from cda.results.facts import RewardModelFacts


@pytest.mark.parametrize(
    ("target", "settings", "name"),
    [
        ("org/model", [], "org/model"),
        ("/some/folder/model-v1", [], "local/model-v1"),
        ("dpo:org/policy,org/reference", [], "log-ratio/org-policy"),
        ("dpo:/m/policy,/m/base", [], "log-ratio/policy"),
        ("steered:org/model", [], "steered/org-model"),
        ("judge:org/gpt", [], "judge/org-gpt"),
        ("judge:llama3:8b", [], "judge/llama3-8b"),
        ("served:http://host:8000/classify", [], "served/host-8000-classify"),
        ("https://host/classify", ["score.served.model=org/rm"], "served/host-classify-org-rm"),
        ("package.module:reward", [], "function/package.module-reward"),
        ("/home/me/mine.py:reward", [], "function/mine.py-reward"),
    ],
)
def test_kind_and_policy(target: str, settings: list[str], name: str) -> None:
    assert public_name(target, load_model_audit(target, {}, settings)) == name


def test_a_folder_is_named_by_its_last_part(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "org" / "model").mkdir(parents=True)
    monkeypatch.chdir(tmp_path)
    assert public_name("org/model", load_model_audit("org/model", {})) == "local/model"
    assert public_name("dpo:org/model,x/y", load_model_audit("dpo:org/model,x/y", {})) == "log-ratio/model"


def test_two_policies_against_one_reference_are_two() -> None:
    loaded = load_model_audit("dpo:org/a,org/ref", {})
    subjects = asked_subjects(loaded.recipe.model, against="dpo:org/b,org/ref")
    assert public_names(subjects, loaded) == {"first": "log-ratio/org-a", "second": "log-ratio/org-b"}


def test_same_names_are_told_apart() -> None:
    loaded = load_model_audit("/one/final", {})
    subjects = asked_subjects(loaded.recipe.model, against="/two/final")
    assert public_names(subjects, loaded) == {"first": "local/final", "second": "local/final-2"}


def test_the_result_says_what_was_asked() -> None:
    facts = RewardModelFacts(kind="reward model", name="/m/policy", texts=1, truncated=0)
    target = "dpo:org/policy,org/reference"
    loaded = load_model_audit(target, {}, ["score.log_ratio.beta=0.5", "model.revision=abc"])
    found = quality_scoring(Subject("model", loaded.recipe.model), "policy", "reward", facts, loaded)
    assert (found.target, found.target_kind, found.revision) == (target, "log-ratio", "abc")
    assert found.log_ratio is not None and found.log_ratio["beta"] == 0.5
    assert found.facts.name == "policy"  # no path of this machine
    judged = load_model_audit("judge:org/gpt", {}, ["llm.base_url=http://host/v1"])
    found = quality_scoring(Subject("model", judged.recipe.model), "judge/org-gpt", "preference", facts, judged)
    assert found.llm == AskedLLM(model="org/gpt", base_url="http://host/v1")
