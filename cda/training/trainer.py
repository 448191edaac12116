"""The trainer: the loss of preferences, ties and soft targets with margins and weights, sealed checkpoints, one bar."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from transformers import TrainerCallback
from transformers.trainer_utils import suppress_progress_bars
from trl import RewardTrainer

from cda.errors import DataError, ModelError
from cda.files.jsonl import read_json, write_json
from cda.files.reads import changed, contents
from cda.launch import say
from cda.models.refusals import first_line
from cda.progress import Bar
from cda.training.chunks import chunked_rewards
from cda.training.hub import Repository, made_repository

if TYPE_CHECKING:
    from torch import Tensor
    from transformers import TrainerControl, TrainerState, TrainingArguments

KEPT_DRIFT = "kept_drift"
"""Name in the trainer's log of the mean distance of margins that are to stay from the base model's, in reward units."""
_LISTED, _STATE = "contents.json", "trainer_state.json"
_HASHED_BYTES = 64 * 2**20
"""Reading optimizer states of gigabytes again would take longer than a step; only the size of a larger file is kept."""


def seal(checkpoint: Path) -> None:
    """List the content of a checkpoint, once all of it is there but the trainer's state, which is written last."""
    write_json(checkpoint / _LISTED, contents(checkpoint, (_LISTED, f"{_LISTED}.partial", _STATE), _HASHED_BYTES))


def newest_whole(folder: Path, say: Callable[[str], None]) -> Path | None:
    """The newest checkpoint of which no file is cut, changed or gone, nor of the best one until then, which the end of the
    training loads; None without one. `say` tells of newer ones."""
    paths = [path for path in folder.glob("checkpoint-*") if re.fullmatch(r"checkpoint-\d+", path.name)]
    for checkpoint in sorted(paths, key=lambda path: int(path.name.rsplit("-", 1)[1]), reverse=True):
        if _is_whole(checkpoint) and ((best := best_until(checkpoint)) is None or _is_whole(best)):
            return checkpoint
        say(f"  {checkpoint.name} is not whole; passed over")
    return None


def best_until(checkpoint: Path) -> Path | None:
    """The best checkpoint until then, if one was chosen, in the same folder: the run may have been moved since."""
    best = read_json(checkpoint / _STATE).get("best_model_checkpoint")
    return None if best is None else checkpoint.parent / Path(best).name


def _is_whole(checkpoint: Path) -> bool:
    try:
        listed, state = read_json(checkpoint / _LISTED), read_json(checkpoint / _STATE)
    except DataError:
        return False
    return bool(listed) and isinstance(listed, dict) and isinstance(state, dict) and not changed(checkpoint, listed)


def preference_loss(
    differences: Tensor, targets: Tensor, margins: Tensor, weights: Tensor, kept: Tensor, shift: Tensor
) -> Tensor:
    """Weighted mean of the cross-entropy between taught and given preferences (Bradley and Terry), and of the squared distance of margins
    that are to stay from the base model's (Margin-MSE, Hofstätter et al. 2020).

        −t·log σ(d − m) − (1 − t)·log σ(−d − m),    or (d − k − s)² / 8

    With t = 1 this is the pairwise loss of reward models, with a margin as in Llama 2's; with t = 0.5 and m = 0 it is least
    if both texts are rewarded the same; with t between them if σ(d) = t. The second has the curvature of the first at a tie; the
    first is flat at large margins, and would let these shrink unseen.

    Args:
        differences: reward(first) − reward(second). Tensor of shape (n,).
        targets: Taught probability that the first is better, in [0, 1]. Shape (n,).
        margins: Reward units by which the better side should lead, at least 0. Shape (n,).
        weights: Weight of each pair; the mean is over pairs, not over weights, so that a pair counts the same in any
            batch. Shape (n,).
        kept: The base model's margin where it is to stay, in reward units; NaN for all other pairs. Shape (n,).

    Returns:
        The loss, a scalar tensor.
    """
    import torch
    from torch.nn.functional import logsigmoid

    losses = -targets * logsigmoid(differences - margins) - (1 - targets) * logsigmoid(-differences - margins)
    stays = kept.isfinite()
    away = differences - torch.where(stays, kept + shift, differences)  # not NaN, whose gradient would be NaN, too
    losses = torch.where(stays, away**2 / 8, losses)
    return (weights * losses).mean()


