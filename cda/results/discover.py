"""A search for attributes that a model rewards and a judge does not: generations, validation, test, and the quality of the evidence."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, Literal

from pydantic import Field, JsonValue, PlainSerializer, model_validator

from cda.biases import Bias
from cda.inert import inert
from cda.records import Direction, Exclusions, Prompt, content_id, prompt_id
from cda.results.base import MadeBy, Missing, Result, Saved, Shown
from cda.results.effects import Grouping, Level
from cda.results.evidence import (
    Confirmation,
    ConfirmSettings,
    HeldOut,
    PairQuality,
    Validation,
    ValidationResult,
    Verdicts,
)
from cda.results.facts import StageRun

Part = Literal["train", "validation", "test"]
Origin = Literal["proposed", "mutated", "given"]
Reasons = Iterator[tuple[str, Mapping[str, int], int | None]]
"""Step, reasons with their counts, and of how many."""
Fate = Literal["kept", "too few rewrites", "reward", "judge", "front"]


def _briefly(bias: Bias) -> dict[str, Any]:
    """A bias without fields at their defaults, with the short name of its file."""
    return bias.model_dump(mode="json", exclude_defaults=True) | (
        {"short_name": bias.short_name} if bias.short_name else {}
    )


@dataclass(frozen=True, slots=True)
class Measured:
    """A response, its rewrite, and the scores of model and judge on the two.

    `margin` is the reward of the side with the attribute minus that of the side without; `preference` the judge's for the side
    with the attribute (1 it is better, 0.5 neither, 0 worse), None if it was not asked or gave no readable verdict.
    """

    candidate: str
    rewriter: str
    direction: Direction
    prompt: Prompt
    original: str
    rewrite: str
    margin: float
    preference: float | None = None

    @property
    def prompt_id(self) -> str:
        return prompt_id(self.prompt)

    @property
    def with_attribute(self) -> str:
        return self.rewrite if self.direction == "add" else self.original

    @property
    def without_attribute(self) -> str:
        return self.original if self.direction == "add" else self.rewrite


class SearchSettings(Result):
    """The size of a search. The defaults are the paper's: depth 5 × width 16."""

    populations: tuple[int, ...] = (64, 16, 16, 16, 16, 10)
    """Proposals of the first generation, then survivors of every generation."""
    prompts: tuple[int, ...] = (16, 32, 32, 32, 32)
    """Prompts on which each generation measures."""
    mutations: int = 4
    """Variations of each survivor."""
    variations: int = 0
    """Variations of each proposal that the first generation measures along with it."""
    reward_cut: float = 0.4
    """Share of a generation let go by reward."""
    judge_cut: float = 0.3
    """Share of the rest let go by the judge."""
    directions: tuple[Direction, ...] = ("add",)
    """`add` the attribute, and maybe also `remove` it."""
    seed: int = 42
    """Seed of everything drawn."""
    families: bool = True
    """The best of each family survive first. False: the paper's selection."""

    @model_validator(mode="after")
    def _one_population_more(self) -> SearchSettings:
        if len(self.populations) != len(self.prompts) + 1 or not self.prompts:
            raise ValueError("one population more than there are generations is needed, and at least one generation")
        return self

    @property
    def n_generations(self) -> int:
        return len(self.prompts)

    @property
    def n_candidates(self) -> int:
        """Distinct candidates that are tried at most."""
        return self.populations[0] * (1 + self.variations) + self.mutations * sum(self.populations[1:-1])


class SearchedModel(Result):
    """A model, or a judge, as it was asked."""

    name: str
    unnamed: Annotated[bool, Field(exclude_if=lambda unnamed: not unnamed)] = False
    """As of `RewardModelFacts`."""
    adapter: str | None
    dose: float | None
    """Dose of the adapter; None without one."""
    calibration: str | None = None
    """Calibration whose corrections were taken off its scores (`score.calibration`); None without one."""


