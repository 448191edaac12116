"""Arguments that would train nothing, or that TRL, Transformers or a tracker refuses, are refused with all of them named."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Mapping
from importlib.util import find_spec
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest
from hub_server import fake_hub, talk_to

from cda.errors import ModelError, RecipeError
from cda.models.config import ModelSpec
from cda.models.load import load_reward_model
from cda.recipe.load import load_recipe
from cda.records import Pair, TrainingExample
from cda.training import trackers
from cda.training.arguments import Lora, check_arguments, in_bf16, reward_config
from cda.training.hub import Repository, asked_repository, by_hand, check_push, hub_problems, made_repository, push
from cda.training.lora import train_adapter
from cda.training.trackers import RUNS, Tracked, asked_trackers, tracker_problems

if TYPE_CHECKING:
    from conftest import Answer

REFUSED: tuple[tuple[dict[str, Any], str], ...] = (
    ({"report_to": "tensorbord"}, r"train\.report_to=tensorbord: .*not supported.*Did you mean 'tensorboard'\?"),
    ({"metric_for_best_model": "eval_acuracy"}, r"train\.metric_for_best_model=eval_acuracy: not measured\. Did you mean"),
    ({"optim": "lomo"}, "lomo"),
    ({"lerning_rate": 1e-4}, "lerning_rate"),
    ({"save_steps": 20, "eval_steps": 7}, "7"),
    ({"dataloader_num_workers": -1}, "num_workers"),
    ({"gradient_accumulation_steps": 1.5}, r"train\.gradient_accumulation_steps: a whole number is needed, found 1\.5"),
)  # fmt: skip


@pytest.mark.parametrize(("train", "message"), REFUSED, ids=[next(iter(train)) for train, _ in REFUSED])
def test_what_a_training_would_refuse_is_refused(train: dict[str, Any], message: str) -> None:
    with pytest.raises(RecipeError, match=message):
        check_arguments(train, has_validation=True, precision="fp32")


@pytest.mark.parametrize(
    ("train", "has_validation"),
    [
        ({"max_steps": 3, "report_to": []}, False),
        ({"dataloader_drop_last": True, "per_device_train_batch_size": 64}, True),
        ({"metric_for_best_model": "accuracy", "lr_scheduler_type": "cosine", "warmup_steps": 5}, True),
    ],
)
def test_what_a_training_takes_passes(train: dict[str, Any], has_validation: bool) -> None:
    check_arguments(train, has_validation, "fp32")


def test_ligers_kernels_leave_a_classifier_its_forward_pass(tmp_path: Path) -> None:
    given = {"use_liger_kernel": True, "liger_kernel_config": {"rope": False}}
    config = reward_config(given, tmp_path, 0, has_validation=False)
    assert config.liger_kernel_config == {"fused_linear_cross_entropy": False, "rope": False}
    assert reward_config({}, tmp_path, 0, has_validation=False).liger_kernel_config is None


def test_mistakes_of_several_kinds_are_said_together(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("huggingface_hub.get_token", lambda: None)
    train = {"report_to": ["nope"], "metric_for_best_model": "x", "push_to_hub": True, "optim": "adamwx"}
    with pytest.raises(RecipeError) as caught:
        check_arguments(train, True, "fp32")
    assert [problem.partition(":")[0] for problem in caught.value.problems] == [
        "train.report_to=nope", "train.metric_for_best_model=x", "train.push_to_hub", "train",
    ]  # fmt: skip


def test_under_a_launch_of_several_processes_it_is_tried_outside(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WORLD_SIZE", "2")
    monkeypatch.setenv("RANK", "0")
    with pytest.raises(RecipeError, match="min_lr"):
        check_arguments({"lr_scheduler_type": "cosine_with_min_lr"}, True, "fp32")


def test_weights_and_biases_without_a_key(monkeypatch: pytest.MonkeyPatch) -> None:
    from transformers.integrations import integration_utils

    found = SimpleNamespace(api=SimpleNamespace(api_key=None))
    monkeypatch.setitem(sys.modules, "wandb", found)
    monkeypatch.setattr(integration_utils, "is_wandb_available", lambda: True)
    monkeypatch.setattr(integration_utils, "WandbCallback", lambda: None)
    monkeypatch.setitem(integration_utils.INTEGRATION_TO_CALLBACK, "wandb", lambda: None)
    (problem,) = tracker_problems({"report_to": "wandb"})
    assert "WANDB_API_KEY" in problem
    found.api.api_key = "known"
    assert tracker_problems({"report_to": "wandb"}) == []


def test_numbers_out_of_range_are_refused_together(tmp_path: Path) -> None:
    train = {"num_train_epochs": -1, "learning_rate": -1e-5, "per_device_train_batch_size": 0}
    with pytest.raises(RecipeError) as caught:
        reward_config(train, tmp_path, 0, has_validation=True)
    assert caught.value.problems == (
        "train.num_train_epochs: input should be greater than 0, found -1",
        "train.per_device_train_batch_size: input should be greater than 0, found 0",
        "train.learning_rate: input should be 0 or greater, found -1e-05",
    )


@pytest.mark.parametrize("value", [float("inf"), float("nan"), 2.5])
def test_what_counts_pairs_is_a_whole_number(value: float, tmp_path: Path) -> None:
    with pytest.raises(RecipeError, match="per_device_train_batch_size: "):
        reward_config({"per_device_train_batch_size": value}, tmp_path, 0, has_validation=True)


def test_with_a_number_of_steps_the_epochs_decide_nothing_and_a_share_of_the_steps_is_in_range(tmp_path: Path) -> None:
    train = {"max_steps": 5, "num_train_epochs": 0, "eval_steps": 0.1, "save_steps": 0.1}
    config = reward_config(train, tmp_path, 0, has_validation=True)
    assert (config.max_steps, config.eval_steps) == (5, 0.1)


def test_fp32_is_trained_in_fp32_on_a_gpu_too() -> None:
    asked = [(precision, on_gpu) for precision in ("fp32", "bf16", "8bit") for on_gpu in (True, False)]
    assert [in_bf16(*one) for one in asked] == [False, False, True, True, True, False]  # type: ignore[arg-type]


def test_the_launcher_s_precision_does_not_go_before_the_recipe_s(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As recipes/accelerate/*.yaml set it; `train.bf16` of the user's own is theirs to decide."""
    monkeypatch.setenv("ACCELERATE_MIXED_PRECISION", "bf16")
    assert reward_config({}, tmp_path, 0, has_validation=True, precision="fp32").mixed_precision == "no"
    config = reward_config({"bf16": True}, tmp_path, 0, has_validation=True, precision="fp32")
    assert config.bf16 and config.mixed_precision == "bf16"


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


