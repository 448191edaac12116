"""The protocols of scorers, and margins of comparisons that were scored beforehand, by rewards or by preferences."""

from __future__ import annotations

import math
from collections.abc import Generator, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Literal, Protocol

import numpy as np

from cda.arrays import FloatArray
from cda.errors import ModelError
from cda.records import Exclusions, PanelRule, Prompt, content_id, count_reasons, prompt_id
from cda.results.base import Estimate, Missing
from cda.stats.estimators import share_of
from cda.stats.people import panel_margins

Text = tuple[Prompt, str]
"""A prompt with its response."""
Comparison = tuple[Prompt, str, str]
"""A prompt with two responses."""


def text_id(prompt: Prompt, response: str) -> str:
    """Name of a prompt with its response."""
    return content_id("text", prompt, response)


def comparison_id(prompt: Prompt, first: str, second: str) -> str:
    """Name of a comparison."""
    return content_id("comparison", prompt, first, second)


def distinct_texts(texts: Iterable[Text]) -> dict[str, Text]:
    """Every distinct text by its `text_id`, in order of first appearance."""
    return {text_id(*text): text for text in texts}


OverLength = Literal["cut", "drop", "refuse"]
"""Texts that are too long are cut at the end and counted; left out and counted; or refused, all together, before any is scored."""


@dataclass(frozen=True, slots=True)
class TextScore:
    """The score of one text: its reward in the model's units, None if the text was too long and is dropped. `tokens`
    names all that the model read, if known, and `read` what is left of a cut text: alike to the model if the names are.
    """

    reward: float | None
    read: str | None = None
    tokens: str | None = None


Finished = list[tuple[int, TextScore]]
"""Rows with their scores."""


class TextScorer(Protocol):
    """Gives each text a reward, batch by batch, so that each batch can be kept: the scorers that `score_texts` takes."""

    batch_tokens: int | None = None
    """Padded tokens in a batch at most; None if the scorer chooses."""
    over_length: OverLength = "cut"
    """Treatment of texts that are too long; `cut` too if the scorer has settings of its own for them."""
    strict: bool = True
    """A reward that is NaN or infinite is an error. False: its text has no reward, and the others stay."""

    @property
    def name(self) -> str:
        """For messages."""
        ...

    @property
    def precision(self) -> str | None:
        """Precision of a local model's weights; None if there are none."""
        return None

    def in_batches(
        self, texts: Sequence[Text], skip: frozenset[int] = frozenset(), known: Mapping[str, float] | None = None
    ) -> Generator[Finished, None, None]:
        """Rows and their scores as they come, each row once, in any order.

        Args:
            texts: Length n.
            skip: Rows that are known. A batch of nothing else may be left out; the others keep all of their texts.
            known: Rewards by `TextScore.tokens`, of texts scored before.
        """
        ...

    def score(self, prompts: Sequence[Prompt], responses: Sequence[str]) -> FloatArray:
        """Rewards, shape (n,); NaN for none. ModelError if one is NaN or infinite; an error loses earlier scores."""
        texts = list(zip(prompts, responses, strict=True))
        scores = dict(row for finished in self.in_batches(texts) for row in finished)
        rewards = [scores[row].reward for row in range(len(texts))]
        broken = [row for row, reward in enumerate(rewards) if reward is not None and not math.isfinite(reward)]
        if broken:
            raise not_finite(self.name, len(broken), len(rewards), f"text {broken[0]}")
        return np.array([np.nan if reward is None else reward for reward in rewards], dtype=np.float64)

    def refuse_long(self, texts: Sequence[Text]) -> None:  # noqa: ARG002
        """Raise ModelError if any of the texts is too long; called if `over_length` is `refuse`."""
        return


def not_finite(name: str, n_broken: int, n: int, first: str) -> ModelError:
    """The error of NaN or infinite rewards."""
    return ModelError(
        f"{name}: {n_broken} of {n} rewards are NaN or infinite (first: {first}). Try model.precision=fp32"
    )


class Compared(Protocol):
    """Margins of comparisons that were scored beforehand."""

    @property
    def unit(self) -> str:
        """`reward`, `grade` or `preference`."""
        ...

    def margins(self, comparisons: Sequence[Comparison]) -> FloatArray:
        """Margins of the first text over the second, shape (n,); NaN if there is none."""
        ...