class CandidateRecord(Result):
    """An attribute that the model may over-reward."""

    # Its bias is as rewriters, labellers and trainers take it; a confirmed one is written to a file unchanged.

    id: str
    """Id derived from the bias's content, whatever its name."""
    origin: Origin
    generation: int
    """The generation that first measured it; 0 is the first."""
    parents: tuple[str, ...]
    """`id`s of the candidates that it was made from."""
    bias: Annotated[Bias, PlainSerializer(_briefly)]
    """As a bias file, without fields at their defaults."""

    @classmethod
    def of(
        cls, bias: Bias, origin: Origin = "proposed", generation: int = 0, parents: tuple[str, ...] = ()
    ) -> CandidateRecord:
        """The candidate of a bias, with its `id`."""
        name = content_id("candidate", bias.model_dump(mode="json", exclude={"name"}))
        return cls(id=name, origin=origin, generation=generation, parents=parents, bias=bias)

    @property
    def attribute(self) -> str:
        return self.bias.description


class StandingRecord(Result):
    """Standing of a candidate after a generation; a point of the search, not a result to be reported."""

    candidate: str
    """Its `id`."""
    n: int
    """Rewrites measured."""
    reward: float | None
    """Mean margin, reward units; None if nothing was measured."""
    judge: float | None
    """Mean preference of the judge, 0 to 1; None if it was not asked."""
    n_judged: int
    """Preferences behind it."""
    failed: dict[str, int]
    """Rewrites that are missing, by reason."""
    fate: Fate
    """`kept`, or the reason for which it was dropped."""


class GenerationRecord(Result):
    """Events of one generation."""

    index: int
    """0 is the first."""
    n_prompts: int
    """Prompts measured on."""
    n_merged: int
    """Attributes that meant the same as another."""
    proposed: Exclusions
    """Attributes proposed or mutated for it, answers that gave none, and those that were not tried."""
    standings: tuple[StandingRecord, ...]


class SavedGeneration(Saved):
    """A finished generation of a search that can be taken up again."""

    schema_version: Literal[2] = 2
    generation: GenerationRecord
    candidates: tuple[CandidateRecord, ...]
    """One for each standing, in their order."""


class WritingCounts(Result):
    """Counts of scenarios or prompts that an LLM was asked to write."""

    requested: int
    """Items wanted in all."""
    kept: int
    """Items there are in the end."""
    calls: Exclusions
    """Calls made, and those that brought no item at all, by reason; an item that is missing was asked for again."""
    items: Exclusions
    """Items looked at, and those dropped, by reason. Items beyond the wanted number are not looked at."""


class MadeFrom(Result):
    """Origin of prompts and responses."""

    responses: str
    """Their file or embedded set; `sampled` if an LLM answered."""
    prompts: str | None = None
    """The file of the prompts; `written` if an LLM wrote them; None if they came with the responses."""
    rows: Exclusions | None = None
    """Rows of that file, and those left out."""
    topics: int | None = None
    """Topics that prompts were written for."""
    scenarios: WritingCounts | None = None
    written: WritingCounts | None = None
    not_drawn: Annotated[int, Field(exclude_if=lambda n: n == 0)] = 0
    """Prompts beyond `discover.max_prompts`, left out before anything was asked; not in the file if there are none."""


class MaterialCounts(Saved):
    """Material of a search."""

    schema_version: Literal[2] = 2
    made: MadeFrom
    prompts: dict[Part, int]
    """By part of the split."""
    responses: int
    """To those prompts, with a reward."""
    repeated: dict[Literal["prompts", "responses"], int]
    """Left out because the prompt says the same as another."""
    single: int
    """Prompts with one response."""
    unanswered: int
    """Prompts without any response."""
    unrated: int
    """Prompts without any response that has a reward."""
    sampled: dict[str, Exclusions]
    """By source of responses."""
    rewards: Exclusions
    """Responses, and those without a reward."""

    @property
    def left_out(self) -> int:
        """Responses that were left out."""
        return sum(part.dropped for part in (*self.sampled.values(), self.rewards)) + self.repeated["responses"]


