"""The recipe: every setting with its type, default and meaning."""

from __future__ import annotations

from datetime import date
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BeforeValidator, Field, RootModel, field_validator, model_validator

from cda.errors import CdaError
from cda.files.paths import is_reserved, user_path
from cda.files.yaml_file import read_yaml_mapping, validated
from cda.llm.money import Price, listed_price
from cda.recipe.sections import (
    AuditSection,
    By,
    ContrastColumns,
    Count,
    DiscoverSection,
    DoseSection,
    PairColumns,
    Positive,
    ScoreSection,
    Section,
    Share,
    YesNo,
)
from cda.records import Pair, TrainingExample
from cda.scorers.kinds import ScorerKind, scorer_kind
from cda.training.arguments import Lora

SEEDS = "seeds"
"""The key of the recipe's `train:` section that is ours; all others are fields of trl.RewardConfig."""


def _of_a_folder(name: str) -> str:
    if is_reserved(name) or name.endswith("."):
        raise ValueError(
            "Windows takes no folder of this name, and the run's folder is named after the recipe; choose another"
        )
    return name


class _PriceFile(RootModel[dict[str, Price]]):
    """A file of prices by model."""


def _read_prices(prices: object) -> object:
    """The prices in a YAML file that is named in place of them."""
    if not isinstance(prices, str):
        return prices
    try:
        path = user_path(prices)
        return validated(read_yaml_mapping(path), _PriceFile, path).root
    except CdaError as error:
        raise ValueError("; ".join(str(error).splitlines())) from None


Prices = Annotated[dict[str, Price], BeforeValidator(_read_prices)]


class ModelSection(Section):
    """The reward model: a sequence classifier with one label."""

    preset: str | None = None
    """Source of the rest of this section: recipes/models/NAME.yaml or a path."""
    name_or_path: str
    """Hub id, local folder, or `embedded`."""
    revision: str | None = None
    """Commit, branch or tag on the hub; null: the newest."""
    precision: Literal["8bit", "bf16", "fp32", "auto", "8bit_on_gpu"] = "auto"
    """Precision of the base weights, in training and in both scorings alike. Adapter and head train in fp32. auto: bf16 on a GPU that
    holds it, else 8bit there; bf16 on a CPU that multiplies in it, else fp32. 8bit_on_gpu, the presets' of 2B to 27B: 8bit on a GPU, on
    a CPU as auto. The report says which, and why."""
    max_length_tokens: Annotated[int, Field(ge=8)] = 512
    """Prompt and response together; longer texts are cut at the end, and counted."""
    trust_remote_code: bool = False
    """Run the code that the model's repository holds."""
    attn_implementation: str | None = None
    """Transformers' attention: sdpa, eager, flash_attention_2, or any other that is installed; null: the library's choice. With a
    flash attention scoring packs the texts of a batch end to end, without padding."""
    compile: bool = False
    """Compile the model for scoring, and its blocks for training unless it is sharded (torch.compile). The first batches take longer, by
    one to two minutes in all."""
    reads: Literal["config", "last_token", "last_attended"] | None = None
    """Token at which the reward is read, against what the model's files say. config: the last token that is not config.json's padding
    token, as Transformers reads one text without padding. last_token: the last one. last_attended: the last one, which has to be EOS
    (OpenRLHF). Of a model that rewards steps, last_token is the last step instead of the product of all. null: as the model's files say; the report names it."""
    head: int | str | None = None
    """The one of several labels that is the reward, by index or by its name in config.json. Of a language model (…ForCausalLM): the
    output token whose logit after the text is the reward, by id or as the tokenizer writes it."""
    template_date: date = date(2024, 7, 26)
    """The day that is given to a chat template which writes today's date, so that rewards are the same on every day."""
    dequantize_once: bool = True
    """8bit on a CPU: keep the rounded weights in float32 too, in place of dequantizing them in every pass: 4 more bytes a weight, if
    half of the free memory holds them. The rewards are the same either way."""

    @property
    def kind(self) -> ScorerKind:
        return scorer_kind(self.name_or_path)

    @property
    def llms(self) -> tuple[str, ...]:
        return self.kind.llms(self.name_or_path)


