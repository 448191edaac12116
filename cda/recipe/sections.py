"""The sections of a recipe on scoring, auditing, the dose and discovery; their base and types."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, ClassVar, Literal

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, field_validator, model_validator

from cda.data import contrasts, sampled, triples
from cda.data.triples import AttributeRule
from cda.prompts import Criteria
from cda.records import PanelRule, TieRule
from cda.results.evidence import Correction
from cda.scorers.dialects import ServedOptions

By = Literal["auto", "llm", "rules"]
Count = Annotated[int, Field(ge=0)]
Positive = Annotated[int, Field(ge=1)]
Share = Annotated[float, Field(ge=0, le=1)]


def _yaml_word(value: object) -> object:
    # YAML reads on, off, yes and no as booleans.
    return {True: "yes", False: "no"}.get(value, value) if isinstance(value, bool) else value


Switch = Annotated[Literal["auto", "yes", "no"], BeforeValidator(_yaml_word)]
Optional = Annotated[str | None, BeforeValidator(lambda value: None if value == "none" else value)]
"""Data that may be left out: `none` and null are the same."""
YesNo = Annotated[Literal["yes", "no"], BeforeValidator(_yaml_word)]


class Section(BaseModel):
    """A group of settings; an unknown one is a mistake."""

    model_config = ConfigDict(extra="forbid", frozen=True, use_attribute_docstrings=True)
    gone: ClassVar[Mapping[str, str]] = {}
    """Keys of earlier versions, and what to do in their place."""


STEERED = "a steered model is a scorer of your own; docs/how-to/audit.md (A steered model) has the file"
"""What takes the place of `steered:MODEL` and its settings."""


def _columns_of(*known: str) -> AfterValidator:
    def check(columns: dict[str, str]) -> dict[str, str]:
        if unknown := [name for name in columns if name not in known]:
            others = [f"triples.{name}={columns[name]}" for name in unknown if name in triples.COLUMNS]
            hint = f"; of a file of triples: {', '.join(others)}" if others and known != triples.COLUMNS else ""
            raise ValueError(f"unknown column {', '.join(unknown)}; ours are {', '.join(known)}{hint}")
        return columns

    return AfterValidator(check)


# Our name of a column to the user's.
PairColumns = Annotated[dict[str, str], _columns_of("prompt", "chosen", "rejected", "preference", "topic")]
QualityColumns = Annotated[
    dict[str, str], _columns_of("prompt", "chosen", "rejected", "preference", "topic", "response", "responses")
]
ContrastColumns = Annotated[dict[str, str], _columns_of(*contrasts.COLUMNS)]
TripleColumns = Annotated[dict[str, str], _columns_of(*triples.COLUMNS)]
ResponseColumns = Annotated[dict[str, str], _columns_of(*sampled.COLUMNS, "topic")]
SampleColumns = Annotated[dict[str, str], _columns_of(*sampled.COLUMNS)]


class JudgeSection(Section):
    """Settings of an LLM judge."""

    ties: bool = True
    """A judge may say that neither answer is better."""
    by_token: bool = False
    """Read the probabilities of a one-token verdict (the server has to give logprobs) in place of a written verdict."""
    prompt: str = "ours"
    """The judge's instructions: the path of a prompt file, or one that is shipped: `ours`, `paper`, `style-blind`, and in
    the form of other judges `mt-bench`, `arena-hard`, `prometheus`, `rm-r1`, `skywork-critic`."""
    reasons: Literal["before", "after", "none"] | None = None
    """Place of the reasons for a written verdict: before it, after it, or not at all. null: as the prompt says (`ours`:
    before, `paper`: after)."""
    orders: Literal["both", "one"] | None = None
    """both: each comparison is asked with either answer first, and a taste for a place cancels. one: once, with the first
    answer drawn; half the calls, and a taste for a place stays in each margin. null: as the prompt says (`ours`: both,
    `paper`: one)."""
    repeats: Annotated[Positive, Field(exclude_if=lambda n: n == 1)] = 1
    """How often each comparison is asked in each order, the same question each time: the preference is the mean over them, and the share
    of comparisons whose repeats agree is reported. Each repeat is a call of its own."""
    criteria: Criteria | None = None
    """Rubric: a list of names, or of name and question. The judge gives a verdict on each criterion by itself and then overall, in
    one call (with by_token in a call each), and the audit shows the bias of each. null: as the prompt says; []: none."""
    panel: PanelRule = "mean"
    """Preference of a panel on a comparison: the mean of its judges' preferences, or the side that more of them prefer."""
    max_unread: Share = 0.5
    """Share of comparisons that may be without a readable verdict; with more, nothing is reported of the others."""


