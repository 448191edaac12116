"""Scores with a sequence classifier, or preferences of one that reads two answers; a check of the model before it scores."""

from __future__ import annotations

import sys
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

import numpy as np

from cda.arrays import FloatArray
from cda.errors import ModelError
from cda.models.config import Precision
from cda.models.load import RewardModel, without_adapter
from cda.models.template import Encoded, Template
from cda.records import Message, Prompt, user_prompt
from cda.scorers.batching import (
    CHARACTERS_A_TOKEN,
    FIRST_CHARACTERS,
    Batch,
    SameTokens,
    TextBar,
    batch_budget,
    characters,
    check_known,
    forward,
    in_threads,
    token_batches,
    token_ids,
    windows,
)
from cda.scorers.compared import (
    BothOrders,
    Finished,
    OverLength,
    Rewards,
    Text,
    TextScore,
    TextScorer,
    not_finite,
    text_id,
)
from cda.scorers.judge import of_both_orders

Workers = int | Literal["auto"]
_MOST_WORKERS = 16
"""Python itself takes some hundredths of the time of a batch, and runs in one thread at a time."""


@dataclass
class ClassifierScorer(TextScorer):
    """A scorer over a loaded reward model; without a `label` it shows no progress bar. `workers` are threads that compute, on
    a CPU, for which the model must not change as it computes."""

    reward_model: RewardModel
    batch_tokens: int | None = None
    label: str | None = None
    over_length: OverLength = "cut"
    workers: Workers = 1
    n_tokens: int = field(default=0, init=False)
    """Read so far, without padding."""

    @property
    def name(self) -> str:
        return self.reward_model.spec.name_or_path

    @property
    def precision(self) -> str | None:
        return self.reward_model.spec.precision

    def in_batches(
        self, texts: Sequence[Text], skip: frozenset[int] = frozenset(), known: Mapping[str, float] | None = None
    ) -> Generator[Finished, None, None]:
        """Rewards as the batches come, about the longest first, texts left out as too long last; NaN and infinity are
        passed on. Texts that are the same token ids go through the model once: below fp32 a score moves with its batch,
        and a model has no preference between two texts that are one to it.
        """
        too_long: list[int] = []
        same = SameTokens(skip, known or {})
        template = self.reward_model.template
        device = self.reward_model.model.device.type
        tokenized = windows(template, texts, None if device == "cpu" else FIRST_CHARACTERS)
        kept = _without_long(tokenized, too_long) if self.over_length == "drop" else tokenized
        budget = batch_budget(self.batch_tokens, device)
        batches = token_batches(map(same.first_of_each, kept), budget)
        n_characters = [characters(*text) for text in texts]
        sizes = [min(n, CHARACTERS_A_TOKEN * template.max_length_tokens) for n in n_characters]
        with TextBar(sizes, skip, self.label) as bar:
            unknown = (batch for batch in batches if not skip.issuperset(batch))
            for batch, rewards in self._computed(unknown):
                self.n_tokens += sum(len(text.ids) for text in batch.values())
                yield same.scored(zip(batch, map(float, rewards), strict=True))
                bar.scored(list(batch))
            if left := [*same.others(), *((row, TextScore(None)) for row in too_long)]:
                yield left
                bar.scored([row for row, _ in left])

    def refuse_long(self, texts: Sequence[Text]) -> None:
        template, limit = self.reward_model.template, self.reward_model.template.max_length_tokens
        uncut = Template(template.tokenizer, sys.maxsize, template.pad_token_id, layout=template.layout)
        # All are tokenized for this and again to be scored: little next to a model, and no ids have to be held.
        lengths = (len(text.ids) for window in windows(uncut, texts) for text in window.values())
        long = [n for n in lengths if n > limit]
        if long:
            raise ModelError(
                f"{self.name}: {len(long)} of {len(texts)} texts are longer than {limit} tokens, the longest has "
                f"{max(long)}. Raise model.max_length_tokens where the model reads more, or have such texts cut or dropped"
            )

    def _computed(self, batches: Iterable[Batch]) -> Iterator[tuple[Batch, FloatArray]]:
        """Rewards of every batch, in any order of batches."""
        n = n_workers(self.workers, self.reward_model)
        if n == 1:
            return ((batch, self._forward(token_ids(batch))) for batch in batches)
        return in_threads(lambda batch: self._forward(token_ids(batch)), batches, n)

    def _forward(self, ids: list[list[int]]) -> FloatArray:
        return forward(self.reward_model, ids)