class ObjectiveSection(Section):
    """One thing that training teaches; a recipe lists as many as it needs, and a kind alone stands for its defaults."""

    kind: Literal["pairs", "balanced", "paired", "neutral", "shift", "keep"]
    """pairs: the chosen response over the rejected one rewritten to carry the bias (the paper's). balanced: the chosen response rewritten to
    carry the bias over the rejected one, so that next to pairs the bias is on the better side as often as on the worse. paired: a response over
    its own biased version. neutral: a tie between the two. shift: the base model's margin between the two and one number more, the same for all
    pairs of a bias, with which `target`, a share of those that train, prefer the unbiased side: what tells its pairs apart stays. keep: unchanged pairs, and contrasts of biases that are not
    debiased, keep the margin that the base model gives them; without it, unchanged pairs are taught as they are labelled."""
    target: Share | dict[str, Share] | Literal["people"] | None = None
    """One number, or a number by bias (`joint`: of those without). shift: share of pairs in which the unbiased side is to be preferred, null: 0.5;
    people: people's share, by their votes on about half of the prompts of audit.contrasts, which the audit then leaves out (a tie where too few
    voted). pairs and paired: taught probability that the unbiased side is better, null: 1; every pair is drawn towards a margin of
    log(t / (1 − t)) reward units, whatever the model's own margins are, so that the dose sets the share of pairs on which it prefers either."""
    margin: Annotated[float, Field(ge=0)] = 0.0
    """Reward units by which the better side should lead."""
    weight: Annotated[float, Field(gt=0)] = 1.0
    """Weight of its examples in the loss."""

    @model_validator(mode="after")
    def _target_where_it_means_something(self) -> ObjectiveSection:
        if self.kind in ("neutral", "keep") and (self.target is not None or self.margin):
            said = "a tie" if self.kind == "neutral" else "the base model's preference"
            raise ValueError(
                f"{self.kind} teaches {said}; target and margin are for pairs and paired, target for shift, too"
            )
        if self.kind == "shift" and self.margin:
            raise ValueError(
                "shift moves the base model's own margins, by as much as its target asks; margin is for pairs and paired"
            )
        if self.kind != "shift" and self.target == "people":
            raise ValueError("people's share of pairs is a target of shift: {kind: shift, target: people}")
        return self

    @property
    def teaches_ties(self) -> bool:
        return self.kind == "neutral" or (self.kind == "shift" and self.target in (None, 0.5))

    def example(self, pair: Pair, bias: str) -> TrainingExample:
        """The training example of a pair whose first text is the unbiased one."""
        if self.kind == "keep":
            return TrainingExample(pair, None, 0.0, self.weight)
        if self.target == "people":
            raise ValueError("shares of people are known to `with_people`")
        target = self.target.get(bias, self.target.get("joint")) if isinstance(self.target, dict) else self.target
        if target is None:
            target = 0.5 if self.kind in ("neutral", "shift") else 1.0
        return TrainingExample(pair, target, self.margin, self.weight)


class DataSection(Section):
    """Preference pairs to debias on."""

    preset: str | None = None
    """Source of the rest of this section: recipes/data/NAME.yaml or a path."""
    pairs: str
    """`embedded`, a hub id, a folder saved by datasets, or a .jsonl, .json, .csv, .tsv (or .gz of these), .parquet or .arrow file."""
    split: str = "train"
    """For hub ids and folders with several splits."""
    columns: PairColumns = {}
    """Our column to yours, such as {chosen: better, rejected: worse}; on the command line also --column chosen=better. preference: the
    column that says which side is preferred, none for no column."""
    weights: Annotated[str | None, Field(exclude_if=lambda value: value is None)] = None
    """Column with the weight of each pair in the loss, 0 or more, such as `weight` of `cda data --rows`: of the unchanged pairs
    (synthesize.supplementary), in the file that these come from. They are scaled to a mean of 1; pairs of weight 0 are not drawn.
    Counterfactuals keep 1: what a weight takes away, a choice that a bias tells, they take away themselves."""
    max_pairs: Positive | None = None
    """Take at most this many, drawn with the seed."""
    validation_share: Annotated[float, Field(ge=0, lt=0.5)] = 0.1
    """Share of the prompts; a prompt is never in both parts."""
    supplement: str | None = None
    """Second corpus for supplementary pairs; null takes them from `pairs`."""
    supplement_split: str = "train"
    """Split of `supplement`."""
    supplement_columns: PairColumns = {}
    """Our column to yours, for `supplement`."""
    topic: Annotated[str | None, Field(exclude_if=lambda value: value is None)] = None
    """Take the pairs of this topic alone, by a column `topic` (columns.topic for another name); for embedded pairs one of their broad
    topics. A bias file that was confirmed in a topic sets it; pairs that name no topic at all are then all taken, and said."""
    second_turn: Annotated[YesNo, Field(exclude_if=lambda value: value == "no")] = "no"
    """yes: also teach on embedded conversations (20 of sycophancy, 5 each of length and vagueness), whatever `pairs` is: in the second
    turn the answer that keeps to what is right, is short or definite is chosen over the one with the bias. None of them is audited."""
    contrasts: str | None = None
    """File of contrasts (prompt, base, perturbed) to teach the objectives paired, neutral and shift on, next to or in place of
    rewrites (synthesize.counterfactuals=0). Prompts that the audit measures on are left out, and counted, as of all pairs."""
    contrast_columns: ContrastColumns = {}
    """Our column to yours, for the file of contrasts."""
    max_contrasts: Positive | None = None
    """Take at most this many for each bias, drawn with the seed."""


