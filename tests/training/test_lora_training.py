"""Training in fp32: the best checkpoint is kept, seeds decide everything, and an interrupted run goes on."""

from __future__ import annotations

import json
import math
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
import torch
from devices import on_a_cpu

from cda.errors import DataError, ModelError, RecipeError
from cda.models.config import ModelSpec
from cda.models.load import load_reward_model
from cda.records import Pair, TrainingExample, user_prompt
from cda.scorers.classifier import ClassifierScorer
from cda.training.arguments import Lora
from cda.training.chunks import collator, encode_pairs
from cda.training.lora import TrainingResult, train_adapter
from cda.training.trainer import (
    EndAtBest,
    FindBest,
    ObjectiveTrainer,
    newest_whole,
    ordered_as_taught,
    preference_loss,
    seal,
)

if TYPE_CHECKING:
    from conftest import ModelMaker, Texts, Trained


@dataclass(frozen=True)
class Step:
    """What was true of the model while it learned from one batch."""

    training: bool
    trainable_dtypes: frozenset[str]
    trainable_names: tuple[str, ...]
    lora_dropouts: frozenset[float]
    lora_dropouts_active: bool
    twice_the_same: bool
    """True if two passes over the batch gave the same scores."""


class InterruptedTrainingError(Exception):
    """Stands for a killed process."""


@contextmanager
def watched(inspect: bool = False, interrupt_at: int | None = None) -> Iterator[list[Step | None]]:
    """Every training step taken inside, in order.

    Args:
        inspect: Look at the model in each step, before its loss; costs two passes, and moves the random state.
        interrupt_at: Raise InterruptedTrainingError in place of this step, counted from 1.
    """
    from cda.training.trainer import ObjectiveTrainer

    steps: list[Step | None] = []
    step, loss = ObjectiveTrainer.training_step, ObjectiveTrainer.compute_loss
    inside = False

    def training_step(self: Any, *arguments: Any, **named: Any) -> Any:
        nonlocal inside
        steps.append(None)
        if len(steps) == interrupt_at:
            raise InterruptedTrainingError
        inside = True
        try:
            return step(self, *arguments, **named)
        finally:
            inside = False

    def compute_loss(self: Any, model: Any, inputs: Any, *rest: Any, **named: Any) -> Any:
        if inspect and inside:
            steps[-1] = _look(model, inputs)
        return loss(self, model, inputs, *rest, **named)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(ObjectiveTrainer, "training_step", training_step)
        patch.setattr(ObjectiveTrainer, "compute_loss", compute_loss)
        yield steps


def _look(model: Any, inputs: Any) -> Step:
    import torch

    trainable = {name: weights for name, weights in model.named_parameters() if weights.requires_grad}
    dropouts = [
        part
        for name, part in model.named_modules()
        if ".lora_dropout." in name and isinstance(part, torch.nn.Dropout | torch.nn.Identity)
    ]
    with torch.no_grad():
        first, second = (
            model(input_ids=inputs["input_ids"], attention_mask=inputs["attention_mask"]).logits for _ in range(2)
        )
    return Step(
        training=model.training,
        trainable_dtypes=frozenset(str(weights.dtype) for weights in trainable.values()),
        trainable_names=tuple(trainable),
        lora_dropouts=frozenset(getattr(part, "p", 0.0) for part in dropouts),
        lora_dropouts_active=bool(dropouts) and all(part.training for part in dropouts),
        twice_the_same=torch.equal(first, second),
    )


Train = Callable[..., TrainingResult]


@pytest.fixture
def train(
    llama: Path, preference_pairs: list[Pair], lora: Lora, train_arguments: Mapping[str, Any], tmp_path: Path
) -> Train:
    """Trains the tiny Llama without validation pairs, unless told otherwise."""

    def run(
        name: str = "run",
        model: Path = llama,
        seed: int = 0,
        lora: Lora = lora,
        validation: list[Pair] | None = None,
        pairs: list[Pair] | None = None,
        precision: Any = "fp32",
        held: list[TrainingExample] | None = None,
        **arguments: Any,
    ) -> TrainingResult:
        loaded = load_reward_model(ModelSpec(str(model), precision, 64))
        examples = [TrainingExample(pair) for pair in (preference_pairs[:12] if pairs is None else pairs)]
        held = held or [TrainingExample(pair) for pair in validation or []]
        arguments = {**train_arguments, **arguments}
        return train_adapter(loaded, examples, held, lora, arguments, tmp_path / name, seed)

    return run


def losses(result: TrainingResult) -> list[float]:
    return [entry["loss"] for entry in result.history if "loss" in entry]


def weights(folder: Path) -> dict[str, np.ndarray[Any, Any]]:
    from safetensors.numpy import load_file

    return load_file(folder / "adapter_model.safetensors")


