"""Score heads that are no single linear layer. Each takes the states that a reading gives, and returns (B, 1)."""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from torch import Tensor, nn


def linear(inputs: int, outputs: int = 1, bias: bool = False) -> nn.Module:
    """A linear layer."""
    import torch

    return torch.nn.Linear(inputs, outputs, bias=bias)


def mlp(*sizes: int) -> nn.Module:
    """Linear layers with a ReLU between each two; tensors `0.weight`, `2.weight`, …"""
    import torch

    layers: list[nn.Module] = []
    for inputs, outputs in pairwise(sizes):
        layers += [torch.nn.Linear(inputs, outputs), torch.nn.ReLU()]
    return torch.nn.Sequential(*layers[:-1])


def probability(inputs: int, outputs: int, at: int) -> nn.Module:
    """A linear layer over the outputs, and the probability of the one at an index."""
    import torch

    class Probability(torch.nn.Linear):
        def forward(self, states: Tensor) -> Tensor:
            return super().forward(states).softmax(-1)[..., at, None]

    return Probability(inputs, outputs, bias=False)


def compared(inputs: int, tasks: int) -> nn.Module:
    """Score of a first candidate minus that of a second, of states (B, 3, h) at the source and at both; tensors `1` and `4`."""
    import torch

    class Compared(torch.nn.Sequential):
        def forward(self, input: Tensor, _: object = None) -> Tensor:
            source, first, second = input.unbind(1)
            each = [torch.cat([source, candidate], -1) for candidate in (first, second)]
            both: Tensor = super().forward(torch.stack(each))  # type: ignore[no-untyped-call]
            return (both[0] - both[1]).mean(-1, keepdim=True)

    layers = torch.nn.Linear(2 * inputs, inputs), torch.nn.Tanh(), torch.nn.Dropout(), torch.nn.Linear(inputs, tasks)
    return Compared(torch.nn.Dropout(), *layers)


def scaled(head: nn.Module, scales: bool, shifts: bool, sign: int) -> nn.Module:
    """A head whose reward is sign · r, or sign · (r − mean) / (std + 1e-8) if it `scales`, the mean only if it `shifts`; mean and
    variance come with the weights.
    """
    import torch

    class Scaled(type(head)):  # type: ignore[misc]
        def forward(self, states: Tensor) -> Tensor:
            found: Tensor = super().forward(states)
            if scales:
                found = (found - self.mean if shifts else found) / (self.var.sqrt() + 1e-8)
            return sign * found

    head.__class__ = Scaled
    if scales:
        head.register_buffer("mean", torch.zeros(1))
        head.register_buffer("var", torch.ones(1))
    return head


def normalised(head: nn.Module, mean: float, std: float) -> nn.Module:
    """A head whose reward is shifted and scaled: (r − mean) / std. The tensors keep the head's names."""

    class Normalised(type(head)):  # type: ignore[misc]
        def forward(self, states: Tensor) -> Tensor:
            found: Tensor = super().forward(states)
            return (found - mean) / std

    head.__class__ = Normalised
    return head