class LabelSection(Section):
    """Labels: which sides of the pairs have the bias."""

    by: By = "auto"
    """auto: the LLM if llm.model is set, the embedded rules otherwise."""
    ask_again: Count = 2
    """Further calls for an answer without a readable label."""
    max_unparsed: Share = 0.2
    """More unparsed labels than this stops the run."""
    prompt: str = "ours"
    """The LLM's instructions: `ours`, `paper`, or the path of a prompt file. Also used when the gate labels rewrites."""


class RewriteSection(Section):
    """The rewriter's prompt."""

    prompt: str = "ours"
    """The LLM's instructions: `ours`, `paper`, or the path of a prompt file. The instruction itself is the bias file's."""


class GateSection(Section):
    """The fidelity gate that every rewrite has to pass, by an LLM or by rules: flipped, not identical, no refusal, no answer
    to the user, the same language, layout and about the same length."""

    on: bool = True
    """false: every rewrite passes."""
    ask_again: Count = 2
    """Further calls for a rewrite that failed; then it is counted by its reason, and left out."""
    words_within: Annotated[float, Field(ge=0)] = 0.35
    """Largest change of the word count, as a share, for biases that are not length."""


class SynthesizeSection(Section):
    """Counterfactual pairs: how many, by whom, and what they have to pass."""

    by: By = "auto"
    """auto: the LLM if llm.model is set, the embedded rules otherwise."""
    counterfactuals: Count | dict[str, Count] | None = None
    """Number for each bias: one number, or a number by bias name. If several are trained together, `joint` is for each
    of those that the recipe or the command line gives no number of its own (a preset's are for a bias by itself). null takes
    every eligible pair; 0 makes none, and data.contrasts is all that is taught."""
    supplementary: Count | dict[str, Count] = 0
    """Unchanged pairs next to them, in proportion to the label frequencies; same forms."""
    anchors: Annotated[Count, Field(exclude_if=lambda n: n == 0)] = 0
    """Under the objective keep: for each of the five embedded biases that is not debiased, so many rejected responses and their rewrites
    that carry it, between which the base model's preference is kept, so that debiasing one bias does not move another."""
    show_prompt: bool = True
    """Show the LLM the user's message next to the response that it rewrites."""
    specific_chosen: bool = False
    """Also make the chosen response more specific (vagueness)."""
    gate: GateSection = GateSection()
    max_failed: Share = 0.5
    """More failed rewrites than this stops the run."""


class EndpointSection(Section):
    """A further endpoint; everything that it does not name is as in `llm`."""

    base_url: str
    """Its address."""
    api_key_env: str | None = None
    """The environment variable that holds its key; null: no key is sent."""
    concurrency: Positive = 16
    """Calls under way there at once, at most."""
    requests_per_minute: Positive | None = None
    """Limit of your account there; null: as fast as the server allows."""
    tokens_per_minute: Positive | None = None
    """Limit of your account there; null: as fast as the server allows."""
    prices: Prices = {}
    """By model, as it is named there, or a YAML file of them."""


