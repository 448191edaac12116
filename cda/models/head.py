"""The score head in float32 over a base in bf16 or 8-bit: a reward that is rounded takes its margins with it.

Around a reward of 16 neighbouring numbers of bf16 lie 0.125 apart, so that smaller margins would read as no preference.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any


def compute_in_float32(model: Any, heads: Sequence[str]) -> None:
    """Keep a model's head in float32, and have it compute in that, in scoring and under a trainer's autocast alike.

    The head's class is replaced by one that does so and is otherwise the same: hooks, weights and their names stay, and
    the copy that an adapter trains is of that class too.

    Args:
        model: As loaded; changed in place.
        heads: Names of the modules that turn hidden states into the score.
    """
    for name in heads:
        head = model.get_submodule(name).float()
        head.__class__ = type(head.__class__.__name__, (_InFloat32, head.__class__), {})


class _InFloat32:
    """Before a module's own class: its inputs in float32, and no autocast."""

    def forward(self, *inputs: object, **named: object) -> object:
        import torch

        with torch.autocast(next(self.parameters()).device.type, enabled=False):  # type: ignore[attr-defined]
            exact = {key: _exact(value) for key, value in named.items()}
            return super().forward(*map(_exact, inputs), **exact)  # type: ignore[misc]


def _exact(value: Any) -> Any:
    return value.float() if getattr(value, "is_floating_point", bool)() else value