class TestedAttribute(Confirmation):
    """An attribute that entered the test."""

    __test__ = False  # no test class of pytest

    attribute: str
    """In words."""
    name: str
    """Name of its bias."""
    examples: tuple[Measured, ...]
    """Rewrites that show the disagreement best, and one that does not show it."""
    file: str | None = None
    """Its bias file in the run; None if it is not confirmed."""


class SearchFacts(Shown):
    """Facts of a finished discovery, of all prompts together or by topic."""

    name: str
    """Name of the recipe."""
    given: bool
    """The attributes were given, and nothing was searched for."""
    model: SearchedModel
    judge: SearchedModel
    """The judge that the model was compared with."""
    by: str
    """The LLM that proposed; `rules` without one."""
    rewriters: tuple[str, ...]
    n_rewriters: int
    """Independent ones: one rule engine at several strengths counts as one."""
    settings: dict[str, JsonValue]
    """The recipe's section `discover`."""
    strictness: ConfirmSettings
    search: SearchSettings
    material: MaterialCounts
    """By topic: over all topics together."""
    seed: int
    versions: dict[str, str]
    stages: dict[str, StageRun]
    """Those that took part; by topic: by `topic: stage`."""

    @property
    def by_rules(self) -> bool:
        """True if rules proposed and rewrote, without an LLM."""
        return self.by == "rules"


class DiscoverResult(SearchFacts):
    """A finished discovery."""

    made_by = MadeBy("cda discover", "discover.json", "cda.discovery.discovery_page:discovery_document")
    schema_version: Literal[3] = 3
    topic: str | None = None
    """The topic of all its prompts, in a search by topic; None for all prompts together."""
    generations: tuple[GenerationRecord, ...]
    """Generations of the search; empty if the attributes were given."""
    candidates: dict[str, CandidateRecord]
    """By `id`, everything that was measured."""
    validation: ValidationResult | None
    """None if no candidate entered it."""
    tested: tuple[TestedAttribute, ...]
    """The confirmed first, then by pooled reward."""
    n_test_prompts: int
    already: dict[str, dict[str, int]]
    """As of `ConfirmationResult`."""
    verdicts: Verdicts | None
    """As of `ConfirmationResult`."""
    cut_for_judge: int
    """As of `ConfirmationResult`."""
    pairs: dict[str, PairQuality]
    """By candidate `id`, of those that are confirmed or were given."""
    strength: dict[str, float] | Missing | None
    """The judge's threshold, such as `0.5`, to the diversity-adjusted bias strength of the validated attributes (whose reward the
    validation shows) below it, reward units, by their validation numbers; None if none could be measured there."""
    lineage: dict[str, tuple[str, ...]]
    """By tested candidate, the `id`s of its ancestors, oldest first."""
    grouping: dict[str, int]
    """Mistakes mended in an LLM's groups by meaning, by reason."""
    earlier_tests: int
    """Tests of this folder on any of the same prompts, with other settings or candidates."""

    @property
    def validated(self) -> tuple[Validation, ...]:
        """Results of the validation; empty without one."""
        return self.validation.results if self.validation else ()

    def left_out(self) -> Reasons:
        """Everything that did not reach a number."""
        yield from _left_out_of_material(self.material)
        for generation in self.generations:
            step, missing = f"generation {generation.index + 1}", summed(row.failed for row in generation.standings)
            yield f"{step}: proposals", generation.proposed.reasons, generation.proposed.seen
            gone = Counter(f"let go: {row.fate}" for row in generation.standings if row.fate != "kept")
            yield f"{step}: candidates", {"means the same as another": generation.n_merged, **gone}, None
            yield f"{step}: rewrites", missing, sum(row.n for row in generation.standings) + missing.total()
        yield "search: groups by meaning", self.grouping, None
        validation = self.validation
        if validation:
            yield from _left_out_of_step("validation", validation.results, validation.already)
            yield from _left_out_of_verdicts("validation", validation.cut_for_judge, validation.verdicts)
        yield from _left_out_of_step("test", self.tested, self.already)
        yield from _left_out_of_verdicts("test", self.cut_for_judge, self.verdicts)
        for at, entry in enumerate(self.tested, 1):
            quality = self.pairs.get(entry.candidate)
            if quality and (fidelity := quality.fidelity):
                unread = fidelity.n_unparsed_with + fidelity.n_unparsed_without
                name = f"{at}. {inert(entry.attribute)}"
                yield f"pairs: {name}", {"label of a side not read": unread}, 2 * fidelity.n


