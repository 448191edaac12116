"""Score heads of several attributes, whose weights a gate computes from the text, and of several steps."""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor, nn


class Norm(nn.Module):
    """A batch norm that always uses the statistics in its files, under a trainer too."""

    def __init__(self, size: int) -> None:
        super().__init__()
        self.weight, self.bias = nn.Parameter(torch.ones(size)), nn.Parameter(torch.zeros(size))
        self.register_buffer("running_mean", torch.zeros(size))
        self.register_buffer("running_var", torch.ones(size))

    def forward(self, states: Tensor) -> Tensor:
        flat = states.reshape(-1, states.shape[-1])
        found = nn.functional.batch_norm(flat, self.running_mean, self.running_var, self.weight, self.bias)  # type: ignore[arg-type]
        return found.reshape(states.shape)


class Network(nn.Module):
    """Linear layers and batch norms at the places that they have in the files, an activation after each linear layer but the last.

    Args:
        shapes: Shape of each tensor by its name, such as `0.weight`.
        slope: Of a leaky ReLU for negative inputs; 0: a ReLU.
        inside: Name of the list of layers in the tensors' names.
    """

    def __init__(self, shapes: Mapping[str, tuple[int, ...]], inside: str, slope: float = 0.0) -> None:
        super().__init__()
        self.inside, self.slope, layers = inside, slope, nn.ModuleDict()
        for place in sorted({int(name.split(".")[0]) for name in shapes}):
            shape = shapes[f"{place}.weight"]
            layers[str(place)] = (
                nn.Linear(shape[1], shape[0], bias=f"{place}.bias" in shapes) if len(shape) == 2 else Norm(*shape)
            )
        self.add_module(inside, layers)

    def forward(self, states: Tensor) -> Tensor:
        layers = list(getattr(self, self.inside).values())
        for layer in layers:
            states = layer(states)
            if isinstance(layer, nn.Linear) and layer is not layers[-1]:
                states = nn.functional.leaky_relu(states, self.slope)
        return states


class Gate(Network):
    """Weights of attributes: a softmax over a temperature, times a learned scale."""

    def __init__(self, shapes: Mapping[str, tuple[int, ...]], temperature: float) -> None:
        super().__init__(shapes, "layers")
        self.temperature, self.logit_scale = temperature, nn.Parameter(torch.ones(1))

    def forward(self, states: Tensor) -> Tensor:
        return (super().forward(states) / self.temperature).softmax(-1) * self.logit_scale


class Gated(nn.Module):
    """Attributes of the last point, each the mean of its quantiles, weighted by a gate of the first point.

    Args:
        size: Width of the hidden states.
        objectives: Number of attributes.
        quantiles: Quantiles of each attribute; 1: the attribute itself.
        mixes: Attributes are multiplied by a matrix.
        gate: Shapes of the gate's layers.
        temperature: Of the gate.
    """

    def __init__(
        self,
        size: int,
        objectives: int,
        quantiles: int,
        mixes: bool,
        gate: Mapping[str, tuple[int, ...]],
        temperature: float,
    ) -> None:
        super().__init__()
        self.quantiles = quantiles
        self.regression_layer = nn.Linear(size, objectives * quantiles, bias=False)
        self.register_buffer("reward_transform_matrix", torch.eye(objectives) if mixes else None)
        self.gating = Gate(gate, temperature)

    def forward(self, states: Tensor, _: object) -> Tensor:
        attributes = self.regression_layer(states[:, -1]).unflatten(-1, (-1, self.quantiles)).mean(-1)
        if self.reward_transform_matrix is not None:
            attributes = attributes @ self.reward_transform_matrix
        rewards: Tensor = (self.gating(states[:, 0]) * attributes).sum(-1, keepdim=True)
        return rewards


class TenLevels(nn.Module):
    """A distribution over ten levels from 0 to 1 for each attribute, mixed by a gate; the mean level of the mixture.

    Args:
        levels, gate: Shapes of the layers of both networks.
        temperature: Of a softmax of the gate; None: the gate's outputs are weights as they are.
    """

    def __init__(
        self, levels: Mapping[str, tuple[int, ...]], gate: Mapping[str, tuple[int, ...]], temperature: float | None
    ) -> None:
        super().__init__()
        self.temperature = temperature
        self.regression_layer, self.gating_layer = Network(levels, "network", 0.01), Network(gate, "network", 0.01)

    def forward(self, states: Tensor) -> Tensor:
        of_each = self.regression_layer(states).unflatten(-1, (-1, 10)).softmax(-1)
        weights = self.gating_layer(states)
        if self.temperature is not None:
            weights = (weights / self.temperature).softmax(-1)
        mixed: Tensor = (weights[..., None] * of_each).sum(-2)
        return (mixed * torch.linspace(0, 1, 10, device=mixed.device, dtype=mixed.dtype)).sum(-1, keepdim=True)


class Steps(nn.Sequential):
    """The product over steps of the probability of the second of two labels."""

    def forward(self, states: Tensor, valid: Tensor) -> Tensor:  # type: ignore[override]
        good: Tensor = super().forward(states).softmax(-1)[..., 1]  # type: ignore[no-untyped-call]
        return good.masked_fill(~valid, 1).prod(-1, keepdim=True)