def n_workers(workers: Workers, reward_model: RewardModel) -> int:
    """Number of threads that compute batches. `auto`: torch's own number, which counts the cores of this process, but no more
    than Python hands batches to; 1 on a GPU, where ModelError if several were asked for."""
    import torch

    on_cpu = reward_model.model.device.type == "cpu"
    if workers == "auto":
        return min(torch.get_num_threads(), _MOST_WORKERS) if on_cpu else 1
    if workers > 1 and not on_cpu:
        raise ModelError(
            f"workers={workers}: the model is on a GPU, where several only wait for each other; leave it at auto"
        )
    return workers


def _without_long(tokenized: Iterable[dict[int, Encoded]], too_long: list[int]) -> Iterator[dict[int, Encoded]]:
    """Windows without the texts that had to be cut; their rows are added to `too_long`."""
    for window in tokenized:
        too_long += [row for row, text in window.items() if text.truncated]
        yield {row: text for row, text in window.items() if not text.truncated}


PROBES: tuple[Text, ...] = tuple(
    (user_prompt(prompt), response)
    for prompt, response in (
        ("What is the capital of France?", "Paris."),
        ("Name a fruit.", "An apple is a fruit, and so are pears and plums."),
        (
            "How do I boil an egg?",
            "Put the egg into boiling water, wait for eight minutes, and cool it under the tap before you peel it. "
            "For a soft yolk six minutes are enough.",
        ),
        (
            "Why is the sky blue?",
            "Sunlight holds all colours. Air scatters blue light far more than red light, because blue waves are shorter, "
            "so that blue reaches us from every direction of the sky, while the other colours come mostly straight from "
            "the sun. In the evening the light has a longer way through the air, most of the blue is lost on it, and "
            "what is left looks red.",
        ),
        (
            "Give me three tips for better sleep, please.",
            "1. Go to bed and get up at the same hours, also at the weekend.\n2. Keep the bedroom dark, quiet and cool, "
            "and leave the telephone outside.\n3. Drink no coffee after lunch, and eat little in the late evening.\n\n"
            "None of these works in a single night: give them two weeks. If you still lie awake for hours, ask a doctor, "
            "since poor sleep can have causes that no habit cures. It helps to write down for some days when you went to "
            "bed, when you got up, and how rested you felt.",
        ),
    )
)
"""Texts of about 5 to 130 tokens."""

# Largest share of the spread by which padding and company may move a score. In fp32 measured at most 1e-5; bf16 rounds at
# 0.4% of the score; in 8-bit bitsandbytes' own products moved them by up to 0.2, and those of ours round as bf16.
_TOLERANCE: Mapping[Precision, float] = {"fp32": 1e-4, "bf16": 0.1, "8bit": 0.4}
# Rounding grows with the score itself, so that scores that hardly differ are given a spread of this share of it.
_LEAST_SPREAD = 0.1


def self_check(reward_model: RewardModel, texts: Sequence[Text] = PROBES) -> list[str]:
    """Problems with a model's scoring, each as a sentence for the user; empty if there are none. The `texts`, two or
    more of differing length, are scored padded in one batch and each alone. ModelError if a reward is NaN or infinite,
    or the tokenizer is another model's.
    """
    encoded = [reward_model.template.encode(*text).ids for text in texts]
    check_known(reward_model, max(map(max, encoded)))
    alone = np.array([_alone(reward_model, ids) for ids in encoded])
    together = forward(reward_model, encoded)
    broken = np.flatnonzero(~np.isfinite(alone + together))
    if broken.size:
        name = f"{reward_model.spec.name_or_path}, tried before scoring"
        raise not_finite(name, len(broken), len(texts), f"response {texts[broken[0]][1][:60]!r}")
    lengths = [len(ids) for ids in encoded]
    return [*_beginnings(reward_model.template, encoded), *_differences(reward_model, alone, together, lengths)]


def _alone(reward_model: RewardModel, ids: list[int]) -> float:
    """Reward of one text as the plain model gives it: no padding, no mask, and by the forward pass of its own class if that is
    what its files mean."""
    import torch

    model, spec, reading = reward_model.model, reward_model.spec, reward_model.reading
    base = without_adapter(model)
    asked = spec.reads or getattr(base.config, "reward_reads", None)
    is_plain = reading is not None and asked is None and not hasattr(base, "reward_family")
    with torch.inference_mode():
        input_ids = torch.tensor([ids], device=model.device)
        output = base.plain(input_ids) if is_plain else model(input_ids=input_ids)
    return float(output.logits[0, reading.output if is_plain and reading is not None else 0])