def assert_same_weights(one: Path, other: Path) -> None:
    first, second = weights(one), weights(other)
    assert first.keys() == second.keys()
    for name, values in first.items():
        np.testing.assert_array_equal(values, second[name], err_msg=name)


def differ(one: Path, other: Path) -> bool:
    first, second = weights(one), weights(other)
    return any(not np.array_equal(values, second[name]) for name, values in first.items())


def test_the_checkpoint_with_the_best_validation_accuracy_is_saved(trained_fp32: Trained) -> None:
    result = trained_fp32.result
    accuracy = {entry["step"]: entry["eval_accuracy"] for entry in result.history if "eval_accuracy" in entry}
    assert list(accuracy) == [3, 6, 9]
    assert result.counts.best_step is not None
    assert accuracy[result.counts.best_step] == max(accuracy.values()) > min(accuracy.values())
    checkpoints = result.adapter.parent / "checkpoints"
    assert_same_weights(result.adapter, checkpoints / f"checkpoint-{result.counts.best_step}")
    assert differ(result.adapter, checkpoints / "checkpoint-3")


@pytest.fixture(scope="module")
def unbroken(
    llama: Path, preference_pairs: list[Pair], lora: Lora, train_arguments: Mapping[str, Any], tmp_path_factory: Any
) -> TrainingResult:
    """Nine steps without validation pairs, with a checkpoint every two."""
    examples = [TrainingExample(pair) for pair in preference_pairs[:12]]
    loaded, folder = load_reward_model(ModelSpec(str(llama), "fp32", 64)), tmp_path_factory.mktemp("unbroken")
    return train_adapter(loaded, examples, [], lora, {**train_arguments, "save_steps": 2}, folder, 0)


def test_without_validation_pairs_nothing_is_evaluated_and_the_last_weights_are_kept(unbroken: TrainingResult) -> None:
    assert not any("eval_loss" in entry for entry in unbroken.history)
    assert (unbroken.counts.best_step, unbroken.counts.steps, unbroken.counts.validation) == (None, 9, 0)
    checkpoints = unbroken.adapter.parent / "checkpoints"
    assert differ(unbroken.adapter, checkpoints / "checkpoint-6")
    assert_same_weights(unbroken.adapter, checkpoints / "checkpoint-9")


def test_the_same_seed_gives_the_same_losses_and_weights_and_another_seed_others(
    train: Train, unbroken: TrainingResult
) -> None:
    """Whatever random numbers were drawn before; two seeds that began alike would show too little spread between trainings."""
    import torch

    torch.manual_seed(7)
    again, other = train("again"), train("other", seed=1, max_steps=1)
    assert len(losses(unbroken)) == 9
    assert losses(unbroken) == losses(again)
    assert_same_weights(unbroken.adapter, again.adapter)
    assert losses(unbroken)[0] != losses(other)[0]
    begun, begun_other = weights(unbroken.adapter), weights(other.adapter)
    for name in (name for name in begun if "lora_A" in name):
        assert np.abs(begun[name] - begun_other[name]).max() > 0.1, name  # further than ten steps of 5e-3 lead


def test_an_interrupted_run_goes_on_from_its_newest_whole_checkpoint_to_the_same_weights(
    train: Train,
    unbroken: TrainingResult,
    tmp_path: Path,
) -> None:
    with watched(interrupt_at=6), pytest.raises(InterruptedTrainingError):
        train("broken", save_steps=2)
    checkpoints = tmp_path / "broken" / "checkpoints"
    assert sorted(path.name for path in checkpoints.glob("checkpoint-*")) == ["checkpoint-2", "checkpoint-4"]
    # A kill while checkpoint 6 was being written: weights are there, the state that is written last is not.
    half = checkpoints / "checkpoint-6"
    half.mkdir()
    (half / "adapter_model.safetensors").write_bytes(b"half")
    (tmp_path / "broken" / "adapter").mkdir()
    (tmp_path / "broken" / "adapter" / ".tmp").write_bytes(b"half")
    with watched() as steps:
        resumed = train("broken", save_steps=2)
    assert len(steps) == 5  # steps 5 to 9
    assert not (resumed.adapter / ".tmp").exists()
    assert resumed.counts.steps == 9
    assert_same_weights(resumed.adapter, unbroken.adapter)
    logged, resumed_log = (
        [(entry.get("loss"), entry.get("num_tokens")) for entry in result.history] for result in (unbroken, resumed)
    )
    assert resumed_log == logged


