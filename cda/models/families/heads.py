"""Score heads that are no single linear layer. Each takes the states that a reading gives, and returns (B, 1)."""

from __future__ import annotations

from itertools import pairwise
from typing import Any


def linear(inputs: int, outputs: int = 1, bias: bool = False) -> Any:
    """A linear layer."""
    import torch

    return torch.nn.Linear(inputs, outputs, bias=bias)


def mlp(*sizes: int) -> Any:
    """Linear layers with a ReLU between each two; tensors `0.weight`, `2.weight`, …"""
    import torch

    layers: list[Any] = []
    for inputs, outputs in pairwise(sizes):
        layers += [torch.nn.Linear(inputs, outputs), torch.nn.ReLU()]
    return torch.nn.Sequential(*layers[:-1])


def probability(inputs: int, outputs: int, at: int) -> Any:
    """A linear layer over the outputs, and the probability of the one at an index."""
    import torch

    class Probability(torch.nn.Linear):
        def forward(self, states: Any) -> Any:
            return super().forward(states).softmax(-1)[..., at, None]

    return Probability(inputs, outputs, bias=False)


def compared(inputs: int, tasks: int) -> Any:
    """Score of a first candidate minus that of a second, of states (B, 3, h) at the source and at both; tensors `1` and `4`."""
    import torch

    class Compared(torch.nn.Sequential):
        def forward(self, input: Any, _: Any = None) -> Any:
            source, first, second = input.unbind(1)
            both = super().forward(torch.stack([torch.cat([source, each], -1) for each in (first, second)]))  # type: ignore[no-untyped-call]
            return (both[0] - both[1]).mean(-1, keepdim=True)

    layers = torch.nn.Linear(2 * inputs, inputs), torch.nn.Tanh(), torch.nn.Dropout(), torch.nn.Linear(inputs, tasks)
    return Compared(torch.nn.Dropout(), *layers)


def scaled(head: Any, scales: bool, shifts: bool, sign: int) -> Any:
    """A head whose reward is sign · r, or sign · (r − mean) / (std + 1e-8) if it `scales`, the mean only if it `shifts`; mean and
    variance come with the weights.
    """
    import torch

    class Scaled(type(head)):  # type: ignore[misc]
        def forward(self, states: Any) -> Any:
            found = super().forward(states)
            if scales:
                found = (found - self.mean if shifts else found) / (self.var.sqrt() + 1e-8)
            return sign * found

    head.__class__ = Scaled
    if scales:
        head.register_buffer("mean", torch.zeros(1))
        head.register_buffer("var", torch.ones(1))
    return head


def normalised(head: Any, mean: float, std: float) -> Any:
    """A head whose reward is shifted and scaled: (r − mean) / std. The tensors keep the head's names."""

    class Normalised(type(head)):  # type: ignore[misc]
        def forward(self, states: Any) -> Any:
            return (super().forward(states) - mean) / std

    head.__class__ = Normalised
    return head