class GradeSection(Section):
    """Settings of an LLM that grades single answers."""

    prompt: str = "ours"
    """Its instructions: `ours`, `mt-bench`, `prometheus`, or the path of a prompt file."""
    by_token: bool = False
    """Ask for a grade of one token, and take the mean of all grades, weighted by their probabilities (the server has to give
    logprobs), in place of a written grade."""
    max_unread: Share = 0.5
    """Share of answers that may be without a readable grade; with more, nothing is reported of the others."""


class LogRatioSection(Section):
    """Settings of `dpo:`: β · (log π(response | prompt) − log π₀(response | prompt))."""

    gone = dict.fromkeys(("vector", "tensor", "layer", "strength"), STEERED)
    reference_revision: str | None = None
    """Commit of the reference on the hub; model.revision is the policy's."""
    adapter: str | None = None
    """PEFT adapter of the policy; without a separate reference, the model with the adapter off is the reference."""
    no_reference: bool = False
    """Plain log-probability of the policy (π₀ = 1)."""
    beta: Annotated[float, Field(gt=0)] = 0.1
    """Factor β of the log-ratio."""
    per_token: bool = False
    """Divide by the number of tokens of the response."""


class ScoreSection(Section):
    """Scoring: batches, cache, and the settings of each kind of scorer."""

    batch_tokens: Positive | None = None
    """Padded tokens in a batch at most. null: 1,024 on a CPU, 4,096 elsewhere."""
    over_length: Literal["cut", "drop", "refuse"] = "cut"
    """Texts beyond model.max_length_tokens: cut at the end and counted, left out and counted, or refused before anything is
    scored."""
    workers: Positive | Literal["auto"] = "auto"
    """Threads that score on a CPU, each with a batch of its own. auto: one per core, 16 at most."""
    cache: str | None = None
    """File of scores, shared by all runs: nothing is scored twice by the same local model. null: score-cache.sqlite next to
    the run folder; `none`: no such file. Scores of a server or of your own function are kept only until the run has used
    them: the same name may later serve another model."""
    scorer_version: Annotated[str | int | float | None, Field(exclude_if=lambda value: value is None)] = None
    """Of a server or your own function: your name for what decides its rewards and cannot be seen from here, such as a model that
    it asks over the network. Under another name nothing that was measured before is used again."""
    calibration: str | None = None
    """File that `cda calibrate` wrote for this very scorer: its corrections are taken off every margin. Not in a training."""
    self_check: bool = True
    """Score a few texts alone and in a batch when a model is loaded, and warn if the scores differ; of a server, compare the
    tokens that it counts with those of score.served.tokenizer, and stop if they differ."""
    judge: JudgeSection = JudgeSection()
    grade: Annotated[GradeSection, Field(exclude_if=lambda value: value == GradeSection())] = GradeSection()
    log_ratio: LogRatioSection = LogRatioSection()
    served: ServedOptions = ServedOptions()


