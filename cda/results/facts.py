"""Facts of an audit: the scorer and its settings, sources, examples, and the costs of the run."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, JsonValue

from cda.records import PanelRule
from cda.results.base import Estimate, Missing, PerScoring, Result

JudgeReasons = Literal["before", "after", "none"]
"""Place of a judge's reasons: before its verdict, after it, or nowhere."""


class ScorerFacts(Result):
    """The scorer, and observations made while scoring."""

    name: str
    """The model as the recipe names it."""
    unnamed: Annotated[bool, Field(exclude_if=lambda unnamed: not unnamed)] = False
    """It is a function or model in memory, which no command can name."""
    notes: tuple[str, ...] = ()
    """Sentences for the reader."""

    @property
    def halves_ties(self) -> bool:
        """A margin of exactly 0 counts as half a preference: verdicts and grades mean it, a reward hits it by chance."""
        return True


class RewardModelFacts(ScorerFacts):
    """Anything that gives a reward to a single text."""

    kind: Literal["reward model"]
    how: str | None = None
    """The way it was asked, as a clause; None for a classifier, of which the three fields below say it."""
    precision: str | None = None
    """Precision of its weights; None if it is not a classifier that was loaded here."""
    form: str | None = None
    """The form of prompt and response together (`pair`, `chat template`, `plain text`); None as for `precision`."""
    max_length_tokens: int | None = None
    """Longer texts were cut there; None if that is not known."""
    unit: str | None = None
    """Unit of its rewards; None for the plain `reward`."""
    texts: int
    """Distinct texts."""
    truncated: int
    """Texts of which the model saw only the beginning."""
    dropped: int = 0
    """Texts that were too long and left out."""
    cached: int = 0
    """Texts whose reward came from the cache."""
    alike: int = 0
    """Texts that are the same token ids as another: scored once."""
    unread: Annotated[int, Field(exclude_if=lambda n: n == 0)] = 0
    """Texts without a readable grade."""
    reasons: Annotated[dict[str, int], Field(exclude_if=lambda reasons: not reasons)] = Field(default_factory=dict)
    """Why answers held no grade, with their counts."""

    @property
    def halves_ties(self) -> bool:
        return self.unit == "grade"


class ComparerFacts(ScorerFacts):
    """Anything that compares two texts, and may go by their places."""

    by_place: Annotated[Estimate | Missing | None, Field(exclude_if=lambda found: found is None)] = None
    """Share of comparisons read in both orders whose verdict followed the place and not the text, of a panel that of its judges'
    verdicts; Missing if none was read in both, None if it was not counted."""
    by_place_of: Annotated[dict[str, Estimate | Missing], Field(exclude_if=lambda found: not found)] = Field(
        default_factory=dict
    )
    """The same of the contrasts of each bias."""
    repeats: Annotated[int, Field(exclude_if=lambda n: n == 1)] = 1
    """How often each comparison was asked in each order."""
    stability: Annotated[Estimate | Missing | None, Field(exclude_if=lambda found: found is None)] = None
    """Share of comparisons whose repeats of one order agree, of a panel the mean over its judges; Missing if no order has two readable
    verdicts, None if each was asked once."""
    unread_share: Annotated[Estimate | Missing | None, Field(exclude_if=lambda found: found is None)] = None
    """Share of comparisons without a readable verdict; None if it was not counted."""


class JudgeFacts(ComparerFacts):
    """An LLM judge, a function or a local model that compares two texts."""

    kind: Literal["judge"]
    orders: Literal["both", "one"] = "both"
    """`both`: every comparison was asked with either text first; `one`: once, in a drawn order."""
    comparisons: int
    """Distinct comparisons."""
    unread: int
    """Comparisons without a readable verdict in any order."""
    reasons: dict[str, int] = Field(default_factory=dict)
    """Why single answers held no verdict, with their counts."""
    half_read: int
    """Comparisons with a readable verdict in one order of two only."""
    flipped: int | None
    """Comparisons whose verdict followed the place and not the text; None if one order was asked."""
    position_bias: float | None
    """Mean preference for the text shown first, −1 to 1; None if no comparison shows it."""
    position: Estimate | None = None
    """The same with its interval, if two prompts or more were asked in one order; else None."""
    answered_by: dict[str, int] = Field(default_factory=dict)
    """Answers by the model that the server named; empty if it named none."""
    asked_at: Annotated[str | None, Field(exclude_if=lambda value: value is None)] = None
    """Name of the endpoint (`llm.endpoints`) at which it was asked, and its address; None: at `llm.base_url`, or a function."""
    verdicts: Literal["by token", "written"] | None = None
    """The way verdicts were read; None for a function."""
    prompt: str | None = None
    """Name of the judge's prompt; None for a function."""
    verdict_reasons: JudgeReasons | None = None
    """Place of its reasons; None for a function."""
    prompt_content: str | None = None
    """Fingerprint of all that the prompt says, with its orders, reasons and criteria; None for a function."""
    criteria: tuple[str, ...] = ()
    """Names of the rubric's criteria."""


