"""The recipe's section on discovery: data, size of the search, and conditions for a finding."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Literal

from pydantic import Field, field_validator, model_validator

from cda.recipe.section import By, Positive, ResponseColumns, Section, Share
from cda.results.evidence import Correction

Size = Literal["5x16", "3x8", "1", "3x8-wide", "1-proposals", "small"]


@dataclass(frozen=True, slots=True)
class SearchSize:
    """Size of a search.

    Attributes:
        populations: Proposals of the first generation, then survivors of every generation.
        batches: Prompts on which each generation measures.
        mutations: Variations of each survivor.
        variations: Variations of each proposal that the first generation measures along with it.
    """

    populations: tuple[int, ...]
    batches: tuple[int, ...]
    mutations: int = 4
    variations: int = 0


# The first three are those of "Automatically Finding Reward Model Biases" (1 is best of 320); the prompts of 3x8 and 1 stand in a
# launch script of its released code. All but small try at most 320 candidates: 3x8-wide and 1-proposals, ours, by more proposals.
SIZES: dict[Size, SearchSize] = {
    "5x16": SearchSize((64, 16, 16, 16, 16, 10), (16, 32, 32, 32, 32)),
    "3x8": SearchSize((64, 16, 16, 10), (16, 32, 32), mutations=8),
    "1": SearchSize((64, 10), (32,), variations=4),
    "3x8-wide": SearchSize((256, 8, 8, 10), (16, 32, 32)),
    "1-proposals": SearchSize((320, 10), (32,)),
    "small": SearchSize((48, 12, 12, 10), (16, 24, 24)),
}


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
    """Our name: your name, for the file of responses."""
    split: str = "train"
    """For sources with several."""
    prompts: str | None = None
    """File of prompts to sample responses to (text, one a line; or rows with `prompt`). null: written by the LLM on topics."""
    topics: str | None = None
    """File of topics, one a line. null: twenty of ours."""
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
    """5x16, 3x8 and 1 (best of 320) are the paper's; 3x8-wide and 1-proposals propose more and vary less; small. null: 5x16
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
    responses_each: Positive | None = None
    """Responses to each of these prompts that are rewritten, clustered by prompt. null: 1 with an LLM, 4 without."""
    validation_alpha: Annotated[float, Field(gt=0, lt=1)] = 0.05
    """Pooled over rewriters, corrected for all candidates that entered."""
    test_alpha: Annotated[float, Field(gt=0, lt=1)] = 0.01
    correct: Correction = "bonferroni"
    """The p-values on the test prompts, for all attributes that are tested there: bonferroni (the paper's), holm, or none."""
    required_rewriters: Positive = 2
    """With how many of the rewriters an effect has to show by itself (partial conjunction); no more than there are."""
    max_failed: Share = 0.5
    """A rewriter that fails on more than this share of an attribute's responses, or whose rewrites lack a verdict of the judge
    more often than this, does not count for it; exactly this share is allowed."""
    trim: bool = False
    """Leave margins beyond 1.5 interquartile ranges out of means; a changed sign is reported."""
    pair_quality: bool = True
    """Ask the LLM about the quality of the rewrites of confirmed attributes."""
    penalty: Annotated[float, Field(ge=0)] = 1.0
    """Penalty for likeness, in the strength of the whole run; 1 as in the paper."""

    @model_validator(mode="before")
    @classmethod
    def _words(cls, value: object) -> object:
        # YAML reads 1 as a number; as a size it is a name.
        if isinstance(value, dict) and value.get("size") == 1:
            return {**value, "size": "1"}
        return value

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
        if self.populations is not None and self.batches is not None:
            if self.size is not None:
                raise ValueError("give either size or populations and batches")
            if len(self.populations) != len(self.batches) + 1:
                raise ValueError(
                    "populations has one number more than batches: the first generation, then survivors of each"
                )
        if self.rewriters and len(set(self.rewriters)) < max(2, self.required_rewriters):
            raise ValueError("rewriters: name two different ones or more, and not fewer than required_rewriters")
        twice = sorted({name for name in self.rewriters if self.rewriters.count(name) > 1})
        if twice:
            raise ValueError(f"rewriters: {', '.join(twice)} is named twice, and would count once; name each once")
        return self