class AuditSection(Section):
    """Settings of the audit: the texts that the model is measured on, before and after."""

    gone = {
        "release": "the paper's release is read from ordinary files; run `python scripts/paper_release.py FOLDER OUT`, and give "
        "audit=OUT/audit.yaml in its place"
    }
    preset: str | None = None
    """Source of the rest of this section: recipes/audit/NAME.yaml or a path."""
    contrasts: Optional = "embedded"
    """`embedded`, a file of contrasts (prompt, base, perturbed; optionally people's preferences), or none: an audit on triples alone,
    which compares both rewrites of each and goes by RATE. It needs triples of your own, or `rate`."""
    columns: ContrastColumns = {}
    """Our column to yours, for the contrasts file."""
    votes: str | None = None
    """People's votes in a separate file: rows of id and vote, or of id and votes. `id` is the contrasts' column."""
    verdicts: str | None = None
    """Verdicts of LLM judges on the contrasts, in the form of votes: with few votes and many verdicts, human skew and
    miscalibration are estimated for all contrasts (PPI++)."""
    ties: TieRule = "drop"
    """Contrasts on which people tied or split: left out (`drop`), counted `half` for each side, or `as-released`:
    the column `preferred` as it stands, whatever the votes, and its ties left out (the filter behind Table 6 of "Flattery,
    Fluff, and Fog")."""
    labels: str | None = None
    """File of preference pairs with labels (chosen_<bias> and rejected_<bias>, or what `cda label` wrote): how often the side
    with the bias was chosen there. For an audit without a training, since a training has its own labels."""
    second_turn: Switch = "auto"
    """Contrasts in the second turn of a conversation, as biases of their own: a right answer taken back when the user doubts it
    (sycophancy-second-turn), and length and vagueness after long earlier turns. auto: those of the recipe's biases that are
    audited on embedded contrasts. yes: all three."""
    triples: Optional = "embedded"
    """RATE triples: `embedded`, a file (prompt, original, rewrite, rewrite_of_rewrite, has_attribute), or null for none
    but those that `rate` asks for. Biases that the file has none of fall back on the embedded ones."""
    triple_columns: TripleColumns = {}
    """Our column to yours, for the file of triples."""
    attribute: AttributeRule = AttributeRule()
    """Reading of has_attribute in triples and answers, if it holds neither yes nor no."""
    by: list[str] = []
    """Columns of the contrasts and triples (a topic, a source, a length) by which skew, margins and RATE effects are compared.
    Categories with fewer than 10 prompts are pooled."""
    cutoffs: dict[str, list[Annotated[float, Field(allow_inf_nan=False)]]] = {}
    """Column of `by`: the lowest number of each range after the first. Without, more than 8 different numbers are cut into three
    ranges of equal filling."""
    rate: Count | None = None
    """In place of the embedded triples: how many embedded answers with the bias, and as many without, the recipe's rewriter
    rewrites and rewrites back. null: 40 if rules rewrite and a bias has no triples of its own, otherwise none."""
    min_flipped: Share = 0.5
    """Least share of originals, with the bias and without it, whose rewrites flipped it; below, no RATE effect that rests
    on them is given, since those that flip may be unlike the others."""
    max_triple_words: Positive | None = None
    """Leave out triples of which any version is longer, for every estimator alike; counted."""
    quality: Optional = "embedded"
    """Held-out preference pairs whose accuracy must not fall: `embedded`, a file, or null for none."""
    quality_columns: QualityColumns = {}
    """Our column to yours, for the file of quality pairs."""
    quality_split: str = "test"
    """Split of quality pairs from a folder or hub id with several."""
    samples: Optional = "auto"
    """Responses of one policy, several to a prompt: a file as `cda best-of` reads it (prompt and responses, or prompt and response), or
    `embedded`. How frequent each bias and, with a quality, a right answer is in a policy that is optimised against the reward is estimated
    from them. Rewards alone do it: not for judges. Their prompts are left out of the training. auto: the embedded ones in a training, none in
    an audit alone."""
    sample_columns: SampleColumns = {}
    """Our column to yours, for the file of samples."""
    max_contrasts: Positive | None = None
    """Measure at most this many contrasts of each bias, drawn with the seed; the report says so."""
    max_triples: Annotated[Positive | None, Field(exclude_if=lambda value: value is None)] = None
    """Measure at most this many RATE triples of each bias, drawn with the seed; the report says so."""
    max_quality: Positive | None = None
    """Measure at most this many quality pairs, drawn with the seed; the report says so."""
    max_samples: Annotated[Positive | None, Field(exclude_if=lambda value: value is None)] = None
    """Measure on the samples of at most this many prompts, drawn with the seed; the report says so."""