@dataclass(frozen=True, slots=True)
class Rewards:
    """Rewards of texts by `text_id`, in the order in which the texts were first given; NaN for one left out, as too
    long, or because nothing of the response would be left.

    `read` names what remains of each text that was cut: texts that differ after the cut only are the same to the model.
    `tokens` names all that it read, if the scorer knows. `n_cached` were in the cache, by any process of the launch.
    """

    by_text: Mapping[str, float]
    read: Mapping[str, str] = field(default_factory=dict)
    unit: str = "reward"
    """`reward`, or the `grade` of a scale, on which a margin of 0 is a tie that was meant."""
    tokens: Mapping[str, str] = field(default_factory=dict)
    n_cached: int = 0
    unsound: frozenset[str] = frozenset()
    """Those of the texts left out whose reward was NaN or infinite, by a scorer that is not `strict`."""

    @property
    def scored(self) -> dict[str, float]:
        """Rewards without the texts that were left out."""
        return {name: reward for name, reward in self.by_text.items() if not math.isnan(reward)}

    @property
    def dropped(self) -> list[str]:
        """`text_id` of each text that was left out."""
        return [name for name, reward in self.by_text.items() if math.isnan(reward)]

    @property
    def why_dropped(self) -> str:
        """Reason for which texts were left out, as the end of a clause about one."""
        return "without a readable grade" if self.unit == "grade" else "too long for the model"

    def why_missing(self, name: str) -> str:
        """Reason for which a text that was left out, by its `text_id`, has no reward."""
        return "NaN or infinite reward" if name in self.unsound else self.why_dropped

    @property
    def n_alike(self) -> int:
        """Texts that the model reads whole, and as the same tokens as one that was given before."""
        whole = [tokens for name, tokens in self.tokens.items() if name not in self.read]
        return len(whole) - len(set(whole))

    def times(self, factor: float) -> Rewards:
        """The same in another unit."""
        return replace(self, by_text={name: factor * reward for name, reward in self.by_text.items()})

    def margins(self, comparisons: Sequence[Comparison]) -> FloatArray:
        """reward(first) − reward(second); 0 if both are the same token ids, NaN if cutting left both sides the same."""
        return np.array([self._margin(*comparison) for comparison in comparisons])

    def _margin(self, prompt: Prompt, first: str, second: str) -> float:
        one, other = text_id(prompt, first), text_id(prompt, second)
        if one in self.read and self.read[one] == self.read.get(other) and first != second:
            return math.nan
        if one in self.tokens and self.tokens[one] == self.tokens.get(other):
            return 0.0
        return self.by_text[one] - self.by_text[other]

    def of(self, prompt: Prompt, response: str) -> float:
        """Reward of one text; NaN if it was left out, KeyError if it was not among the texts."""
        return self.by_text[text_id(prompt, response)]


def with_rewards(texts: Sequence[Text], scored: Mapping[str, Rewards]) -> tuple[list[int], Exclusions]:
    """Rows that every scoring has a reward for, so that all choose from the same responses; and the others, counted."""
    kept, reasons = [], []
    for row, text in enumerate(texts):
        without = [label for label, rewards in scored.items() if math.isnan(rewards.of(*text))]
        if without:
            reasons.append(f"{scored[without[0]].why_dropped} ({' and '.join(without)})")
        else:
            kept.append(row)
    return kept, Exclusions(len(texts), count_reasons(reasons))


@dataclass(frozen=True, slots=True)
class BothOrders:
    """Counts of comparisons that were each asked for in both orders, or in one.

    Without a readable verdict in either order (`n_unread`), or in one of two (`n_half_read`). `position_bias`: mean preference for
    the text shown first, −1 to 1 (written: share for the first minus share for the second), among those read in both orders, or in
    one order among all read; None if nothing was read. `position`: the same with an interval, clustered by prompt, if one order was
    asked and two prompts were read.
    """

    n_unread: int = 0
    n_half_read: int = 0
    by_place: tuple[bool | None, ...] | None = ()
    """Whether the verdict of each comparison followed the place and not the text, a margin of 0 if it is written; None for one
    that was not read in both orders, and instead of them all if one order was asked, which does not show it."""
    stable: tuple[float | None, ...] | None = None
    """Of each comparison, the share of its orders whose repeats agree; None for one without two readable repeats of an order, and instead
    of them all if each was asked once."""
    position_bias: float | None = None
    position: Estimate | None = field(default=None, compare=False)

    @property
    def n_flipped(self) -> int | None:
        """Those that followed the place."""
        return None if self.by_place is None else self.by_place.count(True)


class PairwiseScorer(Protocol):
    """Says which of two responses to a prompt it prefers."""

    @property
    def orders(self) -> BothOrders:
        """Of the last call."""
        ...

    def margin(self, prompts: Sequence[Prompt], first: Sequence[str], second: Sequence[str]) -> FloatArray:
        """Preference for the first, −1 to 1, shape (n,); 0 is a tie, NaN if there is no readable verdict."""
        ...


