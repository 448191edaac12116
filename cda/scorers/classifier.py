"""Scores with a sequence classifier: long texts cut, dropped or refused, by this process or by workers."""

from __future__ import annotations

import sys
from collections.abc import Generator, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from cda.arrays import FloatArray
from cda.errors import ModelError
from cda.launch import world_size
from cda.models.load import RewardModel
from cda.models.template import Encoded, Template
from cda.records import Prompt
from cda.scorers.batching import (
    CHARACTERS_A_TOKEN,
    Batch,
    SameTokens,
    TextBar,
    batch_budget,
    characters,
    forward,
    token_batches,
    windows,
)
from cda.scorers.protocols import Finished, OverLength, TextScore, TextScorer
from cda.scorers.workers import Load, WorkerPool

Workers = int | Literal["auto"]
# Choices: a core multiplies some 50 to 100 GFLOP/s, and a worker imports and loads for some ten seconds.
_FLOP_PER_CORE_S = 5e10
_PAYS_FROM_S = 60.0


@dataclass
class ClassifierScorer(TextScorer):
    """A scorer over a loaded reward model.

    Args:
        reward_model: Loaded model, with its template.
        batch_tokens: Padded tokens in a batch at most; None for a default that suits the model's device.
        label: Shown next to the progress bar; None for no bar.
        over_length: Treatment of texts beyond max_length_tokens.
        workers: Processes that compute, each with the model in its own memory besides the one given here; see `n_workers`.
        load: Makes the model in a worker. Without it there are none.
    """

    reward_model: RewardModel
    batch_tokens: int | None = None
    label: str | None = None
    over_length: OverLength = "cut"
    workers: Workers = 1
    load: Load | None = None

    def __post_init__(self) -> None:
        if self.load is None and self.workers not in (1, "auto"):
            raise ValueError("workers need to know how to load the model")

    @property
    def name(self) -> str:
        return self.reward_model.spec.name_or_path

    @property
    def precision(self) -> str | None:
        return self.reward_model.spec.precision

    def in_batches(
        self,
        prompts: Sequence[Prompt],
        responses: Sequence[str],
        skip: frozenset[int] = frozenset(),
        known: Mapping[str, float] | None = None,
    ) -> Generator[Finished, None, None]:
        """Rewards as the batches come, about the longest first; NaN and infinity are passed on unchanged.

        Texts that are the same token ids go through the model once: below fp32 a score moves with its batch, and a model
        has no preference between two texts that are one to it. Texts that are left out as too long come last.
        """
        too_long: list[int] = []
        same = SameTokens(skip, known or {})
        template = self.reward_model.template
        budget = batch_budget(self.batch_tokens, self.reward_model.model.device.type)
        tokenized = windows(template, prompts, responses)
        kept = _without_long(tokenized, too_long) if self.over_length == "drop" else tokenized
        unknown = (
            batch for batch in token_batches(map(same.first_of_each, kept), budget) if not skip.issuperset(batch.rows)
        )
        n_characters = [characters(*text) for text in zip(prompts, responses, strict=True)]
        sizes = [min(n, CHARACTERS_A_TOKEN * template.max_length_tokens) for n in n_characters]
        with TextBar(sizes, skip, self.label) as bar:
            for batch, rewards in self._computed(unknown, sum(n_characters)):
                finished = same.finished(zip(batch.rows, map(float, rewards), strict=True))
                yield finished
                bar.scored([row for row, _ in finished])
            if left := [*same.finished(()), *((row, TextScore(None)) for row in too_long)]:
                yield left
                bar.scored([row for row, _ in left])

    def refuse_long(self, texts: Sequence[tuple[Prompt, str]]) -> None:
        """Refuse texts that are longer than the model reads, before any is scored.

        Raises:
            ModelError: Gives their number.
        """
        template, limit = self.reward_model.template, self.reward_model.template.max_length_tokens
        uncut = Template(template.tokenizer, sys.maxsize, template.pad_token_id)
        # All are tokenized for this and again to be scored: little next to a model, and no ids have to be held.
        tokenized = windows(uncut, [prompt for prompt, _ in texts], [response for _, response in texts])
        long = [n for window in tokenized for text in window.values() if (n := len(text.ids)) > limit]
        if long:
            raise ModelError(
                f"{self.name}: {len(long)} of {len(texts)} texts are longer than {limit} tokens, the longest has "
                f"{max(long)}. Raise model.max_length_tokens where the model reads more, or have such texts cut or dropped"
            )

    def _computed(self, batches: Iterable[Batch], n_characters: int) -> Iterator[tuple[Batch, FloatArray]]:
        """Rewards of every batch, in any order of batches; workers compute if it pays."""
        n = n_workers(self.workers, self.reward_model, n_characters) if self.load is not None else 1
        if self.load is None or n == 1:
            for batch in batches:
                yield batch, self._forward(batch.ids)
            return
        import torch

        with WorkerPool(self.load, n, max(1, torch.get_num_threads() // n)) as pool:
            pool.check_same(self.reward_model)
            yield from pool.compute(batches)

    def _forward(self, ids: list[list[int]]) -> FloatArray:
        return forward(self.reward_model, ids)


def n_workers(workers: Workers, reward_model: RewardModel, n_characters: int) -> int:
    """Number of workers to start; 1 stands for none besides this process.

    Args:
        workers: A number, or `auto`: the number of torch's threads, if the texts are worth the loading, each worker's model
            fits into half of the free memory, and this is the only process of the launch.
        reward_model: As loaded.
        n_characters: Total length of the texts.

    Raises:
        ModelError: Several were asked for on a GPU.
    """
    import torch

    on_cpu = reward_model.model.device.type == "cpu"
    if workers != "auto":
        if workers > 1 and not on_cpu:
            raise ModelError(
                f"workers={workers}: the model is on a GPU, where several processes only wait for each other; leave it at auto"
            )
        return max(1, workers)
    if not on_cpu or world_size() > 1:
        return 1
    n, free = torch.get_num_threads(), _free_bytes()
    weights = list(reward_model.model.parameters())
    if free is not None:
        n = min(n, int(free / 2 / sum(tensor.numel() * tensor.element_size() for tensor in weights)))
    # Two for each weight and token; the embeddings are looked up and not multiplied.
    multiplied = sum(tensor.numel() for tensor in weights) - reward_model.model.get_input_embeddings().weight.numel()
    seconds = 2 * multiplied * n_characters / CHARACTERS_A_TOKEN / (_FLOP_PER_CORE_S * max(1, n))
    return n if n > 1 and seconds > _PAYS_FROM_S else 1


def _free_bytes() -> int | None:
    """Memory that can be had without swapping; None if the system does not say."""
    try:
        lines = Path("/proc/meminfo").read_text(encoding="ascii").splitlines()
    except OSError:
        return None
    return next((int(line.split()[1]) * 1024 for line in lines if line.startswith("MemAvailable:")), None)


def _without_long(tokenized: Iterable[dict[int, Encoded]], too_long: list[int]) -> Iterator[dict[int, Encoded]]:
    """Windows without the texts that had to be cut; their rows are added to `too_long`."""
    for window in tokenized:
        too_long += [row for row, text in window.items() if text.truncated]
        yield {row: text for row, text in window.items() if not text.truncated}