class DoseSection(Section):
    """The dose of the adapter: λ times its update, chosen under a limit on quality loss."""

    on: Switch = "auto"
    """auto: if people voted on enough of the recipe's contrasts to choose by, or the recipe teaches ties alone; not if votes set
    the targets that it teaches (`target: people`). `cda dose` always does it."""
    aim: Literal["auto", "votes", "tie"] = "auto"
    """The target of a dose. votes: people's majorities. tie: each side preferred equally often, which is an
    assumption and nobody's vote. auto: votes if there are enough, otherwise a tie if the recipe teaches that the two
    sides are worth the same (neutral, without pairs or paired)."""
    doses: list[Annotated[float, Field(ge=0)]] = [0, 0.25, 0.5, 0.75, 1, 1.25, 1.5, 1.75, 2, 2.25, 2.5]
    """0 is the base model, 1 plain CDA; both are always scored."""
    repeats: Positive = 50
    """Repeats of 2-fold cross-validation, split by prompt."""
    max_quality_loss: Share = 0.01
    """Accuracy on quality pairs that a dose may lose against the base model."""
    max_quality: Positive | None = 500
    """Quality pairs scored at every dose, drawn with the seed."""
    baselines: bool = True
    """Compare with removals without training, by measured features and by a direction of the hidden states."""
    max_baseline_pairs: Positive = 200
    """Training counterfactuals that these are fitted on, for each bias."""

    @field_validator("doses")
    @classmethod
    def _ascending(cls, value: list[float]) -> list[float]:
        found = sorted({*value, 0.0, 1.0})
        if len(found) < 3:
            raise ValueError("give at least one dose besides 0 (the base model) and 1 (plain CDA)")
        return found


Size = Literal["5x16", "3x8", "1", "3x8-wide", "1-proposals", "small"]


