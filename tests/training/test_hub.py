"""Uploads to the hub: the settings that ask for them, what they lack, refusals in one sentence, and the command that uploads by hand."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from hub_server import fake_hub, talk_to

from cda.errors import ModelError
from cda.recipe.load import load_recipe
from cda.training.hub import Repository, asked_repository, by_hand, check_push, hub_problems, made_repository, push

if TYPE_CHECKING:
    from conftest import Answer

FOUND = Repository("my-org/name")


@pytest.fixture
def no_token(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    from huggingface_hub import constants

    monkeypatch.delenv("HF_TOKEN", raising=False)
    monkeypatch.delenv("HUGGING_FACE_HUB_TOKEN", raising=False)
    monkeypatch.setattr(constants, "HF_TOKEN_PATH", str(tmp_path / "none"))


@pytest.mark.usefixtures("no_token")
def test_no_token() -> None:
    with pytest.raises(ModelError, match=r"my-org/name: no token of the hub is set\. Log in with `hf auth login`"):
        check_push("my-org/name")
    assert hub_problems({"push_to_hub": True, "hub_model_id": "name"}) == [
        "train.push_to_hub: no token of the Hugging Face hub is here; `hf auth login`, or set HF_TOKEN"
    ]
    assert hub_problems({"hub_model_id": "name"}) == hub_problems({"push_to_hub": False}) == []


def test_names_that_are_none(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HF_TOKEN", "hf_test")
    for name in ("name", "a/b/c", "my org/name", "../x/y", "my-org/"):
        with pytest.raises(ModelError, match="it has the form organisation/name"):
            check_push(name)
    problem = "train.hub_model_id: 'my run' cannot be the name of a repository; it has the form organisation/name"
    assert hub_problems({"push_to_hub": True, "hub_model_id": "my run"}) == [problem]
    assert hub_problems({"push_to_hub": True, "hub_model_id": "name"}) == []


def test_the_repository_of_a_recipe() -> None:
    def asked(*words: str) -> Repository | None:
        return asked_repository(load_recipe("jargon", ["run.folder=some/first", *words]).recipe.trainer)

    assert asked() is None and asked("train.push_to_hub=false", "train.hub_model_id=a/b") is None
    assert asked("train.push_to_hub=true") == Repository("first", None, None)
    words = ("train.hub_model_id=a/b", "train.hub_private_repo=true", "train.hub_revision=tried")
    assert asked("train.push_to_hub=true", *words) == Repository("a/b", True, "tried")


@pytest.mark.parametrize("act", [lambda folder: push(folder, FOUND), lambda _: made_repository(FOUND)])
def test_without_the_right_to_write(
    act: Callable[[Path], Any], serve: Callable[[Answer], str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    talk_to(monkeypatch, serve(lambda _: (403, {"error": "You may not."})).removesuffix("/v1"))
    with pytest.raises(ModelError) as error:
        act(tmp_path)
    assert "the hub refused" in str(error.value) and "the token may not write there" in str(error.value)
    assert "\n" not in str(error.value)


def test_a_failed_push_names_the_command(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HF_TOKEN", "hf_test")  # and no network: the tests run offline
    with pytest.raises(ModelError, match="the hub cannot be reached") as error:
        push(tmp_path, FOUND)
    assert str(error.value).endswith(f"{tmp_path} is whole; push it with `hf upload my-org/name {tmp_path} --private`")
    (tmp_path / "stage.json").touch()
    found = by_hand(tmp_path, Repository("name", None, "tried"))
    assert found == f"hf upload name {tmp_path} --exclude stage.json --revision tried"


def test_a_branch_is_made_and_files_of_this_machine_stay(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tmp_path / "adapter"
    folder.mkdir()
    for name in ("README.md", "stage.json", "training_args.bin"):
        (folder / name).write_text(name)
    with fake_hub(monkeypatch, tmp_path / "cache") as hub:
        repository = Repository("name", False, "tried")
        assert made_repository(repository) == made_repository(repository) == "me/name"
        assert push(folder, repository) == f"{hub.address}/me/name/commit/1a"
    assert hub.repositories == {"me/name": {"main": {}, "tried": {"README.md": b"README.md"}}}
    assert hub.visibility == {"me/name": "public"}


def test_a_push_of_the_trainer_that_fails_costs_nothing(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    from trl import RewardTrainer

    from cda.training.trainer import ObjectiveTrainer

    def refuse(*_: Any, **__: Any) -> None:
        raise OSError("no route\nto the hub")

    monkeypatch.setattr(RewardTrainer, "push_to_hub", refuse)
    assert ObjectiveTrainer.push_to_hub(object.__new__(ObjectiveTrainer), commit_message="Model save") is None
    said = "  the trained adapter could not be pushed (no route); the end of the run tries again\n"
    assert capsys.readouterr().out == said
