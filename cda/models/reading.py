"""The token at which a classifier reads a text's reward: the same alone, padded and packed, and under a trainer.

The rule is that of the model's own files on one text without padding. Transformers' causal classifiers read the last token that is not
config.json's padding token, and without one the last token. In a batch they look for that token among padding too, so that another
token for padding moves the reward. Here the position is found by the attention mask, and any token can pad.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from cda.errors import ModelError
from cda.models.refusals import WAYS_OUT, first_line

if TYPE_CHECKING:
    from torch import Tensor, nn

Reads = Literal["config", "last_token", "last_attended"]


@dataclass(frozen=True, slots=True)
class Reading:
    """How a classifier's reward is read off its base's last hidden states."""

    pad: int | None = None
    """The reward is read at the last token other than this one; None: at the last token."""
    points: Callable[[list[int]], list[int]] | None = None
    """Token ids of a text to several positions that the head reads, in place of one."""
    output: int = 0
    """The head's output that is the reward."""
    notes: tuple[str, ...] = ()
    """Sentences for the user on what the files leave open or contradict."""

    def position(self, ids: Sequence[int]) -> int:
        """Position in one text of the token that is read (of several the last)."""
        if self.points is not None:
            return self.points(list(ids))[-1]
        return max((at for at, token in enumerate(ids) if token != self.pad), default=0 if self.pad is not None else -1)

    def rewards(self, head: nn.Module, hidden: Tensor, input_ids: Tensor, mask: Tensor) -> Tensor:
        """Rewards, shape (B, 1), from last hidden states (B, L, h), token ids and attention mask (B, L)."""
        import torch

        rows = torch.arange(len(input_ids), device=hidden.device)
        if self.points is None:
            counted = mask if self.pad is None else mask * (input_ids != self.pad)
            last = (counted * torch.arange(input_ids.shape[1], device=counted.device)).argmax(-1).to(hidden.device)
            rewards: Tensor = head(hidden[rows, last])
            return rewards[:, self.output, None]
        # Text by text, without padding; a text's own tokens are the attended ones.
        attended = [row.nonzero().flatten().tolist() for row in mask]
        found = [
            [own[at] for at in self.points([tokens[at] for at in own])]
            for own, tokens in zip(attended, input_ids.tolist(), strict=True)
        ]
        n = max(map(len, found))
        at = torch.tensor([points + points[-1:] * (n - len(points)) for points in found], device=hidden.device)
        valid = torch.tensor(
            [[True] * len(points) + [False] * (n - len(points)) for points in found], device=hidden.device
        )
        rewards = head(hidden[rows[:, None], at], valid)
        return rewards[:, self.output, None]


def pools_by_position(model: Any) -> bool:
    """True of Transformers' causal classifiers, whose head `score` is applied to the last hidden state of one token."""
    import torch

    head, base = getattr(model, "score", None), getattr(model, "base_model_prefix", "")
    return (
        type(model).__module__.startswith("transformers.models.")
        and (isinstance(head, torch.nn.Linear) or hasattr(model, "reward_family"))
        and base != ""
        and hasattr(model, base)
        and (hasattr(model, "reward_family") or not getattr(model.config, "is_encoder_decoder", False))
    )


def read_by_mask(model: Any, reading: Reading) -> None:
    """Have such a classifier give the reward of a reading as its only logit, in scoring and under a trainer; `as_it_was` undoes it."""
    model.reading = reading
    model.__class__ = type(type(model).__name__, (_ByMask, type(model)), {"__module__": type(model).__module__})


def read_one_output(model: Any, output: int | str, name_or_path: str) -> None:
    """Have any other classifier give one logit, (B, 1): an output of its head, by index, or of its own forward pass, by name; ModelError
    then where it gives none."""
    model.read_output, model.read_from = output, name_or_path
    model.__class__ = type(type(model).__name__, (_OneOutput, type(model)), {"__module__": type(model).__module__})


def as_it_was(model: Any) -> None:
    """Give a model its own class back."""
    model.__class__ = type(model).__mro__[2]
    del model.reading


