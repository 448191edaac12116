"""The result of `cda bias new`: the file, the labels that it was checked on, a few rewrites, and what is missing."""

from __future__ import annotations

from pathlib import Path

from cda.results.base import Estimate, Missing, Result, Told
from cda.results.inspect import RewriteShown


class CheckedLabels(Result):
    """Labels of the pairs on which a new bias was tried; none of them decided a threshold or a wording."""

    n_pairs: int
    where: str
    """Source of the pairs."""
    by: str
    """The measured feature, or the LLM."""
    present: Estimate | Missing
    """Share of the answers that have the bias, both sides of the pairs together."""
    chosen: int
    """Chosen answers that have it."""
    rejected: int
    """Rejected answers that have it."""
    unread: int
    """Answers without a label."""
    agreement: Estimate | Missing
    """Share of the answers on which the LLM and the measured feature say the same."""


class NewBias(Told):
    """A bias file that was written."""

    name: str
    file: Path
    """Path of the file, for `cda.train` and `biases` of `cda.audit`."""
    origin: str
    """What question, measure and rules were made of, in words."""
    labels: CheckedLabels | Missing
    rewrites: tuple[RewriteShown, ...]
    """Rewrites of checked answers; empty if nothing can rewrite yet."""
    missing: tuple[str, ...]
    """What the file lacks, and what is to be done about each."""
    left_out: dict[str, int]
    """Parts of a draft that were left out, by reason."""