def _left_out_of_material(material: MaterialCounts) -> Reasons:
    made, repeated = material.made, material.repeated
    if made.rows:
        yield "prompts: rows", made.rows.reasons, made.rows.seen
    if made.not_drawn:
        n_drawn = sum(material.prompts.values()) + repeated["prompts"] + material.unrated + material.unanswered
        yield "prompts", {"not drawn (discover.max_prompts)": made.not_drawn}, n_drawn + made.not_drawn
    for what, level in (("scenarios", made.scenarios), ("prompts", made.written)):
        if level:
            yield f"writing {what}: answers", level.calls.reasons, level.calls.seen
            yield f"writing {what}", level.items.reasons, level.items.seen
            lacking = {"asked for and not written in the end": level.requested - level.kept}
            yield f"writing {what}", lacking, level.requested
    for source, exclusions in material.sampled.items():
        yield f"responses of {source}", exclusions.reasons, exclusions.seen
    yield "rewards", material.rewards.reasons, material.rewards.seen
    prompts = {"no response": material.unanswered, "no response with a reward": material.unrated}
    yield "prompts", {**prompts, "says the same as another prompt": repeated["prompts"]}, None
    yield "responses", {"to a prompt that says the same as another": repeated["responses"]}, None


def _left_out_of_step(step: str, entered: Sequence[HeldOut], already: Mapping[str, Mapping[str, int]]) -> Reasons:
    """Rewrites that the numbers of validation or test lack, by rewriter and over all attributes."""
    everyone = [each for entry in entered for each in entry.rewriters]
    for name in sorted({each.rewriter for each in everyone}):
        own = [each for each in everyone if each.rewriter == name]
        so_already = {"is so already; not rewritten": sum(each.get(name, 0) for each in already.values())}
        yield f"{step}: responses for {name}", so_already, None
        yield f"{step}: rewrites by {name}", summed(each.failed for each in own), sum(each.asked for each in own)
    pooled = [entry.pooled for entry in entered if entry.pooled]
    unjudged = {"no verdict of the judge; counts for the reward": sum(each.n_unjudged for each in pooled)}
    yield f"{step}: rewrites", unjudged, sum(each.reward.n for each in pooled)


def _left_out_of_verdicts(step: str, n_cut: int, verdicts: Verdicts | None) -> Reasons:
    """Comparisons without a verdict, and why single answers hold none: each comparison is asked for in both orders."""
    yield f"{step}: comparisons by the judge", {"a side was cut for the judge": n_cut}, None
    if verdicts:
        lost = {"readable in neither order": verdicts.unread, "readable in one order alone": verdicts.half_read}
        yield f"{step}: comparisons by the judge", lost, verdicts.asked
        yield f"{step}: answers of the judge", verdicts.reasons, 2 * verdicts.asked


def summed(reasons: Iterable[Mapping[str, int]]) -> Counter[str]:
    return sum(map(Counter, reasons), Counter[str]())


Decision = Literal["confirmed", "shared", "opposite", "not shown", "not tested"]


class TopicMaterial(Saved):
    """The topics that a search by topic works on, and those that were left out."""

    schema_version: Literal[1] = 1
    prompts: dict[str, dict[Part, int]]
    """Topic to its prompts by part; in the order in which topics first come."""
    left_out: dict[str, str]
    """Topic to the reason why it is not searched, with the number of its prompts."""
    n_left_out: int
    """Prompts of those topics."""
    n_without: int
    """Prompts that name no topic, or two."""


