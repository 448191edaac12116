"""Results of commands that write no result file: plans, names, settings, files written. They are what `--json` prints."""

from __future__ import annotations

from pathlib import Path

from pydantic import Field, JsonValue

from cda.results.base import Estimate, Missing, Result, Told
from cda.results.inspect import RewriteShown


class Plan(Result):
    """A dry run: everything was checked, and nothing done."""

    settings: dict[str, JsonValue]
    """Settings that differ from the defaults, by section, or the options of a command without settings; with --full all of them."""
    lines: tuple[str, ...]
    """The plan, a step a line."""


class ComparisonPlan(Result):
    """Dry runs of several models."""

    models: dict[str, Plan]
    """By model; a finished run, which is read as it is, has none."""
    folder: Path
    """Folder of the comparison."""


class Name(Result):
    """A name that a command or setting takes."""

    name: str
    description: str
    """Its first sentence."""
    file: Path


class Names(Result):
    """Everything of one kind that comes with the package."""

    kind: str
    """biases, recipes, models or prompts."""
    names: tuple[Name, ...]


class SettingInfo(Result):
    """One setting of a recipe."""

    key: str
    """section.key, as on the command line."""
    type: str
    default: str
    """As it is written in a recipe; `required` or `empty` without one."""
    allowed: tuple[str, ...] = ()
    """Allowed words; empty if others are allowed."""
    meaning: str
    """Its description."""
    set_by: dict[str, str] = Field(default_factory=dict)
    """Shipped recipe or preset to the value that it sets."""


class SectionInfo(Result):
    """Settings of a section of the recipe."""

    section: str
    """Empty for the whole recipe, whose sections and settings outside of any are listed."""
    meaning: str
    settings: tuple[SettingInfo, ...]
    sections: dict[str, str] = Field(default_factory=dict)
    """Sections within it to their meaning."""


class SampleSizes(Told):
    """Numbers that intervals of a wanted width need."""

    contrasts: int
    """For skew or miscalibration."""
    contrasts_for_change: int
    """For its change by training."""
    votes: int
    """Votes a contrast."""
    majority_error: float
    """Share of majorities that more votes would turn, with so many."""
    prompts: int
    """For a mean margin or a RATE effect."""


class Written(Told):
    """Files that a command wrote."""

    folder: Path
    """The folder, or the one file."""
    rows: dict[str, int] = Field(default_factory=dict)
    """Rows by file or kind; empty for weights."""


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


class RewardCheck(Result):
    """The reward of one text next to the number that is expected, such as the one on a model's card."""

    model: str
    reward: float
    expected: float
    difference: float
    """reward − expected."""
    tolerance: float
    """Largest difference that passes: half a unit in the last digit of `expected`, and 0.001 + 0.1% of it; below fp32 0.05 + 1%."""
    passed: bool
    read: tuple[str, ...]
    """How the model reads the text: class and precision, template, tokens, place of the reward; a line each."""


class PromptsShown(Told):
    """The requests that an LLM would get."""

    text: str


class Version(Result):
    version: str