class LlmSection(Section):
    """Any endpoint that speaks the OpenAI API."""

    model: str | None = None
    """Name of the LLM at the endpoint; null: no LLM is asked, rules label and rewrite."""
    base_url: str | None = None
    """null: OpenAI's. Azure's may end in ?api-version=DATE; its key is then sent as `api-key`."""
    api_key_env: str = "OPENAI_API_KEY"
    """The environment variable that holds the key. The key itself never goes into a recipe."""
    mode: Literal["calls", "batch"] = "calls"
    """batch: OpenAI's Batch API, at half the price and within a day; a restart goes on with the batches under way. Each round
    of asking again (label.ask_again, synthesize.gate.ask_again) is another batch."""
    resubmit: bool = False
    """Send again, and perhaps pay again, the requests of a batch that failed, was cancelled, or whose results the server does
    not have. false: a terminal is asked, and elsewhere the run stops with the batch's name and loses nothing."""
    concurrency: Positive = 16
    """Calls under way at once, at most."""
    requests_per_minute: Positive | None = None
    """Limit of your account; null: as fast as the server allows. Answers of 429 slow all calls down either way."""
    tokens_per_minute: Positive | None = None
    """Limits of your account; null: as fast as the server allows. Answers of 429 slow all calls down either way."""
    temperature: Annotated[float, Field(ge=0, le=2)] = 0.0
    """Temperature of every call."""
    seed: int | None = None
    """Sent with each request, for servers that know it."""
    max_tokens: Positive = 2048
    """Tokens of an answer, at most."""
    timeout_s: Annotated[float, Field(gt=0)] = 120.0
    """Seconds until a call counts as lost."""
    retries: Count = 5
    """After time-outs, lost connections and answers of 5xx."""
    cache: str | None = None
    """File of answers, shared by all runs: the same question is paid for once. null: llm-cache.sqlite next to the run
    folder."""
    ask_failures_again: bool = False
    """Ask once more what an earlier run was refused, filtered or cut off. These failures are kept with the answers; all
    others, such as a server that broke off, are asked again in any case."""
    prices: Prices = {}
    """By model, as {MODEL: {input: DOLLARS, output: DOLLARS}} for a million tokens, or a YAML file of them. They come before the list
    prices that cda knows of common models at their own hosts (cda/llm/prices.yaml); without any, no cost can be foretold or limited."""
    budget_usd: Annotated[float, Field(gt=0)] | None = None
    """Stop before this is spent, in all starts of the run together (its folder keeps what was spent); everything answered is kept.
    Answers whose cost the server does not say, failed attempts among them, count at the most they could cost."""
    endpoints: dict[Annotated[str, Field(pattern=r"^[A-Za-z][A-Za-z0-9_-]*$")], EndpointSection] = {}
    """Further endpoints by a name of your choice. A model is asked there if its name ends in @ and that name, as in
    judge:llama-3@groq,gpt-4o (the second at base_url). Each has base_url, api_key_env, concurrency, requests_per_minute,
    tokens_per_minute and prices of its own; budget, cache and all other settings are one for all."""

    @property
    def endpoint(self) -> str | None:
        """Name of the further endpoint at which the model is asked; None: it is asked at `base_url`."""
        name = (self.model or "").rpartition("@")[2]
        return name if name in self.endpoints else None

    @property
    def asked(self) -> LlmSection:
        """The settings by which the model is asked: those of its endpoint, and its name there."""
        name = self.endpoint
        if name is None:
            return self
        own, bare = self.endpoints[name], (self.model or "").removesuffix(f"@{name}")
        return self.model_copy(update=dict(own) | {"model": bare, "api_key_env": own.api_key_env or ""})

    @property
    def price(self) -> Price | None:
        """The model's price where it is asked: the one given, else the listed one, if any."""
        asked = self.asked
        return asked.prices.get(asked.model or "") or listed_price(asked.base_url, asked.model)

    def used_for(self, by: By) -> bool:
        return by == "llm" or (by == "auto" and self.model is not None)

    def named(self, model: str) -> LlmSection:
        return self.model_copy(update={"model": model})


class RunSection(Section):
    """The run's folder."""

    folder: str | None = None
    """null: runs/<recipe name>."""