class _ByMask:
    """Comes before a classifier's own class."""

    def forward(self: Any, input_ids: Any = None, attention_mask: Any = None, **named: Any) -> Any:
        import torch
        from transformers.modeling_outputs import SequenceClassifierOutputWithPast

        passed = {
            key: value for key, value in named.items() if value is not None and key not in ("labels", "return_dict")
        }
        if answers := self.config.is_encoder_decoder:
            passed["decoder_input_ids"] = input_ids.new_full((len(input_ids), 1), self.config.decoder_start_token_id)
        hidden = getattr(self, self.base_model_prefix)(
            input_ids, attention_mask=attention_mask, **passed
        ).last_hidden_state
        if answers:  # read where the first token of an answer would come
            input_ids, attention_mask = passed["decoder_input_ids"], None
        mask = torch.ones_like(input_ids) if attention_mask is None else attention_mask
        return SequenceClassifierOutputWithPast(logits=self.reading.rewards(self.score, hidden, input_ids, mask))

    def plain(self: Any, input_ids: Tensor) -> Any:
        """The output of the classifier's own forward pass."""
        return super().forward(input_ids=input_ids)  # type: ignore[misc]


class _OneOutput:
    """Comes before the class of a model that gives its reward under another name, in another shape, or among others."""

    def forward(self: Any, *inputs: Any, **named: Any) -> Any:
        from transformers.modeling_outputs import SequenceClassifierOutput

        named = {key: value for key, value in named.items() if key not in ("labels", "return_dict")}
        try:
            found = super().forward(*inputs, **named)  # type: ignore[misc]
            return SequenceClassifierOutput(logits=one_output(found, self.read_output))
        except Exception as error:  # a model's own code raises whatever its author wrote
            if "out of memory" in str(error):
                raise
            why = f"{self.read_from}: {type(self).__name__} gives no reward: {first_line(error)}"
            raise ModelError(f"{why}. {WAYS_OUT}") from error


OUTPUTS = ("score", "scores", "end_scores", "rewards", "logits", "values")
"""Names under which models give rewards, in the order in which they are taken: ArmoRM's kind has `score` and, as `rewards`, its
attributes; safe-rlhf's has `end_scores` beside one score a token."""


def one_output(output: Any, which: int | str) -> Any:
    """The reward of each text, shape (B, 1), in a model's output: (B,), (B, 1), (B, 1, 1), or one of several numbers, (B, n), by
    its index. ValueError: there is none, or several and no index says which.
    """
    import torch

    if isinstance(which, str) and which:
        found = getattr(output, which, None) if not isinstance(output, dict) else output.get(which)
    elif isinstance(output, torch.Tensor):
        found = output
    elif isinstance(output, tuple) and not hasattr(output, "keys"):
        found = next((part for part in output if isinstance(part, torch.Tensor)), None)
    else:
        named = (output.get(name) if isinstance(output, dict) else getattr(output, name, None) for name in OUTPUTS)
        held = [value for value in named if isinstance(value, torch.Tensor)]
        # Of a model with attributes beside its own score an index means one of those.
        several = [value for value in held if isinstance(which, int) and value.numel() > len(value)]
        found = next(iter(several or held), None)
    if not isinstance(found, torch.Tensor):
        raise ValueError(f"its output holds no rewards (looked for {', '.join(OUTPUTS)})")
    flat = found.reshape(len(found), -1)
    at = which if isinstance(which, int) else 0
    if flat.shape[1] > 1 and (isinstance(which, str) or found.shape[-1] != flat.shape[1]):
        choice = "" if found.shape[-1] != flat.shape[1] else "; model.head=INDEX says which is the reward"
        raise ValueError(f"its output has the shape {tuple(found.shape)}, {flat.shape[1]} numbers a text{choice}")
    if at >= flat.shape[1]:
        raise ValueError(f"its output has {flat.shape[1]} numbers a text, and no number {at}")
    return flat[:, at, None]