class TopicCell(Level):
    """One attribute on the test prompts of one topic, or of all topics as one set: its `reward` (and `trimmed`), the
    `judge`'s preference and its `win_rate`, by the rewriters that count."""

    p_corrected: float | None
    """p of `test`, one-sided, that the model rewards it and the judge does not (partial conjunction), corrected: of one found here with
    all that the topic tested, of one carried over with all carried to it, in both directions; None if untested."""
    decision: Decision
    """`confirmed`: found and confirmed here. `shared`: found in another topic, and holds here. `opposite`: holds here with the signs
    turned around. `not shown`; `not tested`."""
    found_here: bool
    """The topic's own search (or the user) brought it to the test; else it was carried over from another topic."""
    p_over_all: float | None = None
    """Of one found here, corrected with the tests of all topics together; None for others."""
    p_opposite: float | None = None
    """Corrected: that the model rewards its absence and the judge prefers its presence; None if that was not tested."""
    n_family: int
    """Tests that the correction counts."""
    file: str | None = None
    """Its bias file, in the folder of the run; None without one."""


class TopicAttribute(Grouping):
    """One attribute in every topic, and over all of them; `differ` is Holm-adjusted over the attributes."""

    candidate: str
    """Its `id`."""
    name: str
    """Name of its bias."""
    attribute: str
    """In words."""
    short_name: Annotated[str | None, Field(exclude_if=lambda name: name is None)] = None
    """That of its bias file; None without one."""
    found_in: tuple[str, ...]
    """Topics whose searches brought it to the test; empty if it was given."""
    levels: tuple[TopicCell, ...]
    """One for each topic, in their order."""
    together: TopicCell
    """The test prompts of all topics as one set, corrected for all attributes of the table."""

    def in_topics(self, *decisions: Decision) -> tuple[str, ...]:
        """The topics in which it was decided so."""
        return tuple(level.name for level in self.levels if level.decision in decisions)

    @property
    def turns(self) -> bool:
        """True if its reward lies above 0 in one topic and below 0 in another, each with its whole interval."""
        rewards = [reward for level in self.levels if (reward := level.of("reward", "model"))]
        return any(reward.low > 0 for reward in rewards) and any(reward.high < 0 for reward in rewards)


class TopicSearch(Result):
    """The search in one topic, in numbers; its own `discover.json` holds the rest."""

    topic: str
    folder: str
    """In the folder of the run, with the topic's own report."""
    prompts: dict[Part, int]
    n_candidates: int
    """Distinct candidates measured."""
    n_validated: int
    """Candidates that entered the validation."""
    n_tested: int
    n_confirmed: int
    n_carried_in: int
    """Attributes of other topics that were measured here."""
    earlier_tests: int = 0
    """Tests on any of the same test prompts in this folder before, with other settings or candidates."""


class TopicsResult(SearchFacts):
    """A finished search by topic."""

    made_by = MadeBy("cda discover --by-topic", "topics.json", "cda.discovery.discovery_page:discovery_document")
    schema_version: Literal[3] = 3
    left_out: dict[str, str]
    """Topic to the reason why it was not searched."""
    n_left_out: int
    """Prompts of those topics."""
    n_without: int
    """Prompts that name no topic, or two; left out."""
    searches: tuple[TopicSearch, ...]
    """One for each topic."""
    by_attribute: tuple[TopicAttribute, ...]
    """Attributes measured in every topic: those confirmed in most topics first, then by the largest reward in any."""
    n_not_carried: int
    """Tested attributes that were not measured in other topics (`discover.carried`); their topic's report has them."""

    @property
    def n_confirmed(self) -> int:
        """Attributes confirmed by the searches of the topics, each topic's counted."""
        return sum(search.n_confirmed for search in self.searches)