@dataclass(frozen=True, slots=True)
class Preferences:
    """Preferences of a pairwise scorer by `comparison_id`; `judges` holds those of each judge of a panel, `criteria` those
    by each criterion of a judge's rubric; `rule` made one preference of a panel's."""

    by_comparison: Mapping[str, float]
    unit: str = "preference"
    rule: PanelRule = "mean"
    judges: Mapping[str, Preferences] = field(default_factory=dict)
    criteria: Mapping[str, Preferences] = field(default_factory=dict)
    by_place: Mapping[str, float] = field(default_factory=dict)
    """Of comparisons read in both orders: 1 if the verdict followed the place, else 0; of a panel the mean over its judges."""
    stable: Mapping[str, float] = field(default_factory=dict)
    """Of comparisons that were asked again in one order: share of its orders whose repeats agree; of a panel as above."""

    def margins(self, comparisons: Sequence[Comparison]) -> FloatArray:
        """Preference for the first, −1 to 1."""
        return np.array(
            [self.by_comparison[comparison_id(*comparison)] for comparison in comparisons], dtype=np.float64
        )

    def decided_by_place(self, comparisons: Sequence[Comparison]) -> Estimate | Missing:
        """Share of distinct comparisons whose verdict followed the place, clustered by prompt; of a panel, of its judges' verdicts."""
        missing = "no comparison was read in both orders, which would show what the place decides"
        return _share_of(self.by_place, comparisons, missing)

    def repeated_alike(self, comparisons: Sequence[Comparison]) -> Estimate | Missing:
        """Share of distinct comparisons whose repeats of one order agree, clustered by prompt; of a panel the mean over its judges."""
        return _share_of(self.stable, comparisons, "no comparison has two readable verdicts in one order")

    def without_verdict(self, comparisons: Sequence[Comparison]) -> Estimate | Missing:
        """Share of distinct comparisons without a readable verdict, clustered by prompt."""
        unread = {name: float(math.isnan(each)) for name, each in self.by_comparison.items()}
        return _share_of(unread, comparisons, "nothing was compared")


def _share_of(values: Mapping[str, float], comparisons: Sequence[Comparison], missing: str) -> Estimate | Missing:
    """Mean of what is known of distinct comparisons, clustered by prompt; `missing`: the reason if nothing is."""
    ids = {comparison_id(*each): prompt_id(each[0]) for each in comparisons}
    known = [name for name in ids if name in values]
    if not known:
        return Missing(reason=missing)
    return share_of([values[name] for name in known], [ids[name] for name in known])


def as_panel(judges: Mapping[str, Preferences], rule: PanelRule = "mean") -> Preferences:
    """Several judges' preferences on the same comparisons, as one, overall and by criterion; DataError if none is given
    overall."""
    first = next(iter(judges.values()))
    names = list(first.by_comparison)
    together, _ = panel_margins([[judge.by_comparison[name] for name in names] for judge in judges.values()], rule)
    criteria: dict[str, Preferences] = {}
    for criterion, of_first in first.criteria.items():
        of_each = {name: judge.criteria[criterion] for name, judge in judges.items()}
        given = [value for own in of_each.values() for value in own.by_comparison.values() if not math.isnan(value)]
        criteria[criterion] = as_panel(of_each, rule) if given else of_first
    by_comparison = dict(zip(names, map(float, together), strict=True))
    by_place = _means([own.by_place for own in judges.values()], names)
    stable = _means([own.stable for own in judges.values()], names)
    return Preferences(
        by_comparison, rule=rule, judges=dict(judges), criteria=criteria, by_place=by_place, stable=stable
    )


def _means(of_each: Sequence[Mapping[str, float]], names: Sequence[str]) -> dict[str, float]:
    """Mean over judges of what is known of a comparison, by name."""
    known = {name: [own[name] for own in of_each if name in own] for name in names}
    return {name: float(np.mean(each)) for name, each in known.items() if each}


def compare_distinct(scorer: PairwiseScorer, comparisons: Sequence[Comparison]) -> Preferences:
    """Preference of every distinct comparison, each asked for once."""
    distinct = {comparison_id(*comparison): comparison for comparison in comparisons}
    prompts, first, second = ([comparison[at] for comparison in distinct.values()] for at in range(3))
    preferences = scorer.margin(prompts, first, second)  # type: ignore[arg-type]
    by_place, stable = (
        {
            name: float(each)
            for name, each in zip(distinct, of_each or (), strict=of_each is not None)
            if each is not None
        }
        for of_each in (scorer.orders.by_place, scorer.orders.stable)
    )
    return Preferences(dict(zip(distinct, map(float, preferences), strict=True)), by_place=by_place, stable=stable)