def ordered_as_taught(differences: Tensor, targets: Tensor) -> tuple[int, int]:
    """Numbers of pairs with a preferred side (ties have none) ordered as taught, and of these pairs; see `preference_loss`."""
    decided = targets != 0.5
    right = (differences > 0) == (targets > 0.5)
    # Equal rewards prefer nothing.
    return int((right & decided & (differences != 0)).sum()), int(decided.sum())


class FindBest(TrainerCallback):  # type: ignore[misc]
    """Tells a resumed training its best checkpoint, to keep it and to load it at the end, in a moved folder too: the library
    forgets one that is not at its recorded path, with a warning."""

    def __init__(self, checkpoint: Path | None) -> None:
        self.best = None if checkpoint is None else best_until(checkpoint)

    def on_train_begin(self, _: object, state: TrainerState, *__: object, **___: object) -> None:
        if self.best is not None:
            state.best_model_checkpoint = str(self.best)


class EndAtBest(TrainerCallback):  # type: ignore[misc]
    """Ends a training whose checkpoint is chosen by validation accuracy once that is 1: only a higher accuracy would replace it, so
    that the adapter is that of the whole training."""

    def on_evaluate(
        self,
        args: TrainingArguments,
        state: TrainerState,
        control: TrainerControl,
        metrics: Mapping[str, float] | None = None,
        **_: object,
    ) -> None:
        by_accuracy = args.load_best_model_at_end and str(args.metric_for_best_model) in ("accuracy", "eval_accuracy")
        if not (
            by_accuracy and args.greater_is_better and control.should_save and (metrics or {}).get("eval_accuracy") == 1
        ):
            return
        if state.global_step < state.max_steps and not control.should_training_stop:
            control.should_training_stop = True
            say(
                f"  ended at step {state.global_step} of {state.max_steps}: every validation pair is ordered as taught, and no later "
                "step could be chosen over this one"
            )


class Progress(TrainerCallback):  # type: ignore[misc]
    """One bar with the loss, in place of a printed dictionary every few steps."""

    def __init__(self) -> None:
        self.bar: Bar | None = None
        self.shown: dict[str, str] = {}

    def on_train_begin(self, _: object, state: TrainerState, *__: object, **___: object) -> None:
        if state.is_world_process_zero:
            self.bar = Bar("  training", state.max_steps, "steps", "steps", initial=state.global_step)

    def on_step_end(self, _: object, state: TrainerState, *__: object, **___: object) -> None:
        if self.bar is not None:
            self.bar.update(state.global_step - self.bar.n)

    def on_log(self, *_: object, logs: Mapping[str, float] | None = None, **__: object) -> None:
        if self.bar is not None and logs:
            names = {"loss": "loss", "eval_accuracy": "validation accuracy"}
            self.shown |= {word: f"{word} {float(logs[name]):.3f}" for name, word in names.items() if name in logs}
            self.bar.set_postfix_str(", ".join(self.shown.values()))

    def on_train_end(self, *_: object, **__: object) -> None:
        if self.bar is not None:
            self.bar.total = self.bar.n
            self.bar.close()


