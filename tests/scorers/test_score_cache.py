"""Rewards on disk: found again by exactly what decided them, shared by processes, whole after a kill or a damaged file."""

from __future__ import annotations

import copy
import shutil
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from tiny import load

from cda.errors import ModelError
from cda.files.hub import ask_again
from cda.models.config import ModelSpec
from cda.models.load import RewardModel
from cda.models.template import Template
from cda.recipe.load import load_recipe
from cda.resources.named_scorer import Subject, scorer_settings
from cda.resources.scorers import open_scorer
from cda.resources.sources import model_source
from cda.scorers import engine
from cda.scorers.compared import TextScore
from cda.scorers.engine import ScoreCache, scope_of

if TYPE_CHECKING:
    from conftest import ModelMaker, Trained

ROOT = Path(__file__).parent.parent.parent


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "kept" / "scores.sqlite"


@pytest.fixture(scope="module")
def reward_model(llama: Path) -> RewardModel:
    return load(llama)


def test_scores_come_back_exactly_and_only_in_their_scope(path: Path) -> None:
    written = {f"{row:016x}": TextScore(row / 3, f"read{row}" if row % 2 else None) for row in range(12_000)}
    with ScoreCache(path) as cache:
        assert len(cache) == 0 and cache  # an empty cache is a cache
        cache.keep("one", written.items())
        cache.keep("two", [("0" * 16, TextScore(-5.0)), ("dropped", TextScore(None))])
        cache.keep("two", [("0" * 16, TextScore(2.0))])  # the first one stays
    with ScoreCache(path) as cache:
        assert len(cache) == 12_001
        assert cache.lookup("one", [*written, "unknown"]) == written
        assert cache.lookup("two", [*written, "dropped"]) == {"0" * 16: TextScore(-5.0)}
        assert cache.lookup("three", list(written)) == {} == cache.lookup("one", [])


WRITING = """
import os, signal, sys
from cda.scorers.engine import ScoreCache
from cda.scorers.compared import TextScore

cache, number = ScoreCache(sys.argv[1]), int(sys.argv[2])
for batch in range(25):
    names = [f"{8 * batch + row + 200 * number}" for row in range(8)]
    cache.keep("s", [(name, TextScore(float(name))) for name in names])
    assert len(cache.lookup("s", names)) == 8
os.kill(os.getpid(), signal.SIGKILL)
"""


def test_several_processes_write_the_same_file_and_a_commit_outlives_a_kill(path: Path) -> None:
    program = [sys.executable, "-P", "-c", WRITING, str(path)]
    running = [
        subprocess.Popen([*program, str(number)], stderr=subprocess.PIPE, text=True, cwd=ROOT) for number in range(3)
    ]
    assert [process.communicate(timeout=120)[1] for process in running] == [""] * 3
    assert [process.returncode for process in running] == [-9] * 3
    with ScoreCache(path) as cache:
        names = [str(number) for number in range(600)]
        assert cache.lookup("s", names) == {name: TextScore(float(name)) for name in names}


def test_a_scope_changes_with_everything_that_decides_a_reward(
    llama: Path, llama_maker: ModelMaker, reward_model: RewardModel, trained_fp32: Trained, tmp_path: Path
) -> None:
    adapter, other_adapter = trained_fp32.result.adapter, tmp_path / "adapter"
    shutil.copytree(adapter, other_adapter)
    here = scope_of(reward_model, adapter)
    shutil.copytree(llama, tmp_path / "model")  # a copy elsewhere is the same
    assert scope_of(load(tmp_path / "model"), other_adapter, 1.0) == here
    config = other_adapter / "adapter_config.json"
    config.write_text(config.read_text().replace('"lora_alpha": 16', '"lora_alpha": 17'))
    own_code = replace(reward_model, spec=replace(reward_model.spec, trust_remote_code=True))
    scopes = [
        here,
        scope_of(reward_model),
        scope_of(reward_model, adapter, 0.5),
        scope_of(reward_model, other_adapter),
        scope_of(own_code),
        scope_of(load(llama, limit=32)),
        scope_of(load(llama, precision="bf16")),
        scope_of(load(llama_maker("scope-other", config={"num_hidden_layers": 1}))),
        scope_of(load(llama_maker("scope-plain", chat_template=None))),
    ]
    assert len(set(scopes)) == len(scopes)