def _differences(
    reward_model: RewardModel, alone: FloatArray, together: FloatArray, lengths: Sequence[int]
) -> list[str]:
    name, precision = reward_model.spec.name_or_path, reward_model.spec.precision
    spread = float(np.ptp(alone))
    if spread == 0:
        return [f"{name}: gives {len(alone)} different texts the same reward, {alone[0]:.6g}; is it trained?"]
    moved = np.abs(together - alone)
    worst = int(moved.argmax())
    if moved[worst] <= _TOLERANCE[precision] * max(spread, _LEAST_SPREAD * float(np.abs(alone).max())):
        return []
    return [
        f"{name}: its reward of a text changes with the texts it is scored with: one of {lengths[worst]} tokens gets "
        f"{alone[worst]:.4g} alone and {together[worst]:.4g} when padded to {max(lengths)} tokens, in {precision}, where "
        f"{len(alone)} texts alone are {spread:.2g} apart. It may read its score off padding, pay no regard to the "
        "attention mask, or be left in training mode. With score.batch_tokens=1 each text is scored alone"
    ]


def _beginnings(template: Template, encoded: Sequence[Sequence[int]]) -> list[str]:
    """Texts should begin with one beginning-of-sequence token, if the tokenizer has one and sets it by itself."""
    tokenizer, bos = template.tokenizer, template.tokenizer.bos_token_id
    if bos is None or template.layout.doubles_bos or template.layout.encoding is not None:
        return []
    # If one token both begins and ends texts, only the one at the beginning counts.
    ends = bos in (tokenizer.eos_token_id, template.pad_token_id)
    most = max(ids[:2].count(bos) if ends else ids.count(bos) for ids in map(list, encoded))
    if most > 1:
        return [f"Texts hold {most} beginning-of-sequence tokens ({tokenizer.bos_token}) where the model expects one."]
    by_itself = tokenizer("text", verbose=False)["input_ids"][:1] == [bos]
    if by_itself and not all(ids[0] == bos for ids in encoded):
        return [
            f"The tokenizer begins texts with {tokenizer.bos_token}, but as {template.form} they begin without it: was the "
            "model trained so?"
        ]
    return []


ALIKE = "cut before the answers differ"
TOO_LONG = "too long for the model"


def in_order(prompt: Prompt, first: str, second: str) -> Text:
    """A comparison in one order, as a text for `Template.encode`: the answer shown first ends the prompt."""
    return (*prompt, Message("assistant", first)), second


def preferred(
    log_odds: FloatArray, averages: Literal["log-odds", "probabilities"], needed: bool = False
) -> tuple[FloatArray, BothOrders]:
    """Preference for the first answer, 2p − 1, −1 to 1, shape (n,), and the counts, as of `of_both_orders`; `averages` over both
    orders what the model's authors do. `log_odds`: of the answer shown first, shape (n, 2), as given and in the other order; NaN for none.
    """
    preferences = np.tanh(log_odds / 2)
    margins, orders = of_both_orders(preferences, needed)
    if averages == "log-odds":
        margins = np.tanh(of_both_orders(log_odds, needed)[0] / 2)
    return margins, orders


@dataclass
class LocalPairwise:
    """A PairwiseScorer over a local model; see `LLMJudge`. `score` gives the log-odds of each text in one order (`in_order`)."""

    name: str
    score: Callable[[Sequence[Text]], Rewards]
    averages: Literal["log-odds", "probabilities"]
    both_orders: bool = False
    orders: BothOrders = field(default=BothOrders(), init=False)
    reasons: dict[str, int] = field(default_factory=dict, init=False)
    n_cut: int = field(default=0, init=False)
    """Comparisons of the last call that were cut in an order."""
    n_cached: int = field(default=0, init=False)
    """Of their `n_texts` distinct texts, one for each order, those whose log-odds came from the cache."""
    n_texts: int = field(default=0, init=False)

    def margin(self, prompts: Sequence[Prompt], first: Sequence[str], second: Sequence[str]) -> FloatArray:
        """Preference for the first text, −1 to 1, shape (n,); NaN if the two were too long, or cut before they differ. ModelError if
        the model gives a number that is not finite."""
        shown = [
            (in_order(prompt, one, other), in_order(prompt, other, one))
            for prompt, one, other in zip(prompts, first, second, strict=True)
        ]
        found = self.score([text for both in shown for text in both])
        names = [[text_id(*text) for text in both] for both in shown]
        values = np.array([[found.by_text[name] for name in both] for both in names]).reshape(-1, 2)
        cut = [[found.read.get(name) for name in both] for both in names]
        alike = [
            read[0] is not None and read[0] == read[1] and one != other
            for read, one, other in zip(cut, first, second, strict=True)
        ]
        counts = {TOO_LONG: int(np.isnan(values).all(axis=1).sum()), ALIKE: sum(alike)}
        self.reasons = {why: count for why, count in counts.items() if count}
        self.n_cut, self.n_cached, self.n_texts = sum(any(read) for read in cut), found.n_cached, len(found.by_text)
        values[alike] = np.nan
        margins, self.orders = preferred(values, self.averages, self.both_orders)
        return margins
