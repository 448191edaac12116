"""Counts of the stages of a training: pairs read, labelled, rewritten and trained on."""

from __future__ import annotations

from typing import Annotated, ClassVar, Literal

from pydantic import Field

from cda.records import Exclusions
from cda.results.base import Result


class Loaded(Result):
    """A file of training pairs as it was read."""

    seen: int
    """Rows."""
    kept: int
    """Usable pairs."""
    dropped: dict[str, int]
    """Rows that could not be used, by reason."""
    used: int | None = None
    """Pairs drawn of those kept; of supplementary pairs those that were labelled, until there were enough."""


class LabelAnswers(Result):
    """Counts of an LLM's labels."""

    chosen_shown_first: int
    """Pairs whose chosen side was shown first."""
    first_labelled: int
    """Pairs whose side shown first was labelled as exhibiting the bias."""
    second_labelled: int
    """The same of the side shown second."""
    asked_again: int
    """Pairs that were asked about more than once."""
    query_asked: bool
    """True if the bias asks about the user's message, too."""
    query_calls_for_it: int
    """Messages that were labelled as calling for it."""
    query_answered: int
    """Messages with a readable answer."""
    unparsed_reasons: dict[str, int]
    """Why labels could not be read, with their counts."""
    sides_measured_too: int
    """Labelled sides that the bias's own measure labels, too."""
    sides_measured_alike: int
    """Number of these sides on which label and measure agree."""


class LabelTally(Result):
    """Counts of the sides of the pairs that exhibit a bias."""

    by: str
    """LLM, `measured <feature>`, or `rules`."""
    n: int
    """Pairs."""
    both: int
    chosen_only: int
    rejected_only: int
    neither: int
    unparsed: int
    """Pairs of which a side has no readable label."""
    prompt: str | None = None
    """Name of the prompt; None if no LLM labelled."""
    asked: LabelAnswers | None = None
    """None if no LLM labelled."""


class SecondTurns(Result):
    """Conversations that are taught (data.second_turn)."""

    labels: dict[str, LabelTally]
    """Embedded conversations by bias, with their authors' labels."""
    in_pairs: int
    """Pairs of data.pairs that continue a conversation; they are labelled and rewritten like the others."""


class LabelCounts(Result):
    """Counts of the stage `label`."""

    pairs: Loaded
    labels: dict[str, LabelTally]
    """By bias."""
    supplement: Loaded | None = None
    """None without data.supplement."""
    supplement_labels: dict[str, LabelTally] = Field(default_factory=dict)
    """By bias."""
    second_turn: Annotated[SecondTurns | None, Field(exclude_if=lambda value: value is None)] = None
    """None without data.second_turn=yes."""


class GateCounts(Result):
    """Counts of the fidelity gate."""

    asked: int
    """Rewrites that were asked for, those asked for again included."""
    accepted: int
    failed: int
    """Responses without an accepted rewrite, even after asking again."""
    rejected_answers: dict[str, int]
    """Rejected rewrites by reason."""
    found_in_accepted: dict[str, int]
    """Findings in accepted ones, with their counts."""


class Rewritten(Result):
    """Counterfactual pairs of a bias."""

    by: str
    """The rewriter."""
    requested: int | None
    """Pairs asked for; None: all eligible ones."""
    eligible: int
    tried: int
    made: int
    """Rewrites of those tried that were accepted."""
    rejected: dict[str, int]
    """The other ones tried, by reason."""
    supplementary: int
    """Unchanged pairs that were added."""
    prompt: str | None = None
    """Name of the prompt; None if no LLM rewrote."""
    gate: GateCounts | None = None
    """None without the gate."""


class TaughtContrasts(Result):
    """Training examples on the contrasts of a file (data.contrasts)."""

    file: Exclusions
    left_out: dict[str, int]
    """Readable contrasts that are not taught, by reason."""
    taught: dict[str, int]
    """Training examples by bias."""


class PairWeights(Result):
    """Weights of the unchanged pairs (data.weights)."""

    column: str
    n: int
    """Unchanged pairs of the training mix, those of validation included; their weights have a mean of 1 in the training part."""
    effective_n: float
    """Equally weighted pairs that they are worth, (Σ w)² / Σ w²."""
    smallest: float
    largest: float
    zero: int
    """Pairs of weight 0, which are not drawn."""


class SynthesizeCounts(Result):
    """Counts of the stage `synthesize`."""

    schema_version: ClassVar[int] = 3
    """Part of the stage's settings, so that one whose counts have another shape is made again."""
    in_audit: dict[str, Exclusions]
    """By file of labelled pairs (`pairs`, `supplement`, `second_turn`): those that are audited on, and so not taught."""
    biases: dict[str, Rewritten]
    anchors: dict[str, int] = Field(default_factory=dict, exclude_if=lambda counts: not counts)
    """Pairs on which the base model's preference is kept, by bias that is not taught (synthesize.anchors)."""
    contrasts: TaughtContrasts | None = None
    """None without data.contrasts."""
    weights: Annotated[PairWeights | None, Field(exclude_if=lambda value: value is None)] = None
    """None without data.weights."""
    mix: dict[Literal["train", "validation"], int]
    """Pairs of the training mix."""
    kinds: dict[str, int]
    """Training examples by kind."""


class KeptMargins(Result):
    """What became of the margins of validation pairs that were to stay as the base model has them (objective `keep`)."""

    n: int
    """Pairs."""
    drift_rewards: float
    """Mean distance from the base model's margin at the checkpoint that was kept, in reward units."""
    spread_rewards: float
    """Standard deviation of the base model's margins on the same pairs, in reward units."""


class TrainCounts(Result):
    """Counts of the stage `train`."""

    train: int
    """Pairs trained on."""
    validation: int
    """Pairs that choose the checkpoint."""
    truncated: int
    """Pairs of which a side was cut."""
    identical_after_truncation: int
    """Pairs left out because both sides are the same after cutting."""
    steps: int
    """Optimizer steps."""
    best_step: int | str | None
    """Step of the checkpoint that was kept, of several adapters each with its bias; None: the last."""
    processes: int
    form: str
    """The form of prompt and response together."""
    notes: tuple[str, ...]
    """Sentences for the reader."""
    kept: KeptMargins | None = None
    """None if no such pair was validated on."""
    per_bias: dict[str, TrainCounts] | None = None
    """Each of several adapters (lora.per_bias) by itself; else None."""


class TrainingStages(Result):
    """Counts of a run's stages; each None if it has not been made."""

    label: LabelCounts | None = None
    synthesize: SynthesizeCounts | None = None
    train: TrainCounts | None = None