def test_bert_is_trained_and_scored_through_its_pair_form(
    train: Train, bert: Path, lora: Lora, preference_pairs: list[Pair]
) -> None:
    targets = lora.model_copy(update={"target_modules": ["query", "value"]})
    with watched(inspect=True) as steps:
        result = train(model=bert, lora=targets, precision="8bit")
    assert steps[0].twice_the_same
    assert not steps[-1].twice_the_same
    assert steps[-1].trainable_dtypes == {"torch.float32"}
    assert "base_model.model.classifier.weight" in weights(result.adapter)
    spec = ModelSpec(str(bert), "8bit", 64)
    prompts = [pair.prompt for pair in preference_pairs[:12]]

    def mean_margin(adapter: Path | None) -> float:
        scorer = ClassifierScorer(load_reward_model(spec, adapter))
        chosen = scorer.score(prompts, [pair.chosen for pair in preference_pairs[:12]])
        rejected = scorer.score(prompts, [pair.rejected for pair in preference_pairs[:12]])
        return float(np.mean(chosen - rejected))

    assert mean_margin(result.adapter) > mean_margin(None) + 0.5  # the chosen side gained


def test_cut_and_identical_pairs_of_both_splits_reach_the_result_of_pairs_grouped_by_length(
    train: Train, preference_pairs: list[Pair], words: Callable[..., str]
) -> None:
    prompt = user_prompt(words(5))
    cut, same_after_cut = Pair(prompt, words(60), words(3)), Pair(prompt, words(70), words(75))
    pairs, validation = [*preference_pairs[:4], cut, same_after_cut], [preference_pairs[5], cut]
    grouped = {"train_sampling_strategy": "group_by_length", "remove_unused_columns": False}
    result = train(pairs=pairs, validation=validation, num_train_epochs=1, **grouped)
    assert (result.counts.train, result.counts.validation, len(losses(result))) == (5, 2, 2)
    assert (result.counts.truncated, result.counts.identical_after_truncation) == (3, 1)


@pytest.mark.parametrize("n_sound", [0, 1])
def test_most_pairs_alike_after_cutting_are_a_data_error(
    train: Train, preference_pairs: list[Pair], words: Callable[..., str], n_sound: int
) -> None:
    alike = [Pair(user_prompt(words(5, start)), words(70), words(75)) for start in range(2)]
    with pytest.raises(DataError) as error:
        train(pairs=[*preference_pairs[:n_sound], *alike])
    assert f"2 of {2 + n_sound} training pairs are the same" in str(error.value)
    assert "Raise model.max_length_tokens" in str(error.value)


def test_a_validation_loss_that_is_no_number_stops_the_training(train: Train, preference_pairs: list[Pair]) -> None:
    with pytest.raises(ModelError) as error:
        # Evaluated after step 1, before the next training loss shows it.
        train(validation=preference_pairs[12:], learning_rate=1e30, max_grad_norm=0, eval_steps=1, save_steps=1)
    assert str(error.value) == (
        "training stopped at step 1: the validation loss is nan. Lower train.learning_rate, "
        "or use model.precision=fp32; earlier checkpoints are kept in the run folder"
    )


def test_a_training_loss_that_is_no_number_stops_the_training_before_it_is_saved(train: Train, tmp_path: Path) -> None:
    with pytest.raises(ModelError, match=r"training stopped at step 2: the loss is nan\. Lower train\.learning_rate"):
        # Not logged until later: what is saved at step 2 would be broken already.
        train(learning_rate=1e30, max_grad_norm=0, logging_steps=100, save_steps=1)
    assert [path.name for path in (tmp_path / "run" / "checkpoints").glob("checkpoint-*")] == ["checkpoint-1"]


@on_a_cpu
@pytest.mark.parametrize(("precision", "expected"), [("bf16", "eager"), ("fp32", "sdpa")])
def test_attention_is_plain_where_its_fused_gradients_are_slow(
    llama: Path, preference_pairs: list[Pair], lora: Lora, train_arguments: Mapping[str, Any], tmp_path: Path,
    precision: Any, expected: str,
) -> None:  # fmt: skip
    loaded = load_reward_model(ModelSpec(str(llama), precision, 64))
    examples = [TrainingExample(pair) for pair in preference_pairs[:4]]
    train_adapter(loaded, examples, [], lora, {**train_arguments, "max_steps": 1}, tmp_path, 0)
    assert loaded.model.config._attn_implementation == expected


def test_a_tokenizer_without_padding_and_eos_trains_and_keeps_its_notes(
    llama_maker: ModelMaker, preference_pairs: list[Pair], lora: Lora, tmp_path: Path
) -> None:
    folder = llama_maker("train-no-pad-no-eos", pad=None, eos=False, chat_template=None)
    model, examples = load_reward_model(ModelSpec(str(folder), "fp32", 64)), [*map(TrainingExample, preference_pairs)]
    assert "The tokenizer has no end-of-sequence token; responses end without one." in (
        before := model.template.notes()
    )
    assert np.isfinite(
        losses(train_adapter(model, examples, [], lora, {"max_steps": 1, "logging_steps": 1}, tmp_path, 0))
    )
    assert model.template.notes() == before