@pytest.mark.parametrize("part", ["form", "segments", "chat template", "special tokens", "padding"])
def test_a_scope_changes_with_how_a_text_becomes_tokens(reward_model: RewardModel, part: str) -> None:
    """Each by itself, whatever else was the same: a template may be changed after the model was loaded."""
    tokenizer = copy.deepcopy(reward_model.template.tokenizer)
    template = Template(tokenizer, 64, reward_model.template.pad_token_id)
    changed = replace(reward_model, template=template)
    assert scope_of(changed) == scope_of(reward_model)
    if part == "form":
        template.form = "plain text"
    elif part == "segments":
        template.segments = not template.segments
    elif part == "chat template":
        tokenizer.chat_template = "{{ bos_token }}{% for message in messages %}{{ message.content }}{% endfor %}"
    elif part == "special tokens":
        tokenizer.eos_token = "w1"
    else:
        template.pad_token_id += 1
    assert scope_of(changed) != scope_of(reward_model)


def test_a_scope_holds_every_library_between_a_text_and_its_score(
    reward_model: RewardModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = engine.versions()
    scopes = {scope_of(reward_model)}
    for name in ("torch", "transformers", "tokenizers", "peft", "bitsandbytes", "openai"):
        monkeypatch.setattr(engine, "versions", lambda name=name: found | {name: "99"})
        scopes.add(scope_of(reward_model))
    assert len(scopes) == 6  # openai computes no score


@pytest.fixture
def on_hub(llama: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], None]:
    """Puts the model into a local copy of the hub under a commit, as `org/model`."""
    from transformers.utils import hub

    monkeypatch.setattr(hub.constants, "HF_HUB_CACHE", str(tmp_path))

    def put(commit: str) -> None:
        repository = tmp_path / "models--org--model"
        shutil.copytree(llama, repository / "snapshots" / commit)
        (repository / "refs").mkdir(exist_ok=True)
        (repository / "refs" / "main").write_text(commit)

    return put


def test_a_hub_model_is_named_by_its_commit(on_hub: Callable[[str], None], reward_model: RewardModel) -> None:
    hub_model = replace(reward_model, spec=ModelSpec("org/model", "fp32", 64))
    ask_again()
    with pytest.raises(ModelError, match=r"org/model: its commit on the hub is unknown.*model\.revision"):
        scope_of(hub_model)
    on_hub("a" * 40)
    first = scope_of(hub_model)
    assert first == scope_of(replace(hub_model, spec=ModelSpec("org/model", "fp32", 64, revision="a" * 40)))
    on_hub("b" * 40)
    assert scope_of(hub_model) == first  # one run never mixes two commits
    ask_again()
    assert scope_of(hub_model) != first


def test_the_base_of_an_adapter_is_another_once_its_main_has_moved(on_hub: Callable[[str], None]) -> None:
    """It is an input of the training's stage, which is then made again."""
    section = load_recipe("jargon", ["model.name_or_path=org/model", "model.precision=fp32"]).recipe.model
    sources = []
    for commit in ("a" * 40, "b" * 40):
        on_hub(commit)
        ask_again()
        sources.append(model_source(section))
    assert sources == [f"org/model@{'a' * 40}", f"org/model@{'b' * 40}"]


def test_a_plan_says_how_a_hub_model_is_read_once_it_is_on_this_machine(on_hub: Callable[[str], None]) -> None:
    def lines() -> list[str]:
        loaded = load_recipe("jargon", ["model.name_or_path=org/model", "model.precision=fp32"])
        return open_scorer(Subject("model", loaded.recipe.model), scorer_settings(loaded)).read_lines()

    assert lines() == []
    on_hub("a" * 40)
    (line,) = lines()
    assert line.startswith("reads       LlamaForSequenceClassification (head score) in fp32, chat template, ")