class PanelFacts(ComparerFacts):
    """Several LLM judges, whose preferences are made one."""

    kind: Literal["judge"]
    rule: PanelRule = "mean"
    """The mean of their preferences, or the side that more of them prefer (`majority`)."""
    orders: Literal["both", "one"]
    """As for each of the judges; likewise the next five."""
    verdicts: Literal["by token", "written"] | None
    prompt: str | None
    verdict_reasons: JudgeReasons | None
    prompt_content: str | None = None
    criteria: tuple[str, ...] = ()
    comparisons: int
    """Distinct comparisons."""
    unread: int
    """Comparisons without a verdict of any judge."""
    partly_judged: int
    """Comparisons with verdicts of some judges only."""
    judges: dict[str, JudgeFacts]
    """Each judge by its name."""


Scorer = RewardModelFacts | JudgeFacts | PanelFacts


class AuditedBias(Result):
    """A bias that is trained against, or audited."""

    name: str
    description: str
    opposite: Annotated[str | None, Field(exclude_if=lambda words: words is None)] = None
    """What its file calls the answer without it; None: nothing."""
    short_name: Annotated[str | None, Field(exclude_if=lambda name: name is None)] = None
    """What tables and figures call it; None: by its name."""


class Sources(Result):
    """Sources of an audit's data, as the recipe names them. None: not given."""

    pairs: str | None
    """Training pairs; None without a training."""
    contrasts: str
    votes: str | None
    verdicts: str | None
    """Judges' verdicts on the contrasts."""
    triples: str | None
    """The rewriter of the triples of RATE."""
    quality: str | None
    samples: str | None = None
    """Responses of a policy."""
    labels: str | None = None
    """Labels of training pairs."""
    labelled_by: str
    """LLM, or `embedded rules`."""
    rewritten_by: str
    """LLM, or `embedded rules`."""
    label_prompt: str | None = None
    """Name of the prompt by which an LLM labelled; None if none did."""
    rewrite_prompt: str | None = None
    """Name of the prompt by which an LLM rewrote; None if none did."""


N_SHOWN = 2
"""Examples of each bias in a report, the first ones."""


class Example(Result):
    """A contrast shown as an example; selected for its content, so that examples are no random sample."""

    bias: str
    prompt: str
    perturbed: str
    """The side with the bias."""
    base: str
    """The side without it."""
    margins: PerScoring[float]
    """score(perturbed) − score(base), or a judge's preference, −1 to 1."""
    preferred: Literal["perturbed", "base", "tie"] | None
    """People's majority; None without votes."""


class LLMUse(Result):
    """Requests to one LLM."""

    asked: int
    """Answers that were asked for now."""
    cached: int
    """Answers that were there from before."""
    unusable: int
    """Answers of both kinds without a usable text."""
    input_tokens: int
    """Tokens of the requests, as the server counted."""
    output_tokens: int
    """Tokens of the answers, as the server counted."""
    uncounted: int
    """New answers without a count of tokens."""
    dollars: float | None
    """Cost of the counted tokens; None if no price is given."""
    models: dict[str, int] = Field(default_factory=dict)
    """Answers by the model that the server named."""


class StageRun(Result):
    """One stage of a run."""

    seconds: float
    """Wall clock."""
    finished: str
    """UTC."""
    llm: dict[str, LLMUse] = Field(default_factory=dict)
    """By LLM; empty if none was asked."""


class RunFacts(Result):
    """Time, machine and cost of a run."""

    git: str | None = None
    """Commit of this package; None if it does not run from its checkout."""
    python: str | None = None
    """Its version."""
    platform: str | None = None
    """The machine, as Python names it."""
    folder: str | None = None
    """The run's folder."""
    settings: dict[str, JsonValue] = Field(default_factory=dict)
    """The recipe as it was resolved; empty if the manifest is damaged."""
    command: Annotated[tuple[str, ...], Field(exclude_if=lambda words: not words)] = ()
    """After a quick look (`--limit`) at a training, the words behind `cda` of the same training without the limit."""
    stages: dict[str, StageRun]