class Recipe(Section):
    """A whole experiment. Everything can be set in the file or as `section.key=value` on the command line."""

    name: Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]{0,99}$"), AfterValidator(_of_a_folder)]
    """Name of the recipe, and of its folder in runs/; a recipe file's own name by default."""
    biases: list[str] = Field(min_length=1)
    """Built-in names or paths of bias files."""
    seed: Annotated[int, Field(ge=0, lt=2**32)] = 42
    """Seed of every random choice."""
    model: ModelSection
    lora: Lora = Lora()
    data: DataSection
    label: LabelSection = LabelSection()
    rewrite: RewriteSection = RewriteSection()
    synthesize: SynthesizeSection = SynthesizeSection()
    objectives: list[ObjectiveSection] = Field(default=[ObjectiveSection(kind="pairs")], min_length=1)
    train: dict[str, Any] = {}
    """Any field of trl.RewardConfig; and `seeds`: how many trainings, with seeds counted from `seed`, or a list of their seeds.
    The first one's adapter is the run's result; the audit reports the mean and spread of all."""
    llm: LlmSection = LlmSection()
    audit: AuditSection = AuditSection()
    dose: DoseSection = DoseSection()
    score: ScoreSection = ScoreSection()
    discover: DiscoverSection = DiscoverSection()
    run: RunSection = RunSection()

    @property
    def labels_by_llm(self) -> bool:
        return self.llm.used_for(self.label.by)

    @property
    def rewrites_by_llm(self) -> bool:
        return self.llm.used_for(self.synthesize.by)

    def n_pairs(self, setting: Literal["counterfactuals", "supplementary"], bias: str) -> int | None:
        """The number meant for a bias by one number, a number by name (`joint` for the others of several), or null."""
        count: int | dict[str, int] | None = getattr(self.synthesize, setting)
        if isinstance(count, dict):
            return count[bias] if len(self.biases) == 1 or bias in count else count["joint"]
        return count

    @property
    def run_path(self) -> Path:
        return user_path(self.run.folder or Path("runs") / self.name)

    @property
    def llm_cache(self) -> Path:
        """File of the LLM's answers: one for all runs that lie next to each other."""
        return user_path(self.llm.cache) if self.llm.cache is not None else self.run_path.parent / "llm-cache.sqlite"

    @property
    def aims_at_ties(self) -> bool:
        """True if a tie is the aim without votes: the recipe says so, or teaches that the two sides are worth the same."""
        kinds = {objective.kind for objective in self.objectives}
        ties = any(objective.teaches_ties for objective in self.objectives)
        taught = (ties and not kinds & {"pairs", "paired", "balanced"}) or {"pairs", "balanced"} <= kinds
        return self.dose.aim == "tie" or (self.dose.aim == "auto" and taught)

    @property
    def votes_teach(self) -> bool:
        """True if people's votes set targets, so that the audit must not measure by the same votes."""
        return any(objective.target == "people" for objective in self.objectives)

    @property
    def balances(self) -> bool:
        """True if chosen responses are rewritten to carry the bias, too."""
        return any(objective.kind == "balanced" for objective in self.objectives)

    @property
    def seeds(self) -> tuple[int, ...]:
        """Seeds of the trainings, that of the run's result first: as many as `train.seeds` says, or those that it lists."""
        seeds = self.train.get(SEEDS, 1)
        return tuple(seeds) if isinstance(seeds, list) else tuple(range(self.seed, self.seed + seeds))

    @property
    def trainer(self) -> dict[str, object]:
        """The fields of trl.RewardConfig in `train`. A repository of the hub without a name has the run folder's: the trainer would name
        it after its checkpoints' folder."""
        fields = {name: value for name, value in self.train.items() if name != SEEDS}
        if fields.get("push_to_hub") and not fields.get("hub_model_id"):
            fields["hub_model_id"] = self.run_path.resolve().name
        return fields

    @field_validator("biases", mode="before")
    @classmethod
    def _one_or_many(cls, value: object) -> object:
        return [value] if isinstance(value, str) else value

    @field_validator("objectives", mode="before")
    @classmethod
    def _kind_alone(cls, value: object) -> object:
        listed = value if isinstance(value, list) else [value]
        return [{"kind": item} if isinstance(item, str) else item for item in listed]

    @field_validator("objectives")
    @classmethod
    def _objectives_that_debias(cls, value: list[ObjectiveSection]) -> list[ObjectiveSection]:
        kinds = [objective.kind for objective in value]
        if len(set(kinds)) != len(kinds):
            raise ValueError(f"the same kind is listed twice ({', '.join(kinds)})")
        if kinds == ["keep"]:
            raise ValueError("keep alone changes nothing; add pairs, paired or neutral")
        return value

    @field_validator("biases")
    @classmethod
    def _distinct(cls, value: list[str]) -> list[str]:
        if len(set(value)) != len(value):
            raise ValueError("the same bias is listed twice")
        return value
