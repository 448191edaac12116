"""The result of a training."""

from __future__ import annotations

from pathlib import Path

from cda.results.audit import AuditResult
from cda.results.base import Missing, Result


class TrainResult(Result):
    """A finished training: where its adapter is, how it went, and what it changed."""

    folder: Path
    """The run folder."""
    adapter: Path
    """Folder of the adapter at `dose`, an ordinary PEFT adapter with its score head."""
    dose: float
    """Share of the trained update in it: 0 the base model, 1 as trained."""
    steps: int
    """Optimizer steps; of several adapters (lora.per_bias) of all together."""
    best_step: int | str | None
    """Step of the checkpoint that was kept, of several adapters each with its bias; None: the last."""
    validation_accuracy: float | Missing
    """Share of validation pairs whose chosen side scored higher, at the checkpoint that was kept."""
    seconds: float
    """Wall clock of the training alone."""
    audit: AuditResult | Missing
    """What it changed; `Missing` before an audit of this very training."""