class DiscoverSection(Section):
    """`cda discover`: the search for unlisted biases."""

    judge: str | None = None
    """The scorer that the model is compared with: a judge, or any other scorer, by the same string as the model. null: judge:<llm.model>
    if an LLM is set, the embedded judge otherwise; with --adapter the model without it."""
    by: By = "auto"
    """The proposer, rewriter and mutator. auto: the LLM if llm.model is set, rules otherwise."""
    responses: str | None = None
    """`embedded`, or a file of prompts with sampled responses. null: sampled from the policies; without an LLM, embedded."""
    columns: ResponseColumns = {}
    """Our column to yours, for the file of responses; `topic` names the column of the prompts' topics."""
    split: str = "train"
    """For sources with several."""
    prompts: str | None = None
    """File of prompts to sample responses to (text, one a line; or rows with `prompt`). null: written by the LLM on topics."""
    topics: str | None = None
    """File of topics, one a line. null: twenty of ours."""
    max_prompts: Annotated[Positive | None, Field(exclude_if=lambda value: value is None)] = None
    """Take at most this many prompts, drawn with the seed, before anything is sampled or scored; null: all."""
    by_topic: bool = False
    """Search, test and correct within each topic of the prompts; then measure each topic's attributes in the other topics."""
    only_topics: list[str] = []
    """With by_topic: these topics alone. None named: all."""
    min_topic_prompts: Annotated[int, Field(ge=6)] = 12
    """With by_topic: a topic with fewer prompts is left out, and named."""
    carried: Count = 5
    """With by_topic: attributes of each topic that entered its test, the strongest on its validation prompts first, that are
    also measured on the test prompts of every other topic."""
    scenarios: Positive = 4
    """For each topic."""
    prompts_each: Positive = 3
    """For each scenario."""
    policies: list[str] = []
    """Models that answer, at the same server as llm.model; none: llm.model."""
    samples: Positive = 4
    """Answers of each policy to each prompt."""
    max_response_tokens: Positive = 1024
    """Answers that are cut there are left out, and counted."""
    rewriters: list[str] = []
    """Models that rewrite; the first one during the search, all of them (two or more) when findings are confirmed. None: three
    kinds of rules without an LLM."""
    parts: tuple[float, float, float] = (0.4, 0.25, 0.35)
    """Shares of the prompts to search on, to validate on and to test on."""
    size: Size | None = None
    """5x16 and 1 (best of 320) are the paper's, 3x8 a launch script's of its code; 3x8-wide and 1-proposals vary less; small. null: 5x16
    with an LLM, small without."""
    populations: list[Positive] | None = None
    """In place of `size`: proposals of the first generation, then survivors of each."""
    batches: list[Positive] | None = None
    """With `populations`: prompts on which each generation measures."""
    mutations: Positive | None = None
    """Variations of each survivor. null: as many as the size has; 4 with `populations`."""
    variations: Annotated[int, Field(ge=0)] | None = None
    """Variations of each proposal, measured along with it in the first generation. null: as many as the size has; none with
    `populations`."""
    reward_cut: Share = 0.4
    """Share of a generation let go by reward before the judge is asked; never one that is rewarded."""
    judge_cut: Share = 0.3
    """Share let go by the judge; never one that it dislikes."""
    families: bool = True
    """The best variation of each proposal survives before a second of any. false: the paper's selection, in which
    variations of few proposals crowd out the others."""
    removing: bool | None = None
    """Also remove the attribute from responses that have it. null: only without an LLM, since it then costs nothing."""
    max_validation: Positive | None = 64
    """Prompts; null: all of that part."""
    max_test: Positive | None = 64
    """Prompts of the last test; null: all of that part."""
    responses_each: Positive | None = None
    """Responses to each of these prompts that are rewritten, clustered by prompt. null: 1 with an LLM, 4 without."""
    validation_alpha: Annotated[float, Field(gt=0, lt=1)] = 0.05
    """Pooled over rewriters, corrected for all candidates that entered."""
    test_alpha: Annotated[float, Field(gt=0, lt=1)] = 0.01
    """Level of the last test, after the correction."""
    correct: Correction = "bonferroni"
    """The p-values on the test prompts, for all attributes that are tested there: bonferroni (the paper's), holm, bh (Benjamini and
    Hochberg's false discovery rate), or none. With by_topic within each topic."""
    required_rewriters: Positive = 2
    """With how many of the rewriters an effect has to show by itself (partial conjunction); no more than there are."""
    max_failed: Share = 0.5
    """A rewriter that fails on more than this share of an attribute's responses, or whose rewrites lack a verdict of the judge
    more often than this, does not count for it; exactly this share is allowed."""
    pair_quality: bool = True
    """Have the LLM label both sides of the rewrites of confirmed attributes; false: their own measures label them."""

    @model_validator(mode="before")
    @classmethod
    def _words(cls, value: object) -> object:
        # YAML reads 1 as a number; as a size it is a name.
        return {**value, "size": "1"} if isinstance(value, dict) and value.get("size") == 1 else value

    @field_validator("parts")
    @classmethod
    def _whole(cls, value: tuple[float, float, float]) -> tuple[float, float, float]:
        if min(value) <= 0 or abs(sum(value) - 1) > 1e-6:
            raise ValueError("three shares above 0 that add up to 1: to search, validate and test on")
        return value

    @model_validator(mode="after")
    def _consistent(self) -> DiscoverSection:
        if (self.populations is None) != (self.batches is None):
            raise ValueError("populations and batches go together")
        if self.populations is not None and self.size is not None:
            raise ValueError("give either size or populations and batches")
        if self.populations is not None and self.batches is not None and len(self.populations) != len(self.batches) + 1:
            raise ValueError(
                "populations has one number more than batches: the first generation, then survivors of each"
            )
        if self.only_topics and not self.by_topic:
            raise ValueError("only_topics goes with by_topic: set by_topic=true, too")
        if self.rewriters and len(set(self.rewriters)) < max(2, self.required_rewriters):
            raise ValueError("rewriters: name two different ones or more, and not fewer than required_rewriters")
        twice = sorted({name for name in self.rewriters if self.rewriters.count(name) > 1})
        if twice:
            raise ValueError(f"rewriters: {', '.join(twice)} is named twice, and would count once; name each once")
        return self
