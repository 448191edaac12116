"""Memory and time of training each model preset, estimated from the shapes of its model; recipes/README.md says how."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

ROOT = Path(__file__).parent.parent
CARDS_GB = (24, 40, 80)
ROOM = 1.15  # the allocator's own, and buffers of 8-bit products
ASSUMED_OPERATIONS_PER_S = 1e14  # measured in 8-bit: 1.1e14 (27B, checkpointed, H100), 3.9e14 (8B, H200)


@dataclass(frozen=True)
class Shape:
    """Of a decoder with gated MLPs, as its public config says."""

    hidden: int
    intermediate: int
    layers: int
    heads: int
    key_heads: int
    head_size: int
    vocabulary: int

    @property
    def linear(self) -> int:
        """Weights in 8-bit."""
        attention = self.hidden * self.head_size * (2 * self.heads + 2 * self.key_heads)
        return self.layers * (attention + 3 * self.hidden * self.intermediate)

    @property
    def embedding(self) -> int:
        """Weights in 16-bit."""
        return self.vocabulary * self.hidden

    def lora(self, rank: int) -> int:
        """Trained weights, on the query and value projections."""
        return self.layers * rank * (2 * self.hidden + self.head_size * (self.heads + self.key_heads))


SHAPES = {
    "gemma-2b": Shape(2304, 9216, 26, 8, 4, 256, 256000),
    "llama-3b": Shape(3072, 8192, 28, 24, 8, 128, 128256),
    "llama-8b": Shape(4096, 14336, 32, 32, 8, 128, 128256),
    "gemma-27b": Shape(4608, 36864, 46, 32, 16, 128, 256000),
}


def memory_table() -> str:
    """A row a preset: gigabytes of weights, of activations with and without checkpointing, the card; minutes of training."""
    rows = []
    for name, shape in SHAPES.items():
        preset = yaml.safe_load((ROOT / "recipes" / "models" / f"{name}.yaml").read_text(encoding="utf-8"))
        weights, adapter, plain, checkpointed = _gigabytes(shape, preset)
        cards = ", ".join(_card(weights + adapter + one) for one in (plain, checkpointed))
        sizes = (f"{weights:.0f} GB", f"{adapter:.1f} GB", f"{plain:.0f} GB", f"{checkpointed:.0f} GB")
        rows.append((f"`{name}`", *sizes, cards, f"{_minutes(shape, preset):.0f}"))
    header = "preset | weights | adapter | activations | the same, checkpointed | card: plain, checkpointed | minutes a 1,000 pairs"
    return table(header, rows)


def table(header: str, rows: Iterable[Iterable[object]]) -> str:
    """A Markdown table; the names of its columns stand between bars."""
    marks = " | ".join("---" for _ in header.split(" | "))
    return "".join(f"| {line} |\n" for line in (header, marks, *(" | ".join(map(str, row)) for row in rows)))


def _gigabytes(shape: Shape, preset: Any) -> tuple[float, float, float, float]:
    tokens = 2 * preset["train"]["per_device_train_batch_size"] * preset["model"]["max_length_tokens"]
    weights = shape.linear + 2 * shape.embedding
    adapter = 16 * shape.lora(preset["lora"]["r"])  # fp32 weight, gradient and both moments of Adam
    layer = 6 * shape.intermediate + 30 * shape.hidden
    plain = tokens * shape.layers * layer
    checkpointed = tokens * (shape.layers * 2 * shape.hidden + layer)
    return weights / 1e9, adapter / 1e9, plain / 1e9, checkpointed / 1e9


def _card(gigabytes: float) -> str:
    fitting = [size for size in CARDS_GB if gigabytes * ROOM <= size]
    return f"{fitting[0]} GB" if fitting else "more than one"


def _minutes(shape: Shape, preset: Any) -> float:
    """Three epochs over 900 pairs of two 512-token texts, and 100 looked at every 20 steps."""
    train, length = preset["train"], preset["model"]["max_length_tokens"]
    trained = train["num_train_epochs"] * 900
    looks = trained / train["per_device_train_batch_size"] // 20
    operations = (4 * trained + 2 * 100 * looks) * 2 * length * shape.linear
    return operations / ASSUMED_OPERATIONS_PER_S / 60