class ObjectiveTrainer(RewardTrainer):  # type: ignore[misc]
    """TRL's trainer with another loss; it logs the same. `overhead_tokens`: see `cda.training.chunks.partition`."""

    _total_train_tokens: int

    def __init__(self, *arguments: Any, overhead_tokens: int, model: Any, **named: Any) -> None:
        labels = model.config.id2label, model.config.label2id
        model.config.num_labels = 1  # TRL asks for it; of several labels the model gives the one that is the reward
        super().__init__(*arguments, model=model, **named)
        model.config.id2label, model.config.label2id = labels
        self.overhead_tokens = overhead_tokens

    def compute_loss(
        self,
        model: object,
        inputs: Mapping[str, Tensor],
        return_outputs: bool = False,
        num_items_in_batch: Any = None,  # noqa: ARG002
    ) -> object:
        """Loss of a batch whose first half of texts are the first sides."""
        mask = inputs["attention_mask"]
        rewards = chunked_rewards(model, inputs["input_ids"], mask, self.overhead_tokens)
        first, second = rewards.float().chunk(2)
        differences = first - second
        loss = preference_loss(
            differences, inputs["target"], inputs["margin"], inputs["weight"], inputs["kept"], inputs["shift"]
        )
        if self.args.center_rewards_coefficient is not None:
            loss = loss + self.args.center_rewards_coefficient * ((first + second) ** 2).mean()
        self._note(loss.detach(), rewards.detach(), differences.detach(), inputs)
        return (loss, {"logits": rewards}) if return_outputs else loss

    def check_weights(self) -> None:
        """Raise ModelError if a trained weight is NaN or infinite: a step may break weights whose loss was sound."""
        broken = [
            name
            for name, weights in self.model.named_parameters()
            if weights.requires_grad and not bool(weights.detach().isfinite().all())
        ]
        if broken:
            raise ModelError(
                f"training stopped at step {self.state.global_step}: {len(broken)} trained tensors are NaN or infinite "
                f"(first: {broken[0]}). Lower train.learning_rate, or set train.max_grad_norm; earlier checkpoints are kept "
                "in the run folder"
            )

    def init_hf_repo(self, token: Any = None, private: Any = None) -> None:  # noqa: ARG002
        """Make the repository of `push_to_hub`, as the library does, and its branch. ModelError: the hub refuses."""
        if self.is_world_process_zero():
            args = self.args
            self.hub_model_id = made_repository(Repository(args.hub_model_id, args.hub_private_repo, args.hub_revision))
            self.push_in_progress = None

    def push_to_hub(self, *arguments: Any, **named: Any) -> Any:
        """Push as the library does; a failure costs the training nothing."""
        try:
            with suppress_progress_bars():
                return super().push_to_hub(*arguments, **named)
        except Exception as error:  # of whatever HTTP library the hub's client stands on
            say(f"  the trained adapter could not be pushed ({first_line(error)}); the end of the run tries again")

    @property
    def _keeps_tokens(self) -> bool:
        # Otherwise the user asked the trainer to count them there in its own way.
        return bool(self.args.include_num_input_tokens_seen == "no")

    def _save_checkpoint(self, model: object, trial: object) -> None:
        self.check_weights()
        if self._keeps_tokens:
            # TRL counts tokens for its log and forgets the count; the count in the state survives a resume.
            self.state.num_input_tokens_seen = self._total_train_tokens
        super()._save_checkpoint(model, trial)

    def _save_rng_state(self, output_dir: str) -> None:
        super()._save_rng_state(output_dir)
        # Every process has written its files now. The state is written next, and then older checkpoints are removed.
        self.accelerator.wait_for_everyone()
        if self.args.should_save:
            seal(Path(output_dir))

    def _note(self, loss: Tensor, rewards: Tensor, differences: Tensor, inputs: Mapping[str, Tensor]) -> None:
        """Add to the metrics of TRL's next log, averaged over all processes. ModelError: the loss is not finite, in every
        process at the same step, before anything is saved."""
        import torch

        training = self.model.training
        metrics = self._metrics["train" if training else "eval"]
        summed = torch.stack([inputs["attention_mask"].sum(), loss]).double()
        n_tokens, total_loss = self.accelerator.gather(summed.unsqueeze(0)).sum(0).tolist()
        if not math.isfinite(total_loss):
            raise ModelError(
                f"training stopped at step {self.state.global_step + training}: the {'loss' if training else 'validation loss'} is "
                f"{total_loss}. Lower train.learning_rate, or use model.precision=fp32; earlier checkpoints are kept in the run folder"
            )
        if training:
            if self._keeps_tokens:
                self._total_train_tokens = max(self._total_train_tokens, self.state.num_input_tokens_seen)
            self._total_train_tokens += int(n_tokens)
        # Several processes fill up the last batch of an evaluation with pairs that were there already; these count once.
        gather = self.accelerator.gather if training else self.accelerator.gather_for_metrics
        pairs = gather(
            torch.stack(
                [*rewards.float().chunk(2), differences, *(inputs[name] for name in ("target", "kept", "shift"))], dim=1
            )
        )
        every, (differences, targets, kept, shift) = pairs[:, :2], pairs[:, 2:].T
        metrics["num_tokens"] = [self._total_train_tokens]
        metrics["min_reward"].append(every.min().item())
        metrics["mean_reward"].append(every.mean().item())
        metrics["max_reward"].append(every.max().item())
        # One entry a pair, so that their mean is over pairs with a preferred side, however these fall into batches.
        right, decided = ordered_as_taught(differences, targets)
        metrics["accuracy"] += [1.0] * right + [0.0] * (decided - right)
        if not metrics["accuracy"]:
            del metrics["accuracy"]
        metrics["margin"].append(differences.double().mean().item())
        if drift := (differences - kept)[kept.isfinite() & (shift == 0)].abs().tolist():
            metrics[KEPT_DRIFT] += drift