def test_weights_that_a_sound_loss_broke_are_not_saved(
    train: Train, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """The last step's loss is finite, its update is not."""
    from cda.training.trainer import ObjectiveTrainer

    step = ObjectiveTrainer.training_step

    def break_weights(self: Any, model: Any, *rest: Any, **named: Any) -> Any:
        loss = step(self, model, *rest, **named)
        if self.state.global_step == 8:
            next(weights for weights in model.parameters() if weights.requires_grad).data.fill_(float("nan"))
        return loss

    monkeypatch.setattr(ObjectiveTrainer, "training_step", break_weights)
    with pytest.raises(ModelError, match=r"training stopped at step 9: \d+ trained tensors are NaN or infinite"):
        train(save_steps=3)
    checkpoints = sorted(path.name for path in (tmp_path / "run" / "checkpoints").glob("checkpoint-*"))
    assert checkpoints == ["checkpoint-3", "checkpoint-6"]
    assert not (tmp_path / "run" / "adapter").exists()


def test_a_choice_by_accuracy_among_ties_alone_is_refused(train: Train, preference_pairs: list[Pair]) -> None:
    ties = [TrainingExample(pair, 0.5) for pair in preference_pairs[12:]]
    with pytest.raises(RecipeError, match="ties alone, which have no accuracy"):
        train(held=ties, metric_for_best_model="eval_accuracy", greater_is_better=True)


ADVICE = r"batches of 4 pairs, the longest text \d+ tokens\. Lower train\.per_device"


@pytest.mark.parametrize(
    ("error", "raised", "said"),
    [
        (RuntimeError("DefaultCPUAllocator: can't allocate memory: you tried to allocate 9"), ModelError, ADVICE),
        (type("OutOfMemoryError", (RuntimeError,), {})("CUDA out of memory"), ModelError, ADVICE),
        (RuntimeError("expected scalar type Half but found Float"), RuntimeError, "expected scalar type"),
    ],
)
def test_too_little_memory_and_no_other_error_says_what_to_lower(
    train: Train, monkeypatch: pytest.MonkeyPatch, error: RuntimeError, raised: type[Exception], said: str
) -> None:
    from cda.training.trainer import ObjectiveTrainer

    def fail(*_: Any, **__: Any) -> None:
        raise error

    monkeypatch.setattr(ObjectiveTrainer, "compute_loss", fail)
    with pytest.raises(raised, match=said):
        train()


@dataclass(frozen=True)
class Run:
    """A training on the 8-bit base, watched."""

    result: TrainingResult
    steps: list[Any]
    model: Any
    spec: ModelSpec


@pytest.fixture(scope="module")
def run(
    tmp_path_factory: pytest.TempPathFactory,
    llama: Path,
    preference_pairs: list[Pair],
    lora: Lora,
    train_arguments: Mapping[str, Any],
) -> Run:
    spec = ModelSpec(str(llama), "8bit", 64)
    model = load_reward_model(spec)
    folder = tmp_path_factory.mktemp("trained-8bit")
    with watched(inspect=True) as steps:
        train, validation = (
            list(map(TrainingExample, pairs)) for pairs in (preference_pairs[:12], preference_pairs[12:])
        )
        result = train_adapter(model, train, validation, lora, train_arguments, folder, seed=0)
    return Run(result, steps, model, spec)


def test_nine_steps_with_finite_losses_that_end_lower(run: Run) -> None:
    losses = [entry["loss"] for entry in run.result.history if "loss" in entry]
    assert len(losses) == len(run.steps) == run.result.counts.steps == 9
    assert all(math.isfinite(loss) for loss in losses)
    assert np.mean(losses[-3:]) < np.mean(losses[:3]) / 4  # one epoch each; measured: a fourteenth
    assert (run.result.counts.train, run.result.counts.validation) == (12, 4)
    assert (run.result.counts.truncated, run.result.counts.identical_after_truncation) == (0, 0)


def test_the_base_is_8bit_and_only_adapter_and_head_learn(run: Run) -> None:
    kinds = {type(part).__name__ for name, part in run.model.model.named_modules() if name.endswith("gate_proj")}
    assert kinds == {"Linear8bitLt"}
    names = run.steps[0].trainable_names
    assert len(names) == 2 * 2 * 2 + 1  # A and B, on two projections of two layers, and the head
    assert all("lora_" in name or "score.modules_to_save" in name for name in names)
    # Although TRL casts them to bf16.
    assert {dtype for step in run.steps for dtype in step.trainable_dtypes} == {"torch.float32"}


def test_lora_dropout_is_on_although_trl_zeroes_it_by_default(run: Run) -> None:
    assert {rate for step in run.steps for rate in step.lora_dropouts} == {0.05}
    assert all(step.training and step.lora_dropouts_active for step in run.steps)
    # LoRA's B starts at zero: at first dropout changes nothing, and nothing else is random.
    assert run.steps[0].twice_the_same
    assert not any(step.twice_the_same for step in run.steps[1:])


def test_reload_gives_the_scores_of_the_model_trained_in_place(run: Run, texts: Texts) -> None:
    run.model.model.eval()
    in_place = ClassifierScorer(run.model).score(texts.prompts, texts.responses)
    loaded = load_reward_model(run.spec, run.result.adapter)
    np.testing.assert_array_equal(ClassifierScorer(loaded).score(texts.prompts, texts.responses), in_place)
    untrained = ClassifierScorer(load_reward_model(run.spec)).score(texts.prompts, texts.responses)
    assert np.abs(untrained - in_place).max() > 0.1 * np.ptp(in_place)


@on_a_cpu
def test_stock_libraries_give_the_same_scores(run: Run, texts: Texts) -> None:
    """With layers that multiply as in training; on a CPU stock ones round their inputs to 8 bits when they only score."""
    from bitsandbytes.nn import Linear8bitLt
    from peft import PeftModel
    from transformers import AutoModelForSequenceClassification, AutoTokenizer, BitsAndBytesConfig

    base = AutoModelForSequenceClassification.from_pretrained(
        run.spec.name_or_path,
        num_labels=1,
        dtype=torch.float32,
        quantization_config=BitsAndBytesConfig(load_in_8bit=True),
    )
    stock = PeftModel.from_pretrained(base, str(run.result.adapter)).eval()
    for part in stock.modules():
        if isinstance(part, Linear8bitLt):
            part.train()
    tokenizer = AutoTokenizer.from_pretrained(str(run.result.adapter))
    expected = []
    for prompt, response in zip(texts.prompts, texts.responses, strict=True):
        turns = [{"role": "user", "content": prompt[0].content}, {"role": "assistant", "content": response}]
        ids = tokenizer.apply_chat_template(turns, return_tensors="pt", return_dict=True)
        with torch.no_grad():
            expected.append(stock(**ids).logits[0, 0].item())
    loaded = load_reward_model(run.spec, run.result.adapter)
    one_at_a_time = ClassifierScorer(loaded, batch_tokens=1).score(texts.prompts, texts.responses)
    np.testing.assert_allclose(one_at_a_time, expected, atol=1e-5)


@pytest.fixture
def checkpoints(tmp_path: Path) -> Path:
    """Whole checkpoints of steps 2, 4 and 10; from step 4 on, 4 is the best."""
    for step, best in ((2, 2), (4, 4), (10, 4)):
        folder = tmp_path / f"checkpoint-{step}"
        folder.mkdir()
        (folder / "optimizer.pt").write_bytes(bytes(100))
        seal(folder)
        state = {"best_model_checkpoint": f"/elsewhere/checkpoint-{best}"}
        (folder / "trainer_state.json").write_text(json.dumps(state), encoding="utf-8")
    return tmp_path


def found(folder: Path) -> tuple[str | None, list[str]]:
    """Name of the checkpoint, and what was said."""
    said: list[str] = []
    checkpoint = newest_whole(folder, said.append)
    return None if checkpoint is None else checkpoint.name, said


def test_the_newest_by_its_number(checkpoints: Path) -> None:
    assert found(checkpoints) == ("checkpoint-10", [])


@pytest.mark.parametrize("file", ["optimizer.pt", "trainer_state.json", "contents.json"])
def test_one_with_a_cut_file_is_passed_over_and_named(checkpoints: Path, file: str) -> None:
    path = checkpoints / "checkpoint-10" / file
    path.write_bytes(path.read_bytes()[:-2])
    assert found(checkpoints) == ("checkpoint-4", ["  checkpoint-10 is not whole; passed over"])


def test_one_whose_best_is_not_whole_is_passed_over(checkpoints: Path) -> None:
    (checkpoints / "checkpoint-4" / "optimizer.pt").unlink()
    name, said = found(checkpoints)
    assert name == "checkpoint-2" and len(said) == 2


def test_a_state_that_is_written_after_the_seal_is_no_change(checkpoints: Path) -> None:
    state = checkpoints / "checkpoint-10" / "trainer_state.json"
    state.write_text('{"best_model_checkpoint": null, "step": 10}', encoding="utf-8")
    assert found(checkpoints) == ("checkpoint-10", [])


def test_in_a_moved_folder_a_training_goes_on_with_the_best_where_it_lies_now(checkpoints: Path) -> None:
    """The library looks for it by the whole path, and forgets it with a warning where there is nothing."""
    from transformers import TrainerState

    state = TrainerState(best_model_checkpoint=None)
    FindBest(checkpoints / "checkpoint-10").on_train_begin(None, state, None)
    assert state.best_model_checkpoint == str(checkpoints / "checkpoint-4")
    fresh = TrainerState(best_model_checkpoint=None)
    FindBest(None).on_train_begin(None, fresh, None)
    assert fresh.best_model_checkpoint is None


class Filled:
    """Gathers the last batch of an evaluation: of its four pairs the first three are there, the fourth is one of them again."""

    def gather(self, values: Any) -> Any:
        return values

    def gather_for_metrics(self, values: Any) -> Any:
        return values[:3]


def noted(training: bool) -> dict[str, list[float]]:
    metrics: dict[str, dict[str, list[float]]] = {name: defaultdict(list) for name in ("train", "eval")}
    trainer = SimpleNamespace(
        model=SimpleNamespace(training=training), accelerator=Filled(), state=SimpleNamespace(global_step=1), _metrics=metrics,
        _keeps_tokens=False, _total_train_tokens=0,
    )  # fmt: skip
    first, second = torch.tensor([2.0, 1.0, 1.0, 9.0]), torch.tensor([1.0, 2.0, 0.0, 1.0])
    inputs = {"attention_mask": torch.ones(8, 5), "target": torch.tensor([1.0, 1.0, 0.5, 1.0]),
              "kept": torch.tensor([math.nan, -3.0, 4.0, 0.0]), "shift": torch.tensor([0.0, 0.0, -4.0, 0.0])}  # fmt: skip
    ObjectiveTrainer._note(trainer, torch.tensor(0.3), torch.cat([first, second]), first - second, inputs)
    return metrics["train" if training else "eval"]


def test_pairs_that_fill_up_an_evaluation_s_last_batch_count_once() -> None:
    found = noted(training=False)
    assert found["accuracy"] == [1.0, 0.0]
    assert found["margin"] == [pytest.approx(1 / 3)]
    assert (found["min_reward"], found["max_reward"]) == ([0.0], [2.0])
    assert found["kept_drift"] == [2.0]  # a margin that is moved on purpose is none that was to stay


def test_in_training_every_pair_that_was_trained_on_counts() -> None:
    found = noted(training=True)
    assert found["accuracy"] == [1.0, 1.0, 0.0]
    assert (found["max_reward"], found["num_tokens"]) == ([9.0], [40])


def loss(
    differences: list[float],
    targets: list[float],
    margins: list[float],
    weights: list[float],
    kept: float = math.nan,
    shift: float = 0.0,
) -> float:
    import torch

    n = len(differences)
    columns = (
        torch.tensor(values, dtype=torch.float64)
        for values in (differences, targets, margins, weights, [kept] * n, [shift] * n)
    )
    return float(preference_loss(*columns))


def log_sigmoid(x: float) -> float:
    return -math.log1p(math.exp(-x))


@pytest.mark.parametrize(
    ("difference", "target", "margin", "expected"),
    [
        (1.5, 1.0, 0.0, -log_sigmoid(1.5)),  # TRL's pairwise loss
        (1.5, 1.0, 0.5, -log_sigmoid(1.0)),
        (1.5, 0.0, 0.5, -log_sigmoid(-2.0)),  # the pair the other way round
        (0.0, 0.5, 0.0, math.log(2)),
        (1.0, 0.5, 0.0, -(log_sigmoid(1.0) + log_sigmoid(-1.0)) / 2),
        (-1.0, 0.5, 0.0, -(log_sigmoid(1.0) + log_sigmoid(-1.0)) / 2),
    ],
)
def test_losses_by_hand(difference: float, target: float, margin: float, expected: float) -> None:
    assert loss([difference], [target], [margin], [1]) == pytest.approx(expected)


@pytest.mark.parametrize("target", [0.5, 0.8])
def test_a_tie_or_soft_target_is_least_where_sigma_of_the_difference_is_the_target(target: float) -> None:
    best = math.log(target / (1 - target))
    at = [loss([best + step], [target], [0], [1]) for step in (-0.1, 0.0, 0.1)]
    assert min(at) == at[1]


@pytest.mark.parametrize("kept", [0.0, -0.5, 4.0, 12.0])
def test_a_margin_that_is_to_stay_is_least_where_it_was_and_pulls_as_hard_wherever_that_is(kept: float) -> None:
    assert loss([kept], [0.9], [0], [1], kept) == 0
    assert loss([kept + 2], [0.9], [0], [2], kept) == loss([kept - 2], [0.1], [0], [2], kept) == pytest.approx(1.0)
    assert loss([kept - 1.5], [0.9], [0], [1], kept, -1.5) == 0


def test_a_margin_that_is_to_stay_has_a_tie_s_curvature_and_leaves_other_pairs_their_gradients() -> None:
    import torch

    differences = torch.tensor([0.01, 1.0], dtype=torch.float64, requires_grad=True)
    ones, kept = torch.ones(2, dtype=torch.float64), torch.tensor([0.0, math.nan], dtype=torch.float64)
    preference_loss(differences, 0.5 * ones, 0 * ones, ones, kept, 0 * ones).backward()
    assert differences.grad is not None
    own, other = differences.grad.tolist()
    assert own == pytest.approx(0.01 / 4 / 2)  # that of the cross-entropy of a tie
    assert other == pytest.approx((1 / (1 + math.exp(-1.0)) - 0.5) / 2)


def test_weights_scale_a_pair_whatever_is_beside_it() -> None:
    alone, beside = loss([0.3], [1], [0], [3]), loss([0.3, 2.0], [1, 1], [0, 0], [3, 0])
    assert alone == pytest.approx(3 * -log_sigmoid(0.3))
    assert beside == pytest.approx(alone / 2)  # the mean is over pairs


def test_ties_have_no_side_to_agree_with() -> None:
    import torch

    differences = torch.tensor([1.0, -1.0, 0.0, 2.0, -2.0])
    targets = torch.tensor([1.0, 0.3, 1.0, 0.5, 1.0])
    assert ordered_as_taught(differences, targets) == (2, 4)


@pytest.mark.parametrize("target", [0.0, 0.3, 0.7, 1.0])
def test_equal_rewards_agree_with_no_side_whichever_is_taught(target: float) -> None:
    import torch

    assert ordered_as_taught(torch.tensor([0.0, 0.0]), torch.tensor([target, 0.5])) == (0, 1)


def test_gradients_are_trls_own_on_the_same_batch(llama: Path, preference_pairs: list[Pair], tmp_path: Path) -> None:
    import torch
    from trl import RewardConfig, RewardTrainer
    from trl.trainer.reward_trainer import DataCollatorForPreference

    from cda.training.trainer import ObjectiveTrainer

    def gradients(kind: type, **own: Any) -> dict[str, Any]:
        loaded = load_reward_model(ModelSpec(str(llama), "fp32", 64))
        dataset = encode_pairs([TrainingExample(pair) for pair in preference_pairs[:8]], loaded.template).dataset
        config = RewardConfig(
            str(tmp_path), use_cpu=True, bf16=False, max_length=None, remove_unused_columns=False, report_to="none"
        )
        pad = loaded.template.pad_token_id
        collate = collator(pad) if own else DataCollatorForPreference(pad_token_id=pad)
        trainer = kind(
            model=loaded.model, args=config, train_dataset=dataset, processing_class=loaded.template.tokenizer,
            data_collator=collate, **own,
        )  # fmt: skip
        loaded.model.train()
        batch = collate([dataset[row] for row in range(8)])
        trainer.compute_loss(loaded.model, batch).backward()
        return {name: one.grad for name, one in loaded.model.named_parameters() if one.grad is not None}

    ours, theirs = gradients(ObjectiveTrainer, overhead_tokens=0), gradients(RewardTrainer)
    assert ours.keys() == theirs.keys()
    assert max(float(one.abs().max()) for one in theirs.values()) > 1e-3
    for name, one in theirs.items():
        torch.testing.assert_close(ours[name], one, atol=1e-5, rtol=0)


def test_training_reaches_ties_and_soft_targets(
    llama: Path, preference_pairs: list[Pair], lora: Lora, train_arguments: Mapping[str, Any], tmp_path: Path
) -> None:
    """One model learns a tie, a soft target and the pair the other way round, each of pairs of its own."""
    loaded, pairs = load_reward_model(ModelSpec(str(llama), "fp32", 64)), preference_pairs[:3]
    examples = [TrainingExample(pair, target) for pair, target in zip(pairs, (0.5, 0.75, 0.0), strict=True)]
    arguments = {
        **train_arguments,
        "num_train_epochs": 100,
        "learning_rate": 1e-2,
        "save_strategy": "no",
        "logging_steps": 100,
    }
    adapter = train_adapter(loaded, examples, [], lora.model_copy(update={"dropout": 0.0}), arguments, tmp_path, 0)
    scorer = ClassifierScorer(load_reward_model(ModelSpec(str(llama), "fp32", 64), adapter.adapter))
    chosen, rejected = (
        scorer.score([pair.prompt for pair in pairs], [getattr(pair, side) for pair in pairs])
        for side in ("chosen", "rejected")
    )
    tie, soft, turned = chosen - rejected
    assert (tie, soft) == (pytest.approx(0, abs=0.15), pytest.approx(math.log(3), abs=0.25))
    assert turned < -1.5


@pytest.mark.parametrize(
    ("accuracy", "changes", "ends"),
    [
        (1.0, {}, True),
        (0.99, {}, False),
        (1.0, {"load_best_model_at_end": False}, False),
        (1.0, {"metric_for_best_model": "eval_loss"}, False),  # may still fall
        (1.0, {"greater_is_better": False}, False),
    ],
)
def test_a_training_ends_once_no_checkpoint_can_be_better(accuracy: float, changes: dict[str, Any], ends: bool) -> None:
    usual = {"load_best_model_at_end": True, "metric_for_best_model": "eval_accuracy", "greater_is_better": True}
    state, control = (
        SimpleNamespace(global_step=20, max_steps=24),
        SimpleNamespace(should_training_stop=False, should_save=True),
    )
    EndAtBest().on_evaluate(SimpleNamespace(**usual | changes), state, control, {"eval_accuracy": accuracy})
    assert control.should_training_stop is ends


WEIGHTS = (0.0, 0.25, 1.0, 2.5, 0.5, 1.75, 1.0, 1.0)


@pytest.mark.parametrize("overhead_tokens", [0, 10**9], ids=["a chunk a length", "one pass"])
def test_loss_and_gradients_of_weighted_pairs_are_those_by_hand(
    llama: Path, preference_pairs: list[Pair], tmp_path: Path, overhead_tokens: int
) -> None:
    """mean(w · −log σ(r⁺ − r⁻)) over the pairs, each scored alone without padding, and its gradients."""
    from trl import RewardConfig

    loaded = load_reward_model(ModelSpec(str(llama), "fp32", 64))
    examples = [TrainingExample(pair, weight=w) for pair, w in zip(preference_pairs[:8], WEIGHTS, strict=True)]
    dataset = encode_pairs(examples, loaded.template).dataset
    config = RewardConfig(
        str(tmp_path), use_cpu=True, bf16=False, max_length=None, remove_unused_columns=False, report_to="none"
    )
    collate = collator(loaded.template.pad_token_id)
    trainer = ObjectiveTrainer(
        model=loaded.model, args=config, train_dataset=dataset, processing_class=loaded.template.tokenizer,
        data_collator=collate, overhead_tokens=overhead_tokens,
    )  # fmt: skip
    loaded.model.train()

    def gradients() -> dict[str, Any]:
        found = {name: one.grad.clone() for name, one in loaded.model.named_parameters() if one.grad is not None}
        loaded.model.zero_grad(set_to_none=True)
        return found

    ours: Any = trainer.compute_loss(loaded.model, collate([dataset[row] for row in range(8)]))
    ours.backward()
    found = gradients()
    by_hand = torch.zeros(())
    for row, weight in zip(dataset, WEIGHTS, strict=True):
        chosen, rejected = (
            loaded.model(input_ids=torch.tensor([row[name]])).logits[0, 0] for name in ("chosen_ids", "rejected_ids")
        )
        by_hand = by_hand - weight * torch.nn.functional.logsigmoid(chosen - rejected) / len(WEIGHTS)
    by_hand.backward()
    expected = gradients()
    assert ours.item() == pytest.approx(by_hand.item(), abs=1e-5)
    assert found.keys() == expected.keys() and max(float(one.abs().max()) for one in expected.values()) > 1e-3
    for name, one in expected.items():
        torch.testing.assert_close(found[name], one, atol=1e-5, rtol=0)


def test_pairs_of_weight_0_teach_nothing_and_heavy_ones_decide(
    llama: Path, preference_pairs: list[Pair], lora: Lora, train_arguments: Mapping[str, Any], tmp_path: Path
) -> None:
    """A training in which every pair is there in both orders learns the order that weighs more; weight 0 is as if it were not there."""
    pairs = preference_pairs[:3]
    turned = [Pair(pair.prompt, pair.rejected, pair.chosen) for pair in pairs]
    arguments = {
        **train_arguments, "num_train_epochs": 20, "learning_rate": 1e-2, "save_strategy": "no",
        "per_device_train_batch_size": 6, "gradient_accumulation_steps": 1,
    }  # fmt: skip
    margins = {}
    for name, weights in {"first": (1.75, 0.25), "second": (0.0, 2.0)}.items():
        loaded = load_reward_model(ModelSpec(str(llama), "fp32", 64))
        examples = [TrainingExample(pair, weight=weights[0]) for pair in pairs]
        examples += [TrainingExample(pair, weight=weights[1]) for pair in turned]
        made = train_adapter(
            loaded, examples, [], lora.model_copy(update={"dropout": 0.0}), arguments, tmp_path / name, 0
        )
        scorer = ClassifierScorer(load_reward_model(ModelSpec(str(llama), "fp32", 64), made.adapter))
        chosen, rejected = (
            scorer.score([pair.prompt for pair in pairs], [getattr(pair, side) for pair in pairs])
            for side in ("chosen", "rejected")
        )
        margins[name] = chosen - rejected
    # 1.75 · σ(−d) = 0.25 · σ(d) at d = log 7.
    assert margins["first"] == pytest.approx(math.log(7), abs=0.4)
    assert (margins["second"] < -3).all()