NUMBERS = {"cda/skew/jargon/after": 0.55, "cda/skew/jargon/after_n": 20.0}


@pytest.fixture
def store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Places of this test for every tracker, without a network."""
    monkeypatch.chdir(tmp_path)
    places = {
        "MLFLOW_TRACKING_URI": f"file://{tmp_path}/mlruns",
        "MLFLOW_ALLOW_FILE_STORE": "true",
        "WANDB_MODE": "offline",
    }
    for name, value in places.items():
        monkeypatch.setenv(name, value)
    for name in ("TENSORBOARD_LOGGING_DIR", "WANDB_PROJECT", "MLFLOW_EXPERIMENT_NAME", "MLFLOW_RUN_ID"):
        monkeypatch.delenv(name, raising=False)
    return tmp_path


def needs(tracker: str) -> None:
    if find_spec(tracker) is None:
        pytest.skip(f"{tracker} is not installed: pip install {'mlflow-skinny' if tracker == 'mlflow' else tracker}")


@pytest.fixture
def trained(
    store: Path, llama: Path, preference_pairs: list[Pair], lora: Lora, train_arguments: Mapping[str, Any]
) -> Callable[[str, str], Tracked]:
    """Trains three steps with a tracker, logs `NUMBERS` afterwards, and gives the training."""

    def run(tracker: str, name: str) -> Tracked:
        needs(tracker)
        folder, train = store / name, {**train_arguments, "max_steps": 3, "report_to": tracker}
        assert tracker_problems(train) == []
        examples = [TrainingExample(pair) for pair in preference_pairs]
        folder.mkdir()
        with Tracked.of(train, name, folder).training():
            model = load_reward_model(ModelSpec(str(llama), "fp32", 64))
            train_adapter(model, examples[:12], examples[12:], lora, train, folder, 0)
        later = Tracked.of(train, name, folder)
        later.log(tracker, NUMBERS, store / "logs")
        return later

    return run


def events(folder: Path) -> dict[str, list[float]]:
    """What TensorBoard reads below a folder."""
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    found: dict[str, list[float]] = {}
    for file in folder.rglob("events.out.tfevents.*"):
        read = EventAccumulator(str(file))
        read.Reload()
        found |= {name: [event.value for event in read.Scalars(name)] for name in read.Tags()["scalars"]}
    return found


def test_tensorboard_has_the_training_and_the_numbers(trained: Callable[[str, str], Tracked], store: Path) -> None:
    trained("tensorboard", "jargon")
    training = events(store / "jargon")
    assert len(training["train/loss"]) == 3 and 0 <= training["eval/accuracy"][-1] <= 1
    logged = events(store / "logs" / "jargon")
    assert {name: values for name, (values,) in logged.items()} == pytest.approx(NUMBERS)


def test_mlflow_has_a_run_for_each_training(trained: Callable[[str, str], Tracked]) -> None:
    first, second = trained("mlflow", "jargon"), trained("mlflow", "jargon-seed-3")
    import mlflow

    assert mlflow.active_run() is None
    for own in (first, second):
        run = mlflow.get_run(json.loads((own.folder / RUNS).read_text())["mlflow"])
        assert (run.info.run_name, run.info.status) == (own.name, "FINISHED")
        assert mlflow.get_experiment(run.info.experiment_id).name == "cda"
        assert {name: run.data.metrics[name] for name in NUMBERS} == NUMBERS
        assert 0 <= run.data.metrics["eval_accuracy"] <= 1 and run.data.metrics["loss"] > 0
    # The user's own run stays open, and takes everything.
    with mlflow.start_run(run_name="mine") as mine:
        trained("mlflow", "inside")
        assert mlflow.active_run().info.run_id == mine.info.run_id
    assert mlflow.get_run(mine.info.run_id).data.metrics["cda/skew/jargon/after"] == 0.55


def test_weights_and_biases_goes_on_with_its_run(trained: Callable[[str, str], Tracked], store: Path) -> None:
    run = json.loads((trained("wandb", "jargon").folder / RUNS).read_text())["wandb"]
    import wandb

    assert wandb.run is None
    folders = sorted(store.glob("wandb/offline-run-*"))
    assert len(folders) == 2 and all(folder.name.endswith(run) for folder in folders)
    said = [b"".join(file.read_bytes() for file in folder.glob("*.wandb")) for folder in folders]
    assert b"eval/accuracy" in said[0] and b"train/loss" in said[0] and b"cda/skew/jargon/after" in said[1]


@pytest.mark.parametrize("tracker", ["tensorboard", "wandb", "mlflow"])
def test_a_tracker_that_is_not_installed_is_one_sentence(tracker: str, monkeypatch: pytest.MonkeyPatch) -> None:
    from transformers.integrations import integration_utils

    monkeypatch.setattr(integration_utils, f"is_{tracker}_available", lambda: False)
    assert tracker_problems({"report_to": [tracker]}) == [
        f"train.report_to={tracker}: not installed here: `pip install {tracker}`. Without a tracker: train.report_to=none"
    ]


def test_a_store_of_mlflow_that_does_not_answer(store: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    needs("mlflow")
    monkeypatch.setenv("MLFLOW_TRACKING_URI", "http://127.0.0.1:9")
    (problem,) = tracker_problems({"report_to": "mlflow"})
    assert problem.startswith("train.report_to=mlflow: the store of MLflow cannot be used (http://127.0.0.1:9: ")
    assert "\n" not in problem and "set MLFLOW_TRACKING_URI" in problem
    (store / "file").touch()
    monkeypatch.setenv("MLFLOW_TRACKING_URI", f"file://{store}/file")
    assert "cannot be used" in tracker_problems({"report_to": "mlflow"})[0]


def test_all_are_those_that_are_installed(monkeypatch: pytest.MonkeyPatch) -> None:
    from transformers.integrations import integration_utils

    monkeypatch.setattr(integration_utils, "get_available_reporting_integrations", lambda: ["tensorboard"])
    assert asked_trackers({"report_to": "all"}) == ["tensorboard"] and asked_trackers({"report_to": "none"}) == []
    assert asked_trackers({}) == asked_trackers({"report_to": []}) == []


def test_other_processes_open_no_run(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(trackers, "is_main", lambda: False)
    with Tracked.of({"report_to": ["wandb", "mlflow"]}, "jargon", tmp_path).training():
        assert not list(tmp_path.iterdir())
